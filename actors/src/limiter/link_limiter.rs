//! The limits of requests for share links, by client address and by link, whether the link exists
//! or not. Asked by the HTTP threads without an actor; knows no link, only the token in a path.

use std::net::IpAddr;

use colloquy_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::allowance_table::Spent;
use super::client_address::{AddressLimiter, ClientAddress};
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
    links: MinuteLimiter<LinkKey>,
}

/// What is limited for one link: half a digest of its token, the same at every node. It says nothing
/// of the token, and nobody finds another token that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct LinkKey([u8; 16]);

impl LinkKey {
    fn of(token: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(token).into();
        let mut half = [0; 16];
        half.iter_mut()
            .zip(digest)
            .for_each(|(to, from)| *to = from);
        LinkKey(half)
    }
}

/// What was spent at a node for share links, by client address and by link.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct LinkSpending {
    addresses: Vec<Spent<ClientAddress>>,
    links: Vec<Spent<LinkKey>>,
}

impl LinkSpending {
    /// Whether nothing was spent.
    pub(super) fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.links.is_empty()
    }
}

impl LinkLimiter {
    /// Lets every address make `per_address` requests a minute, and every link have `per_link`
    /// (each at least 1).
    #[must_use]
    pub fn new(per_address: u32, per_link: u32) -> Self {
        LinkLimiter {
            addresses: AddressLimiter::new(per_address),
            links: MinuteLimiter::new(per_link),
        }
    }

    /// The same, of which other nodes are told what was spent.
    #[must_use]
    pub fn shared(per_address: u32, per_link: u32) -> Self {
        LinkLimiter {
            addresses: AddressLimiter::shared(per_address),
            links: MinuteLimiter::shared(per_link),
        }
    }

    /// What was spent since this was asked last.
    pub(super) fn take_spent(&self) -> LinkSpending {
        LinkSpending {
            addresses: self.addresses.take_spent(),
            links: self.links.take_spent(),
        }
    }

    /// Counts what was spent at another node.
    pub(super) fn spend_elsewhere(&self, spent: LinkSpending, now: Timestamp) {
        self.addresses.spend_elsewhere(spent.addresses, now);
        self.links.spend_elsewhere(spent.links, now);
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
        if let Some(seconds) = self.links.take(LinkKey::of(token), now) {
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
