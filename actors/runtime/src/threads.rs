//! The threads of the process: the one way to start them, what follows a panic in one, and their
//! metrics.
//!
//! A thread whose state can't be made again ends the process when it panics: the next start
//! recovers, and no process is better than a mute one. A thread whose state is stored elsewhere
//! starts again, at once or after a delay that grows. Either way the panic is logged and counted
//! under the thread's name.
//!
//! | name | what it does | started by | after a panic |
//! |---|---|---|---|
//! | `main` | starts the others, waits for the end | the system | the process ends |
//! | `signals` | hears the process's signals | [`spawn`] | the process ends |
//! | `worker` | HTTP and entities, one for each core | actix, [`register`] | a panic of a request or an entity stays within it; if the thread ends, its entities start on another one |
//! | `pool` | computes for a worker | tokio, [`register`] | the computation has no result |
//! | `writer` | commits | [`spawn`] | the process ends |
//! | `checkpoints` | moves SQLite's log into its file | [`spawn`] | the process ends |
//! | `loads`, `lists`, `texts`, `streams`, `upkeep`, `search`, `message-search` | read the store and the search indexes | [`spawn`] | the process ends |
//! | `feed` | gives commits to subscribers | [`spawn`] | it starts again; subscribers go on from the store |
//! | `webhooks` | sends deliveries | [`ActorHandle`](crate::ActorHandle) | it starts again from what is stored |
//! | `courier` | drives the connections to webhooks' endpoints | [`spawn`] | the process ends |
//! | `names` | resolves the names of these endpoints | tokio, [`register`] | the name is not resolved |
//! | `signs` | gives realtime signals to connections | [`spawn`] | it starts again; listeners connect again |
//! | `indexer`, `message-indexer` | write the search indexes of documents and of conversations | [`spawn`] | `finder`, `message-finder` opens the index again |
//! | `finder`, `message-finder` | feed these indexes | [`BackgroundThread`] | it starts again |
//! | `history` | notes what the metrics were, for the console's charts | [`BackgroundThread`] | it starts again and goes on |
//! | `timers`, `chores`, `bin` | do what is due without a request | [`BackgroundThread`] | it starts again |
//! | `domains` | looks up what proves accounts' domains | [`BackgroundThread`] | it starts again |
//! | `analytics` | counts what happened to conversations, and what was made | [`BackgroundThread`] | it starts again from what is stored |
//! | `peers` | answers other nodes about this one's actors | [`BackgroundThread`] | it starts again |
//! | `limits` | tells other nodes what was spent of limits | [`BackgroundThread`] | it starts again |
//! | `attachments` | deletes files that nobody will ask for | [`BackgroundThread`] | it starts again |
//! | `backups` | makes backups, and removes what an earlier process left of one | [`BackgroundThread`] | it starts again |
//! | `usage` | writes what accounts used, and tells other nodes | [`BackgroundThread`] | it starts again |
//!
//! A thread that returns is not started again: it has been told to end.

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

use crate::cores;

/// Starts a thread under this name. `on_panic` is [`EndProcess`], [`Restart`] or [`Report`].
///
/// # Errors
/// The system starts no further thread.
pub fn spawn<B: Send + 'static>(
    name: &'static str,
    on_panic: impl OnPanic<B>,
    body: B,
) -> io::Result<JoinHandle<()>> {
    Builder::new()
        .name(format!("colloquy-{name}"))
        .spawn(move || {
            let _running = Running::here(name);
            on_panic.run(name, body);
        })
}

/// What follows a panic in the body of a thread.
pub trait OnPanic<B>: Send + 'static {
    /// Runs the body to its end.
    fn run(self, name: &'static str, body: B);
}

/// Ends the process: it can't go on without the thread.
#[derive(Debug)]
pub struct EndProcess;

impl<B: FnOnce()> OnPanic<B> for EndProcess {
    fn run(self, name: &'static str, body: B) {
        if catch_unwind(AssertUnwindSafe(body)).is_err() {
            tracing::error!(
                thread = name,
                "an essential thread panicked: the process ends"
            );
            std::process::exit(EXIT_CODE);
        }
    }
}

/// Calls the body again after a delay, until it returns.
#[derive(Debug)]
pub struct Restart;

impl<B: FnMut()> OnPanic<B> for Restart {
    fn run(self, name: &'static str, mut body: B) {
        let mut restarts = RestartBackoff::of(name);
        while catch_unwind(AssertUnwindSafe(&mut body)).is_err() {
            let _pause = RestartPause::begin(name);
            std::thread::sleep(restarts.next_wait());
        }
    }
}

/// Ends the thread and calls this, by which somebody else learns that it must be replaced.
pub struct Report<F>(pub F);

impl<B: FnOnce(), F: FnOnce() + Send + 'static> OnPanic<B> for Report<F> {
    fn run(self, _: &'static str, body: B) {
        if catch_unwind(AssertUnwindSafe(body)).is_err() {
            (self.0)();
        }
    }
}

/// The exit code of a process that can't go on (`EX_SOFTWARE`).
pub const EXIT_CODE: i32 = 70;
/// A thread that runs a future beside the requests, again after each panic, on the cores for long
/// computations while there are any. Dropped, it ends at the future's next await.
pub struct BackgroundThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl BackgroundThread {
    /// Starts the thread. `work` makes the future that it runs, again after each panic.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub fn start<W: Future<Output = ()>>(
        name: &'static str,
        work: impl FnMut() -> W + Send + 'static,
    ) -> io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        Self::run(name, runtime.enable_time().build()?, work)
    }

    /// The same for a future that opens connections.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub fn start_with_connections<W: Future<Output = ()>>(
        name: &'static str,
        work: impl FnMut() -> W + Send + 'static,
    ) -> io::Result<Self> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        Self::run(name, runtime.enable_all().build()?, work)
    }

    fn run<W: Future<Output = ()>>(
        name: &'static str,
        runtime: tokio::runtime::Runtime,
        mut work: impl FnMut() -> W + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let thread = spawn(name, EndProcess, move || {
            cores::mark_background();
            let going_on = async {
                let mut restarts = RestartBackoff::of(name);
                while caught(&mut work).await.is_none() {
                    let _pause = RestartPause::begin(name);
                    tokio::time::sleep(restarts.next_wait()).await;
                }
            };
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = going_on => {}
                }
            });
            // What it computes aside is not waited for.
            runtime.shutdown_background();
        })?;
        Ok(BackgroundThread {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for BackgroundThread {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic outside of the future has ended the process.
            let _ = thread.join();
        }
    }
}

/// Runs the future to its end; `None` when it panicked.
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

/// Counts the calling thread, which another runtime has started, under this name until it ends.
pub fn register(name: &'static str) {
    // An error means that the thread is ending.
    let _ = REGISTERED.try_with(|registered| {
        if CURRENT.get().is_none() {
            registered.set(Some(Running::here(name)));
        }
    });
}

/// The delays before the restarts of one thread or actor.
#[derive(Debug)]
pub struct RestartBackoff {
    name: &'static str,
    began: Instant,
    last_wait: Option<Duration>,
}

impl RestartBackoff {
    /// For a thread or actor that has not been restarted yet.
    pub fn of(name: &'static str) -> Self {
        RestartBackoff {
            name,
            began: Instant::now(),
            last_wait: None,
        }
    }

    /// Counts and logs a restart; the delay before it.
    pub fn next_wait(&mut self) -> Duration {
        if self.began.elapsed() > STABLE_AFTER {
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
            "a thread starts again"
        );
        wait
    }
}

/// The first restart comes at once, the next ones after a delay that doubles from this …
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
/// … up to this.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// After running this long without a panic, the next restart comes at once again.
const STABLE_AFTER: Duration = Duration::from_secs(60);
/// The name under which panics of unnamed threads are counted.
const UNNAMED: &str = "other";

static THREADS: Mutex<BTreeMap<&'static str, Counts>> = Mutex::new(BTreeMap::new());

thread_local! {
    static CURRENT: Cell<Option<&'static str>> = const { Cell::new(None) };
    static REGISTERED: Cell<Option<Running>> = const { Cell::new(None) };
}

/// The counters of the threads of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    running: usize,
    panics: u64,
    restarts: u64,
}

/// The metrics of the threads of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadMetrics {
    /// The name that the threads share.
    pub name: &'static str,
    /// How many run now; one that waits for its restart does not count.
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

/// Counts a panic of the calling thread. To be called by the process's panic hook.
pub fn note_panic() {
    let name = CURRENT
        .try_with(Cell::get)
        .ok()
        .flatten()
        .unwrap_or(UNNAMED);
    change(name, |counts| counts.panics += 1);
}

/// Changes the counters of the threads of one name.
fn change(name: &'static str, change: impl FnOnce(&mut Counts)) {
    change(THREADS.lock().entry(name).or_default());
}

/// Counts the calling thread as running as long as it lives.
struct Running(&'static str);

impl Running {
    fn here(name: &'static str) -> Self {
        CURRENT.set(Some(name));
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

/// Takes a thread that waits for its restart out of the running ones as long as it lives.
struct RestartPause(&'static str);

impl RestartPause {
    fn begin(name: &'static str) -> Self {
        change(name, |counts| {
            counts.running = counts.running.saturating_sub(1)
        });
        RestartPause(name)
    }
}

impl Drop for RestartPause {
    fn drop(&mut self) {
        change(self.0, |counts| counts.running += 1);
    }
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
