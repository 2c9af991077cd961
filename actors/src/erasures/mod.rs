//! Erasing people: a customer with all conversations, and conversations whose account keeps them no
//! longer. The record of an erasure (`accounts/erasure.rs`) is committed before anything goes and says
//! what is left to be done, so that a crash only delays; every conversation then goes by a commit of its
//! own. Texts leave the store behind these commits, attachments by the chores that they leave.

mod finishing;
mod retention;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use self::finishing::Finishing;
pub(crate) use self::retention::Retention;

use crate::accounts::record::{ReadRecord, RecordError};
use crate::accounts::{
    BeginErasure, CountErasure, Customer, EraseCustomer, Erasure, ErasureCounts, ErasureState,
    ErasureView, FinishErasure, Records, attachment, erasure_of,
};
use crate::conversation::messages::ConversationError;
use crate::conversation::{self, Conversations, EraseConversation};
use crate::document;
use crate::store::{ConversationHeader, ConversationQuery, Facets, ReadError, RecordQuery, Stored};
use colloquy_model::answer::Answer;
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{ConversationId, CustomerId, ErasureId};
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::time::Timestamp;
use colloquy_runtime::{AskError, LoadError, SupervisedKind};

/// Conversations that are read at once.
const PAGE: u32 = 100;
/// Conversations that are asked at the same time: far fewer than may be loaded at once, so that
/// callers come in between.
const AT_ONCE: usize = 16;
/// How long whoever asked waits until the last conversation is gone; then nobody knows, and the
/// erasure goes on by itself.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
/// Before what failed is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// All erasures.
pub struct Erasures {
    /// Their records.
    pub records: Records<Erasure>,
    pub(crate) customers: Arc<Records<Customer>>,
    pub(crate) conversations: Arc<Conversations>,
}

impl Erasures {
    /// Erases a customer. When it answers, neither the customer nor any of the conversations is there
    /// for anybody. Asked again while the erasure runs, it answers with the same one.
    ///
    /// # Errors
    /// There is no such customer, `If-Match` named another state, or something does not answer: once
    /// the erasure has begun, it goes on all the same.
    pub async fn erase(
        &self,
        meta: CommandMeta,
        customer: CustomerId,
    ) -> Result<Answer, AskError<RecordError>> {
        let caller = meta.caller.clone();
        let erasure = self.begin(meta, customer).await?;
        let until = Instant::now() + ANSWERED_WITHIN;
        while !self.take_away(&caller, erasure).await {
            if Instant::now() >= until {
                return Err(AskError::TimedOut);
            }
            tokio::time::sleep(PAUSE).await;
        }
        let stored = self.stored(caller.tenant, erasure).await?;
        let stored = stored.ok_or(AskError::Unknown)?;
        // As it is at its beginning, however soon it is finished.
        let shown = ErasureView {
            state: ErasureState::Running,
            finished_at: None,
            ..stored.view().clone()
        };
        Ok(Answer::accepted(colloquy_model::json::bytes(&shown)))
    }

    /// The erasure of a customer that is under way, which begins where there is none.
    async fn begin(
        &self,
        meta: CommandMeta,
        customer: CustomerId,
    ) -> Result<ErasureId, AskError<RecordError>> {
        let caller = meta.caller.clone();
        match self.customers.ask(customer, meta, ReadRecord).await {
            Ok(_) => {}
            Err(AskError::Refused(RecordError::NotFound)) => {
                return self.running(caller.tenant, customer).await;
            }
            Err(error) => return Err(error),
        }
        let id = ErasureId::new(Timestamp::now());
        let tenant = caller.tenant;
        let begin = BeginErasure { customer };
        match self.records.ask(id, CommandMeta::new(caller), begin).await {
            Ok(_) => Ok(id),
            // Somebody else was faster.
            Err(AskError::Refused(RecordError::Taken { .. } | RecordError::Invalid(_))) => {
                self.running(tenant, customer).await
            }
            Err(error) => Err(error),
        }
    }

    /// The erasure of a customer that is under way.
    async fn running(
        &self,
        tenant: Tenant,
        customer: CustomerId,
    ) -> Result<ErasureId, AskError<RecordError>> {
        let query = RecordQuery {
            tenant,
            kind: Kind::Erasure,
            names: vec![erasure_of(customer)],
            paging: Paging {
                limit: 1,
                start: Start::Offset(0),
                order: Order::Desc,
            },
        };
        let found = self.records.store.records(query).await;
        let found = found.map_err(LoadError::from)?;
        let found = found.items.first().map(|record| record.subject);
        let found = found.map(|subject| ErasureId::from_parts(subject.number, subject.tail));
        found.ok_or(AskError::Refused(RecordError::NotFound))
    }

    /// An erasure as it stands in the store.
    async fn stored(&self, tenant: Tenant, id: ErasureId) -> Result<Option<Erasure>, LoadError> {
        let subject = Subject {
            kind: Kind::Erasure,
            number: id.number(),
            tail: id.tail(),
        };
        match self.records.store.load(subject).await? {
            Some(Stored::Record(record)) if record.tenant == tenant => {
                let found = serde_json::from_str(&record.body);
                found.map(Some).map_err(|error| {
                    Unreadable::found(id, error);
                    LoadError::Unreadable
                })
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Takes away the customer of an erasure and all conversations; whether none is left. Two may do it
    /// at the same time: how much there is, is noted before anything of it goes.
    pub(crate) async fn take_away(&self, caller: &Caller, id: ErasureId) -> bool {
        let Ok(Some(erasure)) = self.stored(caller.tenant, id).await else {
            return false;
        };
        let customer = erasure.view().customer_id;
        let meta = || CommandMeta::new(caller.clone());
        // First: from here on nobody begins a conversation with the customer.
        match self.customers.ask(customer, meta(), EraseCustomer).await {
            Ok(()) | Err(AskError::Refused(RecordError::NotFound)) => {}
            Err(_) => return false,
        }
        if !erasure.is_counted() {
            let Ok(counts) = self.count(caller.tenant, customer).await else {
                return false;
            };
            let counted = self.records.ask(id, meta(), CountErasure(counts));
            if counted.await.is_err() {
                return false;
            }
        }
        self.take_conversations(caller, customer, id.number()).await
    }

    /// Finishes an erasure of which nothing is left; whether it is finished.
    pub(crate) async fn finish(&self, caller: Caller, id: ErasureId) -> bool {
        let Ok(Some(erasure)) = self.stored(caller.tenant, id).await else {
            return false;
        };
        let customer = vec![erasure.view().customer_id.number()];
        let left = self.records.store.still_erasing(customer).await;
        if !left.is_ok_and(|left| left.is_empty()) {
            return false;
        }
        let finish = self
            .records
            .ask(id, CommandMeta::new(caller), FinishErasure);
        finish.await.is_ok()
    }

    /// How much there is of a customer.
    async fn count(
        &self,
        tenant: Tenant,
        customer: CustomerId,
    ) -> Result<ErasureCounts, LoadError> {
        let mut counts = ErasureCounts::default();
        let mut offset = 0;
        loop {
            let page = self.page_of(tenant, customer, offset).await?;
            if page.is_empty() {
                return Ok(counts);
            }
            for header in page {
                offset += 1;
                counts.conversations += 1;
                counts.messages += header.messages;
                let store = &*self.records.store;
                for id in store.attachments_of(header.id.number()).await? {
                    let found = attachment(store, tenant, id).await?;
                    counts.attachments += u64::from(found.is_some());
                }
            }
        }
    }

    /// Takes away all conversations of a customer; whether none is left.
    async fn take_conversations(
        &self,
        caller: &Caller,
        customer: CustomerId,
        erasure: EntityNumber,
    ) -> bool {
        loop {
            // What has gone left the list.
            let Ok(page) = self.page_of(caller.tenant, customer, 0).await else {
                return false;
            };
            if page.is_empty() {
                return true;
            }
            let these = page.into_iter().map(|header| {
                let erase = EraseConversation {
                    caller: caller.clone(),
                    erasure,
                    closed_before: None,
                };
                (header.id, erase)
            });
            if !erase_all(&self.conversations, these).await {
                return false;
            }
        }
    }

    async fn page_of(
        &self,
        tenant: Tenant,
        customer: CustomerId,
        offset: u64,
    ) -> Result<Vec<ConversationHeader>, ReadError> {
        let query = ConversationQuery {
            tenant,
            facets: Facets {
                customer: Some(customer),
                ..Facets::default()
            },
            by_update: false,
            paging: Paging {
                limit: PAGE,
                start: Start::Offset(offset),
                order: Order::Asc,
            },
        };
        let page = self.records.store.conversations(query).await?;
        Ok(page.items)
    }

    /// How operators see the actors of erasures.
    pub(crate) fn supervised(&self) -> Arc<dyn SupervisedKind> {
        self.records.directory.clone()
    }

    /// Takes no request any more.
    pub(crate) fn drain(&self) {
        self.records.directory.drain();
    }

    /// Waits until everything that was taken is done.
    pub(crate) async fn drained(&self, deadline: Instant) -> bool {
        self.records.directory.drained(deadline).await
    }
}

/// Asks conversations to go, a few at a time; whether each has gone, or was gone before.
async fn erase_all(
    conversations: &Arc<Conversations>,
    these: impl Iterator<Item = (ConversationId, EraseConversation)>,
) -> bool {
    let mut these = these.into_iter();
    let mut asked = JoinSet::new();
    let mut well = true;
    loop {
        while asked.len() < AT_ONCE
            && let Some((id, erase)) = these.next()
        {
            let conversations = Arc::clone(conversations);
            asked.spawn(async move {
                match conversations.directory.ask(id, erase).await {
                    Ok(()) | Err(AskError::Refused(ConversationError::NotFound)) => true,
                    Err(error) => {
                        tracing::warn!(conversation = %id, %error, "a conversation is not erased yet");
                        false
                    }
                }
            });
        }
        match asked.join_next().await {
            Some(erased) => well &= matches!(erased, Ok(true)),
            None => return well,
        }
    }
}

/// What may stay of the JSON of an event or of a kept answer of what was erased: everything but what
/// people wrote.
#[must_use]
pub fn redacted(json: &[u8]) -> Vec<u8> {
    if json.is_empty() {
        return Vec::new();
    }
    let left = match serde_json::from_slice(json) {
        Ok(Value::Object(fields)) => {
            let of_person = conversation::redacted(&fields);
            Value::Object(of_person.unwrap_or_else(|| document::redacted(fields)))
        }
        Ok(_) | Err(_) => Value::Null,
    };
    serde_json::to_vec(&left).unwrap_or_default()
}
