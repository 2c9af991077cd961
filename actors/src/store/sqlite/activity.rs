//! What was done to a document, page by page.

use rusqlite::{Connection, Row};

use super::codec::{Columns, columns, int};
use super::identifiers;
use super::row_page::{RowPage, Scan, Where};
use crate::store::{ActivityQuery, ActivityRow, StoredPage};
use colloquy_model::caller::CredentialId;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::UserId;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// The condition of the index over what was done to documents.
const OF_DOCUMENTS: &str = "happened >= 6 AND happened <= 14";

/// A page of what was done to a document; the name of the cursor where it is none of this list.
pub(super) fn page(
    connection: &Connection,
    query: &ActivityQuery,
) -> rusqlite::Result<Result<StoredPage<ActivityRow>, &'static str>> {
    let scan = Scan::new(query.paging.order, query.paging.start);
    let mut filter = Where::default();
    filter.and("entity = ?", int(query.document.number.0));
    filter.conditions.push("seq IS NOT NULL".to_owned());
    if let Some(action) = query.action {
        filter.and("happened = ?", action as i64);
        filter.conditions.push(OF_DOCUMENTS.to_owned());
    }
    if let Some(actor) = query.actor {
        if !identifiers::is_actor(connection, query.document, actor)? {
            return Ok(Err("actor"));
        }
        let actor = filter.value(int(actor.number.0));
        filter
            .conditions
            .push(format!("coalesce(by_user, by_key) = {actor}"));
    }
    if let Some(since) = query.since {
        filter.and("at > ?", since.0);
    }
    if let Some(until) = query.until {
        filter.and("at < ?", until.0);
    }
    // Sequences have no gap, so all of them are as many as the last one's.
    let counted = if is_whole(query) {
        "coalesce(max(seq), 0)"
    } else {
        "count(*)"
    };
    let total = filter.total(connection, counted, "rows")?;
    if let Some((at, field)) = query.paging.start.cursor() {
        let Some(seq) = identifiers::activity(connection, query.document, at)? else {
            return Ok(Err(field));
        };
        filter.and(&format!("seq {} ?", scan.compare()), seq);
    }
    let page = RowPage {
        select: &format!("SELECT {} FROM rows", StoredActivity::COLUMNS),
        sorted_by: &["seq"],
        paging: query.paging,
        total,
    };
    page.read(connection, filter, activity).map(Ok)
}

/// Whether the list shows all that was done to the document.
fn is_whole(query: &ActivityQuery) -> bool {
    query.action.is_none()
        && query.actor.is_none()
        && query.since.is_none()
        && query.until.is_none()
}

columns! {
    /// Something that was done to a document, and the rest of the identifier of who did it.
    struct StoredActivity {
        pos: Position,
        happened: EventKind,
        at: Timestamp,
        by_user: Option<EntityNumber>,
        by_key: Option<i64>,
        by_tail: Option<u64> = "coalesce(
            (SELECT tail FROM records WHERE n = coalesce(by_user, by_key & 1152921504606846975)),
            (SELECT tail FROM departed WHERE n = coalesce(by_user, by_key & 1152921504606846975)))",
        payload: Option<Vec<u8>>,
    }
}

fn activity(row: &Row<'_>) -> rusqlite::Result<ActivityRow> {
    let row = StoredActivity::read(row)?;
    let actor = match (row.by_user, row.by_key, row.by_tail) {
        (Some(user), _, Some(tail)) => Some(UserId::from_parts(user, tail).to_string()),
        (None, Some(code), Some(tail)) => CredentialId::from_code(Some(code), tail, None)
            .and_then(CredentialId::shown_in_activity),
        (_, _, _) => None,
    };
    Ok(ActivityRow {
        position: row.pos,
        kind: row.happened,
        at: row.at,
        actor,
        payload: row.payload.unwrap_or_default().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_over_what_was_done_has_the_kinds_of_documents_and_no_others() {
        let of_documents: Vec<i64> = EventKind::EVENTS
            .iter()
            .filter(|kind| kind.is_of_document())
            .map(|kind| *kind as i64)
            .collect();
        let (first, last) = (of_documents.first(), of_documents.last());
        let condition = first
            .zip(last)
            .map(|(first, last)| format!("happened >= {first} AND happened <= {last}"));
        assert_eq!(condition.as_deref(), Some(OF_DOCUMENTS));
    }
}
