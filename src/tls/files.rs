//! Certificates and keys as operators write them down: PEM, in a file or in the setting itself. What
//! does not fit together is found here, before anything depends on it.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SigningKey};
use x509_cert::Certificate;
use x509_cert::der::Decode;
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
}

impl Texts {
    /// Reads what the settings name.
    ///
    /// # Errors
    /// A file can't be read.
    pub(super) fn read(settings: &Tls) -> Result<Self, ConfigError> {
        let authorities = Some(&settings.admin_client_ca).filter(|ca| !ca.is_empty());
        let read_authorities = |ca: &String| text("admin_client_ca", ca);
        let own = match settings.certificate.as_str() {
            "" => None,
            certificate => Some((
                text("certificate", certificate)?,
                text("key", &settings.key)?,
            )),
        };
        Ok(Texts {
            own,
            admin_client_ca: authorities.map(read_authorities).transpose()?,
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
        let authorities = texts.admin_client_ca.as_deref();
        let operators = authorities.map(vouching).transpose();
        let operators =
            operators.map_err(|right| bad("admin_client_ca", &settings.admin_client_ca, right))?;
        Ok(Identity {
            certified,
            ends_unix_seconds,
            operators,
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

/// Looks whether these authorities vouch for a client's certificate, where it shows one.
fn vouching(authorities: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(authorities)? {
        let added = roots.add(authority);
        added.map_err(|error| format!("must be authorities' certificates: {error}"))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .allow_unauthenticated()
        .build()
        .map_err(|error| format!("must be authorities' certificates: {error}"))
}

/// When a certificate begins and ends, in seconds since 1970; none where it is none.
pub(super) fn validity(certificate: &CertificateDer<'static>) -> Option<(i64, i64)> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let validity = certificate.tbs_certificate.validity;
    let seconds = |at: Time| i64::try_from(at.to_unix_duration().as_secs()).ok();
    Some((seconds(validity.not_before)?, seconds(validity.not_after)?))
}
