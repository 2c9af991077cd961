//! What people are shown of the server's answers: of each what an operator looks at first. All of
//! it is in the JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use colloquy_model::time::Timestamp;
use serde::Deserialize;
use serde_json::Number;

use super::SettingChange;
use super::table::{Align, Cell, Table, Tone};

/// The answer to `GET /admin/v1/actors`.
#[derive(Deserialize)]
pub(super) struct Kinds {
    data: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
    live: u64,
    by_state: BTreeMap<String, u64>,
    mailbox: Mailbox,
    bytes: u64,
    handled: u64,
    refused: BTreeMap<String, u64>,
    working_ms: Percentiles,
    waiting_ms: Percentiles,
    restarts: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Mailbox {
    used: u64,
    max: u64,
}

#[derive(Deserialize)]
struct Percentiles {
    p99: f64,
}

/// The answer to `GET /admin/v1/actors/{kind}/instances`.
#[derive(Deserialize)]
pub(super) struct Instances {
    data: Vec<Instance>,
}

/// One actor, as each command to it answers.
#[derive(Deserialize)]
pub(super) struct Instance {
    id: String,
    state: String,
    mailbox_used: u64,
    bytes: u64,
    revision: u64,
    restarts: u64,
    last_used_at: Option<Timestamp>,
    quarantined_until: Option<Timestamp>,
    last_failure: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    at: Timestamp,
    cause: String,
    message: String,
}

/// The answer to `GET /admin/v1/supervision`.
#[derive(Deserialize)]
pub(super) struct Settings {
    kinds: BTreeMap<String, BTreeMap<String, Setting>>,
}

#[derive(Deserialize, PartialEq)]
struct Setting {
    value: Number,
    configured: Number,
}

/// A row for each kind. Counters beyond 99,999 are rounded.
pub(super) fn kinds(kinds: &Kinds) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("kind", Left),
        ("live", Right),
        ("mailbox", Right),
        ("memory", Right),
        ("handled", Right),
        ("refused", Right),
        ("restarts", Right),
        ("p99 ms", Right),
        ("state", Left),
    ]);
    for kind in &kinds.data {
        table.row([
            Cell::usual(&kind.kind),
            Cell::usual(count(kind.live)),
            Cell::usual(format!("{}/{}", count(kind.mailbox.used), kind.mailbox.max)),
            Cell::usual(bytes(kind.bytes)),
            Cell::usual(count(kind.handled)),
            Cell::usual(count(kind.refused.values().sum())),
            Cell::usual(count(kind.restarts.values().sum())),
            Cell::usual(format!(
                "{:.2}/{:.2}",
                kind.working_ms.p99, kind.waiting_ms.p99
            )),
            states(&kind.by_state),
        ]);
    }
    table.line("mailbox: commands in all/most in one actor; p99 ms: working/waiting");
    table
}

/// How many actors are in which state, the worst first.
fn states(by_state: &BTreeMap<String, u64>) -> Cell {
    let of = |state: &str| by_state.get(state).copied().unwrap_or_default();
    let counted = ["quarantined", "backing_off", "loading"].map(|state| (of(state), state));
    let tone = match counted {
        [(1.., _), ..] => Tone::Bad,
        [_, (1.., _), _] => Tone::Warning,
        [(0, _), (0, _), _] => Tone::Good,
    };
    let told: Vec<String> = counted
        .iter()
        .filter(|(many, _)| *many > 0)
        .map(|(many, state)| format!("{} {}", count(*many), words(state)))
        .collect();
    let text = if told.is_empty() {
        "ready".to_owned()
    } else {
        told.join(", ")
    };
    Cell::new(text, tone)
}

/// Makes a table with a row for each actor.
pub(super) fn instances(instances: &Instances, now: Timestamp) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("id", Left),
        ("mailbox", Right),
        ("memory", Right),
        ("restarts", Right),
        ("last used", Right),
        ("state", Left),
    ]);
    for one in &instances.data {
        let used = one.last_used_at.map(|at| ago(at, now));
        table.row([
            Cell::usual(&one.id),
            Cell::usual(count(one.mailbox_used)),
            Cell::usual(bytes(one.bytes)),
            Cell::usual(count(one.restarts)),
            Cell::usual(used.unwrap_or_default()),
            state(one, now),
        ]);
    }
    if instances.data.is_empty() {
        table.line("none in memory");
    }
    table
}

/// A row for each thing that is known of one actor.
pub(super) fn instance(one: &Instance, now: Timestamp) -> Table {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let mut told = |name: &str, cell: Cell| table.row([Cell::new(name, Tone::Title), cell]);
    told("id", Cell::usual(&one.id));
    told("state", state(one, now));
    told("mailbox", Cell::usual(one.mailbox_used.to_string()));
    told("memory", Cell::usual(bytes(one.bytes)));
    told("revision", Cell::usual(one.revision.to_string()));
    told("restarts", Cell::usual(one.restarts.to_string()));
    if let Some(at) = one.last_used_at {
        told(
            "last used",
            Cell::usual(format!("{at}, {} ago", ago(at, now))),
        );
    }
    if let Some(until) = one.quarantined_until {
        told("until", Cell::usual(until.to_string()));
    }
    if let Some(Failure { at, cause, message }) = &one.last_failure {
        told("failed", Cell::usual(format!("{at}, {cause}")));
        told("", Cell::usual(message));
    }
    table
}

fn state(one: &Instance, now: Timestamp) -> Cell {
    let tone = match &*one.state {
        "ready" => Tone::Good,
        "quarantined" => Tone::Bad,
        "loading" | "backing_off" => Tone::Warning,
        _ => Tone::Usual,
    };
    let left = one.quarantined_until.map(|until| ago(now, until));
    let left = left.map_or_else(String::new, |left| format!(", {left} left"));
    Cell::new(format!("{}{left}", words(&one.state)), tone)
}

/// A row for each setting, and for each kind whose value differs; none if there is no such kind.
pub(super) fn settings(settings: &Settings, kind: Option<&str>) -> Option<Table> {
    let mut table = setting_columns();
    let shown: Vec<(&String, &BTreeMap<String, Setting>)> = settings
        .kinds
        .iter()
        .filter(|(name, _)| kind.is_none_or(|kind| kind == *name))
        .collect();
    let (_, first) = shown.first()?;
    for name in first.keys() {
        // The kinds that have the same values share a row.
        let mut rows: Vec<(&Setting, Vec<&str>)> = Vec::new();
        for (kind, settings) in &shown {
            let Some(setting) = settings.get(name) else {
                continue;
            };
            match rows.iter_mut().find(|(same, _)| *same == setting) {
                Some((_, kinds)) => kinds.push(kind),
                None => rows.push((setting, vec![kind])),
            }
        }
        for (setting, kinds) in rows {
            let kinds = if kinds.len() == settings.kinds.len() {
                "all kinds".to_owned()
            } else {
                kinds.join(", ")
            };
            setting_row(&mut table, name, setting, &kinds);
        }
    }
    Some(table)
}

/// A row for each setting that was changed, as it stands now.
pub(super) fn changed(settings: &Settings, changes: &[SettingChange]) -> Table {
    let mut table = setting_columns();
    for change in changes {
        let of_kind = settings.kinds.get(&change.kind);
        if let Some(setting) = of_kind.and_then(|settings| settings.get(&change.setting)) {
            setting_row(&mut table, &change.setting, setting, &change.kind);
        }
    }
    table
}

fn setting_columns() -> Table {
    Table::new(&[
        ("setting", Align::Left),
        ("value", Align::Right),
        ("configured", Align::Right),
        ("kinds", Align::Left),
    ])
}

fn setting_row(table: &mut Table, name: &str, setting: &Setting, kinds: &str) {
    let is_changed = setting.value != setting.configured;
    let tone = if is_changed {
        Tone::Warning
    } else {
        Tone::Usual
    };
    table.row([
        Cell::usual(name),
        Cell::new(setting.value.to_string(), tone),
        Cell::usual(setting.configured.to_string()),
        Cell::usual(kinds),
    ]);
}

/// A word of the interface as people write it.
fn words(state: &str) -> String {
    state.replace('_', " ")
}

/// A number in at most five characters.
fn count(number: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    if number < 100_000 {
        return number.to_string();
    }
    let unit = UNITS.iter().find(|(unit, _)| number >= *unit);
    unit.map_or_else(
        || number.to_string(),
        |(unit, letter)| {
            let (whole, tenth) = (number / unit, number % unit * 10 / unit);
            if whole < 100 {
                format!("{whole}.{tenth}{letter}")
            } else {
                format!("{whole}{letter}")
            }
        },
    )
}

/// Writes a number of bytes in powers of 1,000, such as `1.5 MB`.
fn bytes(number: u64) -> String {
    match number {
        0..1_000 => format!("{number} B"),
        1_000..1_000_000 => format!("{}.{} kB", number / 1_000, number % 1_000 / 100),
        _ => format!("{}.{} MB", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// The time from one instant to another, in one unit.
fn ago(from: Timestamp, to: Timestamp) -> String {
    let ms = u64::try_from(to.0.saturating_sub(from.0)).unwrap_or_default();
    match Duration::from_millis(ms).as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short_and_are_exact_up_to_99_999() {
        let shown = [0, 99_999, 123_456, 1_250_000, 250_000_000, 3_000_000_000].map(count);
        assert_eq!(shown, ["0", "99999", "123k", "1.2M", "250M", "3.0G"]);
        let shown = [999, 1_250, 268_435_456].map(bytes);
        assert_eq!(shown, ["999 B", "1.2 kB", "268.4 MB"]);
    }

    #[test]
    fn the_worst_states_come_first() {
        let counts = |quarantined, backing_off, loading| {
            let states = [
                ("quarantined", quarantined),
                ("backing_off", backing_off),
                ("loading", loading),
                ("ready", 9),
            ];
            states.map(|(state, many)| (state.to_owned(), many)).into()
        };
        let told = |counts| {
            let mut table = Table::new(&[("", Align::Left)]);
            table.row([states(&counts)]);
            table.render(super::super::table::Style::Plain)
        };
        assert_eq!(told(counts(0, 0, 0)), "ready\n");
        assert_eq!(
            told(counts(2, 1, 3)),
            "2 quarantined, 1 backing off, 3 loading\n"
        );
    }
}
