//! What conversations have come to, by hour, day and month: figures that are kept up from the
//! events of the feed, and from nothing else, so that whoever reads the same events gets the same
//! figures. And how many messages and documents were made with which credential, day by day.

mod follower;
mod query;
mod rules;
mod tally;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use self::follower::Shared;
pub use self::query::{
    AnalyticsQuery, DurationFigures, Entry, FigureAnswer, FigureList, FigureListMeta, GroupBy,
    MessageFigures, Seconds,
};
use crate::feed::{Feed, Interest};
use crate::store::{Generations, ListFailure, Made, MadeCell, MadeQuery, Store};
use colloquy_model::position::Position;
use colloquy_runtime::threads::BackgroundThread;

/// How long an answer waits until everything is counted that was acknowledged before.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);
/// How often a node that does not count itself looks how far the one that does has come.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Figures, and the thread that keeps them up.
pub struct Analytics {
    shared: Arc<Shared>,
}

/// How far figures have come that are being made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebuildProgress {
    /// Up to which position everything is counted.
    pub counted: Position,
    /// The last position that there is.
    pub last: Position,
}

/// Why figures can't be made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// Retention has taken events of which they were made.
    #[error("retention has taken events from the log")]
    Trimmed,
    /// The store is away.
    #[error("the store is away")]
    Away,
}

impl Analytics {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        feed: Arc<Feed>,
    ) -> io::Result<(Self, BackgroundThread)> {
        let shared = Arc::new(Shared {
            store,
            feed,
            wanted: watch::channel(Position::ZERO).0,
            counted: watch::channel(None).0,
            rebuilds: Notify::new(),
        });
        let following = Arc::clone(&shared);
        let thread =
            BackgroundThread::start("analytics", move || follower::run(Arc::clone(&following)))?;
        Ok((Analytics { shared }, thread))
    }

    /// How many positions it is behind; 0 at a node that does not count.
    pub(crate) fn lag(&self) -> u64 {
        let counted = *self.shared.counted.borrow();
        counted.map_or(0, |counted| {
            self.shared.feed.lag(Interest::Figures, counted)
        })
    }

    /// What was made with which credential, day by day, as far as it was acknowledged before.
    ///
    /// # Errors
    /// The store is away, or what was acknowledged is not counted in time.
    pub async fn made(&self, query: MadeQuery) -> Result<Vec<(MadeCell, Made)>, ListFailure> {
        self.catch_up().await?;
        Ok(self.shared.store.made(query).await?)
    }

    /// Has all figures made anew from the log, behind what is shown meanwhile; where that is under
    /// way, it goes on.
    ///
    /// # Errors
    /// Retention has taken events, or the store is away.
    pub async fn rebuild(&self) -> Result<RebuildProgress, RebuildError> {
        let begun = self.shared.store.begin_rebuild().await;
        match begun {
            Ok(true) => {}
            Ok(false) => return Err(RebuildError::Trimmed),
            Err(_) => return Err(RebuildError::Away),
        }
        self.shared.rebuilds.notify_one();
        let progress = self.rebuilding().await.map_err(|_| RebuildError::Away)?;
        Ok(progress.unwrap_or(RebuildProgress {
            counted: self.shared.feed.last(),
            last: self.shared.feed.last(),
        }))
    }

    /// How far figures have come that are being made anew; none where none are.
    ///
    /// # Errors
    /// The store is away.
    pub async fn rebuilding(&self) -> Result<Option<RebuildProgress>, ListFailure> {
        let Generations { rebuilt, .. } = self.shared.store.generations().await?;
        Ok(rebuilt.map(|rebuilt| RebuildProgress {
            counted: rebuilt.counted,
            last: self.shared.feed.last(),
        }))
    }

    /// Waits until everything is counted that was acknowledged before.
    async fn catch_up(&self) -> Result<(), ListFailure> {
        let Shared {
            store,
            feed,
            wanted,
            counted,
            ..
        } = &*self.shared;
        store.catch_up().await?;
        let last = feed.last();
        let is_first = wanted.send_if_modified(|before| {
            let further = last > *before;
            *before = last.max(*before);
            further
        });
        // Once for all who want as much: it wakes whoever follows all accounts.
        if is_first {
            feed.reach();
        }
        let mut counted = counted.subscribe();
        let waiting = async {
            loop {
                let here =
                    counted.wait_for(|counted| counted.is_some_and(|counted| counted >= last));
                if !store.is_shared() {
                    return here.await.map(|_| ()).map_err(|_| ListFailure::Away);
                }
                if tokio::time::timeout(LOOK_EVERY, here).await.is_ok()
                    || store.generations().await?.shown.counted >= last
                {
                    return Ok(());
                }
            }
        };
        let waited = tokio::time::timeout(COUNTED_WITHIN, waiting).await;
        waited.map_err(|_| ListFailure::Away)?
    }
}
