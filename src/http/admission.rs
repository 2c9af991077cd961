//! Where a request comes from, and whether its key may make it now.

use std::net::IpAddr;

use colloquy_actors::accounts::{KnownAccount, Principal};
use colloquy_actors::limiter::{
    LimitKey, Limits, LinkRefusal, PeekPermit, RateLimitStatus, TakePermit,
};
use colloquy_actors::usage::{QuotaSpent, Who};
use colloquy_model::time::Timestamp;
use colloquy_runtime::shard::ShardError;

use super::app_state::AppState;
use super::authentication;
use super::problem::{Outcome, Problem, whole_seconds};

/// Where a request comes from, and when it came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// The address that the request counts for.
    pub(super) address: IpAddr,
    /// When the request came, by the wall clock.
    pub(super) at: Timestamp,
}

/// Checks the address, then counts the request; people in the console are not limited, nor counted.
/// The numbers of the limits go into `status`, whatever the outcome.
pub(super) async fn admit(
    app: &AppState,
    principal: &Principal,
    arrival: Arrival,
    status: &mut Option<RateLimitStatus>,
) -> Result<(), Problem> {
    if principal.session.is_some() {
        return Ok(());
    }
    if !authentication::address_allowed(principal, arrival.address) {
        *status = peek(app, principal, arrival.at).await;
        return Err(Problem::forbidden(
            "the key may not be used from this address",
        ));
    }
    spend(app, principal, arrival.at, status).await
}

/// Counts one request of this key, if its account's quota and its own limits let it pass. The numbers
/// of the limits go into `status`, whatever the outcome.
pub(super) async fn spend(
    app: &AppState,
    principal: &Principal,
    at: Timestamp,
    status: &mut Option<RateLimitStatus>,
) -> Result<(), Problem> {
    let quota = principal.account.monthly_quota();
    let permit = match app.system.usage.counter.reserve(who(principal), quota, at) {
        Ok(permit) => permit,
        Err(QuotaSpent { resets_at }) => {
            *status = peek(app, principal, at).await;
            return Err(Problem::quota_exceeded(whole_seconds(resets_at.since(at))));
        }
    };
    let taken = take(app, principal, at).await;
    if taken.is_err() {
        *status = peek(app, principal, at).await;
    }
    let taken = status.insert(taken?);
    if !taken.allowed {
        permit.refuse();
        return Err(Problem::rate_limited(
            "the key's rate limit is spent",
            taken.retry_after_seconds.unwrap_or(1),
        ));
    }
    permit.spend();
    Ok(())
}

/// Whose request it is, as it is counted.
fn who(principal: &Principal) -> Who {
    Who {
        account: principal.account.number,
        credential: principal.credential().into(),
    }
}

/// What is left of the limits of a key, where that is known.
pub(super) async fn peek(
    app: &AppState,
    principal: &Principal,
    at: Timestamp,
) -> Option<RateLimitStatus> {
    let peek = PeekPermit {
        key: LimitKey::from(principal.key.view.key_id.bits()),
        limits: limits(principal),
        now: at,
    };
    app.system.limiter.peek(peek).await.ok()
}

/// Counts one request for the share link with this token, if the limits of its address and of the
/// link let it pass.
pub(super) fn admit_link(app: &AppState, token: &str, arrival: Arrival) -> Result<(), Problem> {
    app.system
        .links
        .take(arrival.address, token, arrival.at)
        .map_err(|refused| match refused {
            LinkRefusal::Address(seconds) => {
                Problem::rate_limited("too many requests for links from this address", seconds)
            }
            LinkRefusal::Link(seconds) => {
                Problem::rate_limited("too many requests for this link", seconds)
            }
        })
}

/// Takes a permit of the limits of a key, if there is one.
async fn take(
    app: &AppState,
    principal: &Principal,
    at: Timestamp,
) -> Result<RateLimitStatus, Problem> {
    let take = TakePermit {
        key: LimitKey::from(principal.key.view.key_id.bits()),
        limits: limits(principal),
        permits: 1,
        now: at,
    };
    let taken = app.system.limiter.take(take).await;
    taken.map_err(|error| match error {
        ShardError::Crashed => Problem::crashed_before_start(),
        ShardError::Lost => {
            Problem::unavailable("the rate limiter does not answer", Outcome::None, 1)
        }
    })
}

/// The limits of the principal's key.
fn limits(principal: &Principal) -> Limits {
    account_limits(&principal.account)
}

/// The limits that an account's plan gives each of its keys.
pub(super) fn account_limits(account: &KnownAccount) -> Limits {
    let (rate, burst) = account.rates();
    Limits::new(rate, burst)
}
