//! The one thread that writes. It takes what has gathered, commits it in one durable transaction,
//! hands the batch to the sink, and only then lets the replies go.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use tokio::sync::oneshot;
use tracing::{error, warn};

use super::batch::{Batch, Counts, Delivered, Verdict};
use super::checkpointing::Checkpointing;
use super::deliveries::Care;
use super::delivery_tidying::{self, Tidying};
use super::dirty_headers::{DirtyHeader, DirtyHeaders, HeaderFlusher};
use super::failure::{Failure, judge};
use super::feed_numbers::FeedLeads;
use super::headers::lag_of;
use super::housekeeping::{Behind, Housekeeping};
use super::pace::Phase;
use super::recent_events::{PendingSegment, SegmentWriter};
use super::snapshots::{Asked, Copying};
use super::wal_preallocation::WalPreallocation;
use super::work::{Reloading, Work};
use super::write_queue::{Arrivals, LARGE_MIN};
use super::{chores, codec, figures, frame_parts, loads, nonces, store_key, usage};
use crate::store::writer_metrics::WriterCounters;
use crate::store::{
    CommitSink, Committed, CommittedBatch, DeliverySlice, FirstRow, Settle, SnapshotError,
    Unwritten, Written,
};
use colloquy_model::commit::{Commit, ConstraintViolation, Header};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_runtime::{CommitFailure, Incarnation, threads};

/// Entities whose last sequence is remembered.
const SEQUENCES_MAX: usize = 200_000;

/// What the writing thread begins with.
pub(super) struct WriterParts {
    pub(super) connection: Connection,
    pub(super) counts: Counts,
    pub(super) leads: FeedLeads,
    pub(super) lagging: Arc<DirtyHeaders>,
    pub(super) slicing: SegmentWriter,
    pub(super) sink: Arc<dyn CommitSink>,
    pub(super) housekeeping: Housekeeping,
    pub(super) counters: Arc<WriterCounters>,
    pub(super) healthy: Arc<AtomicBool>,
    /// None where the log can't be lengthened from here.
    pub(super) wal_preallocation: Option<WalPreallocation>,
    pub(super) checkpointing: Checkpointing,
}

/// What the one writing thread has and remembers.
pub(super) struct Writer {
    /// Shared with the copy that is made of the file, in the same thread.
    pub(super) connection: Rc<Connection>,
    pub(super) counts: Counts,
    pub(super) leads: FeedLeads,
    pub(super) sequences: HashMap<EntityNumber, Sequence>,
    pub(super) fold: HeaderFlusher,
    pub(super) lagging: Arc<DirtyHeaders>,
    pub(super) slicing: SegmentWriter,
    pub(super) sink: Arc<dyn CommitSink>,
    pub(super) housekeeping: Housekeeping,
    pub(super) counters: Arc<WriterCounters>,
    pub(super) healthy: Arc<AtomicBool>,
    /// Nothing more of these is taken.
    pub(super) banned: Bans,
    pub(super) tidying: Tidying,
    pub(super) wal_preallocation: Option<WalPreallocation>,
    pub(super) checkpointing: Checkpointing,
    /// Somebody waits for a copy of the file.
    snapshot: Option<Asked>,
}

impl Writer {
    /// Made on the thread that it runs on.
    pub(super) fn of(parts: WriterParts) -> Self {
        let WriterParts {
            connection,
            counts,
            leads,
            lagging,
            slicing,
            sink,
            housekeeping,
            counters,
            healthy,
            wal_preallocation,
            checkpointing,
        } = parts;
        Writer {
            connection: Rc::new(connection),
            counts,
            leads,
            sequences: HashMap::new(),
            fold: HeaderFlusher::default(),
            lagging,
            slicing,
            sink,
            housekeeping,
            counters,
            healthy,
            banned: HashMap::new(),
            tidying: Tidying::default(),
            wal_preallocation,
            checkpointing,
            snapshot: None,
        }
    }

    /// Runs until it is asked to close or every sender is gone.
    pub(super) fn run(mut self, inbox: &Receiver<Work>) {
        let mut arrivals = Arrivals::default();
        while self.turn(inbox, &mut arrivals, Duration::MAX) == Phase::Running {
            if let Some(asked) = self.snapshot.take()
                && self.copy(asked, inbox, &mut arrivals) == Phase::Closing
            {
                break;
            }
        }
        self.finish();
    }

    /// Waits for work, at most so long, and does what has gathered.
    fn turn(
        &mut self,
        inbox: &Receiver<Work>,
        arrivals: &mut Arrivals,
        patience: Duration,
    ) -> Phase {
        let patience = if arrivals.are_left() {
            Duration::ZERO
        } else {
            patience.min(self.housekeeping.tick())
        };
        match inbox.recv_timeout(patience) {
            Ok(first) => arrivals.push(first),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if arrivals.are_left() => {}
            Err(RecvTimeoutError::Disconnected) => return Phase::Closing,
        }
        while !arrivals.are_full()
            && let Ok(next) = inbox.try_recv()
        {
            arrivals.push(next);
        }
        let phase = arrivals.phase();
        let mut batch = arrivals.next(phase);
        self.counters.queue(batch.len());
        self.housekeeping.turn_begins(batch.len());
        self.take(&mut batch);
        self.keep_house(phase);
        phase
    }

    /// Goes on with its turns and copies the file between them. A copy that the end of the store
    /// finds unfinished is given up.
    fn copy(&mut self, asked: Asked, inbox: &Receiver<Work>, arrivals: &mut Arrivals) -> Phase {
        let Asked {
            mut target,
            unsynced,
            reply,
        } = asked;
        let source = Rc::clone(&self.connection);
        let mut copying = match Copying::begin(&source, &mut target, &unsynced) {
            Ok(copying) => copying,
            Err(error) => {
                let _ = reply.send(Err(error));
                return Phase::Running;
            }
        };
        loop {
            let outcome = match copying.step() {
                Ok(false) => None,
                Ok(true) => Some(Ok(self.counts.next_pos.previous())),
                Err(error) => Some(Err(error)),
            };
            if let Some(outcome) = outcome {
                // Whoever asked may have left.
                let _ = reply.send(outcome);
                return Phase::Running;
            }
            let phase = self.turn(inbox, arrivals, copying.rest());
            if phase == Phase::Closing {
                return phase;
            }
            // It would never go on: nobody syncs what it has copied.
            if reply.is_closed() {
                return Phase::Running;
            }
            if let Some(other) = self.snapshot.take() {
                let _ = other.reply.send(Err(SnapshotError::Busy));
            }
        }
    }

    fn finish(self) {
        let Writer {
            connection,
            checkpointing,
            ..
        } = self;
        drop(checkpointing);
        // Everything is durable in the log already; this spares the next start the replay.
        if let Err(error) = connection.pragma_update(None, "wal_checkpoint", "TRUNCATE") {
            warn!(%error, "the log was not checkpointed at the end");
        }
    }

    pub(super) fn take(&mut self, batch: &mut Vec<Work>) {
        if batch.is_empty() {
            return;
        }
        let begun = Instant::now();
        let commits = batch.iter().filter(|work| work.is_commit()).count();
        let verdicts = match self.transact(batch, Care::Whole) {
            Ok(verdicts) => verdicts,
            Err(Failure::Away) => batch
                .iter()
                .map(|_| Err(CommitFailure::Unavailable))
                .collect(),
            Err(Failure::Poisoned) => self.one_by_one(batch),
        };
        let (works, took) = (batch.len(), begun.elapsed());
        self.counters.batch(took);
        self.counters.transaction(works, commits, took);
        self.settle(batch, verdicts);
    }

    /// All of them in one transaction.
    fn transact(&mut self, works: &[Work], care: Care) -> Result<Vec<Outcome>, Failure> {
        if !works.iter().any(Work::writes) {
            return Ok(works.iter().map(|_| Ok(Done::default())).collect());
        }
        self.counts.begin();
        // Headers that are due go along: alone they would cost an fsync of their own.
        let due = self.housekeeping.due(&mut self.fold, &self.lagging);
        let slices = self.slicing.whole();
        let result = self.try_transact(works, care, &due, &slices);
        self.healthy.store(result.is_ok(), Ordering::Relaxed);
        if result.is_ok() {
            for lag in due {
                self.fold.wrote(&self.lagging, lag);
            }
            if !slices.is_empty() {
                self.slicing.wrote(&slices);
            }
        } else {
            self.fold.put_back(&self.lagging, &due);
        }
        result.map_err(|error| {
            self.counts.rewind();
            self.sequences.clear();
            if !self.connection.is_autocommit()
                && let Err(error) = self.connection.execute_batch("ROLLBACK")
            {
                error!(%error, "the transaction can't be rolled back");
                std::process::exit(threads::EXIT_CODE);
            }
            judge(&error)
        })
    }

    fn try_transact(
        &mut self,
        works: &[Work],
        care: Care,
        due: &[DirtyHeader],
        slices: &[PendingSegment],
    ) -> rusqlite::Result<Vec<Outcome>> {
        if self.sequences.len() > SEQUENCES_MAX {
            self.sequences.clear();
        }
        self.connection
            .prepare_cached("BEGIN IMMEDIATE")?
            .execute([])?;
        let verdicts = self.apply_all(works, care)?;
        if !due.is_empty() {
            // The rows of this batch are not known to `fold` yet: a restart has to look from its
            // begin.
            let low_water = self.fold.low_water(self.counts.begun_at());
            super::housekeeping::fold_into(&self.connection, &self.counts, low_water, due)?;
        }
        if !slices.is_empty() {
            self.slicing
                .write(&self.connection, slices, self.counts.begun_at())?;
        }
        let large: usize = works
            .iter()
            .map(Work::bytes)
            .filter(|bytes| *bytes >= LARGE_MIN)
            .sum();
        if large > 0 {
            self.checkpointing.note_large(large);
        }
        if let Some(preallocation) = &mut self.wal_preallocation {
            // Without it, the commit is slower, no more.
            let _ = preallocation.keep();
        }
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        if !due.is_empty() {
            self.counts.written();
        }
        Ok(verdicts)
    }

    /// Applies each of them within the running transaction, in order.
    fn apply_all(&mut self, works: &[Work], care: Care) -> rusqlite::Result<Vec<Outcome>> {
        let mut lost = HashMap::new();
        let mut batch = Batch::new(&self.connection, &mut self.counts, &mut self.sequences);
        let mut verdicts = Vec::with_capacity(works.len());
        for work in works {
            verdicts.push(match work {
                Work::Commit {
                    incarnation,
                    commit,
                    digests,
                    ..
                } => {
                    let entity = commit.subject.number;
                    let is_lost = |bans| is_banned(bans, entity, *incarnation);
                    if is_lost(&self.banned) || is_lost(&lost) {
                        verdicts.push(Err(CommitFailure::Unavailable));
                        continue;
                    }
                    match batch.apply(commit, digests)? {
                        Verdict::Written(first) => Ok(Done::Rows(first)),
                        Verdict::ConstraintViolation(broken) => {
                            Err(CommitFailure::Violated(broken))
                        }
                        Verdict::RevisionConflict => {
                            ban(&mut lost, entity, *incarnation);
                            Err(CommitFailure::Conflict)
                        }
                    }
                }
                Work::PartAhead(part) => Ok(part.put(&self.connection).map(|()| Done::Nothing)?),
                Work::ChoreDone { chore } => {
                    Ok(chores::done(&self.connection, *chore).map(|()| Done::Nothing)?)
                }
                Work::Deliver { slice, .. } => {
                    let delivered = batch.deliver(slice, &mut self.tidying, care)?;
                    Ok(Done::Slice(delivered))
                }
                Work::SpendNonce { nonce, .. } => {
                    Ok(Done::Tried(nonces::spend(&self.connection, nonce)?))
                }
                Work::Rewrap { change, .. } => {
                    Ok(Done::Tried(store_key::rewrap(&self.connection, change)?))
                }
                Work::Figures { change, .. } => {
                    Ok(Done::Tried(figures::change(&self.connection, change)?))
                }
                Work::AddUsage { slice, .. } => {
                    Ok(usage::add(&self.connection, slice).map(|()| Done::Tried(true))?)
                }
                Work::BeginDeliveries { .. } => {
                    Ok(delivery_tidying::forget_gone(&self.connection).map(|()| Done::Nothing)?)
                }
                Work::Barrier { .. }
                | Work::Reload { .. }
                | Work::Snapshot(_)
                | Work::Close { .. } => Ok(Done::Nothing),
            });
        }
        batch.finish()?;
        Ok(verdicts)
    }

    /// One of them can't be written: it alone is to fail.
    fn one_by_one(&mut self, works: &[Work]) -> Vec<Outcome> {
        let mut verdicts: Vec<Outcome> = Vec::with_capacity(works.len());
        for work in works {
            let verdict = match self.transact(std::slice::from_ref(work), Care::Each) {
                Ok(mut one) => one.pop().unwrap_or(Ok(Done::Nothing)),
                Err(Failure::Poisoned) if matches!(work, Work::Deliver { .. }) => {
                    Ok(Done::Unwritable)
                }
                Err(failure) => {
                    warn!(?failure, "a commit could not be written");
                    Err(CommitFailure::Unavailable)
                }
            };
            if let (
                Err(failure),
                Work::Commit {
                    incarnation,
                    commit,
                    ..
                },
            ) = (&verdict, work)
                && !matches!(failure, CommitFailure::Violated(_))
            {
                ban(&mut self.banned, commit.subject.number, *incarnation);
            }
            verdicts.push(verdict);
        }
        verdicts
    }

    /// The output gate: the batch is durable; the sink first, then the replies.
    fn settle(&mut self, batch: &mut Vec<Work>, verdicts: Vec<Outcome>) {
        let mut replies = Replies::default();
        let mut commits = Vec::with_capacity(batch.len());
        for (work, verdict) in batch.drain(..).zip(verdicts) {
            match work {
                Work::Commit {
                    incarnation,
                    commit,
                    settle,
                    ..
                } => {
                    let outcome = self
                        .absorb(incarnation, commit, verdict)
                        .map(|committed| commits.push(committed));
                    replies.settled.push((settle, outcome));
                }
                Work::Barrier {
                    subject,
                    incarnation,
                    settle,
                } => {
                    let lost = is_banned(&self.banned, subject.number, incarnation);
                    let outcome = if lost {
                        Err(CommitFailure::Unavailable)
                    } else {
                        Ok(())
                    };
                    replies.settled.push((settle, outcome));
                }
                Work::Reload { subject, reply } => {
                    self.banned.remove(&subject.number);
                    replies.reloads.push((subject, reply));
                }
                Work::PartAhead(_) | Work::ChoreDone { .. } => {}
                Work::Deliver { slice, reply } => {
                    let outcome = kept(slice, verdict, &mut commits);
                    replies.delivered.push((reply, outcome));
                }
                Work::SpendNonce { reply, .. }
                | Work::Rewrap { reply, .. }
                | Work::Figures { reply, .. }
                | Work::AddUsage { reply, .. } => {
                    if let Ok(Done::Tried(first)) = verdict {
                        replies.tried.push((reply, first));
                    }
                }
                Work::BeginDeliveries { reply } if verdict.is_ok() => replies.begun.push(reply),
                // Dropped, it says that the store is away.
                Work::BeginDeliveries { .. } => {}
                Work::Snapshot(asked) => self.snapshot = Some(asked),
                Work::Close { done } => {
                    let _ = done.send(());
                }
            }
        }
        // Before anybody is told of this batch: who is looks for all of it here.
        self.slicing.show();
        let position = self.counts.next_pos.previous();
        self.sink.committed(CommittedBatch { commits, position });
        replies.send(&self.connection, position);
    }

    /// Notes what one commit leaves to be done behind; gives it to be told of.
    fn absorb(
        &mut self,
        incarnation: Incarnation,
        commit: Box<Commit>,
        verdict: Outcome,
    ) -> Result<Committed, CommitFailure<ConstraintViolation>> {
        let first = match verdict {
            Ok(Done::Rows(first)) => first,
            Ok(Done::Nothing | Done::Slice(_) | Done::Tried(_) | Done::Unwritable) => {
                FirstRow::default()
            }
            Err(failure) => {
                if !matches!(failure, CommitFailure::Violated(_)) {
                    ban(&mut self.banned, commit.subject.number, incarnation);
                }
                if let Some(version) = frame_parts::version_in_parts(&commit) {
                    self.housekeeping.give_up_frame(version);
                }
                return Err(failure);
            }
        };
        self.counters.commit(commit.rows.len());
        self.slicing.note(&commit, first);
        if commit.redacts.is_some() {
            self.housekeeping.erase_messages();
        }
        if commit.erases() {
            self.housekeeping.erase_texts_of_gone();
        }
        // Pages and the log must lose the keys, too.
        if commit.destroys_keys() {
            self.housekeeping.erase_text();
        }
        self.note_header(&commit, first);
        if let Some(name) = commit.new_name() {
            self.housekeeping
                .rename(commit.subject.number, name, commit.expected.next());
        }
        let first = self.leads.shown(commit.tenant, first);
        Ok(Committed { commit, first })
    }

    /// Notes whether a conversation's header stands as its last row says, or lags.
    fn note_header(&mut self, commit: &Commit, first: FirstRow) {
        let Some(lag) = lag_of(commit).filter(|_| commit.subject.kind == Kind::Conversation) else {
            return;
        };
        let lag = DirtyHeader {
            position: first.position,
            ..lag
        };
        match commit.header {
            Header::Unchanged => {
                let rows = u32::try_from(commit.rows.len()).unwrap_or(u32::MAX);
                self.fold.note(&self.lagging, lag, rows, first.position);
            }
            Header::Conversation { .. }
            | Header::ConversationGone { .. }
            | Header::Record { .. }
            | Header::RecordGone
            | Header::RecordErased
            | Header::Document(_)
            | Header::DocumentGone { .. }
            | Header::LinkUsed { .. } => self.fold.wrote(&self.lagging, lag),
        }
    }

    /// What is due: lagging headers, copies of names, keys' last uses, the erasing of the log.
    pub(super) fn keep_house(&mut self, phase: Phase) {
        let Writer {
            connection,
            counts,
            fold,
            lagging,
            slicing,
            sink,
            housekeeping,
            healthy,
            ..
        } = self;
        // What failed before is not well again because nothing is due now; and what is due would
        // wait where commits do.
        let may_fail = phase == Phase::Running && !healthy.load(Ordering::Relaxed);
        if may_fail && !housekeeping.can_write(connection) {
            return;
        }
        if self.checkpointing.is_long() {
            // Long reads one after the other are in the way of its beginning again: as after a
            // redaction, they are kept off.
            housekeeping.erase_log();
        }
        let behind = Behind {
            counts,
            fold,
            lagging,
            slicing,
            sink: &**sink,
        };
        let done = housekeeping.run(connection, behind, phase);
        self.counters
            .renames_waiting(housekeeping.renames_waiting());
        match done {
            Ok(redacted) => {
                self.checkpointing.note_large(redacted);
                healthy.store(true, Ordering::Relaxed);
            }
            Err(error) => {
                healthy.store(false, Ordering::Relaxed);
                if !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err() {
                    std::process::exit(threads::EXIT_CODE);
                }
                let _ = judge(&error);
            }
        }
    }
}

/// An answer, and where it goes.
type Reply<T> = (oneshot::Sender<T>, T);

/// What a batch's callers wait for, sent when the sink has taken the batch in.
#[derive(Default)]
struct Replies {
    settled: Vec<(Settle, Result<(), CommitFailure<ConstraintViolation>>)>,
    delivered: Vec<Reply<Result<Written, Unwritten>>>,
    begun: Vec<oneshot::Sender<Position>>,
    tried: Vec<Reply<bool>>,
    reloads: Vec<(Subject, Reloading)>,
}

impl Replies {
    /// Sends them all. Whoever asked may have left.
    fn send(self, connection: &Connection, position: Position) {
        for (settle, outcome) in self.settled {
            settle(outcome);
        }
        for (reply, outcome) in self.delivered {
            let _ = reply.send(outcome);
        }
        for (reply, first) in self.tried {
            let _ = reply.send(first);
        }
        for reply in self.begun {
            let _ = reply.send(position);
        }
        for (subject, reply) in self.reloads {
            let loaded =
                loads::load(connection, subject).map_err(|error| codec::failed(&error).into());
            let _ = reply.send(loaded);
        }
    }
}

/// Incarnations that lost a commit, by entity.
pub(super) type Bans = HashMap<EntityNumber, Vec<Incarnation>>;

fn ban(bans: &mut Bans, entity: EntityNumber, incarnation: Incarnation) {
    if !is_banned(bans, entity, incarnation) {
        bans.entry(entity).or_default().push(incarnation);
    }
}

fn is_banned(bans: &Bans, entity: EntityNumber, incarnation: Incarnation) -> bool {
    bans.get(&entity)
        .is_some_and(|lost| lost.contains(&incarnation))
}

/// What was written of one work.
#[derive(Debug, Default)]
enum Done {
    #[default]
    Nothing,
    /// A commit's rows, which begin here.
    Rows(FirstRow),
    /// What became of deliveries.
    Slice(Delivered),
    /// Whether a nonce was spent for the first time, the store key was kept as it was said to be, or
    /// figures could be changed; of what accounts used it was written.
    Tried(bool),
    /// Of deliveries nothing, and nothing ever will be.
    Unwritable,
}

type Outcome = Result<Done, CommitFailure<ConstraintViolation>>;

/// What a slice of deliveries came to. Its answers are told of like any commit.
fn kept(
    slice: Box<DeliverySlice>,
    verdict: Outcome,
    commits: &mut Vec<Committed>,
) -> Result<Written, Unwritten> {
    let (written, answers) = match verdict {
        Ok(Done::Slice(delivered)) => delivered,
        Ok(Done::Unwritable) => return Err(Unwritten::Never),
        Ok(Done::Nothing | Done::Rows(_) | Done::Tried(_)) | Err(_) => {
            return Err(Unwritten::NotNow(slice));
        }
    };
    let answers = slice.answers.into_iter().zip(answers);
    commits.extend(answers.map(|(commit, first)| Committed {
        commit: Box::new(commit),
        first,
    }));
    Ok(written)
}
