//! A directory of ledgers over a journal in memory, on an actix system of its own.

use std::sync::Arc;
use std::time::Duration;

use actix::{Arbiter, System};
use tokio::task::{JoinHandle, spawn_local};

use super::ledger::{Command, Ledger, Refused};
use super::memory_journal::{self, MemoryJournal, SharedJournal};
use crate::{AskError, Cause, Directory, Placement, Policy};

pub(super) type Answer = Result<Vec<u64>, AskError<Refused>>;

/// A directory and its journal. Dropped, it checks that no mailbox permit is left over.
pub(super) struct Fixture {
    pub(super) directory: Arc<Directory<Ledger>>,
    pub(super) journal: Arc<MemoryJournal>,
}

impl Fixture {
    pub(super) fn build(journal: Arc<MemoryJournal>, placement: Placement, policy: Policy) -> Self {
        let directory = Directory::new(
            Arc::new(SharedJournal(Arc::clone(&journal))),
            placement,
            policy,
        );
        Self { directory, journal }
    }

    /// Asks in a task of its own. Commands are enqueued in the order of the calls, at this task's
    /// next await.
    pub(super) fn ask(&self, id: u64, ask: Command) -> JoinHandle<Answer> {
        let directory = Arc::clone(&self.directory);
        spawn_local(async move { directory.ask(id, ask).await })
    }

    pub(super) async fn answer(&self, id: u64, ask: Command) -> Answer {
        self.directory.ask(id, ask).await
    }

    pub(super) fn permits_taken(&self, id: u64) -> u32 {
        self.directory
            .inspect(id)
            .map_or(0, |seen| seen.permits_taken)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let permits_taken = self.directory.overview().permits_taken;
        self.journal.close();
        if !std::thread::panicking() {
            assert_eq!(permits_taken, 0, "mailbox permits were left over");
        }
    }
}

/// Runs a test on one thread and on paused time; the journal writes as soon as it is told to.
pub(super) fn on_paused_time<F: Future<Output = ()>>(
    policy: Policy,
    test: impl FnOnce(Fixture) -> F,
) {
    let system = System::with_tokio_rt(|| {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
    });
    system.block_on(async {
        let placement = Placement::new();
        assert!(placement.register_current());
        test(Fixture::build(memory_journal::inline(), placement, policy)).await;
    });
}

/// Runs a test on one thread; the journal has its own.
pub(super) fn on_one_thread<F: Future<Output = ()>>(
    policy: Policy,
    test: impl FnOnce(Fixture) -> F,
) {
    System::new().block_on(async {
        let placement = Placement::new();
        placement.register(Arbiter::current());
        test(Fixture::build(
            memory_journal::threaded(),
            placement,
            policy,
        ))
        .await;
    });
}

/// Runs a test with the callers on one thread and the entities on others.
pub(super) fn on_threads<F: Future<Output = ()>>(
    threads: usize,
    policy: Policy,
    test: impl FnOnce(Fixture) -> F,
) {
    System::new().block_on(async {
        test(Fixture::build(
            memory_journal::threaded(),
            Placement::own(threads),
            policy,
        ))
        .await;
    });
}

/// Waits until a condition holds; panics when that takes over 30 s.
pub(super) async fn until(mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "the condition never held"
        );
        tokio::task::yield_now().await;
    }
}

/// Why nothing was done, and when to ask again; `None` for other answers.
pub(super) fn cause(answer: &Answer) -> Option<(Cause, Duration)> {
    match answer {
        Err(AskError::Unavailable { cause, retry_after }) => Some((*cause, *retry_after)),
        Ok(_)
        | Err(
            AskError::Refused(_)
            | AskError::Unreadable
            | AskError::Crashed
            | AskError::TimedOut
            | AskError::Unknown,
        ) => None,
    }
}

/// Why nothing was done.
pub(super) fn why(answer: &Answer) -> Option<Cause> {
    cause(answer).map(|(cause, _)| cause)
}

/// The value of one counter.
pub(super) fn counted<K: PartialEq>(counters: &[(K, u64)], of: K) -> u64 {
    counters
        .iter()
        .filter(|(key, _)| *key == of)
        .map(|(_, count)| count)
        .sum()
}
