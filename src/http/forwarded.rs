//! Who asks, and by which scheme, where proxies stand in between: what those say that are believed.
//! Anybody can write these headers, so a word counts as far as each proxy behind it is believed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use actix_web::HttpRequest;
use actix_web::http::header::{FORWARDED, HOST, HeaderMap, HeaderName};
use colloquy_model::network::includes;
use ipnet::IpNet;

use super::app_state::AppState;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The client's address: the peer's, or behind proxies that are believed, the last one that is none
/// of them. Where a request has `X-Forwarded-For`, `Forwarded` (RFC 7239) does not count: of the two
/// the proxy writes one, and a client may have written the other.
pub(super) fn client_address(proxies: &[IpNet], request: &HttpRequest) -> IpAddr {
    let mut address = peer(request);
    let believed = |address: &IpAddr| proxies.iter().any(|range| includes(range, *address));
    if !believed(&address) {
        return address;
    }
    let headers = request.headers();
    let hops = match headers.contains_key(FORWARDED_FOR) {
        true => hops_of_forwarded_for(headers),
        false => hops_of_forwarded(headers),
    };
    for hop in hops.into_iter().rev() {
        let Some(hop) = hop else { return address };
        address = hop;
        if !believed(&address) {
            return address;
        }
    }
    address
}

/// Whether the client's way here is encrypted, as far as the public address or a proxy that is
/// believed say.
pub(crate) fn is_encrypted(app: &AppState, request: &HttpRequest) -> bool {
    app.public_url.as_str().starts_with("https://")
        || scheme(&app.proxies, request) == Some("https")
}

/// The scheme by which the client has asked, where a proxy that is believed says so.
pub(super) fn scheme(proxies: &[IpNet], request: &HttpRequest) -> Option<&'static str> {
    let peer = peer(request);
    if !proxies.iter().any(|range| includes(range, peer)) {
        return None;
    }
    let headers = request.headers();
    // Of several, the nearest proxy's word is the last.
    let nearest = match headers.get(FORWARDED_PROTO) {
        Some(said) => said.to_str().ok()?.rsplit(',').next()?.trim().to_owned(),
        None => value_of("proto", elements(headers).last()?)?,
    };
    ["http", "https"]
        .into_iter()
        .find(|scheme| nearest.eq_ignore_ascii_case(scheme))
}

/// The host that the client has asked, with its port where it named one: as a proxy says that is
/// believed, else as the request says itself.
pub(super) fn host(proxies: &[IpNet], request: &HttpRequest) -> Option<String> {
    let headers = request.headers();
    let peer = peer(request);
    if proxies.iter().any(|range| includes(range, peer)) {
        // Of several, the nearest proxy's word is the last.
        let nearest = match headers.get(FORWARDED_HOST) {
            Some(said) => said
                .to_str()
                .ok()
                .and_then(|said| said.rsplit(',').next())
                .map(|said| said.trim().to_owned()),
            // Whoever writes the older headers may have left a client's `Forwarded` as it was.
            None if [FORWARDED_FOR, FORWARDED_PROTO]
                .iter()
                .any(|name| headers.contains_key(name)) =>
            {
                None
            }
            None => elements(headers)
                .last()
                .and_then(|element| value_of("host", element)),
        };
        if nearest.is_some() {
            return nearest;
        }
    }
    // A target with a host of its own counts before the header (RFC 9112, 3.2.2).
    if let Some(authority) = request.uri().authority() {
        return Some(authority.as_str().to_owned());
    }
    Some(headers.get(HOST)?.to_str().ok()?.to_owned())
}

fn peer(request: &HttpRequest) -> IpAddr {
    request
        .peer_addr()
        .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| {
            peer.ip().to_canonical()
        })
}

fn lines(headers: &HeaderMap, name: HeaderName) -> Vec<&str> {
    let lines = headers.get_all(name);
    // One that is no text hides who wrote it, so those before it say nothing either.
    lines.map(|line| line.to_str().unwrap_or("?")).collect()
}

/// The addresses from hop to hop, the nearest last; none for what is no address.
fn hops_of_forwarded_for(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let lines = lines(headers, FORWARDED_FOR);
    let hops = lines.iter().flat_map(|line| line.split(','));
    hops.map(|hop| address(hop.trim())).collect()
}

fn hops_of_forwarded(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let elements = elements(headers);
    let hops = elements.iter().map(|element| value_of("for", element));
    hops.map(|hop| address(&hop?)).collect()
}

/// The elements of `Forwarded`, one for each hop.
fn elements(headers: &HeaderMap) -> Vec<String> {
    let lines = lines(headers, FORWARDED);
    lines.iter().flat_map(|line| split(line, ',')).collect()
}

/// The value of a parameter of an element, without its quotes; none where it stands there not
/// exactly once.
fn value_of(name: &str, element: &str) -> Option<String> {
    let pairs = split(element, ';');
    let mut values = pairs.iter().filter_map(|pair| {
        let (this, value) = pair.split_once('=')?;
        this.trim().eq_ignore_ascii_case(name).then_some(value)
    });
    let value = values.next()?.trim();
    if values.next().is_some() {
        return None;
    }
    let inner = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    Some(inner.unwrap_or(value).replace('\\', ""))
}

/// The parts between these signs that stand outside of quotes.
fn split(text: &str, sign: char) -> Vec<String> {
    let (mut parts, mut is_quoted, mut is_escaped) = (vec![String::new()], false, false);
    for character in text.chars() {
        if character == sign && !is_quoted {
            parts.push(String::new());
            continue;
        }
        is_quoted ^= character == '"' && !is_escaped;
        is_escaped = is_quoted && character == '\\' && !is_escaped;
        if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    parts
}

/// An address, with or without its port; that of IPv6 with a port in brackets.
fn address(node: &str) -> Option<IpAddr> {
    let in_brackets = node
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let with_port = || Some(node.parse::<SocketAddr>().ok()?.ip());
    let plain = in_brackets.unwrap_or(node).parse().ok();
    plain.or_else(with_port).map(|ip: IpAddr| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use actix_web::test::TestRequest;

    use super::*;

    fn seen(headers: &[(&str, &str)], proxies: &[&str]) -> (String, Option<&'static str>) {
        let mut request = TestRequest::default().peer_addr("10.0.0.9:1".parse().unwrap());
        for header in headers {
            request = request.append_header(*header);
        }
        let request = request.to_http_request();
        let proxies: Vec<IpNet> = proxies.iter().map(|text| text.parse().unwrap()).collect();
        let address = client_address(&proxies, &request).to_string();
        (address, scheme(&proxies, &request))
    }

    #[test]
    fn only_proxies_that_are_believed_may_name_the_client() {
        let headers = [
            ("x-forwarded-for", "1.1.1.1, 203.0.113.7, 10.0.0.8"),
            ("x-forwarded-proto", "http, HTTPS"),
        ];
        assert_eq!(seen(&headers, &[]), ("10.0.0.9".to_owned(), None));
        let believed = ("203.0.113.7".to_owned(), Some("https"));
        assert_eq!(seen(&headers, &["10.0.0.0/8"]), believed);
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_writes_it() {
        for (line, address, scheme) in [
            (
                "for=192.0.2.60;proto=https;by=10.0.0.9",
                "192.0.2.60",
                Some("https"),
            ),
            ("For=\"192.0.2.43:47011\"", "192.0.2.43", None),
            (
                "for=\"[2001:db8:cafe::17]:4711\"; Proto=http",
                "2001:db8:cafe::17",
                Some("http"),
            ),
            ("for=\"[2001:db8:cafe::17]\"", "2001:db8:cafe::17", None),
            ("for=\"[::ffff:192.0.2.60]:47011\"", "192.0.2.60", None),
            (
                "for=1.1.1.1, for=192.0.2.60, for=\"[::ffff:10.0.0.8]:80\", for=10.0.0.7",
                "192.0.2.60",
                None,
            ),
            (
                "for=1.1.1.1, for=192.0.2.60, for=10.0.0.8",
                "192.0.2.60",
                None,
            ),
            ("for=1.1.1.1, for=unknown", "10.0.0.9", None),
            ("for=1.1.1.1, for=_hidden, for=10.0.0.8", "10.0.0.8", None),
            ("for=1.1.1.1, by=10.0.0.9", "10.0.0.9", None),
            ("for=1.1.1.1;for=2.2.2.2", "10.0.0.9", None),
            ("for=\"a, for=1.1.1.1", "10.0.0.9", None),
            (
                "host=\"a\\\", for=1.1.1.1\";for=192.0.2.60",
                "192.0.2.60",
                None,
            ),
            ("", "10.0.0.9", None),
        ] {
            let seen = seen(&[("forwarded", line)], &["10.0.0.0/8"]);
            assert_eq!(seen, (address.to_owned(), scheme), "{line}");
        }
    }

    #[test]
    fn only_a_proxy_that_is_believed_may_name_the_host() {
        let asked = |headers: &[(&str, &str)], proxies: &[&str]| {
            let mut request = TestRequest::default().peer_addr("10.0.0.9:1".parse().unwrap());
            for header in headers {
                request = request.append_header(*header);
            }
            let proxies: Vec<IpNet> = proxies.iter().map(|text| text.parse().unwrap()).collect();
            host(&proxies, &request.to_http_request())
        };
        let own = ("host", "inner.example:80");
        let named = ("x-forwarded-host", "evil.example, chat.shop.example");
        let standard = ("forwarded", "for=1.1.1.1;host=chat.shop.example");
        for (headers, proxies, host) in [
            (vec![own, named], vec![], "inner.example:80"),
            (vec![own, standard], vec![], "inner.example:80"),
            (vec![own, named], vec!["10.0.0.0/8"], "chat.shop.example"),
            (vec![own, standard], vec!["10.0.0.0/8"], "chat.shop.example"),
            (vec![own], vec!["10.0.0.0/8"], "inner.example:80"),
            (
                vec![own, standard, ("x-forwarded-for", "1.1.1.1")],
                vec!["10.0.0.0/8"],
                "inner.example:80",
            ),
        ] {
            assert_eq!(
                asked(&headers, &proxies).as_deref(),
                Some(host),
                "{headers:?}"
            );
        }
    }

    #[test]
    fn several_lines_of_a_header_are_one() {
        let lines = [
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-for", "192.0.2.60, 10.0.0.8"),
            ("x-forwarded-for", "10.0.0.7"),
        ];
        assert_eq!(seen(&lines, &["10.0.0.0/8"]).0, "192.0.2.60");
        assert_eq!(seen(&lines, &["::ffff:10.0.0.0/104"]).0, "192.0.2.60");
    }

    #[test]
    fn of_both_headers_the_older_one_counts() {
        let headers = [
            ("forwarded", "for=1.1.1.1;proto=https"),
            ("x-forwarded-for", "192.0.2.60"),
            ("x-forwarded-proto", "http"),
        ];
        let believed = ("192.0.2.60".to_owned(), Some("http"));
        assert_eq!(seen(&headers, &["10.0.0.0/8"]), believed);
    }
}
