//! A message's earlier texts, page by page: edits are numbered, so that a page costs what it shows.

use bytes::Bytes;
use rusqlite::{Connection, Row};

use super::codec::{Columns, columns, int};
use super::{identifiers, readers};
use crate::store::{RevisionQuery, StoredPage};
use colloquy_model::conversation::{MessageView, RevisionView};
use colloquy_model::page::{Order, Start};
use colloquy_model::time::Timestamp;

columns! {
    /// A text of a message, the message's own or an edit's, and the time of the edit behind it.
    struct EarlierText<'r> {
        payload: &'r [u8] = "r.payload",
        replaced_at: Timestamp = "(SELECT at FROM rows WHERE pos = n.pos)",
    }
}

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
    let sql = format!(
        "SELECT {} FROM edits n
         LEFT JOIN edits t ON t.entity = n.entity AND t.original = n.original AND t.number = n.number - 1
         JOIN rows r ON r.pos = coalesce(t.pos, (SELECT pos FROM rows WHERE entity = ?1 AND seq = ?2))
         WHERE n.entity = ?1 AND n.original = ?2 AND n.number > ?3 ORDER BY n.number LIMIT ?4",
        EarlierText::COLUMNS
    );
    let values = [
        int(query.conversation.number.0),
        int(message.sequence.0),
        int(first),
        int(count),
    ];
    let shown = |row: &Row<'_>| {
        let row = EarlierText::read(row)?;
        readers::note_value(row.payload.len());
        let mut text = identifiers::text(row.payload)?;
        if message.now.redacted {
            // What the file still holds of it is nobody's to see.
            text.erase();
        }
        Ok(revision(text, row.replaced_at))
    };
    let mut items = connection
        .prepare_cached(&sql)?
        .query_map(values, shown)?
        .collect::<rusqlite::Result<Vec<Bytes>>>()?;
    if descending {
        items.reverse();
    }
    Ok(Some(StoredPage {
        items,
        total: message.edits,
        before: skip > 0,
        after: skip + count < message.edits,
    }))
}

/// An earlier text as the interface shows it, in JSON.
fn revision(text: MessageView, replaced_at: Timestamp) -> Bytes {
    let MessageView {
        content, metadata, ..
    } = text;
    // A shape of ours: it can't fail.
    serde_json::to_vec(&RevisionView {
        content,
        metadata,
        replaced_at,
    })
    .unwrap_or_default()
    .into()
}
