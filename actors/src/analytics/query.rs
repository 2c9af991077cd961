//! What is asked of figures, and how it is shown: an entry for each interval and group.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Analytics;
use crate::store::{FigureGroup, FigureQuery, FigureTable, Grouping, ListFailure};
use colloquy_model::answer::Invalid;
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{Channel, Priority};
use colloquy_model::durations::DurationSummary;
use colloquy_model::figures::FigureSummary;
use colloquy_model::id::UserId;
use colloquy_model::interval::Interval;
use colloquy_model::time::Timestamp;

/// Entries of one answer, of an interval and a group each.
const ENTRIES_MAX: u64 = 10_000;
/// Figures are shown from so long ago on, unless the caller says otherwise.
const SHOWN_FOR: Duration = Duration::from_hours(30 * 24);

colloquy_model::coded_enum! {
    /// By what figures are told apart; as it was at the end of each event.
    GroupBy {
        /// The conversation's channel.
        Channel = 0 "channel",
        /// Its priority.
        Priority = 1 "priority",
        /// Whose it is.
        AssigneeId = 2 "assignee_id",
    }
}

/// Which figures are asked for.
#[derive(Debug, Clone, Copy)]
pub struct AnalyticsQuery {
    /// Of which account and mode.
    pub tenant: Tenant,
    /// Where the first interval begins; none: 30 days before the last one.
    pub from: Option<Timestamp>,
    /// Where the interval behind the last one begins; none: behind the interval of now.
    pub to: Option<Timestamp>,
    /// How long an interval is.
    pub interval: Interval,
    /// By what figures are told apart.
    pub group_by: Option<GroupBy>,
    /// Only conversations from this channel.
    pub channel: Option<Channel>,
    /// Only conversations of this priority.
    pub priority: Option<Priority>,
    /// Only this user's conversations.
    pub assignee: Option<UserId>,
}

/// A list of figures.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ConversationAnalytics)]
pub struct FigureList {
    /// Oldest first, and within an interval by group.
    pub data: Vec<Entry>,
    /// What was asked for.
    pub meta: FigureListMeta,
}

/// What a list of figures was asked for.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = ConversationAnalyticsMeta)]
pub struct FigureListMeta {
    /// Where the first interval begins.
    pub from: Timestamp,
    /// Where the interval behind the last one begins.
    pub to: Timestamp,
    /// How long an interval is.
    pub interval: Interval,
    /// By what figures are told apart.
    pub group_by: Option<GroupBy>,
}

/// What conversations of a group have come to in an interval.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ConversationFigures)]
pub struct Entry {
    /// When the interval begins.
    pub start: Timestamp,
    /// The channel, the priority or the user's id; null for conversations of nobody, and without
    /// `group_by`.
    pub group: Option<String>,
    /// Conversations that were created.
    pub created: u64,
    /// Conversations that were closed.
    pub closed: u64,
    /// Conversations that were reopened.
    pub reopened: u64,
    /// Conversations that are not closed when the interval ends.
    pub open_at_end: i64,
    /// Messages that were sent, by who sent them.
    pub messages: MessageFigures,
    /// From creation to the first message of an agent, counted where that message is.
    pub first_response_seconds: DurationFigures,
    /// From creation, or the latest reopening, to closing, counted where it closes.
    pub resolution_seconds: DurationFigures,
}

/// Messages that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct MessageFigures {
    /// By the company's customers.
    pub customer: u64,
    /// By agents.
    pub agent: u64,
    /// By the system.
    pub system: u64,
}

/// How long something took; null where nothing was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct DurationFigures {
    /// How many were counted.
    pub count: u64,
    /// Their mean, exact to the millisecond (half up).
    pub mean: Option<Seconds>,
    /// The median.
    pub p50: Option<Seconds>,
    /// Nine of ten took no longer.
    pub p90: Option<Seconds>,
    /// 99 of 100 took no longer.
    pub p99: Option<Seconds>,
}

/// Whole milliseconds, shown as seconds with three digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(value_type = f64)]
pub struct Seconds(pub u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // As a floating point number it would lose its last zeros.
        let number = RawValue::from_string(self.to_string());
        number
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

impl From<DurationSummary> for DurationFigures {
    fn from(summary: DurationSummary) -> Self {
        DurationFigures {
            count: summary.count,
            mean: summary.mean_ms.map(Seconds),
            p50: summary.p50_ms.map(Seconds),
            p90: summary.p90_ms.map(Seconds),
            p99: summary.p99_ms.map(Seconds),
        }
    }
}

impl AnalyticsQuery {
    /// The intervals that are asked for, as of now.
    fn span(&self, now: Timestamp) -> Result<(Timestamp, Timestamp), Invalid> {
        let interval = self.interval;
        let on_interval = |field: &'static str, at: Timestamp| {
            if interval.begins_at(at) {
                return Ok(at);
            }
            let word = interval.word();
            Err(Invalid::new(
                field,
                format!("must be the instant at which one of the intervals ({word}, UTC) begins"),
            ))
        };
        let to = match self.to {
            Some(to) => on_interval("to", to)?,
            None => interval.next(interval.start_of(now)),
        };
        let from = match self.from {
            Some(from) => on_interval("from", from)?,
            None => {
                let last = if self.to.is_some() { to } else { now };
                let day = Interval::Day.start_of(last);
                interval.start_of(day - SHOWN_FOR)
            }
        };
        if from >= to {
            let field = if self.from.is_some() { "from" } else { "to" };
            return Err(Invalid::new(field, "must be an instant before `to`"));
        }
        if interval.count(from, to) > ENTRIES_MAX {
            return Err(too_many("from"));
        }
        Ok((from, to))
    }

    fn grouping(&self) -> Grouping {
        match self.group_by {
            None => Grouping::Whole,
            Some(GroupBy::Channel) => Grouping::Channel,
            Some(GroupBy::Priority) => Grouping::Priority,
            Some(GroupBy::AssigneeId) => Grouping::Assignee,
        }
    }
}

fn too_many(field: &'static str) -> Invalid {
    Invalid::new(
        field,
        format!(
            "must leave at most {ENTRIES_MAX} entries: fewer intervals, longer ones or fewer groups"
        ),
    )
}

impl Analytics {
    /// What conversations have come to, as far as it was acknowledged before.
    ///
    /// # Errors
    /// Something of the query makes no sense, the store is away, or what was acknowledged is not
    /// counted in time.
    pub async fn conversations(&self, query: AnalyticsQuery) -> Result<FigureAnswer, ListFailure> {
        let span = query.span(Timestamp::now());
        let (from, to) = span.map_err(ListFailure::Invalid)?;
        self.catch_up().await?;
        let table = self.shared.store.figures(FigureQuery {
            tenant: query.tenant,
            interval: query.interval,
            from,
            to,
            grouping: query.grouping(),
            channel: query.channel,
            priority: query.priority,
            assignee: query.assignee,
            entries_max: usize::try_from(ENTRIES_MAX).unwrap_or(usize::MAX),
        });
        let table = table.await?;
        let meta = FigureListMeta {
            from,
            to,
            interval: query.interval,
            group_by: query.group_by,
        };
        if groups(&table, query.group_by).len() as u64 * query.interval.count(from, to)
            > ENTRIES_MAX
        {
            return Err(ListFailure::Invalid(too_many("group_by")));
        }
        Ok(FigureAnswer { table, meta })
    }
}

/// Figures as they were read: the list of them can be long, and is made where that holds nobody up.
pub struct FigureAnswer {
    table: FigureTable,
    meta: FigureListMeta,
}

impl FigureAnswer {
    /// The list that is shown.
    #[must_use]
    pub fn list(&self) -> FigureList {
        FigureList {
            data: entries(&self.table, self.meta),
            meta: self.meta,
        }
    }
}

/// The groups that have an entry anywhere; the whole has one everywhere.
fn groups(table: &FigureTable, group_by: Option<GroupBy>) -> BTreeSet<FigureGroup> {
    let mut groups: BTreeSet<FigureGroup> = table.entries.keys().map(|(_, group)| *group).collect();
    let open = table.open_before.iter().filter(|(_, open)| **open != 0);
    groups.extend(open.map(|(group, _)| *group));
    if group_by.is_none() {
        groups.insert(FigureGroup::Whole);
    }
    groups
}

fn entries(table: &FigureTable, meta: FigureListMeta) -> Vec<Entry> {
    let groups = groups(table, meta.group_by);
    let nothing = FigureSummary::default();
    let mut open: BTreeMap<FigureGroup, i64> = table.open_before.clone();
    let mut entries = Vec::new();
    for start in meta.interval.starts(meta.from, meta.to) {
        for group in &groups {
            let figures = table.entries.get(&(start, *group)).unwrap_or(&nothing);
            let open = open.entry(*group).or_default();
            *open += figures.opened;
            let is_nothing = *open == 0 && is_zero(figures);
            if is_nothing && *group != FigureGroup::Whole {
                continue;
            }
            entries.push(entry(start, name(*group, table), figures, *open));
        }
    }
    entries
}

/// Whether nothing is to be shown of it; what moved there and back has left nothing.
fn is_zero(figures: &FigureSummary) -> bool {
    *figures
        == FigureSummary {
            opened: figures.opened,
            ..FigureSummary::default()
        }
}

fn entry(start: Timestamp, group: Option<String>, figures: &FigureSummary, open: i64) -> Entry {
    let messages = figures.messages;
    Entry {
        start,
        group,
        created: figures.created,
        closed: figures.closed,
        reopened: figures.reopened,
        open_at_end: open,
        messages: MessageFigures {
            customer: messages.customer,
            agent: messages.agent,
            system: messages.system,
        },
        first_response_seconds: figures.first_response.into(),
        resolution_seconds: figures.resolution.into(),
    }
}

fn name(group: FigureGroup, table: &FigureTable) -> Option<String> {
    match group {
        FigureGroup::Whole | FigureGroup::Assignee(None) => None,
        FigureGroup::Channel(channel) => Some(channel.word().to_owned()),
        FigureGroup::Priority(priority) => Some(priority.word().to_owned()),
        FigureGroup::Assignee(Some(user)) => table.assignees.get(&user).map(UserId::to_string),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-24T12:34:56.789Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap_or(Timestamp::MIN)
    }

    fn query(interval: Interval, from: Option<&str>, to: Option<&str>) -> AnalyticsQuery {
        AnalyticsQuery {
            tenant: Tenant::OPERATORS,
            from: from.map(at),
            to: to.map(at),
            interval,
            group_by: None,
            channel: None,
            priority: None,
            assignee: None,
        }
    }

    #[test]
    fn by_default_the_last_thirty_days_and_today_are_shown() {
        for (interval, from, to) in [
            (
                Interval::Day,
                "2026-10-25T00:00:00Z",
                "2026-11-25T00:00:00Z",
            ),
            (
                Interval::Hour,
                "2026-10-25T00:00:00Z",
                "2026-11-24T13:00:00Z",
            ),
            (
                Interval::Month,
                "2026-10-01T00:00:00Z",
                "2026-12-01T00:00:00Z",
            ),
        ] {
            let span = query(interval, None, None).span(at(NOW));
            assert_eq!(span, Ok((at(from), at(to))), "{interval:?}");
        }
    }

    #[test]
    fn a_span_that_makes_no_sense_is_refused_by_its_field() {
        let day = "2026-11-24T00:00:00Z";
        for (from, to, field) in [
            (Some("2026-11-24T00:00:00.001Z"), None, "from"),
            (None, Some("2026-11-24T01:00:00Z"), "to"),
            (Some(day), Some(day), "from"),
            (Some("2026-11-25T00:00:00Z"), None, "from"),
            (Some("1990-01-01T00:00:00Z"), Some(day), "from"),
        ] {
            let refused = query(Interval::Day, from, to).span(at(NOW));
            assert_eq!(refused.map_err(|refused| refused.field), Err(field));
        }
    }

    #[test]
    fn seconds_are_shown_with_three_digits() {
        let shown = serde_json::to_string(&[Seconds(129), Seconds(61_100), Seconds(0)]);
        assert_eq!(shown.ok().as_deref(), Some("[0.129,61.100,0.000]"));
    }
}
