//! How pages write figures: amounts, bytes, durations, states, counts by cause.

use maud::{Markup, html};
use serde_json::Value;

use super::parts::{badge, grouped, number, text};

/// What some setting or figure is called, in words.
pub(super) fn words(name: &str) -> String {
    name.replace('_', " ")
}

/// A number of an answer that may have a fraction; 0 where there is none.
pub(super) fn decimal(value: &Value, name: &str) -> f64 {
    value.get(name).and_then(Value::as_f64).unwrap_or_default()
}

/// A part of an answer; null where there is none.
pub(super) fn part<'v>(value: &'v Value, name: &str) -> &'v Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// A number with three digits that matter.
pub(super) fn rounded(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{number:.2}"),
        10.0..100.0 => format!("{number:.1}"),
        _ => grouped(number.round() as u64),
    }
}

/// Bytes, in the unit in which they are read best.
pub(super) fn bytes(count: u64) -> String {
    let mut amount = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if amount < 1_024.0 {
            return match unit {
                "B" => format!("{count} B"),
                _ => format!("{amount:.1} {unit}"),
            };
        }
        amount /= 1_024.0;
    }
    format!("{amount:.1} TiB")
}

/// How long something took, in the two units in which it is read best.
pub(super) fn duration(seconds: f64) -> String {
    let ms = (seconds * 1e3).round() as u64;
    match ms {
        ..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1_000 % 60),
        3_600_000..86_400_000 => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
        _ => format!("{} d {} h", grouped(ms / 86_400_000), ms / 3_600_000 % 24),
    }
}

/// Two percentiles, in milliseconds.
pub(super) fn percentiles(value: &Value, name: &str) -> String {
    let of = part(value, name);
    let (p50, p99) = (decimal(of, "p50"), decimal(of, "p99"));
    format!("{} / {}", rounded(p50), rounded(p99))
}

/// The sum of counts by cause.
pub(super) fn sum(value: &Value, name: &str) -> u64 {
    let counts = part(value, name).as_object().into_iter().flatten();
    counts.filter_map(|(_, count)| count.as_u64()).sum()
}

/// A figure that stands by itself.
pub(super) fn tile(name: &str, figure: impl Into<String>) -> Markup {
    html! { div.tile { dt { (name) } dd { (figure.into()) } } }
}

/// Counts by cause, as a small table.
pub(super) fn by_cause(heading: &str, value: &Value, name: &str, none: &str) -> Markup {
    let counts = part(value, name).as_object();
    let counts = counts.into_iter().flatten();
    let counts: Vec<(&String, u64)> = counts
        .filter_map(|(cause, count)| Some((cause, count.as_u64()?)))
        .filter(|(_, count)| *count > 0)
        .collect();
    html! {
        section.card {
            h2 { (heading) }
            @if counts.is_empty() { p.faint { (none) } }
            @else {
                dl.facts {
                    @for (cause, count) in counts { div { dt { (words(cause)) } dd { (grouped(count)) } } }
                }
            }
        }
    }
}

/// The state of an actor, with a colour that says nothing more.
pub(super) fn actor_state(state: &str) -> Markup {
    let tone = match state {
        "ready" => "good",
        "backing_off" => "warn",
        "quarantined" => "bad",
        _ => "quiet",
    };
    badge(&words(state), tone)
}

/// How many actors of a kind are in which state, the worst first.
pub(super) fn by_state(kind: &Value) -> Markup {
    let states = part(kind, "by_state");
    let named = ["quarantined", "backing_off", "loading"];
    let others: Vec<(&str, u64)> = named
        .into_iter()
        .map(|state| (state, number(states, state)))
        .filter(|(_, count)| *count > 0)
        .collect();
    html! {
        @if others.is_empty() { (badge("ready", "good")) }
        @for (state, count) in others {
            (badge(&format!("{count} {}", words(state)), if state == "quarantined" { "bad" } else { "warn" })) " "
        }
    }
}

/// How deliveries to a webhook endpoint fare.
pub(super) fn endpoint_state(endpoint: &Value) -> Markup {
    let is_enabled = super::parts::is(endpoint, "enabled");
    match (is_enabled, text(endpoint, "failing_since")) {
        (true, "") => badge("working", "good"),
        (true, _) => badge("failing", "bad"),
        (false, _) if text(endpoint, "disabled_reason").is_empty() => {
            badge("switched off", "quiet")
        }
        (false, _) => badge("disabled by the server", "bad"),
    }
}

/// A part of a page that asks for itself again and again.
pub(super) fn live(address: &str, seconds: u32, content: Markup) -> Markup {
    html! {
        div hx-get=(address) hx-trigger={ "every " (seconds) "s" } hx-swap="innerHTML" { (content) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!(rounded(0.0), "0");
        assert_eq!(rounded(0.314), "0.31");
        assert_eq!(rounded(31.44), "31.4");
        assert_eq!(rounded(31_415.9), "31\u{202f}416");
        assert_eq!(bytes(1_023), "1023 B");
        assert_eq!(bytes(1_536), "1.5 KiB");
        assert_eq!(bytes(5 << 40), "5.0 TiB");
        assert_eq!(duration(0.129), "129 ms");
        assert_eq!(duration(59.94), "59.9 s");
        assert_eq!(duration(61.1), "1 min 1 s");
        assert_eq!(duration(7_260.0), "2 h 1 min");
        assert_eq!(duration(90_000.0), "1 d 1 h");
    }
}
