//! The thread that tells a shared cache which of its answers are no longer true. It follows what is
//! committed, so it tells of nothing else; what was told before the process ended is not known any
//! more, so a start tells of all.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use colloquy_actors::feed::{Ended, Feed, Interest, Item};
use colloquy_model::event_kind::EventKind;
use http::{HeaderName, HeaderValue};
use reqwest::{Client, redirect};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::watching::{Known, Watched};
use super::{EVERY_LINK, Kept, SharedCachesError, Untrue};
use crate::config::{self, PurgeFormat};
use crate::courier::{CourierError, tls};

/// Events waiting for the thread; where more come, all links are purged.
const QUEUE: usize = 1_024;
/// How long changes gather before they are told together.
const GATHER: Duration = Duration::from_millis(200);
/// A purge is told once more after so long: an answer that was made before the change may have come to
/// the cache behind the first.
const ONCE_MORE: Duration = Duration::from_secs(5);
/// How long the thread waits before it tries again what failed, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// How often is looked for what no change of a document tells.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long the cache may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Tags of one request: Cloudflare takes no more.
const TAGS_MAX: usize = 30;

pub(super) struct Purger {
    kept: Arc<Kept>,
    watched: Watched,
    /// For how long a shared cache holds what it is not told of.
    kept_for: Duration,
    client: Client,
    url: String,
    format: PurgeFormat,
    header: Option<(HeaderName, HeaderValue)>,
}

/// What is to be told.
#[derive(Default)]
struct Pending {
    tags: HashMap<String, Purge>,
    /// How long to wait after the next failure.
    pause: Option<Duration>,
}

struct Purge {
    since: Instant,
    due: Instant,
    is_repeated: bool,
}

impl Purger {
    pub(super) fn new(
        settings: &config::SharedCaches,
        kept: Arc<Kept>,
        watched: Watched,
    ) -> Result<Self, SharedCachesError> {
        let client = Client::builder()
            .tls_backend_preconfigured(tls().map_err(CourierError::from)?)
            .redirect(redirect::Policy::none())
            .referer(false)
            .timeout(TIMEOUT)
            .build()
            .map_err(CourierError::from)?;
        Ok(Purger {
            kept,
            watched,
            kept_for: Duration::from_secs(settings.link_seconds.into()),
            client,
            url: settings.purge_url.clone(),
            format: settings.purge_format,
            header: settings.header(),
        })
    }

    /// Tells of changes until the feed is closed.
    pub(super) async fn follow(&self, feed: &Arc<Feed>) {
        let mut pending = Pending::default();
        let mut heard = feed.subscribe(Interest::Documents, QUEUE);
        let (mut known, mut looks) = (Known::default(), interval(LOOK_EVERY));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Which covers what is found first.
        pending.add(EVERY_LINK.to_owned());
        self.watched.look(&mut known).await;
        loop {
            let due = pending.due();
            tokio::select! {
                item = heard.next() => match item {
                    Ok(Item::Event(event)) if makes_untrue(event.kind) => {
                        match self.kept.untrue(event.entity) {
                            Untrue::Nothing => {}
                            Untrue::Document(id) => pending.add(id.to_string()),
                            Untrue::Unknown => pending.add(EVERY_LINK.to_owned()),
                        }
                    }
                    Ok(_) => {}
                    Err(Ended::Closed) => return,
                    Err(Ended::TooSlow) => {
                        heard = feed.subscribe(Interest::Documents, QUEUE);
                        pending.add(EVERY_LINK.to_owned());
                    }
                },
                () = wait(due) => self.tell(&mut pending).await,
                _ = looks.tick() => if self.watched.look(&mut known).await {
                    pending.add(EVERY_LINK.to_owned());
                },
            }
        }
    }

    /// Tells what is due.
    async fn tell(&self, pending: &mut Pending) {
        self.kept.forget(self.kept_for);
        let now = Instant::now();
        let due = pending.tags.iter().filter(|(_, purge)| purge.due <= now);
        let tags: Vec<String> = due.map(|(tag, _)| tag.clone()).take(TAGS_MAX).collect();
        match self.send(&tags).await {
            Ok(()) => {
                self.kept.purged.fetch_add(1, Ordering::Relaxed);
                if pending.pause.is_some() {
                    tracing::info!("[shared_caches] purge_url takes purges again");
                }
                pending.told(&tags);
            }
            Err(error) => {
                self.kept.failed.fetch_add(1, Ordering::Relaxed);
                if pending.pause.is_none() {
                    tracing::warn!(%error, "[shared_caches] purge_url takes no purges; trying again");
                }
                pending.failed(&tags, self.kept_for);
            }
        }
    }

    async fn send(&self, tags: &[String]) -> Result<(), reqwest::Error> {
        let request = self.client.post(&self.url);
        let request = match self.format {
            PurgeFormat::SurrogateKey => request.header("surrogate-key", tags.join(" ")),
            PurgeFormat::CacheTag => request
                .header("content-type", "application/json")
                .body(json!({ "tags": tags }).to_string()),
        };
        let request = match self.header.clone() {
            Some((name, value)) => request.header(name, value),
            None => request,
        };
        let answer = request
            .send()
            .await
            .and_then(|answer| answer.error_for_status());
        answer.map(|_| ()).map_err(reqwest::Error::without_url)
    }
}

impl Pending {
    /// Adds what has changed just now.
    fn add(&mut self, tag: String) {
        let now = Instant::now();
        let due = now + self.pause.unwrap_or(GATHER);
        // Changes that follow one another put off no purge that waits.
        let before = self.tags.get(&tag).map_or(due, |before| before.due);
        let purge = Purge {
            since: now,
            due: due.min(before),
            is_repeated: false,
        };
        self.tags.insert(tag, purge);
    }

    /// When the next one is due.
    fn due(&self) -> Option<Instant> {
        self.tags.values().map(|purge| purge.due).min()
    }

    fn told(&mut self, tags: &[String]) {
        self.pause = None;
        for tag in tags {
            let Some(purge) = self.tags.get_mut(tag) else {
                continue;
            };
            if purge.is_repeated {
                self.tags.remove(tag);
            } else {
                purge.is_repeated = true;
                purge.due = Instant::now() + ONCE_MORE;
            }
        }
    }

    /// What failed is tried again until no cache can hold it any longer.
    fn failed(&mut self, tags: &[String], kept_for: Duration) {
        let (first, most) = PAUSE;
        let pause = self.pause.map_or(first, |pause| (pause * 2).min(most));
        self.pause = Some(pause);
        for tag in tags {
            let held = |purge: &&mut Purge| purge.since.elapsed() <= kept_for;
            match self.tags.get_mut(tag).filter(held) {
                Some(purge) => purge.due = Instant::now() + pause,
                None => drop(self.tags.remove(tag)),
            }
        }
    }
}

/// Whether what a link opened before such an event is not what it opens now.
fn makes_untrue(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::DocumentUpdated
            | EventKind::DocumentDeleted
            | EventKind::DocumentRestored
            | EventKind::DocumentVersionCreated
            | EventKind::DocumentMerged
            | EventKind::DocumentShared
            | EventKind::DocumentPermissionsUpdated
    )
}

async fn wait(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_follow_one_another_put_off_no_purge_that_waits() {
        let mut pending = Pending::default();
        pending.add("a".to_owned());
        let due = pending.due();
        pending.pause = Some(Duration::from_secs(30));
        pending.add("a".to_owned());
        assert!(due.is_some());
        assert_eq!(pending.due(), due);
    }
}
