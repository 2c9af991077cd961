//! The chain of the audit trail, read of a running server.

use colloquy_actors::store::ChainPage;
use tokio::runtime::{Builder, Runtime};

use super::admin_client::{AdminClient, OperateError};
use crate::config::Config;

/// Reads the chain of the server that runs with these settings.
pub(crate) struct AuditClient {
    client: AdminClient,
    runtime: Runtime,
}

impl AuditClient {
    pub(crate) fn new(config: &Config) -> Result<Self, OperateError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(AuditClient {
            runtime: runtime.map_err(OperateError::Runtime)?,
            client: AdminClient::new(config)?,
        })
    }

    /// Records behind this position, at most so many.
    pub(crate) fn chain(&self, position: i64, most: u32) -> Result<ChainPage, OperateError> {
        let query = [("after", position.to_string()), ("limit", most.to_string())];
        let answer = self.client.get(&["audit", "chain"], &query);
        let answer = self.runtime.block_on(answer)?;
        serde_json::from_slice(&answer).map_err(|_| self.client.not_understood())
    }
}
