//! The charts by group: one for each kind of figure, with a line for each channel, agent or priority.

use std::collections::{BTreeMap, HashMap};

use colloquy_model::interval::Interval;
use colloquy_model::time::Timestamp;
use futures_util::future::join_all;
use serde_json::Value;

use super::figure;
use crate::console::charts::{Chart, DRAWN_MAX, Line, Unit};
use crate::console::parts::text;
use crate::console::session::Session;

/// What conversations of nobody are called.
const NOBODY: &str = "Nobody";

/// A group of an answer.
#[derive(Debug)]
pub(super) struct Group {
    /// As the interface writes it; empty for conversations of nobody.
    word: String,
    /// As people call it.
    name: String,
}

/// The groups of these entries by their names, those in which the most happened first.
pub(super) async fn named(session: &Session, entries: &[Value], group_by: &str) -> Vec<Group> {
    let mut activity: BTreeMap<&str, f64> = BTreeMap::new();
    for entry in entries {
        *activity.entry(text(entry, "group")).or_default() += happened(entry);
    }
    let mut words: Vec<(&str, f64)> = activity.into_iter().collect();
    words.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let names = words.iter().map(|(word, _)| name(session, word, group_by));
    let names = join_all(names).await;
    let is_shared = |name: &String| names.iter().filter(|one| *one == name).count() > 1;
    let groups = words.iter().zip(&names).map(|((word, _), name)| Group {
        word: (*word).to_owned(),
        name: match is_shared(name) {
            true => format!("{name} ({word})"),
            false => name.clone(),
        },
    });
    groups.collect()
}

/// How much happened in an entry's group: whoever has more comes first.
fn happened(entry: &Value) -> f64 {
    let counts = ["/created", "/closed"].map(|pointer| figure(entry, pointer));
    counts.into_iter().flatten().sum::<f64>() + messages(entry).unwrap_or_default()
}

/// What people call a group; an agent who is no more is known by the identifier alone.
async fn name(session: &Session, word: &str, group_by: &str) -> String {
    match (group_by, word) {
        (_, "") => NOBODY.to_owned(),
        ("assignee_id", user) => {
            let found = session.get(&format!("/v1/users/{user}")).await;
            found.map_or_else(
                |_| user.to_owned(),
                |found| text(&found.body, "name").to_owned(),
            )
        }
        (_, word) => word.to_owned(),
    }
}

fn messages(entry: &Value) -> Option<f64> {
    let senders = ["customer", "agent", "system"];
    let counts = senders.map(|sender| figure(entry, &format!("/messages/{sender}")));
    Some(counts.into_iter().flatten().sum())
}

/// How a kind of figure is put into words for all groups.
#[derive(Clone, Copy)]
enum Said {
    /// What is counted adds up over time.
    Sum,
    /// How it stands at the end.
    Last,
    /// How long it took, if it was ever done.
    Took(&'static str),
}

impl Said {
    fn unit(self) -> Unit {
        match self {
            Said::Sum | Said::Last => Unit::Count,
            Said::Took(_) => Unit::Seconds,
        }
    }
}

/// A kind of figure.
struct Kind {
    id: &'static str,
    title: &'static str,
    of: fn(&Value) -> Option<f64>,
    said: Said,
}

const KINDS: &[Kind] = &[
    Kind {
        id: "created",
        title: "Created",
        of: |entry| figure(entry, "/created"),
        said: Said::Sum,
    },
    Kind {
        id: "closed",
        title: "Closed",
        of: |entry| figure(entry, "/closed"),
        said: Said::Sum,
    },
    Kind {
        id: "reopened",
        title: "Reopened",
        of: |entry| figure(entry, "/reopened"),
        said: Said::Sum,
    },
    Kind {
        id: "open",
        title: "Open at the end",
        of: |entry| figure(entry, "/open_at_end"),
        said: Said::Last,
    },
    Kind {
        id: "messages",
        title: "Messages",
        of: messages,
        said: Said::Sum,
    },
    Kind {
        id: "first_response",
        title: "First response, median",
        of: |entry| figure(entry, "/first_response_seconds/p50"),
        said: Said::Took("answered"),
    },
    Kind {
        id: "resolution",
        title: "Resolution, median",
        of: |entry| figure(entry, "/resolution_seconds/p50"),
        said: Said::Took("closed"),
    },
];

/// The charts of these entries; none where there is no group.
pub(super) fn charts(
    entries: &[Value],
    groups: &[Group],
    interval: Interval,
    starts: &[Timestamp],
) -> Vec<Chart> {
    if groups.is_empty() {
        return Vec::new();
    }
    let key = |entry: &Value| {
        let start = text(entry, "start").parse::<Timestamp>();
        (start.unwrap_or_default(), text(entry, "group").to_owned())
    };
    let entries: HashMap<(Timestamp, String), &Value> =
        entries.iter().map(|entry| (key(entry), entry)).collect();
    let chart = |kind: &Kind| {
        let lines = groups.iter().enumerate().map(|(index, group)| {
            let value = |start: &Timestamp| match entries.get(&(*start, group.word.clone())) {
                Some(entry) => (kind.of)(entry),
                // A group to which nothing happened is left out of the answer.
                None => matches!(kind.said, Said::Sum | Said::Last).then_some(0.0),
            };
            Line {
                name: group.name.clone(),
                unit: kind.said.unit(),
                values: starts.iter().map(value).collect(),
                is_drawn: index < DRAWN_MAX,
            }
        });
        let lines: Vec<Line> = lines.collect();
        Chart {
            id: kind.id,
            title: kind.title,
            said: said(kind.said, &lines, interval),
            unit: kind.said.unit(),
            lines,
        }
    };
    KINDS.iter().map(chart).collect()
}

/// What the lines show, in words: each of those with the most, and how many others there are.
fn said(said: Said, lines: &[Line], interval: Interval) -> String {
    let words = match said {
        Said::Sum => counts("in all", lines, Line::sum),
        Said::Last => counts("at the end", lines, Line::last),
        Said::Took(done) => times(done, lines, interval),
    };
    match lines.len() > DRAWN_MAX {
        true => format!("{words} The picture has the first {DRAWN_MAX} columns of the table."),
        false => words,
    }
}

fn counts(when: &str, lines: &[Line], of: fn(&Line) -> f64) -> String {
    let mut counted: Vec<(&str, f64)> = lines
        .iter()
        .map(|line| (line.name.as_str(), of(line)))
        .filter(|(_, count)| *count != 0.0)
        .collect();
    counted.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let all: f64 = counted.iter().map(|(_, count)| count).sum();
    let all = Unit::Count.words(all);
    if counted.is_empty() {
        return format!("{all} {when}.");
    }
    let each = |(name, count): &(&str, f64)| format!("{name} {}", Unit::Count.words(*count));
    format!("{all} {when}: {}.", listed(&counted, each))
}

fn times(done: &str, lines: &[Line], interval: Interval) -> String {
    let measured = lines.iter().filter_map(|line| Some((line, line.range()?)));
    let measured: Vec<(&Line, (f64, f64))> = measured.collect();
    if measured.is_empty() {
        return format!("None was {done}.");
    }
    let each = |(line, (low, high)): &(&Line, (f64, f64))| {
        let (low, high) = (Unit::Seconds.words(*low), Unit::Seconds.words(*high));
        match low == high {
            true => format!("{} {low}", line.name),
            false => format!("{} {low} to {high}", line.name),
        }
    };
    let each = listed(&measured, each);
    format!("The median of each {}: {each}.", interval.word())
}

/// The first of them, and how many others there are.
fn listed<T>(all: &[T], each: impl Fn(&T) -> String) -> String {
    let shown: Vec<String> = all.iter().take(DRAWN_MAX).map(each).collect();
    let shown = shown.join(", ");
    match all.len().saturating_sub(DRAWN_MAX) {
        0 => shown,
        1 => format!("{shown} and 1 other"),
        others => format!("{shown} and {others} others"),
    }
}
