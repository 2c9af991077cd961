//! One actor on a thread of its own, for work that must not disturb the HTTP workers: plain state
//! that takes one message at a time, and futures whose outcome comes back as a message. A panic, in
//! the state or in a future, costs all that is in memory, never the address: the state is made anew
//! after a while and begins from what it finds elsewhere.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::mpsc::sync_channel;
use std::task::{Context as Task, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, Message};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::threads::{self, Restarts};

/// State that is alone on its thread.
pub trait Solo: Sized + Unpin + 'static {
    /// How logs and metrics name its thread.
    const NAME: &'static str;
    /// What it is told, by others and by its own futures.
    type Message: Send + 'static;

    /// Its life begins.
    fn begin(&mut self, turn: &mut Turn<Self::Message>);

    /// Takes one message. It must not block.
    fn handle(&mut self, message: Self::Message, turn: &mut Turn<Self::Message>);
}

type Later<M> = Pin<Box<dyn Future<Output = M>>>;

/// What the handling of a message sets going.
pub struct Turn<M> {
    later: Vec<Later<M>>,
    then: Then,
}

/// What follows the handling of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoesOn,
    BeginsAnew,
    Ends,
}

impl<M: 'static> Turn<M> {
    /// One with nothing set going.
    #[must_use]
    pub fn new() -> Self {
        Turn {
            later: Vec::new(),
            then: Then::GoesOn,
        }
    }

    /// Waits for this on the same thread; what comes of it is a message.
    pub fn later(&mut self, future: impl Future<Output = M> + 'static) {
        self.later.push(Box::pin(future));
    }

    /// Sends itself a message after a while.
    pub fn after(&mut self, wait: Duration, message: M) {
        self.later(async move {
            tokio::time::sleep(wait).await;
            message
        });
    }

    /// Nothing more is taken: the thread ends.
    pub fn end(&mut self) {
        self.then = Then::Ends;
    }

    /// The state is made anew, after a wait as that after a panic.
    pub fn begin_anew(&mut self) {
        self.then = Then::BeginsAnew;
    }

    /// What was set going, for whoever drives a state without this runtime.
    pub fn take(&mut self) -> Vec<Later<M>> {
        std::mem::take(&mut self.later)
    }
}

impl<M: 'static> Default for Turn<M> {
    fn default() -> Self {
        Turn::new()
    }
}

/// The way to an actor on its own thread.
pub struct Alone<S: Solo> {
    addr: Addr<SoloActor<S>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<S: Solo> Alone<S> {
    /// Starts a thread with the actor; `make` makes its state, again after each panic.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub fn start(make: impl Fn() -> S + Send + 'static) -> std::io::Result<Self> {
        let (started, starting) = sync_channel(1);
        let run = move || {
            crate::cores::keep_prompt();
            actix::System::new().block_on(async move {
                let (ending, ended) = oneshot::channel();
                let addr = SoloActor::start(SoloActor::new(Box::new(make), ending));
                // Whoever starts it waits in the next line.
                let _ = started.send(addr);
                // An error means that the actor is gone, which is an end too.
                let _ = ended.await;
            });
        };
        let thread = threads::spawn(S::NAME, run)?;
        let addr = starting.recv().map_err(std::io::Error::other)?;
        Ok(Alone {
            addr,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Tells it something. Once it has ended, what it is told is dropped.
    pub fn tell(&self, message: S::Message) {
        self.addr.do_send(Told {
            life: None,
            message,
        });
    }

    /// Waits until the thread has ended.
    pub fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // A panic outside of the actor has ended the process.
            let _ = thread.join();
        }
    }
}

struct SoloActor<S: Solo> {
    make: Box<dyn Fn() -> S + Send>,
    /// None while it waits for its next life.
    state: Option<S>,
    life: u64,
    restarts: Restarts,
    tasks: JoinSet<()>,
    /// Dropped with the actor, which ends the thread.
    _ending: oneshot::Sender<()>,
}

impl<S: Solo> SoloActor<S> {
    fn new(make: Box<dyn Fn() -> S + Send>, ending: oneshot::Sender<()>) -> Self {
        let restarts = Restarts::of(S::NAME);
        SoloActor {
            make,
            state: None,
            life: 0,
            restarts,
            tasks: JoinSet::new(),
            _ending: ending,
        }
    }

    /// Runs a piece of the state behind a wall.
    fn guarded(
        &mut self,
        context: &mut Context<Self>,
        piece: impl FnOnce(&mut S, &mut Turn<S::Message>),
    ) {
        let Some(state) = &mut self.state else { return };
        let mut turn = Turn::new();
        let done = catch_unwind(AssertUnwindSafe(|| piece(state, &mut turn)));
        if done.is_err() {
            self.crashed(context);
            return;
        }
        match turn.then {
            Then::GoesOn => {}
            Then::BeginsAnew => return self.crashed(context),
            Then::Ends => {
                self.tasks.abort_all();
                context.stop();
                return;
            }
        }
        // Those that are done are taken out, or they would gather.
        while self.tasks.try_join_next().is_some() {}
        for future in turn.later {
            let guard = Guard {
                future,
                addr: context.address(),
                life: self.life,
            };
            self.tasks.spawn_local(guard);
        }
    }

    /// What was set going in this life goes with it.
    fn crashed(&mut self, context: &mut Context<Self>) {
        self.tasks = JoinSet::new();
        let state = self.state.take();
        // Dropping the broken state may panic too.
        drop(catch_unwind(AssertUnwindSafe(|| drop(state))));
        context.run_later(self.restarts.next_wait(), Self::begin);
    }

    fn begin(&mut self, context: &mut Context<Self>) {
        self.life += 1;
        match catch_unwind(AssertUnwindSafe(|| (self.make)())) {
            Ok(state) => self.state = Some(state),
            Err(_) => return self.crashed(context),
        }
        self.guarded(context, S::begin);
    }
}

impl<S: Solo> Actor for SoloActor<S> {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Self::Context) {
        self.begin(context);
    }
}

/// A message; one of a future's belongs to the life that set it going.
struct Told<M> {
    life: Option<u64>,
    message: M,
}

impl<M: 'static> Message for Told<M> {
    type Result = ();
}

impl<S: Solo> Handler<Told<S::Message>> for SoloActor<S> {
    type Result = ();

    fn handle(&mut self, told: Told<S::Message>, context: &mut Self::Context) {
        if told.life.is_none_or(|life| life == self.life) {
            self.guarded(context, |state, turn| state.handle(told.message, turn));
        }
    }
}

/// A future of this life has panicked.
struct Crashed(u64);

impl Message for Crashed {
    type Result = ();
}

impl<S: Solo> Handler<Crashed> for SoloActor<S> {
    type Result = ();

    fn handle(&mut self, crashed: Crashed, context: &mut Self::Context) {
        if crashed.0 == self.life && self.state.is_some() {
            self.crashed(context);
        }
    }
}

/// A future behind a wall, whose outcome is told.
struct Guard<S: Solo> {
    future: Later<S::Message>,
    addr: Addr<SoloActor<S>>,
    life: u64,
}

impl<S: Solo> Future for Guard<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<()> {
        let future = self.future.as_mut();
        match catch_unwind(AssertUnwindSafe(|| future.poll(task))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(message)) => self.addr.do_send(Told {
                life: Some(self.life),
                message,
            }),
            Err(_) => self.addr.do_send(Crashed(self.life)),
        }
        Poll::Ready(())
    }
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
        End,
    }

    /// Counts what it was asked in this life.
    struct Tally {
        asked: u32,
        lives: Arc<AtomicU32>,
    }

    impl Solo for Tally {
        const NAME: &'static str = "tally";
        type Message = Ask;

        fn begin(&mut self, _: &mut Turn<Ask>) {
            self.lives.fetch_add(1, Ordering::Relaxed);
        }

        fn handle(&mut self, ask: Ask, turn: &mut Turn<Ask>) {
            self.asked += 1;
            match ask {
                Ask::Count(answer) | Ask::Counted(answer) => answer.send(self.asked).unwrap(),
                Ask::Panic => panic!("asked to"),
                Ask::PanicLater => turn.later(async { panic!("asked to, later") }),
                Ask::Later(answer) => turn.after(Duration::from_millis(1), Ask::Counted(answer)),
                Ask::End => turn.end(),
            }
        }
    }

    fn tally() -> (Alone<Tally>, Arc<AtomicU32>) {
        let lives = Arc::new(AtomicU32::new(0));
        let made = Arc::clone(&lives);
        (
            Alone::start(move || Tally {
                asked: 0,
                lives: Arc::clone(&made),
            })
            .unwrap(),
            lives,
        )
    }

    fn ask(alone: &Alone<Tally>, what: impl FnOnce(Sender<u32>) -> Ask) -> Option<u32> {
        let (answer, answered) = channel();
        alone.tell(what(answer));
        answered.recv_timeout(Duration::from_secs(20)).ok()
    }

    /// While it waits for its next life an ask is dropped, which its asker sees.
    fn ask_until_it_lives(alone: &Alone<Tally>) -> u32 {
        std::iter::from_fn(|| Some(ask(alone, Ask::Count)))
            .flatten()
            .next()
            .unwrap()
    }

    #[test]
    fn what_a_future_brings_is_a_message_and_the_end_ends_the_thread() {
        let (alone, lives) = tally();
        assert_eq!(ask(&alone, Ask::Count), Some(1));
        assert_eq!(ask(&alone, Ask::Later), Some(3));
        alone.tell(Ask::End);
        alone.join();
        assert_eq!(ask(&alone, Ask::Count), None);
        assert_eq!(lives.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn after_a_panic_the_state_is_new_and_the_address_the_same() {
        let (alone, lives) = tally();
        assert_eq!(ask(&alone, Ask::Count), Some(1));
        alone.tell(Ask::Panic);
        assert_eq!(ask_until_it_lives(&alone), 1);
        assert_eq!(lives.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_panic_in_a_future_is_a_panic_of_the_actor() {
        let (alone, lives) = tally();
        alone.tell(Ask::PanicLater);
        while lives.load(Ordering::Relaxed) < 2 {
            ask(&alone, Ask::Count);
        }
        assert_eq!(
            ask_until_it_lives(&alone).min(9),
            ask_until_it_lives(&alone).min(9) - 1
        );
    }
}
