//! What is delivered to webhook endpoints: lists, single deliveries, sending again, and how
//! endpoints fare.

use colloquy_actors::webhook::{DeliveryList, DeliveryState, EventKindName, ReplayEvents};
use colloquy_model::id::{DeliveryId, DeliveryKind, WebhookKind};
use colloquy_model::page::Order;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::api_call::ApiCall;
use super::super::body::{Empty, OptionalJson};
use super::super::output::{LinkStyle, Listing, Output};
use super::super::problem::Problem;
use super::super::query::{NoQuery, Part};
use super::records::PlainQuery;

/// What a list of deliveries may be asked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only those that stand so.
    #[param(inline)]
    status: Option<DeliveryState>,
    /// Only those of this kind of event.
    #[param(inline)]
    event: Option<EventKindName>,
    /// How many at most. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// How many to leave out first. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    offset: Option<u64>,
    /// A delivery's id: what follows it in the list's order.
    #[param(inline, value_type = Option<DeliveryId>)]
    after: Option<String>,
    /// A delivery's id: what stands directly before it in the list's order.
    #[param(inline, value_type = Option<DeliveryId>)]
    before: Option<String>,
    /// The list's direction. Default: `desc`.
    #[param(inline)]
    order: Option<Order>,
}

pub(super) async fn list(call: ApiCall, query: ListQuery) -> Result<Output, Problem> {
    let webhook = call.id::<WebhookKind>(0)?;
    let (after, before) = (query.after.as_deref(), query.before.as_deref());
    let part = Part {
        limit: query.limit,
        offset: query.offset,
        after,
        before,
        order: query.order,
    };
    let paging = part.paging::<DeliveryKind>(Order::Desc)?;
    let wanted = DeliveryList {
        status: query.status,
        event: query.event.map(|kind| kind.0),
        paging,
    };
    let page = call
        .app
        .system
        .deliveries
        .list(call.caller.tenant, webhook, wanted)
        .await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

pub(super) async fn read(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let (webhook, id) = (call.id::<WebhookKind>(0)?, call.id::<DeliveryKind>(1)?);
    Ok(call
        .app
        .system
        .deliveries
        .read(call.caller.tenant, webhook, id)
        .await?
        .into())
}

pub(super) async fn retry(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    let (webhook, id): (_, DeliveryId) = (call.id::<WebhookKind>(0)?, call.id::<DeliveryKind>(1)?);
    let ApiCall {
        app,
        caller,
        reservation,
        ..
    } = call;
    Ok(app
        .system
        .deliveries
        .retry(webhook, id, caller, reservation)
        .await?
        .into())
}

pub(super) async fn replay(
    call: ApiCall,
    OptionalJson(events): OptionalJson<ReplayEvents>,
) -> Result<Output, Problem> {
    let webhook = call.id::<WebhookKind>(0)?;
    let ApiCall {
        app,
        caller,
        reservation,
        ..
    } = call;
    Ok(app
        .system
        .deliveries
        .replay(webhook, events, caller, reservation)
        .await?
        .into())
}

pub(super) async fn health(call: ApiCall, query: PlainQuery) -> Result<Output, Problem> {
    let paging = query.part().paging::<WebhookKind>(Order::Desc)?;
    let page = call.app.system.deliveries.health(paging).await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}
