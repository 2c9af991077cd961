//! How much changed: two numbers.

use serde::Serialize;
use utoipa::ToSchema;

use super::compared::Compared;
use crate::budget::StepBudget;

/// How many lines came and went; a changed line counts as both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct Stat {
    /// Lines that only the new text has.
    pub added: usize,
    /// Lines that only the old text has.
    pub removed: usize,
}

/// Counts what changed, as `git diff --numstat` does.
#[must_use]
pub fn stat(old: &str, new: &str, budget: &StepBudget) -> Stat {
    let compared = Compared::new(old, new, 1, budget);
    Stat {
        added: compared
            .changes()
            .iter()
            .map(|change| change.after.len())
            .sum(),
        removed: compared
            .changes()
            .iter()
            .map(|change| change.before.len())
            .sum(),
    }
}
