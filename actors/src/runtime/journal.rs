//! What the runtime needs of a store: loads, lookups and a first-in-first-out way for commits.
//! Knows no store.

use std::fmt::{self, Display};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use super::entity::Entity;

/// A future that can be sent and owns what it needs.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Called once with the outcome of a commit or barrier, on the journal's thread; must not block it.
pub type Settle<B> = Box<dyn FnOnce(Result<(), CommitFailure<B>>) + Send>;

static INCARNATIONS: AtomicU64 = AtomicU64::new(1);

/// One load of an entity: process-wide unique, so that what an older copy had submitted can be told
/// apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// The next one; never zero.
    pub fn next() -> Self {
        Self(INCARNATIONS.fetch_add(1, Ordering::Relaxed))
    }
}

impl Display for Incarnation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, out)
    }
}

/// Why nothing came out of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The store does not answer.
    #[error("the store is away")]
    Away,
    /// Too much else is being read: its turn did not come in time.
    #[error("too much is being read")]
    Busy,
    /// What the store holds can't be read; that was told where it was found.
    #[error("what is stored can't be read")]
    Unreadable,
}

/// Why a commit, or what a barrier waited for, did not become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFailure<B> {
    /// The entity had moved on under another copy of it: nothing was done.
    Conflict,
    /// A condition outside the entity did not hold: nothing was done, later commits are not
    /// touched.
    Broken(B),
    /// The store is away or its disk is full: nothing was done.
    Away,
    /// The outcome is not known.
    Unknown,
}

/// Where entities come from and commits go.
pub trait Journal<E: Entity>: Send + Sync + 'static {
    /// Reads an entity, beside the commits; `None` when nothing is stored under the id.
    fn load(&self, id: E::Id) -> BoxFuture<Result<Option<E>, LoadError>>;

    /// Reads an entity behind everything submitted before, whatever incarnation; lifts the ban on
    /// the entity that a failed commit left.
    fn reload(&self, id: E::Id) -> BoxFuture<Result<Option<E>, LoadError>>;

    /// Looks up what a command must know.
    fn find(&self, lookup: E::Lookup) -> BoxFuture<Result<E::Found, LoadError>>;

    /// Takes a commit; first in, first out per entity. After a failed commit (all but `Broken`) of
    /// an incarnation the journal refuses everything later of the same incarnation.
    fn submit(&self, incarnation: Incarnation, commit: E::Commit, settle: Settle<E::Broken>);

    /// Settles when all that was submitted before is durable; fails if something of this
    /// incarnation failed.
    fn barrier(&self, id: E::Id, incarnation: Incarnation, settle: Settle<E::Broken>);
}
