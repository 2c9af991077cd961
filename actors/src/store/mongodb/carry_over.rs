//! What stands in the log, carried over into the collections that are listed and loaded. Once more,
//! or late, it does no harm: every document says how far it has come, and nothing goes back.

use std::collections::HashMap;

use mongodb::bson::{Bson, Document, doc};

use super::codec::{int, uint};
use super::counters::CounterMoves;
use super::header::{HeaderDocument, NameDocument, StateDocument};
use super::log::{LogDocument, RowDocument, log_id};
use super::places::message_id;
use super::schema::{CHORES, CONVERSATIONS, LOG, MESSAGES, NAMES, RECORDS, RENAMES};
use super::statements::{Statements, behind};
use super::{documents, redacting};
use colloquy_model::commit::NameField;
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::sequence::Sequence;

/// A customer as conversations show it.
#[derive(Debug, Clone)]
pub(super) struct CustomerName {
    pub(super) name: String,
    pub(super) revision: i64,
}

/// The customers whose names are needed to carry these documents over: those of new conversations.
pub(super) fn customers_of<'d>(documents: impl IntoIterator<Item = &'d LogDocument>) -> Vec<i64> {
    let new = |document: &LogDocument| match &document.header {
        Some(HeaderDocument::Conversation {
            before: None,
            after,
        }) => Some(after.customer),
        _ => None,
    };
    documents.into_iter().filter_map(new).collect()
}

/// What these documents of the log do to headers, records, names and counters. They stand in the
/// order of their positions.
pub(super) fn headers<'d>(
    documents: impl IntoIterator<Item = &'d LogDocument>,
    customers: &HashMap<i64, CustomerName>,
    mut counters: CounterMoves<'_>,
) -> Statements {
    let mut statements = Statements::default();
    for document in documents {
        counters.note(document);
        redacting::note(document, &mut statements);
        header(document, customers, &mut statements);
        work_behind(document, &mut statements);
    }
    counters.write(&mut statements);
    statements
}

/// What a document of the log does to headers, records and names, without the counters.
pub(super) fn header_of(
    document: &LogDocument,
    customers: &HashMap<i64, CustomerName>,
) -> Statements {
    let mut statements = Statements::default();
    header(document, customers, &mut statements);
    statements
}

fn header(
    document: &LogDocument,
    customers: &HashMap<i64, CustomerName>,
    statements: &mut Statements,
) {
    if let Some(attachment) = &document.takes {
        take(document, attachment, statements);
    }
    match &document.header {
        None => {}
        Some(HeaderDocument::Conversation { before, after }) => {
            let customer = customers.get(&after.customer).filter(|_| before.is_none());
            conversation(document, after, customer, statements);
        }
        Some(HeaderDocument::Record {
            name, body, names, ..
        }) => {
            record(document, Record { name, body, names }, statements);
            forget_keys(document, statements);
        }
        Some(HeaderDocument::ConversationGone { .. }) => conversation_gone(document, statements),
        Some(HeaderDocument::RecordGone) => record_gone(document, statements),
        Some(HeaderDocument::RecordErased) => {
            record_gone(document, statements);
            statements.delete(RENAMES, doc! {"_id": document.entity});
            documents::erase(document.entity, statements);
        }
        Some(HeaderDocument::Document(header)) => documents::put(document, header, statements),
        Some(HeaderDocument::DocumentGone { .. }) => documents::gone(document, statements),
        Some(HeaderDocument::LinkUsed { share, uses }) => {
            documents::link_used(document, *share, *uses, statements);
        }
    }
}

/// Notes whose an attachment is from now on. Nobody ever gives one up.
fn take(document: &LogDocument, attachment: &str, statements: &mut Statements) {
    let field = NameField::TakenAttachment as i32;
    let name = NameDocument {
        field,
        value: attachment.to_owned(),
    };
    let set = doc! {
        "tenant": document.tenant, "field": field, "value": attachment,
        "record": document.entity, "at": document.position,
    };
    let change = doc! {"$setOnInsert": set};
    let id = name_id(document, &name);
    statements.put(NAMES, id, Document::new(), change);
}

/// An account was forgotten: the log must lose the keys of its texts, which stand in its record as
/// it was before.
fn forget_keys(document: &LogDocument, statements: &mut Statements) {
    let is_forgotten = |row: &RowDocument| row.kind == EventKind::AccountForgotten as i32;
    if !document.rows.iter().any(is_forgotten) {
        return;
    }
    let first = log_id(uint(document.entity), Sequence::ZERO);
    let earlier = doc! {"_id": {"$gte": first, "$lt": &document.id}};
    statements.update(LOG, earlier, doc! {"$unset": {"header": ""}});
}

/// Notes what a commit leaves to be done.
fn work_behind(document: &LogDocument, statements: &mut Statements) {
    if let Some(chore) = document.chore {
        let change = doc! {"$setOnInsert": chore.fields()};
        statements.put(CHORES, chore.id(), Document::new(), change);
    }
    if let Some(name) = &document.renamed {
        let revision = int(document.last_sequence().0);
        let behind = doc! {"revision": {"$lt": revision}};
        let change = doc! {"$set": {"name": name, "revision": revision}};
        statements.put(RENAMES, document.entity, behind, change);
    }
}

fn conversation(
    document: &LogDocument,
    after: &StateDocument,
    customer: Option<&CustomerName>,
    statements: &mut Statements,
) {
    let StateDocument {
        customer: customer_number,
        customer_tail,
        status,
        channel,
        priority,
        assignee,
        assignee_tail,
        metadata,
        closed_at,
        snoozed_until,
        activated_at,
    } = after.clone();
    let mut set = doc! {
        "tail": document.tail, "tenant": document.tenant,
        "customer": customer_number, "customer_tail": customer_tail,
        "status": status, "channel": channel, "priority": priority,
        "assignee": assignee, "assignee_tail": assignee_tail, "metadata": metadata,
        "closed_at": closed_at, "snoozed_until": snoozed_until, "activated_at": activated_at,
    };
    if let Some(last) = document.rows.last() {
        set.extend(numbers(document.last_sequence(), last));
        set.insert("active_at", activity(after, last));
    }
    let mut change = doc! {"$set": set};
    if let Some(CustomerName { name, revision }) = customer {
        let first = doc! {"customer_name": name, "customer_revision": revision};
        change.insert("$setOnInsert", first);
    }
    let behind = behind(document.last_sequence());
    statements.put(CONVERSATIONS, document.entity, behind, change);
}

/// What is left of a conversation that is gone for good: that it is, and whose it was. Its texts are
/// erased behind.
fn conversation_gone(document: &LogDocument, statements: &mut Statements) {
    let sequence = document.last_sequence();
    let set = doc! {
        "tail": document.tail, "gone_from": document.tenant, "seq": int(sequence.0), "gone": true,
    };
    let unset = doc! {
        "tenant": "", "customer": "", "customer_tail": "", "customer_name": "",
        "customer_revision": "", "status": "", "channel": "", "priority": "", "assignee": "",
        "assignee_tail": "", "metadata": "", "closed_at": "", "snoozed_until": "",
        "activated_at": "", "active_at": "", "messages": "", "last_message_at": "",
        "updated_at": "",
    };
    let change = doc! {"$set": set, "$unset": unset};
    statements.put(CONVERSATIONS, document.entity, behind(sequence), change);
    documents::erase(document.entity, statements);
}

/// When an open conversation that does not sleep was active last: by this it is closed at last.
fn activity(state: &StateDocument, last: &RowDocument) -> Bson {
    let is_open = state.status != 2 && state.snoozed_until.is_none();
    if is_open {
        state
            .activated_at
            .max(last.last_message_at.unwrap_or(0))
            .into()
    } else {
        Bson::Null
    }
}

/// What a header says of a conversation's messages.
fn numbers(sequence: Sequence, last: &RowDocument) -> Document {
    doc! {
        "seq": int(sequence.0), "messages": int(last.counts().total()),
        "last_message_at": last.last_message_at, "updated_at": last.at,
    }
}

/// A record as its commit leaves it.
struct Record<'d> {
    name: &'d str,
    body: &'d str,
    names: &'d [NameDocument],
}

fn record(document: &LogDocument, record: Record<'_>, statements: &mut Statements) {
    let Record { name, body, names } = record;
    let sequence = document.last_sequence();
    let ids: Vec<String> = names.iter().map(|name| name_id(document, name)).collect();
    let set = doc! {
        "tail": document.tail, "kind": document.kind, "tenant": document.tenant,
        "seq": int(sequence.0), "name": name, "names": &ids, "body": body, "gone": false,
    };
    let change = doc! {"$set": set};
    statements.put(RECORDS, document.entity, behind(sequence), change);
    // A name goes from record to record, so that sequences do not say which had it last.
    let before = doc! {"at": {"$lt": document.position}};
    for (id, NameDocument { field, value }) in ids.iter().zip(names) {
        let set = doc! {
            "tenant": document.tenant, "field": field, "value": value,
            "record": document.entity, "at": document.position,
        };
        statements.put(NAMES, id.clone(), before.clone(), doc! {"$set": set});
    }
    let mut given_up = doc! {"record": document.entity, "_id": {"$nin": ids}};
    given_up.extend(before);
    statements.delete(NAMES, given_up);
}

/// What is left of a record: that it is gone, so that nothing late brings it back, and which
/// identifier it had, for what it did is still told.
fn record_gone(document: &LogDocument, statements: &mut Statements) {
    let sequence = document.last_sequence();
    let set = doc! {
        "tail": document.tail, "kind": document.kind, "tenant": document.tenant,
        "seq": int(sequence.0), "gone": true,
    };
    let change = doc! {"$set": set, "$unset": {"name": "", "names": "", "body": ""}};
    statements.put(RECORDS, document.entity, behind(sequence), change);
    let given_up = doc! {"record": document.entity, "at": {"$lt": document.position}};
    statements.delete(NAMES, given_up);
}

/// The `_id` of a name: one that only one record may have has no more than itself.
pub(super) fn name_id(document: &LogDocument, name: &NameDocument) -> String {
    let NameDocument { field, value } = name;
    let base = format!("{}.{field}.{value}", document.tenant);
    let is_unique = NameField::from_code((*field).into()).is_none_or(NameField::unique);
    if is_unique {
        base
    } else {
        format!("{base}.{}", document.entity)
    }
}

/// What these documents do to the places of messages. They stand in the order of their positions.
pub(super) fn places<'d>(documents: impl IntoIterator<Item = &'d LogDocument>) -> Statements {
    let mut statements = Statements::default();
    for document in documents.into_iter().filter(is_conversation) {
        for (_, sequence, row) in document.placed_rows() {
            if row.kind == EventKind::MessageCreated as i32 {
                message(document, sequence, row, &mut statements);
            } else if row.edits.is_some() {
                edit(document, sequence, row, &mut statements);
            }
        }
    }
    statements
}

fn is_conversation(document: &&LogDocument) -> bool {
    document.kind == Kind::Conversation as i32
}

/// What these documents do to the numbers of their conversations, and to the places of messages.
/// They stand in the order of their positions.
pub(super) fn messages(documents: &[&LogDocument]) -> Statements {
    let mut statements = places(documents.iter().copied());
    let mut latest: HashMap<i64, (Sequence, &RowDocument, bool)> = HashMap::new();
    // A document with a header takes its numbers along. Whoever is faster with them than the node
    // that committed must not say that its header is carried over: it never would be.
    let plain = |document: &&LogDocument| document.header.is_none();
    let conversations = documents.iter().copied().filter(is_conversation);
    for document in conversations.filter(plain) {
        for (_, sequence, row) in document.placed_rows() {
            let is_message = row.kind == EventKind::MessageCreated as i32;
            let before = latest.get(&document.entity).is_some_and(|(.., was)| *was);
            latest.insert(document.entity, (sequence, row, before || is_message));
        }
    }
    for (conversation, (sequence, row, has_message)) in latest {
        let filter = doc! {"_id": conversation, "seq": {"$lt": int(sequence.0)}};
        let change = doc! {"$set": numbers(sequence, row)};
        statements.update(CONVERSATIONS, filter, change);
        if has_message {
            // Only where it is open and does not sleep.
            let filter = doc! {
                "_id": conversation, "active_at": {"$lt": row.last_message_at.unwrap_or(0)},
            };
            let change = doc! {"$set": {"active_at": row.last_message_at}};
            statements.update(CONVERSATIONS, filter, change);
        }
    }
    statements
}

fn message(
    document: &LogDocument,
    sequence: Sequence,
    row: &RowDocument,
    statements: &mut Statements,
) {
    let (of_sender, total) = (row.of_sender(), row.counts().total());
    let set = doc! {
        "conversation": document.entity, "seq": int(sequence.0), "sender": row.sender,
        "nth": int(total), "nth_of_sender": of_sender, "stored_in": &document.id,
    };
    let change = doc! {"$setOnInsert": set};
    let id = message_id(document.entity, sequence);
    statements.put(MESSAGES, id, Document::new(), change);
}

/// An edit takes the place of the text before: a later one has a later sequence.
fn edit(
    document: &LogDocument,
    sequence: Sequence,
    row: &RowDocument,
    statements: &mut Statements,
) {
    let Some(original) = row.edits else {
        return;
    };
    let id = message_id(document.entity, Sequence(super::codec::uint(original)));
    let edit = doc! {"seq": int(sequence.0), "stored_in": &document.id};
    let change = doc! {"$addToSet": {"edits": edit}};
    statements.update(MESSAGES, doc! {"_id": id}, change);
}
