//! A conversation's messages, page by page. Each row carries how many messages stand up to it, so
//! that a message's place is a binary search over rows and the last row is the total.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::codec::{self, Columns, CountsRow, int, only, whole};
use super::identifiers;
use super::readers;
use crate::store::{MessageQuery, StoredPage};
use colloquy_model::conversation::{MessageCounts, SenderType};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::MessageId;
use colloquy_model::page::{Cursor, Order, Start};

/// Rows that are gone over one by one before the next message is searched for; few in tests, so
/// that they meet both.
const WINDOW: u64 = if cfg!(test) { 3 } else { 1_024 };

/// Ranks count the messages that the filter lets through, from 1.
struct Transcript<'c> {
    connection: &'c Connection,
    entity: i64,
    sender: Option<SenderType>,
    last: u64,
}

/// Consecutive ranks: from the first to one beyond the last.
#[derive(Debug, Clone, Copy)]
struct RankRange {
    first: u64,
    end: u64,
}

/// The sequence of a message's row, as its identifier carries it.
fn sequence(at: Cursor) -> u64 {
    MessageId::from_parts(at.number, at.tail).sequence().0
}

/// A page of messages as JSON.
pub(super) type Messages = Option<StoredPage<Arc<str>>>;

/// A page of messages; none where the conversation is not there for this caller, the name of the
/// cursor where it is no message of it.
pub(super) fn messages(
    connection: &Connection,
    query: &MessageQuery,
) -> rusqlite::Result<Result<Messages, &'static str>> {
    if !identifiers::is_there(connection, query.tenant, query.conversation)? {
        return Ok(Ok(None));
    }
    let entity = int(query.conversation.number.0);
    if let Some((at, field)) = query.paging.start.cursor()
        && identifiers::message(
            connection,
            query.conversation,
            MessageId::from_parts(at.number, at.tail),
        )?
        .is_none()
    {
        return Ok(Err(field));
    }
    let last: Option<u64> = connection
        .prepare_cached("SELECT max(seq) FROM rows WHERE entity = ?1")?
        .query_row([entity], only)?;
    let transcript = Transcript {
        connection,
        entity,
        sender: query.sender,
        last: last.unwrap_or(0),
    };
    transcript.page(query).map(|page| Ok(Some(page)))
}

impl Transcript<'_> {
    fn page(&self, query: &MessageQuery) -> rusqlite::Result<StoredPage<Arc<str>>> {
        let total = self.rank(&self.counts(self.last)?);
        let RankRange { first, end } = self.ranks(query, total)?;
        let mut items = self.read(first, end.saturating_sub(first))?;
        let descending = query.paging.order == Order::Desc;
        if descending {
            items.reverse();
        }
        let (below, above) = (first > 1, end <= total);
        let (before, after) = if descending {
            (above, below)
        } else {
            (below, above)
        };
        Ok(StoredPage {
            items,
            total,
            before,
            after,
        })
    }

    /// The ranks that stand on the page.
    fn ranks(&self, query: &MessageQuery, total: u64) -> rusqlite::Result<RankRange> {
        let limit = u64::from(query.paging.limit);
        let descending = query.paging.order == Order::Desc;
        let beyond = |first: u64| RankRange {
            first,
            end: first.saturating_add(limit).min(total + 1).max(first),
        };
        let below = |end: u64| RankRange {
            first: end.saturating_sub(limit).max(1),
            end: end.max(1),
        };
        if query.after_seq.is_some() || query.before_seq.is_some() {
            let low = match query.after_seq {
                Some(seq) => self.ranks_up_to(seq)? + 1,
                None => 1,
            };
            let high = match query.before_seq {
                Some(seq) => self.ranks_up_to(seq.saturating_sub(1))? + 1,
                None => total + 1,
            };
            let from_the_end = descending || query.after_seq.is_none();
            let ranks = if from_the_end {
                below(high)
            } else {
                beyond(low)
            };
            let first = ranks.first.max(low);
            let end = ranks.end.min(high).max(first);
            return Ok(RankRange { first, end });
        }
        Ok(match (query.paging.start, descending) {
            (Start::Offset(skip), false) => beyond(skip.saturating_add(1).min(total + 1)),
            (Start::Offset(skip), true) => below((total + 1).saturating_sub(skip)),
            (Start::After(at), false) | (Start::Before(at), true) => {
                beyond(self.rank(&self.counts(sequence(at))?) + 1)
            }
            (Start::After(at), true) | (Start::Before(at), false) => {
                below(self.rank(&self.counts(sequence(at).saturating_sub(1))?) + 1)
            }
        })
    }

    fn rank(&self, counts: &MessageCounts) -> u64 {
        match self.sender {
            None => counts.total(),
            Some(SenderType::Customer) => counts.customer,
            Some(SenderType::Agent) => counts.agent,
            Some(SenderType::System) => counts.system,
        }
    }

    /// The counts up to and with this row; those of the last row beyond it.
    fn counts(&self, sequence: u64) -> rusqlite::Result<MessageCounts> {
        let sql = format!(
            "SELECT {} FROM rows WHERE entity = ?1 AND seq = ?2",
            CountsRow::COLUMNS
        );
        let found = self
            .connection
            .prepare_cached(&sql)?
            .query_row(
                [self.entity, int(sequence.min(self.last))],
                whole::<CountsRow>,
            )
            .optional()?;
        Ok(found.map(MessageCounts::from).unwrap_or_default())
    }

    /// How many of the filtered messages have at most this `seq`.
    fn ranks_up_to(&self, seq: u64) -> rusqlite::Result<u64> {
        if seq == 0 {
            return Ok(0);
        }
        let row = self.first_row(|counts| counts.total() > seq)?;
        let before = row.saturating_sub(1);
        Ok(self.rank(&self.counts(before)?))
    }

    /// The row of the message of this rank.
    fn row_of(&self, rank: u64) -> rusqlite::Result<u64> {
        self.first_row(|counts| self.rank(counts) >= rank)
    }

    /// The first row for which it holds, one beyond the last where it never does. It must hold from
    /// some row on.
    fn first_row(&self, holds: impl Fn(&MessageCounts) -> bool) -> rusqlite::Result<u64> {
        let (mut low, mut high) = (1, self.last + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(&self.counts(middle)?) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }

    /// So many messages from this rank on. Where few of many rows are wanted, the next one is
    /// searched for and not all that lie between are gone over.
    fn read(&self, first: u64, count: u64) -> rusqlite::Result<Vec<Arc<str>>> {
        let mut query = self.connection.prepare_cached(
            "SELECT CAST(coalesce(e.payload, r.payload) AS TEXT) FROM rows r LEFT JOIN rows e ON e.pos = r.edit
             WHERE r.entity = ?1 AND r.seq >= ?2 AND r.seq < ?5 AND r.happened = ?6 AND (?3 IS NULL OR r.sender = ?3)
             ORDER BY r.seq LIMIT ?4",
        )?;
        let sender = self.sender.map(SenderType::code);
        let text = |row: &Row<'_>| {
            let text: Arc<str> = only(row)?;
            codec::check_json(text.as_bytes(), || {
                format!("conversation {}: a message's text", self.entity)
            })?;
            readers::note_value(text.len());
            Ok(text)
        };
        let mut items = Vec::new();
        let mut read = 0;
        while read < count {
            let from = self.row_of(first + read)?;
            if from > self.last {
                break;
            }
            let window = params![
                self.entity,
                int(from),
                sender,
                int(count - read),
                int(from + WINDOW),
                EventKind::MessageCreated as i64
            ];
            let rows = query.query_map(window, text)?;
            let before = items.len();
            for row in rows {
                items.push(row?);
            }
            // The first row of a window is one that is wanted.
            read += u64::try_from(items.len() - before).unwrap_or(0).max(1);
        }
        Ok(items)
    }
}
