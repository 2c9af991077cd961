//! Computations that would hold an arbiter up, moved to other threads. Each arbiter's tokio runtime
//! has a thread pool of its own; here are the limits that all of them share, so that many large
//! texts at once take turns instead of all cores, and accounts take turns with one another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use colloquy_model::caller::Tenant;
use tokio::sync::oneshot;

use crate::cores::{self, BatchPin, ReservedCore};
use crate::fair_semaphore::{FairPermit, FairSemaphore};
use crate::threads;

/// Computations for each core that may be under way; the next ones wait.
const EACH_CORE: usize = 2;
/// Up to this many bytes, computing takes no longer than the way to another thread and back.
const IN_PLACE_BYTES_MAX: usize = 8_192;
/// From this many bytes on, a linear computation takes so long that one on every core is noticed.
const LARGE_BYTES_MIN: usize = 1 << 20;
/// From this many bytes on, a linear computation keeps off the cores of those who answer requests: of
/// JSON that is all small values it takes a millisecond.
const LONG_BYTES_MIN: usize = 1 << 17;
/// From this many bytes on, a comparison may take so long that one on every core is noticed.
const LONG_COMPARISON_BYTES_MIN: usize = 1 << 16;

/// Pictures that are unpacked at once.
const PICTURES_MAX: usize = 1;

static LIMITS: OnceLock<ComputeLimits> = OnceLock::new();

/// Computes over this many bytes for an account, in a time in proportion to them; in place when
/// they are few.
///
/// # Errors
/// [`ComputeError`]: there is no result, and `work` had no effect but what it did before it
/// panicked.
pub async fn run_linear<T: Send + 'static>(
    tenant: Tenant,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ComputeError> {
    let request = ComputeRequest {
        tenant,
        effort: Effort::Linear,
        bytes,
    };
    let permit = request.permit().await.ok_or(ComputeError::Overloaded)?;
    permit.run(work).await.ok_or(ComputeError::Panicked)
}

/// Why a computation has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputeError {
    /// No permit was free in time; nothing was computed.
    Overloaded,
    /// The computation panicked, which has been logged.
    Panicked,
}

/// What is to be computed, as far as its permit depends on it.
#[derive(Debug, Clone, Copy)]
pub struct ComputeRequest {
    /// The account that takes its turn with it.
    pub tenant: Tenant,
    /// How the time depends on the bytes.
    pub effort: Effort,
    /// How many bytes are computed over.
    pub bytes: usize,
}

/// How the time of a computation depends on its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// The time is in proportion to the bytes.
    Linear,
    /// Texts are compared, which can take far longer.
    Comparison,
}

impl ComputeRequest {
    /// Whether it may wait for long, so that the caller should hold no memory meanwhile.
    pub fn is_large(&self) -> bool {
        self.bytes >= LARGE_BYTES_MIN
    }

    /// Waits for a permit; `None` when there was none in time.
    pub async fn permit(self) -> Option<ComputePermit> {
        let Some(semaphore) = self.semaphore() else {
            return Some(ComputePermit::IN_PLACE);
        };
        let permit = semaphore
            .acquire(self.tenant, self.bytes, ComputeLimits::get().wait_max)
            .await;
        permit.map(|permit| self.with(permit))
    }

    /// Takes a permit that is free now; `None` when there is none.
    pub fn try_permit(self) -> Option<ComputePermit> {
        let Some(semaphore) = self.semaphore() else {
            return Some(ComputePermit::IN_PLACE);
        };
        semaphore
            .try_acquire(self.tenant, self.bytes)
            .map(|permit| self.with(permit))
    }

    /// The semaphore whose permit it needs; `None` when it is computed in place.
    fn semaphore(&self) -> Option<&'static FairSemaphore> {
        let semaphores = semaphores();
        match (self.effort, self.is_large()) {
            (Effort::Linear, false) if self.bytes <= IN_PLACE_BYTES_MAX => None,
            (Effort::Linear, false) => Some(&semaphores.linear),
            (Effort::Linear, true) => Some(&semaphores.large_linear),
            (Effort::Comparison, false) => Some(&semaphores.comparisons),
            (Effort::Comparison, true) => Some(&semaphores.large_comparisons),
        }
    }

    fn with(self, permit: FairPermit) -> ComputePermit {
        let is_long = match self.effort {
            Effort::Linear => self.bytes >= LONG_BYTES_MIN,
            Effort::Comparison => self.bytes >= LONG_COMPARISON_BYTES_MIN,
        };
        ComputePermit::held(permit, is_long)
    }
}

/// Waits for a permit to unpack a picture, which takes long, and far more memory than its file; `None`
/// when there was none in time.
pub async fn picture_permit(tenant: Tenant) -> Option<ComputePermit> {
    let pictures = &semaphores().pictures;
    let permit = pictures.acquire(tenant, 0, ComputeLimits::get().wait_max);
    permit.await.map(|permit| ComputePermit::held(permit, true))
}

/// The right to compute. It is held by the computation: a caller that leaves does not end it.
#[derive(Debug, Clone)]
pub struct ComputePermit {
    /// `None` when the computation is small and done in place.
    held: Option<Arc<Held>>,
    is_long: bool,
    /// Set once nobody waits for the computation any more.
    abandoned: Option<Arc<AtomicBool>>,
}

/// What a permit holds until its last clone is dropped.
#[derive(Debug)]
struct Held {
    _permit: FairPermit,
    /// Keeps a core free for everybody else during a long computation.
    _core: Option<ReservedCore>,
}

impl ComputePermit {
    /// The permit for few bytes, which are computed on the calling thread.
    pub const IN_PLACE: ComputePermit = ComputePermit {
        held: None,
        is_long: false,
        abandoned: None,
    };

    fn held(permit: FairPermit, is_long: bool) -> Self {
        let core = is_long.then(cores::reserve_core);
        ComputePermit {
            held: Some(Arc::new(Held {
                _permit: permit,
                _core: core,
            })),
            is_long,
            abandoned: None,
        }
    }

    /// Computes on another thread, or in place when that is quicker; `None` when it panicked, which
    /// has been logged.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let ComputePermit {
            held: Some(held),
            is_long,
            ..
        } = self.clone()
        else {
            return catch_unwind(AssertUnwindSafe(work)).ok();
        };
        let done = tokio::task::spawn_blocking(move || {
            cores::mark_latency_sensitive();
            threads::register("pool");
            let _held = held;
            let _pin = is_long.then(cores::pin_to_batch_cores);
            work()
        });
        done.await.ok()
    }

    /// Like [`Self::run`], for a result that only the caller needs: the flag that `work` is given
    /// is set once the caller has left.
    pub async fn run_cancellable<T: Send + 'static>(
        &self,
        work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
    ) -> Option<T> {
        if let Some(abandoned) = self.abandoned.clone() {
            return self.run(move || work(abandoned)).await;
        }
        let abandoned = Arc::new(AtomicBool::new(false));
        let _set_on_drop = SetOnDrop(Arc::clone(&abandoned));
        self.run(move || work(abandoned)).await
    }

    /// Runs a future on another thread that computes and reads alternately, in steps so small that
    /// going to another thread for each would cost more. `work` is given a permit for its steps. It
    /// is dropped once the caller has left. `None` when it panicked.
    pub async fn run_async<T, F>(
        &self,
        work: impl FnOnce(ComputePermit) -> F + Send + 'static,
    ) -> Option<T>
    where
        F: Future<Output = T>,
        T: Send + 'static,
    {
        let runtime = tokio::runtime::Handle::current();
        let (mut reply, answer) = oneshot::channel();
        let running = self.run_cancellable(move |abandoned| {
            let steps = ComputePermit {
                abandoned: Some(abandoned),
                ..ComputePermit::IN_PLACE
            };
            runtime.block_on(async move {
                let done = tokio::select! {
                    () = reply.closed() => None,
                    done = work(steps) => Some(done),
                };
                // The caller may have left.
                done.is_some_and(|done| reply.send(done).is_ok())
            })
        });
        running.await?;
        answer.await.ok()
    }
}

/// Sets a flag when it is dropped.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Moves this thread to the batch cores as long as the result lives, if it is to compute over this
/// many bytes.
pub fn pin_if_long(bytes: usize) -> Option<BatchPin> {
    (bytes >= LONG_BYTES_MIN).then(cores::pin_to_batch_cores)
}

/// The same for what takes long over many bytes only, such as copying them.
pub fn pin_if_large(bytes: usize) -> Option<BatchPin> {
    (bytes >= LARGE_BYTES_MIN).then(cores::pin_to_batch_cores)
}

/// Computes on another thread what takes long over few bytes, or is bounded by something else than
/// permits. The guard is dropped when it is done:
/// a caller that leaves does not end it. `None` when it panicked.
pub async fn run_on_batch_cores<G, T>(
    guard: G,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T>
where
    G: Send + 'static,
    T: Send + 'static,
{
    let done = tokio::task::spawn_blocking(move || {
        let _held = (cores::pin_to_batch_cores(), guard);
        work()
    });
    done.await.ok()
}

/// How much may be computed at once, as config.toml gives it.
#[derive(Debug, Clone, Copy)]
pub struct ComputeLimits {
    /// Comparisons and merges of texts of over 1 MiB together.
    pub large_comparisons_max: usize,
    /// Bytes of the texts of all of them together.
    pub large_comparison_bytes: usize,
    /// How long a computation waits for its permit.
    pub wait_max: Duration,
}

impl ComputeLimits {
    /// Makes these the limits of the process. Only the first call has an effect.
    pub fn set(self) {
        LIMITS.get_or_init(|| self);
    }

    fn get() -> ComputeLimits {
        *LIMITS.get_or_init(|| ComputeLimits {
            large_comparisons_max: 2,
            large_comparison_bytes: usize::MAX,
            wait_max: Duration::from_secs(60),
        })
    }
}

/// The semaphores of the process. A computation takes a permit of one of them only.
struct Semaphores {
    linear: FairSemaphore,
    /// For linear computations over many bytes: they leave a core to everybody else.
    large_linear: FairSemaphore,
    /// Comparisons can take seconds whatever their size, so that they don't share with reads.
    comparisons: FairSemaphore,
    /// Comparisons of many bytes take memory in proportion to them.
    large_comparisons: FairSemaphore,
    /// Pictures take memory whatever their size in bytes.
    pictures: FairSemaphore,
}

fn semaphores() -> &'static Semaphores {
    static SEMAPHORES: OnceLock<Semaphores> = OnceLock::new();
    SEMAPHORES.get_or_init(|| {
        let limits = ComputeLimits::get();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Semaphores {
            linear: FairSemaphore::new(cores.max(2) * EACH_CORE),
            large_linear: FairSemaphore::new(cores.saturating_sub(1)),
            comparisons: FairSemaphore::new(cores.max(2)),
            large_comparisons: FairSemaphore::for_bytes(
                limits.large_comparisons_max,
                limits.large_comparison_bytes,
            ),
            pictures: FairSemaphore::new(PICTURES_MAX),
        }
    })
}
