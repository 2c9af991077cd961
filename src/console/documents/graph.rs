//! The picture of versions: a row for each, a lane for each branch, lines from versions to those
//! that they were made from. Everything in it is said by the list beside it too.

use std::collections::HashMap;
use std::fmt::Write;

use maud::{Markup, html};
use serde_json::Value;

use crate::console::parts::text;

/// Units of the picture in one row; the rows of the list are as high (`--row` of the styles).
const ROW: usize = 56;
/// Units of the picture in one `rem`.
const REM: usize = 16;
const LANE: usize = 18;
/// Lanes beside each other at most; what would need more shares the last.
const LANES_MAX: usize = 10;
/// Colours that lanes take in turn.
const COLOURS: usize = 6;

/// From which row to which a branch needs its lane.
struct Span {
    first: usize,
    last: usize,
}

/// What is drawn: versions, newest first, and where each stands.
struct Graph<'v> {
    versions: &'v [Value],
    rows: HashMap<&'v str, usize>,
    lanes: HashMap<&'v str, usize>,
}

/// Draws these versions, newest first. `begins_above`: newer ones stand on another page.
pub(super) fn draw(versions: &[Value], here: &str, begins_above: bool) -> Markup {
    let rows = versions.iter().enumerate();
    let rows = rows.map(|(row, version)| (text(version, "id"), row));
    let mut graph = Graph {
        versions,
        rows: rows.collect(),
        lanes: HashMap::new(),
    };
    graph.assign();
    let lanes = graph.lanes.values().max().map_or(1, |last| last + 1);
    let (width, height) = (lanes * LANE + LANE, versions.len() * ROW);
    let rem = |units: usize| format!("{}.{:04}rem", units / REM, units % REM * 10_000 / REM);
    html! {
        svg.graph width=(rem(width)) height=(rem(height)) viewBox={ "0 0 " (width) " " (height) } aria-hidden="true" {
            @if begins_above { (graph.main_above()) }
            @for row in 0..versions.len() { (graph.lines_of(row)) }
            @for (row, version) in versions.iter().enumerate() {
                @let lane = graph.lane(version);
                a href={ (here) "?version=" (text(version, "id")) } tabindex="-1" {
                    circle class={ "lane-" (lane % COLOURS) } cx=(x(lane)) cy=(y(row)) r="6" {}
                }
            }
        }
    }
}

fn x(lane: usize) -> usize {
    lane * LANE + LANE
}

fn y(row: usize) -> usize {
    row * ROW + ROW / 2
}

fn parents(version: &Value) -> impl Iterator<Item = &str> {
    let parents = version.get("parents").and_then(Value::as_array);
    parents.into_iter().flatten().filter_map(Value::as_str)
}

impl<'v> Graph<'v> {
    fn lane(&self, version: &Value) -> usize {
        self.lanes
            .get(text(version, "branch"))
            .copied()
            .unwrap_or_default()
    }

    fn found(&self, id: &str) -> Option<(usize, &'v Value)> {
        let row = *self.rows.get(id)?;
        Some((row, self.versions.get(row)?))
    }

    /// Gives each branch a lane that no other needs in the same rows; the main one the first.
    fn assign(&mut self) {
        let end = self.versions.len();
        let mut spans: Vec<(&'v str, Span)> = vec![(
            "main",
            Span {
                first: 0,
                last: end,
            },
        )];
        let mut widen = |branch: &'v str, row: usize| match spans
            .iter_mut()
            .find(|(name, _)| *name == branch)
        {
            Some((_, span)) => {
                span.first = span.first.min(row);
                span.last = span.last.max(row);
            }
            None => spans.push((
                branch,
                Span {
                    first: row,
                    last: row,
                },
            )),
        };
        for (row, version) in self.versions.iter().enumerate() {
            widen(text(version, "branch"), row);
            for (place, parent) in parents(version).enumerate() {
                match self.found(parent) {
                    // A line runs down in the lane of its child, one of a merge in its parent's.
                    Some((at, _)) if place == 0 => widen(text(version, "branch"), at),
                    Some((_, parent)) => widen(text(parent, "branch"), row),
                    None if place == 0 => widen(text(version, "branch"), end),
                    None => {}
                }
            }
        }
        spans.sort_by_key(|(name, span)| (*name != "main", span.first));
        let mut free_from = [0; LANES_MAX];
        for (branch, span) in spans {
            let free = free_from.iter().position(|from| *from <= span.first);
            let lane = free.unwrap_or(LANES_MAX - 1);
            if let Some(from) = free_from.get_mut(lane) {
                *from = span.last + 1;
            }
            self.lanes.insert(branch, lane);
        }
    }

    /// The main line, as it comes from newer versions.
    fn main_above(&self) -> Markup {
        let mut versions = self.versions.iter();
        let first = versions.position(|version| text(version, "branch") == "main");
        let end = first.map_or(self.versions.len() * ROW, y);
        html! { path.lane-0 d={ "M" (x(0)) " 0V" (end) } {} }
    }

    /// The lines from a version to those that it was made from.
    fn lines_of(&self, row: usize) -> Markup {
        let Some(version) = self.versions.get(row) else {
            return html! {};
        };
        let own = self.lane(version);
        let (x1, y1, end) = (x(own), y(row), self.versions.len() * ROW);
        let lines = parents(version).enumerate().map(|(place, parent)| {
            let mut line = format!("M{x1} {y1}");
            let (lane, written) = match self.found(parent) {
                Some((at, parent)) => {
                    let lane = self.lane(parent);
                    let (x2, y2) = (x(lane), y(at));
                    let written = if x1 == x2 {
                        write!(line, "V{y2}")
                    } else if place == 0 {
                        let (turn, half) = (y2 - ROW, y2 - ROW / 2);
                        write!(line, "V{turn}C{x1} {half} {x2} {half} {x2} {y2}")
                    } else {
                        let (turn, half) = (y1 + ROW, y1 + ROW / 2);
                        write!(line, "C{x1} {half} {x2} {half} {x2} {turn}V{y2}")
                    };
                    (if place == 0 { own } else { lane }, written)
                }
                None if place == 0 => (own, write!(line, "V{end}")),
                // Where it comes from stands on a later page.
                None => (own, write!(line, "l{} {}", LANE / 2, ROW / 2)),
            };
            // Writing into a string does not fail.
            written.map_or((lane, String::new()), |()| (lane, line))
        });
        html! {
            @for (lane, line) in lines { path class={ "lane-" (lane % COLOURS) } d=(line) {} }
        }
    }
}
