//! Networks as callers write them: in CIDR notation, or an address alone, which is a network of
//! one.

use std::fmt;

use colloquy_model::network;
use ipnet::IpNet;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

struct Network(IpNet);

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Network;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("IPv4 or IPv6 network address")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Network, E> {
                network::parse(text)
                    .map(Network)
                    .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// For `#[serde(deserialize_with = "networks")]`.
///
/// # Errors
/// One of them is none.
pub(super) fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpNet>, D::Error> {
    Ok(Vec::<Network>::deserialize(deserializer)?
        .into_iter()
        .map(|network| network.0)
        .collect())
}

/// The same for a field that may be left out.
///
/// # Errors
/// One of them is none.
pub(super) fn networks_present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<IpNet>>, D::Error> {
    networks(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_alone_is_a_network_of_one() {
        let read = |text: &str| {
            serde_json::from_str::<Network>(text)
                .map(|network| network.0.to_string())
                .ok()
        };
        assert_eq!(read(r#""203.0.113.7""#).as_deref(), Some("203.0.113.7/32"));
        assert_eq!(read(r#""2001:db8::1""#).as_deref(), Some("2001:db8::1/128"));
        assert_eq!(
            read(r#""203.0.113.0/24""#).as_deref(),
            Some("203.0.113.0/24")
        );
        for wrong in [r#""203.0.113""#, r#""203.0.113.0/33""#, "7", r#""""#] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
