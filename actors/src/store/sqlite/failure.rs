//! How a transaction fails: what of it may be tried again, and what ends the process.

use rusqlite::{ErrorCode, ffi};
use tracing::{error, warn};

use colloquy_runtime::threads;

/// How a transaction failed: whether it may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// No room, the disk refused to write, or another process holds the file: nothing of the batch
    /// stands.
    Away,
    /// Something in the batch can't be written; the others may.
    Poisoned,
}

/// A failed fsync is final: what the disk holds is not known any more, and only a new start finds
/// out.
pub(super) fn judge(error: &rusqlite::Error) -> Failure {
    let Some(cause) = error.sqlite_error() else {
        error!(%error, "a commit can't be written");
        return Failure::Poisoned;
    };
    if matches!(
        cause.extended_code,
        ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC
    ) {
        error!(%error, "fsync failed; stopping, so that the next start recovers what is on the disk");
        std::process::exit(threads::EXIT_CODE);
    }
    if matches!(
        cause.code,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed
    ) {
        warn!(%error, "another process holds the store's file; it goes on when that lets go");
        Failure::Away
    } else if matches!(
        cause.code,
        ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
    ) {
        warn!(%error, "the store can't be written to; make room or mend the disk");
        Failure::Away
    } else {
        error!(%error, "a commit can't be written");
        Failure::Poisoned
    }
}
