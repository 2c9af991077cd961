//! What a key may ask for, and what is left of it; for operators, the keys that come near to that.

use colloquy_actors::limiter::RateLimitStatus;
use colloquy_actors::usage::{QuotaStatus, WatchedKey};
use colloquy_model::account::Plan;
use colloquy_model::id::AccountId;
use colloquy_model::json;
use colloquy_model::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::admission;
use super::super::api_call::ApiCall;
use super::super::output::{CachePolicy, Output, Text};
use super::super::problem::{Outcome, Problem};
use super::super::query::NoQuery;

/// The limits of the calling key, this request counted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Limits)]
pub(super) struct LimitsShown {
    /// The account's plan.
    plan: Plan,
    /// Requests a minute in the long run.
    rate: RateShown,
    /// Requests at once.
    burst: BurstShown,
    /// Requests of the account in this month.
    quota: QuotaShown,
}

/// How much is left of a key's rate.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RateLimit)]
pub(super) struct RateShown {
    /// Requests a minute.
    limit: u32,
    /// What is left of them in the last 60 seconds.
    remaining: u32,
    /// When it would be whole again if nothing more came.
    resets_at: Timestamp,
}

impl From<&RateLimitStatus> for RateShown {
    fn from(status: &RateLimitStatus) -> Self {
        RateShown {
            limit: status.limit,
            remaining: status.remaining,
            resets_at: Timestamp(status.reset_unix_seconds.saturating_mul(1_000)),
        }
    }
}

/// How much is left of a key's burst.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BurstLimit)]
pub(super) struct BurstShown {
    /// The most requests in any 60 seconds.
    limit: u32,
    /// What may be spent at once.
    remaining: u32,
}

impl From<&RateLimitStatus> for BurstShown {
    fn from(status: &RateLimitStatus) -> Self {
        BurstShown {
            limit: status.burst,
            remaining: status.burst_remaining,
        }
    }
}

/// How much an account has used of its quota.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Quota)]
pub(super) struct QuotaShown {
    /// Requests per calendar month (UTC); 0: no bound.
    limit: u64,
    /// Requests of this month, by all keys of the account in both modes.
    used: u64,
    /// When the next month begins.
    resets_at: Timestamp,
}

impl QuotaShown {
    /// The quota of the account that calls.
    pub(super) fn of(call: &ApiCall) -> Result<Self, Problem> {
        let account = &call.principal().ok_or_else(Problem::not_found)?.account;
        let usage = &call.app.system.usage;
        let QuotaStatus { used, resets_at } = usage.counter.quota(account.number, call.now);
        Ok(QuotaShown {
            limit: account.monthly_quota(),
            used,
            resets_at,
        })
    }
}

pub(super) async fn show(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let principal = call.principal().ok_or_else(Problem::not_found)?;
    let status = admission::peek(&call.app, principal, call.now).await;
    let status = status.ok_or_else(|| {
        Problem::unavailable("the rate limiter does not answer", Outcome::None, 1)
    })?;
    let limits = LimitsShown {
        plan: principal.account.view.plan,
        rate: (&status).into(),
        burst: (&status).into(),
        quota: QuotaShown::of(&call)?,
    };
    Ok(Output::Text(Text {
        body: json::bytes(&limits),
        media_type: "application/json",
        cache: CachePolicy::Private,
        room: None,
    }))
}

/// The keys that operators watch.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WatchedLimits {
    /// The keys that have spent the largest part of what they may spend at once, nearest to their limits first; at
    /// most 20.
    nearest: Vec<WatchedKeyShown>,
    /// The keys that were refused for a limit most often in the last hour, most often first; at most 20.
    refused: Vec<WatchedKeyShown>,
}

/// A key, what is left of its limits, and its last hour.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WatchedKey)]
pub(super) struct WatchedKeyShown {
    /// Whose key it is.
    account_id: AccountId,
    /// The key, or the client of access tokens.
    key_id: String,
    /// Requests a minute in the long run.
    rate: RateShown,
    /// Requests at once.
    burst: BurstShown,
    /// Requests of the account in this month.
    quota: QuotaShown,
    /// Its minutes of the last hour, oldest first; the last one is running.
    minutes: Vec<MinuteShown>,
}

/// What a key asked in one minute, at all nodes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = KeyMinute)]
pub(super) struct MinuteShown {
    /// When the minute begins.
    start: Timestamp,
    /// Requests that were let in.
    requests: u32,
    /// Requests that its rate or burst refused.
    rate_limited: u32,
    /// Requests that its account's quota refused.
    quota_exceeded: u32,
}

const MINUTE_MS: i64 = 60_000;

pub(super) async fn watch(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let (system, now) = (&call.app.system, call.now);
    let find = |account| {
        let account = system.identity.account_numbered(account)?;
        Some(admission::account_limits(&account))
    };
    let nearest = system.usage.nearest_to_limits(&system.limiter, &find, now);
    let nearest = nearest.await;
    let refused = system.usage.refused_most(&system.limiter, &find, now).await;
    let shown = |keys: Vec<WatchedKey>| {
        let shown = keys.iter().filter_map(|key| watched(&call, key));
        shown.collect()
    };
    let limits = WatchedLimits {
        nearest: shown(nearest),
        refused: shown(refused),
    };
    Ok(Output::Text(Text {
        body: json::bytes(&limits),
        media_type: "application/json",
        cache: CachePolicy::NoStore,
        room: None,
    }))
}

/// A key as operators see it; none where its account is no more.
fn watched(call: &ApiCall, WatchedKey { hour, status }: &WatchedKey) -> Option<WatchedKeyShown> {
    let system = &call.app.system;
    let account = system.identity.account_numbered(hour.who.account)?;
    let QuotaStatus { used, resets_at } = system.usage.counter.quota(account.number, call.now);
    let running = call.now.0 - call.now.0.rem_euclid(MINUTE_MS);
    let minutes = hour.minutes.iter().rev().zip(0_i64..);
    let mut minutes: Vec<MinuteShown> = minutes
        .map(|(rates, ago)| MinuteShown {
            start: Timestamp(running - ago * MINUTE_MS),
            requests: rates.requests,
            rate_limited: rates.rate_limited,
            quota_exceeded: rates.quota_exceeded,
        })
        .collect();
    minutes.reverse();
    Some(WatchedKeyShown {
        account_id: account.view.account_id,
        key_id: hour.who.credential.shown()?,
        rate: status.into(),
        burst: status.into(),
        quota: QuotaShown {
            limit: account.monthly_quota(),
            used,
            resets_at,
        },
        minutes,
    })
}
