//! The way in: lists of deliveries, single ones with what was tried, sending again, replays, and
//! how endpoints fare.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use utoipa::ToSchema;

use super::attempt::WebhookSettings;
use super::courier::Courier;
use super::delivery_metrics::{DeliveryCounters, DeliveryMetrics};
use super::disabling::Disabler;
use super::dispatcher::Dispatcher;
use super::dispatcher_messages::{Dependencies, Drain, Message};
use super::endpoint_health::{StoredHealth, disabled_reason, health_view};
use super::messages::{
    AllHealth, DeliveryError, DeliveryLogView, DeliveryView, Health, HealthView, ReplayRequest,
    ReplayView, Requester, Retry,
};
use super::relaying::{Relayed, RelayedAnswer, RelayedCaller, RelayedReplay};
use super::request_keys;
use super::webhook_filter::EventKindNames;
use crate::accounts::Identity;
use crate::feed::Feed;
use crate::store::{
    DeliveryQuery, DeliveryState, ListFailure, ReadError, Store, Stored, StoredDelivery,
    StoredRecord,
};
use colloquy_model::answer::{Answer, Invalid};
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{DeliveryId, WebhookId};
use colloquy_model::idempotency::{Reservation, ReservedKeys};
use colloquy_model::page::{Cursor, Page, Paging, Part};
use colloquy_model::present::present;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{ActorHandle, LoadError, SupervisedKind};

/// A list waits so long for the matcher, and an ask for its answer.
const ASK_MAX: Duration = Duration::from_secs(5);
/// The part of the time to stop in which attempts are waited for; the rest is the last slice's, and
/// the listener's.
const WAITED_FOR: f64 = 0.8;
/// Between two times that it is told to end, while it is not there.
const TOLD_AGAIN: Duration = Duration::from_millis(50);

/// Which deliveries of an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryList {
    /// Only those in this state.
    pub status: Option<DeliveryState>,
    /// Only those of this kind of event.
    pub event: Option<EventKind>,
    /// The part of the list that is wanted.
    pub paging: Paging,
}

/// Which events are to be delivered again.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayEvents {
    /// None before this instant; default: from the first on.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// None after this instant; default: up to now.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// Of these kinds; default `["*"]`: all that the endpoint wants.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub events: Option<EventKindNames>,
}

/// The way into the deliveries of all endpoints, and to the dispatcher.
pub struct Deliveries {
    store: Arc<dyn Store>,
    identity: Arc<Identity>,
    counters: Arc<DeliveryCounters>,
    dispatcher: Arc<ActorHandle<Dispatcher>>,
}

/// What deliveries are made of and made with.
pub(crate) struct DeliveryDependencies {
    /// Where deliveries and what is delivered are stored.
    pub(crate) store: Arc<dyn Store>,
    /// Where what happens is told.
    pub(crate) feed: Arc<Feed>,
    /// What names the accounts whose endpoints are shown to operators.
    pub(crate) identity: Arc<Identity>,
    /// Brings requests to receivers.
    pub(crate) courier: Arc<dyn Courier>,
    /// Disables endpoints whose receivers want no more.
    pub(crate) disabler: Disabler,
    /// Where keys of requests are reserved.
    pub(crate) keys: Arc<dyn ReservedKeys>,
}

impl Deliveries {
    /// Starts the dispatcher, on a thread of its own.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn start(
        dependencies: DeliveryDependencies,
        settings: WebhookSettings,
    ) -> std::io::Result<Self> {
        let counters: Arc<DeliveryCounters> = Arc::default();
        let DeliveryDependencies {
            store,
            feed,
            identity,
            courier,
            disabler,
            keys,
        } = dependencies;
        let dependencies = Dependencies {
            store: Arc::clone(&store),
            feed,
            courier,
            disabler,
            keys,
            settings: Arc::new(settings),
            counters: Arc::clone(&counters),
        };
        let dispatcher = ActorHandle::start(move || Dispatcher::new(dependencies.clone()))?;
        let dispatcher = Arc::new(dispatcher);
        Ok(Deliveries {
            store,
            identity,
            counters,
            dispatcher,
        })
    }

    /// The dispatcher, as operators see and steer it.
    pub(crate) fn supervised(&self) -> Arc<dyn SupervisedKind> {
        Arc::clone(&self.dispatcher) as Arc<dyn SupervisedKind>
    }

    /// A page of an endpoint's deliveries. It shows all that was committed before it was asked.
    ///
    /// # Errors
    /// There is no such endpoint for this caller, nobody delivers now, or the list took too long.
    pub async fn list(
        &self,
        tenant: Tenant,
        webhook: WebhookId,
        list: DeliveryList,
    ) -> Result<Page, ListFailure> {
        self.reach(tenant, webhook).await?;
        let DeliveryList {
            status: state,
            event: kind,
            paging,
        } = list;
        let query = DeliveryQuery {
            tenant,
            endpoint: webhook.number(),
            state,
            kind,
            paging,
        };
        let found = self.store.deliveries(query).await?;
        let id =
            |delivery: Option<&StoredDelivery>| delivery.map(|delivery| delivery.id().to_string());
        let shown: Vec<DeliveryView> = found
            .items
            .iter()
            .map(|delivery| DeliveryView::new(webhook, delivery))
            .collect();
        Ok(Page {
            data: json(&shown).into(),
            count: u32::try_from(shown.len()).unwrap_or(u32::MAX),
            total: found.total,
            first: id(found.items.first()),
            last: id(found.items.last()),
            before: found.before,
            after: found.after,
        })
    }

    /// One delivery with what was tried.
    ///
    /// # Errors
    /// There is no such endpoint or delivery for this caller, or nobody delivers now.
    pub async fn read(
        &self,
        tenant: Tenant,
        webhook: WebhookId,
        id: DeliveryId,
    ) -> Result<Answer, ListFailure> {
        self.reach(tenant, webhook).await?;
        let found = self.store.delivery(webhook.number(), id.row()).await?;
        let found = found
            .filter(|found| found.id() == id)
            .ok_or(ListFailure::NotFound)?;
        let body = json(&DeliveryLogView::new(webhook, found));
        let digest = Sha256::digest(&body);
        let etag = digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Ok(Answer::ok(Some(etag), body))
    }

    /// Sends a delivery at once: one that waits before its time, one that has ended once more.
    ///
    /// # Errors
    /// There is no such endpoint or delivery for this caller, the endpoint is disabled, or nobody
    /// delivers now.
    pub async fn retry(
        &self,
        webhook: WebhookId,
        delivery: DeliveryId,
        caller: Caller,
        reservation: Option<Reservation>,
    ) -> Result<Answer, DeliveryError> {
        if !self.delivers() {
            let by = RelayedCaller::of(webhook, &caller, reservation.as_ref());
            return self.relay(Relayed::Retry(by, delivery), reservation).await;
        }
        self.store.catch_up().await.map_err(away)?;
        let reservation = request_keys::still_reserved(&*self.store, reservation).await?;
        let (reply, answer) = oneshot::channel();
        let requester = Requester {
            webhook,
            caller,
            reservation,
            reply,
        };
        self.tell(Message::Retry(Box::new(Retry {
            requester,
            delivery,
        })));
        answered(answer).await
    }

    /// Delivers events of the past again, also those that are older than the endpoint.
    ///
    /// # Errors
    /// There is no such endpoint for this caller, it is disabled, a value is not acceptable, or
    /// nobody delivers now.
    pub async fn replay(
        &self,
        webhook: WebhookId,
        replay: ReplayEvents,
        caller: Caller,
        reservation: Option<Reservation>,
    ) -> Result<Answer, DeliveryError> {
        let ReplayEvents {
            since,
            until,
            events,
        } = replay;
        if since.zip(until).is_some_and(|(since, until)| since > until) {
            return Err(DeliveryError::Invalid(Invalid::new(
                "until",
                "must not be before since",
            )));
        }
        let events = events.unwrap_or_default();
        let kinds = events.kinds().to_vec();
        let view = ReplayView {
            webhook_id: webhook,
            since,
            until,
            events,
        };
        if !self.delivers() {
            let by = RelayedCaller::of(webhook, &caller, reservation.as_ref());
            let replay = RelayedReplay::of(&view);
            return self.relay(Relayed::Replay(by, replay), reservation).await;
        }
        self.store.catch_up().await.map_err(away)?;
        let reservation = request_keys::still_reserved(&*self.store, reservation).await?;
        let (reply, answer) = oneshot::channel();
        let requester = Requester {
            webhook,
            caller,
            reservation,
            reply,
        };
        self.tell(Message::Replay(Box::new(ReplayRequest {
            requester,
            since,
            until,
            kinds,
            view,
        })));
        answered(answer).await
    }

    /// How all endpoints fare, a page of them.
    ///
    /// # Errors
    /// Nobody delivers now, or the list took too long.
    pub async fn health(&self, paging: Paging) -> Result<Page, ListFailure> {
        let all: Vec<Health> = self.all_health().await?.into_values().collect();
        let page = Part::of(all, |health| Cursor::of(health.id), paging);
        let totals = self
            .store
            .endpoint_totals(page.items.iter().map(|health| health.id.number()).collect())
            .await?;
        let accounts = self.identity.account_ids();
        let mut shown = Vec::with_capacity(page.items.len());
        for (health, totals) in page.items.into_iter().zip(totals) {
            let disabled_reason = match self.record(health.id).await? {
                Some(record) => disabled_reason(&record)?,
                None => None,
            };
            let stored = StoredHealth {
                totals,
                disabled_reason,
                accounts: &accounts,
            };
            shown.extend(health_view(health, &stored));
        }
        let id = |view: Option<&HealthView>| view.map(|view| view.webhook_id.to_string());
        Ok(Page {
            data: json(&shown).into(),
            count: u32::try_from(shown.len()).unwrap_or(u32::MAX),
            total: page.total,
            first: id(shown.first()),
            last: id(shown.last()),
            before: page.before,
            after: page.after,
        })
    }

    /// Takes nothing more, waits for what is under way, writes what it came to, and ends; at most
    /// so long.
    pub(crate) async fn stop(&self, at_most: Duration) {
        let begun = Instant::now();
        let until = begun + at_most.mul_f64(WAITED_FOR);
        while begun.elapsed() < at_most {
            let (done, stopped) = oneshot::channel();
            self.tell(Message::Drain(Drain { until, done }));
            let left = at_most.saturating_sub(begun.elapsed());
            match tokio::time::timeout(left, stopped).await {
                Ok(Ok(())) => return self.dispatcher.join(),
                Ok(Err(_)) if self.dispatcher.has_ended() => return self.dispatcher.join(),
                // It has crashed and waits for its restart: told again, it ends when it is there.
                Ok(Err(_)) => tokio::time::sleep(TOLD_AGAIN).await,
                Err(_) => break,
            }
        }
        tracing::warn!("deliveries are still under way: they are repeated after the next start");
    }

    /// What deliveries have come to since the start.
    pub fn metrics(&self) -> DeliveryMetrics {
        self.counters.read()
    }

    /// What memory knows of all endpoints, at the process that delivers.
    async fn all_health(&self) -> Result<AllHealth, ListFailure> {
        if !self.delivers() {
            let answer = self.ask_relayed(&Relayed::Health).await?;
            return answer.health().ok_or(ListFailure::Away);
        }
        self.store.catch_up().await?;
        let (reply, answer) = oneshot::channel();
        self.tell(Message::Health(reply));
        let answer = tokio::time::timeout(ASK_MAX, answer).await;
        answer.ok().and_then(Result::ok).ok_or(ListFailure::Away)
    }

    /// Whether this process is the one that delivers.
    fn delivers(&self) -> bool {
        self.store.delivery_term().is_some()
    }

    /// Has the process that delivers do what is asked; what it keeps under the key is known here
    /// then.
    async fn relay(
        &self,
        request: Relayed,
        reservation: Option<Reservation>,
    ) -> Result<Answer, DeliveryError> {
        let answer = self.ask_relayed(&request).await;
        let answer = answer.map_err(|_| DeliveryError::Unknown)?.accepted();
        if let (Some(reservation), Ok(_) | Err(DeliveryError::Overtaken)) = (reservation, &answer) {
            request_keys::settle(&*self.store, reservation).await;
        }
        answer
    }

    async fn ask_relayed(&self, request: &Relayed) -> Result<RelayedAnswer, ReadError> {
        // Shapes of ours: they can't fail.
        let body = serde_json::to_vec(request).unwrap_or_default();
        let answer = self.store.relay(body).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            tracing::error!(%error, "the answer of another node can't be read");
            ReadError::Away
        })
    }

    fn tell(&self, message: Message) {
        // Untold, the message is dropped, and with it the reply that is waited for.
        self.dispatcher.tell(message);
    }

    async fn record(&self, webhook: WebhookId) -> Result<Option<StoredRecord>, ListFailure> {
        let subject = Subject {
            kind: Kind::Webhook,
            number: webhook.number(),
            tail: webhook.tail(),
        };
        match self.store.load(subject).await? {
            Some(Stored::Record(record)) => Ok(Some(record)),
            Some(Stored::Conversation(_) | Stored::Document(_)) | None => Ok(None),
        }
    }

    /// The store tells all that concerns this endpoint's deliveries up to now.
    async fn reach(&self, tenant: Tenant, webhook: WebhookId) -> Result<(), ListFailure> {
        self.record(webhook)
            .await?
            .filter(|record| record.tenant == tenant)
            .ok_or(ListFailure::NotFound)?;
        if !self.delivers() {
            return match self.ask_relayed(&Relayed::Reach).await {
                Ok(RelayedAnswer::Reached) => Ok(()),
                Ok(_) | Err(_) => Err(ListFailure::Away),
            };
        }
        self.store.catch_up().await?;
        let (reply, reached) = oneshot::channel();
        self.tell(Message::Reach(reply));
        tokio::time::timeout(ASK_MAX, reached)
            .await
            .ok()
            .and_then(Result::ok)
            .ok_or(ListFailure::Away)
    }
}

async fn answered(
    answer: oneshot::Receiver<Result<Answer, DeliveryError>>,
) -> Result<Answer, DeliveryError> {
    match tokio::time::timeout(ASK_MAX, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => Err(DeliveryError::Unknown),
    }
}

fn away(error: ReadError) -> DeliveryError {
    LoadError::from(error).into()
}

fn json(shown: &impl Serialize) -> Bytes {
    // Shapes of ours: they can't fail.
    serde_json::to_vec(shown).unwrap_or_default().into()
}
