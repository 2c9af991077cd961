//! What commits leave to be done: noted with the commit, taken off the list when it is done.

use rusqlite::Connection;

use super::codec::{Columns, columns, insert, int};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::Chore;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::UserId;

/// The code of the one kind of chore that there is: to take conversations from a user.
const UNASSIGN: i64 = 1;

columns! {
    /// A chore that is left to be done, of the kind by which it was found.
    struct ChoreRow {
        scope: Tenant,
        n: EntityNumber,
        tail: u64,
    }
}

/// Notes a chore in the running transaction.
pub(super) fn note(connection: &Connection, chore: Chore) -> rusqlite::Result<()> {
    let Chore::Unassign(tenant, user) = chore;
    insert!(connection, "INSERT OR REPLACE INTO chores", {
        scope: tenant.number(),
        kind: UNASSIGN,
        n: int(user.number().0),
        tail: int(user.tail()),
    })?;
    Ok(())
}

/// Chores that are left to be done.
pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<Chore>> {
    let sql = format!("SELECT {} FROM chores WHERE kind = ?1", ChoreRow::COLUMNS);
    let mut query = connection.prepare_cached(&sql)?;
    let unassign = |row: &rusqlite::Row<'_>| {
        let row = ChoreRow::read(row)?;
        Ok(Chore::Unassign(
            row.scope,
            UserId::from_parts(row.n, row.tail),
        ))
    };
    query.query_map([UNASSIGN], unassign)?.collect()
}

/// Takes a chore off the list.
pub(super) fn done(connection: &Connection, chore: Chore) -> rusqlite::Result<()> {
    let Chore::Unassign(tenant, user) = chore;
    connection
        .prepare_cached("DELETE FROM chores WHERE scope = ?1 AND kind = ?2 AND n = ?3")?
        .execute([tenant.number(), UNASSIGN, int(user.number().0)])?;
    Ok(())
}
