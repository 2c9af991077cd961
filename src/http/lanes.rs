//! Whose turn it is: in every round of a worker (`slices.rs`) each owner has its share of what is read and
//! written, in the order in which it came. Otherwise a thousand connections of one account that send a
//! request at the same instant, or are sent an event, are all served before a request of another account that
//! comes right behind them.
//!
//! Whose a request is, is known when it has been read. So it is taken for one of whoever the last request over
//! its connection was known to be from, at first of the connection's address. What was read with it, further
//! streams of HTTP/2 or pipelined requests, waits for a turn of its own before it begins. Over a connection of a
//! proxy that is believed many clients' requests come: it is read at once, and each waits among those from its
//! client's address.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::mem;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use super::budget::BudgetOwner;

/// What a request takes of its owner's share, with the beginning of its answer …
pub(super) const REQUEST: usize = 4;
/// … and what else is written at once: about 10 µs for each.
pub(super) const WRITE: usize = 1;
/// An owner's share of one round.
const SHARE: usize = 32;
/// Lanes that are kept though nobody waits in them; beyond so many a round is begun, which drops them.
const LANES: usize = 64;

/// The place in its owner's lane of a connection that is to be read or written, or of a request that is to begin.
pub(super) type Turn = RefCell<TurnState>;

/// What is waited for there.
#[derive(Debug, Default)]
pub(super) enum TurnState {
    /// Nothing: it has not asked, or its turn is over.
    #[default]
    None,
    /// The turn, at which this is woken.
    Waiting(Waker),
    /// Nothing more: the turn has come, and is counted.
    Come,
}

/// Nothing was read or written at a turn that may have come.
pub(super) fn not_used(turn: &Turn) {
    let mut state = turn.borrow_mut();
    // One that waits goes on waiting: it has its place.
    if matches!(*state, TurnState::Come) {
        *state = TurnState::None;
    }
}

/// The lanes of one worker.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: HashMap<BudgetOwner, Lane>,
    /// The server stops, and nothing waits for a turn any more.
    are_ended: bool,
}

/// The turns of one owner.
#[derive(Debug, Default)]
struct Lane {
    /// What was taken of this round's share.
    taken: usize,
    /// Those that wait for a later round, and what each takes.
    waiting: VecDeque<(Rc<Turn>, usize)>,
}

impl Lanes {
    /// Whether so much of an owner's share may be taken now. If not, `turn` gets a place in the owner's lane, as
    /// soon as `poll_ready` says that its connection has something to read, or room to write.
    pub(super) fn poll_turn(
        &mut self,
        owner: BudgetOwner,
        (turn, takes): (&Rc<Turn>, usize),
        context: &mut Context<'_>,
        poll_ready: impl FnOnce(&mut Context<'_>) -> Poll<()>,
    ) -> Poll<()> {
        let mut state = turn.borrow_mut();
        if self.are_ended {
            *state = TurnState::None;
            return Poll::Ready(());
        }
        match &*state {
            TurnState::Come => Poll::Ready(()),
            TurnState::Waiting(_) => {
                *state = TurnState::Waiting(context.waker().clone());
                Poll::Pending
            }
            TurnState::None => {
                let full = |lane: &&mut Lane| lane.taken >= SHARE;
                let Some(lane) = self.lanes.get_mut(&owner).filter(full) else {
                    return Poll::Ready(());
                };
                ready!(poll_ready(context));
                *state = TurnState::Waiting(context.waker().clone());
                lane.waiting.push_back((Rc::clone(turn), takes));
                Poll::Pending
            }
        }
    }

    /// The server stops: whoever asks from now on need not wait. A connection of which nothing has been read
    /// would be ended as one on which nothing has come.
    pub(super) fn end(&mut self) {
        self.are_ended = true;
    }

    /// Counts what was taken; whether another round has to follow this one.
    pub(super) fn take(&mut self, owner: BudgetOwner, (turn, takes): (&Turn, usize)) -> bool {
        if matches!(turn.take(), TurnState::Come) {
            return false;
        }
        let lane = self.lanes.entry(owner).or_default();
        lane.taken += takes;
        lane.taken >= SHARE || self.lanes.len() > LANES
    }

    /// Begins the next round; whether another one has to follow it.
    pub(super) fn next_round(&mut self) -> bool {
        self.lanes.retain(|_, lane| {
            lane.taken = 0;
            while lane.taken < SHARE
                && let Some((turn, takes)) = lane.waiting.pop_front()
            {
                // Nobody waits there any more whose connection has ended.
                if Rc::strong_count(&turn) == 1 {
                    continue;
                }
                lane.taken += takes;
                let waited = mem::replace(&mut *turn.borrow_mut(), TurnState::Come);
                if let TurnState::Waiting(waker) = waited {
                    waker.wake();
                }
            }
            lane.taken > 0
        });
        !self.lanes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn readable(_: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn owner(number: u8) -> BudgetOwner {
        BudgetOwner::Account(u128::from(number))
    }

    /// A connection tries to read its next request.
    fn begins(lanes: &mut Lanes, number: u8, turn: &Rc<Turn>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let begins = lanes.poll_turn(owner(number), (turn, REQUEST), &mut context, readable);
        if begins.is_ready() {
            lanes.take(owner(number), (turn, REQUEST));
        }
        begins.is_ready()
    }

    #[test]
    fn who_has_nothing_to_read_has_no_place_in_a_lane() {
        let (mut lanes, turn) = (Lanes::default(), Rc::<Turn>::default());
        while begins(&mut lanes, 1, &turn) {}
        let mut context = Context::from_waker(Waker::noop());
        let turn = Rc::<Turn>::default();
        let waits = lanes.poll_turn(owner(1), (&turn, REQUEST), &mut context, |_| Poll::Pending);
        assert!(waits.is_pending() && matches!(*turn.borrow(), TurnState::None));
    }

    #[test]
    fn nobody_waits_when_the_server_stops() {
        let mut lanes = Lanes::default();
        let turn = (0..=SHARE).map(|_| Rc::<Turn>::default());
        let waiting: Vec<Rc<Turn>> = turn.filter(|turn| !begins(&mut lanes, 1, turn)).collect();
        assert!(!waiting.is_empty());
        lanes.end();
        assert!(waiting.iter().all(|turn| begins(&mut lanes, 1, turn)));
    }

    #[test]
    fn what_nobody_waits_for_any_more_takes_nothing() {
        let mut lanes = Lanes::default();
        while begins(&mut lanes, 1, &Rc::default()) {}
        for _ in 0..SHARE {
            assert!(!begins(&mut lanes, 1, &Rc::default()));
        }
        let turn = Rc::default();
        assert!(!begins(&mut lanes, 1, &turn));
        lanes.next_round();
        assert!(begins(&mut lanes, 1, &turn));
    }

    #[test]
    fn lanes_of_many_owners_are_forgotten() {
        let mut lanes = Lanes::default();
        let rounds =
            (0..=u8::MAX).filter(|number| lanes.take(owner(*number), (&Turn::default(), WRITE)));
        assert!(rounds.count() > 0, "a round is begun, since there are many");
        assert!(!lanes.next_round() && lanes.lanes.is_empty());
    }

    proptest! {
        /// Requests of some owners come at any time: in each round every owner's begin in the order in which they
        /// came, as many as may, and all of them in the end.
        #[test]
        fn each_owner_has_its_turns_in_each_round(comes in prop::collection::vec(prop::collection::vec(0_u8..4, 0..40), 1..6)) {
            let mut lanes = Lanes::default();
            let mut waiting: Vec<(u8, usize, Rc<Turn>)> = Vec::new();
            let mut begun: HashMap<u8, Vec<usize>> = HashMap::new();
            let (mut number, mut comes) = (0, comes.into_iter());
            loop {
                let came = comes.next();
                let is_last = came.is_none();
                for owner in came.unwrap_or_default() {
                    waiting.push((owner, number, Rc::default()));
                    number += 1;
                }
                let before = waiting.len();
                let mut in_round: HashMap<u8, usize> = HashMap::new();
                let mut left = Vec::new();
                for (owner, number, turn) in mem::take(&mut waiting) {
                    if begins(&mut lanes, owner, &turn) {
                        *in_round.entry(owner).or_default() += 1;
                        begun.entry(owner).or_default().push(number);
                    } else {
                        left.push((owner, number, turn));
                    }
                }
                waiting = left;
                prop_assert!(in_round.values().all(|count| *count <= SHARE / REQUEST));
                for (owner, _, _) in &waiting {
                    prop_assert_eq!(in_round.get(owner), Some(&(SHARE / REQUEST)));
                }
                if is_last && waiting.is_empty() {
                    break;
                }
                prop_assert!(before == 0 || !in_round.is_empty());
                lanes.next_round();
            }
            prop_assert_eq!(begun.values().map(Vec::len).sum::<usize>(), number);
            prop_assert!(begun.values().all(|numbers| numbers.is_sorted()));
        }
    }
}
