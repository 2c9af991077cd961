//! Where computing goes that would hold an arbiter up. Each arbiter's runtime has a pool of threads of its own; here are the
//! bounds that they share, so that many large texts at once take turns instead of all cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Computations for each core that may be under way; the next ones wait.
const EACH_CORE: usize = 2;
/// Bytes that are gone over in about the time that the way to another thread and back takes.
const IN_PLACE_MAX: usize = 8_192;
/// Bytes from which on a computation takes so long that others would notice one on every core.
const LARGE_MIN: usize = 1 << 20;
/// Password hashes at once: each takes 19 MiB.
const HASHES_MAX: usize = 2;

static COMPUTATIONS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(cores() * EACH_CORE));
/// The large ones leave a core to everybody else.
static LARGE: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(cores().saturating_sub(1).max(1)));
/// Comparisons can take seconds, whatever their size: never all places, so that who only reads finds one beside them.
static COMPARISONS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(cores()));
/// Large ones leave a core to everybody else, too, in turns of their own.
static LARGE_COMPARISONS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(cores().saturating_sub(1).max(1)));
static HASHES: Semaphore = Semaphore::const_new(HASHES_MAX);

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A turn among the large computations; none where it goes over too few bytes to be one.
pub(crate) async fn turn(bytes: usize) -> Option<SemaphorePermit<'static>> {
    if bytes < LARGE_MIN { None } else { LARGE.acquire().await.ok() }
}

/// Computes over so many bytes on another thread; none where it panicked, which was reported there.
pub(crate) async fn compute<T: Send + 'static>(bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let turn = turn(bytes).await;
    let work = move || {
        let _turn = turn;
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
    let turn = if bytes < LARGE_MIN { None } else { LARGE_COMPARISONS.acquire().await.ok() };
    let place = COMPARISONS.acquire().await.ok()?;
    let work = move || {
        let _held = (turn, place);
        work()
    };
    within(&COMPUTATIONS, work).await
}

/// The same for what hashes a password.
pub(crate) async fn hash<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    within(&HASHES, work).await
}

async fn within<T: Send + 'static>(places: &'static Semaphore, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let place = places.acquire().await.ok()?;
    // The place goes along: a caller who leaves does not end the work.
    let done = tokio::task::spawn_blocking(move || {
        let _place = place;
        work()
    });
    done.await.ok()
}
