//! The bin: what has been in it for too long is erased for good, without anybody asking. Nothing is kept here: the store has
//! the times in an index, so a crash only delays; the document itself decides, with what it knows then.

use std::sync::Arc;
use std::time::Duration;

use super::access::Who;
use super::documents::Documents;
use super::messages::Request;
use crate::background::Background;
use crate::caller::{By, Caller};
use crate::id::DocumentId;
use crate::time::Timestamp;

/// Erased before the store is asked again.
const PAGE: u32 = 64;
/// Between two looks into the bin, at most and at least.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Starts the thread; none where there is none to be had: the next start erases what is due then.
pub(super) fn start(documents: Arc<Documents>, keep: Duration) -> Option<Background> {
    Background::start("colloquy-bin", async move {
        // A bin that keeps for seconds is looked into often.
        let pause = (keep / 8).clamp(LOOK_AGAIN, LOOK_EVERY);
        loop {
            empty(&documents, keep).await;
            tokio::time::sleep(pause).await;
        }
    })
}

/// Erases what is overdue, until nothing is or something can't be erased now.
async fn empty(documents: &Documents, keep: Duration) {
    let before = Timestamp::now().0.saturating_sub(i64::try_from(keep.as_millis()).unwrap_or(i64::MAX));
    loop {
        let Ok(overdue) = documents.store.overdue_documents(before, PAGE).await else { return };
        if overdue.is_empty() {
            return;
        }
        for (subject, scope) in overdue {
            let id = DocumentId::from_parts(subject.number, subject.tail);
            let caller = Caller { scope, by: By::server("the bin is emptied") };
            let by = (caller, Who::Account(None));
            if documents.change(id, by, None, None, Request::Expire(before)).await.is_err() {
                return;
            }
        }
    }
}
