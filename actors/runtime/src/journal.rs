//! The store as the runtime sees it: loads, lookups and a first-in-first-out queue of commits.
//! Knows no store.

use std::fmt::{self, Display};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use super::entity::Entity;
use colloquy_model::sequence::Sequence;

/// A future that can be sent and owns what it needs.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A callback for the outcome of a commit or barrier. It is called once, on the journal's thread,
/// and must not block it.
pub type Settle<V> = Box<dyn FnOnce(Result<(), CommitFailure<V>>) + Send>;

static INCARNATIONS: AtomicU64 = AtomicU64::new(1);

/// The number of one load of an entity. It is unique in the process, so that commits of an older
/// copy can be told from those of the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// A number that has not been given before; never zero.
    pub fn next() -> Self {
        Self(INCARNATIONS.fetch_add(1, Ordering::Relaxed))
    }
}

impl Display for Incarnation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, out)
    }
}

/// Why the store gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The store does not answer.
    #[error("the store is away")]
    Unavailable,
    /// Too much else is being read, so that the read did not start in time.
    #[error("too much is being read")]
    Busy,
    /// What is stored can't be read; whoever found that has logged it.
    #[error("what is stored can't be read")]
    Unreadable,
}

/// Why a commit, or what a barrier waited for, did not become durable.
///
/// `V` is the condition outside the entity that a commit may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFailure<V> {
    /// Another copy of the entity had committed meanwhile: nothing was done.
    Conflict,
    /// A condition outside the entity did not hold: nothing was done, and later commits of the same
    /// incarnation are not affected.
    Violated(V),
    /// The store does not answer or its disk is full: nothing was done.
    Unavailable,
    /// Nobody knows whether the commit became durable.
    Unknown,
}

/// The store of one kind of entity.
pub trait Journal<E: Entity>: Send + Sync + 'static {
    /// Reads an entity, without waiting for commits; `None` when nothing is stored under the id.
    fn load(&self, id: E::Id) -> BoxFuture<Result<Option<E>, LoadError>>;

    /// Reads an entity after everything that was submitted before, of whatever incarnation, and
    /// lifts the refusal of commits that a failed one left.
    fn reload(&self, id: E::Id) -> BoxFuture<Result<Option<E>, LoadError>>;

    /// Where the lookups of commands are answered.
    fn source(&self) -> E::Source;

    /// Takes a commit; those of one entity are judged in the order of submission. After a commit of
    /// an incarnation has failed (other than by [`CommitFailure::Violated`]) everything submitted
    /// later by that incarnation is refused.
    fn submit(&self, incarnation: Incarnation, commit: E::Commit, settle: Settle<E::Violation>);

    /// Whether others commit to the same store: then an answer is confirmed before it is given.
    fn is_shared(&self) -> bool;

    /// The same as [`Journal::barrier`], and a conflict where somebody else has committed behind
    /// this revision, which the entity had when it was read.
    fn confirm(
        &self,
        id: E::Id,
        incarnation: Incarnation,
        revision: Sequence,
        settle: Settle<E::Violation>,
    );

    /// Settles when everything that was submitted before is durable; fails if a commit of this
    /// incarnation has failed.
    fn barrier(&self, id: E::Id, incarnation: Incarnation, settle: Settle<E::Violation>);
}
