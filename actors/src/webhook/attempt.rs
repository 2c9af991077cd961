//! One attempt at a delivery, and what is set about attempts.

use std::time::Duration;

use super::courier::{Lost, Reply};
use super::delivery_queue::InFlightLimits;
use super::target::PrivateTargets;
use colloquy_model::attempt::Attempt;
use colloquy_model::time::Timestamp;

/// How webhooks are delivered, as config.toml sets it.
#[derive(Debug, Clone)]
pub struct WebhookSettings {
    /// Whether endpoints may be at special-purpose addresses, and take `http`.
    pub private_targets: PrivateTargets,
    /// How long after a failure the next attempt follows; one more attempt than entries.
    pub retry_schedule: Vec<Duration>,
    /// The part of such a wait by which it varies, 0 to 1.
    pub jitter: f64,
    /// How long an attempt may take.
    pub timeout: Duration,
    /// Deliveries of one endpoint that may be under way at once.
    pub places: usize,
    /// Deliveries of all endpoints of an account that may be under way at once; but each endpoint
    /// may always have one.
    pub account_places: usize,
    /// Replays of one endpoint that may be under way at once.
    pub replays_max: usize,
    /// The longest `Retry-After` that is honoured.
    pub retry_after_max: Duration,
    /// An endpoint that only fails for so long is disabled.
    pub disable_after: Duration,
    /// How long deliveries are kept once they have ended.
    pub keep_deliveries: Duration,
}

impl WebhookSettings {
    /// The attempts that may be under way at once.
    pub(super) fn in_flight_limits(&self) -> InFlightLimits {
        InFlightLimits {
            per_endpoint: self.places,
            per_account: self.account_places,
        }
    }
}

/// Describes an attempt that began at this instant, for the delivery's log.
#[must_use]
pub fn attempt_of(sent_at: Timestamp, took: Duration, came: Result<Reply, Lost>) -> Attempt {
    let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    match came {
        Ok(Reply { status, answer, .. }) => {
            let delivered = (200..300).contains(&status);
            let error = (!delivered).then(|| format!("answered {status}, not 2xx"));
            Attempt {
                attempted_at: sent_at,
                status: Some(status),
                duration_ms,
                answer: Some(answer),
                error,
            }
        }
        Err(lost) => {
            let error = Some(lost.to_string());
            Attempt {
                attempted_at: sent_at,
                status: None,
                duration_ms,
                answer: None,
                error,
            }
        }
    }
}
