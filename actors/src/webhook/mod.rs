//! Webhooks: endpoints, and the deliveries of events to them.

mod account_shares;
mod attempt;
mod courier;
mod deliveries;
mod delivery_metrics;
mod delivery_queue;
mod dispatcher;
mod endpoint_queue;
mod feed_follower;
mod held_event;
mod lanes;
mod matcher;
mod messages;
mod pending_requests;
mod receiver_health;
mod record;
mod replays;
mod restore;
mod sample_event;
mod schedule;
pub mod signature;
mod slice_builder;
mod store_backlog;
pub mod target;
mod test_delivery;
mod wake_times;
mod webhook_filter;

pub use crate::store::DeliveryState;
pub use attempt::{WebhookSettings, attempt_of};
pub use courier::{Courier, Lost, OutboundRequest, Reply};
pub use deliveries::{Deliveries, DeliveryList, ReplayEvents};
pub use delivery_metrics::DeliveryMetrics;
pub use messages::{DeliveryError, DeliveryLogView, DeliveryView, HealthView, ReplayView};
pub use record::{
    ChangeWebhook, CreateWebhook, DisableWebhook, DisabledReason, RotateSecret, TestWebhook,
    Webhook, WebhookView,
};
pub use restore::restore_endpoint;
pub use webhook_filter::{EventKindName, EventKindNames, WebhookFilter};
