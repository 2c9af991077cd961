//! The log as an export hands it out: rows and kept answers as events, with the numbers that cursors
//! show.

use std::collections::HashMap;

use mongodb::Cursor;
use mongodb::bson::doc;
use mongodb::error::Error;

use super::codec::int;
use super::export_rows::FeedRow;
use super::feed_numbers::Step;
use super::log::{LogDocument, NO_EVENT, RowDocument};
use super::positions::number_of;
use super::schema::{Collections, FEED_NUMBERS, FEEDS};
use crate::store::{ActorItem, AnswerItem, Base64, EventItem, Text};
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;

/// What cursors show, for events in the order of their positions.
pub(super) struct Numbering {
    /// Up to which position numbers are others, by tenant.
    upto: HashMap<i64, i64>,
    steps: Cursor<Step>,
    /// The next step that was read.
    next: Option<Step>,
    /// The last step of each tenant.
    last: HashMap<i64, Step>,
}

impl Numbering {
    /// Before the first event.
    pub(super) async fn of(collections: &Collections) -> Result<Self, Error> {
        let others = doc! {"numbered_to": {"$gt": 0}};
        let feeds = collections.database.collection::<FeedRow>(FEEDS);
        let mut feeds = feeds.find(others).sort(doc! {"_id": 1}).await?;
        let mut upto = HashMap::new();
        while feeds.advance().await? {
            let feed = feeds.deserialize_current()?;
            upto.insert(feed.tenant, feed.numbered_to);
        }
        let steps = collections.database.collection::<Step>(FEED_NUMBERS);
        let steps = steps.find(doc! {}).sort(doc! {"position": 1});
        let mut numbering = Numbering {
            upto,
            steps: steps.await?,
            next: None,
            last: HashMap::new(),
        };
        numbering.read().await?;
        Ok(numbering)
    }

    /// Reads the next step.
    async fn read(&mut self) -> Result<(), Error> {
        self.next = if self.steps.advance().await? {
            Some(self.steps.deserialize_current()?)
        } else {
            None
        };
        Ok(())
    }

    /// What a cursor shows for an event at this position, none of which is before the last one asked.
    pub(super) async fn shown(&mut self, tenant: i64, position: i64) -> Result<i64, Error> {
        while let Some(step) = self.next.filter(|step| step.position <= position) {
            self.last.insert(step.tenant, step);
            self.read().await?;
        }
        let upto = self.upto.get(&tenant).copied().unwrap_or(0);
        let last = self.last.get(&tenant).filter(|_| position <= upto);
        Ok(last.map_or(position, |step| step.at(position)))
    }
}

/// The events of a document of the log, with their positions as numbers.
pub(super) fn events_of(document: &LogDocument) -> Vec<EventItem> {
    let key = document.key.as_ref().zip(document.answer.as_ref());
    let mut answer = key.map(|(key, answer)| AnswerItem {
        key: Base64(key.bytes.clone()),
        request: Base64(answer.request.bytes.clone()),
        done: answer.done,
        id: answer.id.clone(),
        etag: answer.etag.clone(),
        body: answer.body.as_ref().map(|body| Text(body.bytes.clone())),
    });
    if document.rows.is_empty() {
        let at = document.answer.as_ref().map_or(0, |answer| answer.at);
        let event = answer.map(|answer| answer_event(document, answer, at));
        return event.into_iter().collect();
    }
    let rows = document.placed_rows();
    let event = |(position, sequence, row): (Position, _, &RowDocument)| {
        let Sequence(seq) = sequence;
        let number = document.subject().map(|subject| {
            let number = number_of(subject.kind, position);
            int(number.0)
        });
        EventItem {
            position: position.0,
            seq: Some(int(seq)),
            number: number.filter(|number| *number > 0),
            answer: answer.take(),
            ..row_event(document, row)
        }
    };
    rows.map(event).collect()
}

/// A row as an event, without its place.
fn row_event(document: &LogDocument, row: &RowDocument) -> EventItem {
    let payload = Some(&row.payload).filter(|payload| !payload.is_empty());
    EventItem {
        position: document.position,
        entity_kind: document.kind.into(),
        entity: document.entity,
        tail: document.tail,
        seq: None,
        tenant: document.tenant,
        number: None,
        kind: row.kind.into(),
        at: row.at,
        messages: [row.from_customer, row.from_agent, row.from_system],
        last_message_at: row.last_message_at,
        channel: row.channel.map(i64::from),
        priority: row.priority.map(i64::from),
        assignee: row.assignee,
        sender: row.sender.map(i64::from),
        edits: row.edits,
        text_bytes: row.text_bytes,
        by: ActorItem {
            key: row.by.key,
            user: row.by.user,
            address: row.by.address.clone(),
            request: row.by.request.clone(),
        },
        salt: row.salt.as_ref().map(|salt| Base64(salt.bytes.clone())),
        hash: Base64(row.hash.bytes.clone()),
        payload: payload.map(|payload| Text(payload.clone().into_bytes())),
        answer: None,
    }
}

/// An answer that is kept of a command that changed nothing.
fn answer_event(document: &LogDocument, answer: AnswerItem, at: i64) -> EventItem {
    EventItem {
        position: document.position,
        entity_kind: document.kind.into(),
        entity: document.entity,
        tail: document.tail,
        seq: None,
        tenant: document.tenant,
        number: None,
        kind: NO_EVENT.into(),
        at,
        messages: [0; 3],
        last_message_at: None,
        channel: None,
        priority: None,
        assignee: None,
        sender: None,
        edits: None,
        text_bytes: None,
        by: ActorItem {
            key: None,
            user: None,
            address: None,
            request: String::new(),
        },
        salt: None,
        hash: Base64(Vec::new()),
        payload: None,
        answer: Some(answer),
    }
}
