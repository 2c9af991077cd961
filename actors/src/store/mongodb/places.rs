//! Where a message stands among those of its conversation, and where its texts stand in the log.

use serde::{Deserialize, Deserializer};

use super::codec::uint;
use colloquy_model::sequence::Sequence;

/// The `_id` of a message's place.
pub(super) fn message_id(conversation: i64, sequence: Sequence) -> String {
    format!("{conversation:016x}.{:016x}", sequence.0)
}

/// A message's place.
#[derive(Debug, Deserialize)]
pub(super) struct PlaceDocument {
    /// The sequence of its row.
    pub(super) seq: i64,
    pub(super) nth: i64,
    pub(super) nth_of_sender: i64,
    /// The document of the log that holds the row.
    pub(super) stored_in: String,
    /// Its edits, oldest first.
    #[serde(default, deserialize_with = "in_order")]
    pub(super) edits: Vec<EditDocument>,
}

/// An edit of a message.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct EditDocument {
    pub(super) seq: i64,
    pub(super) stored_in: String,
}

/// Edits by their sequences: two nodes that edited the message in turn may have been carried over in
/// any order.
fn in_order<'de, D: Deserializer<'de>>(edits: D) -> Result<Vec<EditDocument>, D::Error> {
    let mut edits = Vec::<EditDocument>::deserialize(edits)?;
    edits.sort_by_key(|edit| edit.seq);
    edits.dedup_by_key(|edit| edit.seq);
    Ok(edits)
}

impl PlaceDocument {
    /// Where the text stands that was the message's behind so many edits.
    pub(super) fn text(&self, edits: usize) -> Option<EditDocument> {
        match edits.checked_sub(1) {
            None => Some(EditDocument {
                seq: self.seq,
                stored_in: self.stored_in.clone(),
            }),
            Some(last) => self.edits.get(last).cloned(),
        }
    }

    /// Its own text and its edits', oldest first: each one's sequence, and the document that holds
    /// it.
    pub(super) fn texts(&self) -> impl Iterator<Item = (Sequence, &str)> {
        let edits = self.edits.iter();
        std::iter::once((self.seq, &self.stored_in))
            .chain(edits.map(|edit| (edit.seq, &edit.stored_in)))
            .map(|(seq, stored_in)| (Sequence(uint(seq)), stored_in.as_str()))
    }

    /// Where its text stands now.
    pub(super) fn now(&self) -> Option<EditDocument> {
        self.text(self.edits.len())
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{deserialize_from_document, doc};

    use super::PlaceDocument;

    #[test]
    fn edits_are_read_in_their_order_and_once_in_whatever_order_they_were_carried_over() {
        let edit = |seq: i64| doc! {"seq": seq, "stored_in": format!("of {seq}")};
        let place = doc! {
            "seq": 1_i64, "nth": 1_i64, "nth_of_sender": 1_i64, "stored_in": "of 1",
            "edits": [edit(8), edit(6), edit(8), edit(7)],
        };
        let place: Result<PlaceDocument, _> = deserialize_from_document(place);
        let texts = place.map(|place| place.texts().map(|(seq, _)| seq.0).collect::<Vec<_>>());
        assert_eq!(texts.ok(), Some(vec![1, 6, 7, 8]));
    }
}
