//! What the settings say of answers and may say anew while the server runs.

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
    /// The OpenAPI document, written once for all who ask.
    pub(crate) openapi: Bytes,
    /// The OpenAPI document as a page for people.
    pub(crate) docs: Bytes,
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
        let mut document = openapi::document(operations, config, public_url);
        deprecations.mark(operations, &mut document);
        Ok(LiveSettings {
            security_headers: SecurityHeaders::new(config),
            cors: Cors::new(&config.cors),
            metrics_public: config.metrics.public,
            requests_logged: config.log.requests,
            openapi: Bytes::from(serde_json::to_vec(&document).unwrap_or_default()),
            docs: Bytes::from(docs::page(&document)),
            deprecations,
        })
    }
}
