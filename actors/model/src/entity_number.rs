//! The number of an entity among all of a store: the part of an identifier by which it is found.

use std::fmt;

/// The number of an entity's identifier: 60 bits, unique in one store, in order of creation.
///
/// It is how the store finds an entity without an index of its own; what else identifiers name, a
/// version or a share link, has its number of the same row. `Id::number` gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityNumber(pub u64);

impl EntityNumber {
    /// Below every entity's number: what is read behind it begins with the first of all, and where
    /// a place must be filled it stands for no entity.
    pub const ZERO: EntityNumber = EntityNumber(0);
}

impl fmt::Display for EntityNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
