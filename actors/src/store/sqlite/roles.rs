//! The embedded store in each of its roles: which thread does what is asked.
//!
//! Commits and deliveries go to the writer, reads to the connections for what is asked: what actors
//! wait for, lists, contents, streams, and what the server asks by itself.

use super::file::log_of;
use super::snapshots::{self, Asked};
use super::work::{FigureChange, Work};
use super::{
    ReadClass, SqliteStore, activity, audit, chain, chores, conditions, delivery_lists,
    document_lists, document_loads, erasable, erasing, events, figures, identifiers, lists, loads,
    message_lists, older_keys, revisions, store_key, timed, usage, versions,
};
use crate::sealing::{MasterKeys, WrappedKey};
use crate::store::digest::payload_digests;
use crate::store::{
    ActivityQuery, ActivityRow, AttachmentTaker, AuditLog, AuditQuery, AuditRow, ChainPage,
    CommitLog, ConversationHeader, ConversationQuery, DeliveryQuery, DeliveryRelay, DeliverySlice,
    DeliveryStore, DocumentQuery, DocumentRow, DocumentStore, DueLanes, DueQuery, EndpointTotals,
    EntityRead, ErasableConversation, ErasableQuery, ErasableRecord, ErasureStore, EventLog,
    EventPage, EventQuery, FeedRow, FigureQuery, FigureSlice, FigureStore, FigureTable,
    FramedVersion, Generation, Generations, IndexedDocument, KeptRow, Later, LinkUses, Lists, Made,
    MadeCell, MadeQuery, MessageQuery, NodeRequests, Nodes, Nonce, OwnedConversation,
    OwnedDocument, ReadError, RecordQuery, RevisionQuery, Rewrap, Settle, SnapshotError, Snapshots,
    SpentNonces, Store, StoreHealth, StoreKeys, StoreMetric, Stored, StoredConversation,
    StoredDelivery, StoredMessage, StoredPage, StoredRecord, StoredVersion, Timed, TimedQuery,
    TimerStore, Unwritten, UsageQuery, UsageSlice, UsageStore, VersionQuery, WebhookState, Written,
};
use bytes::Bytes;
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{Chore, Commit};
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::event_source::EventSource;
use colloquy_model::figures::Milestones;
use colloquy_model::id::{AttachmentId, MessageId, VersionId};
use colloquy_model::idempotency::KeyHash;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;
use colloquy_model::usage::DayUsage;
use colloquy_runtime::{CommitFailure, Incarnation, LoadError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use tokio::sync::oneshot;

impl CommitLog for SqliteStore {
    fn submit(&self, incarnation: Incarnation, commit: Commit, settle: Settle) {
        let digests = payload_digests(&commit);
        if let Err(Work::Commit { settle, .. }) = self.send(Work::Commit {
            incarnation,
            commit: Box::new(commit),
            digests,
            settle,
        }) {
            settle(Err(CommitFailure::Unavailable));
        }
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn confirm(&self, read: EntityRead, settle: Settle) {
        self.barrier(read.subject, read.incarnation, settle);
    }

    fn barrier(&self, subject: Subject, incarnation: Incarnation, settle: Settle) {
        if let Err(Work::Barrier { settle, .. }) = self.send(Work::Barrier {
            subject,
            incarnation,
            settle,
        }) {
            settle(Err(CommitFailure::Unavailable));
        }
    }

    fn load(&self, subject: Subject) -> Later<Result<Option<Stored>, LoadError>> {
        let found = self
            .loads
            .read(ReadClass::Entities(subject.kind), move |connection| {
                loads::load(connection, subject)
            });
        Box::pin(async move { Ok(found.await?) })
    }

    fn reload(&self, subject: Subject) -> Later<Result<Option<Stored>, LoadError>> {
        let (reply, answer) = oneshot::channel();
        // Unsent, the reply is dropped and the answer is that the store is away.
        let _ = self.send(Work::Reload { subject, reply });
        Box::pin(async move { answer.await.unwrap_or(Err(LoadError::Unavailable)) })
    }

    fn kept(&self, position: Position) -> Later<Result<Option<KeptRow>, ReadError>> {
        self.loads.read(ReadClass::SERVER, move |connection| {
            loads::kept(connection, position)
        })
    }

    fn older_key(
        &self,
        slices: Vec<i64>,
        key: KeyHash,
    ) -> Later<Result<Option<Position>, ReadError>> {
        self.loads.read(ReadClass::SERVER, move |connection| {
            older_keys::find(connection, &slices, &key)
        })
    }
}

impl Lists for SqliteStore {
    fn message(
        &self,
        conversation: Subject,
        message: MessageId,
    ) -> Later<Result<Option<StoredMessage>, ReadError>> {
        let class = ReadClass::Entities(conversation.kind);
        self.loads.read(class, move |connection| {
            identifiers::message(connection, conversation, message)
        })
    }

    fn revisions(
        &self,
        query: RevisionQuery,
    ) -> Later<Result<Option<StoredPage<Bytes>>, ReadError>> {
        self.lists
            .read(ReadClass::of(query.tenant), move |connection| {
                revisions::page(connection, &query)
            })
    }

    fn messages(
        &self,
        query: MessageQuery,
    ) -> Later<Result<Option<StoredPage<Arc<str>>>, ReadError>> {
        let page = self
            .lists
            .read(ReadClass::of(query.tenant), move |connection| {
                message_lists::messages(connection, &query)
            });
        Box::pin(async move { page.await?.map_err(ReadError::NoCursor) })
    }

    fn conversations(
        &self,
        query: ConversationQuery,
    ) -> Later<Result<StoredPage<ConversationHeader>, ReadError>> {
        let lagging = Arc::clone(&self.lagging);
        let page = self
            .lists
            .read(ReadClass::of(query.tenant), move |connection| {
                lists::conversations(connection, &lagging, &query)
            });
        Box::pin(async move { page.await?.map_err(ReadError::NoCursor) })
    }

    fn conversations_among(
        &self,
        tenant: Tenant,
        numbers: Arc<[EntityNumber]>,
    ) -> Later<Result<Vec<ConversationHeader>, ReadError>> {
        let lagging = Arc::clone(&self.lagging);
        self.lists.read(ReadClass::of(tenant), move |connection| {
            lists::among(connection, &lagging, tenant, &numbers)
        })
    }

    fn conversations_behind(
        &self,
        number: EntityNumber,
        most: u32,
    ) -> Later<Result<Vec<OwnedConversation>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            lists::behind(connection, number, most)
        })
    }

    fn records(&self, query: RecordQuery) -> Later<Result<StoredPage<StoredRecord>, ReadError>> {
        self.lists
            .read(ReadClass::of(query.tenant), move |connection| {
                lists::records(connection, &query)
            })
    }

    fn attachment_taker(
        &self,
        tenant: Tenant,
        attachment: AttachmentId,
    ) -> Later<Result<AttachmentTaker, ReadError>> {
        self.loads.read(ReadClass::of(tenant), move |connection| {
            conditions::claiming_conversation(connection, tenant, attachment)
        })
    }
}

impl ErasureStore for SqliteStore {
    fn erasable(
        &self,
        query: ErasableQuery,
    ) -> Later<Result<Vec<ErasableConversation>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            erasable::next(connection, query)
        })
    }

    fn load_to_erase(
        &self,
        conversation: Subject,
    ) -> Later<Result<Option<StoredConversation>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            erasable::load(connection, conversation)
        })
    }

    fn record_to_erase(&self, record: Subject) -> Later<Result<Option<ErasableRecord>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            erasable::record(connection, record)
        })
    }

    fn text_bytes_of(&self, conversation: EntityNumber) -> Later<Result<i64, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            erasing::text_bytes(connection, conversation)
        })
    }

    fn attachments_of(
        &self,
        conversation: EntityNumber,
    ) -> Later<Result<Vec<AttachmentId>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            erasing::attachments(connection, conversation)
        })
    }

    fn still_erasing(
        &self,
        entities: Vec<EntityNumber>,
    ) -> Later<Result<Vec<EntityNumber>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            erasing::left(connection, &entities)
        })
    }
}

impl EventLog for SqliteStore {
    fn events(&self, query: EventQuery) -> Later<Result<Option<EventPage>, ReadError>> {
        let fresh = Arc::clone(&self.fresh);
        // Whoever follows needs no total, and must not wait for those who list.
        let readers = if query.total {
            &self.lists
        } else {
            &self.streams
        };
        let page = readers.read(ReadClass::of(query.tenant), move |connection| {
            // Before anything is read: what memory has let go by then is in the file.
            let fresh = match query.source {
                EventSource::Account => fresh.of(query.tenant.number()),
                EventSource::Entity(_) => None,
            };
            events::page(connection, fresh, &query)
        });
        Box::pin(async move { page.await? })
    }

    fn happened_behind(
        &self,
        position: Position,
        limit: u32,
    ) -> Later<Result<Vec<FeedRow>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            events::behind(connection, position, limit)
        })
    }

    fn event_at(&self, position: Position) -> Later<Result<Option<Arc<Event>>, ReadError>> {
        self.loads.read(ReadClass::Deliveries, move |connection| {
            events::at(connection, position)
        })
    }

    fn request_at(&self, position: Position) -> Later<Result<Option<String>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            events::request_at(connection, position)
        })
    }
}

impl AuditLog for SqliteStore {
    fn chain(&self, position: Position, most: u32) -> Later<Result<ChainPage, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            chain::page(connection, position.0, most)
        })
    }

    fn audit(&self, query: AuditQuery) -> Later<Result<StoredPage<AuditRow>, ReadError>> {
        let fresh = Arc::clone(&self.fresh);
        let class = ReadClass::of(query.trail);
        let page = self.lists.read(class, move |connection| {
            // Before anything is read: what memory has let go by then is in the file.
            let fresh = fresh.of(query.trail.number());
            audit::page(connection, fresh, &query)
        });
        Box::pin(async move { page.await? })
    }
}

impl DocumentStore for SqliteStore {
    fn documents(&self, query: DocumentQuery) -> Later<Result<StoredPage<DocumentRow>, ReadError>> {
        let page = self
            .lists
            .read(ReadClass::of(query.tenant), move |connection| {
                document_lists::page(connection, &query)
            });
        Box::pin(async move { page.await?.map_err(ReadError::NoCursor) })
    }

    fn versions(&self, query: VersionQuery) -> Later<Result<StoredPage<StoredVersion>, ReadError>> {
        let page = self
            .lists
            .read(ReadClass::of(query.tenant), move |connection| {
                versions::page(connection, &query)
            });
        Box::pin(async move { page.await?.map_err(ReadError::NoCursor) })
    }

    fn document(
        &self,
        tenant: Tenant,
        number: EntityNumber,
    ) -> Later<Result<Option<IndexedDocument>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            document_lists::row(connection, tenant, number)
        })
    }

    fn version(
        &self,
        whom: Tenant,
        document: Subject,
        number: u64,
    ) -> Later<Result<Option<FramedVersion>, ReadError>> {
        self.contents.read(ReadClass::of(whom), move |connection| {
            versions::one(connection, document, number)
        })
    }

    fn version_ids(
        &self,
        whom: Tenant,
        document: Subject,
        numbers: Vec<u64>,
    ) -> Later<Result<Vec<VersionId>, ReadError>> {
        self.contents.read(ReadClass::of(whom), move |connection| {
            versions::ids(connection, document, &numbers)
        })
    }

    fn activity(&self, query: ActivityQuery) -> Later<Result<StoredPage<ActivityRow>, ReadError>> {
        let page = self
            .lists
            .read(ReadClass::of(query.tenant), move |connection| {
                activity::page(connection, &query)
            });
        Box::pin(async move { page.await?.map_err(ReadError::NoCursor) })
    }

    fn link(&self, hash: [u8; 32]) -> Later<Result<Option<OwnedDocument>, ReadError>> {
        self.loads.read(ReadClass::Links, move |connection| {
            document_loads::link(connection, &hash)
        })
    }

    fn link_uses(&self, document: Subject) -> Later<Result<Vec<LinkUses>, ReadError>> {
        self.loads.read(ReadClass::Links, move |connection| {
            document_loads::link_uses(connection, document)
        })
    }

    fn overdue_documents(
        &self,
        before: Timestamp,
        most: u32,
    ) -> Later<Result<Vec<OwnedDocument>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            document_loads::overdue(connection, before, most)
        })
    }

    fn documents_behind(
        &self,
        number: EntityNumber,
        most: u32,
    ) -> Later<Result<Vec<OwnedDocument>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            document_loads::behind(connection, number, most)
        })
    }
}

/// No other process has the file.
impl DeliveryRelay for SqliteStore {}

impl DeliveryStore for SqliteStore {
    fn deliver(&self, slice: Box<DeliverySlice>) -> Later<Result<Written, Unwritten>> {
        let (reply, answer) = oneshot::channel();
        // Unsent, the reply is dropped and the answer is that the store is away for good.
        let _ = self.send(Work::Deliver { slice, reply });
        Box::pin(async move { answer.await.unwrap_or(Err(Unwritten::Closed)) })
    }

    fn begin_deliveries(&self) -> Later<Result<Position, ReadError>> {
        let (reply, answer) = oneshot::channel();
        // Unsent, the reply is dropped and the answer is that the store is away.
        let _ = self.send(Work::BeginDeliveries { reply });
        Box::pin(async move { answer.await.map_err(|_| ReadError::Away) })
    }

    fn webhook_state(&self) -> Later<Result<WebhookState, ReadError>> {
        self.chores
            .read(ReadClass::Deliveries, delivery_lists::state)
    }

    fn due(&self, query: DueQuery) -> Later<Result<DueLanes, ReadError>> {
        self.chores.read(ReadClass::Deliveries, move |connection| {
            delivery_lists::due(connection, &query)
        })
    }

    fn deliveries(
        &self,
        query: DeliveryQuery,
    ) -> Later<Result<StoredPage<StoredDelivery>, ReadError>> {
        let page = self
            .lists
            .read(ReadClass::of(query.tenant), move |connection| {
                delivery_lists::page(connection, &query)
            });
        Box::pin(async move { page.await?.map_err(ReadError::NoCursor) })
    }

    fn delivery(
        &self,
        endpoint: EntityNumber,
        number: i64,
    ) -> Later<Result<Option<StoredDelivery>, ReadError>> {
        self.loads.read(ReadClass::Deliveries, move |connection| {
            delivery_lists::one(connection, endpoint, number)
        })
    }

    fn endpoint_totals(
        &self,
        endpoints: Vec<EntityNumber>,
    ) -> Later<Result<Vec<EndpointTotals>, ReadError>> {
        self.lists.read(ReadClass::SERVER, move |connection| {
            endpoints
                .iter()
                .map(|endpoint| delivery_lists::totals(connection, *endpoint))
                .collect()
        })
    }
}

impl TimerStore for SqliteStore {
    fn chores(&self) -> Later<Result<Vec<Chore>, ReadError>> {
        self.chores.read(ReadClass::SERVER, chores::list)
    }

    fn chore_done(&self, chore: Chore) {
        // Unsent, the next start finds the chore again and nothing left to do in it.
        let _ = self.send(Work::ChoreDone { chore });
    }

    fn timed(&self, query: TimedQuery) -> Later<Result<Vec<Timed>, ReadError>> {
        let lagging = Arc::clone(&self.lagging);
        self.chores.read(ReadClass::SERVER, move |connection| {
            timed::timed(connection, &lagging, &query)
        })
    }
}

impl SpentNonces for SqliteStore {
    fn spend(&self, nonce: Nonce) -> Later<Result<bool, ReadError>> {
        let (reply, answer) = oneshot::channel();
        // Unsent, the reply is dropped and the answer is that the store is away.
        let _ = self.send(Work::SpendNonce { nonce, reply });
        Box::pin(async move { answer.await.map_err(|_| ReadError::Away) })
    }
}

impl SqliteStore {
    fn change_figures(&self, change: FigureChange) -> Later<Result<bool, ReadError>> {
        let (reply, answer) = oneshot::channel();
        // Unsent, the reply is dropped and the answer is that the store is away.
        let _ = self.send(Work::Figures { change, reply });
        Box::pin(async move { answer.await.map_err(|_| ReadError::Away) })
    }
}

impl FigureStore for SqliteStore {
    fn begin_counting(&self) -> Later<Result<Generations, ReadError>> {
        self.generations()
    }

    fn generations(&self) -> Later<Result<Generations, ReadError>> {
        self.chores.read(ReadClass::SERVER, figures::generations)
    }

    fn count(&self, slice: Box<FigureSlice>) -> Later<Result<bool, ReadError>> {
        self.change_figures(FigureChange::Count(slice))
    }

    fn milestones(
        &self,
        generation: Generation,
        conversations: Vec<EntityNumber>,
    ) -> Later<Result<Vec<(EntityNumber, Milestones)>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            figures::milestones(connection, generation, &conversations)
        })
    }

    fn figures(&self, query: FigureQuery) -> Later<Result<FigureTable, ReadError>> {
        let class = ReadClass::of(query.tenant);
        self.lists.read(class, move |connection| {
            figures::figures(connection, &query)
        })
    }

    fn made(&self, query: MadeQuery) -> Later<Result<Vec<(MadeCell, Made)>, ReadError>> {
        let class = ReadClass::of(query.tenant);
        self.lists
            .read(class, move |connection| figures::made(connection, &query))
    }

    fn begin_rebuild(&self) -> Later<Result<bool, ReadError>> {
        self.change_figures(FigureChange::BeginRebuild)
    }

    fn end_rebuild(&self) -> Later<Result<bool, ReadError>> {
        self.change_figures(FigureChange::EndRebuild)
    }
}

impl StoreKeys for SqliteStore {
    fn master_keys(&self) -> &MasterKeys {
        &self.master_keys
    }

    fn store_key(&self) -> Later<Result<WrappedKey, ReadError>> {
        let found = self.loads.read(ReadClass::SERVER, store_key::stored);
        Box::pin(async move { found.await?.ok_or(ReadError::Unreadable) })
    }

    fn rewrap(&self, change: Rewrap) -> Later<Result<bool, ReadError>> {
        let (reply, answer) = oneshot::channel();
        // Unsent, the reply is dropped and the answer is that the store is away.
        let _ = self.send(Work::Rewrap { change, reply });
        Box::pin(async move { answer.await.map_err(|_| ReadError::Away) })
    }
}

impl Snapshots for SqliteStore {
    fn takes_snapshots(&self) -> bool {
        true
    }

    fn snapshot(
        &self,
        into: PathBuf,
        unsynced: Arc<AtomicBool>,
    ) -> Later<Result<Position, SnapshotError>> {
        let (reply, answer) = oneshot::channel();
        match snapshots::target(&into) {
            Ok(target) => {
                let target = Box::new(target);
                // Unsent, the reply is dropped and the answer is that the store is away.
                let _ = self.send(Work::Snapshot(Asked {
                    target,
                    unsynced,
                    reply,
                }));
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
        Box::pin(async move { answer.await.unwrap_or(Err(SnapshotError::Away)) })
    }
}

impl UsageStore for SqliteStore {
    fn add_usage(&self, slice: Arc<UsageSlice>) -> Later<Result<(), ReadError>> {
        let (reply, answer) = oneshot::channel();
        // Unsent, the reply is dropped and the answer is that the store is away.
        let _ = self.send(Work::AddUsage { slice, reply });
        Box::pin(async move { answer.await.map(|_| ()).map_err(|_| ReadError::Away) })
    }

    fn usage(&self, query: UsageQuery) -> Later<Result<Vec<DayUsage>, ReadError>> {
        let class = ReadClass::of(Tenant::account(query.account));
        self.lists
            .read(class, move |connection| usage::days(connection, query))
    }

    fn requests_since(&self, day: Timestamp) -> Later<Result<Vec<NodeRequests>, ReadError>> {
        self.chores.read(ReadClass::SERVER, move |connection| {
            usage::requests_since(connection, day)
        })
    }
}

impl Store for SqliteStore {
    fn nodes(&self) -> Arc<dyn Nodes> {
        Arc::clone(&self.node) as Arc<dyn Nodes>
    }

    fn close(&self) {
        // Whoever comes from here on is told so at once: behind the writer's end nothing would ever
        // be settled.
        let inbox = self.inbox.lock().take();
        let (done, closed) = sync_channel(1);
        if inbox.is_some_and(|inbox| inbox.send(Work::Close { done }).is_ok()) {
            // An error means that the writer is gone already.
            let _ = closed.recv();
        }
        for readers in [
            &self.loads,
            &self.lists,
            &self.contents,
            &self.streams,
            &self.chores,
        ] {
            readers.close();
        }
        if let Some(thread) = self.writer.lock().take() {
            // A panic in there has ended the process.
            let _ = thread.join();
        }
    }

    fn healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        self.counters.metrics()
    }

    fn health(&self) -> StoreHealth {
        let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        StoreHealth {
            database_bytes: bytes(&self.path),
            log_bytes: bytes(&log_of(&self.path)),
            commit: self.counters.commit_time(),
            batch: self.counters.batch_sizes(),
            queue: self.counters.waiting(),
            checkpoint: self.checkpoints.latest(),
        }
    }
}
