//! The store key in its table, and how a start unwraps it: before it reads or writes anything else.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::codec::{Columns, columns, insert, only, whole};
use super::file::{OpenError, connect, key_of};
use crate::sealing::{self, GivenKeys, MasterKey, MasterKeys, WrappedKey};
use crate::store::Rewrap;
use colloquy_model::entity::Kind;

columns! { of WrappedKey { name, wrapped } }

/// Unwraps the store key, with the master keys that are given and the one beside the file. A store that
/// has none gets one; where no master key is given either, one is made beside the file.
pub(super) fn open(
    connection: &Connection,
    path: &Path,
    given: &GivenKeys,
) -> Result<MasterKeys, OpenError> {
    let stored = stored(connection)?;
    let sealed_under = sealed_under(connection)?;
    let keys = match at_hand(path, given)? {
        Some(keys) => keys,
        None if stored.is_some() || sealed_under.is_some() => {
            return Err(OpenError::NoMasterKey(key_of(path)));
        }
        None => {
            let made = MasterKey::generate();
            made.write_new(&key_of(path))?;
            MasterKeys::kept(made)
        }
    };
    let wrapped = match stored {
        Some(wrapped) => wrapped,
        None => {
            let first = keys.first_store_key(sealed_under.as_deref())?;
            put(connection, &first)?;
            first
        }
    };
    keys.open(&wrapped)?;
    Ok(keys)
}

/// Unwraps the store key of a file that is only read; where no master key is at hand, nothing is
/// unsealed.
pub(super) fn open_to_read(
    connection: &Connection,
    path: &Path,
    given: &GivenKeys,
) -> Result<(), OpenError> {
    let Some(keys) = at_hand(path, given)? else {
        return Ok(());
    };
    let has_table = connection.query_row(
        "SELECT EXISTS(SELECT 1 FROM sqlite_master WHERE name = 'store_key')",
        [],
        only::<bool>,
    )?;
    let stored = has_table.then(|| stored(connection)).transpose()?.flatten();
    let wrapped = match stored {
        Some(wrapped) => wrapped,
        None => keys.first_store_key(sealed_under(connection)?.as_deref())?,
    };
    keys.open(&wrapped)?;
    Ok(())
}

/// Uses the store key of a file, beside a server that may have it; nothing is done where there is no
/// file.
///
/// # Errors
/// The file can't be read, or its store key is wrapped under another master key.
pub fn use_key_of(path: &Path, given: &GivenKeys) -> Result<(), OpenError> {
    if !path.exists() {
        return Ok(());
    }
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    open_to_read(&connection, path, given)
}

/// The master keys that are given, and the one beside the file.
pub(super) fn at_hand(path: &Path, given: &GivenKeys) -> Result<Option<MasterKeys>, OpenError> {
    let kept = key_of(path);
    let kept = match &given.present {
        // What is not needed may be gone or spoilt.
        Some(_) => MasterKey::read(&kept).ok(),
        None if kept.exists() => Some(MasterKey::read(&kept)?),
        None => None,
    };
    Ok(MasterKeys::at_hand(given, kept))
}

/// The store key as it is kept; none before the first start.
pub(super) fn stored(connection: &Connection) -> rusqlite::Result<Option<WrappedKey>> {
    let sql = format!("SELECT {} FROM store_key", WrappedKey::COLUMNS);
    connection
        .prepare_cached(&sql)?
        .query_row([], whole)
        .optional()
}

/// Keeps this store key.
pub(super) fn put(connection: &Connection, key: &WrappedKey) -> rusqlite::Result<()> {
    insert!(connection, "INSERT OR REPLACE INTO store_key", {
        one: 1,
        name: key.name,
        wrapped: key.wrapped,
    })?;
    Ok(())
}

/// Keeps it in another way within the running transaction; false where it is not kept as this says.
pub(super) fn rewrap(connection: &Connection, change: &Rewrap) -> rusqlite::Result<bool> {
    let Rewrap { from, to } = change;
    let changed = connection
        .prepare_cached(
            "UPDATE store_key SET wrapped = ?3 WHERE name = ?1 AND wrapped = ?2 AND name = ?4",
        )?
        .execute(params![from.name, from.wrapped, to.wrapped, to.name])?;
    Ok(changed == 1)
}

/// The name of the key under which the keys that sign tokens are sealed: every start of a version
/// that seals has them.
fn sealed_under(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let body: Option<String> = connection
        .query_row(
            "SELECT body FROM records WHERE kind = ?1",
            [Kind::SigningKeys as i64],
            only,
        )
        .optional()?;
    Ok(body.and_then(|body| sealing::sealed_under(&body).map(str::to_owned)))
}
