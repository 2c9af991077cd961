//! The trait of a command to an entity, what it may look up, and what is decided on it.

use colloquy_model::time::Timestamp;

use super::entity::Entity;
use super::journal::{BoxFuture, LoadError};

/// A command to an entity. Its type says what the entity replies, so that nobody has to tell
/// replies apart.
///
/// Neither method waits, reads a clock or touches a store; both may be called again after a reload.
pub trait Command<E: Entity>: Send + 'static {
    /// The reply to the command, if it is done.
    type Reply: Send + 'static;
    /// What the command may have to look up before it can be decided; [`NoLookup`] for nothing.
    type Lookup: Lookup<E>;

    /// The request that it is of, as traces know it; none where nobody will ask for it.
    fn request_id(&self) -> Option<&str> {
        None
    }

    /// What must be looked up before the command can be decided, if anything.
    fn lookup(&self, _entity: &E) -> Option<Self::Lookup> {
        None
    }

    /// Judges the command without changing anything. `found` is what the lookup found, over the
    /// same state; `now` is the wall clock's time.
    fn decide(
        self,
        entity: &E,
        found: Option<<Self::Lookup as Lookup<E>>::Found>,
        now: Timestamp,
    ) -> Decision<E, Self::Reply>;
}

/// A question that must be answered before a command can be decided; the entity waits for it.
pub trait Lookup<E: Entity>: Send + 'static {
    /// What was looked up, as the command is handed it when it decides.
    type Found: Send + 'static;

    /// Answers the question, off the entity's thread where that takes long.
    fn find(self, source: E::Source) -> BoxFuture<Result<Self::Found, LoadError>>;
}

/// The lookup of a command that never needs one.
#[derive(Debug)]
pub enum NoLookup {}

impl<E: Entity> Lookup<E> for NoLookup {
    type Found = NoLookup;

    fn find(self, _: E::Source) -> BoxFuture<Result<NoLookup, LoadError>> {
        match self {}
    }
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
        /// The commit that keeps the reply under its idempotency key.
        commit: E::Commit,
        /// The answer, sent when the commit is durable.
        reply: R,
    },
    /// The command changes the entity, by a commit that is to be made durable.
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
