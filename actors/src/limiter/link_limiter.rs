//! The limits of requests for share links, by client address and by link, whether the link exists
//! or not. Asked by the HTTP threads without an actor; knows no link, only the token in a path.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use colloquy_model::time::Timestamp;

use super::client_address::AddressLimiter;
use super::minute_limiter::MinuteLimiter;

/// The limit that refused a request for a share link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkRefusal {
    /// The address has made too many requests; the next one passes after this many seconds.
    Address(u64),
    /// The link has had too many requests; the next one passes after this many seconds.
    Link(u64),
}

/// Two limits of requests a minute for share links: by client address and by link.
pub struct LinkLimiter {
    addresses: AddressLimiter,
    /// By a keyed hash of the token, so that nobody can choose two that collide.
    links: MinuteLimiter<u64>,
    hasher: RandomState,
}

impl LinkLimiter {
    /// Lets every address make `per_address` requests a minute, and every link have `per_link`
    /// (each at least 1).
    #[must_use]
    pub fn new(per_address: u32, per_link: u32) -> Self {
        LinkLimiter {
            addresses: AddressLimiter::new(per_address),
            links: MinuteLimiter::new(per_link),
            hasher: RandomState::new(),
        }
    }

    /// Counts a request of an address for the link with this token. A request that one limit
    /// refuses does not count for the other.
    ///
    /// # Errors
    /// The limit that refuses the request.
    pub fn take(&self, address: IpAddr, token: &str, now: Timestamp) -> Result<(), LinkRefusal> {
        if let Some(seconds) = self.addresses.blocked(address, now) {
            return Err(LinkRefusal::Address(seconds));
        }
        if let Some(seconds) = self.links.take(self.hasher.hash_one(token), now) {
            return Err(LinkRefusal::Link(seconds));
        }
        self.addresses
            .take(address, now)
            .map_or(Ok(()), |seconds| Err(LinkRefusal::Address(seconds)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, last).into()
    }

    #[test]
    fn an_address_may_ask_so_often_whatever_the_link_and_waiting_as_told_frees_it() {
        let limiter = LinkLimiter::new(3, 100);
        for link in ["a", "b", "c"] {
            assert_eq!(limiter.take(address(1), link, Timestamp(0)), Ok(()));
        }
        let Err(LinkRefusal::Address(wait)) = limiter.take(address(1), "d", Timestamp(900)) else {
            unreachable!("the fourth is refused")
        };
        assert_eq!(limiter.take(address(2), "d", Timestamp(900)), Ok(()));
        assert_eq!(
            limiter.take(
                address(1),
                "d",
                Timestamp(900 + i64::try_from(wait).unwrap_or(0) * 1_000)
            ),
            Ok(())
        );
    }

    #[test]
    fn a_link_may_be_asked_so_often_whoever_comes_and_what_is_refused_costs_its_address_nothing() {
        let limiter = LinkLimiter::new(3, 2);
        assert_eq!(limiter.take(address(1), "a", Timestamp(0)), Ok(()));
        assert_eq!(limiter.take(address(2), "a", Timestamp(0)), Ok(()));
        for _ in 0..10 {
            assert!(matches!(
                limiter.take(address(3), "a", Timestamp(0)),
                Err(LinkRefusal::Link(_))
            ));
        }
        for link in ["b", "c", "d"] {
            assert_eq!(limiter.take(address(3), link, Timestamp(0)), Ok(()));
        }
    }
}
