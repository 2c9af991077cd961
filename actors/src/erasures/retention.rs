//! Conversations that were closed longer ago than their account keeps them: they are erased, a page of
//! each account at a time. Nothing of this is kept: a walk along the closed ones begins anew at a start.
//! On the embedded store the files of each go before it, so that of one that is gone not even a file's
//! name is left; but a conversation that is reopened meanwhile stays, with all of its files.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{PAGE, erase_all};
use crate::accounts::Identity;
use crate::attachments::Attachments;
use crate::conversation::{Conversations, EraseConversation, FileEraser};
use crate::store::{ErasableConversation, ErasableQuery, Erasing, ReadError, Store};
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::time::Timestamp;
use colloquy_runtime::BoxFuture;

/// A walk that has come to its end begins anew so long afterwards.
const WALK_EVERY: Duration = Duration::from_secs(60);

/// How long the files of a conversation may hold it up.
const FILES_WITHIN: Duration = Duration::from_secs(2);

/// Erases the files of the conversations of a page, until one takes too long: where they are kept is
/// away then, and the others go by what their conversations leave to be done.
struct FilesFirst {
    attachments: Arc<Attachments>,
    go: AtomicBool,
}

impl fmt::Debug for FilesFirst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesFirst").finish_non_exhaustive()
    }
}

impl FileEraser for FilesFirst {
    fn erase_files(self: Arc<Self>, tenant: Tenant, conversation: EntityNumber) -> BoxFuture<()> {
        Box::pin(async move { self.erase(tenant, conversation).await })
    }
}

impl FilesFirst {
    async fn erase(&self, tenant: Tenant, conversation: EntityNumber) {
        if !self.go.load(Ordering::Relaxed) {
            return;
        }
        let going = self.attachments.erase_all_of(tenant, conversation);
        let gone = tokio::time::timeout(FILES_WITHIN, going).await;
        self.go.fetch_and(gone.unwrap_or(false), Ordering::Relaxed);
    }
}

/// How far the walk of each account and mode has come.
pub(crate) struct Retention {
    identity: Arc<Identity>,
    conversations: Arc<Conversations>,
    attachments: Arc<Attachments>,
    walks: HashMap<Tenant, Walk>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Walk {
    /// The last conversation that was looked at.
    behind: Option<EntityNumber>,
    /// When the next page is looked at.
    next_at: Timestamp,
}

impl Retention {
    pub(crate) fn new(
        identity: Arc<Identity>,
        conversations: Arc<Conversations>,
        attachments: Arc<Attachments>,
    ) -> Self {
        Retention {
            identity,
            conversations,
            attachments,
            walks: HashMap::new(),
        }
    }

    /// Looks at the next page of each account; whether more is to be looked at soon.
    pub(crate) async fn step(&mut self, store: &dyn Store) -> bool {
        let mut goes_on = false;
        for (account, days) in self.identity.retaining() {
            for tenant in [Mode::Live, Mode::Test].map(|mode| Tenant::of(account, mode)) {
                let now = Timestamp::now();
                let walk = self.walks.get(&tenant).copied().unwrap_or_default();
                // Later than this it can't be: the clock was set back.
                if walk.next_at > now && walk.next_at <= now + WALK_EVERY {
                    continue;
                }
                let before = now - Duration::from_secs(u64::from(days) * 24 * 60 * 60);
                // From the beginning, where the store does not answer.
                let page = self.page(store, tenant, (walk.behind, before)).await;
                let behind = page.unwrap_or_default();
                goes_on |= behind.is_some();
                let next_at = behind.map_or(now + WALK_EVERY, |_| now);
                self.walks.insert(tenant, Walk { behind, next_at });
            }
        }
        goes_on
    }

    /// Who erases the files of a page's conversations before these go. Where several processes serve the
    /// store nobody does: another one could have a conversation reopened between the two.
    fn files_first(&self, store: &dyn Store) -> Option<Arc<dyn FileEraser>> {
        if store.is_shared() {
            return None;
        }
        Some(Arc::new(FilesFirst {
            attachments: Arc::clone(&self.attachments),
            go: AtomicBool::new(true),
        }))
    }

    /// Erases what is due on a page; gives its end, none where the walk is at its end.
    async fn page(
        &self,
        store: &dyn Store,
        tenant: Tenant,
        (behind, before): (Option<EntityNumber>, Timestamp),
    ) -> Result<Option<EntityNumber>, ReadError> {
        let query = ErasableQuery {
            tenant,
            erasing: Erasing::Closed,
            behind: behind.unwrap_or(EntityNumber::ZERO),
            limit: PAGE,
        };
        let page = store.erasable(query).await?;
        // Oldest first: what began later was closed later.
        let is_whole = u32::try_from(page.len()).is_ok_and(|length| length == PAGE);
        let old = |last: &&ErasableConversation| last.id.created_at() < before;
        let last = page.last().filter(old).filter(|_| is_whole);
        let end = last.map(|last| last.id.number());
        let is_due =
            |one: &&ErasableConversation| one.closed_at.is_some_and(|closed_at| closed_at < before);
        let files = self.files_first(store);
        let due = page.iter().filter(is_due).map(|one| {
            let erase = EraseConversation {
                caller: Caller {
                    tenant,
                    actor: Actor::server("a conversation is kept no longer"),
                },
                erasure: EntityNumber::ZERO,
                closed_before: Some(before),
                files: files.clone(),
            };
            (one.id, erase)
        });
        let due: Vec<_> = due.collect();
        if !self.identity.is_forgotten(tenant) {
            // What fails is found by the next walk.
            let _ = erase_all(&self.conversations, due.into_iter()).await;
        }
        Ok(end)
    }
}
