//! Starts attempts and says what each came to: signs the event, has the courier bring it, and
//! judges the answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use super::attempt::WebhookSettings;
use super::courier::{Courier, Lost, OutboundRequest};
use super::delivery_metrics::DeliveryCounters;
use super::delivery_queue::Verdict;
use super::endpoint_queue::PendingAttempt;
use super::record::DisabledReason;
use super::schedule::{Made, epitaph, judge, unread};
use super::signature::{Signing, headers};
use crate::sealing::texts;
use crate::store::{ReadError, Store};
use colloquy_model::attempt::Attempt;
use colloquy_model::endpoint::Endpoint;
use colloquy_model::event::Event;
use colloquy_model::time::Timestamp;
use colloquy_runtime::traces::{self, Span};

/// A courier that does not come back is not waited for: its own time, and this.
const GRACE: Duration = Duration::from_secs(5);

/// An attempt that is over, and how it ended.
pub(super) struct EndedAttempt {
    pub(super) attempt: PendingAttempt,
    pub(super) end: AttemptEnd,
}

/// How an attempt ended, before it is judged.
pub(super) enum AttemptEnd {
    /// It was made, and answered or not.
    Made(Made),
    /// It was not: the event is not stored any more, or can't be read.
    EventGone,
    /// It was not: the store could not be read now.
    StoreAway,
}

/// What follows from how an attempt ended.
#[derive(Debug)]
pub(super) enum Conclusion {
    /// The receiver was asked, and this follows.
    Judged {
        verdict: Verdict,
        /// What the delivery's log gets.
        log: Vec<Attempt>,
        /// Why the endpoint gets nothing more, where that follows.
        disable: Option<DisabledReason>,
    },
    /// The delivery is given up, and no receiver is to blame; its log gets this.
    GivenUp(Vec<Attempt>),
    /// The delivery is tried again as if nothing had been.
    TryAgain,
}

/// Makes the attempts of all endpoints.
pub(super) struct AttemptRunner {
    store: Arc<dyn Store>,
    courier: Arc<dyn Courier>,
    settings: Arc<WebhookSettings>,
    counters: Arc<DeliveryCounters>,
    in_flight: usize,
}

impl AttemptRunner {
    /// Nothing is under way. Events that memory does not hold are read of the store.
    pub(super) fn new(
        store: Arc<dyn Store>,
        courier: Arc<dyn Courier>,
        settings: Arc<WebhookSettings>,
        counters: Arc<DeliveryCounters>,
    ) -> Self {
        counters.in_flight.store(0, Ordering::Relaxed);
        AttemptRunner {
            store,
            courier,
            settings,
            counters,
            in_flight: 0,
        }
    }

    /// Whether any attempt is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// Begins an attempt; what the future gives is to be handed to [`AttemptRunner::end`].
    pub(super) fn begin(
        &mut self,
        mut attempt: PendingAttempt,
        endpoint: Arc<Endpoint>,
    ) -> impl Future<Output = EndedAttempt> + 'static {
        self.in_flight += 1;
        self.counters.in_flight.fetch_add(1, Ordering::Relaxed);
        let (store, courier) = (Arc::clone(&self.store), Arc::clone(&self.courier));
        let timeout = self.settings.timeout + GRACE;
        async move {
            let event = match attempt.event.take() {
                Some(event) => Ok(Some(event)),
                None => store.event_at(attempt.position).await,
            };
            // What is held in memory of an account that was forgotten is not sent either.
            let is_forgotten = texts::is_forgotten(endpoint.tenant.account_number());
            let end = match event {
                Ok(Some(_)) if is_forgotten => AttemptEnd::EventGone,
                // Reading took its time, or this process was stopped: another one may deliver.
                Ok(Some(_)) if store.delivery_term().is_none() => AttemptEnd::StoreAway,
                Ok(Some(event)) => {
                    let request = SignedRequest::new(&endpoint, &event, attempt.attempt);
                    let mut made = request.post(&*courier, timeout).await;
                    traces::record_behind(event.position, || span(&endpoint, &made));
                    // It may repeat what was sent.
                    if let Ok(reply) = &mut made.reply {
                        let answer = std::mem::take(&mut reply.answer);
                        reply.answer = texts::kept(endpoint.tenant.account_number(), answer);
                    }
                    AttemptEnd::Made(made)
                }
                // What can't be read can't be sent: told where it was found, and no lane waits
                // behind it for ever.
                Ok(None) | Err(ReadError::Unreadable) => AttemptEnd::EventGone,
                Err(_) => AttemptEnd::StoreAway,
            };
            EndedAttempt { attempt, end }
        }
    }

    /// An attempt is over: says what follows. `failing_since` is when its endpoint began to only
    /// fail, before this attempt.
    pub(super) fn end(
        &mut self,
        end: AttemptEnd,
        failing_since: Option<Timestamp>,
        now: Timestamp,
    ) -> Conclusion {
        self.in_flight -= 1;
        self.counters.in_flight.fetch_sub(1, Ordering::Relaxed);
        let made = match end {
            AttemptEnd::Made(made) => made,
            AttemptEnd::EventGone => return Conclusion::GivenUp(vec![unread(now)]),
            AttemptEnd::StoreAway => return Conclusion::TryAgain,
        };
        #[expect(clippy::cast_precision_loss, reason = "chance needs no precision")]
        let chance = colloquy_model::random::u64() as f64 / u64::MAX as f64;
        let outcome = judge(&self.settings, made, now, chance);
        let (mut verdict, mut disable) = (outcome.verdict, outcome.disable);
        let mut log = vec![outcome.attempt];
        let failing_long = failing_since
            .filter(|since| verdict != Verdict::Delivered && self.is_too_long(*since, now));
        if let (None, Some(since)) = (disable, failing_long) {
            log.push(epitaph(since, now));
            (verdict, disable) = (Verdict::Failed, Some(DisabledReason::Failing));
        }
        self.counters.attempt(verdict);
        Conclusion::Judged {
            verdict,
            log,
            disable,
        }
    }

    /// Whether an endpoint that has only failed since then is disabled for it.
    fn is_too_long(&self, since: Timestamp, now: Timestamp) -> bool {
        now.since(since) >= self.settings.disable_after
    }
}

/// An attempt as a span of the request that the event is of.
fn span(endpoint: &Endpoint, made: &Made) -> Span {
    let status = made.reply.as_ref().ok().map(|reply| reply.status);
    let attempt = ("delivery.attempt", made.attempt.to_string());
    let mut attributes = vec![("webhook.id", endpoint.id.to_string()), attempt];
    attributes.extend(status.map(|status| ("http.response.status_code", status.to_string())));
    Span {
        name: "deliver",
        id: colloquy_model::random::u64(),
        begun: SystemTime::UNIX_EPOCH + Duration::from_millis(made.began.0.unsigned_abs()),
        took: made.took,
        has_failed: !status.is_some_and(|status| (200..300).contains(&status)),
        attributes,
    }
}

/// A request that is ready to be sent.
struct SignedRequest {
    request: OutboundRequest,
    attempt: u32,
    began: Timestamp,
    begun: Instant,
}

impl SignedRequest {
    /// Signs this attempt at an event, as of now.
    fn new(endpoint: &Endpoint, event: &Event, attempt: u32) -> Self {
        let (began, begun) = (Timestamp::now(), Instant::now());
        let body = event.body();
        let headers = headers(Signing {
            secrets: &endpoint.secrets,
            event: event.id(),
            body: &body,
            now: began,
            attempt,
        });
        let request = OutboundRequest {
            account: endpoint.tenant.account_number(),
            url: endpoint.url.clone(),
            headers,
            body,
        };
        SignedRequest {
            request,
            attempt,
            began,
            begun,
        }
    }

    /// Sends it once, and waits at most so long.
    async fn post(self, courier: &dyn Courier, timeout: Duration) -> Made {
        let reply = tokio::time::timeout(timeout, courier.post(self.request))
            .await
            .unwrap_or(Err(Lost::TimedOut));
        Made {
            attempt: self.attempt,
            began: self.began,
            took: self.begun.elapsed(),
            reply,
        }
    }
}
