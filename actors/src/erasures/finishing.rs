//! What is left of conversations that are gone: their attachments are erased, and their texts waited for.

use std::collections::{HashMap, HashSet};

use crate::attachments::Attachments;
use crate::conversation::Conversations;
use crate::search::ErasingDue;
use crate::store::{ReadError, Store};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{Chore, ErasedConversation};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::ErasureId;

/// Entities that the store is asked about at once.
const AT_ONCE: usize = 500;

/// Conversations that are gone and of which something may be left. A start finds out anew which
/// attachments they had.
#[derive(Default)]
pub(crate) struct Finishing {
    /// The entities whose texts have to leave the store: the conversation itself, and its attachments,
    /// whose bytes are gone.
    waiting: HashMap<ErasedConversation, (Tenant, Vec<EntityNumber>)>,
    /// Of erasures whose conversations are all gone: conversations of the same account that went
    /// before, when their time was over, and of which something may be left. Some may have been that
    /// customer's.
    earlier: HashMap<ErasureId, HashSet<EntityNumber>>,
    /// Erasures that wait for the index of this node.
    indexed: HashMap<ErasureId, ErasingDue>,
}

impl Finishing {
    /// Erases the attachments of a conversation that is gone, unless that was done before.
    pub(crate) async fn begin(
        &mut self,
        store: &dyn Store,
        attachments: &Attachments,
        (tenant, erased): (Tenant, ErasedConversation),
    ) {
        if self.waiting.contains_key(&erased) {
            return;
        }
        let Ok(found) = store.attachments_of(erased.conversation).await else {
            return;
        };
        let mut entities = vec![erased.conversation];
        for attachment in found {
            if !attachments.erase(tenant, attachment).await {
                return;
            }
            entities.push(attachment.number());
        }
        self.waiting.insert(erased, (tenant, entities));
    }

    /// Whether nothing is left of the conversations that an erasure has taken away, nor of those whose
    /// time was over before.
    pub(crate) async fn has_left_the_store(
        &mut self,
        store: &dyn Store,
        (tenant, erasure): (Tenant, ErasureId),
    ) -> bool {
        let Ok(chores) = store.chores().await else {
            return false;
        };
        let (mut own, mut over) = (false, HashSet::new());
        for chore in chores {
            if let Chore::FinishConversation(of, erased) = chore {
                own |= erased.erasure == erasure.number();
                if of == tenant && erased.erasure == EntityNumber::ZERO {
                    over.insert(erased.conversation);
                }
            }
        }
        // Those of later are none of this customer's: nothing of it is there any more.
        let earlier = self.earlier.entry(erasure).or_insert_with(|| over.clone());
        earlier.retain(|conversation| over.contains(conversation));
        let has_left = !own && earlier.is_empty();
        if has_left {
            self.earlier.remove(&erasure);
        }
        has_left
    }

    /// Whether this node's index of conversations holds nothing any more of an erasure whose
    /// conversations are all gone. Where it is not there yet, it is to be asked again.
    pub(crate) async fn has_left_the_index(
        &mut self,
        conversations: &Conversations,
        (tenant, erasure): (Tenant, ErasureId),
    ) -> bool {
        let Some(index) = &conversations.finder else {
            return true;
        };
        let since = match self.indexed.get(&erasure) {
            Some(since) => *since,
            None => {
                let Ok(since) = index.erasing_due(tenant).await else {
                    return false;
                };
                self.indexed.insert(erasure, since);
                since
            }
        };
        let has_left = index.is_erased(since);
        if has_left {
            self.indexed.remove(&erasure);
        }
        has_left
    }

    /// Knows no more of erasures than of those that are running: another node may have finished one.
    pub(crate) fn keep_only(&mut self, running: &HashSet<ErasureId>) {
        self.earlier.retain(|erasure, _| running.contains(erasure));
        self.indexed.retain(|erasure, _| running.contains(erasure));
    }

    /// Takes off the list what nothing is left of.
    ///
    /// # Errors
    /// The store is away.
    pub(crate) async fn finish(&mut self, store: &dyn Store) -> Result<(), ReadError> {
        let entities: Vec<EntityNumber> = self
            .waiting
            .values()
            .flat_map(|(_, entities)| entities.iter().copied())
            .collect();
        let mut left = HashSet::new();
        for some in entities.chunks(AT_ONCE) {
            left.extend(store.still_erasing(some.to_vec()).await?);
        }
        self.waiting.retain(|erased, (tenant, entities)| {
            let is_left = entities.iter().any(|entity| left.contains(entity));
            if !is_left {
                store.chore_done(Chore::FinishConversation(*tenant, *erased));
            }
            is_left
        });
        Ok(())
    }
}
