//! A document as the runtime runs it. Only order: compute, decide, commit, apply.

use std::sync::Arc;

use super::context::{DecisionContext, NewIds};
use super::messages::{CommandMeta, DocumentError};
use super::precompute::{self, Precompute, Task};
use super::rules::{self, Asked, ComputedRequest, Decided, DocumentRequest};
use super::state::{Change, Changed, Document, Live};
use crate::accounts::Identity;
use crate::customer_names::Names;
use crate::journal::Kept;
use crate::store::{Store, Stored};
use colloquy_model::answer::Invalid;
use colloquy_model::bounds::Bounds;
use colloquy_model::commit::{Commit, ConstraintViolation};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::Subject;
use colloquy_model::id::DocumentId;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{BoxFuture, Command, Decision, Entity, LoadError, Lookup, NoLookup};

impl Entity for Document {
    const KIND: &'static str = "document";
    type Id = DocumentId;
    type Refusal = DocumentError;
    type Source = Arc<dyn Store>;
    type Change = Changed;
    type Commit = Commit;
    type Violation = ConstraintViolation;

    fn vacant(id: DocumentId) -> Self {
        Document { id, live: None }
    }

    fn is_vacant(&self) -> bool {
        self.live.is_none()
    }

    fn apply(&mut self, Changed(change): Changed) {
        match change {
            Change::Live(live, added) => {
                // The state before goes first: then nobody else holds the versions, and one more is
                // put behind them in place.
                self.live = None;
                let live = self.live.insert(*live);
                if let Some(added) = added {
                    Arc::make_mut(&mut live.versions).push(added);
                }
            }
            Change::Gone => self.live = None,
            Change::Used(share) => {
                if let Some(share) = self.live.as_mut().and_then(|live| live.share_mut(share)) {
                    share.terms.count_use();
                }
            }
        }
    }

    fn refused(broken: ConstraintViolation) -> DocumentError {
        let reason = match broken {
            ConstraintViolation::NoUser => "must be a valid user ID",
            ConstraintViolation::NoCustomer
            | ConstraintViolation::NoDocument
            | ConstraintViolation::NoAttachment
            | ConstraintViolation::HasConversations
            | ConstraintViolation::HasDocuments
            | ConstraintViolation::Taken(_)
            | ConstraintViolation::Full(_) => "is not acceptable",
        };
        DocumentError::Invalid(Invalid::new("user_id", reason))
    }

    fn revision(&self) -> Sequence {
        self.live
            .as_ref()
            .map_or(Sequence::ZERO, |live| live.sequence)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.live.as_ref().map_or(0, Live::bytes)
    }
}

impl<T: Task> Lookup<Document> for Precompute<T> {
    type Found = T::Result;

    fn find(self, store: Arc<dyn Store>) -> BoxFuture<Result<T::Result, LoadError>> {
        precompute::run(store, self)
    }
}

/// A request with all that a document needs to decide on it.
#[derive(Debug)]
pub struct DocumentCommand<R> {
    /// Who asks, and under which conditions.
    pub(super) meta: CommandMeta,
    /// What is asked.
    pub(super) request: R,
    /// The view of the account's users.
    pub(super) users: Arc<Identity>,
}

/// A command for which something must be computed before it can be decided.
#[derive(Debug)]
pub struct ComputedCommand<R>(pub(super) DocumentCommand<R>);

impl<R: DocumentRequest> Command<Document> for DocumentCommand<R> {
    type Reply = R::Reply;
    type Lookup = NoLookup;

    fn request_id(&self) -> Option<&str> {
        Some(&self.meta.caller.actor.request_id)
    }

    fn decide(
        self,
        document: &Document,
        _: Option<NoLookup>,
        now: Timestamp,
    ) -> Decision<Document, R::Reply> {
        let DocumentCommand {
            meta,
            request,
            users,
        } = self;
        let asked = Asked { meta, users };
        decision(rules::decide(
            document,
            request,
            asked,
            decision_context(now),
        ))
    }
}

impl<R: ComputedRequest> Command<Document> for ComputedCommand<R> {
    type Reply = R::Reply;
    type Lookup = Precompute<R::Task>;

    fn request_id(&self) -> Option<&str> {
        Some(&self.0.meta.caller.actor.request_id)
    }

    fn lookup(&self, document: &Document) -> Option<Precompute<R::Task>> {
        rules::precompute(document, &self.0.request, &self.0.meta)
    }

    fn decide(
        self,
        document: &Document,
        computed: Option<<R::Task as Task>::Result>,
        now: Timestamp,
    ) -> Decision<Document, R::Reply> {
        let DocumentCommand {
            meta,
            request,
            users,
        } = self.0;
        let asked = Asked { meta, users };
        let context = decision_context(now);
        decision(rules::decide_computed(
            document, request, asked, context, computed,
        ))
    }
}

fn decision_context(now: Timestamp) -> DecisionContext {
    DecisionContext {
        now,
        ids: NewIds::RANDOM,
        bounds: Bounds::get(),
    }
}

fn decision<R>(decided: Decided<R>) -> Decision<Document, R> {
    decided.map_or_else(Decision::Refuse, Decision::from)
}

impl Kept for Document {
    fn subject(id: DocumentId) -> Subject {
        Document::subject(id)
    }

    fn restore(id: DocumentId, stored: Stored, _: &Names) -> Result<Self, Unreadable> {
        match stored {
            Stored::Document(stored) => Ok(Document {
                id,
                live: Some(Live::restored(id, *stored)?),
            }),
            Stored::Conversation(_) | Stored::Record(_) => {
                Err(Unreadable::found(id, "it is no document"))
            }
        }
    }
}
