//! Whether an address is in a network, in whichever way each is written.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

/// The bits in front of an IPv4 address that is written as one of IPv6 (RFC 4291, 2.5.5.2).
const MAPPED_BITS: u8 = 96;

/// A network in CIDR notation, or an address alone, which is a network of one.
#[must_use]
pub fn parse(text: &str) -> Option<IpNet> {
    let alone = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(alone)
}

/// Whether the address is in the network. An IPv4 address counts as one, also where either is written
/// as an IPv6 address (`::ffff:192.0.2.1`); bits behind the prefix mean nothing.
#[must_use]
pub fn includes(network: &IpNet, address: IpAddr) -> bool {
    mapped(network)
        .unwrap_or(*network)
        .contains(&address.to_canonical())
}

/// The network of IPv4 addresses that is written as one of IPv6.
fn mapped(network: &IpNet) -> Option<IpNet> {
    let IpNet::V6(network) = network else {
        return None;
    };
    let address = network.addr().to_ipv4_mapped()?;
    let bits = network.prefix_len().checked_sub(MAPPED_BITS)?;
    Ipv4Net::new(address, bits).ok().map(IpNet::V4)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn an_ipv4_address_is_one_however_it_is_written() {
        for (network, address, is_in) in [
            ("192.0.2.0/24", "192.0.2.7", true),
            ("192.0.2.0/24", "::ffff:192.0.2.7", true),
            ("::ffff:192.0.2.0/120", "192.0.2.7", true),
            ("::ffff:192.0.2.0/120", "::ffff:192.0.2.7", true),
            ("::ffff:192.0.2.0/120", "192.0.3.7", false),
            ("::ffff:0:0/96", "203.0.113.9", true),
            ("192.0.2.99/24", "192.0.2.7", true),
            ("2001:db8::99/32", "2001:db8:7::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db8::1", true),
            // All of IPv6 is not IPv4, and what only looks like it is neither.
            ("::/0", "192.0.2.7", false),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("192.0.2.0/24", "::192.0.2.7", false),
            ("192.0.2.0/24", "64:ff9b::192.0.2.7", false),
        ] {
            let found = includes(&network.parse().unwrap(), address.parse().unwrap());
            assert_eq!(found, is_in, "{address} in {network}");
        }
    }
}
