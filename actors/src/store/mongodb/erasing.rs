//! Texts of what is gone for good, a document, a conversation, a customer or an attachment, leave the
//! store in slices: what events and kept answers show of it, then versions and comments. The events stay, with their places and without
//! words: the sink says what may stay.
//!
//! What can't be read goes like all else: a document of the log by its `_id`.
//!
//! The log goes first: from it a start may carry versions and comments over once more, and what was
//! deleted before would come back. Several nodes must not carry over what one read before that.

use mongodb::bson::{Bson, Document, doc, serialize_to_bson};
use mongodb::error::Error;
use serde::Deserialize;

use super::codec::{binary, damaged, int, malformed, uint};
use super::connection::answered;
use super::delivery_logs;
use super::documents::part_id;
use super::find::{Find, all};
use super::header::HeaderDocument;
use super::loads::log_of;
use super::log::{self, LogDocument, answer_id, log_id};
use super::misshapen::Misshapen;
use super::redacting::{self, Left};
use super::schema::{COMMENTS, Collections, ERASURES, LOG, NAMES, VERSIONS};
use super::statements::Statements;
use crate::store::{CommitSink, ReadError};
use colloquy_model::commit::NameField;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::AttachmentId;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;

/// Documents of one collection that are erased at once, however small they are: each is a statement of
/// its own, and all of them must be answered in time.
const AT_ONCE: i64 = 64;
/// About so many bytes of the log are rewritten at once.
const BYTES_AT_ONCE: usize = 2 << 20;

/// An entity that is gone.
#[derive(Debug, Deserialize)]
struct Erasure {
    /// Its number, whatever kind of entity it is.
    #[serde(rename = "_id")]
    document: i64,
    /// Its events are erased up to this sequence …
    erased_to: i64,
    /// … and the answers that are kept beside them up to this position.
    #[serde(default)]
    answers_erased_to: i64,
}

/// Erases some of the texts of one document that is gone. What a crash interrupts is done again.
///
/// # Errors
/// The server does not answer, or what is stored can't be read.
pub(super) async fn erase_some(
    collections: &Collections,
    sink: &dyn CommitSink,
) -> Result<Left, Error> {
    let erasures = collections.database.collection::<Erasure>(ERASURES);
    let gone = erasures.find_one(doc! {}).sort(doc! {"_id": 1});
    let Some(gone) = answered(gone.into_future()).await? else {
        return Ok(Left::Nothing);
    };
    let is_done = !erase_events(collections, sink, &gone).await?
        && !erase_answers(collections, sink, &gone).await?
        && !delete(collections, VERSIONS, gone.document).await?
        && !delete(collections, COMMENTS, gone.document).await?;
    if is_done {
        let done = erasures.delete_one(doc! {"_id": gone.document});
        answered(done.into_future()).await?;
    }
    Ok(Left::More)
}

/// Those of these entities of which a collection may still hold a text.
///
/// # Errors
/// The server does not answer.
pub(super) async fn left(
    collections: &Collections,
    entities: &[EntityNumber],
) -> Result<Vec<EntityNumber>, ReadError> {
    let these: Vec<i64> = entities.iter().copied().map(int).collect();
    let filter = doc! {"_id": {"$in": these}};
    let left: Vec<Erasure> = all(collections, ERASURES, filter, doc! {"_id": 1}).await?;
    Ok(left.into_iter().map(|left| uint(left.document)).collect())
}

/// By how many bytes an entity's rows have changed the texts of its account.
///
/// # Errors
/// The server does not answer.
pub(super) async fn text_bytes(
    collections: &Collections,
    entity: EntityNumber,
) -> Result<i64, ReadError> {
    let find = Find::all(LOG, log_of(entity), doc! {"_id": 0, "rows.text_bytes": 1});
    let found: Vec<Document> = find.read(collections).await?;
    let rows = found.iter().flat_map(log::rows_of);
    let of_row = |row: &Bson| row.as_document()?.get_i64("text_bytes").ok();
    Ok(rows.filter_map(of_row).sum())
}

/// The attachments that a conversation has taken.
///
/// # Errors
/// The server does not answer.
pub(super) async fn attachments(
    collections: &Collections,
    conversation: EntityNumber,
) -> Result<Vec<AttachmentId>, ReadError> {
    let filter = doc! {
        "record": int(conversation), "field": NameField::TakenAttachment as i32,
    };
    // In no order: by `_id`s the index of their owner would not serve it.
    let found: Vec<Document> = all(collections, NAMES, filter, Document::new()).await?;
    let read = |name: &Document| {
        let id = name.get_str("value").unwrap_or_default();
        let unreadable = |error| damaged(&format!("the attachment {id}"), error).into();
        id.parse().map_err(unreadable)
    };
    found.iter().map(read).collect()
}

/// Takes the words out of the document's next events; whether there were any.
async fn erase_events(
    collections: &Collections,
    sink: &dyn CommitSink,
    gone: &Erasure,
) -> Result<bool, Error> {
    let entity = uint(gone.document);
    let first = log_id(entity, Sequence(uint(gone.erased_to)).next());
    let end = log_id(entity, Sequence(u64::MAX));
    let found = logged(collections, doc! {"$gte": first, "$lte": end}).await?;
    let Some(last) = found.last() else {
        return Ok(false);
    };
    let change = doc! {"$max": {"erased_to": int(last.last_sequence().0)}};
    rewrite(collections, sink, found).await?;
    note(collections, gone, change).await?;
    Ok(true)
}

/// The same for answers that are kept of what changed nothing.
async fn erase_answers(
    collections: &Collections,
    sink: &dyn CommitSink,
    gone: &Erasure,
) -> Result<bool, Error> {
    let entity = uint(gone.document);
    let first = answer_id(entity, Position(gone.answers_erased_to).next());
    let end = answer_id(entity, Position(i64::MAX));
    let found = logged(collections, doc! {"$gte": first, "$lte": end}).await?;
    let Some(last) = found.last() else {
        return Ok(false);
    };
    let change = doc! {"$max": {"answers_erased_to": int(last.number())}};
    rewrite(collections, sink, found).await?;
    note(collections, gone, change).await?;
    Ok(true)
}

/// The first documents of the log with these `_id`s, as many as are rewritten at once.
async fn logged(collections: &Collections, ids: Document) -> Result<Vec<Logged>, Error> {
    let found = async {
        let find = collections.log.find(doc! {"_id": ids});
        let mut cursor = find.sort(doc! {"_id": 1}).limit(AT_ONCE).await?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while bytes < BYTES_AT_ONCE && cursor.advance().await? {
            bytes += cursor.current().as_bytes().len();
            found.push(match cursor.deserialize_current() {
                Ok(document) => Logged::Whole(Box::new(document)),
                Err(_) => {
                    let document = Document::try_from(cursor.current()).map_err(malformed)?;
                    Logged::Misshapen(Misshapen::of(document)?)
                }
            });
        }
        Ok(found)
    };
    answered(found).await
}

/// A document of the log that is to be erased.
enum Logged {
    Whole(Box<LogDocument>),
    Misshapen(Misshapen),
}

impl Logged {
    /// The sequence of its last row: never before that of its `_id`, behind which the next is looked for.
    fn last_sequence(&self) -> Sequence {
        let last = match self {
            Logged::Whole(document) => document.last_sequence(),
            Logged::Misshapen(misshapen) => misshapen.last_sequence(),
        };
        last.max(Sequence(self.number()))
    }

    /// The number at the end of its `_id`.
    fn number(&self) -> u64 {
        log::number_of_id(match self {
            Logged::Whole(document) => &document.id,
            Logged::Misshapen(misshapen) => &misshapen.id,
        })
    }

    /// The positions of its rows.
    fn positions(&self) -> Vec<i64> {
        match self {
            Logged::Whole(document) => {
                let placed = document.placed_rows();
                placed.map(|(position, ..)| position.0).collect()
            }
            Logged::Misshapen(misshapen) => {
                let positions = misshapen.positions();
                positions.map(|position| position.0).collect()
            }
        }
    }

    /// Its `_id`, and the change by which it loses its words.
    fn without_words(self, sink: &dyn CommitSink) -> Result<(String, Document), Error> {
        match self {
            Logged::Whole(document) => change_of(*document, sink),
            Logged::Misshapen(misshapen) => {
                let change = misshapen.without_words(sink)?;
                Ok((misshapen.id, change))
            }
        }
    }
}

/// Writes these documents of the log without words.
async fn rewrite(
    collections: &Collections,
    sink: &dyn CommitSink,
    found: Vec<Logged>,
) -> Result<(), Error> {
    let mut statements = Statements::default();
    let positions: Vec<i64> = found.iter().flat_map(Logged::positions).collect();
    for document in found {
        let (id, change) = document.without_words(sink)?;
        if !change.is_empty() {
            statements.update(LOG, doc! {"_id": id}, change);
        }
    }
    statements.run(&collections.database).await?;
    // What receivers answered may repeat the words.
    let mut statements = Statements::default();
    delivery_logs::erase_answers(&positions, &mut statements);
    statements.run(&collections.database).await
}

/// The `_id` of a document of the log, and the change by which it loses its words.
fn change_of(
    mut document: LogDocument,
    sink: &dyn CommitSink,
) -> Result<(String, Document), Error> {
    without_words(&mut document, sink);
    let mut set = doc! {"rows": serialize_to_bson(&document.rows)?};
    if let Some(answer) = &document.answer {
        set.insert("answer", serialize_to_bson(answer)?);
    }
    let mut unset = doc! {"renamed": ""};
    // What it puts is gone.
    if document
        .header
        .as_ref()
        .is_some_and(HeaderDocument::holds_texts)
    {
        unset.insert("header", "");
    }
    Ok((document.id, doc! {"$set": set, "$unset": unset}))
}

/// Takes the words out of a document of the log. Once more, it changes nothing.
fn without_words(document: &mut LogDocument, sink: &dyn CommitSink) {
    for row in &mut document.rows {
        row.take_words(sink);
    }
    if let Some(answer) = &mut document.answer {
        if let Some(body) = &mut answer.body {
            *body = binary(&sink.redacted(&body.bytes));
        }
        if let Some(left) = redacting::without_body(&answer.request) {
            answer.request = left;
        }
    }
}

/// Notes how far the log is erased.
async fn note(collections: &Collections, gone: &Erasure, change: Document) -> Result<(), Error> {
    let erasures = collections.database.collection::<Document>(ERASURES);
    let update = erasures.update_one(doc! {"_id": gone.document}, change);
    answered(update.into_future()).await.map(|_| ())
}

/// Deletes the document's first parts in a collection; whether there were any.
async fn delete(
    collections: &Collections,
    collection: &'static str,
    gone: i64,
) -> Result<bool, Error> {
    let parts = collections.database.collection::<Document>(collection);
    let range = |end: String| doc! {"_id": {"$gte": part_id(gone, 0), "$lte": end}};
    let found = async {
        let find = parts
            .find(range(part_id(gone, i64::MAX)))
            .projection(doc! {"_id": 1})
            .sort(doc! {"_id": 1})
            .limit(AT_ONCE);
        let mut cursor = find.await?;
        let mut last = None;
        while cursor.advance().await? {
            let id = cursor.current().get_str("_id").map(str::to_owned);
            last = Some(id.map_err(malformed)?);
        }
        Ok(last)
    };
    let Some(last) = answered(found).await? else {
        return Ok(false);
    };
    let delete = parts.delete_many(range(last));
    answered(delete.into_future()).await?;
    Ok(true)
}
