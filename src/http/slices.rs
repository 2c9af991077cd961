//! What is long is read and written in slices, connections begin a few at a time, and each account has its
//! share of a round (`lanes.rs`). A worker goes round
//! its connections, and looks whether something new has come only after up to 61 of them (tokio's
//! `LocalSet`): with 16 that bring large bodies, each 128 KiB at a time, a short request of another
//! waited for all of that. So in each round all of a worker's connections together read and write one
//! slice of what is long (`slice.rs`), compute at most one step of a handshake, and produce one slice of what event
//! streams and sockets show. Those for which nothing is left take turns, in which accounts (of nobody who is known,
//! addresses) are equals.
//!
//! It earns its lines: beside 64 documents of 8 MiB (`tests/hostile/uploads.rs`, two cores, release) a
//! worker had rounds of 10 to 33 ms of CPU; with slices and without huge pages the longest, but for one of
//! 6 ms, took less than 1 ms.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::budget::BudgetOwner;
use super::lanes::{self, Lanes, REQUEST, Turn, WRITE};
use super::slice::{Place, SLICE, Slice};

/// Bytes up to which a request or an answer is short: it needs nothing of a slice.
const SHORT: usize = 16_384;

/// The least that is kept of a slice for a stream's next piece: one event.
const PIECE_MIN: usize = 1_024;
/// What the beginning of a connection takes of a slice: the two buffers that it gets take as long.
pub(super) const BEGINNING: usize = 16_384;
/// What each step of a handshake takes, which is longer than anything else that is done at once.
pub(super) const HANDSHAKE: usize = SLICE;

thread_local! {
    static WORKER: Worker = Worker::default();
}

/// The slices and the lanes of one worker.
#[derive(Default)]
struct Worker {
    /// What is long, as it is read and written.
    long: Slice,
    /// What streams produce.
    produced: Slice,
    lanes: RefCell<Lanes>,
    /// Whether [`go_round`] runs.
    rounds: Cell<bool>,
}

impl Worker {
    /// How much is left of one of its slices for this owner ([`Slice::poll_left`]).
    fn poll_left(
        &self,
        slice: impl FnOnce(&Self) -> &Slice,
        owner: BudgetOwner,
        place: (&Rc<Place>, usize),
        context: &Context<'_>,
    ) -> Poll<usize> {
        let left = slice(self).poll_left(owner, place, context);
        if left.is_pending() {
            self.have_rounds();
        }
        left
    }

    /// Has a next round follow this one.
    fn have_rounds(&self) {
        if !self.rounds.replace(true) {
            actix_web::rt::spawn(go_round());
        }
    }

    /// Begins the next round; whether another one has to follow it.
    fn next_round(&self) -> bool {
        let long = self.long.begin_next();
        let produced = self.produced.begin_next();
        let lanes = self.lanes.borrow_mut().next_round();
        self.rounds.set(long || produced || lanes);
        long || produced || lanes
    }
}

/// Begins a slice and each account's next share in each round, until nobody waits for one.
async fn go_round() {
    loop {
        // Goes on when the worker has looked at what has come on all its connections.
        tokio::task::yield_now().await;
        // So do others that the kernel would let wait for its next tick: another worker, whose turn on this core
        // it is, or the writer.
        std::thread::yield_now();
        if !WORKER.with(Worker::next_round) {
            return;
        }
    }
}

/// The requests of one connection, each of which begins at its turn.
#[derive(Debug)]
pub(super) struct Requests {
    /// Whose share they and their answers take from.
    owner: Rc<Cell<BudgetOwner>>,
    /// Many clients' requests come over it: whose one is, is not known before it has been read.
    is_shared: bool,
    /// Whether the turn of the one that begins next has come, with what was read.
    has_turn: Cell<bool>,
    /// Whether what is written next answers one whose turn it was.
    answers: Cell<bool>,
}

impl Requests {
    /// Waits for the turn of the next one. That of the first one of what was read has come with the reading; a
    /// further one is taken for one of whoever the connection is known to be from. Of a connection that many
    /// share, each waits among those of `client`.
    pub(super) async fn begin(&self, client: impl FnOnce() -> BudgetOwner) {
        if self.has_turn.take() {
            return;
        }
        if self.is_shared {
            self.owner.set(client());
        }
        let owner = self.owner.get();
        let turn = Rc::default();
        let takes = (&turn, REQUEST);
        poll_fn(|context| poll_turn(owner, takes, context, |_| Poll::Ready(()))).await;
        take_turn(owner, (&turn, REQUEST));
        self.answers.set(true);
    }
}

/// What one connection reads and writes.
#[derive(Debug)]
pub(super) struct Slices {
    requests: Rc<Requests>,
    /// Its place in that owner's lane to read …
    to_read: Rc<Turn>,
    /// … and to write.
    to_write: Rc<Turn>,
    place: Rc<Place>,
    /// Bytes that were read since there was nothing to read.
    read: usize,
    /// A round, and the bytes that were written in it: HTTP/2 writes what is long as frames, which are short.
    written: (u64, usize),
}

impl Slices {
    /// Those of a connection whose requests are this owner's, or many clients'.
    pub(super) fn of(owner: Rc<Cell<BudgetOwner>>, is_shared: bool) -> Self {
        let requests = Requests {
            owner,
            is_shared,
            has_turn: Cell::default(),
            answers: Cell::default(),
        };
        Slices {
            requests: Rc::new(requests),
            to_read: Rc::default(),
            to_write: Rc::default(),
            place: Rc::default(),
            read: 0,
            written: (0, 0),
        }
    }

    /// The connection's requests, which begin at their turns.
    pub(super) fn requests(&self) -> Rc<Requests> {
        Rc::clone(&self.requests)
    }

    /// Whether it may read now. `poll_readable` says whether something has come.
    pub(super) fn poll_read(
        &self,
        context: &mut Context<'_>,
        poll_readable: impl FnOnce(&mut Context<'_>) -> Poll<()>,
    ) -> Poll<()> {
        if self.read == 0 && !self.requests.is_shared {
            let turn = (&self.to_read, REQUEST);
            ready!(poll_turn(
                self.requests.owner.get(),
                turn,
                context,
                poll_readable
            ));
        }
        if self.read < SHORT {
            return Poll::Ready(());
        }
        self.poll_left(context).map(|_| ())
    }

    /// Notes what was read: so many bytes, or that there was nothing.
    pub(super) fn note_read(&mut self, bytes: Option<usize>) {
        match bytes {
            Some(bytes) => {
                if self.read == 0 && !self.requests.is_shared {
                    take_turn(self.requests.owner.get(), (&self.to_read, REQUEST));
                    self.requests.answers.set(true);
                    self.requests.has_turn.set(true);
                }
                self.read = self.read.saturating_add(bytes);
                if self.read > SHORT {
                    take(bytes);
                }
            }
            None => {
                self.read = 0;
                lanes::not_used(&self.to_read);
            }
        }
    }

    /// How many of these bytes it may write now. `poll_writable` says whether the client takes some.
    pub(super) fn poll_write(
        &self,
        bytes: usize,
        context: &mut Context<'_>,
        poll_writable: impl FnOnce(&mut Context<'_>) -> Poll<()>,
    ) -> Poll<usize> {
        if !self.requests.answers.get() {
            let turn = (&self.to_write, WRITE);
            ready!(poll_turn(
                self.requests.owner.get(),
                turn,
                context,
                poll_writable
            ));
        }
        if self.written_with(bytes) <= SHORT {
            return Poll::Ready(bytes);
        }
        self.poll_left(context).map(|left| left.min(bytes))
    }

    /// Bytes that are written in this round with so many more.
    fn written_with(&self, bytes: usize) -> usize {
        let (round, written) = self.written;
        let is_present = round == WORKER.with(|worker| worker.long.round());
        bytes.saturating_add(if is_present { written } else { 0 })
    }

    /// How much is left of the present slice for what is long.
    fn poll_left(&self, context: &Context<'_>) -> Poll<usize> {
        let owner = self.requests.owner.get();
        poll_long(owner, (&self.place, SHORT), context)
    }

    /// Notes that so many of these bytes were written, or that none could be.
    pub(super) fn note_written(&mut self, written: Option<usize>, bytes: usize) {
        let Some(written) = written else {
            lanes::not_used(&self.to_write);
            return;
        };
        if !self.requests.answers.take() {
            take_turn(self.requests.owner.get(), (&self.to_write, WRITE));
        }
        if self.written_with(bytes) > SHORT {
            take(written);
        }
        let round = WORKER.with(|worker| worker.long.round());
        self.written = (round, self.written_with(written));
    }
}

/// Has a body that is a stream produce its next piece at a turn: together, streams produce a slice in a round. A
/// hundred of them that begin at once would each produce their first piece in the same round.
#[derive(Debug)]
pub(super) struct Backpressure {
    owner: BudgetOwner,
    place: Rc<Place>,
    /// Bytes of the last piece: about as much is kept for the next one.
    last: Cell<usize>,
}

impl Backpressure {
    /// That of a stream of this owner's.
    pub(super) fn of(owner: BudgetOwner) -> Self {
        Backpressure {
            owner,
            place: Rc::default(),
            last: Cell::new(SHORT),
        }
    }

    /// Ready when the next piece may be produced.
    pub(super) fn poll_ready(&self, context: &Context<'_>) -> Poll<()> {
        let place = (&self.place, self.last.get().max(PIECE_MIN));
        let left = WORKER
            .with(|worker| worker.poll_left(|worker| &worker.produced, self.owner, place, context));
        left.map(|_| ())
    }

    /// Counts a piece of so many bytes.
    pub(super) fn produced(&self, bytes: usize) {
        self.last.set(bytes);
        WORKER.with(|worker| worker.produced.owe(bytes));
    }
}

/// Waits until something that takes so much of a slice may begin for this owner.
pub(super) async fn begin(owner: BudgetOwner, takes: usize) {
    let place = Rc::default();
    let place = (&place, takes);
    poll_fn(|context| poll_long(owner, place, context)).await;
    take(takes);
}

/// Does something for this owner whose first step may be taken now, and each further one, when something has come
/// for it, takes so much of a slice.
pub(super) async fn in_steps<T>(
    owner: BudgetOwner,
    takes: usize,
    work: impl Future<Output = T>,
) -> T {
    let (mut work, place, mut is_first) = (pin!(work), Rc::default(), true);
    poll_fn(|context| {
        if !mem::take(&mut is_first) {
            let place = (&place, takes);
            ready!(poll_long(owner, place, context));
            take(takes);
        }
        work.as_mut().poll(context)
    })
    .await
}

/// Whether `turn` has come in this worker's lanes ([`Lanes::poll_turn`]). If not, the caller is woken when it has,
/// and has to ask again.
fn poll_turn(
    owner: BudgetOwner,
    turn: (&Rc<Turn>, usize),
    context: &mut Context<'_>,
    poll_ready: impl FnOnce(&mut Context<'_>) -> Poll<()>,
) -> Poll<()> {
    WORKER.with(|worker| {
        let mut lanes = worker.lanes.borrow_mut();
        lanes.poll_turn(owner, turn, context, poll_ready)
    })
}

/// Counts what was taken of an owner's share in this worker's lanes ([`Lanes::take`]).
fn take_turn(owner: BudgetOwner, turn: (&Turn, usize)) {
    WORKER.with(|worker| {
        if worker.lanes.borrow_mut().take(owner, turn) {
            worker.have_rounds();
        }
    });
}

/// The server stops: whatever has come to this worker is read at once.
pub(super) fn read_at_once() {
    WORKER.with(|worker| worker.lanes.borrow_mut().end());
}

/// How much is left of this worker's slice of what is long.
fn poll_long(owner: BudgetOwner, place: (&Rc<Place>, usize), context: &Context<'_>) -> Poll<usize> {
    WORKER.with(|worker| worker.poll_left(|worker| &worker.long, owner, place, context))
}

/// Takes so much of it.
fn take(bytes: usize) {
    WORKER.with(|worker| worker.long.take(bytes));
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const LONG: usize = 40 * SLICE;

    fn slices() -> Slices {
        Slices::of(Rc::new(Cell::new(BudgetOwner::Operator)), false)
    }

    /// Writes something long, or lets many connections begin; notes in which round how much of a slice
    /// was taken.
    async fn take_all(
        begins: Option<usize>,
        round: Rc<Cell<usize>>,
        taken: Rc<RefCell<Vec<(usize, usize)>>>,
    ) {
        let mut slices = slices();
        let mut left = LONG;
        while left > 0 {
            let bytes = match begins {
                None => {
                    let bytes =
                        poll_fn(|context| slices.poll_write(left, context, |_| Poll::Ready(())))
                            .await;
                    slices.note_written(Some(bytes), left);
                    bytes
                }
                Some(takes) => {
                    begin(BudgetOwner::Operator, takes).await;
                    takes
                }
            };
            left = left.saturating_sub(bytes);
            taken.borrow_mut().push((round.get(), bytes));
        }
    }

    #[test]
    fn all_connections_together_take_a_slice_in_each_round() {
        let round = Rc::new(Cell::new(0));
        let taken = Rc::new(RefCell::new(Vec::new()));
        let rounds = Rc::clone(&round);
        let all = [None, None, Some(BEGINNING), Some(HANDSHAKE)].map(|begins| {
            let (round, taken) = (Rc::clone(&round), Rc::clone(&taken));
            async move { actix_web::rt::spawn(take_all(begins, round, taken)).await }
        });
        actix_web::rt::System::new().block_on(async move {
            let counting = actix_web::rt::spawn(async move {
                loop {
                    tokio::task::yield_now().await;
                    rounds.set(rounds.get() + 1);
                }
            });
            futures_util::future::join_all(all).await;
            counting.abort();
        });
        let mut by_round = std::collections::BTreeMap::<usize, usize>::new();
        for (round, bytes) in taken.borrow().iter() {
            *by_round.entry(*round).or_default() += bytes;
        }
        let most = by_round.values().max();
        // A handshake is begun when anything is left, and takes all that is kept for nobody else.
        assert!(
            most < Some(&(SLICE + HANDSHAKE)),
            "{most:?} bytes in one round"
        );
    }

    #[test]
    fn streams_produce_a_slice_in_a_round() {
        let runtime = actix_web::rt::System::new();
        runtime.block_on(async {
            let backpressure = Backpressure::of(BudgetOwner::Operator);
            let is_ready = || poll_fn(|context| backpressure.poll_ready(context));
            is_ready().await;
            // It waits for nothing else that is long.
            take(SLICE);
            is_ready().await;
            backpressure.produced(SLICE);
            let context = Context::from_waker(Waker::noop());
            assert_eq!(backpressure.poll_ready(&context), Poll::Pending);
            is_ready().await;
        });
    }

    #[test]
    fn what_is_written_in_short_frames_is_long_too() {
        actix_web::rt::System::new().block_on(async {
            let mut context = Context::from_waker(Waker::noop());
            let mut slices = slices();
            let mut written = 0;
            while let Poll::Ready(bytes) =
                slices.poll_write(SHORT, &mut context, |_| Poll::Ready(()))
            {
                slices.note_written(Some(bytes), SHORT);
                written += bytes;
                assert!(written <= SLICE + SHORT, "{written} bytes in one round");
            }
        });
    }

    #[test]
    fn who_comes_later_is_not_served_before_those_who_wait() {
        let (came, begun) = (
            Rc::new(RefCell::new(Vec::new())),
            Rc::new(RefCell::new(Vec::new())),
        );
        let all: [_; 20] = std::array::from_fn(|number| {
            let (came, begun) = (Rc::clone(&came), Rc::clone(&begun));
            async move {
                let one = actix_web::rt::spawn(async move {
                    for _ in 0..number {
                        tokio::task::yield_now().await;
                    }
                    came.borrow_mut().push(number);
                    begin(BudgetOwner::Operator, HANDSHAKE).await;
                    begun.borrow_mut().push(number);
                });
                one.await
            }
        });
        let runtime = actix_web::rt::System::new();
        runtime.block_on(futures_util::future::join_all(all));
        assert_eq!(*came.borrow(), *begun.borrow());
    }

    #[test]
    fn each_further_step_waits_for_its_turn() {
        actix_web::rt::System::new().block_on(async {
            let taken = Cell::new(0);
            let mut steps = pin!(in_steps(
                BudgetOwner::Operator,
                HANDSHAKE,
                poll_fn(|_| {
                    taken.set(taken.get() + 1);
                    Poll::<()>::Pending
                })
            ));
            let mut context = Context::from_waker(Waker::noop());
            let mut steps_taken = || {
                assert!(steps.as_mut().poll(&mut context).is_pending());
                taken.get()
            };
            take(SLICE);
            assert_eq!(steps_taken(), 1, "its turn has come");
            for step in 2..5 {
                assert_eq!(steps_taken(), step - 1, "nothing is left in this round");
                while steps_taken() < step {
                    tokio::task::yield_now().await;
                }
            }
        });
    }

    #[test]
    fn what_is_short_waits_for_nothing() {
        let mut context = Context::from_waker(Waker::noop());
        let nothing_comes = |_: &mut Context<'_>| Poll::Pending;
        let mut slices = slices();
        take(SLICE);
        assert_eq!(
            slices.poll_write(SHORT, &mut context, nothing_comes),
            Poll::Ready(SHORT)
        );
        assert_eq!(
            slices.poll_read(&mut context, nothing_comes),
            Poll::Ready(())
        );
        slices.note_read(Some(SHORT));
        slices.note_read(None);
        assert_eq!(
            slices.poll_read(&mut context, nothing_comes),
            Poll::Ready(())
        );
    }
}
