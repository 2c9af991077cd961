//! What is committed. One trait, implemented by `sqlite`; `contract` is the suite that every store
//! passes.
//!
//! A [`Commit`] takes effect whole or not at all, and only directly after the sequence that it
//! expects: the fence. Each of its rows is an event with its (entity, sequence) and a global
//! position, given in commit order: so an event exists if and only if its change does, and what
//! happened can be read by position.

mod audit;
mod audit_chain;
mod broadcast;
mod delivery;
mod digest;
mod documents;
mod encrypted;
mod erasable;
mod eraser;
mod figures;
mod finding;
mod first_start_mark;
mod key_filter;
mod list_failure;
mod metrics;
mod nodes;
mod nonces;
mod operator;
mod relay;
mod sink;
mod snapshots;
mod store_keys;
mod stored;
mod tickets;
mod transfer;
mod transfer_bytes;
mod transfer_items;
mod usage;
mod writer_metrics;

pub mod mongodb;
pub mod sqlite;

#[cfg(test)]
mod contract;

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

pub use audit::{AuditQuery, AuditRow};
pub use audit_chain::{Broken, ChainHead, ChainPage, ChainRecord, Link, NUMBERS, from_hex, to_hex};
pub use broadcast::{Broadcast, Heard, Listener, Topic};
pub use delivery::{
    Change, DeliveryChange, DeliveryQuery, DeliverySlice, DeliveryState, DueLanes, DueQuery,
    EndpointTotals, FailingEndpoint, Fate, GivenUp, LIVE, LaneKey, Matched, NewDelivery,
    OpenReplay, Replay, ReplayChange, StoredDelivery, StoredEndpoint, Unwritten, Waiting,
    WebhookState, Written,
};
pub use documents::{
    ActivityQuery, ActivityRow, DocumentOrder, DocumentQuery, DocumentRow, FramedVersion,
    IndexedDocument, LinkUses, OwnedDocument, StoredComment, StoredDocument, StoredVersion,
    VersionQuery,
};
pub use encrypted::{EncryptedStore, OpeningSink};
pub use erasable::{ErasableConversation, ErasableQuery, ErasableRecord, Erasing};
pub use figures::{
    Assignees, FigureGroup, FigureQuery, FigureSlice, FigureStore, FigureTable, Generation,
    GenerationMark, Generations, Grouping, Made, MadeCell, MadeQuery,
};
pub use finding::{Finding, KnownAttachment};
pub use first_start_mark::FirstStartMark;
pub use key_filter::{KeyFilter, KeyPosition, KeySlice, ShortKey, short_key};
pub use list_failure::ListFailure;
pub use metrics::{BatchSizes, Checkpoint, StoreHealth, StoreMetric, StoreValue};
pub use nodes::{DescribeNode, NodeFigures, Nodes, OnlyNode, ToMake};
pub use nonces::{Nonce, SpentNonces};
pub use operator::Operator;
pub use relay::{DeliveryRelay, DeliveryTerm, RelayedRequest};
pub use sink::{
    CommitSink, Committed, CommittedBatch, FirstRow, Followed, FollowedChange, HeldName, KeyCache,
    KeyUse, RECOVERED,
};
pub use snapshots::{SnapshotError, Snapshots};
pub use store_keys::{Rewrap, StoreKeys};
pub use stored::{
    AttachmentTaker, ConversationHeader, ConversationQuery, EventPage, EventQuery, Facets, FeedRow,
    KeptRow, MessageQuery, OwnedConversation, RecordQuery, RevisionQuery, Stored,
    StoredConversation, StoredMessage, StoredPage, StoredRecord, Timed, TimedCursor, TimedQuery,
    Timing,
};
pub use tickets::{SharedTickets, Ticket};
pub use usage::{AccountUsage, NodeRequests, UsageQuery, UsageSlice, UsageStore};

pub use transfer::{Export, Import, ImportMark, ImportProgress, Item, TransferError};
pub use transfer_bytes::{Base64, Text};
pub use transfer_items::{
    ActorItem, AnswerItem, ChoreItem, CommentItem, ConversationItem, CounterItem, DeliveryItem,
    DepartedItem, DocumentItem, EndpointItem, EventItem, FeedItem, FigureAssigneeItem, FigureItem,
    KeyUseItem, LinkUseItem, MadeItem, Marks, MilestonesItem, NameItem, OperatorItem, ReaderItem,
    RecordItem, RenameItem, ReplayItem, TakenAttachmentItem, UsageItem, VersionItem,
};

use colloquy_model::caller::Tenant;
use colloquy_model::commit::{Chore, Commit, ConstraintViolation};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::id::{AttachmentId, MessageId, VersionId};
use colloquy_model::idempotency::KeyHash;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{AskError, Cause, CommitFailure, Incarnation, LoadError};

/// Called once, on the store's thread, when a commit's fate is known.
pub type Settle = Box<dyn FnOnce(Result<(), CommitFailure<ConstraintViolation>>) + Send>;

/// What an answer was made from, without a commit.
#[derive(Debug, Clone, Copy)]
pub struct EntityRead {
    /// The entity that was read.
    pub subject: Subject,
    /// The load of the entity from which it was read.
    pub incarnation: Incarnation,
    /// The sequence of the last row that it had.
    pub sequence: Sequence,
}

/// An answer that comes later.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Why a list could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It took longer than a list may.
    #[error("the list took too long")]
    TooSlow,
    /// Too many others were asked for: its turn did not come, and nothing was read.
    #[error("too much is being read")]
    Busy,
    /// The store can't be reached.
    #[error("the store is away")]
    Away,
    /// What is stored can't be read; that was told where it was found.
    #[error("what is stored can't be read")]
    Unreadable,
    /// The thing that this parameter names was never in the list.
    #[error("`{0}` names nothing in the list")]
    NoCursor(&'static str),
    /// Retention has taken what follows this place in the list of events.
    #[error("the cursor has expired")]
    Expired,
}

impl From<ReadError> for LoadError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Unreadable => LoadError::Unreadable,
            ReadError::TooSlow | ReadError::Busy => LoadError::Busy,
            ReadError::Away | ReadError::NoCursor(_) | ReadError::Expired => LoadError::Unavailable,
        }
    }
}

impl From<Unreadable> for ReadError {
    fn from(_: Unreadable) -> Self {
        ReadError::Unreadable
    }
}

/// A store of committed changes.
///
/// Reads show every commit that was settled before they were asked. Accounts take turns with them;
/// whoever drops the answer has left, and nothing is read for him any more.
pub trait Store:
    CommitLog
    + Lists
    + EventLog
    + AuditLog
    + DocumentStore
    + DeliveryStore
    + DeliveryRelay
    + TimerStore
    + ErasureStore
    + FigureStore
    + SpentNonces
    + Snapshots
    + StoreKeys
    + UsageStore
{
    /// Waits until everything submitted is settled, writes down what lags, and closes. Nothing may
    /// be asked after.
    fn close(&self);

    /// Whether the last attempt to write worked.
    fn healthy(&self) -> bool;

    /// The processes that serve this store.
    fn nodes(&self) -> Arc<dyn Nodes>;

    /// Counters and gauges for operators.
    fn metrics(&self) -> Vec<StoreMetric>;

    /// How large it is, how fast it commits, and what waits for it.
    fn health(&self) -> StoreHealth;
}

impl dyn Store {
    /// Commits what no actor owns, and waits until it is known what became of that.
    pub(crate) async fn commit(
        &self,
        commit: Commit,
    ) -> Result<(), CommitFailure<ConstraintViolation>> {
        let (settle, settled) = oneshot::channel();
        let settle = Box::new(move |outcome| {
            // Whoever asked may have left.
            let _ = settle.send(outcome);
        });
        self.submit(Incarnation::next(), commit, settle);
        settled.await.unwrap_or(Err(CommitFailure::Unknown))
    }

    /// Commits that an entity goes which no actor can begin with, because what is stored of it can't
    /// be read.
    ///
    /// # Errors
    /// It has gone meanwhile, which is refused with `gone`. Or the store is away, or the entity has
    /// changed meanwhile: nothing was done. Or the commit's outcome is not known.
    pub(crate) async fn commit_end<R>(&self, commit: Commit, gone: R) -> Result<(), AskError<R>> {
        let subject = commit.subject;
        match self.commit(commit).await {
            Ok(()) => Ok(()),
            // Somebody else was faster: there is nothing left to be done.
            Err(CommitFailure::Conflict) => match self.reload(subject).await {
                Ok(None) => Err(AskError::Refused(gone)),
                Ok(Some(_)) | Err(_) => Err(AskError::unavailable(Cause::Conflict)),
            },
            Err(CommitFailure::Unavailable | CommitFailure::Violated(_)) => {
                Err(AskError::unavailable(Cause::StoreUnavailable))
            }
            Err(CommitFailure::Unknown) => Err(AskError::Unknown),
        }
    }
}

/// Takes commits, in order and once, and gives back what was committed of one entity.
pub trait CommitLog: Send + Sync + 'static {
    /// Commits, in the order of submission for each subject. After a commit of an incarnation
    /// failed otherwise than by a broken condition, everything later of the same incarnation fails
    /// too.
    fn submit(&self, incarnation: Incarnation, commit: Commit, settle: Settle);

    /// Settles when all that was submitted before for this subject is durable; fails if something
    /// of this incarnation failed.
    fn barrier(&self, subject: Subject, incarnation: Incarnation, settle: Settle);

    /// Whether others commit here, too: then what an entity holds in memory may be old.
    fn is_shared(&self) -> bool;

    /// The same as a barrier, and a conflict where somebody else has committed behind what was read
    /// of the entity.
    fn confirm(&self, read: EntityRead, settle: Settle);

    /// The entity as it is committed.
    fn load(&self, subject: Subject) -> Later<Result<Option<Stored>, LoadError>>;

    /// The same, behind everything submitted before; lifts the ban that a failed commit left.
    fn reload(&self, subject: Subject) -> Later<Result<Option<Stored>, LoadError>>;

    /// The answer that was kept in the row at this position.
    fn kept(&self, position: Position) -> Later<Result<Option<KeptRow>, ReadError>>;

    /// The position of the answer under a key that was put behind into one of these slices.
    fn older_key(
        &self,
        slices: Vec<i64>,
        key: KeyHash,
    ) -> Later<Result<Option<Position>, ReadError>>;
}

/// Pages of conversations, messages and records, and single messages.
pub trait Lists: Send + Sync + 'static {
    /// A message as it stands; it costs the same however often it was edited.
    fn message(
        &self,
        conversation: Subject,
        message: MessageId,
    ) -> Later<Result<Option<StoredMessage>, ReadError>>;

    /// The same for whoever reads it outside of its conversation's actor: none where the conversation
    /// is gone for good.
    fn shown_message(
        &self,
        conversation: Subject,
        message: MessageId,
    ) -> Later<Result<Option<StoredMessage>, ReadError>> {
        self.message(conversation, message)
    }

    /// A page of a message's earlier texts, as JSON.
    fn revisions(
        &self,
        query: RevisionQuery,
    ) -> Later<Result<Option<StoredPage<Bytes>>, ReadError>>;

    /// A page of messages, as JSON.
    fn messages(
        &self,
        query: MessageQuery,
    ) -> Later<Result<Option<StoredPage<Arc<str>>>, ReadError>>;

    /// A page of the conversations of an account and mode.
    fn conversations(
        &self,
        query: ConversationQuery,
    ) -> Later<Result<StoredPage<ConversationHeader>, ReadError>>;

    /// The headers of these conversations of an account and mode, in this order; those that are not
    /// there are left out.
    fn conversations_among(
        &self,
        tenant: Tenant,
        numbers: Arc<[EntityNumber]>,
    ) -> Later<Result<Vec<ConversationHeader>, ReadError>>;

    /// Conversations of all accounts, by number, behind this one.
    fn conversations_behind(
        &self,
        number: EntityNumber,
        most: u32,
    ) -> Later<Result<Vec<OwnedConversation>, ReadError>>;

    /// A page of the records of one kind of an account and mode.
    fn records(&self, query: RecordQuery) -> Later<Result<StoredPage<StoredRecord>, ReadError>>;

    /// Which conversation has taken this attachment for one of its messages.
    fn attachment_taker(
        &self,
        tenant: Tenant,
        attachment: AttachmentId,
    ) -> Later<Result<AttachmentTaker, ReadError>>;
}

/// What whoever erases conversations asks, of those that can't be read and that are gone, too.
pub trait ErasureStore: Send + Sync + 'static {
    /// The next conversations that may have to be erased, also those that can't be read.
    fn erasable(&self, query: ErasableQuery)
    -> Later<Result<Vec<ErasableConversation>, ReadError>>;

    /// A conversation as it is to be erased: without its texts, and with what it most likely was where
    /// its header can't be read. None where it is not there.
    fn load_to_erase(
        &self,
        conversation: Subject,
    ) -> Later<Result<Option<StoredConversation>, ReadError>>;

    /// A record as it is to be erased, whatever of it can't be read. None where it is not there.
    fn record_to_erase(&self, record: Subject) -> Later<Result<Option<ErasableRecord>, ReadError>>;

    /// By how many bytes a conversation's events have changed the texts of its account.
    fn text_bytes_of(&self, conversation: EntityNumber) -> Later<Result<i64, ReadError>>;

    /// The attachments that a conversation has taken, those that were deleted since too.
    fn attachments_of(
        &self,
        conversation: EntityNumber,
    ) -> Later<Result<Vec<AttachmentId>, ReadError>>;

    /// Those of these erased entities of which a file or a collection may still hold a text.
    fn still_erasing(
        &self,
        entities: Vec<EntityNumber>,
    ) -> Later<Result<Vec<EntityNumber>, ReadError>>;
}

/// What happened, read by position or by the place in one entity or account.
pub trait EventLog: Send + Sync + 'static {
    /// A page of events; none where the entity is not there.
    fn events(&self, query: EventQuery) -> Later<Result<Option<EventPage>, ReadError>>;

    /// Events of all accounts, what became of webhook endpoints and customers' new names, behind this
    /// position and in its order: the next `limit` of them. Nothing that retention took away.
    fn happened_behind(
        &self,
        position: Position,
        limit: u32,
    ) -> Later<Result<Vec<FeedRow>, ReadError>>;

    /// The event at this position as it stands now; none where there is none, or retention took it
    /// away.
    fn event_at(&self, position: Position) -> Later<Result<Option<Arc<Event>>, ReadError>>;

    /// The request that did what stands at this position; none where nothing stands there.
    fn request_at(&self, position: Position) -> Later<Result<Option<String>, ReadError>>;

    /// Waits until the sink was told of all that any process has acknowledged before.
    ///
    /// # Errors
    /// The store is away.
    fn catch_up(&self) -> Later<Result<(), ReadError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The log as the audit trail.
pub trait AuditLog: Send + Sync + 'static {
    /// A page of the audit trail.
    fn audit(&self, query: AuditQuery) -> Later<Result<StoredPage<AuditRow>, ReadError>>;

    /// Records of the chain behind this position, at most so many, and its end as of that moment.
    fn chain(&self, position: Position, most: u32) -> Later<Result<ChainPage, ReadError>>;
}

/// Documents, their versions and what was done to them.
pub trait DocumentStore: Send + Sync + 'static {
    /// A page of the documents of an account and mode.
    fn documents(&self, query: DocumentQuery) -> Later<Result<StoredPage<DocumentRow>, ReadError>>;

    /// A page of a document's versions.
    fn versions(&self, query: VersionQuery) -> Later<Result<StoredPage<StoredVersion>, ReadError>>;

    /// A document by its number; for the server itself.
    fn document(
        &self,
        tenant: Tenant,
        number: EntityNumber,
    ) -> Later<Result<Option<IndexedDocument>, ReadError>>;

    /// A version, and the frames from which its content is made, the keyframe first. It is read in
    /// the turn of this account, or the server's own.
    fn version(
        &self,
        whom: Tenant,
        document: Subject,
        number: u64,
    ) -> Later<Result<Option<FramedVersion>, ReadError>>;

    /// The identifiers of a document's versions with these numbers, read in the turn of this
    /// account.
    fn version_ids(
        &self,
        whom: Tenant,
        document: Subject,
        numbers: Vec<u64>,
    ) -> Later<Result<Vec<VersionId>, ReadError>>;

    /// A page of what was done to a document.
    fn activity(&self, query: ActivityQuery) -> Later<Result<StoredPage<ActivityRow>, ReadError>>;

    /// The document to which the share link with this hash leads.
    fn link(&self, hash: [u8; 32]) -> Later<Result<Option<OwnedDocument>, ReadError>>;

    /// How often each share link of a document has been used, as far as was acknowledged before.
    fn link_uses(&self, document: Subject) -> Later<Result<Vec<LinkUses>, ReadError>>;

    /// Documents that have been in the bin since before this instant, oldest first.
    fn overdue_documents(
        &self,
        before: Timestamp,
        most: u32,
    ) -> Later<Result<Vec<OwnedDocument>, ReadError>>;

    /// Documents of all accounts, those in the bin too, by number, behind this one.
    fn documents_behind(
        &self,
        number: EntityNumber,
        most: u32,
    ) -> Later<Result<Vec<OwnedDocument>, ReadError>>;
}

/// Deliveries to webhook endpoints: the queue, and what became of each.
pub trait DeliveryStore: Send + Sync + 'static {
    /// Writes what became of deliveries, whole or not at all.
    fn deliver(&self, slice: Box<DeliverySlice>) -> Later<Result<Written, Unwritten>>;

    /// Lets deliveries and replays go of endpoints that are no more, behind all slices that were
    /// handed in before. Gives the last position then: every deletion up to it has been seen to.
    fn begin_deliveries(&self) -> Later<Result<Position, ReadError>>;

    /// What whoever delivers begins with.
    fn webhook_state(&self) -> Later<Result<WebhookState, ReadError>>;

    /// Deliveries of an endpoint that are due, with what follows them in their lanes.
    fn due(&self, query: DueQuery) -> Later<Result<DueLanes, ReadError>>;

    /// A page of an endpoint's deliveries.
    fn deliveries(
        &self,
        query: DeliveryQuery,
    ) -> Later<Result<StoredPage<StoredDelivery>, ReadError>>;

    /// One delivery of an endpoint, with its log.
    fn delivery(
        &self,
        endpoint: EntityNumber,
        number: i64,
    ) -> Later<Result<Option<StoredDelivery>, ReadError>>;

    /// How these endpoints fare, in their order.
    fn endpoint_totals(
        &self,
        endpoints: Vec<EntityNumber>,
    ) -> Later<Result<Vec<EndpointTotals>, ReadError>>;
}

/// What is to be done without anybody asking: chores that commits left, and times that have come.
pub trait TimerStore: Send + Sync + 'static {
    /// Chores that a commit left to be done.
    fn chores(&self) -> Later<Result<Vec<Chore>, ReadError>>;

    /// Takes a chore off the list.
    fn chore_done(&self, chore: Chore);

    /// Conversations whose time has come, and the first whose time has not.
    fn timed(&self, query: TimedQuery) -> Later<Result<Vec<Timed>, ReadError>>;
}
