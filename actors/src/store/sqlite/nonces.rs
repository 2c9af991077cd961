//! Nonces of signed requests: a row each until it has ended. Spending some takes as many away whose
//! time is over, so that they need nobody who looks after them.

use rusqlite::{Connection, params};

use crate::store::Nonce;
use colloquy_model::time::Timestamp;

/// How many that have ended are taken away with each that is spent: more than one, so that what is
/// left becomes less.
const TAKEN_AWAY: i64 = 4;

/// Inserts the nonce within the running transaction; false where it is there.
pub(super) fn spend(connection: &Connection, nonce: &Nonce) -> rusqlite::Result<bool> {
    let inserted = connection
        .prepare_cached("INSERT INTO nonces(hash, ends_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING")?
        .execute(params![nonce.hash, nonce.ends_at.0])?;
    connection
        .prepare_cached(
            "DELETE FROM nonces WHERE hash IN
             (SELECT hash FROM nonces WHERE ends_at <= ?1 ORDER BY ends_at LIMIT ?2)",
        )?
        .execute(params![Timestamp::now().0, TAKEN_AWAY])?;
    Ok(inserted == 1)
}
