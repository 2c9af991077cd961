//! Events as rows of the log: which of them a filter lets through, how documents that hold them are
//! read, and the event that a row is.

use mongodb::bson::{Bson, Document, doc};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::codec::{code, damaged, failed, int, uint};
use super::connection::answered;
use super::find;
use super::log::{Extent, LogDocument, RowDocument};
use super::positions::number_of;
use super::schema::Collections;
use super::veil::Veil;
use crate::store::ReadError;
use colloquy_model::caller::{CredentialCode, Tenant};
use colloquy_model::conversation::{Channel, Priority};
use colloquy_model::entity::Kind;
use colloquy_model::event::{self, Event, SeenNow};
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_kind::EventKind;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// Which rows of documents a filter lets through.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    kinds: Vec<i32>,
    channel: Option<i32>,
    assignee: Option<i64>,
}

impl Wanted {
    pub(super) fn new(filter: &EventFilter) -> Self {
        Wanted {
            kinds: filter.kinds.iter().map(|kind| *kind as i32).collect(),
            channel: filter.channel.map(|channel| code(channel.code())),
            assignee: filter.assignee.map(|user| int(user.number())),
        }
    }

    /// Whether every event passes.
    pub(super) fn is_all(&self) -> bool {
        self.kinds.is_empty() && self.channel.is_none() && self.assignee.is_none()
    }

    /// The same without messages' own rows; none where the filter does not let all of these through
    /// by their kind alone.
    pub(super) fn beside_messages(&self) -> Option<Self> {
        const MESSAGE: i32 = EventKind::MessageCreated as i32;
        let passes = self.kinds.contains(&MESSAGE);
        let by_kind_alone = self.channel.is_none() && self.assignee.is_none();
        (passes && by_kind_alone).then(|| Wanted {
            kinds: self
                .kinds
                .iter()
                .copied()
                .filter(|kind| *kind != MESSAGE)
                .collect(),
            ..self.clone()
        })
    }

    /// Whether it names no kind, behind [`Wanted::beside_messages`]: then nothing passes.
    pub(super) fn is_of_no_kind(&self) -> bool {
        self.kinds.is_empty()
    }

    pub(super) fn admits(&self, seen: RowSeen) -> bool {
        let RowSeen {
            kind,
            channel,
            assignee,
        } = seen;
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && self.channel.is_none_or(|wanted| Some(wanted) == channel)
            && self.assignee.is_none_or(|user| Some(user) == assignee)
    }

    /// Narrows a filter of documents down: what is left out has no row that passes. What is left may
    /// have none either, for a document's rows together may be what is asked for.
    pub(super) fn narrow(&self, filter: &mut Document) {
        if !self.kinds.is_empty() {
            filter.insert("rows.kind", doc! {"$in": self.kinds.clone()});
        }
        if let Some(channel) = self.channel {
            filter.insert("rows.channel", channel);
        }
        if let Some(assignee) = self.assignee {
            filter.insert("rows.assignee", assignee);
        }
    }
}

/// What filters see of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
pub(super) struct RowSeen {
    pub(super) kind: i32,
    #[serde(default)]
    pub(super) channel: Option<i32>,
    #[serde(default)]
    pub(super) assignee: Option<i64>,
}

impl RowSeen {
    pub(super) fn of(row: &RowDocument) -> Self {
        RowSeen {
            kind: row.kind,
            channel: row.channel,
            assignee: row.assignee,
        }
    }
}

/// The documents whose rows may be public events of this account and mode.
pub(super) fn public_of(tenant: Tenant) -> Document {
    doc! {"tenant": tenant.number(), "kind": {"$in": public_kinds()}}
}

pub(super) fn public_kinds() -> Vec<Bson> {
    let codes = Kind::PUBLIC.iter().map(|kind| Bson::from(*kind as i32));
    codes.collect()
}

/// Some documents of the log, in this order; at most so many, where that is said.
pub(super) async fn documents(
    collections: &Collections,
    filter: Document,
    order: Document,
    limit: i64,
) -> Result<Vec<LogDocument>, ReadError> {
    let which = First {
        filter,
        order,
        limit,
    };
    documents_until(collections, which, |_| false).await
}

/// Which documents of the log are read, in which order; at most so many, where that is said.
pub(super) struct First {
    pub(super) filter: Document,
    pub(super) order: Document,
    pub(super) limit: i64,
}

/// The same, up to and with the first document that is enough: one may hold many rows.
pub(super) async fn documents_until(
    collections: &Collections,
    which: First,
    mut is_enough: impl FnMut(&LogDocument) -> bool,
) -> Result<Vec<LogDocument>, ReadError> {
    let First {
        filter,
        order,
        limit,
    } = which;
    let found = async {
        let found = collections.log.find(filter).sort(order).limit(limit);
        let found = found.batch_size(find::at_once(limit));
        let mut cursor = found.max_time(find::LIST_MAX).await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            let document = cursor.deserialize_current()?;
            let is_last = is_enough(&document);
            found.push(document);
            if is_last {
                break;
            }
        }
        Ok(found)
    };
    answered(found).await.map_err(|error| failed(&error))
}

/// Where the first document of the log stands that matches, in this order: without its rows.
pub(super) async fn extent(
    collections: &Collections,
    filter: Document,
    order: Document,
) -> Result<Option<Extent>, ReadError> {
    let log = collections.log.clone_with_type::<Extent>();
    let found = log
        .find_one(filter)
        .projection(Extent::fields())
        .sort(order);
    let found = answered(found.into_future()).await;
    found.map_err(|error| failed(&error))
}

/// A row of the log with its place.
pub(super) struct PlacedRow<'d> {
    pub(super) document: &'d LogDocument,
    pub(super) position: Position,
    pub(super) sequence: Sequence,
    pub(super) row: &'d RowDocument,
}

impl PlacedRow<'_> {
    /// The row as the event that it is, without what is hidden.
    pub(super) fn event(&self, veil: &Veil) -> Result<Event, ReadError> {
        let PlacedRow {
            document,
            position,
            sequence,
            row,
        } = *self;
        let unreadable = |what: &str| damaged(&format!("the event at {position}"), what);
        let kind = EventKind::from_code(row.kind.into())
            .ok_or_else(|| unreadable("the code of its kind stands for nothing"))?;
        let subject = document
            .subject()
            .ok_or_else(|| unreadable("the code of its entity's kind stands for nothing"))?;
        let written = event::EventRow {
            position,
            tenant: document.tenant(),
            number: number_of(subject.kind, position),
            entity: subject.number,
            sequence,
            kind,
            at: Timestamp(row.at),
            credential: row.by.key.map(CredentialCode),
            text_bytes: row.text_bytes.unwrap_or(0),
        };
        let seen = SeenNow {
            channel: row.channel.and_then(|code| Channel::from_code(code.into())),
            priority: row
                .priority
                .and_then(|code| Priority::from_code(code.into())),
            assignee: row.assignee.map(uint),
        };
        let payload = veil.shown(document, sequence, row)?;
        Ok(Event::new(written, seen, payload))
    }

    /// The same, with data that can be shown.
    pub(super) fn shown(&self, veil: &Veil) -> Result<Event, ReadError> {
        let event = self.event(veil)?;
        serde_json::from_slice::<&RawValue>(&event.payload)
            .map_err(|error| damaged(&format!("{}: an event's data", event.id()), error))?;
        Ok(event)
    }

    /// Whether retention has taken its data.
    pub(super) fn is_freed(&self) -> bool {
        self.row.payload.is_empty()
    }
}

/// The rows of these documents, in their order.
pub(super) fn placed(documents: &[LogDocument]) -> impl Iterator<Item = PlacedRow<'_>> {
    documents.iter().flat_map(|document| {
        let rows = document.placed_rows();
        rows.map(move |(position, sequence, row)| PlacedRow {
            document,
            position,
            sequence,
            row,
        })
    })
}
