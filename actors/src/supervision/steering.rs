//! Actors as operators see and steer them: those of this node together with those of all others.

use colloquy_model::id::NodeId;
use colloquy_runtime::{AskError, OperatorError, SupervisedKind};

use super::commands::Steering;
use super::peers::{ActorName, Question, Replies, Reply};
use super::settings::Supervision;
use super::views::{ActorKindView, ActorStateView, InstanceView, InstancesWanted};

impl Supervision {
    /// The figures of every kind, added up over all nodes that answer within a few seconds.
    pub async fn figures(&self) -> Vec<ActorKindView> {
        let elsewhere = self.figures_elsewhere().await;
        let own = self.kinds().iter().map(|kind| kind.overview().into());
        let mut all: Vec<ActorKindView> = own.collect();
        for other in elsewhere {
            if let Some(same) = all.iter_mut().find(|own| own.kind == other.kind) {
                same.add(other);
            }
        }
        all
    }

    /// The same of one kind.
    pub async fn figures_of(&self, kind: &dyn SupervisedKind) -> ActorKindView {
        let elsewhere = self.figures_elsewhere().await.into_iter();
        let mut figures = ActorKindView::from(kind.overview());
        elsewhere
            .filter(|other| other.kind == kind.kind())
            .for_each(|other| figures.add(other));
        figures
    }

    async fn figures_elsewhere(&self) -> Vec<ActorKindView> {
        let replies = self.ask(Question::Figures).await.given.into_iter();
        let figures = replies.filter_map(|reply| match reply {
            Reply::Figures(figures) => Some(figures),
            Reply::Instances(_) | Reply::Instance(_) | Reply::Busy | Reply::Failed => None,
        });
        figures.flatten().collect()
    }

    /// Actors of this kind that are in memory at any node that answers within a few seconds.
    pub async fn instances(
        &self,
        kind: &dyn SupervisedKind,
        wanted: InstancesWanted,
    ) -> Vec<InstanceView> {
        let question = Question::Instances(kind.kind().to_owned(), wanted);
        let replies = self.ask(question).await;
        let own = kind.instances(wanted.into()).into_iter();
        let mut all: Vec<_> = own.map(|one| InstanceView::at(one, self.node())).collect();
        for reply in replies.given {
            if let Reply::Instances(others) = reply {
                all.extend(others);
            }
        }
        wanted.choose(all)
    }

    /// One actor: as it is at the node that has it in memory; of several nodes that have it, where
    /// it fares worst.
    ///
    /// # Errors
    /// There is no such actor, or the store does not answer.
    pub async fn instance(
        &self,
        kind: &dyn SupervisedKind,
        id: &str,
    ) -> Result<InstanceView, OperatorError> {
        let replies = self.ask(Question::Instance(name_of(kind, id))).await;
        let here = kind.instance(id).await;
        let here = here.map(|found| InstanceView::at(found, self.node()));
        worst(here, replies.given)
    }

    /// Has an actor do something at every node that has it in memory; where none has, at this one.
    /// Gives it as [`Supervision::instance`] does.
    ///
    /// # Errors
    /// There is no such actor, it has been busy all the time, or it is not known whether every node
    /// has done it.
    pub async fn steer(
        &self,
        kind: &dyn SupervisedKind,
        id: &str,
        steering: Steering,
    ) -> Result<InstanceView, OperatorError> {
        let Replies {
            given,
            is_incomplete,
        } = self.ask(Question::Steer(name_of(kind, id), steering)).await;
        let is_unknown = given.iter().any(|reply| matches!(reply, Reply::Failed));
        if is_incomplete || is_unknown {
            return Err(OperatorError::Failed(AskError::Unknown));
        }
        let is_elsewhere = given
            .iter()
            .any(|reply| matches!(reply, Reply::Instance(Some(_)) | Reply::Busy));
        let here = match kind.instance(id).await {
            Ok(found) if is_elsewhere && is_passive(&found) => Ok(found),
            Err(OperatorError::NotFound) => Err(OperatorError::NotFound),
            Ok(_) | Err(_) => steering.command(kind, id).await,
        };
        let here = here.map(|found| InstanceView::at(found, self.node()));
        if given.iter().any(|reply| matches!(reply, Reply::Busy)) {
            return Err(OperatorError::Busy);
        }
        worst(here, given)
    }

    async fn ask(&self, question: Question) -> Replies {
        match self.peers() {
            Some(peers) => peers.ask(question).await,
            None => Replies::default(),
        }
    }

    /// This node, where there may be others.
    fn node(&self) -> Option<NodeId> {
        self.peers().map(|peers| peers.node())
    }
}

fn name_of(kind: &dyn SupervisedKind, id: &str) -> ActorName {
    ActorName {
        kind: kind.kind().to_owned(),
        id: id.to_owned(),
    }
}

fn is_passive(instance: &colloquy_runtime::Instance) -> bool {
    ActorStateView::from(instance.seen.life.state()) == ActorStateView::Passive
}

/// Of the same actor at several nodes the one that fares worst.
fn worst(
    here: Result<InstanceView, OperatorError>,
    elsewhere: Vec<Reply>,
) -> Result<InstanceView, OperatorError> {
    let others = elsewhere.into_iter().filter_map(|reply| match reply {
        Reply::Instance(found) => found.map(|found| *found),
        Reply::Figures(_) | Reply::Instances(_) | Reply::Busy | Reply::Failed => None,
    });
    let other = others.max_by_key(InstanceView::need);
    match (here, other) {
        (Ok(here), Some(other)) if other.need() > here.need() => Ok(other),
        (Err(OperatorError::NotFound), Some(other)) => Ok(other),
        (here, _) => here,
    }
}
