//! The days of which a person wants figures, and the instants between which the interface is asked
//! for them.

use std::time::Duration;

use colloquy_model::interval::Interval;
use colloquy_model::time::Timestamp;
use serde_json::Value;

use super::Visit;
use super::parts::text;
use crate::http::Problem;

/// The shortest that an instant lies before another.
const MOMENT: Duration = Duration::from_millis(1);

/// What the interface is asked; an edge that the address does not name is empty, and as the
/// interface has it.
#[derive(Debug)]
pub(super) struct Period {
    pub(super) from: String,
    /// Behind the last day.
    pub(super) to: String,
}

impl Period {
    /// The days `from` and `to` of the address, both included, widened to whole intervals.
    ///
    /// # Errors
    /// `invalid_request`, naming the field: it is no day, or the days are in the wrong order.
    pub(super) fn asked(visit: &Visit, interval: Interval) -> Result<Self, Problem> {
        let [first, last] = [midnight(visit, "from")?, midnight(visit, "to")?];
        if first.zip(last).is_some_and(|(first, last)| first > last) {
            return Err(Problem::invalid(
                "from",
                "must not be later than the last day",
            ));
        }
        let from = first.map(|at| interval.start_of(at));
        let to = last.map(|at| match interval {
            Interval::Hour | Interval::Day => Interval::Day.next(at),
            Interval::Month => interval.next(interval.start_of(at)),
        });
        let written = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
        Ok(Period {
            from: written(from),
            to: written(to),
        })
    }
}

/// When a day of the address begins; none where it names none.
fn midnight(visit: &Visit, name: &'static str) -> Result<Option<Timestamp>, Problem> {
    let day = visit.query(name);
    if day.is_empty() {
        return Ok(None);
    }
    let at = format!("{day}T00:00:00Z").parse();
    at.map(Some)
        .map_err(|_| Problem::invalid(name, "must be a day, such as 2026-03-15"))
}

/// An edge of what an answer's `meta` spans, which may be a day or an instant.
fn edge(meta: &Value, name: &str) -> Option<Timestamp> {
    let written = text(meta, name);
    let at = written.parse();
    at.or_else(|_| format!("{written}T00:00:00Z").parse()).ok()
}

/// The first and the last day of what an answer's `meta` spans, as fields for days hold them.
pub(super) fn days(meta: &Value) -> [(String, String); 2] {
    let day = |at: Timestamp| at.to_string().chars().take(10).collect::<String>();
    let from = edge(meta, "from").map(day);
    let to = edge(meta, "to").map(|behind| day(behind - MOMENT));
    [
        ("from".to_owned(), from.unwrap_or_default()),
        ("to".to_owned(), to.unwrap_or_default()),
    ]
}

/// When the intervals begin that an answer's `meta` spans.
pub(super) fn starts(meta: &Value, interval: Interval) -> Vec<Timestamp> {
    let span = edge(meta, "from").zip(edge(meta, "to"));
    span.map_or_else(Vec::new, |(from, to)| interval.starts(from, to).collect())
}
