//! Documents of the log that are not what they must be: a field is missing, or is of another type. Of
//! what is gone they are erased by their `_id`s, and keep numbers and identifiers only.

use mongodb::bson::{Bson, Document, deserialize_from_bson, doc, serialize_to_bson};
use mongodb::error::Error;

use super::codec::{binary, malformed};
use super::header::HeaderDocument;
use super::log::{self, RowDocument};
use super::redacting;
use crate::store::CommitSink;
use colloquy_model::id::AttachmentId;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;

/// What stands in the place of what people wrote.
const NOTHING: &str = "{}";

/// A document of the log of which only the `_id` is sure.
#[derive(Debug)]
pub(super) struct Misshapen {
    pub(super) id: String,
    pub(super) document: Document,
}

impl Misshapen {
    /// The document, unless its `_id` is none of the log's.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn of(document: Document) -> Result<Self, Error> {
        let id = document.get_str("_id").map_err(malformed)?;
        Ok(Misshapen {
            id: id.to_owned(),
            document,
        })
    }

    /// The sequence of its last row, as far as its rows can be counted.
    pub(super) fn last_sequence(&self) -> Sequence {
        log::last_sequence(&self.document)
    }

    /// The positions of its rows, as far as they are known.
    pub(super) fn positions(&self) -> impl Iterator<Item = Position> {
        let first = self.document.get_i64("position").ok();
        let rows = log::rows_of(&self.document).len().max(1);
        first.into_iter().flat_map(move |first| {
            (0..)
                .take(rows)
                .map(move |row: i64| Position(first.saturating_add(row)))
        })
    }

    /// What is left of it without words. Once more, it changes nothing.
    ///
    /// # Errors
    /// A row can't be written as it was read.
    pub(super) fn without_words(&self, sink: &dyn CommitSink) -> Result<Document, Error> {
        let (mut set, mut unset) = (Document::new(), Document::new());
        for (name, value) in &self.document {
            match (name.as_str(), value) {
                ("_id", _) => {}
                ("rows", Bson::Array(rows)) => {
                    let rows = rows.iter().map(|row| bare_row(row, sink));
                    set.insert(name, rows.collect::<Result<Vec<_>, _>>()?);
                }
                ("answer", Bson::Document(answer)) => {
                    set.insert(name, bare_answer(answer));
                }
                (name, value) if may_stay(name, value) => {}
                (name, _) => {
                    unset.insert(name, "");
                }
            }
        }
        let mut change = doc! {};
        for (operator, fields) in [("$set", set), ("$unset", unset)] {
            if !fields.is_empty() {
                change.insert(operator, fields);
            }
        }
        Ok(change)
    }
}

/// Whether a field holds no word of anybody's.
fn may_stay(name: &str, value: &Bson) -> bool {
    match (name, value) {
        ("key", Bson::Binary(_)) => true,
        ("takes", Bson::String(id)) => id.parse::<AttachmentId>().is_ok(),
        ("chore", Bson::Document(chore)) => chore.values().all(is_number),
        ("header", header) => {
            let header = deserialize_from_bson::<HeaderDocument>(header.clone());
            header.is_ok_and(|header| !header.holds_texts())
        }
        (_, value) => is_number(value),
    }
}

fn is_number(value: &Bson) -> bool {
    matches!(
        value,
        Bson::Int32(_)
            | Bson::Int64(_)
            | Bson::Double(_)
            | Bson::Boolean(_)
            | Bson::DateTime(_)
            | Bson::Null
    )
}

/// A row without words: one that is whole keeps of its payload what may stay.
fn bare_row(row: &Bson, sink: &dyn CommitSink) -> Result<Bson, Error> {
    if let Ok(mut row) = deserialize_from_bson::<RowDocument>(row.clone()) {
        row.take_words(sink);
        return Ok(serialize_to_bson(&row)?);
    }
    let mut bare = doc! {};
    for (name, value) in row.as_document().into_iter().flatten() {
        match (name.as_str(), value) {
            ("hash", Bson::Binary(_)) => {
                bare.insert(name, value.clone());
            }
            ("by", Bson::Document(by)) => {
                bare.insert(name, bare_actor(by));
            }
            (_, value) if is_number(value) => {
                bare.insert(name, value.clone());
            }
            _ => {}
        }
    }
    bare.insert("payload", NOTHING);
    Ok(bare.into())
}

/// Who did it: what the audit trail shows of it.
fn bare_actor(by: &Document) -> Document {
    let shown = |name: &str, value: &Bson| match name {
        "address" | "request" => value.as_str().is_some(),
        _ => is_number(value),
    };
    let fields = by.iter().filter(|(name, value)| shown(name, value));
    fields
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// An answer that is kept, without its body and the hash of the request's.
fn bare_answer(answer: &Document) -> Document {
    let numbers = answer.iter().filter(|(_, value)| is_number(value));
    let mut bare: Document = numbers
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let Some(Bson::Binary(request)) = answer.get("request") {
        let left = redacting::without_body(request).unwrap_or_else(|| request.clone());
        bare.insert("request", left);
    }
    bare.insert("body", binary(NOTHING.as_bytes()));
    bare
}
