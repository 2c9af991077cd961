//! Entities come and go: loads, passivation, vacancy, threads that end. Nothing acknowledged is
//! lost on the way.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use actix::{Arbiter, System};
use tokio::task::spawn_local;
use tokio::time::advance;

use super::fixture::{Fixture, counted, on_one_thread, on_paused_time, on_threads, until, why};
use super::ledger::{Command, Ledger, Refused, Violation};
use super::memory_journal;
use crate::{
    AskError, Cause, CommitFailure, Directory, Passivation, Placement, Policy, Restart, StillBusy,
};

const WRITERS: u64 = 8;
const EACH_MIN: u64 = 200;
const EACH_MAX: u64 = 1 << 32;
const ENTITIES: u64 = 32;

#[test]
fn passivation_under_load_loses_nothing() {
    let policy = Policy {
        idle: Duration::ZERO,
        ..Policy::default()
    };
    on_threads(2, policy, async |fixture| {
        let [enough, done] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let sweeper = {
            let (enough, done) = (Arc::clone(&enough), Arc::clone(&done));
            let directory = Arc::clone(&fixture.directory);
            thread::spawn(move || sweep_until(&directory, &enough, &done))
        };
        let callers = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let directory = Arc::clone(&fixture.directory);
                callers.spawn(write_until(directory, Arc::clone(&enough), writer))
            })
            .collect();
        let mut acknowledged = HashSet::new();
        for (writer, written) in (0..).zip(writers) {
            acknowledged.extend((0..written.await.unwrap()).map(|nth| writer * EACH_MAX + nth));
        }
        done.store(true, Ordering::Relaxed);
        sweeper.join().unwrap();
        callers.shutdown_background();
        let stored: Vec<_> = (0..ENTITIES)
            .flat_map(|id| fixture.journal.stored(id))
            .collect();
        assert_eq!(stored.len(), acknowledged.len(), "none twice");
        assert_eq!(stored.into_iter().collect::<HashSet<_>>(), acknowledged);
        let overview = fixture.directory.overview();
        assert_eq!(overview.conflicts, 0, "no entity was active twice");
        assert_eq!(overview.handled, acknowledged.len() as u64);
    });
}

/// Sweeps until it is done; says when enough entities have been passivated.
fn sweep_until(directory: &Directory<Ledger>, enough: &AtomicBool, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        directory.sweep_now();
        let passivated = counted(&directory.overview().passivations, Passivation::Idle);
        enough.store(passivated >= 500, Ordering::Relaxed);
    }
}

/// Adds one writer's numbers, each once, until it is enough; how many were acknowledged.
async fn write_until(
    directory: Arc<Directory<Ledger>>,
    enough: Arc<AtomicBool>,
    writer: u64,
) -> u64 {
    let mut nth = 0;
    while nth < EACH_MIN || !enough.load(Ordering::Relaxed) {
        let number = writer * EACH_MAX + nth;
        assert_eq!(
            directory.ask(nth % ENTITIES, Command::Add(number)).await,
            Ok(vec![number])
        );
        nth += 1;
    }
    nth
}

#[test]
fn who_came_and_did_not_leave_is_live_in_every_answer() {
    const LOOKS: usize = 3_000;
    let policy = Policy {
        idle: Duration::ZERO,
        ..Policy::default()
    };
    on_threads(2, policy, async |fixture| {
        let [enough, done] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let mut threads = Vec::new();
        {
            let (enough, done) = (Arc::clone(&enough), Arc::clone(&done));
            let directory = Arc::clone(&fixture.directory);
            threads.push(thread::spawn(move || {
                sweep_until(&directory, &enough, &done)
            }));
        }
        let looked = Arc::new(AtomicBool::new(false));
        {
            let (directory, looked) = (Arc::clone(&fixture.directory), Arc::clone(&looked));
            threads.push(thread::spawn(move || {
                let torn = (0..LOOKS).filter(|_| is_torn(&directory)).count();
                looked.store(true, Ordering::Relaxed);
                assert_eq!(torn, 0, "of {LOOKS}");
            }));
        }
        let mut nth = 0;
        while !looked.load(Ordering::Relaxed) {
            let asked = fixture.answer(nth % ENTITIES, Command::Add(nth)).await;
            assert_eq!(asked, Ok(vec![nth]));
            nth += 1;
        }
        done.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(fixture.directory.overview().handled, nth);
    });
}

/// Whether the figures of one answer do not agree with one another.
fn is_torn(directory: &Directory<Ledger>) -> bool {
    let overview = directory.overview();
    let left: u64 = overview.passivations.iter().map(|(_, count)| count).sum();
    overview.activations - left != overview.live as u64
}

#[test]
fn idle_entities_go_and_busy_ones_stay() {
    on_paused_time(Policy::default(), async |fixture| {
        assert_eq!(fixture.answer(1, Command::Add(1)).await, Ok(vec![1]));
        advance(Duration::from_secs(200)).await;
        assert_eq!(fixture.answer(2, Command::Add(2)).await, Ok(vec![2]));
        fixture.journal.hold();
        let busy = fixture.ask(3, Command::Add(3));
        until(|| fixture.journal.queued() == 1).await;
        fixture.directory.set_policy(Policy {
            ask_timeout: Duration::from_secs(1000),
            ..Policy::default()
        });
        advance(Duration::from_secs(100)).await;
        fixture.directory.sweep_now();
        let live = |id| fixture.directory.inspect(id).is_some();
        assert_eq!([live(1), live(2), live(3)], [false, true, true]);
        // From here on the sweeper itself, as time goes by.
        tokio::time::sleep(Duration::from_secs(500)).await;
        assert_eq!([live(1), live(2), live(3)], [false, false, true]);
        fixture.journal.release();
        drop(busy.await);
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![1]));
    });
}

#[test]
fn beyond_the_limits_the_least_recently_used_go() {
    on_paused_time(
        Policy {
            active_max: 10,
            ..Policy::default()
        },
        async |fixture| {
            for id in 0..11 {
                assert_eq!(fixture.answer(id, Command::Add(1)).await, Ok(vec![1]));
                advance(Duration::from_millis(2)).await;
            }
            assert_eq!(fixture.answer(0, Command::Read).await, Ok(vec![1]));
            fixture.directory.sweep_now();
            let live: Vec<_> = (0..11)
                .filter(|id| fixture.directory.inspect(*id).is_some())
                .collect();
            assert_eq!(live, [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
            fixture.directory.set_policy(Policy {
                bytes_max: 3 * 8,
                ..Policy::default()
            });
            fixture.directory.sweep_now();
            let live: Vec<_> = (0..11)
                .filter(|id| fixture.directory.inspect(*id).is_some())
                .collect();
            // A twentieth more than must be: 23 bytes hold two of them.
            assert_eq!(live, [0, 10]);
            let passivations = fixture.directory.overview().passivations;
            assert_eq!(counted(&passivations, Passivation::Active), 1);
            assert_eq!(counted(&passivations, Passivation::Bytes), 8);
        },
    );
}

#[test]
fn vacant_entities_leave_no_handle() {
    on_one_thread(Policy::default(), async |fixture| {
        for id in 0..50 {
            assert_eq!(
                fixture.answer(id, Command::Never).await,
                Err(AskError::Refused(Refused))
            );
            fixture.journal.fail(7, CommitFailure::Violated(Violation));
            assert_eq!(
                fixture.answer(id, Command::AddIf(7)).await,
                Err(AskError::Refused(Refused))
            );
        }
        until(|| fixture.directory.overview().live == 0).await;
        assert_eq!(fixture.answer(1, Command::AddIf(1)).await, Ok(vec![1]));
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![1]));
        assert_eq!(
            fixture.directory.overview().live,
            1,
            "who is not vacant any more stays"
        );
    });
}

#[test]
fn a_caller_that_leaves_before_the_load_leaves_no_handle() {
    on_one_thread(Policy::default(), async |fixture| {
        {
            let mut ask = pin!(fixture.answer(1, Command::Read));
            assert!(
                ask.as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_pending()
            );
            assert_eq!(fixture.permits_taken(1), 1);
        }
        until(|| fixture.directory.overview().live == 0).await;
        assert_eq!(fixture.journal.loads().0, 0, "nobody waited for it");
    });
}

#[test]
fn a_vacant_entity_that_crashes_is_remembered() {
    on_paused_time(Policy::default(), async |fixture| {
        for _ in 0..5 {
            assert_eq!(
                fixture.answer(1, Command::PanicInDecide).await,
                Err(AskError::Crashed)
            );
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(
            why(&fixture.answer(1, Command::Read).await),
            Some(Cause::Quarantined)
        );
        advance(Duration::from_secs(400)).await;
        fixture.directory.sweep_now();
        assert_eq!(fixture.directory.overview().live, 0, "but not for ever");
    });
}

#[test]
fn a_failed_load_answers_what_was_queued_and_leaves_no_handle() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.fail_loads();
        fixture.journal.hold_loads();
        let asks: Vec<_> = (0..5)
            .map(|number| fixture.ask(1, Command::Add(number)))
            .collect();
        until(|| fixture.permits_taken(1) == 5 && fixture.journal.loads().0 == 1).await;
        fixture.journal.release_loads();
        for ask in asks {
            assert_eq!(why(&ask.await.unwrap()), Some(Cause::StoreUnavailable));
        }
        assert_eq!(fixture.journal.loads().0, 1);
        until(|| fixture.directory.overview().live == 0).await;
        fixture.journal.serve_loads();
        assert_eq!(fixture.answer(1, Command::Add(1)).await, Ok(vec![1]));
    });
}

#[test]
fn a_failed_reload_is_tried_again_by_the_next_ask() {
    on_one_thread(Policy::default(), async |fixture| {
        assert_eq!(fixture.answer(1, Command::Add(1)).await, Ok(vec![1]));
        fixture.journal.fail_loads();
        fixture.journal.fail(2, CommitFailure::Unavailable);
        assert_eq!(
            why(&fixture.answer(1, Command::Add(2)).await),
            Some(Cause::StoreUnavailable)
        );
        assert_eq!(
            why(&fixture.answer(1, Command::Read).await),
            Some(Cause::StoreUnavailable)
        );
        fixture.journal.serve_loads();
        until(|| fixture.directory.overview().live == 0).await;
        assert_eq!(fixture.answer(1, Command::Add(3)).await, Ok(vec![3]));
        assert_eq!(fixture.journal.stored(1), [1, 3]);
    });
}

#[test]
fn only_so_many_loads_are_under_way_at_once() {
    on_one_thread(
        Policy {
            loads_max: 2,
            ..Policy::default()
        },
        async |fixture| {
            fixture.journal.hold_loads();
            let asks: Vec<_> = (0..20).map(|id| fixture.ask(id, Command::Add(1))).collect();
            until(|| {
                fixture.journal.loads().0 == 2 && fixture.directory.overview().permits_taken == 20
            })
            .await;
            fixture.journal.release_loads();
            for ask in asks {
                assert_eq!(ask.await.unwrap(), Ok(vec![1]));
            }
            assert_eq!(fixture.journal.loads(), (20, 2));
        },
    );
}

#[test]
fn a_thread_that_ends_takes_no_entity_with_it() {
    System::new().block_on(async {
        let placement = Placement::new();
        assert_eq!(placement.len(), 0);
        let fixture = Fixture::build(
            memory_journal::threaded(),
            placement.clone(),
            Policy::default(),
        );
        assert_eq!(
            why(&fixture.answer(1, Command::Add(0)).await),
            Some(Cause::Draining),
            "there is no thread yet"
        );
        let (first, second) = (Arbiter::new(), Arbiter::new());
        placement.register(first.handle());
        for id in 0..20 {
            assert_eq!(fixture.answer(id, Command::Add(1)).await, Ok(vec![1]));
        }
        placement.register(second.handle());
        first.stop();
        first.join().unwrap();
        for id in 0..40 {
            let expected = if id < 20 { vec![1] } else { vec![] };
            assert_eq!(fixture.answer(id, Command::Read).await, Ok(expected));
        }
        assert_eq!(placement.len(), 1);
        assert_eq!(
            counted(&fixture.directory.overview().restarts, Restart::Thread),
            20
        );
        second.stop();
        second.join().unwrap();
    });
}

#[test]
fn what_was_queued_on_a_thread_that_ends_was_not_done() {
    System::new().block_on(async {
        let placement = Placement::new();
        let fixture = Fixture::build(
            memory_journal::threaded(),
            placement.clone(),
            Policy::default(),
        );
        let (first, second) = (Arbiter::new(), Arbiter::new());
        placement.register(first.handle());
        fixture.journal.hold_loads();
        let asks: Vec<_> = (0..3)
            .map(|number| fixture.ask(1, Command::Add(number)))
            .collect();
        until(|| fixture.permits_taken(1) == 3 && fixture.journal.loads().0 == 1).await;
        first.stop();
        first.join().unwrap();
        for ask in asks {
            assert_eq!(why(&ask.await.unwrap()), Some(Cause::BackingOff));
        }
        assert_eq!(fixture.directory.overview().live, 0);
        fixture.journal.release_loads();
        placement.register(second.handle());
        assert_eq!(fixture.answer(1, Command::Add(9)).await, Ok(vec![9]));
        assert_eq!(fixture.journal.stored(1), [9]);
        second.stop();
        second.join().unwrap();
    });
}

#[test]
fn an_operator_passivates_an_entity_as_soon_as_it_has_no_work() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.hold();
        let add = fixture.ask(1, Command::Add(1));
        until(|| fixture.journal.queued() == 1).await;
        let directory = Arc::clone(&fixture.directory);
        let passivated = spawn_local(async move { directory.passivate(1).await });
        tokio::task::yield_now().await;
        assert_eq!(fixture.permits_taken(1), 1, "what waits is still there");
        fixture.journal.release();
        assert_eq!(add.await.unwrap(), Ok(vec![1]));
        assert_eq!(passivated.await.unwrap(), Ok(true));
        assert_eq!(fixture.directory.inspect(1), None);
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![1]));
        assert_eq!(fixture.directory.passivate(1).await, Ok(true));
        assert_eq!(fixture.directory.inspect(1), None);
        let overview = fixture.directory.overview();
        assert_eq!(counted(&overview.passivations, Passivation::Operator), 2);
        assert_eq!(fixture.directory.passivate(1).await, Ok(false));
    });
}

#[test]
fn an_entity_that_is_never_idle_in_time_stays_when_an_operator_passivates_it() {
    let policy = Policy {
        ask_timeout: Duration::from_secs(1),
        ..Policy::default()
    };
    on_paused_time(policy, async |fixture| {
        fixture.journal.hold();
        let add = fixture.ask(1, Command::Add(1));
        until(|| fixture.journal.queued() == 1).await;
        assert_eq!(fixture.directory.passivate(1).await, Err(StillBusy));
        fixture.journal.release();
        drop(add.await);
        assert!(
            fixture.directory.inspect(1).is_some(),
            "the operator has been told that it stays"
        );
    });
}
