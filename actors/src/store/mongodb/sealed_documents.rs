//! Documents of the log as the chain takes them: of each row all that never changes.

use mongodb::bson::Binary;
use serde::Deserialize;

use super::log::{ActorDocument, NO_EVENT};
use super::positions::number_of;
use crate::store::audit_chain::{NUMBERS, Sealed};
use colloquy_model::entity::Kind;
use colloquy_model::position::Position;

/// A document of the log; one that only takes a position has no rows and is no record.
#[derive(Debug, Deserialize)]
pub(super) struct SealedDocument {
    pub(super) position: i64,
    #[serde(default)]
    pub(super) kind: i32,
    #[serde(default)]
    pub(super) entity: i64,
    #[serde(default)]
    tail: i64,
    #[serde(default)]
    pub(super) tenant: i64,
    #[serde(default)]
    first: i64,
    #[serde(default)]
    rows: Option<Vec<SealedRow>>,
}

/// A row of it.
#[derive(Debug, Deserialize)]
pub(super) struct SealedRow {
    pub(super) kind: i32,
    at: i64,
    from_customer: i64,
    from_agent: i64,
    from_system: i64,
    last_message_at: Option<i64>,
    channel: Option<i32>,
    priority: Option<i32>,
    assignee: Option<i64>,
    sender: Option<i32>,
    /// The sequence of the message that it edits.
    pub(super) edits: Option<i64>,
    by: ActorDocument,
    pub(super) salt: Option<Binary>,
    pub(super) hash: Binary,
    /// Empty where it was not asked for.
    #[serde(default)]
    pub(super) payload: String,
}

/// A record of the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoggedRecord<'d> {
    pub(super) document: &'d SealedDocument,
    pub(super) position: i64,
    /// Its place in its document.
    place: i64,
    /// None of an answer that was kept of what changed nothing, and of a use of a link.
    pub(super) row: Option<&'d SealedRow>,
}

impl SealedDocument {
    /// The position of its last row.
    pub(super) fn last_position(&self) -> i64 {
        let rows = self.rows.as_ref().map_or(0, Vec::len);
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        self.position.saturating_add(rows.max(1) - 1)
    }

    /// Its records, in the order of their positions.
    pub(super) fn records(&self) -> impl Iterator<Item = LoggedRecord<'_>> {
        let record = |(place, row)| LoggedRecord {
            document: self,
            position: self.position.saturating_add(place),
            place,
            row,
        };
        let rows = self.rows.iter().flatten().map(Some);
        let alone = self.rows.as_ref().is_some_and(Vec::is_empty);
        let rows = rows.chain(alone.then_some(None));
        (0..).zip(rows).map(record)
    }
}

impl<'d> LoggedRecord<'d> {
    /// Its place among the rows of its entity; none where it has none.
    pub(super) fn sequence(&self) -> Option<i64> {
        self.row.map(|_| self.document.first + self.place)
    }

    /// All that never changes of it.
    pub(super) fn sealed(&self) -> Sealed<'d> {
        let SealedDocument {
            kind,
            entity,
            tail,
            tenant,
            ..
        } = *self.document;
        let number = Kind::from_code(kind.into())
            .map(|kind| number_of(kind, Position(self.position)).0)
            .filter(|number| *number > 0)
            .and_then(|number| i64::try_from(number).ok());
        let named = [
            Some(self.position),
            Some(kind.into()),
            Some(entity),
            Some(tail),
            self.sequence(),
            Some(self.row.map_or(NO_EVENT, |row| row.kind).into()),
            Some(tenant),
            number,
        ];
        let mut numbers = [None; NUMBERS.len()];
        let row = self.row.map(SealedRow::numbers);
        let all = named.into_iter().chain(row.into_iter().flatten());
        for (place, number) in numbers.iter_mut().zip(all) {
            *place = number;
        }
        let by = self.row.map(|row| &row.by);
        Sealed {
            numbers,
            address: by.and_then(|by| by.address.as_deref()),
            request: by.map_or("", |by| by.request.as_str()),
            hash: self.row.map_or(&[], |row| row.hash.bytes.as_slice()),
        }
    }
}

impl SealedRow {
    /// Its own numbers, from its instant on.
    fn numbers(&self) -> [Option<i64>; 11] {
        [
            Some(self.at),
            Some(self.from_customer),
            Some(self.from_agent),
            Some(self.from_system),
            self.last_message_at,
            self.channel.map(i64::from),
            self.priority.map(i64::from),
            self.assignee,
            self.sender.map(i64::from),
            self.by.key,
            self.by.user,
        ]
    }
}
