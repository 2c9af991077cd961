//! Whether a request was signed as HTTP Message Signatures has it (RFC 9421), with a secret that only
//! the key's holder has: what the signature must cover, what it says of itself, and what it is a
//! signature of. Knows no key and no store; whether a nonce was seen before is asked elsewhere.

use std::collections::HashSet;

use actix_web::http::header::{HeaderMap, HeaderName};
use actix_web::http::{Method, Uri};
use colloquy_model::time::Timestamp;
use ring::hmac;
use sfv::{Dictionary, FieldType, InnerList, Item, List, ListEntry, Parser};

/// How far `created` may be from now, in seconds.
pub(super) const AGE_SECONDS_MAX: i64 = 300;
/// The longest nonce, in characters.
const NONCE_CHARACTERS_MAX: usize = 64;
/// The one algorithm.
const ALGORITHM: &str = "hmac-sha256";

const SIGNATURE: HeaderName = HeaderName::from_static("signature");
const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");

const METHOD: &str = "@method";
const TARGET_URI: &str = "@target-uri";
const AUTHORIZATION: &str = "authorization";
const CONTENT_DIGEST: &str = "content-digest";

/// What of a request is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SignatureError {
    #[error("the request is not signed: the header {0} is missing")]
    Unsigned(&'static str),
    #[error("{0} is not written as RFC 9421 and RFC 8941 have it")]
    Malformed(&'static str),
    #[error("{0} names something twice, or is not written in its one canonical form")]
    NotCanonical(&'static str),
    #[error("no signature has this key's key_id as its keyid")]
    OtherKey,
    #[error("more than one signature has this key's key_id as its keyid")]
    SeveralSignatures,
    #[error("the signature does not cover \"{0}\"")]
    NotCovered(&'static str),
    #[error("the signature covers {0:?} twice")]
    CoveredTwice(String),
    #[error("the signature covers {0:?}, which is not supported or not in the request")]
    Unsupported(String),
    #[error("alg must be hmac-sha256 or be left out")]
    Algorithm,
    #[error("created is missing: it must be the Unix time of the signature, in seconds")]
    NoCreated,
    #[error("created is more than 5 minutes from now")]
    Created,
    #[error("expires is past")]
    Expired,
    #[error("nonce is missing, or has not 1 to 64 characters")]
    Nonce,
    #[error("the nonce was used before")]
    NonceSpent,
    #[error("the signature is not one of this request with the key's signing secret")]
    Wrong,
    #[error("Content-Digest is missing, malformed, or has neither sha-256 nor sha-512")]
    NoDigest,
    #[error("Content-Digest is not that of the body")]
    Digest,
}

/// The parts of a request that are signed.
pub(super) struct SignedParts<'r> {
    pub(super) method: &'r Method,
    /// Where the server is for its clients, without a slash at its end.
    pub(super) public_url: &'r str,
    pub(super) uri: &'r Uri,
    pub(super) headers: &'r HeaderMap,
    pub(super) has_body: bool,
}

/// With what it must be signed, and when it came.
pub(super) struct Expected<'k> {
    pub(super) key_id: &'k str,
    /// Any of these.
    pub(super) secrets: &'k [&'k str],
    pub(super) now: Timestamp,
}

/// What a good signature says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GoodSignature {
    pub(super) nonce: String,
    /// In Unix seconds.
    pub(super) created: i64,
}

/// Checks that the request is signed as is expected.
///
/// # Errors
/// What of it is not as it must be.
pub(super) fn verify(
    request: &SignedParts<'_>,
    expected: &Expected<'_>,
) -> Result<GoodSignature, SignatureError> {
    let inputs = dictionary(request.headers, &SIGNATURE_INPUT, "Signature-Input")?;
    let signatures = dictionary(request.headers, &SIGNATURE, "Signature")?;
    let (label, input) = own_input(&inputs, expected.key_id)?;
    let signature = match signatures.get(label) {
        Some(ListEntry::Item(item)) => item.bare_item.as_byte_sequence(),
        Some(ListEntry::InnerList(_)) | None => None,
    };
    let signature = signature.ok_or(SignatureError::Malformed("Signature"))?;
    check_covered(input, request.has_body)?;
    let good = check_parameters(input, expected.now)?;
    let base = signature_base(input, request)?;
    let is_signed_with = |secret: &&str| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        // In a time that tells nothing of where they differ.
        hmac::verify(&key, base.as_bytes(), signature).is_ok()
    };
    match expected.secrets.iter().any(is_signed_with) {
        true => Ok(good),
        false => Err(SignatureError::Wrong),
    }
}

/// Reads all lines of a header as one dictionary. One that names something twice is refused: two
/// readers could take it for two things.
fn dictionary(
    headers: &HeaderMap,
    name: &HeaderName,
    shown: &'static str,
) -> Result<Dictionary, SignatureError> {
    let lines: Option<Vec<&str>> = headers
        .get_all(name)
        .map(|line| line.to_str().ok())
        .collect();
    let text = lines.ok_or(SignatureError::Malformed(shown))?.join(", ");
    if text.is_empty() {
        return Err(SignatureError::Unsigned(shown));
    }
    let read: Dictionary = Parser::new(&text)
        .parse()
        .map_err(|_| SignatureError::Malformed(shown))?;
    // Spaces between its parts are nobody's concern.
    let squeezed = |text: &str| -> String { text.split([' ', '\t']).collect() };
    match read.serialize() {
        Some(canonical) if squeezed(&canonical) == squeezed(&text) => Ok(read),
        Some(_) | None => Err(SignatureError::NotCanonical(shown)),
    }
}

/// The one signature that names this key; those of others are theirs.
fn own_input<'i>(
    inputs: &'i Dictionary,
    key_id: &str,
) -> Result<(&'i str, &'i InnerList), SignatureError> {
    let mut own = inputs.iter().filter_map(|(label, entry)| match entry {
        ListEntry::InnerList(input) if text_of(input, "keyid") == Some(key_id) => {
            Some((label.as_str(), input))
        }
        ListEntry::InnerList(_) | ListEntry::Item(_) => None,
    });
    let first = own.next().ok_or(SignatureError::OtherKey)?;
    match own.next() {
        None => Ok(first),
        Some(_) => Err(SignatureError::SeveralSignatures),
    }
}

fn text_of<'i>(input: &'i InnerList, name: &str) -> Option<&'i str> {
    let text = input.params.get(name)?.as_string()?;
    Some(text.as_str())
}

fn integer_of(input: &InnerList, name: &str) -> Option<i64> {
    input.params.get(name)?.as_integer().map(i64::from)
}

/// What the signature covers, each by its name. None of them has parameters: these would make
/// something else of it.
fn covered<'i>(input: &'i InnerList) -> Result<Vec<&'i str>, SignatureError> {
    let name = |item: &'i Item| match (item.bare_item.as_string(), item.params.is_empty()) {
        (Some(name), true) => Ok(name.as_str()),
        (Some(name), false) => Err(SignatureError::Unsupported(name.as_str().to_owned())),
        (None, _) => Err(SignatureError::Malformed("Signature-Input")),
    };
    input.items.iter().map(name).collect()
}

fn check_covered(input: &InnerList, has_body: bool) -> Result<(), SignatureError> {
    let mut seen = HashSet::new();
    for name in covered(input)? {
        if !seen.insert(name) {
            return Err(SignatureError::CoveredTwice(name.to_owned()));
        }
    }
    let needed = [METHOD, TARGET_URI, AUTHORIZATION]
        .into_iter()
        .chain(has_body.then_some(CONTENT_DIGEST));
    for name in needed {
        if !seen.contains(name) {
            return Err(SignatureError::NotCovered(name));
        }
    }
    Ok(())
}

fn check_parameters(input: &InnerList, now: Timestamp) -> Result<GoodSignature, SignatureError> {
    if input.params.contains_key("alg") && text_of(input, "alg") != Some(ALGORITHM) {
        return Err(SignatureError::Algorithm);
    }
    let seconds = now.0.div_euclid(1_000);
    let created = integer_of(input, "created").ok_or(SignatureError::NoCreated)?;
    if seconds.abs_diff(created) > AGE_SECONDS_MAX.unsigned_abs() {
        return Err(SignatureError::Created);
    }
    let expires = integer_of(input, "expires");
    if input.params.contains_key("expires") && expires.is_none_or(|at| at < seconds) {
        return Err(SignatureError::Expired);
    }
    let nonce = text_of(input, "nonce").ok_or(SignatureError::Nonce)?;
    if !(1..=NONCE_CHARACTERS_MAX).contains(&nonce.chars().count()) {
        return Err(SignatureError::Nonce);
    }
    Ok(GoodSignature {
        nonce: nonce.to_owned(),
        created,
    })
}

/// What is signed (RFC 9421, 2.5): a line for each component, and one for what the signature says
/// of itself.
fn signature_base(input: &InnerList, request: &SignedParts<'_>) -> Result<String, SignatureError> {
    let mut base = String::new();
    for name in covered(input)? {
        let value =
            component(name, request).ok_or_else(|| SignatureError::Unsupported(name.to_owned()))?;
        base.push_str(&format!("\"{name}\": {value}\n"));
    }
    let of_itself: List = vec![ListEntry::InnerList(input.clone())];
    let of_itself = of_itself.serialize().unwrap_or_default();
    base.push_str(&format!("\"@signature-params\": {of_itself}"));
    Ok(base)
}

/// The value of a component; none where it is not supported, or not in the request.
fn component(name: &str, request: &SignedParts<'_>) -> Option<String> {
    let SignedParts {
        public_url, uri, ..
    } = request;
    let target = uri
        .path_and_query()
        .map_or(uri.path(), |part| part.as_str());
    let (scheme, rest) = public_url.split_once("://")?;
    let authority = rest.split('/').next().unwrap_or(rest);
    Some(match name {
        METHOD => request.method.as_str().to_owned(),
        TARGET_URI => format!("{public_url}{target}"),
        "@authority" => authority.to_lowercase(),
        "@scheme" => scheme.to_lowercase(),
        "@request-target" => target.to_owned(),
        "@path" => uri.path().to_owned(),
        "@query" => format!("?{}", uri.query().unwrap_or_default()),
        derived if derived.starts_with('@') => return None,
        field => field_value(request.headers, field)?,
    })
}

/// All lines of a header as one value.
fn field_value(headers: &HeaderMap, name: &str) -> Option<String> {
    // Names are signed in lower case.
    let header = HeaderName::try_from(name).ok()?;
    if header.as_str() != name {
        return None;
    }
    let lines: Option<Vec<&str>> = headers
        .get_all(&header)
        .map(|line| line.to_str().ok().map(str::trim))
        .collect();
    lines
        .filter(|lines| !lines.is_empty())
        .map(|lines| lines.join(", "))
}

/// Checks a body against what its header says of it (RFC 9530): each digest that is known, and at
/// least one.
///
/// # Errors
/// There is none, or the body is another.
pub(super) fn check_digest(headers: &HeaderMap, body: &[u8]) -> Result<(), SignatureError> {
    let header = HeaderName::from_static(CONTENT_DIGEST);
    let digests = dictionary(headers, &header, "Content-Digest");
    let digests = digests.map_err(|_| SignatureError::NoDigest)?;
    let mut known = 0;
    for (name, algorithm) in [
        ("sha-256", &ring::digest::SHA256),
        ("sha-512", &ring::digest::SHA512),
    ] {
        let Some(entry) = digests.get(name) else {
            continue;
        };
        let ListEntry::Item(item) = entry else {
            return Err(SignatureError::NoDigest);
        };
        let said = item.bare_item.as_byte_sequence();
        if said != Some(ring::digest::digest(algorithm, body).as_ref()) {
            return Err(SignatureError::Digest);
        }
        known += 1;
    }
    match known {
        0 => Err(SignatureError::NoDigest),
        _ => Ok(()),
    }
}
