//! Keys, as operators see them: each belongs to an account, whose scope its requests carry.

use colloquy_actors::accounts::{ChangeKey, CreateKey, Filter, KeyRequest, RotateKey};
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::id::{AccountKind, KeyId, KeyKind};
use colloquy_model::page::Order;

use super::super::api_call::ApiCall;
use super::super::body::{Json, OptionalJson};
use super::super::output::{LinkStyle, Listing, Output};
use super::super::problem::Problem;
use super::super::query::NoQuery;
use super::users::PlainQuery;

pub(super) async fn create(call: ApiCall, Json(new): Json<CreateKey>) -> Result<Output, Problem> {
    let account = call
        .app
        .system
        .identity
        .account(call.id::<AccountKind>(0)?)
        .ok_or_else(Problem::not_found)?;
    let id = KeyId::new(call.now.0);
    ask(
        call,
        Tenant::account(account.number),
        id,
        KeyRequest::Create(new, account.view.account_id),
    )
    .await
}

pub(super) async fn list(call: ApiCall, query: PlainQuery) -> Result<Output, Problem> {
    let paging = query.part().paging::<KeyKind>(Order::Desc)?;
    let account = call
        .app
        .system
        .identity
        .account(call.id::<AccountKind>(0)?)
        .ok_or_else(Problem::not_found)?;
    let tenant = Tenant::account(account.number);
    let page = call
        .app
        .system
        .keys
        .list(tenant, Filter::default(), paging)
        .await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

pub(super) async fn read(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    ask_named(call, KeyRequest::Read).await
}

pub(super) async fn change(
    call: ApiCall,
    OptionalJson(change): OptionalJson<ChangeKey>,
) -> Result<Output, Problem> {
    ask_named(call, KeyRequest::Change(change)).await
}

pub(super) async fn revoke(call: ApiCall) -> Result<Output, Problem> {
    ask_named(call, KeyRequest::Revoke).await
}

pub(super) async fn rotate(
    call: ApiCall,
    OptionalJson(rotate): OptionalJson<RotateKey>,
) -> Result<Output, Problem> {
    ask_named(call, KeyRequest::Rotate(rotate)).await
}

async fn ask_named(call: ApiCall, request: KeyRequest) -> Result<Output, Problem> {
    let id = call.id::<KeyKind>(0)?;
    let account = call
        .app
        .system
        .identity
        .account_of_key(id)
        .ok_or_else(Problem::not_found)?;
    ask(call, Tenant::account(account), id, request).await
}

async fn ask(
    call: ApiCall,
    tenant: Tenant,
    id: KeyId,
    request: KeyRequest,
) -> Result<Output, Problem> {
    let ApiCall {
        app,
        caller,
        if_match,
        reservation,
        ..
    } = call;
    let caller = Caller {
        tenant,
        by: caller.by,
    };
    Ok(app
        .system
        .keys
        .ask(id, caller, if_match, reservation, request)
        .await?
        .into())
}
