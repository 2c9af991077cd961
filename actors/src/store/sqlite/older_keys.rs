//! Idempotency keys that memory does not hold: slices of (key, position), each sorted by key and
//! cut into blocks, so that one is found by reading one block. Their filters are kept with them, so
//! that a start reads no key. Slices of about the same size become one, so that there are few to
//! look through. All of it is written and deleted a few blocks at a time.

use std::iter::Peekable;
use std::vec::IntoIter;

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{Columns, columns, only, whole};
use crate::store::{KeyCache, KeyFilter, KeyPosition, KeySlice, ShortKey, short_key};
use colloquy_model::idempotency::{KEPT_FOR, KeyHash};
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// Keys in one block: 4 KiB of (key, position).
const BLOCK: usize = 256;
/// Bytes of one key with its position.
const ENTRY: usize = 16;
/// Blocks that are written or deleted at once: some tenths of a millisecond.
const BLOCKS_AT_ONCE: usize = 8;

/// SQLite's integers are signed; their order is of no matter as long as it is the same everywhere.
fn signed(short: ShortKey) -> i64 {
    i64::from_le_bytes(short.to_le_bytes())
}

fn unsigned(key: i64) -> ShortKey {
    ShortKey::from_le_bytes(key.to_le_bytes())
}

/// What the writer does for these keys.
#[derive(Debug)]
pub(super) struct Shelving {
    /// The number of the next slice.
    next: i64,
    /// The slice that is being written of keys that leave memory.
    putting: Option<Writing>,
    /// The slice that is being written in place of several smaller ones.
    merging: Option<Writing>,
    /// Whether there may be slices that are over, or blocks of no slice.
    sweeping: bool,
}

impl Shelving {
    /// Goes on with what an earlier run of the server left.
    pub(super) fn open(connection: &Connection) -> rusqlite::Result<Self> {
        // What was being written when the process ended has blocks and no slice.
        let next = connection.query_row(
            "SELECT max(coalesce((SELECT max(slice) FROM key_slices), 0), coalesce((SELECT max(slice) FROM older_keys), 0)) + 1",
            [],
            only,
        )?;
        Ok(Shelving {
            next,
            putting: None,
            merging: None,
            sweeping: true,
        })
    }

    /// Lets the next turns look for slices whose keys are no longer kept.
    pub(super) fn look_for_old(&mut self) {
        self.sweeping = true;
    }

    /// A few blocks of whatever is to be done; whether there was anything.
    pub(super) fn run(
        &mut self,
        connection: &Connection,
        keys: &dyn KeyCache,
        now: Timestamp,
    ) -> rusqlite::Result<bool> {
        if let Some(writing) = self.putting.take() {
            self.putting = self.go_on(writing, connection, keys)?;
        } else if let Some(oldest) = keys.overflow() {
            self.putting = Some(Writing::of_memory(self.number(), oldest, now));
        } else if let Some(writing) = self.merging.take() {
            self.merging = self.go_on(writing, connection, keys)?;
        } else if let Some(slices) = keys.slices_to_merge() {
            self.merging = Some(Writing::of_slices(self.number(), connection, slices)?);
        } else if self.sweeping {
            self.sweeping = sweep(connection, keys, now)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn number(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }

    /// What is left to be written. After a failure it begins anew, as a slice of another number.
    fn go_on(
        &mut self,
        mut writing: Writing,
        connection: &Connection,
        keys: &dyn KeyCache,
    ) -> rusqlite::Result<Option<Writing>> {
        self.sweeping = true;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let whole = writing.write(connection)?;
        connection.execute_batch("COMMIT")?;
        if !whole {
            return Ok(Some(writing));
        }
        let Writing {
            number,
            filter,
            in_memory,
            in_place_of,
            ..
        } = writing;
        keys.put_behind(
            KeySlice {
                number,
                filter,
                keys: in_memory,
            },
            &in_place_of,
        );
        Ok(None)
    }
}

columns! {
    /// A block of a slice: its first key, and all of its keys with their positions.
    struct Block {
        first: i64,
        keys: Vec<u8>,
    }
}

columns! {
    /// A slice that becomes a part of a larger one.
    struct PartRow {
        last_pos: Position,
        at: Timestamp,
        filter_bytes: usize = "length(filter)",
    }
}

columns! {
    /// A slice, as memory has to know it.
    struct SliceRow {
        slice: i64,
        filter: Vec<u8>,
    }
}

columns! {
    /// A row that keeps an answer, and its idempotency key.
    struct KeyRow {
        pos: Position,
        key: KeyHash,
        at: Timestamp,
    }
}

/// Keys in their order, out of memory or out of a slice.
#[derive(Debug)]
struct Run {
    held: Peekable<IntoIter<KeyEntry>>,
    /// What is still to be read of a slice.
    rest: Option<SliceRest>,
}

/// One key of a slice, in the order of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct KeyEntry {
    /// The key as SQLite sorts it.
    key: i64,
    /// The position of the row that keeps its answer.
    position: Position,
}

/// The blocks of a slice that have not been read yet.
#[derive(Debug, Clone, Copy)]
struct SliceRest {
    slice: i64,
    /// The first key of the next block, at the earliest.
    from: i64,
}

impl Run {
    fn peek(&mut self, connection: &Connection) -> rusqlite::Result<Option<KeyEntry>> {
        if self.held.peek().is_none()
            && let Some(SliceRest { slice, from }) = self.rest
        {
            let sql = format!(
                "SELECT {} FROM older_keys WHERE slice = ?1 AND first >= ?2 ORDER BY first LIMIT 1",
                Block::COLUMNS
            );
            let block = connection
                .prepare_cached(&sql)?
                .query_row([slice, from], whole::<Block>)
                .optional()?;
            let next = block.as_ref().and_then(|block| block.first.checked_add(1));
            self.rest = next.map(|from| SliceRest { slice, from });
            let entries: Vec<KeyEntry> = block
                .iter()
                .flat_map(|block| entries(&block.keys))
                .collect();
            self.held = entries.into_iter().peekable();
        }
        Ok(self.held.peek().copied())
    }
}

/// The keys of a block with their positions.
fn entries(block: &[u8]) -> impl Iterator<Item = KeyEntry> {
    block.chunks_exact(ENTRY).filter_map(|entry| {
        let (key, position) = entry.split_first_chunk::<8>()?;
        Some(KeyEntry {
            key: i64::from_le_bytes(*key),
            position: Position(i64::from_le_bytes(position.try_into().ok()?)),
        })
    })
}

/// A slice that is being written.
#[derive(Debug)]
struct Writing {
    number: i64,
    runs: Vec<Run>,
    filter: KeyFilter,
    last_pos: Position,
    at: Timestamp,
    /// What memory holds until it is whole.
    in_memory: Vec<KeyPosition>,
    /// The slices that it takes the place of.
    in_place_of: Vec<i64>,
}

impl Writing {
    fn of_memory(number: i64, in_memory: Vec<KeyPosition>, now: Timestamp) -> Self {
        let mut keys: Vec<KeyEntry> = in_memory
            .iter()
            .map(|held| KeyEntry {
                key: signed(held.key),
                position: held.position,
            })
            .collect();
        keys.sort_unstable();
        Writing {
            number,
            filter: KeyFilter::sized(keys.len()),
            last_pos: keys
                .iter()
                .map(|entry| entry.position)
                .max()
                .unwrap_or_default(),
            at: now,
            runs: vec![Run {
                held: keys.into_iter().peekable(),
                rest: None,
            }],
            in_memory,
            in_place_of: Vec::new(),
        }
    }

    fn of_slices(number: i64, connection: &Connection, slices: Vec<i64>) -> rusqlite::Result<Self> {
        let mut find = connection.prepare_cached(&format!(
            "SELECT {} FROM key_slices WHERE slice = ?1",
            PartRow::COLUMNS
        ))?;
        let (mut last_pos, mut at, mut bytes, mut runs) =
            (Position::ZERO, Timestamp::EPOCH, 0, Vec::new());
        for slice in &slices {
            let part: PartRow = find.query_row([slice], whole)?;
            last_pos = last_pos.max(part.last_pos);
            at = at.max(part.at);
            bytes += part.filter_bytes;
            runs.push(Run {
                held: Vec::new().into_iter().peekable(),
                rest: Some(SliceRest {
                    slice: *slice,
                    from: i64::MIN,
                }),
            });
        }
        let filter = KeyFilter::sized(KeyFilter::from_bytes(vec![0; bytes]).keys());
        Ok(Writing {
            number,
            runs,
            filter,
            last_pos,
            at,
            in_memory: Vec::new(),
            in_place_of: slices,
        })
    }

    /// Writes the next blocks into the running transaction, and the slice itself when all of it is
    /// there.
    fn write(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut insert = connection
            .prepare_cached("INSERT INTO older_keys(slice, first, keys) VALUES (?1, ?2, ?3)")?;
        for _ in 0..BLOCKS_AT_ONCE {
            let (mut first, mut block) = (None, Vec::with_capacity(BLOCK * ENTRY));
            while block.len() < BLOCK * ENTRY
                && let Some(KeyEntry { key, position }) = self.next(connection)?
            {
                first.get_or_insert(key);
                self.filter.add(unsigned(key));
                block.extend(
                    key.to_le_bytes()
                        .into_iter()
                        .chain(position.0.to_le_bytes()),
                );
            }
            let Some(first) = first else {
                return self.end(connection).map(|()| true);
            };
            insert.execute(params![self.number, first, block])?;
        }
        Ok(false)
    }

    /// The least key that is left; of one that stands in several the newest position.
    fn next(&mut self, connection: &Connection) -> rusqlite::Result<Option<KeyEntry>> {
        let mut least: Option<i64> = None;
        for run in &mut self.runs {
            if let Some(KeyEntry { key, .. }) = run.peek(connection)? {
                least = Some(least.map_or(key, |least| least.min(key)));
            }
        }
        let Some(least) = least else { return Ok(None) };
        let of_it = self
            .runs
            .iter_mut()
            .filter_map(|run| run.held.next_if(|entry| entry.key == least));
        Ok(of_it.max())
    }

    fn end(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection
            .prepare_cached(
                "INSERT INTO key_slices(slice, last_pos, at, filter) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![
                self.number,
                self.last_pos.0,
                self.at.0,
                self.filter.bytes()
            ])?;
        let mut delete = connection.prepare_cached("DELETE FROM key_slices WHERE slice = ?1")?;
        for slice in &self.in_place_of {
            delete.execute([slice])?;
        }
        Ok(())
    }
}

/// The position of a key's answer, if one of these slices has it; the newest counts.
pub(super) fn find(
    connection: &Connection,
    slices: &[i64],
    key: &KeyHash,
) -> rusqlite::Result<Option<Position>> {
    let wanted = signed(short_key(key));
    let mut query = connection.prepare_cached(
        "SELECT keys FROM older_keys WHERE slice = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1",
    )?;
    let mut newest = None;
    for slice in slices {
        let block: Option<Vec<u8>> = query.query_row([*slice, wanted], only).optional()?;
        let found = block
            .iter()
            .flat_map(|block| entries(block))
            .filter(|entry| entry.key == wanted);
        newest = newest.max(found.map(|entry| entry.position).max());
    }
    Ok(newest)
}

/// Lets go of slices that are older than a key is kept, and deletes some blocks of no slice;
/// whether there may be more.
fn sweep(connection: &Connection, keys: &dyn KeyCache, now: Timestamp) -> rusqlite::Result<bool> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let over: Vec<i64> = connection
        .prepare_cached("DELETE FROM key_slices WHERE at < ?1 RETURNING slice")?
        .query_map([(now - KEPT_FOR).0], only)?
        .collect::<rusqlite::Result<_>>()?;
    let left = left_over(connection)?;
    if let Some(slice) = left {
        connection
            .prepare_cached(
                "DELETE FROM older_keys WHERE slice = ?1 AND first IN
                 (SELECT first FROM older_keys WHERE slice = ?1 ORDER BY first LIMIT ?2)",
            )?
            .execute(params![
                slice,
                i64::try_from(BLOCKS_AT_ONCE).unwrap_or(i64::MAX)
            ])?;
    }
    connection.execute_batch("COMMIT")?;
    for slice in over {
        keys.drop_slice(slice);
    }
    Ok(left.is_some())
}

/// The number of blocks that belong to no slice.
fn left_over(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let mut next = connection
        .prepare_cached("SELECT slice FROM older_keys WHERE slice > ?1 ORDER BY slice LIMIT 1")?;
    let mut is_slice = connection.prepare_cached("SELECT 1 FROM key_slices WHERE slice = ?1")?;
    let mut behind = 0;
    while let Some(slice) = next.query_row([behind], only::<i64>).optional()? {
        if !is_slice.exists([slice])? {
            return Ok(Some(slice));
        }
        behind = slice;
    }
    Ok(None)
}

/// Gives memory the filters, and the keys that are newer than every slice.
pub(super) fn fill(
    connection: &Connection,
    keys: &dyn KeyCache,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let oldest = now - KEPT_FOR;
    let mut query = connection.prepare(&format!(
        "SELECT {} FROM key_slices WHERE at >= ?1 ORDER BY slice",
        SliceRow::COLUMNS
    ))?;
    let mut rows = query.query([oldest.0])?;
    while let Some(row) = rows.next()? {
        let row = SliceRow::read(row)?;
        let slice = KeySlice {
            number: row.slice,
            filter: KeyFilter::from_bytes(row.filter),
            keys: Vec::new(),
        };
        keys.put_behind(slice, &[]);
    }
    let behind: i64 = connection.query_row(
        "SELECT coalesce(max(last_pos), 0) FROM key_slices",
        [],
        only,
    )?;
    let mut query = connection.prepare(&format!(
        "SELECT {} FROM rows INDEXED BY rows_by_key WHERE key IS NOT NULL AND pos > ?1 ORDER BY pos DESC",
        KeyRow::COLUMNS
    ))?;
    let mut rows = query.query([behind])?;
    while let Some(row) = rows.next()? {
        let row = KeyRow::read(row)?;
        if row.at < oldest {
            break;
        }
        keys.note_recovered(&row.key, row.pos);
    }
    Ok(())
}

#[cfg(test)]
#[path = "older_keys_tests.rs"]
mod tests;
