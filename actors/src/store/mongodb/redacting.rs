//! Redacted messages: hidden from whoever reads the log from the moment that the redaction's answer
//! leaves, and erased from it soon. What is still to be erased stands in a collection of its own,
//! carried over before that answer leaves, so that a crash only delays it. A message that is erased
//! stays in there for a while: whoever read its text in the log before looks there afterwards.

use std::time::Duration;

use mongodb::bson::{Binary, Document, doc};
use mongodb::error::Error;
use serde::Deserialize;

use super::codec::{binary, failed, int, uint};
use super::delivery_logs::erase_answers;
use super::find::one;
use super::log::LogDocument;
use super::message_lists;
use super::places::{PlaceDocument, message_id};
use super::schema::{Collections, LOG, MESSAGES, REDACTIONS};
use super::statements::Statements;
use crate::store::ReadError;
use colloquy_model::conversation::MessageView;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// Texts that are erased in one step.
const TEXTS: usize = 64;
/// Bytes with which begins what is kept of a request: the digest of all of it. What follows them
/// is that of all but its body, and shorter.
const WHOLE_BYTES: usize = 16;
/// How long a message is hidden after its texts are erased; no read takes as long.
const HIDDEN_AFTER: Duration = Duration::from_secs(60);

/// What is left to be done by a task that works in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing for now.
    Nothing,
    /// There may be more: the next step should follow soon.
    More,
}

/// Carries over that a message is redacted. Once more does no harm: its texts are erased again.
pub(super) fn note(document: &LogDocument, statements: &mut Statements) {
    let Some(original) = document.redacts else {
        return;
    };
    let set = doc! {
        "entity": document.entity, "original": original, "position": document.position,
        "redaction": int(document.last_sequence().0), "next": 0_i64, "erased_at": null,
    };
    let id = message_id(document.entity, Sequence(uint(original)));
    let change = doc! {"$setOnInsert": set};
    statements.put(REDACTIONS, id, Document::new(), change);
}

/// A redaction, and how far its texts are erased.
#[derive(Debug, Deserialize)]
struct RedactionDocument {
    #[serde(rename = "_id")]
    id: String,
    entity: i64,
    original: i64,
    /// The sequence of the redaction's own row.
    redaction: i64,
    /// How many texts are erased, oldest first.
    next: i64,
}

/// A text that is to be erased.
#[derive(Debug)]
struct Text {
    sequence: Sequence,
    stored_in: String,
}

/// Goes on with the oldest redaction for some texts. Only those are begun whose messages' places
/// are carried over: up to `listed`.
///
/// # Errors
/// The server does not answer; what was done is done again by the next step.
pub(super) async fn erase_some(
    collections: &Collections,
    listed: Position,
) -> Result<Left, ReadError> {
    let filter = doc! {"erased_at": null, "position": {"$lte": listed.0}};
    let Some(redaction) = one::<RedactionDocument>(collections, REDACTIONS, filter).await? else {
        return unhide(collections).await.map(|()| Left::Nothing);
    };
    let id = message_id(redaction.entity, Sequence(uint(redaction.original)));
    let place: Option<PlaceDocument> = one(collections, MESSAGES, doc! {"_id": id}).await?;
    let texts: Vec<Text> = place
        .iter()
        .flat_map(PlaceDocument::texts)
        .map(|(sequence, stored_in)| Text {
            sequence,
            stored_in: stored_in.to_owned(),
        })
        .filter(|text| int(text.sequence.0) < redaction.redaction)
        .collect();
    let erased = usize::try_from(redaction.next).unwrap_or(0);
    let some = texts.iter().skip(erased).take(TEXTS);
    let left = left_of(collections, &redaction).await?;
    let mut statements = Statements::default();
    for text in some {
        let filter = doc! {"_id": &text.stored_in};
        if let Some(document) = one::<LogDocument>(collections, LOG, filter).await? {
            erase(&document, text.sequence, left.as_ref(), &mut statements);
        }
    }
    let next = texts.len().min(erased + TEXTS);
    let is_done = next == texts.len();
    let mut set = doc! {"next": i64::try_from(next).unwrap_or(i64::MAX)};
    if is_done {
        set.insert("erased_at", Timestamp::now().0);
    }
    run(collections, statements).await?;
    let mut progress = Statements::default();
    progress.update(REDACTIONS, doc! {"_id": redaction.id}, doc! {"$set": set});
    run(collections, progress).await?;
    Ok(Left::More)
}

async fn run(collections: &Collections, statements: Statements) -> Result<(), ReadError> {
    if statements.is_empty() {
        return Ok(());
    }
    let run = statements.run(&collections.database).await;
    run.map_err(|error: Error| failed(&error))
}

/// Forgets redactions whose texts nobody can have read any more.
async fn unhide(collections: &Collections) -> Result<(), ReadError> {
    let until = (Timestamp::now() - HIDDEN_AFTER).0;
    let mut statements = Statements::default();
    statements.delete(REDACTIONS, doc! {"erased_at": {"$lt": until}});
    run(collections, statements).await
}

/// What the redaction left of the message; none where that can't be read.
async fn left_of(
    collections: &Collections,
    redaction: &RedactionDocument,
) -> Result<Option<MessageView>, ReadError> {
    let sequence = Sequence(uint(redaction.redaction));
    let id = super::log::log_id(uint(redaction.entity), sequence);
    let document: Option<LogDocument> = one(collections, LOG, doc! {"_id": id}).await?;
    let row = document
        .as_ref()
        .and_then(|document| document.row(sequence));
    Ok(row.and_then(|row| message_lists::text(row).ok()))
}

/// Leaves of a text what its redaction left of the message, with the time of the edit. What is made
/// of a text goes with it: the salt of its digest, the answer that was kept of it, and the digest
/// of the request that brought it, which may have begun the conversation.
fn erase(
    document: &LogDocument,
    sequence: Sequence,
    left: Option<&MessageView>,
    statements: &mut Statements,
) {
    let Some(row) = document.row(sequence) else {
        return;
    };
    let index = sequence.0.saturating_sub(uint(document.first));
    let edited_at = row.edits.is_some().then_some(Timestamp(row.at));
    let payload = left.map(|left| {
        colloquy_model::json::text(&MessageView {
            edited_at,
            ..left.clone()
        })
    });
    // It goes, also where nobody can tell any more what would be left of it.
    let payload = payload.unwrap_or_else(|| "null".to_owned());
    let filter = doc! {"_id": &document.id};
    let mut set = doc! {format!("rows.{index}.payload"): payload};
    let mut unset = doc! {format!("rows.{index}.salt"): ""};
    if let Some(answer) = &document.answer {
        if index == 0 {
            unset.insert("answer.body", "");
        }
        if let Some(request) = without_body(&answer.request) {
            set.insert("answer.request", request);
        }
    }
    let change = doc! {"$set": set, "$unset": unset};
    statements.update(LOG, filter, change);
    // What receivers answered to it may repeat it; the veil has hidden that since the redaction.
    let position = document.position.saturating_add(int(index));
    erase_answers(&[position], statements);
}

/// What is kept of a request, without the digest of its body; none where that is gone.
pub(super) fn without_body(request: &Binary) -> Option<Binary> {
    let (_, head) = request.bytes.split_at_checked(WHOLE_BYTES)?;
    Some(binary(head))
}
