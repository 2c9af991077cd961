//! One attempt at a webhook delivery, as its log shows it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Timestamp;

/// One attempt, as the log of a delivery shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// When it began.
    pub attempted_at: Timestamp,
    /// What the receiver answered; null where it did not.
    pub status: Option<u16>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The first 4 KiB of the answer.
    pub answer: Option<String>,
    /// Why it failed; null where it did not.
    pub error: Option<String>,
}
