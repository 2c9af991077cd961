//! A request under an `Idempotency-Key`: decided anew, still running, or answered before.

use colloquy_actors::idempotency::Known;

use super::call::Call;
use super::problem::{Kind, Problem};
use super::reply::Output;

/// Reserves the call's key for this request; gives the first answer where there is one.
pub(super) async fn reserve(call: &mut Call, request: [u8; 16]) -> Result<Option<Output>, Problem> {
    let Some(key) = &call.idempotency_key else { return Ok(None) };
    match call.edge.system.idempotency.look(call.caller.scope, key, request).await? {
        Known::Fresh(reservation) => {
            call.reservation = Some(reservation);
            Ok(None)
        }
        Known::Replay(answer) => Ok(Some(Output::Answer(answer))),
        Known::Running => Err(Problem::new(Kind::IdempotencyInProgress, "the first request still runs")),
        Known::Reused => Err(Problem::new(Kind::IdempotencyKeyReused, "the key came with another request before")),
    }
}
