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

/// The operations of a request as they came, each with a key of its own. The first that is carried out
/// has the caller's key itself, so that another request with it meets that operation.
pub(super) struct Parts<'c> {
    call: &'c ApiCall,
    operations: &'c [Box<RawValue>],
    /// The place of the operation that has the caller's key; none where those that had it were refused.
    first: Option<usize>,
}

impl<'c> Parts<'c> {
    /// Reserves the key of each operation. Either none is refused here, or nothing stays reserved. The
    /// caller's key comes first: of two requests at once one has it, and then finds the others free.
    pub(super) async fn reserve(
        call: &'c ApiCall,
        operations: &'c [Box<RawValue>],
    ) -> Result<(Self, Vec<PartState>), Problem> {
        let mut parts = Parts {
            call,
            operations,
            first: None,
        };
        // Of an earlier request any of them may have been the first.
        let mut candidates = 0..operations.len();
        let first = loop {
            let place = candidates.next().ok_or_else(reused)?;
            parts.first = Some(place);
            match parts.look(place).await? {
                Some(Known::Reused) => {}
                known => break state(known)?,
            }
        };
        let mut first = Some(first);
        let mut places = Vec::with_capacity(operations.len());
        for place in 0..operations.len() {
            places.push(match first.take_if(|_| parts.first == Some(place)) {
                Some(first) => first,
                None => state(parts.look(place).await?)?,
            });
        }
        Ok((parts, places))
    }

    /// Reserves the key of the operation at this place once more: what was reserved for it has ended with
    /// a commit that met another node's.
    pub(super) async fn reserve_anew(&self, place: usize) -> Result<PartState, Problem> {
        state(self.look(place).await?)
    }

    /// The operation at this place was refused: where it had the caller's key, the next one gets it.
    pub(super) fn refused(&mut self, place: usize) {
        if self.first == Some(place) {
            self.first = None;
        }
    }

    /// The same operation, with the caller's key where nothing has it any more.
    pub(super) async fn next(
        &mut self,
        place: usize,
        pending: PartState,
    ) -> Result<PartState, Problem> {
        if self.first.is_some() || matches!(pending, PartState::Answered(_)) {
            return Ok(pending);
        }
        self.first = Some(place);
        match self.look(place).await? {
            Some(Known::Fresh(reservation)) => Ok(PartState::Pending(Some(reservation))),
            Some(Known::Replay(answer)) => Ok(PartState::Answered(answer)),
            // Another request came in between.
            None | Some(Known::Running | Known::Reused) => {
                self.first = None;
                Ok(pending)
            }
        }
    }

    /// The key of the operation at this place, where the request has one.
    pub(super) fn key(&self, place: usize) -> Option<String> {
        let key = self.call.idempotency_key.as_ref()?;
        // A caller's key has printable characters only, so it is never that of a place.
        Some(match self.first == Some(place) {
            true => key.clone(),
            false => format!("{key}\0{place}"),
        })
    }

    /// What is known of the key of the operation at this place; nothing where the request has none.
    async fn look(&self, place: usize) -> Result<Option<Known>, Problem> {
        let Some((key, request)) = self.key(place).zip(self.call.fingerprint) else {
            return Ok(None);
        };
        let operation = self.operations.get(place);
        let operation = operation.map_or("", |operation| operation.get());
        let of_place = match place {
            0 => operation.to_owned(),
            _ if self.first == Some(place) => format!("{place}\0{operation}"),
            _ => operation.to_owned(),
        };
        let request = request.of_part(of_place.as_bytes(), self.operations.len());
        let keys = &self.call.app.system.idempotency;
        Ok(Some(
            keys.look(self.call.caller.tenant, &key, request).await?,
        ))
    }
}

/// What is to be done with an operation.
fn state(known: Option<Known>) -> Result<PartState, Problem> {
    match known {
        None => Ok(PartState::Pending(None)),
        Some(Known::Fresh(reservation)) => Ok(PartState::Pending(Some(reservation))),
        Some(Known::Replay(answer)) => Ok(PartState::Answered(answer)),
        Some(Known::Running) => Err(Problem::key_in_use()),
        Some(Known::Reused) => Err(reused()),
    }
}

fn reused() -> Problem {
    Problem::new(
        Kind::IdempotencyKeyReused,
        "the key came with another request before",
    )
}
