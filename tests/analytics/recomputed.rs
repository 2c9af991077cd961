//! The figures as they follow from events, by the contract's words alone: every event is gone over,
//! every time is kept, and what is open is counted one by one.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Datelike, Months, TimeDelta, TimeZone, Utc};
use serde_json::{Value, json};

/// An event, as far as figures need it.
pub(super) struct Event {
    event: String,
    created_at: DateTime<Utc>,
    data: Value,
}

impl Event {
    /// One of a list's.
    pub(super) fn read(shown: &Value) -> Self {
        let created_at = shown["created_at"].as_str().unwrap();
        Self {
            event: shown["event"].as_str().unwrap().to_owned(),
            created_at: created_at.parse().unwrap(),
            data: shown["data"].clone(),
        }
    }
}

/// What a conversation is after an event.
#[derive(Clone)]
struct State {
    created_at: DateTime<Utc>,
    opened_at: DateTime<Utc>,
    is_answered: bool,
    is_open: bool,
    group: Group,
}

/// By what conversations are told apart.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Group {
    channel: String,
    priority: String,
    assignee: Option<String>,
}

impl Group {
    fn of(data: &Value) -> Self {
        let text = |field: &str| data[field].as_str().unwrap().to_owned();
        Self {
            channel: text("channel"),
            priority: text("priority"),
            assignee: data["assignee_id"].as_str().map(str::to_owned),
        }
    }

    /// What it is called where figures are told apart by this.
    fn named(&self, by: Option<&str>) -> Option<String> {
        match by {
            None => None,
            Some("channel") => Some(self.channel.clone()),
            Some("priority") => Some(self.priority.clone()),
            Some("assignee_id") => self.assignee.clone(),
            Some(other) => panic!("{other}"),
        }
    }
}

/// What is counted of one event.
struct Counted {
    at: DateTime<Utc>,
    conversation: String,
    group: Group,
    what: What,
}

enum What {
    Created,
    Closed { open_for: i64 },
    Reopened,
    Changed,
    Message { sender: String, waited: Option<i64> },
}

/// All that happened, as it counts.
pub(super) struct Log {
    counted: Vec<Counted>,
    /// After each of them, whether its conversation is open.
    open: Vec<bool>,
}

/// Which figures are asked for.
#[derive(Clone, Default)]
pub(super) struct Asked<'a> {
    pub(super) interval: &'a str,
    pub(super) group_by: Option<&'a str>,
    pub(super) channel: Option<&'a str>,
    pub(super) priority: Option<&'a str>,
    pub(super) assignee: Option<&'a str>,
}

impl Asked<'_> {
    fn lets_through(&self, group: &Group) -> bool {
        self.channel.is_none_or(|channel| group.channel == channel)
            && self
                .priority
                .is_none_or(|priority| group.priority == priority)
            && self
                .assignee
                .is_none_or(|assignee| group.assignee.as_deref() == Some(assignee))
    }
}

impl Log {
    pub(super) fn of(events: Vec<Event>) -> Self {
        let mut states: BTreeMap<String, State> = BTreeMap::new();
        let mut log = Self {
            counted: Vec::new(),
            open: Vec::new(),
        };
        for event in events {
            let Some(conversation) = event.data["conversation_id"].as_str() else {
                continue;
            };
            let conversation = conversation.to_owned();
            let (at, data) = (event.created_at, &event.data);
            let what = match event.event.as_str() {
                "conversation.created" => {
                    let state = State {
                        created_at: at,
                        opened_at: at,
                        is_answered: false,
                        is_open: true,
                        group: Group::of(data),
                    };
                    states.insert(conversation.clone(), state);
                    What::Created
                }
                "conversation.updated" | "conversation.closed" => {
                    changed(states.get_mut(&conversation).unwrap(), at, data)
                }
                "message.created" => {
                    let state = states.get_mut(&conversation).unwrap();
                    let sender = data["sender_type"].as_str().unwrap().to_owned();
                    let is_first = sender == "agent" && !state.is_answered;
                    state.is_answered |= is_first;
                    What::Message {
                        sender,
                        waited: is_first.then(|| (at - state.created_at).num_milliseconds()),
                    }
                }
                _ => continue,
            };
            let state = &states[&conversation];
            log.open.push(state.is_open);
            log.counted.push(Counted {
                at,
                conversation,
                group: state.group.clone(),
                what,
            });
        }
        log
    }

    /// How many events there are that count.
    pub(super) fn len(&self) -> usize {
        self.counted.len()
    }

    /// The interval in which the first event lies begins, and the one behind the last one's.
    pub(super) fn span(&self, interval: &str) -> (DateTime<Utc>, DateTime<Utc>) {
        let first = start_of(interval, self.counted.first().unwrap().at);
        let latest = self.counted.iter().map(|counted| counted.at).max().unwrap();
        (first, next(interval, start_of(interval, latest)))
    }

    /// What is to be shown of it between two instants.
    pub(super) fn figures(
        &self,
        asked: &Asked<'_>,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
    ) -> Vec<Value> {
        let mut shown = Vec::new();
        let mut start = from;
        while start < to {
            let end = next(asked.interval, start);
            let open = self.open_at(end, asked);
            let mut names: BTreeSet<Option<String>> = open.keys().cloned().collect();
            let within = |counted: &&Counted| {
                (start..end).contains(&counted.at) && asked.lets_through(&counted.group)
            };
            let here: Vec<&Counted> = self.counted.iter().filter(within).collect();
            names.extend(here.iter().map(|one| one.group.named(asked.group_by)));
            if asked.group_by.is_none() {
                names.insert(None);
            }
            for name in names {
                let of_group: Vec<&Counted> = here
                    .iter()
                    .filter(|one| one.group.named(asked.group_by) == name)
                    .copied()
                    .collect();
                let open = open.get(&name).copied().unwrap_or(0);
                let entry = entry(start, name, &of_group, open);
                if asked.group_by.is_none() || !is_nothing(&entry) {
                    shown.push(entry);
                }
            }
            start = end;
        }
        shown
    }

    /// How many conversations are open at an instant, by group.
    fn open_at(&self, at: DateTime<Utc>, asked: &Asked<'_>) -> BTreeMap<Option<String>, i64> {
        let mut last: BTreeMap<&str, (bool, &Group)> = BTreeMap::new();
        for (counted, is_open) in self.counted.iter().zip(&self.open) {
            if counted.at < at {
                last.insert(&counted.conversation, (*is_open, &counted.group));
            }
        }
        let mut open = BTreeMap::new();
        for (is_open, group) in last.into_values() {
            if is_open && asked.lets_through(group) {
                *open.entry(group.named(asked.group_by)).or_insert(0) += 1;
            }
        }
        open
    }
}

fn changed(state: &mut State, at: DateTime<Utc>, data: &Value) -> What {
    state.group = Group::of(data);
    let is_open = data["status"] != "closed";
    let was_open = std::mem::replace(&mut state.is_open, is_open);
    match (was_open, is_open) {
        (true, false) => What::Closed {
            open_for: (at - state.opened_at).num_milliseconds(),
        },
        (false, true) => {
            state.opened_at = at;
            What::Reopened
        }
        (true, true) | (false, false) => What::Changed,
    }
}

fn entry(start: DateTime<Utc>, name: Option<String>, counted: &[&Counted], open: i64) -> Value {
    let count = |is: &dyn Fn(&What) -> bool| counted.iter().filter(|one| is(&one.what)).count();
    let messages =
        |from: &str| count(&|what| matches!(what, What::Message { sender, .. } if sender == from));
    let waited = counted.iter().filter_map(|one| {
        let What::Message { waited, .. } = one.what else {
            return None;
        };
        waited
    });
    let open_for = counted.iter().filter_map(|one| {
        let What::Closed { open_for } = one.what else {
            return None;
        };
        Some(open_for)
    });
    json!({
        "start": start.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        "group": name,
        "created": count(&|what| matches!(what, What::Created)),
        "closed": count(&|what| matches!(what, What::Closed { .. })),
        "reopened": count(&|what| matches!(what, What::Reopened)),
        "open_at_end": open,
        "messages": {
            "customer": messages("customer"), "agent": messages("agent"), "system": messages("system"),
        },
        "first_response_seconds": times(waited.collect()),
        "resolution_seconds": times(open_for.collect()),
    })
}

fn is_nothing(entry: &Value) -> bool {
    ["created", "closed", "reopened", "open_at_end"]
        .iter()
        .all(|field| entry[field] == 0)
        && ["customer", "agent", "system"]
            .iter()
            .all(|sender| entry["messages"][sender] == 0)
}

/// The mean is exact, half up; a percentile is the upper bound of the bucket of the nearest rank.
fn times(mut ms: Vec<i64>) -> Value {
    ms.sort_unstable();
    let count = i64::try_from(ms.len()).unwrap();
    let seconds = |ms: i64| json!(ms as f64 / 1000.0);
    if count == 0 {
        return json!({"count": 0, "mean": null, "p50": null, "p90": null, "p99": null});
    }
    let sum: i64 = ms.iter().sum();
    let percentile = |percent: usize| {
        let rank = (ms.len() * percent).div_ceil(100).max(1);
        seconds(upper_bound(ms[rank - 1]))
    };
    json!({
        "count": count,
        "mean": seconds((2 * sum + count) / (2 * count)),
        "p50": percentile(50), "p90": percentile(90), "p99": percentile(99),
    })
}

/// 64 buckets to each power of two of milliseconds, exact below 128.
fn upper_bound(ms: i64) -> i64 {
    if ms < 128 {
        return ms;
    }
    let width = (1_i64 << ms.ilog2()) / 64;
    ms - ms % width + width - 1
}

pub(super) fn start_of(interval: &str, at: DateTime<Utc>) -> DateTime<Utc> {
    let hour = at.timestamp() / 3_600 * 3_600;
    let day = at.timestamp() / 86_400 * 86_400;
    match interval {
        "hour" => Utc.timestamp_opt(hour, 0).unwrap(),
        "day" => Utc.timestamp_opt(day, 0).unwrap(),
        _ => Utc
            .with_ymd_and_hms(at.year(), at.month(), 1, 0, 0, 0)
            .unwrap(),
    }
}

fn next(interval: &str, start: DateTime<Utc>) -> DateTime<Utc> {
    match interval {
        "hour" => start + TimeDelta::hours(1),
        "day" => start + TimeDelta::days(1),
        _ => start + Months::new(1),
    }
}
