//! Lists of documents, and single ones as lists show them.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use super::codec::{Columns, columns, int, only};
use super::counters::Counted;
use super::identifiers;
use super::lists::counted;
use super::row_page::{RowPage, Scan, Where, offset};
use crate::store::{DocumentOrder, DocumentQuery, DocumentRow, IndexedDocument, StoredPage};
use colloquy_model::caller::Tenant;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::UserId;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

columns! {
    /// A document as lists show it.
    struct ListedRow {
        n: EntityNumber,
        tail: u64,
        seq: Sequence,
        updated_at: Timestamp,
        body: String,
    }
}

columns! {
    /// Whether a document is in the bin.
    struct BinRow {
        deleted: bool,
    }
}

impl From<ListedRow> for DocumentRow {
    fn from(row: ListedRow) -> Self {
        DocumentRow {
            subject: Subject {
                kind: Kind::Document,
                number: row.n,
                tail: row.tail,
            },
            sequence: row.seq,
            updated_at: row.updated_at,
            body: row.body,
        }
    }
}

fn listed(row: &Row<'_>) -> rusqlite::Result<DocumentRow> {
    ListedRow::read(row).map(DocumentRow::from)
}

/// A document, and whether it is in the bin.
pub(super) fn row(
    connection: &Connection,
    tenant: Tenant,
    number: EntityNumber,
) -> rusqlite::Result<Option<IndexedDocument>> {
    connection
        .prepare_cached(&format!(
            "SELECT {}, {} FROM documents WHERE n = ?1 AND scope = ?2",
            ListedRow::COLUMNS,
            BinRow::COLUMNS
        ))?
        .query_row([int(number.0), tenant.number()], |row| {
            Ok(IndexedDocument {
                row: ListedRow::read_from(row, 0)?.into(),
                is_deleted: BinRow::read_from(row, ListedRow::COUNT)?.deleted,
            })
        })
        .optional()
}

/// What a list is filtered by.
fn filters(query: &DocumentQuery) -> Where {
    let mut filter = Where::default();
    filter.and("scope = ?", query.tenant.number());
    filter.and("deleted = ?", i64::from(query.deleted));
    if let Some(reader) = query.reader {
        may_read(&mut filter, reader, query.role);
    }
    if let Some(owner) = query.owner {
        filter.and("owner = ?", int(owner.number().0));
    }
    if let Some(content_type) = query.content_type {
        filter.and("content_type = ?", content_type);
    }
    if let Some(after) = query.updated_after {
        filter.and("updated_at > ?", after.0);
    }
    filter
}

/// Those that somebody may read, in this role where one is given.
fn may_read(filter: &mut Where, reader: UserId, role: Option<i64>) {
    let user = filter.value(int(reader.number().0));
    let role = match role {
        Some(role) => format!(
            " GROUP BY document HAVING max(role) = {}",
            filter.value(role)
        ),
        None => String::new(),
    };
    filter.conditions.push(format!(
        "n IN (SELECT document FROM readers WHERE user IN (0, {user}){role})"
    ));
}

/// Whether a list that is not by creation may begin at this document. Where it stands tells of its title,
/// or when it was changed, which only whoever may read it is to know; and what was put into the bin
/// has lost its place by change.
fn has_place(
    connection: &Connection,
    query: &DocumentQuery,
    number: EntityNumber,
) -> rusqlite::Result<bool> {
    let mut filter = Where::default();
    filter.and("n = ?", int(number.0));
    if query.sort == DocumentOrder::Update {
        filter.and("deleted = ?", i64::from(query.deleted));
    }
    if let Some(reader) = query.reader {
        may_read(&mut filter, reader, None);
    }
    Ok(filter.total(connection, "count(*)", "documents")? > 0)
}

/// Whether the total stands in a counter.
fn is_plain(query: &DocumentQuery) -> bool {
    query.reader.is_none()
        && query.owner.is_none()
        && query.content_type.is_none()
        && query.updated_after.is_none()
        && query.among.is_none()
}

/// A page of documents; the name of the cursor where it is none of theirs.
pub(super) fn page(
    connection: &Connection,
    query: &DocumentQuery,
) -> rusqlite::Result<Result<StoredPage<DocumentRow>, &'static str>> {
    if let Some((at, field)) = query.paging.start.cursor() {
        let subject = Subject {
            kind: Kind::Document,
            number: at.number,
            tail: at.tail,
        };
        // By creation, an identifier says its place even when what it named is gone: its events are
        // still there.
        let is_there = identifiers::is_there(connection, query.tenant, subject)?;
        let known = match query.sort {
            DocumentOrder::Creation => {
                is_there || identifiers::was_document(connection, query.tenant, subject)?
            }
            DocumentOrder::Update | DocumentOrder::Title => {
                is_there && has_place(connection, query, at.number)?
            }
        };
        if !known {
            return Ok(Err(field));
        }
    }
    match &query.among {
        Some(among) => searched(connection, query, among).map(Ok),
        None => sorted(connection, query).map(Ok),
    }
}

fn sorted(
    connection: &Connection,
    query: &DocumentQuery,
) -> rusqlite::Result<StoredPage<DocumentRow>> {
    let scan = Scan::new(query.paging.order, query.paging.start);
    let mut filter = filters(query);
    let total = if is_plain(query) {
        let tenant = query.tenant.number();
        counted(
            connection,
            tenant,
            Counted::Documents,
            i64::from(query.deleted),
            None,
        )?
    } else {
        filter.total(connection, "count(*)", "documents")?
    };
    let column = match query.sort {
        DocumentOrder::Creation => "n",
        DocumentOrder::Update => "updated_at",
        DocumentOrder::Title => "title COLLATE NOCASE",
    };
    if let Some(bound) = scan.bound {
        let (compare, bound) = (scan.compare(), int(bound));
        match query.sort {
            DocumentOrder::Creation => filter.and(&format!("n {compare} ?"), bound),
            DocumentOrder::Update | DocumentOrder::Title => {
                filter.and(
                    &format!(
                        "({column}, n) {compare} (SELECT {column}, n FROM documents WHERE n = ?)"
                    ),
                    bound,
                );
            }
        }
    }
    let page = RowPage {
        select: &format!("SELECT {} FROM documents", ListedRow::COLUMNS),
        sorted_by: &[column, "n"],
        paging: query.paging,
        total,
    };
    page.read(connection, filter, listed)
}

/// What a search has found, in its order, as far as the filters let it pass.
fn searched(
    connection: &Connection,
    query: &DocumentQuery,
    among: &Arc<[EntityNumber]>,
) -> rusqlite::Result<StoredPage<DocumentRow>> {
    // One statement for all of them: it asks once who may read what, and reads no document that the
    // page does not show.
    let mut filter = filters(query);
    let numbers: Vec<String> = among.iter().map(EntityNumber::to_string).collect();
    filter.and(
        "n IN (SELECT value FROM json_each(?))",
        format!("[{}]", numbers.join(",")),
    );
    let sql = format!("SELECT n FROM documents WHERE {}", filter.sql());
    let mut select = connection.prepare_cached(&sql)?;
    let kept: HashSet<EntityNumber> = select
        .query_map(params_from_iter(filter.values), only)?
        .collect::<rusqlite::Result<_>>()?;
    let total = u64::try_from(kept.len()).unwrap_or(u64::MAX);
    let skip = offset(query.paging.start);
    let limit = usize::try_from(query.paging.limit).unwrap_or(0);
    let sql = format!("SELECT {} FROM documents WHERE n = ?1", ListedRow::COLUMNS);
    let mut find = connection.prepare_cached(&sql)?;
    let fitting = among.iter().filter(|number| kept.contains(number));
    let shown = fitting
        .skip(usize::try_from(skip).unwrap_or(usize::MAX))
        .take(limit + 1);
    // One that was erased since is left out.
    let items = shown.filter_map(|number| {
        find.query_row([int(number.0)], listed)
            .optional()
            .transpose()
    });
    let items = items.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(Scan::new(query.paging.order, query.paging.start).page(items, query.paging, total))
}
