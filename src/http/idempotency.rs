//! A request under an `Idempotency-Key`: decided anew, still running, or answered before.

use actix_web::http::Method;
use colloquy_actors::idempotency::Known;
use colloquy_model::answer::Answer;
use colloquy_model::caller::Tenant;
use colloquy_model::id::{ConversationId, UserId};
use colloquy_model::idempotency::{Fingerprint, RequestHead, Reservation};
use serde_json::value::RawValue;

use super::api_call::ApiCall;
use super::app_state::AppState;
use super::output::Output;
use super::problem::{Kind, Problem};

/// What a request is, beside its body: the same under the same key is the same request.
#[derive(Debug)]
pub(super) struct RequestIdentity {
    method: Method,
    path: String,
    query: String,
    user: String,
}

impl RequestIdentity {
    /// What tells the request of this call from others under the same key.
    pub(super) fn of_call(call: &ApiCall) -> Self {
        RequestIdentity {
            method: call.method.clone(),
            path: call.uri.path().to_owned(),
            query: call.query().to_owned(),
            user: shown(call.caller.actor.user),
        }
    }

    /// That of the POST which sends a message to this conversation, for one that came in another
    /// way: each meets what the other did.
    pub(super) fn of_message(conversation: ConversationId, user: Option<UserId>) -> Self {
        RequestIdentity {
            method: Method::POST,
            path: format!("/v1/conversations/{conversation}/messages"),
            query: String::new(),
            user: shown(user),
        }
    }

    /// The hash under which its answer is kept, with its body.
    pub(super) fn fingerprint(&self, body: &[u8]) -> Fingerprint {
        let head = RequestHead {
            method: self.method.as_str(),
            path: &self.path,
            query: &self.query,
            user: &self.user,
        };
        Fingerprint::of(head, body)
    }
}

fn shown(user: Option<UserId>) -> String {
    user.map(|user| user.to_string()).unwrap_or_default()
}

/// Reserves the call's key for this request; gives the first answer where there is one.
pub(super) async fn reserve(call: &mut ApiCall) -> Result<Option<Output>, Problem> {
    let Some((key, request)) = call.idempotency_key.as_ref().zip(call.fingerprint) else {
        return Ok(None);
    };
    match look(&call.app, call.caller.tenant, key, request).await? {
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
    tenant: Tenant,
    key: &str,
    request: Fingerprint,
) -> Result<Result<Reservation, Answer>, Problem> {
    match app.system.idempotency.look(tenant, key, request).await? {
        Known::Fresh(reservation) => Ok(Ok(reservation)),
        Known::Replay(answer) => Ok(Err(answer)),
        Known::Running => Err(Problem::key_in_use()),
        Known::Reused => Err(reused()),
    }
}

/// A problem as it is told under a key. A refusal says that nothing was done: where another node has
/// answered the key before, the request is to be decided anew, and gets that answer.
pub(super) async fn told_under(
    app: &AppState,
    tenant: Tenant,
    key: Option<&str>,
    problem: Problem,
) -> Problem {
    let Some(key) = key.filter(|_| problem.is_refusal()) else {
        return problem;
    };
    match app.system.idempotency.learn(tenant, key).await {
        Ok(true) => Problem::overtaken(),
        Ok(false) => problem,
        Err(failure) => failure.into(),
    }
}

/// Makes sure that no other node has answered the call's key, for an operation whose effect comes
/// before its commit.
pub(super) async fn check_still_reserved(call: &mut ApiCall) -> Result<(), Problem> {
    let Some(reservation) = call.reservation.take() else {
        return Ok(());
    };
    let keys = &call.app.system.idempotency;
    call.reservation = keys.still_reserved(reservation).await?;
    match call.reservation {
        Some(_) => Ok(()),
        None => Err(Problem::overtaken()),
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
    let mut places = Vec::with_capacity(operations.len());
    let mut waits = false;
    for place in 0..operations.len() {
        match look_at_part(call, operations, place).await? {
            Some(state) => places.push(state),
            None => waits = true,
        }
    }
    if waits {
        Err(Problem::key_in_use())
    } else {
        Ok(places)
    }
}

/// Reserves the call's key once more for the operation at this place: what was reserved for it has
/// ended with a commit that met another node's.
pub(super) async fn reserve_part_anew(
    call: &ApiCall,
    operations: &[Box<RawValue>],
    place: usize,
) -> Result<PartState, Problem> {
    let state = look_at_part(call, operations, place).await?;
    state.ok_or_else(Problem::key_in_use)
}

/// Reserves the call's key for the operation at this place; none where another request has it.
async fn look_at_part(
    call: &ApiCall,
    operations: &[Box<RawValue>],
    place: usize,
) -> Result<Option<PartState>, Problem> {
    let Some((key, request)) = call.idempotency_key.as_ref().zip(call.fingerprint) else {
        return Ok(Some(PartState::Pending(None)));
    };
    let operation = operations
        .get(place)
        .map_or("", |operation| operation.get());
    let request = request.of_part(operation.as_bytes(), operations.len());
    let key = key_of_part(key, place);
    let keys = &call.app.system.idempotency;
    match keys.look(call.caller.tenant, &key, request).await? {
        Known::Fresh(reservation) => Ok(Some(PartState::Pending(Some(reservation)))),
        Known::Replay(answer) => Ok(Some(PartState::Answered(answer))),
        Known::Running => Ok(None),
        Known::Reused => Err(reused()),
    }
}

/// The key of the operation at this place.
pub(super) fn key_of_part(key: &str, place: usize) -> String {
    // A caller's key has printable characters only, so it is never that of a place.
    if place == 0 {
        key.to_owned()
    } else {
        format!("{key}\0{place}")
    }
}

fn reused() -> Problem {
    Problem::new(
        Kind::IdempotencyKeyReused,
        "the key came with another request before",
    )
}
