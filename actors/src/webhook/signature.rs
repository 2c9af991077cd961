//! How a delivery is signed, in two schemes at once: Standard Webhooks, and the one header that
//! Stripe's verifiers read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use colloquy_model::endpoint::SigningSecret;
use colloquy_model::id::EventId;
use colloquy_model::time::Timestamp;

/// How a secret begins; the rest is base64 of its bytes.
const PREFIX: &str = "whsec_";
const SECRET_BYTES: usize = 32;

/// What a delivery's headers are made of.
#[derive(Debug, Clone, Copy)]
pub struct Signing<'a> {
    /// What signs; secrets whose time is over are left out.
    pub secrets: &'a [SigningSecret],
    /// The event: the same on every attempt.
    pub event: EventId,
    /// What is sent, byte for byte.
    pub body: &'a [u8],
    /// The instant at which it is signed.
    pub now: Timestamp,
    /// Which attempt it is: 1, 2, 3 …
    pub attempt: u32,
}

/// Makes a secret of random bytes, as it is shown and stored.
#[must_use]
pub fn new_secret() -> String {
    let mut bytes = [0; SECRET_BYTES];
    colloquy_model::random::fill(&mut bytes);
    format!("{PREFIX}{}", STANDARD.encode(bytes))
}

/// The headers of a delivery.
#[must_use]
pub fn headers(signing: Signing<'_>) -> Vec<(&'static str, String)> {
    let Signing {
        secrets,
        event,
        body,
        now,
        attempt,
    } = signing;
    let seconds = now.unix_seconds().to_string();
    let id = event.to_string();
    let mut service = format!("t={seconds}");
    let mut standard = Vec::new();
    let signed = Signed {
        id: &id,
        seconds: &seconds,
        body,
    };
    for secret in secrets.iter().filter(|secret| secret.signs_at(now)) {
        service.push_str(&format!(",v1={}", service_signature(&secret.text, signed)));
        standard.push(format!("v1,{}", standard_signature(&secret.text, signed)));
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

/// What a signature covers.
#[derive(Debug, Clone, Copy)]
struct Signed<'a> {
    /// The event's identifier.
    id: &'a str,
    /// The Unix time, in whole seconds.
    seconds: &'a str,
    body: &'a [u8],
}

/// Hex of the MAC of `<t>.<body>`, keyed with the whole text of the secret.
fn service_signature(secret: &str, signed: Signed<'_>) -> String {
    let parts = [signed.seconds.as_bytes(), b".", signed.body];
    let code = mac(secret.as_bytes(), &parts);
    code.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Base64 of the MAC of `<id>.<t>.<body>`, keyed with the decoded secret.
fn standard_signature(secret: &str, signed: Signed<'_>) -> String {
    let Signed { id, seconds, body } = signed;
    let decoded = STANDARD
        .decode(secret.trim_start_matches(PREFIX))
        .unwrap_or_default();
    STANDARD.encode(mac(
        &decoded,
        &[id.as_bytes(), b".", seconds.as_bytes(), b".", body],
    ))
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // A key of any length is a key of HMAC: this can't fail.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return [0; 32];
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    /// The example of the Standard Webhooks specification's reference libraries.
    #[test]
    fn the_standard_webhooks_example_comes_out() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let body = br#"{"test": 2432232314}"#;
        let signature = standard_signature(
            secret,
            Signed {
                id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
                seconds: "1614265330",
                body,
            },
        );
        assert_eq!(signature, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    /// RFC 4231, test case 2: the scheme that Stripe's verifiers read is HMAC of the time, a dot
    /// and the body.
    #[test]
    fn the_service_signature_is_keyed_with_the_whole_text() {
        let code: String = mac(b"Jefe", &[b"what do ya ", b"want for nothing?"])
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            code,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        // python: hmac.new(b"whsec_test", b"1614265330.{}", "sha256").hexdigest()
        let expected = "5790023bd77209313f2e32e36caf5921bdd2fac398095f83dc2d2ecd5f696f50";
        assert_eq!(
            service_signature(
                "whsec_test",
                Signed {
                    id: "not covered",
                    seconds: "1614265330",
                    body: b"{}",
                }
            ),
            expected
        );
    }

    #[test]
    fn every_secret_whose_time_is_not_over_signs() {
        let (newest, older) = (new_secret(), new_secret());
        assert_eq!(
            STANDARD
                .decode(newest.strip_prefix("whsec_").unwrap())
                .unwrap()
                .len(),
            32
        );
        let secrets = [(newest, None), (older, Some(Timestamp(5_000)))]
            .map(|(text, ends_at)| SigningSecret { text, ends_at });
        let count = |now| {
            let signing = Signing {
                secrets: &secrets,
                event: EventId::new(Timestamp(1)),
                body: b"{}",
                now,
                attempt: 2,
            };
            let headers = headers(signing);
            let of = |name| {
                headers
                    .iter()
                    .find(|(given, _)| *given == name)
                    .map(|(_, value)| value.clone())
                    .unwrap()
            };
            assert_eq!(
                (of("webhook-timestamp"), of("X-Webhook-Attempt")),
                (now.unix_seconds().to_string(), "2".to_owned())
            );
            (
                of("X-Service-Signature").matches(",v1=").count(),
                of("webhook-signature").split(' ').count(),
            )
        };
        assert_eq!(
            (count(Timestamp(4_999)), count(Timestamp(5_000))),
            ((2, 2), (1, 1))
        );
    }
}
