//! The cores on which long computations run. A thread that is woken on a core where another one
//! computes can wait there until the kernel's next tick, 4 ms at 250 Hz, though another core is
//! idle. So while something long is computed, it has the last core to itself, and threads that
//! answer requests keep to the others; otherwise all threads may use all cores. A second long
//! computation reserves the last core but one, and so on up to half of the cores; beyond this they
//! share them. Threads in the background, for which no request waits (the search indexes' writers), work on
//! the reserved cores too, and reserve none.
//!
//! On a machine with one core, or when the kernel refuses, nothing is moved.
//!
//! It earns its lines (`tests/bench/run --quick --only docs_beside`, two cores): beside merges of
//! 8 MiB the p99 of messages is 3.8 ms (4.2 ms without merges); with no thread moved 13.0 ms (2.7);
//! with `SCHED_IDLE` for what computes 20.1 ms (8.8).

use std::cell::OnceCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Once;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

/// A computation with [`ShortRests`] goes on for so long between two of them …
const COMPUTED_FOR: Duration = Duration::from_micros(500);
/// … each of which takes so long, and what the timer adds.
const SHORT_REST: Duration = Duration::from_micros(50);

/// That moving threads is refused is told once.
static REFUSED: Once = Once::new();

/// Keeps the calling thread, until it ends, off the cores on which something long is computed.
pub fn mark_latency_sensitive() {
    mark(Role::LatencySensitive);
}

/// Has the calling thread, until it ends, work on the cores on which something long is computed, while there
/// is any: for milliseconds of work, again and again, that no request waits for. It reserves no core itself.
pub fn mark_background() {
    mark(Role::Background);
}

/// Gives the calling thread a role, until it ends.
fn mark(role: Role) {
    // An error means that the thread is ending.
    let _ = ROLE.try_with(|given| {
        given.get_or_init(|| RoleOfThread::register(role));
    });
}

/// Keeps a core free of latency-sensitive threads as long as the result lives. It is for work that
/// moves between threads: otherwise the others would come back in between.
pub fn reserve_core() -> ReservedCore {
    change(None, |threads| threads.reserved += 1);
    ReservedCore(())
}

/// Moves the calling thread to the cores for long computations as long as the result lives.
pub fn pin_to_batch_cores() -> BatchPin {
    let thread = gettid();
    change(Some(thread), |threads| threads.batch.push(thread));
    BatchPin {
        thread,
        _not_send: PhantomData,
    }
}

/// The rests of a long computation for which nobody waits: between them the kernel's own threads get
/// the core, some of which end the syncs of others. Beside `colloquy check` of another process on the
/// core to which the disk's interrupts come, the p99 of messages was 8.6 ms (7.4 without), and 6.8 ms
/// (7.0) where that gave way at once (`SCHED_IDLE`, which a thread can't leave again without privileges).
#[derive(Debug)]
pub struct ShortRests {
    last: Instant,
}

impl ShortRests {
    /// Of a computation that begins now.
    #[must_use]
    pub fn begin() -> Self {
        ShortRests {
            last: Instant::now(),
        }
    }

    /// Rests if it is time for it. A computation calls this more often than it rests.
    pub fn rest_if_due(&mut self) {
        if self.last.elapsed() >= COMPUTED_FOR {
            std::thread::sleep(SHORT_REST);
            self.last = Instant::now();
        }
    }
}

/// A core that is reserved by [`reserve_core`].
#[derive(Debug)]
pub struct ReservedCore(());

/// A thread's stay on the batch cores, begun by [`pin_to_batch_cores`].
pub struct BatchPin {
    thread: Pid,
    _not_send: PhantomData<*const ()>,
}

static THREADS: Mutex<Threads> = Mutex::new(Threads {
    roles: Vec::new(),
    batch: Vec::new(),
    reserved: 0,
    batch_cores: 0,
});

thread_local! {
    static ROLE: OnceCell<RoleOfThread> = const { OnceCell::new() };
}

/// Where a thread works while something long is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It answers requests: on the cores that no long computation has reserved.
    LatencySensitive,
    /// No request waits for it: on the cores that are reserved for long computations.
    Background,
}

/// The threads that are moved between cores.
struct Threads {
    /// Threads that have a role as long as they live.
    roles: Vec<(Pid, Role)>,
    /// Threads that compute something long now.
    batch: Vec<Pid>,
    /// How many [`ReservedCore`]s there are.
    reserved: usize,
    /// How many cores, counted from the last one, only batch threads use.
    batch_cores: usize,
}

/// The role of a thread, which ends with it.
struct RoleOfThread(Pid);

impl RoleOfThread {
    fn register(role: Role) -> Self {
        let thread = gettid();
        change(Some(thread), |threads| threads.roles.push((thread, role)));
        RoleOfThread(thread)
    }
}

impl Drop for RoleOfThread {
    fn drop(&mut self) {
        THREADS.lock().roles.retain(|(thread, _)| *thread != self.0);
    }
}

impl Drop for ReservedCore {
    fn drop(&mut self) {
        change(None, |threads| {
            threads.reserved = threads.reserved.saturating_sub(1);
        });
    }
}

impl Drop for BatchPin {
    fn drop(&mut self) {
        let thread = self.thread;
        change(Some(thread), |threads| {
            if let Some(at) = threads.batch.iter().position(|one| *one == thread) {
                threads.batch.swap_remove(at);
            }
        });
    }
}

/// Changes what is computed, and moves all threads if the number of batch cores changes, otherwise only
/// `moved`, if there is one.
fn change(moved: Option<Pid>, change: impl FnOnce(&mut Threads)) {
    let are_all_moved = {
        let mut threads = THREADS.lock();
        let before = threads.batch_cores;
        change(&mut threads);
        threads.batch_cores = threads
            .reserved
            .max(threads.batch.len())
            .min(allowed().count() as usize / 2);
        threads.batch_cores != before
    };
    if !are_all_moved && moved.is_none() {
        return;
    }
    move_to_their_cores(|threads| {
        let all = threads.roles.iter().map(|(thread, _)| *thread);
        let all = all.chain(threads.batch.iter().copied());
        all.filter(|_| are_all_moved).chain(moved).collect()
    });
}

/// Moves threads to the cores that they may use now. The calling one, or one that runs, may have to wait for
/// what computes there: nobody waits for the lock meanwhile. So where these are other cores behind that, they
/// are moved once more: whoever changed something may have moved them before.
fn move_to_their_cores(moved: impl Fn(&Threads) -> Vec<Pid>) {
    let this = gettid();
    let mut done: HashMap<Pid, CpuSet> = HashMap::new();
    loop {
        let places = {
            let threads = THREADS.lock();
            let mut moved = moved(&threads);
            moved.extend(done.keys());
            threads.places(&moved)
        };
        let mut due: Vec<(Pid, CpuSet)> = places
            .into_iter()
            .filter(|(thread, cores)| done.get(thread) != Some(cores))
            .collect();
        if due.is_empty() {
            return;
        }
        due.sort_by_key(|(thread, _)| *thread == this);
        for (thread, cores) in due {
            set_cores(thread, &cores);
            done.insert(thread, cores);
        }
    }
}

impl Threads {
    /// The cores that these threads may use now.
    fn places(&self, threads: &[Pid]) -> Vec<(Pid, CpuSet)> {
        let cores = cores();
        let (front, back) = cores.split_at(cores.len().saturating_sub(self.batch_cores));
        let [front, back, all] = [front, back, &cores].map(set);
        let place = |thread: &Pid| {
            let role = self.roles.iter().find(|(one, _)| one == thread);
            let allowed = if self.batch_cores == 0 {
                all
            } else if self.batch.contains(thread) {
                back
            } else {
                match role {
                    Some((_, Role::LatencySensitive)) => front,
                    Some((_, Role::Background)) => back,
                    None => all,
                }
            };
            (*thread, allowed)
        };
        threads.iter().map(place).collect()
    }
}

fn set_cores(thread: Pid, allowed: &CpuSet) {
    // Any other error means that the thread has ended or that its cores were taken away.
    if let Err(Errno::PERM) = sched_setaffinity(Some(thread), allowed) {
        REFUSED.call_once(|| {
            tracing::warn!(
                "sched_setaffinity is refused (by a filter of system calls?): backups, merges and searches are \
                 not kept off the cores that requests run on"
            );
        });
    }
}

/// The cores that this process may use. They are those of its first thread, which is never moved.
fn allowed() -> CpuSet {
    sched_getaffinity(Some(getpid())).unwrap_or_default()
}

/// The same, in their order.
fn cores() -> Vec<usize> {
    let allowed = allowed();
    (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect()
}

fn set(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core);
    }
    set
}

#[cfg(test)]
#[path = "cores_tests.rs"]
mod tests;
