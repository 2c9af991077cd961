//! Conversations and records that are to be erased, read without what may be damaged: a text that is no JSON, a
//! code that stands for nothing.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec::{Columns, CountsRow, columns, int, whole};
use crate::store::erasable::Remains;
use crate::store::{
    ErasableConversation, ErasableQuery, ErasableRecord, Erasing, StoredConversation,
};
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{Channel, Priority, Status};
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{CustomerId, UserId};
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

columns! {
    /// A conversation that may have to be erased, with the messages up to its last row: its header
    /// may lag behind that.
    struct ErasableRow {
        n: EntityNumber,
        tail: u64,
        closed_at: Option<Timestamp>,
        messages: Option<u64> = "(SELECT from_customer + from_agent + from_system FROM rows
            WHERE entity = n ORDER BY seq DESC LIMIT 1)",
    }
}

/// The next conversations that may have to be erased.
pub(super) fn next(
    connection: &Connection,
    query: ErasableQuery,
) -> rusqlite::Result<Vec<ErasableConversation>> {
    let (condition, value) = match query.erasing {
        Erasing::OfCustomer(customer) => ("customer = ?2", int(customer.number().0)),
        Erasing::Closed => ("status = ?2", Status::Closed.code()),
    };
    let sql = format!(
        "SELECT {} FROM conversations WHERE scope = ?1 AND {condition} AND n > ?3 ORDER BY n LIMIT ?4",
        ErasableRow::COLUMNS
    );
    let mut find = connection.prepare_cached(&sql)?;
    let (tenant, behind) = (query.tenant.number(), int(query.behind.0));
    let found = find.query_map(
        params![tenant, value, behind, query.limit],
        whole::<ErasableRow>,
    )?;
    let shown = |row: rusqlite::Result<ErasableRow>| {
        let row = row?;
        Ok(ErasableConversation {
            id: colloquy_model::id::Id::from_parts(row.n, row.tail),
            messages: row.messages.unwrap_or(0),
            closed_at: row.closed_at,
        })
    };
    found.map(shown).collect()
}

columns! {
    /// A conversation's header without its texts, and with its codes as they stand.
    struct HeaderRow {
        scope: Tenant,
        customer: EntityNumber,
        customer_tail: u64,
        status: i64,
        channel: i64,
        priority: i64,
        assignee: Option<EntityNumber>,
        assignee_tail: Option<u64>,
        closed_at: Option<Timestamp>,
    }
}

columns! {
    /// What a conversation's last row says beside its [`CountsRow`].
    struct LastRow {
        seq: Sequence,
        at: Timestamp,
        channel: Option<i64>,
        priority: Option<i64>,
    }
}

/// A conversation as it is to be erased, whatever of it can't be read.
pub(super) fn load(
    connection: &Connection,
    subject: Subject,
) -> rusqlite::Result<Option<StoredConversation>> {
    let sql = format!(
        "SELECT {} FROM conversations WHERE n = ?1 AND tail = ?2",
        HeaderRow::COLUMNS
    );
    let header = connection
        .prepare_cached(&sql)?
        .query_row(
            [int(subject.number.0), int(subject.tail)],
            whole::<HeaderRow>,
        )
        .optional()?;
    let Some(header) = header else {
        return Ok(None);
    };
    let sql = format!(
        "SELECT {}, {} FROM rows WHERE entity = ?1 ORDER BY seq DESC LIMIT 1",
        LastRow::COLUMNS,
        CountsRow::COLUMNS
    );
    let read = |row: &Row<'_>| -> rusqlite::Result<(LastRow, CountsRow)> {
        Ok((
            LastRow::read_from(row, 0)?,
            CountsRow::read_from(row, LastRow::COUNT)?,
        ))
    };
    let (last, counts) = connection
        .prepare_cached(&sql)?
        .query_row([int(subject.number.0)], read)?;
    let assignee = header.assignee.zip(header.assignee_tail);
    let channel = Channel::from_code(header.channel);
    let priority = Priority::from_code(header.priority);
    let remains = Remains {
        tenant: header.scope,
        customer: CustomerId::from_parts(header.customer, header.customer_tail),
        status: Status::from_code(header.status),
        channel: channel.or_else(|| last.channel.and_then(Channel::from_code)),
        priority: priority.or_else(|| last.priority.and_then(Priority::from_code)),
        assignee: assignee.map(|(number, tail)| UserId::from_parts(number, tail)),
        closed_at: header.closed_at,
        sequence: last.seq,
        updated_at: last.at,
        counts: counts.into(),
    };
    Ok(Some(remains.into()))
}

columns! {
    /// A record without its texts.
    struct BareRecordRow {
        scope: Tenant,
        seq: Sequence,
    }
}

/// A record as it is to be erased, whatever of it can't be read.
pub(super) fn record(
    connection: &Connection,
    subject: Subject,
) -> rusqlite::Result<Option<ErasableRecord>> {
    let sql = format!(
        "SELECT {} FROM records WHERE n = ?1 AND tail = ?2 AND kind = ?3",
        BareRecordRow::COLUMNS
    );
    let Subject { kind, number, tail } = subject;
    let found = connection
        .prepare_cached(&sql)?
        .query_row(
            params![int(number.0), int(tail), kind as i64],
            whole::<BareRecordRow>,
        )
        .optional()?;
    Ok(found.map(|row| ErasableRecord {
        tenant: row.scope,
        sequence: row.seq,
    }))
}
