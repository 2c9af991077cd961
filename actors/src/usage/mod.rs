//! How much accounts use, and what they may: requests are counted in memory by day and credential,
//! written behind once a second, and compared with each account's monthly quota. Knows neither HTTP
//! nor plans.
//!
//! - `calendar.rs`: the day and the month in which something counts.
//! - `monthly_requests.rs`: an account's requests of this month, at all nodes; pure.
//! - [`UsageCounter`]: asked with each request, without an actor and without the store.
//! - `key_rates.rs`, `limits_watch.rs`: what operators see of keys and their limits.
//! - `alerts.rs`, pure, and `alerting.rs`: what accounts are told of their limits, as events.
//! - `report.rs`, `reading.rs`: what an account used between two days, and what is stored of it.
//! - [`Usage`]: what is counted, as it is written, read, and told to other nodes.

mod alerting;
mod alerts;
mod calendar;
mod counter;
mod key_rates;
mod limits_watch;
mod monthly_requests;
mod reading;
mod report;
mod writing;

pub use self::counter::{QuotaPermit, QuotaSpent, QuotaStatus, UsageCounter, Who};
pub use self::key_rates::{KeyHour, MinuteRates};
pub use self::limits_watch::{FindLimits, WatchedKey};
pub use self::reading::{StoredTotals, UsageList};
pub use self::report::{FindCredential, UsageGroup, UsagePeriod, UsageRow};
pub use self::writing::Usage;
