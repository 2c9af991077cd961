//! Where computing goes that would hold an arbiter up. Each arbiter's runtime has a pool of threads of its own; here are the
//! bounds that they share, so that many large texts at once take turns instead of all cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::cores::{self, Aside, Long};
use crate::threads;

/// Computations for each core that may be under way; the next ones wait.
const EACH_CORE: usize = 2;
/// Bytes that are gone over in about the time that the way to another thread and back takes.
const IN_PLACE_MAX: usize = 8_192;
/// Bytes from which on a computation takes so long that others would notice one on every core.
const LARGE_MIN: usize = 1 << 20;

static COMPUTATIONS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(cores() * EACH_CORE));
/// The large ones leave a core to everybody else.
static LARGE: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(cores().saturating_sub(1).max(1)));
/// Comparisons can take seconds, whatever their size: never all places, so that who only reads finds one beside them.
static COMPARISONS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(cores()));
/// Large ones leave a core to everybody else, too, in turns of their own.
static LARGE_COMPARISONS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(cores().saturating_sub(1).max(1)));

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A turn among the large computations, with a core for it.
pub(crate) struct Turn {
    _place: SemaphorePermit<'static>,
    _aside: Aside,
}

/// A turn; none where it goes over too few bytes to be a large one.
pub(crate) async fn turn(bytes: usize) -> Option<Turn> {
    turn_of(&LARGE, bytes).await
}

async fn turn_of(turns: &'static Semaphore, bytes: usize) -> Option<Turn> {
    let is_large = bytes >= LARGE_MIN;
    let place = if is_large { turns.acquire().await.ok() } else { None };
    place.map(|place| Turn { _place: place, _aside: Aside::begin() })
}

/// The same for a thread of its own, which waits for it.
pub(crate) fn turn_here(bytes: usize) -> Option<Turn> {
    if bytes < LARGE_MIN {
        return None;
    }
    // Without a runtime it goes on without a turn: others may wait for it, nothing is wrong.
    tokio::runtime::Builder::new_current_thread().build().ok()?.block_on(turn(bytes))
}

/// Sets a core aside for all that is done with so many bytes, if they are many.
pub(crate) fn aside(bytes: usize) -> Option<Aside> {
    (bytes >= LARGE_MIN).then(Aside::begin)
}

/// Lets what this thread goes over next count as long where it is that many bytes.
pub(crate) fn long(bytes: usize) -> Option<Long> {
    (bytes >= LARGE_MIN).then(Long::here)
}

/// Computes over so many bytes on another thread; none where it panicked, which was reported there.
pub(crate) async fn compute<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let turn = turn(bytes).await;
    let work = move || {
        let _turn = turn;
        let _long = long(bytes);
        work()
    };
    within(&COMPUTATIONS, work).await
}

/// The same for what takes a time in proportion to its bytes; in place where they are few.
pub(crate) async fn go_over<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if bytes > IN_PLACE_MAX { compute(bytes, work).await } else { catch_unwind(AssertUnwindSafe(work)).ok() }
}

/// The same for what compares so many bytes, which can take far longer than to go over them.
pub(crate) async fn compare<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let turn = turn_of(&LARGE_COMPARISONS, bytes).await;
    let place = COMPARISONS.acquire().await.ok()?;
    let work = move || {
        let _held = (turn, place);
        let _long = long(bytes);
        work()
    };
    within(&COMPUTATIONS, work).await
}

/// Computes what takes long over few bytes on another thread, once its caller has a place for it, which is given back when
/// it is done: a caller who leaves does not end the work.
pub(crate) async fn long_with<P, T>(place: P, work: impl FnOnce() -> T + Send + 'static) -> Option<T>
where
    P: Send + 'static,
    T: Send + 'static,
{
    let done = tokio::task::spawn_blocking(move || {
        let _held = (Long::here(), place);
        work()
    });
    done.await.ok()
}

async fn within<T: Send + 'static>(places: &'static Semaphore, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let place = places.acquire().await.ok()?;
    // The place goes along: a caller who leaves does not end the work.
    let done = tokio::task::spawn_blocking(move || {
        cores::keep_prompt();
        threads::register("pool");
        let _place = place;
        work()
    });
    done.await.ok()
}
