//! TLS as a client of this server, for the program's own commands and the demo: they ask it on its own
//! machine, by an address that no certificate names, and know it by exactly the certificate that the
//! settings name.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version,
};

use super::bad;
use super::files::{certificates, provider, text, with_key};
use crate::config::{ConfigError, Tls};

/// How to reach the server that these settings describe; none where it speaks no TLS.
///
/// # Errors
/// The first setting whose file can't be used.
pub(crate) fn of_this_server(settings: &Tls) -> Result<Option<ClientConfig>, ConfigError> {
    if !settings.is_on() {
        return Ok(None);
    }
    let wrong = |right| bad("certificate", &settings.certificate, right);
    let chain = text("certificate", &settings.certificate)?;
    let server = certificates(&chain).map_err(wrong)?.into_iter().next();
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|error| wrong(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(OneCertificate { server, provider }));
    if settings.admin_client_certificate.is_empty() {
        return Ok(Some(builder.with_no_client_auth()));
    }
    let (certificate, key) = (
        &settings.admin_client_certificate,
        &settings.admin_client_key,
    );
    let chain = certificates(&text("admin_client_certificate", certificate)?)
        .map_err(|right| bad("admin_client_certificate", certificate, right))?;
    let certified = with_key(chain, &text("admin_client_key", key)?)
        .map_err(|right| bad("admin_client_key", key, right))?;
    let certified = Arc::new(SingleCertAndKey::from(certified));
    Ok(Some(builder.with_client_cert_resolver(certified)))
}

/// Takes one certificate, whatever the name by which its server is asked and whoever vouches for it.
#[derive(Debug)]
struct OneCertificate {
    server: Option<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for OneCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.server.as_ref() == Some(end_entity) {
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
