//! What the writer does between batches, in slices small enough that no commit waits for them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::Views;
use super::batch::Counts;
use super::codec::{id, int, uint};
use super::lagging::{Fold, Lag, Lagging};
use crate::caller::Scope;
use crate::store::Chore;

/// Headers folded, or names copied, in one slice.
const SLICE: usize = 256;
/// A header lags for at most so long.
const AGE_MAX: Duration = Duration::from_secs(60);
/// How often keys' last uses are written down.
const USES_EVERY: Duration = Duration::from_secs(30);
/// How soon a redacted text leaves the log.
const ERASE_WITHIN: Duration = Duration::from_secs(10);

/// A customer whose conversations' headers still hold an older name.
#[derive(Debug)]
struct Rename {
    customer: u64,
    name: Box<str>,
    revision: u64,
    left: Option<Vec<i64>>,
}

/// What is due and when.
#[derive(Debug)]
pub(super) struct Housekeeping {
    renames: VecDeque<Rename>,
    uses_at: Instant,
    erase_at: Option<Instant>,
}

impl Housekeeping {
    /// With what an earlier run left to be done.
    pub(super) fn open(connection: &Connection, views: &Views) -> rusqlite::Result<Self> {
        let mut renames = VecDeque::new();
        let mut query = connection.prepare("SELECT customer, name, revision FROM renames")?;
        let mut found = query.query([])?;
        while let Some(row) = found.next()? {
            let (customer, name, revision): (i64, Box<str>, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            views.names.rename(uint(customer), &name, uint(revision));
            renames.push_back(Rename { customer: uint(customer), name, revision: uint(revision), left: None });
        }
        Ok(Housekeeping { renames, uses_at: Instant::now() + USES_EVERY, erase_at: None })
    }

    /// A customer has a new name.
    pub(super) fn rename(&mut self, customer: u64, name: &str, revision: u64) {
        self.renames.retain(|rename| rename.customer != customer);
        self.renames.push_back(Rename { customer, name: name.into(), revision, left: None });
    }

    /// A text was redacted: the log must lose it.
    pub(super) fn erase(&mut self) {
        self.erase_at.get_or_insert(Instant::now() + ERASE_WITHIN);
    }

    /// One slice of everything that is due; with `closing`, all of it that a start would have to repeat.
    pub(super) fn run(
        &mut self,
        connection: &Connection,
        counts: &Counts,
        fold: &mut Fold,
        lagging: &Lagging,
        views: &Views,
        closing: bool,
    ) -> rusqlite::Result<()> {
        fold.release(lagging);
        let age = if closing { Duration::ZERO } else { AGE_MAX };
        let most = if closing { usize::MAX } else { SLICE };
        let due = fold.due(lagging, age, most);
        if !due.is_empty()
            && let Err(error) = write_folded(connection, counts, fold, &due)
        {
            fold.put_back(lagging, &due);
            return Err(error);
        }
        for (n, lag) in due {
            fold.wrote(lagging, n, lag);
        }
        self.copy_names(connection, views)?;
        if closing || self.uses_at <= Instant::now() {
            self.uses_at = Instant::now() + USES_EVERY;
            write_uses(connection, views)?;
        }
        if self.erase_at.is_some_and(|at| closing || at <= Instant::now()) {
            // Busy means that a reader still sees the old log: the next tick tries again.
            let busy: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
            if busy == 0 {
                self.erase_at = None;
            }
        }
        Ok(())
    }

    fn copy_names(&mut self, connection: &Connection, views: &Views) -> rusqlite::Result<()> {
        let Some(rename) = self.renames.front_mut() else { return Ok(()) };
        if rename.left.is_none() {
            let mut query = connection.prepare_cached("SELECT n FROM conversations WHERE customer = ?1")?;
            let left =
                query.query_map([int(rename.customer)], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
            rename.left = Some(left);
        }
        let left = rename.left.get_or_insert_default();
        let kept = left.len().saturating_sub(SLICE);
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut update = connection.prepare_cached(
            "UPDATE conversations SET customer_name = ?2, customer_revision = ?3 WHERE n = ?1 AND customer_revision < ?3",
        )?;
        for n in left.iter().skip(kept) {
            update.execute(params![n, rename.name, int(rename.revision)])?;
        }
        if kept == 0 {
            let mut delete = connection.prepare_cached("DELETE FROM renames WHERE customer = ?1 AND revision = ?2")?;
            delete.execute(params![int(rename.customer), int(rename.revision)])?;
        }
        connection.execute_batch("COMMIT")?;
        left.truncate(kept);
        if kept == 0 {
            views.names.copied(rename.customer, rename.revision);
            self.renames.pop_front();
        }
        Ok(())
    }
}

fn write_folded(connection: &Connection, counts: &Counts, fold: &Fold, due: &[(u64, Lag)]) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut update = connection.prepare_cached(
        "UPDATE conversations SET seq = ?2, messages = ?3, last_message_at = ?4, updated_at = ?5 WHERE n = ?1 AND seq < ?2",
    )?;
    for (n, lag) in due {
        update.execute(params![int(*n), int(lag.seq), int(lag.messages), lag.last_message_at, lag.updated_at])?;
    }
    connection
        .prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'folded'")?
        .execute([fold.low_water(counts.next_pos)])?;
    let mut scopes = connection.prepare_cached("INSERT OR REPLACE INTO scopes VALUES (?1, ?2)")?;
    for (scope, number) in counts.numbers() {
        scopes.execute([scope, number])?;
    }
    connection.execute_batch("COMMIT")
}

fn write_uses(connection: &Connection, views: &Views) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut upsert = connection.prepare_cached(
        "INSERT INTO key_uses VALUES (?1, ?2) ON CONFLICT DO UPDATE SET at = excluded.at WHERE at <> excluded.at",
    )?;
    for (key, at) in views.identity.last_uses() {
        upsert.execute([int(key.number()), at])?;
    }
    connection.execute_batch("COMMIT")
}

/// Chores that are left to be done.
pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<Chore>> {
    let mut query = connection.prepare_cached("SELECT scope, n, tail FROM chores WHERE kind = 1")?;
    let unassign =
        |row: &rusqlite::Row<'_>| Ok(Chore::Unassign(Scope::from_number(row.get(0)?), id(row.get(1)?, row.get(2)?)));
    query.query_map([], unassign)?.collect()
}

/// Takes a chore off the list.
pub(super) fn done(connection: &Connection, chore: Chore) -> rusqlite::Result<()> {
    let Chore::Unassign(scope, user) = chore;
    connection
        .prepare_cached("DELETE FROM chores WHERE scope = ?1 AND kind = 1 AND n = ?2")?
        .execute([scope.number(), int(user.number())])?;
    Ok(())
}
