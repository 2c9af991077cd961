//! Certificates by ACME (RFC 8555): for each host name one, ordered, kept and renewed by the server
//! itself, and shown to whoever asks for that name.
//!
//! - `domains.rs` for which names certificates are wanted
//! - `certificates.rs` those that are in force, and the one that stands in for what is missing
//! - `challenges.rs` what the authority is answered that asks whether a name is ours
//! - `authority.rs` an order at the authority, from its beginning to the certificate
//! - `http.rs` how the authority is reached
//! - `storage.rs` what all nodes share: the account, certificates, orders, failures and challenges
//! - `lease.rs` which of the nodes orders
//! - `suggestions.rs` when the authority suggests that certificates are renewed
//! - `manager.rs` when which certificate is ordered, and when a failed order is tried again

mod authority;
mod certificates;
mod challenges;
mod domains;
mod http;
mod lease;
mod manager;
mod storage;
mod suggestions;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use colloquy_model::time::Timestamp;
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use tokio::sync::Notify;

use authority::Authority;
use certificates::Certificates;
use challenges::Challenges;
pub(crate) use domains::Domains;
pub(super) use manager::keep_certificates;
use storage::{Failure, Storage};

use super::bad_acme as bad;
use super::files::{certificates as in_pem, text};
use crate::config::{self, Config, ConfigError};

/// What a connection asks for that only wants to see whether a name is ours (RFC 8737).
pub(super) const ACME_TLS: &[u8] = b"acme-tls/1";

/// How a name stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DomainStatus {
    pub(crate) name: String,
    /// When its certificate ends, in seconds since 1970; none where there is none.
    pub(crate) ends_unix_seconds: Option<i64>,
    /// Why the latest order has failed, where none has succeeded since.
    pub(crate) problem: Option<String>,
}

/// How many orders have ended, and how, since the process began.
#[derive(Debug, Default)]
pub(super) struct OrderCounts {
    issued: AtomicU64,
    failed: AtomicU64,
}

impl OrderCounts {
    /// Each outcome with its count.
    pub(super) fn by_outcome(&self) -> [(&'static str, u64); 2] {
        [
            ("issued", self.issued.load(Ordering::Relaxed)),
            ("failed", self.failed.load(Ordering::Relaxed)),
        ]
    }
}

/// The certificates of a listener that come from an authority.
pub(crate) struct Acme {
    /// For which names they are wanted.
    pub(crate) domains: Domains,
    pub(super) orders: OrderCounts,
    pub(super) certificates: Certificates,
    challenges: Challenges,
    storage: Arc<Storage>,
    authority: Authority,
    failures: Mutex<BTreeMap<String, Failure>>,
    renew_before_days: f64,
    /// Told where what has failed is to be tried again at once.
    try_again: Notify,
}

impl fmt::Debug for Acme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acme")
    }
}

impl Acme {
    /// As the settings describe it; nothing is asked yet.
    ///
    /// # Errors
    /// The first setting of `[tls.acme]` that can't be used.
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let settings = &config.tls.acme;
        let storage = Storage::open(settings, config.encryption.enabled)
            .map_err(|error| bad("storage", &settings.storage, error.to_string()))?;
        let storage = Arc::new(storage);
        let certificates = Certificates::new().map_err(|error| {
            let right = format!("no placeholder can be made for them: {error}");
            bad("domains", &settings.domains.join(", "), right)
        })?;
        Ok(Acme {
            domains: Domains::new(&settings.domains),
            orders: OrderCounts::default(),
            certificates,
            challenges: Challenges::new(Arc::clone(&storage)),
            authority: Authority::new(&config.tls, Arc::clone(&storage))?,
            storage,
            failures: Mutex::default(),
            renew_before_days: settings.renew_before_days,
            try_again: Notify::new(),
        })
    }

    /// The certificate for whoever asks for this name, or for none. For a name whose own is missing
    /// it is the one of the files, where there is one, and otherwise none: nobody is to get used to
    /// a certificate that nobody vouches for.
    pub(super) fn certificate(
        &self,
        name: Option<&str>,
        of_files: Option<&Arc<CertifiedKey>>,
    ) -> Option<Arc<CertifiedKey>> {
        let name = name.map(str::to_ascii_lowercase);
        let own = name.as_ref().and_then(|name| self.certificates.of(name));
        if own.is_some() || of_files.is_some() {
            return own.or_else(|| of_files.cloned());
        }
        let wanted = self.domains.wanted();
        match name.is_some_and(|name| wanted.contains(&name)) {
            true => None,
            false => Some(self.certificates.for_others(&wanted)),
        }
    }

    /// What the authority is to be shown that asks by TLS whether this name is ours.
    pub(super) async fn challenge_over_tls(&self, name: &str) -> Option<Arc<rustls::ServerConfig>> {
        self.challenges.over_tls(&name.to_ascii_lowercase()).await
    }

    /// What the authority is to be answered that asks by HTTP for this token.
    pub(crate) async fn challenge_over_http(&self, token: &str) -> Option<String> {
        self.challenges.over_http(token).await
    }

    /// Has what has failed tried again now, whatever wait there would be.
    pub(super) fn try_again(&self) {
        self.try_again.notify_one();
    }

    /// How each wanted name stands.
    pub(crate) fn status(&self) -> Vec<DomainStatus> {
        let failures = self.failures.lock();
        let status = |name: &String| DomainStatus {
            name: name.clone(),
            ends_unix_seconds: self.certificates.ends(name),
            problem: failures.get(name).map(|failure| failure.problem.clone()),
        };
        self.domains.wanted().iter().map(status).collect()
    }
}

/// The certificates that nodes with these settings show, as far as they are kept by now: for the
/// program's own commands.
///
/// # Errors
/// The storage can't be opened or read.
pub(super) async fn shown(
    settings: &config::Acme,
) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let unread = |right: String| bad("storage", &settings.storage, right);
    let storage = Storage::open(settings, false).map_err(|error| unread(error.to_string()))?;
    let mut shown = Vec::new();
    for name in &settings.domains {
        let kept = storage.chain(&name.to_ascii_lowercase()).await;
        if let Some(chain) = kept.map_err(|error| unread(error.to_string()))? {
            shown.extend(in_pem(chain.as_bytes()).map_err(unread)?.into_iter().next());
        }
    }
    match shown.is_empty() {
        true => Err(unread("keeps no certificate yet".to_owned())),
        false => Ok(shown),
    }
}

/// Whether the files that `[tls.acme]` names can be used.
///
/// # Errors
/// The first setting whose file can't be used.
pub(super) fn check(settings: &config::Acme) -> Result<(), ConfigError> {
    http::roots(settings).map(|_| ())
}

fn now() -> i64 {
    Timestamp::now().unix_seconds()
}
