//! What accounts used: a row for each day and credential, to which the writer adds what was counted.

use rusqlite::{Connection, params};

use super::codec::{Columns, columns, insert, int, whole};
use crate::store::{AccountUsage, NodeRequests, UsageItem, UsageQuery, UsageSlice};
use colloquy_model::time::Timestamp;
use colloquy_model::usage::{CountedCredential, DayUsage, UsageCounts};

columns! {
    /// What was used on a day, by a credential.
    struct UsageRow {
        day: Timestamp,
        credential: i64,
        tail: u64,
        requests: u64,
        rate_limited: u64,
        quota_exceeded: u64,
        forbidden: u64,
        deliveries: u64,
        bytes_in: u64,
        bytes_out: u64,
    }
}

impl From<UsageRow> for DayUsage {
    fn from(row: UsageRow) -> Self {
        DayUsage {
            day: row.day,
            credential: CountedCredential {
                code: row.credential,
                tail: row.tail,
            },
            counts: UsageCounts {
                requests: row.requests,
                rate_limited: row.rate_limited,
                quota_exceeded: row.quota_exceeded,
                forbidden: row.forbidden,
                deliveries: row.deliveries,
                bytes_in: row.bytes_in,
                bytes_out: row.bytes_out,
            },
        }
    }
}

columns! {
    /// Requests of an account.
    struct RequestsRow {
        account: u32,
        requests: u64 = "sum(requests)",
    }
}

/// Adds a slice within the running transaction.
pub(super) fn add(connection: &Connection, slice: &UsageSlice) -> rusqlite::Result<()> {
    for AccountUsage { account, used } in &slice.rows {
        let DayUsage {
            day,
            credential,
            counts,
        } = used;
        insert!(connection, "INSERT INTO usage", {
            account: *account,
            day: day.0,
            credential: credential.code,
            tail: int(credential.tail),
            requests: int(counts.requests),
            rate_limited: int(counts.rate_limited),
            quota_exceeded: int(counts.quota_exceeded),
            forbidden: int(counts.forbidden),
            deliveries: int(counts.deliveries),
            bytes_in: int(counts.bytes_in),
            bytes_out: int(counts.bytes_out),
        }, "ON CONFLICT DO UPDATE SET
            requests = requests + excluded.requests,
            rate_limited = rate_limited + excluded.rate_limited,
            quota_exceeded = quota_exceeded + excluded.quota_exceeded,
            forbidden = forbidden + excluded.forbidden,
            deliveries = deliveries + excluded.deliveries,
            bytes_in = bytes_in + excluded.bytes_in,
            bytes_out = bytes_out + excluded.bytes_out")?;
    }
    Ok(())
}

/// Writes a row that another store had.
pub(super) fn put(connection: &Connection, item: &UsageItem) -> rusqlite::Result<()> {
    insert!(connection, "INSERT INTO usage", {
        account: item.account,
        day: item.day,
        credential: item.credential,
        tail: item.tail,
        requests: item.requests,
        rate_limited: item.rate_limited,
        quota_exceeded: item.quota_exceeded,
        forbidden: item.forbidden,
        deliveries: item.deliveries,
        bytes_in: item.bytes_in,
        bytes_out: item.bytes_out,
    })?;
    Ok(())
}

/// What an account used on these days.
pub(super) fn days(connection: &Connection, query: UsageQuery) -> rusqlite::Result<Vec<DayUsage>> {
    let sql = format!(
        "SELECT {} FROM usage WHERE account = ?1 AND day >= ?2 AND day < ?3 ORDER BY day, credential, tail",
        UsageRow::COLUMNS
    );
    let found = params![query.account, query.from.0, query.to.0];
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(found, whole::<UsageRow>)?;
    rows.map(|row| row.map(DayUsage::from)).collect()
}

/// How many requests of each account were let in on this day and later.
pub(super) fn requests_since(
    connection: &Connection,
    day: Timestamp,
) -> rusqlite::Result<Vec<NodeRequests>> {
    let sql = format!(
        "SELECT {} FROM usage WHERE day >= ?1 GROUP BY account",
        RequestsRow::COLUMNS
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([day.0], whole::<RequestsRow>)?;
    let requests = rows.map(|row| {
        let RequestsRow { account, requests } = row?;
        Ok(NodeRequests {
            account,
            node: 0,
            requests,
        })
    });
    requests.collect()
}
