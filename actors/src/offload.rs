//! Where computing goes that would hold an arbiter up. Each arbiter's runtime has a pool of threads
//! of its own; here are the bounds that they share, so that many large texts at once take turns
//! instead of all cores, and the account that sends them takes turns with the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::cores::{self, Aside, Long};
use crate::permits::{Permit, Permits};
use crate::threads;
use colloquy_model::caller::Scope;

/// Computations for each core that may be under way; the next ones wait.
const EACH_CORE: usize = 2;
/// Bytes that are gone over in about the time that the way to another thread and back takes.
const IN_PLACE_MAX: usize = 8_192;
/// Bytes from which on a computation takes so long that others would notice one on every core.
const LARGE_MIN: usize = 1 << 20;
/// Bytes from which on a comparison may.
const LONG_COMPARISON_MIN: usize = 1 << 16;

static LIMITS: OnceLock<Computing> = OnceLock::new();

/// What may be computed at once, as config.toml gives it.
#[derive(Debug, Clone, Copy)]
pub struct Computing {
    /// Comparisons and merges of texts of over 1 MiB together.
    pub large_comparisons_max: usize,
    /// Bytes of the texts of all of them.
    pub large_comparison_bytes: usize,
    /// How long a request waits for its turn.
    pub wait_max: Duration,
}

impl Computing {
    /// Makes these the limits of the process. The first call counts.
    pub fn set(self) {
        LIMITS.get_or_init(|| self);
    }

    fn get() -> Computing {
        *LIMITS.get_or_init(|| Computing {
            large_comparisons_max: 2,
            large_comparison_bytes: usize::MAX,
            wait_max: Duration::from_secs(60),
        })
    }
}

/// What there are permits for. Nothing takes two of them.
struct Pools {
    /// What takes a time in proportion to its bytes.
    linear: Permits,
    /// The same over many bytes: a core is left to everybody else.
    large_linear: Permits,
    /// Comparisons can take seconds, whatever their size: who only reads finds places of its own.
    comparisons: Permits,
    /// Comparisons of many bytes take much memory, in proportion to them.
    large_comparisons: Permits,
}

fn pools() -> &'static Pools {
    static POOLS: OnceLock<Pools> = OnceLock::new();
    POOLS.get_or_init(|| {
        let computing = Computing::get();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Pools {
            linear: Permits::new(cores.max(2) * EACH_CORE),
            large_linear: Permits::new(cores.saturating_sub(1)),
            comparisons: Permits::new(cores.max(2)),
            large_comparisons: Permits::for_bytes(
                computing.large_comparisons_max,
                computing.large_comparison_bytes,
            ),
        }
    })
}

/// How long a computation takes for its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// It takes a time in proportion to its bytes.
    Linear,
    /// It compares texts, which can take far longer.
    Comparison,
}

/// What is to be computed, as far as it must be known before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// The account whose turn it takes.
    pub(crate) scope: Scope,
    pub(crate) effort: Effort,
    pub(crate) bytes: usize,
}

/// Why nothing was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undone {
    /// No permit was free in time.
    Crowded,
    /// It panicked, which was reported there.
    Panicked,
}

/// A turn to compute. It goes along with what is computed: a caller who leaves does not end the
/// work.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    /// None where it is so little that it is done in place, without a permit.
    held: Option<Arc<Held>>,
    is_long: bool,
    /// Raised once nobody waits any more for what is driven in it.
    abandoned: Option<Arc<AtomicBool>>,
}

#[derive(Debug)]
struct Held {
    _permit: Permit,
    /// Keeps a core free for everybody else while this takes long.
    _aside: Option<Aside>,
}

impl Load {
    /// Whether whoever waits for a turn with it should hold nothing meanwhile.
    pub(crate) fn is_large(&self) -> bool {
        self.bytes >= LARGE_MIN
    }

    /// The permits of which it needs one; none where it is so little that it is done in place.
    fn permits(&self) -> Option<&'static Permits> {
        let pools = pools();
        match (self.effort, self.is_large()) {
            (Effort::Linear, false) if self.bytes <= IN_PLACE_MAX => None,
            (Effort::Linear, false) => Some(&pools.linear),
            (Effort::Linear, true) => Some(&pools.large_linear),
            (Effort::Comparison, false) => Some(&pools.comparisons),
            (Effort::Comparison, true) => Some(&pools.large_comparisons),
        }
    }

    /// Waits for a turn; none where it did not come in time.
    pub(crate) async fn turn(self) -> Option<Turn> {
        let Some(permits) = self.permits() else {
            return Some(Turn::IN_PLACE);
        };
        let permit = permits
            .acquire(self.scope, self.bytes, Computing::get().wait_max)
            .await;
        permit.map(|permit| self.with(permit))
    }

    /// A turn, if there is one at once.
    pub(crate) fn turn_now(self) -> Option<Turn> {
        let Some(permits) = self.permits() else {
            return Some(Turn::IN_PLACE);
        };
        permits
            .try_acquire(self.scope, self.bytes)
            .map(|permit| self.with(permit))
    }

    fn with(self, permit: Permit) -> Turn {
        let is_long = match self.effort {
            Effort::Linear => self.is_large(),
            Effort::Comparison => self.bytes >= LONG_COMPARISON_MIN,
        };
        let aside = is_long.then(Aside::begin);
        Turn {
            held: Some(Arc::new(Held {
                _permit: permit,
                _aside: aside,
            })),
            is_long,
            abandoned: None,
        }
    }
}

/// A turn for a thread of its own, which waits for it; none where it goes over too few bytes to
/// need one.
pub(crate) fn turn_here(bytes: usize) -> Option<Turn> {
    let load = Load {
        scope: Scope::OPERATORS,
        effort: Effort::Linear,
        bytes,
    };
    if !load.is_large() {
        return None;
    }
    // Without a runtime it goes on without a turn: others may wait for it, nothing is wrong.
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .ok()?
        .block_on(load.turn())
}

impl Turn {
    /// For few bytes: without a permit, on the thread that asks.
    pub(crate) const IN_PLACE: Turn = Turn {
        held: None,
        is_long: false,
        abandoned: None,
    };

    /// Computes on another thread, or in place where that is quicker; none where it panicked, which
    /// was reported there.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let Turn {
            held: Some(held),
            is_long,
            ..
        } = self.clone()
        else {
            return catch_unwind(AssertUnwindSafe(work)).ok();
        };
        let done = tokio::task::spawn_blocking(move || {
            cores::keep_prompt();
            threads::register("pool");
            let _held = held;
            let _long = is_long.then(Long::here);
            work()
        });
        done.await.ok()
    }

    /// Computes what is worth nothing to anybody else: the flag that it is given is raised once
    /// whoever waits for it has left.
    pub(crate) async fn compute_while_awaited<T: Send + 'static>(
        &self,
        work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
    ) -> Option<T> {
        if let Some(abandoned) = self.abandoned.clone() {
            return self.compute(move || work(abandoned)).await;
        }
        let abandoned = Arc::new(AtomicBool::new(false));
        let _raised = Raised(Arc::clone(&abandoned));
        self.compute(move || work(abandoned)).await
    }

    /// Does on another thread what computes and reads in turn, many times a little: each way to
    /// there and back costs more than such a step. `work` is given a turn for what it computes, and
    /// goes no further once whoever waits for it has left. None where it panicked or nobody waits.
    pub(crate) async fn drive<T, F>(
        &self,
        work: impl FnOnce(Turn) -> F + Send + 'static,
    ) -> Option<T>
    where
        F: Future<Output = T>,
        T: Send + 'static,
    {
        let runtime = tokio::runtime::Handle::current();
        let (mut reply, answer) = oneshot::channel();
        let driven = self.compute_while_awaited(move |abandoned| {
            let here = Turn {
                abandoned: Some(abandoned),
                ..Turn::IN_PLACE
            };
            runtime.block_on(async move {
                let done = tokio::select! {
                    () = reply.closed() => None,
                    done = work(here) => Some(done),
                };
                // Whoever asked may have left.
                done.is_some_and(|done| reply.send(done).is_ok())
            })
        });
        driven.await?;
        answer.await.ok()
    }
}

/// Raises a flag when it is dropped.
struct Raised(Arc<AtomicBool>);

impl Drop for Raised {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Lets what this thread goes over next count as long where it is that many bytes.
pub(crate) fn long(bytes: usize) -> Option<Long> {
    (bytes >= LARGE_MIN).then(Long::here)
}

/// Goes over so many bytes for an account; in place where they are few.
///
/// # Errors
/// [`Undone`]; then `work` had no effect but what it did before it panicked.
pub async fn go_over<T: Send + 'static>(
    scope: Scope,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Undone> {
    let load = Load {
        scope,
        effort: Effort::Linear,
        bytes,
    };
    let turn = load.turn().await.ok_or(Undone::Crowded)?;
    turn.compute(work).await.ok_or(Undone::Panicked)
}

/// Computes what takes long over few bytes on another thread, once its caller has a place for it,
/// which is given back when it is done: a caller who leaves does not end the work.
pub(crate) async fn long_with<P, T>(
    place: P,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T>
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
