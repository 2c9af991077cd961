//! A journal in memory that can be held, made to fail, and that fences by revision. Its writer is a
//! thread, or whoever submits (for tests on paused time, which must not wait for another thread).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot};

use super::ledger::{Append, Ledger, Violation};
use crate::{BoxFuture, CommitFailure, Incarnation, Journal, LoadError, Settle};
use colloquy_model::sequence::Sequence;

enum Job {
    Commit(Incarnation, Append, Settle<Violation>),
    Barrier(Incarnation, Settle<Violation>),
    Reload(u64, oneshot::Sender<Ledger>),
}

#[derive(Default)]
struct Inner {
    jobs: VecDeque<Job>,
    is_held: bool,
    is_closed: bool,
    rows: HashMap<u64, Vec<u64>>,
    kept: Vec<u64>,
    banned: HashSet<Incarnation>,
    failing: HashMap<u64, CommitFailure<Violation>>,
    loads: Loads,
    lookups: Lookups,
}

#[derive(Default)]
struct Loads {
    fail: bool,
    are_held: bool,
    panic: usize,
    count: usize,
    now: usize,
    max: usize,
}

/// The outcome of lookups.
#[derive(Clone, Copy, Default)]
pub(super) enum Lookups {
    #[default]
    Succeed,
    Fail,
    Panic,
}

/// The journal and its switches.
pub(super) struct MemoryJournal {
    inner: Mutex<Inner>,
    work: Condvar,
    loads_released: Notify,
    writer: Writer,
}

/// Who does what is queued.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    Thread,
    Submitter,
}

/// A journal whose writer is a thread.
pub(super) fn threaded() -> Arc<MemoryJournal> {
    let journal = MemoryJournal::new(Writer::Thread);
    let writer = Arc::clone(&journal);
    thread::spawn(move || writer.write());
    journal
}

/// A journal in which whoever submits writes at once.
pub(super) fn inline() -> Arc<MemoryJournal> {
    MemoryJournal::new(Writer::Submitter)
}

impl MemoryJournal {
    fn new(writer: Writer) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::default(),
            work: Condvar::new(),
            loads_released: Notify::new(),
            writer,
        })
    }

    /// Lets commits, barriers and reloads queue up.
    pub(super) fn hold(&self) {
        self.inner.lock().is_held = true;
    }

    /// Does what is queued.
    pub(super) fn release(&self) {
        self.inner.lock().is_held = false;
        self.run();
    }

    /// How many jobs are queued.
    pub(super) fn queued(&self) -> usize {
        self.inner.lock().jobs.len()
    }

    /// Lets the commit with this number fail once.
    pub(super) fn fail(&self, number: u64, failure: CommitFailure<Violation>) {
        self.inner.lock().failing.insert(number, failure);
    }

    /// Drops everything that is queued without an answer.
    pub(super) fn lose(&self) {
        let lost = std::mem::take(&mut self.inner.lock().jobs);
        drop(lost);
    }

    /// Lets loads wait.
    pub(super) fn hold_loads(&self) {
        self.inner.lock().loads.are_held = true;
    }

    /// Lets waiting loads go on.
    pub(super) fn release_loads(&self) {
        self.inner.lock().loads.are_held = false;
        self.loads_released.notify_waiters();
    }

    /// Lets loads fail.
    pub(super) fn fail_loads(&self) {
        self.inner.lock().loads.fail = true;
    }

    /// Lets loads succeed again.
    pub(super) fn serve_loads(&self) {
        self.inner.lock().loads.fail = false;
    }

    /// Lets the next `count` loads panic.
    pub(super) fn loads_panic(&self, count: usize) {
        self.inner.lock().loads.panic = count;
    }

    /// How many loads began, and how many were under way at once.
    pub(super) fn loads(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.loads.count, inner.loads.max)
    }

    /// Lets lookups have this outcome from now on.
    pub(super) fn set_lookups(&self, lookups: Lookups) {
        self.inner.lock().lookups = lookups;
    }

    /// The stored numbers of a ledger.
    pub(super) fn stored(&self, id: u64) -> Vec<u64> {
        self.inner.lock().rows.get(&id).cloned().unwrap_or_default()
    }

    /// Replaces the stored numbers of a ledger.
    pub(super) fn store(&self, id: u64, entries: &[u64]) {
        self.inner.lock().rows.insert(id, entries.to_vec());
    }

    /// The numbers of commits that kept an answer only.
    pub(super) fn kept(&self) -> Vec<u64> {
        self.inner.lock().kept.clone()
    }

    /// Ends the writer's thread.
    pub(super) fn close(&self) {
        self.inner.lock().is_closed = true;
        self.work.notify_all();
    }

    fn enqueue(&self, job: Job) {
        self.inner.lock().jobs.push_back(job);
        self.run();
    }

    fn run(&self) {
        if self.writer == Writer::Thread {
            self.work.notify_all();
        } else {
            while self.step() {}
        }
    }

    fn write(&self) {
        loop {
            while self.step() {}
            let mut inner = self.inner.lock();
            if inner.is_closed {
                return;
            }
            if inner.is_held || inner.jobs.is_empty() {
                self.work.wait(&mut inner);
            }
        }
    }

    fn step(&self) -> bool {
        let mut inner = self.inner.lock();
        if inner.is_held {
            return false;
        }
        let Some(job) = inner.jobs.pop_front() else {
            return false;
        };
        match job {
            Job::Commit(incarnation, commit, settle) => {
                let outcome = inner.judge(incarnation, commit);
                drop(inner);
                settle(outcome);
            }
            Job::Barrier(incarnation, settle) => {
                let is_banned = inner.banned.contains(&incarnation);
                drop(inner);
                settle(if is_banned {
                    Err(CommitFailure::Unavailable)
                } else {
                    Ok(())
                });
            }
            Job::Reload(id, found) => {
                let entries = inner.rows.get(&id).cloned().unwrap_or_default();
                drop(inner);
                drop(found.send(Ledger { id, entries }));
            }
        }
        true
    }

    fn begin_load(&self) -> Result<(), LoadError> {
        let mut inner = self.inner.lock();
        inner.loads.count += 1;
        inner.loads.now += 1;
        inner.loads.max = inner.loads.max.max(inner.loads.now);
        if inner.loads.panic > 0 {
            inner.loads.panic -= 1;
            drop(inner);
            panic!("poison in load");
        }
        if inner.loads.fail {
            Err(LoadError::Unavailable)
        } else {
            Ok(())
        }
    }

    async fn end_load(&self) {
        loop {
            let released = self.loads_released.notified();
            if !self.inner.lock().loads.are_held {
                break;
            }
            released.await;
        }
        self.inner.lock().loads.now -= 1;
    }
}

impl Inner {
    fn judge(
        &mut self,
        incarnation: Incarnation,
        commit: Append,
    ) -> Result<(), CommitFailure<Violation>> {
        if self.banned.contains(&incarnation) {
            return Err(CommitFailure::Unavailable);
        }
        let rows = self.rows.entry(commit.id).or_default();
        let failure = if commit
            .after
            .is_some_and(|after| after != Sequence(rows.len() as u64))
        {
            Some(CommitFailure::Conflict)
        } else {
            self.failing.remove(&commit.number)
        };
        match failure {
            None | Some(CommitFailure::Unknown) if commit.after.is_some() => {
                rows.push(commit.number)
            }
            None => self.kept.push(commit.number),
            Some(_) => {}
        }
        if let Some(CommitFailure::Conflict | CommitFailure::Unavailable | CommitFailure::Unknown) =
            failure
        {
            self.banned.insert(incarnation);
        }
        failure.map_or(Ok(()), Err)
    }
}

/// The journal as the runtime sees it; the tests hold it, too.
#[derive(Clone)]
pub(super) struct SharedJournal(pub(super) Arc<MemoryJournal>);

impl Journal<Ledger> for SharedJournal {
    fn load(&self, id: u64) -> BoxFuture<Result<Option<Ledger>, LoadError>> {
        let journal = Arc::clone(&self.0);
        Box::pin(async move {
            let began = journal.begin_load();
            journal.end_load().await;
            began?;
            let entries = journal.stored(id);
            Ok((!entries.is_empty()).then_some(Ledger { id, entries }))
        })
    }

    fn reload(&self, id: u64) -> BoxFuture<Result<Option<Ledger>, LoadError>> {
        let journal = Arc::clone(&self.0);
        Box::pin(async move {
            let began = journal.begin_load();
            journal.end_load().await;
            began?;
            let (found, ledger) = oneshot::channel();
            journal.enqueue(Job::Reload(id, found));
            let ledger = ledger.await.map_err(|_| LoadError::Unavailable)?;
            Ok((!ledger.entries.is_empty()).then_some(ledger))
        })
    }

    fn source(&self) -> Lookups {
        self.0.inner.lock().lookups
    }

    fn submit(&self, incarnation: Incarnation, commit: Append, settle: Settle<Violation>) {
        self.0.enqueue(Job::Commit(incarnation, commit, settle));
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn confirm(&self, id: u64, incarnation: Incarnation, _: Sequence, settle: Settle<Violation>) {
        self.barrier(id, incarnation, settle);
    }

    fn barrier(&self, _: u64, incarnation: Incarnation, settle: Settle<Violation>) {
        self.0.enqueue(Job::Barrier(incarnation, settle));
    }
}
