//! Certificates and keys as operators write them down: PEM, in a file or in the setting itself. What
//! does not fit together is found here, before anything depends on it.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SigningKey};
use x509_cert::Certificate;
use x509_cert::crl::CertificateList;
use x509_cert::der::{Decode, Encode};
use x509_cert::time::Time;

use super::bad;
use crate::config::{ConfigError, Tls};

/// How a part of PEM begins.
const PEM: &str = "-----BEGIN ";

/// Whether a setting holds PEM itself, and is no file's name.
pub(crate) fn is_pem(setting: &str) -> bool {
    setting.contains(PEM)
}

/// The algorithms with which everything of TLS is done.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The text of each file, or setting, of which an [`Identity`] is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Texts {
    /// The certificate and its key, where there are files of them.
    own: Option<(Vec<u8>, Vec<u8>)>,
    admin_client_ca: Option<Vec<u8>>,
    admin_client_crl: Option<Vec<u8>>,
}

impl Texts {
    /// Reads what the settings name.
    ///
    /// # Errors
    /// A file can't be read.
    pub(super) fn read(settings: &Tls) -> Result<Self, ConfigError> {
        let read = |key: &str, setting: &String| {
            let given = Some(setting).filter(|setting| !setting.is_empty());
            given.map(|setting| text(key, setting)).transpose()
        };
        let own = match settings.certificate.as_str() {
            "" => None,
            certificate => Some((
                text("certificate", certificate)?,
                text("key", &settings.key)?,
            )),
        };
        Ok(Texts {
            own,
            admin_client_ca: read("admin_client_ca", &settings.admin_client_ca)?,
            admin_client_crl: read("admin_client_crl", &settings.admin_client_crl)?,
        })
    }
}

/// The server as it shows itself, and whose client certificates it takes.
pub(super) struct Identity {
    /// The certificate of the files; none where there are only those of ACME.
    pub(super) certified: Option<Arc<CertifiedKey>>,
    /// When the first certificate of the files' chain ends, in seconds since 1970.
    pub(super) ends_unix_seconds: Option<i64>,
    /// Who vouches for operators; none where they need no certificate.
    pub(super) operators: Option<Arc<dyn ClientCertVerifier>>,
    /// When the first of their revocation lists ends, in seconds since 1970.
    pub(super) lists_end_unix_seconds: Option<i64>,
}

impl Identity {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// The first setting whose file can't be used.
    pub(super) fn read(settings: &Tls) -> Result<Self, ConfigError> {
        Identity::of(settings, &Texts::read(settings)?)
    }

    /// Made of these texts, which the settings name.
    ///
    /// # Errors
    /// The first setting whose text can't be used.
    pub(super) fn of(settings: &Tls, texts: &Texts) -> Result<Self, ConfigError> {
        let own = texts.own.as_ref();
        let own = own.map(|own| of_files(settings, own)).transpose()?;
        let (certified, ends_unix_seconds) = own.unzip();
        let vouching = texts.admin_client_ca.as_ref();
        let vouching = vouching.map(|ca| vouching_for_operators(settings, ca, texts));
        let (operators, lists_end_unix_seconds) = vouching.transpose()?.unzip();
        Ok(Identity {
            certified,
            ends_unix_seconds,
            operators,
            lists_end_unix_seconds: lists_end_unix_seconds.flatten(),
        })
    }
}

/// The certificate of the files with its key, and when the first of its chain ends.
fn of_files(
    settings: &Tls,
    (certificate, key): &(Vec<u8>, Vec<u8>),
) -> Result<(Arc<CertifiedKey>, i64), ConfigError> {
    let wrong = |right| bad("certificate", &settings.certificate, right);
    let chain = certificates(certificate).map_err(wrong)?;
    let ends = chain.iter().map(|one| Some(validity(one)?.1));
    let ends: Option<Vec<i64>> = ends.collect();
    let ends = ends.and_then(|ends| ends.into_iter().min());
    let ends = ends.ok_or_else(|| wrong("must be certificates of X.509".to_owned()))?;
    let certified = with_key(chain, key).map_err(|right| bad("key", &settings.key, right))?;
    Ok((Arc::new(certified), ends))
}

/// The PEM that a setting holds or names.
pub(super) fn text(key: &str, setting: &str) -> Result<Vec<u8>, ConfigError> {
    if is_pem(setting) {
        return Ok(setting.as_bytes().to_vec());
    }
    std::fs::read(setting).map_err(|error| {
        let right = format!("must be a file that can be read: {error}");
        bad(key, setting, right)
    })
}

/// All certificates of a text, of which there must be one.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| format!("must be certificates in PEM: {error}"))?;
    match found.is_empty() {
        true => Err("must be certificates in PEM, and there is none".to_owned()),
        false => Ok(found),
    }
}

/// These certificates with their private key, whose text this is.
pub(super) fn with_key(
    chain: Vec<CertificateDer<'static>>,
    key: &[u8],
) -> Result<CertifiedKey, String> {
    let certified = CertifiedKey::new(chain, private_key(key)?);
    certified
        .keys_match()
        .map_err(|error| format!("must belong to the certificate: {error}"))?;
    Ok(certified)
}

/// The private key whose text this is.
pub(super) fn private_key(pem: &[u8]) -> Result<Arc<dyn SigningKey>, String> {
    let key = PrivateKeyDer::from_pem_slice(pem)
        .map_err(|error| format!("must be a private key in PEM, without a password: {error}"))?;
    let key = provider().key_provider.load_private_key(key);
    key.map_err(|error| format!("must be an RSA, ECDSA or Ed25519 key: {error}"))
}

/// What authorities have revoked.
#[derive(Default)]
struct RevocationLists {
    lists: Vec<CertificateRevocationListDer<'static>>,
    /// When the first of them ends, in seconds since 1970.
    end_unix_seconds: Option<i64>,
}

impl RevocationLists {
    /// All lists of a text, of which there must be one of each of these authorities: without it none of
    /// its certificates would be taken.
    fn of(pem: &[u8], authorities: &[CertificateDer<'static>]) -> Result<Self, String> {
        let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
        let lists = lists.map_err(|error| format!("must be revocation lists in PEM: {error}"))?;
        if lists.is_empty() {
            return Err("must be revocation lists in PEM, and there is none".to_owned());
        }
        let (mut issuers, mut ends) = (Vec::new(), Vec::new());
        for list in &lists {
            let (issuer, end) = described(list)?;
            issuers.push(issuer);
            ends.push(end);
        }
        for authority in authorities {
            let subject = Certificate::from_der(authority).map(|one| one.tbs_certificate.subject);
            let subject = subject.and_then(|subject| subject.to_der());
            if !subject.is_ok_and(|subject| issuers.contains(&subject)) {
                return Err("must have a list of each authority in tls.admin_client_ca".to_owned());
            }
        }
        Ok(RevocationLists {
            lists,
            end_unix_seconds: ends.into_iter().min(),
        })
    }
}

/// Of whom a list is, in DER, and when it ends, in seconds since 1970.
fn described(list: &CertificateRevocationListDer<'static>) -> Result<(Vec<u8>, i64), String> {
    let list = CertificateList::from_der(list)
        .map_err(|error| format!("must be revocation lists of X.509, version 2: {error}"))?;
    let list = list.tbs_cert_list;
    let issuer = list.issuer.to_der().map_err(|error| error.to_string())?;
    let end = list.next_update.and_then(unix_seconds);
    let end =
        end.ok_or("must be revocation lists that say when the next one comes (nextUpdate)")?;
    Ok((issuer, end))
}

/// Who vouches for operators: these authorities, but for what their lists revoke; and when the first
/// of the lists ends.
fn vouching_for_operators(
    settings: &Tls,
    authorities: &[u8],
    texts: &Texts,
) -> Result<(Arc<dyn ClientCertVerifier>, Option<i64>), ConfigError> {
    let wrong = |right| bad("admin_client_ca", &settings.admin_client_ca, right);
    let authorities = certificates(authorities).map_err(wrong)?;
    let wrong_list = |right| bad("admin_client_crl", &settings.admin_client_crl, right);
    let lists = texts.admin_client_crl.as_ref();
    let lists = lists.map(|lists| RevocationLists::of(lists, &authorities));
    let lists = lists.transpose().map_err(wrong_list)?.unwrap_or_default();
    let roots = roots(authorities).map_err(wrong)?;
    let verifier = vouching(roots, lists.lists).map_err(wrong_list)?;
    Ok((verifier, lists.end_unix_seconds))
}

fn roots(authorities: Vec<CertificateDer<'static>>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let added = roots.add(authority);
        added.map_err(|error| format!("must be authorities' certificates: {error}"))?;
    }
    Ok(roots)
}

/// Looks whether these authorities, of which there is one at least, vouch for a client's certificate,
/// where it shows one. What no list tells of, or one that has ended, counts as revoked: that a
/// certificate is good has to be known.
fn vouching(
    roots: RootCertStore,
    lists: Vec<CertificateRevocationListDer<'static>>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .allow_unauthenticated()
        .with_crls(lists)
        .enforce_revocation_expiration()
        .build()
        .map_err(|error| format!("must be revocation lists that can be used: {error}"))
}

/// When a certificate begins and ends, in seconds since 1970; none where it is none.
pub(super) fn validity(certificate: &CertificateDer<'static>) -> Option<(i64, i64)> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate.validity;
    Some((
        unix_seconds(validity.not_before)?,
        unix_seconds(validity.not_after)?,
    ))
}

fn unix_seconds(at: Time) -> Option<i64> {
    i64::try_from(at.to_unix_duration().as_secs()).ok()
}
