//! Where an authorization may lead back to, and when two addresses are the same.

use serde::de::{self, Deserialize, Deserializer};
use url::{Host, Url};

/// The longest redirect URI.
const BYTES_MAX: usize = 2_048;

/// A redirect URI as a client registers it: absolute, without a fragment and without a user's name.
///
/// `https`; `http` on a loopback address alone (RFC 8252, 7.3); or a scheme of the application's own,
/// which has a dot in it (7.1), so that `javascript:` and `data:` are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectUri(String);

impl RedirectUri {
    /// Reads one.
    ///
    /// # Errors
    /// What it must be.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        if text.len() > BYTES_MAX {
            return Err("must be at most 2048 bytes");
        }
        if text.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err("must hold no blanks and nothing but ASCII");
        }
        let url = Url::parse(text).map_err(|_| "must be an absolute URI")?;
        if text.contains('#') {
            return Err("must have no fragment");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must have no user name");
        }
        let is_known = match url.scheme() {
            "https" => url.host().is_some(),
            "http" => is_loopback(&url),
            own => own.contains('.'),
        };
        match is_known {
            true => Ok(RedirectUri(text.to_owned())),
            false => Err(
                "must be https, http on a loopback address, or of a scheme of its own with a dot in it",
            ),
        }
    }

    /// Its text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl<'de> Deserialize<'de> for RedirectUri {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        RedirectUri::new(&text).map_err(de::Error::custom)
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Whether an address that is asked for is the registered one: the same text, but for the port of a
/// loopback address, which the application finds when it starts.
#[must_use]
pub fn is_same(registered: &str, asked: &str) -> bool {
    if registered == asked {
        return true;
    }
    // The host and what follows the port, as they are written.
    let without_port = |text: &'_ str| {
        let url = Url::parse(text).ok()?;
        let rest = text.strip_prefix("http://").filter(|_| is_loopback(&url))?;
        let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end)?;
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if is_port(port) => host,
            Some(_) | None => authority,
        };
        Some((host.to_owned(), path.to_owned()))
    };
    let (registered, asked) = (without_port(registered), without_port(asked));
    registered.is_some() && registered == asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_lead_to_the_client_can_be_registered() {
        for fine in [
            "https://app.example/callback",
            "https://app.example/callback?tenant=1",
            "http://127.0.0.1/callback",
            "http://127.0.0.1:8080/callback",
            "http://[::1]/callback",
            "http://localhost:3000/",
            "com.example.app:/callback",
        ] {
            assert!(RedirectUri::new(fine).is_ok(), "{fine}");
        }
        for wrong in [
            "",
            "/callback",
            "app.example/callback",
            "http://app.example/callback",
            "https://app.example/callback#",
            "https://app.example/callback#a",
            "https://user@app.example/",
            "https://user:word@app.example/",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://app.example/a b",
            "https://app.example/\u{e9}",
            "http://127.0.0.1.example/",
        ] {
            assert!(RedirectUri::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_compared_whole_but_for_a_loopback_port() {
        let same = [
            ("https://a.example/cb", "https://a.example/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:4711/cb"),
            ("http://[::1]:1/cb", "http://[::1]:2/cb"),
        ];
        for (registered, asked) in same {
            assert!(is_same(registered, asked), "{registered} {asked}");
        }
        let other = [
            ("https://a.example/cb", "https://a.example/cb/"),
            ("https://a.example/cb", "https://a.example/cb?x=1"),
            ("https://a.example/cb", "https://a.example/CB"),
            ("https://a.example/cb", "https://A.example/cb"),
            ("https://a.example/cb", "https://a.example:444/cb"),
            ("https://a.example/cb", "https://a.example/x/../cb"),
            ("https://a.example/cb", "https://a.example@evil.example/cb"),
            ("https://a.example/cb", "https://a.example.evil.example/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1/cb/x"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1@evil.example/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.2:1/cb"),
            ("http://127.0.0.1/cb", "http://localhost/cb"),
            ("http://127.0.0.1/cb", "http://127.0.0.1:1/cb#x"),
        ];
        for (registered, asked) in other {
            assert!(!is_same(registered, asked), "{registered} {asked}");
        }
    }
}
