//! What must hold among the values of config.toml that their types can't say: bounds, and how values
//! go together.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

use chrono::Months;
use colloquy_actors::accounts::MONTHLY_QUOTA_MAX;
use colloquy_actors::realtime::PRESENCE_MAX;
use colloquy_actors::sealing::{MasterKey, MasterKeySource};
use colloquy_model::origin;
use colloquy_objects::FILE_BYTES_MAX;
use colloquy_runtime::PolicySetting;
use ipnet::IpNet;

use super::addresses::{check_endpoint, check_places, check_web_url};
use super::sections::{
    Backup, Config, Deprecation, Domains, Encryption, Issuer, OAuth, Objects, Server, SharedCaches,
    StoreKind, Tls, Traces, Webhooks,
};

/// The longest wait that a setting may name.
const YEAR_SECONDS: f64 = 31_536_000.0;

/// The longest that shared caches may keep what a share link opens: a day.
const LINK_SECONDS_MAX: u32 = 86_400;

/// The shortest time from one scheduled backup to the next.
const EVERY_HOURS_MIN: f64 = 0.0001;

/// Characters of a region's name.
const REGION_CHARS_MAX: usize = 32;

/// How long before it goes away something has to be deprecated.
const NOTICE_MONTHS: u32 = 12;

/// The key that is at fault, and what would be right.
pub(super) type Wrong = (String, String);

pub(super) fn wrong(key: &str, right: &str) -> Result<(), Wrong> {
    Err((key.to_owned(), right.to_owned()))
}

impl Objects {
    fn check(&self) -> Result<(), Wrong> {
        if let Err(error) = self.location() {
            wrong("objects.url", &error.to_string())?;
        }
        check_endpoint("objects.endpoint", &self.endpoint)
    }
}

impl Backup {
    fn check(&self) -> Result<(), Wrong> {
        if let Err(error) = self.location() {
            wrong("backup.url", &error.to_string())?;
        }
        check_endpoint("backup.endpoint", &self.endpoint)?;
        let hours = self.every_hours;
        if hours != 0.0 && !(EVERY_HOURS_MIN..=87_600.0).contains(&hours) {
            let right = format!("must be 0, or {EVERY_HOURS_MIN} to 87600");
            wrong("backup.every_hours", &right)?;
        }
        if !(1..=10_000).contains(&self.keep) {
            wrong("backup.keep", "must be 1 to 10000")?;
        }
        Ok(())
    }
}

impl Traces {
    fn check(&self) -> Result<(), Wrong> {
        check_endpoint("traces.endpoint", &self.endpoint)?;
        if !(0.0..=1.0).contains(&self.ratio) {
            wrong("traces.ratio", "must be 0 to 1")?;
        }
        if !self
            .authorization
            .bytes()
            .all(|b| (b' '..=b'~').contains(&b))
        {
            wrong("traces.authorization", "must be the value of a header")?;
        }
        Ok(())
    }
}

impl SharedCaches {
    fn check(&self) -> Result<(), Wrong> {
        if self.link_seconds > LINK_SECONDS_MAX {
            wrong(
                "shared_caches.link_seconds",
                &format!("must be at most {LINK_SECONDS_MAX}"),
            )?;
        }
        check_web_url("shared_caches.purge_url", &self.purge_url)?;
        if !self.purge_url.is_empty() && self.link_seconds == 0 {
            wrong(
                "shared_caches.purge_url",
                "goes with shared_caches.link_seconds",
            )?;
        }
        if !self.purge_header.is_empty() && self.header().is_none() {
            wrong(
                "shared_caches.purge_header",
                "must be a header, such as \"Fastly-Key: …\"",
            )?;
        }
        Ok(())
    }
}

impl Config {
    /// What types can't say: bounds, and how values go together.
    pub(super) fn check(&self) -> Result<(), Wrong> {
        self.server.check()?;
        self.tls.check(&self.server)?;
        self.traces.check()?;
        self.shared_caches.check()?;
        self.check_limits()?;
        self.check_texts()?;
        if !(0.0..=36_500.0).contains(&self.events.retention_days) {
            wrong(
                "events.retention_days",
                "must be at least 0 and at most 36500",
            )?;
        }
        self.check_plans()?;
        if !(self.documents.bin_days > 0.0 && self.documents.bin_days <= 36_500.0) {
            wrong(
                "documents.bin_days",
                "must be more than 0 and at most 36500",
            )?;
        }
        if !(1..=1_024).contains(&self.documents.large_comparisons_max) {
            wrong("documents.large_comparisons_max", "must be 1 to 1024")?;
        }
        if !(self.documents.turn_wait_seconds > 0.0 && self.documents.turn_wait_seconds <= 3_600.0)
        {
            wrong(
                "documents.turn_wait_seconds",
                "must be more than 0 and at most 3600",
            )?;
        }
        if !(1..=1 << 30).contains(&self.bounds.document_bytes_max) {
            wrong("bounds.document_bytes_max", "must be 1 to 1073741824")?;
        }
        self.check_files()?;
        self.encryption.check()?;
        self.oauth.check()?;
        self.issuers.iter().try_for_each(Issuer::check)?;
        self.check_deprecations()?;
        self.webhooks.check()?;
        self.check_policies()
    }

    fn check_plans(&self) -> Result<(), Wrong> {
        for (name, plan) in [
            ("plans.basic", &self.plans.basic),
            ("plans.pro", &self.plans.pro),
        ] {
            if plan.rate_per_minute == 0 {
                wrong(&format!("{name}.rate_per_minute"), "must be at least 1")?;
            }
            if plan.burst_per_minute < plan.rate_per_minute {
                wrong(
                    &format!("{name}.burst_per_minute"),
                    "must be at least rate_per_minute",
                )?;
            }
            if plan.monthly_quota > MONTHLY_QUOTA_MAX {
                wrong(
                    &format!("{name}.monthly_quota"),
                    &format!("must be at most {MONTHLY_QUOTA_MAX}"),
                )?;
            }
        }
        Ok(())
    }

    fn check_deprecations(&self) -> Result<(), Wrong> {
        for (index, one) in self.deprecations.iter().enumerate() {
            let at = format!("deprecations[{index}]");
            one.check(&at)?;
            let is_same = |other: &&Deprecation| other.subject() == one.subject();
            if self
                .deprecations
                .iter()
                .take(index)
                .any(|other| is_same(&other))
            {
                let right = format!("is given twice: {} is deprecated already", one.subject());
                wrong(&format!("{at}.route"), &right)?;
            }
        }
        Ok(())
    }

    fn check_files(&self) -> Result<(), Wrong> {
        if !(1..=FILE_BYTES_MAX).contains(&self.limits.max_attachment_bytes) {
            let right = format!("must be 1 to {FILE_BYTES_MAX}");
            wrong("limits.max_attachment_bytes", &right)?;
        }
        self.objects.check()?;
        self.backup.check()?;
        check_places(self)
    }

    fn check_limits(&self) -> Result<(), Wrong> {
        let counts = self
            .limit_counts()
            .into_iter()
            .chain(self.realtime_counts())
            .chain(self.bound_counts());
        for (key, value) in counts {
            if value == 0 {
                wrong(key, "must be at least 1")?;
            }
        }
        if self.realtime.presences_per_account > PRESENCE_MAX {
            wrong(
                "realtime.presences_per_account",
                &format!("must be at most {PRESENCE_MAX}"),
            )?;
        }
        if !(self.realtime.frames_per_second > 0.0 && self.realtime.frames_per_second <= 1e6) {
            wrong(
                "realtime.frames_per_second",
                "must be more than 0 and at most 1000000",
            )?;
        }
        for (key, value) in [
            (
                "limits.password_wait_seconds",
                self.limits.password_wait_seconds,
            ),
            ("limits.read_wait_seconds", self.limits.read_wait_seconds),
            (
                "realtime.heartbeat_seconds",
                self.realtime.heartbeat_seconds,
            ),
            ("realtime.ticket_seconds", self.realtime.ticket_seconds),
            ("console.session_hours", self.console.session_hours),
        ] {
            if !(value > 0.0 && value <= 86_400.0) {
                wrong(key, "must be more than 0 and at most 86400")?;
            }
        }
        Ok(())
    }

    /// The settings of `[limits]` that must be at least 1.
    fn limit_counts(&self) -> [(&'static str, usize); 15] {
        let limits = &self.limits;
        [
            ("limits.max_body_bytes", limits.max_body_bytes),
            ("limits.max_document_bytes", limits.max_document_bytes),
            ("limits.max_form_bytes", limits.max_form_bytes),
            (
                "limits.max_request_line_bytes",
                limits.max_request_line_bytes,
            ),
            ("limits.max_header_bytes", limits.max_header_bytes),
            ("limits.offload_body_bytes", limits.offload_body_bytes),
            (
                "limits.bodies_in_flight_bytes",
                limits.bodies_in_flight_bytes,
            ),
            (
                "limits.reads_waiting_per_account",
                limits.reads_waiting_per_account,
            ),
            ("limits.reads_waiting", limits.reads_waiting),
            (
                "limits.answers_in_flight_bytes",
                limits.answers_in_flight_bytes,
            ),
            ("limits.large_answers_at_once", limits.large_answers_at_once),
            (
                "limits.auth_failures_per_minute",
                limits.auth_failures_per_minute as usize,
            ),
            (
                "limits.link_requests_per_address_per_minute",
                limits.link_requests_per_address_per_minute as usize,
            ),
            (
                "limits.link_requests_per_minute",
                limits.link_requests_per_minute as usize,
            ),
            ("limits.password_hashes", limits.password_hashes),
        ]
    }

    /// The settings of `[realtime]` that must be at least 1.
    fn realtime_counts(&self) -> [(&'static str, usize); 9] {
        let realtime = &self.realtime;
        [
            ("realtime.subscriptions_max", realtime.subscriptions_max),
            ("realtime.sends_max", realtime.sends_max),
            ("realtime.lines_per_key", realtime.lines_per_key),
            ("realtime.lines_per_account", realtime.lines_per_account),
            ("realtime.tickets_per_account", realtime.tickets_per_account),
            (
                "realtime.presences_per_account",
                realtime.presences_per_account,
            ),
            ("realtime.frames_burst", realtime.frames_burst as usize),
            (
                "realtime.frame_bytes_per_account",
                realtime.frame_bytes_per_account,
            ),
            (
                "realtime.queue_bytes_per_account",
                realtime.queue_bytes_per_account,
            ),
        ]
    }

    /// The settings of `[bounds]` and `[documents]` that must be at least 1.
    fn bound_counts(&self) -> [(&'static str, usize); 10] {
        let (bounds, documents) = (&self.bounds, &self.documents);
        [
            ("bounds.content_bytes_max", bounds.content_bytes_max),
            (
                "bounds.customer_name_chars_max",
                bounds.customer_name_chars_max,
            ),
            ("bounds.name_chars_max", bounds.name_chars_max),
            ("bounds.url_chars_max", bounds.url_chars_max),
            ("bounds.query_names_max", bounds.query_names_max),
            ("bounds.webhook_endpoints_max", bounds.webhook_endpoints_max),
            ("bounds.filter_values_max", bounds.filter_values_max),
            ("bounds.diff_bytes_max", bounds.diff_bytes_max),
            (
                "documents.large_comparison_bytes",
                documents.large_comparison_bytes,
            ),
            (
                "bounds.comparison_steps_max",
                bounds.comparison_steps_max as usize,
            ),
        ]
    }

    fn check_texts(&self) -> Result<(), Wrong> {
        if self.store.kind == StoreKind::MongoDb {
            let is_uri = ["mongodb://", "mongodb+srv://"]
                .iter()
                .any(|scheme| self.store.uri.starts_with(scheme));
            if !is_uri {
                wrong(
                    "store.uri",
                    "must begin with mongodb:// or mongodb+srv:// where store.kind is \"mongodb\"",
                )?;
            }
            if self.store.database.is_empty() {
                wrong("store.database", "must name a database")?;
            }
        }
        if self.store.path.as_os_str().is_empty() {
            wrong(
                "store.path",
                "must name a file, such as \"data/colloquy.db\"",
            )?;
        }
        if !self.admin.token.is_empty() && !is_operator_token(&self.admin.token) {
            wrong(
                "admin.token",
                "must be op_ and 20 to 200 characters of [A-Za-z0-9_-]",
            )?;
        }
        if !["full", "compact", "json"].contains(&self.log.format.as_str()) {
            wrong("log.format", "must be \"full\", \"compact\" or \"json\"")?;
        }
        if !is_filter(&self.log.level) {
            let right = "must be error, warn, info, debug, trace, off, or a list such as \"info,colloquy_actors=debug\"";
            wrong("log.level", right)?;
        }
        self.domains.check()?;
        self.check_headers()
    }

    fn check_headers(&self) -> Result<(), Wrong> {
        let headers = &self.security_headers;
        for (key, value) in [
            (
                "security_headers.x_content_type_options",
                &headers.x_content_type_options,
            ),
            ("security_headers.referrer_policy", &headers.referrer_policy),
            (
                "security_headers.content_security_policy",
                &headers.content_security_policy,
            ),
            (
                "security_headers.console_content_security_policy",
                &headers.console_content_security_policy,
            ),
            (
                "security_headers.page_content_security_policy",
                &headers.page_content_security_policy,
            ),
            (
                "security_headers.strict_transport_security",
                &headers.strict_transport_security,
            ),
        ] {
            if !is_header_value(value) {
                wrong(key, "must be printable ASCII")?;
            }
        }
        let transport = &headers.strict_transport_security;
        if !transport.is_empty() && !is_transport_security(transport) {
            wrong(
                "security_headers.strict_transport_security",
                "must have max-age once, in seconds, such as \"max-age=31536000; includeSubDomains\", or be empty",
            )?;
        }
        for (key, list) in [
            ("cors.allowed_methods", &self.cors.allowed_methods),
            ("cors.allowed_headers", &self.cors.allowed_headers),
            ("cors.exposed_headers", &self.cors.exposed_headers),
        ] {
            if !list
                .iter()
                .all(|item| is_header_value(item) && !item.is_empty() && !item.contains([' ', ',']))
            {
                wrong(key, "must be a list of names without spaces or commas")?;
            }
        }
        let origins = &self.cors.allowed_origins;
        for (place, origin) in origins.iter().enumerate() {
            let before = origins.get(..place).unwrap_or_default();
            if let Some(right) = origin::refusal(before, origin) {
                wrong(&format!("cors.allowed_origins[{place}]"), right)?;
            }
        }
        Ok(())
    }

    fn check_policies(&self) -> Result<(), Wrong> {
        for (name, value) in self.supervision.numbers() {
            let setting = name.rsplit('.').next().and_then(PolicySetting::named);
            match setting.map(|setting| setting.check(value)) {
                Some(Ok(())) => {}
                Some(Err(right)) => wrong(&name, &right)?,
                None => wrong(&name, "must stand in [supervision] itself")?,
            }
        }
        Ok(())
    }
}

impl Server {
    fn check(&self) -> Result<(), Wrong> {
        if self.bind.parse::<SocketAddr>().is_err() {
            wrong(
                "server.bind",
                "must be an address and a port, such as \"127.0.0.1:8080\"",
            )?;
        }
        let url = &self.public_url;
        let is_web = url.starts_with("http://") || url.starts_with("https://");
        if !(url.is_empty() || is_web && origin::is_origin(url)) {
            wrong(
                "server.public_url",
                "must be http:// or https://, a host in small letters and a port where it is not the usual one, such as \"https://chat.example.com\"",
            )?;
        }
        if !is_region(&self.region) {
            wrong(
                "server.region",
                "must be at most 32 letters, digits and hyphens between them, such as \"eu-central-1\", or empty",
            )?;
        }
        for (key, value) in [
            ("server.drain_seconds", self.drain_seconds),
            (
                "server.request_head_timeout_seconds",
                self.request_head_timeout_seconds,
            ),
            ("server.body_timeout_seconds", self.body_timeout_seconds),
            ("server.keep_alive_seconds", self.keep_alive_seconds),
            ("server.linger_seconds", self.linger_seconds),
        ] {
            if !(value > 0.0 && value <= 86_400.0) {
                wrong(key, "must be more than 0 and at most 86400")?;
            }
        }
        if !(self.write_timeout_seconds >= 0.0 && self.write_timeout_seconds <= 86_400.0) {
            wrong("server.write_timeout_seconds", "must be 0 to 86400")?;
        }
        if !(1..=1_000_000).contains(&self.connections_max) {
            wrong("server.connections_max", "must be 1 to 1000000")?;
        }
        if self.workers > 1_024 {
            wrong("server.workers", "must be at most 1024")?;
        }
        if self
            .trusted_proxies
            .iter()
            .any(|text| network(text).is_none())
        {
            wrong(
                "server.trusted_proxies",
                "must be a list of addresses or CIDR ranges, such as \"10.0.0.0/8\"",
            )?;
        }
        Ok(())
    }
}

impl Domains {
    fn check(&self) -> Result<(), Wrong> {
        if self.nameservers().len() != self.nameservers.len() {
            wrong(
                "domains.nameservers",
                "must be a list of addresses and ports, such as \"9.9.9.9:53\"",
            )?;
        }
        if !(self.timeout_seconds > 0.0 && self.timeout_seconds <= 60.0) {
            wrong(
                "domains.timeout_seconds",
                "must be more than 0 and at most 60",
            )?;
        }
        if !(self.retry_seconds_min >= 0.1 && self.retry_seconds_min <= 86_400.0) {
            wrong("domains.retry_seconds_min", "must be 0.1 to 86400")?;
        }
        if !(self.retry_seconds_max >= self.retry_seconds_min && self.retry_seconds_max <= 86_400.0)
        {
            wrong(
                "domains.retry_seconds_max",
                "must be at least domains.retry_seconds_min and at most 86400",
            )?;
        }
        Ok(())
    }
}

impl Tls {
    /// What can be said without the files: these are looked at by whoever speaks TLS with them.
    fn check(&self, server: &Server) -> Result<(), Wrong> {
        self.check_what_needs_another()?;
        if !self.certificate.is_empty() && self.key.is_empty() {
            wrong("tls.key", "must be given where tls.certificate is")?;
        }
        if !(self.check_seconds > 0.0 && self.check_seconds <= 86_400.0) {
            wrong("tls.check_seconds", "must be more than 0 and at most 86400")?;
        }
        if !self.redirect_from.is_empty() && self.redirect_from.parse::<SocketAddr>().is_err() {
            wrong(
                "tls.redirect_from",
                "must be an address and a port, such as \"0.0.0.0:80\", or empty",
            )?;
        }
        let url = &server.public_url;
        if self.is_on() && !url.is_empty() && !url.starts_with("https://") {
            wrong(
                "server.public_url",
                "must begin with https:// where tls.certificate or tls.acme.domains is given",
            )?;
        }
        if !self.redirect_from.is_empty() && url.is_empty() {
            wrong(
                "server.public_url",
                "must be given where tls.redirect_from is: it says where that leads",
            )?;
        }
        self.acme.check()
    }

    fn check_what_needs_another(&self) -> Result<(), Wrong> {
        let has_files = !self.certificate.is_empty();
        for (key, value, needs, is_there) in [
            ("tls.key", &self.key, "tls.certificate", has_files),
            (
                "tls.admin_client_ca",
                &self.admin_client_ca,
                "tls.certificate or tls.acme.domains",
                self.is_on(),
            ),
            (
                "tls.admin_client_crl",
                &self.admin_client_crl,
                "tls.admin_client_ca",
                !self.admin_client_ca.is_empty(),
            ),
            (
                "tls.redirect_from",
                &self.redirect_from,
                "tls.certificate or tls.acme.domains",
                self.is_on(),
            ),
            (
                "tls.admin_client_certificate",
                &self.admin_client_certificate,
                "tls.admin_client_key",
                !self.admin_client_key.is_empty(),
            ),
            (
                "tls.admin_client_key",
                &self.admin_client_key,
                "tls.admin_client_certificate",
                !self.admin_client_certificate.is_empty(),
            ),
        ] {
            if !value.is_empty() && !is_there {
                wrong(key, &format!("must be empty unless {needs} is given"))?;
            }
        }
        Ok(())
    }
}

impl Issuer {
    fn check(&self) -> Result<(), Wrong> {
        let at = |key: &str| format!("issuers ({}): {key}", self.issuer);
        for (key, value) in [
            ("issuer", &self.issuer),
            ("audience", &self.audience),
            ("account_claim", &self.account_claim),
        ] {
            if value.is_empty() {
                wrong(&at(key), "must not be empty")?;
            }
        }
        if self.jwks_url.is_empty() == self.jwks_file.as_os_str().is_empty() {
            wrong(&at("jwks_url"), "must be given, or jwks_file, but not both")?;
        }
        if !self.jwks_url.is_empty()
            && !self.jwks_url.starts_with("https://")
            && !self.jwks_url.starts_with("http://")
        {
            wrong(&at("jwks_url"), "must be an address, https://…")?;
        }
        if self.algorithms.is_empty() {
            wrong(&at("algorithms"), "must name at least one, such as RS256")?;
        }
        Ok(())
    }
}

impl Deprecation {
    fn check(&self, at: &str) -> Result<(), Wrong> {
        let earliest = self.since.checked_add_months(Months::new(NOTICE_MONTHS));
        if earliest.is_none_or(|earliest| self.sunset < earliest) {
            let right = format!("must be at least {NOTICE_MONTHS} months after since");
            wrong(&format!("{at}.sunset"), &right)?;
        }
        let is_shown = |one: char| one.is_ascii_graphic() && !matches!(one, '<' | '>' | '"');
        if !self.link.starts_with("https://") || !self.link.chars().all(is_shown) {
            wrong(&format!("{at}.link"), "must be an address, https://…")?;
        }
        Ok(())
    }
}

impl OAuth {
    fn check(&self) -> Result<(), Wrong> {
        for (key, value, most) in [
            ("oauth.code_seconds", self.code_seconds, 600.0),
            (
                "oauth.access_token_seconds",
                self.access_token_seconds,
                86_400.0,
            ),
            ("oauth.consent_days", self.consent_days, 3_650.0),
        ] {
            if !(value > 0.0 && value <= most) {
                wrong(key, &format!("must be more than 0 and at most {most}"))?;
            }
        }
        if !(0.0..=3_650.0).contains(&self.signing_key_days) {
            wrong(
                "oauth.signing_key_days",
                "must be at least 0 and at most 3650",
            )?;
        }
        Ok(())
    }
}

impl Encryption {
    fn check(&self) -> Result<(), Wrong> {
        if let Some(why) = given_twice(&self.master_key, &self.master_key_file) {
            wrong("encryption.master_key", why)?;
        }
        if let Some(why) = given_twice(&self.previous_master_key, &self.previous_master_key_file) {
            wrong("encryption.previous_master_key", why)?;
        }
        if let Some(why) = no_key_in(&self.master_key_file) {
            wrong("encryption.master_key_file", &why)?;
        }
        if let Some(why) = no_key_in(&self.previous_master_key_file) {
            wrong("encryption.previous_master_key_file", &why)?;
        }
        if let Some(why) = no_key(&self.master_key) {
            wrong("encryption.master_key", why)?;
        }
        if let Some(why) = no_key(&self.previous_master_key) {
            wrong("encryption.previous_master_key", why)?;
        }
        let keys = self.master_keys();
        let is_given = !matches!(keys.present, MasterKeySource::NotGiven);
        if self.enabled && !is_given {
            wrong(
                "encryption.enabled",
                "must be false unless master_key_file or master_key is given",
            )?;
        }
        if !is_given && !matches!(keys.previous, MasterKeySource::NotGiven) {
            wrong(
                "encryption.previous_master_key",
                "needs a master_key or a master_key_file, which takes its place",
            )?;
        }
        Ok(())
    }
}

fn given_twice(key: &str, file: &Path) -> Option<&'static str> {
    let is_twice = !key.is_empty() && !file.as_os_str().is_empty();
    is_twice.then_some("must be empty where the file is given that holds it")
}

fn no_key_in(file: &Path) -> Option<String> {
    let read = (!file.as_os_str().is_empty()).then(|| MasterKey::read(file))?;
    read.err().map(|error| error.to_string())
}

fn no_key(key: &str) -> Option<&'static str> {
    let is_none = !key.is_empty() && MasterKey::from_base64(key).is_none();
    is_none.then_some("must be 32 bytes in base64, such as `openssl rand -base64 32` prints")
}

impl Webhooks {
    fn check(&self) -> Result<(), Wrong> {
        let schedule = &self.retry_schedule_seconds;
        if schedule.len() > 100
            || !schedule
                .iter()
                .all(|wait| (0.0..=YEAR_SECONDS).contains(wait))
        {
            wrong(
                "webhooks.retry_schedule_seconds",
                "must be at most 100 numbers, each 0 to 31536000",
            )?;
        }
        if !(0.0..=1.0).contains(&self.retry_jitter) {
            wrong("webhooks.retry_jitter", "must be 0 to 1")?;
        }
        if !(self.timeout_seconds > 0.0 && self.timeout_seconds <= 3_600.0) {
            wrong(
                "webhooks.timeout_seconds",
                "must be more than 0 and at most 3600",
            )?;
        }
        if !(1..=10_000).contains(&self.places) {
            wrong("webhooks.places", "must be 1 to 10000")?;
        }
        if !(1..=1_000_000).contains(&self.account_places) {
            wrong("webhooks.account_places", "must be 1 to 1000000")?;
        }
        if !(1..=10_000).contains(&self.replays_max) {
            wrong("webhooks.replays_max", "must be 1 to 10000")?;
        }
        if !(0.0..=YEAR_SECONDS).contains(&self.retry_after_max_seconds) {
            wrong("webhooks.retry_after_max_seconds", "must be 0 to 31536000")?;
        }
        for (key, days) in [
            ("webhooks.disable_after_days", self.disable_after_days),
            ("webhooks.keep_deliveries_days", self.keep_deliveries_days),
        ] {
            if !(days > 0.0 && days <= 36_500.0) {
                wrong(key, "must be more than 0 and at most 36500")?;
            }
        }
        Ok(())
    }
}

/// An address range, or a single address as one.
pub(super) fn network(text: &str) -> Option<IpNet> {
    let single = std::net::IpAddr::from_str(text).ok().map(IpNet::from);
    single.or_else(|| text.parse().ok())
}

fn is_operator_token(token: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    token
        .strip_prefix("op_")
        .is_some_and(|rest| (20..=200).contains(&rest.len()) && rest.bytes().all(plain))
}

/// A level, or a list of levels and `target=level`.
fn is_filter(text: &str) -> bool {
    let is_level = |word: &str| {
        let levels = ["error", "warn", "info", "debug", "trace", "off"];
        levels.iter().any(|level| word.eq_ignore_ascii_case(level))
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'-');
    text.split(',')
        .map(str::trim)
        .all(|directive| match directive.split_once('=') {
            Some((target, level)) => {
                !target.is_empty() && target.bytes().all(plain) && is_level(level)
            }
            None => is_level(directive),
        })
}

/// Whether a region can be named so; empty, none is.
fn is_region(name: &str) -> bool {
    name.len() <= REGION_CHARS_MAX
        && !name.starts_with('-')
        && !name.ends_with('-')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_header_value(text: &str) -> bool {
    text.bytes().all(|b| (b' '..=b'~').contains(&b))
}

/// Whether browsers take it: directives, of which `max-age` is one, none twice (RFC 6797, section 6.1).
fn is_transport_security(text: &str) -> bool {
    let directives: Vec<(String, Option<&str>)> = text
        .split(';')
        .map(str::trim)
        .filter(|directive| !directive.is_empty())
        .map(|directive| match directive.split_once('=') {
            Some((name, value)) => (
                name.trim_end().to_ascii_lowercase(),
                Some(value.trim_start()),
            ),
            None => (directive.to_ascii_lowercase(), None),
        })
        .collect();
    let names: HashSet<&str> = directives.iter().map(|(name, _)| name.as_str()).collect();
    let age = directives.iter().find(|(name, _)| name == "max-age");
    let is_age = age.and_then(|(_, value)| *value).is_some_and(|value| {
        let value = value
            .strip_prefix('"')
            .and_then(|value| value.strip_suffix('"'))
            .unwrap_or(value);
        value.bytes().all(|b| b.is_ascii_digit()) && value.parse::<u32>().is_ok()
    });
    let is_token = |name: &&str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    is_age && names.len() == directives.len() && names.iter().all(is_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transport_security_has_its_age_once() {
        for right in [
            "max-age=0",
            "max-age=31536000; includeSubDomains; preload",
            "includeSubDomains; MAX-AGE=\"1\"",
        ] {
            assert!(is_transport_security(right), "{right}");
        }
        for wrong in [
            "bogus",
            "includeSubDomains",
            "max-age",
            "max-age=",
            "max-age=-1",
            "max-age=1; max-age=2",
            "max-age=1, preload",
            "max-age=1; a b",
        ] {
            assert!(!is_transport_security(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_filter_is_made_of_levels() {
        for right in [
            "info",
            "WARN",
            "off",
            "info,colloquy_actors=debug",
            "colloquy::http=trace, warn",
        ] {
            assert!(is_filter(right), "{right}");
        }
        for wrong in [
            "",
            "inf",
            "bogus",
            "info,",
            "colloquy",
            "colloquy=",
            "=info",
            "a=b=info",
            "info;debug",
        ] {
            assert!(!is_filter(wrong), "{wrong}");
        }
    }
}
