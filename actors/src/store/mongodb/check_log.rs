//! Checks of the log by entity: sequences without gap, messages counted, texts as they were sealed,
//! and what is carried over of each entity and message.

use std::collections::HashMap;

use mongodb::bson::{Binary, Bson, Document, deserialize_from_document, doc};
use mongodb::error::Error;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::codec::{int, uint};
use super::findings::{AT_ONCE, Findings, page};
use super::header::HeaderDocument;
use super::log::{LogDocument, RowDocument, log_id};
use super::places::message_id;
use super::schema::{CONVERSATIONS, Collections, DOCUMENTS, LOG, MESSAGES, RECORDS};
use colloquy_model::conversation::{MessageCounts, SenderType};
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::sequence::Sequence;

/// The node of a document that an import wrote.
const NO_NODE: i64 = 0;
/// Behind these an entity may be gone.
const ENDS: [i32; 5] = [
    EventKind::DocumentDeleted as i32,
    EventKind::ConversationErased as i32,
    EventKind::RecordDeleted as i32,
    EventKind::CustomerErased as i32,
    EventKind::AttachmentErased as i32,
];

/// Looks at every entity's documents in the order of its sequences.
pub(super) async fn entities(
    collections: &Collections,
    findings: &mut Findings,
) -> Result<(), Error> {
    let log = collections.database.collection::<Document>(LOG);
    // Numbers have 60 bits: the first of their 16 digits is 0, and no answer or void is below.
    let found = log.find(doc! {"_id": {"$lt": "1"}}).sort(doc! {"_id": 1});
    let mut cursor = found.await?;
    let mut passed = Passed::default();
    loop {
        let page = page(&mut cursor).await?;
        if page.is_empty() {
            break;
        }
        for document in page {
            let id = document.get_str("_id").unwrap_or_default().to_owned();
            match deserialize_from_document::<LogDocument>(document) {
                Ok(document) => passed.take(&document, findings),
                Err(error) => findings.note("documents of the log", format!("{id}: {error}")),
            }
        }
        if passed.is_full() {
            passed.compare(collections, findings).await?;
        }
    }
    passed.ended.extend(passed.entity.take());
    passed.compare(collections, findings).await
}

/// What was read of an entity's log.
#[derive(Debug)]
struct Entity {
    kind: i32,
    number: i64,
    /// 0: the entity was gone when it was imported, and nobody knew it.
    tail: i64,
    last: Sequence,
    /// The last sequence that puts the header.
    put: Option<Sequence>,
    counts: MessageCounts,
    at: i64,
    /// Whether it was gone when it was imported: of such only users have headers, for their names.
    was_gone: bool,
}

/// A text of a message, as its place must name it.
#[derive(Debug)]
struct TextPlace {
    message: String,
    sequence: i64,
    stored_in: String,
    is_edit: bool,
}

/// What was read and is still to be compared with what is carried over.
#[derive(Debug, Default)]
struct Passed {
    entity: Option<Entity>,
    ended: Vec<Entity>,
    texts: Vec<TextPlace>,
}

impl Passed {
    fn is_full(&self) -> bool {
        self.ended.len() >= AT_ONCE || self.texts.len() >= AT_ONCE
    }

    fn take(&mut self, document: &LogDocument, findings: &mut Findings) {
        if self
            .entity
            .as_ref()
            .is_none_or(|entity| entity.number != document.entity)
        {
            self.ended.extend(self.entity.take());
        }
        let entity = self.entity.get_or_insert_with(|| Entity {
            kind: document.kind,
            number: document.entity,
            tail: document.tail,
            last: Sequence::ZERO,
            put: None,
            counts: MessageCounts::default(),
            at: 0,
            was_gone: false,
        });
        let first = Sequence(uint(document.first));
        if first != entity.last.next() || document.id != log_id(uint(document.entity), first) {
            let found = format!("document {} behind sequence {}", document.id, entity.last.0);
            findings.note("sequences without gap", found);
        }
        if (document.kind, document.tail) != (entity.kind, entity.tail) {
            findings.note("an entity keeps its identifier", document.id.clone());
        }
        for (position, sequence, row) in document.placed_rows() {
            entity.count(row);
            if !is_as_sealed(row) {
                findings.note("payloads as they were sealed", position.to_string());
            }
            self.texts.extend(text_place(document, sequence, row));
        }
        if entity.counts
            != document
                .rows
                .last()
                .map_or(entity.counts, RowDocument::counts)
        {
            findings.note("messages are counted", format!("document {}", document.id));
        }
        entity.go_on(document);
    }

    async fn compare(
        &mut self,
        collections: &Collections,
        findings: &mut Findings,
    ) -> Result<(), Error> {
        let texts = std::mem::take(&mut self.texts);
        for some in texts.chunks(AT_ONCE) {
            places(collections, some, findings).await?;
        }
        let mut by_collection: HashMap<&'static str, Vec<Entity>> = HashMap::new();
        for entity in std::mem::take(&mut self.ended) {
            // The rows of an audit trail say all that there is of it.
            if entity.kind == Kind::Audit as i32 {
                continue;
            }
            match collection_of(entity.kind) {
                Some(collection) => by_collection.entry(collection).or_default().push(entity),
                None => findings.note("kinds of entities", format!("entity {}", entity.number)),
            }
        }
        for (collection, entities) in by_collection {
            for some in entities.chunks(AT_ONCE) {
                headers(collections, collection, some, findings).await?;
            }
        }
        Ok(())
    }
}

impl Entity {
    /// Counts a row's message; the time of the last one is taken as it is written.
    fn count(&mut self, row: &RowDocument) {
        self.counts.last_message_at = row.counts().last_message_at;
        if row.kind != EventKind::MessageCreated as i32 {
            return;
        }
        let sender = row
            .sender
            .and_then(|code| SenderType::from_code(code.into()));
        match sender {
            Some(SenderType::Customer) => self.counts.customer += 1,
            Some(SenderType::Agent) => self.counts.agent += 1,
            Some(SenderType::System) | None => self.counts.system += 1,
        }
    }

    /// Stands behind this document, whatever it should have been.
    fn go_on(&mut self, document: &LogDocument) {
        self.last = document.last_sequence();
        if let Some(row) = document.rows.last() {
            (self.counts, self.at) = (row.counts(), row.at);
            self.was_gone = document.node == NO_NODE && ENDS.contains(&row.kind);
        }
        match document.header {
            None | Some(HeaderDocument::LinkUsed { .. }) => {}
            Some(_) => self.put = Some(self.last),
        }
    }

    /// What of a header is not as the log ends; none where all is.
    fn wrong_in(&self, header: Option<&Document>) -> Option<&'static str> {
        let is_there = header.is_some_and(|header| !header.get_bool("gone").unwrap_or(false));
        if self.was_gone && !is_there {
            return None;
        }
        let Some(header) = header else {
            return Some("there is none");
        };
        let field = |name: &str| header.get(name).and_then(Bson::as_i64);
        let (sequence, last) = (field("seq").unwrap_or(0), int(self.last.0));
        // A conversation shows every row's numbers, anything else what puts its header.
        let is_conversation = is_there && self.kind == Kind::Conversation as i32;
        let least = self.put.filter(|_| !is_conversation);
        if field("tail") != Some(self.tail) {
            Some("it has another identifier")
        } else if sequence > last {
            Some("it is beyond the log")
        } else if sequence < least.map_or(last, |put| int(put.0)) {
            Some("it is behind the log")
        } else if !is_conversation {
            None
        } else if field("messages") != Some(int(self.counts.total())) {
            Some("its messages are not what is counted")
        } else if field("updated_at") != Some(self.at)
            || field("last_message_at") != self.counts.last_message_at.map(|at| at.0)
        {
            Some("it changed at another time")
        } else {
            None
        }
    }
}

/// Where the header of an entity stands; none where it has none, or the code of its kind stands for
/// nothing.
fn collection_of(kind: i32) -> Option<&'static str> {
    Some(match Kind::from_code(kind.into())? {
        Kind::Conversation => CONVERSATIONS,
        Kind::Document => DOCUMENTS,
        Kind::Account
        | Kind::Key
        | Kind::User
        | Kind::Customer
        | Kind::Webhook
        | Kind::Supervision
        | Kind::Client
        | Kind::Attachment
        | Kind::Erasure
        | Kind::Grant
        | Kind::SigningKeys
        | Kind::Alerts => RECORDS,
        Kind::Audit => return None,
    })
}

/// Whether a payload is the one that was sealed; what is erased or freed has lost its salt.
fn is_as_sealed(row: &RowDocument) -> bool {
    let Some(Binary { bytes: salt, .. }) = &row.salt else {
        return true;
    };
    let digest = Sha256::new()
        .chain_update(salt)
        .chain_update(row.payload.as_bytes())
        .finalize();
    digest[..] == *row.hash.bytes
}

fn text_place(document: &LogDocument, sequence: Sequence, row: &RowDocument) -> Option<TextPlace> {
    let is_message = row.kind == EventKind::MessageCreated as i32;
    let original = match row.edits {
        Some(original) => Sequence(uint(original)),
        None if is_message => sequence,
        None => return None,
    };
    Some(TextPlace {
        message: message_id(document.entity, original),
        sequence: int(sequence.0),
        stored_in: document.id.clone(),
        is_edit: row.edits.is_some(),
    })
}

/// Compares the headers of these entities with the ends of their logs.
async fn headers(
    collections: &Collections,
    collection: &'static str,
    entities: &[Entity],
    findings: &mut Findings,
) -> Result<(), Error> {
    let numbers: Vec<i64> = entities.iter().map(|entity| entity.number).collect();
    let fields = doc! {
        "tail": 1, "gone": 1, "seq": 1, "messages": 1, "last_message_at": 1, "updated_at": 1,
    };
    let found = collections.database.collection::<Document>(collection);
    let found = found
        .find(doc! {"_id": {"$in": numbers}})
        .projection(fields);
    let mut cursor = found.await?;
    let mut headers: HashMap<i64, Document> = HashMap::new();
    while cursor.advance().await? {
        let header = cursor.deserialize_current()?;
        headers.insert(header.get_i64("_id").unwrap_or(0), header);
    }
    for entity in entities {
        if let Some(wrong) = entity.wrong_in(headers.get(&entity.number)) {
            let found = format!("{collection} {}: {wrong}", entity.number);
            findings.note("headers as their last row", found);
        }
    }
    Ok(())
}

/// A message's place, as far as it is compared.
#[derive(Debug, Deserialize)]
struct Place {
    #[serde(rename = "_id")]
    id: String,
    seq: i64,
    stored_in: String,
    #[serde(default)]
    edits: Vec<Edit>,
}

/// An edit, as a place names it.
#[derive(Debug, Deserialize)]
struct Edit {
    seq: i64,
    stored_in: String,
}

impl Place {
    fn names(&self, text: &TextPlace) -> bool {
        let is_it = |seq: i64, stored_in: &str| seq == text.sequence && stored_in == text.stored_in;
        if text.is_edit {
            self.edits
                .iter()
                .any(|edit| is_it(edit.seq, &edit.stored_in))
        } else {
            is_it(self.seq, &self.stored_in)
        }
    }
}

/// Compares these texts with the places of their messages.
async fn places(
    collections: &Collections,
    texts: &[TextPlace],
    findings: &mut Findings,
) -> Result<(), Error> {
    let messages: Vec<&str> = texts.iter().map(|text| text.message.as_str()).collect();
    let found = collections.database.collection::<Place>(MESSAGES);
    let mut cursor = found.find(doc! {"_id": {"$in": messages}}).await?;
    let mut places: HashMap<String, Place> = HashMap::new();
    while cursor.advance().await? {
        let place = cursor.deserialize_current()?;
        places.insert(place.id.clone(), place);
    }
    for text in texts {
        let place = places.get(&text.message);
        if !place.is_some_and(|place| place.names(text)) {
            let found = format!("message {}, sequence {}", text.message, text.sequence);
            findings.note("messages have their places", found);
        }
    }
    Ok(())
}
