//! What must hold outside of an entity for its commit, judged inside the transaction.

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{int, uint};
use crate::store::AttachmentTaker;
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{
    Commit, Condition, ConstraintViolation, Header, NameField, RecordName,
};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{AttachmentId, ConversationId};
use colloquy_model::sequence::Sequence;

/// The first condition of a commit that does not hold; none where it may be written.
pub(super) fn violated(
    connection: &Connection,
    commit: &Commit,
) -> rusqlite::Result<Option<ConstraintViolation>> {
    // First: the record of one that was taken changes once more, when that is noted.
    if let Some(attachment) = commit.takes
        && claimant(connection, commit.tenant, attachment)?.is_some()
    {
        return Ok(Some(ConstraintViolation::Taken(NameField::TakenAttachment)));
    }
    for condition in &commit.conditions {
        if let Some(violation) = judge(connection, commit.tenant, *condition)? {
            return Ok(Some(violation));
        }
    }
    let Header::Record { names, .. } = &commit.header else {
        return Ok(None);
    };
    Ok(taken(connection, commit, names)?.map(ConstraintViolation::Taken))
}

fn judge(
    connection: &Connection,
    tenant: Tenant,
    condition: Condition,
) -> rusqlite::Result<Option<ConstraintViolation>> {
    Ok(match condition {
        Condition::CustomerExists(id) => {
            let customer = Subject {
                kind: Kind::Customer,
                number: id.number(),
                tail: id.tail(),
            };
            let found = record_exists(connection, customer, tenant)?;
            (!found).then_some(ConstraintViolation::NoCustomer)
        }
        Condition::UserExists(id) => {
            let user = Subject {
                kind: Kind::User,
                number: id.number(),
                tail: id.tail(),
            };
            let found = record_exists(connection, user, tenant.account_wide())?;
            (!found).then_some(ConstraintViolation::NoUser)
        }
        Condition::DocumentExists(id) => {
            let mut found = connection.prepare_cached(
                "SELECT 1 FROM documents WHERE n = ?1 AND tail = ?2 AND scope = ?3",
            )?;
            let found = found.exists([int(id.number().0), int(id.tail()), tenant.number()])?;
            (!found).then_some(ConstraintViolation::NoDocument)
        }
        Condition::NoConversations(id) => {
            let mut owned = connection
                .prepare_cached("SELECT 1 FROM conversations WHERE customer = ?1 LIMIT 1")?;
            owned
                .exists([int(id.number().0)])?
                .then_some(ConstraintViolation::HasConversations)
        }
        Condition::NoDocuments(id) => {
            let mut owned =
                connection.prepare_cached("SELECT 1 FROM documents WHERE owner = ?1 LIMIT 1")?;
            owned
                .exists([int(id.number().0)])?
                .then_some(ConstraintViolation::HasDocuments)
        }
        Condition::FewerThan(kind, most) => {
            let behind = i64::try_from(most.saturating_sub(1)).unwrap_or(i64::MAX);
            let mut last = connection.prepare_cached(
                "SELECT 1 FROM records WHERE scope = ?1 AND kind = ?2 LIMIT 1 OFFSET ?3",
            )?;
            last.exists([tenant.number(), kind as i64, behind])?
                .then_some(ConstraintViolation::Full(most))
        }
        Condition::AttachmentUnchanged(id, sequence) => {
            let found = is_unchanged(connection, tenant, (id, sequence))?;
            (!found).then_some(ConstraintViolation::NoAttachment)
        }
        Condition::AttachmentUntaken(id) => claimant(connection, tenant, id)?
            .map(|_| ConstraintViolation::Taken(NameField::TakenAttachment)),
    })
}

fn is_unchanged(
    connection: &Connection,
    tenant: Tenant,
    (id, sequence): (AttachmentId, Sequence),
) -> rusqlite::Result<bool> {
    let mut found = connection.prepare_cached(
        "SELECT 1 FROM records WHERE n = ?1 AND tail = ?2 AND kind = ?3 AND scope = ?4 AND seq = ?5",
    )?;
    found.exists([
        int(id.number().0),
        int(id.tail()),
        Kind::Attachment as i64,
        tenant.number(),
        int(sequence.0),
    ])
}

/// The number of the conversation that has taken this attachment for one of its messages.
fn claimant(
    connection: &Connection,
    tenant: Tenant,
    attachment: AttachmentId,
) -> rusqlite::Result<Option<i64>> {
    let mut query = connection
        .prepare_cached("SELECT n FROM names WHERE scope = ?1 AND field = ?2 AND value = ?3")?;
    let field = NameField::TakenAttachment as i64;
    query
        .query_row(
            params![tenant.number(), field, attachment.to_string()],
            |row| row.get(0),
        )
        .optional()
}

/// Which conversation has taken this attachment for one of its messages.
pub(super) fn claiming_conversation(
    connection: &Connection,
    tenant: Tenant,
    attachment: AttachmentId,
) -> rusqlite::Result<AttachmentTaker> {
    let Some(number) = claimant(connection, tenant, attachment)? else {
        return Ok(AttachmentTaker::Nobody);
    };
    let mut query = connection.prepare_cached("SELECT tail FROM conversations WHERE n = ?1")?;
    let tail: Option<i64> = query.query_row([number], |row| row.get(0)).optional()?;
    Ok(tail.map_or(AttachmentTaker::Gone, |tail| {
        let id = ConversationId::from_parts(EntityNumber(uint(number)), uint(tail));
        AttachmentTaker::Conversation(id)
    }))
}

fn record_exists(
    connection: &Connection,
    subject: Subject,
    tenant: Tenant,
) -> rusqlite::Result<bool> {
    let mut query = connection.prepare_cached(
        "SELECT 1 FROM records WHERE n = ?1 AND tail = ?2 AND kind = ?3 AND scope = ?4",
    )?;
    let Subject { kind, number, tail } = subject;
    query.exists([int(number.0), int(tail), kind as i64, tenant.number()])
}

/// The first name of a record that is another one's, where only one may have it.
fn taken(
    connection: &Connection,
    commit: &Commit,
    names: &[RecordName],
) -> rusqlite::Result<Option<NameField>> {
    let mut query = connection.prepare_cached(
        "SELECT 1 FROM names WHERE scope = ?1 AND field = ?2 AND value = ?3 AND n <> ?4",
    )?;
    for RecordName { field, value } in names.iter().filter(|name| name.field.unique()) {
        if query.exists(params![
            commit.tenant.number(),
            *field as i64,
            value,
            int(commit.subject.number.0)
        ])? {
            return Ok(Some(*field));
        }
    }
    Ok(None)
}
