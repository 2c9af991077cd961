//! Replays: events of the past, made into deliveries a few at a time, in a lane of their own, so
//! that what happens now does not wait for them and a million of them do not fill the store. The
//! job stands in the store until the last of its deliveries has ended: so long it is under way, and
//! counts among those that an endpoint may have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::endpoint_directory::EndpointDirectory;
use super::messages::{DeliveryError, ReplayRequest};
use crate::store::{EventLog, EventPage, EventQuery, OpenReplay, ReadError, Replay, ReplayChange};
use colloquy_model::caller::Tenant;
use colloquy_model::endpoint::Endpoint;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_source::EventSource;
use colloquy_model::position::Position;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;

/// Deliveries of one replay that wait, about.
const WAITING_MAX: u64 = 128;
/// Events that are read of the store at once.
const PAGE_EVENTS: u32 = 64;
/// Instants of commits are nearly in the order of their positions: the clocks that set them are off
/// by less than this.
const DISORDER: Duration = Duration::from_mins(1);
/// Numbers of a feed are smaller.
const NUMBER_MAX: u64 = 1 << 40;

/// The wait after the store could not be read, and after something stored could not be.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_UNREADABLE: Duration = Duration::from_mins(1);

/// The replays that are under way, by lane.
#[derive(Debug, Default)]
pub(super) struct Replays {
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
///
/// ```text
///            few wait, and it is time          a page came, and it was not the last
///   DueAt ─────────────────────────▶ Reading ─────────────────────────────────────▶ DueAt
///                                       │ the last page came
///                                       ▼
///                                      Made ── the last of its deliveries has ended: it goes
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// More are to be made, not before this instant.
    DueAt(Timestamp),
    /// Events are being read for them.
    Reading,
    /// All deliveries are made, and some have not ended.
    Made,
}

/// A page that a replay needs.
#[derive(Debug)]
pub(super) struct ReplayRead {
    lane: i64,
    query: EventQuery,
}

impl ReplayRead {
    /// Reads the page, from what retention has left.
    pub(super) async fn run(self, store: Arc<dyn EventLog>) -> ReplayPage {
        ReplayPage {
            lane: self.lane,
            page: read_on(&*store, self.query).await,
        }
    }
}

/// A page that a replay got; none of what is left where everything has expired.
pub(super) struct ReplayPage {
    lane: i64,
    page: Result<Option<EventPage>, ReadError>,
}

/// What a page comes to, to be written with one slice.
#[derive(Debug)]
pub(super) struct ReplayStep {
    /// The endpoint that gets these events, in this lane.
    pub(super) endpoint: EntityNumber,
    pub(super) lane: i64,
    pub(super) events: Vec<Arc<Event>>,
    pub(super) changes: Vec<ReplayChange>,
}

/// A replay that may begin, once its first event is found.
pub(super) struct ReplayStart {
    pub(super) ask: Box<ReplayRequest>,
    /// With the place where it begins, once that is found.
    pub(super) replay: Result<Replay, ReadError>,
}

impl ReplayStart {
    /// Looks where the replay begins.
    pub(super) async fn find(self, store: Arc<dyn EventLog>) -> ReplayStart {
        let ReplayStart { ask, replay } = self;
        let replay = match replay {
            Ok(replay) => first_behind(
                &*store,
                replay.tenant,
                StreamOffset::BEGINNING,
                replay.since,
            )
            .await
            .map(|next| Replay { next, ..replay }),
            Err(error) => Err(error),
        };
        ReplayStart { ask, replay }
    }
}

impl Replays {
    /// What an earlier process left, each replay with its deliveries that wait. No lane up to this
    /// one is given to another replay.
    pub(super) fn new(last_lane: i64, open: Vec<OpenReplay>) -> Self {
        let job = |OpenReplay { replay, waiting }| {
            let stage = Stage::DueAt(Timestamp(0));
            (
                replay.lane,
                Job {
                    replay,
                    waiting,
                    stage,
                },
            )
        };
        Replays {
            last_lane,
            jobs: open.into_iter().map(job).collect(),
        }
    }

    /// Why no replay of this endpoint may begin beside at most so many, if none may.
    pub(super) fn refusal(
        &self,
        endpoint: Option<&Endpoint>,
        most: usize,
    ) -> Option<DeliveryError> {
        match endpoint {
            None => Some(DeliveryError::NotFound),
            Some(endpoint) if !endpoint.enabled => Some(DeliveryError::Disabled),
            Some(endpoint) => (self.of(endpoint.id.number()) >= most)
                .then_some(DeliveryError::TooManyReplays(most)),
        }
    }

    /// How many of an endpoint's are under way.
    fn of(&self, endpoint: EntityNumber) -> usize {
        self.jobs
            .values()
            .filter(|job| job.replay.endpoint == endpoint)
            .count()
    }

    /// A replay in a lane of its own, of what happened up to this position; it does not begin yet.
    pub(super) fn prepare(
        &mut self,
        ask: Box<ReplayRequest>,
        last: Position,
        now: Timestamp,
    ) -> ReplayStart {
        self.last_lane = (self.last_lane + 1).max(now.0);
        let replay = Replay {
            lane: self.last_lane,
            endpoint: ask.requester.webhook.number(),
            tenant: ask.requester.caller.tenant,
            next: StreamOffset::BEGINNING,
            last,
            since: ask.since,
            until: ask.until,
            kinds: ask.kinds.clone(),
        };
        ReplayStart {
            ask,
            replay: Ok(replay),
        }
    }

    /// A replay begins; gives what is to be written of it.
    pub(super) fn begin(&mut self, replay: Replay) -> ReplayChange {
        let job = Job {
            replay: replay.clone(),
            waiting: 0,
            stage: Stage::DueAt(Timestamp::EPOCH),
        };
        self.jobs.insert(replay.lane, job);
        ReplayChange::Open(replay)
    }

    /// Begins to read for each replay of which little waits; what is read is to be handed to
    /// [`Replays::take_page`].
    pub(super) fn begin_reads(&mut self, now: Timestamp) -> Vec<ReplayRead> {
        let is_due = |job: &Job| {
            job.waiting < WAITING_MAX && matches!(job.stage, Stage::DueAt(at) if at <= now)
        };
        let due = self.jobs.iter_mut().filter(|(_, job)| is_due(job));
        due.map(|(lane, job)| {
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
                limit: PAGE_EVENTS,
                total: false,
            };
            ReplayRead { lane: *lane, query }
        })
        .collect()
    }

    /// Says which deliveries are to be made of what was read; the job's place moves with them.
    pub(super) fn take_page(
        &mut self,
        read: ReplayPage,
        endpoints: &EndpointDirectory,
        now: Timestamp,
    ) -> Option<ReplayStep> {
        let lane = read.lane;
        let job = self.jobs.get_mut(&lane)?;
        let page = match read.page {
            Ok(page) => page.unwrap_or_default(),
            Err(error) => {
                let pause = if error == ReadError::Unreadable {
                    PAUSE_UNREADABLE
                } else {
                    PAUSE
                };
                tracing::warn!(%error, "a replay can't be read: it waits");
                job.stage = Stage::DueAt(now + pause);
                return None;
            }
        };
        let endpoint = endpoints.get(job.replay.endpoint)?;
        let mut changes = Vec::new();
        // What can't be read is passed by, as it is where it happens: nothing waits behind it for
        // ever.
        let reached = page.unreadable.unwrap_or(page.cursor);
        job.stage = if job.is_last(&page) {
            Stage::Made
        } else {
            Stage::DueAt(now)
        };
        if reached > job.replay.next {
            job.replay.next = reached;
            changes.push(ReplayChange::Reached(lane, reached));
        }
        let mut events = page.events;
        events.retain(|event| job.is_asked_for(event) && endpoint.wants.admits(event));
        job.waiting += u64::try_from(events.len()).unwrap_or(u64::MAX);
        let endpoint = job.replay.endpoint;
        changes.extend(self.end(lane));
        Some(ReplayStep {
            endpoint,
            lane,
            events,
            changes,
        })
    }

    /// A delivery has ended, which may be a replay's; gives what is to be written of that.
    pub(super) fn delivery_ended(&mut self, lane: i64) -> Option<ReplayChange> {
        let job = self.jobs.get_mut(&lane)?;
        job.waiting = job.waiting.saturating_sub(1);
        self.end(lane)
    }

    /// Lets go of a replay whose deliveries are all made and have ended.
    fn end(&mut self, lane: i64) -> Option<ReplayChange> {
        let job = self.jobs.get(&lane)?;
        if job.stage != Stage::Made || job.waiting > 0 {
            return None;
        }
        self.jobs.remove(&lane);
        Some(ReplayChange::Done(lane))
    }

    /// The endpoint gets nothing more.
    pub(super) fn give_up(&mut self, endpoint: EntityNumber) {
        self.jobs.retain(|_, job| job.replay.endpoint != endpoint);
    }
}

impl Job {
    /// Whether an event happened between the instants that were asked for.
    fn is_asked_for(&self, event: &Event) -> bool {
        self.replay.since.is_none_or(|since| event.at >= since)
            && !self.is_behind(event.at, Duration::ZERO)
    }

    /// Whether an instant lies behind the last one that was asked for, and by more than this.
    fn is_behind(&self, at: Timestamp, slack: Duration) -> bool {
        self.replay.until.is_some_and(|until| at > until + slack)
    }

    /// Whether nothing behind this page is asked for.
    fn is_last(&self, page: &EventPage) -> bool {
        let last = page.events.last();
        !page.more || last.is_some_and(|last| self.is_behind(last.at, DISORDER))
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
    low: StreamOffset,
    since: Option<Timestamp>,
) -> Result<StreamOffset, ReadError> {
    let since = since.map_or(Timestamp::MIN, |since| since - DISORDER);
    // As a rule little has to be passed by, or nothing: strides that double come first, then halves.
    let (mut low, mut high, mut stride) = (low.0, NUMBER_MAX, 0);
    while low < high {
        let middle = low + stride.min((high - low) / 2);
        let query = EventQuery {
            tenant,
            source: EventSource::Account,
            after: StreamOffset(middle),
            until: None,
            filter: EventFilter::default(),
            limit: 1,
            total: false,
        };
        match store.events(query).await {
            Ok(page) => match page.iter().flat_map(|page| &page.events).next() {
                Some(event) if event.at < since => {
                    low = event.number.0;
                    stride = (2 * stride).max(1);
                }
                Some(_) | None => high = middle,
            },
            Err(ReadError::Expired) => {
                low = middle + 1;
                stride = (2 * stride).max(1);
            }
            // Nobody has such a number yet.
            Err(ReadError::NoCursor(_)) => high = middle,
            Err(error) => return Err(error),
        }
    }
    Ok(StreamOffset(low))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::store::{FeedRow, Later};
    use colloquy_model::caller::Mode;
    use colloquy_model::event::{EventRow, SeenNow};
    use colloquy_model::event_kind::EventKind;
    use colloquy_model::sequence::Sequence;
    use colloquy_model::stream::FeedNumber;

    /// Events 1, 2, 3 … up to `last`, an hour from one to the next; those up to `floor` have expired.
    #[derive(Default)]
    struct Hourly {
        floor: u64,
        last: u64,
        reads: AtomicU64,
    }

    fn hour(number: u64) -> Timestamp {
        Timestamp::EPOCH + Duration::from_hours(number)
    }

    fn event(tenant: Tenant, number: u64) -> Arc<Event> {
        let row = EventRow {
            position: Position(1),
            tenant,
            number: FeedNumber(number),
            entity: EntityNumber(7),
            sequence: Sequence(1),
            kind: EventKind::MessageCreated,
            at: hour(number),
            credential: None,
            text_bytes: 0,
        };
        Arc::new(Event::new(row, SeenNow::default(), "{}".into()))
    }

    impl EventLog for Hourly {
        fn events(&self, query: EventQuery) -> Later<Result<Option<EventPage>, ReadError>> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let after = query.after.0;
            let next = (after < self.last).then(|| event(query.tenant, after + 1));
            let page = EventPage {
                events: next.into_iter().collect(),
                ..EventPage::default()
            };
            let read = if after < self.floor {
                Err(ReadError::Expired)
            } else {
                Ok(Some(page))
            };
            Box::pin(std::future::ready(read))
        }

        fn happened_behind(&self, _: Position, _: u32) -> Later<Result<Vec<FeedRow>, ReadError>> {
            Box::pin(std::future::ready(Err(ReadError::Away)))
        }

        fn event_at(&self, _: Position) -> Later<Result<Option<Arc<Event>>, ReadError>> {
            Box::pin(std::future::ready(Err(ReadError::Away)))
        }

        fn request_at(&self, _: Position) -> Later<Result<Option<String>, ReadError>> {
            Box::pin(std::future::ready(Err(ReadError::Away)))
        }
    }

    /// Where a replay of what happened since then begins.
    fn beginning(log: &Hourly, since: Option<Timestamp>) -> u64 {
        let tenant = Tenant::of(1, Mode::Live);
        let found = pin!(first_behind(log, tenant, StreamOffset::BEGINNING, since));
        // The log answers at once.
        match found.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(found)) => found.0,
            Poll::Ready(Err(_)) | Poll::Pending => u64::MAX,
        }
    }

    #[test]
    fn a_replay_begins_before_the_first_event_that_is_asked_for_and_left() {
        for last in [0, 1, 2, 3, 7, 8, 100] {
            for floor in [0, 1, 2, 5, 64].into_iter().filter(|floor| *floor <= last) {
                let log = Hourly {
                    floor,
                    last,
                    ..Hourly::default()
                };
                assert_eq!(beginning(&log, None), floor, "{last} events");
                for first in 1..=last + 1 {
                    let found = beginning(&log, Some(hour(first) + DISORDER));
                    let before = (first - 1).max(floor);
                    assert_eq!(found, before, "{first} of {last}, {floor} expired");
                }
            }
        }
    }

    #[test]
    fn where_nothing_is_to_be_passed_by_it_is_found_by_one_read() {
        let log = Hourly {
            last: 1_000_000,
            ..Hourly::default()
        };
        assert_eq!(beginning(&log, None), 0);
        assert_eq!(log.reads.load(Ordering::Relaxed), 1);
        assert_eq!(beginning(&log, Some(hour(700_000) + DISORDER)), 699_999);
        assert!(log.reads.load(Ordering::Relaxed) < 2 * 20 + 2);
    }
}
