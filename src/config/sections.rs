//! The sections of config.toml as types.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use chrono::NaiveDate;
use colloquy_model::bounds::Bounds;
use colloquy_model::key::Permission;
use http::{HeaderName, HeaderValue};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// All settings, each with its default or what the file and the environment say.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where and how it listens.
    pub server: Server,
    /// With which certificate it speaks TLS, if it does.
    pub tls: Tls,
    /// Where data is stored, and in which kind of store.
    pub store: Store,
    /// Copies of the store, made while it serves.
    pub backup: Backup,
    /// Where attachments are kept.
    pub objects: Objects,
    /// What can be searched.
    pub search: Search,
    /// What is kept of what happened.
    pub events: Events,
    /// The token with which operators come in.
    pub admin: Admin,
    /// How secrets are stored.
    pub encryption: Encryption,
    /// What the audit trail records.
    pub audit: Audit,
    /// What a request may cost.
    pub limits: Limits,
    /// How streams and WebSockets are kept.
    pub realtime: Realtime,
    /// How large each text may be.
    pub bounds: Bounds,
    /// What each plan allows.
    pub plans: Plans,
    /// How webhooks are sent.
    pub webhooks: Webhooks,
    /// How documents are kept.
    pub documents: Documents,
    /// Access for the software of others.
    pub oauth: OAuth,
    /// Other issuers whose access tokens are accepted.
    pub issuers: Vec<Issuer>,
    /// What of the interface will go away.
    pub deprecations: Vec<Deprecation>,
    /// The pages for people.
    pub console: Console,
    /// How actors are supervised.
    pub supervision: Supervision,
    /// Accounts' own host names.
    pub domains: Domains,
    /// Which pages of other origins may call.
    pub cors: Cors,
    /// What a CDN may keep.
    pub shared_caches: SharedCaches,
    /// Headers that keep browsers safe.
    pub security_headers: SecurityHeaders,
    /// Who may read the metrics.
    pub metrics: Metrics,
    /// What is logged, and in which format.
    pub log: Log,
    /// Where traces of requests are sent.
    pub traces: Traces,
}

/// `[server]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Server {
    pub bind: String,
    pub public_url: String,
    pub region: String,
    pub workers: usize,
    pub drain_seconds: f64,
    pub request_head_timeout_seconds: f64,
    pub body_timeout_seconds: f64,
    pub connections_max: usize,
    pub keep_alive_seconds: f64,
    pub write_timeout_seconds: f64,
    pub read_bytes_per_second_min: u32,
    pub linger_seconds: f64,
    pub trusted_proxies: Vec<String>,
}

/// `[tls]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Tls {
    pub certificate: String,
    pub key: String,
    pub admin_client_ca: String,
    pub admin_client_crl: String,
    pub admin_client_certificate: String,
    pub admin_client_key: String,
    pub check_seconds: f64,
    pub redirect_from: String,
    pub acme: Acme,
}

impl Tls {
    /// Whether the server speaks TLS itself.
    pub(crate) fn is_on(&self) -> bool {
        !self.certificate.is_empty() || self.acme.is_on()
    }
}

/// `[tls.acme]`
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Acme {
    pub domains: Vec<String>,
    pub directory: String,
    pub directory_ca: String,
    pub contact: Vec<String>,
    pub terms_of_service_agreed: bool,
    pub external_account_id: String,
    pub external_account_key: String,
    pub profile: String,
    pub storage: String,
    pub storage_endpoint: String,
    pub renew_before_days: f64,
}

impl Acme {
    /// Whether certificates are ordered.
    pub(crate) fn is_on(&self) -> bool {
        !self.domains.is_empty()
    }
}

impl std::fmt::Debug for Acme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Acme");
        shown
            .field("domains", &self.domains)
            .finish_non_exhaustive()
    }
}

/// `[store]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Store {
    pub kind: StoreKind,
    pub path: PathBuf,
    pub uri: String,
    pub database: String,
}

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "config.toml explains each kind")]
pub enum StoreKind {
    Sqlite,
    MongoDb,
}

impl StoreKind {
    /// How settings and dumps name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StoreKind::Sqlite => "sqlite",
            StoreKind::MongoDb => "mongodb",
        }
    }
}

/// `[domains]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Domains {
    pub nameservers: Vec<String>,
    pub timeout_seconds: f64,
    pub retry_seconds_min: f64,
    pub retry_seconds_max: f64,
}

impl Domains {
    /// The nameservers' addresses.
    pub(crate) fn nameservers(&self) -> Vec<SocketAddr> {
        let named = self.nameservers.iter();
        named.filter_map(|text| text.parse().ok()).collect()
    }
}

/// `[objects]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each")]
pub struct Objects {
    pub url: String,
    pub endpoint: String,
    pub redirect: bool,
}

/// `[backup]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Backup {
    pub url: String,
    pub endpoint: String,
    pub every_hours: f64,
    pub keep: usize,
    pub verify: bool,
    pub attachments: bool,
}

/// `[search]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Search {
    pub conversations: bool,
}

/// `[events]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Events {
    pub retention_days: f64,
}

/// `[admin]`
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Admin {
    pub token: String,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

/// `[encryption]`
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Encryption {
    pub enabled: bool,
    pub master_key_file: PathBuf,
    pub master_key: String,
    pub previous_master_key_file: PathBuf,
    pub previous_master_key: String,
}

impl std::fmt::Debug for Encryption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encryption")
            .field("enabled", &self.enabled)
            .field("master_key_file", &self.master_key_file)
            .field("previous_master_key_file", &self.previous_master_key_file)
            .finish_non_exhaustive()
    }
}

/// `[oauth]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct OAuth {
    pub code_seconds: f64,
    pub access_token_seconds: f64,
    pub consent_days: f64,
    pub signing_key_days: f64,
}

/// `[[issuers]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Issuer {
    pub issuer: String,
    pub audience: String,
    #[serde(default)]
    pub jwks_url: String,
    #[serde(default)]
    pub jwks_file: PathBuf,
    pub algorithms: Vec<String>,
    pub account_claim: String,
    #[serde(default)]
    pub user_claim: String,
    #[serde(default)]
    pub mode_claim: String,
    pub scopes: Vec<Permission>,
}

/// `[[deprecations]]`: a route, or a parameter or field of one, that will go away
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Deprecation {
    pub route: String,
    #[serde(default)]
    pub field: String,
    #[serde(deserialize_with = "day")]
    pub since: NaiveDate,
    #[serde(deserialize_with = "day")]
    pub sunset: NaiveDate,
    pub link: String,
    #[serde(default)]
    pub note: String,
}

/// A day, such as "2027-01-31".
fn day<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NaiveDate, D::Error> {
    let text = String::deserialize(deserializer)?;
    let read = text.parse();
    read.map_err(|_| D::Error::custom("must be a day, such as \"2027-01-31\""))
}

/// `[audit]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Audit {
    pub refusals_per_minute: u32,
}

/// `[limits]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Limits {
    pub max_body_bytes: usize,
    pub max_document_bytes: usize,
    pub max_attachment_bytes: u64,
    pub max_form_bytes: usize,
    pub max_request_line_bytes: usize,
    pub max_header_bytes: usize,
    pub offload_body_bytes: usize,
    pub bodies_in_flight_bytes: usize,
    pub reads_waiting_per_account: usize,
    pub reads_waiting: usize,
    pub read_wait_seconds: f64,
    pub answers_in_flight_bytes: usize,
    pub large_answers_at_once: usize,
    pub auth_failures_per_minute: u32,
    pub link_requests_per_address_per_minute: u32,
    pub link_requests_per_minute: u32,
    pub password_hashes: usize,
    pub password_wait_seconds: f64,
}

/// `[realtime]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Realtime {
    pub heartbeat_seconds: f64,
    pub ticket_seconds: f64,
    pub subscriptions_max: usize,
    pub sends_max: usize,
    pub lines_per_key: usize,
    pub lines_per_account: usize,
    pub tickets_per_account: usize,
    pub presences_per_account: usize,
    pub frames_per_second: f64,
    pub frames_burst: u32,
    pub frame_bytes_per_account: usize,
    pub queue_bytes_per_account: usize,
}

/// `[plans]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Plans {
    pub basic: PlanSection,
    pub pro: PlanSection,
}

/// `[plans.…]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct PlanSection {
    pub rate_per_minute: u32,
    pub burst_per_minute: u32,
    pub monthly_quota: u64,
}

/// `[webhooks]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Webhooks {
    pub allow_private_targets: bool,
    pub retry_schedule_seconds: Vec<f64>,
    pub retry_jitter: f64,
    pub timeout_seconds: f64,
    pub places: usize,
    pub account_places: usize,
    pub replays_max: usize,
    pub retry_after_max_seconds: f64,
    pub disable_after_days: f64,
    pub keep_deliveries_days: f64,
}

/// `[console]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Console {
    pub session_hours: f64,
}

/// `[documents]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Documents {
    pub bin_days: f64,
    pub large_comparisons_max: usize,
    pub large_comparison_bytes: usize,
    pub turn_wait_seconds: f64,
}

/// `[supervision]`, and inside it a table per kind with some of the same keys.
#[derive(Debug, Clone, Deserialize)]
pub struct Supervision {
    /// Whether operators may let actors crash, to see what follows.
    pub drills: bool,
    /// By key: a number, or for a kind its own table.
    #[serde(flatten)]
    pub values: BTreeMap<String, toml::Value>,
}

/// `[cors]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Cors {
    pub allowed_origins: Vec<String>,
    pub allowed_methods: Vec<String>,
    pub allowed_headers: Vec<String>,
    pub exposed_headers: Vec<String>,
    pub max_age_seconds: u64,
}

/// `[security_headers]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct SecurityHeaders {
    pub x_content_type_options: String,
    pub referrer_policy: String,
    pub content_security_policy: String,
    pub page_content_security_policy: String,
    pub console_content_security_policy: String,
    pub strict_transport_security: String,
}

/// `[metrics]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Metrics {
    pub public: bool,
}

/// `[log]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Log {
    pub level: String,
    pub format: String,
    pub requests: bool,
}

/// `[shared_caches]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct SharedCaches {
    pub link_seconds: u32,
    pub purge_url: String,
    pub purge_format: PurgeFormat,
    pub purge_header: String,
}

/// How a shared cache is told what to drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PurgeFormat {
    /// The tags stand in the header `Surrogate-Key`, with spaces between them.
    SurrogateKey,
    /// `{"tags":[…]}`
    CacheTag,
}

impl SharedCaches {
    /// The header that goes with each purge, if one is set.
    pub(crate) fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        let (name, value) = self.purge_header.split_once(':')?;
        let name = HeaderName::try_from(name.trim()).ok()?;
        let mut value = HeaderValue::try_from(value.trim()).ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }
}

/// `[traces]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.toml explains each key")]
pub struct Traces {
    pub endpoint: String,
    pub authorization: String,
    pub ratio: f64,
}
