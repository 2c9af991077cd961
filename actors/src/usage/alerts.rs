//! What an account is told of its limits, in one mode: which warnings are due, and which it has had.
//! Pure rules; the account's record holds what it has been told.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::limiter::Limits;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{AccountId, KeyId};
use colloquy_model::json;
use colloquy_model::time::Timestamp;

/// Parts of the quota of which an account is warned when so much is used, in percent.
const PERCENTS: [u8; 2] = [80, 100];
/// How long a key that was told of is not told of again.
const QUIET: Duration = Duration::from_hours(1);
/// Keys of an account and mode that are told of within that time; more are left out.
const KEYS_MAX: usize = 1_000;

/// How much of its quota an account has used in a month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuotaUse {
    /// The month, by the instant at which it begins in UTC.
    pub(super) month: Timestamp,
    /// Requests that were let in.
    pub(super) used: u64,
    /// Requests that may be; 0: any number.
    pub(super) limit: u64,
}

/// A request that a key's rate limit refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The key that made the request.
    pub(super) key: KeyId,
    /// When the request was refused.
    pub(super) at: Timestamp,
    /// What the key may ask.
    pub(super) limits: Limits,
}

/// The data of an `account.quota_warning`.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct QuotaWarning {
    account_id: AccountId,
    percent: u8,
    used: u64,
    limit: u64,
    month: String,
}

/// The data of an `account.rate_limited`.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct RateLimited {
    account_id: AccountId,
    key_id: KeyId,
    limit: u32,
    burst: u32,
    at: Timestamp,
}

/// A warning that is due: the kind of its event, and the event's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alert {
    pub(super) kind: EventKind,
    pub(super) data: Bytes,
}

/// What an account was told in one mode.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    /// The month of the last warning of the quota; none where there was none.
    month: Option<Timestamp>,
    /// The warnings of that month, in percent.
    percents: Vec<u8>,
    /// The keys that were told of lately, with the refusal that was told.
    keys: BTreeMap<KeyId, Timestamp>,
}

impl Told {
    /// Adds what is due of the quota; gives the warnings. One of a month before the last one's is
    /// none: the clock was set back, or another node's is ahead.
    pub(super) fn add_quota(&mut self, account: AccountId, quota: QuotaUse) -> Vec<Alert> {
        let QuotaUse { month, used, limit } = quota;
        if limit == 0 || self.month.is_some_and(|last| last > month) {
            return Vec::new();
        }
        let is_new_month = self.month != Some(month);
        let is_due = |percent: &u8| {
            u128::from(used) * 100 >= u128::from(limit) * u128::from(*percent)
                && (is_new_month || !self.percents.contains(percent))
        };
        let due: Vec<u8> = PERCENTS.into_iter().filter(is_due).collect();
        if due.is_empty() {
            return Vec::new();
        }
        if is_new_month {
            (self.month, self.percents) = (Some(month), Vec::new());
        }
        self.percents.extend(&due);
        let warnings = due.into_iter().map(|percent| Alert {
            kind: EventKind::AccountQuotaWarning,
            data: json::bytes(&QuotaWarning {
                account_id: account,
                percent,
                used,
                limit,
                month: month_name(month),
            }),
        });
        warnings.collect()
    }

    /// Adds a key's refusal, if it is the first in an hour; gives the warning.
    pub(super) fn add_refusal(&mut self, account: AccountId, refusal: Refusal) -> Option<Alert> {
        let Refusal { key, at, limits } = refusal;
        if self.keys.get(&key).is_some_and(|told| *told + QUIET > at) {
            return None;
        }
        self.keys.retain(|_, told| *told + QUIET > at);
        if self.keys.len() >= KEYS_MAX {
            return None;
        }
        self.keys.insert(key, at);
        Some(Alert {
            kind: EventKind::AccountRateLimited,
            data: json::bytes(&RateLimited {
                account_id: account,
                key_id: key,
                limit: limits.rate_per_minute(),
                burst: limits.burst(),
                at,
            }),
        })
    }
}

/// A month as people write it: `2026-11`.
fn month_name(month: Timestamp) -> String {
    let mut text = month.to_string();
    text.truncate("2026-11".len());
    text
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        reason = "a test fails by panicking"
    )]
    use serde_json::Value;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn account() -> AccountId {
        AccountId::new(at("2026-11-01T00:00:00Z"))
    }

    fn november(used: u64, limit: u64) -> QuotaUse {
        QuotaUse {
            month: at("2026-11-01T00:00:00Z"),
            used,
            limit,
        }
    }

    fn percents(alerts: &[Alert]) -> Vec<u64> {
        let data = alerts.iter().map(|alert| -> Value {
            assert_eq!(alert.kind, EventKind::AccountQuotaWarning);
            serde_json::from_slice(&alert.data).unwrap()
        });
        data.map(|data| data["percent"].as_u64().unwrap()).collect()
    }

    #[test]
    fn a_quota_is_warned_of_at_80_and_at_100_percent_once_a_month_each() {
        let (mut told, account) = (Told::default(), account());
        let warned = |told: &mut Told, quota| percents(&told.add_quota(account, quota));
        assert!(warned(&mut told, november(7, 10)).is_empty());
        assert!(warned(&mut told, november(1_000, 0)).is_empty(), "no quota");
        assert_eq!(told, Told::default());
        assert_eq!(warned(&mut told, november(8, 10)), [80]);
        assert!(warned(&mut told, november(9, 10)).is_empty());
        assert_eq!(warned(&mut told, november(10, 10)), [100]);
        assert!(warned(&mut told, november(8, 8)).is_empty(), "lowered");
        let december = QuotaUse {
            month: at("2026-12-01T00:00:00Z"),
            ..november(12, 10)
        };
        assert_eq!(warned(&mut told, december), [80, 100]);
        assert!(
            warned(&mut told, november(10, 10)).is_empty(),
            "a month that is over"
        );
        let large = november(u64::MAX, 1 << 53);
        assert_eq!(warned(&mut Told::default(), large), [80, 100]);
    }

    #[test]
    fn a_warning_says_how_much_of_which_month() {
        let alerts = Told::default().add_quota(account(), november(8, 10));
        let data: Value = serde_json::from_slice(&alerts.first().unwrap().data).unwrap();
        assert_eq!(data["used"], 8);
        assert_eq!(data["limit"], 10);
        assert_eq!(data["month"], "2026-11");
    }

    fn refusal(key: KeyId, at: Timestamp) -> Refusal {
        Refusal {
            key,
            at,
            limits: Limits::new(60, 90),
        }
    }

    #[test]
    fn a_key_is_told_of_once_in_an_hour_and_each_for_itself() {
        let (mut told, account) = (Told::default(), account());
        let begun = at("2026-11-15T12:00:00Z");
        let (one, other) = (KeyId::new(begun), KeyId::new(begun));
        let mut is_told = |key, after: Duration| {
            told.add_refusal(account, refusal(key, begun + after))
                .is_some()
        };
        assert!(is_told(one, Duration::ZERO));
        assert!(!is_told(one, QUIET - Duration::from_millis(1)));
        assert!(is_told(other, Duration::from_mins(30)));
        assert!(is_told(one, QUIET));
        assert!(!is_told(other, QUIET));
        assert!(is_told(other, QUIET * 2));
    }

    #[test]
    fn no_more_keys_are_held_than_were_refused_in_an_hour_and_so_many_at_most() {
        let (mut told, account) = (Told::default(), account());
        let begun = at("2026-11-15T12:00:00Z");
        for _ in 0..KEYS_MAX {
            assert!(
                told.add_refusal(account, refusal(KeyId::new(begun), begun))
                    .is_some()
            );
        }
        assert!(
            told.add_refusal(account, refusal(KeyId::new(begun), begun))
                .is_none()
        );
        let later = refusal(KeyId::new(begun), begun + QUIET);
        assert!(told.add_refusal(account, later).is_some());
        assert_eq!(told.keys.len(), 1);
    }
}
