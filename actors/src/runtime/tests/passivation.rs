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
use tokio::time::advance;

use super::house::{House, counted, on_one_thread, on_paused_time, on_threads, until, why};
use super::ledger::{Ask, Broken, Refused};
use super::memory;
use crate::runtime::{AskError, Cause, CommitFailure, Passivation, Placement, Policy, Restart};

#[test]
fn passivation_under_load_loses_nothing() {
    const WRITERS: u64 = 8;
    const EACH_MIN: u64 = 200;
    const EACH_MAX: u64 = 1 << 32;
    const ENTITIES: u64 = 32;
    on_threads(
        2,
        Policy {
            idle: Duration::ZERO,
            ..Policy::default()
        },
        async |house| {
            let (enough, done) = (
                Arc::new(AtomicBool::new(false)),
                Arc::new(AtomicBool::new(false)),
            );
            let sweeper = {
                let (enough, done, directory) = (
                    Arc::clone(&enough),
                    Arc::clone(&done),
                    Arc::clone(&house.directory),
                );
                thread::spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        directory.sweep_now();
                        let passivated =
                            counted(&directory.overview().passivations, Passivation::Idle);
                        enough.store(passivated >= 500, Ordering::Relaxed);
                    }
                })
            };
            let callers = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (enough, directory) = (Arc::clone(&enough), Arc::clone(&house.directory));
                    callers.spawn(async move {
                        let mut nth = 0;
                        while nth < EACH_MIN || !enough.load(Ordering::Relaxed) {
                            let number = writer * EACH_MAX + nth;
                            assert_eq!(
                                directory.ask(nth % ENTITIES, Ask::Add(number)).await,
                                Ok(vec![number])
                            );
                            nth += 1;
                        }
                        nth
                    })
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
                .flat_map(|id| house.memory.stored(id))
                .collect();
            assert_eq!(stored.len(), acknowledged.len(), "none twice");
            assert_eq!(stored.into_iter().collect::<HashSet<_>>(), acknowledged);
            let overview = house.directory.overview();
            assert_eq!(overview.conflicts, 0, "no entity was active twice");
            assert_eq!(overview.handled, acknowledged.len() as u64);
        },
    );
}

#[test]
fn idle_entities_go_and_busy_ones_stay() {
    on_paused_time(Policy::default(), async |house| {
        assert_eq!(house.answer(1, Ask::Add(1)).await, Ok(vec![1]));
        advance(Duration::from_secs(200)).await;
        assert_eq!(house.answer(2, Ask::Add(2)).await, Ok(vec![2]));
        house.memory.hold();
        let busy = house.ask(3, Ask::Add(3));
        until(|| house.memory.queued() == 1).await;
        house.directory.set_policy(Policy {
            ask_timeout: Duration::from_secs(1000),
            ..Policy::default()
        });
        advance(Duration::from_secs(100)).await;
        house.directory.sweep_now();
        let live = |id| house.directory.inspect(id).is_some();
        assert_eq!([live(1), live(2), live(3)], [false, true, true]);
        // From here on the sweeper itself, as time goes by.
        tokio::time::sleep(Duration::from_secs(500)).await;
        assert_eq!([live(1), live(2), live(3)], [false, false, true]);
        house.memory.release();
        drop(busy.await);
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![1]));
    });
}

#[test]
fn beyond_the_limits_the_least_recently_used_go() {
    on_paused_time(
        Policy {
            active_max: 10,
            ..Policy::default()
        },
        async |house| {
            for id in 0..11 {
                assert_eq!(house.answer(id, Ask::Add(1)).await, Ok(vec![1]));
                advance(Duration::from_millis(2)).await;
            }
            assert_eq!(house.answer(0, Ask::Read).await, Ok(vec![1]));
            house.directory.sweep_now();
            let live: Vec<_> = (0..11)
                .filter(|id| house.directory.inspect(*id).is_some())
                .collect();
            assert_eq!(live, [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
            house.directory.set_policy(Policy {
                bytes_max: 3 * 8,
                ..Policy::default()
            });
            house.directory.sweep_now();
            let live: Vec<_> = (0..11)
                .filter(|id| house.directory.inspect(*id).is_some())
                .collect();
            // A twentieth more than must be: 23 bytes hold two of them.
            assert_eq!(live, [0, 10]);
            let passivations = house.directory.overview().passivations;
            assert_eq!(counted(&passivations, Passivation::Active), 1);
            assert_eq!(counted(&passivations, Passivation::Bytes), 8);
        },
    );
}

#[test]
fn vacant_entities_leave_no_slot() {
    on_one_thread(Policy::default(), async |house| {
        for id in 0..50 {
            assert_eq!(
                house.answer(id, Ask::Never).await,
                Err(AskError::Refused(Refused))
            );
            house.memory.fail(7, CommitFailure::Broken(Broken));
            assert_eq!(
                house.answer(id, Ask::AddIf(7)).await,
                Err(AskError::Refused(Refused))
            );
        }
        until(|| house.directory.overview().live == 0).await;
        assert_eq!(house.answer(1, Ask::AddIf(1)).await, Ok(vec![1]));
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![1]));
        assert_eq!(
            house.directory.overview().live,
            1,
            "who is not vacant any more stays"
        );
    });
}

#[test]
fn an_asker_that_leaves_before_the_load_leaves_no_slot() {
    on_one_thread(Policy::default(), async |house| {
        {
            let mut ask = pin!(house.answer(1, Ask::Read));
            assert!(
                ask.as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_pending()
            );
            assert_eq!(house.places(1), 1);
        }
        until(|| house.directory.overview().live == 0).await;
        assert_eq!(house.memory.loads().0, 0, "nobody waited for it");
    });
}

#[test]
fn a_vacant_entity_that_crashes_is_remembered() {
    on_paused_time(Policy::default(), async |house| {
        for _ in 0..5 {
            assert_eq!(
                house.answer(1, Ask::PanicInDecide).await,
                Err(AskError::Crashed)
            );
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(
            why(&house.answer(1, Ask::Read).await),
            Some(Cause::Quarantined)
        );
        advance(Duration::from_secs(400)).await;
        house.directory.sweep_now();
        assert_eq!(house.directory.overview().live, 0, "but not for ever");
    });
}

#[test]
fn a_failed_load_answers_what_was_queued_and_leaves_no_slot() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.loads_away(true);
        house.memory.hold_loads();
        let asks: Vec<_> = (0..5)
            .map(|number| house.ask(1, Ask::Add(number)))
            .collect();
        until(|| house.places(1) == 5 && house.memory.loads().0 == 1).await;
        house.memory.release_loads();
        for ask in asks {
            assert_eq!(why(&ask.await.unwrap()), Some(Cause::StoreAway));
        }
        assert_eq!(house.memory.loads().0, 1);
        until(|| house.directory.overview().live == 0).await;
        house.memory.loads_away(false);
        assert_eq!(house.answer(1, Ask::Add(1)).await, Ok(vec![1]));
    });
}

#[test]
fn a_failed_reload_is_tried_again_by_the_next_ask() {
    on_one_thread(Policy::default(), async |house| {
        assert_eq!(house.answer(1, Ask::Add(1)).await, Ok(vec![1]));
        house.memory.loads_away(true);
        house.memory.fail(2, CommitFailure::Away);
        assert_eq!(
            why(&house.answer(1, Ask::Add(2)).await),
            Some(Cause::StoreAway)
        );
        assert_eq!(
            why(&house.answer(1, Ask::Read).await),
            Some(Cause::StoreAway)
        );
        house.memory.loads_away(false);
        until(|| house.directory.overview().live == 0).await;
        assert_eq!(house.answer(1, Ask::Add(3)).await, Ok(vec![3]));
        assert_eq!(house.memory.stored(1), [1, 3]);
    });
}

#[test]
fn only_so_many_loads_are_under_way_at_once() {
    on_one_thread(
        Policy {
            loads_max: 2,
            ..Policy::default()
        },
        async |house| {
            house.memory.hold_loads();
            let asks: Vec<_> = (0..20).map(|id| house.ask(id, Ask::Add(1))).collect();
            until(|| house.memory.loads().0 == 2 && house.directory.overview().places == 20).await;
            house.memory.release_loads();
            for ask in asks {
                assert_eq!(ask.await.unwrap(), Ok(vec![1]));
            }
            assert_eq!(house.memory.loads(), (20, 2));
        },
    );
}

#[test]
fn a_thread_that_ends_takes_no_entity_with_it() {
    System::new().block_on(async {
        let placement = Placement::new();
        assert_eq!(placement.len(), 0);
        let house = House::build(memory::threaded(), placement.clone(), Policy::default());
        assert_eq!(
            why(&house.answer(1, Ask::Add(0)).await),
            Some(Cause::Draining),
            "there is no thread yet"
        );
        let (first, second) = (Arbiter::new(), Arbiter::new());
        placement.register(first.handle());
        for id in 0..20 {
            assert_eq!(house.answer(id, Ask::Add(1)).await, Ok(vec![1]));
        }
        placement.register(second.handle());
        first.stop();
        first.join().unwrap();
        for id in 0..40 {
            let expected = if id < 20 { vec![1] } else { vec![] };
            assert_eq!(house.answer(id, Ask::Read).await, Ok(expected));
        }
        assert_eq!(placement.len(), 1);
        assert_eq!(
            counted(&house.directory.overview().restarts, Restart::Thread),
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
        let house = House::build(memory::threaded(), placement.clone(), Policy::default());
        let (first, second) = (Arbiter::new(), Arbiter::new());
        placement.register(first.handle());
        house.memory.hold_loads();
        let asks: Vec<_> = (0..3)
            .map(|number| house.ask(1, Ask::Add(number)))
            .collect();
        until(|| house.places(1) == 3 && house.memory.loads().0 == 1).await;
        first.stop();
        first.join().unwrap();
        for ask in asks {
            assert_eq!(why(&ask.await.unwrap()), Some(Cause::BackingOff));
        }
        assert_eq!(house.directory.overview().live, 0);
        house.memory.release_loads();
        placement.register(second.handle());
        assert_eq!(house.answer(1, Ask::Add(9)).await, Ok(vec![9]));
        assert_eq!(house.memory.stored(1), [9]);
        second.stop();
        second.join().unwrap();
    });
}

#[test]
fn an_operator_passivates_what_has_no_work() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.hold();
        let add = house.ask(1, Ask::Add(1));
        until(|| house.memory.queued() == 1).await;
        assert!(!house.directory.passivate(1));
        assert_eq!(house.directory.busiest(10).len(), 1);
        house.memory.release();
        assert_eq!(add.await.unwrap(), Ok(vec![1]));
        assert!(house.directory.passivate(1));
        assert_eq!(house.directory.inspect(1), None);
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![1]));
    });
}
