//! The thread that keeps an index up with what happens. It may lag for a moment; whoever searches
//! waits until the index knows everything that was acknowledged before. What is to be found of what
//! happened is its source's business.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::layout::Layout;
use super::{Closed, ErasingDue, Place, Search, SearchError};
use crate::feed::{Ended, Feed, Interest, Item};
use crate::store::{FeedRow, Later, ListFailure, ReadError, Store};
use colloquy_model::position::Position;
use colloquy_runtime::file_lock;
use colloquy_runtime::threads::{BackgroundThread, RestartBackoff};

/// How long a search waits for the index.
const SEARCH_WAIT: Duration = Duration::from_secs(2);
/// How long its answer may take: one search is interrupted after 2 s, but others may stand before
/// it.
const SEARCH_MAX: Duration = Duration::from_secs(4);
/// Events waiting for the index; one that lags further reads the store.
const QUEUE: usize = 1_024;
/// Rows read from the store at once.
const PAGE: u32 = 500;
/// How long the thread pauses after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// What an index is filled from.
pub(crate) trait Source: Send + Sync + 'static {
    /// How the index holds it.
    type Layout: Layout;
    /// What it listens to.
    const INTEREST: Interest;
    /// For how long events gather before they are handed in together, unless somebody searches.
    const GATHERED_FOR: Duration;

    /// The store of what is to be found.
    fn store(&self) -> &Arc<dyn Store>;

    /// Hands in everything that there is.
    async fn take_all(&self, index: &Search<Self::Layout>) -> Result<(), Closed>;

    /// Hands in what happened.
    async fn take(&self, index: &Search<Self::Layout>, happened: Happened) -> Result<(), Closed>;
}

/// What happened between two positions.
pub(crate) struct Happened {
    /// Everything up to here was handed in before.
    pub(crate) behind: Position,
    /// What happened, in its order.
    pub(crate) rows: Vec<FeedRow>,
    /// Everything up to here is in the rows.
    pub(crate) reached: Position,
}

/// An index, and the thread that fills it.
pub(crate) struct Indexer<S: Source> {
    shared: Arc<Shared<S>>,
    thread: Mutex<Option<BackgroundThread>>,
    /// Keeps other processes from the index.
    _lock: File,
}

struct Shared<S: Source> {
    source: S,
    feed: Arc<Feed>,
    place: Place,
    /// Another one when this one turned out to be damaged.
    index: Mutex<Arc<Search<S::Layout>>>,
    /// The last position that somebody waits for.
    wanted: watch::Sender<Position>,
}

impl<S: Source> Indexer<S> {
    /// Opens the index there and starts the thread.
    ///
    /// # Errors
    /// The file can't be used, or another process has it.
    pub(crate) fn open(place: Place, source: S, feed: Arc<Feed>) -> Result<Self, SearchError> {
        let failed = |error| SearchError::File(place.path.clone(), error);
        let lock = file_lock::try_lock(&place.path).map_err(failed)?;
        let lock = lock.ok_or_else(|| SearchError::InUse(place.path.clone()))?;
        let (index, position) = Search::open(&place, feed.last())?;
        let shared = Arc::new(Shared {
            source,
            feed,
            place: place.clone(),
            index: Mutex::new(Arc::new(index)),
            wanted: watch::channel(Position::ZERO).0,
        });
        let (following, mut opened_at) = (Arc::clone(&shared), Some(position));
        let thread = BackgroundThread::start(place.threads.follower, move || {
            // After a panic the index knows best how far it has come.
            let position = opened_at
                .take()
                .unwrap_or_else(|| following.index().position());
            run(Arc::clone(&following), position)
        });
        Ok(Indexer {
            shared,
            thread: Mutex::new(Some(thread.map_err(failed)?)),
            _lock: lock,
        })
    }

    /// Searches when the index knows everything that was acknowledged before.
    ///
    /// # Errors
    /// The index is behind, or can't be read.
    pub(crate) async fn find<T>(
        &self,
        find: impl FnOnce(&Search<S::Layout>) -> Later<Result<T, ReadError>>,
    ) -> Result<T, ListFailure> {
        let (index, _) = self.caught_up().await?;
        Ok(tokio::time::timeout(SEARCH_MAX, find(&index))
            .await
            .map_err(|_| ListFailure::TooSlow)??)
    }

    /// The index when it knows everything that was acknowledged before, up to this position.
    async fn caught_up(&self) -> Result<(Arc<Search<S::Layout>>, Position), ListFailure> {
        let caught_up = self.shared.source.store().catch_up().await;
        caught_up.map_err(|_| ListFailure::Away)?;
        let index = self.shared.index();
        let wanted = self.shared.feed.last();
        self.shared.wanted.send_if_modified(|before| {
            let further = wanted > *before;
            *before = wanted.max(*before);
            further
        });
        self.shared.feed.reach();
        index
            .wait_for(wanted, SEARCH_WAIT)
            .await
            .map_err(|_| ListFailure::Away)?;
        Ok((index, wanted))
    }

    /// Waits until everything is taken out of the index that was erased before; gives from where on
    /// its files hold nothing of that.
    ///
    /// # Errors
    /// The index is behind.
    pub(crate) async fn erasing_due(&self) -> Result<ErasingDue, ListFailure> {
        let (index, reached) = self.caught_up().await?;
        Ok(index.erasing_behind(reached))
    }

    /// Whether its files hold nothing of that any more.
    pub(crate) fn is_erased(&self, since: ErasingDue) -> bool {
        self.shared.index().is_erased(since)
    }

    /// How many positions the index is behind.
    pub(crate) fn lag(&self) -> u64 {
        let position = self.shared.index().position();
        self.shared.feed.lag(S::INTEREST, position)
    }

    /// Ends the thread and closes the index. Blocks: not for an arbiter.
    pub(crate) fn close(&self) {
        self.thread.lock().take();
        self.shared.index().close();
    }
}

async fn run<S: Source>(shared: Arc<Shared<S>>, mut position: Position) {
    let mut restarts = RestartBackoff::of(shared.place.threads.writer);
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

impl<S: Source> Shared<S> {
    fn index(&self) -> Arc<Search<S::Layout>> {
        Arc::clone(&self.index.lock())
    }

    /// Opens the index again, which begins anew where its file is not to be trusted, however often
    /// it takes.
    async fn open_again(&self) -> Position {
        self.index().close();
        loop {
            match Search::open(&self.place, self.feed.last()) {
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

struct Follower<'s, S: Source> {
    index: Arc<Search<S::Layout>>,
    shared: &'s Shared<S>,
}

impl<S: Source> Follower<'_, S> {
    /// Hands in what happens behind this position, until the feed is closed.
    async fn follow(&self, mut position: Position) -> Result<(), Closed> {
        let mut wanted = self.shared.wanted.subscribe();
        loop {
            let mut heard = self.shared.feed.subscribe(S::INTEREST, QUEUE);
            if position == Position::ZERO {
                // Retention may have taken events of what is still there.
                self.shared.source.take_all(&self.index).await?;
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
                if !S::GATHERED_FOR.is_zero() {
                    // Either time is over, or somebody waits for it.
                    let searched = wanted.wait_for(|wanted| *wanted > position);
                    let _ = tokio::time::timeout(S::GATHERED_FOR, searched).await;
                }
                // What has gathered is handed in at once: of what changes all the time only the
                // last state.
                let rest = std::iter::from_fn(|| heard.waiting()).take(QUEUE);
                let happened = gathered(position, std::iter::once(first).chain(rest));
                position = happened.reached;
                self.shared.source.take(&self.index, happened).await?;
                if self.index.damaged() {
                    return Err(Closed);
                }
            }
        }
    }

    /// Hands in what happened between these positions.
    async fn catch_up(&self, mut position: Position, until: Position) -> Result<(), Closed> {
        while position < until {
            let rows = insist(|| self.shared.source.store().happened_behind(position, PAGE)).await;
            let full = rows.len() == usize::try_from(PAGE).unwrap_or(usize::MAX);
            let last = rows.last().map_or(position, FeedRow::position);
            let happened = Happened {
                behind: position,
                rows,
                reached: if full { last } else { until },
            };
            position = happened.reached;
            self.shared.source.take(&self.index, happened).await?;
        }
        Ok(())
    }
}

/// What came through a subscription, as the store would have told it.
fn gathered(behind: Position, items: impl Iterator<Item = Item>) -> Happened {
    let mut happened = Happened {
        behind,
        rows: Vec::new(),
        reached: behind,
    };
    for item in items {
        let row = match item {
            Item::Event(event) => FeedRow::Event(event),
            Item::Renamed(position, renamed) => FeedRow::Renamed {
                position,
                customer: renamed.customer,
                tenant: renamed.tenant,
                name: renamed.name.clone(),
            },
            Item::Reached(position) => {
                happened.reached = happened.reached.max(position);
                continue;
            }
            Item::Endpoint(..) | Item::EndpointGone(..) | Item::Redacted(..) => continue,
        };
        happened.reached = happened.reached.max(row.position());
        happened.rows.push(row);
    }
    happened
}

/// Asks the store, however often it takes.
pub(crate) async fn insist<T>(ask: impl Fn() -> Later<Result<T, ReadError>>) -> T {
    loop {
        match ask().await {
            Ok(found) => return found,
            Err(error) => {
                tracing::warn!(%error, "the search index can't be kept up; trying again")
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The same, and none where what is stored can't be read: it is not found, and does not keep the
/// others out.
pub(crate) async fn insist_if_readable<T>(
    ask: impl AsyncFn() -> Result<T, ReadError>,
) -> Option<T> {
    loop {
        match ask().await {
            Ok(found) => return Some(found),
            Err(ReadError::Unreadable) => return None,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
