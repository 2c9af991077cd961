//! An endpoint out of the store, as deliveries see it.

use super::endpoint::Endpoint;
use super::record::Webhook;
use crate::caller::Scope;
use crate::id::WebhookId;

/// An endpoint from its record, or from one of its rows: these hold everything but the secrets.
///
/// # Errors
/// It is no endpoint.
pub fn restore_endpoint(json: &[u8], id: WebhookId, scope: Scope) -> serde_json::Result<Endpoint> {
    serde_json::from_slice::<Webhook>(json).map(|webhook| webhook.endpoint(id, scope))
}
