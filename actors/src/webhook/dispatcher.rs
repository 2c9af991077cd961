//! Whoever delivers: follows the feed, matches, sends, and tells the store what became of it. All
//! that it holds is made anew from the store after a panic or a crash; nothing is lost but outcomes
//! that were not written yet.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::attempt::WebhookSettings;
use super::courier::{Courier, Lost, OutboundRequest};
use super::delivery_metrics::DeliveryCounters;
use super::delivery_queue::{DeliveryQueue, DueWork, Verdict};
use super::endpoint_queue::{EndpointQueue, PendingAttempt, Refill, Sending, StoredQueue};
use super::feed_follower::{Behind, Reading, Unmatched};
use super::matcher::Matcher;
use super::messages::{AllHealth, Asker, ReplayAsk, Retry};
use super::pending_requests::Ask;
use super::record::DisabledReason;
use super::replays::Jobs;
use super::restore::restore_endpoint;
use super::schedule::{Made, epitaph, judge, unread};
use super::signature::{Signing, headers};
use crate::feed::{Ended, Feed, Item, Subscription};
use crate::store::{
    DeliverySlice, DueLanes, EventPage, Later, Matched, ReadError, Replay, Store, StoredDelivery,
    StoredEndpoint, Unwritten, WebhookState, Written,
};
use colloquy_model::caller::Tenant;
use colloquy_model::damage::Unreadable;
use colloquy_model::endpoint::Endpoint;
use colloquy_model::event::Event;
use colloquy_model::id::WebhookId;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{Context, ThreadActor};

/// With so much it is written at once.
const NEWS_FULL: usize = 128;
/// What happened is written after so long: until then it takes along what else happens.
const FLUSH_AFTER: Duration = Duration::from_millis(20);
/// Slices that somebody waits for keep this distance.
const FLUSH_SOON: Duration = Duration::from_millis(10);
/// A position alone is written so often, and old deliveries are looked for.
const FLUSH_IDLE: Duration = Duration::from_secs(5);
/// After the store was away.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// It looks around when nothing happens.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A courier that does not come back is not waited for: its own time, and this.
const GRACE: Duration = Duration::from_secs(5);

/// Disables an endpoint; false where that could not be done now.
pub(crate) type Disable =
    Arc<dyn Fn(WebhookId, Tenant, DisabledReason) -> Later<bool> + Send + Sync>;

/// What it works with.
#[derive(Clone)]
pub(super) struct Dependencies {
    pub(super) store: Arc<dyn Store>,
    pub(super) feed: Arc<Feed>,
    pub(super) courier: Arc<dyn Courier>,
    pub(super) disable: Disable,
    pub(super) settings: Arc<WebhookSettings>,
    pub(super) counters: Arc<DeliveryCounters>,
}

/// What it is told.
pub(super) enum Message {
    Opened(Box<Result<(Position, WebhookState), ReadError>>),
    Read(Result<Behind, ReadError>),
    Fed(Box<Subscription>, Vec<Item>, Option<Ended>),
    Landed(Box<Landed>),
    Refilled(Refill, Option<DueLanes>),
    Written(Result<Written, Unwritten>),
    WriteAgain(Box<DeliverySlice>),
    Disable(WebhookId, Tenant, DisabledReason),
    Disabled(WebhookId, Tenant, DisabledReason, bool),
    Wake,
    Open,
    ReplayRead(i64, Result<Option<EventPage>, ReadError>),
    ReplayBegins(Box<ReplayAsk>, Result<Replay, ReadError>),
    RetryRead(Box<Retry>, Result<Option<StoredDelivery>, ReadError>),
    Reach(oneshot::Sender<()>),
    Retry(Box<Retry>),
    Replay(Box<ReplayAsk>),
    Health(oneshot::Sender<AllHealth>),
    Drain(Instant, oneshot::Sender<()>),
}

/// An attempt that is over, or was not made.
pub(super) struct Landed {
    shipment: PendingAttempt,
    made: Landing,
}

enum Landing {
    Made(Made),
    /// Retention has taken the event.
    NoEvent,
    /// It could not be read.
    Away,
}

/// Whoever delivers.
pub(super) struct Dispatcher {
    pub(super) means: Dependencies,
    pub(super) queue: DeliveryQueue,
    pub(super) matcher: Matcher,
    /// Endpoints as they are now.
    pub(super) targets: HashMap<u64, Arc<Endpoint>>,
    pub(super) jobs: Jobs,
    pub(super) asked: Vec<(Position, Ask)>,
    pub(super) barriers: Vec<(u64, Ask)>,
    pub(super) reading: Reading,
    pub(super) subscription: Option<Box<Subscription>>,
    pub(super) unmatched: VecDeque<Unmatched>,
    in_flight: usize,
    matched_written: Matched,
    flush_at: Option<Instant>,
    flushed_at: Instant,
    left: bool,
    wakes_at: Option<Instant>,
    draining: Option<(Instant, oneshot::Sender<()>)>,
}

pub(super) fn now_ms() -> i64 {
    Timestamp::now().0
}

impl ThreadActor for Dispatcher {
    const NAME: &'static str = "webhooks";
    const KIND: &'static str = "webhook_dispatcher";
    type Message = Message;

    fn started(&mut self, context: &mut Context<Message>) {
        self.means.counters.in_flight.store(0, Ordering::Relaxed);
        self.open(context);
    }

    fn handle(&mut self, mail: Message, context: &mut Context<Message>) {
        match mail {
            Message::Open => self.open(context),
            Message::Opened(opened) => self.opened(*opened, context),
            Message::Read(read) => self.read_behind(read),
            Message::Fed(subscription, items, ended) => self.fed(subscription, items, ended),
            Message::Landed(landed) => self.landed(*landed, context),
            Message::Refilled(refill, found) => self.queue.refilled(&refill, found, now_ms()),
            Message::Written(written) => self.written(written, context),
            Message::WriteAgain(slice) => self.write(slice, context),
            Message::Disable(id, tenant, reason) => self.disable(id, tenant, reason, context),
            Message::Disabled(id, tenant, reason, done) => {
                if !done
                    && self
                        .targets
                        .get(&id.number())
                        .is_some_and(|target| target.enabled)
                {
                    context.send_after(PAUSE, Message::Disable(id, tenant, reason));
                }
            }
            Message::Wake => self.wakes_at = None,
            Message::ReplayRead(lane, page) => self.replay_read(lane, page),
            Message::ReplayBegins(ask, found) => self.replay_begins(*ask, found, context),
            Message::RetryRead(retry, found) => self.retry_read(*retry, found, context),
            Message::Reach(reply) => self.ask(Ask::Reach(reply)),
            Message::Retry(retry) => self.ask(Ask::Retry(retry)),
            Message::Replay(ask) => self.ask(Ask::Replay(ask)),
            // Whoever asked may have left.
            Message::Health(reply) => drop(reply.send(self.health())),
            Message::Drain(until, done) => self.draining = Some((until, done)),
        }
        self.go_on(context);
    }
}

impl Dispatcher {
    pub(super) fn new(means: Dependencies) -> Self {
        Dispatcher {
            queue: DeliveryQueue::new(0, means.settings.in_flight_limits()),
            means,
            matcher: Matcher::default(),
            targets: HashMap::new(),
            jobs: Jobs::default(),
            asked: Vec::new(),
            barriers: Vec::new(),
            reading: Reading::Opening,
            subscription: None,
            unmatched: VecDeque::new(),
            in_flight: 0,
            matched_written: Matched::default(),
            flush_at: None,
            flushed_at: Instant::now(),
            left: true,
            wakes_at: None,
            draining: None,
        }
    }

    /// The endpoint that somebody names, if it is the one of all the identifier's bits and the
    /// asker's own.
    pub(super) fn target_of(&self, asker: &Asker) -> Option<&Arc<Endpoint>> {
        let target = self.targets.get(&asker.webhook.number());
        target.filter(|target| target.id == asker.webhook && target.tenant == asker.caller.tenant)
    }

    fn open(&self, context: &mut Context<Message>) {
        let store = Arc::clone(&self.means.store);
        context.spawn(async move {
            // Behind all that an earlier life has handed in: what is read then stands.
            let opened = match store.begin_deliveries().await {
                Ok(last) => store.webhook_state().await.map(|state| (last, state)),
                Err(error) => Err(error),
            };
            Message::Opened(Box::new(opened))
        });
    }

    fn opened(
        &mut self,
        opened: Result<(Position, WebhookState), ReadError>,
        context: &mut Context<Message>,
    ) {
        let Ok((last, state)) = opened else {
            context.send_after(PAUSE, Message::Open);
            return;
        };
        // What happened before there was any endpoint concerns nobody.
        let nobody = state
            .endpoints
            .iter()
            .all(|endpoint| endpoint.as_matched.is_none());
        let first = state
            .endpoints
            .iter()
            .map(|endpoint| endpoint.made.previous())
            .min()
            .unwrap_or(last)
            .min(last);
        self.matcher = Matcher::new(state.matched);
        if nobody {
            self.matcher.reached(first);
        }
        self.matched_written = state.matched;
        self.queue =
            DeliveryQueue::new(state.last_delivery, self.means.settings.in_flight_limits());
        for stored in &state.endpoints {
            let Some(target) = self.know(stored) else {
                continue;
            };
            let number = target.id.number();
            self.queue.open(StoredQueue {
                account: target.tenant.account_number(),
                endpoint: number,
                waiting: stored.pending,
                failing_since: stored.failing_since,
            });
            self.queue.set_sending(number, Sending::of(&target));
            let version = stored.as_matched.as_ref();
            if let Some(Ok(version)) =
                version.map(|row| restore_endpoint(row, target.id, target.tenant))
            {
                self.matcher.begin_with(Arc::new(version));
            }
        }
        self.jobs = Jobs::new(state.last_lane, state.replays);
        self.reading = Reading::Behind {
            joined: None,
            busy: false,
        };
    }

    /// Takes an endpoint's record as it is now.
    pub(super) fn know(&mut self, stored: &StoredEndpoint) -> Option<Arc<Endpoint>> {
        match restore_endpoint(
            stored.record.body.as_bytes(),
            stored.id(),
            stored.record.tenant,
        ) {
            Ok(endpoint) => {
                let endpoint = Arc::new(endpoint);
                self.targets
                    .insert(endpoint.id.number(), Arc::clone(&endpoint));
                Some(endpoint)
            }
            Err(error) => {
                // It gets nothing; what happens meanwhile can be replayed once its record has been
                // put right.
                Unreadable::found(stored.id(), error);
                None
            }
        }
    }

    /// What follows from what it was told.
    fn go_on(&mut self, context: &mut Context<Message>) {
        if self.reading == Reading::Opening {
            if let Some((_, done)) = self.draining.take() {
                drop(done);
                context.stop();
            }
            return;
        }
        if self.draining.is_some() {
            self.drain(context);
            return;
        }
        self.match_on();
        self.means
            .counters
            .matched
            .store(self.matcher.position().0, Ordering::Relaxed);
        self.pass_asked(context);
        let DueWork { attempts, refills } = self.queue.take_due(now_ms());
        for shipment in attempts {
            self.send(shipment, context);
        }
        for refill in refills {
            let due = self.means.store.due(refill.query);
            context.spawn(async move { Message::Refilled(refill, due.await.ok()) });
        }
        self.step_replays(context);
        self.read(context);
        self.flush(context);
        self.set_alarm(context);
    }

    /// Takes nothing more; ends when nothing is under way any more, or the time is over, and all is
    /// written.
    fn drain(&mut self, context: &mut Context<Message>) {
        let Some((until, done)) = self.draining.take() else {
            return;
        };
        let over = Instant::now() >= until;
        if (self.in_flight == 0 || over) && !self.queue.is_writing() && self.queue.unwritten() == 0
        {
            // Whoever stops the server may have stopped waiting.
            let _ = done.send(());
            context.stop();
            return;
        }
        self.draining = Some((until, done));
        if self.queue.unwritten() > 0 && !self.queue.is_writing() {
            self.write_slice(context);
        }
        self.set_alarm(context);
    }

    fn send(&mut self, mut shipment: PendingAttempt, context: &mut Context<Message>) {
        let Some(target) = self.targets.get(&shipment.endpoint).map(Arc::clone) else {
            self.queue.put_back(&shipment, now_ms());
            return;
        };
        self.in_flight += 1;
        self.means
            .counters
            .in_flight
            .fetch_add(1, Ordering::Relaxed);
        let Dependencies {
            store,
            courier,
            settings,
            ..
        } = self.means.clone();
        context.spawn(async move {
            let event = match shipment.event.take() {
                Some(event) => Ok(Some(event)),
                None => store.event_at(shipment.position).await,
            };
            let made = match event {
                Ok(Some(event)) => Landing::Made(
                    attempt(&*courier, &settings, &target, &event, shipment.attempt).await,
                ),
                // What can't be read can't be sent: told where it was found, and no lane waits
                // behind it for ever.
                Ok(None) | Err(ReadError::Unreadable) => Landing::NoEvent,
                Err(_) => Landing::Away,
            };
            Message::Landed(Box::new(Landed { shipment, made }))
        });
    }

    fn landed(&mut self, landed: Landed, context: &mut Context<Message>) {
        let Landed { shipment, made } = landed;
        self.in_flight -= 1;
        self.means
            .counters
            .in_flight
            .fetch_sub(1, Ordering::Relaxed);
        let now = now_ms();
        let made = match made {
            Landing::Made(made) => made,
            Landing::NoEvent => {
                // It never left: the receiver is not to blame.
                self.queue.event_gone(&shipment, vec![unread(now)], now);
                self.delivery_ended(shipment.key.lane);
                return;
            }
            Landing::Away => {
                self.queue.put_back(&shipment, now);
                return;
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "chance needs no precision")]
        let chance = colloquy_model::random::u64() as f64 / u64::MAX as f64;
        let mut outcome = judge(&self.means.settings, made, now, chance);
        let mut log = vec![outcome.attempt];
        let failing = self
            .queue
            .endpoint(shipment.endpoint)
            .and_then(|queue| queue.health().failing_since());
        let failed_long = failing.filter(|since| {
            let long =
                i64::try_from(self.means.settings.disable_after.as_millis()).unwrap_or(i64::MAX);
            outcome.verdict != Verdict::Delivered && now.saturating_sub(*since) >= long
        });
        if let (None, Some(since)) = (outcome.disable, failed_long) {
            log.push(epitaph(since, now));
            (outcome.verdict, outcome.disable) = (Verdict::Failed, Some(DisabledReason::Failing));
        }
        self.means.counters.attempt(outcome.verdict);
        self.queue
            .attempt_ended(&shipment, outcome.verdict, log, now);
        if !matches!(outcome.verdict, Verdict::Later(_)) {
            self.delivery_ended(shipment.key.lane);
        }
        if let (Some(reason), Some(target)) =
            (outcome.disable, self.targets.get(&shipment.endpoint))
        {
            let (id, tenant) = (target.id, target.tenant);
            self.disable(id, tenant, reason, context);
        }
    }

    /// Nothing is sent from here on; the record says so as soon as it can, and the feed brings it
    /// back.
    fn disable(
        &mut self,
        id: WebhookId,
        tenant: Tenant,
        reason: DisabledReason,
        context: &mut Context<Message>,
    ) {
        if self.draining.is_some()
            || !self
                .targets
                .get(&id.number())
                .is_some_and(|target| target.enabled)
        {
            return;
        }
        self.queue.set_sending(id.number(), Sending::Paused);
        let done = (self.means.disable)(id, tenant, reason);
        context.spawn(async move { Message::Disabled(id, tenant, reason, done.await) });
    }

    /// Writes what has gathered, when it is time to.
    fn flush(&mut self, context: &mut Context<Message>) {
        if self.queue.is_writing() {
            return;
        }
        let (now, news) = (Instant::now(), self.queue.unwritten());
        if news > 0 {
            self.flush_at.get_or_insert(now + FLUSH_AFTER);
        }
        let since = now.duration_since(self.flushed_at);
        let waited_for = news > 0 && (!self.barriers.is_empty() || news >= NEWS_FULL);
        let needs_refill = news > 0 && since >= FLUSH_SOON && self.queue.needs_refill();
        let due = self.flush_at.is_some_and(|at| at <= now);
        let tidies = self.left && since >= FLUSH_SOON;
        if waited_for || needs_refill || due || tidies || since >= FLUSH_IDLE && self.idle_news() {
            self.write_slice(context);
        }
    }

    /// Whether there is something to write although nothing was matched.
    fn idle_news(&mut self) -> bool {
        if self.reading == Reading::Live && self.means.feed.last() > self.matcher.position() {
            self.means.feed.reach();
        }
        // Old deliveries are looked for now and then.
        self.flushed_at.elapsed() >= 12 * FLUSH_IDLE
            || self.matcher.matched() != self.matched_written
    }

    fn write_slice(&mut self, context: &mut Context<Message>) {
        let matched = self.matcher.matched();
        if matched != self.matched_written {
            self.queue.set_matched(matched);
            self.matched_written = matched;
        }
        let now = now_ms();
        let keep =
            i64::try_from(self.means.settings.keep_deliveries.as_millis()).unwrap_or(i64::MAX);
        let slice = self.queue.take_slice(now, now.saturating_sub(keep));
        self.flush_at = None;
        self.write(slice, context);
    }

    fn write(&mut self, slice: Box<DeliverySlice>, context: &mut Context<Message>) {
        let written = self.means.store.deliver(slice);
        context.spawn(async move { Message::Written(written.await) });
    }

    fn written(&mut self, written: Result<Written, Unwritten>, context: &mut Context<Message>) {
        self.flushed_at = Instant::now();
        match written {
            Ok(Written { left }) => {
                self.left = left;
                self.queue.slice_written();
                self.pass_barriers(context);
            }
            Err(Unwritten::NotNow(slice)) => context.send_after(PAUSE, Message::WriteAgain(slice)),
            Err(Unwritten::Never) => {
                tracing::error!(
                    "what became of deliveries can't be written and is given up: they begin anew from the store"
                );
                context.restart();
            }
            // What it does not know is delivered again after the next start.
            Err(Unwritten::Closed) => context.stop(),
        }
    }

    fn set_alarm(&mut self, context: &mut Context<Message>) {
        let now = Instant::now();
        let queue = self.queue.next_wake().map(|at| {
            now + Duration::from_millis(u64::try_from(at.saturating_sub(now_ms())).unwrap_or(0))
                .min(LOOK_EVERY)
        });
        let soon = (self.left || self.queue.needs_refill() && self.queue.unwritten() > 0)
            .then(|| self.flushed_at + FLUSH_SOON);
        let flush = self
            .flush_at
            .into_iter()
            .chain(soon)
            .filter(|_| !self.queue.is_writing())
            .min();
        let until = self.draining.as_ref().map(|(until, _)| *until);
        let at = queue
            .into_iter()
            .chain(flush)
            .chain(until)
            .min()
            .unwrap_or(now + LOOK_EVERY)
            .min(now + LOOK_EVERY);
        let at = at.max(now + Duration::from_millis(1));
        if self.wakes_at.is_none_or(|wakes| at < wakes) {
            self.wakes_at = Some(at);
            context.send_after(at - now, Message::Wake);
            let waiting = self.queue.endpoints().map(EndpointQueue::waiting).sum();
            self.means
                .counters
                .pending
                .store(waiting, Ordering::Relaxed);
        }
    }
}

/// Makes one attempt.
async fn attempt(
    courier: &dyn Courier,
    settings: &WebhookSettings,
    target: &Endpoint,
    event: &Event,
    attempt: u32,
) -> Made {
    let (began, begun) = (Timestamp::now(), Instant::now());
    let body = event.body();
    let secrets = &target.secrets;
    let headers = headers(Signing {
        secrets,
        event: event.id(),
        body: &body,
        now_ms: began.0,
        attempt,
    });
    let account = target.tenant.account_number();
    let post = courier.post(OutboundRequest {
        account,
        url: target.url.clone(),
        headers,
        body,
    });
    let reply = tokio::time::timeout(settings.timeout + GRACE, post)
        .await
        .unwrap_or(Err(Lost::TimedOut));
    Made {
        attempt,
        began,
        took: begun.elapsed(),
        reply,
    }
}

#[cfg(test)]
#[path = "dispatcher_tests.rs"]
mod tests;
