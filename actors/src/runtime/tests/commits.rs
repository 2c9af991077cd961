//! Commits: pipelined, fenced, and what an answer rests on.

use super::house::{counted, on_one_thread, until, why};
use super::ledger::{Ask, Broken, Refused};
use crate::runtime::{AskError, Cause, CommitFailure, Policy, Restart};

#[test]
fn a_refused_commit_takes_the_later_ones_of_its_incarnation_and_nothing_else() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.hold();
        house.memory.fail(3, CommitFailure::Conflict);
        let other = house.ask(2, Ask::Add(20));
        let mut asks: Vec<_> = (1..=6)
            .map(|number| house.ask(1, Ask::Add(number)))
            .collect();
        until(|| house.memory.queued() == 7).await;
        house.memory.release();
        let mut answers = Vec::new();
        for ask in asks.drain(..) {
            answers.push(ask.await.unwrap());
        }
        assert_eq!(
            answers
                .iter()
                .filter_map(|answer| answer.clone().ok())
                .collect::<Vec<_>>(),
            [[1], [2]]
        );
        let causes: Vec<_> = answers.iter().filter_map(why).collect();
        assert_eq!(
            causes,
            [
                Cause::Conflict,
                Cause::StoreAway,
                Cause::StoreAway,
                Cause::StoreAway
            ]
        );
        assert_eq!(other.await.unwrap(), Ok(vec![20]));
        assert_eq!(house.answer(1, Ask::Add(7)).await, Ok(vec![7]));
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![1, 2, 7]));
        assert_eq!(house.memory.stored(1), [1, 2, 7]);
        let overview = house.directory.overview();
        assert_eq!(overview.conflicts, 1);
        assert_eq!(counted(&overview.restarts, Restart::Conflict), 1);
        assert_eq!(counted(&overview.restarts, Restart::Crash), 0);
        assert_eq!(house.directory.inspect(1).unwrap().committed, 3);
    });
}

#[test]
fn an_unknown_outcome_is_looked_up_in_the_store() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.fail(1, CommitFailure::Unknown);
        assert_eq!(house.answer(1, Ask::Add(1)).await, Err(AskError::Unknown));
        assert_eq!(
            house.answer(1, Ask::Read).await,
            Ok(vec![1]),
            "it had been stored"
        );
        house.memory.fail(2, CommitFailure::Away);
        assert_eq!(
            why(&house.answer(1, Ask::Add(2)).await),
            Some(Cause::StoreAway)
        );
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![1]));
        house.memory.fail(3, CommitFailure::Conflict);
        assert_eq!(
            why(&house.answer(1, Ask::Keep(3)).await),
            Some(Cause::Conflict)
        );
        assert_eq!(house.answer(1, Ask::Keep(4)).await, Ok(vec![4]));
        assert_eq!(house.memory.kept(), [4]);
        assert_eq!(house.directory.inspect(1).unwrap().restarts, 0);
    });
}

#[test]
fn a_commit_that_the_journal_loses_has_an_unknown_outcome() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.hold();
        let (add, read) = (house.ask(1, Ask::Add(1)), house.ask(1, Ask::Read));
        until(|| house.memory.queued() == 2).await;
        house.memory.lose();
        assert_eq!(add.await.unwrap(), Err(AskError::Unknown));
        assert_eq!(why(&read.await.unwrap()), Some(Cause::StoreAway));
        house.memory.release();
        assert_eq!(house.answer(1, Ask::Add(2)).await, Ok(vec![2]));
        assert_eq!(house.memory.stored(1), [2]);
    });
}

#[test]
fn an_answer_leaves_behind_the_commits_that_it_saw() {
    on_one_thread(Policy::default(), async |house| {
        assert_eq!(house.answer(1, Ask::Add(1)).await, Ok(vec![1]));
        house.memory.hold();
        assert_eq!(
            house.answer(1, Ask::Read).await,
            Ok(vec![1]),
            "nothing is under way, so it leaves at once"
        );
        let (add, read, refused) = (
            house.ask(1, Ask::Add(2)),
            house.ask(1, Ask::Read),
            house.ask(1, Ask::Never),
        );
        until(|| house.memory.queued() == 3).await;
        assert!(!read.is_finished() && !refused.is_finished());
        house.memory.release();
        assert_eq!(add.await.unwrap(), Ok(vec![2]));
        assert_eq!(read.await.unwrap(), Ok(vec![1, 2]));
        assert_eq!(refused.await.unwrap(), Err(AskError::Refused(Refused)));
    });
}

#[test]
fn an_answer_fails_with_the_commit_that_it_saw() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.hold();
        house.memory.fail(1, CommitFailure::Away);
        let (add, read) = (house.ask(1, Ask::Add(1)), house.ask(1, Ask::Read));
        until(|| house.memory.queued() == 2).await;
        house.memory.release();
        assert_eq!(why(&add.await.unwrap()), Some(Cause::StoreAway));
        assert_eq!(why(&read.await.unwrap()), Some(Cause::StoreAway));
    });
}

#[test]
fn a_conditional_change_waits_for_its_verdict() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.hold();
        house.memory.fail(1, CommitFailure::Broken(Broken));
        let (broken, next, last) = (
            house.ask(1, Ask::AddIf(1)),
            house.ask(1, Ask::AddIf(2)),
            house.ask(1, Ask::Add(3)),
        );
        until(|| house.memory.queued() == 1 && house.places(1) == 3).await;
        house.memory.release();
        assert_eq!(broken.await.unwrap(), Err(AskError::Refused(Refused)));
        assert_eq!(next.await.unwrap(), Ok(vec![2]));
        assert_eq!(last.await.unwrap(), Ok(vec![3]));
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![2, 3]));
        assert_eq!(
            house.memory.loads().0,
            1,
            "a broken condition is no reason to reload"
        );
    });
}

#[test]
fn a_pipelined_commit_that_is_broken_leaves_no_trace_in_memory() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.store(1, &[10]);
        house.memory.fail(1, CommitFailure::Broken(Broken));
        assert_eq!(
            house.answer(1, Ask::Add(1)).await,
            Err(AskError::Refused(Refused))
        );
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![10]));
    });
}

#[test]
fn a_lookup_waits_for_what_was_submitted() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.hold();
        let (add, found, last) = (
            house.ask(1, Ask::Add(1)),
            house.ask(1, Ask::AddFound(4)),
            house.ask(1, Ask::Add(9)),
        );
        until(|| house.memory.queued() == 2).await;
        assert_eq!(house.places(1), 3);
        house.memory.release();
        assert_eq!(add.await.unwrap(), Ok(vec![1]));
        assert_eq!(found.await.unwrap(), Ok(vec![8]));
        assert_eq!(last.await.unwrap(), Ok(vec![9]));
        house.memory.hold();
        house.memory.fail(2, CommitFailure::Conflict);
        let (add, found) = (house.ask(1, Ask::Add(2)), house.ask(1, Ask::AddFound(5)));
        until(|| house.memory.queued() == 2).await;
        house.memory.release();
        assert_eq!(why(&add.await.unwrap()), Some(Cause::Conflict));
        assert_eq!(
            found.await.unwrap(),
            Ok(vec![10]),
            "it is judged on the reloaded state"
        );
        house.memory.finds_away(true);
        assert_eq!(
            why(&house.answer(1, Ask::AddFound(6)).await),
            Some(Cause::StoreAway)
        );
        assert_eq!(house.memory.stored(1), [1, 8, 9, 10]);
    });
}
