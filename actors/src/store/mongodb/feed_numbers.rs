//! The numbers of events as cursors show them. They are positions, but where the events came out of
//! a store that numbered them otherwise: there cursors that were given out before go on, because a
//! collection says from which position on the numbers are others. What is committed here is behind
//! all of that, and its number is its position.

use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::codec::{failed, int, uint};
use super::connection::answered;
use super::find::all;
use super::schema::{Collections, FEED_NUMBERS};
use super::statements::Statements;
use crate::store::{EventPage, ReadError};
use colloquy_model::caller::Tenant;
use colloquy_model::event::Event;
use colloquy_model::position::Position;
use colloquy_model::stream::{FeedNumber, StreamOffset};
use std::sync::Arc;

/// From this position on, cursors show `shown` and what follows.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Step {
    pub(super) tenant: i64,
    pub(super) position: i64,
    pub(super) shown: i64,
}

impl Step {
    /// What cursors show at a position behind it, up to the next step.
    pub(super) fn at(self, position: i64) -> i64 {
        self.shown + position - self.position
    }
}

/// Notes a step. Once more does no harm.
pub(super) fn note(step: Step, statements: &mut Statements) {
    let Step {
        tenant,
        position,
        shown,
    } = step;
    let set = doc! {"tenant": tenant, "position": position, "shown": shown};
    let id = format!("{tenant}.{position}");
    let change = doc! {"$setOnInsert": set};
    statements.put(FEED_NUMBERS, id, Document::new(), change);
}

/// What cursors of an account and mode show.
#[derive(Debug, Clone, Copy)]
pub(super) struct FeedNumbers<'c> {
    pub(super) collections: &'c Collections,
    pub(super) tenant: Tenant,
    /// Up to this position numbers are others; 0 where there are none.
    pub(super) upto: Position,
}

impl FeedNumbers<'_> {
    /// The position up to which a cursor has read.
    pub(super) async fn read_up_to(&self, shown: StreamOffset) -> Result<Position, ReadError> {
        let shown = int(shown.0);
        if self.upto == Position::ZERO || shown == 0 {
            return Ok(Position(shown));
        }
        let before = self.step(doc! {"shown": {"$lte": shown}}, -1).await?;
        let next = self.step(doc! {"shown": {"$gt": shown}}, 1).await?;
        Ok(match (before, next) {
            (Some(step), Some(next)) => {
                let position = step.position + shown - step.shown;
                Position(position.min(next.position - 1))
            }
            (None, Some(next)) => Position(shown.min(next.position - 1)),
            (before, None) => {
                // Behind the last step: up to where it reaches, and from there on positions.
                let last = before.map_or(0, |step| step.at(self.upto.0));
                match before {
                    Some(step) if shown <= last => Position(step.position + shown - step.shown),
                    Some(_) | None => Position(shown.max(self.upto.0)),
                }
            }
        })
    }

    /// Writes the numbers that cursors show into a page whose numbers are positions.
    pub(super) async fn show(&self, page: EventPage) -> Result<EventPage, ReadError> {
        let is_other = |offset: StreamOffset| int(offset.0) <= self.upto.0;
        let first = page.events.first().map(|first| first.number.into());
        let begins = first.unwrap_or(page.cursor);
        if self.upto == Position::ZERO || !(is_other(begins) || is_other(page.cursor)) {
            return Ok(page);
        }
        let from = int(begins.0.min(page.cursor.0));
        let before = self.step(doc! {"position": {"$lte": from}}, -1).await?;
        let filter = doc! {
            "tenant": self.tenant.number(),
            "position": {"$gt": from, "$lte": int(page.cursor.0.max(begins.0))},
        };
        let order = doc! {"position": 1};
        let mut steps: Vec<Step> = before.into_iter().collect();
        steps.extend(all::<Step>(self.collections, FEED_NUMBERS, filter, order).await?);
        let shown = |offset: u64| {
            let position = int(offset);
            let upto = steps.partition_point(|step| step.position <= position);
            let step = upto.checked_sub(1).and_then(|index| steps.get(index));
            match step {
                Some(step) if position <= self.upto.0 => uint::<u64>(step.at(position)),
                Some(_) | None => offset,
            }
        };
        let renumbered = |event: Arc<Event>| {
            let number = FeedNumber(shown(event.number.0));
            Arc::new(event.numbered(number))
        };
        Ok(EventPage {
            events: page.events.into_iter().map(renumbered).collect(),
            cursor: StreamOffset(shown(page.cursor.0)),
            unreadable: page
                .unreadable
                .map(|StreamOffset(offset)| StreamOffset(shown(offset))),
            ..page
        })
    }

    async fn step(&self, filter: Document, order: i32) -> Result<Option<Step>, ReadError> {
        let (field, mut filter) = (filter.keys().next().cloned().unwrap_or_default(), filter);
        filter.insert("tenant", self.tenant.number());
        let steps = self.collections.database.collection::<Step>(FEED_NUMBERS);
        let found = steps.find_one(filter).sort(doc! {field: order});
        let found = answered(found.into_future()).await;
        found.map_err(|error| failed(&error))
    }
}
