//! Browsers in which a person has signed in before: each keeps a text that only this store's nodes can
//! make, so that what others try elsewhere does not shut it out (OWASP, "device cookies"). It signs
//! nobody in.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use colloquy_model::key::{SecretHash, secret_hash};
use colloquy_model::secret;
use colloquy_model::time::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How long a browser knows a name after it has been used to sign in.
pub const BROWSER_KNOWS: Duration = Duration::from_hours(30 * 24);

/// Tells browsers that know a name from all others.
pub struct KnownBrowsers(Hmac<Sha256>);

impl KnownBrowsers {
    /// Those of the nodes that have this key.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let key = Hmac::new_from_slice(key);
        KnownBrowsers(key.unwrap_or_else(|_| unreachable!("a key may have any length")))
    }

    /// What a browser keeps in which the person of this name has just signed in.
    #[must_use]
    pub fn text(&self, name: &str, now: Timestamp) -> String {
        let signed = format!("{}.{}", secret::generate(""), (now + BROWSER_KNOWS).0);
        let code = self.mac(&signed, name).finalize().into_bytes();
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(code))
    }

    /// Which browser it is that has kept this text, if it knows this name.
    #[must_use]
    pub fn recognize(&self, text: &str, name: &str, now: Timestamp) -> Option<SecretHash> {
        let (signed, code) = text.rsplit_once('.')?;
        let code = BASE64_URL_SAFE_NO_PAD.decode(code).ok()?;
        self.mac(signed, name).verify_slice(&code).ok()?;
        let (_, until) = signed.split_once('.')?;
        let until = Timestamp(until.parse().ok()?);
        (now < until).then(|| secret_hash(signed))
    }

    fn mac(&self, signed: &str, name: &str) -> Hmac<Sha256> {
        // Names may have spaces; what stands before it has none.
        self.0
            .clone()
            .chain_update(signed)
            .chain_update(" ")
            .chain_update(name)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);
    const ADA: &str = "ada@example.com";

    #[test]
    fn a_browser_knows_the_name_that_it_was_used_for_and_for_30_days() {
        let browsers = KnownBrowsers::new(&[7; 32]);
        let text = browsers.text(ADA, NOW);
        let known = browsers.recognize(&text, ADA, NOW).unwrap();
        let (last, over) = (Duration::from_millis(1), Duration::ZERO);
        let at = |left| NOW + (BROWSER_KNOWS - left);
        assert_eq!(browsers.recognize(&text, ADA, at(last)), Some(known));
        assert_eq!(browsers.recognize(&text, ADA, at(over)), None);
        assert_eq!(browsers.recognize(&text, "bob@example.com", NOW), None);
        assert_eq!(browsers.recognize(&text, "", NOW), None);
        let again = browsers.text(ADA, NOW);
        assert_ne!(browsers.recognize(&again, ADA, NOW), Some(known));
    }

    #[test]
    fn a_text_that_was_made_or_changed_by_others_is_nobodys() {
        let browsers = KnownBrowsers::new(&[7; 32]);
        let text = browsers.text(ADA, NOW);
        let others = KnownBrowsers::new(&[8; 32]);
        assert_eq!(others.recognize(&text, ADA, NOW), None);
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            *changed.get_mut(at).unwrap() ^= 1;
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(browsers.recognize(&changed, ADA, NOW), None, "{changed}");
            let cut = text.get(..at).unwrap();
            assert_eq!(browsers.recognize(cut, ADA, NOW), None, "{cut}");
        }
        for none in ["", ".", "..", "a.b.c", "😀.9999999999999."] {
            assert_eq!(browsers.recognize(none, ADA, NOW), None);
        }
    }
}
