//! The bin: what has been in it for too long is erased for good, without anybody asking. Nothing is
//! kept here: the store has the times in an index, so a crash only delays; the document itself
//! decides, with what it knows then.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::access::Requester;
use super::messages::{CommandMeta, PurgeDocument};
use super::service::Documents;
use crate::store::OwnedDocument;
use colloquy_model::caller::{Actor, Caller};
use colloquy_model::id::DocumentId;
use colloquy_model::time::Timestamp;
use colloquy_runtime::AskError;
use colloquy_runtime::threads::BackgroundThread;

/// Documents erased before the store is asked again.
const PAGE: u32 = 64;
/// Between two looks into the bin, at most and at least.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Documents {
    /// Starts the thread that erases what has been in the bin for as long as it is kept.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn empty_bin(documents: &Arc<Self>, keep: Duration) -> io::Result<BackgroundThread> {
        let documents = Arc::clone(documents);
        // A bin that keeps for seconds is looked into often.
        let pause = (keep / 8).clamp(LOOK_AGAIN, LOOK_EVERY);
        BackgroundThread::start("bin", move || {
            let documents = Arc::clone(&documents);
            async move {
                loop {
                    let well = empty(&documents, keep).await;
                    // Nobody may be there yet to carry it out.
                    tokio::time::sleep(if well { pause } else { LOOK_AGAIN }).await;
                }
            }
        })
    }
}

/// Erases the documents that are overdue. Gives whether each of them has answered.
async fn empty(documents: &Documents, keep: Duration) -> bool {
    let before = Timestamp::now() - keep;
    // Those that stay keep nobody else's in the bin: they are the first of the next page.
    let (mut staying, mut answered) = (0_u32, true);
    loop {
        let most = PAGE.saturating_add(staying);
        let Ok(overdue) = documents.store.overdue_documents(before, most).await else {
            return false;
        };
        let first = usize::try_from(staying).unwrap_or(usize::MAX);
        if overdue.len() <= first {
            return answered;
        }
        for OwnedDocument { subject, tenant } in overdue.into_iter().skip(first) {
            let id = DocumentId::from_parts(subject.number, subject.tail);
            let caller = Caller {
                tenant,
                actor: Actor::server("the bin is emptied"),
            };
            let meta = CommandMeta::new(caller, Requester::Account(None));
            let purge = PurgeDocument {
                binned_before: before,
            };
            match documents.ask(id, meta, purge).await {
                Ok(_) => {}
                // One of an account that was forgotten, or one that can't be read.
                Err(AskError::Refused(_) | AskError::Unreadable) => staying += 1,
                Err(
                    AskError::Unavailable { .. }
                    | AskError::Crashed
                    | AskError::TimedOut
                    | AskError::Unknown,
                ) => {
                    staying += 1;
                    answered = false;
                }
            }
        }
    }
}
