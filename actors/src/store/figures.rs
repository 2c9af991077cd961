//! Figures as the store keeps them: what conversations have come to by interval, and what was made
//! with which credential by day. Whoever counts hands in slices, each exactly once.

use std::collections::BTreeMap;

use super::{Later, ReadError};
use colloquy_model::caller::{CredentialCode, Tenant};
use colloquy_model::conversation::{Channel, Priority};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::figures::{Assigned, Cell, FigureSummary, Figures, Milestones};
use colloquy_model::id::UserId;
use colloquy_model::interval::Interval;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// A making of the figures from the log: another one takes its place where they are made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub i64);

/// How far a generation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenerationMark {
    /// Which generation it is.
    pub generation: Generation,
    /// Everything up to this position is counted in it.
    pub counted: Position,
}

/// The generations that are being kept up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generations {
    /// The one that is shown.
    pub shown: GenerationMark,
    /// The one that is to take its place, where figures are being made anew.
    pub rebuilt: Option<GenerationMark>,
}

/// What events behind one position, up to another, come to: counted whole or not at all.
#[derive(Debug, Clone)]
pub struct FigureSlice {
    /// In which generation it is counted.
    pub generation: Generation,
    /// The position up to which everything is counted before.
    pub behind: Position,
    /// The position up to which everything is counted with this slice.
    pub reached: Position,
    /// What is added to which cell; each stands here once.
    pub cells: Vec<(Cell, Figures)>,
    /// The milestones of conversations from here on; each stands here once.
    pub milestones: Vec<(EntityNumber, Milestones)>,
    /// What is added to what was made; each stands here once.
    pub made: Vec<(MadeCell, Made)>,
    /// Users who have been somebody's assignee: figures are shown by their identifiers, also when
    /// they are no more.
    pub assignees: Vec<UserId>,
}

/// Where it is kept what was made: with which credential, on which day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MadeCell {
    /// The account and mode.
    pub tenant: Tenant,
    /// When the day begins, in UTC.
    pub day: Timestamp,
    /// With what it was made; none: in a session of the console, or by the server itself.
    pub credential: Option<CredentialCode>,
}

impl MadeCell {
    /// The day of the cell of an account and mode that counts what was erased: before all others.
    pub const ERASED: Timestamp = Timestamp::MIN;

    /// The cell of an account and mode that counts what was erased, whenever it was made.
    #[must_use]
    pub fn erased(tenant: Tenant) -> Self {
        MadeCell {
            tenant,
            day: MadeCell::ERASED,
            credential: None,
        }
    }
}

/// How much was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    /// Messages, redacted ones too.
    pub messages: u64,
    /// Documents, deleted ones too.
    pub documents: u64,
    /// By how many bytes the texts that are stored became more; negative where they became fewer.
    pub text_bytes: i64,
}

impl Made {
    /// Adds what others have made.
    pub fn merge(&mut self, others: Made) {
        self.messages += others.messages;
        self.documents += others.documents;
        self.text_bytes += others.text_bytes;
    }
}

/// Which days of an account and mode are asked for.
#[derive(Debug, Clone, Copy)]
pub struct MadeQuery {
    /// The account and mode.
    pub tenant: Tenant,
    /// Days that begin at this instant or later …
    pub from: Timestamp,
    /// … and before this one.
    pub to: Timestamp,
}

/// Whose conversations figures are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignees {
    /// Everybody's and nobody's, together.
    Together,
    /// Each one's for itself, and nobody's.
    Each,
    /// This user's only.
    Only(UserId),
}

/// By what figures are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// By nothing.
    Whole,
    /// By the conversations' channel.
    Channel,
    /// By their priority.
    Priority,
    /// By whose they are.
    Assignee,
}

/// Which figures are asked for.
#[derive(Debug, Clone, Copy)]
pub struct FigureQuery {
    /// Of which account and mode.
    pub tenant: Tenant,
    /// By intervals of this length.
    pub interval: Interval,
    /// Intervals that begin at this instant, at which one begins, or later …
    pub from: Timestamp,
    /// … and before this one.
    pub to: Timestamp,
    /// By what they are told apart.
    pub grouping: Grouping,
    /// Only conversations from this channel.
    pub channel: Option<Channel>,
    /// Only conversations of this priority.
    pub priority: Option<Priority>,
    /// Only this user's conversations.
    pub assignee: Option<UserId>,
    /// How many entries, of an interval and a group, are made at most: with more, reading ends.
    pub entries_max: usize,
}

impl FigureQuery {
    /// Whose cells are to be read.
    #[must_use]
    pub fn assignees(&self) -> Assignees {
        match (self.assignee, self.grouping) {
            (Some(user), _) => Assignees::Only(user),
            (None, Grouping::Assignee) => Assignees::Each,
            (None, Grouping::Whole | Grouping::Channel | Grouping::Priority) => Assignees::Together,
        }
    }

    /// Spans of intervals, without a gap, that end where the asked ones begin: as long ones as there
    /// are, so that what was before costs about the same however long ago it began.
    #[must_use]
    pub fn spans_before(&self) -> [(Interval, Timestamp, Timestamp); 3] {
        let month = Interval::Month.start_of(self.from);
        let day = Interval::Day.start_of(self.from);
        [
            (Interval::Month, Timestamp::MIN, month),
            (Interval::Day, month, day),
            (Interval::Hour, day, self.from),
        ]
    }
}

/// A group of conversations, by what they are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FigureGroup {
    /// All that were asked for.
    Whole,
    /// Those from this channel.
    Channel(Channel),
    /// Those of this priority.
    Priority(Priority),
    /// Those of the user of this number; none: nobody's.
    Assignee(Option<EntityNumber>),
}

impl FigureGroup {
    /// The group that a cell belongs to.
    #[must_use]
    pub fn of(
        grouping: Grouping,
        assigned: Assigned,
        (channel, priority): (Channel, Priority),
    ) -> Self {
        match grouping {
            Grouping::Whole => FigureGroup::Whole,
            Grouping::Channel => FigureGroup::Channel(channel),
            Grouping::Priority => FigureGroup::Priority(priority),
            Grouping::Assignee => FigureGroup::Assignee(match assigned {
                Assigned::Any => None,
                Assigned::To(user) => user,
            }),
        }
    }
}

/// Figures by interval and group, and what was before.
#[derive(Debug, Default)]
pub struct FigureTable {
    /// What happened, by the beginning of the interval and by group: where nothing did, there is no
    /// entry.
    pub entries: BTreeMap<(Timestamp, FigureGroup), FigureSummary>,
    /// How many conversations of a group were open where the first interval begins.
    pub open_before: BTreeMap<FigureGroup, i64>,
    /// The identifiers of the users among the groups.
    pub assignees: BTreeMap<EntityNumber, UserId>,
    /// When the interval begins that is being read, and what its groups have come to so far.
    reading: Option<Timestamp>,
    groups: BTreeMap<FigureGroup, Figures>,
}

impl FigureTable {
    /// Adds a cell. Those of an interval stand together, so that the histograms of one are held at a
    /// time.
    pub(in crate::store) fn add(
        &mut self,
        start: Timestamp,
        group: FigureGroup,
        figures: &Figures,
    ) {
        if self.reading != Some(start) {
            self.end_interval();
            self.reading = Some(start);
        }
        self.groups.entry(group).or_default().merge(figures);
    }

    /// All cells of the interval that is being read were added.
    pub(in crate::store) fn end_interval(&mut self) {
        let Some(start) = self.reading.take() else {
            return;
        };
        for (group, figures) in std::mem::take(&mut self.groups) {
            self.entries.insert((start, group), (&figures).into());
        }
    }

    /// The numbers of the users among the groups, some of them several times.
    pub fn users(&self) -> impl Iterator<Item = EntityNumber> {
        let groups = self.entries.keys().map(|(_, group)| group);
        let groups = groups.chain(self.open_before.keys());
        groups.filter_map(|group| match group {
            FigureGroup::Assignee(user) => *user,
            FigureGroup::Whole | FigureGroup::Channel(_) | FigureGroup::Priority(_) => None,
        })
    }
}

/// Where figures are kept.
pub trait FigureStore: Send + Sync + 'static {
    /// Waits until this process is the one that counts, and finishes what an earlier one left
    /// half-written; gives where to go on.
    fn begin_counting(&self) -> Later<Result<Generations, ReadError>>;

    /// How far each generation has come.
    fn generations(&self) -> Later<Result<Generations, ReadError>>;

    /// Counts a slice, durably; false, and nothing is counted, where its generation does not stand at
    /// the position behind which it begins.
    fn count(&self, slice: Box<FigureSlice>) -> Later<Result<bool, ReadError>>;

    /// The milestones of these conversations in a generation; none of those that have none.
    fn milestones(
        &self,
        generation: Generation,
        conversations: Vec<EntityNumber>,
    ) -> Later<Result<Vec<(EntityNumber, Milestones)>, ReadError>>;

    /// Figures of the generation that is shown.
    fn figures(&self, query: FigureQuery) -> Later<Result<FigureTable, ReadError>>;

    /// What was made, of the generation that is shown, in the order of its cells.
    fn made(&self, query: MadeQuery) -> Later<Result<Vec<(MadeCell, Made)>, ReadError>>;

    /// Begins another generation, unless one is under way; false, and none is begun, where retention
    /// has taken events from the log: figures can't be made from what is left.
    fn begin_rebuild(&self) -> Later<Result<bool, ReadError>>;

    /// Shows the other generation in place of the one that is shown, or gives it up where retention
    /// has taken events meanwhile; false, and nothing is changed, where it has not come as far as the
    /// one that is shown.
    fn end_rebuild(&self) -> Later<Result<bool, ReadError>>;
}
