//! A domain of an account: which host names may be one, what proves that it is the account's, and
//! which origins of pages an account may name. Pure: who looks records up hands them in.

use std::collections::HashSet;
use std::fmt;

use colloquy_model::domain::{DomainState, DomainView, HOST_BYTES_MAX, txt_name};
use colloquy_model::origin;
use colloquy_model::secret;
use colloquy_model::time::Timestamp;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, SeqAccess, Visitor};
use url::Host;

/// Domains of one account.
const DOMAINS_MAX: usize = 20;
/// Origins of one account.
const ORIGINS_MAX: usize = 100;
/// The longest origin: scheme, host name and port.
const ORIGIN_BYTES_MAX: usize = 300;
/// Before what a TXT record has to hold.
const TXT_VALUE_PREFIX: &str = "colloquy-verification=";

/// A host name that may be an account's domain: in small letters and A-labels (RFC 5890).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostName(String);

impl HostName {
    /// Reads one.
    ///
    /// # Errors
    /// What it must be.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        const RIGHT: &str = "must be a host name such as \"chat.example.com\", without scheme, port, path or wildcard";
        if text.contains('%') {
            return Err(RIGHT);
        }
        let host = match Host::parse(text) {
            Ok(Host::Domain(host)) => host,
            Ok(Host::Ipv4(_) | Host::Ipv6(_)) => return Err("must be a name, not an address"),
            Err(_) => return Err(RIGHT),
        };
        if host.len() > HOST_BYTES_MAX {
            return Err(
                "must be at most 243 characters, so that the name of its TXT record is none too long",
            );
        }
        let is_label = |label: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            (1..=63).contains(&label.len())
                && label.bytes().all(plain)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        match host.contains('.') && host.split('.').all(is_label) {
            true => Ok(HostName(host)),
            false => Err(RIGHT),
        }
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        HostName::new(&text).map_err(de::Error::custom)
    }
}

/// The next origin of a list that begins with these.
struct NextOrigin<'l>(&'l [String]);

impl<'de> DeserializeSeed<'de> for NextOrigin<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        let text = String::deserialize(from)?;
        if text.len() > ORIGIN_BYTES_MAX {
            let reason = format!("must have at most {ORIGIN_BYTES_MAX} bytes");
            return Err(de::Error::custom(reason));
        }
        match origin::refusal(self.0, &text) {
            None => Ok(text),
            Some(reason) => Err(de::Error::custom(reason)),
        }
    }
}

/// The origins of an account. Each is checked where it stands, so that a refusal tells its place.
struct Origins(Vec<String>);

impl<'de> Deserialize<'de> for Origins {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = Origins;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of origins")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Origins, A::Error> {
                let mut origins = Vec::new();
                while let Some(origin) = from.next_element_seed(NextOrigin(&origins))? {
                    origins.push(origin);
                    if origins.len() > ORIGINS_MAX {
                        let reason = format!("must hold at most {ORIGINS_MAX} origins");
                        return Err(de::Error::custom(reason));
                    }
                }
                Ok(Origins(origins))
            }
        }

        from.deserialize_seq(List)
    }
}

/// For `#[serde(deserialize_with = "host_names")]`.
///
/// # Errors
/// One of them may be no domain, is there twice, or there are too many.
pub(super) fn host_names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<HostName>, D::Error> {
    let names = Vec::<HostName>::deserialize(from)?;
    if names.len() > DOMAINS_MAX {
        let reason = format!("must hold at most {DOMAINS_MAX} host names");
        return Err(de::Error::custom(reason));
    }
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(de::Error::custom(format!(
            "must hold each host name once, and {} stands there twice",
            twice.0
        ))),
        None => Ok(names),
    }
}

/// The same for a field that may be left out.
///
/// # Errors
/// The same.
pub(super) fn host_names_present<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<HostName>>, D::Error> {
    host_names(from).map(Some)
}

/// For `#[serde(deserialize_with = "origins")]`; null: those of config.toml.
///
/// # Errors
/// One of them is none, stands there twice or beside `*`, or there are too many.
pub(super) fn origins<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    let origins = Option::<Origins>::deserialize(from)?;
    Ok(origins.map(|origins| origins.0))
}

/// The same for a field that may be left out.
///
/// # Errors
/// The same.
pub(super) fn origins_present<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<Vec<String>>>, D::Error> {
    origins(from).map(Some)
}

/// The domains of an account that is to have these: what was known of one that stays is kept, and a
/// new one has to be proven by a value that no other account and no earlier time has had.
pub(super) fn listed(names: Vec<HostName>, held: &[DomainView]) -> Vec<DomainView> {
    let new = |host: String| DomainView {
        state: DomainState::Pending,
        txt_name: txt_name(&host),
        txt_value: secret::generate(TXT_VALUE_PREFIX),
        proven_at: None,
        host,
    };
    let kept = |host: &str| held.iter().find(|domain| domain.host == host).cloned();
    let names = names.into_iter();
    names
        .map(|HostName(host)| kept(&host).unwrap_or_else(|| new(host)))
        .collect()
}

/// What a look at a domain's TXT records came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxtAnswer {
    /// What the records hold; none where there is none.
    Records(Vec<String>),
    /// No nameserver has said what there is.
    Silence,
}

impl TxtAnswer {
    /// Whether this proves the domain.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn proves(&self, domain: &DomainView) -> Result<(), &'static str> {
        match self {
            TxtAnswer::Silence => Err("no nameserver answers for the domain's TXT record"),
            TxtAnswer::Records(records) if records.is_empty() => {
                Err("the domain's TXT record is not there")
            }
            TxtAnswer::Records(records) => match records.contains(&domain.txt_value) {
                true => Ok(()),
                false => Err("the domain's TXT record holds another value"),
            },
        }
    }
}

/// A domain as it is once it is proven.
pub(super) fn proven(domain: &DomainView, at: Timestamp) -> DomainView {
    DomainView {
        state: DomainState::Proven,
        proven_at: Some(at),
        ..domain.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_is_a_name_and_nothing_else() {
        for (given, read) in [
            ("Chat.Example.COM", "chat.example.com"),
            ("b\u{fc}cher.example", "xn--bcher-kva.example"),
            ("a-b.c1.example", "a-b.c1.example"),
        ] {
            assert_eq!(
                HostName::new(given).as_ref().map(HostName::as_str),
                Ok(read)
            );
        }
        let long = format!("{}.example.com", ["a"; 120].join("."));
        for wrong in [
            "",
            "localhost",
            "example.com.",
            ".example.com",
            "a..example.com",
            "*.example.com",
            "example.com:443",
            "https://example.com",
            "example.com/",
            "127.0.0.1",
            "2130706433",
            "[::1]",
            "::1",
            "a_b.example.com",
            "-a.example.com",
            "a.%65xample.com",
            "a b.example.com",
            &long,
        ] {
            assert!(HostName::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_domain_that_stays_keeps_its_value_and_one_that_comes_back_has_another() {
        let name = |text: &str| HostName::new(text).map_err(str::to_owned);
        let Ok(shop) = name("chat.shop.example") else {
            return assert_eq!(name("chat.shop.example"), Err(String::new()));
        };
        let first = listed(vec![shop.clone()], &[]);
        assert_eq!(listed(vec![shop.clone()], &first), first);
        assert!(listed(Vec::new(), &first).is_empty());
        assert_ne!(listed(vec![shop], &[]), first);
    }

    #[test]
    fn only_its_own_value_proves_a_domain() {
        let name = HostName::new("chat.shop.example");
        let domains = listed(name.into_iter().collect(), &[]);
        for domain in &domains {
            let holds =
                |value: &str| TxtAnswer::Records(vec!["v=spf1".to_owned(), value.to_owned()]);
            assert_eq!(holds(&domain.txt_value).proves(domain), Ok(()));
            assert!(holds("colloquy-verification=other").proves(domain).is_err());
            assert!(TxtAnswer::Records(Vec::new()).proves(domain).is_err());
            assert!(TxtAnswer::Silence.proves(domain).is_err());
        }
        assert_eq!(domains.len(), 1);
    }
}
