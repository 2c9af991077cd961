//! Registering and changing clients. What they have in common with other records is in `records`.

use colloquy_actors::accounts::{ChangeClient, Client, CreateClient, RotateClientSecret};
use colloquy_model::id::ClientKind;
use colloquy_model::key::Permission;

use super::super::super::api_call::{ApiCall, Credential};
use super::super::super::body::{Json, OptionalJson};
use super::super::super::output::Output;
use super::super::super::problem::Problem;
use super::super::records;

/// Registers a client that may do no more than whoever registers it.
pub(super) async fn create(
    call: ApiCall,
    Json(new): Json<CreateClient>,
) -> Result<Output, Problem> {
    check_scopes(&call, &new.scopes)?;
    records::make::<Client, _>(call, new).await
}

/// Changes the client in the path. Its redirect URIs decide who gets its codes, so it may do no more
/// than whoever changes it, before and after.
pub(super) async fn change(
    call: ApiCall,
    OptionalJson(change): OptionalJson<ChangeClient>,
) -> Result<Output, Problem> {
    check_held(&call)?;
    check_scopes(&call, change.scopes.as_deref().unwrap_or_default())?;
    records::ask::<Client, _>(call, change).await
}

/// Gives the client in the path a new secret.
pub(super) async fn rotate_secret(
    call: ApiCall,
    OptionalJson(rotate): OptionalJson<RotateClientSecret>,
) -> Result<Output, Problem> {
    check_held(&call)?;
    records::ask::<Client, _>(call, rotate).await
}

/// Refuses whoever may not do all that the client in the path may.
fn check_held(call: &ApiCall) -> Result<(), Problem> {
    let id = call.id::<ClientKind>(0)?;
    let client = call.app.system.identity.client(id);
    let client = client.filter(|client| client.tenant == call.caller.tenant);
    // What is unknown, its record says.
    client.map_or(Ok(()), |client| check_scopes(call, &client.view.scopes))
}

/// Refuses a narrowed credential that would give away what it was not given itself.
fn check_scopes(call: &ApiCall, given: &[Permission]) -> Result<(), Problem> {
    let (Credential::Key(principal) | Credential::Ticket(principal, _)) = &call.credential else {
        return Ok(());
    };
    let Some(own) = &principal.key.view.scopes else {
        return Ok(());
    };
    let reads_and_writes = [
        Permission::ConversationsRead,
        Permission::ConversationsWrite,
    ];
    let has = |one: &Permission| {
        // Some of the conversations are among all of them.
        let among_all = *one == Permission::ConversationsAssigned
            && reads_and_writes.iter().all(|one| own.contains(one));
        own.contains(one) || among_all
    };
    match given.iter().all(has) {
        true => Ok(()),
        false => Err(Problem::forbidden(
            "a client may be allowed no scope that the key itself is not allowed",
        )),
    }
}
