//! Where deliveries may go: which URLs, and which addresses. Knows no network: who resolves a name
//! asks here about each address that it got.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// What a delivery connects to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A name that is to be resolved, and a port.
    Name(String, u16),
    /// An address that stands in the URL itself.
    Address(IpAddr),
}

/// Whether deliveries may go to special-purpose addresses, and over plain `http`, as the operator
/// has set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateTargets {
    /// They may, as to a receiver on the same machine.
    Allowed,
    /// Targets on private addresses are refused.
    Refused,
}

impl PrivateTargets {
    /// The kind of URL that is taken, as part of a sentence.
    fn kind_of_url(self) -> &'static str {
        match self {
            PrivateTargets::Allowed => "an http: or https: URL",
            PrivateTargets::Refused => "an https: URL",
        }
    }
}

/// Why nothing is sent to a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is no absolute URL of a scheme that is taken.
    #[error("must be {} with a host", .0.kind_of_url())]
    NoUrl(PrivateTargets),
    /// It is `http`, which is not taken here.
    #[error("must be https")]
    Plain,
    /// It names a user or a password.
    #[error("must not have a user name or password")]
    UserInfo,
    /// It has a fragment, which is never sent.
    #[error("must not have a fragment")]
    Fragment,
    /// It names this very machine.
    #[error("must not lead to this machine")]
    Local,
    /// It leads to an address to which nothing is sent.
    #[error("must not lead to {0}, a special-purpose address")]
    Special(IpAddr),
}

/// Judges by its text whether anything may be sent to a URL.
///
/// # Errors
/// Why nothing is sent there.
pub fn check(text: &str, private: PrivateTargets) -> Result<Target, TargetError> {
    let no_url = TargetError::NoUrl(private);
    let authority = authority(text).ok_or(no_url)?;
    // The URL standard has one reading for every spelling of an address: decimal, octal,
    // hexadecimal, short, full-width.
    let url = Url::parse(text).map_err(|_| no_url)?;
    match url.scheme() {
        "https" => {}
        "http" if private == PrivateTargets::Allowed => {}
        "http" => return Err(TargetError::Plain),
        _ => return Err(no_url),
    }
    if authority.contains('@') {
        return Err(TargetError::UserInfo);
    }
    if url.fragment().is_some() {
        return Err(TargetError::Fragment);
    }
    let port = url
        .port_or_known_default()
        .filter(|port| *port != 0)
        .ok_or(no_url)?;
    match url.host().ok_or(no_url)? {
        Host::Domain(name) if private == PrivateTargets::Refused && is_local(name) => {
            Err(TargetError::Local)
        }
        Host::Domain(name) => Ok(Target::Name(name.to_owned(), port)),
        Host::Ipv4(address) => addressed(address.into(), private),
        Host::Ipv6(address) => addressed(address.into(), private),
    }
}

fn addressed(address: IpAddr, private: PrivateTargets) -> Result<Target, TargetError> {
    if private == PrivateTargets::Allowed || !is_special(address) {
        Ok(Target::Address(address))
    } else {
        Err(TargetError::Special(address))
    }
}

/// What stands between `//` and the path. Texts that the URL standard repairs are none: other
/// readers repair otherwise.
fn authority(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("://")?;
    let authority = rest
        .split(['/', '?', '#'])
        .next()
        .filter(|authority| !authority.is_empty())?;
    let repaired = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
    (!text.contains(repaired)).then_some(authority)
}

/// Whether a name means this very machine, as RFC 6761, 6.3 says.
fn is_local(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// IANA's IPv4 Special-Purpose Address Registry, and multicast (RFC 5771). Also what the registry
/// calls globally reachable: relays, anycast and sinks, where no receiver of webhooks lives.
const SPECIAL_V4: [([u8; 4], u32); 18] = [
    ([0, 0, 0, 0], 8),       // "this network", RFC 791
    ([10, 0, 0, 0], 8),      // private use, RFC 1918
    ([100, 64, 0, 0], 10),   // shared address space, RFC 6598
    ([127, 0, 0, 0], 8),     // loopback, RFC 1122
    ([169, 254, 0, 0], 16),  // link local, RFC 3927
    ([172, 16, 0, 0], 12),   // private use, RFC 1918
    ([192, 0, 0, 0], 24),    // IETF protocol assignments, RFC 6890
    ([192, 0, 2, 0], 24),    // documentation, RFC 5737
    ([192, 31, 196, 0], 24), // AS112, RFC 7535
    ([192, 52, 193, 0], 24), // AMT, RFC 7450
    ([192, 88, 99, 0], 24),  // 6to4 relays, RFC 7526
    ([192, 168, 0, 0], 16),  // private use, RFC 1918
    ([192, 175, 48, 0], 24), // AS112, RFC 7534
    ([198, 18, 0, 0], 15),   // benchmarking, RFC 2544
    ([198, 51, 100, 0], 24), // documentation, RFC 5737
    ([203, 0, 113, 0], 24),  // documentation, RFC 5737
    ([224, 0, 0, 0], 4),     // multicast, RFC 5771
    ([240, 0, 0, 0], 4),     // reserved, and limited broadcast, RFC 1112 and 8190
];

/// IANA's IPv6 Special-Purpose Address Registry. Only 2000::/3 is global unicast (RFC 4291, 2.4),
/// so everything else goes at once: unspecified, loopback, IPv4-compatible and IPv4-mapped, NAT64
/// (64:ff9b::/96 and 64:ff9b:1::/48), discard-only (100::/64, 100:0:0:1::/64), SRv6 (5f00::/16),
/// unique local, link local, site local, multicast.
const SPECIAL_V6: [([u16; 8], u32); 8] = [
    ([0, 0, 0, 0, 0, 0, 0, 0], 3),               // 0000 to 1fff
    ([0x4000, 0, 0, 0, 0, 0, 0, 0], 2),          // 4000 to 7fff
    ([0x8000, 0, 0, 0, 0, 0, 0, 0], 1),          // 8000 to ffff
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), // IETF: Teredo, benchmarking, AMT, AS112, ORCHID; RFC 2928
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), // documentation, RFC 3849
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), // 6to4, RFC 3056
    ([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48), // AS112, RFC 7534
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), // documentation, RFC 9637
];

/// Whether an address has a purpose of its own, so that nothing is sent to it.
#[must_use]
pub fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let within = |(net, length): &([u8; 4], u32)| {
                (address.to_bits() ^ Ipv4Addr::from(*net).to_bits()).leading_zeros() >= *length
            };
            SPECIAL_V4.iter().any(within)
        }
        IpAddr::V6(address) => {
            let within = |(net, length): &([u16; 8], u32)| {
                (address.to_bits() ^ Ipv6Addr::from(*net).to_bits()).leading_zeros() >= *length
            };
            SPECIAL_V6.iter().any(within)
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use proptest::prelude::*;

    use super::PrivateTargets::{Allowed, Refused};
    use super::*;

    fn special(text: &str) -> bool {
        is_special(text.parse().unwrap())
    }

    #[test]
    fn every_entry_of_the_registries_is_special_from_its_first_address_to_its_last() {
        for (first, last) in [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.31.196.0", "192.31.196.255"),
            ("192.52.193.0", "192.52.193.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("192.175.48.0", "192.175.48.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "239.255.255.255"),
            ("240.0.0.0", "255.255.255.255"),
            ("::", "::1"),
            ("::7f00:1", "::ffff:ffff"),
            ("::ffff:0.0.0.0", "::ffff:255.255.255.255"),
            ("::ffff:0:127.0.0.1", "::ffff:0:10.0.0.1"),
            ("64:ff9b::", "64:ff9b::ffff:ffff"),
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
            ("100::", "100::ffff:ffff:ffff:ffff"),
            ("100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff"),
            ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff"),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            assert!(special(first) && special(last), "{first} to {last}");
        }
    }

    #[test]
    fn what_lies_beside_them_is_not() {
        for open in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "8.8.8.8",
            "2000::",
            "2001:200::",
            "2001:db7:ffff::",
            "2001:db9::",
            "2001:4860:4860::8888",
            "2003::",
            "2620:4f:8001::",
            "2a00::",
            "3ffe::",
            "3fff:1000::",
        ] {
            assert!(!special(open), "{open}");
        }
    }

    #[test]
    fn only_https_without_user_info_and_fragment_is_a_target() {
        let name = |host: &str, port| Ok(Target::Name(host.to_owned(), port));
        assert_eq!(
            check("https://example.com/hooks?a=b", Refused),
            name("example.com", 443)
        );
        assert_eq!(
            check("HTTPS://Example.COM:8443", Refused),
            name("example.com", 8443)
        );
        assert_eq!(
            check("https://1.1.1.1/", Refused),
            Ok(Target::Address([1, 1, 1, 1].into()))
        );
        assert_eq!(
            check("http://example.com/", Refused),
            Err(TargetError::Plain)
        );
        assert_eq!(
            check("http://localhost:9000/", Allowed),
            name("localhost", 9000)
        );
        assert_eq!(
            check("http://127.0.0.1:9000/", Allowed),
            Ok(Target::Address([127, 0, 0, 1].into()))
        );
        for with in [
            "https://a@example.com/",
            "https://a:b@example.com/",
            "https://@example.com/",
            "https://:@x/",
        ] {
            assert_eq!(check(with, Allowed), Err(TargetError::UserInfo), "{with}");
        }
        assert_eq!(
            check("https://example.com/#x", Allowed),
            Err(TargetError::Fragment)
        );
    }

    #[test]
    fn what_other_readers_read_otherwise_is_no_url() {
        for none in [
            "",
            "example.com",
            "https:",
            "https://",
            "https:///example.com",
            "https:example.com",
            "https:\\\\example.com",
            "ftp://example.com/",
            "file:///etc/passwd",
            "javascript://x/%0a",
            "https://exa mple.com/",
            " https://a.com",
            "https://a.com\n",
            "https://a\\@b/",
            "https://[::1",
            "https://a:99999/",
            "https://1.2.3.256/",
        ] {
            assert_eq!(
                check(none, Allowed),
                Err(TargetError::NoUrl(Allowed)),
                "{none}"
            );
        }
    }

    #[test]
    fn any_spelling_of_this_machine_or_its_neighbours_is_refused() {
        for host in [
            "localhost",
            "LOCALHOST",
            "localhost.",
            "a.localhost",
            "127.0.0.1",
            "127.1",
            "127.0.0.1.",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "017700000001",
            "%31%32%37.0.0.1",
            "１２７.0.0.1",
            "0",
            "0.0.0.0",
            "169.254.169.254",
            "0xa9fea9fe",
            "[::]",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[64:ff9b::127.0.0.1]",
            "[2002:7f00:1::]",
            "[fd00::1]",
            "[fe80::1]",
            "255.255.255.255",
        ] {
            let found = check(&format!("https://{host}/"), Refused);
            assert!(
                matches!(found, Err(TargetError::Local | TargetError::Special(_))),
                "{host}: {found:?}"
            );
        }
        assert!(check("https://localhost.example.com/", Refused).is_ok());
        assert!(check("https://notlocalhost/", Refused).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_special_stays_so_however_it_is_written(bits: u32) {
            let address = Ipv4Addr::from_bits(bits);
            let [a, b, c, d] = address.octets();
            let rest = bits & 0x00ff_ffff;
            for host in [
                format!("{address}"), format!("{bits}"), format!("{bits:#x}"), format!("0{bits:o}"), format!("{a}.{rest}"),
                format!("0{a:o}.{b:#x}.{c}.{d}"), format!("{address}."),
            ] {
                let expected = if is_special(address.into()) {
                    Err(TargetError::Special(address.into()))
                } else {
                    Ok(Target::Address(address.into()))
                };
                prop_assert_eq!(check(&format!("https://{host}/x"), Refused), expected, "{}", host);
            }
        }

        #[test]
        fn no_ipv4_address_hides_in_an_ipv6_one(bits: u32) {
            let v4 = u128::from(bits);
            for hidden in [v4, 0xffff << 32 | v4, 0x64_ff9b << 96 | v4, 0x2002 << 112 | v4 << 80, 0x64_ff9b_0001 << 80 | v4] {
                prop_assert!(is_special(Ipv6Addr::from_bits(hidden).into()));
            }
        }

        #[test]
        fn only_global_unicast_is_open(bits: u128) {
            let address = Ipv6Addr::from_bits(bits);
            prop_assert!(bits >> 125 == 1 || is_special(address.into()));
            let unicast = Ipv6Addr::from_bits(bits & (u128::MAX >> 3) | 1 << 125);
            let [first, second, ..] = unicast.segments();
            let named = matches!((first, second), (0x2001, 0..0x200 | 0xdb8) | (0x2002, _) | (0x2620, 0x4f) | (0x3fff, 0..0x1000));
            prop_assert!(named || !is_special(unicast.into()));
        }
    }
}
