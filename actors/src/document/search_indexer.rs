//! Search over documents: the index of their titles and heads, and the thread that keeps it up with
//! what happens. It may lag for a moment; whoever searches waits until it knows everything that was
//! acknowledged before.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::content_reader::{unpack, unpacked_bytes};
use super::state::Facts;
use crate::feed::{Ended, Feed, Interest, Item};
use crate::search::{Closed, Entry, Found, INDEXER, Search, SearchError};
use crate::store::{
    FeedRow, FramedVersion, IndexedDocument, ListFailure, OwnedDocument, ReadError, Store,
};
use colloquy_model::caller::Tenant;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::id::DocumentId;
use colloquy_model::position::Position;
use colloquy_runtime::fair_queue::QueueBounds;
use colloquy_runtime::file_lock;
use colloquy_runtime::offload::{self, ComputeRequest, Effort};
use colloquy_runtime::threads::{BackgroundThread, RestartBackoff};

/// How long a search waits for the index.
const SEARCH_WAIT: Duration = Duration::from_secs(2);
/// How long its answer may take: one search is interrupted after 2 s, but others may stand before
/// it.
const SEARCH_MAX: Duration = Duration::from_secs(4);
/// Events waiting for the index; one that lags further reads the store.
const QUEUE: usize = 1_024;
/// Documents read from the store at once.
const PAGE: u32 = 500;
/// How long the thread pauses after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The index, and the thread that fills it.
pub(crate) struct SearchIndexer {
    shared: Arc<Shared>,
    thread: Mutex<Option<BackgroundThread>>,
    /// Keeps other processes from the index.
    _lock: File,
}

struct Shared {
    store: Arc<dyn Store>,
    feed: Arc<Feed>,
    path: PathBuf,
    /// What may wait for a reading connection.
    reads: QueueBounds,
    /// Another one when this one turned out to be damaged.
    index: Mutex<Arc<Search>>,
}

/// A search for documents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DocumentSearch<'q> {
    /// Whose documents.
    pub(crate) tenant: Tenant,
    /// Whether those in the bin are searched, in place of the others.
    pub(crate) deleted: bool,
    /// The words, as the caller wrote them.
    pub(crate) words: &'q str,
    /// How many documents are wanted.
    pub(crate) limit: usize,
    /// How many are left out first.
    pub(crate) offset: usize,
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
        let failed = |error| SearchError::File(path.to_owned(), error);
        let lock = file_lock::try_lock(path).map_err(failed)?;
        let lock = lock.ok_or_else(|| SearchError::InUse(path.to_owned()))?;
        let (index, position) = Search::open(path, feed.last(), reads)?;
        let index = Mutex::new(Arc::new(index));
        let shared = Arc::new(Shared {
            store,
            feed,
            path: path.to_owned(),
            reads,
            index,
        });
        let (following, mut opened_at) = (Arc::clone(&shared), Some(position));
        let thread = BackgroundThread::start("finder", move || {
            // After a panic the index knows best how far it has come.
            let position = opened_at
                .take()
                .unwrap_or_else(|| following.index().position());
            run(Arc::clone(&following), position)
        });
        Ok(SearchIndexer {
            shared,
            thread: Mutex::new(Some(thread.map_err(failed)?)),
            _lock: lock,
        })
    }

    /// Finds documents, best first.
    ///
    /// # Errors
    /// The index is behind, or can't be read.
    pub(crate) async fn find(&self, search: DocumentSearch<'_>) -> Result<Found, ListFailure> {
        let caught_up = self.shared.store.catch_up().await;
        caught_up.map_err(|_| ListFailure::Away)?;
        let index = self.shared.index();
        let wanted = self.shared.feed.last();
        self.shared.feed.reach();
        index
            .wait_for(wanted, SEARCH_WAIT)
            .await
            .map_err(|_| ListFailure::Away)?;
        let partition = match search.deleted {
            true => deleted(search.tenant),
            false => search.tenant,
        };
        let found = index.find(partition, search.words, search.limit, search.offset);
        Ok(tokio::time::timeout(SEARCH_MAX, found)
            .await
            .map_err(|_| ListFailure::TooSlow)??)
    }

    /// Searches know everything up to this position.
    pub(crate) fn position(&self) -> Position {
        self.shared.index().position()
    }

    /// Ends the thread and closes the index. Blocks: not for an arbiter.
    pub(crate) fn close(&self) {
        self.thread.lock().take();
        self.shared.index().close();
    }
}

async fn run(shared: Arc<Shared>, mut position: Position) {
    let mut restarts = RestartBackoff::of(INDEXER);
    loop {
        let follower = Follower {
            index: shared.index(),
            shared: &shared,
        };
        if follower.follow(position).await.is_ok() {
            return;
        }
        // Closed it is only when this thread has ended: it is damaged, or its writer has panicked.
        if !follower.index.damaged() {
            tokio::time::sleep(restarts.next_wait()).await;
        }
        position = shared.open_again().await;
    }
}

impl Shared {
    fn index(&self) -> Arc<Search> {
        Arc::clone(&self.index.lock())
    }

    /// Opens the index again, which begins anew where its file is not to be trusted, however often
    /// it takes.
    async fn open_again(&self) -> Position {
        self.index().close();
        loop {
            match Search::open(&self.path, self.feed.last(), self.reads) {
                Ok((index, position)) => {
                    *self.index.lock() = Arc::new(index);
                    return position;
                }
                Err(error) => {
                    tracing::error!(%error, "the search index can't be opened again; trying again")
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

struct Follower<'s> {
    index: Arc<Search>,
    shared: &'s Shared,
}

impl Follower<'_> {
    /// Hands in what happens behind this position, until the feed is closed.
    async fn follow(&self, mut position: Position) -> Result<(), Closed> {
        loop {
            let mut heard = self.shared.feed.subscribe(Interest::Documents, QUEUE);
            if position == Position::ZERO {
                // Retention may have taken events of documents that are still there.
                self.take_all().await?;
            } else {
                self.catch_up(position, heard.joined).await?;
            }
            position = heard.joined.max(position);
            self.index.reached(position).await?;
            loop {
                let first = match heard.next().await {
                    Ok(first) => first,
                    Err(Ended::TooSlow) => break,
                    Err(Ended::Closed) => return Ok(()),
                };
                // What has gathered is handed in at once: of a document that changes all the time
                // only the last state.
                let rest = std::iter::from_fn(|| heard.waiting()).take(QUEUE);
                position = self
                    .take(position, std::iter::once(first).chain(rest).collect())
                    .await?;
                if self.index.damaged() {
                    return Err(Closed);
                }
            }
        }
    }

    async fn take(&self, position: Position, items: Vec<Item>) -> Result<Position, Closed> {
        let mut touched = HashMap::new();
        let mut last = position;
        for item in items {
            match item {
                Item::Event(event) => {
                    last = last.max(event.position);
                    touched.insert(event.entity, event.tenant);
                }
                Item::Reached(reached) => last = last.max(reached),
                Item::Endpoint(..)
                | Item::EndpointGone(..)
                | Item::Renamed(..)
                | Item::Redacted(..) => {}
            }
        }
        for (number, tenant) in touched {
            self.hand_in(position, tenant, number).await?;
        }
        self.index.reached(last).await?;
        Ok(last)
    }

    /// Hands in every document that there is.
    async fn take_all(&self) -> Result<(), Closed> {
        let mut behind = EntityNumber::ZERO;
        loop {
            let page = self
                .read(|store| store.documents_behind(behind, PAGE))
                .await;
            let Some(last) = page.last() else {
                return Ok(());
            };
            behind = last.subject.number;
            for OwnedDocument { subject, tenant } in page {
                self.hand_in(Position::ZERO, tenant, subject.number).await?;
            }
        }
    }

    /// Hands in what happened between these positions.
    async fn catch_up(&self, mut position: Position, until: Position) -> Result<(), Closed> {
        while position < until {
            let rows = self
                .read(|store| store.happened_behind(position, PAGE))
                .await;
            let full = rows.len() == usize::try_from(PAGE).unwrap_or(usize::MAX);
            let mut last = position;
            let mut touched: HashMap<EntityNumber, Arc<Event>> = HashMap::new();
            for row in rows {
                match row {
                    FeedRow::Event(event) => {
                        last = last.max(event.position);
                        if event.kind.is_of_document() {
                            touched.insert(event.entity, event);
                        }
                    }
                    FeedRow::Endpoint { position, .. } | FeedRow::Renamed { position, .. } => {
                        last = last.max(position);
                    }
                }
            }
            for (number, event) in touched {
                self.hand_in(position, event.tenant, number).await?;
            }
            position = if full { last } else { until };
        }
        Ok(())
    }

    /// Hands in a document as it is now, or that it is not to be found; everything up to the
    /// position was handed in.
    async fn hand_in(
        &self,
        position: Position,
        tenant: Tenant,
        number: EntityNumber,
    ) -> Result<(), Closed> {
        loop {
            match self.entry(tenant, number).await {
                Ok(Some(entry)) => return self.index.put(position, entry).await,
                // What can't be read is not found, and does not keep the others out.
                Ok(None) | Err(ReadError::Unreadable) => {
                    return self.index.remove(position, number).await;
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// What is to be found of a document.
    async fn entry(
        &self,
        tenant: Tenant,
        number: EntityNumber,
    ) -> Result<Option<Entry>, ReadError> {
        let store = &self.shared.store;
        let Some(IndexedDocument { row, is_deleted }) = store.document(tenant, number).await?
        else {
            return Ok(None);
        };
        let facts = Facts::stored(
            DocumentId::from_parts(row.subject.number, row.subject.tail),
            &row.body,
        )?;
        let Some(FramedVersion { frames, .. }) = store
            .version(Tenant::OPERATORS, row.subject, facts.head)
            .await?
        else {
            return Ok(None);
        };
        let bytes = unpacked_bytes(&frames);
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
            let _pin = offload::pin_if_large(bytes);
            unpack(&frames, row.subject, facts.head)
        };
        let (content, _) = unpacked.ok_or(ReadError::Unreadable)?;
        // It goes before the text is handed in: the queue may be full for as long as the disk is.
        drop(permit);
        Ok(Some(Entry {
            number,
            tenant: match is_deleted {
                true => deleted(tenant),
                false => tenant,
            },
            title: facts.title,
            content,
        }))
    }

    async fn read<T>(
        &self,
        ask: impl Fn(&dyn Store) -> crate::store::Later<Result<T, ReadError>>,
    ) -> T {
        loop {
            match ask(&*self.shared.store).await {
                Ok(found) => return found,
                Err(error) => {
                    tracing::warn!(%error, "the search index can't be kept up; trying again")
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// The partition of the index that holds a tenant's documents in the bin: they are kept apart, so
/// that a search meets the ones or the others.
fn deleted(tenant: Tenant) -> Tenant {
    Tenant::from_number(!tenant.number())
}
