//! What is long is read and written in slices, and connections begin a few at a time. A worker goes round
//! its connections, and looks whether something new has come only after up to 61 of them (tokio's
//! `LocalSet`): with 16 that bring large bodies, each 128 KiB at a time, a short request of another
//! waited for all of that. So in each round all of a worker's connections together read and write one
//! slice of what is long, and those for which nothing is left of it take turns.
//!
//! It earns its lines: beside 64 documents of 8 MiB (`tests/hostile/uploads.rs`, two cores, release) a
//! worker had rounds of 10 to 33 ms of CPU; with slices and without huge pages the longest, but for one of
//! 6 ms, took less than 1 ms.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Bytes of a slice: copying so many takes less than a short request.
const SLICE: usize = 65_536;
/// Bytes up to which a request or an answer is short: it needs nothing of a slice.
const SHORT: usize = 16_384;

/// What the beginning of a connection takes of a slice: the two buffers that it gets take as long.
pub(super) const BEGINNING: usize = 16_384;
/// The same with a handshake, which takes longer than anything else that is done at once.
pub(super) const HANDSHAKE: usize = SLICE;

thread_local! {
    static WORKER: Worker = const { Worker::new() };
}

/// The slices of one worker.
struct Worker {
    /// Bytes that are left of the present one.
    left: Cell<usize>,
    waiting: RefCell<VecDeque<Waiting>>,
    /// Whether [`go_round`] runs.
    rounds: Cell<bool>,
}

/// The place of a connection among those that wait: who is to be woken, while it waits.
type Place = RefCell<Option<Waker>>;

/// One that waits, and how much of a slice it can do with.
struct Waiting {
    place: Rc<Place>,
    wants: usize,
}

impl Worker {
    const fn new() -> Self {
        Worker {
            left: Cell::new(SLICE),
            waiting: RefCell::new(VecDeque::new()),
            rounds: Cell::new(false),
        }
    }

    /// How many bytes are left of the present slice; where there are none, the caller is woken when a later
    /// one begins, and has to ask again.
    fn poll_left(&self, place: &Rc<Place>, wants: usize, context: &Context<'_>) -> Poll<usize> {
        let left = self.left.get();
        if left > 0 {
            return Poll::Ready(left);
        }
        let waits = place.replace(Some(context.waker().clone())).is_some();
        if !waits {
            let place = Rc::clone(place);
            self.waiting
                .borrow_mut()
                .push_back(Waiting { place, wants });
        }
        if !self.rounds.replace(true) {
            actix_web::rt::spawn(go_round());
        }
        Poll::Pending
    }

    /// Begins the next slice; whether anybody has waited for it. As many are woken as it suffices for.
    fn next_slice(&self) -> bool {
        self.left.set(SLICE);
        let mut wanted = 0;
        while wanted < SLICE {
            let Some(next) = self.waiting.borrow_mut().pop_front() else {
                break;
            };
            wanted += next.wants;
            next.place.take().into_iter().for_each(Waker::wake);
        }
        self.rounds.set(wanted > 0);
        wanted > 0
    }
}

/// Begins a slice in each round, until nobody waits for one.
async fn go_round() {
    loop {
        // Goes on when the worker has looked at what has come on all its connections.
        tokio::task::yield_now().await;
        // So do others that the kernel would let wait for its next tick: another worker, whose turn on
        // this core it is, or the writer.
        std::thread::yield_now();
        if !WORKER.with(Worker::next_slice) {
            return;
        }
    }
}

/// What one connection reads and writes.
#[derive(Debug, Default)]
pub(super) struct Slices {
    place: Rc<Place>,
    /// Bytes that were read since there was nothing to read.
    read: usize,
}

impl Slices {
    /// Whether it may read now.
    pub(super) fn poll_read(&self, context: &Context<'_>) -> Poll<()> {
        if self.read < SHORT {
            return Poll::Ready(());
        }
        let left = WORKER.with(|worker| worker.poll_left(&self.place, SLICE, context));
        left.map(|_| ())
    }

    /// Notes what was read: so many bytes, or that there was nothing.
    pub(super) fn note_read(&mut self, bytes: Option<usize>) {
        match bytes {
            Some(bytes) => {
                self.read = self.read.saturating_add(bytes);
                if self.read > SHORT {
                    take(bytes);
                }
            }
            None => self.read = 0,
        }
    }

    /// How many of these bytes it may write now.
    pub(super) fn poll_write(&self, bytes: usize, context: &Context<'_>) -> Poll<usize> {
        if bytes <= SHORT {
            return Poll::Ready(bytes);
        }
        let left = WORKER.with(|worker| worker.poll_left(&self.place, SLICE, context));
        left.map(|left| left.min(bytes))
    }

    /// Notes that so many of these bytes were written.
    pub(super) fn note_written(&self, written: usize, bytes: usize) {
        if bytes > SHORT {
            take(written);
        }
    }
}

/// Waits until something that takes so much of a slice may begin.
pub(super) async fn begin(takes: usize) {
    let place = Rc::default();
    poll_fn(|context| WORKER.with(|worker| worker.poll_left(&place, takes, context))).await;
    take(takes);
}

/// Takes so much of the present slice.
fn take(bytes: usize) {
    WORKER.with(|worker| worker.left.set(worker.left.get().saturating_sub(bytes)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 40 * SLICE;

    /// Writes something long, or lets many connections begin; notes in which round how much of a slice
    /// was taken.
    async fn take_all(
        begins: Option<usize>,
        round: Rc<Cell<usize>>,
        taken: Rc<RefCell<Vec<(usize, usize)>>>,
    ) {
        let slices = Slices::default();
        let mut left = LONG;
        while left > 0 {
            let bytes = match begins {
                None => {
                    let bytes = poll_fn(|context| slices.poll_write(left, context)).await;
                    slices.note_written(bytes, left);
                    bytes
                }
                Some(takes) => {
                    begin(takes).await;
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
        assert!(
            most <= Some(&(SLICE + SHORT)),
            "{most:?} bytes in one round"
        );
        assert!(
            by_round.len() >= 4 * LONG / (SLICE + SHORT),
            "{} rounds",
            by_round.len()
        );
    }

    #[test]
    fn what_is_short_waits_for_nothing() {
        let context = Context::from_waker(Waker::noop());
        let mut slices = Slices::default();
        take(SLICE);
        assert_eq!(slices.poll_write(SHORT, &context), Poll::Ready(SHORT));
        assert_eq!(slices.poll_read(&context), Poll::Ready(()));
        slices.note_read(Some(SHORT));
        slices.note_read(None);
        assert_eq!(slices.poll_read(&context), Poll::Ready(()));
    }
}
