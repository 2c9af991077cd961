//! Limits of what comes through share links, by client address and by link, whether a link opens or
//! not. Asked synchronously by the HTTP threads; it knows no link, only what stands in a path.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use super::address::AddressLimiter;
use super::shards::MinuteLimiter;

/// Which of the two limits is spent, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkRefusal {
    /// The address has made too many requests; whole seconds until the next one passes.
    Address(u64),
    /// The link has had too many requests; whole seconds until the next one passes.
    Link(u64),
}

/// What each address may still ask of share links in a minute, and what may still be asked of each
/// link.
pub struct LinkLimiter {
    addresses: AddressLimiter,
    /// By a keyed hash of the token, so that nobody can choose two that meet.
    links: MinuteLimiter<u64>,
    hasher: RandomState,
}

impl LinkLimiter {
    /// Every address may make so many requests a minute, and so many may be made of every link
    /// (each at least 1).
    #[must_use]
    pub fn new(per_address: u32, per_link: u32) -> Self {
        LinkLimiter {
            addresses: AddressLimiter::new(per_address),
            links: MinuteLimiter::new(per_link),
            hasher: RandomState::new(),
        }
    }

    /// Counts one request of an address for the link with this token. What one limit refuses does
    /// not count for the other.
    ///
    /// # Errors
    /// Which of the two limits is spent, and for how long.
    pub fn take(&self, address: IpAddr, token: &str, now_unix_ms: i64) -> Result<(), LinkRefusal> {
        if let Some(seconds) = self.addresses.blocked(address, now_unix_ms) {
            return Err(LinkRefusal::Address(seconds));
        }
        if let Some(seconds) = self.links.take(self.hasher.hash_one(token), now_unix_ms) {
            return Err(LinkRefusal::Link(seconds));
        }
        self.addresses
            .take(address, now_unix_ms)
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
            assert_eq!(limiter.take(address(1), link, 0), Ok(()));
        }
        let Err(LinkRefusal::Address(wait)) = limiter.take(address(1), "d", 900) else {
            unreachable!("the fourth is refused")
        };
        assert_eq!(limiter.take(address(2), "d", 900), Ok(()));
        assert_eq!(
            limiter.take(
                address(1),
                "d",
                900 + i64::try_from(wait).unwrap_or(0) * 1_000
            ),
            Ok(())
        );
    }

    #[test]
    fn a_link_may_be_asked_so_often_whoever_comes_and_what_is_refused_costs_its_address_nothing() {
        let limiter = LinkLimiter::new(3, 2);
        assert_eq!(limiter.take(address(1), "a", 0), Ok(()));
        assert_eq!(limiter.take(address(2), "a", 0), Ok(()));
        for _ in 0..10 {
            assert!(matches!(
                limiter.take(address(3), "a", 0),
                Err(LinkRefusal::Link(_))
            ));
        }
        for link in ["b", "c", "d"] {
            assert_eq!(limiter.take(address(3), link, 0), Ok(()));
        }
    }
}
