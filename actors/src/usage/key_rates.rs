//! How often keys asked and were refused in each minute of the last hour, at all nodes: what operators
//! see of limits. In memory only, of so many keys at most; knows no clock.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::counter::Who;
use colloquy_model::time::Timestamp;

/// Minutes of which the rates are kept, the running one among them.
const MINUTES: usize = 60;
const MINUTE_MS: i64 = 60_000;
/// Keys of which rates are kept (about 8 MB). With more, those that come while all have asked within
/// the hour are left out.
const KEYS_MAX: usize = 10_000;

/// What a key asked in one minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinuteRates {
    /// Requests that were let in.
    pub requests: u32,
    /// Requests that its rate limit refused.
    pub rate_limited: u32,
    /// Requests that its account's quota refused.
    pub quota_exceeded: u32,
}

impl MinuteRates {
    fn add(&mut self, more: MinuteRates) {
        self.requests = self.requests.saturating_add(more.requests);
        self.rate_limited = self.rate_limited.saturating_add(more.rate_limited);
        self.quota_exceeded = self.quota_exceeded.saturating_add(more.quota_exceeded);
    }

    /// Requests that were refused for either limit.
    #[must_use]
    pub fn refused(self) -> u32 {
        self.rate_limited.saturating_add(self.quota_exceeded)
    }
}

/// A key's last hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyHour {
    /// Whose it is.
    pub who: Who,
    /// Its minutes, oldest first; the last one is running.
    pub minutes: Vec<MinuteRates>,
}

impl KeyHour {
    /// What it asked in the whole hour.
    #[must_use]
    pub fn sum(&self) -> MinuteRates {
        let mut sum = MinuteRates::default();
        self.minutes.iter().for_each(|minute| sum.add(*minute));
        sum
    }

    /// What was let in of it in the running minute and the one before.
    #[must_use]
    pub fn lately(&self) -> u32 {
        let last = self.minutes.iter().rev().take(2);
        last.fold(0, |sum, minute| sum.saturating_add(minute.requests))
    }
}

/// The minutes of one key: a ring in which each minute has its place.
struct Ring {
    minutes: [MinuteRates; MINUTES],
    /// The minute that was counted in last, since 1970.
    newest: i64,
}

impl Ring {
    /// The place of a minute.
    fn place(minute: i64) -> usize {
        usize::try_from(minute.rem_euclid(MINUTES as i64)).unwrap_or(0)
    }

    fn add(&mut self, minute: i64, rates: MinuteRates) {
        if self.newest - minute >= MINUTES as i64 {
            // The clock was set back.
            self.minutes = [MinuteRates::default(); MINUTES];
            self.newest = minute;
        }
        // What lies between, or an hour and more ago, was another hour's.
        let first = (self.newest + 1).max(minute - MINUTES as i64 + 1);
        for passed in first..=minute {
            if let Some(place) = self.minutes.get_mut(Self::place(passed)) {
                *place = MinuteRates::default();
            }
        }
        self.newest = self.newest.max(minute);
        if let Some(place) = self.minutes.get_mut(Self::place(self.newest)) {
            place.add(rates);
        }
    }

    /// The minutes of the hour that ends with this one.
    fn until(&self, minute: i64) -> Vec<MinuteRates> {
        let hour = minute - MINUTES as i64 + 1..=minute;
        let kept = self.newest - MINUTES as i64 + 1..=self.newest;
        let of = |one: i64| match kept.contains(&one) {
            true => self.minutes.get(Self::place(one)).copied(),
            false => None,
        };
        hour.map(|one| of(one).unwrap_or_default()).collect()
    }
}

/// The last hour of many keys.
#[derive(Default)]
pub(super) struct KeyRates(Mutex<HashMap<Who, Ring>>);

impl KeyRates {
    /// Adds what keys asked in the minute of this instant.
    pub(super) fn add(&self, rates: impl IntoIterator<Item = (Who, MinuteRates)>, now: Timestamp) {
        let minute = now.0.div_euclid(MINUTE_MS);
        let mut rings = self.0.lock();
        for (who, rates) in rates {
            if rings.len() >= KEYS_MAX && !rings.contains_key(&who) {
                rings.retain(|_, ring| ring.newest > minute - MINUTES as i64);
                if rings.len() >= KEYS_MAX {
                    continue;
                }
            }
            let ring = rings.entry(who).or_insert_with(|| Ring {
                minutes: [MinuteRates::default(); MINUTES],
                newest: minute,
            });
            ring.add(minute, rates);
        }
    }

    /// The keys that rank highest, and that rank above 0, highest first.
    pub(super) fn highest(
        &self,
        most: usize,
        now: Timestamp,
        rank: impl Fn(&KeyHour) -> u64,
    ) -> Vec<KeyHour> {
        let minute = now.0.div_euclid(MINUTE_MS);
        let mut highest: Vec<(u64, KeyHour)> = Vec::new();
        for (who, ring) in &*self.0.lock() {
            let hour = KeyHour {
                who: *who,
                minutes: ring.until(minute),
            };
            let ranks = rank(&hour);
            if ranks == 0 {
                continue;
            }
            let place = highest.partition_point(|(other, _)| *other >= ranks);
            if place < most {
                highest.insert(place, (ranks, hour));
                highest.truncate(most);
            }
        }
        highest.into_iter().map(|(_, hour)| hour).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colloquy_model::usage::CountedCredential;

    fn who(code: i64) -> Who {
        Who {
            account: 1,
            credential: CountedCredential { code, tail: 1 },
        }
    }

    fn requests(requests: u32) -> MinuteRates {
        MinuteRates {
            requests,
            ..MinuteRates::default()
        }
    }

    fn at(minute: i64) -> Timestamp {
        Timestamp((30_000_000 + minute) * MINUTE_MS + 1)
    }

    fn by_minute(rates: &KeyRates, now: Timestamp) -> Vec<Vec<u32>> {
        let all = rates.highest(10, now, |hour| u64::from(hour.sum().requests));
        let shown = all.iter().map(|hour| {
            let minutes = hour.minutes.iter().map(|minute| minute.requests);
            minutes.collect()
        });
        shown.collect()
    }

    /// An hour in which something was asked in these minutes.
    fn hour(asked: &[(usize, u32)]) -> Vec<u32> {
        let of = |minute| asked.iter().find(|(place, _)| *place == minute);
        (0..MINUTES)
            .map(|minute| of(minute).map_or(0, |(_, requests)| *requests))
            .collect()
    }

    #[test]
    fn the_last_hour_stands_minute_by_minute_and_what_is_older_goes() {
        let rates = KeyRates::default();
        for (minute, count) in [(0, 1), (0, 2), (1, 4), (59, 8)] {
            rates.add([(who(7), requests(count))], at(minute));
        }
        assert_eq!(
            by_minute(&rates, at(59)),
            [hour(&[(0, 3), (1, 4), (59, 8)])]
        );
        assert_eq!(by_minute(&rates, at(60)), [hour(&[(0, 4), (58, 8)])]);
        rates.add([(who(7), requests(16))], at(61));
        assert_eq!(by_minute(&rates, at(61)), [hour(&[(57, 8), (59, 16)])]);
        rates.add([(who(7), requests(1))], at(500));
        assert_eq!(by_minute(&rates, at(500)), [hour(&[(59, 1)])]);
        assert!(by_minute(&rates, at(560)).is_empty());
    }

    #[test]
    fn more_keys_than_are_kept_are_left_out_until_others_were_quiet_for_an_hour() {
        let rates = KeyRates::default();
        let all = (0..KEYS_MAX as i64).map(|code| (who(code), requests(1)));
        rates.add(all, at(0));
        rates.add([(who(-1), requests(9))], at(1));
        assert_eq!(rates.0.lock().len(), KEYS_MAX);
        rates.add([(who(-1), requests(9))], at(61));
        let highest = rates.highest(1, at(61), |hour| u64::from(hour.lately()));
        assert_eq!(highest.first().map(|hour| hour.who), Some(who(-1)));
        assert_eq!(rates.0.lock().len(), 1);
    }
}
