//! What a search found: the wanted part of it, best first.

use std::sync::Arc;

use colloquy_model::entity_number::EntityNumber;

/// Something that fits a query, and how well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The number under which it was put in.
    pub number: EntityNumber,
    /// How well: the lower, the better. Comparable within one answer only.
    pub rank: f64,
}

/// What a search found: the wanted part of it, and how much there is.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The part that was asked for, best first; of equal ones the newest first.
    pub hits: Vec<Hit>,
    /// How many fit the query, on this part of the list or not.
    pub total: u64,
}

/// The part of what fits that is wanted: so many behind so many.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// How many at most.
    pub limit: usize,
    /// How many are left out first.
    pub offset: usize,
}

impl Found {
    /// What is found where a query has no word.
    pub(super) fn nothing() -> Self {
        Found {
            hits: Vec::new(),
            total: 0,
        }
    }

    /// The wanted part of all that fits.
    pub(super) fn of(mut hits: Vec<Hit>, window: Window) -> Self {
        let Window { limit, offset } = window;
        let total = hits.len();
        let better = |a: &Hit, b: &Hit| a.rank.total_cmp(&b.rank).then(b.number.cmp(&a.number));
        let last = offset.saturating_add(limit).min(total);
        if last < total {
            hits.select_nth_unstable_by(last, better);
            hits.truncate(last);
        }
        hits.sort_unstable_by(better);
        hits.drain(..offset.min(hits.len()));
        Found {
            hits,
            total: u64::try_from(total).unwrap_or(u64::MAX),
        }
    }

    /// What stands on this part, by number.
    #[must_use]
    pub fn numbers(&self) -> Arc<[EntityNumber]> {
        self.hits.iter().map(|hit| hit.number).collect()
    }
}
