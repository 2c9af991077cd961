//! What shared caches (RFC 9111), such as a CDN, may keep of what share links open, and how they are
//! told that it is no longer true.
//!
//! - `purging.rs` the thread that tells them

mod purging;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use colloquy_actors::document::Link;
use colloquy_actors::feed::Events;
use colloquy_actors::metrics::MetricsWriter;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{DocumentId, ShareId};
use colloquy_model::time::Timestamp;
use colloquy_runtime::threads::BackgroundThread;
use parking_lot::Mutex;

use self::purging::Purger;
use crate::config;
use crate::courier::CourierError;

/// What everything carries that shared caches may keep and that can become untrue.
const EVERY_LINK: &str = "share-links";
/// Documents that are remembered as kept by shared caches. While more are, every change of a document
/// is told.
const REMEMBERED: usize = 100_000;

/// Why shared caches can't be told although the settings name one.
#[derive(Debug, thiserror::Error)]
pub enum SharedCachesError {
    /// No client can be made.
    #[error(transparent)]
    Client(#[from] CourierError),
    /// The system starts no further thread.
    #[error("can't start the thread that purges shared caches: {0}")]
    Thread(#[from] std::io::Error),
}

/// What shared caches may keep, and the thread that tells them of changes.
pub(crate) struct SharedCaches {
    link_seconds: u32,
    kept: Arc<Kept>,
    thread: Option<BackgroundThread>,
}

/// How shared caches may keep an answer that is the same for everybody who has its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedCaching {
    /// For how long at most.
    pub(crate) seconds: u32,
    /// Whether it never changes.
    pub(crate) is_lasting: bool,
    pub(crate) document: DocumentId,
    pub(crate) share: ShareId,
}

/// What shared caches were let keep, and what they were told.
#[derive(Default)]
struct Kept {
    /// The documents, and when each was shown last.
    documents: Mutex<HashMap<EntityNumber, (DocumentId, Instant)>>,
    purged: AtomicU64,
    failed: AtomicU64,
}

impl SharedCaches {
    /// Starts the thread where the settings name whom to tell.
    ///
    /// # Errors
    /// The settings can't be used, or there is no thread for it.
    pub(crate) fn start(
        settings: &config::SharedCaches,
        events: &Events,
    ) -> Result<Self, SharedCachesError> {
        let kept = Arc::<Kept>::default();
        let is_told = settings.link_seconds > 0 && !settings.purge_url.is_empty();
        let thread = is_told.then(|| {
            let purger = Arc::new(Purger::new(settings, Arc::clone(&kept))?);
            let feed = events.feed();
            let run = move || {
                let (purger, feed) = (Arc::clone(&purger), Arc::clone(&feed));
                async move { purger.follow(&feed).await }
            };
            let thread = BackgroundThread::start_with_connections("purges", run)?;
            Ok::<_, SharedCachesError>(thread)
        });
        Ok(SharedCaches {
            link_seconds: settings.link_seconds,
            kept,
            thread: thread.transpose()?,
        })
    }

    /// For how long shared caches may keep what links open; 0: not at all.
    pub(crate) fn link_seconds(&self) -> u32 {
        self.link_seconds
    }

    /// How shared caches may keep what a link opens; none where they may not. Asked before the document
    /// is read: a change that comes meanwhile has to be told.
    pub(crate) fn may_keep(&self, link: &Link, now: Timestamp) -> Option<SharedCaching> {
        if !link.is_public || self.link_seconds == 0 {
            return None;
        }
        let left = link.expires_at.map_or(u32::MAX, |end| {
            let seconds = end.0.saturating_sub(now.0) / 1_000;
            u32::try_from(seconds.max(0)).unwrap_or(u32::MAX)
        });
        let seconds = self.link_seconds.min(left);
        if seconds == 0 {
            return None;
        }
        if self.thread.is_some() {
            self.kept.remember(link.document);
        }
        Some(SharedCaching {
            seconds,
            is_lasting: false,
            document: link.document,
            share: link.share,
        })
    }

    pub(crate) fn write_metrics(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        out.counters(
            "cache_purges_total",
            "Requests by which shared caches were told to drop answers, by whether they took it.",
            [
                ([("outcome", "done")], read(&self.kept.purged)),
                ([("outcome", "failed")], read(&self.kept.failed)),
            ],
        )
    }
}

impl SharedCaching {
    /// The same for what never changes.
    pub(crate) fn lasting(self) -> Self {
        SharedCaching {
            is_lasting: true,
            ..self
        }
    }

    /// What the answer is found by when it is purged: the document, the link, and all links.
    pub(crate) fn tags(&self) -> [String; 3] {
        [
            self.document.to_string(),
            self.share.to_string(),
            EVERY_LINK.to_owned(),
        ]
    }
}

impl Kept {
    fn remember(&self, document: DocumentId) {
        let mut documents = self.documents.lock();
        if documents.len() < REMEMBERED || documents.contains_key(&document.number()) {
            documents.insert(document.number(), (document, Instant::now()));
        }
    }

    /// Forgets documents that no shared cache can hold any longer.
    fn forget(&self, kept_for: Duration) {
        let held = |_: &EntityNumber, (_, shown): &mut (_, Instant)| shown.elapsed() <= kept_for;
        self.documents.lock().retain(held);
    }
}

/// What a change of a document makes untrue.
enum Untrue {
    /// No shared cache has it.
    Nothing,
    Document(DocumentId),
    /// It may be kept, and is not among those that are remembered.
    Unknown,
}

impl Kept {
    fn untrue(&self, document: EntityNumber) -> Untrue {
        let documents = self.documents.lock();
        match documents.get(&document) {
            Some((id, _)) => Untrue::Document(*id),
            None if documents.len() >= REMEMBERED => Untrue::Unknown,
            None => Untrue::Nothing,
        }
    }
}
