//! Keys, as operators see them; what they have in common with other records is in `records`.

use colloquy_actors::accounts::{CreateKey, IssueKey, Key, RevokeKey, RotateKey};
use colloquy_model::id::AccountKind;

use super::super::api_call::ApiCall;
use super::super::body::{Json, OptionalJson};
use super::super::output::Output;
use super::super::problem::Problem;
use super::records::{ask, make};

pub(super) async fn create(call: ApiCall, Json(new): Json<CreateKey>) -> Result<Output, Problem> {
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
    ask::<Key, _>(call, rotate).await
}
