//! The actor that delivers: it has what happens matched, attempts made, and what became of them
//! written, and wakes when something is due. Each of these is done by one of its parts; this file
//! says in which order, and how a process begins and ends. All that it holds is made anew from the
//! store after a panic or a crash; nothing is lost but outcomes that were not written yet.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::attempt_runner::AttemptRunner;
use super::delivery_queue::{DeliveryQueue, DueWork};
use super::dispatcher_messages::{Dependencies, Drain, Message};
use super::endpoint_directory::EndpointDirectory;
use super::endpoint_queue::EndpointQueue;
use super::feed_follower::FeedFollower;
use super::matcher::Matcher;
use super::opening::{self, Opened, OpenedParts};
use super::pending_requests::{PendingRequest, PendingRequests};
use super::replays::Replays;
use super::write_schedule::{PendingWrite, WriteSchedule};
use crate::store::{DeliveryTerm, Matched, ReadError};
use colloquy_model::time::Timestamp;
use colloquy_runtime::{Context, ThreadActor};

/// The wait after the store, or an endpoint's record, was away.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// It looks around when nothing happens.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a process that may not deliver looks whether it may.
const LOOK_PAUSED: Duration = Duration::from_millis(100);

/// Where the dispatcher is between its start and its end.
///
/// ```text
///   Opening ── the store's state is read ──▶ Running ── told to drain ──▶ Draining ──▶ the end
///      └── told to drain ──▶ the end                 all is written, or the time is over
/// ```
enum Phase {
    /// The store's state is being read; nothing else is done.
    Opening,
    /// It matches, sends and writes, in this term.
    Running(DeliveryTerm),
    /// It waits for what is under way, and writes.
    Draining(Drain),
}

/// The actor that delivers: its parts, each of which owns what it needs.
pub(super) struct Dispatcher {
    pub(super) dependencies: Dependencies,
    phase: Phase,
    pub(super) endpoints: EndpointDirectory,
    pub(super) follower: FeedFollower,
    pub(super) queue: DeliveryQueue,
    pub(super) attempts: AttemptRunner,
    pub(super) replays: Replays,
    pub(super) requests: PendingRequests,
    pub(super) writes: WriteSchedule,
    /// When it will be woken, where that has been asked for.
    wakes_at: Option<Instant>,
}

impl ThreadActor for Dispatcher {
    const NAME: &'static str = "webhooks";
    const KIND: &'static str = "webhook_dispatcher";
    type Message = Message;

    fn started(&mut self, context: &mut Context<Message>) {
        self.open(context);
    }

    fn handle(&mut self, message: Message, context: &mut Context<Message>) {
        match message {
            Message::Reach(reply) => self.request(PendingRequest::Reach(reply)),
            Message::Retry(retry) => self.request(PendingRequest::Retry(retry)),
            Message::Replay(ask) => self.request(PendingRequest::Replay(ask)),
            // Whoever asked may have left.
            Message::Health(reply) => drop(reply.send(self.health())),
            Message::Drain(drain) => self.begin_drain(drain, context),
            Message::Open => self.open(context),
            Message::Opened(opened) => self.opened(*opened, context),
            Message::FeedRead(news) => self.take_news(*news),
            Message::AttemptEnded(ended) => self.attempt_ended(*ended, context),
            Message::Refilled { refill, found } => {
                self.queue.refilled(&refill, found, Timestamp::now())
            }
            Message::Written(written) => self.written(written, context),
            Message::WriteAgain(slice) => self.write(slice, context),
            Message::Disable(endpoint) => self.disable(endpoint, context),
            Message::Disabled {
                endpoint,
                disabling,
            } => self.disabled(endpoint, disabling, context),
            Message::ReplayFound(start) => self.begin_replay(*start, context),
            Message::ReplayRead(page) => self.take_replay_page(*page),
            Message::RetryRead(read) => self.send_again(*read, context),
            Message::Relayed(requests) => self.take_relayed(requests, context),
            Message::Wake => self.wakes_at = None,
        }
        self.go_on(context);
    }
}

impl Dispatcher {
    /// One that knows nothing yet; it reads the store when it is started.
    pub(super) fn new(dependencies: Dependencies) -> Self {
        let Dependencies {
            store,
            feed,
            courier,
            settings,
            counters,
            ..
        } = dependencies.clone();
        Dispatcher {
            phase: Phase::Opening,
            endpoints: EndpointDirectory::default(),
            follower: FeedFollower::new(Arc::clone(&store), feed, Matcher::default()),
            queue: DeliveryQueue::new(0, settings.in_flight_limits()),
            attempts: AttemptRunner::new(store, courier, settings, counters),
            replays: Replays::default(),
            requests: PendingRequests::default(),
            writes: WriteSchedule::new(Matched::default()),
            wakes_at: None,
            dependencies,
        }
    }

    fn open(&self, context: &mut Context<Message>) {
        let store = Arc::clone(&self.dependencies.store);
        context.spawn(async move { Message::Opened(Box::new(opening::read_state(&*store).await)) });
    }

    fn opened(&mut self, opened: Result<Opened, ReadError>, context: &mut Context<Message>) {
        let Ok(opened) = opened else {
            context.send_after(PAUSE, Message::Open);
            return;
        };
        let OpenedParts {
            endpoints,
            matcher,
            queue,
            replays,
            writes,
            term,
        } = opened.into_parts(&self.dependencies.settings);
        let (store, feed) = (&self.dependencies.store, &self.dependencies.feed);
        self.follower = FeedFollower::new(Arc::clone(store), Arc::clone(feed), matcher);
        (self.endpoints, self.queue) = (endpoints, queue);
        (self.replays, self.writes) = (replays, writes);
        self.phase = Phase::Running(term);
        self.listen(context);
    }

    /// Does what follows from what it was told.
    fn go_on(&mut self, context: &mut Context<Message>) {
        match self.phase {
            Phase::Opening => return,
            Phase::Draining(_) => return self.drain(context),
            Phase::Running(term) => match self.dependencies.store.delivery_term() {
                Some(now) if now == term => {}
                // Another process has delivered in between: what is known here is old.
                Some(_) => return context.begin_anew(),
                None => return self.pause(context),
            },
        }
        self.match_on();
        let position = self.follower.position();
        let counters = &self.dependencies.counters;
        counters.matched.store(position.0, Ordering::Relaxed);
        self.pass_matched(context);
        let DueWork { attempts, refills } = self.queue.take_due(Timestamp::now());
        for attempt in attempts {
            self.begin_attempt(attempt, context);
        }
        for refill in refills {
            let due = self.dependencies.store.due(refill.query);
            context.spawn(async move {
                let found = due.await.ok();
                Message::Refilled { refill, found }
            });
        }
        self.read_replays(context);
        self.read_feed(context);
        let pending = self.pending_write();
        self.write_if_due(pending, context);
        self.set_alarm(pending, context);
    }

    /// Begins nothing and writes nothing while another process may deliver.
    fn pause(&mut self, context: &mut Context<Message>) {
        let at = Instant::now() + LOOK_PAUSED;
        if self.wakes_at.is_none_or(|wakes| at < wakes) {
            self.wakes_at = Some(at);
            context.send_after(LOOK_PAUSED, Message::Wake);
        }
    }

    /// Whether nothing new is begun any more.
    pub(super) fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining(_))
    }

    fn begin_drain(&mut self, drain: Drain, context: &mut Context<Message>) {
        match self.phase {
            // Nothing is under way yet.
            Phase::Opening => {
                // Whoever stops the server may have stopped waiting.
                let _ = drain.done.send(());
                context.stop();
            }
            Phase::Running(_) | Phase::Draining(_) => self.phase = Phase::Draining(drain),
        }
    }

    /// Takes nothing more; ends when nothing is under way any more, or the time is over, and all is
    /// written.
    fn drain(&mut self, context: &mut Context<Message>) {
        let Phase::Draining(drain) = &self.phase else {
            return;
        };
        let is_over = !self.attempts.is_busy() || Instant::now() >= drain.until;
        let has_changes = self.queue.unwritten() > 0;
        if is_over && !has_changes && !self.queue.is_writing() {
            if let Phase::Draining(drain) = std::mem::replace(&mut self.phase, Phase::Opening) {
                // Whoever stops the server may have stopped waiting.
                let _ = drain.done.send(());
            }
            context.stop();
            return;
        }
        if has_changes && !self.queue.is_writing() {
            self.write_slice(context);
        }
        self.set_alarm(self.pending_write(), context);
    }

    /// Asks to be woken when something is due next.
    fn set_alarm(&mut self, pending: PendingWrite, context: &mut Context<Message>) {
        let now = Instant::now();
        let queue = self
            .queue
            .next_wake()
            .map(|at| now + at.since(Timestamp::now()).min(LOOK_EVERY));
        let write = self
            .writes
            .next_at(pending)
            .filter(|_| !self.queue.is_writing());
        let drained = match &self.phase {
            Phase::Draining(drain) => Some(drain.until),
            Phase::Opening | Phase::Running(_) => None,
        };
        let look = now + LOOK_EVERY;
        let at = [queue, write, drained].into_iter().flatten().min();
        let at = at
            .unwrap_or(look)
            .clamp(now + Duration::from_millis(1), look);
        if self.wakes_at.is_none_or(|wakes| at < wakes) {
            self.wakes_at = Some(at);
            context.send_after(at - now, Message::Wake);
            let waiting = self.queue.endpoints().map(EndpointQueue::waiting).sum();
            let counters = &self.dependencies.counters;
            counters.pending.store(waiting, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "dispatcher_tests.rs"]
mod tests;
