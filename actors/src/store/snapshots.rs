//! Whole copies of a store while it is in use.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Later;
use colloquy_model::position::Position;

/// Why there is no copy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The store is a database with tools of its own for this.
    #[error("this store is no file that can be copied")]
    Unsupported,
    /// Another one is being made.
    #[error("the store is being copied already")]
    Busy,
    /// The store closes, or its file can't be read.
    #[error("the store is away")]
    Away,
    /// The new file can't be written.
    #[error("{0}")]
    NotWritten(String),
}

/// Makes whole copies.
pub trait Snapshots: Send + Sync + 'static {
    /// Whether the store is a file that can be copied.
    fn takes_snapshots(&self) -> bool;

    /// Copies everything that is committed into this file, which must not be there: what was
    /// acknowledged before it was asked, and what comes until it is done, as of one moment. Commits
    /// go on meanwhile. Gives the last position that the copy holds; it is not synced to the disk.
    /// It sets `unsynced` behind each piece that it copies, and goes on once that is cleared, so that
    /// whoever syncs the copy has the disk keep up.
    fn snapshot(
        &self,
        into: PathBuf,
        unsynced: Arc<AtomicBool>,
    ) -> Later<Result<Position, SnapshotError>>;
}
