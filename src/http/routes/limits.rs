//! What a key may ask for, and what is left of it.

use colloquy_actors::limiter::RateLimitStatus;
use colloquy_actors::usage::QuotaStatus;
use colloquy_model::account::Plan;
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

/// How much is left of a key's burst.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BurstLimit)]
pub(super) struct BurstShown {
    /// The most requests in any 60 seconds.
    limit: u32,
    /// What may be spent at once.
    remaining: u32,
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
            limit: account.view.monthly_quota,
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
    let limits = shown(&status, principal.account.view.plan, QuotaShown::of(&call)?);
    Ok(Output::Text(Text {
        body: json::bytes(&limits),
        media_type: "application/json",
        cache: CachePolicy::Private,
        room: None,
    }))
}

fn shown(status: &RateLimitStatus, plan: Plan, quota: QuotaShown) -> LimitsShown {
    LimitsShown {
        plan,
        rate: RateShown {
            limit: status.limit,
            remaining: status.remaining,
            resets_at: Timestamp(status.reset_unix_seconds.saturating_mul(1_000)),
        },
        burst: BurstShown {
            limit: status.burst,
            remaining: status.burst_remaining,
        },
        quota,
    }
}
