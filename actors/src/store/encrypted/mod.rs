//! A store whose texts are encrypted: whatever people write is encrypted before the store sees it,
//! and opened when it comes out. So one piece of code serves every store, what these carry over,
//! export and import stays encrypted, and nobody above knows of it.
//!
//! Where a store must know what a text says (a redaction, a message's earlier texts), it opens it by
//! [`crate::sealing::texts::opened`].

mod commits;
mod opening;
mod sink;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;

use self::commits::{Account, encrypted};
use self::opening::{Opened, opened_frames};
pub use self::sink::OpeningSink;
use super::{
    ActivityQuery, ActivityRow, AttachmentTaker, AuditLog, AuditQuery, AuditRow, ChainPage,
    CommitLog, ConversationHeader, ConversationQuery, DeliveryQuery, DeliveryRelay, DeliverySlice,
    DeliveryStore, DeliveryTerm, DocumentQuery, DocumentRow, DocumentStore, DueLanes, DueQuery,
    EndpointTotals, EntityRead, ErasableConversation, ErasableQuery, ErasableRecord, ErasureStore,
    EventLog, EventPage, EventQuery, FeedRow, FigureQuery, FigureSlice, FigureStore, FigureTable,
    FramedVersion, Generation, Generations, IndexedDocument, KeptRow, Later, LinkUses, Lists, Made,
    MadeCell, MadeQuery, MessageQuery, NodeRequests, Nodes, Nonce, OwnedConversation,
    OwnedDocument, ReadError, RecordQuery, RelayedRequest, RevisionQuery, Rewrap, Settle,
    SnapshotError, Snapshots, SpentNonces, Store, StoreHealth, StoreKeys, StoreMetric, Stored,
    StoredConversation, StoredDelivery, StoredMessage, StoredPage, StoredRecord, StoredVersion,
    Timed, TimedQuery, TimerStore, Unwritten, UsageQuery, UsageSlice, UsageStore, VersionQuery,
    WebhookState, Written,
};
use crate::sealing::texts::{self, TextError};
use crate::sealing::{MasterKeys, WrappedKey};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{Chore, Commit};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::figures::Milestones;
use colloquy_model::id::{AttachmentId, MessageId, VersionId};
use colloquy_model::idempotency::KeyHash;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;
use colloquy_model::usage::DayUsage;
use colloquy_runtime::{CommitFailure, Incarnation, LoadError};

/// A store whose texts are encrypted under the keys of their accounts.
pub struct EncryptedStore(pub Arc<dyn Store>);

/// What an error of opening means to whoever asked; it is told here. Nobody asks for an account
/// that was forgotten, but who began before.
fn unreadable(error: TextError) -> ReadError {
    match error {
        TextError::Forgotten => ReadError::Unreadable,
        TextError::NoKey | TextError::Damaged => {
            Unreadable::found("an encrypted text", error).into()
        }
    }
}

/// Opens what a store gives.
fn opening<T: Opened + Send + 'static>(
    reading: Later<Result<T, ReadError>>,
) -> Later<Result<T, ReadError>> {
    Box::pin(async move { reading.await?.opened().map_err(unreadable) })
}

/// What was read; none of an account that was forgotten, as if it had never been there.
fn unless_forgotten<T>(found: Result<Option<T>, TextError>) -> Result<Option<T>, ReadError> {
    match found {
        Err(TextError::Forgotten) => Ok(None),
        found => found.map_err(unreadable),
    }
}

impl Store for EncryptedStore {
    fn close(&self) {
        self.0.close();
    }

    fn healthy(&self) -> bool {
        self.0.healthy()
    }

    fn nodes(&self) -> Arc<dyn Nodes> {
        self.0.nodes()
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        self.0.metrics()
    }

    fn health(&self) -> StoreHealth {
        self.0.health()
    }
}

impl StoreKeys for EncryptedStore {
    fn master_keys(&self) -> &MasterKeys {
        self.0.master_keys()
    }

    fn store_key(&self) -> Later<Result<WrappedKey, ReadError>> {
        self.0.store_key()
    }

    fn rewrap(&self, change: Rewrap) -> Later<Result<bool, ReadError>> {
        self.0.rewrap(change)
    }
}

impl CommitLog for EncryptedStore {
    fn submit(&self, incarnation: Incarnation, commit: Commit, settle: Settle) {
        match encrypted(commit) {
            Ok(commit) => self.0.submit(incarnation, commit, settle),
            Err(error) => {
                unreadable(error);
                settle(Err(CommitFailure::Unavailable));
            }
        }
    }

    fn barrier(&self, subject: Subject, incarnation: Incarnation, settle: Settle) {
        self.0.barrier(subject, incarnation, settle);
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn confirm(&self, read: EntityRead, settle: Settle) {
        self.0.confirm(read, settle);
    }

    fn load(&self, subject: Subject) -> Later<Result<Option<Stored>, LoadError>> {
        loading(self.0.load(subject))
    }

    fn reload(&self, subject: Subject) -> Later<Result<Option<Stored>, LoadError>> {
        loading(self.0.reload(subject))
    }

    fn kept(&self, position: Position) -> Later<Result<Option<KeptRow>, ReadError>> {
        opening(self.0.kept(position))
    }

    fn older_key(
        &self,
        slices: Vec<i64>,
        key: KeyHash,
    ) -> Later<Result<Option<Position>, ReadError>> {
        self.0.older_key(slices, key)
    }
}

fn loading(
    loading: Later<Result<Option<Stored>, LoadError>>,
) -> Later<Result<Option<Stored>, LoadError>> {
    Box::pin(async move {
        let found = loading.await?.opened();
        unless_forgotten(found).map_err(LoadError::from)
    })
}

impl Lists for EncryptedStore {
    /// The store has read it, to know what it is.
    fn message(
        &self,
        conversation: Subject,
        message: MessageId,
    ) -> Later<Result<Option<StoredMessage>, ReadError>> {
        self.0.message(conversation, message)
    }

    /// The same.
    fn shown_message(
        &self,
        conversation: Subject,
        message: MessageId,
    ) -> Later<Result<Option<StoredMessage>, ReadError>> {
        self.0.shown_message(conversation, message)
    }

    /// The same.
    fn revisions(
        &self,
        query: RevisionQuery,
    ) -> Later<Result<Option<StoredPage<Bytes>>, ReadError>> {
        self.0.revisions(query)
    }

    fn messages(
        &self,
        query: MessageQuery,
    ) -> Later<Result<Option<StoredPage<Arc<str>>>, ReadError>> {
        opening(self.0.messages(query))
    }

    fn conversations(
        &self,
        query: ConversationQuery,
    ) -> Later<Result<StoredPage<ConversationHeader>, ReadError>> {
        opening(self.0.conversations(query))
    }

    fn conversations_among(
        &self,
        tenant: Tenant,
        numbers: Arc<[EntityNumber]>,
    ) -> Later<Result<Vec<ConversationHeader>, ReadError>> {
        opening(self.0.conversations_among(tenant, numbers))
    }

    fn conversations_behind(
        &self,
        number: EntityNumber,
        most: u32,
    ) -> Later<Result<Vec<OwnedConversation>, ReadError>> {
        self.0.conversations_behind(number, most)
    }

    fn records(&self, query: RecordQuery) -> Later<Result<StoredPage<StoredRecord>, ReadError>> {
        if !matches!(query.kind, Kind::Customer | Kind::Attachment) {
            return self.0.records(query);
        }
        let account = Account(query.tenant.account_number());
        let names = query.names.iter().map(|name| account.name(name));
        match names.collect() {
            Ok(names) => opening(self.0.records(RecordQuery { names, ..query })),
            Err(error) => Box::pin(std::future::ready(Err(unreadable(error)))),
        }
    }

    fn attachment_taker(
        &self,
        tenant: Tenant,
        attachment: AttachmentId,
    ) -> Later<Result<AttachmentTaker, ReadError>> {
        self.0.attachment_taker(tenant, attachment)
    }
}

impl ErasureStore for EncryptedStore {
    fn erasable(
        &self,
        query: ErasableQuery,
    ) -> Later<Result<Vec<ErasableConversation>, ReadError>> {
        self.0.erasable(query)
    }

    /// There is no text in it.
    fn load_to_erase(
        &self,
        conversation: Subject,
    ) -> Later<Result<Option<StoredConversation>, ReadError>> {
        self.0.load_to_erase(conversation)
    }

    fn record_to_erase(&self, record: Subject) -> Later<Result<Option<ErasableRecord>, ReadError>> {
        self.0.record_to_erase(record)
    }

    fn text_bytes_of(&self, conversation: EntityNumber) -> Later<Result<i64, ReadError>> {
        self.0.text_bytes_of(conversation)
    }

    fn attachments_of(
        &self,
        conversation: EntityNumber,
    ) -> Later<Result<Vec<AttachmentId>, ReadError>> {
        self.0.attachments_of(conversation)
    }

    fn still_erasing(
        &self,
        entities: Vec<EntityNumber>,
    ) -> Later<Result<Vec<EntityNumber>, ReadError>> {
        self.0.still_erasing(entities)
    }
}

impl EventLog for EncryptedStore {
    fn events(&self, query: EventQuery) -> Later<Result<Option<EventPage>, ReadError>> {
        opening(self.0.events(query))
    }

    fn happened_behind(
        &self,
        position: Position,
        limit: u32,
    ) -> Later<Result<Vec<FeedRow>, ReadError>> {
        let reading = self.0.happened_behind(position, limit);
        Box::pin(async move {
            let rows = reading.await?.into_iter();
            let opened = |row: FeedRow| unless_forgotten(row.opened().map(Some)).transpose();
            rows.filter_map(opened).collect()
        })
    }

    fn event_at(&self, position: Position) -> Later<Result<Option<Arc<Event>>, ReadError>> {
        let reading = self.0.event_at(position);
        Box::pin(async move { unless_forgotten(reading.await?.opened()) })
    }

    fn request_at(&self, position: Position) -> Later<Result<Option<String>, ReadError>> {
        self.0.request_at(position)
    }

    fn catch_up(&self) -> Later<Result<(), ReadError>> {
        self.0.catch_up()
    }
}

impl AuditLog for EncryptedStore {
    fn audit(&self, query: AuditQuery) -> Later<Result<StoredPage<AuditRow>, ReadError>> {
        let reading = self.0.audit(query);
        Box::pin(async move {
            let mut page = reading.await?;
            for row in &mut page.items {
                row.payload = unless_forgotten(row.payload.take().opened())?;
                row.before = unless_forgotten(row.before.take().opened())?;
            }
            Ok(page)
        })
    }

    fn chain(&self, position: Position, most: u32) -> Later<Result<ChainPage, ReadError>> {
        self.0.chain(position, most)
    }
}

impl DocumentStore for EncryptedStore {
    fn documents(&self, query: DocumentQuery) -> Later<Result<StoredPage<DocumentRow>, ReadError>> {
        opening(self.0.documents(query))
    }

    fn versions(
        &self,
        mut query: VersionQuery,
    ) -> Later<Result<StoredPage<StoredVersion>, ReadError>> {
        let account = Account(query.tenant.account_number());
        let branch = query.branch.as_mut();
        match branch.map_or(Ok(()), |branch| account.branch(branch)) {
            Ok(()) => opening(self.0.versions(query)),
            Err(error) => Box::pin(std::future::ready(Err(unreadable(error)))),
        }
    }

    fn document(
        &self,
        tenant: Tenant,
        number: EntityNumber,
    ) -> Later<Result<Option<IndexedDocument>, ReadError>> {
        opening(self.0.document(tenant, number))
    }

    fn version(
        &self,
        whom: Tenant,
        document: Subject,
        number: u64,
    ) -> Later<Result<Option<FramedVersion>, ReadError>> {
        let reading = self.0.version(whom, document, number);
        Box::pin(async move {
            let version = reading.await?.map(opened_frames).transpose();
            version.map_err(unreadable)
        })
    }

    fn version_ids(
        &self,
        whom: Tenant,
        document: Subject,
        numbers: Vec<u64>,
    ) -> Later<Result<Vec<VersionId>, ReadError>> {
        self.0.version_ids(whom, document, numbers)
    }

    fn activity(&self, query: ActivityQuery) -> Later<Result<StoredPage<ActivityRow>, ReadError>> {
        opening(self.0.activity(query))
    }

    fn link(&self, hash: [u8; 32]) -> Later<Result<Option<OwnedDocument>, ReadError>> {
        let reading = self.0.link(hash);
        Box::pin(async move {
            let found = reading.await?;
            Ok(found.filter(|document| !texts::is_forgotten(document.tenant.account_number())))
        })
    }

    fn link_uses(&self, document: Subject) -> Later<Result<Vec<LinkUses>, ReadError>> {
        self.0.link_uses(document)
    }

    fn overdue_documents(
        &self,
        before: Timestamp,
        most: u32,
    ) -> Later<Result<Vec<OwnedDocument>, ReadError>> {
        self.0.overdue_documents(before, most)
    }

    fn documents_behind(
        &self,
        number: EntityNumber,
        most: u32,
    ) -> Later<Result<Vec<OwnedDocument>, ReadError>> {
        self.0.documents_behind(number, most)
    }
}

impl DeliveryStore for EncryptedStore {
    fn deliver(&self, slice: Box<DeliverySlice>) -> Later<Result<Written, Unwritten>> {
        self.0.deliver(slice)
    }

    fn begin_deliveries(&self) -> Later<Result<Position, ReadError>> {
        self.0.begin_deliveries()
    }

    fn webhook_state(&self) -> Later<Result<WebhookState, ReadError>> {
        self.0.webhook_state()
    }

    fn due(&self, query: DueQuery) -> Later<Result<DueLanes, ReadError>> {
        self.0.due(query)
    }

    fn deliveries(
        &self,
        query: DeliveryQuery,
    ) -> Later<Result<StoredPage<StoredDelivery>, ReadError>> {
        opening(self.0.deliveries(query))
    }

    fn delivery(
        &self,
        endpoint: EntityNumber,
        number: i64,
    ) -> Later<Result<Option<StoredDelivery>, ReadError>> {
        opening(self.0.delivery(endpoint, number))
    }

    fn endpoint_totals(
        &self,
        endpoints: Vec<EntityNumber>,
    ) -> Later<Result<Vec<EndpointTotals>, ReadError>> {
        self.0.endpoint_totals(endpoints)
    }
}

impl DeliveryRelay for EncryptedStore {
    fn delivery_term(&self) -> Option<DeliveryTerm> {
        self.0.delivery_term()
    }

    fn relay(&self, body: Vec<u8>) -> Later<Result<Vec<u8>, ReadError>> {
        self.0.relay(body)
    }

    fn relayed(&self) -> Later<Vec<RelayedRequest>> {
        self.0.relayed()
    }

    fn answer_relayed(&self, id: String, answer: Vec<u8>) -> Later<()> {
        self.0.answer_relayed(id, answer)
    }
}

impl TimerStore for EncryptedStore {
    fn chores(&self) -> Later<Result<Vec<Chore>, ReadError>> {
        self.0.chores()
    }

    fn chore_done(&self, chore: Chore) {
        self.0.chore_done(chore);
    }

    fn timed(&self, query: TimedQuery) -> Later<Result<Vec<Timed>, ReadError>> {
        self.0.timed(query)
    }
}

/// Figures are counts and times, and no texts.
impl FigureStore for EncryptedStore {
    fn begin_counting(&self) -> Later<Result<Generations, ReadError>> {
        self.0.begin_counting()
    }

    fn generations(&self) -> Later<Result<Generations, ReadError>> {
        self.0.generations()
    }

    fn count(&self, slice: Box<FigureSlice>) -> Later<Result<bool, ReadError>> {
        self.0.count(slice)
    }

    fn milestones(
        &self,
        generation: Generation,
        conversations: Vec<EntityNumber>,
    ) -> Later<Result<Vec<(EntityNumber, Milestones)>, ReadError>> {
        self.0.milestones(generation, conversations)
    }

    fn figures(&self, query: FigureQuery) -> Later<Result<FigureTable, ReadError>> {
        self.0.figures(query)
    }

    fn made(&self, query: MadeQuery) -> Later<Result<Vec<(MadeCell, Made)>, ReadError>> {
        self.0.made(query)
    }

    fn begin_rebuild(&self) -> Later<Result<bool, ReadError>> {
        self.0.begin_rebuild()
    }

    fn end_rebuild(&self) -> Later<Result<bool, ReadError>> {
        self.0.end_rebuild()
    }
}

impl SpentNonces for EncryptedStore {
    fn spend(&self, nonce: Nonce) -> Later<Result<bool, ReadError>> {
        self.0.spend(nonce)
    }
}

/// Numbers only.
impl Snapshots for EncryptedStore {
    fn takes_snapshots(&self) -> bool {
        self.0.takes_snapshots()
    }

    fn snapshot(
        &self,
        into: PathBuf,
        unsynced: Arc<AtomicBool>,
    ) -> Later<Result<Position, SnapshotError>> {
        self.0.snapshot(into, unsynced)
    }
}

impl UsageStore for EncryptedStore {
    fn add_usage(&self, slice: Arc<UsageSlice>) -> Later<Result<(), ReadError>> {
        self.0.add_usage(slice)
    }

    fn usage(&self, query: UsageQuery) -> Later<Result<Vec<DayUsage>, ReadError>> {
        self.0.usage(query)
    }

    fn requests_since(&self, day: Timestamp) -> Later<Result<Vec<NodeRequests>, ReadError>> {
        self.0.requests_since(day)
    }
}
