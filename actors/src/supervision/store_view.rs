//! The shape in which operators see how the store is doing.

use colloquy_model::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::views::PercentilesView;
use crate::store::{BatchSizes, StoreHealth};

/// How the store is doing. Percentiles run from the start of the process.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoreHealth)]
pub struct StoreView {
    /// How large the files of the store are, in bytes.
    size: SizeView,
    /// How long the transactions took that made commits durable.
    commit_ms: PercentilesView,
    /// How many commits one transaction made durable.
    batch: BatchView,
    /// Commits and other works that the writer has not finished.
    queue: u64,
    /// How far what happened has come to webhook endpoints, as far as it concerns them.
    feed: LagView,
    /// How far what happened has come into the search indexes: the one of documents or the one of
    /// conversations, whichever is further behind.
    index: LagView,
    /// The latest move of what the log holds into the database.
    checkpoint: CheckpointView,
}

/// How large the store's files are.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoreSize)]
struct SizeView {
    /// Bytes of the database, without its log.
    database_bytes: u64,
    /// Bytes of the log that stands in front of the database.
    log_bytes: u64,
    /// The search indexes with their own logs.
    index_bytes: u64,
}

/// How many commits one transaction made durable.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoreBatch)]
struct BatchView {
    p50: u64,
    p99: u64,
}

/// How far something is behind what is committed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoreLag)]
struct LagView {
    /// In positions, of which each event takes one; 0 where all that concerns it has come.
    lag: u64,
}

/// A move of what the log holds into the database.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoreCheckpoint)]
struct CheckpointView {
    /// When the latest move ended.
    at: Timestamp,
    /// How many pages of the log were in the database then.
    pages: u32,
}

/// What the store itself does not know of those who follow it.
#[derive(Debug, Clone, Copy)]
pub struct Lags {
    /// Bytes of the search indexes.
    pub index_bytes: u64,
    /// Positions that are not matched with webhook endpoints.
    pub feed: u64,
    /// Positions that are not in the search index that is furthest behind.
    pub index: u64,
}

impl StoreView {
    /// A store at this moment, with those who follow it.
    #[must_use]
    pub fn of(health: StoreHealth, lags: Lags) -> Self {
        let StoreHealth {
            database_bytes,
            log_bytes,
            commit,
            batch: BatchSizes { p50, p99 },
            queue,
            checkpoint,
        } = health;
        StoreView {
            size: SizeView {
                database_bytes,
                log_bytes,
                index_bytes: lags.index_bytes,
            },
            commit_ms: commit.into(),
            batch: BatchView { p50, p99 },
            queue,
            feed: LagView { lag: lags.feed },
            index: LagView { lag: lags.index },
            checkpoint: CheckpointView {
                at: checkpoint.at,
                pages: checkpoint.pages,
            },
        }
    }
}
