//! What the server did in the last hour and the last day, in memory: the counts that the metrics
//! have anyway, looked at again and again. The overview draws its charts of it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use colloquy_model::time::Timestamp;
use colloquy_runtime::threads::BackgroundThread;
use parking_lot::Mutex;
use serde::{Serialize, Serializer};

use crate::http::{AppState, RequestTotals, bounds_ms};

/// How often the counts are looked at, and how many looks make an hour.
const STEP: Duration = Duration::from_secs(10);
const STEPS_IN_HOUR: usize = 360;
/// How often one of these looks is kept for longer, and how many of them make a day.
const LONG_STEP: Duration = Duration::from_secs(300);
const STEPS_IN_DAY: usize = 288;

/// The counts as they stood at one moment; all but what waits run from the start of the process.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    at: Timestamp,
    requests: RequestTotals,
    messages: u64,
    /// Commands that actors refused with nothing done.
    turned_away: u64,
    delivered: u64,
    retried: u64,
    given_up: u64,
    commits_waiting: u64,
    deliveries_waiting: u64,
}

impl Sample {
    fn take(app: &AppState) -> Self {
        let system = &app.system;
        let kinds = system.supervision.kinds().iter();
        let refused = kinds.flat_map(|kind| kind.overview().refused);
        let deliveries = system.deliveries.metrics();
        let [(_, delivered), (_, retried), (_, given_up)] = deliveries.attempts;
        Sample {
            at: Timestamp::now(),
            requests: app.request_metrics.totals(),
            messages: system.messages_committed(),
            turned_away: refused.map(|(_, count)| count).sum(),
            delivered,
            retried,
            given_up,
            commits_waiting: system.commits_waiting(),
            deliveries_waiting: deliveries.pending,
        }
    }
}

/// What was counted, in two rings: often and for an hour, seldom and for a day.
#[derive(Debug, Default)]
pub(crate) struct History {
    hour: Mutex<VecDeque<Sample>>,
    day: Mutex<VecDeque<Sample>>,
}

/// How far a chart looks back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Span {
    Hour,
    Day,
}

impl Span {
    /// The one with this name; otherwise the hour.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "day" => Span::Day,
            _ => Span::Hour,
        }
    }

    /// How far two points are apart.
    pub(super) fn step(self) -> Duration {
        match self {
            Span::Hour => STEP,
            Span::Day => LONG_STEP,
        }
    }
}

/// Notes the counts from now on, until what is returned is dropped.
///
/// # Errors
/// The system starts no further thread.
pub(crate) fn keep(app: &Arc<AppState>) -> io::Result<BackgroundThread> {
    let app = Arc::clone(app);
    BackgroundThread::start("history", move || {
        let app = Arc::clone(&app);
        async move {
            loop {
                app.history.note(Sample::take(&app));
                tokio::time::sleep(STEP).await;
            }
        }
    })
}

impl History {
    fn note(&self, sample: Sample) {
        put(&mut self.hour.lock(), sample, STEPS_IN_HOUR);
        let mut day = self.day.lock();
        let is_due = |last: &Sample| sample.at.abs_diff(last.at) >= LONG_STEP;
        if day.back().is_none_or(is_due) {
            put(&mut day, sample, STEPS_IN_DAY);
        }
    }

    /// What happened in this span, up to now.
    pub(super) fn series(&self, app: &AppState, span: Span) -> Series {
        let ring = match span {
            Span::Hour => &self.hour,
            Span::Day => &self.day,
        };
        let mut samples: Vec<Sample> = ring.lock().iter().copied().collect();
        let now = Sample::take(app);
        // A last interval of a moment would show a rate that nobody has seen: it becomes part of
        // the one before it.
        let is_short = |last: &Sample| now.at.since(last.at) < span.step() / 2;
        if samples.len() > 1 && samples.last().is_some_and(is_short) {
            samples.pop();
        }
        samples.push(now);
        Series::of(span, &samples)
    }
}

/// Puts one more into a ring, which holds one more than it has steps.
fn put(ring: &mut VecDeque<Sample>, sample: Sample, steps: usize) {
    while ring.len() > steps {
        ring.pop_front();
    }
    ring.push_back(sample);
}

/// What happened between samples: each point stands for the time since the one before.
#[derive(Debug, Serialize)]
pub(super) struct Series {
    pub(super) span: Span,
    /// The end of each interval, in Unix seconds.
    #[serde(serialize_with = "unix_seconds")]
    pub(super) at: Vec<Timestamp>,
    /// How long each interval was, in seconds.
    pub(super) seconds: Vec<f64>,
    pub(super) charts: Vec<Chart>,
}

fn unix_seconds<S: Serializer>(at: &[Timestamp], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(at.iter().map(|at| at.unix_seconds()))
}

/// A chart with its lines.
#[derive(Debug, Serialize)]
pub(super) struct Chart {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What stands behind a value.
    pub(super) unit: &'static str,
    /// Whether the values count what happened in an interval, so that their rate is drawn.
    pub(super) is_count: bool,
    pub(super) lines: Vec<Line>,
}

/// A line of a chart.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) name: &'static str,
    /// One for each interval; none where nothing was measured.
    pub(super) values: Vec<Option<f64>>,
}

impl Series {
    fn of(span: Span, samples: &[Sample]) -> Self {
        let pairs: Vec<(&Sample, &Sample)> = samples.iter().zip(samples.iter().skip(1)).collect();
        Series {
            span,
            at: pairs.iter().map(|(_, end)| end.at).collect(),
            seconds: pairs
                .iter()
                .map(|(begin, end)| end.at.since(begin.at).as_secs_f64())
                .collect(),
            charts: charts(&pairs),
        }
    }

    /// The last value of a line: what happened in the newest interval, or how it stands.
    pub(super) fn latest(&self, chart: &str, line: &str) -> Option<f64> {
        let chart = self.charts.iter().find(|one| one.id == chart)?;
        let line = chart.lines.iter().find(|one| one.name == line)?;
        let value = line.values.last().copied().flatten()?;
        match chart.is_count {
            true => Some(value / self.seconds.last().copied()?.max(0.001)),
            false => Some(value),
        }
    }

    /// How much a line counted in its last points.
    pub(super) fn counted(&self, chart: &str, line: &str, points: usize) -> f64 {
        let mut charts = self.charts.iter().filter(|one| one.id == chart);
        let lines = charts.next().map(|one| one.lines.as_slice());
        let lines = lines.unwrap_or_default().iter();
        lines
            .filter(|one| one.name == line)
            .flat_map(|one| one.values.iter().rev().take(points))
            .flatten()
            .sum()
    }
}

pub(super) const ANSWERED: &str = "Answered";
pub(super) const REFUSED: &str = "Refused (4xx)";
pub(super) const FAILED: &str = "Failed (5xx)";
pub(super) const MEDIAN: &str = "Half within (p50)";
pub(super) const SLOWEST: &str = "99 of 100 within (p99)";
pub(super) const LIMITED: &str = "Over a limit (429)";
pub(super) const TURNED_AWAY: &str = "Turned away by an actor";
pub(super) const MESSAGES: &str = "Messages";

type Pairs<'p> = [(&'p Sample, &'p Sample)];

fn charts(pairs: &Pairs<'_>) -> Vec<Chart> {
    let grown = |name, of: fn(&Sample) -> u64| counts(pairs, name, of);
    let stood = |name, of: fn(&Sample) -> u64| Line {
        name,
        values: pairs.iter().map(|(_, end)| Some(of(end) as f64)).collect(),
    };
    let count = |id, title, lines| Chart {
        id,
        title,
        unit: "a second",
        is_count: true,
        lines,
    };
    let requests = vec![
        grown(ANSWERED, |s| s.requests.answered),
        grown(REFUSED, |s| s.requests.refused + s.requests.limited),
        grown(FAILED, |s| s.requests.failed),
    ];
    let refusals = vec![
        grown("For what they ask", |s| s.requests.refused),
        grown(LIMITED, |s| s.requests.limited),
        grown(TURNED_AWAY, |s| s.turned_away),
    ];
    let deliveries = vec![
        grown("Delivered", |s| s.delivered),
        grown("To be tried again", |s| s.retried),
        grown("Given up", |s| s.given_up),
    ];
    let waiting = vec![
        stood("Commits", |s| s.commits_waiting),
        stood("Deliveries", |s| s.deliveries_waiting),
    ];
    vec![
        count("requests", "Requests", requests),
        latency(pairs),
        count(
            "messages",
            "Messages",
            vec![grown(MESSAGES, |s| s.messages)],
        ),
        count("refusals", "Refusals", refusals),
        count("deliveries", "Webhook deliveries", deliveries),
        Chart {
            id: "waiting",
            title: "What waits",
            unit: "waiting",
            is_count: false,
            lines: waiting,
        },
    ]
}

/// By how much a count grew in each interval.
fn counts(pairs: &Pairs<'_>, name: &'static str, of: fn(&Sample) -> u64) -> Line {
    let grown = |(begin, end): &(&Sample, &Sample)| of(end).saturating_sub(of(begin)) as f64;
    Line {
        name,
        values: pairs.iter().map(|pair| Some(grown(pair))).collect(),
    }
}

fn latency(pairs: &Pairs<'_>) -> Chart {
    let line = |name, share| Line {
        name,
        values: pairs
            .iter()
            .map(|(begin, end)| {
                let ends = end.requests.by_time.iter();
                let begins = &begin.requests.by_time;
                let within: Vec<u64> = ends
                    .zip(begins)
                    .map(|(end, begin)| end.saturating_sub(*begin))
                    .collect();
                quantile(&within, share)
            })
            .collect(),
    };
    Chart {
        id: "latency",
        title: "Latency of requests",
        unit: "ms",
        is_count: false,
        lines: vec![line(MEDIAN, 0.5), line(SLOWEST, 0.99)],
    }
}

/// The time, in milliseconds, within which this share of what was measured was done, taken to be
/// spread evenly in its bucket; none where nothing was measured.
fn quantile(within: &[u64], share: f64) -> Option<f64> {
    let all: u64 = within.iter().sum();
    let rank = (all as f64 * share).ceil();
    let (mut seen, mut lower) = (0.0, 0.0);
    for (count, upper) in within.iter().zip(bounds_ms()) {
        let next = seen + *count as f64;
        if *count > 0 && next >= rank {
            let part = (rank - seen) / *count as f64;
            let value: f64 = lower + (upper - lower) * part;
            return Some((value * 1e3).round() / 1e3);
        }
        (seen, lower) = (next, upper);
    }
    (all > 0).then_some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: i64, answered: u64) -> Sample {
        let mut requests = RequestTotals {
            answered,
            ..RequestTotals::default()
        };
        // All of them between 1 and 2.5 ms.
        if let Some(bucket) = requests.by_time.get_mut(4) {
            *bucket = answered;
        }
        Sample {
            at: Timestamp(seconds * 1_000),
            requests,
            ..Sample::default()
        }
    }

    #[test]
    fn a_point_is_what_happened_since_the_one_before() {
        let series = Series::of(Span::Hour, &[sample(0, 5), sample(10, 25), sample(20, 25)]);
        assert_eq!(series.seconds, [10.0, 10.0]);
        let requests = series.charts.first().and_then(|chart| chart.lines.first());
        let values = requests.map(|line| line.values.clone());
        assert_eq!(values, Some(vec![Some(20.0), Some(0.0)]));
        assert_eq!(series.latest("requests", ANSWERED), Some(0.0));
        assert!((series.counted("requests", ANSWERED, 2) - 20.0).abs() < 1e-9);
        let slowest = series.charts.get(1).and_then(|chart| chart.lines.get(1));
        let slowest = slowest.map(|line| line.values.clone());
        assert_eq!(slowest, Some(vec![Some(2.5), None]));
    }

    #[test]
    fn the_rings_hold_an_hour_and_a_day() {
        let history = History::default();
        for step in 0..2 * STEPS_IN_DAY * 30 {
            let seconds = i64::try_from(step).unwrap_or(0) * 10;
            history.note(sample(seconds, 0));
        }
        let (hour, day) = (history.hour.lock(), history.day.lock());
        let spanned = |ring: &VecDeque<Sample>| {
            let ends = ring.front().zip(ring.back());
            ends.map_or(0, |(first, last)| last.at.since(first.at).as_secs())
        };
        assert_eq!((spanned(&hour), spanned(&day)), (3_600, 86_400));
    }

    #[test]
    fn a_quantile_lies_within_its_bucket() {
        let mut within = vec![0; 15];
        assert_eq!(quantile(&within, 0.5), None);
        if let Some(last) = within.last_mut() {
            *last = 1;
        }
        assert_eq!(quantile(&within, 0.5), Some(5_000.0));
        if let Some(first) = within.first_mut() {
            *first = 99;
        }
        assert_eq!(quantile(&within, 0.99), Some(0.1));
    }
}
