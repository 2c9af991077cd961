//! Where a request comes from, and whether its key may make it now.

use std::net::IpAddr;

use colloquy_actors::accounts::Principal;
use colloquy_actors::limiter::{
    LimitKey, Limits, LinkRefusal, PeekPermit, RateLimitStatus, TakePermit,
};
use colloquy_model::time::Timestamp;
use colloquy_runtime::shard::ShardError;

use super::app_state::AppState;
use super::authentication;
use super::problem::{Outcome, Problem};

/// Where a request comes from, and when it came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// The address that the request counts for.
    pub(super) address: IpAddr,
    /// When the request came, by the wall clock.
    pub(super) at: Timestamp,
}

/// Checks the address, then counts the request; people in the console are not limited. The numbers of the limits go into `status`, whatever
/// the outcome.
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
    let taken = take(app, principal, arrival.at).await;
    if taken.is_err() {
        *status = peek(app, principal, arrival.at).await;
    }
    granted(status.insert(taken?))
}

/// What is left of the limits of a key, where that is known.
async fn peek(app: &AppState, principal: &Principal, at: Timestamp) -> Option<RateLimitStatus> {
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

/// Counts one request of this key, if its limits let it pass.
pub(super) async fn take(
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

/// The limits that the plan of the principal's account gives each of its keys.
fn limits(principal: &Principal) -> Limits {
    let account = &principal.account.view;
    Limits::new(account.rate_per_minute, account.burst_per_minute)
}

/// Refuses a request that its rate limit does not let pass.
pub(super) fn granted(status: &RateLimitStatus) -> Result<(), Problem> {
    if status.allowed {
        return Ok(());
    }
    Err(Problem::rate_limited(
        "the key's rate limit is spent",
        status.retry_after_seconds.unwrap_or(1),
    ))
}
