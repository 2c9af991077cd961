//! Replays: events of the past, made into deliveries a few at a time, in a lane of their own, so
//! that what happens now does not wait for them and a million of them do not fill the store. The
//! job stands in the store until the last of its deliveries has ended: so long it is under way, and
//! counts among those that an endpoint may have.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::delivery_queue::{Keep, Matching};
use super::dispatcher::{Dispatcher, Message, now_ms};
use super::messages::{Asker, DeliveryError, ReplayAsk};
use crate::store::{EventLog, EventPage, EventQuery, ReadError, Replay, ReplayChange};
use colloquy_model::caller::Tenant;
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_source::EventSource;
use colloquy_runtime::{Context, LoadError};

/// Deliveries of one replay that wait, about.
const WAITING_MAX: u64 = 128;
/// Events read at once.
const PAGE: u32 = 64;
/// Instants of commits are nearly in the order of their positions: the clocks that set them are off
/// by less than this.
const DISORDER_MS: i64 = 60_000;
/// Numbers of a feed are smaller.
const NUMBER_MAX: u64 = 1 << 40;

/// The wait after the store could not be read, and after something stored could not be.
const PAUSE_MS: i64 = 1_000;
const PAUSE_UNREADABLE_MS: i64 = 60_000;

/// Replays that are under way, by lane.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    last_lane: i64,
    jobs: BTreeMap<i64, Job>,
}

#[derive(Debug)]
struct Job {
    replay: Replay,
    /// Deliveries that were made and have not ended.
    waiting: u64,
    stage: Stage,
}

/// How far a replay's deliveries are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// More are to be made, not before this instant.
    Due(i64),
    /// Events are being read for them.
    Reading,
    /// All are.
    Made,
}

impl Jobs {
    /// What an earlier life left, each replay with its deliveries that wait.
    pub(super) fn new(last_lane: i64, open: Vec<(Replay, u64)>) -> Self {
        let job = |(replay, waiting): (Replay, u64)| {
            (
                replay.lane,
                Job {
                    replay,
                    waiting,
                    stage: Stage::Due(0),
                },
            )
        };
        Jobs {
            last_lane,
            jobs: open.into_iter().map(job).collect(),
        }
    }

    /// A lane that no replay had before.
    fn next_lane(&mut self, now: i64) -> i64 {
        self.last_lane = (self.last_lane + 1).max(now);
        self.last_lane
    }

    /// How many of an endpoint's are under way.
    fn of(&self, endpoint: u64) -> usize {
        self.jobs
            .values()
            .filter(|job| job.replay.endpoint == endpoint)
            .count()
    }

    /// Lets go of a replay whose deliveries are all made and have ended; whether it is one.
    fn end(&mut self, lane: i64) -> bool {
        let is_over = self
            .jobs
            .get(&lane)
            .is_some_and(|job| job.stage == Stage::Made && job.waiting == 0);
        if is_over {
            self.jobs.remove(&lane);
        }
        is_over
    }

    /// The endpoint gets nothing more.
    pub(super) fn give_up(&mut self, endpoint: u64) {
        self.jobs.retain(|_, job| job.replay.endpoint != endpoint);
    }
}

impl Dispatcher {
    /// Looks where the replay begins; it is refused where the endpoint gets nothing.
    pub(super) fn replay(&mut self, ask: ReplayAsk, context: &mut Context<Message>) {
        if let Some(refusal) = self.refusal(&ask.asker) {
            return ask.asker.refuse(refusal);
        }
        let mut replay = Replay {
            lane: self.jobs.next_lane(now_ms()),
            endpoint: ask.asker.webhook.number(),
            tenant: ask.asker.caller.tenant,
            next: 0,
            last: self.means.feed.last(),
            since: ask.since.map(|since| since.0),
            until: ask.until.map(|until| until.0),
            kinds: ask.kinds.clone(),
        };
        let store = Arc::clone(&self.means.store);
        context.spawn(async move {
            let next = first_behind(&*store, replay.tenant, 0, replay.since).await;
            Message::ReplayBegins(
                Box::new(ask),
                next.map(|next| {
                    replay.next = next;
                    replay
                }),
            )
        });
    }

    /// Why this one may begin no replay of the endpoint, if it may not.
    fn refusal(&self, asker: &Asker) -> Option<DeliveryError> {
        let most = self.means.settings.replays_max;
        match self.target_of(asker) {
            None => Some(DeliveryError::NotFound),
            Some(target) if !target.enabled => Some(DeliveryError::Disabled),
            Some(target) => (self.jobs.of(target.id.number()) >= most)
                .then_some(DeliveryError::TooManyReplays(most)),
        }
    }

    /// The job is written down with its answer.
    pub(super) fn replay_begins(
        &mut self,
        ask: ReplayAsk,
        found: Result<Replay, ReadError>,
        context: &mut Context<Message>,
    ) {
        // Others may have begun meanwhile, or somebody may have disabled the endpoint.
        let replay = match (found, self.refusal(&ask.asker)) {
            (_, Some(refusal)) => return ask.asker.refuse(refusal),
            (Err(error), None) => return ask.asker.refuse(LoadError::from(error).into()),
            (Ok(replay), None) => replay,
        };
        self.queue.change_replay(ReplayChange::Open(replay.clone()));
        self.jobs.jobs.insert(
            replay.lane,
            Job {
                replay,
                waiting: 0,
                stage: Stage::Due(0),
            },
        );
        let answer = ask.asker.answer(&ask.view, now_ms());
        self.answer_when_written(answer, context);
    }

    /// Reads on for each replay of which little waits.
    pub(super) fn step_replays(&mut self, context: &mut Context<Message>) {
        let now = now_ms();
        for (lane, job) in &mut self.jobs.jobs {
            if job.waiting >= WAITING_MAX || !matches!(job.stage, Stage::Due(at) if at <= now) {
                continue;
            }
            job.stage = Stage::Reading;
            let filter = EventFilter {
                kinds: job.replay.kinds.clone(),
                ..EventFilter::default()
            };
            let query = EventQuery {
                tenant: job.replay.tenant,
                source: EventSource::Account,
                after: job.replay.next,
                until: Some(job.replay.last),
                filter,
                limit: PAGE,
                total: false,
            };
            let (lane, store) = (*lane, Arc::clone(&self.means.store));
            context.spawn(async move { Message::ReplayRead(lane, read_on(&*store, query).await) });
        }
    }

    /// Makes deliveries of what was read; the job's place moves in the same slice.
    pub(super) fn replay_read(&mut self, lane: i64, page: Result<Option<EventPage>, ReadError>) {
        let Some(job) = self.jobs.jobs.get_mut(&lane) else {
            return;
        };
        let now = now_ms();
        let page = match page {
            Ok(page) => page.unwrap_or_default(),
            Err(error) => {
                let pause = if error == ReadError::Unreadable {
                    PAUSE_UNREADABLE_MS
                } else {
                    PAUSE_MS
                };
                tracing::warn!(%error, "a replay can't be read: it waits");
                job.stage = Stage::Due(now + pause);
                return;
            }
        };
        let Replay {
            endpoint,
            since,
            until,
            ..
        } = job.replay;
        let Some(target) = self.targets.get(&endpoint) else {
            return;
        };
        let over =
            |at: i64, slack: i64| until.is_some_and(|until| at > until.saturating_add(slack));
        for event in &page.events {
            if since.is_none_or(|since| event.at >= since)
                && !over(event.at, 0)
                && target.wants.admits(event)
            {
                let matching = Matching {
                    endpoint,
                    lane,
                    event,
                    keep: Keep::InMemory,
                };
                self.queue.push(matching, now);
                job.waiting += 1;
            }
        }
        // What can't be read is passed by, as it is where it happens: nothing waits behind it for
        // ever.
        let reached = page.unreadable.unwrap_or(page.cursor);
        let is_made = !page.more
            || page
                .events
                .last()
                .is_some_and(|event| over(event.at, DISORDER_MS));
        job.stage = if is_made {
            Stage::Made
        } else {
            Stage::Due(now)
        };
        if reached > job.replay.next {
            job.replay.next = reached;
            self.queue
                .change_replay(ReplayChange::Reached(lane, reached));
        }
        self.end_replay(lane);
    }

    /// A delivery has ended, which may be a replay's.
    pub(super) fn delivery_ended(&mut self, lane: i64) {
        if let Some(job) = self.jobs.jobs.get_mut(&lane) {
            job.waiting = job.waiting.saturating_sub(1);
            self.end_replay(lane);
        }
    }

    fn end_replay(&mut self, lane: i64) {
        if self.jobs.end(lane) {
            self.queue.change_replay(ReplayChange::Done(lane));
        }
    }
}

/// A page; where retention has taken what follows, that of what is left.
async fn read_on(
    store: &dyn EventLog,
    mut query: EventQuery,
) -> Result<Option<EventPage>, ReadError> {
    match store.events(query.clone()).await {
        Err(ReadError::Expired) => {
            query.after = first_behind(store, query.tenant, query.after, None).await?;
            store.events(query).await
        }
        read => read,
    }
}

/// The last number, not below `low`, behind which everything since an instant, as far as it is
/// left, is found.
async fn first_behind(
    store: &dyn EventLog,
    tenant: Tenant,
    low: u64,
    since: Option<i64>,
) -> Result<u64, ReadError> {
    let since = since.map_or(i64::MIN, |since| since.saturating_sub(DISORDER_MS));
    let (mut low, mut high) = (low, NUMBER_MAX);
    while low < high {
        let middle = low + (high - low) / 2;
        let query = EventQuery {
            tenant,
            source: EventSource::Account,
            after: middle,
            until: None,
            filter: EventFilter::default(),
            limit: 1,
            total: false,
        };
        match store.events(query).await {
            Ok(page) => match page.iter().flat_map(|page| &page.events).next() {
                Some(event) if event.at < since => low = event.number,
                Some(_) | None => high = middle,
            },
            Err(ReadError::Expired) => low = middle + 1,
            // Nobody has such a number yet.
            Err(ReadError::NoCursor(_)) => high = middle,
            Err(error) => return Err(error),
        }
    }
    Ok(low)
}
