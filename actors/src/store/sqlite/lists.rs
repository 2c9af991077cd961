//! Lists out of the file: pages of conversations and records. A total comes from a counter wherever
//! one field, alone or with `status`, is asked for.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::iter::Peekable;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::codec::{
    Columns, ListedHeader, ListedRow, RecordRow, StateRow, columns, int, only, whole,
};
use super::counters::Counted;
use super::dirty_headers::{DirtyHeader, DirtyHeaders};
use super::identifiers;
use super::row_page::{RowPage, Scan, Where, offset, rows_read};
use crate::store::{
    ConversationHeader, ConversationQuery, Facets, OwnedConversation, RecordQuery, StoredPage,
    StoredRecord,
};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::RecordName;
use colloquy_model::conversation::Status;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{ConversationId, first_number_at};
use colloquy_model::page::{Order, Start};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// The filters other than status.
fn filters(query: &ConversationQuery) -> Where {
    let Facets {
        channel,
        priority,
        customer,
        assignee,
        created_after,
        created_before,
        ..
    } = query.facets;
    let mut filter = Where::default();
    filter.and("scope = ?", query.tenant.number());
    if let Some(customer) = customer {
        filter.and("customer = ?", int(customer.number().0));
    }
    if let Some(assignee) = assignee {
        filter.and("assignee = ?", int(assignee.number().0));
    }
    if let Some(channel) = channel {
        filter.and("channel = ?", channel.code());
    }
    if let Some(priority) = priority {
        filter.and("priority = ?", priority.code());
    }
    if let Some(after) = created_after {
        filter.and(
            "n >= ?",
            int((first_number_at(after + Duration::from_millis(1))).0),
        );
    }
    if let Some(before) = created_before {
        filter.and("n < ?", int(first_number_at(before).0));
    }
    filter
}

/// The narrowest index that fits.
fn index(facets: &Facets) -> &'static str {
    if facets.customer.is_some() {
        "conversations_by_customer"
    } else if facets.assignee.is_some() {
        "conversations_by_assignee"
    } else if facets.priority.is_some() {
        "conversations_by_priority"
    } else if facets.channel.is_some() {
        "conversations_by_channel"
    } else {
        "conversations_by_status"
    }
}

/// A page of conversations; the name of the cursor where it is none of theirs.
pub(super) fn conversations(
    connection: &Connection,
    lagging: &DirtyHeaders,
    query: &ConversationQuery,
) -> rusqlite::Result<Result<StoredPage<ConversationHeader>, &'static str>> {
    if let Some((at, field)) = query.paging.start.cursor() {
        let subject = Subject {
            kind: Kind::Conversation,
            number: at.number,
            tail: at.tail,
        };
        if !identifiers::was_conversation(connection, query.tenant, subject)? {
            return Ok(Err(field));
        }
    }
    page_of_conversations(connection, lagging, query).map(Ok)
}

fn page_of_conversations(
    connection: &Connection,
    lagging: &DirtyHeaders,
    query: &ConversationQuery,
) -> rusqlite::Result<StoredPage<ConversationHeader>> {
    let total = total(connection, query)?;
    let lagging = LaggingAsRead {
        connection,
        told: lagging,
        end: OnceCell::new(),
    };
    if query.by_update {
        return by_update(connection, &lagging, query, total);
    }
    let scan = Scan::new(query.paging.order, query.paging.start);
    let mut filter = filters(query);
    if let Some(bound) = scan.bound {
        filter.and(&format!("n {} ?", scan.compare()), int(bound));
    }
    let statuses = query
        .facets
        .status
        .map_or(Status::ALL.to_vec(), |status| vec![status]);
    let conditions = filter.conditions.join(" AND ");
    // Each index has the status before the number: three ordered ranges, merged as they are read.
    let arms: Vec<String> = statuses
        .iter()
        .map(|status| {
            format!(
                "SELECT n FROM conversations INDEXED BY {} WHERE {conditions} AND status = {}",
                index(&query.facets),
                status.code()
            )
        })
        .collect();
    let skip = offset(query.paging.start);
    let limit = filter.value(rows_read(query.paging.limit, skip, total));
    let offset = filter.value(int(skip));
    let direction = scan.direction();
    let sql = format!(
        "SELECT {}, {} FROM conversations WHERE n IN
         (SELECT n FROM ({} ORDER BY n {direction} LIMIT {limit} OFFSET {offset})) ORDER BY n {direction}",
        StateRow::COLUMNS,
        ListedRow::COLUMNS,
        arms.join(" UNION ALL ")
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(filter.values))?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(lagging.fresh(ListedHeader::read(row)?)?);
    }
    Ok(scan.page(items, query.paging, total))
}

/// The headers of these conversations, in this order, as far as they are there.
pub(super) fn among(
    connection: &Connection,
    lagging: &DirtyHeaders,
    tenant: Tenant,
    numbers: &[EntityNumber],
) -> rusqlite::Result<Vec<ConversationHeader>> {
    let lagging = LaggingAsRead {
        connection,
        told: lagging,
        end: OnceCell::new(),
    };
    let sql = format!("{} WHERE n = ?1 AND scope = ?2", select_headers());
    let mut select = connection.prepare_cached(&sql)?;
    let found = numbers.iter().filter_map(|number| {
        let values = [int(number.0), tenant.number()];
        let listed = select.query_row(values, ListedHeader::read).optional();
        let header =
            listed.and_then(|listed| listed.map(|listed| lagging.fresh(listed)).transpose());
        header.transpose()
    });
    found.collect()
}

columns! {
    /// A conversation, and whose it is.
    struct OwnedRow {
        n: EntityNumber,
        tail: u64,
        scope: Tenant,
    }
}

/// Conversations of all accounts, by number.
pub(super) fn behind(
    connection: &Connection,
    number: EntityNumber,
    most: u32,
) -> rusqlite::Result<Vec<OwnedConversation>> {
    let sql = format!(
        "SELECT {} FROM conversations WHERE n > ?1 ORDER BY n LIMIT ?2",
        OwnedRow::COLUMNS
    );
    let mut select = connection.prepare_cached(&sql)?;
    let owned = |row: &Row<'_>| {
        let row = OwnedRow::read(row)?;
        Ok(OwnedConversation {
            id: ConversationId::from_parts(row.n, row.tail),
            tenant: row.scope,
        })
    };
    select
        .query_map(params![int(number.0), most], owned)?
        .collect()
}

columns! {
    /// The numbers of a conversation as of a row.
    struct NumbersRow {
        seq: Sequence,
        at: Timestamp,
        messages: u64 = "from_customer + from_agent + from_system",
        last_message_at: Option<Timestamp>,
    }
}

/// What headers lag behind by, as of the transaction that a list reads in. The writer tells more
/// while the list is read; with that, a header would be shown half as it was and half as it became,
/// which it never was.
struct LaggingAsRead<'r> {
    connection: &'r Connection,
    told: &'r DirtyHeaders,
    /// The last position that the transaction sees.
    end: OnceCell<Position>,
}

impl LaggingAsRead<'_> {
    /// A header with the numbers that it lags behind by.
    fn fresh(&self, listed: ListedHeader) -> rusqlite::Result<ConversationHeader> {
        let lag = self.told.of(listed.header.id.number());
        Ok(match lag.filter(|lag| lag.seq > listed.sequence) {
            Some(lag) => overlaid(listed, self.as_read(lag)?),
            None => listed.header,
        })
    }

    /// All of a tenant, newest change first.
    fn in_scope(&self, tenant: i64) -> rusqlite::Result<Vec<DirtyHeader>> {
        let told = self.told.in_scope(tenant).into_iter();
        let mut read: Vec<DirtyHeader> = told
            .map(|lag| self.as_read(lag))
            .collect::<Result<_, _>>()?;
        read.sort_by_key(|lag| Reverse((lag.updated_at, lag.conversation)));
        Ok(read)
    }

    /// What was told, or where the transaction does not see that yet what it sees.
    fn as_read(&self, lag: DirtyHeader) -> rusqlite::Result<DirtyHeader> {
        if lag.position <= self.end()? {
            return Ok(lag);
        }
        let sql = format!(
            "SELECT {} FROM rows WHERE entity = ?1 ORDER BY seq DESC LIMIT 1",
            NumbersRow::COLUMNS
        );
        let mut last = self.connection.prepare_cached(&sql)?;
        let last = last.query_row([int(lag.conversation.0)], whole::<NumbersRow>);
        Ok(match last.optional()? {
            Some(last) => DirtyHeader {
                seq: last.seq,
                messages: last.messages,
                last_message_at: last.last_message_at,
                updated_at: last.at,
                ..lag
            },
            // It began since; no header is read of it.
            None => lag,
        })
    }

    fn end(&self) -> rusqlite::Result<Position> {
        if let Some(end) = self.end.get() {
            return Ok(*end);
        }
        let end: Option<Position> = self
            .connection
            .prepare_cached("SELECT max(pos) FROM rows")?
            .query_row([], only)?;
        Ok(*self.end.get_or_init(|| end.unwrap_or_default()))
    }
}

fn overlaid(listed: ListedHeader, lag: DirtyHeader) -> ConversationHeader {
    let ListedHeader { header, sequence } = listed;
    if lag.seq <= sequence {
        return header;
    }
    let DirtyHeader {
        messages,
        last_message_at,
        updated_at,
        ..
    } = lag;
    ConversationHeader {
        messages,
        last_message_at,
        updated_at,
        ..header
    }
}

/// A page in order of the last change: the headers' index, merged with those that lag behind what
/// is known. Which of the two shows a conversation is decided by its header as this transaction
/// reads it, for both alike: the writer may have written it since it told what lags, and then the
/// index has its place.
fn by_update(
    connection: &Connection,
    lagging: &LaggingAsRead<'_>,
    query: &ConversationQuery,
    total: u64,
) -> rusqlite::Result<StoredPage<ConversationHeader>> {
    let order = query.paging.order;
    let scan = Scan::new(order, Start::Offset(offset(query.paging.start)));
    let skip = usize::try_from(offset(query.paging.start)).unwrap_or(usize::MAX);
    let limit = usize::try_from(query.paging.limit).unwrap_or(0);
    if rows_read(query.paging.limit, offset(query.paging.start), total) == 0 {
        return Ok(scan.page(Vec::new(), query.paging, total));
    }
    let mut lagging = lagging.in_scope(query.tenant.number())?;
    if order == Order::Asc {
        lagging.reverse();
    }
    let known_to_lag: HashMap<EntityNumber, DirtyHeader> =
        lagging.iter().map(|lag| (lag.conversation, *lag)).collect();
    let is_behind = |listed: &ListedHeader| {
        let lag = known_to_lag.get(&listed.header.id.number());
        lag.is_some_and(|lag| lag.seq > listed.sequence)
    };
    let (mut filter, index) = filters_by_update(query);
    let columns = select_headers();
    let conditions = filter.conditions.join(" AND ");
    let direction = scan.direction();
    let mut all = connection.prepare_cached(&format!(
        "{columns} INDEXED BY {index} WHERE {conditions} ORDER BY updated_at {direction}, n {direction}"
    ))?;
    let known = filter.values.clone();
    let mut one = connection.prepare_cached(&format!(
        "{columns} WHERE {conditions} AND n = {}",
        filter.value(0)
    ))?;
    let mut rows = all
        .query_map(params_from_iter(known.clone()), ListedHeader::read)?
        .filter(|row| row.as_ref().map_or(true, |listed| !is_behind(listed)))
        .map(|row| row.map(|listed| listed.header))
        .peekable();
    let mut moved = lagging
        .into_iter()
        .filter_map(|lag| {
            let values = known
                .iter()
                .cloned()
                .chain([int(lag.conversation.0).into()]);
            let found = one
                .query_row(params_from_iter(values), ListedHeader::read)
                .optional();
            let behind = found.map(|found| found.filter(|listed| lag.seq > listed.sequence));
            behind
                .map(|behind| behind.map(|listed| overlaid(listed, lag)))
                .transpose()
        })
        .peekable();
    let merged = std::iter::from_fn(|| next_of(&mut moved, &mut rows, order));
    let items = merged
        .skip(skip)
        .take(limit + 1)
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(scan.page(items, query.paging, total))
}

/// The beginning of a SELECT of headers, to be read by [`ListedHeader::read`].
fn select_headers() -> String {
    format!(
        "SELECT {}, {} FROM conversations",
        StateRow::COLUMNS,
        ListedRow::COLUMNS
    )
}

/// What a list in order of the last change is filtered by, and the index that it is read from.
fn filters_by_update(query: &ConversationQuery) -> (Where, &'static str) {
    let mut filter = filters(query);
    if let Some(status) = query.facets.status {
        filter.and("status = ?", status.code());
    }
    let narrow = query.facets.customer.is_some() || query.facets.assignee.is_some();
    let index = if narrow {
        index(&query.facets)
    } else {
        "conversations_by_update"
    };
    (filter, index)
}

/// The next of two lists in the order of the last change; an error comes first.
fn next_of(
    moved: &mut Peekable<impl Iterator<Item = rusqlite::Result<ConversationHeader>>>,
    rows: &mut Peekable<impl Iterator<Item = rusqlite::Result<ConversationHeader>>>,
    order: Order,
) -> Option<rusqlite::Result<ConversationHeader>> {
    let moved_first = match (moved.peek(), rows.peek()) {
        (Some(Ok(moved)), Some(Ok(row))) => {
            let moved_is_older = (moved.updated_at, moved.id) < (row.updated_at, row.id);
            moved_is_older == (order == Order::Asc)
        }
        (_, Some(Err(_))) | (None, _) => false,
        (Some(_), _) => true,
    };
    if moved_first {
        moved.next()
    } else {
        rows.next()
    }
}

/// How many conversations match.
fn total(connection: &Connection, query: &ConversationQuery) -> rusqlite::Result<u64> {
    let Facets {
        status,
        channel,
        priority,
        customer,
        assignee,
        created_after,
        created_before,
    } = query.facets;
    let fields = [
        channel.map(|channel| (Counted::Channel, channel.code())),
        priority.map(|priority| (Counted::Priority, priority.code())),
        customer.map(|customer| (Counted::Customer, int(customer.number().0))),
        assignee.map(|assignee| (Counted::Assignee, int(assignee.number().0))),
    ];
    let mut given = fields.into_iter().flatten();
    let (first, second) = (given.next(), given.next());
    if second.is_none() && created_after.is_none() && created_before.is_none() {
        let (field, value) = first.unwrap_or((Counted::All, 0));
        return counted(connection, query.tenant.number(), field, value, status);
    }
    let mut filter = filters(query);
    if let Some(status) = status {
        filter.and("status = ?", status.code());
    }
    let sql = format!(
        "SELECT count(*) FROM conversations WHERE {}",
        filter.conditions.join(" AND ")
    );
    connection
        .prepare_cached(&sql)?
        .query_row(params_from_iter(filter.values), only)
}

pub(super) fn counted(
    connection: &Connection,
    tenant: i64,
    field: Counted,
    value: i64,
    status: Option<Status>,
) -> rusqlite::Result<u64> {
    let (low, high) = status.map_or((0, i64::MAX), |status| (status.code(), status.code()));
    connection
        .prepare_cached("SELECT coalesce(sum(total), 0) FROM counters WHERE scope = ?1 AND field = ?2 AND value = ?3 AND status BETWEEN ?4 AND ?5")?
        .query_row([tenant, field as i64, value, low, high], only)
}

/// A page of records in order of creation.
pub(super) fn records(
    connection: &Connection,
    query: &RecordQuery,
) -> rusqlite::Result<StoredPage<StoredRecord>> {
    let scan = Scan::new(query.paging.order, query.paging.start);
    let mut filter = Where::default();
    filter.and("scope = ?", query.tenant.number());
    filter.and("kind = ?", query.kind as i64);
    for RecordName { field, value } in &query.names {
        let tenant = filter.value(query.tenant.number());
        let field = filter.value(*field as i64);
        let value = filter.value(value.clone());
        filter
            .conditions
            .push(format!("n IN (SELECT n FROM names WHERE scope = {tenant} AND field = {field} AND value = {value})"));
    }
    let total = if query.names.is_empty() {
        counted(
            connection,
            query.tenant.number(),
            Counted::Records,
            query.kind as i64,
            None,
        )?
    } else {
        filter.total(connection, "count(*)", "records")?
    };
    if let Some(bound) = scan.bound {
        filter.and(&format!("n {} ?", scan.compare()), int(bound));
    }
    let page = RowPage {
        select: &format!("SELECT {} FROM records", RecordRow::COLUMNS),
        sorted_by: &["n"],
        paging: query.paging,
        total,
    };
    page.read(connection, filter, |row| RecordRow::stored(row, query.kind))
}

#[cfg(test)]
#[path = "lists_tests.rs"]
mod tests;
