//! Single documents out of the file: for their actors, and for what the server does with them.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec::{Columns, columns, int, only, whole};
use super::{readers, versions};
use crate::store::{LinkUses, OwnedDocument, StoredComment, StoredDocument};
use colloquy_model::caller::Tenant;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

columns! {
    /// What a document's actor starts from, but for what stands in rows of their own.
    struct DocumentState {
        scope: Tenant,
        seq: Sequence,
        updated_at: Timestamp,
        body: String,
    }
}

columns! {
    /// A comment of a document, in JSON.
    struct CommentRow {
        number: u64,
        body: String,
    }
}

columns! {
    /// How often a share link was used.
    struct LinkUsesRow {
        share: EntityNumber,
        uses: u64,
    }
}

/// What a document's actor starts from.
pub(super) fn load(
    connection: &Connection,
    subject: Subject,
) -> rusqlite::Result<Option<StoredDocument>> {
    let n = int(subject.number.0);
    let header = connection
        .prepare_cached(&format!(
            "SELECT {} FROM documents WHERE n = ?1 AND tail = ?2",
            DocumentState::COLUMNS
        ))?
        .query_row([n, int(subject.tail)], whole::<DocumentState>)
        .optional()?;
    let Some(header) = header else {
        return Ok(None);
    };
    let comment = |row: &Row<'_>| {
        let CommentRow { number, body } = CommentRow::read(row)?;
        readers::note_value(body.len());
        Ok(StoredComment { number, body })
    };
    let comments = connection
        .prepare_cached(&format!(
            "SELECT {} FROM comments WHERE document = ?1 ORDER BY number",
            CommentRow::COLUMNS
        ))?
        .query_map([n], comment)?
        .collect::<rusqlite::Result<_>>()?;
    let links = connection
        .prepare_cached("SELECT body FROM share_links WHERE document = ?1")?
        .query_row([n], only)
        .optional()?;
    let anchors = connection
        .prepare_cached("SELECT places FROM anchors WHERE document = ?1")?
        .query_row([n], only)
        .optional()?;
    Ok(Some(StoredDocument {
        tenant: header.scope,
        sequence: header.seq,
        updated_at: header.updated_at,
        body: header.body,
        links,
        versions: versions::all(connection, subject)?,
        comments,
        link_uses: link_uses(connection, subject)?,
        anchors,
    }))
}

/// How often its share links were used.
pub(super) fn link_uses(
    connection: &Connection,
    document: Subject,
) -> rusqlite::Result<Vec<LinkUses>> {
    let uses = |row: &Row<'_>| {
        let LinkUsesRow { share, uses } = LinkUsesRow::read(row)?;
        Ok(LinkUses { share, uses })
    };
    connection
        .prepare_cached(&format!(
            "SELECT {} FROM link_uses WHERE document = ?1",
            LinkUsesRow::COLUMNS
        ))?
        .query_map([int(document.number.0)], uses)?
        .collect()
}

columns! {
    /// The document to which a share link leads.
    struct LinkRow {
        document: EntityNumber,
        document_tail: u64,
        scope: Tenant,
    }
}

columns! {
    /// A document, and whose it is.
    struct OwnedRow {
        n: EntityNumber,
        tail: u64,
        scope: Tenant,
    }
}

fn owned(row: &Row<'_>) -> rusqlite::Result<OwnedDocument> {
    let row = OwnedRow::read(row)?;
    Ok(OwnedDocument {
        subject: Subject {
            kind: Kind::Document,
            number: row.n,
            tail: row.tail,
        },
        tenant: row.scope,
    })
}

/// Where the share link with this hash leads.
pub(super) fn link(
    connection: &Connection,
    hash: &[u8; 32],
) -> rusqlite::Result<Option<OwnedDocument>> {
    let sql = format!("SELECT {} FROM links WHERE hash = ?1", LinkRow::COLUMNS);
    let found = connection
        .prepare_cached(&sql)?
        .query_row([hash], whole::<LinkRow>)
        .optional()?;
    Ok(found.map(|row| OwnedDocument {
        subject: Subject {
            kind: Kind::Document,
            number: row.document,
            tail: row.document_tail,
        },
        tenant: row.scope,
    }))
}

/// Documents that have been in the bin since before this instant.
pub(super) fn overdue(
    connection: &Connection,
    before: Timestamp,
    most: u32,
) -> rusqlite::Result<Vec<OwnedDocument>> {
    let sql = format!(
        "SELECT {} FROM documents WHERE deleted_at IS NOT NULL AND deleted_at < ?1 ORDER BY deleted_at LIMIT ?2",
        OwnedRow::COLUMNS
    );
    connection
        .prepare_cached(&sql)?
        .query_map(params![before.0, most], owned)?
        .collect()
}

/// Documents of all accounts that are not in the bin, by number.
pub(super) fn behind(
    connection: &Connection,
    number: EntityNumber,
    most: u32,
) -> rusqlite::Result<Vec<OwnedDocument>> {
    let sql = format!(
        "SELECT {} FROM documents WHERE n > ?1 ORDER BY n LIMIT ?2",
        OwnedRow::COLUMNS
    );
    connection
        .prepare_cached(&sql)?
        .query_map(params![int(number.0), most], owned)?
        .collect()
}
