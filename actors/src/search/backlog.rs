//! What has happened and is not in the index yet, in turns of accounts: whoever changes more than the index
//! can keep up with delays what is found of its own, and nobody else's.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque, btree_map, hash_map};
use std::hash::Hash;

use parking_lot::Mutex;
use tokio::sync::watch;

use colloquy_model::position::Position;

/// Bytes of text that an account takes in with one turn, or a little more.
pub(crate) const TURN_BYTES: usize = 64 << 10;
/// Bytes of text that wait for an account, and for all of them together; beyond, items wait without theirs.
const BYTES_EACH: usize = 1 << 20;
const BYTES_ALL: usize = 32 << 20;
/// How many items wait; beyond, whoever adds further ones waits.
const ITEMS_MAX: usize = 1 << 20;

/// Something that happened, for the index.
pub(crate) trait Pending: Send + 'static {
    /// What it is about, where one that waits already stands for later ones, too.
    type Subject: Eq + Hash + Send;

    /// What it is about; none where each is to be taken in.
    fn subject(&self) -> Option<Self::Subject>;

    /// Bytes of text that it holds.
    fn bytes(&self) -> usize;

    /// Bytes of text that its turn is to count for.
    fn turn_bytes(&self) -> usize;

    /// Lets go of its text, which is read from the store when its turn comes.
    fn forget_text(&mut self);
}

/// The items of all accounts.
pub(super) struct Backlog<T: Pending> {
    lanes: Mutex<Lanes<T>>,
    /// Tells of everything that somebody may wait for.
    changed: watch::Sender<()>,
}

/// How far what happened is handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HandedIn {
    /// Everything up to here.
    pub(super) position: Position,
    /// Whether something behind that waits.
    pub(super) lags: bool,
}

/// What is to be handed in next.
#[derive(Debug)]
pub(super) enum Turn<T> {
    /// The next items of an account, which happened behind this position; one at least.
    Items(u32, Position, Vec<T>),
    /// What is left of the items of an account's last turn.
    Rest(u32),
    /// Nothing: only [`Backlog::handed_in`] has moved.
    Nothing,
}

struct Lanes<T: Pending> {
    by_account: HashMap<u32, Lane<T>>,
    /// The accounts of which something is to be handed in, each once; the first one has the next turn.
    turns: VecDeque<u32>,
    /// How many of the items that are not handed in happened behind each position.
    behind: BTreeMap<Position, usize>,
    /// Everything up to here was added.
    added: Position,
    /// Up to here it was told that everything is handed in.
    handed_in: Position,
    items: usize,
    bytes: usize,
    is_over: bool,
}

struct Lane<T: Pending> {
    waiting: VecDeque<(Position, T)>,
    subjects: HashSet<T::Subject>,
    bytes: usize,
    /// Behind which position the items happened that are handed in with further turns.
    rest: Option<Position>,
    /// Whether its next item is a long text that waits until others are put in.
    needs_room: bool,
    /// Behind which position each happened that is not in the index, those that wait with them.
    missing: VecDeque<Position>,
}

impl<T: Pending> Default for Lane<T> {
    fn default() -> Self {
        Lane {
            waiting: VecDeque::new(),
            subjects: HashSet::new(),
            bytes: 0,
            rest: None,
            needs_room: false,
            missing: VecDeque::new(),
        }
    }
}

impl<T: Pending> Backlog<T> {
    /// Of an index that knows everything up to this position.
    pub(super) fn behind(position: Position) -> Self {
        Backlog {
            lanes: Mutex::new(Lanes {
                by_account: HashMap::new(),
                turns: VecDeque::new(),
                behind: BTreeMap::new(),
                added: position,
                handed_in: position,
                items: 0,
                bytes: 0,
                is_over: false,
            }),
            changed: watch::channel(()).0,
        }
    }

    /// Adds what happened behind this position, in its order. Waits while there is no room.
    pub(super) async fn add(&self, behind: Position, account: u32, item: T) {
        self.until(|lanes| lanes.items < ITEMS_MAX).await;
        self.lanes.lock().add(behind, account, item);
        self.changed.send_replace(());
    }

    /// Waits until no further text of an account is let go of.
    pub(super) async fn room(&self, account: u32) {
        self.until(|lanes| {
            let lane = lanes.by_account.get(&account);
            lanes.bytes < BYTES_ALL && lane.is_none_or(|lane| lane.bytes < BYTES_EACH)
        })
        .await;
    }

    /// Everything up to this position was added.
    pub(super) fn all_added(&self, up_to: Position) {
        let mut lanes = self.lanes.lock();
        lanes.added = lanes.added.max(up_to);
        drop(lanes);
        self.changed.send_replace(());
    }

    /// What comes next; where there is no room for a further long text, nothing of an account whose next
    /// item is one. Waits while there is nothing.
    pub(super) async fn next(&self, is_room: bool) -> Turn<T> {
        let mut turn = None;
        self.until(|lanes| {
            turn = turn.take().or_else(|| lanes.next(is_room));
            turn.is_some()
        })
        .await;
        turn.unwrap_or(Turn::Nothing)
    }

    /// Items of an account's turn come again once there is room: they happened behind this position, the
    /// first of them is a long text.
    pub(super) fn put_back(&self, account: u32, behind: Position, items: Vec<T>) {
        self.lanes.lock().put_back(account, behind, items);
    }

    /// Some of what an account's turn brought is left for a further one: it happened behind this position.
    pub(super) fn leave_rest(&self, account: u32, behind: Position) {
        let mut lanes = self.lanes.lock();
        let lane = lanes.by_account.entry(account).or_default();
        lane.rest = Some(behind);
        if lane.waiting.is_empty() {
            lanes.turns.push_back(account);
        }
        lanes.count(behind);
    }

    /// How far everything is handed in.
    pub(super) fn handed_in(&self) -> HandedIn {
        let mut lanes = self.lanes.lock();
        lanes.handed_in = lanes.reached();
        HandedIn {
            position: lanes.handed_in,
            lags: lanes.handed_in < lanes.added,
        }
    }

    /// So many items of an account are in the index.
    pub(super) fn taken_in(&self, account: u32, items: usize) {
        let mut lanes = self.lanes.lock();
        if let hash_map::Entry::Occupied(mut lane) = lanes.by_account.entry(account) {
            let missing = &mut lane.get_mut().missing;
            missing.drain(..items.min(missing.len()));
            if missing.is_empty() {
                lane.remove();
            }
        }
        drop(lanes);
        self.changed.send_replace(());
    }

    /// Whether the index knows everything of an account up to this position; not where another backlog has
    /// taken the place of this one.
    pub(super) fn has(&self, account: u32, position: Position) -> bool {
        let lanes = self.lanes.lock();
        !lanes.is_over && lanes.has(account, position)
    }

    /// Waits until it does; false where another backlog has taken the place of this one.
    pub(super) async fn wait_for(&self, account: u32, position: Position) -> bool {
        let mut is_over = false;
        self.until(|lanes| {
            is_over = lanes.is_over;
            is_over || lanes.has(account, position)
        })
        .await;
        !is_over
    }

    /// Sends away whoever waits: another backlog takes the place of this one.
    pub(super) fn end(&self) {
        self.lanes.lock().is_over = true;
        self.changed.send_replace(());
    }

    async fn until(&self, mut is_so: impl FnMut(&mut Lanes<T>) -> bool) {
        let mut changed = self.changed.subscribe();
        // The sender lives as long as this.
        let _ = changed.wait_for(|()| is_so(&mut self.lanes.lock())).await;
    }
}

impl<T: Pending> Lanes<T> {
    fn add(&mut self, behind: Position, account: u32, mut item: T) {
        let lane = self.by_account.entry(account).or_default();
        if let Some(subject) = item.subject()
            && !lane.subjects.insert(subject)
        {
            return;
        }
        if lane.bytes >= BYTES_EACH || self.bytes >= BYTES_ALL {
            item.forget_text();
        }
        lane.bytes += item.bytes();
        self.bytes += item.bytes();
        self.items += 1;
        if lane.waiting.is_empty() && lane.rest.is_none() {
            self.turns.push_back(account);
        }
        lane.waiting.push_back((behind, item));
        lane.missing.push_back(behind);
        self.count(behind);
    }

    fn put_back(&mut self, account: u32, behind: Position, items: Vec<T>) {
        let lane = self.by_account.entry(account).or_default();
        if lane.waiting.is_empty() && lane.rest.is_none() {
            self.turns.push_back(account);
        }
        lane.needs_room = true;
        let count = items.len();
        for item in items.into_iter().rev() {
            lane.bytes += item.bytes();
            self.bytes += item.bytes();
            self.items += 1;
            lane.subjects.extend(item.subject());
            lane.waiting.push_front((behind, item));
        }
        (0..count).for_each(|_| self.count(behind));
    }

    fn count(&mut self, behind: Position) {
        *self.behind.entry(behind).or_default() += 1;
    }

    fn discount(&mut self, behind: Position) {
        if let btree_map::Entry::Occupied(mut count) = self.behind.entry(behind) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Up to where nothing waits.
    fn reached(&self) -> Position {
        let first_left = self.behind.first_key_value();
        first_left.map_or(self.added, |(behind, _)| *behind)
    }

    fn next(&mut self, is_room: bool) -> Option<Turn<T>> {
        for _ in 0..self.turns.len() {
            let account = self.turns.pop_front()?;
            let Some(lane) = self.by_account.get_mut(&account) else {
                continue;
            };
            if let Some(behind) = lane.rest.take() {
                if !lane.waiting.is_empty() {
                    self.turns.push_back(account);
                }
                self.discount(behind);
                return Some(Turn::Rest(account));
            }
            if lane.needs_room && !is_room {
                self.turns.push_back(account);
                continue;
            }
            lane.needs_room = false;
            if let Some((behind, items)) = self.take(account) {
                return Some(Turn::Items(account, behind, items));
            }
        }
        let further = self.turns.is_empty() && self.reached() > self.handed_in;
        further.then_some(Turn::Nothing)
    }

    /// The next items of an account, as many as fit into a turn, and what the first of them happened behind.
    fn take(&mut self, account: u32) -> Option<(Position, Vec<T>)> {
        let mut items = Vec::new();
        let mut bytes = 0;
        let lane = self.by_account.get_mut(&account)?;
        let first = lane.waiting.front()?.0;
        let mut taken = Vec::new();
        while bytes < TURN_BYTES
            && let Some((behind, item)) = lane.waiting.pop_front()
        {
            bytes += item.turn_bytes();
            lane.bytes -= item.bytes();
            self.bytes -= item.bytes();
            self.items -= 1;
            if let Some(subject) = item.subject() {
                lane.subjects.remove(&subject);
            }
            taken.push(behind);
            items.push(item);
        }
        if !lane.waiting.is_empty() {
            self.turns.push_back(account);
        }
        taken.into_iter().for_each(|behind| self.discount(behind));
        Some((first, items))
    }

    fn has(&self, account: u32, position: Position) -> bool {
        let lane = self.by_account.get(&account);
        let first = lane.and_then(|lane| lane.missing.front());
        self.added >= position && first.is_none_or(|behind| *behind >= position)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use futures_util::FutureExt;
    use proptest::prelude::*;

    use super::*;

    /// A numbered item with some text.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Text {
        number: usize,
        subject: Option<usize>,
        bytes: usize,
    }

    impl Pending for Text {
        type Subject = usize;

        fn subject(&self) -> Option<usize> {
            self.subject
        }

        fn bytes(&self) -> usize {
            self.bytes
        }

        fn turn_bytes(&self) -> usize {
            self.bytes.max(TURN_BYTES / 4)
        }

        fn forget_text(&mut self) {
            self.bytes = 0;
        }
    }

    fn text(number: usize) -> Text {
        Text {
            number,
            subject: None,
            bytes: 0,
        }
    }

    fn add(backlog: &Backlog<Text>, position: i64, account: u32, item: Text) {
        let behind = Position(position - 1);
        backlog.add(behind, account, item).now_or_never().unwrap();
        backlog.all_added(Position(position));
    }

    /// Whose items come next, these, and up to where everything is handed in with them.
    fn next(backlog: &Backlog<Text>) -> Option<(Option<u32>, Vec<Text>, Position)> {
        let (account, items) = match backlog.next(true).now_or_never()? {
            Turn::Items(account, _, items) => (Some(account), items),
            Turn::Rest(account) => (Some(account), Vec::new()),
            Turn::Nothing => (None, Vec::new()),
        };
        Some((account, items, backlog.handed_in().position))
    }

    #[test]
    fn an_account_waits_for_one_turn_of_each_other_one() {
        let backlog = Backlog::behind(Position(0));
        for position in 1..=100 {
            add(&backlog, position, 1, text(0));
        }
        add(&backlog, 101, 2, text(1));
        assert!(!backlog.has(2, Position(101)) && backlog.has(3, Position(101)));
        let (first, items, position) = next(&backlog).unwrap();
        // The fifth is the first that was not handed in.
        assert_eq!((first, items.len(), position), (Some(1), 4, Position(4)));
        let second = next(&backlog).unwrap();
        assert_eq!(second, (Some(2), vec![text(1)], Position(4)));
        assert!(!backlog.has(2, Position(101)), "handed in, not taken in");
        backlog.taken_in(2, 1);
        assert!(backlog.has(2, Position(101)) && !backlog.has(1, Position(1)));
        assert!(!backlog.has(2, Position(102)), "nothing is known of that");
    }

    #[test]
    fn one_that_waits_stands_for_later_ones_about_the_same() {
        let backlog = Backlog::behind(Position(0));
        let about = |number| Text {
            subject: Some(7),
            ..text(number)
        };
        add(&backlog, 1, 1, about(0));
        add(&backlog, 2, 1, about(1));
        assert_eq!(next(&backlog).unwrap().1, [about(0)]);
        // It may have been read before this happened.
        add(&backlog, 3, 1, about(2));
        let second = next(&backlog).unwrap();
        assert_eq!(second, (Some(1), vec![about(2)], Position(3)));
        assert!(next(&backlog).is_none());
        backlog.all_added(Position(9));
        assert_eq!(next(&backlog).unwrap(), (None, vec![], Position(9)));
    }

    #[test]
    fn texts_beyond_an_accounts_share_are_let_go_of() {
        let backlog = Backlog::behind(Position(0));
        let long = |number| Text {
            bytes: BYTES_EACH,
            ..text(number)
        };
        add(&backlog, 1, 1, long(0));
        assert!(backlog.room(1).now_or_never().is_none());
        assert!(backlog.room(2).now_or_never().is_some());
        add(&backlog, 2, 1, long(1));
        add(&backlog, 3, 2, long(2));
        let items = std::iter::from_fn(|| next(&backlog)).flat_map(|(_, items, _)| items);
        assert_eq!(items.collect::<Vec<_>>(), [long(0), long(2), text(1)]);
        assert!(backlog.room(1).now_or_never().is_some());
    }

    #[test]
    fn who_waits_is_sent_away_when_another_backlog_takes_its_place() {
        let backlog = Backlog::behind(Position(0));
        add(&backlog, 1, 1, text(0));
        assert_eq!(backlog.wait_for(1, Position(1)).now_or_never(), None);
        assert_eq!(backlog.wait_for(2, Position(1)).now_or_never(), Some(true));
        assert_eq!(
            [1, 2].map(|account| backlog.has(account, Position(1))),
            [false, true]
        );
        backlog.end();
        assert_eq!(backlog.wait_for(1, Position(1)).now_or_never(), Some(false));
        assert!(!backlog.has(2, Position(1)));
    }

    #[test]
    fn what_is_left_of_a_turn_comes_after_the_others_and_holds_the_position() {
        let backlog = Backlog::behind(Position(0));
        add(&backlog, 1, 1, text(0));
        add(&backlog, 2, 2, text(1));
        let Some(Turn::Items(1, behind, _)) = backlog.next(true).now_or_never() else {
            unreachable!()
        };
        backlog.leave_rest(1, behind);
        assert_eq!(backlog.handed_in().position, Position(0));
        assert_eq!(
            next(&backlog).unwrap(),
            (Some(2), vec![text(1)], Position(0))
        );
        add(&backlog, 3, 2, text(2));
        assert!(matches!(
            backlog.next(true).now_or_never(),
            Some(Turn::Rest(1))
        ));
        assert_eq!(backlog.handed_in().position, Position(2));
        assert_eq!(
            next(&backlog).unwrap(),
            (Some(2), vec![text(2)], Position(3))
        );
    }

    #[test]
    fn a_long_text_without_room_keeps_its_place_and_holds_up_its_own_account_alone() {
        let backlog = Backlog::behind(Position(0));
        add(&backlog, 1, 1, text(0));
        let Some(Turn::Items(1, behind, items)) = backlog.next(true).now_or_never() else {
            unreachable!()
        };
        add(&backlog, 2, 1, text(1));
        backlog.put_back(1, behind, items);
        assert_eq!(backlog.handed_in().position, Position(0));
        assert!(backlog.next(false).now_or_never().is_none());
        add(&backlog, 3, 2, text(2));
        let Some(Turn::Items(2, _, others)) = backlog.next(false).now_or_never() else {
            unreachable!()
        };
        assert_eq!(others, [text(2)]);
        let both = next(&backlog).unwrap();
        assert_eq!(both, (Some(1), vec![text(0), text(1)], Position(3)));
        backlog.taken_in(1, 2);
        assert!(backlog.has(1, Position(3)));
    }

    proptest! {
        /// Whatever is added, handed in and taken in: each item is handed in once, those of an account in
        /// their order; no position is told before everything up to it is handed in; and an account is
        /// known up to a position exactly when nothing of it is missing that happened before.
        #[test]
        fn nothing_is_passed_over(steps in proptest::collection::vec((0_u32..4, 0_u8..5), 1..200)) {
            let backlog = Backlog::behind(Position(0));
            // Of each item whose it is, and whether it is handed in and taken in.
            let mut items: Vec<(u32, bool, bool)> = Vec::new();
            let mut in_flight: VecDeque<(u32, Vec<usize>)> = VecDeque::new();
            let mut told = Position(0);
            for (account, step) in steps {
                match step {
                    0 | 1 => {
                        add(&backlog, i64::try_from(items.len()).unwrap() + 1, account, text(items.len()));
                        items.push((account, false, false));
                    }
                    2 => if let Some((account, turn, position)) = next(&backlog) {
                        for item in &turn {
                            let (of, handed_in, _) = items.get_mut(item.number).unwrap();
                            prop_assert!(!*handed_in && account == Some(*of));
                            *handed_in = true;
                            let number = item.number;
                            let earlier = items.iter().take(number).filter(|(of, ..)| Some(*of) == account);
                            prop_assert!(earlier.clone().all(|(_, handed_in, _)| *handed_in));
                        }
                        let up_to = usize::try_from(position.0).unwrap();
                        prop_assert!(items.iter().take(up_to).all(|(_, handed_in, _)| *handed_in));
                        prop_assert!(position >= told);
                        told = position;
                        let numbers = turn.iter().map(|item| item.number).collect();
                        in_flight.extend(account.map(|account| (account, numbers)));
                    },
                    3 => if let Some(Turn::Items(account, behind, items)) = backlog.next(true).now_or_never() {
                        backlog.put_back(account, behind, items);
                    },
                    _ => if let Some((account, numbers)) = in_flight.pop_front() {
                        backlog.taken_in(account, numbers.len());
                        for number in numbers {
                            items.get_mut(number).unwrap().2 = true;
                        }
                    },
                }
                for account in 0..4 {
                    for position in 0..=items.len() {
                        let mut before = items.iter().take(position);
                        let wanted = before.all(|(of, _, taken_in)| *of != account || *taken_in);
                        let position = Position(i64::try_from(position).unwrap());
                        prop_assert_eq!(backlog.has(account, position), wanted);
                    }
                }
            }
        }
    }
}
