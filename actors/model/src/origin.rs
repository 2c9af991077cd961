//! Origins of pages, as browsers send them.

/// What a browser sends as its page's origin: scheme, host and port, in small letters.
#[must_use]
pub fn is_origin(text: &str) -> bool {
    let small = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        Some(_) | None => (rest, None),
    };
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let named = |host: &str| {
        !host.is_empty()
            && host
                .bytes()
                .all(|b| small(b) || matches!(b, b'.' | b'-' | b'_'))
    };
    let is_host = inner.map_or_else(
        || named(host),
        |address| address.parse::<std::net::Ipv6Addr>().is_ok(),
    );
    scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme
            .bytes()
            .all(|b| small(b) || matches!(b, b'+' | b'.' | b'-'))
        && is_host
        && port.is_none_or(|port| {
            port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok()
        })
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
        ] {
            assert!(is_origin(right), "{right}");
        }
        for wrong in [
            "x",
            "null",
            "https://",
            "https://a/",
            "https://A.com",
            "https://a:x",
            "https://a:",
            "://a",
            "a:80",
        ] {
            assert!(!is_origin(wrong), "{wrong}");
        }
    }
}
