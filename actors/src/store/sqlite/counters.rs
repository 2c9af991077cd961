//! Counters: how many there are of what lists count, so that no total is counted when it is asked for.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::codec::{insert, int};
use crate::store::DeliveryState;
use colloquy_model::entity_number::EntityNumber;

/// Which field a counter counts by. The values are SQLite's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Counted {
    All = 0,
    Channel = 1,
    Priority = 2,
    Customer = 3,
    Assignee = 4,
    Records = 10,
    Documents = 11,
    /// Deliveries: the tenant is the endpoint's number, the value the kind of event, the status where
    /// they stand.
    Deliveries = 20,
}

/// What one counter counts: the key of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Counter {
    /// The account and mode, or the endpoint.
    pub(super) scope: i64,
    pub(super) field: Counted,
    /// The field's value, as SQLite has it.
    pub(super) value: i64,
    /// The code of the status; 0 for what has none.
    pub(super) status: i64,
}

impl Counter {
    /// Counts deliveries of an endpoint, by the code of the kind of event and where they stand.
    pub(super) fn of_delivery(endpoint: EntityNumber, kind: i64, state: DeliveryState) -> Self {
        Counter {
            scope: int(endpoint.0),
            field: Counted::Deliveries,
            value: kind,
            status: state as i64,
        }
    }
}

/// How the counters move with a transaction.
#[derive(Debug, Clone, Default)]
pub(super) struct CounterMoves(BTreeMap<Counter, i64>);

impl CounterMoves {
    /// Moves one counter by so much.
    pub(super) fn add(&mut self, counter: Counter, delta: i64) {
        *self.0.entry(counter).or_insert(0) += delta;
    }

    /// Writes the moves into the running transaction; none are left.
    pub(super) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for (counter, delta) in std::mem::take(&mut self.0) {
            if delta != 0 {
                insert!(connection, "INSERT INTO counters", {
                    scope: counter.scope,
                    field: counter.field as i64,
                    value: counter.value,
                    status: counter.status,
                    total: delta,
                }, "ON CONFLICT DO UPDATE SET total = total + excluded.total")?;
            }
        }
        Ok(())
    }
}
