//! A panic costs one message; too many of them cost one entity, for a while.

use std::time::Duration;

use tokio::time::advance;

use super::house::{House, cause, counted, on_one_thread, on_paused_time, why};
use super::ledger::Ask;
use crate::runtime::{AskError, Cause, Life, Policy, Restart};

const SECOND: Duration = Duration::from_secs(1);

async fn crash(house: &House, id: u64) {
    assert_eq!(
        house.answer(id, Ask::PanicInDecide).await,
        Err(AskError::Crashed)
    );
}

/// Crashes it until it is quarantined, each time as soon as it is back.
async fn quarantine(house: &House, id: u64) {
    for _ in 0..5 {
        if let Some(Life::BackingOff(left)) = house.directory.inspect(id).map(|seen| seen.life) {
            advance(left).await;
        }
        crash(house, id).await;
    }
}

#[test]
fn a_panic_fails_its_message_alone() {
    for poison in [Ask::PanicInDecide, Ask::PanicInApply, Ask::PanicInLookup] {
        on_one_thread(Policy::default(), async |house| {
            house.memory.store(1, &[10]);
            assert_eq!(house.answer(2, Ask::Add(20)).await, Ok(vec![20]));
            assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![10]));
            let (bad, next, read) = (
                house.ask(1, poison),
                house.ask(1, Ask::Add(11)),
                house.ask(1, Ask::Read),
            );
            let bystander = house.ask(2, Ask::Read);
            assert_eq!(bad.await.unwrap(), Err(AskError::Crashed));
            assert_eq!(next.await.unwrap(), Ok(vec![11]));
            assert_eq!(read.await.unwrap(), Ok(vec![10, 11]));
            assert_eq!(bystander.await.unwrap(), Ok(vec![20]));
            assert_eq!(house.memory.stored(1), [10, 11]);
            let overview = house.directory.overview();
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
                house.directory.inspect(1).unwrap(),
                house.directory.inspect(2).unwrap(),
            );
            assert_eq!((crashed.restarts, bystander.restarts), (1, 0));
            assert_eq!(bystander.last_failure, None);
        });
    }
}

#[test]
fn a_panic_leaves_the_commits_before_it_alone() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.hold();
        let (first, bad, next) = (
            house.ask(1, Ask::Add(1)),
            house.ask(1, Ask::PanicInDecide),
            house.ask(1, Ask::Add(2)),
        );
        assert_eq!(bad.await.unwrap(), Err(AskError::Crashed));
        assert!(!first.is_finished());
        house.memory.release();
        assert_eq!(first.await.unwrap(), Ok(vec![1]));
        assert_eq!(next.await.unwrap(), Ok(vec![2]));
        assert_eq!(house.memory.stored(1), [1, 2]);
        assert_eq!(
            house.directory.overview().conflicts,
            0,
            "the reload went behind the commits"
        );
    });
}

#[test]
fn the_second_crash_backs_off_and_the_queue_waits_for_it() {
    on_paused_time(Policy::default(), async |house| {
        house.memory.store(1, &[10]);
        crash(&house, 1).await;
        let (bad, queued) = (house.ask(1, Ask::PanicInDecide), house.ask(1, Ask::Read));
        assert_eq!(bad.await.unwrap(), Err(AskError::Crashed));
        let (refused, left) = cause(&house.answer(1, Ask::Read).await).unwrap();
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
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![10]));
    });
}

#[test]
fn the_fifth_crash_quarantines_that_entity_and_nothing_else() {
    on_paused_time(Policy::default(), async |house| {
        house.memory.store(1, &[10]);
        assert_eq!(house.answer(2, Ask::Add(20)).await, Ok(vec![20]));
        for _ in 0..4 {
            crash(&house, 1).await;
            if let Some(Life::BackingOff(left)) = house.directory.inspect(1).map(|seen| seen.life) {
                advance(left).await;
            }
        }
        let (bad, queued) = (house.ask(1, Ask::PanicInDecide), house.ask(1, Ask::Add(11)));
        assert_eq!(bad.await.unwrap(), Err(AskError::Crashed));
        assert_eq!(why(&queued.await.unwrap()), Some(Cause::Quarantined));
        let (refused, left) = cause(&house.answer(1, Ask::Read).await).unwrap();
        assert_eq!(refused, Cause::Quarantined);
        assert!(left > 59 * SECOND && left <= 60 * SECOND, "{left:?}");
        assert_eq!(house.answer(2, Ask::Read).await, Ok(vec![20]));
        assert_eq!(house.directory.overview().quarantined, 1);
        assert_eq!(house.memory.stored(1), [10]);
        house.directory.sweep_now();
        assert!(house.directory.inspect(1).is_some(), "it is not forgotten");
    });
}

#[test]
fn after_the_quarantine_there_is_one_trial() {
    on_paused_time(Policy::default(), async |house| {
        house.memory.store(1, &[10]);
        quarantine(&house, 1).await;
        advance(60 * SECOND).await;
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![10]));
        crash(&house, 1).await;
        assert_eq!(
            why(&house.answer(1, Ask::Read).await),
            Some(Cause::Quarantined),
            "one crash ends the trial"
        );
        advance(60 * SECOND).await;
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![10]));
        advance(31 * SECOND).await;
        crash(&house, 1).await;
        assert_eq!(
            house.answer(1, Ask::Read).await,
            Ok(vec![10]),
            "the trial was passed"
        );
    });
}

#[test]
fn crashes_that_are_far_apart_do_not_add_up() {
    on_paused_time(Policy::default(), async |house| {
        for _ in 0..10 {
            crash(&house, 1).await;
            advance(31 * SECOND).await;
        }
        assert_eq!(house.directory.overview().quarantines, 0);
    });
}

#[test]
fn an_operator_ends_a_quarantine() {
    on_paused_time(Policy::default(), async |house| {
        house.memory.store(1, &[10]);
        quarantine(&house, 1).await;
        assert!(house.directory.release(1));
        assert!(!house.directory.release(1));
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![10]));
        crash(&house, 1).await;
        assert_eq!(
            house.answer(1, Ask::Read).await,
            Ok(vec![10]),
            "its crashes are forgotten"
        );
    });
}

#[test]
fn panics_in_loads_and_lookups_count() {
    on_paused_time(Policy::default(), async |house| {
        house.memory.loads_panic(1);
        let (first, second) = (house.ask(1, Ask::Add(1)), house.ask(1, Ask::Add(2)));
        assert_eq!(
            why(&first.await.unwrap()),
            Some(Cause::BackingOff),
            "it had not started"
        );
        assert_eq!(second.await.unwrap(), Ok(vec![2]));
        house.memory.finds_panic(true);
        assert_eq!(
            house.answer(1, Ask::AddFound(4)).await,
            Err(AskError::Crashed)
        );
        house.memory.finds_panic(false);
        assert_eq!(house.directory.inspect(1).unwrap().restarts, 2);
    });
}

#[test]
fn an_operator_makes_an_entity_load_again() {
    on_paused_time(Policy::default(), async |house| {
        assert_eq!(house.answer(1, Ask::Add(1)).await, Ok(vec![1]));
        house.memory.store(1, &[1, 2]);
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![1]));
        assert!(house.directory.restart(1));
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![1, 2]));
        assert!(!house.directory.restart(2));
    });
}
