//! Counters: how many there are of what lists count, so that no total is counted when it is asked
//! for. A counter is one document for each slot of a node; `last` is the position up to which the
//! commits of the slot's nodes are in it, so that a commit moves it once, however often it is carried over.

use std::collections::{BTreeMap, HashMap};

use mongodb::bson::{Document, doc};

use super::header::{DocumentHeaderDocument, HeaderDocument, StateDocument};
use super::log::LogDocument;
use super::schema::COUNTERS;
use super::statements::Statements;
use colloquy_model::position::Position;

/// Which field a counter counts by. The values are the database's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counted {
    All = 0,
    Channel = 1,
    Priority = 2,
    Customer = 3,
    Assignee = 4,
    Records = 10,
    Documents = 11,
}

/// What one counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Counter {
    pub(super) tenant: i64,
    pub(super) field: Counted,
    pub(super) value: i64,
    /// The code of the status; 0 for what has none.
    pub(super) status: i32,
}

impl Counter {
    /// The `_id` of the document of it that this slot's node moves.
    fn id(self, slot: i32) -> String {
        let Counter {
            tenant,
            field,
            value,
            status,
        } = self;
        format!("{tenant}.{}.{value}.{status}.{slot}", field as i64)
    }

    /// Which documents it is made of, whoever wrote them and whatever the status.
    pub(super) fn filter(tenant: i64, field: Counted, value: i64) -> Document {
        doc! {"tenant": tenant, "field": field as i32, "value": value}
    }
}

/// How the counters of a slot move with a batch, by the commits in the order of their positions.
#[derive(Debug)]
pub(super) struct CounterMoves<'m> {
    slot: i32,
    moves: BTreeMap<Counter, Moves>,
    moved: &'m CountersMoved,
}

/// Up to which position some counters were moved, by the `_id`s of their documents.
pub(super) type CountersMoved = HashMap<String, Position>;

/// How one counter moves: by so much in all, the first and the last position that moves it.
#[derive(Debug, Clone, Copy)]
struct Moves {
    delta: i64,
    first: Position,
    last: Position,
}

impl<'m> CounterMoves<'m> {
    /// No move yet. Commits that a counter has in it already, as `moved` says, don't move it.
    pub(super) fn new(slot: i32, moved: &'m CountersMoved) -> Self {
        CounterMoves {
            slot,
            moves: BTreeMap::new(),
            moved,
        }
    }

    fn add(&mut self, counter: Counter, delta: i64, position: Position) {
        let is_in_it = |moved: &Position| *moved >= position;
        if !self.moved.is_empty() && self.moved.get(&counter.id(self.slot)).is_some_and(is_in_it) {
            return;
        }
        let moves = self.moves.entry(counter).or_insert(Moves {
            delta: 0,
            first: position,
            last: position,
        });
        moves.delta += delta;
        moves.last = position;
    }

    /// Notes how a commit moves them.
    pub(super) fn note(&mut self, document: &LogDocument) {
        let position = Position(document.position);
        let mut of = |field, value, delta| {
            let counter = Counter {
                tenant: document.tenant,
                field,
                value,
                status: 0,
            };
            self.add(counter, delta, position);
        };
        match &document.header {
            Some(HeaderDocument::Record { new: true, .. }) => {
                of(Counted::Records, i64::from(document.kind), 1);
            }
            Some(HeaderDocument::RecordGone | HeaderDocument::RecordErased) => {
                of(Counted::Records, i64::from(document.kind), -1);
            }
            Some(HeaderDocument::Document(header)) => {
                let DocumentHeaderDocument {
                    was_deleted,
                    deleted_at,
                    ..
                } = &**header;
                of(Counted::Documents, i64::from(deleted_at.is_some()), 1);
                if let Some(was_deleted) = was_deleted {
                    of(Counted::Documents, i64::from(*was_deleted), -1);
                }
            }
            Some(HeaderDocument::DocumentGone { was_deleted }) => {
                of(Counted::Documents, i64::from(*was_deleted), -1);
            }
            Some(HeaderDocument::Conversation { before, after }) => {
                if let Some(before) = before {
                    self.conversation(document.tenant, before, -1, position);
                }
                self.conversation(document.tenant, after, 1, position);
            }
            Some(HeaderDocument::ConversationGone { before }) => {
                self.conversation(document.tenant, before, -1, position);
            }
            Some(HeaderDocument::Record { new: false, .. } | HeaderDocument::LinkUsed { .. })
            | None => {}
        }
    }

    fn conversation(&mut self, tenant: i64, state: &StateDocument, delta: i64, position: Position) {
        let mut count = |field, value| {
            let counter = Counter {
                tenant,
                field,
                value,
                status: state.status,
            };
            self.add(counter, delta, position);
        };
        count(Counted::All, 0);
        count(Counted::Channel, state.channel.into());
        count(Counted::Priority, state.priority.into());
        count(Counted::Customer, state.customer);
        if let Some(user) = state.assignee {
            count(Counted::Assignee, user);
        }
    }

    /// The `_id`s of the documents that move.
    pub(super) fn ids(&self) -> Vec<String> {
        let counters = self.moves.keys();
        counters.map(|counter| counter.id(self.slot)).collect()
    }

    /// The statements that move the counters, unless they were moved meanwhile.
    pub(super) fn write(self, statements: &mut Statements) {
        for (counter, Moves { delta, first, last }) in self.moves {
            let Counter {
                tenant,
                field,
                value,
                status,
            } = counter;
            let behind = doc! {"last": {"$lt": first.0}};
            let change = doc! {
                "$inc": {"total": delta},
                "$set": {
                    "last": last.0, "tenant": tenant, "field": field as i32, "value": value,
                    "status": status,
                },
            };
            statements.put(COUNTERS, counter.id(self.slot), behind, change);
        }
    }
}
