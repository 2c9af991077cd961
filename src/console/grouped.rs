//! Charts by group: one for each kind of figure, with a line for each channel, agent or key.

use std::collections::HashMap;

use colloquy_model::time::Timestamp;
use serde_json::Value;

use super::charts::{Chart, DRAWN_MAX, Line, Span, Step, Unit};

/// A group of an answer, which has a line of its own.
#[derive(Debug)]
pub(super) struct Group {
    /// As the interface writes it; empty where it writes null.
    word: String,
    /// The name that the page shows for the group.
    name: String,
}

impl Group {
    /// The groups of these words, each with its name. Who share a name are told apart by the end of their word.
    pub(super) fn all(words: &[&str], names: &[String]) -> Vec<Self> {
        let is_shared = |name: &String| names.iter().filter(|one| *one == name).count() > 1;
        let groups = words.iter().zip(names).map(|(word, name)| Group {
            word: (*word).to_owned(),
            name: match is_shared(name) {
                true => format!("{} {}", isolated(name), end(word)),
                false => isolated(name),
            },
        });
        groups.collect()
    }

    /// The word and the name.
    pub(super) fn named(&self) -> (&str, &str) {
        (&self.word, &self.name)
    }
}

/// A name that leaves the direction of what stands around it alone (Unicode's Bidirectional
/// Algorithm, UAX #9): numbers beside it are read as they are written.
fn isolated(name: &str) -> String {
    const FIRST_STRONG_ISOLATE: char = '\u{2068}';
    const POP_ISOLATE: char = '\u{2069}';
    let is_mark = |one: &char| matches!(one, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Letters that are written from right to left stand in these blocks.
    let is_leftward = |one: char| matches!(one, '\u{0590}'..='\u{08ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}');
    let plain: String = name.chars().filter(|one| !is_mark(one)).collect();
    match plain.chars().any(is_leftward) {
        true => format!("{FIRST_STRONG_ISOLATE}{plain}{POP_ISOLATE}"),
        false => plain,
    }
}

/// The end of an identifier, by which it is told from others; they begin alike.
pub(super) fn end(id: &str) -> String {
    const SHOWN: usize = 8;
    let left_out = id.chars().count().saturating_sub(SHOWN);
    format!("…{}", id.chars().skip(left_out).collect::<String>())
}

/// How a kind of figure is put into words for all groups.
#[derive(Debug, Clone, Copy)]
pub(super) enum Said {
    /// What is counted adds up over time.
    Sum,
    /// How it stands at the end.
    Last,
    /// How long it took, if it was ever done.
    Took(&'static str),
}

/// A column of the table and its chart: which figure of the answer it shows, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: Unit,
    /// The figure of an entry.
    pub(super) of: fn(&Value) -> Option<f64>,
    pub(super) said: Said,
}

/// The entries of an answer, by when their interval begins and by their group's word.
pub(super) type Entries<'a> = HashMap<(Timestamp, &'a str), &'a Value>;

/// The charts of these entries; none where there is no group.
pub(super) fn charts(
    kinds: &[Kind],
    entries: &Entries<'_>,
    groups: &[Group],
    span: Span<'_>,
) -> Vec<Chart> {
    if groups.is_empty() {
        return Vec::new();
    }
    let chart = |kind: &Kind| {
        let lines = groups.iter().enumerate().map(|(index, group)| {
            let value = |start: &Timestamp| match entries.get(&(*start, group.word.as_str())) {
                Some(entry) => (kind.of)(entry),
                // A group to which nothing happened is left out of the answer.
                None => matches!(kind.said, Said::Sum | Said::Last).then_some(0.0),
            };
            Line {
                name: group.name.clone(),
                unit: kind.unit,
                values: span.starts.iter().map(value).collect(),
                is_drawn: index < DRAWN_MAX,
            }
        });
        let lines: Vec<Line> = lines.collect();
        Chart {
            id: kind.id,
            title: kind.title,
            said: said(kind, &lines, span.step),
            unit: kind.unit,
            lines,
        }
    };
    kinds.iter().map(chart).collect()
}

/// What the lines show, in words: each of those with the most, and how many others there are.
fn said(kind: &Kind, lines: &[Line], step: Step) -> String {
    let words = match kind.said {
        Said::Sum => counts("in all", kind.unit, lines, Line::sum),
        Said::Last => counts("at the end", kind.unit, lines, Line::last),
        Said::Took(done) => times(done, lines, step),
    };
    match lines.len() > DRAWN_MAX {
        true => format!("{words} The picture has the first {DRAWN_MAX} columns of the table."),
        false => words,
    }
}

fn counts(when: &str, unit: Unit, lines: &[Line], of: fn(&Line) -> f64) -> String {
    let mut counted: Vec<(&str, f64)> = lines
        .iter()
        .map(|line| (line.name.as_str(), of(line)))
        .filter(|(_, count)| *count != 0.0)
        .collect();
    counted.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let all: f64 = counted.iter().map(|(_, count)| count).sum();
    let all = unit.words(all);
    if counted.is_empty() {
        return format!("{all} {when}.");
    }
    let each = |(name, count): &(&str, f64)| format!("{name} {}", unit.words(*count));
    format!("{all} {when}: {}.", listed(&counted, each))
}

fn times(done: &str, lines: &[Line], step: Step) -> String {
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
    format!("The median of each {}: {each}.", step.word())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_turns_no_number_beside_it_around() {
        let names = [
            "Ada Byron",
            "Ann \u{202e}evil",
            "\u{5d3}\u{5e0}\u{5d4}",
            "\u{2069}x",
        ];
        let shown = names.map(isolated);
        let expected = [
            "Ada Byron",
            "Ann evil",
            "\u{2068}\u{5d3}\u{5e0}\u{5d4}\u{2069}",
            "x",
        ];
        assert_eq!(shown, expected);
    }
}
