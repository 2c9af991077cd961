//! Where a request comes from, and whether its key may make it now.

use std::net::{IpAddr, Ipv4Addr};

use actix_web::HttpRequest;
use actix_web::http::header::HeaderName;
use colloquy_actors::accounts::Principal;
use colloquy_actors::limiter::{LinkRefusal, Permit};
use ipnet::IpNet;

use super::app_state::AppState;
use super::authentication;
use super::problem::{Outcome, Problem};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The client's address: the peer's, or behind proxies that are believed, the last one that is none
/// of them.
pub(super) fn client_address(proxies: &[IpNet], request: &HttpRequest) -> IpAddr {
    let peer = request
        .peer_addr()
        .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| {
            peer.ip().to_canonical()
        });
    let believed = |address: &IpAddr| proxies.iter().any(|range| range.contains(address));
    if !believed(&peer) {
        return peer;
    }
    let lines = request
        .headers()
        .get_all(FORWARDED_FOR)
        .filter_map(|line| line.to_str().ok());
    let hops: Vec<&str> = lines.flat_map(|line| line.split(',')).collect();
    let mut address = peer;
    for hop in hops.into_iter().rev() {
        let Ok(hop) = hop.trim().parse::<IpAddr>() else {
            return address;
        };
        address = hop.to_canonical();
        if !believed(&address) {
            return address;
        }
    }
    address
}

/// Address, then rate. What the limits are like goes into `permit`, whatever the outcome.
pub(super) async fn admit(
    app: &AppState,
    principal: &Principal,
    from: (IpAddr, i64),
    permit: &mut Option<Permit>,
) -> Result<(), Problem> {
    let (address, now_ms) = from;
    if !authentication::address_allowed(principal, address) {
        let (key, account) = (principal.key.view.key_id.bits(), &principal.account.view);
        let limits = (account.rate_per_minute, account.burst_per_minute);
        *permit = app.system.limiter.peek(key, limits, now_ms).await;
        return Err(Problem::forbidden(
            "the key may not be used from this address",
        ));
    }
    granted(permit.insert(take(app, principal, now_ms).await?))
}

/// Counts one request for the share link with this token, if the limits of its address and of the
/// link let it pass.
pub(super) fn admit_link(app: &AppState, token: &str, from: (IpAddr, i64)) -> Result<(), Problem> {
    let (address, now_ms) = from;
    app.system
        .links
        .take(address, token, now_ms)
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
    now_ms: i64,
) -> Result<Permit, Problem> {
    let (key, account) = (principal.key.view.key_id.bits(), &principal.account.view);
    let limits = (account.rate_per_minute, account.burst_per_minute);
    let taken = app.system.limiter.take(key, limits, 1, now_ms).await;
    taken.ok_or_else(|| Problem::unavailable("the rate limiter does not answer", Outcome::None, 1))
}

/// Whether the permit lets the request pass.
pub(super) fn granted(permit: &Permit) -> Result<(), Problem> {
    if permit.allowed {
        return Ok(());
    }
    Err(Problem::rate_limited(
        "the key's rate limit is spent",
        permit.retry_after_seconds.unwrap_or(1),
    ))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn only_proxies_that_are_believed_may_name_the_client() {
        let request = TestRequest::default()
            .peer_addr("10.0.0.9:1".parse().unwrap())
            .insert_header(("x-forwarded-for", "1.1.1.1, 203.0.113.7, 10.0.0.8"))
            .to_http_request();
        let of = |proxies: &[&str]| {
            let proxies: Vec<IpNet> = proxies.iter().map(|text| text.parse().unwrap()).collect();
            client_address(&proxies, &request).to_string()
        };
        assert_eq!(of(&[]), "10.0.0.9");
        assert_eq!(of(&["10.0.0.0/8"]), "203.0.113.7");
    }
}
