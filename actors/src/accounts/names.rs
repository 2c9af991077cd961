//! The customers' names as active conversations see them: one cell per customer, shared by its conversations, set by
//! the writer between the fsync and the reply. So a renamed customer is renamed in every answer that follows.

use std::sync::Arc;

use arc_swap::ArcSwap;

/// A customer's name and how often the customer was changed.
#[derive(Debug)]
pub struct CustomerName {
    now: ArcSwap<(Box<str>, u64)>,
}

impl CustomerName {
    /// A cell with this name.
    #[must_use]
    pub fn new(name: &str, revision: u64) -> Self {
        CustomerName { now: ArcSwap::from_pointee((name.into(), revision)) }
    }

    /// The name as it is now, and its revision.
    #[must_use]
    pub fn now(&self) -> Arc<(Box<str>, u64)> {
        self.now.load_full()
    }

    /// Takes in a newer name; an older one is ignored.
    pub fn set(&self, name: &str, revision: u64) {
        self.now.rcu(|held| if held.1 >= revision { Arc::clone(held) } else { Arc::new((name.into(), revision)) });
    }
}

impl PartialEq for CustomerName {
    fn eq(&self, other: &Self) -> bool {
        self.now() == other.now()
    }
}
impl Eq for CustomerName {}
