//! The rows of a page of events: read until there is one more than the page holds.

use std::sync::Arc;

use mongodb::bson::{Bson, Document, doc};

use super::codec::{int, uint};
use super::event_rows::{First, PlacedRow, RowSeen, Wanted, documents_until, placed};
use super::log::LogDocument;
use super::schema::Collections;
use super::veil::Veil;
use crate::store::{EventPage, EventQuery, ReadError};
use colloquy_model::event_source::EventSource;
use colloquy_model::stream::StreamOffset;

/// The rows that stand on a page, and whether more that match follow.
pub(super) struct Found {
    documents: Vec<LogDocument>,
    wanted: Wanted,
    span: Span,
    limit: usize,
    source: EventSource,
}

impl Found {
    /// Reads on from these documents until there is one row more than the page has.
    pub(super) async fn read(
        collections: &Collections,
        reading: Reading,
        query: &EventQuery,
        span: Span,
    ) -> Result<Self, ReadError> {
        let Reading {
            begun_with,
            mut filter,
            by,
            mut behind,
            upto,
        } = reading;
        let mut found = Found {
            documents: begun_with.into_iter().collect(),
            wanted: Wanted::new(&query.filter),
            span,
            limit: usize::try_from(query.limit).unwrap_or(usize::MAX),
            source: query.source,
        };
        found.wanted.narrow(&mut filter);
        let at_once = i64::from(query.limit) + 1;
        let mut passing = found.rows().count();
        loop {
            filter.insert(by.field(), doc! {"$gt": behind, "$lte": upto.clone()});
            let which = First {
                filter: filter.clone(),
                order: doc! {by.field(): 1},
                limit: at_once,
            };
            let is_enough = |document: &LogDocument| {
                passing += found.passing(std::slice::from_ref(document)).count();
                passing > found.limit
            };
            let some = documents_until(collections, which, is_enough).await?;
            let Some(last) = some.last() else {
                return Ok(found);
            };
            behind = by.place(last);
            let is_last = int(u64::try_from(some.len()).unwrap_or(u64::MAX)) < at_once;
            found.documents.extend(some);
            if is_last || found.has_more() {
                return Ok(found);
            }
        }
    }

    /// The offset of the last row that passes; none where none does.
    pub(super) fn last(&self) -> Option<StreamOffset> {
        self.rows().last().map(|row| self.offset(&row))
    }

    fn offset(&self, row: &PlacedRow<'_>) -> StreamOffset {
        match self.source {
            EventSource::Account => StreamOffset(uint(row.position.0)),
            EventSource::Entity(_) => row.sequence.into(),
        }
    }

    fn rows(&self) -> impl Iterator<Item = PlacedRow<'_>> {
        self.passing(&self.documents)
    }

    /// The rows of these documents that pass.
    fn passing<'d>(&self, documents: &'d [LogDocument]) -> impl Iterator<Item = PlacedRow<'d>> {
        placed(documents).filter(|row| {
            let offset = self.offset(row);
            offset > self.span.after
                && offset <= self.span.end
                && self.wanted.admits(RowSeen::of(row.row))
        })
    }

    /// Whether more match than the page holds.
    pub(super) fn has_more(&self) -> bool {
        self.rows().nth(self.limit).is_some()
    }

    /// The document with which reading began.
    pub(super) fn first_document(&self) -> Option<&LogDocument> {
        self.documents.first()
    }

    /// How many stand on the page.
    pub(super) fn count(&self) -> u64 {
        u64::try_from(self.rows().take(self.limit).count()).unwrap_or(u64::MAX)
    }

    /// The page, as far as it can be read where no total of it was asked for.
    pub(super) async fn page(
        self,
        collections: &Collections,
        query: &EventQuery,
        PageEnd { total, end }: PageEnd,
    ) -> Result<EventPage, ReadError> {
        let veil = Veil::over(collections, &self.documents).await?;
        let mut page = EventPage {
            total,
            more: self.has_more(),
            cursor: end.max(self.span.after),
            ..EventPage::default()
        };
        let mut last = None;
        for row in self.rows().take(self.limit) {
            let offset = self.offset(&row);
            match row.shown(&veil) {
                Ok(event) => page.events.push(Arc::new(event)),
                Err(error) if query.total || error != ReadError::Unreadable => return Err(error),
                Err(_) => {
                    page.more = true;
                    page.cursor = StreamOffset(offset.0.saturating_sub(1));
                    page.unreadable = Some(offset);
                    return Ok(page);
                }
            }
            last = Some(offset);
        }
        if let Some(last) = last.filter(|_| page.more) {
            page.cursor = last;
        }
        Ok(page)
    }
}

/// What a page says beside its events.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageEnd {
    /// How many match, where that was asked for.
    pub(super) total: u64,
    /// The offset of the last event that is looked at, where the page reaches it.
    pub(super) end: StreamOffset,
}

/// By what documents of the log are read in order.
#[derive(Debug, Clone, Copy)]
pub(super) enum By {
    Position,
    /// The entity and the sequence.
    Id,
}

impl By {
    fn field(self) -> &'static str {
        match self {
            By::Position => "position",
            By::Id => "_id",
        }
    }

    fn place(self, document: &LogDocument) -> Bson {
        match self {
            By::Position => document.position.into(),
            By::Id => document.id.as_str().into(),
        }
    }
}

/// Which documents are read for a page.
#[derive(Debug)]
pub(super) struct Reading {
    /// The document in whose middle the page begins.
    pub(super) begun_with: Option<LogDocument>,
    pub(super) filter: Document,
    pub(super) by: By,
    /// Those behind this place …
    pub(super) behind: Bson,
    /// … up to this one.
    pub(super) upto: Bson,
}

/// Offsets of a source: those behind `after`, up to and with `end`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) after: StreamOffset,
    pub(super) end: StreamOffset,
}
