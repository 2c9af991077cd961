//! Requests about deliveries between the node that is asked and the one that delivers, as both write
//! and read them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::messages::{
    AllHealth, DeliveryError, Health, ReplayRequest, ReplayView, Reply, Requester,
};
use super::request_keys::RelayedKey;
use super::webhook_filter::EventKindNames;
use colloquy_model::answer::Answer;
use colloquy_model::caller::{Actor, Caller, CredentialId, Tenant};
use colloquy_model::id::{DeliveryId, UserId, WebhookId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::time::Timestamp;

/// What is asked of the node that delivers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Relayed {
    /// To write what became of all that was committed up to now.
    Reach,
    /// To send a delivery again.
    Retry(RelayedCaller, DeliveryId),
    /// To deliver events of the past again.
    Replay(RelayedCaller, RelayedReplay),
    /// How all endpoints fare.
    Health,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RelayedAnswer {
    Reached,
    /// It was accepted; this is what the caller is shown.
    Accepted(String),
    Refused(RelayedRefusal),
    Health(Vec<RelayedHealth>),
}

/// Why it refuses.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RelayedRefusal {
    NotFound,
    Disabled,
    TooManyReplays(usize),
    Overtaken,
    KeyInUse,
    Unknown,
    Away,
    Busy,
    Unreadable,
}

/// For which endpoint it is asked, by whom and under which key.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RelayedCaller {
    webhook: WebhookId,
    tenant: i64,
    credential: CredentialId,
    user: Option<UserId>,
    address: Option<IpAddr>,
    request: String,
    reserved: Option<RelayedKey>,
}

/// Which events are to be delivered again.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RelayedReplay {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    events: EventKindNames,
}

/// How an endpoint fares.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RelayedHealth {
    webhook: WebhookId,
    tenant: i64,
    url: String,
    enabled: bool,
    in_flight: usize,
    failing_since: Option<Timestamp>,
    last_success: Option<Timestamp>,
}

impl Relayed {
    /// The key under which it is asked.
    pub(super) fn reserved(&self) -> Option<RelayedKey> {
        match self {
            Relayed::Retry(caller, _) | Relayed::Replay(caller, _) => caller.reserved,
            Relayed::Reach | Relayed::Health => None,
        }
    }
}

impl RelayedCaller {
    pub(super) fn of(
        webhook: WebhookId,
        caller: &Caller,
        reservation: Option<&Reservation>,
    ) -> Self {
        let Actor {
            credential,
            user,
            address,
            request_id,
        } = &caller.actor;
        RelayedCaller {
            webhook,
            tenant: caller.tenant.number(),
            credential: *credential,
            user: *user,
            address: *address,
            request: request_id.to_string(),
            reserved: reservation.map(|reservation| RelayedKey {
                key: reservation.hash(),
                request: reservation.request(),
            }),
        }
    }

    /// Who asks, with its key as it is reserved here and where the answer goes.
    pub(super) fn requester(self, reservation: Option<Reservation>, reply: Reply) -> Requester {
        Requester {
            webhook: self.webhook,
            caller: Caller {
                tenant: Tenant::from_number(self.tenant),
                actor: Actor {
                    credential: self.credential,
                    user: self.user,
                    address: self.address,
                    request_id: self.request.into(),
                },
            },
            reservation,
            reply,
        }
    }
}

impl RelayedReplay {
    pub(super) fn of(view: &ReplayView) -> Self {
        RelayedReplay {
            since: view.since,
            until: view.until,
            events: view.events.clone(),
        }
    }

    /// The request as whoever delivers takes it.
    pub(super) fn request(self, requester: Requester) -> ReplayRequest {
        let RelayedReplay {
            since,
            until,
            events,
        } = self;
        ReplayRequest {
            since,
            until,
            kinds: events.kinds().to_vec(),
            view: ReplayView {
                webhook_id: requester.webhook,
                since,
                until,
                events,
            },
            requester,
        }
    }
}

impl RelayedAnswer {
    /// What was answered to a request that is accepted or refused.
    pub(super) fn of(answer: Result<Answer, DeliveryError>) -> Self {
        match answer {
            Ok(answer) => {
                RelayedAnswer::Accepted(String::from_utf8_lossy(&answer.body).into_owned())
            }
            Err(error) => RelayedAnswer::Refused(RelayedRefusal::of(&error)),
        }
    }

    /// The same, as whoever asked is told.
    pub(super) fn accepted(self) -> Result<Answer, DeliveryError> {
        match self {
            RelayedAnswer::Accepted(body) => Ok(Answer::accepted(body.into())),
            RelayedAnswer::Refused(refusal) => Err(refusal.error()),
            RelayedAnswer::Reached | RelayedAnswer::Health(_) => Err(DeliveryError::Unknown),
        }
    }

    /// How all endpoints fare.
    pub(super) fn of_health(all: &AllHealth) -> Self {
        let one = |health: &Health| RelayedHealth {
            webhook: health.id,
            tenant: health.tenant.number(),
            url: health.url.clone(),
            enabled: health.enabled,
            in_flight: health.in_flight,
            failing_since: health.failing_since,
            last_success: health.last_success,
        };
        RelayedAnswer::Health(all.values().map(one).collect())
    }

    /// The same; none where something else was answered.
    pub(super) fn health(self) -> Option<AllHealth> {
        let RelayedAnswer::Health(all) = self else {
            return None;
        };
        let one = |health: RelayedHealth| {
            let tenant = Tenant::from_number(health.tenant);
            let known = Health {
                id: health.webhook,
                tenant,
                url: health.url,
                enabled: health.enabled,
                in_flight: health.in_flight,
                failing_since: health.failing_since,
                last_success: health.last_success,
            };
            (known.id, known)
        };
        Some(all.into_iter().map(one).collect::<BTreeMap<_, _>>())
    }
}

impl RelayedRefusal {
    fn of(error: &DeliveryError) -> Self {
        match error {
            DeliveryError::NotFound => RelayedRefusal::NotFound,
            DeliveryError::Disabled => RelayedRefusal::Disabled,
            DeliveryError::TooManyReplays(most) => RelayedRefusal::TooManyReplays(*most),
            DeliveryError::Overtaken => RelayedRefusal::Overtaken,
            DeliveryError::KeyInUse => RelayedRefusal::KeyInUse,
            // What a request says is looked at before it is handed over.
            DeliveryError::Unknown | DeliveryError::Invalid(_) => RelayedRefusal::Unknown,
            DeliveryError::Away => RelayedRefusal::Away,
            DeliveryError::Busy => RelayedRefusal::Busy,
            DeliveryError::Unreadable => RelayedRefusal::Unreadable,
        }
    }

    fn error(self) -> DeliveryError {
        match self {
            RelayedRefusal::NotFound => DeliveryError::NotFound,
            RelayedRefusal::Disabled => DeliveryError::Disabled,
            RelayedRefusal::TooManyReplays(most) => DeliveryError::TooManyReplays(most),
            RelayedRefusal::Overtaken => DeliveryError::Overtaken,
            RelayedRefusal::KeyInUse => DeliveryError::KeyInUse,
            RelayedRefusal::Unknown => DeliveryError::Unknown,
            RelayedRefusal::Away => DeliveryError::Away,
            RelayedRefusal::Busy => DeliveryError::Busy,
            RelayedRefusal::Unreadable => DeliveryError::Unreadable,
        }
    }
}
