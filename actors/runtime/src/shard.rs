//! Synchronous state cut into shards, one actor each, on given arbiters and found by hash. What a
//! panic has not spoilt survives it; a shard whose arbiter ends starts empty. Knows nothing of what
//! the shards hold.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, Message};
use arc_swap::ArcSwap;
use colloquy_model::time::Timestamp;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::actor_figures::{ActorFigures, Sample, wanted};
use super::ask_error::Cause;
use super::metrics::{Metrics, Restart};
use super::overview::{Instance, InstanceQuery, Overview};
use super::policy::Policy;
use super::supervised_actor::text_of;
use super::supervised_kind::{Found, OperatorError, SupervisedKind};

pub use actix::ArbiterHandle;

/// The arbiter of the current thread; `None` when it has none.
#[must_use]
pub fn current_arbiter() -> Option<ArbiterHandle> {
    actix::Arbiter::try_current()
}

/// The state of one shard, which answers each question at once, from memory alone.
pub trait Shard: Sized + Unpin + 'static {
    /// The questions that it takes.
    type Ask: Send + 'static;
    /// The answers that it gives.
    type Answer: Send + 'static;
    /// The name of the kind in what operators see, such as `limiter`.
    const KIND: &'static str;

    /// Answers one question. It must not block: it runs on an HTTP worker's thread.
    fn handle(&mut self, ask: Self::Ask) -> Self::Answer;

    /// Takes out what a panic may have left half done, and keeps the rest; called after a panic and
    /// where an operator asks for a restart, before the next question.
    fn repair(&mut self);

    /// When a question was asked, which whoever asks knows: no clock is read for each.
    fn asked_at(ask: &Self::Ask) -> Timestamp;

    /// How much memory the state holds, in bytes.
    fn bytes(&self) -> usize;
}

/// Why a question was not answered; what was asked for may have been done or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    /// The shard panicked on this question; it takes the next one.
    #[error("the shard crashed on this question")]
    Crashed,
    /// No shard took it: its arbiter has ended, or none is registered.
    #[error("the shard gave no answer")]
    Lost,
}

/// What registering an arbiter did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// The arbiter got a shard of its own.
    Added,
    /// The arbiter got the shard of one that had ended.
    TookOver,
    /// The arbiter got no shard: questions had been asked before, so the number of shards is fixed,
    /// and all of them run.
    NotNeeded,
}

/// Makes an empty shard, for an arbiter or in place of one that is beyond repair.
type Make<S> = Arc<dyn Fn() -> S + Send + Sync>;

/// The shards of one kind. A question costs one queue push and one wake-up.
///
/// The queues are not bounded here: callers are HTTP requests, whose number is bounded.
pub struct Shards<S: Shard> {
    make: Make<S>,
    metrics: Arc<Metrics>,
    handles: ArcSwap<Vec<ShardHandle<S>>>,
    /// Set by the first question: from then on the number of shards is fixed, so that no key
    /// changes its shard.
    asked: AtomicBool,
    /// Held while `handles` changes.
    changing: Mutex<()>,
}

/// A shard's address, with the arbiter on which it runs.
struct ShardHandle<S: Shard> {
    arbiter: ArbiterHandle,
    addr: Addr<ShardActor<S>>,
    figures: Arc<ActorFigures>,
}

impl<S: Shard> Clone for ShardHandle<S> {
    fn clone(&self) -> Self {
        Self {
            arbiter: self.arbiter.clone(),
            addr: self.addr.clone(),
            figures: Arc::clone(&self.figures),
        }
    }
}

impl<S: Shard> ShardHandle<S> {
    /// The same shard, empty, on another arbiter.
    fn moved(&self, arbiter: ArbiterHandle, make: &Make<S>) -> Self {
        self.figures.moved();
        start(arbiter, make, Arc::clone(&self.figures))
    }

    /// The shard of this number, empty.
    fn first(index: usize, arbiter: ArbiterHandle, make: &Make<S>, metrics: &Arc<Metrics>) -> Self {
        let id = format!("{}_{index}", S::KIND);
        let figures = Arc::new(ActorFigures::new(id, Arc::clone(metrics)));
        start(arbiter, make, figures)
    }
}

impl<S: Shard> Shards<S> {
    /// Starts one shard on each of `arbiters`; more may be registered before the first question.
    pub fn new(arbiters: Vec<ArbiterHandle>, make: impl Fn() -> S + Send + Sync + 'static) -> Self {
        let make: Make<S> = Arc::new(make);
        let metrics = Arc::new(Metrics::new());
        let handles = arbiters
            .into_iter()
            .enumerate()
            .map(|(index, arbiter)| ShardHandle::first(index, arbiter, &make, &metrics))
            .collect::<Vec<_>>();
        Self {
            make,
            metrics,
            handles: ArcSwap::from_pointee(handles),
            asked: AtomicBool::new(false),
            changing: Mutex::new(()),
        }
    }

    /// Registers an arbiter; called as each HTTP worker starts.
    pub fn register(&self, arbiter: ArbiterHandle) -> Registered {
        let _changing = self.changing.lock();
        let mut handles = self.handles.load().as_ref().clone();
        let registered = if !self.asked.load(Ordering::Acquire) || handles.is_empty() {
            let index = handles.len();
            handles.push(ShardHandle::first(
                index,
                arbiter,
                &self.make,
                &self.metrics,
            ));
            Registered::Added
        } else if let Some(dead) = handles.iter_mut().find(|handle| !handle.addr.connected()) {
            *dead = dead.moved(arbiter, &self.make);
            Registered::TookOver
        } else {
            return Registered::NotNeeded;
        };
        self.handles.store(Arc::new(handles));
        registered
    }

    /// How many shards there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.handles.load().len()
    }

    /// Asks the shard that `hash` falls to. The hash's upper bits choose, so they must be well
    /// mixed.
    ///
    /// # Errors
    /// [`ShardError`]: no answer came; what was asked for may have been done or not.
    pub async fn ask(&self, hash: u64, ask: S::Ask) -> Result<S::Answer, ShardError> {
        self.send(hash, ask).await.unwrap_or(Err(ShardError::Lost))
    }

    /// Has every shard run this beside its questions; it is counted nowhere.
    pub fn visit_all(&self, visit: impl Fn(&mut S) + Send + Sync + 'static) {
        let visit = Arc::new(visit);
        for handle in self.handles.load().iter() {
            let visit = Arc::clone(&visit);
            handle
                .addr
                .do_send(Visit::<S>(Box::new(move |shard| visit(shard))));
        }
    }

    /// The same for the shard that `hash` falls to.
    pub fn visit(&self, hash: u64, visit: impl FnOnce(&mut S) + Send + 'static) {
        let handles = self.handles.load();
        if let Some(handle) = handles.get(index_of(hash, handles.len())) {
            handle.addr.do_send(Visit::<S>(Box::new(visit)));
        }
    }

    /// Counts a question that was refused, in the end, since no shard took it.
    pub fn count_refused(&self) {
        self.metrics.refused(Cause::BackingOff);
    }

    /// Enqueues at once. When no shard takes the envelope it is dropped with its sender, so that
    /// the receiver fails.
    fn send(&self, hash: u64, ask: S::Ask) -> oneshot::Receiver<Outcome<S>> {
        if !self.asked.load(Ordering::Acquire) {
            let _changing = self.changing.lock();
            self.asked.store(true, Ordering::Release);
        }
        let (answer, answered) = oneshot::channel();
        let handles = self.handles.load();
        let index = index_of(hash, handles.len());
        if let Some(handle) = handles.get(index) {
            let sample = handle.figures.sent();
            let envelope = Envelope::<S> {
                ask,
                answer,
                sample,
            };
            if handle.addr.connected() {
                handle.addr.do_send(envelope);
            } else if let Some(addr) = self.revive(index) {
                addr.do_send(envelope);
            }
        }
        answered
    }

    /// Starts a shard whose arbiter has ended on the arbiter of another one, so that its keys are
    /// not refused until a worker is replaced.
    #[cold]
    fn revive(&self, index: usize) -> Option<Addr<ShardActor<S>>> {
        let _changing = self.changing.lock();
        let mut handles = self.handles.load().as_ref().clone();
        if let Some(revived) = handles.get(index).filter(|handle| handle.addr.connected()) {
            return Some(revived.addr.clone());
        }
        let arbiter = handles
            .iter()
            .find(|handle| handle.addr.connected())?
            .arbiter
            .clone();
        tracing::warn!(
            shard = index,
            "a shard's arbiter has ended: the shard starts empty on another one"
        );
        let dead = handles.get_mut(index)?;
        let started = dead.moved(arbiter, &self.make);
        let addr = started.addr.clone();
        *dead = started;
        self.handles.store(Arc::new(handles));
        Some(addr)
    }
}

/// The index of the shard for a hash, by its upper bits.
fn index_of(hash: u64, count: usize) -> usize {
    usize::try_from((u128::from(hash) * count as u128) >> 64).unwrap_or(0)
}

fn start<S: Shard>(
    arbiter: ArbiterHandle,
    make: &Make<S>,
    figures: Arc<ActorFigures>,
) -> ShardHandle<S> {
    let (make, counted) = (Arc::clone(make), Arc::clone(&figures));
    let addr = ShardActor::start_in_arbiter(&arbiter, move |_| ShardActor {
        shard: make(),
        make,
        figures: counted,
    });
    ShardHandle {
        arbiter,
        addr,
        figures,
    }
}

/// The actix actor of one shard.
struct ShardActor<S: Shard> {
    shard: S,
    make: Make<S>,
    figures: Arc<ActorFigures>,
}

impl<S: Shard> ShardActor<S> {
    /// Goes on with what is sound of the state; where even that can't be told, with an empty one.
    fn begin_anew(&mut self) {
        let shard = &mut self.shard;
        if catch_unwind(AssertUnwindSafe(|| shard.repair())).is_err() {
            self.shard = (self.make)();
        }
        self.figures.started(self.shard.bytes());
    }
}

impl<S: Shard> Actor for ShardActor<S> {
    type Context = Context<Self>;
}

/// What became of a question.
type Outcome<S> = Result<<S as Shard>::Answer, ShardError>;

/// A question with the channel for its answer.
struct Envelope<S: Shard> {
    ask: S::Ask,
    answer: oneshot::Sender<Outcome<S>>,
    sample: Sample,
}

impl<S: Shard> Message for Envelope<S> {
    type Result = ();
}

impl<S: Shard> Handler<Envelope<S>> for ShardActor<S> {
    type Result = ();

    /// Catches a panic, since actix would close the mailbox for good: the state, which may be half
    /// changed, is repaired before the caller is told.
    fn handle(&mut self, envelope: Envelope<S>, _: &mut Context<Self>) {
        let Envelope {
            ask,
            answer,
            sample,
        } = envelope;
        let sample = self.figures.begun(sample, S::asked_at(&ask));
        let handled = catch_unwind(AssertUnwindSafe(|| {
            self.figures.crash_if_drilled();
            self.shard.handle(ask)
        }));
        match handled {
            Ok(answered) => {
                self.figures.handled(sample, || self.shard.bytes());
                // A caller that has left needs no answer.
                drop(answer.send(Ok(answered)));
            }
            Err(panic) => {
                tracing::error!(
                    shard = std::any::type_name::<S>(),
                    "a shard panicked: it goes on with what is sound of its state"
                );
                self.figures
                    .failed(Restart::Crash, text_of(panic), Duration::ZERO);
                self.begin_anew();
                drop(answer.send(Err(ShardError::Crashed)));
            }
        }
    }
}

/// What a shard runs beside its questions.
struct Visit<S>(Box<dyn FnOnce(&mut S) + Send>);

impl<S> Message for Visit<S> {
    type Result = ();
}

impl<S: Shard> Handler<Visit<S>> for ShardActor<S> {
    type Result = ();

    fn handle(&mut self, Visit(visit): Visit<S>, _: &mut Context<Self>) {
        let shard = &mut self.shard;
        if catch_unwind(AssertUnwindSafe(|| visit(shard))).is_err() {
            self.begin_anew();
        }
    }
}

/// The message that restarts a shard, since an operator asked for it.
struct BeginAnew;

impl Message for BeginAnew {
    type Result = ();
}

impl<S: Shard> Handler<BeginAnew> for ShardActor<S> {
    type Result = ();

    fn handle(&mut self, _: BeginAnew, _: &mut Context<Self>) {
        self.begin_anew();
    }
}

impl<S: Shard> Shards<S> {
    /// The shard with this id, if there is one.
    fn with_id(&self, id: &str) -> Result<ShardHandle<S>, OperatorError> {
        let handles = self.handles.load();
        let mut all = handles.iter();
        all.find(|handle| handle.figures.id() == id)
            .cloned()
            .ok_or(OperatorError::NotFound)
    }

    /// A shard after a command to it.
    fn after<'k>(&'k self, id: &'k str, command: impl FnOnce(&ShardHandle<S>)) -> Found<'k> {
        let shown = self.with_id(id).map(|handle| {
            command(&handle);
            handle.figures.instance()
        });
        Box::pin(async move { shown })
    }
}

impl<S: Shard> SupervisedKind for Shards<S> {
    fn kind(&self) -> &'static str {
        S::KIND
    }

    fn overview(&self) -> Overview {
        let mut overview = Overview::of(S::KIND, &self.metrics);
        for handle in self.handles.load().iter() {
            handle.figures.add_to(&mut overview);
        }
        overview
    }

    fn instances(&self, query: InstanceQuery) -> Vec<Instance> {
        let handles = self.handles.load();
        let all = handles.iter().map(|handle| handle.figures.instance());
        wanted(all.collect(), query)
    }

    fn instance<'k>(&'k self, id: &'k str) -> Found<'k> {
        self.after(id, |_| ())
    }

    fn restart<'k>(&'k self, id: &'k str) -> Found<'k> {
        self.after(id, |handle| {
            if handle.addr.connected() && handle.figures.request_restart() {
                handle.addr.do_send(BeginAnew);
            }
        })
    }

    fn passivate<'k>(&'k self, id: &'k str) -> Found<'k> {
        self.after(id, |_| ())
    }

    fn release<'k>(&'k self, id: &'k str) -> Found<'k> {
        self.after(id, |_| ())
    }

    fn crash<'k>(&'k self, id: &'k str) -> Found<'k> {
        self.after(id, |handle| handle.figures.begin_drill())
    }

    fn policy(&self) -> Option<Arc<Policy>> {
        None
    }

    fn set_policy(&self, _: Policy) {}
}

/// Runs a test with `count` new arbiters, for modules that may not import actix.
#[cfg(any(test, feature = "test-support"))]
pub fn among_arbiters<F: Future<Output = ()>>(
    count: usize,
    test: impl FnOnce(Vec<ArbiterHandle>) -> F,
) {
    actix::System::new().block_on(async {
        let arbiters = (0..count)
            .map(|_| actix::Arbiter::new())
            .collect::<Vec<_>>();
        test(arbiters.iter().map(actix::Arbiter::handle).collect()).await;
        for arbiter in arbiters {
            arbiter.stop();
            drop(arbiter.join());
        }
    });
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::thread::ThreadId;
    use std::time::Duration;

    use super::*;

    /// Counts what it was asked; `None` makes it panic half-way.
    struct Tally {
        asks: u32,
        answered: u32,
    }

    impl Shard for Tally {
        type Ask = Option<()>;
        type Answer = (u32, ThreadId);
        const KIND: &'static str = "tally";

        fn bytes(&self) -> usize {
            size_of::<Self>()
        }

        fn handle(&mut self, ask: Option<()>) -> Self::Answer {
            self.asks += 1;
            if ask.is_none() {
                panic!("asked to");
            }
            self.answered = self.asks;
            (self.asks, std::thread::current().id())
        }

        fn repair(&mut self) {
            assert!(self.answered < BEYOND_REPAIR, "beyond repair");
            self.asks = self.answered;
        }

        fn asked_at(_: &Option<()>) -> Timestamp {
            Timestamp(1)
        }
    }

    /// A tally that has answered so many can't be repaired.
    const BEYOND_REPAIR: u32 = 3;

    fn tallies(arbiters: Vec<ArbiterHandle>) -> Shards<Tally> {
        Shards::new(arbiters, || Tally {
            asks: 0,
            answered: 0,
        })
    }

    const FIRST: u64 = 0;
    const LAST: u64 = u64::MAX;

    /// An answer that never comes fails the test instead of hanging it.
    async fn ask(
        shards: &Shards<Tally>,
        hash: u64,
        what: Option<()>,
    ) -> Result<(u32, ThreadId), ShardError> {
        tokio::time::timeout(Duration::from_secs(20), shards.ask(hash, what))
            .await
            .unwrap()
    }

    #[test]
    fn a_hash_always_finds_the_same_shard_and_each_shard_has_its_own_thread() {
        among_arbiters(2, |arbiters| async {
            let shards = tallies(arbiters);
            let (_, first) = ask(&shards, FIRST, Some(())).await.unwrap();
            let (_, last) = ask(&shards, LAST, Some(())).await.unwrap();
            assert_ne!(first, last);
            assert_eq!(ask(&shards, FIRST, Some(())).await, Ok((2, first)));
            assert_eq!(ask(&shards, FIRST + 1, Some(())).await, Ok((3, first)));
            assert_eq!(ask(&shards, LAST, Some(())).await, Ok((2, last)));
        });
    }

    #[test]
    fn a_panic_fails_its_own_ask_only_and_what_is_sound_is_kept() {
        among_arbiters(2, |arbiters| async {
            let shards = tallies(arbiters);
            assert_eq!(ask(&shards, FIRST, Some(())).await.unwrap().0, 1);
            assert_eq!(ask(&shards, LAST, Some(())).await.unwrap().0, 1);
            assert_eq!(ask(&shards, FIRST, None).await, Err(ShardError::Crashed));
            assert_eq!(ask(&shards, FIRST, Some(())).await.unwrap().0, 2);
            assert_eq!(ask(&shards, LAST, Some(())).await.unwrap().0, 2);
            assert_eq!(ask(&shards, FIRST, Some(())).await.unwrap().0, 3);
            assert_eq!(ask(&shards, FIRST, None).await, Err(ShardError::Crashed));
            let afresh = ask(&shards, FIRST, Some(())).await.unwrap().0;
            assert_eq!(afresh, 1, "what can't be repaired is replaced");
        });
    }

    #[test]
    fn a_visit_reaches_every_shard_and_is_counted_nowhere() {
        among_arbiters(2, |arbiters| async {
            let shards = tallies(arbiters);
            shards.visit_all(|tally| tally.asks += 10);
            assert_eq!(ask(&shards, FIRST, Some(())).await.unwrap().0, 11);
            assert_eq!(ask(&shards, LAST, Some(())).await.unwrap().0, 11);
            assert_eq!(shards.overview().handled, 2, "what was asked");
            shards.visit(FIRST, |_| panic!("asked to"));
            let afresh = ask(&shards, FIRST, Some(())).await.unwrap().0;
            assert_eq!(afresh, 1, "the shard that could not be repaired");
            assert_eq!(ask(&shards, LAST, Some(())).await.unwrap().0, 12);
        });
    }

    #[test]
    fn arbiters_may_join_until_the_first_ask() {
        among_arbiters(3, |arbiters| async move {
            let shards = tallies(Vec::new());
            for arbiter in arbiters.iter().take(2) {
                assert_eq!(shards.register(arbiter.clone()), Registered::Added);
            }
            let (_, before) = ask(&shards, LAST, Some(())).await.unwrap();
            assert_eq!(
                shards.register(arbiters.last().unwrap().clone()),
                Registered::NotNeeded
            );
            assert_eq!(shards.count(), 2);
            assert_eq!(ask(&shards, LAST, Some(())).await, Ok((2, before)));
        });
    }

    #[test]
    fn without_an_arbiter_an_ask_is_answered_at_once_and_a_late_one_still_helps() {
        among_arbiters(1, |mut arbiters| async move {
            let shards = tallies(Vec::new());
            assert_eq!(ask(&shards, FIRST, Some(())).await, Err(ShardError::Lost));
            assert_eq!(shards.register(arbiters.pop().unwrap()), Registered::Added);
            assert_eq!(ask(&shards, FIRST, Some(())).await.unwrap().0, 1);
        });
    }

    /// Stops an arbiter and waits until the shard at `place` is seen to be dead.
    async fn kill(shards: &Shards<Tally>, arbiter: &ArbiterHandle, place: usize) {
        arbiter.stop();
        tokio::time::timeout(Duration::from_secs(20), async {
            while shards.handles.load().get(place).unwrap().addr.connected() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
        .unwrap();
    }

    #[test]
    fn the_keys_of_a_dead_arbiter_are_answered_by_a_neighbour() {
        among_arbiters(2, |arbiters| async move {
            let shards = tallies(arbiters.clone());
            let (_, first) = ask(&shards, FIRST, Some(())).await.unwrap();
            ask(&shards, LAST, Some(())).await.unwrap();
            kill(&shards, arbiters.last().unwrap(), 1).await;
            assert_eq!(ask(&shards, LAST, Some(())).await, Ok((1, first)));
            assert_eq!(ask(&shards, LAST, Some(())).await, Ok((2, first)));
            assert_eq!(ask(&shards, FIRST, Some(())).await, Ok((2, first)));
        });
    }

    #[test]
    fn a_replaced_worker_takes_over_the_dead_place() {
        among_arbiters(3, |arbiters| async move {
            let shards = tallies(arbiters.iter().take(2).cloned().collect());
            let (_, first) = ask(&shards, FIRST, Some(())).await.unwrap();
            kill(&shards, arbiters.get(1).unwrap(), 1).await;
            assert_eq!(
                shards.register(arbiters.last().unwrap().clone()),
                Registered::TookOver
            );
            let (asks, third) = ask(&shards, LAST, Some(())).await.unwrap();
            assert_eq!(asks, 1);
            assert_ne!(third, first);
        });
    }

    #[test]
    fn an_ask_that_meets_a_dying_arbiter_is_answered_all_the_same() {
        among_arbiters(1, |arbiters| async move {
            let shards = tallies(arbiters.clone());
            ask(&shards, FIRST, Some(())).await.unwrap();
            arbiters.last().unwrap().stop();
            for _ in 0..1_000 {
                // Answered or lost: both will do, but not silence.
                ask(&shards, FIRST, Some(())).await.ok();
            }
            assert_eq!(ask(&shards, FIRST, Some(())).await, Err(ShardError::Lost));
        });
    }
}
