//! Between the runtime and the store: how each kind of entity is found there.

use std::sync::Arc;

use crate::customer_names::Names;
use crate::store::{EntityRead, Store, Stored};
use colloquy_model::commit::{Commit, ConstraintViolation};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::Subject;
use colloquy_model::sequence::Sequence;
use colloquy_runtime::{BoxFuture, Entity, Incarnation, Journal, LoadError, Settle};

/// An entity that the store keeps.
pub trait Kept:
    Entity<Commit = Commit, Violation = ConstraintViolation, Source = Arc<dyn Store>>
{
    /// The entity as the store names it.
    fn subject(id: Self::Id) -> Subject;

    /// What was committed.
    ///
    /// # Errors
    /// It can't be read as this kind: nothing is taken in its place.
    fn restore(id: Self::Id, stored: Stored, names: &Names) -> Result<Self, Unreadable>;
}

/// The store as one kind's journal.
#[derive(Clone)]
pub struct StoreJournal {
    store: Arc<dyn Store>,
    names: Arc<Names>,
}

impl StoreJournal {
    /// Entities come from here and commits go there.
    pub fn new(store: Arc<dyn Store>, names: Arc<Names>) -> Self {
        StoreJournal { store, names }
    }

    fn restored<E: Kept>(
        &self,
        id: E::Id,
        loading: BoxFuture<Result<Option<Stored>, LoadError>>,
    ) -> BoxFuture<Result<Option<E>, LoadError>> {
        let names = Arc::clone(&self.names);
        Box::pin(async move {
            match loading.await? {
                Some(stored) => E::restore(id, stored, &names)
                    .map(Some)
                    .map_err(|_| LoadError::Unreadable),
                None => Ok(None),
            }
        })
    }
}

impl<E: Kept> Journal<E> for StoreJournal {
    fn load(&self, id: E::Id) -> BoxFuture<Result<Option<E>, LoadError>> {
        self.restored(id, self.store.load(E::subject(id)))
    }

    fn reload(&self, id: E::Id) -> BoxFuture<Result<Option<E>, LoadError>> {
        self.restored(id, self.store.reload(E::subject(id)))
    }

    fn source(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    fn submit(
        &self,
        incarnation: Incarnation,
        commit: Commit,
        settle: Settle<ConstraintViolation>,
    ) {
        self.store.submit(incarnation, commit, settle);
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn confirm(
        &self,
        id: E::Id,
        incarnation: Incarnation,
        revision: Sequence,
        settle: Settle<ConstraintViolation>,
    ) {
        let read = EntityRead {
            subject: E::subject(id),
            incarnation,
            sequence: revision,
        };
        self.store.confirm(read, settle);
    }

    fn barrier(&self, id: E::Id, incarnation: Incarnation, settle: Settle<ConstraintViolation>) {
        self.store.barrier(E::subject(id), incarnation, settle);
    }
}
