//! Between the store's types and BSON's, and what the driver's errors mean.

use std::fmt::Display;

use mongodb::bson::Binary;
use mongodb::bson::spec::BinarySubtype;
use mongodb::error::{Error, ErrorKind, WriteFailure};

use crate::store::ReadError;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity_number::EntityNumber;

/// The server's code for an index that would hold a key twice.
pub(super) const DUPLICATE_KEY: i32 = 11_000;
/// The server's code for a query that took longer than `maxTimeMS`.
const MAX_TIME_EXPIRED: i32 = 50;

/// What is counted from 0: BSON keeps signed integers of 64 bits; numbers, tails and sequences have
/// at most 62.
pub(super) trait Unsigned {
    fn to_u64(self) -> u64;
    fn from_u64(value: u64) -> Self;
}

impl Unsigned for u64 {
    fn to_u64(self) -> u64 {
        self
    }
    fn from_u64(value: u64) -> Self {
        value
    }
}

impl Unsigned for EntityNumber {
    fn to_u64(self) -> u64 {
        self.0
    }
    fn from_u64(value: u64) -> Self {
        EntityNumber(value)
    }
}

/// A number as BSON keeps it.
pub(super) fn int(value: impl Unsigned) -> i64 {
    i64::try_from(value.to_u64()).unwrap_or(i64::MAX)
}

/// The number that [`int`] wrote.
pub(super) fn uint<T: Unsigned>(value: i64) -> T {
    T::from_u64(u64::try_from(value).unwrap_or(0))
}

/// The error of a document that is not what it must be. The driver's own kind for errors of others
/// does not say what they are.
pub(super) fn malformed(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what).into()
}

/// What an error of the driver says about the work that met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// Another document has this key: nothing was written.
    Duplicate,
    /// It took longer than it may.
    TooSlow,
    /// A document is not what it must be.
    Damage,
    /// The server can't be reached, or what became of it is not known.
    Away,
}

/// What an error of the driver says.
pub(super) fn met(error: &Error) -> Met {
    let kind = error.kind.as_ref();
    let code = if let ErrorKind::Write(WriteFailure::WriteError(error)) = kind {
        Some(error.code)
    } else if let ErrorKind::Command(error) = kind {
        Some(error.code)
    } else {
        None
    };
    if code == Some(DUPLICATE_KEY) {
        Met::Duplicate
    } else if code == Some(MAX_TIME_EXPIRED) {
        Met::TooSlow
    } else if matches!(kind, ErrorKind::BsonDeserialization(_) | ErrorKind::Bson(_)) {
        Met::Damage
    } else {
        Met::Away
    }
}

/// What an error of reading means to whoever asked; it is told here.
pub(super) fn failed(error: &Error) -> ReadError {
    match met(error) {
        Met::TooSlow => ReadError::TooSlow,
        Met::Damage => damaged("a document of the store", error).into(),
        Met::Duplicate | Met::Away => {
            tracing::warn!(%error, "MongoDB did not answer");
            ReadError::Away
        }
    }
}

/// That a document can't be read: `place` names it. Told here.
pub(super) fn damaged(place: &str, error: impl Display) -> Unreadable {
    Unreadable::found(place, &error)
}

/// Bytes as BSON has them.
pub(super) fn binary(bytes: &[u8]) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    }
}

/// A small code, which BSON keeps in 32 bits.
pub(super) fn code(code: i64) -> i32 {
    i32::try_from(code).unwrap_or(i32::MAX)
}
