//! A directory of ledgers over a journal in memory, on an actix system of its own.

use std::sync::Arc;
use std::time::Duration;

use actix::{Arbiter, System};
use tokio::task::{JoinHandle, spawn_local};

use super::ledger::{Ask, Ledger, Refused};
use super::memory::{self, Memory, Shared};
use crate::runtime::{AskError, Cause, Directory, Placement, Policy};

pub(super) type Answer = Result<Vec<u64>, AskError<Refused>>;

pub(super) struct House {
    pub(super) directory: Arc<Directory<Ledger>>,
    pub(super) memory: Arc<Memory>,
}

impl House {
    pub(super) fn build(memory: Arc<Memory>, placement: Placement, policy: Policy) -> Self {
        let directory = Directory::new(Arc::new(Shared(Arc::clone(&memory))), placement, policy);
        Self { directory, memory }
    }

    /// Asks now: the command is enqueued in the order of the calls, once this task waits for
    /// anything.
    pub(super) fn ask(&self, id: u64, ask: Ask) -> JoinHandle<Answer> {
        let directory = Arc::clone(&self.directory);
        spawn_local(async move { directory.ask(id, ask).await })
    }

    pub(super) async fn answer(&self, id: u64, ask: Ask) -> Answer {
        self.directory.ask(id, ask).await
    }

    pub(super) fn places(&self, id: u64) -> u32 {
        self.directory.inspect(id).map_or(0, |seen| seen.places)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let places = self.directory.overview().places;
        self.memory.close();
        if !std::thread::panicking() {
            assert_eq!(places, 0, "places were left over");
        }
    }
}

/// Everything on one thread and on paused time; the journal writes at once.
pub(super) fn on_paused_time<F: Future<Output = ()>>(
    policy: Policy,
    test: impl FnOnce(House) -> F,
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
        test(House::build(memory::inline(), placement, policy)).await;
    });
}

/// Everything but the journal on one thread.
pub(super) fn on_one_thread<F: Future<Output = ()>>(policy: Policy, test: impl FnOnce(House) -> F) {
    System::new().block_on(async {
        let placement = Placement::new();
        placement.register(Arbiter::current());
        test(House::build(memory::threaded(), placement, policy)).await;
    });
}

/// The askers on one thread, the entities on others.
pub(super) fn on_threads<F: Future<Output = ()>>(
    threads: usize,
    policy: Policy,
    test: impl FnOnce(House) -> F,
) {
    System::new().block_on(async {
        test(House::build(
            memory::threaded(),
            Placement::own(threads),
            policy,
        ))
        .await;
    });
}

/// Waits until it is so; what never comes to be fails.
pub(super) async fn until(mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "it never came to be"
        );
        tokio::task::yield_now().await;
    }
}

/// Why nothing was done, and when to ask again.
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

/// Only why nothing was done.
pub(super) fn why(answer: &Answer) -> Option<Cause> {
    cause(answer).map(|(cause, _)| cause)
}

/// The counter of one reason.
pub(super) fn counted<K: PartialEq>(counters: &[(K, u64)], of: K) -> u64 {
    counters
        .iter()
        .filter(|(key, _)| *key == of)
        .map(|(_, count)| count)
        .sum()
}
