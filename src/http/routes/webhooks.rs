//! Webhook endpoints: records of an account in one mode. Whether a URL may be a target is looked at
//! here, where names are resolved; the courier looks again at each connect.

use std::sync::Arc;

use colloquy_actors::accounts::Filter;
use colloquy_actors::webhook::{
    ChangeWebhook, CreateWebhook, RotateSecret, TestWebhook, WebhookRequest,
};
use colloquy_model::id::{WebhookId, WebhookKind};
use colloquy_model::page::Order;

use super::super::api_call::ApiCall;
use super::super::body::{Json, OptionalJson};
use super::super::output::{LinkStyle, Listing, Output};
use super::super::problem::Problem;
use super::super::query::NoQuery;
use super::users::PlainQuery;

pub(super) async fn create(
    call: ApiCall,
    Json(new): Json<CreateWebhook>,
) -> Result<Output, Problem> {
    call.app.courier.look(&new.url).await?;
    let id = WebhookId::new(call.now.0);
    ask(call, id, WebhookRequest::Create(new)).await
}

pub(super) async fn list(call: ApiCall, query: PlainQuery) -> Result<Output, Problem> {
    let paging = query.part().paging::<WebhookKind>(Order::Desc)?;
    let page = call
        .app
        .system
        .webhooks
        .list(call.caller.tenant, Filter::default(), paging)
        .await?;
    Ok(Output::Page(Listing {
        page,
        paging,
        style: LinkStyle::Plain,
    }))
}

pub(super) async fn read(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    ask_named(call, WebhookRequest::Read).await
}

pub(super) async fn change(
    call: ApiCall,
    OptionalJson(change): OptionalJson<ChangeWebhook>,
) -> Result<Output, Problem> {
    if let Some(url) = &change.url {
        call.app.courier.look(url).await?;
    }
    ask_named(call, WebhookRequest::Change(change)).await
}

pub(super) async fn remove(call: ApiCall) -> Result<Output, Problem> {
    ask_named(call, WebhookRequest::Delete).await
}

pub(super) async fn rotate_secret(
    call: ApiCall,
    OptionalJson(rotate): OptionalJson<RotateSecret>,
) -> Result<Output, Problem> {
    ask_named(call, WebhookRequest::RotateSecret(rotate)).await
}

pub(super) async fn test(
    call: ApiCall,
    OptionalJson(test): OptionalJson<TestWebhook>,
) -> Result<Output, Problem> {
    let id = call.id::<WebhookKind>(0)?;
    let event = test.event.unwrap_or_default();
    let ApiCall {
        app,
        caller,
        reservation,
        ..
    } = call;
    // What is sent is kept under its key, also when the caller has hung up meanwhile.
    let trying = actix_web::rt::spawn(async move {
        let courier = Arc::clone(&app.courier);
        app.system
            .webhooks
            .try_out(id, caller, reservation, event, &*courier)
            .await
    });
    Ok(trying.await.map_err(|_| Problem::crashed())??.into())
}

async fn ask_named(call: ApiCall, request: WebhookRequest) -> Result<Output, Problem> {
    let id = call.id::<WebhookKind>(0)?;
    ask(call, id, request).await
}

async fn ask(call: ApiCall, id: WebhookId, request: WebhookRequest) -> Result<Output, Problem> {
    let ApiCall {
        app,
        caller,
        if_match,
        reservation,
        ..
    } = call;
    Ok(app
        .system
        .webhooks
        .ask(id, caller, if_match, reservation, request)
        .await?
        .into())
}
