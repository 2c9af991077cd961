//! What commits leave to be done: noted with the commit, taken off the list when it is done.

use rusqlite::Connection;

use super::codec::{Columns, columns, insert, int};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{Chore, ChoreKind};
use colloquy_model::entity_number::EntityNumber;

columns! {
    /// A chore that is left to be done.
    struct ChoreRow {
        scope: Tenant,
        kind: i64,
        n: EntityNumber,
        tail: u64,
    }
}

/// Notes a chore in the running transaction.
pub(super) fn note(connection: &Connection, chore: Chore) -> rusqlite::Result<()> {
    insert!(connection, "INSERT OR REPLACE INTO chores", {
        scope: chore.tenant().number(),
        kind: chore.kind() as i64,
        n: int(chore.number().0),
        tail: int(chore.tail()),
    })?;
    Ok(())
}

/// Chores that are left to be done.
pub(super) fn list(connection: &Connection) -> rusqlite::Result<Vec<Chore>> {
    let sql = format!("SELECT {} FROM chores", ChoreRow::COLUMNS);
    let mut query = connection.prepare_cached(&sql)?;
    let rows = query.query_map([], |row| ChoreRow::read(row))?;
    let mut chores = Vec::new();
    for row in rows {
        let ChoreRow {
            scope,
            kind,
            n,
            tail,
        } = row?;
        // One of a kind that a later version left is nothing that this one can do.
        chores.extend(ChoreKind::from_code(kind).map(|kind| Chore::of(kind, scope, (n, tail))));
    }
    Ok(chores)
}

/// Takes a chore off the list.
pub(super) fn done(connection: &Connection, chore: Chore) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM chores WHERE scope = ?1 AND kind = ?2 AND n = ?3")?
        .execute([
            chore.tenant().number(),
            chore.kind() as i64,
            int(chore.number().0),
        ])?;
    Ok(())
}
