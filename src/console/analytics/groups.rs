//! What the charts by channel, agent or priority show, and what their lines are called.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::Value;

use super::figure;
use crate::console::charts::Unit;
use crate::console::grouped::{Entries, Group, Kind, Said};
use crate::console::parts::text;
use crate::console::session::Session;

/// What conversations of nobody are called.
const NOBODY: &str = "Nobody";

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
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    Group::all(&words, &names)
}

/// How much happened in an entry's group: whoever has more comes first.
fn happened(entry: &Value) -> f64 {
    let counts = ["/created", "/closed"].map(|pointer| figure(entry, pointer));
    counts.into_iter().flatten().sum::<f64>() + messages(entry).unwrap_or_default()
}

/// What people call a group.
async fn name(session: &Session, word: &str, group_by: &str) -> String {
    match (group_by, word) {
        (_, "") => NOBODY.to_owned(),
        ("assignee_id", user) => agent(session, user).await,
        (_, word) => word.to_owned(),
    }
}

/// An agent's name; one who is no more is known by the identifier alone.
pub(super) async fn agent(session: &Session, user: &str) -> String {
    let found = session.get(&format!("/v1/users/{user}")).await;
    found.map_or_else(
        |_| user.to_owned(),
        |found| text(&found.body, "name").to_owned(),
    )
}

fn messages(entry: &Value) -> Option<f64> {
    let senders = ["customer", "agent", "system"];
    let counts = senders.map(|sender| figure(entry, &format!("/messages/{sender}")));
    Some(counts.into_iter().flatten().sum())
}

/// The kinds of figures, each a chart.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        id: "created",
        title: "Created",
        unit: Unit::Count,
        of: |entry| figure(entry, "/created"),
        said: Said::Sum,
    },
    Kind {
        id: "closed",
        title: "Closed",
        unit: Unit::Count,
        of: |entry| figure(entry, "/closed"),
        said: Said::Sum,
    },
    Kind {
        id: "reopened",
        title: "Reopened",
        unit: Unit::Count,
        of: |entry| figure(entry, "/reopened"),
        said: Said::Sum,
    },
    Kind {
        id: "open",
        title: "Open at the end",
        unit: Unit::Count,
        of: |entry| figure(entry, "/open_at_end"),
        said: Said::Last,
    },
    Kind {
        id: "messages",
        title: "Messages",
        unit: Unit::Count,
        of: messages,
        said: Said::Sum,
    },
    Kind {
        id: "first_response",
        title: "First response, median",
        unit: Unit::Seconds,
        of: |entry| figure(entry, "/first_response_seconds/p50"),
        said: Said::Took("answered"),
    },
    Kind {
        id: "resolution",
        title: "Resolution, median",
        unit: Unit::Seconds,
        of: |entry| figure(entry, "/resolution_seconds/p50"),
        said: Said::Took("closed"),
    },
];

/// The entries of an answer by interval and group.
pub(super) fn entries(entries: &[Value]) -> Entries<'_> {
    let key = |entry| {
        let start = text(entry, "start").parse();
        (start.unwrap_or_default(), text(entry, "group"))
    };
    entries.iter().map(|entry| (key(entry), entry)).collect()
}
