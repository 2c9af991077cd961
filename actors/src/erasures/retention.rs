//! Conversations that were closed longer ago than their account keeps them: they are erased, a page of
//! each account at a time. Nothing of this is kept: a walk along the closed ones begins anew at a start.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{PAGE, erase_all};
use crate::accounts::Identity;
use crate::conversation::{Conversations, EraseConversation};
use crate::store::{ConversationHeader, ConversationQuery, Facets, ReadError, Store};
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::conversation::Status;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::page::{Cursor, Order, Paging, Start};
use colloquy_model::time::Timestamp;

/// A walk that has come to its end begins anew so long afterwards.
const WALK_EVERY: Duration = Duration::from_secs(60);

/// How far the walk of each account and mode has come.
pub(crate) struct Retention {
    identity: Arc<Identity>,
    conversations: Arc<Conversations>,
    walks: HashMap<Tenant, Walk>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Walk {
    /// The last conversation that was looked at.
    behind: Option<Cursor>,
    /// When the next page is looked at.
    next_at: Timestamp,
}

impl Retention {
    pub(crate) fn new(identity: Arc<Identity>, conversations: Arc<Conversations>) -> Self {
        Retention {
            identity,
            conversations,
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

    /// Erases what is due on a page; gives its end, none where the walk is at its end.
    async fn page(
        &self,
        store: &dyn Store,
        tenant: Tenant,
        (behind, before): (Option<Cursor>, Timestamp),
    ) -> Result<Option<Cursor>, ReadError> {
        let query = ConversationQuery {
            tenant,
            facets: Facets {
                status: Some(Status::Closed),
                ..Facets::default()
            },
            by_update: false,
            paging: Paging {
                limit: PAGE,
                start: behind.map_or(Start::Offset(0), Start::After),
                order: Order::Asc,
            },
        };
        let page = store.conversations(query).await?;
        // Oldest first: what began later was closed later.
        let old = |header: &&ConversationHeader| header.id.created_at() < before;
        let last = page.items.last().filter(old);
        let end = last.filter(|_| page.after).map(|last| Cursor {
            number: last.id.number(),
            tail: last.id.tail(),
        });
        let is_due =
            |header: &&ConversationHeader| header.state.closed_at.is_some_and(|at| at < before);
        let due = page.items.iter().filter(is_due).map(|header| {
            let erase = EraseConversation {
                caller: Caller {
                    tenant,
                    actor: Actor::server("a conversation is kept no longer"),
                },
                erasure: EntityNumber::ZERO,
                closed_before: Some(before),
            };
            (header.id, erase)
        });
        let due: Vec<_> = due.collect();
        if !self.identity.is_forgotten(tenant) {
            // What fails is found by the next walk.
            erase_all(&self.conversations, due.into_iter()).await;
        }
        Ok(end)
    }
}
