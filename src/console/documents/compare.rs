//! Two versions side by side, with the words marked that differ.

use maud::{Markup, html};
use serde_json::Value;

use super::history::{chooser, names};
use super::{Docs, Document, version_name};
use crate::console::parts::{grouped, number, refusal, target, text};
use crate::console::reply::Reply;
use crate::http::Problem;

/// Lines that are shown side by side at most.
const LINES_MAX: usize = 4_000;
/// Bytes of differences that are told line by line, at most: each takes many times as much in memory.
const BYTES_MAX: usize = 2_097_152;

/// A line of one side, with its number in that text.
#[derive(Clone, Copy)]
struct Line<'v> {
    number: u64,
    line: &'v Value,
}

/// What stands beside each other.
struct Pair<'v> {
    old: Option<Line<'v>>,
    new: Option<Line<'v>>,
    is_same: bool,
}

impl Docs<'_> {
    pub(super) async fn compare(&self, document: &Document) -> Result<Reply, Problem> {
        let (from, to) = (self.visit.query("from"), self.visit.query("to"));
        let (from, to) = (from.trim(), to.trim());
        let sides = [("from", from), ("to", to)];
        let parameters = [sides.as_slice(), &[("format", "json")]].concat();
        let found = match self
            .session
            .get_short(
                &target(&format!("{}/diff", document.at), &parameters),
                BYTES_MAX,
            )
            .await
        {
            Err(problem) if !problem.field.is_empty() => Err(problem),
            found => Ok(found?),
        };
        let known = self.known_versions(document).await?;
        let patch = target(
            &format!("{}/raw", document.here),
            &[sides.as_slice(), &[("patch", "true")]].concat(),
        );
        let content = html! {
            h2 { "Compare versions" }
            form.filters method="get" action={ (document.here) "/compare" } {
                (chooser("from", "Compare", from))
                (chooser("to", "with", if to.is_empty() { "head" } else { to }))
                (names(&known))
                button.button { "Compare" }
            }
            @match &found {
                Err(problem) => (refusal(problem)),
                Ok(found) => {
                    @match found {
                        Some(found) => (table(found, &called(from, &known, "The one before"), &called(to, &known, "The newest"))),
                        None => p.notice.warn { "They differ in more than a page shows. Download the patch for all of it." },
                    }
                    div.actions.spaced {
                        a.button href=(patch) download { "Download as a patch" }
                        @if !from.is_empty() {
                            a.button href=(target(&format!("{}/compare", document.here), &[("from", if to.is_empty() { "head" } else { to }), ("to", from)])) { "Swap sides" }
                        }
                    }
                }
            }
        };
        Ok(self.tab(document, "/history", content))
    }
}

/// A version as people call it, by whatever the address names it with.
fn called(name: &str, known: &[Value], otherwise: &str) -> String {
    let is_it = |version: &&Value| {
        text(version, "id") == name
            || text(version, "label") == name
            || number(version, "number").to_string() == name
    };
    match (name, known.iter().find(is_it)) {
        ("" | "head", _) => otherwise.to_owned(),
        (_, Some(version)) => version_name(version),
        (name, None) => name.to_owned(),
    }
}

/// The differences as the interface tells them, old and new beside each other.
pub(super) fn table(diff: &Value, old: &str, new: &str) -> Markup {
    let hunks = diff.get("hunks").and_then(Value::as_array);
    let hunks: &[Value] = hunks.map(Vec::as_slice).unwrap_or_default();
    let mut left = LINES_MAX;
    let (mut removed, mut added) = (0, 0);
    for line in hunks.iter().flat_map(lines) {
        match text(line, "op") {
            "-" => removed += 1,
            "+" => added += 1,
            _ => {}
        }
    }
    html! {
        @if hunks.is_empty() {
            p.notice { "Both say the same." }
        } @else {
            p.faint { (grouped(removed)) " lines taken away, " (grouped(added)) " lines added." }
            div.table tabindex="0" { table.sides {
                caption.hidden { "Differences between " (old) " and " (new) }
                colgroup { col.count; col; col.count; col; }
                thead { tr { th colspan="2" scope="colgroup" dir="auto" { (old) } th colspan="2" scope="colgroup" dir="auto" { (new) } } }
                @for hunk in hunks {
                    @let pairs = pairs(hunk);
                    @let shown = pairs.len().min(left);
                    (take(&mut left, shown))
                    tbody {
                        tr.place { td colspan="4" { "Line " (grouped(number(hunk, "old_start"))) " · line " (grouped(number(hunk, "new_start"))) } }
                        @for pair in pairs.iter().take(shown) { (row(pair)) }
                    }
                }
            } }
            @if left == 0 { p.notice.warn { "There is more than a page shows. Download the patch for all of it." } }
        }
    }
}

fn take(left: &mut usize, shown: usize) -> Markup {
    *left -= shown.min(*left);
    html! {}
}

fn lines(hunk: &Value) -> impl Iterator<Item = &Value> {
    hunk.get("lines")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// What was taken away stands beside what was put in its place.
fn pairs(hunk: &Value) -> Vec<Pair<'_>> {
    let (mut old, mut new) = (number(hunk, "old_start"), number(hunk, "new_start"));
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    // The first pair of this block that has nothing at its right side yet.
    let mut open = 0;
    for line in lines(hunk) {
        match text(line, "op") {
            "-" => {
                let old_line = Line { number: old, line };
                pairs.push(Pair {
                    old: Some(old_line),
                    new: None,
                    is_same: false,
                });
                old += 1;
            }
            "+" => {
                let line = Some(Line { number: new, line });
                match pairs.get_mut(open) {
                    Some(pair) => pair.new = line,
                    None => pairs.push(Pair {
                        old: None,
                        new: line,
                        is_same: false,
                    }),
                }
                (open, new) = (open + 1, new + 1);
            }
            _ => {
                pairs.push(Pair {
                    old: Some(Line { number: old, line }),
                    new: Some(Line { number: new, line }),
                    is_same: true,
                });
                (old, new, open) = (old + 1, new + 1, pairs.len());
            }
        }
    }
    pairs
}

fn row(pair: &Pair<'_>) -> Markup {
    html! {
        tr.same[pair.is_same] {
            (side(pair.old, "old", pair.is_same))
            (side(pair.new, "new", pair.is_same))
        }
    }
}

/// A line with its number; marked words stand out by more than their colour.
fn side(line: Option<Line<'_>>, side: &str, is_same: bool) -> Markup {
    let words = if side == "old" { "taken away" } else { "added" };
    html! {
        @if let Some(Line { number, line }) = line {
            td class={ "count " (side) } { (number) }
            td class={ "line " (side) } dir="auto" {
                @if !is_same { span.hidden { (words) ": " } }
                (marked(line, side))
            }
        } @else {
            td class={ "count none " (side) } {}
            td class={ "line none " (side) } {}
        }
    }
}

fn marked(line: &Value, side: &str) -> Markup {
    let content = text(line, "text");
    let content = content.trim_end_matches(['\n', '\r']);
    let spans = line.get("spans").and_then(Value::as_array);
    let place = |span: &Value, index| {
        let place = span.get(index).and_then(Value::as_u64)?;
        usize::try_from(place).ok()
    };
    // A mark counts characters; here bytes are needed.
    let starts: Vec<usize> = content.char_indices().map(|(at, _)| at).collect();
    let byte = |character: usize| starts.get(character).copied().unwrap_or(content.len());
    let mut pieces: Vec<(bool, &str)> = Vec::new();
    let mut from = 0;
    for span in spans.into_iter().flatten() {
        if let (Some(start), Some(end)) = (place(span, 0), place(span, 1)) {
            let (start, end) = (byte(start), byte(end));
            pieces.push((false, content.get(from..start).unwrap_or_default()));
            pieces.push((true, content.get(start..end).unwrap_or_default()));
            from = end;
        }
    }
    pieces.push((false, content.get(from..).unwrap_or_default()));
    html! {
        @for (is_marked, piece) in pieces {
            @if piece.is_empty() {}
            @else if !is_marked { (piece) }
            @else if side == "old" { del { (piece) } }
            @else { ins { (piece) } }
        }
    }
}
