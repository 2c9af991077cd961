//! A request that another process has handed over, from its being read to its answer.

use std::sync::Arc;

use super::relaying::{Relayed, RelayedAnswer};
use super::request_keys;
use crate::store::{RelayedRequest, Store};
use colloquy_model::idempotency::{Reservation, ReservedKeys};

/// A request of another process, whose key is reserved here, too.
pub(super) struct TakenRequest {
    /// Names it, for its answer.
    pub(super) id: String,
    pub(super) relayed: Relayed,
    pub(super) reservation: Option<Reservation>,
}

impl TakenRequest {
    /// Reads a request and reserves its key. Where that is refused, whoever asked is told.
    pub(super) async fn of(
        request: RelayedRequest,
        store: &dyn Store,
        keys: &Arc<dyn ReservedKeys>,
    ) -> Option<Self> {
        let RelayedRequest { id, body } = request;
        let relayed: Relayed = serde_json::from_slice(&body)
            // Whoever asked, a newer version it may be, is told that nobody answered.
            .inspect_err(|error| tracing::error!(%error, "another node's request can't be read"))
            .ok()?;
        let reservation = match relayed.reserved() {
            None => None,
            Some(key) => match request_keys::reserve(store, Arc::clone(keys), key).await {
                Ok(reservation) => Some(reservation),
                Err(refusal) => {
                    answer(store, id, &RelayedAnswer::of(Err(refusal))).await;
                    return None;
                }
            },
        };
        Some(TakenRequest {
            id,
            relayed,
            reservation,
        })
    }
}

/// Tells whoever asked; it may have left.
pub(super) async fn answer(store: &dyn Store, id: String, answer: &RelayedAnswer) {
    // A shape of ours: it can't fail.
    let answer = serde_json::to_vec(answer).unwrap_or_default();
    store.answer_relayed(id, answer).await;
}
