//! Read-only connections, each on a thread of its own, and the queue before them: bounded, and fair
//! between those who ask. Nothing is read for whoever has left, and what is being read for him is
//! broken off.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::{Connection, ErrorCode};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;

use super::codec;
use super::gate::Gate;
use crate::store::{Later, ReadError};
use colloquy_runtime::cores::{self, BatchPin};
use colloquy_runtime::fair_queue::{FairQueue, QueueBounds, Queued};
use colloquy_runtime::threads;

/// A list that takes longer is interrupted.
const READ_MAX: Duration = Duration::from_secs(2);
/// Readings that one thread does alone, where they are short.
const FEW: usize = 8;
/// Instructions of SQLite's machine between two looks at the clock, at each of which others may have the
/// core.
const LOOK_EVERY: i32 = 5_000;
/// Bytes read between two moments at which others may have the core too: long values take few instructions.
const YIELD_EVERY: usize = 128 << 10;
/// From here on others would notice that their core is taken: a tick of the kernel.
const LONG_MIN: Duration = Duration::from_millis(4);
/// A read that takes a core for so long is not short either, if few instructions have brought many bytes.
const SHORT_MAX: Duration = Duration::from_millis(1);

thread_local! {
    /// Since when this thread does reads that are not short, one behind the other.
    static BUSY_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Whether the read that goes on is known not to be short.
    static LOOKED_AT: Cell<bool> = const { Cell::new(false) };
    /// Bytes that it has read since others could have the core.
    static READ: Cell<usize> = const { Cell::new(0) };
    /// Set while that takes long.
    static LONG: RefCell<Option<BatchPin>> = const { RefCell::new(None) };
}

/// Reads; without a connection, says that its turn does not come.
type Run = Box<dyn FnOnce(Option<&mut Connection>) + Send>;

/// A reading that waits for its turn.
struct Job {
    run: Run,
    asker: Weak<()>,
}

impl Queued for Job {
    fn is_abandoned(&self) -> bool {
        self.asker.strong_count() == 0
    }

    fn refuse(self) {
        (self.run)(None);
    }
}

/// What the threads share. `K` says for whom something is read.
struct Desk<K> {
    state: Mutex<State<K>>,
    /// Something came, or nothing more will.
    news: Condvar,
}

struct State<K> {
    queue: FairQueue<K, Job>,
    /// How many threads read at this moment.
    busy: usize,
    /// Readings that wait from which on another thread is woken while one reads.
    wake_from: usize,
    /// Readings under way, by whom they are for.
    running: HashMap<K, usize>,
    /// Threads that one of them may have at a time.
    each_max: usize,
    closed: bool,
}

/// A set of reading threads with one queue.
pub(crate) struct Readers<K> {
    desk: Arc<Desk<K>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    gate: Arc<Gate>,
}

impl<K: Copy + Eq + Hash + Send + 'static> Readers<K> {
    /// One thread for each connection. Where there are several, nobody has all of them at a time.
    pub(crate) fn start(
        name: &'static str,
        connections: Vec<Connection>,
        bounds: QueueBounds,
    ) -> std::io::Result<Self> {
        let each_max = connections.len().saturating_sub(1).max(1);
        let state = State {
            queue: FairQueue::new(bounds),
            busy: 0,
            wake_from: 1,
            running: HashMap::new(),
            each_max,
            closed: false,
        };
        let desk = Arc::new(Desk {
            state: Mutex::new(state),
            news: Condvar::new(),
        });
        let readers = Readers {
            desk,
            threads: Mutex::default(),
            gate: Arc::default(),
        };
        for mut connection in connections {
            let desk = Arc::clone(&readers.desk);
            let thread = threads::spawn(name, threads::EndProcess, move || {
                cores::mark_latency_sensitive();
                desk.work(&mut connection);
            })?;
            readers.threads.lock().push(thread);
        }
        Ok(readers)
    }

    /// Reads here are short as a rule: the thread that reads does the next ones, too, as long as
    /// there are few. To wake another one for each would cost more than the reading; where one
    /// turns out to be long, others are woken all the same.
    pub(super) fn short(self) -> Self {
        self.desk.state.lock().wake_from = FEW;
        self
    }

    /// Reads here may be long: they begin by this gate.
    pub(super) fn behind(self, gate: &Arc<Gate>) -> Self {
        Readers {
            gate: Arc::clone(gate),
            ..self
        }
    }

    /// Reads on one of the threads, for this one. Whoever drops the answer has left.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        whom: K,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Later<Result<T, ReadError>> {
        let (reply, answer) = oneshot::channel();
        let here = Arc::new(());
        let asker = Arc::downgrade(&here);
        let for_asker = Weak::clone(&asker);
        let (gate, desk) = (Arc::clone(&self.gate), Arc::downgrade(&self.desk));
        let run: Run = Box::new(move |connection| {
            let found = match connection {
                // A panic in here would end the thread and every later read with it.
                Some(connection) => {
                    let _inside = gate.enter();
                    let look = move || {
                        keep_aside_if_long(Instant::now());
                        desk.upgrade().into_iter().for_each(|desk| desk.wake());
                        for_asker.strong_count() > 0
                    };
                    let timed = || timed(connection, look, read);
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(timed))
                        .unwrap_or(Err(ReadError::Away))
                }
                None => Err(ReadError::Busy),
            };
            // Whoever asked may have left.
            let _ = reply.send(found);
        });
        let wakes = {
            let mut state = self.desk.state.lock();
            // Closed, the job is dropped, and with it the reply: the asker sees that.
            if !state.closed {
                state.queue.push(whom, Job { run, asker });
            }
            state.busy == 0 || state.queue.len() >= state.wake_from
        };
        if wakes {
            self.desk.news.notify_one();
        }
        Box::pin(async move {
            let _here = here;
            answer.await.unwrap_or(Err(ReadError::Away))
        })
    }

    /// Ends the threads when they have done what they were asked.
    pub(crate) fn close(&self) {
        self.desk.state.lock().closed = true;
        self.desk.news.notify_all();
        for thread in self.threads.lock().drain(..) {
            // A panic outside of the reads has ended the process.
            let _ = thread.join();
        }
    }
}

impl<K: Copy + Eq + Hash> Desk<K> {
    fn work(&self, connection: &mut Connection) {
        while let Some((whom, job)) = self.next() {
            let (begun, used) = (Instant::now(), core_time());
            (job.run)(Some(connection));
            // Waiting for the disk takes nobody's core.
            if begun.elapsed() > SHORT_MAX && core_time().saturating_sub(used) > SHORT_MAX {
                keep_aside_if_long(begun);
            }
            if !LOOKED_AT.take() {
                rest();
            }
            self.state.lock().ended(whom);
        }
        // The others may have waited for what was done last.
        self.news.notify_all();
    }

    /// Wakes another thread for what waits, if anything does.
    fn wake(&self) {
        if !self.state.lock().queue.is_empty() {
            self.news.notify_one();
        }
    }

    /// The next job, which counts as running from then on; none when no more will come.
    fn next(&self) -> Option<(K, Job)> {
        let mut state = self.state.lock();
        loop {
            if let Some(next) = state.begin() {
                return Some(next);
            }
            if state.closed && state.queue.is_empty() {
                return None;
            }
            if BUSY_SINCE.get().is_some() {
                // Not under the lock: it moves threads. Something may have come meanwhile.
                MutexGuard::unlocked(&mut state, rest);
                continue;
            }
            self.news.wait(&mut state);
        }
    }
}

impl<K: Copy + Eq + Hash> State<K> {
    fn begin(&mut self) -> Option<(K, Job)> {
        let State {
            queue,
            running,
            each_max,
            ..
        } = self;
        let (whom, job) =
            queue.pop(|whom| running.get(&whom).is_none_or(|running| running < each_max))?;
        *running.entry(whom).or_insert(0) += 1;
        self.busy += 1;
        Some((whom, job))
    }

    fn ended(&mut self, whom: K) {
        self.busy -= 1;
        if let Some(running) = self.running.get_mut(&whom) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(&whom);
            }
        }
    }
}

/// How long this thread has had a core so far.
fn core_time() -> Duration {
    // A thread's own clock is there, and counts up from zero.
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.try_into().unwrap_or_default()
}

/// This thread does not count as long any more.
fn rest() {
    if BUSY_SINCE.take().is_some() {
        LONG.with_borrow_mut(Option::take);
    }
}

/// Lets this thread count as long once it has been reading for so long: several reads of some ms in
/// a row take a core as one long read does. Those that end before the first look at the clock, and soon, do
/// not count, for whoever asks for many of them needs the cores for the answers. `since` is from when on the
/// present read is known not to be short.
fn keep_aside_if_long(since: Instant) {
    LOOKED_AT.set(true);
    let since = BUSY_SINCE.get().unwrap_or(since);
    BUSY_SINCE.set(Some(since));
    if since.elapsed() > LONG_MIN {
        LONG.with_borrow_mut(|long| {
            long.get_or_insert_with(cores::pin_to_batch_cores);
        });
    }
}

/// Notes that a value of so many bytes was read: where these are many, others have the core in between.
pub(super) fn note_value(bytes: usize) {
    let read = READ.get().saturating_add(bytes);
    if read < YIELD_EVERY {
        READ.set(read);
    } else {
        READ.set(0);
        std::thread::yield_now();
    }
}

/// Reads in one transaction, so that a page and its total are of one moment.
fn timed<T>(
    connection: &mut Connection,
    goes_on: impl FnMut() -> bool + Send + 'static,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T, ReadError> {
    in_one_transaction(connection, goes_on, read).map_err(|error| {
        if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) {
            return ReadError::TooSlow;
        }
        codec::failed(&error)
    })
}

fn in_one_transaction<T>(
    connection: &mut Connection,
    mut goes_on: impl FnMut() -> bool + Send + 'static,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    if !connection.is_autocommit() {
        // The read before this one panicked.
        connection.execute_batch("ROLLBACK")?;
    }
    let begun = Instant::now();
    connection.progress_handler(
        LOOK_EVERY,
        Some(move || {
            // Whoever was woken meanwhile would wait here for the kernel's next tick.
            std::thread::yield_now();
            !goes_on() || begun.elapsed() > READ_MAX
        }),
    )?;
    // From the cache: to parse these two costs as much as to read a row.
    connection.prepare_cached("BEGIN")?.execute([])?;
    let found = read(connection);
    connection.prepare_cached("COMMIT")?.execute([])?;
    found
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn readers(connections: usize, bounds: QueueBounds) -> Readers<u32> {
        let connections = (0..connections)
            .map(|_| Connection::open_in_memory().unwrap())
            .collect();
        Readers::start("test", connections, bounds).unwrap()
    }

    fn roomy() -> QueueBounds {
        QueueBounds {
            each: 100,
            all: 1_000,
            wait: SOON,
        }
    }

    fn wait<T>(later: Later<T>) -> T {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(later)
    }

    /// A statement that ends only by being interrupted.
    fn endless(connection: &Connection) -> rusqlite::Result<i64> {
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        connection.query_row(sql, [], |row| row.get(0))
    }

    fn one(connection: &Connection) -> rusqlite::Result<i64> {
        connection.query_row("SELECT 1", [], |row| row.get(0))
    }

    /// Holds one thread for this one until what it gives is dropped.
    fn hold(readers: &Readers<u32>, whom: u32) -> (Later<Result<(), ReadError>>, Sender<()>) {
        let ((begun, begins), (held, ended)) = (channel(), channel::<()>());
        let holding = readers.read(whom, move |_| {
            begun.send(()).unwrap();
            let _ = ended.recv();
            Ok(())
        });
        begins.recv_timeout(SOON).unwrap();
        (holding, held)
    }

    #[test]
    fn what_takes_too_long_is_interrupted_and_the_next_begins_anew() {
        let readers = readers(1, roomy());
        for _ in 0..2 {
            let begun = Instant::now();
            assert_eq!(wait(readers.read(1, endless)), Err(ReadError::TooSlow));
            assert!(
                (READ_MAX..SOON).contains(&begun.elapsed()),
                "{:?}",
                begun.elapsed()
            );
        }
        assert_eq!(wait(readers.read(1, one)), Ok(1));
        readers.close();
        assert_eq!(wait(readers.read(1, one)), Err(ReadError::Away));
    }

    #[test]
    fn what_is_read_for_whoever_has_left_is_broken_off_and_what_waits_is_not_begun() {
        let readers = readers(1, roomy());
        let (begun, begins) = channel();
        let running = readers.read(1, move |connection| {
            begun.send(()).unwrap();
            endless(connection)
        });
        begins.recv_timeout(SOON).unwrap();
        let was_read = Arc::new(AtomicBool::new(false));
        let waiting = readers.read(1, {
            let was_read = Arc::clone(&was_read);
            move |_| {
                was_read.store(true, Ordering::SeqCst);
                Ok(())
            }
        });
        drop(waiting);
        let left = Instant::now();
        drop(running);
        assert_eq!(wait(readers.read(1, one)), Ok(1));
        assert!(
            left.elapsed() < READ_MAX && !was_read.load(Ordering::SeqCst),
            "{:?}",
            left.elapsed()
        );
        readers.close();
    }

    #[test]
    fn where_a_short_read_turns_out_to_be_long_another_thread_does_what_waits() {
        let readers = readers(2, roomy()).short();
        let (begun, begins) = channel();
        let long = readers.read(1, move |connection| {
            begun.send(()).unwrap();
            endless(connection)
        });
        begins.recv_timeout(SOON).unwrap();
        assert_eq!(wait(readers.read(2, one)), Ok(1));
        let still_reads = readers.desk.state.lock().running.contains_key(&1);
        assert!(
            still_reads,
            "it was read beside the long one, not behind it"
        );
        assert_eq!(wait(long), Err(ReadError::TooSlow));
        readers.close();
    }

    /// Whether the last of some readings in a row, each of which does this, goes on among what is long.
    fn ends_aside(each: fn()) -> bool {
        let readers = readers(1, roomy());
        let (holding, held) = hold(&readers, 1);
        let row: Vec<_> = (0..5)
            .map(|_| {
                readers.read(1, move |_| {
                    each();
                    Ok(LONG.with_borrow(Option::is_some))
                })
            })
            .collect();
        drop(held);
        wait(holding).unwrap();
        let aside = row.into_iter().map(|reading| wait(reading).unwrap()).last();
        readers.close();
        aside.unwrap()
    }

    #[test]
    fn readings_without_instructions_that_take_a_core_in_a_row_count_as_long() {
        assert!(ends_aside(|| {
            let begun = core_time();
            while core_time() - begun < 2 * SHORT_MAX {}
        }));
        let disk = || std::thread::sleep(2 * SHORT_MAX);
        assert!(!ends_aside(disk), "what only waits takes no core");
    }

    #[test]
    fn nobody_has_all_threads() {
        let readers = readers(3, roomy());
        let held = [hold(&readers, 1), hold(&readers, 1)];
        let third = readers.read(1, one);
        assert_eq!(
            wait(readers.read(2, one)),
            Ok(1),
            "another one is read at once"
        );
        drop(held);
        assert_eq!(wait(third), Ok(1));
        readers.close();
    }

    #[test]
    fn what_finds_no_room_is_refused_and_what_waits_is_read_before_the_end() {
        let readers = Arc::new(readers(1, QueueBounds { each: 2, ..roomy() }));
        let (_, held) = hold(&readers, 1);
        let done = Arc::new(AtomicUsize::new(0));
        let count = || {
            let done = Arc::clone(&done);
            readers.read(1, move |_| Ok(done.fetch_add(1, Ordering::SeqCst)))
        };
        let mut waiting = [count(), count(), count()]
            .into_iter()
            .map(Some)
            .collect::<Vec<_>>();
        assert_eq!(wait(waiting.pop().unwrap().unwrap()), Err(ReadError::Busy));
        let closing = std::thread::spawn({
            let readers = Arc::clone(&readers);
            move || readers.close()
        });
        drop(held);
        closing.join().unwrap();
        assert_eq!(done.load(Ordering::SeqCst), 2);
    }
}
