//! The thread that counts what happens, behind the commits: from the store while it is behind, then
//! from the feed. Of all nodes that share a store one counts.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::rules::{Occurrence, occurrence};
use super::tally::{Counting, Tally};
use crate::feed::{Ended, Feed, Interest, Item, Subscription};
use crate::store::{FeedRow, ReadError, Store};
use colloquy_model::event::Event;
use colloquy_model::position::Position;

/// Events waiting to be counted; a follower that lags further reads the store.
const QUEUE: usize = 4_096;
/// Rows read from the store at once.
const PAGE: u32 = 500;
/// Events are taken from the feed so often: far more seldom than they may come.
const TAKEN_EVERY: Duration = Duration::from_millis(20);
/// So long they gather before they are counted together, unless somebody asks for figures.
const GATHERED_FOR: Duration = Duration::from_millis(200);
/// So many gather at most.
const GATHERED_MAX: usize = 4_096;
/// How often it looks, on a shared store, whether figures are to be made anew, and tells other nodes
/// how far it has come where nothing happens that is counted.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long it pauses after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// What the thread and those who ask share.
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) feed: Arc<Feed>,
    /// The last position that somebody waits for.
    pub(super) wanted: watch::Sender<Position>,
    /// Up to where this process has counted what is shown; none while another one does.
    pub(super) counted: watch::Sender<Option<Position>>,
    /// Told when figures are to be made anew.
    pub(super) rebuilds: Notify,
}

/// Why following ends: it begins anew.
#[derive(Debug)]
enum Restart {
    /// The feed is closed: the server stops.
    Closed,
    /// Somebody else has counted, or another generation is shown.
    Moved,
    /// The feed brought more than it took.
    TooSlow,
    Failed(ReadError),
}

impl From<ReadError> for Restart {
    fn from(error: ReadError) -> Self {
        Restart::Failed(error)
    }
}

impl From<Ended> for Restart {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Closed => Restart::Closed,
            Ended::TooSlow => Restart::TooSlow,
        }
    }
}

/// Counts until the feed is closed.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        let followed = follow(&shared).await;
        shared.counted.send_replace(None);
        match followed {
            Ok(()) | Err(Restart::Closed) => return,
            Err(Restart::Moved | Restart::TooSlow) => {}
            Err(Restart::Failed(error)) => {
                tracing::warn!(%error, "figures can't be kept up; trying again");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn follow(shared: &Shared) -> Result<(), Restart> {
    let generations = shared.store.begin_counting().await?;
    let mut follower = Follower {
        shared,
        shown: Tally::new(generations.shown),
        rebuilt: generations.rebuilt.map(Tally::new),
    };
    follower.tell();
    let mut heard = shared.feed.subscribe(Interest::Figures, QUEUE);
    follower.catch_up(heard.joined).await?;
    loop {
        match follower.next(&mut heard).await? {
            Some(first) => follower.take(first, &mut heard).await?,
            None => follower.look().await?,
        }
    }
}

struct Follower<'s> {
    shared: &'s Shared,
    /// Counts what is shown.
    shown: Tally,
    /// Counts what is being made anew.
    rebuilt: Option<Tally>,
}

impl Follower<'_> {
    /// Counts what happened up to this position, from the store.
    async fn catch_up(&mut self, until: Position) -> Result<(), Restart> {
        while self.shown.position() < until {
            let (occurrences, reached) = read(self.shared, self.shown.position(), until).await?;
            self.count(&occurrences, reached).await?;
        }
        Ok(())
    }

    /// Tells those who wait how far it has come.
    fn tell(&self) {
        self.shared
            .counted
            .send_replace(Some(self.shown.position()));
    }

    async fn count(
        &mut self,
        occurrences: &[Occurrence],
        reached: Position,
    ) -> Result<(), Restart> {
        let store = &*self.shared.store;
        match self.shown.count(store, occurrences, reached).await? {
            Counting::Done => {
                self.tell();
                Ok(())
            }
            Counting::Overtaken => Err(Restart::Moved),
        }
    }

    /// What comes next through the feed. None when it is time to look around, or to go on with what
    /// is being made anew, which waits for nothing but what happens.
    async fn next(&self, heard: &mut Subscription) -> Result<Option<Item>, Restart> {
        let patience = match self.rebuilt {
            Some(_) => Duration::ZERO,
            None if self.shared.store.is_shared() => LOOK_EVERY,
            None => Duration::MAX,
        };
        tokio::select! {
            biased;
            next = timeout(patience, heard.next()) => match next {
                Ok(item) => Ok(Some(item?)),
                Err(_) => Ok(None),
            },
            () = self.shared.rebuilds.notified() => Ok(None),
        }
    }

    /// Lets more gather behind the first, and counts all of it. What is being made anew waits for
    /// nobody: it would go on no faster than figures are asked for.
    async fn take(&mut self, first: Item, heard: &mut Subscription) -> Result<(), Restart> {
        let begun = Instant::now();
        let mut wanted = self.shared.wanted.subscribe();
        let mut gathered = Gathered::default();
        gathered.add(first);
        loop {
            while let Some(item) = heard.waiting() {
                gathered.add(item);
            }
            let is_wanted = *wanted.borrow_and_update() > self.shown.position();
            let is_full = gathered.occurrences.len() >= GATHERED_MAX;
            let is_time = begun.elapsed() >= GATHERED_FOR || self.rebuilt.is_some();
            if is_wanted || is_full || is_time {
                break;
            }
            // Either there is more to take, or somebody asks.
            let _ = timeout(TAKEN_EVERY, wanted.changed()).await;
        }
        self.count(&gathered.occurrences, gathered.reached).await
    }

    /// Goes on with what is being made anew; where nothing is, looks whether something is to be.
    async fn look(&mut self) -> Result<(), Restart> {
        if self.rebuilt.is_some() {
            return self.rebuild_some().await;
        }
        if self.shared.store.is_shared() && self.shown.position() < self.shared.feed.last() {
            // Other nodes know by what is stored how far it has come.
            self.shared.feed.reach();
        }
        match self.shared.store.generations().await?.rebuilt {
            Some(_) => Err(Restart::Moved),
            None => Ok(()),
        }
    }

    /// Counts some more of what is being made anew, and shows it when it knows all that is shown.
    async fn rebuild_some(&mut self) -> Result<(), Restart> {
        let Some(rebuilt) = &mut self.rebuilt else {
            return Ok(());
        };
        let (store, until) = (&*self.shared.store, self.shown.position());
        if rebuilt.position() < until {
            let (occurrences, reached) = read(self.shared, rebuilt.position(), until).await?;
            return match rebuilt.count(store, &occurrences, reached).await? {
                Counting::Done => Ok(()),
                Counting::Overtaken => Err(Restart::Moved),
            };
        }
        match store.end_rebuild().await? {
            true => Err(Restart::Moved),
            false => Ok(()),
        }
    }
}

/// Reads what happened behind one position, at most up to another; gives up to where it has read.
async fn read(
    shared: &Shared,
    behind: Position,
    until: Position,
) -> Result<(Vec<Occurrence>, Position), ReadError> {
    let rows = shared.store.happened_behind(behind, PAGE).await?;
    let is_last = rows.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
    let last = rows.last().map_or(behind, FeedRow::position);
    let reached = if is_last { until } else { last.min(until) };
    let mut gathered = Gathered::default();
    for row in rows {
        if row.position() <= reached
            && let FeedRow::Event(event) = row
        {
            gathered.event(&event);
        }
    }
    Ok((gathered.occurrences, reached))
}

/// What happened and is to be counted together.
#[derive(Default)]
struct Gathered {
    occurrences: Vec<Occurrence>,
    /// Everything up to here is among them.
    reached: Position,
}

impl Gathered {
    fn add(&mut self, item: Item) {
        match item {
            Item::Event(event) => self.event(&event),
            Item::Reached(position) => self.reached = self.reached.max(position),
            Item::Endpoint(..)
            | Item::EndpointGone(..)
            | Item::Renamed(..)
            | Item::Redacted(..) => {}
        }
    }

    /// An event that can't be read is told of, and counts nowhere.
    fn event(&mut self, event: &Event) {
        self.reached = self.reached.max(event.position);
        if let Ok(Some(occurrence)) = occurrence(event) {
            self.occurrences.push(occurrence);
        }
    }
}
