//! What is recorded of a request that was refused: who wanted what, and why that was refused; never
//! the query, which may hold a secret.

use std::net::IpAddr;
use std::sync::Arc;

use colloquy_actors::audit::Refusal;
use colloquy_model::caller::{Actor, Caller, CredentialId, Tenant};
use colloquy_model::event_kind::EventKind;
use serde_json::{Map, Value};

use super::app_state::AppState;
use super::operation::Operation;
use super::problem::{Kind, Problem};

/// Somebody of whom nothing is known but an address.
pub(crate) fn stranger(address: IpAddr, request_id: &Arc<str>) -> Caller {
    Caller {
        tenant: Tenant::OPERATORS,
        actor: Actor {
            credential: CredentialId::Visitor,
            user: None,
            address: Some(address),
            request_id: Arc::clone(request_id),
        },
    }
}

/// Records that an operation was refused for who asked, if it was.
pub(super) fn note_operation(
    app: &AppState,
    operation: &Operation,
    caller: &Caller,
    problem: &Problem,
) {
    note(
        app,
        (operation.verb.word(), operation.path),
        caller,
        problem,
    );
}

/// The same of something at this path, which has no identifier in it.
pub(crate) fn note(
    app: &AppState,
    (method, path): (&'static str, &'static str),
    caller: &Caller,
    problem: &Problem,
) {
    let event = if problem.kind == Kind::Unauthorized {
        EventKind::AuthenticationRefused
    } else if problem.kind == Kind::Forbidden {
        EventKind::PermissionRefused
    } else {
        return;
    };
    let told = [
        ("method", method.to_owned()),
        ("path", path.to_owned()),
        ("reason", problem.kind.code().to_owned()),
        ("why", problem.reason.to_string()),
    ];
    let told = told
        .into_iter()
        .map(|(name, text)| (name.to_owned(), Value::from(text)));
    app.system.audit.refused(Refusal {
        event,
        caller: caller.clone(),
        details: told.collect::<Map<_, _>>(),
    });
}
