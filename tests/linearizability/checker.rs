//! The program that judges histories, on histories written by hand: what it must call linearizable,
//! what it must not, and when it must say that it does not know.

use std::fmt::Write;

use serde_json::{Value, json};

use super::history::judge_lines;

/// One operation: its call, its answer's time and what was told; neither where that is unknown.
struct Line(u64, Option<u64>, Value, Value);

fn lines(kind: &str, operations: &[Line]) -> String {
    operations.iter().fold(String::new(), |mut text, line| {
        let Line(call, returned, asked, told) = line;
        let line = json!({
            "kind": kind, "entity": "one", "client": 0, "call": call, "return": returned, "asked": asked, "told": told,
        });
        writeln!(text, "{line}").unwrap();
        text
    })
}

fn created() -> Line {
    let shown = json!({"shown": {"status": "active", "messages": 1}});
    Line(0, Some(1), json!({"do": "create", "text": "a"}), shown)
}

fn sent(call: u64, returned: u64, number: u64) -> Line {
    let text = format!("m{number}");
    let asked = json!({"do": "send", "text": text, "sender": "customer"});
    Line(
        call,
        Some(returned),
        asked,
        json!({"number": number, "text": text}),
    )
}

/// A send of which nobody knows whether it was done.
fn perhaps_sent(call: u64, text: &str) -> Line {
    let asked = json!({"do": "send", "text": text, "sender": "customer"});
    Line(call, None, asked, Value::Null)
}

fn read(call: u64, returned: u64, texts: &[&str]) -> Line {
    let items = texts.iter().enumerate();
    let items: Vec<Value> = items
        .map(|(place, text)| json!({"number": place + 1, "text": text}))
        .collect();
    Line(
        call,
        Some(returned),
        json!({"do": "messages"}),
        json!({"total": items.len(), "items": items}),
    )
}

fn conversation(name: &str, operations: &[Line], expected: i32) {
    judge_lines(name, &lines("conversation", operations), expected);
}

#[test]
fn operations_that_overlap_may_be_done_in_any_order() {
    let overlapping = [
        created(),
        sent(10, 20, 3),
        sent(10, 20, 2),
        read(15, 18, &["a", "m2"]),
    ];
    conversation("overlapping", &overlapping, 0);
    let crossing = [created(), sent(10, 12, 3), sent(14, 20, 2)];
    conversation("crossing", &crossing, 1);
}

#[test]
fn a_write_of_unknown_outcome_may_be_done_later_or_never_but_not_undone() {
    let never = [created(), perhaps_sent(2, "b"), read(5, 6, &["a"])];
    conversation("never", &never, 0);
    let late = [
        created(),
        perhaps_sent(2, "b"),
        read(5, 6, &["a"]),
        read(7, 8, &["a", "b"]),
    ];
    conversation("late", &late, 0);
    let undone = [
        created(),
        perhaps_sent(2, "b"),
        read(5, 6, &["a", "b"]),
        read(7, 8, &["a"]),
    ];
    conversation("undone", &undone, 1);
    let early = [created(), read(5, 6, &["a", "b"]), perhaps_sent(7, "b")];
    conversation("early", &early, 1);
}

#[test]
fn two_writers_under_one_tag_are_found() {
    let put = |call, (tag, number): (&str, u64)| {
        let asked = json!({"do": "put", "mark": tag, "fields": [tag], "if_match": "first"});
        let told = json!({"tag": tag, "shown": {"title": "t", "number": number}, "fields": [tag]});
        Line(call, Some(call + 10), asked, told)
    };
    let made = || {
        let told = json!({"tag": "first", "shown": {"title": "t", "number": 1}, "fields": ["a"]});
        Line(
            0,
            Some(1),
            json!({"do": "create", "title": "t", "fields": ["a"]}),
            told,
        )
    };
    let mut refused = put(3, ("third", 3));
    refused.3 = json!({"code": "precondition_failed"});
    let one = [made(), put(2, ("second", 2)), refused];
    judge_lines("one-writer", &lines("document", &one), 0);
    let both = [made(), put(2, ("second", 2)), put(3, ("third", 3))];
    judge_lines("two-writers", &lines("document", &both), 1);
}

#[test]
fn a_search_that_takes_too_long_says_that_it_does_not_know() {
    // Each of these may stand anywhere, and no order of them leads to what is read at the end.
    let mut operations = vec![created()];
    for number in 0..24 {
        let asked = json!({"do": "set", "mark": format!("s{number}")});
        let shown =
            json!({"shown": {"status": "active", "messages": 1, "mark": format!("s{number}")}});
        operations.push(Line(2, Some(90), asked, shown));
    }
    operations.push(read(91, 92, &["b"]));
    let said = judge_lines("too-long", &lines("conversation", &operations), 2);
    assert!(said.contains("unknown, the time was up"), "{said}");
}

#[test]
fn a_history_that_is_empty_or_torn_is_not_judged() {
    judge_lines("empty", "", 2);
    let torn = lines("conversation", &[created()]);
    judge_lines("torn", &torn[..torn.len() / 2], 2);
}
