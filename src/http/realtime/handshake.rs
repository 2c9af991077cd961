//! How a WebSocket is opened (RFC 6455, 4.2): what the request must say, and what the answer says
//! to it.

use actix_web::HttpRequest;
use actix_web::http::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use actix_web::http::{Method, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use super::super::problem::Problem;

/// The one subprotocol that there is.
pub(crate) const PROTOCOL: &str = "colloquy.v1";
/// What every server adds to the client's key.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const VERSION: &str = "13";

/// What the answer to a WebSocket's opening request must say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// The value of `Sec-WebSocket-Accept`.
    pub(crate) accept: HeaderValue,
    /// Whether the subprotocol was asked for.
    pub(crate) protocol: bool,
}

/// Judges a request to open a WebSocket, and says how it is to be answered.
pub(crate) fn handshake(request: &HttpRequest) -> Result<Handshake, Problem> {
    let headers = request.headers();
    let wrong = |name: &'static str, reason: &'static str| Err(Problem::invalid(name, reason));
    if request.method() != Method::GET || request.version() != Version::HTTP_11 {
        return wrong("", "must be a GET over HTTP/1.1 that asks for a WebSocket");
    }
    if !has(headers, UPGRADE, "websocket") {
        return wrong(
            "Upgrade",
            "must be websocket: this path opens WebSockets only",
        );
    }
    if !has(headers, CONNECTION, "upgrade") {
        return wrong("Connection", "must be Upgrade");
    }
    if !has(headers, SEC_WEBSOCKET_VERSION, VERSION) {
        return wrong("Sec-WebSocket-Version", "must be 13");
    }
    let key = headers
        .get(SEC_WEBSOCKET_KEY)
        .map(HeaderValue::as_bytes)
        .unwrap_or_default();
    if STANDARD.decode(key).map(|bytes| bytes.len()) != Ok(16) {
        return wrong("Sec-WebSocket-Key", "must be 16 bytes in base64");
    }
    let protocol = headers.contains_key(SEC_WEBSOCKET_PROTOCOL);
    if protocol && !has(headers, SEC_WEBSOCKET_PROTOCOL, PROTOCOL) {
        return wrong(
            "Sec-WebSocket-Protocol",
            "must name colloquy.v1 or be left out",
        );
    }
    let digest = Sha1::new().chain_update(key).chain_update(GUID).finalize();
    let accept = HeaderValue::from_maybe_shared(bytes::Bytes::from(STANDARD.encode(digest)));
    Ok(Handshake {
        accept: accept.map_err(|_| Problem::crashed())?,
        protocol,
    })
}

/// Whether one of a header's comma-separated words is this one.
fn has(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let lines = headers
        .get_all(name)
        .filter_map(|value| value.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn asked(changes: &[(&'static str, &'static str)]) -> Result<Handshake, Problem> {
        let mut request = TestRequest::get();
        for (name, value) in [
            ("Upgrade", "websocket"),
            ("Connection", "keep-alive, Upgrade"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ]
        .iter()
        .chain(changes)
        {
            request = request.insert_header((*name, *value));
        }
        handshake(&request.to_http_request())
    }

    #[test]
    fn the_answer_proves_that_the_key_was_read() {
        let accept = HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(
            asked(&[]),
            Ok(Handshake {
                accept: accept.clone(),
                protocol: false
            })
        );
        let named = asked(&[("Sec-WebSocket-Protocol", "x, colloquy.v1")]);
        assert_eq!(
            named,
            Ok(Handshake {
                accept,
                protocol: true
            })
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        for (name, value) in [
            ("Upgrade", "h2c"),
            ("Connection", "close"),
            ("Sec-WebSocket-Version", "8"),
            ("Sec-WebSocket-Key", "short"),
            ("Sec-WebSocket-Protocol", "colloquy.v2"),
        ] {
            assert_eq!(
                asked(&[(name, value)]).map_err(|problem| problem.field),
                Err(name.into())
            );
        }
    }
}
