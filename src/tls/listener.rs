//! What is in force for connections that come: replaced as a whole, so that each handshake has a
//! certificate with its own key. Connections that are there keep what they began with.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use colloquy_model::time::Timestamp;
use parking_lot::Mutex;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

use super::acme::{ACME_TLS, Acme, OrderCounts, keep_certificates};
use super::files::{Identity, Texts, provider};
use super::{HTTP_1_1, HTTP_2};
use crate::config::{Config, ConfigError, Tls};

const DAY_SECONDS: i64 = 86_400;

/// What new connections are met with.
struct InForce {
    config: Arc<ServerConfig>,
    /// When the certificate of the files ends, in seconds since 1970.
    ends_unix_seconds: Option<i64>,
    operators: Option<Arc<dyn ClientCertVerifier>>,
    /// When the first revocation list of operators' authorities ends, in seconds since 1970.
    lists_end_unix_seconds: Option<i64>,
    /// Whether the log says already that it has.
    is_end_told: AtomicBool,
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
    fn changed(&self, acme: Option<&Arc<Acme>>) -> Result<Option<(Texts, InForce)>, ConfigError> {
        let now = Texts::read(&self.settings)?;
        if now == self.seen {
            return Ok(None);
        }
        let in_force = InForce::of(&self.settings, &now, acme)?;
        Ok(Some((now, in_force)))
    }
}

/// Refuses a certificate that has ended, in place of one that has not.
fn refuse_ended(settings: &Tls, new: &InForce, held: &InForce) -> Result<(), ConfigError> {
    let now = Timestamp::now().unix_seconds();
    let holds = |in_force: &InForce| in_force.ends_unix_seconds.is_none_or(|end| end > now);
    match holds(held) && !holds(new) {
        true => Err(super::bad(
            "certificate",
            &settings.certificate,
            "must not have ended already".to_owned(),
        )),
        false => Ok(()),
    }
}

/// The TLS of a listener.
pub(crate) struct ListenerTls {
    /// The certificates that an authority issues, where the settings name one.
    pub(crate) acme: Option<Arc<Acme>>,
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
    pub(crate) fn new(config: &Config) -> Result<Arc<Self>, ConfigError> {
        let settings = &config.tls;
        let acme = settings.acme.is_on().then(|| Acme::new(config));
        let acme = acme.transpose()?.map(Arc::new);
        let seen = Texts::read(settings)?;
        let in_force = InForce::of(settings, &seen, acme.as_ref())?;
        Ok(Arc::new(ListenerTls {
            acme,
            in_force: ArcSwap::from_pointee(in_force),
            origin: Mutex::new(Origin {
                settings: settings.clone(),
                seen,
                told: None,
            }),
        }))
    }

    /// Shakes hands with a connection that comes now; none where that fails, or where it wanted to
    /// know no more than whether a name is ours.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let config = Arc::clone(&self.in_force.load().config);
        let Some(acme) = &self.acme else {
            return TlsAcceptor::from(config).accept(stream).await.ok();
        };
        let begun = LazyConfigAcceptor::new(Acceptor::default(), stream);
        let begun = begun.await.ok()?;
        if !is_challenge(&begun.client_hello()) {
            return begun.into_stream(config).await.ok();
        }
        let name = begun.client_hello().server_name()?.to_owned();
        let challenge = acme.challenge_over_tls(&name).await?;
        // The handshake is the answer: nothing is said inside of it.
        let _ = begun.into_stream(challenge).await;
        None
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

    /// In how many whole days the certificate of the files ends, where there is one; less than 0 where
    /// it has.
    pub(crate) fn days_left(&self) -> Option<i64> {
        self.in_force.load().ends_unix_seconds.map(days_until)
    }

    /// In how many whole days the first revocation list of operators' authorities ends, where there is
    /// one; less than 0 where it has.
    pub(crate) fn lists_days_left(&self) -> Option<i64> {
        let in_force = self.in_force.load();
        in_force.lists_end_unix_seconds.map(days_until)
    }

    /// How many orders of certificates have ended since the process began, by how.
    pub(crate) fn orders(&self) -> [(&'static str, u64); 2] {
        let none = OrderCounts::default();
        let acme = self.acme.as_ref();
        acme.map_or(&none, |acme| &acme.orders).by_outcome()
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
            let new = InForce::of(settings, &seen, self.acme.as_ref())?;
            refuse_ended(settings, &new, &self.in_force.load())?;
            self.put_in_force(new);
        }
        if let Some(acme) = self.acme.iter().find(|_| settings.acme.is_on()) {
            acme.domains.set_of_settings(&settings.acme.domains);
            acme.try_again();
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
        let changed = origin.changed(self.acme.as_ref()).and_then(|changed| {
            if let Some((_, new)) = &changed {
                refuse_ended(&origin.settings, new, &self.in_force.load())?;
            }
            Ok(changed)
        });
        match changed {
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

    /// Tells once that a revocation list has ended: operators are locked out until another is there.
    fn tell_of_ended_list(&self) {
        let in_force = self.in_force.load();
        let now = Timestamp::now().unix_seconds();
        let has_ended = in_force
            .lists_end_unix_seconds
            .is_some_and(|end| end <= now);
        if has_ended && !in_force.is_end_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "a list of [tls] admin_client_crl has ended: client certificates of its authority are refused until a newer one is in its place"
            );
        }
    }

    fn put_in_force(&self, in_force: InForce) {
        self.in_force.store(Arc::new(in_force));
        let days_left = self.days_left();
        tracing::info!(?days_left, "the TLS certificate was read again");
    }
}

impl InForce {
    fn of(settings: &Tls, texts: &Texts, acme: Option<&Arc<Acme>>) -> Result<Self, ConfigError> {
        let identity = Identity::of(settings, texts)?;
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(|error| super::bad("certificate", &settings.certificate, error.to_string()))?;
        let builder = match &identity.operators {
            Some(operators) => builder.with_client_cert_verifier(Arc::clone(operators)),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(ByName {
            acme: acme.cloned(),
            of_files: identity.certified,
        }));
        config.alpn_protocols = [HTTP_2, HTTP_1_1].map(<[u8]>::to_vec).into();
        Ok(InForce {
            config: Arc::new(config),
            ends_unix_seconds: identity.ends_unix_seconds,
            operators: identity.operators,
            lists_end_unix_seconds: identity.lists_end_unix_seconds,
            is_end_told: AtomicBool::new(false),
        })
    }
}

/// Chooses the certificate by the name that a connection asks for.
#[derive(Debug)]
struct ByName {
    acme: Option<Arc<Acme>>,
    of_files: Option<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match &self.acme {
            Some(acme) => acme.certificate(hello.server_name(), self.of_files.as_ref()),
            None => self.of_files.clone(),
        }
    }
}

/// Whether it asks for nothing but whether a name is ours (RFC 8737).
fn is_challenge(hello: &ClientHello<'_>) -> bool {
    let protocols = hello.alpn();
    protocols.is_some_and(|mut all| all.any(|protocol| protocol == ACME_TLS))
}

/// How many whole days it is until then; less than 0 where it is past.
pub(crate) fn days_until(unix_seconds: i64) -> i64 {
    (unix_seconds - Timestamp::now().unix_seconds()).div_euclid(DAY_SECONDS)
}

/// Has certificates issued for the domains of accounts, too: those that are proven now, and again after
/// each change of them.
pub(crate) async fn follow_domains(
    tls: Arc<ListenerTls>,
    mut changes: watch::Receiver<u64>,
    proven: impl Fn() -> Vec<String>,
) {
    let Some(acme) = &tls.acme else { return };
    loop {
        acme.domains.set_of_accounts(&proven());
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Looks at the files again and again, and has certificates ordered, for as long as the process runs.
pub(crate) async fn keep_fresh(tls: Arc<ListenerTls>, every: Duration) -> Infallible {
    if let Some(acme) = &tls.acme {
        actix_web::rt::spawn(keep_certificates(Arc::clone(acme), every));
    }
    loop {
        tls.tell_of_ended_list();
        tokio::time::sleep(every).await;
        tls.refresh();
    }
}
