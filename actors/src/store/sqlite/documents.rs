//! Writes documents: their headers, versions, comments and who may read them. A version's content is
//! a frame against another's, written once and never moved.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec::{column, insert, int, only, optional_millis};
use super::{erasing, frame_parts};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::Commit;
use colloquy_model::document::{
    CommentChange, DocumentHeader, DocumentReader, NewLinks, NewVersion,
};
use colloquy_model::entity::Subject;
use colloquy_model::id::ShareId;

/// How the counts of documents in and out of the bin move.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BinCounts {
    pub(super) inside: i64,
    pub(super) outside: i64,
}

/// Writes what a commit leaves of a document; tells how the counts move.
pub(super) fn put(
    connection: &Connection,
    commit: &Commit,
    header: &DocumentHeader,
) -> rusqlite::Result<BinCounts> {
    let Subject { number, tail, .. } = commit.subject;
    let n = int(number.0);
    let listed = &header.listed;
    let sequence = int(commit.last_sequence().0);
    insert!(connection, "INSERT INTO documents", {
        n: n,
        tail: int(tail),
        scope: commit.tenant.number(),
        seq: sequence,
        updated_at: header.updated_at.0,
        title: listed.title,
        content_type: listed.content_type,
        owner: listed.owner.map(|user| int(user.number().0)),
        deleted: listed.deleted_at.is_some(),
        deleted_at: optional_millis(listed.deleted_at),
        body: header.body,
    }, "ON CONFLICT DO UPDATE SET seq = excluded.seq, updated_at = excluded.updated_at,
        title = excluded.title, content_type = excluded.content_type, owner = excluded.owner,
        deleted = excluded.deleted, deleted_at = excluded.deleted_at, body = excluded.body")?;
    if let Some(readers) = &header.readers {
        put_readers(connection, n, readers)?;
    }
    if let Some(links) = &header.links {
        put_links(connection, commit.subject, commit.tenant, links)?;
    }
    if let Some(version) = &header.version {
        put_version(connection, commit, version)?;
    }
    put_comments(connection, n, &header.comments)?;
    if let Some(anchors) = &header.anchors {
        connection
            .prepare_cached("INSERT OR REPLACE INTO anchors(document, places) VALUES (?1, ?2)")?
            .execute(params![n, &anchors[..]])?;
    }
    let mut moved = BinCounts::default();
    match listed.deleted_at {
        Some(_) => moved.inside += 1,
        None => moved.outside += 1,
    }
    match header.was_deleted {
        Some(true) => moved.inside -= 1,
        Some(false) => moved.outside -= 1,
        None => {}
    }
    Ok(moved)
}

/// Leaves these readers, and writes only those that are new, have another role or are no more:
/// a document with many of them is mostly given one more.
fn put_readers(
    connection: &Connection,
    n: i64,
    readers: &[DocumentReader],
) -> rusqlite::Result<()> {
    let reader = |row: &Row<'_>| {
        let user = column(row, 0, "readers.user")?;
        Ok((user, column(row, 1, "readers.role")?))
    };
    let mut stored = connection
        .prepare_cached("SELECT user, role FROM readers WHERE document = ?1")?
        .query_map([n], reader)?
        .collect::<rusqlite::Result<HashMap<i64, i64>>>()?;
    let mut put = connection.prepare_cached(
        "INSERT OR REPLACE INTO readers(user, document, role) VALUES (?1, ?2, ?3)",
    )?;
    for DocumentReader { user, role } in readers {
        let user = int(user.0);
        if stored.remove(&user) != Some(*role) {
            put.execute([user, n, *role])?;
        }
    }
    let mut delete =
        connection.prepare_cached("DELETE FROM readers WHERE user = ?1 AND document = ?2")?;
    for user in stored.keys() {
        delete.execute([*user, n])?;
    }
    Ok(())
}

/// Leaves these share links, of whose hashes it writes only those that are new or no more. Their uses are
/// counted in their body, as of this commit.
fn put_links(
    connection: &Connection,
    document: Subject,
    tenant: Tenant,
    links: &NewLinks,
) -> rusqlite::Result<()> {
    let Subject { number, tail, .. } = document;
    let n = int(number.0);
    connection
        .prepare_cached("INSERT OR REPLACE INTO share_links(document, body) VALUES (?1, ?2)")?
        .execute(params![n, links.body])?;
    connection
        .prepare_cached("DELETE FROM link_uses WHERE document = ?1")?
        .execute([n])?;
    let mut stored = connection
        .prepare_cached("SELECT hash FROM links WHERE document = ?1")?
        .query_map([n], only)?
        .collect::<rusqlite::Result<HashSet<[u8; 32]>>>()?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO links(hash, document, document_tail, scope) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for hash in &links.hashes {
        if !stored.remove(hash) {
            insert.execute(params![hash, n, int(tail), tenant.number()])?;
        }
    }
    let mut delete = connection.prepare_cached("DELETE FROM links WHERE hash = ?1")?;
    for hash in stored {
        delete.execute([hash])?;
    }
    Ok(())
}

fn put_version(
    connection: &Connection,
    commit: &Commit,
    version: &NewVersion,
) -> rusqlite::Result<()> {
    let parents: Vec<String> = version.parents.iter().map(u64::to_string).collect();
    let id_number = int(version.id.number().0);
    let (parts, rest) = frame_parts::put_rest(connection, id_number, &version.frame)?;
    insert!(connection, "INSERT INTO versions", {
        document: int(commit.subject.number.0),
        number: int(version.number),
        id_number: id_number,
        id_tail: int(version.id.tail()),
        label: version.label,
        branch: version.branch,
        parents: parents.join(" "),
        message: version.message,
        author: version.author.map(|user| int(user.number().0)),
        author_tail: version.author.map(|user| int(user.tail())),
        at: commit.at.0,
        base: version.base.map(int),
        parts: parts,
        frame: rest,
    })?;
    Ok(())
}

fn put_comments(
    connection: &Connection,
    n: i64,
    comments: &[CommentChange],
) -> rusqlite::Result<()> {
    for CommentChange { number, body } in comments {
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
    share: ShareId,
    uses: u64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO link_uses(document, share, uses) VALUES (?1, ?2, ?3)",
        )?
        .execute([int(document.number.0), int(share.number().0), int(uses)])?;
    Ok(())
}

/// Takes a document away for good. Its versions and comments go in slices, later.
pub(super) fn delete(connection: &Connection, commit: &Commit) -> rusqlite::Result<BinCounts> {
    let n = int(commit.subject.number.0);
    let deleted: Option<bool> = connection
        .prepare_cached("DELETE FROM documents WHERE n = ?1 RETURNING deleted")?
        .query_row([n], only)
        .optional()?;
    connection
        .prepare_cached("DELETE FROM readers WHERE document = ?1")?
        .execute([n])?;
    connection
        .prepare_cached("DELETE FROM links WHERE document = ?1")?
        .execute([n])?;
    connection
        .prepare_cached("DELETE FROM share_links WHERE document = ?1")?
        .execute([n])?;
    connection
        .prepare_cached("DELETE FROM link_uses WHERE document = ?1")?
        .execute([n])?;
    connection
        .prepare_cached("DELETE FROM anchors WHERE document = ?1")?
        .execute([n])?;
    erasing::note(connection, commit.subject.number)?;
    Ok(match deleted {
        Some(true) => BinCounts {
            inside: -1,
            outside: 0,
        },
        Some(false) => BinCounts {
            inside: 0,
            outside: -1,
        },
        None => BinCounts::default(),
    })
}

#[cfg(test)]
#[path = "documents_tests.rs"]
mod tests;
