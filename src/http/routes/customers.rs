//! Customers: records of an account in one mode.

use colloquy_actors::accounts::{ChangeCustomer, CreateCustomer, CustomerRequest, Filter};
use colloquy_model::id::{CustomerId, CustomerKind};
use colloquy_model::page::Order;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::api_call::ApiCall;
use super::super::body::{Json, OptionalJson};
use super::super::output::{LinkStyle, Listing, Output};
use super::super::problem::Problem;
use super::super::query::{NoQuery, Part};

/// What a list of customers may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only those with this e-mail address.
    email: Option<String>,
    /// The one with this identifier of the caller's own.
    external_id: Option<String>,
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// How many to leave out first. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    offset: Option<u64>,
    /// The list's direction. Default: `desc`.
    #[param(inline)]
    order: Option<Order>,
}

pub(super) async fn create(
    call: ApiCall,
    Json(new): Json<CreateCustomer>,
) -> Result<Output, Problem> {
    let id = CustomerId::new(call.now.0);
    ask(call, id, CustomerRequest::Create(new)).await
}

pub(super) async fn list(call: ApiCall, query: ListQuery) -> Result<Output, Problem> {
    let part = Part {
        limit: query.limit,
        offset: query.offset,
        order: query.order,
        ..Part::default()
    };
    let paging = part.paging::<CustomerKind>(Order::Desc)?;
    let filter = Filter {
        email: query.email,
        external_id: query.external_id,
    };
    let page = call
        .app
        .system
        .customers
        .list(call.caller.tenant, filter, paging)
        .await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

pub(super) async fn read(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    ask_named(call, CustomerRequest::Read).await
}

pub(super) async fn change(
    call: ApiCall,
    OptionalJson(change): OptionalJson<ChangeCustomer>,
) -> Result<Output, Problem> {
    ask_named(call, CustomerRequest::Change(change)).await
}

pub(super) async fn remove(call: ApiCall) -> Result<Output, Problem> {
    ask_named(call, CustomerRequest::Delete).await
}

async fn ask_named(call: ApiCall, request: CustomerRequest) -> Result<Output, Problem> {
    let id = call.id::<CustomerKind>(0)?;
    ask(call, id, request).await
}

async fn ask(call: ApiCall, id: CustomerId, request: CustomerRequest) -> Result<Output, Problem> {
    let ApiCall {
        app,
        caller,
        if_match,
        reservation,
        ..
    } = call;
    Ok(app
        .system
        .customers
        .ask(id, caller, if_match, reservation, request)
        .await?
        .into())
}
