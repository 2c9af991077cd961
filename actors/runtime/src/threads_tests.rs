//! Tests of how threads are watched: each has names of its own, for the counts are the process's.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;

use super::*;

fn counts(name: &str) -> (usize, u64) {
    metrics()
        .into_iter()
        .find(|one| one.name == name)
        .map_or((0, 0), |one| (one.running, one.restarts))
}

#[test]
fn a_thread_begins_anew_after_each_panic_until_it_returns() {
    let (tell, told) = channel();
    let mut lives = 0;
    let thread = spawn("tests-restarting", Restart, move || {
        lives += 1;
        tell.send(counts("tests-restarting")).unwrap();
        assert!(lives > 3, "asked to");
    });
    thread.unwrap().join().unwrap();
    assert_eq!(
        told.iter().collect::<Vec<_>>(),
        [(1, 0), (1, 1), (1, 2), (1, 3)]
    );
    assert_eq!(
        counts("tests-restarting"),
        (0, 3),
        "one that has returned does not run"
    );
}

#[test]
fn work_in_the_background_begins_anew_and_is_stopped_also_while_it_waits_to() {
    let lives = Arc::new(AtomicU32::new(0));
    let (made, (tell, told)) = (Arc::clone(&lives), channel());
    let work = BackgroundThread::start("tests-background", move || {
        let (life, tell) = (made.fetch_add(1, Ordering::Relaxed), tell.clone());
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            tell.send(life).unwrap();
            panic!("asked to");
        }
    });
    let seen: Vec<u32> = told.iter().take(4).collect();
    assert_eq!(seen, [0, 1, 2, 3]);
    let begun = Instant::now();
    drop(work.unwrap());
    assert!(
        begun.elapsed() < BACKOFF_MAX,
        "the wait before a restart is not waited for"
    );
    assert_eq!(counts("tests-background").0, 0);
}

#[test]
fn the_first_restart_comes_at_once_and_the_waits_double_up_to_a_bound() {
    let mut restarts = RestartBackoff::of("tests-waits");
    let waits: Vec<u128> = (0..10).map(|_| restarts.next_wait().as_millis()).collect();
    assert_eq!(
        waits,
        [0, 100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]
    );
    restarts.began = Instant::now().checked_sub(2 * STABLE_AFTER).unwrap();
    assert_eq!(
        restarts.next_wait(),
        Duration::ZERO,
        "whoever was well for long begins at once"
    );
}

#[test]
fn whoever_mends_a_thread_learns_that_it_panicked() {
    let (tell, told) = channel();
    let also = tell.clone();
    let well = spawn(
        "tests-mended",
        Report(move || also.send("well").unwrap()),
        || {},
    );
    well.unwrap().join().unwrap();
    let ill = spawn(
        "tests-mended",
        Report(move || tell.send("ill").unwrap()),
        || panic!("asked to"),
    );
    ill.unwrap().join().unwrap();
    assert_eq!(told.iter().collect::<Vec<_>>(), ["ill"]);
}

/// Set in the process that is to end.
const ENDS: &str = "COLLOQUY_TEST_ENDS";

#[test]
fn a_panic_in_a_thread_that_nothing_goes_on_without_ends_the_process() {
    if std::env::var_os(ENDS).is_some() {
        spawn("tests-essential", EndProcess, || panic!("asked to"))
            .unwrap()
            .join()
            .unwrap();
        unreachable!("the process goes on");
    }
    let this = "threads::tests::a_panic_in_a_thread_that_nothing_goes_on_without_ends_the_process";
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", this])
        .env(ENDS, "1")
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(EXIT_CODE), "{ended:?}");
}

#[test]
fn a_thread_of_another_runtime_is_seen_until_it_ends() {
    let seen = std::thread::spawn(|| {
        register("tests-foreign");
        register("tests-foreign");
        counts("tests-foreign").0
    });
    assert_eq!(seen.join().unwrap(), 1);
    assert_eq!(counts("tests-foreign").0, 0);
}
