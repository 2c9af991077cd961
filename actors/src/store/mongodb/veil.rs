//! What is redacted is hidden from whoever reads the log from the moment that the redaction's answer
//! leaves, also while its text still stands there.

use std::collections::HashSet;

use bytes::Bytes;
use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::codec::{int, uint};
use super::find::all;
use super::log::{LogDocument, RowDocument};
use super::message_lists;
use super::schema::{Collections, REDACTIONS};
use crate::store::ReadError;
use colloquy_model::event_kind::EventKind;
use colloquy_model::sequence::Sequence;

/// The message that a row has a text of, by the sequence of its own row.
fn original(sequence: Sequence, row: &RowDocument) -> Option<Sequence> {
    if row.kind == EventKind::MessageCreated as i32 {
        return Some(sequence);
    }
    row.edits.map(|original| Sequence(uint(original)))
}

/// What readers of the log look through: it hides texts that are redacted and that it still holds.
#[derive(Debug, Default)]
pub(super) struct Veil {
    /// The conversation and the sequence of the message's own row.
    hidden: HashSet<(i64, i64)>,
}

/// A message that is hidden.
#[derive(Debug, Deserialize)]
struct HiddenDocument {
    entity: i64,
    original: i64,
}

impl Veil {
    /// Over documents that were read before: what was redacted before they were read is hidden.
    pub(super) async fn over(
        collections: &Collections,
        documents: &[LogDocument],
    ) -> Result<Self, ReadError> {
        let with_texts = documents.iter().filter(|document| {
            let mut rows = document.placed_rows();
            rows.any(|(_, sequence, row)| original(sequence, row).is_some())
        });
        let mut entities: Vec<i64> = with_texts.map(|document| document.entity).collect();
        entities.sort_unstable();
        entities.dedup();
        if entities.is_empty() {
            return Ok(Veil::default());
        }
        let filter = doc! {"entity": {"$in": entities}};
        let hidden: Vec<HiddenDocument> =
            all(collections, REDACTIONS, filter, Document::new()).await?;
        let hidden = hidden.into_iter();
        Ok(Veil {
            hidden: hidden
                .map(|hidden| (hidden.entity, hidden.original))
                .collect(),
        })
    }

    /// Whether a row has a text that is hidden.
    pub(super) fn hides(
        &self,
        document: &LogDocument,
        sequence: Sequence,
        row: &RowDocument,
    ) -> bool {
        let original = original(sequence, row);
        original.is_some_and(|original| self.hidden.contains(&(document.entity, int(original.0))))
    }

    /// The data of a row as it may be shown.
    ///
    /// # Errors
    /// It is hidden and no message's, so that nobody can tell what would be left of it.
    pub(super) fn shown(
        &self,
        document: &LogDocument,
        sequence: Sequence,
        row: &RowDocument,
    ) -> Result<Bytes, ReadError> {
        if !self.hides(document, sequence, row) {
            return Ok(Bytes::copy_from_slice(row.payload.as_bytes()));
        }
        let mut text = message_lists::text(row)?;
        text.erase();
        Ok(colloquy_model::json::bytes(&text))
    }
}
