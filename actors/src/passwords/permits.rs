//! Places for hashing passwords: few at once, since each takes 19 MiB and a core for some 20 ms,
//! and fair: first between accounts, then between the links of one. Nothing is hashed for callers
//! who have left or waited too long.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use colloquy_model::caller::Tenant;
use colloquy_runtime::fair_queue::{FairQueue, QueueBounds, Queued};

/// Callers of one link that may wait: as many as may come at once in a minute, by default.
const WAITING_OF_LINK_MAX: usize = 64;
/// Callers of one account that may wait: about as many as have their turn within the usual wait.
const WAITING_OF_ACCOUNT_MAX: usize = 256;
/// Callers that may wait in all.
const WAITING_MAX: usize = 4_096;

/// How many passwords are hashed at once, and how long callers wait.
#[derive(Debug, Clone, Copy)]
pub struct HashSettings {
    /// Passwords hashed at once, at least one; of one account at most one less, where there are two
    /// or more.
    pub places: usize,
    /// How long a caller may wait for a place.
    pub wait_max: Duration,
}

/// For whom a password is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashClaim {
    /// The account that the link belongs to; the operators' own for everybody who signs in.
    pub account: Tenant,
    /// The link, the document of one that is being made, or the name that somebody signs in by: one
    /// password of it at a time.
    pub link: u128,
}

/// Why a caller got no permit to hash: nothing was hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoHashPermit {
    /// Too many callers wait already.
    Full,
    /// No permit became free in time.
    TooLate,
}

/// The permits to hash a password, and the callers that wait for one.
#[derive(Debug)]
pub struct HashPermits {
    queue: Arc<Mutex<Queue>>,
    wait_max: Duration,
}

/// A permit to hash one password, given back when it is dropped.
#[derive(Debug)]
pub struct HashPermit {
    queue: Arc<Mutex<Queue>>,
    claim: HashClaim,
}

/// A caller that waits; closed when it has left.
#[derive(Debug)]
struct Waiting(oneshot::Sender<HashPermit>);

impl Queued for Waiting {
    fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }

    fn refuse(self) {
        // Dropped, it tells its caller.
    }
}

#[derive(Debug)]
struct Queue {
    places: usize,
    bounds: QueueBounds,
    /// Claims that have a place: as few as there are places.
    running: Vec<HashClaim>,
    /// Who waits: the next account first, and in it the links in turn.
    accounts: VecDeque<(Tenant, FairQueue<u128, Waiting>)>,
}

impl HashPermits {
    /// Free places, as the settings give them.
    pub fn new(settings: HashSettings) -> Self {
        let bounds = QueueBounds {
            each: WAITING_OF_LINK_MAX,
            all: WAITING_OF_ACCOUNT_MAX,
            wait: settings.wait_max,
        };
        let places = settings.places.max(1);
        let queue = Queue {
            places,
            bounds,
            running: Vec::new(),
            accounts: VecDeque::new(),
        };
        HashPermits {
            queue: Arc::new(Mutex::new(queue)),
            wait_max: settings.wait_max,
        }
    }

    /// Waits for a place; whoever drops this before has left.
    ///
    /// # Errors
    /// Too many wait, or none became free in time.
    pub async fn place(&self, claim: HashClaim) -> Result<HashPermit, NoHashPermit> {
        let (caller, place) = oneshot::channel();
        self.queue.lock().push(claim, Waiting(caller));
        give_places(&self.queue);
        match tokio::time::timeout(self.wait_max, place).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(NoHashPermit::Full),
            Err(_) => Err(NoHashPermit::TooLate),
        }
    }
}

/// Gives what places are free to those whose turn it is.
fn give_places(queue: &Arc<Mutex<Queue>>) {
    loop {
        let next = queue.lock().next();
        let Some((claim, caller)) = next else { return };
        let place = HashPermit {
            queue: Arc::clone(queue),
            claim,
        };
        // One who left in this moment gives the place back by not taking it.
        drop(caller.0.send(place));
    }
}

impl Drop for HashPermit {
    fn drop(&mut self) {
        self.queue.lock().ended(self.claim);
        give_places(&self.queue);
    }
}

impl Queue {
    /// Puts a caller behind the others of its link; where there is no room, one of the account's is
    /// refused.
    fn push(&mut self, claim: HashClaim, caller: Waiting) {
        if self
            .accounts
            .iter()
            .map(|(_, links)| links.len())
            .sum::<usize>()
            >= WAITING_MAX
        {
            return caller.refuse();
        }
        let bounds = self.bounds;
        match self
            .accounts
            .iter_mut()
            .find(|(account, _)| *account == claim.account)
        {
            Some((_, links)) => links.push(claim.link, caller),
            None => {
                let mut links = FairQueue::new(bounds);
                links.push(claim.link, caller);
                self.accounts.push_back((claim.account, links));
            }
        }
    }

    /// The next caller that may have a place; it has it from now on.
    fn next(&mut self) -> Option<(HashClaim, Waiting)> {
        if self.running.len() >= self.places {
            return None;
        }
        let most = self.places.saturating_sub(1).max(1);
        for _ in 0..self.accounts.len() {
            let (account, mut links) = self.accounts.pop_front()?;
            let has_room = self
                .running
                .iter()
                .filter(|claim| claim.account == account)
                .count()
                < most;
            let found =
                links.pop(|link| has_room && !self.running.iter().any(|claim| claim.link == link));
            if !links.is_empty() {
                self.accounts.push_back((account, links));
            }
            if let Some((link, caller)) = found {
                let claim = HashClaim { account, link };
                self.running.push(claim);
                return Some((claim, caller));
            }
        }
        None
    }

    fn ended(&mut self, claim: HashClaim) {
        if let Some(at) = self.running.iter().position(|running| *running == claim) {
            self.running.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    fn places(places: usize) -> Arc<HashPermits> {
        Arc::new(HashPermits::new(HashSettings {
            places,
            wait_max: Duration::from_secs(5),
        }))
    }

    fn claim(account: i64, link: u128) -> HashClaim {
        HashClaim {
            account: Tenant::from_number(account),
            link,
        }
    }

    type Asking = JoinHandle<Result<HashPermit, NoHashPermit>>;

    /// Puts a caller into the queue.
    async fn asks(places: &Arc<HashPermits>, claim: HashClaim) -> Asking {
        let places = Arc::clone(places);
        let waiting = tokio::spawn(async move { places.place(claim).await });
        yield_now().await;
        yield_now().await;
        waiting
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_never_has_all_places_and_a_link_has_one() {
        let places = places(3);
        let _first = places.place(claim(1, 1)).await.unwrap();
        assert!(
            !asks(&places, claim(1, 1)).await.is_finished(),
            "its link has a place"
        );
        let _second = places.place(claim(1, 2)).await.unwrap();
        assert!(
            !asks(&places, claim(1, 3)).await.is_finished(),
            "the account has all that it may have"
        );
        let other = places.place(claim(2, 4)).await.unwrap();
        assert!(
            !asks(&places, claim(3, 5)).await.is_finished(),
            "there are three"
        );
        drop(other);
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_take_turns_and_so_do_the_links_of_one() {
        let places = places(1);
        let running = places.place(claim(9, 9)).await.unwrap();
        let order: Arc<Mutex<Vec<u128>>> = Arc::default();
        let mut tasks = Vec::new();
        for asked in [
            claim(1, 1),
            claim(1, 1),
            claim(1, 1),
            claim(1, 2),
            claim(2, 3),
        ] {
            let (places, order) = (Arc::clone(&places), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let _place = places.place(asked).await.unwrap();
                order.lock().push(asked.link);
            }));
            yield_now().await;
        }
        drop(running);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), [1, 3, 2, 1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_left_gets_no_place_and_takes_none_from_others() {
        let places = places(1);
        let running = places.place(claim(1, 1)).await.unwrap();
        for n in 0..WAITING_OF_ACCOUNT_MAX {
            let left = asks(&places, claim(1, n as u128 % 7)).await;
            left.abort();
            assert!(left.await.is_err());
        }
        let waiting = asks(&places, claim(1, 1)).await;
        drop(running);
        drop(waiting.await.unwrap().unwrap());
        let queue = places.queue.lock();
        assert!(
            queue.accounts.is_empty() && queue.running.is_empty(),
            "{queue:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_is_bounded_in_number_and_in_time() {
        let places = places(1);
        let _running = places.place(claim(1, 1)).await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..WAITING_OF_LINK_MAX {
            waiting.push(asks(&places, claim(1, 1)).await);
        }
        assert_eq!(
            places.place(claim(1, 1)).await.unwrap_err(),
            NoHashPermit::Full
        );
        let other = asks(&places, claim(2, 3)).await;
        tokio::time::sleep(Duration::from_secs(6)).await;
        waiting.push(other);
        for late in waiting {
            assert_eq!(late.await.unwrap().unwrap_err(), NoHashPermit::TooLate);
        }
    }
}
