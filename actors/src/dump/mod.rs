//! A dump: everything that a store holds, as text, by which it moves to another store. Here are its
//! format and how it is checked; it knows stores by [`Export`] and [`Import`] only.
//!
//! # The format
//!
//! One JSON object a line, in UTF-8, each line ended by one `\n`. An object has one member, which
//! says what it is:
//!
//! - `dump`, the first line: [`Opening`] names the format, its version and the source.
//! - a thing of the store: [`Item`]. Data that is JSON stands there as it is stored, byte for byte;
//!   what is no text (hashes, packed contents of versions) is in Base64.
//! - `check`, behind each block of things and behind the last: how many lines stand before it, and
//!   the SHA-256 of their bytes.
//! - `end`, the last line: the same, and how many things of each kind there were.
//!
//! The unit of trust is the block: nothing of it is written into a store before its `check` was
//! compared, so that what was altered or cut never gets in. A store into which a dump was not
//! written to its end is no server's: it remembers the last `check`, and the same dump goes on
//! behind it. A dump of other lines before that is another one and refused.

mod reader;
mod writer;

pub use reader::{ImportError, Imported, import};
pub use writer::export;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::store::ImportMark;

/// The name of the format.
const FORMAT: &str = "colloquy";
/// The version of the format that is written; no other one is read.
const VERSION: u32 = 1;

/// The first line of a dump.
#[derive(Debug, Serialize, Deserialize)]
struct Opening {
    format: String,
    version: u32,
    /// The kind of store that it was exported from, and by which version.
    source: Source,
    /// When, as RFC 3339 has it.
    exported_at: String,
    /// At random, so that no two dumps begin alike.
    nonce: String,
}

/// Where a dump comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The kind of the store: `sqlite` or `mongodb`.
    pub store: String,
    /// The version of Colloquy that exported it.
    pub colloquy: String,
}

/// How many lines stand before a line, and their SHA-256 in hexadecimal digits.
#[derive(Debug, Serialize, Deserialize)]
struct Check {
    lines: u64,
    sha256: String,
}

/// The last line of a dump.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    counts: BTreeMap<String, u64>,
    #[serde(flatten)]
    check: Check,
}

/// A line that is no thing of the store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Frame {
    Dump(Opening),
    Check(Check),
    End(End),
}

/// How large a block is by now: it ends behind the thing that fills it.
#[derive(Debug, Default)]
struct BlockSize {
    items: usize,
    bytes: usize,
}

impl BlockSize {
    const ITEMS_MAX: usize = 128;
    const BYTES_MAX: usize = 1 << 20;

    /// Adds a line of so many bytes.
    fn add(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes;
    }

    fn is_full(&self) -> bool {
        self.items >= Self::ITEMS_MAX || self.bytes >= Self::BYTES_MAX
    }
}

/// The lines that stand before one.
#[derive(Debug, Default, Clone)]
struct Lines {
    count: u64,
    digest: Sha256,
}

impl Lines {
    /// Takes in a line with its end.
    fn add(&mut self, line: &[u8]) {
        self.count += 1;
        self.digest.update(line);
    }

    fn mark(&self) -> ImportMark {
        ImportMark {
            lines: self.count,
            digest: self.digest.clone().finalize().into(),
        }
    }

    fn check(&self) -> Check {
        let ImportMark { lines, digest } = self.mark();
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Check { lines, sha256 }
    }

    /// Whether these lines are the ones that are told.
    fn are(&self, told: &Check) -> bool {
        let own = self.check();
        own.lines == told.lines && own.sha256 == told.sha256
    }
}

#[cfg(test)]
mod tests;
