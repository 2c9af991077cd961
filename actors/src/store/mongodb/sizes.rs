//! How much the database holds, as the server says it: asked now and then, so that whoever reads it
//! waits for nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Result;

use super::connection::answered;
use super::schema::{
    COMMENTS, CONVERSATIONS, DELIVERIES, DOCUMENTS, ENDPOINTS, LOG, MESSAGES, REPLAYS, VERSIONS,
};
use crate::store::{StoreMetric, StoreValue};

/// A part of the database: some collections with their indexes.
#[derive(Debug)]
struct Part {
    name: &'static str,
    help: &'static str,
    collections: &'static [&'static str],
}

/// The parts that are told one by one; the log comes first.
const PARTS: [Part; 4] = [
    Part {
        name: "store_log_bytes",
        help: "Bytes of the log of changes, with its indexes.",
        collections: &[LOG],
    },
    Part {
        name: "store_conversations_bytes",
        help: "Bytes of conversations' headers and messages' places, with their indexes.",
        collections: &[CONVERSATIONS, MESSAGES],
    },
    Part {
        name: "store_documents_bytes",
        help: "Bytes of documents, their versions and comments, with their indexes.",
        collections: &[DOCUMENTS, VERSIONS, COMMENTS],
    },
    Part {
        name: "store_deliveries_bytes",
        help: "Bytes of deliveries to webhook endpoints, with their indexes.",
        collections: &[DELIVERIES, ENDPOINTS, REPLAYS],
    },
];

/// What was told last, in bytes on the server's disk; 0 until it was.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    whole: AtomicU64,
    parts: [AtomicU64; PARTS.len()],
}

impl Sizes {
    /// Bytes of the log of changes.
    pub(super) fn log(&self) -> u64 {
        let [log, ..] = &self.parts;
        log.load(Ordering::Relaxed)
    }

    /// Bytes of everything else.
    pub(super) fn beside_log(&self) -> u64 {
        let whole = self.whole.load(Ordering::Relaxed);
        whole.saturating_sub(self.log())
    }

    /// Reads all parts as metrics for operators.
    pub(super) fn metrics(&self) -> impl Iterator<Item = StoreMetric> {
        let metric = |(part, bytes): (&Part, &AtomicU64)| StoreMetric {
            name: part.name,
            help: part.help,
            value: StoreValue::Gauge(bytes.load(Ordering::Relaxed)),
        };
        PARTS.iter().zip(&self.parts).map(metric)
    }

    /// Asks the server.
    pub(super) async fn ask(&self, database: &Database) -> Result<()> {
        for (part, bytes) in PARTS.iter().zip(&self.parts) {
            let mut of_part: u64 = 0;
            for collection in part.collections {
                let stats = doc! {"collStats": *collection};
                let stats = answered(database.run_command(stats).into_future()).await?;
                of_part = of_part
                    .saturating_add(number(&stats, "storageSize"))
                    .saturating_add(number(&stats, "totalIndexSize"));
            }
            bytes.store(of_part, Ordering::Relaxed);
        }
        let stats = answered(database.run_command(doc! {"dbStats": 1}).into_future()).await?;
        let whole = number(&stats, "storageSize").saturating_add(number(&stats, "indexSize"));
        self.whole.store(whole, Ordering::Relaxed);
        Ok(())
    }
}

/// A number of bytes, which servers write in any of their types; 0 where there is none.
fn number(stats: &Document, field: &str) -> u64 {
    match stats.get(field) {
        Some(Bson::Int32(bytes)) => u64::try_from(*bytes).unwrap_or(0),
        Some(Bson::Int64(bytes)) => u64::try_from(*bytes).unwrap_or(0),
        // A float that is no whole number of bytes is cut, one below 0 is 0.
        Some(Bson::Double(bytes)) => format!("{bytes:.0}").parse().unwrap_or(0),
        Some(_) | None => 0,
    }
}
