//! Records what has no commit of its own, and lists what is recorded.

use std::sync::Arc;

use colloquy_model::answer::Answer;
use colloquy_model::caller::Caller;
use colloquy_model::commit::KeptAnswer;
use colloquy_model::idempotency::Reservation;
use colloquy_model::page::Page;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{AskError, Incarnation};

use super::act::AuditedAct;
use super::list::{self, AuditList};
use super::refusals::{Refusal, Refusals};
use crate::store::{ChainPage, ListFailure, ReadError, Store};

/// The way to the audit trail.
pub struct AuditTrail {
    store: Arc<dyn Store>,
    refusals: Arc<Refusals>,
}

impl AuditTrail {
    /// Of each account so many refusals a minute are recorded, and as many of those whose account
    /// nobody knows.
    pub(crate) fn new(store: Arc<dyn Store>, refusals_per_minute: u32) -> Self {
        AuditTrail {
            store,
            refusals: Arc::new(Refusals::new(refusals_per_minute)),
        }
    }

    /// Records an act of an operator that committed nothing, and keeps the answer to it, where it
    /// came with an idempotency key.
    ///
    /// # Errors
    /// [`AskError::Unknown`]: the act was done, and is not recorded, nor its answer kept.
    pub async fn done<E>(
        &self,
        caller: Caller,
        act: AuditedAct,
        (reservation, answer): (Option<Reservation>, Answer),
    ) -> Result<Answer, AskError<E>> {
        let mut commit = act.commit(caller, Timestamp::now());
        commit.answer = reservation.map(|reservation| KeptAnswer {
            reservation,
            done: answer.done,
            id: answer.id.clone(),
            etag: answer.etag.clone(),
            body: Some(answer.body.clone()),
        });
        let committed = self.store.commit(commit).await;
        committed.map(|()| answer).map_err(|_| AskError::Unknown)
    }

    /// Records a refusal, unless too many were recorded in the running minute. It does not wait for
    /// the disk: the refusal is answered meanwhile.
    pub fn refused(&self, refusal: Refusal) {
        let now = Timestamp::now();
        let Refusal {
            event,
            caller,
            mut details,
        } = refusal;
        let Some(left_out) = self.refusals.take(&caller, now) else {
            return;
        };
        if left_out > 0 {
            details.insert("left_out".to_owned(), left_out.into());
        }
        let trail = caller.tenant;
        let act = AuditedAct {
            event,
            target: None,
            details,
        };
        let caller = Caller {
            tenant: trail.account_wide(),
            ..caller
        };
        let refusals = Arc::clone(&self.refusals);
        let settle = Box::new(move |outcome: Result<(), _>| {
            if outcome.is_err() {
                refusals.lost(trail, left_out);
            }
        });
        self.store
            .submit(Incarnation::next(), act.commit(caller, now), settle);
    }

    /// Records of the chain behind this position, at most so many, and its end.
    ///
    /// # Errors
    /// The store is away.
    pub async fn chain(&self, position: Position, most: u32) -> Result<ChainPage, ReadError> {
        self.store.chain(position, most).await
    }

    /// A page of the audit trail.
    ///
    /// # Errors
    /// The cursor names no record of it, the store is away, or the list took too long.
    pub async fn list(&self, list: AuditList<'_>) -> Result<Page, ListFailure> {
        let shown = list.shown;
        let found = self.store.audit(list.into()).await?;
        Ok(list::page(&found, shown))
    }
}
