//! What the dispatcher may be asked, and how a delivery is shown.

use std::collections::BTreeMap;

use serde::Serialize;
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::record::DisabledReason;
use crate::store::{DeliveryState, StoredDelivery};
use colloquy_model::answer::{Answer, Done, Invalid};
use colloquy_model::attempt::Attempt;
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::commit::{Commit, KeptAnswer};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{AccountId, DeliveryId, EventId, WebhookId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::LoadError;

/// A delivery as the interface shows it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub struct DeliveryView {
    /// The identifier of the delivery.
    pub delivery_id: DeliveryId,
    /// The endpoint that it goes to.
    pub webhook_id: WebhookId,
    /// Names the event: its `webhook-id` on every attempt.
    pub event_id: EventId,
    /// The kind of event.
    pub event: &'static str,
    /// Whether it waits, was delivered or has failed.
    pub status: DeliveryState,
    /// How many attempts have been made so far.
    pub attempts: u32,
    /// When it may be tried next; null where it has ended, or waits for an earlier one of the same
    /// conversation.
    pub next_attempt_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
}

/// A delivery with what was tried.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = DeliveryWithLog)]
pub struct DeliveryLogView {
    #[serde(flatten)]
    delivery: DeliveryView,
    /// Each attempt, oldest first.
    attempt_log: Vec<Attempt>,
}

impl DeliveryView {
    pub(super) fn new(webhook_id: WebhookId, stored: &StoredDelivery) -> Self {
        DeliveryView {
            delivery_id: stored.id(),
            webhook_id,
            event_id: stored.event_id(),
            event: stored.kind.word(),
            status: stored.state,
            attempts: stored.attempts,
            next_attempt_at: stored.due,
            created_at: stored.at,
        }
    }
}

impl DeliveryLogView {
    pub(super) fn new(webhook_id: WebhookId, stored: StoredDelivery) -> Self {
        DeliveryLogView {
            delivery: DeliveryView::new(webhook_id, &stored),
            attempt_log: stored.log,
        }
    }
}

/// Events of the past that are to be delivered again, as they were asked for.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Replay)]
pub struct ReplayView {
    /// The endpoint that it goes to.
    pub webhook_id: WebhookId,
    /// None before this instant; null: from the first on.
    pub since: Option<Timestamp>,
    /// None after this instant; null: up to now.
    pub until: Option<Timestamp>,
    /// Of these kinds; `["*"]`: all that the endpoint wants.
    pub events: super::EventKindNames,
}

/// How deliveries to an endpoint fare.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = WebhookHealth)]
pub struct HealthView {
    /// The account whose endpoint it is.
    pub account_id: AccountId,
    /// The identifier of the webhook endpoint.
    pub webhook_id: WebhookId,
    /// Where deliveries go.
    pub url: String,
    /// Whether it gets events.
    pub enabled: bool,
    /// Why the server disabled it; null where it did not.
    pub disabled_reason: Option<DisabledReason>,
    /// How many deliveries wait.
    pub pending: u64,
    /// Attempts that are under way.
    pub in_flight: usize,
    /// How long the oldest that waits has waited; null where none does.
    pub oldest_pending_seconds: Option<i64>,
    /// Since when every attempt has failed; null where the last did not.
    pub failing_since: Option<Timestamp>,
    /// Deliveries that were taken, of those that are kept.
    pub delivered: u64,
    /// Deliveries that were given up, of those that are kept.
    pub failed: u64,
    /// When something was taken last; null where that is not known.
    pub last_success_at: Option<Timestamp>,
}

/// Why a delivery is not sent again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// There is no such endpoint or delivery for this caller.
    #[error("no such delivery")]
    NotFound,
    /// The endpoint is disabled.
    #[error("the endpoint is disabled")]
    Disabled,
    /// As many replays of the endpoint are under way as there may be.
    #[error("{0} replays are under way")]
    TooManyReplays(usize),
    /// A value is not acceptable.
    #[error("{}: {}", .0.field, .0.reason)]
    Invalid(Invalid),
    /// Another process has answered a request with the same key.
    #[error("the request's key is answered")]
    Overtaken,
    /// Another process has a request with the same key, which still runs.
    #[error("the request's key is in use")]
    KeyInUse,
    /// Nobody delivers now; whether it was done is not known.
    #[error("nobody delivers now")]
    Unknown,
    /// The store is away; nothing was done.
    #[error("the store is away")]
    Away,
    /// Too much else is being read; nothing was done.
    #[error("too much is being read")]
    Busy,
    /// What is stored can't be read, which was told where it was found; nothing was done.
    #[error("what is stored can't be read")]
    Unreadable,
}

impl From<LoadError> for DeliveryError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Unavailable => DeliveryError::Away,
            LoadError::Busy => DeliveryError::Busy,
            LoadError::Unreadable => DeliveryError::Unreadable,
        }
    }
}

pub(super) type Reply = oneshot::Sender<Result<Answer, DeliveryError>>;

/// Who asks for an endpoint, and who waits for the answer.
pub(super) struct Requester {
    pub(super) webhook: WebhookId,
    pub(super) caller: Caller,
    pub(super) reservation: Option<Reservation>,
    pub(super) reply: Reply,
}

impl Requester {
    /// Tells the caller that nothing comes of it.
    pub(super) fn refuse(self, error: DeliveryError) {
        // Whoever asked may have left.
        let _ = self.reply.send(Err(error));
    }

    /// Accepts what was asked at this instant.
    pub(super) fn answer(self, body: &impl Serialize, now: Timestamp) -> AcceptedAnswer {
        // Shapes of ours: they can't fail.
        let body: bytes::Bytes = serde_json::to_vec(body).unwrap_or_default().into();
        let answer = Answer::accepted(body.clone());
        let subject = Subject {
            kind: Kind::Webhook,
            number: self.webhook.number(),
            tail: self.webhook.tail(),
        };
        let kept = self.reservation.map(|reservation| {
            let kept = KeptAnswer {
                reservation,
                done: Done::Accepted,
                id: None,
                etag: None,
                body: Some(body),
            };
            Commit {
                answer: Some(kept),
                ..Commit::new(subject, Sequence::ZERO, self.caller, now)
            }
        });
        AcceptedAnswer {
            reply: self.reply,
            answer,
            kept,
        }
    }
}

/// An answer that leaves when what it rests on is durable.
pub(super) struct AcceptedAnswer {
    pub(super) reply: Reply,
    pub(super) answer: Answer,
    /// What keeps it under its key, where it was asked for under one.
    pub(super) kept: Option<Commit>,
}

/// A request to send a delivery again.
pub(super) struct Retry {
    pub(super) requester: Requester,
    pub(super) delivery: DeliveryId,
}

/// A request to deliver events of the past again.
pub(super) struct ReplayRequest {
    pub(super) requester: Requester,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    pub(super) kinds: Vec<EventKind>,
    pub(super) view: ReplayView,
}

/// What memory knows of an endpoint's deliveries.
#[derive(Debug, Clone)]
pub(super) struct Health {
    pub(super) id: WebhookId,
    pub(super) tenant: Tenant,
    pub(super) url: String,
    pub(super) enabled: bool,
    pub(super) in_flight: usize,
    pub(super) failing_since: Option<Timestamp>,
    pub(super) last_success: Option<Timestamp>,
}

/// What memory knows of all endpoints, by identifier.
pub(super) type AllHealth = BTreeMap<WebhookId, Health>;
