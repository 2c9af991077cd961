//! Work that commits leave behind, such as taking conversations from a user who is no more. Kept by
//! the store until it is done, so a crash only delays it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::attachments::Attachments;
use crate::conversation::Conversations;
use crate::conversation::messages::UnassignUser;
use crate::store::{ConversationQuery, Facets, Store};
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::commit::Chore;
use colloquy_model::id::UserId;
use colloquy_model::page::{Order, Paging, Start};
use colloquy_runtime::AskError;
use colloquy_runtime::threads::BackgroundThread;

/// Looked after even if nobody calls: a chore may have failed because the store was away.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long the thread waits before it tries again what failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts the thread that does chores.
///
/// # Errors
/// The system starts no further thread.
pub(crate) fn start(
    store: Arc<dyn Store>,
    (conversations, attachments): (Arc<Conversations>, Arc<Attachments>),
    called: Arc<Notify>,
) -> io::Result<BackgroundThread> {
    BackgroundThread::start_with_connections("chores", move || {
        let (store, called) = (Arc::clone(&store), Arc::clone(&called));
        let (conversations, attachments) = (Arc::clone(&conversations), Arc::clone(&attachments));
        async move {
            loop {
                do_all(&*store, &conversations, &attachments).await;
                // Either it is called, or it looks by itself.
                let _ = tokio::time::timeout(LOOK_EVERY, called.notified()).await;
            }
        }
    })
}

async fn do_all(store: &dyn Store, conversations: &Conversations, attachments: &Attachments) {
    // Other chores wait behind one whose files a cloud holds: where it is away that is asked once.
    let mut files_go = true;
    for chore in store.chores().await.unwrap_or_default() {
        let done = match chore {
            Chore::Unassign(tenant, user) => {
                let account = tenant.account_number();
                let mut done = true;
                for mode in [Mode::Live, Mode::Test] {
                    done &= unassign(store, conversations, Tenant::of(account, mode), user).await;
                }
                done
            }
            Chore::EraseAttachment(tenant, attachment) => {
                files_go = files_go && attachments.erase(tenant, attachment).await;
                files_go
            }
        };
        if done {
            store.chore_done(chore);
        }
    }
}

/// Takes every conversation of this tenant from the user; whether none is left.
async fn unassign(
    store: &dyn Store,
    conversations: &Conversations,
    tenant: Tenant,
    user: UserId,
) -> bool {
    let facets = Facets {
        assignee: Some(user),
        ..Facets::default()
    };
    // Those that can't be read stay in the list, before what follows: what is done leaves it.
    let mut unreadable = 0;
    loop {
        let paging = Paging {
            limit: 100,
            start: Start::Offset(unreadable),
            order: Order::Asc,
        };
        let query = ConversationQuery {
            tenant,
            facets,
            by_update: false,
            paging,
        };
        let Ok(page) = store.conversations(query).await else {
            return false;
        };
        if page.items.is_empty() {
            return true;
        }
        for header in page.items {
            let caller = Caller {
                tenant,
                actor: Actor::server("a user was deleted"),
            };
            let asked = conversations
                .ask(header.id, CommandMeta::new(caller), UnassignUser { user })
                .await;
            match asked {
                Ok(()) => {}
                Err(AskError::Unreadable) => unreadable += 1,
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    unreadable = 0;
                    break;
                }
            }
        }
    }
}
