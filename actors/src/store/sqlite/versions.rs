//! Reads documents' versions: what they are, and the frames that hold their contents.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row};

use super::codec::{self, Columns, columns, int, only, whole};
use super::frame_parts;
use super::row_page::{RowPage, Scan, Where};
use crate::store::{FramedVersion, StoredPage, StoredVersion, VersionQuery};
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::VersionId;
use colloquy_model::time::Timestamp;
use colloquy_runtime::cores;

/// Bytes from which on a frame takes about a millisecond to be read.
const LONG_FRAME_BYTES: i64 = 256 << 10;

columns! {
    /// A version without its content.
    struct VersionRow {
        number: u64,
        id_number: EntityNumber,
        id_tail: u64,
        label: Option<Box<str>>,
        branch: Box<str>,
        parents: Box<str>,
        message: Option<Box<str>>,
        author: Option<EntityNumber>,
        author_tail: Option<u64>,
        at: Timestamp,
    }
}

fn version(row: &Row<'_>) -> rusqlite::Result<StoredVersion> {
    let row = VersionRow::read(row)?;
    let id = VersionId::from_parts(row.id_number, row.id_tail);
    let parents = row.parents.split_ascii_whitespace().map(str::parse);
    let parents: Result<Vec<u64>, _> = parents.collect();
    Ok(StoredVersion {
        number: row.number,
        id,
        label: row.label,
        branch: row.branch,
        parents: parents.map_err(|error| codec::damaged(format_args!("{id}: parents"), error))?,
        message: row.message,
        author: codec::optional_id(row.author, row.author_tail, "VersionRow.author")?,
        at: row.at,
    })
}

/// All versions of a document, the oldest first.
pub(super) fn all(
    connection: &Connection,
    document: Subject,
) -> rusqlite::Result<Vec<StoredVersion>> {
    connection
        .prepare_cached(&format!(
            "SELECT {} FROM versions WHERE document = ?1 ORDER BY number",
            VersionRow::COLUMNS
        ))?
        .query_map([int(document.number.0)], version)?
        .collect()
}

columns! {
    /// A version's frame behind its parts, unless it is longer than ?3 or there are any, and the number
    /// of the version that it is against.
    struct FrameRow {
        base: Option<i64>,
        id_number: i64,
        parts: usize,
        frame: Option<Vec<u8>> = "CASE WHEN parts = 0 AND length(frame) < ?3 THEN frame END",
    }
}

/// A version, and the frames from which its content is made, the one that stands alone first.
pub(super) fn one(
    connection: &Connection,
    document: Subject,
    number: u64,
) -> rusqlite::Result<Option<FramedVersion>> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT {} FROM versions WHERE document = ?1 AND number = ?2",
            VersionRow::COLUMNS
        ))?
        .query_row([int(document.number.0), int(number)], version)
        .optional()?;
    let Some(found) = found else { return Ok(None) };
    let mut find = connection.prepare_cached(&format!(
        "SELECT {} FROM versions WHERE document = ?1 AND number = ?2",
        FrameRow::COLUMNS
    ))?;
    let mut frames = Vec::new();
    let mut next = Some(int(number));
    while let Some(number) = next {
        let values = [int(document.number.0), number, LONG_FRAME_BYTES];
        let FrameRow {
            base,
            id_number,
            parts,
            frame,
        } = find.query_row(values, whole)?;
        let long = || long_frame(connection, (document, number), (id_number, parts));
        let frame = frame.map_or_else(long, Ok)?;
        frames.push(Bytes::from(frame));
        // Only an older one can be a base: a broken file must not send us round for ever.
        next = base.filter(|base| *base < number);
    }
    frames.reverse();
    Ok(Some(FramedVersion {
        version: found,
        frames,
    }))
}

/// A frame that takes so long to be read that the others are to keep away meanwhile.
fn long_frame(
    connection: &Connection,
    (document, number): (Subject, i64),
    (id_number, parts): (i64, usize),
) -> rusqlite::Result<Vec<u8>> {
    let _pin = cores::pin_to_batch_cores();
    let rest = connection
        .prepare_cached("SELECT frame FROM versions WHERE document = ?1 AND number = ?2")?
        .query_row([int(document.number.0), number], only)?;
    frame_parts::whole(connection, id_number, (parts, rest))
}

/// A page of a document's versions; the name of the cursor where it is none of theirs.
pub(super) fn page(
    connection: &Connection,
    query: &VersionQuery,
) -> rusqlite::Result<Result<StoredPage<StoredVersion>, &'static str>> {
    let n = int(query.document.number.0);
    let scan = Scan::new(query.paging.order, query.paging.start);
    let mut filter = Where::default();
    filter.and("document = ?", n);
    if let Some(branch) = &query.branch {
        filter.and("branch = ?", branch.clone());
    }
    // Numbers have no gap: all of them need not be counted.
    let counted = if query.branch.is_none() {
        "coalesce(max(number), 0)"
    } else {
        "count(*)"
    };
    let total = filter.total(connection, counted, "versions")?;
    if let Some((at, field)) = query.paging.start.cursor() {
        // A version's identifier carries its number, so it is found without looking at the others.
        let number = int(VersionId::from_parts(at.number, at.tail).ordinal());
        let mut find = connection.prepare_cached(
            "SELECT 1 FROM versions WHERE document = ?1 AND number = ?2 AND id_number = ?3 AND id_tail = ?4",
        )?;
        if !find.exists([n, number, int(at.number.0), int(at.tail)])? {
            return Ok(Err(field));
        }
        filter.and(&format!("number {} ?", scan.compare()), number);
    }
    let page = RowPage {
        select: &format!("SELECT {} FROM versions", VersionRow::COLUMNS),
        sorted_by: &["number"],
        paging: query.paging,
        total,
    };
    page.read(connection, filter, version).map(Ok)
}

columns! {
    /// The identifier of a version.
    struct VersionIdRow {
        id_number: EntityNumber,
        id_tail: u64,
    }
}

/// The identifiers of versions, in the order of the numbers.
pub(super) fn ids(
    connection: &Connection,
    document: Subject,
    numbers: &[u64],
) -> rusqlite::Result<Vec<VersionId>> {
    let mut find = connection.prepare_cached(&format!(
        "SELECT {} FROM versions WHERE document = ?1 AND number = ?2",
        VersionIdRow::COLUMNS
    ))?;
    numbers
        .iter()
        .map(|number| {
            let row: VersionIdRow =
                find.query_row([int(document.number.0), int(*number)], whole)?;
            Ok(VersionId::from_parts(row.id_number, row.id_tail))
        })
        .collect()
}
