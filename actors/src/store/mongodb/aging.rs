//! What leaves the store by itself: texts of redacted messages, soon, and events that are older
//! than they are kept for. How far each has come stands in a collection, so that a start goes on
//! with it; nodes that do the same at the same time do no harm.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::codec;
use super::connection::AGAIN;
use super::nodes::Membership;
use super::pace::Pace;
use super::progress::Progress;
use super::recovery;
use super::redacting::{self, Left};
use super::retention::Retention;
use super::schema::Collections;
use super::writer::Writer;
use crate::store::ReadError;
use colloquy_model::position::Position;

/// Between two looks at the events of all accounts where they are kept for no longer than this.
const LOOK_AT_LEAST: Duration = Duration::from_millis(500);

/// The task that erases redacted texts and trims expired events.
pub(super) struct Aging {
    collections: Collections,
    progress: Arc<Progress>,
    /// Up to which position places of messages are carried over.
    listed: watch::Receiver<Position>,
    /// Up to which position everybody's are.
    all_listed: watch::Receiver<Position>,
    membership: Arc<Membership>,
    /// Told when a message is redacted.
    redacted: Arc<Notify>,
    /// True when the store closes.
    closing: watch::Receiver<bool>,
    pace: Pace,
}

impl Aging {
    /// The task beside this writer, until `closing` is true. `all_listed` says up to which position
    /// everybody's messages are carried over.
    pub(super) fn beside(
        writer: &Writer,
        pace: Pace,
        all_listed: watch::Receiver<Position>,
        closing: watch::Receiver<bool>,
    ) -> Self {
        Aging {
            collections: writer.collections.clone(),
            progress: Arc::clone(&writer.progress),
            listed: writer.listed.clone(),
            all_listed,
            membership: Arc::clone(&writer.membership),
            redacted: Arc::clone(&writer.redacted),
            closing,
            pace,
        }
    }

    /// Runs until the store closes.
    pub(super) async fn run(mut self) {
        let mut retention = Retention::new(self.pace.events_kept);
        let mut trim_at = Instant::now();
        while !*self.closing.borrow() {
            let erased = self.erase().await;
            let mut rest = self.patience();
            if let Err(error) = &erased {
                tracing::warn!(%error, "texts of redacted messages wait for MongoDB");
                rest = AGAIN;
            }
            if trim_at <= Instant::now() {
                let decided = self.membership.followed();
                match retention.trim_some(&self.collections, decided).await {
                    Ok(Left::Nothing) => trim_at = Instant::now() + self.patience(),
                    // Behind what is redacted meanwhile.
                    Ok(Left::More) if erased.is_ok() => rest = Duration::ZERO,
                    Ok(Left::More) => {}
                    Err(error) => {
                        tracing::warn!(%error, "events that are too old wait for MongoDB");
                        rest = AGAIN;
                    }
                }
            }
            tokio::select! {
                () = self.redacted.notified() => {}
                () = tokio::time::sleep(rest) => {}
                _ = self.closing.changed() => {}
            }
        }
    }

    fn patience(&self) -> Duration {
        let Pace {
            events_kept,
            trim_every,
            ..
        } = self.pace;
        let kept = events_kept.unwrap_or(Duration::MAX);
        (kept / 4).max(LOOK_AT_LEAST).min(trim_every)
    }

    /// Erases the texts of all that is redacted by now.
    async fn erase(&mut self) -> Result<(), ReadError> {
        let redacted = self.membership.followed();
        let own = self.progress.acknowledged();
        if self.listed.wait_for(|listed| *listed >= own).await.is_err() {
            return Ok(());
        }
        if self.membership.has_peers() {
            let from = *self.all_listed.borrow();
            let carried = recovery::carry_messages_behind(&self.collections, from).await;
            carried.map_err(|error| codec::failed(&error))?;
        }
        while !*self.closing.borrow()
            && redacting::erase_some(&self.collections, redacted).await? == Left::More
        {}
        Ok(())
    }
}
