//! Events of one entity, by sequence. Its sequences have no gap, so that where something stands is
//! found by their halves, and most totals are differences of what rows count.

use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::codec::{failed, int, uint};
use super::connection::answered;
use super::event_pages::{By, Found, PageEnd, Reading, Span};
use super::event_rows::{RowSeen, Wanted, extent};
use super::find::LIST_MAX;
use super::loads;
use super::log::{Extent, LogDocument, log_id};
use super::retention;
use super::schema::Collections;
use crate::store::{EventPage, EventQuery, ReadError};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;

/// A page of one entity's events; none where the entity is not there.
///
/// Beside the page it costs a search for the entity, one for its last document and one for what is
/// hidden. A total of all events, or of messages, costs two searches more; another one reads what
/// filters see of the entity's rows.
pub(super) async fn page(
    collections: &Collections,
    subject: Subject,
    query: &EventQuery,
    decided: Position,
) -> Result<Option<EventPage>, ReadError> {
    // Of all entities, conversations alone show theirs one by one.
    if subject.kind != Kind::Conversation {
        return Ok(None);
    }
    let log = Log {
        collections,
        entity: subject.number,
    };
    let after = Sequence(query.after.0);
    let (is_there, last, floor, begun_with) = tokio::join!(
        is_there(collections, subject, query),
        log.last_within(decided),
        retention::floor(collections, query.tenant),
        log.around(after)
    );
    if !is_there? {
        return Ok(None);
    }
    let (last, floor, begun_with) = (last?, floor?, begun_with?);
    if after > last {
        return Err(ReadError::NoCursor("after"));
    }
    let trimmed = if floor == Position::ZERO {
        Sequence::ZERO
    } else {
        log.last_within(floor).await?
    };
    if after > Sequence::ZERO && after < trimmed {
        return Err(ReadError::Expired);
    }
    let after = after.max(trimmed);
    let end = match query.until.filter(|until| *until < decided) {
        Some(until) => log.last_within(until).await?,
        None => last,
    };
    let span = Span {
        after: after.into(),
        end: end.into(),
    };
    let reading = Reading {
        // Behind what retention took a page begins with a document.
        begun_with: begun_with.filter(|_| after.0 == query.after.0),
        filter: Document::new(),
        by: By::Id,
        behind: log_id(subject.number, after).into(),
        upto: log_id(subject.number, looked_at(query, after).min(end)).into(),
    };
    let found = Found::read(collections, reading, query, span).await?;
    let end = PageEnd {
        total: log.total((after, end), query, &found).await?,
        end: end.into(),
    };
    found.page(collections, query, end).await.map(Some)
}

/// The sequence of the last row that a page may need: sequences have no gap.
fn looked_at(query: &EventQuery, after: Sequence) -> Sequence {
    if query.filter.is_empty() {
        Sequence(after.0.saturating_add(u64::from(query.limit) + 1))
    } else {
        Sequence(i64::MAX.unsigned_abs())
    }
}

/// Whether this very entity is there for this caller.
async fn is_there(
    collections: &Collections,
    subject: Subject,
    query: &EventQuery,
) -> Result<bool, ReadError> {
    let filter = doc! {
        "_id": log_id(subject.number, Sequence::ZERO.next()), "kind": subject.kind as i32,
        "tail": int(subject.tail), "tenant": query.tenant.number(),
    };
    let log = collections.log.clone_with_type::<Document>();
    let first = log.find_one(filter).projection(doc! {"_id": 1});
    let first = answered(first.into_future()).await;
    let is_known = first.map_err(|error| failed(&error))?.is_some();
    if is_known && subject.kind == Kind::Conversation {
        return loads::is_conversation_there(collections, subject).await;
    }
    Ok(is_known)
}

/// The log of one entity.
struct Log<'c> {
    collections: &'c Collections,
    entity: EntityNumber,
}

/// What filters see of a document's rows.
#[derive(Debug, Deserialize)]
struct SeenDocument {
    first: i64,
    rows: Vec<RowSeen>,
}

impl Log<'_> {
    /// The documents that begin with this sequence or before.
    fn up_to(&self, sequence: Sequence) -> Document {
        let (first, last) = (
            log_id(self.entity, Sequence::ZERO),
            log_id(self.entity, sequence),
        );
        doc! {"_id": {"$gte": first, "$lte": last}}
    }

    /// The document that holds this sequence, else the last before it.
    async fn holding(&self, sequence: Sequence) -> Result<Option<LogDocument>, ReadError> {
        let found = self
            .collections
            .log
            .find_one(self.up_to(sequence))
            .sort(doc! {"_id": -1});
        let found = answered(found.into_future()).await;
        found.map_err(|error| failed(&error))
    }

    /// Where that document stands.
    async fn extent(&self, sequence: Sequence) -> Result<Option<Extent>, ReadError> {
        let order = doc! {"_id": -1};
        extent(self.collections, self.up_to(sequence), order).await
    }

    /// The sequence of the last row that stands at this position or before; 0 where there is none.
    async fn last_within(&self, position: Position) -> Result<Sequence, ReadError> {
        let Some(mut document) = self.extent(Sequence(i64::MAX.unsigned_abs())).await? else {
            return Ok(Sequence::ZERO);
        };
        // Mostly it is the very last.
        let (mut low, mut high) = (0, document.last_sequence().0);
        loop {
            let (first, last) = (Position(document.position), document.last_position());
            let before = uint::<u64>(document.first).saturating_sub(1);
            if last <= position {
                low = document.last_sequence().0;
            } else if first > position {
                high = before;
            } else {
                return Ok(Sequence(before + 1 + position.distance_from(first)));
            }
            if low >= high {
                return Ok(Sequence(low));
            }
            let middle = low + (high - low).div_ceil(2);
            document = match self.extent(Sequence(middle)).await? {
                Some(document) => document,
                None => return Ok(Sequence(low)),
            };
        }
    }

    /// The document that holds both this sequence and the one behind it.
    async fn around(&self, after: Sequence) -> Result<Option<LogDocument>, ReadError> {
        if after == Sequence::ZERO {
            return Ok(None);
        }
        let before = self.holding(after).await?;
        Ok(before.filter(|before| before.last_sequence() > after))
    }

    /// The documents that hold the rows behind one sequence, up to another.
    async fn documents(&self, after: Sequence, end: Sequence) -> Result<Document, ReadError> {
        let around = self.around(after).await?;
        let first = around.map_or_else(|| log_id(self.entity, after.next()), |around| around.id);
        Ok(doc! {"_id": {"$gte": first, "$lte": log_id(self.entity, end)}})
    }

    /// Messages up to and with this row.
    async fn messages(&self, sequence: Sequence) -> Result<u64, ReadError> {
        let document = self.holding(sequence).await?;
        let row = document
            .as_ref()
            .and_then(|document| document.row(sequence));
        Ok(row.map_or(0, |row| row.counts().total()))
    }

    /// How many rows behind one sequence, up to another, pass, where that is asked for; these were
    /// found for the page.
    async fn total(
        &self,
        span: (Sequence, Sequence),
        query: &EventQuery,
        found: &Found,
    ) -> Result<u64, ReadError> {
        match query.total {
            true if found.has_more() => self.count(span, &Wanted::new(&query.filter)).await,
            true => Ok(found.count()),
            false => Ok(0),
        }
    }

    /// How many rows behind one sequence, up to another, pass.
    async fn count(
        &self,
        (after, end): (Sequence, Sequence),
        wanted: &Wanted,
    ) -> Result<u64, ReadError> {
        if wanted.is_all() {
            return Ok(end.0.saturating_sub(after.0));
        }
        let Some(others) = wanted.beside_messages() else {
            return self.tally((after, end), wanted).await;
        };
        let (before, until) = tokio::join!(self.messages(after), self.messages(end));
        let messages = until?.saturating_sub(before?);
        if others.is_of_no_kind() {
            return Ok(messages);
        }
        Ok(messages + self.tally((after, end), &others).await?)
    }

    async fn tally(
        &self,
        (after, end): (Sequence, Sequence),
        wanted: &Wanted,
    ) -> Result<u64, ReadError> {
        let mut filter = self.documents(after, end).await?;
        wanted.narrow(&mut filter);
        let log = self.collections.log.clone_with_type::<SeenDocument>();
        let reading = async {
            let fields = doc! {"first": 1, "rows.kind": 1, "rows.channel": 1, "rows.assignee": 1};
            let found = log.find(filter).projection(fields);
            let mut cursor = found.max_time(LIST_MAX).await?;
            let mut total = 0;
            while cursor.advance().await? {
                let SeenDocument { first, rows } = cursor.deserialize_current()?;
                let passes = |(sequence, row): &(u64, RowSeen)| {
                    *sequence > after.0 && *sequence <= end.0 && wanted.admits(*row)
                };
                let rows = (uint(first)..).zip(rows);
                total += u64::try_from(rows.filter(passes).count()).unwrap_or(0);
            }
            Ok(total)
        };
        answered(reading).await.map_err(|error| failed(&error))
    }
}
