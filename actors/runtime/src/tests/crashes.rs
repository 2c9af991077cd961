//! A panic costs one message; too many of them cost one entity, for a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{Instant, advance};

use super::fixture::{Fixture, cause, counted, on_one_thread, on_paused_time, until, why};
use super::ledger::Command;
use super::memory_journal::Lookups;
use crate::{
    ActorState, AskError, Cause, Directory, InstanceOrder, InstanceQuery, Life, Policy, Restart,
    SupervisedKind,
};
use colloquy_model::sequence::Sequence;

const SECOND: Duration = Duration::from_secs(1);

async fn crash(fixture: &Fixture, id: u64) {
    assert_eq!(
        fixture.answer(id, Command::PanicInDecide).await,
        Err(AskError::Crashed)
    );
}

/// Crashes it until it is quarantined, each time as soon as it is back.
async fn quarantine(fixture: &Fixture, id: u64) {
    for _ in 0..5 {
        if let Some(Life::BackingOff(left)) = fixture.directory.inspect(id).map(|seen| seen.life) {
            advance(left).await;
        }
        crash(fixture, id).await;
    }
}

#[test]
fn a_panic_fails_its_message_alone() {
    for poison in [
        Command::PanicInDecide,
        Command::PanicInApply,
        Command::PanicInLookup,
    ] {
        on_one_thread(Policy::default(), async |fixture| {
            fixture.journal.store(1, &[10]);
            assert_eq!(fixture.answer(2, Command::Add(20)).await, Ok(vec![20]));
            assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
            let (bad, next, read) = (
                fixture.ask(1, poison),
                fixture.ask(1, Command::Add(11)),
                fixture.ask(1, Command::Read),
            );
            let bystander = fixture.ask(2, Command::Read);
            assert_eq!(bad.await.unwrap(), Err(AskError::Crashed));
            assert_eq!(next.await.unwrap(), Ok(vec![11]));
            assert_eq!(read.await.unwrap(), Ok(vec![10, 11]));
            assert_eq!(bystander.await.unwrap(), Ok(vec![20]));
            assert_eq!(fixture.journal.stored(1), [10, 11]);
            let overview = fixture.directory.overview();
            assert_eq!(
                overview.activations, 2,
                "the address of the crashed one is the same"
            );
            assert_eq!(counted(&overview.restarts, Restart::Crash), 1);
            assert!(
                overview
                    .failures
                    .first()
                    .unwrap()
                    .text
                    .starts_with("poison in")
            );
            let (crashed, bystander) = (
                fixture.directory.inspect(1).unwrap(),
                fixture.directory.inspect(2).unwrap(),
            );
            assert_eq!((crashed.restarts, bystander.restarts), (1, 0));
            assert_eq!(bystander.last_failure, None);
        });
    }
}

#[test]
fn a_panic_leaves_the_commits_before_it_alone() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.hold();
        let (first, bad, next) = (
            fixture.ask(1, Command::Add(1)),
            fixture.ask(1, Command::PanicInDecide),
            fixture.ask(1, Command::Add(2)),
        );
        assert_eq!(bad.await.unwrap(), Err(AskError::Crashed));
        assert!(!first.is_finished());
        fixture.journal.release();
        assert_eq!(first.await.unwrap(), Ok(vec![1]));
        assert_eq!(next.await.unwrap(), Ok(vec![2]));
        assert_eq!(fixture.journal.stored(1), [1, 2]);
        assert_eq!(
            fixture.directory.overview().conflicts,
            0,
            "the reload went behind the commits"
        );
    });
}

#[test]
fn the_second_crash_backs_off_and_the_queue_waits_for_it() {
    on_paused_time(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        crash(&fixture, 1).await;
        let (bad, queued) = (
            fixture.ask(1, Command::PanicInDecide),
            fixture.ask(1, Command::Read),
        );
        assert_eq!(bad.await.unwrap(), Err(AskError::Crashed));
        let (refused, left) = cause(&fixture.answer(1, Command::Read).await).unwrap();
        assert_eq!(refused, Cause::BackingOff);
        assert!(
            (80..=120).contains(&left.as_millis()),
            "100 ms with 20 % jitter, not {left:?}"
        );
        assert_eq!(
            queued.await.unwrap(),
            Ok(vec![10]),
            "what was queued waits for the reloaded state"
        );
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
    });
}

#[test]
fn the_fifth_crash_quarantines_that_entity_and_nothing_else() {
    on_paused_time(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        assert_eq!(fixture.answer(2, Command::Add(20)).await, Ok(vec![20]));
        for _ in 0..4 {
            crash(&fixture, 1).await;
            if let Some(Life::BackingOff(left)) = fixture.directory.inspect(1).map(|seen| seen.life)
            {
                advance(left).await;
            }
        }
        let (bad, queued) = (
            fixture.ask(1, Command::PanicInDecide),
            fixture.ask(1, Command::Add(11)),
        );
        assert_eq!(bad.await.unwrap(), Err(AskError::Crashed));
        assert_eq!(why(&queued.await.unwrap()), Some(Cause::Quarantined));
        let (refused, left) = cause(&fixture.answer(1, Command::Read).await).unwrap();
        assert_eq!(refused, Cause::Quarantined);
        assert!(left > 59 * SECOND && left <= 60 * SECOND, "{left:?}");
        assert_eq!(fixture.answer(2, Command::Read).await, Ok(vec![20]));
        assert_eq!(fixture.directory.overview().by_state.quarantined, 1);
        assert_eq!(fixture.journal.stored(1), [10]);
        fixture.directory.sweep_now();
        assert!(
            fixture.directory.inspect(1).is_some(),
            "it is not forgotten"
        );
    });
}

#[test]
fn after_the_quarantine_there_is_one_trial() {
    on_paused_time(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        quarantine(&fixture, 1).await;
        advance(60 * SECOND).await;
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
        crash(&fixture, 1).await;
        assert_eq!(
            why(&fixture.answer(1, Command::Read).await),
            Some(Cause::Quarantined),
            "one crash ends the trial"
        );
        advance(60 * SECOND).await;
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
        advance(31 * SECOND).await;
        crash(&fixture, 1).await;
        assert_eq!(
            fixture.answer(1, Command::Read).await,
            Ok(vec![10]),
            "the trial was passed"
        );
    });
}

#[test]
fn crashes_that_are_far_apart_do_not_add_up() {
    on_paused_time(Policy::default(), async |fixture| {
        for _ in 0..10 {
            crash(&fixture, 1).await;
            advance(31 * SECOND).await;
        }
        assert_eq!(fixture.directory.overview().quarantines, 0);
    });
}

#[test]
fn an_operator_ends_a_quarantine() {
    on_paused_time(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        quarantine(&fixture, 1).await;
        assert!(fixture.directory.release(1));
        assert!(!fixture.directory.release(1));
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
        crash(&fixture, 1).await;
        assert_eq!(
            fixture.answer(1, Command::Read).await,
            Ok(vec![10]),
            "its crashes are forgotten"
        );
    });
}

#[test]
fn an_operator_ends_a_backoff_and_what_waits_is_done_at_once() {
    for ends in [Directory::restart, Directory::release] {
        let policy = Policy {
            backoff_min: 600 * SECOND,
            backoff_max: 600 * SECOND,
            ask_timeout: 300 * SECOND,
            ..Policy::default()
        };
        on_paused_time(policy, async |fixture| {
            crash(&fixture, 1).await;
            let crashing = fixture.ask(1, Command::PanicInDecide);
            let waiting = fixture.ask(1, Command::Add(1));
            assert_eq!(crashing.await.unwrap(), Err(AskError::Crashed));
            assert!(ends(&fixture.directory, 1));
            let before = Instant::now();
            assert_eq!(waiting.await.unwrap(), Ok(vec![1]));
            assert!(before.elapsed() < SECOND);
        });
    }
}

#[test]
fn a_change_of_the_policy_holds_for_a_backoff_that_runs() {
    let long = Policy {
        backoff_min: 600 * SECOND,
        backoff_max: 600 * SECOND,
        jitter: 0.0,
        ..Policy::default()
    };
    on_paused_time(long.clone(), async |fixture| {
        fixture.journal.store(1, &[10]);
        crash(&fixture, 1).await;
        crash(&fixture, 1).await;
        advance(10 * SECOND).await;
        for (backoff_max, left) in [(60 * SECOND, 50 * SECOND), (400 * SECOND, 390 * SECOND)] {
            let backoff_max = Policy {
                backoff_max,
                ..long.clone()
            };
            fixture.directory.set_policy(backoff_max);
            let refused = cause(&fixture.answer(1, Command::Read).await);
            assert_eq!(refused, Some((Cause::BackingOff, left)));
        }
        let over = Policy {
            backoff_max: 5 * SECOND,
            ..long
        };
        fixture.directory.set_policy(over);
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
        let seen = fixture.directory.inspect(1).unwrap();
        assert_eq!(seen.life, Life::Ready);
    });
}

#[test]
fn panics_in_loads_and_lookups_count() {
    on_paused_time(Policy::default(), async |fixture| {
        fixture.journal.loads_panic(1);
        let (first, second) = (
            fixture.ask(1, Command::Add(1)),
            fixture.ask(1, Command::Add(2)),
        );
        assert_eq!(
            why(&first.await.unwrap()),
            Some(Cause::BackingOff),
            "it had not started"
        );
        assert_eq!(second.await.unwrap(), Ok(vec![2]));
        fixture.journal.set_lookups(Lookups::Panic);
        assert_eq!(
            fixture.answer(1, Command::AddFound(4)).await,
            Err(AskError::Crashed)
        );
        fixture.journal.set_lookups(Lookups::Succeed);
        assert_eq!(fixture.directory.inspect(1).unwrap().restarts, 2);
    });
}

#[test]
fn an_operator_makes_an_entity_load_again() {
    on_paused_time(Policy::default(), async |fixture| {
        assert_eq!(fixture.answer(1, Command::Add(1)).await, Ok(vec![1]));
        fixture.journal.store(1, &[1, 2]);
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![1]));
        assert!(fixture.directory.restart(1));
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![1, 2]));
        assert!(!fixture.directory.restart(2));
    });
}

#[test]
fn a_thousand_restarts_at_once_are_one() {
    on_one_thread(Policy::default(), async |fixture| {
        assert_eq!(fixture.answer(1, Command::Add(1)).await, Ok(vec![1]));
        for _ in 0..1_000 {
            assert!(fixture.directory.restart(1));
        }
        assert_eq!(fixture.answer(1, Command::Add(2)).await, Ok(vec![2]));
        let overview = fixture.directory.overview();
        assert_eq!(counted(&overview.restarts, Restart::Operator), 1);
        assert!(fixture.directory.restart(1), "the first one is done");
        let overview = fixture.directory.overview();
        assert_eq!(counted(&overview.restarts, Restart::Operator), 2);
        assert_eq!(fixture.directory.inspect(1).unwrap().restarts, 2);
        assert_eq!(fixture.journal.stored(1), [1, 2]);
    });
}

#[test]
fn a_release_is_no_activation_and_no_restart() {
    on_paused_time(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        quarantine(&fixture, 1).await;
        assert!(!fixture.directory.restart(1), "no actor runs");
        let passivated = fixture.directory.passivate(1).await;
        assert_eq!(passivated, Ok(false), "it is not forgotten");
        assert!(fixture.directory.release(1));
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
        let overview = fixture.directory.overview();
        assert_eq!(overview.activations, 1, "it never left");
        assert_eq!(counted(&overview.restarts, Restart::Crash), 4);
        assert_eq!(counted(&overview.restarts, Restart::Thread), 0);
        assert_eq!(overview.failures.len(), 5);
    });
}

#[test]
fn a_drill_crashes_the_next_command_and_no_other() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        assert!(fixture.directory.drill(1).await.is_ok());
        let seen = fixture.directory.inspect(1).unwrap();
        assert_eq!(
            (seen.life, seen.revision),
            (Life::Ready, Sequence(1)),
            "it is loaded"
        );
        for expected in [Err(AskError::Crashed), Ok(vec![10])] {
            assert_eq!(fixture.answer(1, Command::Read).await, expected);
        }
        assert!(fixture.directory.drill(1).await.is_ok());
        fixture.directory.sweep_now();
        let (crashed, queued) = (
            fixture.ask(1, Command::Add(11)),
            fixture.ask(1, Command::Add(12)),
        );
        assert_eq!(crashed.await.unwrap(), Err(AskError::Crashed));
        assert_eq!(queued.await.unwrap(), Ok(vec![12]));
        assert_eq!(fixture.journal.stored(1), [10, 12]);
    });
}

#[test]
fn a_drill_of_what_cannot_be_loaded_is_refused() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        fixture.directory.drain();
        assert!(fixture.directory.drill(1).await.is_err());
        fixture.directory.resume();
        fixture.journal.fail_loads();
        assert!(fixture.directory.drill(1).await.is_err());
        until(|| fixture.directory.overview().live == 0).await;
        fixture.journal.serve_loads();
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
    });
}

#[test]
fn what_is_loading_is_restarted_passivated_and_crashed_behind_its_load() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        fixture.journal.hold_loads();
        let read = fixture.ask(1, Command::Read);
        until(|| fixture.journal.loads().0 == 1).await;
        let seen = fixture.directory.inspect(1).unwrap();
        assert_eq!(seen.life, Life::Loading);
        let shown = SupervisedKind::instance(&*fixture.directory, "1").await;
        let shown = shown.unwrap().seen.life;
        assert_eq!(
            shown,
            Life::Loading,
            "at once, although nothing can be read"
        );
        assert!(fixture.directory.restart(1));
        let directory = Arc::clone(&fixture.directory);
        let leaving = spawn_local(async move { directory.passivate(1).await });
        tokio::task::yield_now().await;
        fixture.journal.release_loads();
        assert_eq!(read.await.unwrap(), Ok(vec![10]));
        assert_eq!(leaving.await.unwrap(), Ok(true));
        assert_eq!(fixture.directory.inspect(1), None);
        fixture.journal.hold_loads();
        let read = fixture.ask(1, Command::Read);
        until(|| fixture.journal.loads().0 == 2).await;
        assert!(fixture.directory.drill(1).await.is_ok());
        fixture.journal.release_loads();
        assert_eq!(read.await.unwrap(), Err(AskError::Crashed));
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
    });
}

#[test]
fn operators_see_what_is_in_memory_by_state_and_in_order() {
    on_paused_time(Policy::default(), async |fixture| {
        for id in 1..=30 {
            assert!(fixture.answer(id, Command::Add(id)).await.is_ok());
            advance(SECOND).await;
        }
        crash(&fixture, 7).await;
        quarantine(&fixture, 3).await;
        let listed = |state, order, limit| -> Vec<u64> {
            let found = fixture.directory.instances(InstanceQuery {
                state,
                order,
                limit,
            });
            found.into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(listed(None, InstanceOrder::Restarts, 2), [3, 7]);
        assert_eq!(listed(None, InstanceOrder::LastUsed, 4), [3, 7, 30, 29]);
        let quarantined = Some(ActorState::Quarantined);
        assert_eq!(listed(quarantined, InstanceOrder::Mailbox, 100), [3]);
        assert_eq!(
            listed(Some(ActorState::Ready), InstanceOrder::Bytes, 100).len(),
            29
        );
        let counts = fixture.directory.overview().by_state;
        assert_eq!((counts.ready, counts.quarantined), (29, 1));
        let passive = fixture.directory.find(99).await;
        assert_eq!(passive, Ok(None), "nothing is stored");
        assert_eq!(fixture.directory.passivate(9).await, Ok(true));
        let passive = fixture.directory.find(9).await.unwrap().unwrap();
        assert_eq!(
            (passive.life, passive.revision),
            (Life::Passive, Sequence(1))
        );
    });
}

#[test]
fn a_drill_keeps_no_entity_in_memory_and_outlives_every_passivation() {
    let policy = Policy {
        active_max: 10,
        ..Policy::default()
    };
    on_paused_time(policy, async |fixture| {
        for id in 0..20 {
            fixture.journal.store(id, &[id]);
            assert!(fixture.directory.drill(id).await.is_ok());
            advance(SECOND).await;
        }
        fixture.directory.sweep_now();
        assert!(fixture.directory.overview().live <= 10, "active_max holds");
        advance(400 * SECOND).await;
        fixture.directory.sweep_now();
        assert_eq!(fixture.directory.overview().live, 0, "they were idle");
        assert!(fixture.directory.drill(0).await.is_ok());
        assert_eq!(fixture.directory.passivate(0).await, Ok(true));
        for id in 0..20 {
            crash_by_drill(&fixture, id).await;
        }
    });
}

/// The next command of an entity crashes it, and the one after that does not.
async fn crash_by_drill(fixture: &Fixture, id: u64) {
    for expected in [Err(AskError::Crashed), Ok(vec![id])] {
        assert_eq!(fixture.answer(id, Command::Read).await, expected, "{id}");
    }
}

#[test]
fn an_operator_who_passivates_an_entity_forgives_none_of_its_crashes() {
    on_paused_time(Policy::default(), async |fixture| {
        for nth in 1..=5 {
            if let Some(Life::BackingOff(left)) = fixture.directory.inspect(1).map(|seen| seen.life)
            {
                advance(left).await;
            }
            crash(&fixture, 1).await;
            let is_out = nth == 5 || {
                let backoff = fixture.directory.inspect(1).map(|seen| seen.life);
                if let Some(Life::BackingOff(left)) = backoff {
                    advance(left).await;
                }
                fixture.directory.passivate(1).await == Ok(true)
            };
            assert!(is_out, "after crash {nth}");
        }
        assert_eq!(
            why(&fixture.answer(1, Command::Read).await),
            Some(Cause::Quarantined)
        );
        assert_eq!(fixture.directory.overview().quarantines, 1);
    });
}

#[test]
fn crashes_of_a_passivated_entity_that_are_far_apart_do_not_add_up() {
    on_paused_time(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        for _ in 0..10 {
            crash(&fixture, 1).await;
            assert_eq!(fixture.directory.passivate(1).await, Ok(true));
            advance(31 * SECOND).await;
        }
        assert_eq!(fixture.directory.overview().quarantines, 0);
    });
}

#[test]
fn a_trial_is_still_to_come_after_a_passivation() {
    for while_it_runs in [false, true] {
        on_paused_time(Policy::default(), async |fixture| {
            fixture.journal.store(1, &[10]);
            quarantine(&fixture, 1).await;
            assert_eq!(fixture.directory.passivate(1).await, Ok(false));
            advance(60 * SECOND).await;
            let seen = fixture.directory.inspect(1).unwrap();
            assert_eq!(seen.life, Life::Ready, "nobody has asked it since");
            if while_it_runs {
                assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
            }
            assert_eq!(fixture.directory.passivate(1).await, Ok(true));
            crash(&fixture, 1).await;
            assert_eq!(
                why(&fixture.answer(1, Command::Read).await),
                Some(Cause::Quarantined)
            );
        });
    }
}

#[test]
fn a_trial_costs_no_more_memory_the_more_crashes_are_allowed() {
    on_paused_time(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        quarantine(&fixture, 1).await;
        fixture.directory.set_policy(Policy {
            crashes_max: u32::MAX,
            ..Policy::default()
        });
        advance(60 * SECOND).await;
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
        crash(&fixture, 1).await;
        assert_eq!(
            why(&fixture.answer(1, Command::Read).await),
            Some(Cause::Quarantined)
        );
    });
}

#[test]
fn a_restart_that_ends_a_backoff_is_counted_with_its_crash() {
    on_paused_time(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        crash(&fixture, 1).await;
        crash(&fixture, 1).await;
        for _ in 0..2 {
            assert!(fixture.directory.restart(1));
        }
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
        let restarts = fixture.directory.overview().restarts;
        let counts = [Restart::Crash, Restart::Operator].map(|why| counted(&restarts, why));
        assert_eq!(counts, [2, 0]);
        assert_eq!(fixture.directory.inspect(1).unwrap().restarts, 2);
    });
}
