//! When each endpoint's queue has to be looked at again, one instant each.

use std::collections::{BTreeSet, HashMap};

use colloquy_model::entity_number::EntityNumber;
use colloquy_model::time::Timestamp;

/// When one endpoint's queue has to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WakeTime {
    at: Timestamp,
    endpoint: EntityNumber,
}

/// The instants of all endpoints.
#[derive(Debug, Default)]
pub(super) struct WakeTimes {
    by_time: BTreeSet<WakeTime>,
    by_endpoint: HashMap<EntityNumber, Timestamp>,
}

impl WakeTimes {
    /// The earliest instant of all.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|time| time.at)
    }

    /// Sets an endpoint's instant in place of the one before; none: it need not be looked at.
    pub(super) fn set(&mut self, endpoint: EntityNumber, at: Option<Timestamp>) {
        let before = match at {
            Some(at) => self.by_endpoint.insert(endpoint, at),
            None => self.by_endpoint.remove(&endpoint),
        };
        if let Some(at) = before {
            self.by_time.remove(&WakeTime { at, endpoint });
        }
        self.by_time.extend(at.map(|at| WakeTime { at, endpoint }));
    }

    /// Takes out the next endpoint whose instant has come.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<EntityNumber> {
        let due = self
            .by_time
            .first()
            .copied()
            .filter(|time| time.at <= now)?;
        self.by_time.remove(&due);
        self.by_endpoint.remove(&due.endpoint);
        Some(due.endpoint)
    }
}
