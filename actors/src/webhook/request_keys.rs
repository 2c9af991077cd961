//! Keys of requests about deliveries, where several processes share the store. Each of them knows
//! which of its own requests run, and the one that delivers reserves the keys of the others', too: of
//! two requests with one key at two processes it sees both. What is answered stands in the store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::messages::DeliveryError;
use crate::idempotency::{self, answer_under};
use crate::store::Store;
use colloquy_model::idempotency::{Fingerprint, KeyHash, Reservation, ReservedKeys};
use colloquy_runtime::LoadError;

/// A key that the node which is asked has reserved, and for which request.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct RelayedKey {
    pub(super) key: KeyHash,
    pub(super) request: Fingerprint,
}

/// The key of a request of this process, unless another one has answered it: memory does not know
/// that.
///
/// # Errors
/// The key is answered, or the store is away.
pub(super) async fn still_reserved(
    store: &dyn Store,
    reservation: Option<Reservation>,
) -> Result<Option<Reservation>, DeliveryError> {
    let Some(reservation) = reservation else {
        return Ok(None);
    };
    match idempotency::still_reserved(store, reservation).await {
        Ok(Some(reservation)) => Ok(Some(reservation)),
        Ok(None) => Err(DeliveryError::Overtaken),
        Err(error) => Err(LoadError::from(error).into()),
    }
}

/// Reserves the key of a request that another process has handed over.
///
/// # Errors
/// The key is in use here or answered, or the store is away.
pub(super) async fn reserve(
    store: &dyn Store,
    keys: Arc<dyn ReservedKeys>,
    asked: RelayedKey,
) -> Result<Reservation, DeliveryError> {
    let RelayedKey { key, request } = asked;
    // First, so that what is answered from now on meets it.
    let reservation = keys.reserve(key, request);
    match (reservation, answer_under(store, key).await) {
        (_, Err(error)) => Err(LoadError::from(error).into()),
        (Some(reservation), Ok(None)) => Ok(reservation),
        (Some(reservation), Ok(Some(position))) => {
            reservation.settle(position);
            Err(DeliveryError::Overtaken)
        }
        (None, Ok(Some(_))) => Err(DeliveryError::Overtaken),
        (None, Ok(None)) => Err(DeliveryError::KeyInUse),
    }
}

/// Notes where the answer stands that another process has given under a key. Where the store is away
/// it is looked for when the key comes again.
pub(super) async fn settle(store: &dyn Store, reservation: Reservation) {
    if let Ok(Some(position)) = answer_under(store, reservation.hash()).await {
        reservation.settle(position);
    }
}
