//! An endpoint out of the store, as deliveries see it.

use super::record::Webhook;
use colloquy_model::caller::Tenant;
use colloquy_model::endpoint::Endpoint;
use colloquy_model::id::WebhookId;

/// An endpoint from its record, or from one of its rows: these hold everything but the secrets.
///
/// # Errors
/// It is no endpoint.
pub fn restore_endpoint(
    json: &[u8],
    id: WebhookId,
    tenant: Tenant,
) -> serde_json::Result<Endpoint> {
    serde_json::from_slice::<Webhook>(json).map(|webhook| webhook.endpoint(id, tenant))
}
