//! Work that commits leave behind, such as taking conversations from a user who is no more. Kept by the store until it
//! is done, so a crash only delays it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::caller::{By, Caller, Mode, Scope};
use crate::conversation::Conversations;
use crate::conversation::messages::Request;
use crate::id::UserId;
use crate::page::{Order, Paging, Start};
use crate::store::{Chore, ConversationQuery, Facets, Store};

/// Looked after even if nobody calls: a chore may have failed because the store was away.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// After a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The thread that does chores. Dropped, it finishes the step that it is in.
pub(crate) struct Chores {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Chores {
    /// Starts it; none where no thread can be had: the next start does what is left then.
    pub(crate) fn start(store: Arc<dyn Store>, conversations: Arc<Conversations>, called: Arc<Notify>) -> Option<Self> {
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
        let work = async move {
            loop {
                do_all(&*store, &conversations).await;
                // Either it is called, or it looks by itself.
                let _ = tokio::time::timeout(LOOK_EVERY, called.notified()).await;
            }
        };
        let thread = std::thread::Builder::new().name("colloquy-chores".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = work => {}
                }
            });
        });
        Some(Chores { stop: Some(stop), thread: Some(thread.ok()?) })
    }
}

impl Drop for Chores {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic in there was reported there.
            let _ = thread.join();
        }
    }
}

async fn do_all(store: &dyn Store, conversations: &Conversations) {
    for chore in store.chores().await.unwrap_or_default() {
        let Chore::Unassign(scope, user) = chore;
        let account = u32::try_from(scope.number() / 4).unwrap_or(0);
        let mut done = true;
        for mode in [Mode::Live, Mode::Test] {
            done &= unassign(store, conversations, Scope::of(account, mode), user).await;
        }
        if done {
            store.chore_done(chore);
        }
    }
}

/// Takes every conversation of this scope from the user; whether none is left.
async fn unassign(store: &dyn Store, conversations: &Conversations, scope: Scope, user: UserId) -> bool {
    let facets = Facets { assignee: Some(user), ..Facets::default() };
    let paging = Paging { limit: 100, start: Start::Offset(0), order: Order::Asc };
    loop {
        let query = ConversationQuery { scope, facets, by_update: false, paging };
        let Ok(page) = store.conversations(query).await else { return false };
        if page.items.is_empty() {
            return true;
        }
        for header in page.items {
            let caller = Caller { scope, by: By::server("a user was deleted") };
            let asked = conversations.ask(header.id, caller, None, None, Request::Unassign(user)).await;
            if asked.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
