//! A message's earlier texts, page by page: edits are numbered, so that a page costs what it shows.

use bytes::Bytes;
use rusqlite::Connection;

use super::codec::int;
use super::identifiers;
use crate::store::{RevisionQuery, StoredPage};
use colloquy_model::conversation::{MessageView, RevisionView};
use colloquy_model::page::{Order, Start};
use colloquy_model::time::Timestamp;

/// A page of a message's earlier texts, as JSON; none where the message is not there for this
/// caller.
pub(super) fn page(
    connection: &Connection,
    query: &RevisionQuery,
) -> rusqlite::Result<Option<StoredPage<Bytes>>> {
    let found = identifiers::message(connection, query.conversation, query.message)?;
    let Some(message) = found.filter(|found| found.tenant == query.tenant) else {
        return Ok(None);
    };
    let skip = match query.paging.start {
        Start::Offset(skip) => skip.min(message.edits),
        Start::After(_) | Start::Before(_) => 0,
    };
    let count = u64::from(query.paging.limit).min(message.edits - skip);
    let descending = query.paging.order == Order::Desc;
    let first = if descending {
        message.edits - skip - count
    } else {
        skip
    };
    let mut items = read(
        connection,
        (int(query.conversation.number), int(message.sequence)),
        (first, count),
    )?;
    if message.now.redacted {
        // What the file still holds of it is nobody's to see.
        items.iter_mut().for_each(|(text, _)| text.erase());
    }
    if descending {
        items.reverse();
    }
    let shown = items.into_iter().map(
        |(
            MessageView {
                content, metadata, ..
            },
            at,
        )| {
            // A shape of ours: it can't fail.
            serde_json::to_vec(&RevisionView {
                content,
                metadata,
                replaced_at: Timestamp(at),
            })
            .unwrap_or_default()
            .into()
        },
    );
    let items = shown.collect();
    Ok(Some(StoredPage {
        items,
        total: message.edits,
        before: skip > 0,
        after: skip + count < message.edits,
    }))
}

/// The texts from this one on, counted from 0, the message's own; each with the time of the edit
/// that replaced it.
fn read(
    connection: &Connection,
    (entity, original): (i64, i64),
    (first, count): (u64, u64),
) -> rusqlite::Result<Vec<(MessageView, i64)>> {
    let mut query = connection.prepare_cached(
        "SELECT r.payload, (SELECT at FROM rows WHERE pos = n.pos) FROM edits n
         LEFT JOIN edits t ON t.entity = n.entity AND t.original = n.original AND t.number = n.number - 1
         JOIN rows r ON r.pos = coalesce(t.pos, (SELECT pos FROM rows WHERE entity = ?1 AND seq = ?2))
         WHERE n.entity = ?1 AND n.original = ?2 AND n.number > ?3 ORDER BY n.number LIMIT ?4",
    )?;
    let rows = query.query_map([entity, original, int(first), int(count)], |row| {
        Ok((identifiers::text(row, 0)?, row.get(1)?))
    })?;
    rows.collect()
}
