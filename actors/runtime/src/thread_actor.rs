//! An actor on a thread of its own, for work that must not disturb the HTTP workers: plain state
//! that takes one message at a time, and futures whose results come back as messages. A panic, in
//! the state or in a future, costs what is in memory, never the address: the state is made again
//! after a delay and recovers from what is stored elsewhere.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::task::{Context as TaskContext, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use actix::{Actor, ActorContext, Addr, AsyncContext, Handler, Message, SpawnHandle};
use colloquy_model::time::Timestamp;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::actor_figures::{ActorFigures, Sample, wanted};
use super::metrics::{Metrics, Restart};
use super::overview::{Instance, InstanceQuery, Overview};
use super::policy::Policy;
use super::supervised_actor::text_of;
use super::supervised_kind::{Found, OperatorError, SupervisedKind};
use crate::threads::{self, RestartBackoff};

/// The state of an actor on a thread of its own.
pub trait ThreadActor: Sized + Unpin + 'static {
    /// The name of its thread in logs and metrics.
    const NAME: &'static str;
    /// The name of the actor in what operators see, such as `webhook_dispatcher`.
    const KIND: &'static str;
    /// The messages that it takes, from others and from its own futures.
    type Message: Send + 'static;

    /// Called first, after the start and after each restart.
    fn started(&mut self, context: &mut Context<Self::Message>);

    /// Takes one message. It must not block.
    fn handle(&mut self, message: Self::Message, context: &mut Context<Self::Message>);
}

/// A future whose output is a message.
type MessageFuture<M> = Pin<Box<dyn Future<Output = M>>>;

/// What the handling of one message asks the runtime for: futures, a restart, the end.
pub struct Context<M> {
    futures: Vec<MessageFuture<M>>,
    next: Next,
}

/// What follows the handling of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    BeginAnew,
    Restart,
    Stop,
}

impl<M: 'static> Context<M> {
    /// A context that asks for nothing.
    #[must_use]
    pub fn new() -> Self {
        Context {
            futures: Vec::new(),
            next: Next::Continue,
        }
    }

    /// Runs a future on the same thread; its output is sent to the actor as a message. A restart
    /// drops it.
    pub fn spawn(&mut self, future: impl Future<Output = M> + 'static) {
        self.futures.push(Box::pin(future));
    }

    /// Sends the actor a message after a delay.
    pub fn send_after(&mut self, wait: Duration, message: M) {
        self.spawn(async move {
            tokio::time::sleep(wait).await;
            message
        });
    }

    /// Stops the actor: no further message is taken, and the thread ends.
    pub fn stop(&mut self) {
        self.next = Next::Stop;
    }

    /// Makes the state again at once: nothing has failed, so nothing is logged.
    pub fn begin_anew(&mut self) {
        self.next = Next::BeginAnew;
    }

    /// Makes the state again, after the same delay as after a panic.
    pub fn restart(&mut self) {
        self.next = Next::Restart;
    }

    /// Takes the futures, for tests that drive a state without this runtime.
    pub fn take_futures(&mut self) -> Vec<MessageFuture<M>> {
        std::mem::take(&mut self.futures)
    }
}

impl<M: 'static> Default for Context<M> {
    fn default() -> Self {
        Context::new()
    }
}

/// The handle of an actor on a thread of its own.
pub struct ActorHandle<S: ThreadActor> {
    addr: Addr<Supervisor<S>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    metrics: Arc<Metrics>,
    figures: Arc<ActorFigures>,
}

impl<S: ThreadActor> ActorHandle<S> {
    /// Starts a thread with an actor. `make` makes its state, again after each panic.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub fn start(make: impl Fn() -> S + Send + 'static) -> std::io::Result<Self> {
        let metrics = Arc::new(Metrics::new());
        let figures = Arc::new(ActorFigures::new(S::KIND.to_owned(), Arc::clone(&metrics)));
        let counted = Arc::clone(&figures);
        let (started, starting) = sync_channel(1);
        let run = move || {
            crate::cores::mark_latency_sensitive();
            actix::System::new().block_on(async move {
                let (ending, ended) = oneshot::channel();
                let addr = Supervisor::start(Supervisor::new(Box::new(make), counted, ending));
                // The starting thread waits for this below.
                let _ = started.send(addr);
                // An error means that the actor is gone, which is an end too.
                let _ = ended.await;
            });
        };
        let thread = threads::spawn(S::NAME, threads::EndProcess, run)?;
        let addr = starting.recv().map_err(std::io::Error::other)?;
        Ok(ActorHandle {
            addr,
            thread: Mutex::new(Some(thread)),
            metrics,
            figures,
        })
    }

    /// Sends a message without waiting for anything. After the actor has stopped, and while it
    /// waits for a restart, messages are dropped.
    pub fn tell(&self, message: S::Message) {
        self.addr.do_send(Envelope {
            incarnation: None,
            message,
            sample: self.figures.sent(),
        });
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        let thread = self.thread.lock();
        thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the thread has ended.
    pub fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // A panic outside of the actor has ended the process.
            let _ = thread.join();
        }
    }
}

/// The actix actor that runs the state and catches its panics.
struct Supervisor<S: ThreadActor> {
    make: Box<dyn Fn() -> S + Send>,
    /// `None` while it waits for a restart.
    state: Option<S>,
    /// How often the state has been made.
    incarnation: u64,
    restarts: RestartBackoff,
    /// The restart that it waits for.
    restart_due: Option<SpawnHandle>,
    figures: Arc<ActorFigures>,
    tasks: JoinSet<()>,
    /// Dropped with the actor, which ends the thread.
    _ending: oneshot::Sender<()>,
}

impl<S: ThreadActor> Supervisor<S> {
    fn new(
        make: Box<dyn Fn() -> S + Send>,
        figures: Arc<ActorFigures>,
        ending: oneshot::Sender<()>,
    ) -> Self {
        let restarts = RestartBackoff::of(S::NAME);
        Supervisor {
            make,
            state: None,
            incarnation: 0,
            restarts,
            restart_due: None,
            figures,
            tasks: JoinSet::new(),
            _ending: ending,
        }
    }

    /// Calls the state, catches its panic, and does what its context asks for.
    fn run_caught(
        &mut self,
        ctx: &mut actix::Context<Self>,
        piece: impl FnOnce(&mut S, &mut Context<S::Message>),
    ) {
        let Some(state) = &mut self.state else { return };
        let mut context = Context::new();
        let done = catch_unwind(AssertUnwindSafe(|| piece(state, &mut context)));
        if let Err(panic) = done {
            return self.crashed(Restart::Crash, text_of(panic), ctx);
        }
        match context.next {
            Next::Continue => {}
            Next::BeginAnew => {
                self.drop_state();
                return self.begin(ctx);
            }
            Next::Restart => {
                let text = "it asked to begin anew from what is stored".to_owned();
                return self.crashed(Restart::Store, text, ctx);
            }
            Next::Stop => {
                self.tasks.abort_all();
                ctx.stop();
                return;
            }
        }
        // Finished tasks would accumulate otherwise.
        while self.tasks.try_join_next().is_some() {}
        for future in context.futures {
            let guard = CaughtFuture {
                future,
                addr: ctx.address(),
                incarnation: self.incarnation,
                figures: Arc::clone(&self.figures),
            };
            self.tasks.spawn_local(guard);
        }
    }

    /// Drops the state with its futures, and makes it again after a delay.
    fn crashed(&mut self, cause: Restart, text: String, ctx: &mut actix::Context<Self>) {
        self.drop_state();
        let wait = self.restarts.next_wait();
        self.figures.failed(cause, text, wait);
        self.restart_due = Some(ctx.run_later(wait, Self::begin));
    }

    fn drop_state(&mut self) {
        self.tasks = JoinSet::new();
        let state = self.state.take();
        // Dropping the state may panic too.
        drop(catch_unwind(AssertUnwindSafe(|| drop(state))));
    }

    /// Makes the state and starts it.
    fn begin(&mut self, ctx: &mut actix::Context<Self>) {
        if let Some(due) = self.restart_due.take() {
            ctx.cancel_future(due);
        }
        self.incarnation += 1;
        match catch_unwind(AssertUnwindSafe(|| (self.make)())) {
            Ok(state) => self.state = Some(state),
            Err(panic) => return self.crashed(Restart::Crash, text_of(panic), ctx),
        }
        self.figures.started(size_of::<S>());
        self.run_caught(ctx, S::started);
    }
}

impl<S: ThreadActor> Actor for Supervisor<S> {
    type Context = actix::Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.begin(ctx);
    }
}

/// A message to the actor. One that comes from a future belongs to the incarnation that spawned it,
/// and is dropped by later ones.
struct Envelope<M> {
    incarnation: Option<u64>,
    message: M,
    sample: Sample,
}

impl<M: 'static> Message for Envelope<M> {
    type Result = ();
}

impl<S: ThreadActor> Handler<Envelope<S::Message>> for Supervisor<S> {
    type Result = ();

    fn handle(&mut self, envelope: Envelope<S::Message>, ctx: &mut Self::Context) {
        let is_ours = envelope
            .incarnation
            .is_none_or(|incarnation| incarnation == self.incarnation);
        if !is_ours || self.state.is_none() {
            return self.figures.refused();
        }
        let figures = Arc::clone(&self.figures);
        let sample = figures.begun(envelope.sample, Timestamp::now());
        self.run_caught(ctx, |state, context| {
            figures.crash_if_drilled();
            state.handle(envelope.message, context);
            figures.handled(sample, || size_of::<S>());
        });
    }
}

/// The message that makes the state again at once, since an operator asked for it; one that waits
/// for its restart waits no longer.
struct BeginAnew;

impl Message for BeginAnew {
    type Result = ();
}

impl<S: ThreadActor> Handler<BeginAnew> for Supervisor<S> {
    type Result = ();

    fn handle(&mut self, _: BeginAnew, ctx: &mut Self::Context) {
        self.drop_state();
        self.begin(ctx);
    }
}

/// The message that ends a wait for a restart, since an operator asked for it.
struct EndBackoff;

impl Message for EndBackoff {
    type Result = ();
}

impl<S: ThreadActor> Handler<EndBackoff> for Supervisor<S> {
    type Result = ();

    fn handle(&mut self, _: EndBackoff, ctx: &mut Self::Context) {
        if self.state.is_none() {
            self.begin(ctx);
        }
    }
}

/// The message that a future of this incarnation has panicked.
struct Crashed(u64);

impl Message for Crashed {
    type Result = ();
}

impl<S: ThreadActor> Handler<Crashed> for Supervisor<S> {
    type Result = ();

    fn handle(&mut self, crashed: Crashed, ctx: &mut Self::Context) {
        if crashed.0 == self.incarnation && self.state.is_some() {
            self.crashed(
                Restart::Crash,
                "one of its futures panicked".to_owned(),
                ctx,
            );
        }
    }
}

/// A future whose panic is caught, and whose outcome is sent to the actor.
struct CaughtFuture<S: ThreadActor> {
    future: MessageFuture<S::Message>,
    addr: Addr<Supervisor<S>>,
    incarnation: u64,
    figures: Arc<ActorFigures>,
}

impl<S: ThreadActor> Future for CaughtFuture<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<()> {
        let future = self.future.as_mut();
        match catch_unwind(AssertUnwindSafe(|| future.poll(task))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(message)) => self.addr.do_send(Envelope {
                incarnation: Some(self.incarnation),
                message,
                sample: self.figures.sent(),
            }),
            Err(_) => self.addr.do_send(Crashed(self.incarnation)),
        }
        Poll::Ready(())
    }
}

impl<S: ThreadActor> ActorHandle<S> {
    /// The actor after a command to it; it is the only one of its kind.
    fn after<'k>(&'k self, id: &'k str, command: impl FnOnce(&Self)) -> Found<'k> {
        let shown = (id == self.figures.id())
            .then(|| {
                command(self);
                self.figures.instance()
            })
            .ok_or(OperatorError::NotFound);
        Box::pin(async move { shown })
    }
}

impl<S: ThreadActor> SupervisedKind for ActorHandle<S> {
    fn kind(&self) -> &'static str {
        S::KIND
    }

    fn overview(&self) -> Overview {
        let mut overview = Overview::of(S::KIND, &self.metrics);
        self.figures.add_to(&mut overview);
        overview
    }

    fn instances(&self, query: InstanceQuery) -> Vec<Instance> {
        wanted(vec![self.figures.instance()], query)
    }

    fn instance<'k>(&'k self, id: &'k str) -> Found<'k> {
        self.after(id, |_| ())
    }

    fn restart<'k>(&'k self, id: &'k str) -> Found<'k> {
        self.after(id, |actor| {
            if actor.figures.request_restart() {
                actor.addr.do_send(BeginAnew);
            }
        })
    }

    fn passivate<'k>(&'k self, id: &'k str) -> Found<'k> {
        self.after(id, |_| ())
    }

    fn release<'k>(&'k self, id: &'k str) -> Found<'k> {
        self.after(id, |actor| actor.addr.do_send(EndBackoff))
    }

    fn crash<'k>(&'k self, id: &'k str) -> Found<'k> {
        self.after(id, |actor| actor.figures.begin_drill())
    }

    fn policy(&self) -> Option<Arc<Policy>> {
        None
    }

    fn set_policy(&self, _: Policy) {}
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::panic,
        reason = "a test fails by panicking"
    )]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    enum Ask {
        Count(Sender<u32>),
        Panic,
        PanicLater,
        Later(Sender<u32>),
        Counted(Sender<u32>),
        BeginAnew,
        End,
    }

    /// Counts what it was asked since it was made.
    struct Tally {
        asked: u32,
        starts: Arc<AtomicU32>,
    }

    impl ThreadActor for Tally {
        const NAME: &'static str = "tally";
        const KIND: &'static str = "tally";
        type Message = Ask;

        fn started(&mut self, _: &mut Context<Ask>) {
            self.starts.fetch_add(1, Ordering::Relaxed);
        }

        fn handle(&mut self, ask: Ask, context: &mut Context<Ask>) {
            self.asked += 1;
            match ask {
                Ask::Count(answer) | Ask::Counted(answer) => answer.send(self.asked).unwrap(),
                Ask::Panic => panic!("asked to"),
                Ask::PanicLater => context.spawn(async { panic!("asked to, later") }),
                Ask::Later(answer) => {
                    context.send_after(Duration::from_millis(1), Ask::Counted(answer))
                }
                Ask::BeginAnew => context.begin_anew(),
                Ask::End => context.stop(),
            }
        }
    }

    fn tally() -> (ActorHandle<Tally>, Arc<AtomicU32>) {
        let starts = Arc::new(AtomicU32::new(0));
        let made = Arc::clone(&starts);
        (
            ActorHandle::start(move || Tally {
                asked: 0,
                starts: Arc::clone(&made),
            })
            .unwrap(),
            starts,
        )
    }

    fn ask(actor: &ActorHandle<Tally>, what: impl FnOnce(Sender<u32>) -> Ask) -> Option<u32> {
        let (answer, answered) = channel();
        actor.tell(what(answer));
        answered.recv_timeout(Duration::from_secs(20)).ok()
    }

    /// While the actor waits for its restart an ask is dropped, which the caller sees.
    fn ask_until_it_runs(actor: &ActorHandle<Tally>) -> u32 {
        std::iter::from_fn(|| Some(ask(actor, Ask::Count)))
            .flatten()
            .next()
            .unwrap()
    }

    #[test]
    fn what_a_future_brings_is_a_message_and_the_end_ends_the_thread() {
        let (actor, starts) = tally();
        assert_eq!(ask(&actor, Ask::Count), Some(1));
        assert_eq!(ask(&actor, Ask::Later), Some(3));
        actor.tell(Ask::End);
        actor.join();
        assert_eq!(ask(&actor, Ask::Count), None);
        assert_eq!(starts.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn after_a_panic_the_state_is_new_and_the_address_the_same() {
        let (actor, starts) = tally();
        assert_eq!(ask(&actor, Ask::Count), Some(1));
        actor.tell(Ask::Panic);
        assert_eq!(ask_until_it_runs(&actor), 1);
        assert_eq!(starts.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn who_begins_anew_has_a_new_state_at_once_and_has_not_failed() {
        let (actor, starts) = tally();
        for number in 1..=20 {
            assert_eq!(ask(&actor, Ask::Count), Some(1));
            assert_eq!(starts.load(Ordering::Relaxed), number);
            actor.tell(Ask::BeginAnew);
        }
        assert_eq!(actor.figures.instance().seen.restarts, 0);
    }

    #[test]
    fn a_restart_that_ends_a_wait_is_counted_with_its_crash() {
        let (actor, starts) = tally();
        let restarts = || actor.figures.instance().seen.restarts;
        // Each wait is longer than the one before, the first is none.
        for crashes in 1..=6 {
            actor.tell(Ask::Panic);
            while restarts() < crashes {
                std::thread::yield_now();
            }
            if crashes < 6 {
                while starts.load(Ordering::Relaxed) <= crashes as u32 {
                    std::thread::yield_now();
                }
            }
        }
        assert_eq!(
            starts.load(Ordering::Relaxed),
            6,
            "it waits for over a second"
        );
        let restart = SupervisedKind::restart(&actor, Tally::KIND);
        let shown = actix::System::new().block_on(restart).unwrap();
        assert_eq!(shown.seen.restarts, 6);
        assert_eq!(ask_until_it_runs(&actor), 1);
        assert_eq!((restarts(), starts.load(Ordering::Relaxed)), (6, 7));
    }

    #[test]
    fn a_panic_in_a_future_is_a_panic_of_the_actor() {
        let (actor, starts) = tally();
        actor.tell(Ask::PanicLater);
        while starts.load(Ordering::Relaxed) < 2 {
            ask(&actor, Ask::Count);
        }
        assert_eq!(
            ask_until_it_runs(&actor).min(9),
            ask_until_it_runs(&actor).min(9) - 1
        );
    }
}
