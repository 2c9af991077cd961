//! Long frames in parts of one size: the writer writes them ahead of their version, each in a
//! transaction of its own, so that whoever commits meanwhile waits for the disk to take one part and
//! not all of them. What comes behind the last of them stands in the version's row.
//!
//! A version's parts are found by the number of its identifier, which no other version of the store
//! has. Until its row is there they are loose, and shown to nobody; so are those of a version that was
//! refused or is gone, which are given up: deleted in slices.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{self, int, only};
use colloquy_model::commit::Commit;
use colloquy_model::document::NewVersion;
use colloquy_model::entity_number::EntityNumber;

/// Bytes of one part: a transaction with one takes little longer than one without.
pub(super) const PART_BYTES: usize = 64 << 10;
/// Those of one that was written up to version 17 of the file.
const EARLIER_PART_BYTES: usize = 128 << 10;

/// A part of a frame whose version comes later.
#[derive(Debug)]
pub(super) struct PartAhead {
    /// The number of the version's identifier.
    version: EntityNumber,
    /// How many of its parts come before this one.
    part: usize,
    bytes: Bytes,
}

/// What of a frame of so many bytes stands in parts.
fn bytes_in_parts(frame: usize) -> usize {
    frame.saturating_sub(1) / PART_BYTES * PART_BYTES
}

/// The version that a commit brings.
fn version(commit: &Commit) -> Option<&NewVersion> {
    commit.document()?.version.as_ref()
}

/// The version of a commit whose frame has parts.
pub(super) fn version_in_parts(commit: &Commit) -> Option<EntityNumber> {
    let version = version(commit)?;
    (bytes_in_parts(version.frame.len()) > 0).then(|| version.id.number())
}

impl PartAhead {
    /// The part of a commit's frame that comes behind so many others.
    pub(super) fn of(commit: &Commit, part: usize) -> Option<Self> {
        let version = version(commit)?;
        let (from, to) = (part * PART_BYTES, (part + 1) * PART_BYTES);
        (to <= bytes_in_parts(version.frame.len())).then(|| PartAhead {
            version: version.id.number(),
            part,
            bytes: version.frame.slice(from..to),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Writes it; where one before it could not be written, it is left to the version's commit.
    pub(super) fn put(&self, connection: &Connection) -> rusqlite::Result<()> {
        let n = int(self.version.0);
        if self.part == 0 {
            connection
                .prepare_cached("INSERT INTO loose_frames(version, given_up) VALUES (?1, 0)")?
                .execute([n])?;
        }
        if count(connection, n)? == self.part {
            put_part(connection, n, self.part, &self.bytes)?;
        }
        Ok(())
    }
}

fn integer(parts: usize) -> i64 {
    i64::try_from(parts).unwrap_or(i64::MAX)
}

fn count(connection: &Connection, version: i64) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("SELECT count(*) FROM frame_parts WHERE version = ?1")?
        .query_row([version], only)
}

fn put_part(
    connection: &Connection,
    version: i64,
    part: usize,
    bytes: &[u8],
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO frame_parts(version, part, bytes) VALUES (?1, ?2, ?3)")?
        .execute(params![version, integer(part), bytes])
        .map(drop)
}

/// Writes those parts of a version's frame that are not there yet, none of which is loose any more.
/// Gives how many parts it has, and what comes behind them.
pub(super) fn put_rest<'f>(
    connection: &Connection,
    version: i64,
    frame: &'f [u8],
) -> rusqlite::Result<(i64, &'f [u8])> {
    let (whole, rest) = frame
        .split_at_checked(bytes_in_parts(frame.len()))
        .unwrap_or((&[], frame));
    if whole.is_empty() {
        return Ok((0, rest));
    }
    let ahead = count(connection, version)?;
    let parts = whole.chunks(PART_BYTES);
    let all = parts.len();
    for (part, bytes) in parts.enumerate().skip(ahead) {
        put_part(connection, version, part, bytes)?;
    }
    connection
        .prepare_cached("DELETE FROM loose_frames WHERE version = ?1")?
        .execute([version])?;
    Ok((integer(all), rest))
}

/// Puts a frame together of its parts and of what comes behind them.
pub(super) fn whole(
    connection: &Connection,
    version: i64,
    (parts, rest): (usize, Vec<u8>),
) -> rusqlite::Result<Vec<u8>> {
    if parts == 0 {
        return Ok(rest);
    }
    let mut frame = Vec::with_capacity(parts * PART_BYTES + rest.len());
    let mut find = connection
        .prepare_cached("SELECT bytes FROM frame_parts WHERE version = ?1 ORDER BY part")?;
    let mut found = find.query([version])?;
    let mut sizes = Vec::with_capacity(parts);
    while let Some(row) = found.next()? {
        let part: &[u8] = codec::column(row, 0, "frame_parts.bytes")?;
        sizes.push(part.len());
        frame.extend_from_slice(part);
    }
    let of_size = |size: &usize| sizes.iter().all(|part| part == size);
    if sizes.len() != parts || ![PART_BYTES, EARLIER_PART_BYTES].iter().any(of_size) {
        return Err(codec::damaged(
            format_args!("the frame of the version with the number {version}"),
            "it is cut off",
        ));
    }
    frame.extend_from_slice(&rest);
    Ok(frame)
}

/// After a start: no version comes any more whose parts were written ahead, so these are to be deleted.
pub(super) fn give_all_up(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .execute("UPDATE loose_frames SET given_up = 1", [])
        .map(drop)
}

/// This version was refused: parts of it that were written ahead are to be deleted.
pub(super) fn give_up(connection: &Connection, version: EntityNumber) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE loose_frames SET given_up = 1 WHERE version = ?1")?
        .execute([int(version.0)])
        .map(drop)
}

/// Gives up the parts of a document's versions up to this number, whose rows the caller deletes in the
/// same transaction.
pub(super) fn give_up_to(
    connection: &Connection,
    document: i64,
    last: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO loose_frames(version, given_up)
             SELECT id_number, 1 FROM versions WHERE document = ?1 AND number <= ?2 AND parts > 0",
        )?
        .execute([document, last])
        .map(drop)
}

/// Deletes parts for which no version comes, about so many bytes of them; whether there were any.
pub(super) fn delete_given_up(connection: &Connection, room: &mut usize) -> rusqlite::Result<bool> {
    let version: Option<i64> = connection
        .prepare_cached("SELECT version FROM loose_frames WHERE given_up = 1 LIMIT 1")?
        .query_row([], only)
        .optional()?;
    let Some(version) = version else {
        return Ok(false);
    };
    let parts = room.div_ceil(PART_BYTES);
    let deleted = connection
        .prepare_cached(
            "DELETE FROM frame_parts WHERE rowid IN
             (SELECT rowid FROM frame_parts WHERE version = ?1 ORDER BY part DESC LIMIT ?2)",
        )?
        .execute([version, integer(parts)])?;
    if deleted < parts {
        connection
            .prepare_cached("DELETE FROM loose_frames WHERE version = ?1")?
            .execute([version])?;
    }
    *room = room.saturating_sub(deleted * PART_BYTES);
    Ok(true)
}
