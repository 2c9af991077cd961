//! The certificates that were issued and are in force, by name, and the one that stands in for them
//! before the first is there.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use instant_acme::CertificateIdentifier;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, Der, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::AuthorityKeyIdentifier;

use super::super::files::{certificates, validity, with_key};
use super::domains::Names;

const DAY_SECONDS: i64 = 86_400;

/// What the placeholder calls itself, for whoever looks why it is not trusted.
const PLACEHOLDER: &str = "Colloquy has no certificate yet";

/// A certificate with its key, from an authority.
#[derive(Debug)]
pub(super) struct Issued {
    certified: Arc<CertifiedKey>,
    /// In seconds since 1970.
    begins: i64,
    /// In seconds since 1970.
    ends: i64,
    /// How the authority knows it (RFC 9773, 4.1), where it says who has issued it.
    id: Option<CertificateIdentifier<'static>>,
}

impl Issued {
    /// Made of what is kept for this name, both in PEM.
    ///
    /// # Errors
    /// What is wrong with it: it is not for this name, or its parts do not belong together.
    pub(super) fn of(name: &str, chain: &str, key: &str) -> Result<Self, String> {
        let chain = certificates(chain.as_bytes())?;
        let first = chain.first().ok_or("there is no certificate")?;
        let (begins, ends) = validity(first).ok_or("it is no certificate of X.509")?;
        let server = ServerName::try_from(name).map_err(|error| error.to_string())?;
        let parsed = ParsedCertificate::try_from(first).map_err(|error| error.to_string())?;
        verify_server_name(&parsed, &server).map_err(|error| error.to_string())?;
        let id = id_of(first);
        let certified = Arc::new(with_key(chain, key.as_bytes())?);
        Ok(Issued {
            certified,
            begins,
            ends,
            id,
        })
    }

    /// When another one is to be ordered: so many days before its end, or, for 0, when a third of
    /// its time is left. Two thirds are the most, or it would be renewed for ever.
    pub(super) fn renewed_at(&self, before_days: f64) -> i64 {
        renewed_at((self.begins, self.ends), before_days)
    }

    pub(super) fn ends(&self) -> i64 {
        self.ends
    }

    pub(super) fn id(&self) -> Option<&CertificateIdentifier<'static>> {
        self.id.as_ref()
    }

    /// When it is renewed where the authority suggests that time: not on its first day, and not in
    /// the first third of its time, or an authority that is wrong would have it renewed for ever.
    pub(super) fn suggested_at(&self, suggested: i64) -> i64 {
        let young = DAY_SECONDS.min((self.ends - self.begins) / 3);
        suggested.max(self.begins + young)
    }
}

/// How the authority knows a certificate: by its own key's name, and the certificate's number.
fn id_of(certificate: &CertificateDer<'_>) -> Option<CertificateIdentifier<'static>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let certificate = certificate.tbs_certificate;
    let (_, authority) = certificate.get::<AuthorityKeyIdentifier>().ok()??;
    let authority = authority.key_identifier?;
    let (authority, number) = (authority.as_bytes(), certificate.serial_number.as_bytes());
    let id = CertificateIdentifier::new(Der::from_slice(authority), Der::from_slice(number));
    Some(id.into_owned())
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "checked: at most some years"
)]
fn renewed_at((begins, ends): (i64, i64), before_days: f64) -> i64 {
    let lifetime = (ends - begins).max(0);
    let before = match before_days > 0.0 {
        true => (before_days * 86_400.0) as i64,
        false => lifetime / 3,
    };
    ends - before.min(lifetime / 3 * 2)
}

/// Those in force.
pub(crate) struct Certificates {
    by_name: ArcSwap<BTreeMap<String, Arc<Issued>>>,
    placeholder: Arc<CertifiedKey>,
}

impl Certificates {
    /// None yet, and a placeholder that nobody vouches for.
    ///
    /// # Errors
    /// Why the placeholder can't be made.
    pub(super) fn new() -> Result<Self, String> {
        Ok(Certificates {
            by_name: ArcSwap::default(),
            placeholder: Arc::new(placeholder()?),
        })
    }

    /// The one of exactly this name.
    pub(super) fn of(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let by_name = self.by_name.load();
        by_name.get(name).map(|one| Arc::clone(&one.certified))
    }

    /// The one that is shown to whoever asks for no name, or for one that is not ours: that of the
    /// first name that has one, otherwise the placeholder.
    pub(super) fn for_others(&self, wanted: &Names) -> Arc<CertifiedKey> {
        let first = wanted.iter().find_map(|name| self.of(name));
        first.unwrap_or_else(|| Arc::clone(&self.placeholder))
    }

    /// When the one of this name ends, in seconds since 1970.
    pub(super) fn ends(&self, name: &str) -> Option<i64> {
        self.by_name.load().get(name).map(|one| one.ends())
    }

    /// Lets this one hold for connections that come; whether another one did before, or none.
    pub(super) fn put(&self, name: &str, issued: Issued) -> bool {
        let before = self.of(name);
        let is_new = before.is_none_or(|before| before.cert != issued.certified.cert);
        if is_new {
            let issued = Arc::new(issued);
            self.by_name.rcu(|before| {
                let mut by_name = BTreeMap::clone(before);
                by_name.insert(name.to_owned(), Arc::clone(&issued));
                by_name
            });
        }
        is_new
    }

    /// Lets those of all other names go.
    pub(super) fn keep_only(&self, wanted: &Names) {
        self.by_name.rcu(|before| {
            let mut by_name = BTreeMap::clone(before);
            by_name.retain(|name, _| wanted.contains(name));
            by_name
        });
    }

    /// All that is known of the one of this name.
    pub(super) fn issued(&self, name: &str) -> Option<Arc<Issued>> {
        self.by_name.load().get(name).cloned()
    }
}

/// A certificate of a new key that vouches for itself and names nobody.
fn placeholder() -> Result<CertifiedKey, String> {
    let made = || -> Result<(String, String), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, PLACEHOLDER);
        Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
    };
    let (certificate, key) = made().map_err(|error| error.to_string())?;
    with_key(certificates(certificate.as_bytes())?, key.as_bytes())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn it_is_renewed_before_its_end_and_never_as_soon_as_it_begins() {
        const DAY: i64 = 86_400;
        for (days, before, renewed) in [
            (90, 0.0, 60),
            (90, 30.0, 60),
            (45, 0.0, 30),
            (6, 0.0, 4),
            (6, 30.0, 2),
            (90, 1.0, 89),
        ] {
            let at = renewed_at((1_000, 1_000 + days * DAY), before);
            assert_eq!(at, 1_000 + renewed * DAY, "{days} days, {before} before");
        }
    }

    #[test]
    fn a_suggestion_of_the_authority_holds_after_the_first_day() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 4, 1);
        let chain = params.self_signed(&key).unwrap().pem();
        let issued = Issued::of("a.example", &chain, &key.serialize_pem()).unwrap();
        let begins = params.not_before.unix_timestamp();
        for (suggested, at) in [(0, DAY_SECONDS), (30, 30 * DAY_SECONDS)] {
            let suggested = begins + suggested * DAY_SECONDS;
            assert_eq!(issued.suggested_at(suggested), begins + at);
        }
        assert!(issued.id().is_none(), "nobody says who has issued it");
    }

    #[test]
    fn what_is_kept_for_another_name_is_not_taken() {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        let chain = params.self_signed(&key).unwrap().pem();
        let other = KeyPair::generate().unwrap().serialize_pem();
        let key = key.serialize_pem();
        assert!(Issued::of("a.example", &chain, &key).is_ok());
        assert!(Issued::of("b.example", &chain, &key).is_err());
        assert!(Issued::of("a.example", &chain, &other).is_err());
        assert!(Issued::of("a.example", "", &key).is_err());
    }
}
