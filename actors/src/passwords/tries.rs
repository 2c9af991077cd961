//! How often a password may be wrong. Knows no clock but the one that it is given.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use colloquy_model::id::ShareId;
use colloquy_model::time::Timestamp;
use parking_lot::Mutex;

/// What passwords are tried for: memory for so many, about 20 MB. Only what has a password and is
/// being tried is one of them.
const TRIED_MAX: usize = 100_000;
/// Each share link: 10 in a minute.
const OF_LINK: [Bound; 1] = [Bound {
    tries: 10,
    within: Duration::from_mins(1),
}];

/// How many wrong passwords are looked at in any span of this length.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// So many, at least 1.
    pub tries: usize,
    /// The length of the span.
    pub within: Duration,
}

/// What a password is tried for.
pub trait Tried: Copy + Eq + Hash {
    /// How often it may be wrong: all of these hold.
    fn bounds(&self) -> &'static [Bound];
}

impl Tried for ShareId {
    fn bounds(&self) -> &'static [Bound] {
        &OF_LINK
    }
}

/// Too many wrong passwords were given: none is looked at for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many tries; the next one in {retry_after_seconds} s")]
pub struct TooManyTries {
    /// Whole seconds, at least 1, after which the next try is let in.
    pub retry_after_seconds: u64,
}

/// Counts wrong passwords by what they were given for: after as many as its bounds say no more are
/// looked at, nor right ones, until the oldest is over. In memory only; a restart begins afresh.
/// Other nodes can be told of each, so that it counts there too.
pub struct PasswordTries<K> {
    tried: Mutex<HashMap<K, VecDeque<Timestamp>>>,
    tried_max: usize,
    tell: Option<TellTry<K>>,
}

/// Tells other nodes of a wrong password, without waiting.
type TellTry<K> = Box<dyn Fn(K) + Send + Sync>;

impl<K: Tried> Default for PasswordTries<K> {
    fn default() -> Self {
        PasswordTries {
            tried: Mutex::default(),
            tried_max: TRIED_MAX,
            tell: None,
        }
    }
}

impl<K: Tried> PasswordTries<K> {
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
    pub fn look(&self, of: K, now: Timestamp) -> Result<(), TooManyTries> {
        self.tried
            .lock()
            .get_mut(&of)
            .map_or(Ok(()), |tries| let_in(tries, of.bounds(), now))
    }

    /// Counts a wrong password, and tells other nodes.
    pub fn was_wrong(&self, of: K, now: Timestamp) {
        self.count(of, now);
        if let Some(tell) = &self.tell {
            tell(of);
        }
    }

    /// Counts a wrong password that was given here or at another node.
    pub(crate) fn count(&self, of: K, now: Timestamp) {
        let mut tried = self.tried.lock();
        if !tried.contains_key(&of) && tried.len() >= self.tried_max {
            forget_some(&mut tried, now);
        }
        let tries = tried.entry(of).or_default();
        tries.push_back(now);
        // Those of other nodes come here, too, and nobody may ever look: the newest decide.
        let most = of.bounds().iter().map(|bound| bound.tries).max();
        if tries.len() > most.unwrap_or(1) {
            tries.pop_front();
        }
    }
}

/// How long a try counts.
fn longest(bounds: &[Bound]) -> Duration {
    let spans = bounds.iter().map(|bound| bound.within);
    spans.max().unwrap_or_default()
}

/// Forgets the tries that are over, then tells whether one more is let in.
fn let_in(
    tries: &mut VecDeque<Timestamp>,
    bounds: &[Bound],
    now: Timestamp,
) -> Result<(), TooManyTries> {
    let counts = |at: &Timestamp, within| now.abs_diff(*at) < within;
    // What lies in the future was counted before the clock was set back: it must not lock anybody
    // out for longer.
    tries.retain(|at| counts(at, longest(bounds)));
    let waits = bounds.iter().filter_map(|bound| {
        let mut newest = tries.iter().rev().filter(|at| counts(at, bound.within));
        // Once this one is over, one more is let in.
        let oldest = newest.nth(bound.tries.saturating_sub(1))?;
        Some((*oldest + bound.within).since(now))
    });
    let Some(wait) = waits.max() else {
        return Ok(());
    };
    Err(TooManyTries {
        retry_after_seconds: wait
            .as_millis()
            .div_ceil(1_000)
            .try_into()
            .unwrap_or(u64::MAX)
            .max(1),
    })
}

/// Makes room: first what has no try left that counts, else what was tried the longest ago.
fn forget_some<K: Tried>(tried: &mut HashMap<K, VecDeque<Timestamp>>, now: Timestamp) {
    let before = tried.len();
    tried.retain(|of, tries| {
        let newest = tries.back();
        newest.is_some_and(|at| now.abs_diff(*at) < longest(of.bounds()))
    });
    if tried.len() == before
        && let Some(oldest) = tried
            .iter()
            .min_by_key(|(_, tries)| tries.back())
            .map(|(of, _)| *of)
    {
        tried.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use proptest::prelude::*;

    use super::*;

    /// A link by a number that the test chooses.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    struct Link(i64);

    impl Tried for Link {
        fn bounds(&self) -> &'static [Bound] {
            &OF_LINK
        }
    }

    /// What has a bound for a minute, and one for an hour.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    struct Browser;

    const OF_BROWSER: [Bound; 2] = [
        OF_LINK[0],
        Bound {
            tries: 30,
            within: Duration::from_hours(1),
        },
    ];

    impl Tried for Browser {
        fn bounds(&self) -> &'static [Bound] {
            &OF_BROWSER
        }
    }

    #[test]
    fn the_eleventh_password_in_a_minute_is_not_looked_at_where_ten_were_wrong() {
        let tries = PasswordTries::default();
        for second in 0..10 {
            assert_eq!(tries.look(Link(1), Timestamp(second * 1_000)), Ok(()));
            tries.was_wrong(Link(1), Timestamp(second * 1_000));
        }
        assert_eq!(
            tries.look(Link(1), Timestamp(10_000)),
            Err(TooManyTries {
                retry_after_seconds: 50
            })
        );
        assert_eq!(tries.look(Link(2), Timestamp(10_000)), Ok(()));
        assert_eq!(tries.look(Link(1), Timestamp(60_000)), Ok(()));
        tries.was_wrong(Link(1), Timestamp(60_000));
        assert_eq!(
            tries.look(Link(1), Timestamp(60_000)),
            Err(TooManyTries {
                retry_after_seconds: 1
            })
        );
    }

    #[test]
    fn a_right_password_leaves_nothing_behind() {
        let tries = PasswordTries::default();
        assert_eq!(tries.look(Link(1), Timestamp(0)), Ok(()));
        assert!(tries.tried.lock().is_empty());
    }

    #[test]
    fn a_clock_set_back_does_not_lock_a_link() {
        let tries = PasswordTries::default();
        for _ in 0..10 {
            tries.was_wrong(Link(1), Timestamp(10_000_000));
        }
        assert_eq!(tries.look(Link(1), Timestamp(0)), Ok(()));
    }

    #[test]
    fn of_too_many_links_the_oldest_is_forgotten() {
        let tries = PasswordTries {
            tried_max: 3,
            ..PasswordTries::default()
        };
        for link in 0..100 {
            tries.was_wrong(Link(link), Timestamp(link));
        }
        assert_eq!(tries.tried.lock().len(), 3);
        tries.was_wrong(Link(100), Timestamp(1_000_000));
        assert_eq!(tries.tried.lock().len(), 1);
    }

    proptest! {
        #[test]
        fn in_no_span_more_than_its_bound_are_looked_at(gaps in proptest::collection::vec(0..150_000_i64, 1..200)) {
            let (tries, mut now, mut looked_at) = (PasswordTries::default(), 0, Vec::new());
            let is_full = |looked_at: &[i64], now: i64| {
                OF_BROWSER.iter().any(|bound| {
                    let begin = now - i64::try_from(bound.within.as_millis()).unwrap();
                    let within = looked_at.iter().filter(|at| **at > begin).count();
                    assert!(within <= bound.tries);
                    within == bound.tries
                })
            };
            for gap in gaps {
                // Often close together, so that the minute's bound is met as well.
                now += gap / if gap % 3 == 0 { 1 } else { 100 };
                match tries.look(Browser, Timestamp(now)) {
                    Ok(()) => {
                        prop_assert!(!is_full(&looked_at, now));
                        tries.was_wrong(Browser, Timestamp(now));
                        looked_at.push(now);
                    }
                    Err(refused) => {
                        prop_assert!(is_full(&looked_at, now));
                        let wait = i64::try_from(refused.retry_after_seconds).unwrap() * 1_000;
                        prop_assert!(!is_full(&looked_at, now + wait));
                    }
                }
            }
        }
    }
}
