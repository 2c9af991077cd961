//! The chain over the rows: made by the writer in the transaction of each row, read for whoever
//! verifies it.

use std::fs::File;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::codec::{Columns, columns, only, whole};
use super::emptied_rows::EmptiedRow;
use super::file::{OPENING_MAX, OpenError, connect, lock};
use super::store_key;
use crate::sealing::GivenKeys;
use crate::store::audit_chain::{
    Link, NUMBERS, Sealed, UNEXPLAINED, head_key, is_altered, know_account, lost_link, sign_head,
    to_hex,
};
use crate::store::{Broken, ChainHead, ChainPage};
use colloquy_model::entity::Kind;

/// Rows of an older file that are linked in one transaction.
const LINKED_AT_ONCE: i64 = 20_000;

columns! {
    /// What the chain is made of.
    struct SealedRow {
        pos: i64,
        kind: Option<i64>,
        entity: i64,
        tail: Option<i64>,
        seq: Option<i64>,
        happened: i64,
        scope: i64,
        number: Option<i64>,
        at: i64,
        from_customer: i64,
        from_agent: i64,
        from_system: i64,
        last_message_at: Option<i64>,
        channel: Option<i64>,
        priority: Option<i64>,
        assignee: Option<i64>,
        sender: Option<i64>,
        by_key: Option<i64>,
        by_user: Option<i64>,
        by_address: Option<String>,
        by_request: String,
        hash: Vec<u8>,
        link: Option<Vec<u8>>,
        salt: Option<Vec<u8>>,
        payload: Option<Vec<u8>>,
    }
}

columns! {
    /// The end of the chain as it is written.
    struct HeadRow {
        pos: i64,
        link: Vec<u8>,
        signature: Vec<u8>,
    }
}

impl SealedRow {
    fn numbers(&self) -> [Option<i64>; NUMBERS.len()] {
        [
            Some(self.pos),
            self.kind,
            Some(self.entity),
            self.tail,
            self.seq,
            Some(self.happened),
            Some(self.scope),
            self.number,
            Some(self.at),
            Some(self.from_customer),
            Some(self.from_agent),
            Some(self.from_system),
            self.last_message_at,
            self.channel,
            self.priority,
            self.assignee,
            self.sender,
            self.by_key,
            self.by_user,
        ]
    }

    fn sealed(&self) -> Sealed<'_> {
        Sealed {
            numbers: self.numbers(),
            address: self.by_address.as_deref(),
            request: &self.by_request,
            hash: &self.hash,
        }
    }

    /// What of it is not as it was written, as far as its salted hash tells; none where nothing is.
    fn wrong(&self, connection: &Connection) -> rusqlite::Result<Option<&'static str>> {
        if self.hash.is_empty() {
            return Ok(None);
        }
        let Some(salt) = &self.salt else {
            let emptied = EmptiedRow {
                pos: self.pos,
                entity: self.entity,
                seq: self.seq.unwrap_or(0),
                happened: self.happened,
                scope: self.scope,
                number: self.number,
                left: self.payload.as_deref().unwrap_or_default(),
            };
            let explained = emptied.is_explained(connection)?;
            return Ok((!explained).then_some(UNEXPLAINED));
        };
        let said = self.payload.as_deref().unwrap_or_default();
        Ok(is_altered(salt, said, &self.hash).then_some("what the record says was altered"))
    }
}

/// The end of the chain while rows are added.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ChainEnd {
    position: i64,
    link: Link,
}

impl ChainEnd {
    /// As it is written; an older file has none yet, and gets one over its rows. Where there was one
    /// and it is gone, none takes its place: what follows has a link that no row leads to.
    pub(super) fn open(connection: &mut Connection) -> rusqlite::Result<Self> {
        // It goes on from what was signed, whatever has become of the rows: a tail that was cut off
        // is found later, too.
        if let Some(HeadRow { pos, link, .. }) = head(connection)? {
            return Ok(ChainEnd {
                position: pos,
                link: link.try_into().unwrap_or_default(),
            });
        }
        // Where a dump was imported, its last positions may have no row.
        let last = mark(connection, "folded")?.unwrap_or(0) - 1;
        if mark(connection, "chained")? != Some(0) {
            tracing::error!(
                "the end of the audit trail's chain is gone: somebody has taken it away; \
                 `colloquy audit verify` says so from now on"
            );
            return Ok(ChainEnd {
                position: last,
                link: lost_link(last),
            });
        }
        let mut end = ChainEnd::default();
        loop {
            let transaction = connection.transaction()?;
            if end.link_older(&transaction)? {
                transaction.commit()?;
                continue;
            }
            end.position = end.position.max(last);
            end.write(&transaction)?;
            transaction.execute("UPDATE meta SET value = 1 WHERE key = 'chained'", [])?;
            transaction.commit()?;
            return Ok(end);
        }
    }

    /// Links the next rows of an older file; whether there were any.
    fn link_older(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        let rows = rows_behind(connection, self.position, LINKED_AT_ONCE)?;
        let mut update = connection.prepare_cached("UPDATE rows SET link = ?2 WHERE pos = ?1")?;
        for row in &rows {
            self.add(row.pos, &row.sealed());
            update.execute(params![row.pos, self.link])?;
        }
        Ok(!rows.is_empty())
    }

    /// Takes in the next row; gives its link.
    pub(super) fn add(&mut self, position: i64, row: &Sealed<'_>) -> Link {
        self.link = row.link(&self.link);
        self.position = position;
        self.link
    }

    /// Writes it down, signed, in the transaction of the rows that it ends with.
    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let signature = head_key().map(|key| sign_head(&key, self.position, &self.link));
        let signature = signature.map_or_else(Vec::new, |signature| signature.to_vec());
        connection
            .prepare_cached(
                "INSERT INTO audit_head(one, pos, link, signature) VALUES (1, ?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET pos = excluded.pos, link = excluded.link, signature = excluded.signature",
            )?
            .execute(params![self.position, self.link, signature])?;
        Ok(())
    }

    /// The position of the last row.
    pub(super) fn position(&self) -> i64 {
        self.position
    }
}

fn mark(connection: &Connection, key: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .query_row("SELECT value FROM meta WHERE key = ?1", [key], only)
        .optional()
}

fn head(connection: &Connection) -> rusqlite::Result<Option<HeadRow>> {
    let sql = format!("SELECT {} FROM audit_head", HeadRow::COLUMNS);
    let mut query = connection.prepare_cached(&sql)?;
    query.query_row([], whole).optional()
}

fn rows_behind(
    connection: &Connection,
    position: i64,
    most: i64,
) -> rusqlite::Result<Vec<SealedRow>> {
    let sql = format!(
        "SELECT {} FROM rows WHERE pos > ?1 ORDER BY pos LIMIT ?2",
        SealedRow::COLUMNS
    );
    let mut query = connection.prepare_cached(&sql)?;
    query.query_map([position, most], whole)?.collect()
}

/// The records behind this position, and the end of the chain, as of one moment.
pub(super) fn page(
    connection: &Connection,
    position: i64,
    most: u32,
) -> rusqlite::Result<ChainPage> {
    let rows = rows_behind(connection, position, most.into())?;
    let head = head(connection)?.map(|head| ChainHead {
        position: head.pos,
        link: to_hex(&head.link),
        signature: to_hex(&head.signature),
    });
    let signed = head.as_ref().and_then(ChainHead::is_signed);
    let known = head.as_ref().map_or(0, |head| head.position);
    let mut broken = None;
    for row in &rows {
        if let Some(what) = row.wrong(connection)? {
            broken = Some(Broken::at(row.pos, what));
            break;
        }
    }
    let record = |row: &SealedRow| row.sealed().record(row.link.as_deref());
    Ok(ChainPage {
        broken,
        is_last: u32::try_from(rows.len()).is_ok_and(|found| found < most),
        unlinked: 0,
        data: rows.iter().map(record).collect(),
        beyond: beyond(connection, known)?,
        signed,
        head,
    })
}

/// What in the file names a position behind the end of the chain: that rows were taken away with
/// it.
fn beyond(connection: &Connection, head: i64) -> rusqlite::Result<Option<String>> {
    let marked: Option<i64> = connection
        .prepare_cached(
            "SELECT max(at) FROM (
               SELECT max(value) - 1 AS at FROM meta WHERE key IN ('folded', 'fed')
               UNION ALL SELECT max(value) FROM meta WHERE key = 'matched'
               UNION ALL SELECT max(pos) FROM deliveries UNION ALL SELECT max(pos) FROM edits)",
        )?
        .query_row([], only)?;
    Ok(marked
        .filter(|marked| *marked > head)
        .map(|marked| format!("the store knows of position {marked}")))
}

/// Takes the keys of accounts' texts out of their records.
fn know_accounts(connection: &Connection) -> rusqlite::Result<()> {
    let mut query = connection.prepare("SELECT body FROM records WHERE kind = ?1")?;
    let mut rows = query.query([Kind::Account as i64])?;
    while let Some(row) = rows.next()? {
        know_account(&only::<String>(row)?);
    }
    Ok(())
}

/// The chain of a file that nobody else uses. Nothing is changed in it.
pub struct SqliteChain {
    connection: Connection,
    /// Held as long as it is open: a server is refused.
    _lock: File,
}

impl SqliteChain {
    /// Opens a file. Its end is verified if a master key is given, or stands beside it.
    ///
    /// # Errors
    /// There is none, a server has it, it is under another master key, or it can't be read.
    pub fn open(path: &Path, given: &GivenKeys) -> Result<Self, OpenError> {
        if !path.exists() {
            return Err(OpenError::Absent(path.to_owned()));
        }
        let lock = lock(path)?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(OPENING_MAX)?;
        store_key::open_to_read(&connection, path, given)?;
        know_accounts(&connection)?;
        Ok(SqliteChain {
            connection,
            _lock: lock,
        })
    }

    /// Records behind this position, at most so many.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn page(&self, position: i64, most: u32) -> Result<ChainPage, OpenError> {
        Ok(page(&self.connection, position, most)?)
    }
}
