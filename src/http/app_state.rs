//! What all requests share: the actors, the table of operations, and everything that the settings
//! fix once.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use colloquy_actors::system::System;
use colloquy_model::public_url::PublicUrl;
use ipnet::IpNet;

use super::body::BodyLimits;
use super::budget::Budget;
use super::concurrency::ConcurrencyLimit;
use super::connections::Connections;
use super::idle::IdleLimits;
use super::in_flight_requests::InFlightRequests;
use super::live_settings::LiveSettings;
use super::metrics::{Metrics, Sources};
use super::problem::Kind;
use super::realtime::{LiveConnections, RealtimeLimits};
use super::request_metrics::RequestMetrics;
use super::response_body::ReadPace;
use super::router::Router;
use super::routes;
use crate::config::{Config, ConfigError};
use crate::console::History;
use crate::courier::HttpCourier;
use crate::descriptors;
use crate::shared_caches::SharedCaches;
use crate::tls::ListenerTls;
use crate::traces::Traces;

/// Whoever tries to sign in waits until passwords are compared, and others of the same address until these have.
const SIGN_INS_AT_ONCE: usize = 4;
const MANY_SIGN_INS: &str = "too many try to sign in from this address at once";
const MANY_LARGE: &str = "too many requests for large answers at once";

/// The state that all requests share, fixed at the start.
pub(crate) struct AppState {
    pub(crate) system: Arc<System>,
    pub(crate) courier: Arc<HttpCourier>,
    pub(crate) router: Router,
    pub(crate) body: BodyLimits,
    /// The limits of bodies that hold documents.
    pub(crate) document_body: BodyLimits,
    /// The limits of forms that pages send.
    pub(crate) form_body: BodyLimits,
    pub(crate) attachment_bytes_max: u64,
    /// Whether readers of files are led to the cloud where they stand.
    pub(crate) redirects_to_objects: bool,
    /// Memory for large answers that are on their way out.
    pub(crate) answers: Arc<Budget>,
    pub(crate) read_pace: ReadPace,
    /// How many large answers are in the making for each caller.
    pub(crate) large_answers: Arc<ConcurrencyLimit>,
    /// How many try to sign in at once from each address.
    pub(crate) sign_ins_at_once: Arc<ConcurrencyLimit>,
    /// What clients write before a path.
    pub(crate) public_url: PublicUrl,
    /// How long browsers keep a session of the console.
    pub(crate) session_seconds: u64,
    pub(crate) request_line_bytes_max: usize,
    pub(crate) header_bytes_max: usize,
    pub(crate) proxies: Vec<IpNet>,
    /// How many connections may be open at once.
    pub(crate) connections_max: usize,
    pub(crate) connections: Arc<Connections>,
    /// The listener's TLS; none where it speaks plain HTTP.
    pub(crate) tls: Option<Arc<ListenerTls>>,
    /// What CDNs may keep.
    pub(crate) shared_caches: Arc<SharedCaches>,
    /// Where requests are traced, if any is.
    pub(crate) traces: Option<Arc<Traces>>,
    pub(crate) request_metrics: Arc<RequestMetrics>,
    pub(crate) metrics: Metrics,
    /// What the metrics were in the last hour and day.
    pub(crate) history: History,
    pub(crate) in_flight: InFlightRequests,
    pub(crate) realtime_limits: RealtimeLimits,
    pub(crate) live_connections: Arc<LiveConnections>,
    /// What may be set anew while the server runs.
    live: ArcSwap<LiveSettings>,
}

/// What the server sends to others beside its answers.
pub(crate) struct Outbound {
    pub(crate) courier: Arc<HttpCourier>,
    pub(crate) traces: Option<Arc<Traces>>,
    pub(crate) shared_caches: Arc<SharedCaches>,
}

impl AppState {
    /// Prepares all that does not change between requests.
    ///
    /// # Errors
    /// The settings deprecate what there is not, or name no certificate that can be used.
    pub(crate) fn new(
        config: &Config,
        system: Arc<System>,
        Outbound {
            courier,
            traces,
            shared_caches,
        }: Outbound,
        public_url: &str,
    ) -> Result<Self, ConfigError> {
        let router = Router::new(routes::operations());
        let live = LiveSettings::new(router.operations(), config, public_url)?;
        let tls = config.tls.is_on().then(|| ListenerTls::new(config));
        let tls = tls.transpose()?;
        let connections_max = descriptors::connections(config.server.connections_max);
        let idle = IdleLimits::new(config);
        let in_flight = Budget::new(config.limits.bodies_in_flight_bytes);
        let limits = |bytes_max, refusal| body_limits(config, &in_flight, (bytes_max, refusal));
        let answers = Budget::new(config.limits.answers_in_flight_bytes);
        let connections = Connections::new(connections_max, idle, config.server.proxies());
        let request_metrics = Arc::new(RequestMetrics::new(router.operations()));
        let live_connections = Arc::new(LiveConnections::new(config));
        let metrics = Metrics::new(Sources {
            request_metrics: Arc::clone(&request_metrics),
            live_connections: Arc::clone(&live_connections),
            connections: Arc::clone(&connections),
            tls: tls.clone(),
            bodies: Arc::clone(&in_flight),
            answers: Arc::clone(&answers),
            system: Arc::clone(&system),
            traces: traces.clone(),
            shared_caches: Arc::clone(&shared_caches),
            region: config.server.region.clone(),
        });
        Ok(AppState {
            system,
            courier,
            body: limits(config.limits.max_body_bytes, Kind::PayloadTooLarge),
            document_body: limits(config.limits.max_document_bytes, Kind::PayloadTooLarge),
            form_body: limits(config.limits.max_form_bytes, Kind::InvalidRequest),
            attachment_bytes_max: config.limits.max_attachment_bytes,
            redirects_to_objects: config.objects.redirect,
            answers,
            large_answers: ConcurrencyLimit::new(config.limits.large_answers_at_once, MANY_LARGE),
            sign_ins_at_once: ConcurrencyLimit::new(SIGN_INS_AT_ONCE, MANY_SIGN_INS),
            read_pace: ReadPace {
                bytes_per_second_min: config.server.read_bytes_per_second_min,
            },
            public_url: PublicUrl::new(public_url),
            session_seconds: session_seconds(config),
            request_line_bytes_max: config.limits.max_request_line_bytes,
            header_bytes_max: config.limits.max_header_bytes,
            proxies: config.server.proxies(),
            connections_max,
            connections,
            tls,
            shared_caches,
            traces,
            request_metrics,
            metrics,
            history: History::default(),
            in_flight: InFlightRequests::default(),
            realtime_limits: RealtimeLimits::new(config),
            live_connections,
            live: ArcSwap::from_pointee(live),
            router,
        })
    }

    /// What holds now of the settings that may be set anew.
    pub(crate) fn live(&self) -> Guard<Arc<LiveSettings>> {
        self.live.load()
    }

    /// Lets what the settings say anew hold for every request that begins from now on.
    ///
    /// # Errors
    /// They deprecate what there is not, or name no certificate that can be used; nothing has changed.
    pub(crate) fn set_anew(&self, config: &Config) -> Result<(), ConfigError> {
        let live = LiveSettings::new(self.router.operations(), config, self.public_url.as_str())?;
        if let Some(tls) = self.tls.iter().find(|_| config.tls.is_on()) {
            tls.replace(&config.tls)?;
        }
        self.live.store(Arc::new(live));
        self.system
            .reconfigure(config.plan_rates(), &config.policies());
        Ok(())
    }
}

/// How bodies of one kind are read: so long at most, and what is refused.
fn body_limits(
    config: &Config,
    in_flight: &Arc<Budget>,
    (bytes_max, refusal): (usize, Kind),
) -> BodyLimits {
    BodyLimits {
        bytes_max,
        refusal,
        offload_bytes: config.limits.offload_body_bytes,
        timeout: Duration::from_secs_f64(config.server.body_timeout_seconds),
        in_flight: Arc::clone(in_flight),
    }
}

/// After how many seconds a person who has signed in to the console has to do so again.
fn session_seconds(config: &Config) -> u64 {
    Duration::from_secs_f64(config.console.session_hours * 3_600.0).as_secs()
}
