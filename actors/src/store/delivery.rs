//! Deliveries as the store keeps them: one row each, from the match of an event and an endpoint to
//! its end. The rows are the queue; whoever delivers holds a bounded part of them, and hands back
//! what became of them in slices.

use bytes::Bytes;

use super::stored::StoredRecord;
use colloquy_model::attempt::Attempt;
use colloquy_model::caller::Tenant;
use colloquy_model::commit::Commit;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{DeliveryId, EventId, WebhookId};
use colloquy_model::page::Paging;
use colloquy_model::position::Position;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;

/// Whether a delivery waits, was delivered or has failed.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// It waits for its turn, for its next attempt, or for an answer.
    Pending = 0,
    /// The receiver has taken it.
    Delivered = 1,
    /// It was given up: nothing more is sent for it.
    Failed = 2,
}

impl DeliveryState {
    /// All states, in the order of their codes.
    pub const ALL: [DeliveryState; 3] = [
        DeliveryState::Pending,
        DeliveryState::Delivered,
        DeliveryState::Failed,
    ];

    /// Reads back what the store wrote.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        DeliveryState::ALL
            .into_iter()
            .find(|state| *state as i64 == code)
    }
}

/// A queue within an endpoint: what stands in it leaves one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneKey {
    /// 0 for what happens now; above, a replay's number; below, the one delivery that was sent
    /// again by hand.
    pub lane: i64,
    /// The number of the event's entity.
    pub entity: EntityNumber,
}

/// The lane of what happens now.
pub const LIVE: i64 = 0;

/// A delivery that waits for its next attempt, or for those before it in its lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its number: later ones are larger.
    pub number: i64,
    /// The lane in which it waits for those before it.
    pub key: LaneKey,
    /// The position of the event among all commits.
    pub position: Position,
    /// How many attempts have been made so far.
    pub attempts: u32,
    /// When it may be tried; none where something before it waits.
    pub due: Option<Timestamp>,
}

/// A delivery that the store has not seen.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDelivery {
    /// The number of the delivery: later ones are larger.
    pub number: i64,
    /// The number of the endpoint's identifier.
    pub endpoint: EntityNumber,
    /// The lane in which it waits for those before it.
    pub key: LaneKey,
    /// The position of the event among all commits.
    pub position: Position,
    /// The kind of the event that is delivered.
    pub kind: EventKind,
    /// When it was made.
    pub at: Timestamp,
    /// What has become of it already.
    pub fate: Fate,
}

/// What has become of a delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct Fate {
    /// Whether it waits, was delivered or has failed.
    pub state: DeliveryState,
    /// How many attempts have been made in all.
    pub attempts: u32,
    /// When it may be tried, where it is pending and the first of its lane.
    pub due: Timestamp,
    /// Attempts that the store has not seen.
    pub log: Vec<Attempt>,
}

/// What becomes of a delivery that the store has.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// An attempt was made, and this came of it.
    Attempted(Fate),
    /// It may be tried from now on.
    Due(Timestamp),
    /// It has ended, and is sent again from now on, in a lane of its own.
    Again(Timestamp),
}

/// What waits of an endpoint counts as failed from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenUp {
    /// The endpoint that is meant.
    pub endpoint: EntityNumber,
    /// Deliveries up to this number; those in lanes below 0 all.
    pub up_to: i64,
    /// The endpoint is no more: its deliveries go.
    pub gone: bool,
}

/// Events of the past that are to be delivered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// The lane in which its deliveries wait: a number above 0.
    pub lane: i64,
    /// The endpoint that it goes to.
    pub endpoint: EntityNumber,
    /// The entity, or the tenant, whose events are read.
    pub tenant: Tenant,
    /// How far the feed of the account and mode has been read for it.
    pub next: StreamOffset,
    /// None behind this position.
    pub last: Position,
    /// No events before this instant.
    pub since: Option<Timestamp>,
    /// No events after this instant.
    pub until: Option<Timestamp>,
    /// Of these kinds; empty: whatever the endpoint wants.
    pub kinds: Vec<EventKind>,
}

/// How a replay begins, goes on or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayChange {
    /// The replay begins: this is what it sends.
    Open(Replay),
    /// Its deliveries up to this offset of the feed are made.
    Reached(i64, StreamOffset),
    /// All its deliveries are made.
    Done(i64),
}

/// How far what happened is matched with endpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Matched {
    /// Everything up to this position is.
    pub position: Position,
    /// Of the event directly behind it, endpoints up to this number are: an event of many takes
    /// several slices.
    pub within: EntityNumber,
}

/// What became of one delivery that the store has.
#[derive(Debug)]
pub struct DeliveryChange {
    /// The number that the delivery got when it was made.
    pub number: i64,
    /// What became of the delivery.
    pub change: Change,
}

/// Since when an endpoint only fails.
#[derive(Debug, Clone, Copy)]
pub struct FailingEndpoint {
    /// The number of the endpoint's identifier.
    pub endpoint: EntityNumber,
    /// Since when it only fails; none where it fails no more.
    pub since: Option<Timestamp>,
}

/// Everything that whoever delivers has to say at once: written whole or not at all, in this order.
#[derive(Debug, Default)]
pub struct DeliverySlice {
    /// How far what happened is matched.
    pub matched: Option<Matched>,
    /// What became of deliveries that the store has, in order.
    pub changes: Vec<DeliveryChange>,
    /// Endpoints that are given up.
    pub given_up: Vec<GivenUp>,
    /// New deliveries, in order of their numbers.
    pub new: Vec<NewDelivery>,
    /// Since when endpoints only fail.
    pub failing: Vec<FailingEndpoint>,
    /// Which replays begin, go on or end.
    pub replays: Vec<ReplayChange>,
    /// Answers that are kept under idempotency keys; they have no rows.
    pub answers: Vec<Commit>,
    /// The instant that the wall clock shows.
    pub now: Timestamp,
    /// Deliveries that ended and were made before this instant may go.
    pub keep_from: Timestamp,
}

/// What is left to be tidied after a slice was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Rows are left that are to be given up or to go: another slice, an empty one too, takes some
    /// of them.
    pub left: bool,
}

/// Why a slice was not written.
#[derive(Debug)]
pub enum Unwritten {
    /// The store is away; it may be written later.
    NotNow(Box<DeliverySlice>),
    /// Something is wrong with it or with the file, which no repetition mends.
    Never,
    /// Another node delivers, from now on or in between.
    Elsewhere,
    /// The store is closed: nothing will be written any more.
    Closed,
}

/// What is asked of an endpoint's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueQuery {
    /// The endpoint that is meant.
    pub endpoint: EntityNumber,
    /// Heads of lanes that are due up to this instant.
    pub until: Timestamp,
    /// How many lanes are given at most.
    pub lanes: usize,
    /// At most so many deliveries; but each lane's head.
    pub deliveries: usize,
}

/// Deliveries that may be tried, by lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueLanes {
    /// By lane: its head and what follows it, in order.
    pub lanes: Vec<Vec<Waiting>>,
    /// When the next head is due that is not among them.
    pub next_due: Option<Timestamp>,
}

/// A delivery as lists show it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredDelivery {
    /// The number of the delivery: later ones are larger.
    pub number: i64,
    /// The lane in which it waits for those before it.
    pub key: LaneKey,
    /// The position of the event among all commits.
    pub position: Position,
    /// When the event was committed.
    pub event_at: Timestamp,
    /// The kind of the event that is delivered.
    pub kind: EventKind,
    /// When the delivery was made.
    pub at: Timestamp,
    /// Whether it waits, was delivered or has failed.
    pub state: DeliveryState,
    /// How many attempts have been made so far.
    pub attempts: u32,
    /// When it may be tried next, where it waits.
    pub due: Option<Timestamp>,
    /// Its attempts; empty in lists.
    pub log: Vec<Attempt>,
}

impl StoredDelivery {
    /// The identifier of the delivery.
    #[must_use]
    pub fn id(&self) -> DeliveryId {
        DeliveryId::of_row(self.at, self.number)
    }

    /// The identifier of the event that is delivered.
    #[must_use]
    pub fn event_id(&self) -> EventId {
        EventId::at_position(self.event_at, self.position)
    }
}

/// Which deliveries of an endpoint are listed.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryQuery {
    /// The account and mode that asks: its reads take turns with others'.
    pub tenant: Tenant,
    /// The number of the endpoint's identifier.
    pub endpoint: EntityNumber,
    /// Only those in this state.
    pub state: Option<DeliveryState>,
    /// Only those of this kind of event.
    pub kind: Option<EventKind>,
    /// Which part; `After` and `Before` hold a delivery's identifier.
    pub paging: Paging,
}

/// An endpoint, as whoever delivers begins with it.
#[derive(Debug, Clone)]
pub struct StoredEndpoint {
    /// The record of the endpoint as it is now.
    pub record: StoredRecord,
    /// The position at which it was made.
    pub made: Position,
    /// What its row said, as of the position that is matched; none where it did not exist then.
    pub as_matched: Option<Bytes>,
    /// How many deliveries to the endpoint wait.
    pub pending: u64,
    /// Since when attempts have only failed.
    pub failing_since: Option<Timestamp>,
}

impl StoredEndpoint {
    /// The identifier of the webhook endpoint.
    #[must_use]
    pub fn id(&self) -> WebhookId {
        WebhookId::from_parts(self.record.subject.number, self.record.subject.tail)
    }
}

/// A replay whose deliveries are not all made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenReplay {
    /// The replay, as far as it has come.
    pub replay: Replay,
    /// How many of its deliveries wait.
    pub waiting: u64,
}

/// What whoever delivers begins with.
#[derive(Debug, Clone, Default)]
pub struct WebhookState {
    /// How far what happened is matched.
    pub matched: Matched,
    /// The last number that a delivery got.
    pub last_delivery: i64,
    /// The last lane that a replay got.
    pub last_lane: i64,
    /// All webhook endpoints of all accounts.
    pub endpoints: Vec<StoredEndpoint>,
    /// Replays whose deliveries are not all made.
    pub replays: Vec<OpenReplay>,
}

/// How many deliveries of an endpoint stand where, and since when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndpointTotals {
    /// How many deliveries to the endpoint wait.
    pub pending: u64,
    /// Deliveries that were taken.
    pub delivered: u64,
    /// Deliveries that were given up.
    pub failed: u64,
    /// When the newest of those that were taken was taken.
    pub last_success_at: Option<Timestamp>,
    /// When the oldest that waits was made.
    pub oldest_pending_at: Option<Timestamp>,
}
