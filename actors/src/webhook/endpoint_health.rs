//! How endpoints fare, as operators see it: what memory knows of them, page by page, with what the
//! store counts.

use std::collections::HashMap;

use super::messages::{AllHealth, Health, HealthView};
use super::record::{DisabledReason, WebhookView};
use crate::store::{EndpointTotals, StoredRecord};
use colloquy_model::damage::Unreadable;
use colloquy_model::id::{AccountId, WebhookId};
use colloquy_model::page::{Cursor, Order, Paging, Start};
use colloquy_model::time::Timestamp;

/// A part of all endpoints, and whether anything stands before and behind it.
#[derive(Debug)]
pub(super) struct HealthPage {
    pub(super) items: Vec<Health>,
    pub(super) before: bool,
    pub(super) after: bool,
}

impl HealthPage {
    /// The part that is asked for.
    pub(super) fn of(all: AllHealth, paging: Paging) -> Self {
        let mut all: Vec<Health> = all.into_values().collect();
        if paging.order == Order::Desc {
            all.reverse();
        }
        let limit = usize::try_from(paging.limit).unwrap_or(0);
        let (first, end) = match paging.start {
            Start::Offset(offset) => {
                let first = usize::try_from(offset).unwrap_or(usize::MAX);
                (first, first.saturating_add(limit).min(all.len()))
            }
            Start::After(cursor) => {
                let first =
                    all.partition_point(|health| !is_behind(health.id, cursor, paging.order));
                (first, first.saturating_add(limit).min(all.len()))
            }
            Start::Before(cursor) => {
                let end = all.partition_point(|health| is_before(health.id, cursor, paging.order));
                (end.saturating_sub(limit), end)
            }
        };
        HealthPage {
            before: first > 0 && !all.is_empty(),
            after: end < all.len(),
            items: all.drain(first.min(end)..end).collect(),
        }
    }
}

/// Whether an endpoint stands behind the cursor's, which may be gone.
fn is_behind(id: WebhookId, cursor: Cursor, order: Order) -> bool {
    let other = WebhookId::from_parts(cursor.number, cursor.tail);
    match order {
        Order::Asc => id > other,
        Order::Desc => id < other,
    }
}

/// Whether an endpoint stands before the cursor's, which may be gone.
fn is_before(id: WebhookId, cursor: Cursor, order: Order) -> bool {
    let other = WebhookId::from_parts(cursor.number, cursor.tail);
    match order {
        Order::Asc => id < other,
        Order::Desc => id > other,
    }
}

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
