//! The task that asks the server now and then how much it holds.

use std::sync::Arc;
use std::time::Duration;

use mongodb::Database;
use tokio::sync::watch;

use super::pace::Pace;
use super::progress::Progress;
use super::writer::Writer;

/// The task that asks.
pub(super) struct Sizing {
    database: Database,
    progress: Arc<Progress>,
    every: Duration,
    /// True when the store closes.
    closing: watch::Receiver<bool>,
}

impl Sizing {
    /// The task beside this writer, until `closing` is true.
    pub(super) fn beside(writer: &Writer, pace: Pace, closing: watch::Receiver<bool>) -> Self {
        Sizing {
            database: writer.collections.database.clone(),
            progress: Arc::clone(&writer.progress),
            every: pace.sizes_every,
            closing,
        }
    }

    /// Runs until the store closes.
    pub(super) async fn run(mut self) {
        while !*self.closing.borrow() {
            if let Err(error) = self.progress.sizes.ask(&self.database).await {
                tracing::warn!(%error, "MongoDB does not say how much it holds");
            }
            tokio::select! {
                () = tokio::time::sleep(self.every) => {}
                _ = self.closing.changed() => {}
            }
        }
    }
}
