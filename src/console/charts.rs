//! Figures over time, each as a text, a picture and a table that say the same. The script draws the
//! picture of the table beside it (`assets/charts.js`), so the page needs none to be read.

use colloquy_model::interval::Interval;
use colloquy_model::time::Timestamp;
use maud::{Markup, html};

use super::figures::{bytes, duration};
use super::parts::grouped;

/// The lines that a picture has at most: so many can be told apart by their dashes.
pub(super) const DRAWN_MAX: usize = 6;

/// What the page with charts runs, beside what every page does.
pub(super) const SCRIPTS: &[&str] = &["uPlot.iife.min.js", "charts.js"];

/// In what values are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Count,
    Seconds,
    Bytes,
}

impl Unit {
    /// A value for people.
    pub(super) fn words(self, value: f64) -> String {
        match self {
            Unit::Count if value < 0.0 => format!("−{}", grouped(-value as u64)),
            Unit::Count => grouped(value as u64),
            Unit::Seconds => duration(value),
            Unit::Bytes => bytes(value as u64),
        }
    }

    /// As the script knows it.
    fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
        }
    }
}

/// How far apart the rows of a table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Minute,
    Hour,
    Day,
    Month,
}

impl From<Interval> for Step {
    fn from(interval: Interval) -> Self {
        match interval {
            Interval::Hour => Step::Hour,
            Interval::Day => Step::Day,
            Interval::Month => Step::Month,
        }
    }
}

impl Step {
    /// What one interval is called in texts, such as `minute`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Step::Minute => "minute",
            Step::Hour => "hour",
            Step::Day => "day",
            Step::Month => "month",
        }
    }

    /// What stands above them.
    fn head(self) -> &'static str {
        match self {
            Step::Minute => "Minute (UTC)",
            Step::Hour => "Hour (UTC)",
            Step::Day => "Day",
            Step::Month => "Month",
        }
    }

    /// What one is called, by when it begins.
    fn name(self, start: Timestamp) -> String {
        let start = start.to_string();
        let part = match self {
            Step::Minute => start.get(11..16),
            Step::Hour => start.get(..16),
            Step::Day => start.get(..10),
            Step::Month => start.get(..7),
        };
        part.unwrap_or_default().replace('T', " ")
    }
}

/// The intervals over which charts go, oldest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'a> {
    pub(super) step: Step,
    pub(super) starts: &'a [Timestamp],
}

/// A column of a table, and a line of the picture.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) unit: Unit,
    /// One for each interval, oldest first; none where nothing was measured.
    pub(super) values: Vec<Option<f64>>,
    /// Whether the picture has it, too.
    pub(super) is_drawn: bool,
}

impl Line {
    /// All values together.
    pub(super) fn sum(&self) -> f64 {
        self.values.iter().flatten().sum()
    }

    /// The last value; 0 where there is none.
    pub(super) fn last(&self) -> f64 {
        self.values.last().copied().flatten().unwrap_or_default()
    }

    /// The smallest and the largest value, where any was measured.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        let mut values = self.values.iter().flatten().copied();
        let first = values.next()?;
        let wider = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        Some(values.fold((first, first), wider))
    }
}

/// Figures of one kind over time.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What the picture shows, in words.
    pub(super) said: String,
    /// In what the drawn lines are counted.
    pub(super) unit: Unit,
    pub(super) lines: Vec<Line>,
}

/// The charts of a page, over these intervals.
pub(super) fn figures(charts: &[Chart], span: Span<'_>) -> Markup {
    html! {
        @for chart in charts {
            section.card.figure id={ "figure-" (chart.id) } aria-labelledby={ "chart-" (chart.id) } {
                h2 id={ "chart-" (chart.id) } { (chart.title) }
                p.said { (chart.said) }
                div.pictured {
                    div.plot hidden role="img" aria-label={ (chart.title) ": the table beside it says the same" } {}
                    (table(chart, span))
                }
            }
        }
    }
}

fn table(chart: &Chart, Span { step, starts }: Span<'_>) -> Markup {
    html! {
        div.table.low tabindex="0" role="region" aria-label={ (chart.title) " as a table" } {
            table data-unit=(chart.unit.name()) {
                caption.hidden { (chart.title) ", newest first" }
                thead { tr {
                    th { (step.head()) }
                    @for line in &chart.lines { th.number data-drawn[line.is_drawn] { (line.name) } }
                } }
                tbody {
                    @for (row, start) in starts.iter().enumerate().rev() { tr {
                        th scope="row" { time datetime=(start) { (step.name(*start)) } }
                        @for line in &chart.lines { (cell(line.unit, line.values.get(row).copied().flatten())) }
                    } }
                }
            }
        }
    }
}

fn cell(unit: Unit, value: Option<f64>) -> Markup {
    html! { td.number data-value=[value] { (value.map_or("—".to_owned(), |value| unit.words(value))) } }
}
