//! How much work comparing may be, counted in steps, not in time: the same texts with the same budget
//! give the same result on every machine.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The steps that all comparisons for one answer may take together.
///
/// A step is one pair of lines or words looked at, a few nanoseconds. Whoever exhausts the budget
/// still gets a correct result, found at once: more lines count as changed than need be.
#[derive(Debug)]
pub struct StepBudget {
    taken: Cell<u64>,
    max: u64,
    cancelled: Option<Arc<AtomicBool>>,
}

impl StepBudget {
    /// Makes a budget of so many steps.
    #[must_use]
    pub fn new(max: u64) -> Self {
        StepBudget {
            taken: Cell::new(0),
            max,
            cancelled: None,
        }
    }

    /// A budget of `max` steps that is exhausted as soon as somebody sets `cancelled`.
    #[must_use]
    pub fn cancelled_by(max: u64, cancelled: Arc<AtomicBool>) -> Self {
        StepBudget {
            cancelled: Some(cancelled),
            ..StepBudget::new(max)
        }
    }

    /// How many steps were taken; a comparison takes up to some ten a line more than it may.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken.get()
    }

    pub(crate) fn take(&self, steps: u64) {
        self.taken.set(self.taken.get().saturating_add(steps));
    }

    /// Whether a comparison is to settle as soon as it can.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.taken.get() >= self.max
            || self
                .cancelled
                .as_ref()
                .is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}
