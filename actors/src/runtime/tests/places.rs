//! Places: the bound of a mailbox, held by the work, given back whatever happens to it.

use std::time::Duration;

use tokio::time::Instant;

use super::house::{on_one_thread, on_paused_time, on_threads, until, why};
use super::ledger::Ask;
use crate::runtime::{AskError, Cause, Policy};

#[test]
fn of_257_asks_at_once_one_finds_the_mailbox_full() {
    on_one_thread(Policy::default(), async |house| {
        for _ in 0..3 {
            house.memory.hold();
            let asks: Vec<_> = (0..257)
                .map(|number| house.ask(1, Ask::Add(number)))
                .collect();
            until(|| asks.iter().any(|ask| ask.is_finished())).await;
            assert_eq!(house.places(1), 256);
            house.memory.release();
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
            assert_eq!(house.places(1), 0);
        }
        assert_eq!(house.memory.stored(1).len(), 3 * 256);
    });
}

#[test]
fn a_place_is_held_by_the_work_and_not_by_the_asker() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.hold();
        let working = house.ask(1, Ask::AddIf(1));
        until(|| house.memory.queued() == 1).await;
        let queued: Vec<_> = (10..20)
            .map(|number| house.ask(1, Ask::Add(number)))
            .collect();
        until(|| house.places(1) == 11).await;
        working.abort();
        queued.iter().for_each(|ask| ask.abort());
        until(|| working.is_finished() && queued.iter().all(|ask| ask.is_finished())).await;
        assert_eq!(house.places(1), 11);
        house.memory.release();
        until(|| house.places(1) == 0).await;
        assert_eq!(
            house.memory.stored(1),
            [1],
            "what had started is done, what had not is not"
        );
        assert_eq!(house.directory.overview().abandoned, 10);
    });
}

#[test]
fn an_asker_learns_whether_its_command_had_started() {
    on_paused_time(Policy::default(), async |house| {
        house.memory.hold();
        let asked = Instant::now();
        let (working, queued) = (house.ask(1, Ask::AddIf(1)), house.ask(1, Ask::Add(2)));
        assert_eq!(working.await.unwrap(), Err(AskError::TimedOut));
        assert_eq!(why(&queued.await.unwrap()), Some(Cause::TimedOut));
        assert_eq!(asked.elapsed().as_secs(), 5);
        house.memory.release();
        until(|| house.places(1) == 0).await;
        assert_eq!(house.memory.stored(1), [1]);
    });
}

#[test]
fn a_flooded_entity_does_not_starve_its_neighbour() {
    on_threads(1, Policy::default(), async |house| {
        house.memory.store(1, &[10]);
        house.memory.store(2, &[20]);
        assert_eq!(house.answer(2, Ask::Read).await, Ok(vec![20]));
        let spin = Ask::Spin(Duration::from_micros(50));
        let directory = &house.directory;
        let floods: Vec<_> = (0..128)
            .map(|_| {
                let directory = std::sync::Arc::clone(directory);
                tokio::task::spawn_local(
                    async move { while directory.ask(1, spin).await.is_ok() {} },
                )
            })
            .collect();
        until(|| {
            house
                .directory
                .inspect(1)
                .is_some_and(|seen| seen.handled > 100)
        })
        .await;
        let mut passed = Vec::new();
        for _ in 0..21 {
            let before = house.directory.inspect(1).unwrap().handled;
            assert_eq!(house.answer(2, Ask::Read).await, Ok(vec![20]));
            passed.push(house.directory.inspect(1).unwrap().handled - before);
        }
        passed.sort_unstable();
        let median = *passed.get(10).unwrap();
        floods.iter().for_each(|flood| flood.abort());
        until(|| house.places(1) == 0).await;
        assert!(
            median <= 5 * 32,
            "{median} messages of the flood were handled before one of the neighbour's"
        );
    });
}

#[test]
fn draining_refuses_what_is_new_and_waits_for_the_rest() {
    on_one_thread(Policy::default(), async |house| {
        house.memory.hold();
        let working: Vec<_> = (0..100)
            .map(|number| house.ask(number, Ask::Add(1)))
            .collect();
        until(|| house.memory.queued() == 100).await;
        house.directory.drain();
        assert_eq!(
            why(&house.answer(1, Ask::Read).await),
            Some(Cause::Draining)
        );
        assert_eq!(
            why(&house.answer(1000, Ask::Read).await),
            Some(Cause::Draining)
        );
        assert!(!house.directory.drained(Instant::now()).await);
        let directory = std::sync::Arc::clone(&house.directory);
        let drained = tokio::task::spawn_local(async move {
            directory
                .drained(Instant::now() + Duration::from_secs(60))
                .await
        });
        house.memory.release();
        assert!(drained.await.unwrap());
        assert_eq!(house.directory.overview().places, 0);
        for ask in working {
            assert_eq!(ask.await.unwrap(), Ok(vec![1]));
        }
        house.directory.resume();
        assert_eq!(house.answer(1, Ask::Read).await, Ok(vec![1]));
    });
}

#[test]
fn the_policy_changes_while_it_runs() {
    on_one_thread(Policy::default(), async |house| {
        let before = house.directory.set_policy(Policy {
            mailbox_places: 1,
            ..Policy::default()
        });
        assert_eq!(before.mailbox_places, 256);
        let (first, second) = (house.ask(1, Ask::Add(1)), house.ask(1, Ask::Add(2)));
        assert_eq!(first.await.unwrap(), Ok(vec![1]));
        assert_eq!(why(&second.await.unwrap()), Some(Cause::MailboxFull));
    });
}
