//! Attachments that a copy of the store knows and whose bytes went before they were copied, too.

use std::path::Path;

use rusqlite::OpenFlags;

use super::chores;
use super::file::{OpenError, connect, lock};
use crate::store::KnownAttachment;
use colloquy_model::commit::Chore;

/// Notes in a store that is not in use that these attachments are to be erased, as they were in the one
/// that it was copied from.
///
/// # Errors
/// It is in use or can't be written.
pub fn erase_lost_attachments(path: &Path, lost: &[KnownAttachment]) -> Result<(), OpenError> {
    let _lock = lock(path)?;
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let transaction = connection.transaction()?;
    for one in lost {
        chores::note(&transaction, Chore::EraseAttachment(one.tenant, one.id))?;
    }
    Ok(transaction.commit()?)
}
