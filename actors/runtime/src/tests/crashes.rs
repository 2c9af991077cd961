//! A panic costs one message; too many of them cost one entity, for a while.

use std::time::Duration;

use tokio::time::advance;

use super::fixture::{Fixture, cause, counted, on_one_thread, on_paused_time, why};
use super::ledger::Command;
use super::memory_journal::Lookups;
use crate::{AskError, Cause, Life, Policy, Restart};

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
        assert_eq!(fixture.directory.overview().quarantined, 1);
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
