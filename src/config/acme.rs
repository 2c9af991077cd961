//! `[tls.acme]`: what must hold among its settings, and what they give.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use colloquy_objects::{Location, NotALocation};
use rustls::pki_types::DnsName;

use super::addresses::{check_endpoint, check_web_url};
use super::checks::{Wrong, wrong};
use super::sections::Acme;

/// The most names that settings list.
const DOMAINS_MAX: usize = 100;

impl Acme {
    /// Where the account and the certificates are kept.
    pub(crate) fn location(&self) -> Result<Location, NotALocation> {
        Location::parse(&self.storage, &self.storage_endpoint)
    }

    /// The account elsewhere to which the authority binds the one here: its name, and the key that
    /// proves it.
    pub(crate) fn external_account(&self) -> Option<(String, Vec<u8>)> {
        let key = external_key(&self.external_account_key)?;
        (!self.external_account_id.is_empty()).then(|| (self.external_account_id.clone(), key))
    }

    /// What can be said without the file of `directory_ca`: whoever orders looks at it.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        for (index, name) in self.domains.iter().enumerate() {
            check_domain(name)?;
            let same = |other: &String| other.eq_ignore_ascii_case(name);
            if self.domains.iter().take(index).any(same) {
                wrong("tls.acme.domains", &format!("names {name} twice"))?;
            }
        }
        if self.domains.len() > DOMAINS_MAX {
            let right = format!("must be at most {DOMAINS_MAX}");
            wrong("tls.acme.domains", &right)?;
        }
        if !self.directory.starts_with("https://") {
            wrong("tls.acme.directory", "must be an https:// URL")?;
        }
        check_web_url("tls.acme.directory", &self.directory)?;
        let is_contact = |uri: &String| uri.starts_with("mailto:") && uri.contains('@');
        if !self.contact.iter().all(is_contact) {
            let right = "must be a list of addresses such as \"mailto:ops@example.com\"";
            wrong("tls.acme.contact", right)?;
        }
        self.check_account()?;
        if let Err(error) = self.location() {
            wrong("tls.acme.storage", &error.to_string())?;
        }
        check_endpoint("tls.acme.storage_endpoint", &self.storage_endpoint)?;
        if !(0.0..=365.0).contains(&self.renew_before_days) {
            let right = "must be at least 0 and at most 365";
            wrong("tls.acme.renew_before_days", right)?;
        }
        Ok(())
    }

    fn check_account(&self) -> Result<(), Wrong> {
        if self.is_on() && !self.terms_of_service_agreed {
            let right = "must be true where tls.acme.domains is given: no authority issues to who has not agreed to its terms";
            wrong("tls.acme.terms_of_service_agreed", right)?;
        }
        let (id, key) = (&self.external_account_id, &self.external_account_key);
        if id.is_empty() != key.is_empty() {
            let missing = match id.is_empty() {
                true => "tls.acme.external_account_id",
                false => "tls.acme.external_account_key",
            };
            wrong(missing, "must be given where its other half is")?;
        }
        if !key.is_empty() && external_key(key).is_none() {
            let right = "must be the key that the authority gave, in base64url";
            wrong("tls.acme.external_account_key", right)?;
        }
        Ok(())
    }
}

/// A key as authorities hand it out.
fn external_key(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}

/// Whether it is a name for which a certificate can be ordered.
fn check_domain(name: &str) -> Result<(), Wrong> {
    let not = |right: &str| wrong("tls.acme.domains", &format!("{name:?} {right}"));
    if name.contains('*') {
        not("can't be ordered: names with * are proven in DNS, give their certificate as files")?;
    }
    if name.parse::<std::net::IpAddr>().is_ok() {
        not("must be a host name, and no address")?;
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    if DnsName::try_from(name).is_err() || !name.chars().all(is_plain) || name.ends_with('.') {
        not(
            "must be a host name such as \"support.example.com\", in its form with xn-- where it is international",
        )?;
    }
    Ok(())
}
