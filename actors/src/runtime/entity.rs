//! What an entity is to the runtime: a pure state machine that owns one thing. Knows no actor, no
//! clock and no store.

use std::fmt::{Debug, Display};
use std::hash::Hash;

/// A pure state machine that owns one thing.
///
/// None of its methods waits, reads a clock or touches a store; all of them may be called again
/// after a reload.
pub trait Entity: Sized + Send + 'static {
    /// The kind's name in metrics and logs, such as `conversation`.
    const KIND: &'static str;
    /// What an entity of this kind is found by.
    type Id: Copy + Eq + Hash + Ord + Send + Sync + Debug + Display + 'static;
    /// What it may be asked.
    type Command: Send + 'static;
    /// What it answers.
    type Reply: Send + 'static;
    /// Why it would not.
    type Refusal: Send + 'static;
    /// What must be looked up in the store before `decide` can judge a command.
    type Lookup: Send + 'static;
    /// What was found there.
    type Found: Send + 'static;
    /// What `apply` takes.
    type Change: Send + 'static;
    /// What the journal takes.
    type Commit: Send + 'static;
    /// A condition outside the entity that did not hold when the journal judged the commit.
    type Broken: Send + 'static;

    /// The entity as it is when nothing is stored under this id.
    fn vacant(id: Self::Id) -> Self;

    /// Whether nothing is stored under its id; a vacant entity is forgotten when nobody asks it any
    /// more.
    fn is_vacant(&self) -> bool;

    /// What must be looked up before `decide` is called with this command.
    fn lookup(&self, command: &Self::Command) -> Option<Self::Lookup>;

    /// Judges a command without changing anything.
    fn decide(
        &self,
        command: Self::Command,
        found: Option<Self::Found>,
        now_ms: i64,
    ) -> Decision<Self>;

    /// Takes a change that `decide` made; cannot fail.
    fn apply(&mut self, change: Self::Change);

    /// The refusal that a broken condition means to the caller.
    fn refused(broken: Self::Broken) -> Self::Refusal;

    /// The sequence of the last change that it has taken.
    fn revision(&self) -> u64;

    /// How much memory it holds; called after each change, so it must be cheap.
    fn bytes(&self) -> usize;
}

/// What an entity makes of a command.
pub enum Decision<E: Entity> {
    /// Nothing changes; the answer leaves behind everything submitted before.
    Answer(E::Reply),
    /// The command is refused; the refusal leaves behind everything submitted before.
    Refuse(E::Refusal),
    /// Nothing of the entity changes, but the journal must keep something (an idempotent answer).
    Keep {
        /// What the journal keeps.
        commit: E::Commit,
        /// Leaves when the commit is durable.
        reply: E::Reply,
    },
    /// The entity changes.
    Change {
        /// What `apply` takes.
        change: E::Change,
        /// What the journal takes.
        commit: E::Commit,
        /// Leaves when the commit is durable.
        reply: E::Reply,
        /// False when the commit carries conditions that may refuse it: the actor takes no next
        /// message until it is settled, and applies the change only then.
        pipelined: bool,
    },
}
