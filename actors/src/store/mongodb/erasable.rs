//! Conversations and records that are to be erased, read without what may be damaged: a field that is not there, a
//! code that stands for nothing.

use mongodb::bson::{Bson, Document, doc};

use super::codec::{code, damaged, int, uint};
use super::find::{Find, named, one};
use super::schema::{CONVERSATIONS, Collections, RECORDS};
use super::{loads, log};
use crate::store::erasable::Remains;
use crate::store::{
    ErasableConversation, ErasableQuery, ErasableRecord, Erasing, ReadError, StoredConversation,
};
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{Channel, MessageCounts, Priority, Status};
use colloquy_model::entity::Subject;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ConversationId, CustomerId, UserId};
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// The next conversations that may have to be erased.
///
/// # Errors
/// The server does not answer.
pub(super) async fn next(
    collections: &Collections,
    query: ErasableQuery,
) -> Result<Vec<ErasableConversation>, ReadError> {
    let mut filter = doc! {
        "tenant": query.tenant.number(), "_id": {"$gt": int(query.behind)},
    };
    match query.erasing {
        Erasing::OfCustomer(customer) => filter.insert("customer", int(customer.number())),
        Erasing::Closed => filter.insert("status", code(Status::Closed.code())),
    };
    let fields = doc! {"tail": 1, "messages": 1, "closed_at": 1};
    let find = Find {
        limit: query.limit,
        ..Find::all(CONVERSATIONS, filter, fields)
    };
    let found: Vec<Document> = find.read(collections).await?;
    let shown = |found: &Document| {
        let number = |field| found.get_i64(field).ok();
        let (id, tail) = (number("_id")?, number("tail")?);
        Some(ErasableConversation {
            id: ConversationId::from_parts(uint(id), uint(tail)),
            messages: number("messages").map_or(0, uint),
            closed_at: number("closed_at").map(Timestamp),
        })
    };
    let read = |found| shown(found).ok_or_else(|| damaged("a conversation's identifier", found));
    let all: Result<Vec<_>, _> = found.iter().map(read).collect();
    Ok(all?)
}

/// A conversation as it is to be erased, whatever of its header and of the end of its log can't be read.
///
/// # Errors
/// The server does not answer, or nobody knows whose it is.
pub(super) async fn load(
    collections: &Collections,
    subject: Subject,
) -> Result<Option<StoredConversation>, ReadError> {
    let Subject { kind, number, .. } = subject;
    loads::wait_for_header(collections, kind, number).await?;
    let mut filter = named(subject);
    filter.insert("gone", doc! {"$ne": true});
    let (header, last) = tokio::join!(
        one::<Document>(collections, CONVERSATIONS, filter),
        loads::end_of(collections, number)
    );
    let Some(header) = header? else {
        return Ok(None);
    };
    let last = last?.ok_or_else(|| damaged(&subject.to_string(), "its log is not there"))?;
    let row = LastRow::of(&last, &header);
    if row.kind == Some(EventKind::ConversationErased as i64) {
        return Ok(None);
    }
    let number = |field| header.get_i64(field).ok();
    let coded = |field| header.get_i32(field).ok().map(i64::from);
    let whole = |field, tail| Some((uint(number(field)?), uint(number(tail)?)));
    let nobodys = |what: &str| damaged(&subject.to_string(), what);
    let tenant = last.get_i64("tenant").ok().or_else(|| number("tenant"));
    let tenant = tenant.ok_or_else(|| nobodys("it is no account's"))?;
    let customer = whole("customer", "customer_tail");
    let (customer, tail) = customer.ok_or_else(|| nobodys("it is nobody's"))?;
    let assignee = whole("assignee", "assignee_tail");
    let channel = coded("channel").and_then(Channel::from_code);
    let priority = coded("priority").and_then(Priority::from_code);
    let carried = Sequence(number("seq").map_or(0, uint));
    let remains = Remains {
        tenant: Tenant::from_number(tenant),
        customer: CustomerId::from_parts(customer, tail),
        status: coded("status").and_then(Status::from_code),
        channel: channel.or_else(|| Channel::from_code(row.channel?)),
        priority: priority.or_else(|| Priority::from_code(row.priority?)),
        assignee: assignee.map(|(number, tail)| UserId::from_parts(number, tail)),
        closed_at: number("closed_at").map(Timestamp),
        sequence: log::last_sequence(&last).max(carried),
        updated_at: row.at,
        counts: row.counts,
    };
    Ok(Some(remains.into()))
}

/// What the last row of a conversation says, as far as it can be read.
struct LastRow {
    kind: Option<i64>,
    channel: Option<i64>,
    priority: Option<i64>,
    at: Timestamp,
    counts: MessageCounts,
}

impl LastRow {
    /// Reads it; where it says nothing, the header may.
    fn of(last: &Document, header: &Document) -> Self {
        let row = log::rows_of(last).last().and_then(Bson::as_document);
        let number = |field| row.and_then(|row| row.get_i64(field).ok());
        let coded = |field| row.and_then(|row| row.get_i32(field).ok()).map(i64::from);
        let listed = |field| header.get_i64(field).ok();
        let counted = number("from_customer").or_else(|| listed("messages"));
        let last_message_at = number("last_message_at").or_else(|| listed("last_message_at"));
        let at = number("at").or_else(|| listed("updated_at"));
        LastRow {
            kind: coded("kind"),
            channel: coded("channel"),
            priority: coded("priority"),
            at: Timestamp(at.unwrap_or(0)),
            counts: MessageCounts {
                customer: counted.map_or(0, uint),
                agent: number("from_agent").map_or(0, uint),
                system: number("from_system").map_or(0, uint),
                last_message_at: last_message_at.map(Timestamp),
            },
        }
    }
}

/// A record as it is to be erased, whatever of it can't be read.
///
/// # Errors
/// The server does not answer, or nobody knows whose it is.
pub(super) async fn record(
    collections: &Collections,
    subject: Subject,
) -> Result<Option<ErasableRecord>, ReadError> {
    let Subject { kind, number, .. } = subject;
    loads::wait_for_header(collections, kind, number).await?;
    let mut filter = named(subject);
    filter.insert("kind", kind as i32);
    filter.insert("gone", false);
    let Some(found) = one::<Document>(collections, RECORDS, filter).await? else {
        return Ok(None);
    };
    let number = |field| found.get_i64(field).ok();
    let known = number("tenant").zip(number("seq"));
    let (tenant, sequence) =
        known.ok_or_else(|| damaged(&subject.to_string(), "it is no account's"))?;
    Ok(Some(ErasableRecord {
        tenant: Tenant::from_number(tenant),
        sequence: Sequence(uint(sequence)),
    }))
}
