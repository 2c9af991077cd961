//! The addresses at which clients reach the server: its own, and those of accounts' domains, which
//! differ from it by the host alone.

/// The server's own address, `[server] public_url`, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    whole: String,
    /// Where the host begins and where it ends.
    host: (usize, usize),
}

impl PublicUrl {
    /// Takes an address apart.
    #[must_use]
    pub fn new(url: &str) -> Self {
        let whole = url.trim_end_matches('/').to_owned();
        let begins = whole.find("://").map_or(0, |at| at + 3);
        let rest = whole.get(begins..).unwrap_or_default();
        let authority = rest.split('/').next().unwrap_or_default();
        // The colons of an IPv6 address stand in brackets.
        let length = match authority.rfind(']') {
            Some(bracket) => bracket + 1,
            None => authority.find(':').unwrap_or(authority.len()),
        };
        PublicUrl {
            host: (begins, begins + length),
            whole,
        }
    }

    /// The server's own address.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.whole
    }

    /// The server's own host, without its port.
    #[must_use]
    pub fn host(&self) -> &str {
        let (begins, ends) = self.host;
        self.whole.get(begins..ends).unwrap_or_default()
    }

    /// The server's address under another host name.
    #[must_use]
    pub fn at(&self, host: &str) -> String {
        let (begins, ends) = self.host;
        let before = self.whole.get(..begins).unwrap_or_default();
        let behind = self.whole.get(ends..).unwrap_or_default();
        format!("{before}{host}{behind}")
    }

    /// The host name under which this is the server's address.
    #[must_use]
    pub fn host_of<'u>(&self, url: &'u str) -> Option<&'u str> {
        let (begins, ends) = self.host;
        let before = self.whole.get(..begins)?;
        let behind = self.whole.get(ends..)?;
        url.strip_prefix(before)?.strip_suffix(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_host_is_another_one() {
        for (own, host, other) in [
            (
                "https://api.example.com",
                "api.example.com",
                "https://chat.shop.example",
            ),
            (
                "http://127.0.0.1:8080",
                "127.0.0.1",
                "http://chat.shop.example:8080",
            ),
            (
                "http://[::1]:80/base/",
                "[::1]",
                "http://chat.shop.example:80/base",
            ),
        ] {
            let url = PublicUrl::new(own);
            assert_eq!(url.host(), host);
            assert_eq!(url.at("chat.shop.example"), other);
            assert_eq!(url.host_of(other), Some("chat.shop.example"));
            assert_eq!(url.host_of("ftp://chat.shop.example"), None);
        }
    }
}
