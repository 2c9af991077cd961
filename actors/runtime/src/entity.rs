//! The trait of an entity: a pure state machine that owns one thing. Knows no actor, no clock and
//! no store.

use std::fmt::{Debug, Display};
use std::hash::Hash;

use colloquy_model::time::Timestamp;

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
    /// A question to the store that must be answered before a command can be decided.
    type Lookup: Send + 'static;
    /// The answer to a lookup.
    type Found: Send + 'static;
    /// A change of the state in memory, made by [`Command::decide`] and taken by `apply`.
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
    fn revision(&self) -> u64;

    /// How much memory the state holds, in bytes. Called after each change, so it must be cheap.
    fn bytes(&self) -> usize;
}

/// A command to an entity. Its type says what the entity replies, so that nobody has to tell
/// replies apart.
///
/// Neither method waits, reads a clock or touches a store; both may be called again after a reload.
pub trait Command<E: Entity>: Send + 'static {
    /// The reply to the command, if it is done.
    type Reply: Send + 'static;

    /// What must be looked up before the command can be decided, if anything.
    fn lookup(&self, _entity: &E) -> Option<E::Lookup> {
        None
    }

    /// Judges the command without changing anything. `now` is the wall clock's time.
    fn decide(
        self,
        entity: &E,
        found: Option<E::Found>,
        now: Timestamp,
    ) -> Decision<E, Self::Reply>;
}

/// What is decided on a command with a reply of type `R`.
pub enum Decision<E: Entity, R> {
    /// Nothing changes. The answer is sent when everything submitted before is durable.
    Answer(R),
    /// The command is refused. The refusal is sent when everything submitted before is durable.
    Refuse(E::Refusal),
    /// Nothing of the entity changes, but the journal must keep something, such as an idempotent
    /// answer.
    Keep {
        /// The commit that keeps it.
        commit: E::Commit,
        /// The answer, sent when the commit is durable.
        reply: R,
    },
    /// The entity changes.
    Change {
        /// The change of the state in memory.
        change: E::Change,
        /// The change of what is stored.
        commit: E::Commit,
        /// The answer, sent when the commit is durable.
        reply: R,
        /// True when the change is applied at once and the actor goes on. False when the commit
        /// carries conditions that may refuse it: the change is applied when the commit is durable,
        /// and the actor takes no message until then.
        pipelined: bool,
    },
}

impl<E: Entity, R> Decision<E, R> {
    /// The same decision with a reply that is made of this one.
    pub fn map<S>(self, make: impl FnOnce(R) -> S) -> Decision<E, S> {
        match self {
            Decision::Answer(reply) => Decision::Answer(make(reply)),
            Decision::Refuse(refusal) => Decision::Refuse(refusal),
            Decision::Keep { commit, reply } => Decision::Keep {
                commit,
                reply: make(reply),
            },
            Decision::Change {
                change,
                commit,
                reply,
                pipelined,
            } => Decision::Change {
                change,
                commit,
                reply: make(reply),
                pipelined,
            },
        }
    }
}
