//! What conversations have come to in an interval: the figures of analytics, and by what they are
//! kept.

use serde::{Deserialize, Serialize};

use crate::caller::Tenant;
use crate::conversation::{Channel, Priority, SenderType};
use crate::durations::{DurationSummary, Durations};
use crate::entity_number::EntityNumber;
use crate::interval::Interval;
use crate::time::Timestamp;

/// What happened in an interval to the conversations of a group.
///
/// Figures of parts add up to the figures of the whole, whichever way they are cut and in whichever
/// order they come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Conversations that were created.
    #[serde(rename = "c", default, skip_serializing_if = "is_zero")]
    pub created: u64,
    /// Conversations that were closed.
    #[serde(rename = "x", default, skip_serializing_if = "is_zero")]
    pub closed: u64,
    /// Conversations that were reopened.
    #[serde(rename = "r", default, skip_serializing_if = "is_zero")]
    pub reopened: u64,
    /// By how many more conversations are open at the end than at the beginning.
    #[serde(rename = "o", default, skip_serializing_if = "is_no_move")]
    pub opened: i64,
    /// Messages that were sent.
    #[serde(rename = "m", default, skip_serializing_if = "Messages::are_none")]
    pub messages: Messages,
    /// From a conversation's creation to the first message of an agent.
    #[serde(rename = "f", default, skip_serializing_if = "Durations::is_empty")]
    pub first_response: Durations,
    /// From a conversation's creation, or its latest reopening, to its closing.
    #[serde(rename = "d", default, skip_serializing_if = "Durations::is_empty")]
    pub resolution: Durations,
}

/// What is shown of figures, without the histograms of their times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FigureSummary {
    /// Conversations that were created.
    pub created: u64,
    /// Conversations that were closed.
    pub closed: u64,
    /// Conversations that were reopened.
    pub reopened: u64,
    /// By how many more conversations are open at the end than at the beginning.
    pub opened: i64,
    /// Messages that were sent.
    pub messages: Messages,
    /// From a conversation's creation to the first message of an agent.
    pub first_response: DurationSummary,
    /// From a conversation's creation, or its latest reopening, to its closing.
    pub resolution: DurationSummary,
}

impl From<&Figures> for FigureSummary {
    fn from(figures: &Figures) -> Self {
        FigureSummary {
            created: figures.created,
            closed: figures.closed,
            reopened: figures.reopened,
            opened: figures.opened,
            messages: figures.messages,
            first_response: figures.first_response.summary(),
            resolution: figures.resolution.summary(),
        }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_no_move(by: &i64) -> bool {
    *by == 0
}

/// How many messages were sent, by who sent them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// By the company's customer.
    #[serde(rename = "c", default, skip_serializing_if = "is_zero")]
    pub customer: u64,
    /// By somebody, or a bot, of the company.
    #[serde(rename = "a", default, skip_serializing_if = "is_zero")]
    pub agent: u64,
    /// By the software itself.
    #[serde(rename = "s", default, skip_serializing_if = "is_zero")]
    pub system: u64,
}

impl Messages {
    fn are_none(&self) -> bool {
        *self == Messages::default()
    }

    /// Counts one more message of this sender.
    pub fn add(&mut self, sender: SenderType) {
        match sender {
            SenderType::Customer => self.customer += 1,
            SenderType::Agent => self.agent += 1,
            SenderType::System => self.system += 1,
        }
    }

    /// Adds the messages of others, sender by sender.
    pub fn merge(&mut self, others: Messages) {
        self.customer += others.customer;
        self.agent += others.agent;
        self.system += others.system;
    }
}

impl Figures {
    /// Adds what others have come to.
    pub fn merge(&mut self, others: &Figures) {
        self.created += others.created;
        self.closed += others.closed;
        self.reopened += others.reopened;
        self.opened += others.opened;
        self.messages.merge(others.messages);
        self.first_response.merge(&others.first_response);
        self.resolution.merge(&others.resolution);
    }
}

/// The milestones of a conversation from which the times of later events are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Milestones {
    /// When it was created, or reopened last.
    pub opened_at: Timestamp,
    /// Whether an agent has written.
    pub is_answered: bool,
}

impl Milestones {
    /// Of a conversation that was created then.
    #[must_use]
    pub fn new(created_at: Timestamp) -> Self {
        Milestones {
            opened_at: created_at,
            is_answered: false,
        }
    }
}

/// To which group a conversation belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// The channel through which its customer came.
    pub channel: Channel,
    /// Its priority, as of the event that is counted.
    pub priority: Priority,
    /// Whose it is; none: nobody's.
    pub assignee: Option<EntityNumber>,
}

/// Whose conversations a cell's figures are about.
///
/// Figures are kept twice, so that those of everybody cost the same however many people there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Assigned {
    /// Everybody's, and nobody's.
    Any,
    /// This user's; none: nobody's.
    To(Option<EntityNumber>),
}

impl Assigned {
    const ANY: i64 = -1;
    /// No user has this number.
    const NOBODY: i64 = 0;

    /// The number by which stores write it.
    #[must_use]
    pub fn code(self) -> i64 {
        match self {
            Assigned::Any => Self::ANY,
            Assigned::To(user) => user.map_or(Self::NOBODY, |EntityNumber(user)| {
                i64::try_from(user).unwrap_or(i64::MAX)
            }),
        }
    }

    /// Reads back what [`Assigned::code`] gave.
    #[must_use]
    pub fn from_code(code: i64) -> Self {
        match code {
            Self::ANY => Assigned::Any,
            user => {
                let user = u64::try_from(user).ok().filter(|user| *user != 0);
                Assigned::To(user.map(EntityNumber))
            }
        }
    }
}

/// Where figures are kept: one cell for each interval of each length in which something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell {
    /// Whose they are.
    pub tenant: Tenant,
    /// How long the interval is.
    pub interval: Interval,
    /// Whose conversations they are about.
    pub assigned: Assigned,
    /// From which channel.
    pub channel: Channel,
    /// Of which priority.
    pub priority: Priority,
    /// When the interval begins.
    pub start: Timestamp,
}

impl Cell {
    /// The cells of what happens to a group at an instant.
    pub fn all(tenant: Tenant, group: Group, at: Timestamp) -> impl Iterator<Item = Cell> {
        let assigned = [Assigned::Any, Assigned::To(group.assignee)];
        assigned.into_iter().flat_map(move |assigned| {
            Interval::ALL.iter().map(move |interval| Cell {
                tenant,
                interval: *interval,
                assigned,
                channel: group.channel,
                priority: group.priority,
                start: interval.start_of(at),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_figures() -> impl Strategy<Value = Figures> {
        let counts = (0..9_u64, 0..9_u64, 0..9_u64, -9..9_i64);
        let messages = prop::collection::vec(0..3_usize, 0..9);
        let times = prop::collection::vec(0..100_000_u64, 0..9);
        (counts, messages, times.clone(), times).prop_map(
            |(counts, messages, first, resolution)| {
                let (created, closed, reopened, opened) = counts;
                let mut figures = Figures {
                    created,
                    closed,
                    reopened,
                    opened,
                    ..Figures::default()
                };
                let senders = messages
                    .iter()
                    .filter_map(|index| SenderType::ALL.get(*index));
                senders.for_each(|sender| figures.messages.add(*sender));
                first.iter().for_each(|ms| figures.first_response.add(*ms));
                resolution.iter().for_each(|ms| figures.resolution.add(*ms));
                figures
            },
        )
    }

    proptest! {
        #[test]
        fn parts_add_up_in_any_order_and_come_back_from_what_is_stored(first in any_figures(), second in any_figures()) {
            let (mut one, mut other) = (first.clone(), second.clone());
            one.merge(&second);
            other.merge(&first);
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(one.created, first.created + second.created);
            prop_assert_eq!(one.messages.agent, first.messages.agent + second.messages.agent);
            let stored = serde_json::to_string(&one).unwrap_or_default();
            prop_assert_eq!(serde_json::from_str::<Figures>(&stored).ok(), Some(one));
        }
    }

    #[test]
    fn whose_conversations_a_cell_is_about_reads_back_as_itself() {
        let user = Assigned::To(Some(EntityNumber(7)));
        for assigned in [Assigned::Any, Assigned::To(None), user] {
            assert_eq!(Assigned::from_code(assigned.code()), assigned);
        }
    }

    #[test]
    fn what_happens_is_counted_for_each_length_of_interval_for_its_assignee_and_for_all() {
        let group = Group {
            channel: Channel::Email,
            priority: Priority::High,
            assignee: Some(EntityNumber(7)),
        };
        let at = "2026-11-24T12:34:56.789Z".parse().unwrap_or_default();
        let cells: Vec<_> = Cell::all(Tenant::OPERATORS, group, at).collect();
        assert_eq!(cells.len(), 6);
        for assigned in [Assigned::Any, Assigned::To(Some(EntityNumber(7)))] {
            let of_this = cells.iter().filter(|cell| cell.assigned == assigned);
            let starts: Vec<_> = of_this.map(|cell| cell.start.to_string()).collect();
            let expected = ["2026-11-24T12:00", "2026-11-24T00:00", "2026-11-01T00:00"];
            assert_eq!(starts, expected.map(|start| format!("{start}:00.000Z")));
        }
    }
}
