//! A document as the runtime runs it, and how its room is entered. Only order: look up, decide,
//! commit, apply.

use std::sync::Arc;

use super::messages::{DocumentCommand, DocumentError, Reply};
use super::precompute::{self, Precompute, PrecomputeResult};
use super::rules::{self, NewIds, Surroundings};
use super::state::{Change, Changed, Document, Live};
use crate::customer_names::Names;
use crate::journal::Kept;
use crate::store::{Store, Stored};
use colloquy_model::answer::Invalid;
use colloquy_model::bounds::Bounds;
use colloquy_model::commit::{Commit, ConstraintViolation};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::Subject;
use colloquy_model::id::DocumentId;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{BoxFuture, Command, Decision, Entity, LoadError};

impl Entity for Document {
    const KIND: &'static str = "document";
    type Id = DocumentId;
    type Refusal = DocumentError;
    type Lookup = Precompute;
    type Found = PrecomputeResult;
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
            | ConstraintViolation::HasConversations
            | ConstraintViolation::HasDocuments
            | ConstraintViolation::Taken(_)
            | ConstraintViolation::Full(_) => "is not acceptable",
        };
        DocumentError::Invalid(Invalid::new("user_id", reason))
    }

    fn revision(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.sequence)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.live.as_ref().map_or(0, Live::bytes)
    }
}

impl Command<Document> for DocumentCommand {
    type Reply = Reply;

    fn lookup(&self, document: &Document) -> Option<Precompute> {
        rules::precompute(&*document.target(self)?, self)
    }

    fn decide(
        self,
        document: &Document,
        found: Option<PrecomputeResult>,
        now: Timestamp,
    ) -> Decision<Document, Reply> {
        let Some(live) = document.target(&self) else {
            return Decision::Refuse(DocumentError::NotFound);
        };
        let surroundings = Surroundings {
            now,
            ids: NewIds::RANDOM,
            bounds: Bounds::get(),
        };
        match rules::decide(&live, self, surroundings, found) {
            Ok(outcome) => outcome.into(),
            Err(refusal) => Decision::Refuse(refusal),
        }
    }
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

    fn find(
        store: Arc<dyn Store>,
        job: Precompute,
    ) -> BoxFuture<Result<PrecomputeResult, LoadError>> {
        precompute::run(store, job)
    }
}
