//! How endpoints fare, as operators see it: what memory knows of them, page by page, with what the
//! store counts.

use std::collections::HashMap;

use super::messages::{Health, HealthView};
use super::record::{DisabledReason, WebhookView};
use crate::store::{EndpointTotals, StoredRecord};
use colloquy_model::damage::Unreadable;
use colloquy_model::id::AccountId;
use colloquy_model::time::Timestamp;

/// Why the server disabled an endpoint, if it did.
///
/// # Errors
/// The record can't be read, which is logged.
pub(super) fn disabled_reason(record: &StoredRecord) -> Result<Option<DisabledReason>, Unreadable> {
    let view = serde_json::from_str::<WebhookView>(&record.body);
    Ok(view
        .map_err(|error| Unreadable::found(record.subject, error))?
        .disabled_reason)
}

/// What the views and the store know of one endpoint beside memory.
#[derive(Debug)]
pub(super) struct StoredHealth<'a> {
    pub(super) totals: EndpointTotals,
    pub(super) disabled_reason: Option<DisabledReason>,
    /// The accounts' identifiers by their numbers.
    pub(super) accounts: &'a HashMap<u32, AccountId>,
}

/// An endpoint as the interface shows it; none where its account is not known any more.
pub(super) fn health_view(health: Health, stored: &StoredHealth<'_>) -> Option<HealthView> {
    let StoredHealth {
        totals,
        disabled_reason,
        accounts,
    } = stored;
    let last_success = health.last_success.max(totals.last_success_at);
    let oldest_pending = totals
        .oldest_pending_at
        .map(|at| Timestamp::now().since(at));
    Some(HealthView {
        account_id: *accounts.get(&health.tenant.account_number())?,
        webhook_id: health.id,
        url: health.url,
        enabled: health.enabled,
        disabled_reason: *disabled_reason,
        pending: totals.pending,
        in_flight: health.in_flight,
        oldest_pending_seconds: oldest_pending.map(|age| age.as_secs().cast_signed()),
        failing_since: health.failing_since,
        delivered: totals.delivered,
        failed: totals.failed,
        last_success_at: last_success,
    })
}
