//! What all connections of one worker together may take in a round, and whose turn it is where nothing is left
//! of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use colloquy_runtime::fair_queue::{FairQueue, QueueBounds, Queued};

use super::budget::BudgetOwner;

/// Bytes of a slice: copying so many takes less than a short request.
pub(super) const SLICE: usize = 65_536;

/// A slice in each round, for which whoever finds nothing left waits; owners take turns.
#[derive(Debug)]
pub(super) struct Slice {
    /// How many slices have begun.
    round: Cell<u64>,
    /// Bytes that are left of the present one, but for those that are kept for somebody …
    left: Cell<usize>,
    /// … and what was taken of it by who did not know beforehand how much that is.
    owed: Cell<usize>,
    waiting: RefCell<FairQueue<BudgetOwner, Waiting>>,
}

/// The place among those who wait for a slice.
pub(super) type Place = RefCell<PlaceState>;

/// What is waited for there.
#[derive(Debug, Default)]
pub(super) enum PlaceState {
    /// Nothing.
    #[default]
    None,
    /// The turn, at which this is woken.
    Waiting(Waker),
    /// Nothing more: the turn has come in this round, and so much of the slice is still kept for it.
    Come { round: u64, kept: usize },
}

/// One that waits, and how much of a slice it can do with.
#[derive(Debug)]
struct Waiting {
    place: Rc<Place>,
    wants: usize,
}

impl Queued for Waiting {
    fn is_abandoned(&self) -> bool {
        Rc::strong_count(&self.place) == 1
    }

    fn refuse(self) {
        // The bounds refuse nothing: this is of a connection that has ended.
    }
}

impl Default for Slice {
    fn default() -> Self {
        // As many wait as there are connections, and as long as it takes.
        let bounds = QueueBounds {
            each: usize::MAX,
            all: usize::MAX,
            wait: Duration::MAX,
        };
        Slice {
            round: Cell::new(0),
            left: Cell::new(SLICE),
            owed: Cell::new(0),
            waiting: RefCell::new(FairQueue::new(bounds)),
        }
    }
}

impl Slice {
    /// How many bytes are left of the present slice for whoever has its turn in it; where there are none, or
    /// others wait, the caller is woken at its turn in a later one, and has to ask again.
    pub(super) fn poll_left(
        &self,
        owner: BudgetOwner,
        (place, wants): (&Rc<Place>, usize),
        context: &Context<'_>,
    ) -> Poll<usize> {
        let state = place.take();
        let round = self.round.get();
        let waits = matches!(state, PlaceState::Waiting(_));
        let is_its_turn = match state {
            PlaceState::Come { round: its, kept } if its == round => {
                self.left.set(self.left.get() + kept);
                true
            }
            // One whose turn has passed comes anew.
            PlaceState::None | PlaceState::Waiting(_) | PlaceState::Come { .. } => false,
        };
        let left = self.left.get().saturating_sub(self.owed.get());
        if left > 0 && is_its_turn {
            place.replace(PlaceState::Come { round, kept: 0 });
            return Poll::Ready(left);
        }
        // Who comes now is not served before those who wait.
        if left > 0 && !waits && self.waiting.borrow().is_empty() {
            return Poll::Ready(left);
        }
        place.replace(PlaceState::Waiting(context.waker().clone()));
        if !waits {
            let place = Rc::clone(place);
            let waiting = Waiting { place, wants };
            self.waiting.borrow_mut().push(owner, waiting);
        }
        Poll::Pending
    }

    /// Takes so much of the present slice; nothing of what is kept for others.
    pub(super) fn take(&self, bytes: usize) {
        self.left.set(self.left.get().saturating_sub(bytes));
    }

    /// Takes so much, which was not known beforehand: of what is kept for others, too.
    pub(super) fn owe(&self, bytes: usize) {
        self.owed.set(self.owed.get().saturating_add(bytes));
    }

    /// Begins the next one; whether anybody has waited for it. As many are woken as it suffices for.
    pub(super) fn begin_next(&self) -> bool {
        let round = self.round.get() + 1;
        self.round.set(round);
        let mut left = SLICE;
        while left > 0 {
            let Some((_, next)) = self.waiting.borrow_mut().pop(|_| true) else {
                break;
            };
            let kept = next.wants.min(left);
            left -= kept;
            if let PlaceState::Waiting(waker) = next.place.replace(PlaceState::Come { round, kept })
            {
                waker.wake();
            }
        }
        self.left.set(left);
        self.owed.set(0);
        left < SLICE
    }

    /// The number of the present round: how many slices have begun.
    pub(super) fn round(&self) -> u64 {
        self.round.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: usize = SLICE / 4;

    fn left(slice: &Slice, place: &Rc<Place>) -> Poll<usize> {
        let context = Context::from_waker(Waker::noop());
        slice.poll_left(BudgetOwner::Operator, (place, PART), &context)
    }

    /// A slice of which nothing is left, and for which so many wait.
    fn waited_for<const MANY: usize>() -> (Slice, [Rc<Place>; MANY])
    where
        [Rc<Place>; MANY]: Default,
    {
        let (slice, places) = (Slice::default(), <[Rc<Place>; MANY]>::default());
        slice.take(SLICE);
        assert!(places.iter().all(|place| left(&slice, place).is_pending()));
        (slice, places)
    }

    #[test]
    fn whoever_has_its_turn_goes_on_in_its_round() {
        let (slice, places) = waited_for::<5>();
        slice.begin_next();
        let [first, .., last] = &places;
        assert_eq!(left(&slice, first), Poll::Ready(PART));
        slice.take(PART / 2);
        assert!(
            left(&slice, last).is_pending(),
            "its turn is in the next round"
        );
        assert!(
            left(&slice, &Rc::default()).is_pending(),
            "it comes behind that one"
        );
        assert_eq!(left(&slice, first), Poll::Ready(PART / 2));
        slice.begin_next();
        assert_eq!(left(&slice, last), Poll::Ready(SLICE));
    }

    #[test]
    fn more_than_was_known_is_taken_of_what_is_kept_for_others() {
        let (slice, places) = waited_for::<4>();
        slice.begin_next();
        let [first, second, ..] = &places;
        assert_eq!(left(&slice, first), Poll::Ready(PART));
        slice.owe(SLICE);
        assert!(left(&slice, second).is_pending());
        slice.begin_next();
        assert_eq!(left(&slice, second), Poll::Ready(SLICE));
    }
}
