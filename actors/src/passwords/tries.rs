//! How often a password may be wrong. Knows no clock but the one that it is given.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use colloquy_model::time::Timestamp;
use parking_lot::Mutex;

/// Tries that a link gets in any minute.
const TRIES_PER_MINUTE: usize = 10;
const WINDOW: Duration = Duration::from_mins(1);
/// Links whose tries are remembered: about 2 MB. Only a link that has a password and is being tried
/// is one of them.
const LINKS_MAX: usize = 10_000;

/// Too many wrong passwords were given: none is looked at for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many tries; the next one in {retry_after_seconds} s")]
pub struct TooManyTries {
    /// Whole seconds, at least 1, after which the next try is let in.
    pub retry_after_seconds: u64,
}

/// Counts wrong passwords by link: after 10 in a minute no more are looked at, nor right ones,
/// until the minute is over. Of one link one is looked at at a time. In memory only; a restart
/// begins afresh. Other nodes can be told of each, so that it counts there too.
pub struct PasswordTries<K> {
    links: Mutex<HashMap<K, VecDeque<Timestamp>>>,
    links_max: usize,
    tell: Option<TellTry<K>>,
}

/// Tells other nodes of a wrong password for a link, without waiting.
type TellTry<K> = Box<dyn Fn(K) + Send + Sync>;

impl<K: Copy + Eq + Hash> Default for PasswordTries<K> {
    fn default() -> Self {
        PasswordTries {
            links: Mutex::default(),
            links_max: LINKS_MAX,
            tell: None,
        }
    }
}

impl<K: Copy + Eq + Hash> PasswordTries<K> {
    /// Has other nodes be told of each wrong password.
    pub(crate) fn shared(tell: TellTry<K>) -> Self {
        PasswordTries {
            tell: Some(tell),
            ..PasswordTries::default()
        }
    }

    /// Whether a password may be looked at now; counts nothing.
    ///
    /// # Errors
    /// [`TooManyTries`]: it must not be.
    pub fn look(&self, link: K, now: Timestamp) -> Result<(), TooManyTries> {
        self.links
            .lock()
            .get_mut(&link)
            .map_or(Ok(()), |tries| let_in(tries, now))
    }

    /// Counts a wrong password, and tells other nodes.
    pub fn was_wrong(&self, link: K, now: Timestamp) {
        self.count(link, now);
        if let Some(tell) = &self.tell {
            tell(link);
        }
    }

    /// Counts a wrong password that was given here or at another node.
    pub(crate) fn count(&self, link: K, now: Timestamp) {
        let mut links = self.links.lock();
        if !links.contains_key(&link) && links.len() >= self.links_max {
            forget_some(&mut links, now);
        }
        let tries = links.entry(link).or_default();
        tries.push_back(now);
        // Those of other nodes come here, too, and nobody may ever look: the newest decide.
        if tries.len() > TRIES_PER_MINUTE {
            tries.pop_front();
        }
    }
}

/// Forgets the tries whose minute is over, then tells whether one more is let in.
fn let_in(tries: &mut VecDeque<Timestamp>, now: Timestamp) -> Result<(), TooManyTries> {
    // What lies in the future was counted before the clock was set back: it must not lock the link
    // for longer.
    tries.retain(|at| now.abs_diff(*at) < WINDOW);
    if tries.len() < TRIES_PER_MINUTE {
        return Ok(());
    }
    let oldest = tries.front().copied().unwrap_or(now);
    let wait = (oldest + WINDOW).since(now);
    Err(TooManyTries {
        retry_after_seconds: wait
            .as_millis()
            .div_ceil(1_000)
            .try_into()
            .unwrap_or(u64::MAX)
            .max(1),
    })
}

/// Makes room: first those whose minute is over, else the one that was tried the longest ago.
fn forget_some<K: Copy + Eq + Hash>(links: &mut HashMap<K, VecDeque<Timestamp>>, now: Timestamp) {
    let before = links.len();
    links.retain(|_, tries| tries.back().is_some_and(|at| now.abs_diff(*at) < WINDOW));
    if links.len() == before
        && let Some(oldest) = links
            .iter()
            .min_by_key(|(_, tries)| tries.back())
            .map(|(link, _)| *link)
    {
        links.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_eleventh_password_in_a_minute_is_not_looked_at_where_ten_were_wrong() {
        let tries = PasswordTries::default();
        for second in 0..10 {
            assert_eq!(tries.look(1, Timestamp(second * 1_000)), Ok(()));
            tries.was_wrong(1, Timestamp(second * 1_000));
        }
        assert_eq!(
            tries.look(1, Timestamp(10_000)),
            Err(TooManyTries {
                retry_after_seconds: 50
            })
        );
        assert_eq!(tries.look(2, Timestamp(10_000)), Ok(()));
        assert_eq!(tries.look(1, Timestamp(60_000)), Ok(()));
        tries.was_wrong(1, Timestamp(60_000));
        assert_eq!(
            tries.look(1, Timestamp(60_000)),
            Err(TooManyTries {
                retry_after_seconds: 1
            })
        );
    }

    #[test]
    fn a_right_password_leaves_nothing_behind() {
        let tries = PasswordTries::default();
        assert_eq!(tries.look(1, Timestamp(0)), Ok(()));
        assert!(tries.links.lock().is_empty());
    }

    #[test]
    fn a_clock_set_back_does_not_lock_a_link() {
        let tries = PasswordTries::default();
        for _ in 0..10 {
            tries.was_wrong(1, Timestamp(10_000_000));
        }
        assert_eq!(tries.look(1, Timestamp(0)), Ok(()));
    }

    #[test]
    fn of_too_many_links_the_oldest_is_forgotten() {
        let tries = PasswordTries {
            links_max: 3,
            ..PasswordTries::default()
        };
        for link in 0..100 {
            tries.was_wrong(link, Timestamp(link));
        }
        assert_eq!(tries.links.lock().len(), 3);
        tries.was_wrong(100, Timestamp(1_000_000));
        assert_eq!(tries.links.lock().len(), 1);
    }

    proptest! {
        #[test]
        fn in_no_minute_more_than_ten_wrong_ones_are_looked_at(gaps in proptest::collection::vec(0..20_000_i64, 1..60)) {
            let (tries, mut now, mut let_in) = (PasswordTries::default(), 0, Vec::new());
            for gap in gaps {
                now += gap;
                let in_this_minute = let_in.iter().filter(|at| **at > now - 60_000).count();
                match tries.look((), Timestamp(now)) {
                    Ok(()) => {
                        tries.was_wrong((), Timestamp(now));
                        let_in.push(now);
                    }
                    Err(refused) => {
                        let wait = i64::try_from(refused.retry_after_seconds).unwrap() * 1_000;
                        let then = let_in.iter().filter(|at| **at > now + wait - 60_000).count();
                        prop_assert!(then < TRIES_PER_MINUTE);
                    }
                }
                prop_assert!(in_this_minute <= TRIES_PER_MINUTE);
                prop_assert_eq!(let_in.last() == Some(&now) || in_this_minute == TRIES_PER_MINUTE, true);
            }
        }
    }
}
