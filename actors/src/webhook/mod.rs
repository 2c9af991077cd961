//! Webhooks: endpoints, and the deliveries of events to them.

mod attempt;
mod courier;
mod endpoint;

pub use attempt::{Attempt, WebhookSettings};
pub use courier::{Courier, Lost, Parcel, Reply};
pub use endpoint::{Endpoint, Wants};
