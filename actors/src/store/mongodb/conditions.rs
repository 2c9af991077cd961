//! What must hold outside of an entity for its commit, judged by what is carried over. `intents.rs`
//! has whoever judges see all that other nodes have committed; a commit that brings, takes or renames
//! something that another's condition may name is committed by itself, so that the same holds of what
//! this node writes.

use mongodb::bson::{Document, doc};
use mongodb::error::{Error, Result};

use super::carry_over::name_id;
use super::codec::{int, uint};
use super::connection::answered;
use super::header::HeaderDocument;
use super::loads;
use super::log::{Extent, LogDocument};
use super::schema::{CONVERSATIONS, Collections, DOCUMENTS, NAMES, RECORDS};
use super::work::{Insert, PendingCommit};
use crate::store::AttachmentTaker;
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{Condition, ConstraintViolation, NameField};
use colloquy_model::entity::Kind;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{AttachmentId, ConversationId};
use colloquy_model::sequence::Sequence;
use colloquy_runtime::CommitFailure;

/// Why a document of the log need not be tried; none where it may be written. One with rows meets
/// the fence as it is inserted; one without has none of its own there, and is judged by the last that
/// has.
pub(super) async fn refused_early(
    collections: &Collections,
    insert: &Insert,
) -> Result<Option<CommitFailure<ConstraintViolation>>> {
    for PendingCommit { commit, .. } in &insert.commits {
        if commit.rows.is_empty() {
            let log = collections.log.clone_with_type::<Extent>();
            let last = log
                .find_one(loads::log_of(commit.subject.number))
                .projection(Extent::fields())
                .sort(doc! {"_id": -1});
            let last = answered(last.into_future()).await?;
            let last = last.map_or(Sequence::ZERO, |last| last.last_sequence());
            if last != commit.expected {
                return Ok(Some(CommitFailure::Conflict));
            }
        }
    }
    if !matches!(insert.document.header, Some(HeaderDocument::Record { .. })) {
        return Ok(None);
    }
    let violation = violated(collections, insert).await?;
    Ok(violation.map(CommitFailure::Violated))
}

/// The first condition of a document that does not hold; none where it may be inserted.
pub(super) async fn violated(
    collections: &Collections,
    insert: &Insert,
) -> Result<Option<ConstraintViolation>> {
    // First: the record of one that was taken changes once more, when that is noted.
    if let Some(attachment) = &insert.document.takes {
        let tenant = Tenant::from_number(insert.document.tenant);
        // Its own, where an insert is tried again.
        let others = doc! {"at": {"$ne": insert.document.position}};
        if claim(collections, tenant, (attachment, others))
            .await?
            .is_some()
        {
            let field = NameField::TakenAttachment;
            return Ok(Some(ConstraintViolation::Taken(field)));
        }
    }
    for PendingCommit { commit, .. } in &insert.commits {
        for condition in &commit.conditions {
            if let Some(violation) = judge(collections, commit.tenant, *condition).await? {
                return Ok(Some(violation));
            }
        }
    }
    taken(collections, &insert.document).await
}

/// The name by which a conversation has taken an attachment.
async fn claim(
    collections: &Collections,
    tenant: Tenant,
    (attachment, and): (&str, Document),
) -> Result<Option<Document>> {
    let field = NameField::TakenAttachment as i32;
    let mut filter = doc! {"_id": format!("{}.{field}.{attachment}", tenant.number())};
    filter.extend(and);
    let names = collections.database.collection::<Document>(NAMES);
    answered(names.find_one(filter).into_future()).await
}

async fn taken_by_another(
    collections: &Collections,
    tenant: Tenant,
    id: AttachmentId,
) -> Result<Option<ConstraintViolation>> {
    let id = id.to_string();
    let taken = claim(collections, tenant, (&id, Document::new())).await?;
    Ok(taken.map(|_| ConstraintViolation::Taken(NameField::TakenAttachment)))
}

/// Which conversation has taken this attachment for one of its messages.
pub(super) async fn claiming_conversation(
    collections: &Collections,
    tenant: Tenant,
    attachment: AttachmentId,
) -> Result<AttachmentTaker> {
    let attachment = attachment.to_string();
    let Some(name) = claim(collections, tenant, (&attachment, Document::new())).await? else {
        return Ok(AttachmentTaker::Nobody);
    };
    let conversations = collections.database.collection::<Document>(CONVERSATIONS);
    let own = conversations
        .find_one(doc! {"_id": name.get("record")})
        .projection(doc! {"tail": 1, "gone": 1});
    let found = answered(own.into_future()).await?;
    let there = found.filter(|found| !found.get_bool("gone").unwrap_or(false));
    let taker = there.and_then(|found| {
        let (number, tail) = (name.get_i64("record").ok()?, found.get_i64("tail").ok()?);
        Some(ConversationId::from_parts(uint(number), uint(tail)))
    });
    Ok(taker.map_or(AttachmentTaker::Gone, AttachmentTaker::Conversation))
}

async fn judge(
    collections: &Collections,
    tenant: Tenant,
    condition: Condition,
) -> Result<Option<ConstraintViolation>> {
    let is_there = |collection: &'static str, filter: Document| async move {
        let collection = collections.database.collection::<Document>(collection);
        let found = answered(collection.find_one(filter).into_future()).await?;
        Ok::<bool, Error>(found.is_some())
    };
    let record = |kind: Kind, number: EntityNumber, tail: u64, tenant: Tenant| {
        doc! {
            "_id": int(number), "tail": int(tail), "kind": kind as i32, "tenant": tenant.number(),
            "gone": false,
        }
    };
    Ok(match condition {
        Condition::CustomerExists(id) => {
            let filter = record(Kind::Customer, id.number(), id.tail(), tenant);
            (!is_there(RECORDS, filter).await?).then_some(ConstraintViolation::NoCustomer)
        }
        Condition::UserExists(id) => {
            let filter = record(Kind::User, id.number(), id.tail(), tenant.account_wide());
            (!is_there(RECORDS, filter).await?).then_some(ConstraintViolation::NoUser)
        }
        Condition::DocumentExists(id) => {
            let filter = doc! {
                "_id": int(id.number()), "tail": int(id.tail()), "tenant": tenant.number(),
                "gone": false,
            };
            (!is_there(DOCUMENTS, filter).await?).then_some(ConstraintViolation::NoDocument)
        }
        Condition::NoConversations(id) => {
            let filter = doc! {"customer": int(id.number())};
            is_there(CONVERSATIONS, filter)
                .await?
                .then_some(ConstraintViolation::HasConversations)
        }
        Condition::NoDocuments(id) => {
            let filter = doc! {"owner": int(id.number()), "gone": false};
            is_there(DOCUMENTS, filter)
                .await?
                .then_some(ConstraintViolation::HasDocuments)
        }
        Condition::FewerThan(kind, most) => {
            let filter = doc! {"tenant": tenant.number(), "kind": kind as i32, "gone": false};
            let count = collections
                .records
                .count_documents(filter)
                .limit(u64::try_from(most).unwrap_or(u64::MAX));
            let count = answered(count.into_future()).await?;
            (usize::try_from(count).unwrap_or(usize::MAX) >= most)
                .then_some(ConstraintViolation::Full(most))
        }
        Condition::AttachmentUnchanged(id, sequence) => {
            let mut filter = record(Kind::Attachment, id.number(), id.tail(), tenant);
            filter.insert("seq", int(sequence.0));
            (!is_there(RECORDS, filter).await?).then_some(ConstraintViolation::NoAttachment)
        }
        Condition::AttachmentUntaken(id) => taken_by_another(collections, tenant, id).await?,
    })
}

/// The first name of a record that is another one's, where only one may have it.
async fn taken(
    collections: &Collections,
    document: &LogDocument,
) -> Result<Option<ConstraintViolation>> {
    let Some(HeaderDocument::Record { names, .. }) = &document.header else {
        return Ok(None);
    };
    for name in names {
        let field = NameField::from_code(name.field.into());
        let Some(field) = field.filter(|field| field.unique()) else {
            continue;
        };
        let name = name_id(document, name);
        let filter = doc! {"_id": &name, "record": {"$ne": document.entity}};
        let names = collections.database.collection::<Document>(NAMES);
        let Some(found) = answered(names.find_one(filter).into_future()).await? else {
            continue;
        };
        // What was carried over late may name a record that has given the name up since.
        let bearer = doc! {"_id": found.get("record"), "names": name, "gone": false};
        let bearer = collections.records.find_one(bearer);
        if answered(bearer.into_future()).await?.is_some() {
            return Ok(Some(ConstraintViolation::Taken(field)));
        }
    }
    Ok(None)
}
