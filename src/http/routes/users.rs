//! Users: records of an account in both modes.

use colloquy_actors::accounts::{ChangeUser, CreateUser, Filter, UserRequest};
use colloquy_model::id::{UserId, UserKind};
use colloquy_model::page::Order;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::api_call::ApiCall;
use super::super::body::{Json, OptionalJson};
use super::super::output::{LinkStyle, Listing, Output};
use super::super::problem::Problem;
use super::super::query::{NoQuery, Part};

/// What a plain list may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainQuery {
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    pub(super) limit: Option<u32>,
    /// How many to leave out first. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    pub(super) offset: Option<u64>,
    /// The list's direction. Default: `desc`.
    #[param(inline)]
    pub(super) order: Option<Order>,
}

impl PlainQuery {
    /// The part of the list that the query asks for.
    pub(super) fn part(&self) -> Part<'static> {
        Part {
            limit: self.limit,
            offset: self.offset,
            order: self.order,
            ..Part::default()
        }
    }
}

pub(super) async fn create(call: ApiCall, Json(new): Json<CreateUser>) -> Result<Output, Problem> {
    let id = UserId::new(call.now.0);
    ask(call, id, UserRequest::Create(new)).await
}

pub(super) async fn list(call: ApiCall, query: PlainQuery) -> Result<Output, Problem> {
    let paging = query.part().paging::<UserKind>(Order::Desc)?;
    let page = call
        .app
        .system
        .users
        .list(call.account_wide(), Filter::default(), paging)
        .await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

pub(super) async fn read(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    ask_named(call, UserRequest::Read).await
}

pub(super) async fn change(
    call: ApiCall,
    OptionalJson(change): OptionalJson<ChangeUser>,
) -> Result<Output, Problem> {
    ask_named(call, UserRequest::Change(change)).await
}

pub(super) async fn remove(call: ApiCall) -> Result<Output, Problem> {
    ask_named(call, UserRequest::Delete).await
}

async fn ask_named(call: ApiCall, request: UserRequest) -> Result<Output, Problem> {
    let id = call.id::<UserKind>(0)?;
    ask(call, id, request).await
}

async fn ask(call: ApiCall, id: UserId, request: UserRequest) -> Result<Output, Problem> {
    let caller = call.account_caller();
    let ApiCall {
        app,
        if_match,
        reservation,
        ..
    } = call;
    Ok(app
        .system
        .users
        .ask(id, caller, if_match, reservation, request)
        .await?
        .into())
}
