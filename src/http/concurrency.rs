//! How much one caller may have in the making at once: the next one waits, behind its own and
//! nobody else's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::budget::BudgetOwner;
use super::problem::{Outcome, Problem};

/// The longest that a request waits for those before it.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The requests of each caller that are under way.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimit {
    each: usize,
    /// What whoever has waited for too long is told.
    refusal: &'static str,
    by_owner: Mutex<HashMap<BudgetOwner, Arc<Semaphore>>>,
}

/// A request that is under way; dropped, the next one may begin.
#[derive(Debug)]
pub(crate) struct ConcurrencyPermit {
    limit: Arc<ConcurrencyLimit>,
    owner: BudgetOwner,
    permit: Option<OwnedSemaphorePermit>,
}

impl ConcurrencyLimit {
    /// So many at once for each caller, who is told this where it has waited for too long.
    pub(crate) fn new(each: usize, refusal: &'static str) -> Arc<Self> {
        Arc::new(ConcurrencyLimit {
            each,
            refusal,
            by_owner: Mutex::default(),
        })
    }

    /// Waits until it may begin; not for ever.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        owner: BudgetOwner,
    ) -> Result<ConcurrencyPermit, Problem> {
        // Whatever ends the waiting, the entry that it made goes with this.
        let mut entered = ConcurrencyPermit {
            limit: Arc::clone(self),
            owner,
            permit: None,
        };
        let semaphore =
            Arc::clone(self.by_owner.lock().entry(owner).or_insert_with(|| {
                Arc::new(Semaphore::new(self.each.min(Semaphore::MAX_PERMITS)))
            }));
        entered.permit = tokio::time::timeout(WAIT_MAX, semaphore.acquire_owned())
            .await
            .ok()
            .and_then(Result::ok);
        if entered.permit.is_none() {
            return Err(Problem::unavailable(self.refusal, Outcome::None, 1));
        }
        Ok(entered)
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        self.permit.take();
        let mut by_owner = self.limit.by_owner.lock();
        // Nobody else waits or is under way: those hold it too.
        if by_owner
            .get(&self.owner)
            .is_some_and(|semaphore| Arc::strong_count(semaphore) == 1)
        {
            by_owner.remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use futures_util::FutureExt;

    use super::*;

    #[actix_web::test]
    async fn each_caller_waits_for_its_own_and_leaves_nothing_behind() {
        let limit = ConcurrencyLimit::new(2, "too many");
        let (mine, other) = (BudgetOwner::Account(1), BudgetOwner::Account(2));
        let first = limit.enter(mine).await.unwrap();
        let second = limit.enter(mine).await.unwrap();
        assert!(limit.enter(mine).now_or_never().is_none());
        drop(limit.enter(other).await.unwrap());
        let mut third = Box::pin(limit.enter(mine));
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        drop(third.await.unwrap());
        drop(second);
        assert!(limit.by_owner.lock().is_empty());
    }
}
