//! Which of the nodes orders certificates: the one that holds the lease. A node that holds it gives a
//! sign of life again and again; from one that is silent it is taken. No clocks are compared, and the
//! storage needs nothing but to create a file only where there is none.
//!
//! Each lease has a number, and the highest is the one that counts. Who takes it creates the next.
//! Two nodes at once can hold it only where one was stopped for longer than it may be silent; then
//! both order, and what either keeps is whole.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::storage::{Storage, StorageError};

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(2);
/// Who gives none for so long is dead.
const SILENT: Duration = Duration::from_secs(10);
/// What stands in a lease that was given back.
const RELEASED: &[u8] = b"released";

/// A lease of another node, as it was when it was looked at.
#[derive(Debug)]
struct Seen {
    number: u64,
    content: Vec<u8>,
    since: Instant,
}

/// The way to the lease.
#[derive(Debug)]
pub(super) struct Leases {
    storage: Arc<Storage>,
    seen: Option<Seen>,
}

/// The lease: who has it orders.
#[derive(Debug)]
pub(super) struct Lease {
    storage: Arc<Storage>,
    number: u64,
    holder: u64,
}

impl Leases {
    pub(super) fn new(storage: Arc<Storage>) -> Self {
        Leases {
            storage,
            seen: None,
        }
    }

    /// Takes the lease; none where another node holds it.
    pub(super) async fn take(&mut self) -> Result<Option<Lease>, StorageError> {
        let highest = self.storage.leases().await?.into_iter().max();
        if let Some(number) = highest
            && !self.is_over(number).await?
        {
            return Ok(None);
        }
        let lease = Lease {
            storage: Arc::clone(&self.storage),
            number: highest.unwrap_or(0) + 1,
            holder: colloquy_model::random::u64(),
        };
        let content = lease.content(0);
        if !self.storage.create_lease(lease.number, content).await? {
            return Ok(None);
        }
        // Whoever was slow may have created a number that is gone already.
        let mut numbers = self.storage.leases().await?;
        numbers.retain(|number| *number != lease.number);
        if numbers.iter().any(|number| *number > lease.number) {
            self.storage.delete_lease(lease.number).await?;
            return Ok(None);
        }
        for older in numbers {
            self.storage.delete_lease(older).await?;
        }
        self.seen = None;
        Ok(Some(lease))
    }

    /// Whether the lease of this number was given back, or its holder is silent.
    async fn is_over(&mut self, number: u64) -> Result<bool, StorageError> {
        let Some(content) = self.storage.lease(number).await? else {
            return Ok(false);
        };
        if content == RELEASED {
            return Ok(true);
        }
        let same = |seen: &&Seen| seen.number == number && seen.content == content;
        if let Some(seen) = self.seen.as_ref().filter(same) {
            return Ok(seen.since.elapsed() >= SILENT);
        }
        self.seen = Some(Seen {
            number,
            content,
            since: Instant::now(),
        });
        Ok(false)
    }
}

impl Lease {
    /// Gives signs of life, for as long as it is polled.
    pub(super) async fn keep(&self) -> Infallible {
        let mut beat: u64 = 0;
        loop {
            sleep(BEAT).await;
            beat += 1;
            let content = self.content(beat);
            if let Err(error) = self.storage.put_lease(self.number, content).await {
                tracing::warn!(%error, "the lease on orders of certificates was not renewed");
            }
        }
    }

    /// Gives it back.
    pub(super) async fn release(self) -> Result<(), StorageError> {
        let content = String::from_utf8_lossy(RELEASED).into_owned();
        self.storage.put_lease(self.number, content).await
    }

    fn content(&self, beat: u64) -> String {
        format!("{:016x} {beat}", self.holder)
    }
}
