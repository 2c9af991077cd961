//! Commits: pipelined, fenced, and what an answer rests on.

use super::fixture::{counted, on_one_thread, until, why};
use super::ledger::{Command, Refused, Violation};
use super::memory_journal::Lookups;
use crate::{AskError, Cause, CommitFailure, Policy, Restart};
use colloquy_model::sequence::Sequence;

#[test]
fn a_refused_commit_takes_the_later_ones_of_its_incarnation_and_nothing_else() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.hold();
        fixture.journal.fail(3, CommitFailure::Conflict);
        let other = fixture.ask(2, Command::Add(20));
        let mut asks: Vec<_> = (1..=6)
            .map(|number| fixture.ask(1, Command::Add(number)))
            .collect();
        until(|| fixture.journal.queued() == 7).await;
        fixture.journal.release();
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
                Cause::StoreUnavailable,
                Cause::StoreUnavailable,
                Cause::StoreUnavailable
            ]
        );
        assert_eq!(other.await.unwrap(), Ok(vec![20]));
        assert_eq!(fixture.answer(1, Command::Add(7)).await, Ok(vec![7]));
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![1, 2, 7]));
        assert_eq!(fixture.journal.stored(1), [1, 2, 7]);
        let overview = fixture.directory.overview();
        assert_eq!(overview.conflicts, 1);
        assert_eq!(counted(&overview.restarts, Restart::Conflict), 1);
        assert_eq!(counted(&overview.restarts, Restart::Crash), 0);
        assert_eq!(fixture.directory.inspect(1).unwrap().committed, Sequence(3));
    });
}

#[test]
fn an_unknown_outcome_is_looked_up_in_the_store() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.fail(1, CommitFailure::Unknown);
        assert_eq!(
            fixture.answer(1, Command::Add(1)).await,
            Err(AskError::Unknown)
        );
        assert_eq!(
            fixture.answer(1, Command::Read).await,
            Ok(vec![1]),
            "it had been stored"
        );
        fixture.journal.fail(2, CommitFailure::Unavailable);
        assert_eq!(
            why(&fixture.answer(1, Command::Add(2)).await),
            Some(Cause::StoreUnavailable)
        );
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![1]));
        fixture.journal.fail(3, CommitFailure::Conflict);
        assert_eq!(
            why(&fixture.answer(1, Command::Keep(3)).await),
            Some(Cause::Conflict)
        );
        assert_eq!(fixture.answer(1, Command::Keep(4)).await, Ok(vec![4]));
        assert_eq!(fixture.journal.kept(), [4]);
        assert_eq!(fixture.directory.inspect(1).unwrap().restarts, 3);
    });
}

#[test]
fn a_commit_that_the_journal_loses_has_an_unknown_outcome() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.hold();
        let (add, read) = (
            fixture.ask(1, Command::Add(1)),
            fixture.ask(1, Command::Read),
        );
        until(|| fixture.journal.queued() == 2).await;
        fixture.journal.lose();
        assert_eq!(add.await.unwrap(), Err(AskError::Unknown));
        assert_eq!(why(&read.await.unwrap()), Some(Cause::StoreUnavailable));
        fixture.journal.release();
        assert_eq!(fixture.answer(1, Command::Add(2)).await, Ok(vec![2]));
        assert_eq!(fixture.journal.stored(1), [2]);
    });
}

#[test]
fn an_answer_leaves_behind_the_commits_that_it_saw() {
    on_one_thread(Policy::default(), async |fixture| {
        assert_eq!(fixture.answer(1, Command::Add(1)).await, Ok(vec![1]));
        fixture.journal.hold();
        assert_eq!(
            fixture.answer(1, Command::Read).await,
            Ok(vec![1]),
            "nothing is under way, so it leaves at once"
        );
        let (add, read, refused) = (
            fixture.ask(1, Command::Add(2)),
            fixture.ask(1, Command::Read),
            fixture.ask(1, Command::Never),
        );
        until(|| fixture.journal.queued() == 3).await;
        assert!(!read.is_finished() && !refused.is_finished());
        fixture.journal.release();
        assert_eq!(add.await.unwrap(), Ok(vec![2]));
        assert_eq!(read.await.unwrap(), Ok(vec![1, 2]));
        assert_eq!(refused.await.unwrap(), Err(AskError::Refused(Refused)));
    });
}

#[test]
fn an_answer_fails_with_the_commit_that_it_saw() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.hold();
        fixture.journal.fail(1, CommitFailure::Unavailable);
        let (add, read) = (
            fixture.ask(1, Command::Add(1)),
            fixture.ask(1, Command::Read),
        );
        until(|| fixture.journal.queued() == 2).await;
        fixture.journal.release();
        assert_eq!(why(&add.await.unwrap()), Some(Cause::StoreUnavailable));
        assert_eq!(why(&read.await.unwrap()), Some(Cause::StoreUnavailable));
    });
}

#[test]
fn a_conditional_change_waits_for_its_verdict() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.hold();
        fixture.journal.fail(1, CommitFailure::Violated(Violation));
        let (broken, next, last) = (
            fixture.ask(1, Command::AddIf(1)),
            fixture.ask(1, Command::AddIf(2)),
            fixture.ask(1, Command::Add(3)),
        );
        until(|| fixture.journal.queued() == 1 && fixture.permits_taken(1) == 3).await;
        fixture.journal.release();
        assert_eq!(broken.await.unwrap(), Err(AskError::Refused(Refused)));
        assert_eq!(next.await.unwrap(), Ok(vec![2]));
        assert_eq!(last.await.unwrap(), Ok(vec![3]));
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![2, 3]));
        assert_eq!(
            fixture.journal.loads().0,
            1,
            "a broken condition is no reason to reload"
        );
    });
}

#[test]
fn a_pipelined_commit_that_is_broken_leaves_no_trace_in_memory() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        fixture.journal.fail(1, CommitFailure::Violated(Violation));
        assert_eq!(
            fixture.answer(1, Command::Add(1)).await,
            Err(AskError::Refused(Refused))
        );
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![10]));
    });
}

#[test]
fn a_lookup_waits_for_what_was_submitted() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.hold();
        let (add, found, last) = (
            fixture.ask(1, Command::Add(1)),
            fixture.ask(1, Command::AddFound(4)),
            fixture.ask(1, Command::Add(9)),
        );
        until(|| fixture.journal.queued() == 2).await;
        assert_eq!(fixture.permits_taken(1), 3);
        fixture.journal.release();
        assert_eq!(add.await.unwrap(), Ok(vec![1]));
        assert_eq!(found.await.unwrap(), Ok(vec![8]));
        assert_eq!(last.await.unwrap(), Ok(vec![9]));
        fixture.journal.hold();
        fixture.journal.fail(2, CommitFailure::Conflict);
        let (add, found) = (
            fixture.ask(1, Command::Add(2)),
            fixture.ask(1, Command::AddFound(5)),
        );
        until(|| fixture.journal.queued() == 2).await;
        fixture.journal.release();
        assert_eq!(why(&add.await.unwrap()), Some(Cause::Conflict));
        assert_eq!(
            found.await.unwrap(),
            Ok(vec![10]),
            "it is judged on the reloaded state"
        );
        fixture.journal.set_lookups(Lookups::Fail);
        assert_eq!(
            why(&fixture.answer(1, Command::AddFound(6)).await),
            Some(Cause::StoreUnavailable)
        );
        assert_eq!(fixture.journal.stored(1), [1, 8, 9, 10]);
    });
}
