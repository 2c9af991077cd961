//! A semaphore that is fair between accounts: they take turns, and one account never holds all
//! permits. A permit can also be for a number of bytes, which are limited, too. Knows nothing of
//! what is done under a permit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::fair_queue::{FairQueue, QueueBounds, Queued};
use colloquy_model::caller::Tenant;

/// Callers of one account that may wait at a semaphore …
const WAITERS_EACH: usize = 256;
/// … and of all accounts together.
const WAITERS_ALL: usize = 4_096;

/// A semaphore that is fair between accounts. Clones share the permits.
#[derive(Debug, Clone)]
pub struct FairSemaphore {
    state: Arc<Mutex<State>>,
    /// The bytes of all permits together; a caller that asks for more gets these.
    bytes: usize,
}

#[derive(Debug)]
struct State {
    free: usize,
    free_bytes: usize,
    /// How many permits one account may hold.
    each: usize,
    /// How many permits each account holds; without accounts that hold none.
    held: HashMap<u32, usize>,
    waiting: FairQueue<u32, Waiter>,
    /// The next caller, when too few bytes are free for it. Nobody overtakes it, since a caller
    /// that asks for many bytes would never have its turn otherwise.
    next: Option<(u32, Waiter)>,
}

/// A caller that waits for a permit.
#[derive(Debug)]
struct Waiter {
    bytes: usize,
    grant: oneshot::Sender<FairPermit>,
}

/// A permit, which is returned when it is dropped.
#[derive(Debug)]
pub struct FairPermit {
    /// The semaphore; `None` when the permit has been returned already.
    of: Option<FairSemaphore>,
    account: u32,
    bytes: usize,
}

impl Queued for Waiter {
    fn is_abandoned(&self) -> bool {
        self.grant.is_closed()
    }

    fn refuse(self) {
        // Dropping the sender tells the caller.
    }
}

impl FairSemaphore {
    /// A semaphore with `all` permits, of which one account may hold all but one.
    pub fn new(all: usize) -> Self {
        FairSemaphore::for_bytes(all, usize::MAX)
    }

    /// A semaphore with `all` permits for `bytes` bytes together.
    pub fn for_bytes(all: usize, bytes: usize) -> Self {
        let bounds = QueueBounds {
            each: WAITERS_EACH,
            all: WAITERS_ALL,
            wait: Duration::MAX,
        };
        FairSemaphore::of(all, bytes, bounds)
    }

    /// A semaphore with `all` permits. The bounds say how many callers may wait; how long one waits
    /// is said with each call of `acquire`.
    pub fn bounded(all: usize, bounds: QueueBounds) -> Self {
        FairSemaphore::of(all, usize::MAX, bounds)
    }

    fn of(all: usize, bytes: usize, bounds: QueueBounds) -> Self {
        let all = all.max(1);
        // The queue sets no time limit, since nothing looks at it while all permits are taken:
        // `acquire` limits the time.
        let bounds = QueueBounds {
            wait: Duration::MAX,
            ..bounds
        };
        let (held, waiting) = (HashMap::new(), FairQueue::new(bounds));
        let state = State {
            free: all,
            free_bytes: bytes,
            each: (all - 1).max(1),
            held,
            waiting,
            next: None,
        };
        FairSemaphore {
            state: Arc::new(Mutex::new(state)),
            bytes,
        }
    }

    /// Waits for a permit for this account; `None` when too many callers wait or it took longer
    /// than `wait`.
    pub async fn acquire(
        &self,
        tenant: Tenant,
        bytes: usize,
        wait: Duration,
    ) -> Option<FairPermit> {
        let (grant, granted) = oneshot::channel();
        {
            let mut state = self.state.lock();
            state.waiting.push(
                tenant.account_number(),
                Waiter {
                    bytes: bytes.min(self.bytes),
                    grant,
                },
            );
            self.hand_out(&mut state);
        }
        timeout(wait, granted).await.ok()?.ok()
    }

    /// Takes a permit for this account if one is free for it now.
    pub fn try_acquire(&self, tenant: Tenant, bytes: usize) -> Option<FairPermit> {
        let mut state = self.state.lock();
        let (account, bytes) = (tenant.account_number(), bytes.min(self.bytes));
        let found = state.next.is_none()
            && state.free > 0
            && state.free_bytes >= bytes
            && state.may_have(account);
        found.then(|| self.take(&mut state, account, bytes))
    }

    /// Takes a permit that is free.
    fn take(&self, state: &mut State, account: u32, bytes: usize) -> FairPermit {
        state.free -= 1;
        state.free_bytes -= bytes;
        *state.held.entry(account).or_default() += 1;
        FairPermit {
            of: Some(self.clone()),
            account,
            bytes,
        }
    }

    /// Gives free permits to waiting callers, in their turn.
    fn hand_out(&self, state: &mut State) {
        while state.free > 0 {
            let Some((account, waiting)) = state.next_waiter() else {
                return;
            };
            if waiting.bytes > state.free_bytes {
                state.next = Some((account, waiting));
                return;
            }
            let permit = self.take(state, account, waiting.bytes);
            if let Err(mut unused) = waiting.grant.send(permit) {
                // Not in its `Drop`, which would wait for this lock.
                unused.of = None;
                state.give_back(account, unused.bytes);
            }
        }
    }
}

impl State {
    /// Whether an account may hold one permit more.
    fn may_have(&self, account: u32) -> bool {
        self.held.get(&account).is_none_or(|held| *held < self.each)
    }

    /// Takes the next caller out of the queue.
    fn next_waiter(&mut self) -> Option<(u32, Waiter)> {
        if let Some(next) = self
            .next
            .take()
            .filter(|(_, waiting)| !waiting.is_abandoned())
        {
            return Some(next);
        }
        let State {
            each,
            held,
            waiting,
            ..
        } = self;
        waiting.pop(|account| held.get(&account).is_none_or(|held| held < each))
    }

    fn give_back(&mut self, account: u32, bytes: usize) {
        self.free += 1;
        self.free_bytes += bytes;
        if let Some(held) = self.held.get_mut(&account) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&account);
            }
        }
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        if let Some(permits) = self.of.take() {
            let mut state = permits.state.lock();
            state.give_back(self.account, self.bytes);
            permits.hand_out(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::*;
    use colloquy_model::caller::Mode;

    const LONG: Duration = Duration::from_secs(60);

    fn account(number: u32) -> Tenant {
        Tenant::of(number, Mode::Live)
    }

    /// The output of a future that is ready at the first poll.
    fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn an_account_never_has_all_of_them_and_the_next_one_is_anothers() {
        let semaphore = FairSemaphore::new(3);
        let first = semaphore.acquire(account(1), 0, LONG).await.unwrap();
        let _second = semaphore.acquire(account(1), 0, LONG).await.unwrap();
        let mut third = pin!(semaphore.acquire(account(1), 0, LONG));
        assert!(
            poll_once(third.as_mut()).is_none(),
            "it would have all three"
        );
        let others = semaphore.acquire(account(2), 0, LONG).await.unwrap();
        let mut fourth = pin!(semaphore.acquire(account(1), 0, LONG));
        let mut next = pin!(semaphore.acquire(account(3), 0, LONG));
        assert!(poll_once(fourth.as_mut()).is_none() && poll_once(next.as_mut()).is_none());
        drop(others);
        assert!(poll_once(third.as_mut()).is_none(), "it still has two");
        let _third_accounts = poll_once(next.as_mut()).unwrap().unwrap();
        drop(first);
        let _third = poll_once(third.as_mut()).unwrap().unwrap();
        assert!(poll_once(fourth.as_mut()).is_none());
    }

    #[tokio::test]
    async fn with_a_single_one_accounts_take_turns() {
        let semaphore = FairSemaphore::new(1);
        let mut held = semaphore.acquire(account(1), 0, LONG).await;
        let mut ones: Vec<_> = (0..3)
            .map(|_| Box::pin(semaphore.acquire(account(1), 0, LONG)))
            .collect();
        assert!(ones.iter_mut().all(|one| poll_once(one.as_mut()).is_none()));
        let mut other = pin!(semaphore.acquire(account(2), 0, LONG));
        assert!(poll_once(other.as_mut()).is_none());
        drop(held.take());
        let granted = ones
            .iter_mut()
            .filter_map(|one| poll_once(one.as_mut()))
            .count();
        assert_eq!(
            granted, 1,
            "it asked first; its permit is given back at once"
        );
        assert!(
            poll_once(other.as_mut()).is_some(),
            "then it is the other's turn, though two came before"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_or_leaves_takes_nothing() {
        let semaphore = FairSemaphore::new(1);
        let held = semaphore.acquire(account(1), 0, LONG).await.unwrap();
        assert!(
            semaphore
                .acquire(account(2), 0, Duration::from_secs(1))
                .await
                .is_none()
        );
        {
            let mut left = Box::pin(semaphore.acquire(account(2), 0, LONG));
            assert!(poll_once(left.as_mut()).is_none());
            drop(held);
        }
        assert!(
            semaphore.try_acquire(account(3), 0).is_some(),
            "what was granted to nobody is free again"
        );
    }

    #[tokio::test]
    async fn who_asks_for_more_bytes_than_are_free_waits_and_nobody_passes() {
        let semaphore = FairSemaphore::for_bytes(4, 100);
        let held = semaphore.try_acquire(account(1), 60).unwrap();
        let mut many = pin!(semaphore.acquire(account(2), 1_000, LONG));
        assert!(
            poll_once(many.as_mut()).is_none(),
            "it would have all bytes"
        );
        let mut few = pin!(semaphore.acquire(account(3), 10, LONG));
        assert!(
            poll_once(few.as_mut()).is_none() && semaphore.try_acquire(account(3), 10).is_none()
        );
        drop(held);
        let all = poll_once(many.as_mut()).unwrap().unwrap();
        assert!(poll_once(few.as_mut()).is_none(), "none are left");
        drop(all);
        assert!(poll_once(few.as_mut()).unwrap().is_some());
    }

    #[tokio::test]
    async fn who_leaves_while_it_waits_for_bytes_holds_nobody_up() {
        let semaphore = FairSemaphore::for_bytes(4, 100);
        let _held = semaphore.try_acquire(account(1), 60).unwrap();
        {
            let mut left = pin!(semaphore.acquire(account(2), 50, LONG));
            assert!(poll_once(left.as_mut()).is_none());
        }
        let mut few = pin!(semaphore.acquire(account(3), 40, LONG));
        assert!(poll_once(few.as_mut()).unwrap().is_some());
    }

    proptest! {
        #[test]
        fn whatever_happens_all_of_them_come_back(
            steps in proptest::collection::vec(
                (0..4_u32, 0..3_u8, any::<proptest::sample::Index>(), 0..150_usize), 0..60,
            ),
            all in 1..5_usize,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let _entered = runtime.enter();
            let semaphore = FairSemaphore::for_bytes(all, 100);
            let (mut waiting, mut held) = (Vec::new(), Vec::new());
            for (number, step, which, bytes) in steps {
                match step {
                    0 => {
                        let semaphore = semaphore.clone();
                        waiting.push(Box::pin(async move { semaphore.acquire(account(number), bytes, LONG).await }));
                    }
                    1 if !waiting.is_empty() => drop(waiting.swap_remove(which.index(waiting.len()))),
                    2 if !held.is_empty() => drop(held.swap_remove(which.index(held.len()))),
                    _ => {}
                }
                // Twice: who comes may find that the one before it has left, and that it is another
                // one's turn.
                for _ in 0..2 {
                    waiting.retain_mut(|one| poll_once(one.as_mut()).map(|granted| held.extend(granted)).is_none());
                }
                let bytes: usize = held.iter().map(|permit: &FairPermit| permit.bytes).sum();
                let (free, free_bytes, is_fair) = {
                    let state = semaphore.state.lock();
                    (state.free, state.free_bytes, state.held.values().all(|held| *held <= state.each))
                };
                prop_assert_eq!((free + held.len(), free_bytes + bytes), (all, 100));
                prop_assert!(is_fair);
            }
            drop((waiting, held));
            let (free, free_bytes, held) = {
                let state = semaphore.state.lock();
                (state.free, state.free_bytes, state.held.len())
            };
            prop_assert_eq!((free, free_bytes, held), (all, 100, 0));
        }
    }
}
