//! What the authority is answered that asks whether a name is ours: by HTTP (RFC 8555, 8.3) or in a
//! handshake of TLS (RFC 8737). It may ask another node than the one that orders, so that answers
//! stand in the storage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, CustomExtension, KeyPair};
use ring::digest::{SHA256, digest};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ServerConfig, version};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::super::files::{certificates, private_key, provider};
use super::ACME_TLS;
use super::storage::{Challenge, Storage, StorageError};

/// A node that is asked for what it does not know looks into the storage this often at most, whoever
/// asks.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The answers that a node knows.
#[derive(Debug, Default)]
struct Known {
    by_token: BTreeMap<String, Challenge>,
    looked: Option<Instant>,
}

/// The answers that are given now.
#[derive(Debug)]
pub(super) struct Challenges {
    storage: Arc<Storage>,
    known: Mutex<Known>,
}

impl Challenges {
    pub(super) fn new(storage: Arc<Storage>) -> Self {
        Challenges {
            storage,
            known: Mutex::default(),
        }
    }

    /// What is answered over HTTP for this token.
    pub(super) async fn over_http(&self, token: &str) -> Option<String> {
        let found = self.find(|known, _| known == token).await?;
        Some(found.key_authorization)
    }

    /// The TLS with which a connection is met that asks whether this name is ours.
    pub(super) async fn over_tls(&self, name: &str) -> Option<Arc<ServerConfig>> {
        let found = self.find(|_, challenge| challenge.domain == name).await?;
        match answer_of(&found) {
            Ok(config) => Some(Arc::new(config)),
            Err(error) => {
                tracing::error!(name, error, "a challenge of ACME can't be answered");
                None
            }
        }
    }

    async fn find(&self, is: impl Fn(&str, &Challenge) -> bool) -> Option<Challenge> {
        let mut known = self.known.lock().await;
        let find = |known: &Known| {
            let mut all = known.by_token.iter();
            all.find(|(token, challenge)| is(token, challenge))
                .map(|(_, challenge)| challenge.clone())
        };
        let found = find(&known);
        let is_recent = |at: Instant| at.elapsed() < LOOK_AGAIN;
        if found.is_some() || known.looked.is_some_and(is_recent) {
            return found;
        }
        match self.storage.challenges(&known.by_token).await {
            Ok(by_token) => known.by_token = by_token,
            Err(error) => tracing::warn!(%error, "challenges of ACME can't be read"),
        }
        known.looked = Some(Instant::now());
        find(&known)
    }

    /// Has every node give this answer. When it returns, those that have looked before look again.
    pub(super) async fn publish(&self, token: &str, is: Challenge) -> Result<(), StorageError> {
        self.storage.put_challenge(token, &is).await?;
        self.known
            .lock()
            .await
            .by_token
            .insert(token.to_owned(), is);
        tokio::time::sleep(LOOK_AGAIN).await;
        Ok(())
    }

    /// Takes all answers back, those of a node that died too.
    pub(super) async fn clear(&self) -> Result<(), StorageError> {
        self.known.lock().await.by_token.clear();
        self.storage.delete_challenges().await
    }
}

/// A certificate that holds the answer, and nothing else by which a connection could go on.
fn answer_of(challenge: &Challenge) -> Result<ServerConfig, String> {
    let digest = digest(&SHA256, challenge.key_authorization.as_bytes());
    let made = || -> Result<(String, String), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![challenge.domain.clone()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
        Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
    };
    let (certificate, key) = made().map_err(|error| error.to_string())?;
    let chain = certificates(certificate.as_bytes())?;
    // Its extension is critical and nobody else's, so that a check of it would refuse it.
    let certified = CertifiedKey::new(chain, private_key(key.as_bytes())?);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![ACME_TLS.to_vec()];
    Ok(config)
}
