//! How a delivery is signed, in two schemes at once: Standard Webhooks, and the one header that Stripe's verifiers read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::id::EventId;

/// How a secret begins; the rest is base64 of its bytes.
const PREFIX: &str = "whsec_";
const SECRET_BYTES: usize = 32;

/// What a delivery's headers are made of.
#[derive(Debug, Clone, Copy)]
pub struct Signing<'a> {
    /// What signs, each with the instant in Unix milliseconds at which it ends; those whose time is over are left out.
    pub secrets: &'a [(String, Option<i64>)],
    /// The event: the same on every attempt.
    pub event: EventId,
    /// What is sent.
    pub body: &'a [u8],
    /// When, in Unix milliseconds.
    pub now_ms: i64,
    /// Which attempt: 1, 2, 3 …
    pub attempt: u32,
}

/// A new secret.
#[must_use]
pub fn new_secret() -> String {
    let mut bytes = [0; SECRET_BYTES];
    crate::random::fill(&mut bytes);
    format!("{PREFIX}{}", STANDARD.encode(bytes))
}

/// The headers of a delivery.
#[must_use]
pub fn headers(signing: Signing<'_>) -> Vec<(&'static str, String)> {
    let Signing { secrets, event, body, now_ms, attempt } = signing;
    let seconds = now_ms.div_euclid(1000).to_string();
    let id = event.to_string();
    let mut service = format!("t={seconds}");
    let mut standard = Vec::new();
    for (secret, _) in secrets.iter().filter(|(_, until)| until.is_none_or(|until| now_ms < until)) {
        service.push_str(&format!(",v1={}", service_signature(secret, &seconds, body)));
        standard.push(format!("v1,{}", standard_signature(secret, [&id, &seconds], body)));
    }
    vec![
        ("User-Agent", "Colloquy-Webhooks/1.0".to_owned()),
        ("Content-Type", "application/json".to_owned()),
        ("X-Webhook-Attempt", attempt.to_string()),
        ("X-Service-Signature", service),
        ("webhook-id", id),
        ("webhook-timestamp", seconds),
        ("webhook-signature", standard.join(" ")),
    ]
}

/// Hex of the MAC of `<t>.<body>`, keyed with the whole text of the secret.
fn service_signature(secret: &str, seconds: &str, body: &[u8]) -> String {
    let code = mac(secret.as_bytes(), &[seconds.as_bytes(), b".", body]);
    code.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Base64 of the MAC of `<id>.<t>.<body>`, keyed with the decoded secret.
fn standard_signature(secret: &str, [id, seconds]: [&str; 2], body: &[u8]) -> String {
    let decoded = STANDARD.decode(secret.trim_start_matches(PREFIX)).unwrap_or_default();
    STANDARD.encode(mac(&decoded, &[id.as_bytes(), b".", seconds.as_bytes(), b".", body]))
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // A key of any length is a key of HMAC: this can't fail.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}
