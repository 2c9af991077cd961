//! The thread that keeps an index up with what happens. It may lag for a moment; whoever searches
//! waits until the index knows everything of its own account that was acknowledged before. What is to
//! be found of what happened is its source's business.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::backlog::{Backlog, HandedIn, Pending, TURN_BYTES, Turn};
use super::layout::{Layout, Progress};
use super::writer::Written;
use super::{Closed, ErasingDue, Place, Search, SearchError};
use crate::feed::{Ended, Feed, Interest, Item};
use crate::store::{FeedRow, Later, ListFailure, ReadError, Store};
use colloquy_model::caller::Tenant;
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
/// With so much text of turns that are left no further long text is begun: others' short ones go on.
const RESTS_BYTES_MAX: usize = 64 << 20;
/// How long the thread pauses after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// What an index is filled from.
pub(crate) trait Source: Send + Sync + 'static {
    /// How the index holds it.
    type Layout: Layout;
    /// What waits to be taken in.
    type Pending: Pending;
    /// What it listens to.
    const INTEREST: Interest;
    /// For how long events gather before they are read together, unless somebody searches.
    const GATHERED_FOR: Duration;

    /// The store of what is to be found.
    fn store(&self) -> &Arc<dyn Store>;

    /// Adds everything that there is.
    async fn add_all(&self, to: &Adding<'_, Self::Pending>);

    /// Adds what the index has to take in for an event or a new name.
    async fn add(&self, happened: FeedRow, to: &Adding<'_, Self::Pending>);

    /// What of the index is to be changed for it, as it is now; itself again where that is a long text and
    /// there is no room for one.
    async fn changes(
        &self,
        pending: Self::Pending,
        is_room: bool,
    ) -> Result<Vec<<Self::Layout as Layout>::Change>, Self::Pending>;
}

/// Where a source adds what happened behind a position.
pub(crate) struct Adding<'b, T: Pending> {
    backlog: &'b Backlog<T>,
    behind: Position,
}

impl<T: Pending> Adding<'_, T> {
    /// Adds what belongs to this tenant. Waits while there is no room.
    pub(crate) async fn add(&self, tenant: Tenant, pending: T) {
        let account = tenant.account_number();
        self.backlog.add(self.behind, account, pending).await;
    }

    /// Waits until what is added for this tenant keeps its text.
    pub(crate) async fn room(&self, tenant: Tenant) {
        self.backlog.room(tenant.account_number()).await;
    }
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
    open: Mutex<Open<S>>,
    /// The last position that somebody waits for.
    wanted: watch::Sender<Position>,
    /// Whether the thread has begun: where it begins again, it has panicked.
    has_begun: AtomicBool,
}

/// An index that is open, and what is not in it yet.
struct Open<S: Source> {
    index: Arc<Search<S::Layout>>,
    backlog: Arc<Backlog<S::Pending>>,
}

impl<S: Source> Open<S> {
    fn at(index: Search<S::Layout>, position: Position) -> Self {
        Open {
            index: Arc::new(index),
            backlog: Arc::new(Backlog::behind(position)),
        }
    }
}

impl<S: Source> Clone for Open<S> {
    fn clone(&self) -> Self {
        Open {
            index: Arc::clone(&self.index),
            backlog: Arc::clone(&self.backlog),
        }
    }
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
            open: Mutex::new(Open::at(index, position)),
            wanted: watch::channel(Position::ZERO).0,
            has_begun: AtomicBool::new(false),
        });
        let following = Arc::clone(&shared);
        let thread =
            BackgroundThread::start(place.threads.follower, move || run(Arc::clone(&following)));
        Ok(Indexer {
            shared,
            thread: Mutex::new(Some(thread.map_err(failed)?)),
            _lock: lock,
        })
    }

    /// Searches in what is this tenant's when the index knows everything of its account that was
    /// acknowledged before.
    ///
    /// # Errors
    /// The index is behind, or can't be read.
    pub(crate) async fn find<T>(
        &self,
        tenant: Tenant,
        find: impl FnOnce(&Search<S::Layout>) -> Later<Result<T, ReadError>>,
    ) -> Result<T, ListFailure> {
        let (index, _) = self.caught_up(tenant.account_number()).await?;
        Ok(tokio::time::timeout(SEARCH_MAX, find(&index))
            .await
            .map_err(|_| ListFailure::TooSlow)??)
    }

    /// The index when it knows everything of an account that was acknowledged before, up to this
    /// position.
    async fn caught_up(
        &self,
        account: u32,
    ) -> Result<(Arc<Search<S::Layout>>, Position), ListFailure> {
        let caught_up = self.shared.source.store().catch_up().await;
        caught_up.map_err(|_| ListFailure::Away)?;
        let wanted = self.shared.feed.last();
        let Open { index, backlog } = self.shared.open();
        if backlog.has(account, wanted) {
            return Ok((index, wanted));
        }
        let is_first = self.shared.wanted.send_if_modified(|before| {
            let further = wanted > *before;
            *before = wanted.max(*before);
            further
        });
        // Once for all who want as much: it wakes whoever follows all accounts.
        if is_first {
            self.shared.feed.reach();
        }
        let caught_up = async {
            loop {
                let Open { index, backlog } = self.shared.open();
                if backlog.wait_for(account, wanted).await {
                    return index;
                }
            }
        };
        let index = tokio::time::timeout(SEARCH_WAIT, caught_up).await;
        Ok((index.map_err(|_| ListFailure::Away)?, wanted))
    }

    /// Waits until everything of an account is taken out of the index that was erased before; gives
    /// from where on its files hold nothing of that.
    ///
    /// # Errors
    /// The index is behind.
    pub(crate) async fn erasing_due(&self, tenant: Tenant) -> Result<ErasingDue, ListFailure> {
        let account = tenant.account_number();
        let (index, position) = self.caught_up(account).await?;
        Ok(index.erasing_due(account, position))
    }

    /// Whether its files hold nothing of that any more.
    pub(crate) fn is_erased(&self, due: ErasingDue) -> bool {
        let Open { index, backlog } = self.shared.open();
        backlog.has(due.account, due.position) && index.is_erased_behind(due)
    }

    /// How many positions the index is behind.
    pub(crate) fn lag(&self) -> u64 {
        let position = self.shared.open().index.position();
        self.shared.feed.lag(S::INTEREST, position)
    }

    /// Ends the thread and closes the index. Blocks: not for an arbiter.
    pub(crate) fn close(&self) {
        self.thread.lock().take();
        self.shared.open().index.close();
    }
}

async fn run<S: Source>(shared: Arc<Shared<S>>) {
    let mut restarts = RestartBackoff::of(shared.place.threads.writer);
    if shared.has_begun.swap(true, Ordering::Relaxed) {
        shared.begin_again().await;
    }
    loop {
        let follower = Follower::of(&shared);
        let ended = tokio::select! {
            () = follower.follow() => Ok(()),
            ended = follower.hand_in() => ended,
            // A search that finds it damaged hands nothing in.
            () = follower.index.ended() => Err(Closed),
        };
        if ended.is_ok() {
            return;
        }
        // Its writer has ended: it is damaged, which the next file may be for the same reason, or has panicked.
        tokio::time::sleep(restarts.next_wait()).await;
        shared.open_again().await;
    }
}

impl<S: Source> Shared<S> {
    fn open(&self) -> Open<S> {
        self.open.lock().clone()
    }

    /// Goes on after a panic: what waited is read again from where the index has come. While it was made,
    /// nothing tells what has gone since, so that it is made anew.
    async fn begin_again(&self) {
        let Open { index, .. } = self.open();
        match index.position() {
            Position::ZERO => self.open_again().await,
            position => self.replace(Open {
                index,
                backlog: Arc::new(Backlog::behind(position)),
            }),
        }
    }

    fn replace(&self, open: Open<S>) {
        let before = std::mem::replace(&mut *self.open.lock(), open);
        before.backlog.end();
    }

    /// Opens the index again, which begins anew where its file is not to be trusted, however often
    /// it takes.
    async fn open_again(&self) {
        self.open().index.close();
        loop {
            match Search::open(&self.place, self.feed.last()) {
                Ok((index, position)) => return self.replace(Open::at(index, position)),
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
    backlog: Arc<Backlog<S::Pending>>,
    shared: &'s Shared<S>,
}

impl<'s, S: Source> Follower<'s, S> {
    fn of(shared: &'s Shared<S>) -> Self {
        let Open { index, backlog } = shared.open();
        Follower {
            index,
            backlog,
            shared,
        }
    }

    /// Adds what happens to the backlog, until the feed is closed.
    async fn follow(&self) {
        let mut position = self.index.position();
        let mut wanted = self.shared.wanted.subscribe();
        loop {
            let mut heard = self.shared.feed.subscribe(S::INTEREST, QUEUE);
            if position == Position::ZERO {
                // Retention may have taken events of what is still there.
                self.shared.source.add_all(&self.adding(position)).await;
            } else {
                self.catch_up(position, heard.joined).await;
            }
            position = heard.joined.max(position);
            self.backlog.all_added(position);
            loop {
                let first = match heard.next().await {
                    Ok(first) => first,
                    Err(Ended::TooSlow) => break,
                    Err(Ended::Closed) => return,
                };
                if !S::GATHERED_FOR.is_zero() {
                    // Either time is over, or somebody waits for it.
                    let searched = wanted.wait_for(|wanted| *wanted > position);
                    let _ = tokio::time::timeout(S::GATHERED_FOR, searched).await;
                }
                let rest = std::iter::from_fn(|| heard.waiting()).take(QUEUE);
                let happened = gathered(position, std::iter::once(first).chain(rest));
                self.add(position, happened.rows).await;
                position = happened.reached;
                self.backlog.all_added(position);
            }
        }
    }

    /// Adds what happened between these positions.
    async fn catch_up(&self, mut position: Position, until: Position) {
        while position < until {
            let rows = insist(|| self.shared.source.store().happened_behind(position, PAGE)).await;
            let full = rows.len() == usize::try_from(PAGE).unwrap_or(usize::MAX);
            let last = rows.last().map_or(position, FeedRow::position);
            self.add(position, rows).await;
            position = if full { last } else { until };
            self.backlog.all_added(position);
        }
    }

    async fn add(&self, behind: Position, happened: Vec<FeedRow>) {
        let adding = self.adding(behind);
        for row in happened {
            self.shared.source.add(row, &adding).await;
        }
    }

    fn adding(&self, behind: Position) -> Adding<'_, S::Pending> {
        Adding {
            backlog: &self.backlog,
            behind,
        }
    }

    /// Hands in what waits, in turns of accounts. Ends with the index only.
    async fn hand_in(&self) -> Result<(), Closed> {
        let mut rests: HashMap<u32, Rest<S::Layout>> = HashMap::new();
        loop {
            let held: usize = rests.values().map(|rest| rest.bytes).sum();
            let is_room = held < RESTS_BYTES_MAX;
            let (mut step, mut written) = (Vec::new(), None);
            let turn = match self.backlog.next(is_room).await {
                Turn::Items(account, behind, items) => {
                    let begun = self.begin_items((account, behind), items, is_room).await;
                    begun.map(|rest| (account, rest))
                }
                Turn::Rest(account) => rests.remove(&account).map(|rest| (account, rest)),
                Turn::Nothing => None,
            };
            if let Some((account, mut rest)) = turn {
                step = rest.step();
                if rest.changes.is_empty() {
                    written = Some(self.taken_in(account, rest.items));
                } else {
                    self.backlog.leave_rest(account, rest.behind);
                    rests.insert(account, rest);
                }
            }
            let HandedIn { position, lags } = self.backlog.handed_in();
            let progress = Progress {
                position,
                // What is read anew may be as new as this.
                ahead: self.shared.feed.last(),
                lags,
            };
            self.index.hand_in(progress, step, written).await?;
        }
    }

    /// What is to be changed for these items of an account, which happened behind this position: those from
    /// a long text on for which there is no room are put back.
    async fn begin_items(
        &self,
        (account, behind): (u32, Position),
        items: Vec<S::Pending>,
        is_room: bool,
    ) -> Option<Rest<S::Layout>> {
        let mut rest = Rest {
            behind,
            items: 0,
            changes: VecDeque::new(),
            bytes: 0,
        };
        let mut items = items.into_iter();
        while let Some(item) = items.next() {
            match self.shared.source.changes(item, is_room).await {
                Ok(changes) => rest.changes.extend(changes),
                Err(long) => {
                    let again = std::iter::once(long).chain(items).collect();
                    self.backlog.put_back(account, behind, again);
                    break;
                }
            }
            rest.items += 1;
        }
        rest.bytes = rest.changes.iter().map(S::Layout::bytes).sum();
        (rest.items > 0).then_some(rest)
    }

    /// Tells the backlog that so many items of an account are in the index.
    fn taken_in(&self, account: u32, items: usize) -> Written {
        let backlog = Arc::clone(&self.backlog);
        Box::new(move || backlog.taken_in(account, items))
    }
}

/// What is left of the items of a turn.
struct Rest<L: Layout> {
    /// What they happened behind.
    behind: Position,
    /// How many items of the turn are told as taken in once all of their changes are.
    items: usize,
    changes: VecDeque<L::Change>,
    bytes: usize,
}

impl<L: Layout> Rest<L> {
    /// The next changes, as many as are handed in at once.
    fn step(&mut self) -> Vec<L::Change> {
        let (mut step, mut bytes) = (Vec::new(), 0);
        while bytes < TURN_BYTES
            && let Some(change) = self.changes.pop_front()
        {
            bytes += L::bytes(&change);
            step.push(change);
        }
        self.bytes -= bytes;
        step
    }
}

/// What happened behind a position.
struct Happened {
    /// In its order.
    rows: Vec<FeedRow>,
    /// Everything up to here is in the rows.
    reached: Position,
}

/// What came through a subscription, as the store would have told it.
fn gathered(behind: Position, items: impl Iterator<Item = Item>) -> Happened {
    let mut happened = Happened {
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
