//! The webhooks' part of the table: endpoints, their deliveries, and sending events again.

use colloquy_actors::webhook::{DeliveryLogView, DeliveryView, ReplayView, Webhook, WebhookView};
use colloquy_model::attempt::Attempt;
use colloquy_model::key::Permission;

use super::super::operation::{AuthRequirement, LocationRule, Operation, delete, get, patch, post};
use super::super::problem::Kind;
use super::{deliveries, records, webhooks};

const MANAGE_WEBHOOKS: AuthRequirement = AuthRequirement::Key(&[Permission::WebhooksManage]);

/// Webhooks stand in both interfaces, with the same handlers.
macro_rules! webhooks {
    ($base:literal, $after:literal) => {
        vec![
            post(concat!($base, "/webhooks"), concat!("createWebhook", $after), webhooks::create)
                .about(
                    "Webhooks",
                    "Create a webhook endpoint",
                    "The answer's `secret` signs its deliveries: it is shown only here.",
                )
                .auth(MANAGE_WEBHOOKS)
                .creates::<WebhookView>(LocationRule::UnderRequestPath)
                .secret(),
            get(concat!($base, "/webhooks"), concat!("listWebhooks", $after), records::list::<Webhook>)
                .about("Webhooks", "List webhook endpoints", "Newest first.")
                .auth(MANAGE_WEBHOOKS)
                .lists::<WebhookView>(),
            get(concat!($base, "/webhooks/{webhook_id}"), concat!("getWebhook", $after), records::read::<Webhook>)
                .about("Webhooks", "Get a webhook endpoint", "Shows one endpoint, without its secret.")
                .auth(MANAGE_WEBHOOKS)
                .shows::<WebhookView>(),
            patch(concat!($base, "/webhooks/{webhook_id}"), concat!("changeWebhook", $after), webhooks::change)
                .about(
                    "Webhooks",
                    "Change a webhook endpoint",
                    "What is given is set, what is left out stays; a `filter` replaces the one before as a whole.",
                )
                .auth(MANAGE_WEBHOOKS)
                .shows::<WebhookView>(),
            delete(concat!($base, "/webhooks/{webhook_id}"), concat!("deleteWebhook", $after), records::remove::<Webhook>)
                .about("Webhooks", "Delete a webhook endpoint", "What waits for it is given up.")
                .auth(MANAGE_WEBHOOKS),
            post(
                concat!($base, "/webhooks/{webhook_id}/rotate-secret"),
                concat!("rotateWebhookSecret", $after),
                webhooks::rotate_secret,
            )
            .about(
                "Webhooks",
                "Rotate an endpoint's secret",
                "The answer's `secret` is the new one: it is shown only here. The old one signs too for the overlap.",
            )
            .auth(MANAGE_WEBHOOKS)
            .shows::<WebhookView>()
            .conditional()
            .secret(),
            post(concat!($base, "/webhooks/{webhook_id}/test"), concat!("testWebhook", $after), webhooks::test)
                .about(
                    "Webhooks",
                    "Try a webhook endpoint",
                    "Sends a sample at once, also to an endpoint that is disabled, and shows what came of it.",
                )
                .auth(MANAGE_WEBHOOKS)
                .shows::<Attempt>(),
            get(
                concat!($base, "/webhooks/{webhook_id}/deliveries"),
                concat!("listDeliveries", $after),
                deliveries::list,
            )
            .about("Webhooks", "List an endpoint's deliveries", "Newest first.")
            .auth(MANAGE_WEBHOOKS)
            .lists::<DeliveryView>(),
            get(
                concat!($base, "/webhooks/{webhook_id}/deliveries/{delivery_id}"),
                concat!("getDelivery", $after),
                deliveries::read,
            )
            .about("Webhooks", "Get a delivery", "Shows one delivery with each attempt.")
            .auth(MANAGE_WEBHOOKS)
            .shows::<DeliveryLogView>(),
            post(
                concat!($base, "/webhooks/{webhook_id}/deliveries/{delivery_id}/retry"),
                concat!("retryDelivery", $after),
                deliveries::retry,
            )
            .about(
                "Webhooks",
                "Send a delivery again",
                "One that waits is sent at once, when its turn has come; one that has ended is sent once more.",
            )
            .auth(MANAGE_WEBHOOKS)
            .accepts::<DeliveryView>()
            .refuses(&[Kind::Conflict]),
            post(concat!($base, "/webhooks/{webhook_id}/replay"), concat!("replayEvents", $after), deliveries::replay)
                .about(
                    "Webhooks",
                    "Send events of the past again",
                    "All stored events that match, in order, beside what happens now; older ones than the endpoint too.",
                )
                .auth(MANAGE_WEBHOOKS)
                .accepts::<ReplayView>()
                .refuses(&[Kind::Conflict]),
        ]
    };
}

/// Webhooks as conversations have them, then as documents do.
pub(super) fn operations() -> Vec<Operation> {
    let mut all = webhooks!("/v1", "");
    all.extend(webhooks!("/api/v1", "OfDocuments"));
    all
}
