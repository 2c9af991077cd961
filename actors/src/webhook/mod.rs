//! Webhooks: endpoints, and the deliveries of events to them.

mod account_shares;
mod attempt;
mod attempt_runner;
mod counted_courier;
mod courier;
mod deliveries;
mod delivery_metrics;
mod delivery_queue;
mod disabling;
mod dispatcher;
mod dispatcher_attempts;
mod dispatcher_feed;
mod dispatcher_messages;
mod dispatcher_relay;
mod dispatcher_replays;
mod dispatcher_requests;
mod dispatcher_writes;
mod endpoint_directory;
mod endpoint_health;
mod endpoint_queue;
mod feed_follower;
mod feed_reading;
mod held_event;
mod lanes;
mod matcher;
mod messages;
mod opening;
mod pending_requests;
mod receiver_health;
mod record;
mod relaying;
mod replays;
mod request_keys;
mod restore;
mod sample_event;
mod schedule;
pub mod signature;
mod slice_builder;
mod store_backlog;
mod taken_request;
pub mod target;
mod test_delivery;
mod wake_times;
mod webhook_filter;
mod write_schedule;

pub use crate::store::DeliveryState;
pub use attempt::{WebhookSettings, attempt_of};
pub(crate) use counted_courier::CountedCourier;
pub use courier::{Courier, Lost, OutboundRequest, Reply};
pub(crate) use deliveries::DeliveryDependencies;
pub use deliveries::{Deliveries, DeliveryList, ReplayEvents};
pub use delivery_metrics::DeliveryMetrics;
pub(crate) use disabling::{DisableEndpoint, Disabling};
pub use messages::{DeliveryError, DeliveryLogView, DeliveryView, HealthView, ReplayView};
pub use record::{
    ChangeWebhook, CreateWebhook, DisableWebhook, DisabledReason, RotateSecret, TestWebhook,
    Webhook, WebhookView,
};
pub use restore::restore_endpoint;
pub use webhook_filter::{EventKindName, EventKindNames, WebhookFilter};
