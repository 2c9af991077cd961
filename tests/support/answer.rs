//! An answer, and what every answer must have: checked here and nowhere else.

use std::fmt::Display;
use std::ops::Index;

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::shapes;

/// What protects whoever reads an answer, and is not to be missing from any: its body is what it
/// says it is, no other page frames it or learns its address, and no word tells what has made it.
pub(crate) fn check_protection(headers: &HeaderMap, body: &[u8], answer: impl Display) {
    let header = |name: &str| {
        headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    };
    assert_eq!(header("x-content-type-options"), "nosniff", "{answer}");
    let referrer = header("referrer-policy");
    assert!(
        ["no-referrer", "same-origin"].contains(&referrer),
        "{referrer:?}: {answer}"
    );
    let policy = header("content-security-policy");
    for part in ["default-src 'none'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy:?}: {answer}");
    }
    // The proxy of some tests has a name; versions nobody tells.
    assert!(["", "nginx"].contains(&header("server")), "{answer}");
    assert_eq!(header("x-powered-by"), "", "{answer}");
    let kind = header("content-type");
    assert!(body.is_empty() || !kind.is_empty(), "no type: {answer}");
    assert!(
        !kind.starts_with("text/") || kind.ends_with("; charset=utf-8"),
        "{kind:?}: {answer}"
    );
}

/// What the caller lets one expect of every answer.
#[derive(Clone, Copy)]
pub(crate) struct Expected {
    /// An API key was sent: unless it was refused, the limits stand in the headers.
    pub(crate) with_limits: bool,
}

/// One answer of the server.
#[derive(Debug)]
pub(crate) struct Answer {
    operation: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
    /// The body as JSON, null where it is none.
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn checked(
        op: String,
        status: u16,
        headers: HeaderMap,
        bytes: Vec<u8>,
        expected: Expected,
    ) -> Self {
        let json = headers
            .get("content-type")
            .and_then(|value| value.to_str().ok())
            .is_some_and(|kind| kind.contains("json"));
        let parsed = if json && !bytes.is_empty() {
            serde_json::from_slice(&bytes)
        } else {
            Ok(Value::Null)
        };
        let body =
            parsed.unwrap_or_else(|error| panic!("{op}: {status}, no JSON ({error}): {bytes:?}"));
        let answer = Self {
            operation: op,
            status,
            headers,
            bytes,
            body,
        };
        answer.check_identity();
        // 404 of a route, 405 and 401 are decided before the key is looked at.
        let no_key = status == 429
            && answer.body["error"]["details"]["reason"]
                .to_string()
                .contains("failed authentications");
        let nobody_knows = status == 503
            && answer.body["error"]["details"]["reason"]
                .to_string()
                .contains("has lost the others");
        let before_the_key = no_key
            || nobody_knows
            || matches!(status, 401 | 404 | 405)
            || answer.operation.starts_with("OPTIONS");
        if expected.with_limits
            && (!before_the_key || answer.header_opt("x-ratelimit-limit").is_some())
        {
            answer.check_limits();
        }
        if status == 201 {
            assert!(
                answer.header("location").starts_with('/'),
                "a Location is a path: {answer}"
            );
        }
        answer
    }

    fn check_identity(&self) {
        let id = self.header("x-request-id");
        let plain = id
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        assert!(
            plain && (1..=128).contains(&id.len()),
            "X-Request-Id {id:?}: {self}"
        );
        assert_eq!(self.header("x-api-version"), "1.0", "{self}");
        check_protection(&self.headers, &self.bytes, self);
    }

    fn check_limits(&self) {
        for name in [
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
        ] {
            assert!(
                self.header(name).parse::<u64>().is_ok(),
                "{name} is a number: {self}"
            );
        }
        assert!(
            self.number("x-ratelimit-remaining") <= self.number("x-ratelimit-limit"),
            "{self}"
        );
        for name in ["ratelimit-policy", "ratelimit"] {
            let value = self.header(name);
            assert!(
                value.contains("\"rate\"") && value.contains("\"burst\""),
                "{name}: {value}: {self}"
            );
        }
    }

    /// The answer, if it has this status.
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self}");
        self
    }

    /// The answer, if it is this error in the exact shape. `field` is empty where no parameter is
    /// at fault, and `*` where the contract leaves open which one is.
    pub(crate) fn error(self, status: u16, code: &str, field: &str) -> Self {
        assert_eq!(self.status, status, "{self}");
        assert!(
            self.header("content-type").starts_with("application/json"),
            "{self}"
        );
        assert_eq!(shapes::keys(&self.body), ["error"], "{self}");
        let error = &self.body["error"];
        assert_eq!(
            shapes::keys(error),
            ["code", "details", "message"],
            "{self}"
        );
        assert_eq!(error["code"], code, "{self}");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{self}"
        );
        let named = error["details"]["field"].as_str();
        assert!(
            named == Some(field) || (field == "*" && named.is_some()),
            "not {field:?}: {self}"
        );
        assert!(error["details"]["reason"].is_string(), "{self}");
        self.check_error_headers();
        self
    }

    fn check_error_headers(&self) {
        match self.status {
            401 => assert!(
                self.header("www-authenticate").starts_with("Bearer"),
                "{self}"
            ),
            405 => assert!(!self.header("allow").is_empty(), "{self}"),
            429 => assert!(self.number("retry-after") >= 1, "{self}"),
            500 => self.check_outcome(),
            503 => {
                self.check_outcome();
                assert!(self.number("retry-after") >= 1, "{self}");
            }
            _ => {}
        }
    }

    fn check_outcome(&self) {
        let outcome = self.body["error"]["details"]["outcome"]
            .as_str()
            .unwrap_or_default();
        assert!(["none", "unknown"].contains(&outcome), "{self}");
    }

    /// The reason of an error.
    pub(crate) fn reason(&self) -> &str {
        self.body["error"]["details"]["reason"]
            .as_str()
            .unwrap_or_else(|| panic!("no reason: {self}"))
    }

    /// The message of an error.
    pub(crate) fn message(&self) -> &str {
        self.body["error"]["message"]
            .as_str()
            .unwrap_or_else(|| panic!("no message: {self}"))
    }

    pub(crate) fn header_opt(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// All headers of a name, in their order.
    pub(crate) fn header_all(&self, name: &str) -> Vec<&str> {
        let values = self.headers.get_all(name).iter();
        values.filter_map(|value| value.to_str().ok()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.header_opt(name)
            .unwrap_or_else(|| panic!("no {name} header: {self}"))
    }

    /// A header that is a whole number.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.header(name)
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {self}"))
    }

    pub(crate) fn etag(&self) -> String {
        self.header("etag").to_owned()
    }

    /// A field that is a non-empty string.
    pub(crate) fn id(&self, field: &str) -> String {
        let text = self.body[field].as_str().filter(|text| !text.is_empty());
        text.unwrap_or_else(|| panic!("{field} is no string: {self}"))
            .to_owned()
    }

    /// The list of a list answer.
    pub(crate) fn data(&self) -> &Vec<Value> {
        self.body["data"]
            .as_array()
            .unwrap_or_else(|| panic!("no list: {self}"))
    }

    /// One field of each item of a list answer.
    pub(crate) fn column(&self, field: &str) -> Vec<String> {
        self.data()
            .iter()
            .map(|item| item[field].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// `meta.total` of a list answer.
    pub(crate) fn total(&self) -> u64 {
        self.body["meta"]["total"]
            .as_u64()
            .unwrap_or_else(|| panic!("no total: {self}"))
    }

    /// The path in the `Link` header with this relation.
    pub(crate) fn link(&self, relation: &str) -> Option<String> {
        self.header_opt("link")?.split(',').find_map(|link| {
            let (target, parameters) = link.split_once('>')?;
            let named = parameters.contains(&format!("rel=\"{relation}\""))
                || parameters.contains(&format!("rel={relation}"));
            named.then(|| path_of(target.trim().trim_start_matches('<')))
        })
    }
}

/// A target without scheme and host, so that relative and absolute links serve alike.
fn path_of(target: &str) -> String {
    match target.split_once("://") {
        Some((_, rest)) => rest
            .find('/')
            .map_or_else(String::new, |at| rest[at..].to_owned()),
        None => target.to_owned(),
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(2000)]);
        write!(
            f,
            "{} answered {} {:?}\n{start}",
            self.operation, self.status, self.headers
        )
    }
}

impl Index<&str> for Answer {
    type Output = Value;

    fn index(&self, field: &str) -> &Value {
        &self.body[field]
    }
}
