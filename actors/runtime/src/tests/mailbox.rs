//! Places: the bound of a mailbox, held by the work, given back whatever happens to it.

use std::time::Duration;

use tokio::time::Instant;

use super::fixture::{on_one_thread, on_paused_time, on_threads, until, why};
use super::ledger::Command;
use crate::{AskError, Cause, Policy};

#[test]
fn of_257_asks_at_once_one_finds_the_mailbox_full() {
    on_one_thread(Policy::default(), async |fixture| {
        for _ in 0..3 {
            fixture.journal.hold();
            let asks: Vec<_> = (0..257)
                .map(|number| fixture.ask(1, Command::Add(number)))
                .collect();
            until(|| asks.iter().any(|ask| ask.is_finished())).await;
            assert_eq!(fixture.permits_taken(1), 256);
            fixture.journal.release();
            let mut full = 0;
            for ask in asks {
                match ask.await.unwrap() {
                    Ok(_) => {}
                    refused => {
                        assert_eq!(why(&refused), Some(Cause::MailboxFull));
                        full += 1;
                    }
                }
            }
            assert_eq!(full, 1);
            assert_eq!(fixture.permits_taken(1), 0);
        }
        assert_eq!(fixture.journal.stored(1).len(), 3 * 256);
    });
}

#[test]
fn a_permit_is_held_by_the_command_and_not_by_its_caller() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.hold();
        let working = fixture.ask(1, Command::AddIf(1));
        until(|| fixture.journal.queued() == 1).await;
        let queued: Vec<_> = (10..20)
            .map(|number| fixture.ask(1, Command::Add(number)))
            .collect();
        until(|| fixture.permits_taken(1) == 11).await;
        working.abort();
        queued.iter().for_each(|ask| ask.abort());
        until(|| working.is_finished() && queued.iter().all(|ask| ask.is_finished())).await;
        assert_eq!(fixture.permits_taken(1), 11);
        fixture.journal.release();
        until(|| fixture.permits_taken(1) == 0).await;
        assert_eq!(
            fixture.journal.stored(1),
            [1],
            "what had started is done, what had not is not"
        );
        assert_eq!(fixture.directory.overview().abandoned, 10);
    });
}

#[test]
fn a_caller_learns_whether_its_command_had_started() {
    on_paused_time(Policy::default(), async |fixture| {
        fixture.journal.hold();
        let asked = Instant::now();
        let (working, queued) = (
            fixture.ask(1, Command::AddIf(1)),
            fixture.ask(1, Command::Add(2)),
        );
        assert_eq!(working.await.unwrap(), Err(AskError::TimedOut));
        assert_eq!(why(&queued.await.unwrap()), Some(Cause::TimedOut));
        assert_eq!(asked.elapsed().as_secs(), 5);
        fixture.journal.release();
        until(|| fixture.permits_taken(1) == 0).await;
        assert_eq!(fixture.journal.stored(1), [1]);
    });
}

#[test]
fn a_flooded_entity_does_not_starve_its_neighbour() {
    on_threads(1, Policy::default(), async |fixture| {
        fixture.journal.store(1, &[10]);
        fixture.journal.store(2, &[20]);
        assert_eq!(fixture.answer(2, Command::Read).await, Ok(vec![20]));
        let spin = Command::Spin(Duration::from_micros(50));
        let directory = &fixture.directory;
        let floods: Vec<_> = (0..128)
            .map(|_| {
                let directory = std::sync::Arc::clone(directory);
                tokio::task::spawn_local(
                    async move { while directory.ask(1, spin).await.is_ok() {} },
                )
            })
            .collect();
        until(|| {
            fixture
                .directory
                .inspect(1)
                .is_some_and(|seen| seen.handled > 100)
        })
        .await;
        let mut passed = Vec::new();
        for _ in 0..21 {
            let before = fixture.directory.inspect(1).unwrap().handled;
            assert_eq!(fixture.answer(2, Command::Read).await, Ok(vec![20]));
            passed.push(fixture.directory.inspect(1).unwrap().handled - before);
        }
        passed.sort_unstable();
        let median = *passed.get(10).unwrap();
        floods.iter().for_each(|flood| flood.abort());
        until(|| fixture.permits_taken(1) == 0).await;
        assert!(
            median <= 5 * 32,
            "{median} messages of the flood were handled before one of the neighbour's"
        );
    });
}

#[test]
fn draining_refuses_what_is_new_and_waits_for_the_rest() {
    on_one_thread(Policy::default(), async |fixture| {
        fixture.journal.hold();
        let working: Vec<_> = (0..100)
            .map(|number| fixture.ask(number, Command::Add(1)))
            .collect();
        until(|| fixture.journal.queued() == 100).await;
        fixture.directory.drain();
        assert_eq!(
            why(&fixture.answer(1, Command::Read).await),
            Some(Cause::Draining)
        );
        assert_eq!(
            why(&fixture.answer(1000, Command::Read).await),
            Some(Cause::Draining)
        );
        assert!(!fixture.directory.drained(Instant::now()).await);
        let directory = std::sync::Arc::clone(&fixture.directory);
        let drained = tokio::task::spawn_local(async move {
            directory
                .drained(Instant::now() + Duration::from_secs(60))
                .await
        });
        fixture.journal.release();
        assert!(drained.await.unwrap());
        assert_eq!(fixture.directory.overview().permits_taken, 0);
        for ask in working {
            assert_eq!(ask.await.unwrap(), Ok(vec![1]));
        }
        fixture.directory.resume();
        assert_eq!(fixture.answer(1, Command::Read).await, Ok(vec![1]));
    });
}

#[test]
fn the_policy_changes_while_it_runs() {
    on_one_thread(Policy::default(), async |fixture| {
        let before = fixture.directory.set_policy(Policy {
            mailbox_max: 1,
            ..Policy::default()
        });
        assert_eq!(before.mailbox_max, 256);
        let (first, second) = (
            fixture.ask(1, Command::Add(1)),
            fixture.ask(1, Command::Add(2)),
        );
        assert_eq!(first.await.unwrap(), Ok(vec![1]));
        assert_eq!(why(&second.await.unwrap()), Some(Cause::MailboxFull));
    });
}
