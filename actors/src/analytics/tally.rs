//! Makes slices of what happened: each adds up what a number of events come to, so that many of them
//! cost what few cells cost.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::rules::Occurrence;
use crate::store::{FigureSlice, FigureStore, GenerationMark, Made, MadeCell, ReadError};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::figures::{Cell, Figures, Milestones};
use colloquy_model::id::UserId;
use colloquy_model::interval::Interval;
use colloquy_model::position::Position;

/// Cells of a slice: what it writes holds other commits up.
const CELLS_MAX: usize = 512;
/// Conversations whose milestones are remembered; with more, all are read anew.
const REMEMBERED_MAX: usize = 16_384;

/// What became of events that were handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    /// They are counted.
    Done,
    /// Somebody else has counted meanwhile: who counts begins anew.
    Overtaken,
}

/// Counts in one generation, from where that stands.
pub(super) struct Tally {
    mark: GenerationMark,
    /// Milestones that are known; none of a conversation that has none.
    known: HashMap<EntityNumber, Option<Milestones>>,
}

impl Tally {
    /// Goes on where the generation stands.
    pub(super) fn new(mark: GenerationMark) -> Self {
        Tally {
            mark,
            known: HashMap::new(),
        }
    }

    /// Up to where everything is counted.
    pub(super) fn position(&self) -> Position {
        self.mark.counted
    }

    /// Counts what happened behind its position, up to `reached`.
    ///
    /// # Errors
    /// The store does not say whether it was counted: who counts begins anew.
    pub(super) async fn count(
        &mut self,
        store: &dyn FigureStore,
        occurrences: &[Occurrence],
        reached: Position,
    ) -> Result<Counting, ReadError> {
        self.learn_milestones(store, occurrences).await?;
        let mut left = occurrences;
        while self.mark.counted < reached {
            let mut slice = Slice::default();
            while let Some((next, rest)) = left.split_first()
                && !slice.is_full()
            {
                slice.add(next, &mut self.known);
                left = rest;
            }
            let last = match left.first() {
                Some(next) => next.position.previous(),
                None => reached,
            };
            let counted = store.count(Box::new(slice.finish(self.mark, last))).await?;
            if !counted {
                return Ok(Counting::Overtaken);
            }
            self.mark.counted = last;
        }
        Ok(Counting::Done)
    }

    async fn learn_milestones(
        &mut self,
        store: &dyn FigureStore,
        occurrences: &[Occurrence],
    ) -> Result<(), ReadError> {
        if self.known.len() > REMEMBERED_MAX {
            self.known.clear();
        }
        let needed = occurrences.iter().filter_map(Occurrence::needs_milestones);
        let unknown: BTreeSet<EntityNumber> = needed
            .map(|conversation| conversation.number())
            .filter(|number| !self.known.contains_key(number))
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let asked = unknown.iter().copied().collect();
        let found = store.milestones(self.mark.generation, asked).await?;
        self.known
            .extend(unknown.into_iter().map(|one| (one, None)));
        let found = found.into_iter().map(|(one, found)| (one, Some(found)));
        self.known.extend(found);
        Ok(())
    }
}

/// A slice that is being added up.
#[derive(Default)]
struct Slice {
    cells: BTreeMap<Cell, Figures>,
    milestones: BTreeMap<EntityNumber, Milestones>,
    made: BTreeMap<MadeCell, Made>,
    assignees: BTreeSet<UserId>,
}

impl Slice {
    fn is_full(&self) -> bool {
        self.cells.len() + self.milestones.len() + self.made.len() >= CELLS_MAX
    }

    /// Adds what one event comes to, and remembers what it makes of its conversation.
    fn add(
        &mut self,
        occurrence: &Occurrence,
        known: &mut HashMap<EntityNumber, Option<Milestones>>,
    ) {
        let conversation = occurrence.needs_milestones().map(|one| one.number());
        let before = conversation.and_then(|one| known.get(&one).copied().flatten());
        let counted = occurrence.counted(before);
        let (tenant, at) = (occurrence.tenant, occurrence.at);
        for (group, figures) in &counted.figures {
            for cell in Cell::all(tenant, *group, at) {
                self.cells.entry(cell).or_default().merge(figures);
            }
        }
        if let Some((conversation, milestones)) = conversation.zip(counted.milestones) {
            self.milestones.insert(conversation, milestones);
            known.insert(conversation, Some(milestones));
        }
        self.assignees.extend(counted.assignee);
        if counted.erased_messages > 0 {
            let erased = Made {
                messages: counted.erased_messages,
                ..Made::default()
            };
            let cell = MadeCell::erased(tenant);
            self.made.entry(cell).or_default().merge(erased);
        }
        if counted.made != Made::default() {
            let cell = MadeCell {
                tenant,
                day: Interval::Day.start_of(at),
                credential: occurrence.credential,
            };
            self.made.entry(cell).or_default().merge(counted.made);
        }
    }

    fn finish(self, mark: GenerationMark, reached: Position) -> FigureSlice {
        FigureSlice {
            generation: mark.generation,
            behind: mark.counted,
            reached,
            cells: self.cells.into_iter().collect(),
            milestones: self.milestones.into_iter().collect(),
            made: self.made.into_iter().collect(),
            assignees: self.assignees.into_iter().collect(),
        }
    }
}
