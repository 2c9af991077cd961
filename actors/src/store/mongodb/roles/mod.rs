//! The store on MongoDB in each of its roles.

mod deliveries;
mod documents;
mod events;
mod figures;
mod nodes;
mod timers;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::codec::failed;
use super::conditions::claiming_conversation;
use super::work::Work;
use super::{MongoStore, kept_answers, lists, loads, message_lists};
use super::{erasable, erasing};
use crate::store::digest::payload_digests;
use crate::store::{
    AttachmentTaker, Checkpoint, CommitLog, ConversationHeader, ConversationQuery, EntityRead,
    ErasableConversation, ErasableQuery, ErasableRecord, ErasureStore, KeptRow, Later, Lists,
    MessageQuery, Nodes, OwnedConversation, ReadError, RecordQuery, RevisionQuery, Settle,
    SnapshotError, Snapshots, Store, StoreHealth, StoreMetric, Stored, StoredConversation,
    StoredMessage, StoredPage, StoredRecord,
};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::Commit;
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{AttachmentId, MessageId};
use colloquy_model::idempotency::KeyHash;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{CommitFailure, Incarnation, LoadError};

impl CommitLog for MongoStore {
    fn submit(&self, incarnation: Incarnation, commit: Commit, settle: Settle) {
        let digests = payload_digests(&commit);
        let work = Work::Commit {
            incarnation,
            commit: Box::new(commit),
            digests,
            settle,
        };
        if let Err(unsent) = self.send(work)
            && let Work::Commit { settle, .. } = unsent
        {
            settle(Err(CommitFailure::Unavailable));
        }
    }

    fn barrier(&self, subject: Subject, incarnation: Incarnation, settle: Settle) {
        let work = Work::Barrier {
            subject,
            incarnation,
            settle,
        };
        if let Err(unsent) = self.send(work)
            && let Work::Barrier { settle, .. } = unsent
        {
            settle(Err(CommitFailure::Unavailable));
        }
    }

    fn is_shared(&self) -> bool {
        self.membership.had_peers()
    }

    fn confirm(&self, read: EntityRead, settle: Settle) {
        let EntityRead {
            subject,
            incarnation,
            sequence,
        } = read;
        let (membership, collections) = (Arc::clone(&self.membership), self.collections.clone());
        let runtime = self.runtime.clone();
        let confirmed = Box::new(move |outcome: Result<(), _>| {
            if outcome.is_err() {
                return settle(outcome);
            }
            runtime.spawn(async move {
                let is_current = async {
                    let newest = loads::writer_behind(&collections, subject, sequence).await?;
                    if newest.is_none_or(|node| node == membership.number()) {
                        return Ok(true);
                    }
                    // What was deleted elsewhere is loaded as if it had never been there.
                    Ok(sequence == Sequence::ZERO
                        && loads::is_vacant(&collections, subject).await?)
                };
                settle(match is_current.await {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(CommitFailure::Conflict),
                    Err::<_, ReadError>(_) => Err(CommitFailure::Unavailable),
                });
            });
        });
        self.barrier(subject, incarnation, confirmed);
    }

    fn load(&self, subject: Subject) -> Later<Result<Option<Stored>, LoadError>> {
        let collections = self.collections.clone();
        let found = self.read(async move { loads::load(&collections, subject).await });
        Box::pin(async move { Ok(found.await?) })
    }

    fn reload(&self, subject: Subject) -> Later<Result<Option<Stored>, LoadError>> {
        let (reply, answer) = oneshot::channel();
        // Unsent, the reply is dropped and the answer is that the store is away.
        let _ = self.send(Work::Reload { subject, reply });
        Box::pin(async move { answer.await.unwrap_or(Err(LoadError::Unavailable)) })
    }

    fn kept(&self, position: Position) -> Later<Result<Option<KeptRow>, ReadError>> {
        let (collections, membership) = (self.collections.clone(), Arc::clone(&self.membership));
        self.read(async move { kept_answers::kept(&collections, &membership, position).await })
    }

    fn older_key(&self, _: Vec<i64>, key: KeyHash) -> Later<Result<Option<Position>, ReadError>> {
        // The log finds every key by its index: slices only say in memory which are worth asking for.
        let collections = self.collections.clone();
        self.read(async move { kept_answers::position_of_key(&collections, key).await })
    }
}

impl Lists for MongoStore {
    fn message(
        &self,
        conversation: Subject,
        message: MessageId,
    ) -> Later<Result<Option<StoredMessage>, ReadError>> {
        let collections = self.collections.clone();
        self.read_listed(async move {
            message_lists::message(&collections, conversation, message).await
        })
    }

    fn shown_message(
        &self,
        conversation: Subject,
        message: MessageId,
    ) -> Later<Result<Option<StoredMessage>, ReadError>> {
        let collections = self.collections.clone();
        self.read_listed(
            async move { message_lists::shown(&collections, conversation, message).await },
        )
    }

    fn revisions(
        &self,
        query: RevisionQuery,
    ) -> Later<Result<Option<StoredPage<Bytes>>, ReadError>> {
        let collections = self.collections.clone();
        let turn = self.in_turn(query.tenant, async move {
            message_lists::revisions(&collections, query).await
        });
        self.read_listed(turn)
    }

    fn messages(
        &self,
        query: MessageQuery,
    ) -> Later<Result<Option<StoredPage<Arc<str>>>, ReadError>> {
        let collections = self.collections.clone();
        let turn = self.in_turn(query.tenant, async move {
            message_lists::messages(&collections, query).await
        });
        self.read_listed(turn)
    }

    fn conversations(
        &self,
        query: ConversationQuery,
    ) -> Later<Result<StoredPage<ConversationHeader>, ReadError>> {
        let collections = self.collections.clone();
        let turn = self.in_turn(query.tenant, async move {
            lists::conversations(&collections, query).await
        });
        self.read_listed(turn)
    }

    fn conversations_among(
        &self,
        tenant: Tenant,
        numbers: Arc<[EntityNumber]>,
    ) -> Later<Result<Vec<ConversationHeader>, ReadError>> {
        let collections = self.collections.clone();
        let turn = self.in_turn(tenant, async move {
            lists::among(&collections, tenant, &numbers).await
        });
        self.read_listed(turn)
    }

    fn conversations_behind(
        &self,
        number: EntityNumber,
        most: u32,
    ) -> Later<Result<Vec<OwnedConversation>, ReadError>> {
        let collections = self.collections.clone();
        self.read_listed(async move { lists::behind(&collections, number, most).await })
    }

    fn records(&self, query: RecordQuery) -> Later<Result<StoredPage<StoredRecord>, ReadError>> {
        let collections = self.collections.clone();
        let turn = self.in_turn(query.tenant, async move {
            lists::records(&collections, query).await
        });
        self.read_listed(turn)
    }

    fn attachment_taker(
        &self,
        tenant: Tenant,
        attachment: AttachmentId,
    ) -> Later<Result<AttachmentTaker, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move {
            claiming_conversation(&collections, tenant, attachment)
                .await
                .map_err(|error| failed(&error))
        })
    }
}

impl ErasureStore for MongoStore {
    fn erasable(
        &self,
        query: ErasableQuery,
    ) -> Later<Result<Vec<ErasableConversation>, ReadError>> {
        let collections = self.collections.clone();
        self.read_listed(async move { erasable::next(&collections, query).await })
    }

    fn load_to_erase(
        &self,
        conversation: Subject,
    ) -> Later<Result<Option<StoredConversation>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { erasable::load(&collections, conversation).await })
    }

    fn record_to_erase(&self, record: Subject) -> Later<Result<Option<ErasableRecord>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { erasable::record(&collections, record).await })
    }

    fn text_bytes_of(&self, conversation: EntityNumber) -> Later<Result<i64, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { erasing::text_bytes(&collections, conversation).await })
    }

    fn attachments_of(
        &self,
        conversation: EntityNumber,
    ) -> Later<Result<Vec<AttachmentId>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { erasing::attachments(&collections, conversation).await })
    }

    fn still_erasing(
        &self,
        entities: Vec<EntityNumber>,
    ) -> Later<Result<Vec<EntityNumber>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { erasing::left(&collections, &entities).await })
    }
}

impl Snapshots for MongoStore {
    fn takes_snapshots(&self) -> bool {
        false
    }

    fn snapshot(&self, _: PathBuf, _: Arc<AtomicBool>) -> Later<Result<Position, SnapshotError>> {
        Box::pin(std::future::ready(Err(SnapshotError::Unsupported)))
    }
}

impl Store for MongoStore {
    fn nodes(&self) -> Arc<dyn Nodes> {
        self.shared_nodes()
    }

    fn close(&self) {
        self.close_writer();
    }

    fn healthy(&self) -> bool {
        self.progress.healthy()
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        let mut metrics = self.progress.counters.metrics();
        metrics.extend(self.progress.sizes.metrics());
        metrics
    }

    fn health(&self) -> StoreHealth {
        let counters = &self.progress.counters;
        StoreHealth {
            database_bytes: self.progress.sizes.beside_log(),
            log_bytes: self.progress.sizes.log(),
            commit: counters.commit_time(),
            batch: counters.batch_sizes(),
            queue: counters.waiting(),
            // What is acknowledged is in the server's journal: nothing waits to be moved.
            checkpoint: Checkpoint {
                at: Timestamp::now(),
                pages: 0,
            },
        }
    }
}
