//! A request under an `Idempotency-Key`: decided anew, still running, or answered before.

use colloquy_actors::answer::Answer;
use colloquy_actors::caller::Scope;
use colloquy_actors::idempotency::{Known, Reservation};

use super::call::Call;
use super::edge::Edge;
use super::problem::{Kind, Problem};
use super::reply::Output;

/// Reserves the call's key for this request; gives the first answer where there is one.
pub(super) async fn reserve(call: &mut Call, request: [u8; 16]) -> Result<Option<Output>, Problem> {
    let Some(key) = &call.idempotency_key else { return Ok(None) };
    match look(&call.edge, call.caller.scope, key, request).await? {
        Ok(reservation) => {
            call.reservation = Some(reservation);
            Ok(None)
        }
        Err(answer) => Ok(Some(Output::Answer(answer))),
    }
}

/// Reserves a key for a request, or gives the first answer.
pub(super) async fn look(
    edge: &Edge,
    scope: Scope,
    key: &str,
    request: [u8; 16],
) -> Result<Result<Reservation, Answer>, Problem> {
    match edge.system.idempotency.look(scope, key, request).await? {
        Known::Fresh(reservation) => Ok(Ok(reservation)),
        Known::Replay(answer) => Ok(Err(answer)),
        Known::Running => Err(Problem::new(Kind::IdempotencyInProgress, "the first request still runs")),
        Known::Reused => Err(Problem::new(Kind::IdempotencyKeyReused, "the key came with another request before")),
    }
}
