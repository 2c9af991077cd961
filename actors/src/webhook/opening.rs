//! How deliveries begin: the dispatcher's parts, made of what the store holds.

use std::sync::Arc;

use super::attempt::WebhookSettings;
use super::delivery_queue::DeliveryQueue;
use super::endpoint_directory::EndpointDirectory;
use super::endpoint_queue::{Sending, StoredQueue};
use super::matcher::Matcher;
use super::replays::Replays;
use super::restore::restore_endpoint;
use super::write_schedule::WriteSchedule;
use crate::store::{DeliveryTerm, ReadError, Store, WebhookState};
use colloquy_model::position::Position;

/// What the store holds when a process begins.
pub(super) struct Opened {
    /// The position of the last commit.
    last_position: Position,
    state: WebhookState,
    /// The term in which this process delivers by this state.
    term: DeliveryTerm,
}

/// The dispatcher's parts as they begin.
pub(super) struct OpenedParts {
    pub(super) endpoints: EndpointDirectory,
    /// Goes on behind what is matched.
    pub(super) matcher: Matcher,
    pub(super) queue: DeliveryQueue,
    pub(super) replays: Replays,
    pub(super) writes: WriteSchedule,
    pub(super) term: DeliveryTerm,
}

/// Reads what the store holds, behind all that an earlier process has handed in: what is read
/// stands.
///
/// # Errors
/// The store can't be read now.
pub(super) async fn read_state(store: &dyn Store) -> Result<Opened, ReadError> {
    let last_position = store.begin_deliveries().await?;
    // Another process that delivers from now on makes it another one.
    let term = store.delivery_term().ok_or(ReadError::Away)?;
    let state = store.webhook_state().await?;
    Ok(Opened {
        last_position,
        state,
        term,
    })
}

impl Opened {
    /// Makes the parts. An endpoint whose record can't be read gets nothing.
    pub(super) fn into_parts(self, settings: &WebhookSettings) -> OpenedParts {
        let Opened {
            last_position,
            state,
            term,
        } = self;
        let mut endpoints = EndpointDirectory::default();
        let mut matcher = matcher_at(last_position, &state);
        let mut queue = DeliveryQueue::new(state.last_delivery, settings.in_flight_limits());
        for stored in &state.endpoints {
            let Some(endpoint) = endpoints.insert_stored(stored) else {
                continue;
            };
            let number = endpoint.id.number();
            queue.open(StoredQueue {
                account: endpoint.tenant.account_number(),
                endpoint: number,
                waiting: stored.pending,
                failing_since: stored.failing_since,
            });
            queue.set_sending(number, Sending::of(&endpoint));
            let version = stored.as_matched.as_ref();
            if let Some(Ok(version)) =
                version.map(|row| restore_endpoint(row, endpoint.id, endpoint.tenant))
            {
                matcher.begin_with(Arc::new(version));
            }
        }
        OpenedParts {
            endpoints,
            matcher,
            queue,
            replays: Replays::new(state.last_lane, state.replays),
            writes: WriteSchedule::new(state.matched),
            term,
        }
    }
}

/// A matcher that goes on where the store says. What happened before there was any endpoint
/// concerns nobody.
fn matcher_at(last_position: Position, state: &WebhookState) -> Matcher {
    let mut matcher = Matcher::new(state.matched);
    let endpoints = &state.endpoints;
    if endpoints.iter().all(|stored| stored.as_matched.is_none()) {
        let made = endpoints.iter().map(|stored| stored.made.previous()).min();
        matcher.reached(made.unwrap_or(last_position).min(last_position));
    }
    matcher
}
