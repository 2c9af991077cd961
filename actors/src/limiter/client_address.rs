//! Client addresses, as far as limits tell them apart. Requests without a key are limited by them:
//! failed authentication and share links.

use std::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::minute_limiter::MinuteLimiter;

/// A limit of requests a minute by client address.
pub type AddressLimiter = MinuteLimiter<ClientAddress>;

/// An IPv4 address or an IPv6 /64 network: a client with one address of a /64 has all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClientAddress(Network);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Network {
    V4([u8; 4]),
    V6(u64),
}

impl From<IpAddr> for ClientAddress {
    fn from(ip: IpAddr) -> Self {
        // An IPv4 address mapped into IPv6 is the same client.
        Self(match ip.to_canonical() {
            IpAddr::V4(v4) => Network::V4(v4.octets()),
            IpAddr::V6(v6) => Network::V6(network_of(v6)),
        })
    }
}

fn network_of(ip: Ipv6Addr) -> u64 {
    u64::try_from(ip.to_bits() >> 64).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use colloquy_model::time::Timestamp;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn sixty_failures_in_a_minute_block_the_address_and_waiting_as_told_frees_it() {
        let limiter = AddressLimiter::new(60);
        let guesser = ip("192.0.2.1");
        for failure in 0..60 {
            assert_eq!(limiter.blocked(guesser, Timestamp(failure)), None);
            limiter.take(guesser, Timestamp(failure));
        }
        let wait = limiter.blocked(guesser, Timestamp(900)).unwrap();
        assert_eq!(limiter.blocked(ip("192.0.2.2"), Timestamp(900)), None);
        // Failing on while blocked does not prolong it.
        assert_eq!(limiter.take(guesser, Timestamp(900)), Some(wait));
        limiter.take(guesser, Timestamp(901));
        let freed_ms = 900 + i64::try_from(wait).unwrap() * 1_000;
        assert_eq!(
            limiter.blocked(guesser, Timestamp(freed_ms - 1_000)),
            Some(1)
        );
        assert_eq!(limiter.take(guesser, Timestamp(freed_ms)), None);
    }

    #[test]
    fn an_ipv6_network_is_one_client_and_a_mapped_address_its_ipv4() {
        let limiter = AddressLimiter::new(1);
        limiter.take(ip("2001:db8:0:1::1"), Timestamp(0));
        limiter.take(ip("::ffff:192.0.2.1"), Timestamp(0));
        assert!(
            limiter
                .blocked(ip("2001:db8:0:1:ffff::2"), Timestamp(0))
                .is_some()
        );
        assert!(
            limiter
                .blocked(ip("2001:db8:0:2::1"), Timestamp(0))
                .is_none()
        );
        assert!(limiter.blocked(ip("192.0.2.1"), Timestamp(0)).is_some());
        assert!(limiter.blocked(ip("192.0.2.2"), Timestamp(0)).is_none());
    }

    #[test]
    fn threads_together_get_no_more_than_one_would() {
        let limiter = AddressLimiter::new(60);
        let passed = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        if limiter.take(ip("192.0.2.1"), Timestamp(0)).is_none() {
                            passed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(passed.into_inner(), 60);
    }

    #[test]
    fn a_flood_of_addresses_is_bounded() {
        let limiter = AddressLimiter::new(60);
        for address in 0..150_000_u32 {
            limiter.take(IpAddr::V4(address.into()), Timestamp(0));
        }
        assert_eq!(limiter.len(), 100_000);
    }
}
