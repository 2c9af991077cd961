//! A redacted text leaves SQLite's log while others read, and no commit waits for it.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OpenFlags};

use super::super::file::log_of;
use super::super::pace::Pace;
use super::super::{ReadClass, SqliteStore, StoreSettings};
use super::{Folder, QUICK, row_of};
use crate::conversation::EraseConversation;
use crate::store::contract::{Bench, House, wait};
use crate::store::{CommitLog, ReadError, Store};
use crate::views::Views;
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::sequence::Sequence;
use colloquy_runtime::Incarnation;

/// What is waited for takes no longer, however busy the machine is.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_reader_of_older_pages_holds_up_neither_commits_nor_for_ever_the_redaction() {
    const MARKER: &str = "abracadabra-314159";
    let house = House::<Folder>::new();
    let tenant = Tenant::of(1, Mode::Live);
    let customer = house.customer(tenant, "Ada");
    let mut conversation = house.conversation(tenant, customer, None);
    let id = conversation
        .send(MARKER)
        .unwrap()
        .id
        .unwrap()
        .parse()
        .unwrap();
    let reader =
        Connection::open_with_flags(house.bench().path(), OpenFlags::SQLITE_OPEN_READ_ONLY)
            .unwrap();
    reader.execute_batch("BEGIN").unwrap();
    reader
        .query_row("SELECT count(*) FROM rows", [], |_| Ok(()))
        .unwrap();
    conversation
        .ask(crate::conversation::messages::RedactMessage { message: id })
        .unwrap();
    let (begun, mut sent) = (Instant::now(), 0);
    // So long that the log was to be emptied meanwhile.
    while sent < 20 || begun.elapsed() < 10 * QUICK.erase_within {
        conversation.send("goes on").unwrap();
        sent += 1;
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{sent} commits took {:?}",
        begun.elapsed()
    );
    assert!(house.holds(MARKER), "the reader still sees it");
    drop(reader);
    house.until("the text is gone", || !house.holds(MARKER));
}

#[test]
fn texts_erased_behind_an_emptying_of_the_log_leave_it_by_the_next_one() {
    // The log is emptied at once, and what is gone waits for its slice.
    let pace = Pace {
        erase_within: Duration::ZERO,
        rest: Duration::from_millis(100),
        ..QUICK
    };
    let house = House::at(Folder::at(pace));
    let tenant = Tenant::of(1, Mode::Live);
    let customer = house.customer(tenant, "Ada");
    for marker in ["abracadabra-1", "abracadabra-2", "abracadabra-3"] {
        let mut conversation = house.conversation(tenant, customer, None);
        conversation.send(marker).unwrap();
        let erase = EraseConversation {
            caller: Caller {
                tenant,
                actor: Actor::server("a test"),
            },
            erasure: EntityNumber(0),
            closed_before: None,
            files: None,
        };
        conversation.ask(erase).unwrap();
        house.until(marker, || !house.holds(marker));
        let numbers = vec![conversation.id.number()];
        house.until("the store says so", || {
            let left = wait(house.store().still_erasing(numbers.clone())).unwrap();
            left.is_empty()
        });
    }
}

/// What readers and whoever commits tell each other.
#[derive(Default)]
struct Told {
    reads_begun: usize,
    commits_settled: usize,
    over: bool,
}

type Telling = (Mutex<Told>, Condvar);

/// Begins a read, and ends it after some commits when another one has begun, or after more of them
/// while none may begin; false where neither happens. Few enough for the time that readers are kept
/// off, on a busy machine too.
fn overlapping(connection: &Connection, (told, news): &Telling) -> rusqlite::Result<bool> {
    const SOME: usize = 3;
    const MORE: usize = 15;
    const COMPUTE: &str =
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20000)
         SELECT count(*) FROM n";
    connection.query_row("SELECT count(*) FROM rows", [], |_| Ok(()))?;
    let mut told = told.lock();
    told.reads_begun += 1;
    news.notify_all();
    let (begun, settled) = (told.reads_begun, told.commits_settled);
    let mut goes_on = |told: &mut Told| {
        let commits = if told.reads_begun > begun { SOME } else { MORE };
        !told.over && told.commits_settled < settled + commits
    };
    let until = Instant::now() + SOON;
    while news
        .wait_while_for(&mut told, &mut goes_on, Duration::from_millis(5))
        .timed_out()
    {
        if Instant::now() > until {
            return Ok(false);
        }
        // A read computes all the while: that is what wakes another connection for the next one.
        parking_lot::MutexGuard::unlocked(&mut told, || {
            connection.query_row(COMPUTE, [], |_| Ok(()))
        })?;
    }
    Ok(true)
}

/// Reads one long read after the other until all is over.
fn read_on(store: &SqliteStore, telling: &Arc<Telling>, class: ReadClass) {
    while !telling.0.lock().over {
        let told = Arc::clone(telling);
        let read = store
            .lists
            .read(class, move |connection| overlapping(connection, &told));
        // On a busy machine one may last longer than reads may: the next one begins.
        let read = wait(read);
        assert!(
            matches!(read, Ok(true) | Err(ReadError::TooSlow)),
            "neither a read nor a commit goes on: {read:?}"
        );
    }
}

#[test]
fn long_reads_one_after_the_other_neither_hold_up_commits_nor_keep_a_text_in_the_log_after_a_redaction()
 {
    const MARKER: &str = "abracadabra-271828";
    /// More than fit on the page of the first: what is committed behind these brings that page into
    /// the log no more.
    const BEFORE: u64 = 100;
    let folder = Folder::new();
    let path = folder.path();
    let store = SqliteStore::open_at(
        QUICK,
        &path,
        Arc::new(Views::default()),
        StoreSettings::for_tests(),
    )
    .unwrap()
    .0;
    let telling: Arc<Telling> = Arc::default();
    let tell = |change: fn(&mut Told)| {
        change(&mut telling.0.lock());
        telling.1.notify_all();
    };
    let submit = |entity: u64, expected: u64, redacts: Option<u64>| {
        let mut commit = row_of(EntityNumber(entity), expected, 10);
        if expected == 0 {
            commit.rows[0].payload = Bytes::from_static(MARKER.as_bytes());
        }
        commit.redacts = redacts.map(Sequence);
        let (settled, outcome) = sync_channel(1);
        store.submit(
            Incarnation::next(),
            commit,
            Box::new(move |outcome| settled.send(outcome).unwrap()),
        );
        assert_eq!(outcome.recv().unwrap(), Ok(()));
        tell(|told| told.commits_settled += 1);
    };
    let holds = || contains(&std::fs::read(log_of(&path)).unwrap(), MARKER);
    // The start empties the log, too, now or then.
    let written = (1..100).find(|entity| {
        (0..BEFORE).for_each(|expected| submit(*entity, expected, None));
        holds()
    });
    let entity = written.unwrap();
    std::thread::scope(|threads| {
        // Each ends when the other's has begun: there is no moment without any.
        for account in [0, 1] {
            let (store, telling) = (&store, &telling);
            threads.spawn(move || read_on(store, telling, ReadClass::Account(account)));
        }
        telling
            .1
            .wait_while_for(&mut telling.0.lock(), |told| told.reads_begun < 2, SOON);
        submit(entity, BEFORE, Some(1_000));
        let begun = Instant::now();
        let mut expected = BEFORE + 1;
        while holds() && begun.elapsed() < SOON {
            submit(entity, expected, None);
            expected += 1;
        }
        tell(|told| told.over = true);
        assert!(!holds(), "the text is still in the log");
    });
    store.close();
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}
