//! Documents: their headers, versions, comments and who may read them. A version's content is a
//! frame against another's, written once and never moved.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::codec::{self, Counted, int, uint};
use super::identifiers;
use super::lists::{Scan, Where, counted, offset, rows_read};
use crate::store::{
    ActivityQuery, ActivityRow, DocumentOrder, DocumentQuery, DocumentRow, FramedVersion,
    StoredDocument, StoredPage, StoredVersion, VersionQuery,
};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::Commit;
use colloquy_model::document::{DocumentHeader, NewVersion};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{KeyKind, ShareId, UserId, UserKind, VersionId};
use colloquy_model::position::Position;
use colloquy_runtime::cores;

/// Bytes from which on a frame takes about a millisecond to be read.
const LONG_FRAME_BYTES: i64 = 256 << 10;

/// Writes what a commit leaves of a document; tells how the counts of those in and out of the bin
/// move.
pub(super) fn put(
    connection: &Connection,
    commit: &Commit,
    header: &DocumentHeader,
) -> rusqlite::Result<Vec<(Counted, i64, i64)>> {
    let Subject { number, tail, .. } = commit.subject;
    let n = int(number);
    let listed = &header.listed;
    let sequence = int(commit.expected + u64::try_from(commit.rows.len()).unwrap_or(0));
    connection
        .prepare_cached(
            "INSERT INTO documents(
             n, tail, scope, seq, updated_at, title, content_type, owner, deleted,
             deleted_at, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT DO UPDATE SET
             seq = ?4, updated_at = ?5, title = ?6, content_type = ?7, owner = ?8, deleted = ?9, deleted_at = ?10, body = ?11",
        )?
        .execute(params![
            n,
            int(tail),
            commit.tenant.number(),
            sequence,
            header.updated_at,
            listed.title,
            listed.content_type,
            listed.owner.map(|user| int(user.number())),
            listed.deleted_at.is_some(),
            listed.deleted_at,
            header.body,
        ])?;
    if let Some(readers) = &header.readers {
        put_readers(connection, n, readers)?;
    }
    if let Some(links) = &header.links {
        connection
            .prepare_cached("DELETE FROM links WHERE document = ?1")?
            .execute([n])?;
        connection
            .prepare_cached("DELETE FROM link_uses WHERE document = ?1")?
            .execute([n])?;
        let mut insert = connection.prepare_cached(
            "INSERT INTO links(hash, document, document_tail, scope) VALUES (?1, ?2, ?3, ?4)",
        )?;
        for hash in links {
            insert.execute(params![hash, n, int(tail), commit.tenant.number()])?;
        }
    }
    if let Some(version) = &header.version {
        put_version(connection, (n, commit.at), version)?;
    }
    put_comments(connection, n, &header.comments)?;
    if let Some(anchors) = &header.anchors {
        connection
            .prepare_cached("INSERT OR REPLACE INTO anchors(document, places) VALUES (?1, ?2)")?
            .execute(params![n, &anchors[..]])?;
    }
    let is_deleted = i64::from(listed.deleted_at.is_some());
    let mut moves = vec![(Counted::Documents, is_deleted, 1)];
    if let Some(was_deleted) = header.was_deleted {
        moves.push((Counted::Documents, i64::from(was_deleted), -1));
    }
    Ok(moves)
}

fn put_readers(connection: &Connection, n: i64, readers: &[(u64, i64)]) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM readers WHERE document = ?1")?
        .execute([n])?;
    let mut insert = connection
        .prepare_cached("INSERT INTO readers(user, document, role) VALUES (?1, ?2, ?3)")?;
    for (user, role) in readers {
        insert.execute([int(*user), n, *role])?;
    }
    Ok(())
}

fn put_version(
    connection: &Connection,
    (n, at): (i64, i64),
    version: &NewVersion,
) -> rusqlite::Result<()> {
    let parents: Vec<String> = version.parents.iter().map(u64::to_string).collect();
    connection
        .prepare_cached(
            "INSERT INTO versions(
             document, number, id_number, id_tail, label, branch, parents, message, author,
             author_tail, at, base, frame)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            n,
            int(version.number),
            int(version.id.number()),
            int(version.id.tail()),
            version.label,
            version.branch,
            parents.join(" "),
            version.message,
            version.author.map(|user| int(user.number())),
            version.author.map(|user| int(user.tail())),
            at,
            version.base.map(int),
            &version.frame[..],
        ])?;
    Ok(())
}

fn put_comments(
    connection: &Connection,
    n: i64,
    comments: &[(u64, Option<String>)],
) -> rusqlite::Result<()> {
    for (number, body) in comments {
        match body {
            Some(body) => connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO comments(document, number, body) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![n, int(*number), body])?,
            None => connection
                .prepare_cached("DELETE FROM comments WHERE document = ?1 AND number = ?2")?
                .execute([n, int(*number)])?,
        };
    }
    Ok(())
}

/// Writes how often one of a document's share links was used.
pub(super) fn count_use(
    connection: &Connection,
    document: Subject,
    (share, uses): (ShareId, u64),
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO link_uses(document, share, uses) VALUES (?1, ?2, ?3)",
        )?
        .execute([int(document.number), int(share.number()), int(uses)])?;
    Ok(())
}

/// Takes a document away for good. Its versions and comments go in slices, later.
pub(super) fn delete(
    connection: &Connection,
    commit: &Commit,
) -> rusqlite::Result<Option<(Counted, i64, i64)>> {
    let n = int(commit.subject.number);
    let deleted: Option<bool> = connection
        .prepare_cached("DELETE FROM documents WHERE n = ?1 RETURNING deleted")?
        .query_row([n], |row| row.get(0))
        .optional()?;
    connection
        .prepare_cached("DELETE FROM readers WHERE document = ?1")?
        .execute([n])?;
    connection
        .prepare_cached("DELETE FROM links WHERE document = ?1")?
        .execute([n])?;
    connection
        .prepare_cached("DELETE FROM link_uses WHERE document = ?1")?
        .execute([n])?;
    connection
        .prepare_cached("DELETE FROM anchors WHERE document = ?1")?
        .execute([n])?;
    connection
        .prepare_cached("INSERT OR IGNORE INTO erasures(document, erased_to) VALUES (?1, 0)")?
        .execute([n])?;
    Ok(deleted.map(|deleted| (Counted::Documents, i64::from(deleted), -1)))
}

/// The columns that [`version`] reads.
const VERSION: &str =
    "number, id_number, id_tail, label, branch, parents, message, author, author_tail, at";

fn version(row: &Row<'_>) -> rusqlite::Result<StoredVersion> {
    let author: Option<UserId> = match row.get::<_, Option<i64>>(7)? {
        Some(n) => Some(codec::id(n, row.get(8)?)),
        None => None,
    };
    let id: VersionId = codec::id(row.get(1)?, row.get(2)?);
    let parents: Box<str> = row.get(5)?;
    let parents: Result<Vec<u64>, _> = parents.split_ascii_whitespace().map(str::parse).collect();
    Ok(StoredVersion {
        number: uint(row.get(0)?),
        id,
        label: row.get(3)?,
        branch: row.get(4)?,
        parents: parents.map_err(|error| codec::damaged(format_args!("{id}: parents"), error))?,
        message: row.get(6)?,
        author,
        at: row.get(9)?,
    })
}

/// What a document's actor starts from.
pub(super) fn load(
    connection: &Connection,
    subject: Subject,
) -> rusqlite::Result<Option<StoredDocument>> {
    let n = int(subject.number);
    let header = connection
        .prepare_cached(
            "SELECT scope, seq, updated_at, body FROM documents WHERE n = ?1 AND tail = ?2",
        )?
        .query_row([n, int(subject.tail)], |row| {
            Ok((
                Tenant::from_number(row.get(0)?),
                uint(row.get(1)?),
                row.get(2)?,
                row.get(3)?,
            ))
        })
        .optional()?;
    let Some((tenant, sequence, updated_at, body)) = header else {
        return Ok(None);
    };
    let versions = connection
        .prepare_cached(&format!(
            "SELECT {VERSION} FROM versions WHERE document = ?1 ORDER BY number"
        ))?
        .query_map([n], version)?
        .collect::<rusqlite::Result<_>>()?;
    let comments = connection
        .prepare_cached("SELECT number, body FROM comments WHERE document = ?1 ORDER BY number")?
        .query_map([n], |row| Ok((uint(row.get(0)?), row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let link_uses = connection
        .prepare_cached("SELECT share, uses FROM link_uses WHERE document = ?1")?
        .query_map([n], |row| Ok((uint(row.get(0)?), uint(row.get(1)?))))?
        .collect::<rusqlite::Result<_>>()?;
    let anchors = connection
        .prepare_cached("SELECT places FROM anchors WHERE document = ?1")?
        .query_row([n], |row| row.get(0))
        .optional()?;
    Ok(Some(StoredDocument {
        tenant,
        sequence,
        updated_at,
        body,
        versions,
        comments,
        link_uses,
        anchors,
    }))
}

/// A version, and the frames from which its content is made, the one that stands alone first.
pub(super) fn one(
    connection: &Connection,
    document: Subject,
    number: u64,
) -> rusqlite::Result<Option<FramedVersion>> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {VERSION} FROM versions WHERE document = ?1 AND number = ?2"
        ))?
        .query_row([int(document.number), int(number)], version)
        .optional()?;
    let Some(found) = found else { return Ok(None) };
    let mut find = connection.prepare_cached(
        "SELECT base, CASE WHEN length(frame) < ?3 THEN frame END FROM versions WHERE document = ?1 AND number = ?2",
    )?;
    let mut frames = Vec::new();
    let mut next = Some(int(number));
    while let Some(number) = next {
        let found = |row: &Row<'_>| {
            Ok((
                row.get::<_, Option<i64>>(0)?,
                row.get::<_, Option<Vec<u8>>>(1)?,
            ))
        };
        let (base, frame) =
            find.query_row([int(document.number), number, LONG_FRAME_BYTES], found)?;
        let frame = frame.map_or_else(|| long_frame(connection, document, number), Ok)?;
        frames.push(Bytes::from(frame));
        // Only an older one can be a base: a broken file must not send us round for ever.
        next = base.filter(|base| *base < number);
    }
    frames.reverse();
    Ok(Some((found, frames)))
}

/// A frame that takes so long to be read that the others are to keep away meanwhile.
fn long_frame(
    connection: &Connection,
    document: Subject,
    number: i64,
) -> rusqlite::Result<Vec<u8>> {
    let _pin = cores::pin_to_batch_cores();
    connection
        .prepare_cached("SELECT frame FROM versions WHERE document = ?1 AND number = ?2")?
        .query_row([int(document.number), number], |row| row.get(0))
}

/// Where the share link with this hash leads.
pub(super) fn link(
    connection: &Connection,
    hash: &[u8; 32],
) -> rusqlite::Result<Option<(Subject, Tenant)>> {
    connection
        .prepare_cached("SELECT document, document_tail, scope FROM links WHERE hash = ?1")?
        .query_row([hash], |row| {
            let subject = Subject {
                kind: Kind::Document,
                number: uint(row.get(0)?),
                tail: uint(row.get(1)?),
            };
            Ok((subject, Tenant::from_number(row.get(2)?)))
        })
        .optional()
}

/// Documents that have been in the bin since before this instant.
pub(super) fn overdue(
    connection: &Connection,
    before: i64,
    most: u32,
) -> rusqlite::Result<Vec<(Subject, Tenant)>> {
    connection
        .prepare_cached(
            "SELECT n, tail, scope FROM documents WHERE deleted_at IS NOT NULL AND deleted_at < ?1 ORDER BY deleted_at LIMIT ?2",
        )?
        .query_map(params![before, most], |row| {
            let subject = Subject { kind: Kind::Document, number: uint(row.get(0)?), tail: uint(row.get(1)?) };
            Ok((subject, Tenant::from_number(row.get(2)?)))
        })?
        .collect()
}

/// Documents of all accounts that are not in the bin, by number.
pub(super) fn behind(
    connection: &Connection,
    number: u64,
    most: u32,
) -> rusqlite::Result<Vec<(u64, Tenant)>> {
    connection
        .prepare_cached("SELECT n, scope FROM documents WHERE n > ?1 ORDER BY n LIMIT ?2")?
        .query_map(params![int(number), most], |row| {
            Ok((uint(row.get(0)?), Tenant::from_number(row.get(1)?)))
        })?
        .collect()
}

/// What a list is filtered by.
fn filters(query: &DocumentQuery) -> Where {
    let mut filter = Where::default();
    filter.and("scope = ?", query.tenant.number());
    filter.and("deleted = ?", i64::from(query.deleted));
    if let Some(reader) = query.reader {
        let user = filter.value(int(reader.number()));
        let role = match query.role {
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
    if let Some(owner) = query.owner {
        filter.and("owner = ?", int(owner.number()));
    }
    if let Some(content_type) = query.content_type {
        filter.and("content_type = ?", content_type);
    }
    if let Some(after) = query.updated_after {
        filter.and("updated_at > ?", after);
    }
    filter
}

/// Whether the total stands in a counter.
fn is_plain(query: &DocumentQuery) -> bool {
    query.reader.is_none()
        && query.owner.is_none()
        && query.content_type.is_none()
        && query.updated_after.is_none()
        && query.among.is_none()
}

/// A document, and whether it is in the bin.
pub(super) fn row(
    connection: &Connection,
    tenant: Tenant,
    number: u64,
) -> rusqlite::Result<Option<(DocumentRow, bool)>> {
    connection
        .prepare_cached(&format!(
            "SELECT {ROW}, deleted FROM documents WHERE n = ?1 AND scope = ?2"
        ))?
        .query_row([int(number), tenant.number()], |row| {
            Ok((row_of(row)?, row.get(5)?))
        })
        .optional()
}

const ROW: &str = "n, tail, seq, updated_at, body";

fn row_of(row: &Row<'_>) -> rusqlite::Result<DocumentRow> {
    Ok(DocumentRow {
        subject: Subject {
            kind: Kind::Document,
            number: uint(row.get(0)?),
            tail: uint(row.get(1)?),
        },
        sequence: uint(row.get(2)?),
        updated_at: row.get(3)?,
        body: row.get(4)?,
    })
}

/// A page of documents; the name of the cursor where it is none of theirs.
pub(super) fn list(
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
        let known = identifiers::is_there(connection, query.tenant, subject)?
            || (query.sort == DocumentOrder::Creation
                && identifiers::was_document(connection, query.tenant, subject)?);
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
        let sql = format!(
            "SELECT count(*) FROM documents WHERE {}",
            filter.conditions.join(" AND ")
        );
        let mut count = connection.prepare_cached(&sql)?;
        count
            .query_row(params_from_iter(filter.values.clone()), |row| row.get(0))
            .map(uint)?
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
    let skip = offset(query.paging.start);
    let limit = filter.value(rows_read(query.paging.limit, skip, total));
    let skipped = filter.value(int(skip));
    let direction = scan.direction();
    let sql = format!(
        "SELECT {ROW} FROM documents WHERE {} ORDER BY {column} {direction}, n {direction} LIMIT {limit} OFFSET {skipped}",
        filter.conditions.join(" AND ")
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let items = statement
        .query_map(params_from_iter(filter.values), row_of)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(scan.page(
        items,
        usize::try_from(query.paging.limit).unwrap_or(0),
        total,
        skip > 0 || scan.bound.is_some(),
    ))
}

/// What a search has found, in its order, as far as the filters let it pass.
fn searched(
    connection: &Connection,
    query: &DocumentQuery,
    among: &Arc<[u64]>,
) -> rusqlite::Result<StoredPage<DocumentRow>> {
    // One statement for all of them: it asks once who may read what, and reads no document that the
    // page does not show.
    let mut filter = filters(query);
    let numbers: Vec<String> = among.iter().map(u64::to_string).collect();
    filter.and(
        "n IN (SELECT value FROM json_each(?))",
        format!("[{}]", numbers.join(",")),
    );
    let sql = format!(
        "SELECT n FROM documents WHERE {}",
        filter.conditions.join(" AND ")
    );
    let mut select = connection.prepare_cached(&sql)?;
    let kept: HashSet<u64> = select
        .query_map(params_from_iter(filter.values), |row| row.get(0).map(uint))?
        .collect::<rusqlite::Result<_>>()?;
    let total = u64::try_from(kept.len()).unwrap_or(u64::MAX);
    let skip = offset(query.paging.start);
    let limit = usize::try_from(query.paging.limit).unwrap_or(0);
    let sql = format!("SELECT {ROW} FROM documents WHERE n = ?1");
    let mut find = connection.prepare_cached(&sql)?;
    let fitting = among.iter().filter(|number| kept.contains(number));
    let shown = fitting
        .skip(usize::try_from(skip).unwrap_or(usize::MAX))
        .take(limit + 1);
    // One that was erased since is left out.
    let items = shown.filter_map(|number| {
        find.query_row([int(*number)], row_of)
            .optional()
            .transpose()
    });
    let items = items.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(Scan::new(query.paging.order, query.paging.start).page(items, limit, total, skip > 0))
}

/// A page of a document's versions; the name of the cursor where it is none of theirs.
pub(super) fn versions(
    connection: &Connection,
    query: &VersionQuery,
) -> rusqlite::Result<Result<StoredPage<StoredVersion>, &'static str>> {
    let n = int(query.document.number);
    let scan = Scan::new(query.paging.order, query.paging.start);
    let mut filter = Where::default();
    filter.and("document = ?", n);
    if let Some(branch) = &query.branch {
        filter.and("branch = ?", branch.clone());
    }
    // Numbers have no gap: all of them need not be counted.
    let count = if query.branch.is_none() {
        "coalesce(max(number), 0)"
    } else {
        "count(*)"
    };
    let sql = format!(
        "SELECT {count} FROM versions WHERE {}",
        filter.conditions.join(" AND ")
    );
    let total = connection
        .prepare_cached(&sql)?
        .query_row(params_from_iter(filter.values.clone()), |row| row.get(0))
        .map(uint)?;
    if let Some((at, field)) = query.paging.start.cursor() {
        // A version's identifier carries its number, so it is found without looking at the others.
        let number = int(VersionId::from_parts(at.number, at.tail).sequence());
        let mut find = connection.prepare_cached(
            "SELECT 1 FROM versions WHERE document = ?1 AND number = ?2 AND id_number = ?3 AND id_tail = ?4",
        )?;
        if !find.exists([n, number, int(at.number), int(at.tail)])? {
            return Ok(Err(field));
        }
        filter.and(&format!("number {} ?", scan.compare()), number);
    }
    let skip = offset(query.paging.start);
    let limit = filter.value(rows_read(query.paging.limit, skip, total));
    let skipped = filter.value(int(skip));
    let sql = format!(
        "SELECT {VERSION} FROM versions WHERE {} ORDER BY number {} LIMIT {limit} OFFSET {skipped}",
        filter.conditions.join(" AND "),
        scan.direction()
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let items = statement
        .query_map(params_from_iter(filter.values), version)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let limit = usize::try_from(query.paging.limit).unwrap_or(0);
    Ok(Ok(scan.page(
        items,
        limit,
        total,
        skip > 0 || scan.bound.is_some(),
    )))
}

/// The identifiers of versions, in the order of the numbers.
pub(super) fn version_ids(
    connection: &Connection,
    document: Subject,
    numbers: &[u64],
) -> rusqlite::Result<Vec<VersionId>> {
    let mut find = connection.prepare_cached(
        "SELECT id_number, id_tail FROM versions WHERE document = ?1 AND number = ?2",
    )?;
    numbers
        .iter()
        .map(|number| {
            find.query_row([int(document.number), int(*number)], |row| {
                Ok(codec::id(row.get(0)?, row.get(1)?))
            })
        })
        .collect()
}

/// The condition of the index over what was done to documents.
const OF_DOCUMENTS: &str = "happened >= 6 AND happened <= 14";

/// A page of what was done to a document; the name of the cursor where it is none of this list.
pub(super) fn activity(
    connection: &Connection,
    query: &ActivityQuery,
) -> rusqlite::Result<Result<StoredPage<ActivityRow>, &'static str>> {
    let scan = Scan::new(query.paging.order, query.paging.start);
    let mut filter = Where::default();
    filter.and("entity = ?", int(query.document.number));
    filter.conditions.push("seq IS NOT NULL".to_owned());
    if let Some(action) = query.action {
        filter.and("happened = ?", action as i64);
        filter.conditions.push(OF_DOCUMENTS.to_owned());
    }
    if let Some(actor) = query.actor {
        if !identifiers::is_actor(connection, query.document, actor)? {
            return Ok(Err("actor"));
        }
        let actor = filter.value(int(actor.number));
        filter
            .conditions
            .push(format!("coalesce(by_user, by_key) = {actor}"));
    }
    if let Some(since) = query.since {
        filter.and("at > ?", since);
    }
    if let Some(until) = query.until {
        filter.and("at < ?", until);
    }
    let total = activity_total(connection, query, &filter)?;
    if let Some((at, field)) = query.paging.start.cursor() {
        let Some(seq) = identifiers::activity(connection, query.document, at)? else {
            return Ok(Err(field));
        };
        filter.and(&format!("seq {} ?", scan.compare()), seq);
    }
    let skip = offset(query.paging.start);
    let limit = filter.value(rows_read(query.paging.limit, skip, total));
    let skipped = filter.value(int(skip));
    let sql = format!(
        "SELECT pos, happened, at, by_user, by_key, payload,
         coalesce((SELECT tail FROM records WHERE n = coalesce(by_user, by_key)),
                  (SELECT tail FROM departed WHERE n = by_user)) FROM rows
         WHERE {} ORDER BY seq {} LIMIT {limit} OFFSET {skipped}",
        filter.conditions.join(" AND "),
        scan.direction()
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(filter.values))?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(done(row)?);
    }
    let limit = usize::try_from(query.paging.limit).unwrap_or(0);
    Ok(Ok(scan.page(
        items,
        limit,
        total,
        skip > 0 || scan.bound.is_some(),
    )))
}

/// How many rows pass the filter. Sequences have no gap, so all of them are as many as the last
/// one's.
fn activity_total(
    connection: &Connection,
    query: &ActivityQuery,
    filter: &Where,
) -> rusqlite::Result<u64> {
    let all = query.action.is_none()
        && query.actor.is_none()
        && query.since.is_none()
        && query.until.is_none();
    let count = if all {
        "coalesce(max(seq), 0)"
    } else {
        "count(*)"
    };
    let sql = format!(
        "SELECT {count} FROM rows WHERE {}",
        filter.conditions.join(" AND ")
    );
    connection
        .prepare_cached(&sql)?
        .query_row(params_from_iter(filter.values.clone()), |row| row.get(0))
        .map(uint)
}

fn done(row: &Row<'_>) -> rusqlite::Result<ActivityRow> {
    let happened = codec::word(
        "what was done to a document",
        row.get(1)?,
        EventKind::from_code,
    )?;
    let (user, key): (Option<i64>, Option<i64>) = (row.get(3)?, row.get(4)?);
    let tail: Option<i64> = row.get(6)?;
    let actor = match (user, key, tail) {
        (Some(user), _, Some(tail)) => Some(codec::id::<UserKind>(user, tail).to_string()),
        (None, Some(key), Some(tail)) => Some(codec::id::<KeyKind>(key, tail).to_string()),
        (_, _, _) => None,
    };
    let payload = row.get::<_, Option<Vec<u8>>>(5)?.unwrap_or_default().into();
    Ok(ActivityRow {
        position: Position(row.get(0)?),
        happened,
        at: row.get(2)?,
        actor,
        payload,
    })
}
