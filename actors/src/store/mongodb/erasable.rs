//! Conversations that are to be erased, read without what may be damaged: a field that is not there, a
//! code that stands for nothing.

use mongodb::bson::{Document, doc};

use super::codec::{code, damaged, int, uint};
use super::find::Find;
use super::loads;
use super::schema::{CONVERSATIONS, Collections};
use crate::store::erasable::Remains;
use crate::store::{ErasableConversation, ErasableQuery, Erasing, ReadError, StoredConversation};
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{Channel, Priority, Status};
use colloquy_model::entity::Subject;
use colloquy_model::id::{ConversationId, CustomerId, UserId};
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

/// A conversation as it is to be erased, whatever of its header can't be read.
///
/// # Errors
/// The server does not answer, or its log can't be read.
pub(super) async fn load(
    collections: &Collections,
    subject: Subject,
) -> Result<Option<StoredConversation>, ReadError> {
    let Some((header, last)) = loads::header_and_last(collections, subject).await? else {
        return Ok(None);
    };
    let row = last.rows.last();
    let row = row.ok_or_else(|| damaged(&subject.to_string(), "its last commit has no rows"))?;
    let number = |field| header.get_i64(field).ok();
    let coded = |field| header.get_i32(field).ok().map(i64::from);
    let whole = |field, tail| Some((uint(number(field)?), uint(number(tail)?)));
    let customer = whole("customer", "customer_tail");
    let (customer, tail) =
        customer.ok_or_else(|| damaged(&subject.to_string(), "it is nobody's"))?;
    let assignee = whole("assignee", "assignee_tail");
    let channel = coded("channel").and_then(Channel::from_code);
    let priority = coded("priority").and_then(Priority::from_code);
    let remains = Remains {
        tenant: Tenant::from_number(last.tenant),
        customer: CustomerId::from_parts(customer, tail),
        status: coded("status").and_then(Status::from_code),
        channel: channel.or_else(|| Channel::from_code(row.channel?.into())),
        priority: priority.or_else(|| Priority::from_code(row.priority?.into())),
        assignee: assignee.map(|(number, tail)| UserId::from_parts(number, tail)),
        closed_at: number("closed_at").map(Timestamp),
        sequence: last.last_sequence(),
        updated_at: Timestamp(row.at),
        counts: row.counts(),
    };
    Ok(Some(remains.into()))
}
