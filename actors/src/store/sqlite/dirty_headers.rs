//! The view of lagging headers: what lists must add to a conversation's header, because a message's
//! commit does not write it. The writer folds entries into their headers in slices; a folded entry
//! is held on to for longer than any read transaction lives, so that a list that read the older
//! header still finds it.

use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::RwLock;

const SHARDS: usize = 16;
const HELD: Duration = Duration::from_secs(10);

/// A header's numbers as they are now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DirtyHeader {
    /// The number of the conversation's identifier.
    pub(super) conversation: EntityNumber,
    pub(super) tenant: i64,
    pub(super) seq: Sequence,
    /// A position of the commit that made them so: who reads the log up to it sees them.
    pub(super) position: Position,
    pub(super) messages: u64,
    pub(super) last_message_at: Option<Timestamp>,
    pub(super) updated_at: Timestamp,
}

#[derive(Debug)]
struct Entry {
    lag: DirtyHeader,
    tail: u32,
    since: Instant,
    first_pos: Position,
    folded: Option<Instant>,
}

/// Shared: lists read it, the writer alone changes it.
#[derive(Debug, Default)]
pub(super) struct DirtyHeaders {
    shards: [RwLock<HashMap<EntityNumber, Entry>>; SHARDS],
}

impl DirtyHeaders {
    fn shard(&self, n: EntityNumber) -> &RwLock<HashMap<EntityNumber, Entry>> {
        let [first, ..] = &self.shards;
        // The low 12 bits count within a millisecond; the next ones differ between entities.
        self.shards
            .get(usize::try_from((n.0 ^ (n.0 >> 12)) % 16).unwrap_or(0))
            .unwrap_or(first)
    }

    /// The newest numbers, where the header may hold older ones.
    pub(super) fn of(&self, n: EntityNumber) -> Option<DirtyHeader> {
        self.shard(n).read().get(&n).map(|entry| entry.lag)
    }

    /// All entries of a tenant, newest change first.
    pub(super) fn in_scope(&self, tenant: i64) -> Vec<DirtyHeader> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.read();
            let lags = shard.values().map(|entry| entry.lag);
            all.extend(lags.filter(|lag| lag.tenant == tenant));
        }
        all.sort_unstable_by_key(|lag| std::cmp::Reverse((lag.updated_at, lag.conversation)));
        all
    }
}

/// The writer's side: which entries to fold next, and from which position a restart has to look.
#[derive(Debug, Default)]
pub(super) struct HeaderFlusher {
    by_age: VecDeque<(EntityNumber, Instant, Position)>,
    long: Vec<EntityNumber>,
    folded: VecDeque<(EntityNumber, Instant)>,
}

/// A tail as long as this is folded at once.
const TAIL_MAX: u32 = 32;

impl HeaderFlusher {
    /// Takes in rows that left a header behind.
    pub(super) fn note(
        &mut self,
        lagging: &DirtyHeaders,
        lag: DirtyHeader,
        rows: u32,
        pos: Position,
    ) {
        let (now, n) = (Instant::now(), lag.conversation);
        let mut shard = lagging.shard(n).write();
        let entry = shard.entry(n).or_insert(Entry {
            lag,
            tail: 0,
            since: now,
            first_pos: pos,
            folded: Some(now),
        });
        entry.lag = lag;
        if entry.folded.take().is_some() {
            entry.tail = 0;
            entry.since = now;
            entry.first_pos = pos;
            self.by_age.push_back((n, now, pos));
        }
        let before = entry.tail;
        entry.tail = before.saturating_add(rows);
        if before < TAIL_MAX && entry.tail >= TAIL_MAX {
            self.long.push(n);
        }
    }

    /// The header was written: what lists read is as new as this.
    pub(super) fn wrote(&mut self, lagging: &DirtyHeaders, lag: DirtyHeader) {
        let (now, n) = (Instant::now(), lag.conversation);
        let mut shard = lagging.shard(n).write();
        if let Some(entry) = shard.get_mut(&n) {
            entry.lag = lag;
            if entry.folded.is_none() {
                entry.folded = Some(now);
                self.folded.push_back((n, now));
            }
        }
    }

    /// What is due to be folded, at most `most`: long tails, then those older than `age`.
    pub(super) fn due(
        &mut self,
        lagging: &DirtyHeaders,
        age: Duration,
        most: usize,
    ) -> Vec<DirtyHeader> {
        let mut due = Vec::new();
        while due.len() < most
            && let Some(n) = self.long.pop()
        {
            due.extend(unfolded(lagging, n, None));
        }
        while due.len() < most
            && let Some((n, since, _)) = self.by_age.front().copied()
            && (since.elapsed() >= age || unfolded(lagging, n, Some(since)).is_none())
        {
            self.by_age.pop_front();
            due.extend(unfolded(lagging, n, Some(since)));
        }
        due
    }

    /// Puts back what could not be folded.
    pub(super) fn put_back(&mut self, lagging: &DirtyHeaders, due: &[DirtyHeader]) {
        for DirtyHeader {
            conversation: n, ..
        } in due
        {
            let held = lagging
                .shard(*n)
                .read()
                .get(n)
                .map(|entry| (*n, entry.since, entry.first_pos));
            if let Some(entry) = held {
                self.by_age.push_front(entry);
            }
        }
        // The low-water mark is the front's: it must stay the lowest.
        self.by_age
            .make_contiguous()
            .sort_unstable_by_key(|(_, _, pos)| *pos);
    }

    /// Where a restart has to begin to look for lagging headers, if the log ends before `end`.
    pub(super) fn low_water(&self, end: Position) -> Position {
        self.by_age
            .iter()
            .map(|(_, _, pos)| *pos)
            .next()
            .unwrap_or(end)
    }

    /// Lets go of entries that every reader now finds in their headers.
    pub(super) fn release(&mut self, lagging: &DirtyHeaders) {
        while let Some((n, at)) = self.folded.front().copied()
            && at.elapsed() >= HELD
        {
            self.folded.pop_front();
            let mut shard = lagging.shard(n).write();
            if shard.get(&n).is_some_and(|entry| entry.folded == Some(at)) {
                shard.remove(&n);
            }
        }
    }
}

/// The entry's numbers, if its header does not hold them yet.
fn unfolded(
    lagging: &DirtyHeaders,
    n: EntityNumber,
    since: Option<Instant>,
) -> Option<DirtyHeader> {
    let shard = lagging.shard(n).read();
    let entry = shard.get(&n)?;
    let same = since.is_none_or(|since| entry.since == since);
    (entry.folded.is_none() && same).then_some(entry.lag)
}
