//! Settings: one struct per section. Knows no defaults: these stand in config.toml, which is
//! compiled in.

mod acme;
mod addresses;
mod checks;
mod convert;
mod overlay;
mod secrets;
mod sections;
mod show;
mod source;

pub(crate) use convert::{INDEX_ENDING, MESSAGE_INDEX_ENDING};
pub(crate) use secrets::is_path;
pub use sections::{
    Acme, Admin, Audit, Backup, Config, Cors, Deprecation, Documents, Domains, Encryption, Events,
    Issuer, Limits, Log, Metrics, OAuth, Objects, PlanSection, Plans, PurgeFormat, Realtime,
    Search, SecurityHeaders, Server, SharedCaches, Store, StoreKind, Supervision, Tls, Traces,
    Webhooks,
};
pub use source::{Loaded, Source};

/// The file with every setting and its default.
pub const DEFAULTS: &str = include_str!("../../config.toml");

/// A setting that can't be used: which one, what it was, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file of settings can't be read.
    #[error("{file}: {reason}")]
    File {
        /// The configuration file's path.
        file: String,
        /// The reason, in the words of whatever could not read it.
        reason: String,
    },
    /// A key was set that is no setting.
    #[error("{origin}: unknown key `{key}` = {value}{hint}")]
    Unknown {
        /// The file, or the environment variable, that sets it.
        origin: String,
        /// The key as it stands in the file or in the environment.
        key: String,
        /// The value that the key was set to.
        value: String,
        /// The known key that is most like it.
        hint: String,
    },
    /// A setting has a value that can't be used.
    #[error("{origin}: `{key}` = {value}: {right}")]
    Bad {
        /// The file, or the environment variable, that sets it.
        origin: String,
        /// The key of the setting.
        key: String,
        /// The value that the key was set to.
        value: String,
        /// What values can be used.
        right: String,
    },
}

#[cfg(test)]
impl Config {
    /// What holds where nothing is set.
    #[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    pub(crate) fn of_defaults() -> Self {
        Source::new(None, Vec::new()).read().unwrap().config
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::time::Duration;

    use super::*;

    fn with(text: &str, environment: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, text).unwrap();
        let pairs = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let source = Source::new(Some(path), pairs.collect());
        source.read().map(|loaded| loaded.config)
    }

    #[test]
    fn without_a_file_the_defaults_hold() {
        let config = Config::of_defaults();
        assert_eq!(config.server.bind, "127.0.0.1:8080");
        assert_eq!(config.plans.basic.burst_per_minute, 150);
        assert_eq!(config.limits.max_body_bytes, 1 << 20);
    }

    #[test]
    fn the_environment_goes_over_the_file_and_the_file_over_the_defaults() {
        let config = with(
            "[server]\nbind = \"127.0.0.1:1\"\ndrain_seconds = 0.5\n[supervision.key]\nidle_seconds = 7",
            &[
                ("COLLOQUY__SERVER__BIND", "[::1]:0"),
                ("COLLOQUY__LIMITS__AUTH_FAILURES_PER_MINUTE", "7"),
                ("PATH", "x"),
            ],
        )
        .unwrap();
        assert_eq!(config.server.bind, "[::1]:0");
        assert!((config.server.drain_seconds - 0.5).abs() < f64::EPSILON);
        assert_eq!(config.limits.auth_failures_per_minute, 7);
        let idle_seconds = |kind| {
            config
                .policies()
                .get(kind)
                .map(|policy| policy.idle.as_secs())
        };
        assert_eq!(
            (idle_seconds("key"), idle_seconds("user")),
            (Some(7), Some(300))
        );
    }

    #[test]
    fn a_typing_error_is_named_with_what_would_be_right() {
        let error = |text| with(text, &[]).unwrap_err().to_string();
        let unknown = error("[server]\nbinds = \"127.0.0.1:1\"");
        assert!(
            unknown.ends_with(
                "unknown key `server.binds` = \"127.0.0.1:1\"; did you mean `server.bind`?"
            ),
            "{unknown}"
        );
        let kind = error("[server]\ndrain_seconds = \"ten\"");
        assert!(
            kind.ends_with("`server.drain_seconds` = \"ten\": must be a number, such as 10"),
            "{kind}"
        );
        let bound = error("[limits]\nmax_body_bytes = 0");
        assert!(
            bound.ends_with("`limits.max_body_bytes` = 0: must be at least 1"),
            "{bound}"
        );
        let token = error("[admin]\ntoken = \"op_short\"");
        assert!(
            token.contains("`admin.token`") && token.contains("op_ and 20 to 200"),
            "{token}"
        );
        assert!(
            !token.contains("op_short"),
            "a secret is not printed: {token}"
        );
        assert!(error("server = 1").contains("`server` = 1: must be a table"));
        let large = error("[limits]\nauth_failures_per_minute = 5000000000");
        assert!(
            large.ends_with("= 5000000000: must be a whole number, 0 to 4294967295"),
            "{large}"
        );
        let huge = error("[limits]\nmax_body_bytes = 99999999999999999999");
        assert!(
            huge.contains("max_body_bytes = 99999999999999999999")
                && huge.ends_with("must fit in 64 bits"),
            "{huge}"
        );
        let huge = with(
            "",
            &[("COLLOQUY__LIMITS__MAX_BODY_BYTES", "99999999999999999999")],
        )
        .unwrap_err()
        .to_string();
        assert!(
            huge.contains("`limits.max_body_bytes`")
                && huge.ends_with("a number that fits in 64 bits"),
            "{huge}"
        );
    }

    #[test]
    fn a_schedule_is_a_list_of_numbers() {
        let variable = "COLLOQUY__WEBHOOKS__RETRY_SCHEDULE_SECONDS";
        let config = with(
            "[webhooks]\ntimeout_seconds = 0.5\ndisable_after_days = 0.5",
            &[(variable, "[0.25, 3]")],
        );
        let webhooks = config.unwrap().settings("").webhooks;
        assert_eq!(
            webhooks.retry_schedule,
            [250, 3_000].map(Duration::from_millis)
        );
        assert_eq!(
            (
                webhooks.timeout.as_millis(),
                webhooks.disable_after.as_secs()
            ),
            (500, 43_200)
        );
        let error = |text: &str| {
            with(&format!("[webhooks]\n{text}"), &[])
                .unwrap_err()
                .to_string()
        };
        let words = error("retry_schedule_seconds = [\"5\"]");
        assert!(
            words.contains("must be a list of numbers, such as [5, 30"),
            "{words}"
        );
        for bad in [
            "retry_schedule_seconds = [-1]",
            "retry_schedule_seconds = 5",
            "retry_jitter = 1.5",
            "timeout_seconds = 0",
            "places = 0",
            "retry_after_max_seconds = -1",
            "disable_after_days = 0",
            "keep_deliveries_days = inf",
            "allow_private_targets = 1",
        ] {
            let key = bad.split(' ').next().unwrap();
            assert!(
                error(bad).contains(&format!("`webhooks.{key}`")),
                "{}",
                error(bad)
            );
        }
        assert!(with("[webhooks]\nretry_schedule_seconds = []", &[]).is_ok());
    }

    #[test]
    fn an_unknown_variable_stops_the_start_too() {
        let error = with("", &[("COLLOQUY__SERVER__BNID", "x")])
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "COLLOQUY__SERVER__BNID: unknown key `server.bnid` = \"x\"; did you mean `server.bind`?"
        );
    }

    #[test]
    fn every_key_has_its_explanation() {
        let mut before = "";
        for line in DEFAULTS.lines() {
            let key = line.contains(" = ") && !line.starts_with('#');
            assert!(!key || before.starts_with('#'), "{line}");
            before = line;
        }
    }
}
