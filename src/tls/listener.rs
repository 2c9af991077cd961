//! What is in force for connections that come: replaced as a whole, so that each handshake has a
//! certificate with its own key. Connections that are there keep what they began with.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use colloquy_model::time::Timestamp;
use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::{ServerConfig, version};
use tokio_rustls::TlsAcceptor;

use super::files::{Identity, Texts, provider};
use super::{HTTP_1_1, HTTP_2};
use crate::config::{ConfigError, Tls};

const DAY_SECONDS: i64 = 86_400;

/// What new connections are met with.
struct InForce {
    config: Arc<ServerConfig>,
    ends_unix_seconds: u64,
    operators: Option<Arc<dyn ClientCertVerifier>>,
}

/// Where it comes from.
struct Origin {
    settings: Tls,
    /// What of these is in force.
    seen: Texts,
    /// Why what they name now is not, where the log says so already.
    told: Option<ConfigError>,
}

impl Origin {
    /// What the settings name now, where that is not in force.
    fn changed(&self) -> Result<Option<(Texts, InForce)>, ConfigError> {
        let now = Texts::read(&self.settings)?;
        if now == self.seen {
            return Ok(None);
        }
        let in_force = InForce::of(&self.settings, &now)?;
        Ok(Some((now, in_force)))
    }
}

/// The TLS of a listener.
pub(crate) struct ListenerTls {
    in_force: ArcSwap<InForce>,
    origin: Mutex<Origin>,
}

impl fmt::Debug for ListenerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ListenerTls")
    }
}

impl ListenerTls {
    /// With what the settings name.
    ///
    /// # Errors
    /// The first setting whose file can't be used.
    pub(crate) fn new(settings: &Tls) -> Result<Arc<Self>, ConfigError> {
        let seen = Texts::read(settings)?;
        let in_force = InForce::of(settings, &seen)?;
        Ok(Arc::new(ListenerTls {
            in_force: ArcSwap::from_pointee(in_force),
            origin: Mutex::new(Origin {
                settings: settings.clone(),
                seen,
                told: None,
            }),
        }))
    }

    /// Shakes hands with the connections that come now.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.in_force.load().config))
    }

    /// Whether operators have to show a client certificate.
    pub(crate) fn wants_operators_certificate(&self) -> bool {
        self.in_force.load().operators.is_some()
    }

    /// Whether those that vouch for operators now vouch for these certificates, of which the first
    /// is the client's. A connection may be older than the authorities, and outlive its certificate.
    pub(crate) fn vouches_for(&self, shown: &[CertificateDer<'static>]) -> bool {
        let in_force = self.in_force.load();
        let Some(operators) = &in_force.operators else {
            return true;
        };
        shown.split_first().is_some_and(|(client, others)| {
            let now = UnixTime::now();
            operators.verify_client_cert(client, others, now).is_ok()
        })
    }

    /// In how many whole days the certificate ends; less than 0 where it has.
    pub(crate) fn days_left(&self) -> i64 {
        let ends = i64::try_from(self.in_force.load().ends_unix_seconds).unwrap_or(i64::MAX);
        (ends - Timestamp::now().unix_seconds()).div_euclid(DAY_SECONDS)
    }

    /// Lets what these settings name hold for connections that come.
    ///
    /// # Errors
    /// The first setting whose file can't be used; what held before holds on.
    pub(crate) fn replace(&self, settings: &Tls) -> Result<(), ConfigError> {
        let mut origin = self.origin.lock();
        let seen = Texts::read(settings)?;
        // Who has been here need not shake hands anew for nothing.
        if seen != origin.seen {
            self.put_in_force(InForce::of(settings, &seen)?);
        }
        *origin = Origin {
            settings: settings.clone(),
            seen,
            told: None,
        };
        Ok(())
    }

    /// Looks whether the files have changed, and lets them hold where they have. What can't be used is
    /// told once, and what held before holds on.
    fn refresh(&self) {
        let mut origin = self.origin.lock();
        match origin.changed() {
            Ok(None) => origin.told = None,
            Ok(Some((seen, in_force))) => {
                (origin.seen, origin.told) = (seen, None);
                self.put_in_force(in_force);
            }
            Err(error) if origin.told.as_ref() == Some(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "the TLS certificate was not read again: the one before holds on");
                origin.told = Some(error);
            }
        }
    }

    fn put_in_force(&self, in_force: InForce) {
        self.in_force.store(Arc::new(in_force));
        let days_left = self.days_left();
        tracing::info!(days_left, "the TLS certificate was read again");
    }
}

impl InForce {
    fn of(settings: &Tls, texts: &Texts) -> Result<Self, ConfigError> {
        let identity = Identity::of(settings, texts)?;
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(|error| super::bad("certificate", &settings.certificate, error.to_string()))?;
        let builder = match &identity.operators {
            Some(operators) => builder.with_client_cert_verifier(Arc::clone(operators)),
            None => builder.with_no_client_auth(),
        };
        let certified = SingleCertAndKey::from(identity.certified);
        let mut config = builder.with_cert_resolver(Arc::new(certified));
        config.alpn_protocols = [HTTP_2, HTTP_1_1].map(<[u8]>::to_vec).into();
        Ok(InForce {
            config: Arc::new(config),
            ends_unix_seconds: identity.ends_unix_seconds,
            operators: identity.operators,
        })
    }
}

/// Looks at the files again and again, for as long as the process runs.
pub(crate) async fn keep_fresh(tls: Arc<ListenerTls>, every: Duration) -> Infallible {
    loop {
        tokio::time::sleep(every).await;
        tls.refresh();
    }
}
