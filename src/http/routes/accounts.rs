//! Accounts, as operators see them.

use colloquy_actors::accounts::{AccountRequest, ChangeAccount, CreateAccount, Filter};
use colloquy_model::id::{AccountId, AccountKind};
use colloquy_model::page::Order;

use super::super::body::{Json, Maybe};
use super::super::call::Call;
use super::super::problem::Problem;
use super::super::query::NoQuery;
use super::super::reply::{Listing, Output, Style};
use super::users::PlainQuery;

pub(super) async fn create(call: Call, Json(new): Json<CreateAccount>) -> Result<Output, Problem> {
    let id = AccountId::new(call.now_ms);
    let number = call.edge.system.next_account_number();
    ask(call, id, AccountRequest::Create(new, number)).await
}

pub(super) async fn list(call: Call, query: PlainQuery) -> Result<Output, Problem> {
    let paging = query.part().paging::<AccountKind>(Order::Desc)?;
    let page = call
        .edge
        .system
        .accounts
        .list(call.caller.scope, Filter::default(), paging)
        .await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: Style::Plain,
    }))
}

pub(super) async fn read(call: Call, _: NoQuery) -> Result<Output, Problem> {
    ask_named(call, AccountRequest::Read).await
}

pub(super) async fn change(
    call: Call,
    Maybe(change): Maybe<ChangeAccount>,
) -> Result<Output, Problem> {
    ask_named(call, AccountRequest::Change(change)).await
}

async fn ask_named(call: Call, request: AccountRequest) -> Result<Output, Problem> {
    let id = call.id::<AccountKind>(0)?;
    ask(call, id, request).await
}

async fn ask(call: Call, id: AccountId, request: AccountRequest) -> Result<Output, Problem> {
    let Call {
        edge,
        caller,
        if_match,
        reservation,
        ..
    } = call;
    Ok(edge
        .system
        .accounts
        .ask(id, caller, if_match, reservation, request)
        .await?
        .into())
}
