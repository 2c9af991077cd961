//! What clients asked of conversations and documents and what they were told, with the times of
//! both, and the verdict of Porcupine on it (the program in `tests/porcupine`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use crate::support::tool;

/// How long the program searches each entity's history for an order.
const SEARCHED_FOR: &str = "5s";

/// A conversation or a document.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entity {
    pub(super) kind: &'static str,
    pub(super) id: String,
}

/// What was asked of one entity, and what was told: one line of a history. The words of `asked` and
/// `told` are those of `tests/porcupine/history.go`.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) entity: Entity,
    pub(super) client: usize,
    /// In nanoseconds since the history began.
    pub(super) call: u64,
    /// With the time at which the answer had been read; none where nobody knows whether it was
    /// done.
    pub(super) told: Option<(u64, Value)>,
    pub(super) asked: Value,
}

impl Record {
    fn line(&self) -> String {
        let (returned, told) = self.told.clone().unzip();
        let line = json!({
            "kind": self.entity.kind, "entity": self.entity.id, "client": self.client,
            "call": self.call, "return": returned, "asked": self.asked, "told": told,
        });
        format!("{line}\n")
    }
}

/// An answered list: a read of each entity of its kind, whether it shows it or not.
struct Listing {
    record: Record,
    found: BTreeMap<String, Value>,
}

/// A history that grows.
pub(super) struct History {
    begun: Instant,
    records: Mutex<Vec<Record>>,
    listings: Mutex<Vec<Listing>>,
    answered: AtomicUsize,
    unknown: AtomicUsize,
}

impl History {
    pub(super) fn begin() -> Self {
        Self {
            begun: Instant::now(),
            records: Mutex::default(),
            listings: Mutex::default(),
            answered: AtomicUsize::new(0),
            unknown: AtomicUsize::new(0),
        }
    }

    /// Nanoseconds since it began.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap()
    }

    /// How many operations have been answered.
    pub(super) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// How many operations have an unknown outcome.
    pub(super) fn unknown(&self) -> usize {
        self.unknown.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, record: Record) {
        let known = if record.told.is_some() {
            &self.answered
        } else {
            &self.unknown
        };
        known.fetch_add(1, Ordering::Relaxed);
        self.records.lock().unwrap().push(record);
    }

    /// Adds a list's answer: what it shows by identifier.
    pub(super) fn add_list(&self, record: Record, found: BTreeMap<String, Value>) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.listings
            .lock()
            .unwrap()
            .push(Listing { record, found });
    }

    /// Everything that was recorded, lists as a read of each entity that was ever made.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut records = self.records.lock().unwrap().clone();
        let entities: BTreeSet<Entity> =
            records.iter().map(|record| record.entity.clone()).collect();
        for listing in self.listings.lock().unwrap().iter() {
            let kind = listing.record.entity.kind;
            for entity in entities.iter().filter(|entity| entity.kind == kind) {
                let mut record = listing.record.clone();
                record.entity = entity.clone();
                let shown = listing.found.get(&entity.id);
                let told =
                    shown.map_or_else(|| json!({"absent": true}), |shown| json!({"shown": shown}));
                record.told = record.told.map(|(at, _)| (at, told));
                records.push(record);
            }
            for id in listing.found.keys() {
                let known = entities.iter().any(|entity| &entity.id == id);
                assert!(known, "a list shows {id}, which nobody made");
            }
        }
        records
    }
}

/// Has a history judged: 0 is linearizable, 1 is not, 2 is not known. Gives what the program says.
/// The file stays in the target folder unless the verdict is the expected one.
pub(super) fn judge(name: &str, records: &[Record], expected: i32) -> String {
    let lines: String = records.iter().map(Record::line).collect();
    judge_lines(name, &lines, expected)
}

/// The same of a history as the program reads it.
pub(super) fn judge_lines(name: &str, lines: &str, expected: i32) -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = target.join("../porcupine");
    assert!(
        program.exists(),
        "{} is not there: tests/run builds it",
        program.display()
    );
    let file = target.join(format!("history-{name}.ndjson"));
    fs::write(&file, lines).unwrap();
    let output = Command::new(program)
        .args(["-timeout", SEARCHED_FOR])
        .arg(&file)
        .output();
    let output = tool::started("porcupine", output);
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(expected),
        "{}:\n{said}",
        file.display()
    );
    fs::remove_file(&file).unwrap();
    said.into_owned()
}
