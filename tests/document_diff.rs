//! Differences: `git apply` and `patch` take the unified form and its hunks are `git diff`'s; the
//! JSON form rebuilds the new text; the page is escaped.

use serde_json::{Value, json};

use crate::support::git::{diff_hunks, git_apply, hunks_of, patch};
use crate::support::shapes::keys;
use crate::support::{Client, Dice, account_with_client};

const PAIRS: u64 = 30;

/// A text of a few dozen lines out of few, so that many look alike.
fn some_text(dice: &mut Dice) -> Vec<String> {
    let lines = [
        "fn one() {",
        "    two();",
        "}",
        "",
        "the same",
        "другой 🎈",
        "tail \t ",
    ];
    (0..dice.below(60))
        .map(|_| format!("{}\n", lines[dice.below(7) as usize]))
        .collect()
}

fn pair(seed: u64) -> (String, String) {
    let mut dice = Dice::new(seed);
    let old = some_text(&mut dice);
    let mut new = old.clone();
    for _ in 0..=dice.below(6) {
        let at = dice.below(new.len() as u64 + 1) as usize;
        match dice.below(3) {
            0 => new.insert(at, format!("new {}\r\n", dice.below(9))),
            1 if at < new.len() => drop(new.remove(at)),
            _ if at < new.len() => {
                new[at] = new[at].replace("two", "three").replace("same", "other")
            }
            _ => new.push("the same\n".to_owned()),
        }
    }
    let mut text = |lines: Vec<String>| {
        let text = lines.concat();
        if dice.below(3) == 0 {
            text.trim_end_matches('\n').to_owned()
        } else {
            text
        }
    };
    (text(old), text(new))
}

/// A document of two versions.
async fn of_two(c: &Client, old: &str, new: &str) -> String {
    let at = c.document(old).await;
    c.version(&at, json!({"content": new})).await;
    at
}

async fn unified(c: &Client, at: &str, query: &str) -> String {
    let answer = c.get(&format!("{at}/diff?{query}")).await.expect(200);
    assert!(
        answer.header("content-type").starts_with("text/x-diff"),
        "{answer}"
    );
    String::from_utf8(answer.bytes).unwrap()
}

/// The new text, of the old one and the hunks.
fn rebuilt(old: &str, hunks: &Value) -> String {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut text, mut at) = (String::new(), 0);
    for hunk in hunks.as_array().unwrap() {
        assert_eq!(
            keys(hunk),
            ["lines", "new_lines", "new_start", "old_lines", "old_start"]
        );
        let number = |field: &str| usize::try_from(hunk[field].as_u64().unwrap()).unwrap();
        let start = if number("old_lines") == 0 {
            number("old_start")
        } else {
            number("old_start") - 1
        };
        text.push_str(&old[at..start].concat());
        at = start;
        let (mut of_old, mut of_new) = (0, 0);
        for line in hunk["lines"].as_array().unwrap() {
            let content = line["text"].as_str().unwrap();
            let (in_old, in_new) = match line["op"].as_str().unwrap() {
                " " => (true, true),
                "-" => (true, false),
                "+" => (false, true),
                op => panic!("{op:?} in {line}"),
            };
            if in_old {
                assert_eq!(old[at], content, "{hunk}");
                at += 1;
            }
            if in_new {
                text.push_str(content);
            }
            of_old += usize::from(in_old);
            of_new += usize::from(in_new);
            assert_spans(line);
        }
        assert_eq!(
            (of_old, of_new),
            (number("old_lines"), number("new_lines")),
            "{hunk}"
        );
    }
    text.push_str(&old[at..].concat());
    text
}

/// Spans are in order, inside of the line, and only where something changed.
fn assert_spans(line: &Value) {
    let chars = line["text"].as_str().unwrap().chars().count() as u64;
    let mut last = 0;
    for span in line["spans"].as_array().unwrap() {
        let (start, end) = (span[0].as_u64().unwrap(), span[1].as_u64().unwrap());
        assert!(
            line["op"] != " " && last <= start && start < end && end <= chars,
            "{line}"
        );
        last = end;
    }
}

#[tokio::test]
async fn the_unified_form_is_git_diffs_and_git_apply_and_patch_take_it() {
    let (_account, c) = account_with_client().await;
    for seed in 0..PAIRS {
        let (old, new) = pair(seed);
        let at = of_two(&c, &old, &new).await;
        for context in [0, 3, 9] {
            let shown = unified(&c, &at, &format!("from=1&to=2&context={context}")).await;
            assert_eq!(
                hunks_of(&shown),
                diff_hunks(&old, &new, context),
                "pair {seed}: {old:?} {new:?}"
            );
            if context == 3 && old != new {
                assert_eq!(git_apply(&old, &shown), new, "pair {seed}");
                assert_eq!(patch(&old, &shown), new, "pair {seed}");
            }
            assert_eq!(shown.is_empty(), old == new, "pair {seed}");
        }
        let back = unified(&c, &at, "from=2&to=1").await;
        assert_eq!(
            hunks_of(&back),
            diff_hunks(&new, &old, 3),
            "pair {seed} backwards"
        );
    }
}

#[tokio::test]
async fn the_json_form_rebuilds_the_new_text() {
    let (_account, c) = account_with_client().await;
    for seed in 100..100 + PAIRS {
        let (old, new) = pair(seed);
        let at = of_two(&c, &old, &new).await;
        for context in [0, 3] {
            let shown = c
                .get(&format!("{at}/diff?format=json&context={context}"))
                .await
                .expect(200);
            assert_eq!(keys(&shown.body), ["hunks"]);
            assert_eq!(rebuilt(&old, &shown["hunks"]), new, "pair {seed}: {old:?}");
        }
    }
}

#[tokio::test]
async fn spans_are_the_changed_words_in_characters() {
    let (_account, c) = account_with_client().await;
    let at = of_two(&c, "ключ 🎈 old word\nsame\n", "ключ 🎈 new word\nsame\n").await;
    let shown = c
        .get(&format!("{at}/diff?format=json&context=1"))
        .await
        .expect(200);
    let expected = json!([{
        "old_start": 1, "old_lines": 2, "new_start": 1, "new_lines": 2,
        "lines": [
            {"op": "-", "text": "ключ 🎈 old word\n", "spans": [[7, 10]]},
            {"op": "+", "text": "ключ 🎈 new word\n", "spans": [[7, 10]]},
            {"op": " ", "text": "same\n", "spans": []},
        ],
    }]);
    assert_eq!(shown["hunks"], expected);
}

#[tokio::test]
async fn the_page_is_escaped() {
    let (_account, c) = account_with_client().await;
    let evil =
        "</td></table><script>alert(1)</script>\n<img src=x onerror=alert(2)> & \"quoted\"\n";
    let at = of_two(
        &c,
        &format!("kept & <b>\n{evil}gone line\n"),
        &format!("kept & <b>\nnew line\n{evil}"),
    )
    .await;
    let page = c.get(&format!("{at}/diff?format=html")).await.expect(200);
    assert!(
        page.header("content-type").starts_with("text/html"),
        "{page}"
    );
    assert!(
        page.header("content-security-policy")
            .contains("default-src 'none'"),
        "{page}"
    );
    let text = String::from_utf8_lossy(&page.bytes).into_owned();
    for bad in ["<script", "<img", "<b>"] {
        assert!(!text.contains(bad), "{bad} in {text}");
    }
    for shown in ["gone", "new", "&lt;script&gt;", "&lt;img"] {
        assert!(text.contains(shown), "no {shown} in {text}");
    }
}

#[tokio::test]
async fn stat_counts_lines() {
    let (_account, c) = account_with_client().await;
    let at = of_two(&c, "1\n2\n3\n4", "1\ntwo\nthree\n2.5\n4\n").await;
    assert_eq!(
        c.get(&format!("{at}/diff?format=stat"))
            .await
            .expect(200)
            .body,
        json!({"added": 4, "removed": 3})
    );
    let same = c
        .get(&format!("{at}/diff?format=stat&from=2&to=head"))
        .await
        .expect(200);
    assert_eq!(same.body, json!({"added": 0, "removed": 0}));
}

#[tokio::test]
async fn by_default_the_head_is_compared_with_its_first_parent_and_version_1_with_nothing() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\ntwo\n").await;
    let first = unified(&c, &at, "").await;
    assert_eq!(hunks_of(&first), "@@ -0,0 +1,2 @@\n+one\n+two\n");
    assert_eq!(
        (git_apply("", &first), patch("", &first)),
        ("one\ntwo\n".to_owned(), "one\ntwo\n".to_owned())
    );
    assert_eq!(
        rebuilt(
            "",
            &c.get(&format!("{at}/diff?format=json")).await.expect(200)["hunks"]
        ),
        "one\ntwo\n"
    );
    c.branch(&at, "side", "one\ntwo\nside\n").await;
    c.write(&at, "zero\none\ntwo\n").await;
    let second = unified(&c, &at, "format=unified").await;
    assert_eq!(
        hunks_of(&second),
        diff_hunks("one\ntwo\n", "zero\none\ntwo\n", 3),
        "not with the side line"
    );
    c.post(&format!("{at}/merge"), json!({"source": "side"}))
        .await
        .expect(201);
    let merged = unified(&c, &at, "").await;
    let expected = diff_hunks("zero\none\ntwo\n", "zero\none\ntwo\nside\n", 3);
    assert_eq!(
        hunks_of(&merged),
        expected,
        "a merge is compared with its target"
    );
    let named = unified(&c, &at, "from=side&to=main").await;
    assert_eq!(
        hunks_of(&named),
        diff_hunks("one\ntwo\nside\n", "zero\none\ntwo\nside\n", 3)
    );
}

#[tokio::test]
async fn every_bad_parameter_of_a_difference_is_refused_by_name() {
    let (_account, c) = account_with_client().await;
    let at = of_two(&c, "1\n", "2\n").await;
    let other = c.document("other\n").await;
    let foreign = c.head(&other).await;
    let cases = [
        ("context=1001", "context"),
        ("context=-1", "context"),
        ("context=x", "context"),
        ("format=word", "format"),
        ("from=9", "from"),
        ("to=9", "to"),
        ("from=nothing", "from"),
        ("to=..%2f1", "to"),
        ("into=1", "into"),
        ("from=1&from=2", "from"),
        ("from=", "from"),
    ];
    for (query, field) in cases {
        c.get(&format!("{at}/diff?{query}"))
            .await
            .error(400, "invalid_request", field);
    }
    c.get(&format!("{at}/diff?from={foreign}"))
        .await
        .error(400, "invalid_request", "from");
    c.get(&format!("{at}/diff?to={foreign}"))
        .await
        .error(400, "invalid_request", "to");
    for context in [0, 1000] {
        unified(&c, &at, &format!("context={context}")).await;
    }
}
