//! Idempotency keys that memory does not hold: slices of (key, position), each sorted by key and cut into blocks, so
//! that one is found by reading one block. Their filters are kept with them, so that a start reads no key.

use rusqlite::{Connection, OptionalExtension, params};

use crate::idempotency::{Filter, KEPT_MS, KeyHash, Keys, Short, Slice, short};
use crate::time::Timestamp;

/// Keys in one block: 4 KiB of (key, position).
const BLOCK: usize = 256;
/// Bytes of one key with its position.
const ENTRY: usize = 16;
/// Blocks of expired slices that are deleted at once.
const EXPIRE: i64 = 64;

/// SQLite's integers are signed; their order is of no matter as long as it is the same everywhere.
fn signed(short: Short) -> i64 {
    i64::from_le_bytes(short.to_le_bytes())
}

/// Writes keys as a slice of their own.
pub(super) fn write(connection: &Connection, mut keys: Vec<(Short, i64)>, now: Timestamp) -> rusqlite::Result<Slice> {
    let last_pos = keys.iter().map(|(_, pos)| *pos).max().unwrap_or(0);
    let filter = Filter::of(keys.iter().map(|(short, _)| *short));
    keys.sort_unstable_by_key(|(short, _)| signed(*short));
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO key_slices SELECT coalesce(max(slice), 0) + 1, ?1, ?2, ?3 FROM key_slices RETURNING slice",
    )?;
    let number: i64 = insert.query_row(params![last_pos, now.0, filter.bytes()], |row| row.get(0))?;
    let mut insert = connection.prepare_cached("INSERT INTO older_keys VALUES (?1, ?2, ?3)")?;
    for block in keys.chunks(BLOCK) {
        let first = block.first().map_or(0, |(short, _)| signed(*short));
        let bytes: Vec<u8> = block
            .iter()
            .flat_map(|(short, pos)| signed(*short).to_le_bytes().into_iter().chain(pos.to_le_bytes()))
            .collect();
        insert.execute(params![number, first, bytes])?;
    }
    connection.execute_batch("COMMIT")?;
    Ok(Slice { number, filter, keys })
}

/// The position of a key's answer, if one of these slices has it; the newest counts.
pub(super) fn find(connection: &Connection, slices: &[i64], key: &KeyHash) -> rusqlite::Result<Option<i64>> {
    let wanted = signed(short(key)).to_le_bytes();
    let mut query = connection
        .prepare_cached("SELECT keys FROM older_keys WHERE slice = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1")?;
    let mut newest = None;
    for slice in slices {
        let block: Option<Vec<u8>> =
            query.query_row([*slice, i64::from_le_bytes(wanted)], |row| row.get(0)).optional()?;
        for entry in block.iter().flat_map(|block| block.chunks_exact(ENTRY)) {
            if let Some((hash, pos)) = entry.split_first_chunk::<8>()
                && *hash == wanted
                && let Ok(pos) = pos.try_into()
            {
                newest = newest.max(Some(i64::from_le_bytes(pos)));
            }
        }
    }
    Ok(newest)
}

/// Deletes some of what is older than a key is kept; whether there may be more of it.
pub(super) fn expire(connection: &Connection, keys: &Keys, now: Timestamp) -> rusqlite::Result<bool> {
    let oldest: Option<i64> = connection
        .prepare_cached("SELECT slice FROM key_slices WHERE at < ?1 ORDER BY slice LIMIT 1")?
        .query_row([now.0 - KEPT_MS], |row| row.get(0))
        .optional()?;
    let Some(slice) = oldest else { return Ok(false) };
    keys.drop_slice(slice);
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let deleted = connection
        .prepare_cached(
            "DELETE FROM older_keys WHERE slice = ?1 AND first IN
             (SELECT first FROM older_keys WHERE slice = ?1 ORDER BY first LIMIT ?2)",
        )?
        .execute([slice, EXPIRE])?;
    if deleted == 0 {
        connection.prepare_cached("DELETE FROM key_slices WHERE slice = ?1")?.execute([slice])?;
    }
    connection.execute_batch("COMMIT")?;
    Ok(true)
}

/// Gives memory the filters, and the keys that are newer than every slice.
pub(super) fn fill(connection: &Connection, keys: &Keys, now: Timestamp) -> rusqlite::Result<()> {
    let oldest = now.0 - KEPT_MS;
    let mut query = connection.prepare("SELECT slice, filter FROM key_slices WHERE at >= ?1 ORDER BY slice")?;
    let mut rows = query.query([oldest])?;
    while let Some(row) = rows.next()? {
        keys.put_behind(Slice { number: row.get(0)?, filter: Filter::from_bytes(row.get(1)?), keys: Vec::new() });
    }
    let behind: i64 =
        connection.query_row("SELECT coalesce(max(last_pos), 0) FROM key_slices", [], |row| row.get(0))?;
    let mut query = connection.prepare(
        "SELECT pos, key, at FROM rows INDEXED BY rows_by_key WHERE key IS NOT NULL AND pos > ?1 ORDER BY pos DESC",
    )?;
    let mut rows = query.query([behind])?;
    while let Some(row) = rows.next()?
        && row.get::<_, i64>(2)? >= oldest
    {
        keys.done_before(&row.get(1)?, row.get(0)?);
    }
    Ok(())
}
