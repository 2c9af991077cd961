//! The trait of an entity: a pure state machine that owns one thing. Knows no actor, no clock and
//! no store.

use colloquy_model::sequence::Sequence;
use std::fmt::{Debug, Display};
use std::hash::Hash;

/// A pure state machine that owns one thing.
///
/// None of its methods waits, reads a clock or touches a store; all of them may be called again
/// after a reload.
pub trait Entity: Sized + Send + 'static {
    /// The kind's name in metrics and logs, such as `conversation`.
    const KIND: &'static str;
    /// The id under which an entity is found.
    type Id: Copy + Eq + Hash + Ord + Send + Sync + Debug + Display + 'static;
    /// Why it refused a command; nothing was changed.
    type Refusal: Send + 'static;
    /// Where the lookups of its commands are answered, such as the store.
    type Source: Send + 'static;
    /// A change of the state in memory, made by [`Command::decide`](super::Command::decide) and taken by `apply`.
    type Change: Send + 'static;
    /// A change of what is stored, taken by the journal.
    type Commit: Send + 'static;
    /// A condition outside the entity that did not hold when the journal judged a commit.
    type Violation: Send + 'static;

    /// The entity as it is when nothing is stored under this id.
    fn vacant(id: Self::Id) -> Self;

    /// Whether nothing is stored under its id. A vacant entity leaves the directory when nobody
    /// asks it any more.
    fn is_vacant(&self) -> bool;

    /// Applies a change that a command decided; cannot fail.
    fn apply(&mut self, change: Self::Change);

    /// The refusal that a broken condition means to the caller.
    fn refused(violation: Self::Violation) -> Self::Refusal;

    /// The sequence number of the last change that was applied.
    fn revision(&self) -> Sequence;

    /// How much memory the state holds, in bytes. Called after each change, so it must be cheap.
    fn bytes(&self) -> usize;
}
