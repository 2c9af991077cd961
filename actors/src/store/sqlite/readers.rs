//! Read-only connections, each on a thread of its own: one for loads, which actors wait for, and others for lists.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

use crate::cores;
use crate::store::{Later, ReadError};
use crate::threads;

/// A list that takes longer is interrupted.
const READ_MAX: Duration = Duration::from_secs(2);
/// Instructions of SQLite's machine between two looks at the clock.
const LOOK_EVERY: i32 = 20_000;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A set of reading threads.
pub(crate) struct Readers {
    inboxes: Mutex<Vec<Sender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    next: AtomicUsize,
}

impl Readers {
    /// One thread for each connection.
    pub(crate) fn start(name: &'static str, connections: Vec<Connection>) -> std::io::Result<Self> {
        let (mut inboxes, mut threads) = (Vec::new(), Vec::new());
        for mut connection in connections {
            let (inbox, jobs) = channel::<Job>();
            let thread = threads::spawn(name, move || {
                cores::keep_prompt();
                while let Ok(job) = jobs.recv() {
                    job(&mut connection);
                }
            })?;
            inboxes.push(inbox);
            threads.push(thread);
        }
        Ok(Readers { inboxes: Mutex::new(inboxes), threads: Mutex::new(threads), next: AtomicUsize::new(0) })
    }

    /// Reads on one of the threads.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Later<Result<T, ReadError>> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // A panic in here would end the thread and every later read with it.
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| timed(connection, read)));
            // Whoever asked may have left.
            let _ = reply.send(caught.unwrap_or(Err(ReadError::Away)));
        });
        {
            let inboxes = self.inboxes.lock();
            let turn = self.next.fetch_add(1, Ordering::Relaxed).checked_rem(inboxes.len()).unwrap_or(0);
            if let Some(inbox) = inboxes.get(turn) {
                // A closed inbox drops the job, and with it the reply: the asker sees that.
                let _ = inbox.send(job);
            }
        }
        Box::pin(async move { answer.await.unwrap_or(Err(ReadError::Away)) })
    }

    /// Ends the threads when they have done what they were asked.
    pub(crate) fn close(&self) {
        self.inboxes.lock().clear();
        for thread in self.threads.lock().drain(..) {
            // A panic outside of the reads has ended the process.
            let _ = thread.join();
        }
    }
}

/// Reads in one transaction, so that a page and its total are of one moment.
fn timed<T>(
    connection: &mut Connection,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T, ReadError> {
    in_one_transaction(connection, read).map_err(|error| {
        if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
            return ReadError::TooSlow;
        }
        tracing::error!(%error, "the store can't be read");
        ReadError::Away
    })
}

fn in_one_transaction<T>(
    connection: &mut Connection,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    if !connection.is_autocommit() {
        // The read before this one panicked.
        connection.execute_batch("ROLLBACK")?;
    }
    let begun = Instant::now();
    connection.progress_handler(LOOK_EVERY, Some(move || begun.elapsed() > READ_MAX))?;
    // From the cache: to parse these two costs as much as to read a row.
    connection.prepare_cached("BEGIN")?.execute([])?;
    let found = read(connection);
    connection.prepare_cached("COMMIT")?.execute([])?;
    found
}
