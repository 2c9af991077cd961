//! Texts that are put in by parts: found as others are, whole or not at all.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use rusqlite::Connection;

use super::found::Window;
use super::layout::Layout;
use super::titled::{self, Entry, EntryChange, Titled};
use crate::store::sqlite::codec::only;
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::entity_number::EntityNumber;

/// Words that make a text of some four parts.
const WORDS: usize = 50_000;

/// An index in memory.
struct Desk(Connection);

impl Desk {
    fn new() -> Self {
        let connection = Connection::open_in_memory().unwrap();
        for sql in Titled::SCHEMA {
            connection.execute_batch(sql).unwrap();
        }
        Desk(connection)
    }

    /// Whether something has gone then that is not deleted.
    fn write(&self, changes: &[EntryChange]) -> bool {
        self.0.execute_batch("BEGIN").unwrap();
        Titled::write(&self.0, changes).unwrap();
        self.0.execute_batch("COMMIT").unwrap();
        Titled::gone(&self.0).unwrap().any()
    }

    /// Deletes all that has gone; how many steps that took.
    fn deleted(&self) -> usize {
        let step = || {
            let any = Titled::gone(&self.0).unwrap().any();
            any.then(|| Titled::delete_gone(&self.0).unwrap())
        };
        std::iter::from_fn(step).count()
    }

    fn is_empty(&self) -> bool {
        let tables = [
            "entries",
            "texts_docsize",
            "long_texts",
            "long_parts",
            "long_blocks",
            "gone_texts",
        ];
        tables.iter().all(|table| self.rows(table) == 0)
    }

    fn found(&self, query: &str) -> Vec<u64> {
        let mut numbers = self.found_in_order(query);
        numbers.sort_unstable();
        numbers
    }

    fn found_in_order(&self, query: &str) -> Vec<u64> {
        let all = Window {
            limit: 1_000,
            offset: 0,
        };
        let found = titled::find(&self.0, mine(), query, all).unwrap();
        assert_eq!(found.total, found.hits.len() as u64);
        found.hits.iter().map(|hit| hit.number.0).collect()
    }

    fn rows(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.0.query_row(&sql, [], only).unwrap()
    }
}

fn mine() -> Tenant {
    Tenant::of(1, Mode::Live)
}

fn change(number: u64, title: &str, content: String) -> Vec<EntryChange> {
    EntryChange::put(Entry {
        number: EntityNumber(number),
        tenant: mine(),
        title: title.into(),
        content,
    })
}

/// A text of so many words that tell which of them they are, with this before each.
fn numbered(prefix: &str, words: usize) -> String {
    let words: Vec<String> = (0..words).map(|n| format!("{prefix}{n} ")).collect();
    words.concat()
}

fn long(prefix: &str) -> String {
    numbered(prefix, WORDS)
}

#[test]
fn every_word_and_phrase_of_a_long_text_is_found() {
    let desk = Desk::new();
    let changes = change(7, "Almanac", long("w"));
    assert!(changes.len() > 2, "{} parts", changes.len());
    desk.write(&change(8, "Almanac", "w0 w49999".into()));
    for (n, part) in changes.iter().enumerate() {
        assert_eq!(desk.found("almanac"), [8], "{n} parts are there");
        desk.write(std::slice::from_ref(part));
    }
    for n in (0..WORDS - 1).step_by(97) {
        assert_eq!(
            desk.found(&format!("\"w{n} w{}\"", n + 1)),
            [7],
            "the words {n} and {}",
            n + 1
        );
    }
    // The longest phrase that a query has, wherever it stands: over the ends of parts, too.
    for begin in (0..WORDS - 256).step_by(WORDS / 40) {
        let phrase: Vec<String> = (begin..begin + 256).map(|n| format!("w{n}")).collect();
        assert_eq!(desk.found(&format!("\"{}\"", phrase.join(" "))), [7]);
    }
    // Of whichever parts the words are, together or with the title.
    assert_eq!(desk.found("w0 w49999"), [7, 8]);
    assert_eq!(desk.found("almanac w25000"), [7]);
    assert_eq!(desk.found("w25000 w4999"), [7], "the last may go on");
    assert_eq!(desk.found("w25000 absent"), [0; 0]);
    assert_eq!(desk.found("\"w25000 w25002\""), [0; 0]);
}

#[test]
fn what_replaces_a_long_text_is_found_in_its_place_at_once() {
    let desk = Desk::new();
    desk.write(&change(7, "First", long("a")));
    assert_eq!(desk.rows("entries"), 0);
    let second = change(7, "Second", long("b"));
    let (last, parts) = second.split_last().unwrap();
    for part in parts {
        assert!(!desk.write(std::slice::from_ref(part)));
        assert_eq!((desk.found("a40000"), desk.found("b1")), (vec![7], vec![]));
    }
    assert!(desk.write(std::slice::from_ref(last)));
    assert_eq!((desk.found("a40000"), desk.found("b1")), (vec![], vec![7]));
    // A step for each part.
    assert_eq!(desk.deleted(), parts.len() + 1);
    assert_eq!(desk.found("b40000"), [7]);
    // The same again, as after a crash, is not written again.
    let written = desk.0.total_changes();
    assert!(!desk.write(&change(7, "Second", long("b"))));
    assert_eq!((desk.0.total_changes(), desk.deleted()), (written + 1, 0));
    // Shorter, longer again, and gone.
    assert!(desk.write(&change(7, "Second", "b1 short".into())));
    assert_eq!((desk.found("b1"), desk.found("b2")), (vec![7], vec![]));
    assert!(desk.write(&change(7, "Third", long("c"))));
    assert_eq!((desk.found("short"), desk.found("c2")), (vec![], vec![7]));
    assert!(desk.write(&[EntryChange::Remove(EntityNumber(7))]));
    assert_eq!(desk.found("c2"), [0; 0]);
    desk.deleted();
    assert!(desk.is_empty());
}

#[test]
fn what_was_begun_before_a_crash_is_begun_anew() {
    let desk = Desk::new();
    desk.write(&change(7, "First", long("a"))[..2]);
    // Handed in again, as it is now.
    desk.write(&change(7, "Second", long("b")));
    assert_eq!(desk.deleted(), 2);
    assert_eq!((desk.found("a1"), desk.found("b1")), (vec![], vec![7]));
    desk.write(&change(7, "Third", long("c"))[..2]);
    desk.write(&[EntryChange::Remove(EntityNumber(7))]);
    desk.deleted();
    assert!(desk.is_empty());
}

#[test]
fn a_text_that_moves_to_another_tenant_is_found_there_and_not_written_again() {
    let desk = Desk::new();
    desk.write(&change(7, "First", long("a")));
    let blocks = || desk.rows("long_blocks");
    let before = (blocks(), desk.0.total_changes());
    let moved = |tenant| {
        EntryChange::put(Entry {
            number: EntityNumber(7),
            tenant,
            title: "First".into(),
            content: long("a"),
        })
    };
    let other = Tenant::of(2, Mode::Live);
    assert!(!desk.write(&moved(other)));
    assert_eq!((blocks(), desk.0.total_changes()), (before.0, before.1 + 1));
    assert_eq!(desk.found("a1"), [0_u64; 0]);
    desk.write(&moved(mine()));
    assert_eq!(desk.found("a1"), [7]);
}

#[test]
fn long_texts_are_ranked_among_the_others() {
    let desk = Desk::new();
    let filler = |words| numbered("filler", words);
    for number in 10..40 {
        desk.write(&change(number, "Other", filler(50)));
    }
    desk.write(&change(1, "Long", format!("{} zebra", filler(WORDS))));
    desk.write(&change(2, "Short", format!("{} zebra", filler(50))));
    desk.write(&change(
        3,
        "Long",
        format!("{} zebra", "zebra other ".repeat(WORDS / 2)),
    ));
    desk.write(&change(4, "Zebra", filler(WORDS)));
    let found = desk.found_in_order("zebra");
    // Once in a long text counts less than once in a short one, in a title more than once in a content,
    // and in every other word most of all but in the short one.
    assert_eq!(found.len(), 4);
    let place = |number| found.iter().position(|found| *found == number).unwrap();
    assert!(place(3) < place(4) && place(4) < place(1), "{found:?}");
    assert!(place(2) < place(4), "{found:?}");
}

#[test]
fn phrases_of_repeated_words_are_found_in_little_time() {
    let desk = Desk::new();
    desk.write(&change(7, "First", "a ".repeat(2_000_000)));
    desk.write(&change(
        8,
        "Second",
        format!("{} a a c", "a b ".repeat(1_000_000)),
    ));
    let begun = std::time::Instant::now();
    let quoted = |words: &str, times| format!("\"{}\"", vec![words; times].join(" "));
    assert_eq!(desk.found(&quoted("a", 256)), [7]);
    assert_eq!(desk.found(&quoted("a b", 128)), [8]);
    assert_eq!(desk.found(&quoted("a", 2)), [7, 8]);
    assert_eq!(desk.found("\"b a a c\""), [8]);
    assert_eq!(desk.found("\"b a a a c\""), [0; 0]);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

#[test]
fn a_text_without_any_place_to_be_taken_apart_is_put_in_by_parts_and_found() {
    let desk = Desk::new();
    let word = "x".repeat(400_000);
    let changes = change(7, "First", format!("{word} behind"));
    assert!(changes.len() > 2, "{} parts", changes.len());
    desk.write(&changes);
    assert_eq!(desk.found(&format!("\"{} behind\"", "x".repeat(64))), [7]);
    let ideographs: String = (0..60_000).map(|n| ['東', '京', '都'][n % 3]).collect();
    desk.write(&change(8, "Second", format!("{ideographs}終")));
    assert_eq!(desk.found("都東京"), [8]);
    assert_eq!(desk.found("東京都終"), [8]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    /// Whatever is put in, replaced and removed, and whenever something is deleted: each word is found in the texts
    /// that have it now, and nothing else is left.
    #[test]
    fn texts_are_found_as_they_are_now(
        steps in proptest::collection::vec((0_u64..3, prop_oneof![Just(0_usize), Just(100), Just(30_000), Just(45_000)],
        0_u8..4, 0_usize..4), 1..8),
    ) {
        let desk = Desk::new();
        let mut now: BTreeMap<u64, String> = BTreeMap::new();
        for (number, words, kind, deletions) in steps {
            let content = numbered(&format!("kind{kind}x"), words);
            if words == 0 {
                now.remove(&number);
                desk.write(&[EntryChange::Remove(EntityNumber(number))]);
            } else {
                for part in change(number, "title", content.clone()).chunks(2) {
                    desk.write(part);
                }
                now.insert(number, content);
            }
            for _ in 0..deletions {
                Titled::delete_gone(&desk.0).unwrap();
            }
            for kind in 0..4 {
                for word in ["5", "99", "20000", "40000"].map(|n| format!("kind{kind}x{n}")) {
                    let has = |(number, text): (&u64, &String)| {
                        text.contains(&format!("{word} ")).then_some(*number)
                    };
                    let wanted: Vec<u64> = now.iter().filter_map(has).collect();
                    prop_assert_eq!(desk.found(&format!("\"{}\"", word)), wanted);
                }
            }
        }
        for number in now.keys() {
            desk.write(&[EntryChange::Remove(EntityNumber(*number))]);
        }
        desk.deleted();
        prop_assert!(desk.is_empty());
    }
}
