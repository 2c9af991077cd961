//! Search over documents: what an index of their titles and heads is filled with, and how it is
//! searched.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::content_reader::{unpack, unpacked_bytes};
use super::state::Facts;
use crate::feed::{Feed, Interest};
use crate::search::{
    Adding, Entry, EntryChange, Found, Indexer, Pending, Place, Search, SearchError, Source,
    TURN_BYTES, ThreadNames, Titled, Window, insist, insist_if_readable,
};
use crate::store::{
    FeedRow, FramedVersion, IndexedDocument, ListFailure, OwnedDocument, ReadError, Store,
};
use colloquy_model::caller::Tenant;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::DocumentId;
use colloquy_runtime::fair_queue::QueueBounds;
use colloquy_runtime::offload::{self, ComputeRequest, Effort};

/// Documents read from the store at once.
const PAGE: u32 = 500;
const THREADS: ThreadNames = ThreadNames {
    follower: "finder",
    writer: "indexer",
    readers: "search",
};

/// The index of documents, and the thread that fills it.
pub(crate) struct SearchIndexer(Indexer<Documents>);

/// A search for documents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DocumentSearch<'q> {
    /// Whose documents.
    pub(crate) tenant: Tenant,
    /// Whether those in the bin are searched, in place of the others.
    pub(crate) deleted: bool,
    /// The words, as the caller wrote them.
    pub(crate) words: &'q str,
    /// The part of what fits that is wanted.
    pub(crate) window: Window,
}

impl SearchIndexer {
    /// Opens the index in this file and starts the thread.
    ///
    /// # Errors
    /// The file can't be used, or another process has it.
    pub(crate) fn open(
        path: &Path,
        store: Arc<dyn Store>,
        feed: Arc<Feed>,
        reads: QueueBounds,
    ) -> Result<Self, SearchError> {
        let place = Place {
            path: path.to_owned(),
            reads,
            // Retention leaves what tells an index that lags which documents have changed.
            told_for: None,
            threads: THREADS,
        };
        Indexer::open(place, Documents { store }, feed).map(SearchIndexer)
    }

    /// Finds documents, best first.
    ///
    /// # Errors
    /// The index is behind, or can't be read.
    pub(crate) async fn find(&self, search: DocumentSearch<'_>) -> Result<Found, ListFailure> {
        let partition = match search.deleted {
            true => deleted(search.tenant),
            false => search.tenant,
        };
        let find = |index: &Search<Titled>| index.find(partition, search.words, search.window);
        self.0.find(search.tenant, find).await
    }

    /// How many positions the index is behind.
    pub(crate) fn lag(&self) -> u64 {
        self.0.lag()
    }

    /// Ends the thread and closes the index. Blocks: not for an arbiter.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

/// What is to be found of documents: their titles and heads as they are now.
struct Documents {
    store: Arc<dyn Store>,
}

/// A document that is to be read anew.
#[derive(Debug, Clone, Copy)]
struct Changed {
    tenant: Tenant,
    number: EntityNumber,
}

impl Pending for Changed {
    type Subject = EntityNumber;

    fn subject(&self) -> Option<EntityNumber> {
        Some(self.number)
    }

    fn bytes(&self) -> usize {
        0
    }

    // How long it is, nobody knows before.
    fn turn_bytes(&self) -> usize {
        TURN_BYTES
    }

    fn forget_text(&mut self) {}
}

impl Source for Documents {
    type Layout = Titled;
    type Pending = Changed;
    const INTEREST: Interest = Interest::Documents;
    // What changes a document takes longer than to take it in.
    const GATHERED_FOR: Duration = Duration::ZERO;

    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn add_all(&self, to: &Adding<'_, Changed>) {
        let mut behind = EntityNumber::ZERO;
        loop {
            let page = insist(|| self.store.documents_behind(behind, PAGE)).await;
            let Some(last) = page.last() else {
                return;
            };
            behind = last.subject.number;
            for OwnedDocument { subject, tenant } in page {
                let number = subject.number;
                to.add(tenant, Changed { tenant, number }).await;
            }
        }
    }

    async fn add(&self, happened: FeedRow, to: &Adding<'_, Changed>) {
        match happened {
            FeedRow::Event(event) if event.kind.is_of_document() => {
                let (tenant, number) = (event.tenant, event.entity);
                to.add(tenant, Changed { tenant, number }).await;
            }
            FeedRow::Event(_) | FeedRow::Endpoint { .. } | FeedRow::Renamed { .. } => {}
        }
    }

    /// The document as it is now, or that it is not to be found.
    async fn changes(&self, changed: Changed, is_room: bool) -> Result<Vec<EntryChange>, Changed> {
        let found = insist_if_readable(async || self.found(changed, is_room).await).await;
        match found.unwrap_or(ToBeFound::Nothing) {
            ToBeFound::Nothing => Ok(vec![EntryChange::Remove(changed.number)]),
            ToBeFound::Entry(entry) => {
                let _pin = offload::pin_if_long(entry.content.len());
                Ok(EntryChange::put(entry))
            }
            ToBeFound::LongOne => Err(changed),
        }
    }
}

/// What is to be found of a document.
enum ToBeFound {
    Nothing,
    Entry(Entry),
    /// A long text, for which there was no room.
    LongOne,
}

impl Documents {
    async fn found(
        &self,
        Changed { tenant, number }: Changed,
        is_room: bool,
    ) -> Result<ToBeFound, ReadError> {
        let store = &self.store;
        let Some(IndexedDocument { row, is_deleted }) = store.document(tenant, number).await?
        else {
            return Ok(ToBeFound::Nothing);
        };
        let facts = Facts::stored(
            DocumentId::from_parts(row.subject.number, row.subject.tail),
            &row.body,
        )?;
        let Some(FramedVersion { frames, .. }) = store
            .version(Tenant::OPERATORS, row.subject, facts.head)
            .await?
        else {
            return Ok(ToBeFound::Nothing);
        };
        let bytes = unpacked_bytes(&frames);
        if EntryChange::is_long(bytes) && !is_room {
            return Ok(ToBeFound::LongOne);
        }
        // In the house's own name: what the index waits for, no account's requests hold up.
        let request = ComputeRequest {
            tenant: Tenant::OPERATORS,
            effort: Effort::Linear,
            bytes,
        };
        let permit = if request.is_large() {
            Some(request.permit().await.ok_or(ReadError::TooSlow)?)
        } else {
            None
        };
        // On this thread: it has nothing else to do.
        let unpacked = {
            let _pin = offload::pin_if_long(bytes);
            unpack(&frames, row.subject, facts.head)
        };
        let (content, _) = unpacked.ok_or(ReadError::Unreadable)?;
        // It goes before the text is handed in: the queue may be full for as long as the disk is.
        drop(permit);
        Ok(ToBeFound::Entry(Entry {
            number,
            tenant: match is_deleted {
                true => deleted(tenant),
                false => tenant,
            },
            title: facts.title,
            content,
        }))
    }
}

/// The partition of the index that holds a tenant's documents in the bin: they are kept apart, so
/// that a search meets the ones or the others.
fn deleted(tenant: Tenant) -> Tenant {
    Tenant::from_number(!tenant.number())
}
