//! Keys, as operators see them; what they have in common with other records is in `records`.

use colloquy_actors::accounts::{CreateKey, IssueKey, Key, RevokeKey, RotateKey};
use colloquy_model::caller::Tenant;
use colloquy_model::id::AccountKind;

use super::super::api_call::ApiCall;
use super::super::body::{Json, OptionalJson};
use super::super::output::Output;
use super::super::problem::{Kind, Problem};
use super::records::{RecordResource, ask, make};

pub(super) async fn create(call: ApiCall, Json(new): Json<CreateKey>) -> Result<Output, Problem> {
    check_account(&call, Key::tenant(&call)?)?;
    let account = call.id::<AccountKind>(0)?;
    make::<Key, _>(call, IssueKey { new, account }).await
}

pub(super) async fn revoke(call: ApiCall) -> Result<Output, Problem> {
    ask::<Key, _>(call, RevokeKey).await
}

pub(super) async fn rotate(
    call: ApiCall,
    OptionalJson(rotate): OptionalJson<RotateKey>,
) -> Result<Output, Problem> {
    check_account(&call, Key::tenant_of(&call, call.id(0)?)?)?;
    ask::<Key, _>(call, rotate).await
}

/// Refuses secrets that would open nothing.
fn check_account(call: &ApiCall, tenant: Tenant) -> Result<(), Problem> {
    match call.app.system.identity.is_forgotten(tenant) {
        true => Err(Problem::new(Kind::Conflict, "the account was forgotten")),
        false => Ok(()),
    }
}
