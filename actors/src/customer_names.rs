//! The customers' names as conversations show them. Active conversations share one cell per
//! customer, set by the writer between the fsync and the reply; lists ask [`Names::renamed`] while
//! headers still hold an older copy. So a renamed customer is renamed in every answer that follows.

use colloquy_model::entity_number::EntityNumber;
use colloquy_model::sequence::Sequence;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

/// How long a name is held on to after every header has it: longer than any read transaction lives.
const HELD: Duration = Duration::from_secs(10);

/// A customer's name, shared by all that show it.
#[derive(Debug)]
pub struct CustomerName {
    now: ArcSwap<Naming>,
}

/// A name as of one revision.
#[derive(Debug, PartialEq, Eq)]
pub struct Naming {
    /// The name that the customer has as of this revision.
    pub name: Box<str>,
    /// The customer's revision that gave it: the newer one counts.
    pub revision: Sequence,
    /// A hash of the name, for entity tags: the same name has the same tag, whatever else was
    /// changed (FNV-1a).
    pub tag: u32,
}

impl Naming {
    fn new(name: &str, revision: Sequence) -> Self {
        let tag = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        Naming {
            name: name.into(),
            revision,
            tag,
        }
    }
}

impl CustomerName {
    /// A cell that holds this name as of this revision of the customer.
    #[must_use]
    pub fn new(name: &str, revision: Sequence) -> Self {
        CustomerName {
            now: ArcSwap::from_pointee(Naming::new(name, revision)),
        }
    }

    /// The name as it is now.
    #[must_use]
    pub fn now(&self) -> Arc<Naming> {
        self.now.load_full()
    }

    fn set(&self, name: &str, revision: Sequence) {
        self.now.rcu(|held| {
            if held.revision >= revision {
                Arc::clone(held)
            } else {
                Arc::new(Naming::new(name, revision))
            }
        });
    }
}

impl PartialEq for CustomerName {
    fn eq(&self, other: &Self) -> bool {
        self.now() == other.now()
    }
}
impl Eq for CustomerName {}

#[derive(Debug)]
struct Renamed {
    name: Box<str>,
    revision: Sequence,
}

#[derive(Debug, Default)]
struct Tables {
    cells: HashMap<EntityNumber, Weak<CustomerName>>,
    dead_cells_looked_for_at: usize,
    renamed: HashMap<EntityNumber, Renamed>,
    /// What every header holds since then, with its revision, oldest first: nothing is gone through
    /// to find what may go.
    copied: VecDeque<(Instant, EntityNumber, Sequence)>,
}

/// Cells and recent changes of customers' names.
#[derive(Debug, Default)]
pub struct Names {
    tables: Mutex<Tables>,
}

impl Names {
    /// The shared cell of a customer whose name was read as this.
    #[must_use]
    pub fn cell(
        &self,
        customer: EntityNumber,
        name: &str,
        revision: Sequence,
    ) -> Arc<CustomerName> {
        let mut tables = self.tables.lock();
        let cell = match tables.cells.get(&customer).and_then(Weak::upgrade) {
            Some(cell) => cell,
            None => {
                let cell = Arc::new(CustomerName::new(name, revision));
                tables.cells.insert(customer, Arc::downgrade(&cell));
                tables.forget_dead_cells();
                cell
            }
        };
        cell.set(name, revision);
        // The reading may be older than a change that came in since.
        if let Some(newer) = tables.renamed.get(&customer) {
            cell.set(&newer.name, newer.revision);
        }
        cell
    }

    /// The name that a list shows where a header holds `revision`; none where the header's is the
    /// newest.
    #[must_use]
    pub fn renamed(&self, customer: EntityNumber) -> Option<Box<str>> {
        let tables = self.tables.lock();
        if tables.renamed.is_empty() {
            None
        } else {
            tables
                .renamed
                .get(&customer)
                .map(|newer| newer.name.clone())
        }
    }

    /// Takes in a committed change.
    pub fn rename(&self, customer: EntityNumber, name: &str, revision: Sequence) {
        let mut tables = self.tables.lock();
        if let Some(cell) = tables.cells.get(&customer).and_then(Weak::upgrade) {
            cell.set(name, revision);
        }
        tables.forget_copied();
        tables.renamed.insert(
            customer,
            Renamed {
                name: name.into(),
                revision,
            },
        );
    }

    /// The customers whose names are held on to for lists, and the revisions that gave them, but for
    /// those that every header is known to hold.
    pub fn held(&self) -> Vec<(EntityNumber, Sequence)> {
        let tables = self.tables.lock();
        let names = tables.renamed.iter();
        let held = names.map(|(customer, held)| (*customer, held.revision));
        let is_copied = |name: &(EntityNumber, Sequence)| {
            let mut copied = tables.copied.iter();
            copied.any(|(_, customer, revision)| (*customer, *revision) == *name)
        };
        held.filter(|name| !is_copied(name)).collect()
    }

    /// Every header holds the name of this revision.
    pub fn copied(&self, customer: EntityNumber, revision: Sequence) {
        let mut tables = self.tables.lock();
        tables.forget_copied();
        tables
            .copied
            .push_back((Instant::now(), customer, revision));
    }
}

impl Tables {
    /// Lets go of names that every reader now finds in the headers, but not of newer ones.
    fn forget_copied(&mut self) {
        while let Some((_, customer, revision)) =
            self.copied.pop_front_if(|(at, ..)| at.elapsed() >= HELD)
        {
            if self
                .renamed
                .get(&customer)
                .is_some_and(|held| held.revision == revision)
            {
                self.renamed.remove(&customer);
            }
        }
    }

    fn forget_dead_cells(&mut self) {
        if self.cells.len() > 2 * self.dead_cells_looked_for_at + 1024 {
            self.cells.retain(|_, cell| cell.strong_count() > 0);
            self.dead_cells_looked_for_at = self.cells.len();
        }
    }
}
