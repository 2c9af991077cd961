//! TLS as a client of this server, for the program's own commands and the demo: they ask it on its own
//! machine, by an address that no certificate names, and know it by exactly the certificate that the
//! settings name, or by those that ACME's storage keeps.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version,
};

use super::files::{certificates, provider, text, with_key};
use super::{acme, bad};
use crate::config::{self, ConfigError, Tls};

/// How to reach the server that these settings describe; none where it speaks no TLS.
///
/// # Errors
/// The first setting whose file can't be used.
pub(crate) fn of_this_server(settings: &Tls) -> Result<Option<ClientConfig>, ConfigError> {
    if !settings.is_on() {
        return Ok(None);
    }
    let mut servers = Vec::new();
    if !settings.certificate.is_empty() {
        let wrong = |right| bad("certificate", &settings.certificate, right);
        let chain = text("certificate", &settings.certificate)?;
        servers.extend(certificates(&chain).map_err(wrong)?.into_iter().next());
    } else {
        servers = of_acme(&settings.acme)?;
    }
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|error| bad("certificate", &settings.certificate, error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(KnownCertificates { servers, provider }));
    Ok(Some(match own(settings)? {
        None => builder.with_no_client_auth(),
        Some(own) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
    }))
}

/// Whether the certificate that commands show can be used.
///
/// # Errors
/// The first setting whose file can't be used.
pub(super) fn check(settings: &Tls) -> Result<(), ConfigError> {
    own(settings).map(|_| ())
}

/// The certificate that commands show, where the settings name one.
fn own(settings: &Tls) -> Result<Option<CertifiedKey>, ConfigError> {
    let (certificate, key) = (
        &settings.admin_client_certificate,
        &settings.admin_client_key,
    );
    if certificate.is_empty() {
        return Ok(None);
    }
    let chain = certificates(&text("admin_client_certificate", certificate)?)
        .map_err(|right| bad("admin_client_certificate", certificate, right))?;
    let certified = with_key(chain, &text("admin_client_key", key)?);
    let certified = certified.map_err(|right| bad("admin_client_key", key, right))?;
    Ok(Some(certified))
}

/// What the storage of ACME keeps. It is asked on a thread of its own: whoever wants to know it may
/// be within a runtime already, or in none.
fn of_acme(settings: &config::Acme) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let unread = |right: String| bad("acme.storage", &settings.storage, right);
    let read = || -> Result<Vec<CertificateDer<'static>>, ConfigError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| unread(error.to_string()))?;
        runtime.block_on(acme::shown(settings))
    };
    let read = std::thread::scope(|scope| scope.spawn(read).join());
    read.unwrap_or_else(|_| Err(unread("could not be read".to_owned())))
}

/// Takes these certificates, whatever the name by which its server is asked and whoever vouches for it.
#[derive(Debug)]
struct KnownCertificates {
    servers: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for KnownCertificates {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.servers.iter().any(|server| server == end_entity) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
