//! Work that commits leave behind, such as taking conversations from a user who is no more. Kept by
//! the store until it is done, so a crash only delays it.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::attachments::Attachments;
use crate::conversation::Conversations;
use crate::conversation::messages::UnassignUser;
use crate::erasures::{Erasures, Finishing, Retention};
use crate::store::{ConversationQuery, Facets, Store};
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::commit::Chore;
use colloquy_model::id::UserId;
use colloquy_model::page::{Order, Paging, Start};
use colloquy_runtime::threads::BackgroundThread;
use colloquy_runtime::{AskError, SupervisedKind};

/// Looked after even if nobody calls: a chore may have failed because the store was away.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How long the thread waits before it tries again what failed.
const PAUSE: Duration = Duration::from_secs(1);
/// So many files that do not go one after the other say that none goes now.
const FILES_TRIED: usize = 3;

/// Whom chores are done with.
#[derive(Clone)]
pub(crate) struct Rooms {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) attachments: Arc<Attachments>,
    pub(crate) erasures: Arc<Erasures>,
}

impl Rooms {
    /// How operators see the actors of conversations, of documents, attachments and erasures.
    pub(crate) fn supervised(
        &self,
        documents: Arc<dyn SupervisedKind>,
    ) -> Vec<Arc<dyn SupervisedKind>> {
        vec![
            self.conversations.directory.clone(),
            documents,
            self.attachments.supervised(),
            self.erasures.supervised(),
        ]
    }
}

/// When chores are looked for again unless somebody calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Something waits for what the store does by itself, or there is more of it.
    Soon,
    /// What could be done is done.
    Late,
}

/// Starts the thread that does chores.
///
/// # Errors
/// The system starts no further thread.
pub(crate) fn start(rooms: Rooms, called: Arc<Notify>) -> io::Result<BackgroundThread> {
    BackgroundThread::start_with_connections("chores", move || {
        let (rooms, called) = (rooms.clone(), Arc::clone(&called));
        async move {
            let identity = Arc::clone(&rooms.erasures.records.identity);
            let mut retention = Retention::new(
                identity,
                Arc::clone(&rooms.conversations),
                Arc::clone(&rooms.attachments),
            );
            let mut finishing = Finishing::default();
            loop {
                let mut next = do_all(&rooms, &mut finishing).await;
                // Behind the chores, which only one node is told of.
                if retention.step(&*rooms.store).await {
                    next = Next::Soon;
                }
                let pause = match next {
                    Next::Soon => PAUSE,
                    Next::Late => LOOK_EVERY,
                };
                // Either it is called, or it looks by itself.
                let _ = tokio::time::timeout(pause, called.notified()).await;
            }
        }
    })
}

async fn do_all(rooms: &Rooms, finishing: &mut Finishing) -> Next {
    let Rooms {
        store,
        conversations,
        attachments,
        erasures,
    } = rooms;
    let (store, conversations) = (&**store, &**conversations);
    // Other chores wait behind one whose files a cloud holds: where it is away that is asked a few times,
    // and one file that stays keeps no other.
    let mut files_failed = 0;
    let mut left = false;
    let (mut running, mut unfinished) = (Vec::new(), HashSet::new());
    for chore in store.chores().await.unwrap_or_default() {
        let done = match chore {
            // What it has left can be read by nobody, so that nothing is left to be done.
            Chore::Unassign(tenant, _) | Chore::EraseCustomer(tenant, _)
                if erasures.records.identity.is_forgotten(tenant) =>
            {
                true
            }
            Chore::Unassign(tenant, user) => {
                let done = unassign_all(store, conversations, (tenant, user)).await;
                left |= !done;
                done
            }
            Chore::EraseAttachment(..) if files_failed >= FILES_TRIED => false,
            Chore::EraseAttachment(tenant, attachment) => {
                let is_gone = attachments.erase(tenant, attachment).await;
                files_failed = if is_gone { 0 } else { files_failed + 1 };
                is_gone
            }
            Chore::EraseCustomer(tenant, erasure) => {
                let is_away = erasures.take_away(&eraser(tenant), erasure).await.is_ok();
                running.push(((tenant, erasure), is_away));
                false
            }
            Chore::FinishConversation(tenant, erased) => {
                finishing.begin(store, attachments, (tenant, erased)).await;
                unfinished.insert(erased.erasure);
                false
            }
        };
        if done {
            store.chore_done(chore);
        }
    }
    // What fails is tried again soon.
    let _ = finishing.finish(store).await;
    left |= !running.is_empty() || !unfinished.is_empty();
    let next = if left { Next::Soon } else { Next::Late };
    finishing.keep_only(&running.iter().map(|((_, erasure), _)| *erasure).collect());
    for (which @ (tenant, erasure), is_away) in running {
        // Conversations that have gone just now have left chores that were not read above.
        if is_away
            && !unfinished.contains(&erasure.number())
            && finishing.has_left_the_store(store, which).await
            && finishing.has_left_the_index(conversations, which).await
            && erasures.finish(eraser(tenant), erasure).await
        {
            store.chore_done(Chore::EraseCustomer(tenant, erasure));
        }
    }
    next
}

fn eraser(tenant: Tenant) -> Caller {
    Caller {
        tenant,
        actor: Actor::server("a customer is erased"),
    }
}

/// Takes every conversation of this account from the user; whether none is left.
async fn unassign_all(
    store: &dyn Store,
    conversations: &Conversations,
    (account, user): (Tenant, UserId),
) -> bool {
    let mut done = true;
    for mode in [Mode::Live, Mode::Test] {
        let tenant = Tenant::of(account.account_number(), mode);
        done &= unassign(store, conversations, tenant, user).await;
    }
    done
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
    // Those that can't be read, or do not answer, stay in the list, before what follows: what is done
    // leaves it.
    let (mut staying, mut answered) = (0, true);
    loop {
        let paging = Paging {
            limit: 100,
            start: Start::Offset(staying),
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
            return answered;
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
                Err(AskError::Unreadable) => staying += 1,
                Err(_) => {
                    staying += 1;
                    answered = false;
                }
            }
        }
    }
}
