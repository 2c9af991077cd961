//! The newest events of each account and mode, in memory until they are written into slices. The
//! writer fills it between the fsync and the replies and takes away only what a durable slice
//! holds. So a reader that looks here first and into the file afterwards finds each number in one
//! or the other: nothing needs to be held for it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use rusqlite::Connection;

use super::slices::{self, Entry, SLICE, channel_code};
use super::trails;
use crate::store::FirstRow;
use colloquy_model::commit::Commit;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;

#[derive(Debug)]
struct Tail {
    /// The number of the first entry.
    first: u64,
    entries: VecDeque<Entry>,
    since: Instant,
}

impl Tail {
    /// How many entries reach up to the end of a slice.
    fn whole(&self) -> usize {
        let end = self.first + u64::try_from(self.entries.len()).unwrap_or(0);
        usize::try_from(((end - 1) / SLICE * SLICE + 1).saturating_sub(self.first)).unwrap_or(0)
    }
}

/// Shared: readers of events look here, the writer alone changes it.
#[derive(Debug, Default)]
pub(super) struct RecentEvents(RwLock<HashMap<i64, Tail>>);

impl RecentEvents {
    /// The newest entries of a tenant, with the number of the first. To be asked before the file
    /// is.
    pub(super) fn of(&self, tenant: i64) -> Option<(u64, Vec<Entry>)> {
        self.0
            .read()
            .get(&tenant)
            .map(|tail| (tail.first, tail.entries.iter().copied().collect()))
    }
}

/// Entries that are due to be written.
#[derive(Debug)]
pub(super) struct PendingSegment {
    tenant: i64,
    from: u64,
    entries: Vec<Entry>,
    /// Where what is left of the tenant begins.
    left: Option<Position>,
}

/// Tenants whose entries are written at once.
const MOST: usize = 64;

/// The writer's side: what is due, and from which position a restart has to look.
#[derive(Debug, Default)]
pub(super) struct SegmentWriter {
    fresh: Arc<RecentEvents>,
    noted: Vec<(i64, u64, Entry)>,
    /// The number that comes next in each audit trail.
    trails: HashMap<i64, u64>,
    /// Tenants and trails by the position of their first entry, so the oldest come first.
    waiting: BTreeSet<(Position, i64)>,
    /// Tenants that have a full slice.
    full: BTreeSet<i64>,
    full_since: Option<Instant>,
}

impl SegmentWriter {
    /// With the audit trails as far as they are written.
    pub(super) fn open(connection: &Connection) -> rusqlite::Result<Self> {
        Ok(SegmentWriter {
            trails: trails::numbers(connection)?,
            ..SegmentWriter::default()
        })
    }

    pub(super) fn fresh(&self) -> Arc<RecentEvents> {
        Arc::clone(&self.fresh)
    }

    /// Takes in the rows of a commit that is durable.
    pub(super) fn note(&mut self, commit: &Commit, first: FirstRow) {
        self.note_trails(commit, first);
        if !commit.subject.kind.is_public() {
            return;
        }
        for ((row, number), pos) in commit
            .rows
            .iter()
            .zip(first.number.and_following())
            .zip(first.position.and_following())
        {
            let entry = Entry {
                pos,
                at: commit.at,
                assignee: row
                    .seen
                    .and_then(|seen| seen.assignee)
                    .map_or(EntityNumber::ZERO, |user| user.number()),
                kind: row.kind as u8,
                channel: channel_code(row.seen.map(|seen| seen.channel.code())),
            };
            self.noted.push((commit.tenant.number(), number.0, entry));
        }
    }

    /// Takes in the rows of a commit as records of the audit trails that they belong to.
    fn note_trails(&mut self, commit: &Commit, first: FirstRow) {
        let trails = trails::of(commit);
        for (row, pos) in commit.rows.iter().zip(first.position.and_following()) {
            let entry = trails::entry(commit, row.kind, pos);
            for trail in trails.into_iter().flatten() {
                let next = self.trails.entry(trail).or_insert(1);
                self.noted.push((trail, *next, entry));
                *next += 1;
            }
        }
    }

    /// Shows the readers what was taken in.
    pub(super) fn show(&mut self) {
        if self.noted.is_empty() {
            return;
        }
        let mut tails = self.fresh.0.write();
        let now = Instant::now();
        for (tenant, number, entry) in self.noted.drain(..) {
            let tail = tails.entry(tenant).or_insert_with(|| {
                self.waiting.insert((entry.pos, tenant));
                Tail {
                    first: number,
                    entries: VecDeque::new(),
                    since: now,
                }
            });
            tail.entries.push_back(entry);
            if number % SLICE == 0 && self.full.insert(tenant) {
                self.full_since.get_or_insert(now);
            }
        }
    }

    /// Whole slices, however new.
    pub(super) fn whole(&self) -> Vec<PendingSegment> {
        let tails = self.fresh.0.read();
        let whole = |tenant: &i64| {
            tails
                .get(tenant)
                .map(|tail| PendingSegment::of(*tenant, tail, tail.whole()))
        };
        self.full.iter().take(MOST).filter_map(whole).collect()
    }

    /// What is older than `age`, or has been a whole slice for as long as `whole`.
    pub(super) fn aged(&self, age: Duration, whole: Duration) -> Vec<PendingSegment> {
        let mut due = if self
            .full_since
            .is_some_and(|since| since.elapsed() >= whole)
        {
            self.whole()
        } else {
            Vec::new()
        };
        let tails = self.fresh.0.read();
        for (_, tenant) in &self.waiting {
            let Some(tail) = tails.get(tenant) else {
                continue;
            };
            if due.len() >= MOST || tail.since.elapsed() < age {
                break;
            }
            due.retain(|due| due.tenant != *tenant);
            due.push(PendingSegment::of(*tenant, tail, tail.entries.len()));
        }
        due
    }

    /// Writes what is due into the running transaction. Rows from `end` on are not known here yet.
    pub(super) fn write(
        &self,
        connection: &Connection,
        due: &[PendingSegment],
        end: Position,
    ) -> rusqlite::Result<()> {
        for due in due {
            slices::append(connection, due.tenant, due.from, &due.entries)?;
        }
        let mark = self.low_water(due, end);
        connection
            .prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'fed'")?
            .execute([mark.0])?;
        Ok(())
    }

    /// Where a restart has to begin to look when this is written too.
    fn low_water(&self, due: &[PendingSegment], end: Position) -> Position {
        let writing = |tenant: i64| due.iter().any(|due| due.tenant == tenant);
        let waiting = self
            .waiting
            .iter()
            .find(|(_, tenant)| !writing(*tenant))
            .map(|(pos, _)| *pos);
        due.iter()
            .filter_map(|due| due.left)
            .chain(waiting)
            .min()
            .unwrap_or(end)
    }

    /// What was due is durable in slices.
    pub(super) fn wrote(&mut self, due: &[PendingSegment]) {
        let mut tails = self.fresh.0.write();
        for PendingSegment {
            tenant,
            entries,
            left,
            ..
        } in due
        {
            let Some(tail) = tails.get_mut(tenant) else {
                continue;
            };
            self.full.remove(tenant);
            if let Some(first) = tail.entries.front() {
                self.waiting.remove(&(first.pos, *tenant));
            }
            tail.entries.drain(..entries.len().min(tail.entries.len()));
            tail.first += u64::try_from(entries.len()).unwrap_or(0);
            match left {
                Some(pos) => {
                    tail.since = Instant::now();
                    self.waiting.insert((*pos, *tenant));
                }
                None => {
                    tails.remove(tenant);
                }
            }
        }
        self.full_since = if self.full.is_empty() {
            None
        } else {
            self.full_since
        };
    }
}

impl PendingSegment {
    fn of(tenant: i64, tail: &Tail, count: usize) -> Self {
        let entries = tail.entries.iter().take(count).copied().collect();
        PendingSegment {
            tenant,
            from: tail.first,
            entries,
            left: tail.entries.get(count).map(|entry| entry.pos),
        }
    }
}
