//! Verifies the chain of the audit trail, record by record. Pure: it needs the records alone, and for
//! the signature of the end the store key.

use crate::store::{Broken, ChainHead, ChainRecord, Link, from_hex, to_hex};

/// Goes over a chain from its beginning.
#[derive(Debug, Default)]
pub struct ChainVerifier {
    link: Link,
    position: i64,
    records: u64,
}

impl ChainVerifier {
    /// Takes in the next record.
    ///
    /// # Errors
    /// It is not what it was, or does not follow the one before.
    pub fn take(&mut self, record: &ChainRecord) -> Result<(), Broken> {
        let position = record.position();
        let broken = |what| Err(Broken::at(position, what));
        if position <= self.position {
            return broken("it does not follow the record before");
        }
        let stored = record.link.as_deref().and_then(from_hex);
        let Some(expected) = record.expected(&self.link) else {
            return broken("it is no record");
        };
        if stored.as_deref() != Some(expected.as_slice()) {
            return broken(
                "the record was altered, or one before it was removed, inserted or moved",
            );
        }
        self.link = expected;
        self.position = position;
        self.records += 1;
        Ok(())
    }

    /// Compares the end of the chain with the last record.
    ///
    /// # Errors
    /// Records behind the last one are missing, or the end is not what was signed.
    pub fn end(&self, head: &ChainHead, is_signed: Option<bool>) -> Result<(), Broken> {
        let broken = |what| Err(Broken::at(self.position, what));
        if is_signed == Some(false) {
            return broken("the end of the chain is not the one that was signed");
        }
        if head.link != to_hex(&self.link) || head.position < self.position {
            return broken(
                "the end of the chain is another one: the tail was cut off, or added to",
            );
        }
        Ok(())
    }

    /// The position of the last record.
    #[must_use]
    pub fn position(&self) -> i64 {
        self.position
    }

    /// How many records were taken in.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }
}
