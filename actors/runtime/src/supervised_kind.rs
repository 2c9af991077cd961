//! All actors of one kind as operators see and steer them, whatever the kind: ids are texts, and no
//! type of an entity appears.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use super::ask_error::AskError;
use super::directory::{Directory, StillBusy};
use super::entity::Entity;
use super::journal::LoadError;
use super::overview::{Instance, InstanceQuery, Overview};
use super::policy::Policy;

/// Why an operator is shown no actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperatorError {
    /// Nothing is stored under this id, or it is the id of another kind.
    #[error("no such actor")]
    NotFound,
    /// It was not passivated: it had work all the time.
    #[error("the actor has been busy all the time")]
    Busy,
    /// It could not be loaded or looked up; nothing was done.
    #[error(transparent)]
    Failed(#[from] AskError<Infallible>),
}

impl From<StillBusy> for OperatorError {
    fn from(_: StillBusy) -> Self {
        Self::Busy
    }
}

impl From<LoadError> for OperatorError {
    fn from(error: LoadError) -> Self {
        Self::Failed(error.into())
    }
}

/// An instance that comes later.
pub type Found<'k> = Pin<Box<dyn Future<Output = Result<Instance, OperatorError>> + Send + 'k>>;

/// All actors of one kind, as operators see and steer them.
///
/// Each command gives the actor as it stands afterwards. Where there is nothing to do, nothing is
/// done, and that is no error.
pub trait SupervisedKind: Send + Sync {
    /// The kind's name, such as `conversation`.
    fn kind(&self) -> &'static str;

    /// Counts the actors of the kind and gathers their figures.
    fn overview(&self) -> Overview;

    /// The actors in memory that the query asks for.
    fn instances(&self, query: InstanceQuery) -> Vec<Instance>;

    /// One actor, in memory or stored. One that is loading is shown at once.
    ///
    /// # Errors
    /// There is no such actor, or the store does not answer.
    fn instance<'k>(&'k self, id: &'k str) -> Found<'k>;

    /// Lets an actor drop its state behind what is queued, and load it again. A backoff ends.
    ///
    /// # Errors
    /// There is no such actor, or the store does not answer.
    fn restart<'k>(&'k self, id: &'k str) -> Found<'k>;

    /// Takes an actor out of memory as soon as it holds no command. A drill stays ahead of it.
    ///
    /// # Errors
    /// There is no such actor, it is never idle, or the store does not answer.
    fn passivate<'k>(&'k self, id: &'k str) -> Found<'k>;

    /// Ends an actor's quarantine or backoff and forgets its crashes.
    ///
    /// # Errors
    /// There is no such actor, or the store does not answer.
    fn release<'k>(&'k self, id: &'k str) -> Found<'k>;

    /// Lets an actor crash on its next command; one that is not in memory is loaded for that.
    ///
    /// # Errors
    /// There is no such actor, or it can't be loaded.
    fn crash<'k>(&'k self, id: &'k str) -> Found<'k>;

    /// The policy in force; `None` where the kind is run by none.
    fn policy(&self) -> Option<Arc<Policy>>;

    /// Replaces the policy, for living actors too.
    fn set_policy(&self, policy: Policy);
}

impl<E: Entity> SupervisedKind for Directory<E>
where
    E::Id: FromStr,
{
    fn kind(&self) -> &'static str {
        E::KIND
    }

    fn overview(&self) -> Overview {
        Directory::overview(self)
    }

    fn instances(&self, query: InstanceQuery) -> Vec<Instance> {
        let found = Directory::instances(self, query).into_iter();
        found
            .map(|(id, seen)| Instance {
                id: id.to_string(),
                seen,
            })
            .collect()
    }

    fn instance<'k>(&'k self, id: &'k str) -> Found<'k> {
        Box::pin(async move {
            let known: E::Id = id.parse().map_err(|_| OperatorError::NotFound)?;
            let seen = self.look(known).await?.ok_or(OperatorError::NotFound)?;
            let id = known.to_string();
            Ok(Instance { id, seen })
        })
    }

    fn restart<'k>(&'k self, id: &'k str) -> Found<'k> {
        Box::pin(async move {
            let (known, _) = shown(self, id).await?;
            Directory::restart(self, known);
            Ok(shown(self, id).await?.1)
        })
    }

    fn passivate<'k>(&'k self, id: &'k str) -> Found<'k> {
        Box::pin(async move {
            let (known, _) = shown(self, id).await?;
            Directory::passivate(self, known).await?;
            Ok(shown(self, id).await?.1)
        })
    }

    fn release<'k>(&'k self, id: &'k str) -> Found<'k> {
        Box::pin(async move {
            let (known, _) = shown(self, id).await?;
            Directory::release(self, known);
            Ok(shown(self, id).await?.1)
        })
    }

    fn crash<'k>(&'k self, id: &'k str) -> Found<'k> {
        Box::pin(async move {
            let (known, _) = shown(self, id).await?;
            self.drill(known).await?;
            Ok(shown(self, id).await?.1)
        })
    }

    fn policy(&self) -> Option<Arc<Policy>> {
        Some(Directory::policy(self))
    }

    fn set_policy(&self, policy: Policy) {
        drop(Directory::set_policy(self, policy));
    }
}

/// An entity's id out of its text, and the entity as it stands.
async fn shown<E: Entity>(
    directory: &Directory<E>,
    text: &str,
) -> Result<(E::Id, Instance), OperatorError>
where
    E::Id: FromStr,
{
    let id: E::Id = text.parse().map_err(|_| OperatorError::NotFound)?;
    let seen = directory.find(id).await?.ok_or(OperatorError::NotFound)?;
    let id_shown = id.to_string();
    Ok((id, Instance { id: id_shown, seen }))
}
