//! A journal in memory that can be held, made to fail, and that fences by revision. Its writer is a
//! thread, or whoever submits (for tests on paused time, which must not wait for another thread).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot};

use super::ledger::{Append, Broken, Ledger};
use crate::runtime::{BoxFuture, CommitFailure, Incarnation, Journal, LoadError, Settle};

enum Job {
    Commit(Incarnation, Append, Settle<Broken>),
    Barrier(Incarnation, Settle<Broken>),
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
    failing: HashMap<u64, CommitFailure<Broken>>,
    loads: Loads,
    finds_away: bool,
    finds_panic: bool,
}

#[derive(Default)]
struct Loads {
    are_away: bool,
    are_held: bool,
    panic: usize,
    count: usize,
    now: usize,
    max: usize,
}

pub(super) struct Memory {
    inner: Mutex<Inner>,
    work: Condvar,
    loads_released: Notify,
    has_thread: bool,
}

/// A writer on its own thread.
pub(super) fn threaded() -> Arc<Memory> {
    let memory = Memory::new(true);
    let writer = Arc::clone(&memory);
    thread::spawn(move || writer.write());
    memory
}

/// Whoever submits writes at once.
pub(super) fn inline() -> Arc<Memory> {
    Memory::new(false)
}

impl Memory {
    fn new(has_thread: bool) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::default(),
            work: Condvar::new(),
            loads_released: Notify::new(),
            has_thread,
        })
    }

    /// Lets commits, barriers and reloads queue up.
    pub(super) fn hold(&self) {
        self.inner.lock().is_held = true;
    }

    pub(super) fn release(&self) {
        self.inner.lock().is_held = false;
        self.run();
    }

    /// How many jobs are queued.
    pub(super) fn queued(&self) -> usize {
        self.inner.lock().jobs.len()
    }

    /// The commit with this number fails once.
    pub(super) fn fail(&self, number: u64, failure: CommitFailure<Broken>) {
        self.inner.lock().failing.insert(number, failure);
    }

    /// Loses all that is queued, without a word.
    pub(super) fn lose(&self) {
        let lost = std::mem::take(&mut self.inner.lock().jobs);
        drop(lost);
    }

    pub(super) fn hold_loads(&self) {
        self.inner.lock().loads.are_held = true;
    }

    pub(super) fn release_loads(&self) {
        self.inner.lock().loads.are_held = false;
        self.loads_released.notify_waiters();
    }

    pub(super) fn loads_away(&self, are_away: bool) {
        self.inner.lock().loads.are_away = are_away;
    }

    /// So many of the next loads panic.
    pub(super) fn loads_panic(&self, count: usize) {
        self.inner.lock().loads.panic = count;
    }

    /// How many loads began, and how many were under way at once.
    pub(super) fn loads(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.loads.count, inner.loads.max)
    }

    pub(super) fn finds_away(&self, are_away: bool) {
        self.inner.lock().finds_away = are_away;
    }

    pub(super) fn finds_panic(&self, panic: bool) {
        self.inner.lock().finds_panic = panic;
    }

    pub(super) fn stored(&self, id: u64) -> Vec<u64> {
        self.inner.lock().rows.get(&id).cloned().unwrap_or_default()
    }

    pub(super) fn store(&self, id: u64, entries: &[u64]) {
        self.inner.lock().rows.insert(id, entries.to_vec());
    }

    pub(super) fn kept(&self) -> Vec<u64> {
        self.inner.lock().kept.clone()
    }

    pub(super) fn close(&self) {
        self.inner.lock().is_closed = true;
        self.work.notify_all();
    }

    fn enqueue(&self, job: Job) {
        self.inner.lock().jobs.push_back(job);
        self.run();
    }

    fn run(&self) {
        if self.has_thread {
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
                    Err(CommitFailure::Away)
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
        if inner.loads.are_away {
            Err(LoadError::Away)
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
    ) -> Result<(), CommitFailure<Broken>> {
        if self.banned.contains(&incarnation) {
            return Err(CommitFailure::Away);
        }
        let rows = self.rows.entry(commit.id).or_default();
        let failure = if commit.after.is_some_and(|after| after != rows.len() as u64) {
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
        if let Some(CommitFailure::Conflict | CommitFailure::Away | CommitFailure::Unknown) =
            failure
        {
            self.banned.insert(incarnation);
        }
        failure.map_or(Ok(()), Err)
    }
}

/// The tests' handle on the journal; the runtime gets a clone.
#[derive(Clone)]
pub(super) struct Shared(pub(super) Arc<Memory>);

impl Journal<Ledger> for Shared {
    fn load(&self, id: u64) -> BoxFuture<Result<Option<Ledger>, LoadError>> {
        let memory = Arc::clone(&self.0);
        Box::pin(async move {
            let began = memory.begin_load();
            memory.end_load().await;
            began?;
            let entries = memory.stored(id);
            Ok((!entries.is_empty()).then_some(Ledger { id, entries }))
        })
    }

    fn reload(&self, id: u64) -> BoxFuture<Result<Option<Ledger>, LoadError>> {
        let memory = Arc::clone(&self.0);
        Box::pin(async move {
            let began = memory.begin_load();
            memory.end_load().await;
            began?;
            let (found, ledger) = oneshot::channel();
            memory.enqueue(Job::Reload(id, found));
            let ledger = ledger.await.map_err(|_| LoadError::Away)?;
            Ok((!ledger.entries.is_empty()).then_some(ledger))
        })
    }

    fn find(&self, lookup: u64) -> BoxFuture<Result<u64, LoadError>> {
        let (is_away, panics) = {
            let inner = self.0.inner.lock();
            (inner.finds_away, inner.finds_panic)
        };
        Box::pin(async move {
            if panics {
                panic!("poison in find");
            }
            if is_away {
                Err(LoadError::Away)
            } else {
                Ok(lookup * 2)
            }
        })
    }

    fn submit(&self, incarnation: Incarnation, commit: Append, settle: Settle<Broken>) {
        self.0.enqueue(Job::Commit(incarnation, commit, settle));
    }

    fn barrier(&self, _: u64, incarnation: Incarnation, settle: Settle<Broken>) {
        self.0.enqueue(Job::Barrier(incarnation, settle));
    }
}
