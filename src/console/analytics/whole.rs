//! The charts of all conversations together: how many, how many messages, how long things took.

use colloquy_model::interval::Interval;
use serde_json::Value;

use super::figure;
use crate::console::charts::{Chart, Line, Unit};
use crate::console::figures::duration;
use crate::console::parts::grouped;

/// The charts of these entries, one for each interval.
pub(super) fn charts(entries: &[Value], interval: Interval) -> Vec<Chart> {
    vec![
        conversations(entries),
        open(entries, interval),
        messages(entries),
        times(entries, interval, &FIRST_RESPONSE),
        times(entries, interval, &RESOLUTION),
    ]
}

fn line(entries: &[Value], name: &str, pointer: &str) -> Line {
    Line {
        name: name.to_owned(),
        unit: Unit::Count,
        values: entries.iter().map(|entry| figure(entry, pointer)).collect(),
        is_drawn: true,
    }
}

/// So many, with the word that goes with it.
fn counted(count: f64, one: &str, more: &str) -> String {
    let count = count as u64;
    let word = if count == 1 { one } else { more };
    format!("{} {word}", grouped(count))
}

fn conversations(entries: &[Value]) -> Chart {
    let created = line(entries, "Created", "/created");
    let closed = line(entries, "Closed", "/closed");
    let reopened = line(entries, "Reopened", "/reopened");
    Chart {
        id: "conversations",
        title: "Conversations",
        said: format!(
            "{} created, {} closed and {} reopened.",
            counted(created.sum(), "conversation was", "conversations were"),
            counted(closed.sum(), "was", "were"),
            counted(reopened.sum(), "was", "were"),
        ),
        unit: Unit::Count,
        lines: vec![created, closed, reopened],
    }
}

fn open(entries: &[Value], interval: Interval) -> Chart {
    let open = line(entries, "Open at the end", "/open_at_end");
    let (_, most) = open.range().unwrap_or_default();
    Chart {
        id: "open",
        title: "Open at the end",
        said: format!(
            "{} open at the end, and at most {} at the end of any {}.",
            counted(open.last(), "conversation is", "conversations are"),
            counted(most, "was", "were"),
            interval.word(),
        ),
        unit: Unit::Count,
        lines: vec![open],
    }
}

fn messages(entries: &[Value]) -> Chart {
    let customers = line(entries, "By customers", "/messages/customer");
    let agents = line(entries, "By agents", "/messages/agent");
    let system = line(entries, "By the system", "/messages/system");
    let all = customers.sum() + agents.sum() + system.sum();
    Chart {
        id: "messages",
        title: "Messages",
        said: format!(
            "{} sent: {} by customers, {} by agents and {} by the system.",
            counted(all, "message was", "messages were"),
            Unit::Count.words(customers.sum()),
            Unit::Count.words(agents.sum()),
            Unit::Count.words(system.sum()),
        ),
        unit: Unit::Count,
        lines: vec![customers, agents, system],
    }
}

/// Times that are counted, and the words for them.
struct Times {
    id: &'static str,
    title: &'static str,
    field: &'static str,
    /// What has happened to the conversations that are counted.
    done: &'static str,
}

const FIRST_RESPONSE: Times = Times {
    id: "first_response",
    title: "First response",
    field: "first_response_seconds",
    done: "answered",
};

const RESOLUTION: Times = Times {
    id: "resolution",
    title: "Resolution",
    field: "resolution_seconds",
    done: "closed",
};

fn times(entries: &[Value], interval: Interval, times: &Times) -> Chart {
    let pointer = |figure: &str| format!("/{}/{figure}", times.field);
    let line = |name, figure| Line {
        unit: Unit::Seconds,
        ..line(entries, name, &pointer(figure))
    };
    let beside = |line| Line {
        is_drawn: false,
        ..line
    };
    let counts = Line {
        unit: Unit::Count,
        ..beside(line("Counted", "count"))
    };
    let means = beside(line("Mean", "mean"));
    let medians = line("Median (p50)", "p50");
    Chart {
        id: times.id,
        title: times.title,
        said: took(times.done, interval, [&counts, &means, &medians]),
        unit: Unit::Seconds,
        lines: vec![
            counts,
            means,
            medians,
            line("9 of 10 (p90)", "p90"),
            beside(line("99 of 100 (p99)", "p99")),
        ],
    }
}

/// How long it took, in words.
fn took(done: &str, interval: Interval, [counts, means, medians]: [&Line; 3]) -> String {
    let Some((shortest, longest)) = medians.range() else {
        return format!("None was {done}.");
    };
    let pairs = counts.values.iter().zip(&means.values);
    let all: f64 = pairs
        .filter_map(|(count, mean)| Some((*count)? * (*mean)?))
        .sum();
    let between = match duration(shortest) == duration(longest) {
        true => duration(shortest),
        false => format!("between {} and {}", duration(shortest), duration(longest)),
    };
    format!(
        "{} {done}, on average after {}; the median of each {} was {between}.",
        counted(counts.sum(), "conversation was", "conversations were"),
        duration(all / counts.sum().max(1.0)),
        interval.word(),
    )
}
