//! Webhook endpoints; what they have in common with other records is in `records`. Whether a URL may
//! be a target is looked at here, where names are resolved; the courier looks again at each connect.

use std::sync::Arc;

use colloquy_actors::webhook::{ChangeWebhook, CreateWebhook, RotateSecret, TestWebhook, Webhook};
use colloquy_model::id::WebhookKind;

use super::super::api_call::{ApiCall, CommandCall};
use super::super::body::{Json, OptionalJson};
use super::super::idempotency;
use super::super::output::Output;
use super::super::problem::Problem;
use super::records::{ask, make};

pub(super) async fn create(
    call: ApiCall,
    Json(new): Json<CreateWebhook>,
) -> Result<Output, Problem> {
    call.app.courier.look(&new.url).await?;
    make::<Webhook, _>(call, new).await
}

pub(super) async fn change(
    call: ApiCall,
    OptionalJson(change): OptionalJson<ChangeWebhook>,
) -> Result<Output, Problem> {
    if let Some(url) = &change.url {
        call.app.courier.look(url).await?;
    }
    ask::<Webhook, _>(call, change).await
}

pub(super) async fn rotate_secret(
    call: ApiCall,
    OptionalJson(rotate): OptionalJson<RotateSecret>,
) -> Result<Output, Problem> {
    ask::<Webhook, _>(call, rotate).await
}

pub(super) async fn test(
    mut call: ApiCall,
    OptionalJson(test): OptionalJson<TestWebhook>,
) -> Result<Output, Problem> {
    let id = call.id::<WebhookKind>(0)?;
    let event = test.event.unwrap_or_default();
    idempotency::check_still_reserved(&mut call).await?;
    let CommandCall { app, meta } = call.into_command();
    // What is sent is kept under its key, also when the caller has hung up meanwhile.
    let trying = actix_web::rt::spawn(async move {
        let courier = Arc::clone(&app.courier);
        app.system
            .webhooks
            .try_out(id, meta, event, &*courier)
            .await
    });
    Ok(trying.await.map_err(|_| Problem::crashed())??.into())
}
