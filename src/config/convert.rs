//! From settings as they are written to what the rooms take.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use chrono::{NaiveDate, NaiveTime};
use colloquy_actors::accounts::{PlanRates, Plans, ProofSettings};
use colloquy_actors::backup::BackupSettings;
use colloquy_actors::oauth::{IssuerSettings, KeysFrom, OAuthSettings};
use colloquy_actors::passwords::HashSettings;
use colloquy_actors::sealing::{MasterKey, MasterKeySource, MasterKeySources};
use colloquy_actors::system::{Settings, StoreLocation};
use colloquy_actors::webhook::WebhookSettings;
use colloquy_actors::webhook::target::PrivateTargets;
use colloquy_objects::{Location, NotALocation};
use colloquy_runtime::Policy;
use colloquy_runtime::fair_queue::QueueBounds;
use colloquy_runtime::offload::ComputeLimits;
use ipnet::IpNet;
use toml::Value;

use super::checks::network;
use super::overlay::KINDS;
use super::sections::{
    Backup, Config, Deprecation, Encryption, Events, Issuer, OAuth, Objects, PlanSection, Server,
    Store, StoreKind, Supervision, Webhooks,
};

/// What stands behind the store's path in the search index's.
pub(crate) const INDEX_ENDING: &str = ".search";
/// The same of the index of conversations.
pub(crate) const MESSAGE_INDEX_ENDING: &str = ".message-search";

impl Deprecation {
    /// From when on it is deprecated, in Unix seconds.
    pub(crate) fn since_seconds(&self) -> i64 {
        seconds(self.since)
    }

    /// From when on it may be gone.
    pub(crate) fn sunset_at(&self) -> SystemTime {
        let seconds = u64::try_from(seconds(self.sunset)).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// What is said of it, in sentences.
    pub(crate) fn words(&self) -> String {
        let Deprecation {
            since,
            sunset,
            link,
            note,
            ..
        } = self;
        let note = match note.as_str() {
            "" => String::new(),
            note => format!(" {note}"),
        };
        format!("Deprecated since {since}; from {sunset} on it may be gone.{note} See {link}.")
    }

    /// What it is of, in words.
    pub(crate) fn subject(&self) -> String {
        match self.field.as_str() {
            "" => self.route.clone(),
            field => format!("`{field}` of {}", self.route),
        }
    }
}

/// When a day begins in UTC, in Unix seconds.
fn seconds(day: NaiveDate) -> i64 {
    day.and_time(NaiveTime::MIN).and_utc().timestamp()
}

impl Objects {
    /// Where attachments are kept.
    pub(crate) fn location(&self) -> Result<Location, NotALocation> {
        Location::parse(&self.url, &self.endpoint)
    }
}

impl Backup {
    /// Where backups are kept; none where there is no place for them.
    pub(crate) fn location(&self) -> Result<Option<Location>, NotALocation> {
        match self.url.as_str() {
            "" => Ok(None),
            url => Location::parse(url, &self.endpoint).map(Some),
        }
    }

    fn settings(&self, store: &Store) -> BackupSettings {
        BackupSettings {
            // Checked: it is one.
            location: self.location().unwrap_or_default(),
            every: (self.every_hours > 0.0)
                .then(|| Duration::from_secs_f64(self.every_hours * 3_600.0)),
            keep: self.keep,
            verify: self.verify,
            attachments: self.attachments,
            scratch: store.beside(".backup"),
        }
    }
}

impl Store {
    fn location(&self) -> StoreLocation {
        match self.kind {
            StoreKind::Sqlite => StoreLocation::Sqlite(self.path.clone()),
            StoreKind::MongoDb => StoreLocation::MongoDb {
                uri: self.uri.clone(),
                database: self.database.clone(),
            },
        }
    }

    /// What stands beside the store's file, of which every process has its own.
    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(ending);
        path.into()
    }
}

impl Supervision {
    /// Every number with its full name, those of single kinds too.
    pub(super) fn numbers(&self) -> Vec<(String, f64)> {
        let mut all = Vec::new();
        for (key, value) in &self.values {
            match value.as_table() {
                Some(kind) => {
                    let named =
                        |(name, value)| (format!("supervision.{key}.{name}"), number(value));
                    all.extend(kind.iter().map(named));
                }
                None => all.push((format!("supervision.{key}"), number(value))),
            }
        }
        all
    }

    fn of(&self, kind: &str, key: &str) -> f64 {
        let own = self
            .values
            .get(kind)
            .and_then(Value::as_table)
            .and_then(|table| table.get(key));
        own.or_else(|| self.values.get(key)).map_or(0.0, number)
    }

    fn policy(&self, kind: &str) -> Policy {
        let seconds =
            |key| Duration::try_from_secs_f64(self.of(kind, key)).unwrap_or(Duration::MAX);
        let many = |key| count(self.of(kind, key));
        let some = |key| u32::try_from(many(key)).unwrap_or(u32::MAX);
        Policy {
            mailbox_max: some("mailbox_places"),
            turn_budget: some("turn_budget"),
            ask_timeout: seconds("ask_timeout_seconds"),
            active_max: many("active_max"),
            bytes_max: many("bytes_max"),
            idle: seconds("idle_seconds"),
            sweep: seconds("sweep_seconds"),
            loads_max: many("loads_max"),
            crashes_max: some("crashes_max"),
            window: seconds("window_seconds"),
            backoff_first: seconds("backoff_first_seconds"),
            backoff_min: seconds("backoff_min_seconds"),
            backoff_max: seconds("backoff_max_seconds"),
            jitter: self.of(kind, "backoff_jitter"),
            quarantine: seconds("quarantine_seconds"),
        }
    }
}

fn number(value: &Value) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "no setting needs more than 53 bits"
    )]
    let whole = value.as_integer().map(|whole| whole as f64);
    whole.or_else(|| value.as_float()).unwrap_or(f64::NAN)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked: whole, positive, below 1e15"
)]
fn count(value: f64) -> usize {
    value as usize
}

impl From<&PlanSection> for PlanRates {
    fn from(plan: &PlanSection) -> Self {
        PlanRates {
            rate_per_minute: plan.rate_per_minute,
            burst_per_minute: plan.burst_per_minute,
            monthly_quota: plan.monthly_quota,
        }
    }
}

impl Server {
    /// The proxies that are believed.
    #[must_use]
    pub fn proxies(&self) -> Vec<IpNet> {
        self.trusted_proxies
            .iter()
            .filter_map(|text| network(text))
            .collect()
    }
}

impl From<&Webhooks> for WebhookSettings {
    fn from(webhooks: &Webhooks) -> Self {
        const DAY_SECONDS: f64 = 86_400.0;
        WebhookSettings {
            private_targets: if webhooks.allow_private_targets {
                PrivateTargets::Allowed
            } else {
                PrivateTargets::Refused
            },
            retry_schedule: webhooks
                .retry_schedule_seconds
                .iter()
                .map(|wait| Duration::from_secs_f64(*wait))
                .collect(),
            jitter: webhooks.retry_jitter,
            timeout: Duration::from_secs_f64(webhooks.timeout_seconds),
            places: webhooks.places,
            account_places: webhooks.account_places,
            replays_max: webhooks.replays_max,
            retry_after_max: Duration::from_secs_f64(webhooks.retry_after_max_seconds),
            disable_after: Duration::from_secs_f64(webhooks.disable_after_days * DAY_SECONDS),
            keep_deliveries: Duration::from_secs_f64(webhooks.keep_deliveries_days * DAY_SECONDS),
        }
    }
}

impl Encryption {
    /// Where the master keys come from.
    pub(crate) fn master_keys(&self) -> MasterKeySources {
        let source = |key: &str, file: &Path| match MasterKey::from_base64(key) {
            Some(key) => MasterKeySource::Given(key),
            None if file.as_os_str().is_empty() => MasterKeySource::NotGiven,
            None => MasterKeySource::File(file.to_owned()),
        };
        MasterKeySources {
            present: source(&self.master_key, &self.master_key_file),
            previous: source(&self.previous_master_key, &self.previous_master_key_file),
        }
    }
}

impl From<&Issuer> for IssuerSettings {
    fn from(entry: &Issuer) -> Self {
        IssuerSettings {
            issuer: entry.issuer.clone(),
            audience: entry.audience.clone(),
            keys: match entry.jwks_url.as_str() {
                "" => KeysFrom::File(entry.jwks_file.clone()),
                url => KeysFrom::Url(url.to_owned()),
            },
            algorithms: entry.algorithms.clone(),
            account_claim: entry.account_claim.clone(),
            user_claim: entry.user_claim.clone(),
            mode_claim: entry.mode_claim.clone(),
            scopes: entry.scopes.clone(),
        }
    }
}

impl From<&OAuth> for OAuthSettings {
    fn from(oauth: &OAuth) -> Self {
        const DAY_SECONDS: f64 = 86_400.0;
        let signs = Duration::from_secs_f64(oauth.signing_key_days * DAY_SECONDS);
        OAuthSettings {
            code: Duration::from_secs_f64(oauth.code_seconds),
            access_token: Duration::from_secs_f64(oauth.access_token_seconds),
            consent: Duration::from_secs_f64(oauth.consent_days * DAY_SECONDS),
            signing_key: (signs > Duration::ZERO).then_some(signs),
        }
    }
}

impl Events {
    fn kept(&self) -> Option<Duration> {
        (self.retention_days > 0.0).then(|| Duration::from_secs_f64(self.retention_days * 86_400.0))
    }
}

impl Config {
    /// How each kind of actor is run.
    #[must_use]
    pub fn policies(&self) -> BTreeMap<&'static str, Policy> {
        KINDS
            .into_iter()
            .map(|kind| (kind, self.supervision.policy(kind)))
            .collect()
    }

    /// What accounts may do by their plans.
    #[must_use]
    pub fn plan_rates(&self) -> Plans {
        Plans {
            basic: PlanRates::from(&self.plans.basic),
            pro: PlanRates::from(&self.plans.pro),
        }
    }

    /// What the actors need to know.
    #[must_use]
    pub fn settings(&self, public_url: &str) -> Settings {
        let token = &self.admin.token;
        Settings {
            store: self.store.location(),
            index_path: self.store.beside(INDEX_ENDING),
            message_index_path: self.store.beside(MESSAGE_INDEX_ENDING),
            message_search: self.search.conversations,
            events_kept: self.events.kept(),
            operator_token: (!token.is_empty()).then(|| token.clone()),
            master_keys: self.encryption.master_keys(),
            encrypt_texts: self.encryption.enabled,
            plans: self.plan_rates(),
            reads: QueueBounds {
                each: self.limits.reads_waiting_per_account,
                all: self.limits.reads_waiting,
                wait: Duration::from_secs_f64(self.limits.read_wait_seconds),
            },
            auth_failures_per_minute: self.limits.auth_failures_per_minute,
            audited_refusals_per_minute: self.audit.refusals_per_minute,
            link_requests_per_address: self.limits.link_requests_per_address_per_minute,
            link_requests_per_link: self.limits.link_requests_per_minute,
            session: Duration::from_secs_f64(self.console.session_hours * 3_600.0),
            oauth: OAuthSettings::from(&self.oauth),
            issuers: self.issuers.iter().map(IssuerSettings::from).collect(),
            public_url: public_url.to_owned(),
            hashing: HashSettings {
                places: self.limits.password_hashes,
                wait_max: Duration::from_secs_f64(self.limits.password_wait_seconds),
            },
            webhooks: WebhookSettings::from(&self.webhooks),
            tickets_per_account: self.realtime.tickets_per_account,
            presences_per_account: self.realtime.presences_per_account,
            queue_bytes_per_account: self.realtime.queue_bytes_per_account,
            bin_kept: Duration::from_secs_f64(self.documents.bin_days * 86_400.0),
            computing: ComputeLimits {
                large_comparisons_max: self.documents.large_comparisons_max,
                large_comparison_bytes: self.documents.large_comparison_bytes,
                wait_max: Duration::from_secs_f64(self.documents.turn_wait_seconds),
            },
            objects: self.objects.location(),
            proofs: ProofSettings {
                retry_min: Duration::from_secs_f64(self.domains.retry_seconds_min),
                retry_max: Duration::from_secs_f64(self.domains.retry_seconds_max),
            },
            backup: self.backup.settings(&self.store),
            policy: self.supervision.policy(""),
            drills: self.supervision.drills,
            policies: self.policies(),
        }
    }
}
