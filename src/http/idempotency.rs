//! A request under an `Idempotency-Key`: decided anew, still running, or answered before.

use colloquy_actors::idempotency::Known;
use colloquy_model::answer::Answer;
use colloquy_model::caller::Scope;
use colloquy_model::idempotency::{Fingerprint, Reservation};

use serde_json::value::RawValue;

use super::api_call::ApiCall;
use super::app_state::AppState;
use super::output::Output;
use super::problem::{Kind, Problem};

/// Reserves the call's key for this request; gives the first answer where there is one.
pub(super) async fn reserve(call: &mut ApiCall) -> Result<Option<Output>, Problem> {
    let Some((key, request)) = call.idempotency_key.as_ref().zip(call.fingerprint) else {
        return Ok(None);
    };
    match look(&call.app, call.caller.scope, key, request).await? {
        Ok(reservation) => {
            call.reservation = Some(reservation);
            Ok(None)
        }
        Err(answer) => Ok(Some(Output::Answer(answer))),
    }
}

/// Reserves a key for a request, or gives the first answer.
pub(super) async fn look(
    app: &AppState,
    scope: Scope,
    key: &str,
    request: Fingerprint,
) -> Result<Result<Reservation, Answer>, Problem> {
    match app.system.idempotency.look(scope, key, request).await? {
        Known::Fresh(reservation) => Ok(Ok(reservation)),
        Known::Replay(answer) => Ok(Err(answer)),
        Known::Running => Err(running()),
        Known::Reused => Err(reused()),
    }
}

/// Whether one operation of many is to be carried out or was answered before.
pub(super) enum PartState {
    /// It is to be carried out; with a key, its own key is reserved.
    Pending(Option<Reservation>),
    /// It was carried out by an earlier request.
    Answered(Answer),
}

/// Reserves the call's key for each of its operations, as they came. The first has the key itself,
/// so that another request with the same key meets it. Either none is refused here, or nothing
/// stays reserved.
pub(super) async fn reserve_parts(
    call: &ApiCall,
    operations: &[Box<RawValue>],
) -> Result<Vec<PartState>, Problem> {
    let Some((key, request)) = call.idempotency_key.as_ref().zip(call.fingerprint) else {
        return Ok(operations
            .iter()
            .map(|_| PartState::Pending(None))
            .collect());
    };
    let mut places = Vec::with_capacity(operations.len());
    let mut waits = false;
    for (place, operation) in operations.iter().enumerate() {
        let request = request.of_part(operation.get().as_bytes(), operations.len());
        // A caller's key has printable characters only, so it is never that of a place.
        let key = if place == 0 {
            key.clone()
        } else {
            format!("{key}\0{place}")
        };
        match call
            .app
            .system
            .idempotency
            .look(call.caller.scope, &key, request)
            .await?
        {
            Known::Fresh(reservation) => places.push(PartState::Pending(Some(reservation))),
            Known::Replay(answer) => places.push(PartState::Answered(answer)),
            Known::Running => waits = true,
            Known::Reused => return Err(reused()),
        }
    }
    if waits { Err(running()) } else { Ok(places) }
}

fn running() -> Problem {
    Problem::new(Kind::IdempotencyInProgress, "the first request still runs")
}

fn reused() -> Problem {
    Problem::new(
        Kind::IdempotencyKeyReused,
        "the key came with another request before",
    )
}
