//! Origins of pages, as browsers send them, and lists of those that may call.

use url::{Origin, Url};

/// Stands in a list of origins for all of them, and then alone.
pub const ANY: &str = "*";

/// Whether a text is what a browser sends as its page's origin: scheme and host in small letters, and
/// the port where it is not the scheme's own. Written otherwise it would never be met.
#[must_use]
pub fn is_origin(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else {
        return false;
    };
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_[]:".contains(&b);
    let host = url.host_str().unwrap_or_default();
    if host.is_empty() || !host.bytes().all(is_plain) {
        return false;
    }
    match url.origin() {
        Origin::Tuple(scheme, host, port) => {
            ["http", "https"].contains(&scheme.as_str())
                && port != 0
                && Origin::Tuple(scheme, host, port).ascii_serialization() == text
        }
        // Pages of extensions and of applications have a scheme of their own.
        Origin::Opaque(_) => {
            let port = url
                .port()
                .map_or_else(String::new, |port| format!(":{port}"));
            url.scheme() != "file" && format!("{}://{host}{port}", url.scheme()) == text
        }
    }
}

/// Why an origin can't stand in a list behind these.
#[must_use]
pub fn refusal(before: &[String], origin: &str) -> Option<&'static str> {
    let is_any = |one: &str| one == ANY;
    if !is_any(origin) && !is_origin(origin) {
        Some(
            "must be \"*\" or an origin such as \"https://app.example.com\", without its scheme's own port",
        )
    } else if !before.is_empty() && (is_any(origin) || before.iter().any(|one| is_any(one))) {
        Some("\"*\" must stand alone")
    } else if before.iter().any(|one| one == origin) {
        Some("must not stand there twice")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        for right in [
            "https://app.example.com",
            "http://localhost:3000",
            "http://[::1]:8080",
            "http://[::1]",
            "http://app.example:443",
            "chrome-extension://abc",
        ] {
            assert!(is_origin(right), "{right}");
        }
        for wrong in [
            "x",
            "null",
            "https://",
            "https://a/",
            "https://a?b",
            "https://A.com",
            "https://a:443",
            "http://a:80",
            "http://a:080",
            "http://a:0",
            "https://a:x",
            "https://a:",
            "https://user@a",
            "https://[0::1]",
            "http://127.1",
            "https://*.a.example",
            "https://b\u{fc}cher.example",
            " https://a",
            "https://a\n",
            "wss://a",
            "file://a",
            "data:x",
            "://a",
            "a:80",
        ] {
            assert!(!is_origin(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_list_names_each_once_or_all() {
        let list = |origins: &[&str]| {
            origins
                .iter()
                .map(|one| (*one).to_owned())
                .collect::<Vec<_>>()
        };
        for (before, origin, is_refused) in [
            (&[][..], "*", false),
            (&["https://a"], "https://b", false),
            (&["https://a"], "https://a", true),
            (&["https://a"], "*", true),
            (&["*"], "https://a", true),
            (&["*"], "*", true),
        ] {
            let refused = refusal(&list(before), origin).is_some();
            assert_eq!(refused, is_refused, "{before:?} {origin}");
        }
    }
}
