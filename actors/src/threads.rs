//! The threads of this process: the one way to start them, what follows a panic in one, and what
//! operators see of them.
//!
//! A thread whose state can't be made anew ends the process when it panics: the next start
//! recovers, and no process is better than a mute one. A thread whose state is found elsewhere
//! begins anew after a wait that grows. Either way the panic is logged and counted.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// How the process ends when it can't go on (`EX_SOFTWARE`).
pub(crate) const EXIT_CODE: i32 = 70;
/// The first restart comes at once, the next ones after a wait that doubles …
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
/// … up to this.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Whoever ran so long before a panic is well again: the next restart comes at once.
const WELL_AFTER: Duration = Duration::from_secs(60);
/// What a panic is counted under on a thread that nobody has named.
const UNNAMED: &str = "other";

static THREADS: Mutex<BTreeMap<&'static str, Counts>> = Mutex::new(BTreeMap::new());

thread_local! {
    static HERE: Cell<Option<&'static str>> = const { Cell::new(None) };
    static REGISTERED: Cell<Option<Running>> = const { Cell::new(None) };
}

/// What is known of the threads of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    running: usize,
    panics: u64,
    restarts: u64,
}

/// What the threads of one name have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadMetrics {
    /// The name that the threads share.
    pub name: &'static str,
    /// Threads that run now; one that waits for its restart does not.
    pub running: usize,
    /// Panics since the process started, whoever caught them.
    pub panics: u64,
    /// Restarts after a panic since the process started.
    pub restarts: u64,
}

/// Reads the counters of all threads, by name.
#[must_use]
pub fn metrics() -> Vec<ThreadMetrics> {
    let of = |(name, counts): (&&'static str, &Counts)| {
        let Counts {
            running,
            panics,
            restarts,
        } = *counts;
        ThreadMetrics {
            name,
            running,
            panics,
            restarts,
        }
    };
    THREADS.lock().iter().map(of).collect()
}

/// Counts a panic of the calling thread; the process's panic hook calls it.
pub fn note_panic() {
    let name = HERE.try_with(Cell::get).ok().flatten().unwrap_or(UNNAMED);
    change(name, |counts| counts.panics += 1);
}

/// Lets the calling thread, which another runtime has started and watches, be seen under this name
/// until it ends.
pub fn register(name: &'static str) {
    // At the end of a thread there is nothing to register any more.
    let _ = REGISTERED.try_with(|registered| {
        if HERE.get().is_none() {
            registered.set(Some(Running::here(name)));
        }
    });
}

/// Starts a thread that the process can't go on without: a panic in it ends the process.
///
/// # Errors
/// The system starts no further thread.
pub fn spawn(
    name: &'static str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    start(name, move || {
        if catch_unwind(AssertUnwindSafe(body)).is_err() {
            tracing::error!(
                thread = name,
                "a thread panicked that nothing goes on without: the process ends"
            );
            std::process::exit(EXIT_CODE);
        }
    })
}

/// Starts a thread whose body begins anew after each panic, until it returns.
///
/// # Errors
/// The system starts no further thread.
pub(crate) fn spawn_restarting(
    name: &'static str,
    mut body: impl FnMut() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    start(name, move || {
        let mut restarts = Restarts::of(name);
        while catch_unwind(AssertUnwindSafe(&mut body)).is_err() {
            let _waiting = Waiting::begin(name);
            std::thread::sleep(restarts.next_wait());
        }
    })
}

/// Starts a thread whose death by a panic somebody else mends, who is told so.
///
/// # Errors
/// The system starts no further thread.
pub(crate) fn spawn_mended(
    name: &'static str,
    body: impl FnOnce() + Send + 'static,
    panicked: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    start(name, move || {
        if catch_unwind(AssertUnwindSafe(body)).is_err() {
            panicked();
        }
    })
}

fn start(name: &'static str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new()
        .name(format!("colloquy-{name}"))
        .spawn(move || {
            let _running = Running::here(name);
            body();
        })
}

fn change(name: &'static str, change: impl FnOnce(&mut Counts)) {
    change(THREADS.lock().entry(name).or_default());
}

/// As long as it lives, the thread that made it is counted.
struct Running(&'static str);

impl Running {
    fn here(name: &'static str) -> Self {
        HERE.set(Some(name));
        change(name, |counts| counts.running += 1);
        Running(name)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        change(self.0, |counts| {
            counts.running = counts.running.saturating_sub(1)
        });
    }
}

/// As long as it lives, a thread waits for its restart and does not count as running.
struct Waiting(&'static str);

impl Waiting {
    fn begin(name: &'static str) -> Self {
        change(name, |counts| {
            counts.running = counts.running.saturating_sub(1)
        });
        Waiting(name)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        change(self.0, |counts| counts.running += 1);
    }
}

/// The restarts of one thread or actor, and how long each waits.
#[derive(Debug)]
pub(crate) struct Restarts {
    name: &'static str,
    began: Instant,
    last_wait: Option<Duration>,
}

impl Restarts {
    /// Of a thread or actor that has not been restarted yet.
    pub(crate) fn of(name: &'static str) -> Self {
        Restarts {
            name,
            began: Instant::now(),
            last_wait: None,
        }
    }

    /// Counts and logs a restart; how long to wait before it.
    pub(crate) fn next_wait(&mut self) -> Duration {
        if self.began.elapsed() > WELL_AFTER {
            self.last_wait = None;
        }
        let wait = self.last_wait.map_or(Duration::ZERO, |last| {
            (2 * last).clamp(BACKOFF_FIRST, BACKOFF_MAX)
        });
        self.last_wait = Some(wait);
        self.began = Instant::now() + wait;
        change(self.name, |counts| counts.restarts += 1);
        tracing::error!(
            thread = self.name,
            wait_ms = wait.as_millis(),
            "a thread begins anew"
        );
        wait
    }
}

/// A thread for work that goes on beside the requests. Dropped, it ends at the work's next wait.
pub(crate) struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread; `work` makes the work that it does, again after each panic.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn start<W: Future<Output = ()>>(
        name: &'static str,
        mut work: impl FnMut() -> W + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let thread = spawn(name, move || {
            let going_on = async {
                let mut restarts = Restarts::of(name);
                while caught(&mut work).await.is_none() {
                    let _waiting = Waiting::begin(name);
                    tokio::time::sleep(restarts.next_wait()).await;
                }
            };
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = going_on => {}
                }
            });
        })?;
        Ok(Background {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic outside of the work has ended the process.
            let _ = thread.join();
        }
    }
}

/// Does the work to its end; `None` where it panicked.
async fn caught<W: Future<Output = ()>>(work: &mut impl FnMut() -> W) -> Option<()> {
    let made = catch_unwind(AssertUnwindSafe(work)).ok()?;
    let mut made = pin!(made);
    std::future::poll_fn(
        |task| match catch_unwind(AssertUnwindSafe(|| made.as_mut().poll(task))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(Some(())),
            Err(_) => Poll::Ready(None),
        },
    )
    .await
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
