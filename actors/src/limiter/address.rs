//! Limits by client address, for requests that have no key: failed authentication and shared links.
//! Asked synchronously by the HTTP threads; it knows nothing of credentials.

use std::net::{IpAddr, Ipv6Addr};

use super::shards::MinuteLimiter;

/// Whoever holds one address of an IPv6 /64 holds them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Client {
    V4([u8; 4]),
    V6Network(u64),
}

impl From<IpAddr> for Client {
    fn from(ip: IpAddr) -> Self {
        // An IPv4 address in IPv6 dress is the same client as without it.
        match ip.to_canonical() {
            IpAddr::V4(v4) => Self::V4(v4.octets()),
            IpAddr::V6(v6) => Self::V6Network(network_of(v6)),
        }
    }
}

fn network_of(ip: Ipv6Addr) -> u64 {
    u64::try_from(ip.to_bits() >> 64).unwrap_or(u64::MAX)
}

/// What each client address may still do in a minute.
pub struct AddressLimiter(MinuteLimiter<Client>);

impl AddressLimiter {
    /// Every address may do `per_minute` (at least 1).
    #[must_use]
    pub fn new(per_minute: u32) -> Self {
        Self(MinuteLimiter::new(per_minute))
    }

    /// The seconds after which the address may try again, if it may not now. Costs nothing.
    pub fn blocked(&self, ip: IpAddr, now_unix_ms: i64) -> Option<u64> {
        self.0.blocked(Client::from(ip), now_unix_ms)
    }

    /// Counts one failed authentication; when the address is blocked it costs nothing.
    pub fn failed(&self, ip: IpAddr, now_unix_ms: i64) {
        self.take(ip, now_unix_ms);
    }

    /// Counts one request, or, like [`Self::blocked`], tells how long to wait: both in one step, so
    /// that requests that come together can't slip through between.
    pub fn take(&self, ip: IpAddr, now_unix_ms: i64) -> Option<u64> {
        self.0.take(Client::from(ip), now_unix_ms)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn sixty_failures_in_a_minute_block_the_address_and_waiting_as_told_frees_it() {
        let limiter = AddressLimiter::new(60);
        let guesser = ip("192.0.2.1");
        for failure in 0..60 {
            assert_eq!(limiter.blocked(guesser, failure), None);
            limiter.failed(guesser, failure);
        }
        let wait = limiter.blocked(guesser, 900).unwrap();
        assert_eq!(limiter.blocked(ip("192.0.2.2"), 900), None);
        // Failing on while blocked does not prolong it.
        assert_eq!(limiter.take(guesser, 900), Some(wait));
        limiter.failed(guesser, 901);
        let freed_ms = 900 + i64::try_from(wait).unwrap() * 1_000;
        assert_eq!(limiter.blocked(guesser, freed_ms - 1_000), Some(1));
        assert_eq!(limiter.take(guesser, freed_ms), None);
    }

    #[test]
    fn an_ipv6_network_is_one_client_and_a_mapped_address_its_ipv4() {
        let limiter = AddressLimiter::new(1);
        limiter.failed(ip("2001:db8:0:1::1"), 0);
        limiter.failed(ip("::ffff:192.0.2.1"), 0);
        assert!(limiter.blocked(ip("2001:db8:0:1:ffff::2"), 0).is_some());
        assert!(limiter.blocked(ip("2001:db8:0:2::1"), 0).is_none());
        assert!(limiter.blocked(ip("192.0.2.1"), 0).is_some());
        assert!(limiter.blocked(ip("192.0.2.2"), 0).is_none());
    }

    #[test]
    fn threads_together_get_no_more_than_one_would() {
        let limiter = AddressLimiter::new(60);
        let passed = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        if limiter.take(ip("192.0.2.1"), 0).is_none() {
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
            limiter.failed(IpAddr::V4(address.into()), 0);
        }
        assert_eq!(limiter.0.len(), 100_000);
    }
}
