//! Webhooks: endpoints, and the deliveries of events to them.

mod asks;
mod attempt;
mod courier;
mod deliveries;
mod delivery_metrics;
mod following;
mod line;
mod matcher;
mod messages;
mod post;
mod queue;
mod record;
mod replaying;
mod restore;
mod sample;
mod schedule;
pub mod signature;
pub mod target;
mod trial;
mod wanted;

pub use crate::store::DeliveryState;
pub use attempt::{WebhookSettings, attempt_of};
pub use courier::{Courier, Lost, Parcel, Reply};
pub use deliveries::{Deliveries, DeliveryList, ReplayEvents};
pub use delivery_metrics::DeliveryMetrics;
pub use messages::{DeliveryError, DeliveryLogView, DeliveryView, HealthView, ReplayView};
pub use record::{
    ChangeWebhook, CreateWebhook, DisabledReason, RotateSecret, TestWebhook, Webhook,
    WebhookRequest, WebhookView,
};
pub use restore::restore_endpoint;
pub use wanted::{EventKind, EventKinds, WebhookFilter};
