//! What the settings say of answers and may say anew while the server runs.

use std::sync::OnceLock;

use bytes::Bytes;

use super::cors::Cors;
use super::deprecations::Deprecations;
use super::headers::SecurityHeaders;
use super::operation::Operation;
use super::{docs, openapi};
use crate::config::{Config, ConfigError};

/// Settings that hold for every request that begins behind their change.
pub(crate) struct LiveSettings {
    pub(crate) security_headers: SecurityHeaders,
    pub(crate) cors: Cors,
    pub(crate) metrics_public: bool,
    /// Whether each answer is logged.
    pub(crate) requests_logged: bool,
    pub(crate) deprecations: Deprecations,
    described: OnceLock<Description>,
    /// What the description tells of them.
    config: Config,
    public_url: String,
}

/// What the interface says of itself.
#[derive(Clone)]
pub(crate) struct Description {
    /// The OpenAPI document.
    pub(crate) openapi: Bytes,
    /// The OpenAPI document as a page for people.
    pub(crate) page: Bytes,
}

impl LiveSettings {
    /// Prepares all that does not change between requests.
    ///
    /// # Errors
    /// The settings deprecate what there is not.
    pub(crate) fn new(
        operations: &[Operation],
        config: &Config,
        public_url: &str,
    ) -> Result<Self, ConfigError> {
        let deprecations = Deprecations::new(operations, config)?;
        Ok(LiveSettings {
            security_headers: SecurityHeaders::new(config),
            cors: Cors::new(&config.cors),
            metrics_public: config.metrics.public,
            requests_logged: config.log.requests,
            deprecations,
            described: OnceLock::new(),
            config: config.clone(),
            public_url: public_url.to_owned(),
        })
    }

    /// What the interface says of itself, of which these are the operations. It is written when somebody
    /// asks for the first time: that takes as long as all else of a start.
    pub(crate) fn description(&self, operations: &[Operation]) -> &Description {
        self.described.get_or_init(|| {
            let mut document = openapi::document(operations, &self.config, &self.public_url);
            self.deprecations.mark(operations, &mut document);
            Description {
                openapi: Bytes::from(serde_json::to_vec(&document).unwrap_or_default()),
                page: Bytes::from(docs::page(&document)),
            }
        })
    }
}
