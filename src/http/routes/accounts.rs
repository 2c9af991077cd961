//! Accounts, as operators see them.

use colloquy_actors::accounts::{AccountRequest, ChangeAccount, CreateAccount, Filter};
use colloquy_model::id::{AccountId, AccountKind};
use colloquy_model::page::Order;

use super::super::api_call::ApiCall;
use super::super::body::{Json, OptionalJson};
use super::super::output::{LinkStyle, Listing, Output};
use super::super::problem::Problem;
use super::super::query::NoQuery;
use super::users::PlainQuery;

pub(super) async fn create(
    call: ApiCall,
    Json(new): Json<CreateAccount>,
) -> Result<Output, Problem> {
    let id = AccountId::new(call.now.0);
    let number = call.app.system.next_account_number();
    ask(call, id, AccountRequest::Create(new, number)).await
}

pub(super) async fn list(call: ApiCall, query: PlainQuery) -> Result<Output, Problem> {
    let paging = query.part().paging::<AccountKind>(Order::Desc)?;
    let page = call
        .app
        .system
        .accounts
        .list(call.caller.tenant, Filter::default(), paging)
        .await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

pub(super) async fn read(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    ask_named(call, AccountRequest::Read).await
}

pub(super) async fn change(
    call: ApiCall,
    OptionalJson(change): OptionalJson<ChangeAccount>,
) -> Result<Output, Problem> {
    ask_named(call, AccountRequest::Change(change)).await
}

async fn ask_named(call: ApiCall, request: AccountRequest) -> Result<Output, Problem> {
    let id = call.id::<AccountKind>(0)?;
    ask(call, id, request).await
}

async fn ask(call: ApiCall, id: AccountId, request: AccountRequest) -> Result<Output, Problem> {
    let ApiCall {
        app,
        caller,
        if_match,
        reservation,
        ..
    } = call;
    Ok(app
        .system
        .accounts
        .ask(id, caller, if_match, reservation, request)
        .await?
        .into())
}
