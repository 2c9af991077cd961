//! What shared caches (RFC 9111), such as a CDN, may keep of what share links open, and how they are
//! told that it is no longer true.
//!
//! - `purging.rs` the thread that tells them
//! - `watching.rs` what it has to tell that no change of a document tells it

mod purging;
mod watching;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use colloquy_actors::document::Link;
use colloquy_actors::metrics::MetricsWriter;
use colloquy_actors::system::System;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{DocumentId, ShareId};
use colloquy_model::time::Timestamp;
use colloquy_runtime::threads::BackgroundThread;
use parking_lot::Mutex;

use self::purging::Purger;
use self::watching::Watched;
use crate::config;
use crate::courier::CourierError;

/// What everything carries that shared caches may keep and that can become untrue.
const EVERY_LINK: &str = "share-links";
/// Documents that are remembered as kept by shared caches. While caches may hold more, a change of any
/// document has all links purged.
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
    documents: Mutex<Documents>,
    purged: AtomicU64,
    failed: AtomicU64,
}

/// The documents that shared caches were let keep.
#[derive(Default)]
struct Documents {
    /// When each was shown last.
    shown: HashMap<EntityNumber, (DocumentId, Instant)>,
    /// When one was shown last that is not remembered, because too many are; none where no cache can hold
    /// such a one any longer.
    unremembered_at: Option<Instant>,
}

impl SharedCaches {
    /// Starts the thread where the settings name whom to tell.
    ///
    /// # Errors
    /// The settings can't be used, or there is no thread for it.
    pub(crate) fn start(
        settings: &config::SharedCaches,
        system: &System,
    ) -> Result<Self, SharedCachesError> {
        let kept = Arc::<Kept>::default();
        let is_told = settings.link_seconds > 0 && !settings.purge_url.is_empty();
        let thread = is_told.then(|| {
            let watched = Watched::of(system);
            let purger = Arc::new(Purger::new(settings, Arc::clone(&kept), watched)?);
            let feed = system.events.feed();
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
        let now = Instant::now();
        let has_room = documents.shown.len() < REMEMBERED;
        if has_room || documents.shown.contains_key(&document.number()) {
            documents.shown.insert(document.number(), (document, now));
        } else {
            documents.unremembered_at = Some(now);
        }
    }

    /// Forgets documents that no shared cache can hold any longer.
    fn forget(&self, kept_for: Duration) {
        let is_held = |shown: &Instant| shown.elapsed() <= kept_for;
        let mut documents = self.documents.lock();
        documents.shown.retain(|_, (_, shown)| is_held(shown));
        documents.unremembered_at = documents.unremembered_at.filter(is_held);
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
        match documents.shown.get(&document) {
            Some((id, _)) => Untrue::Document(*id),
            None if documents.unremembered_at.is_some() => Untrue::Unknown,
            None => Untrue::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_documents_that_are_not_remembered_all_are_told_until_no_cache_holds_one() {
        let kept = Kept::default();
        let document = || DocumentId::new(Timestamp::now());
        let is_unknown = |one: DocumentId| matches!(kept.untrue(one.number()), Untrue::Unknown);
        let (first, last) = (document(), document());
        kept.remember(first);
        assert!(matches!(kept.untrue(last.number()), Untrue::Nothing));
        for _ in 1..REMEMBERED {
            kept.remember(document());
        }
        kept.remember(last);
        assert!(is_unknown(last));
        // Room for others does not bring back what was not remembered.
        kept.documents.lock().shown.clear();
        kept.forget(Duration::from_secs(60));
        assert!(is_unknown(last));
        kept.forget(Duration::ZERO);
        assert!(matches!(kept.untrue(last.number()), Untrue::Nothing));
    }
}
