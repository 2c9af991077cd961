//! Erasing people: a customer with all conversations, and conversations whose account keeps them no
//! longer. The record of an erasure (`accounts/erasure.rs`) is committed before anything goes and says
//! what is left to be done, so that a crash only delays; every conversation then goes by a commit of its
//! own. Texts leave the store behind these commits, attachments by the chores that they leave.

mod finishing;
mod retention;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub(crate) use self::finishing::Finishing;
pub(crate) use self::retention::Retention;

use crate::accounts::record::{ReadRecord, RecordError};
use crate::accounts::{
    BeginErasure, CountErasure, Customer, EraseCustomer, Erasure, ErasureCounts, ErasureState,
    ErasureView, FinishErasure, Records, attachment, erasure_of,
};
use crate::attachments::Attachments;
use crate::conversation::messages::ConversationError;
use crate::conversation::{self, Conversations, EraseConversation};
use crate::document;
use crate::store::{ErasableConversation, ErasableQuery, Erasing, ReadError, RecordQuery, Stored};
use colloquy_model::answer::Answer;
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
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
/// How long the conversations of a page wait for their files to go first.
const FILES_WITHIN: Duration = Duration::from_secs(10);
/// Before what failed is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// All erasures.
pub struct Erasures {
    /// Their records.
    pub records: Records<Erasure>,
    pub(crate) customers: Arc<Records<Customer>>,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) attachments: Arc<Attachments>,
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
        while let Err(error) = self.take_away(&caller, erasure).await {
            match error {
                LoadError::Unreadable => return Err(AskError::Unreadable),
                LoadError::Unavailable | LoadError::Busy => {}
            }
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
        match self.find(meta, customer).await {
            Ok(()) => {}
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

    /// Looks whether the customer is there as `If-Match` has it, also one that can't be read.
    async fn find(
        &self,
        meta: CommandMeta,
        customer: CustomerId,
    ) -> Result<(), AskError<RecordError>> {
        let (tenant, if_match) = (meta.caller.tenant, meta.if_match.clone());
        match self.customers.ask(customer, meta, ReadRecord).await {
            Err(AskError::Unreadable) => {}
            asked => return asked.map(|_| ()),
        }
        let known = self.customers.known(tenant, customer).await?;
        // The entity tag of a customer.
        let etag = known.sequence.to_string();
        match if_match.is_none_or(|wanted| wanted.holds(&etag)) {
            true => Ok(()),
            false => Err(AskError::Refused(RecordError::Precondition)),
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

    /// Takes away the customer of an erasure and all conversations, until none is left. Two may do it
    /// at the same time: how much there is, is noted before anything of it goes.
    ///
    /// # Errors
    /// Something does not answer, or can't be read; it is to be tried again.
    pub(crate) async fn take_away(&self, caller: &Caller, id: ErasureId) -> Result<(), LoadError> {
        let erasure = self.stored(caller.tenant, id).await?;
        let erasure = erasure.ok_or(LoadError::Unavailable)?;
        let customer = erasure.view().customer_id;
        let meta = || CommandMeta::new(caller.clone());
        // First: from here on nobody begins a conversation with the customer.
        let asked = match self.customers.ask(customer, meta(), EraseCustomer).await {
            Err(AskError::Unreadable) => {
                let (caller, event) = (caller.clone(), EventKind::CustomerErased);
                self.customers
                    .erase_unreadable(customer, caller, event)
                    .await
            }
            asked => asked,
        };
        match asked {
            Ok(()) | Err(AskError::Refused(RecordError::NotFound)) => {}
            Err(error) => return Err(failed(&error)),
        }
        if !erasure.is_counted() {
            let counts = self.count(caller.tenant, customer).await?;
            let counted = self.records.ask(id, meta(), CountErasure(counts));
            counted.await.map_err(|error| failed(&error))?;
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
        let store = &*self.records.store;
        let mut counts = ErasureCounts::default();
        let mut behind = EntityNumber::ZERO;
        loop {
            let page = self.page_of(tenant, customer, behind).await?;
            let Some(last) = page.last() else {
                return Ok(counts);
            };
            behind = last.id.number();
            for conversation in page {
                counts.conversations += 1;
                counts.messages += conversation.messages;
                for id in store.attachments_of(conversation.id.number()).await? {
                    counts.attachments += match attachment(store, tenant, id).await {
                        Ok(found) => u64::from(found.is_some()),
                        // It is there.
                        Err(LoadError::Unreadable) => 1,
                        Err(error @ (LoadError::Unavailable | LoadError::Busy)) => {
                            return Err(error);
                        }
                    };
                }
            }
        }
    }

    /// Takes away all conversations of a customer, until none is left.
    async fn take_conversations(
        &self,
        caller: &Caller,
        customer: CustomerId,
        erasure: EntityNumber,
    ) -> Result<(), LoadError> {
        let (mut files_go, mut before) = (true, None);
        loop {
            // What has gone left the list.
            let beginning = EntityNumber::ZERO;
            let page = self.page_of(caller.tenant, customer, beginning).await?;
            let Some(first) = page.first().map(|conversation| conversation.id) else {
                return Ok(());
            };
            // It was asked to go, and says that it is not there: that of an account which was forgotten
            // meanwhile.
            if before.replace(first) == Some(first) {
                return Err(LoadError::Unavailable);
            }
            if files_go {
                let going = self.take_files(caller.tenant, &page);
                let gone = tokio::time::timeout(FILES_WITHIN, going).await;
                files_go = gone.unwrap_or(false);
            }
            let these = page.into_iter().map(|conversation| {
                let erase = EraseConversation {
                    caller: caller.clone(),
                    erasure,
                    closed_before: None,
                    // They went before, or go behind.
                    files: None,
                };
                (conversation.id, erase)
            });
            erase_all(&self.conversations, these).await?;
        }
    }

    /// Erases the files of these conversations before they go themselves, so that of one that is gone
    /// nothing is left that people wrote, not even a file's name; whether all of them are erased. The
    /// others go by what their conversations leave to be done.
    async fn take_files(&self, tenant: Tenant, page: &[ErasableConversation]) -> bool {
        let mut these = page.iter().map(|conversation| conversation.id.number());
        let (mut asked, mut all) = (JoinSet::new(), true);
        loop {
            while all
                && asked.len() < AT_ONCE
                && let Some(conversation) = these.next()
            {
                let attachments = Arc::clone(&self.attachments);
                asked.spawn(async move { attachments.erase_all_of(tenant, conversation).await });
            }
            match asked.join_next().await {
                Some(gone) => all &= gone.unwrap_or(false),
                None => return all,
            }
        }
    }

    async fn page_of(
        &self,
        tenant: Tenant,
        customer: CustomerId,
        behind: EntityNumber,
    ) -> Result<Vec<ErasableConversation>, ReadError> {
        let query = ErasableQuery {
            tenant,
            erasing: Erasing::OfCustomer(customer),
            behind,
            limit: PAGE,
        };
        self.records.store.erasable(query).await
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

/// Asks conversations to go, a few at a time, until each has gone or was gone before.
///
/// # Errors
/// One has not gone; whatever could be done with the others is done.
async fn erase_all(
    conversations: &Arc<Conversations>,
    these: impl Iterator<Item = (ConversationId, EraseConversation)>,
) -> Result<(), LoadError> {
    let mut these = these.into_iter();
    let mut asked = JoinSet::new();
    let mut all = Ok(());
    loop {
        while asked.len() < AT_ONCE
            && let Some((id, erase)) = these.next()
        {
            let conversations = Arc::clone(conversations);
            asked.spawn(async move { erase_one(&conversations, id, erase).await });
        }
        match asked.join_next().await {
            Some(erased) => all = all.and(erased.unwrap_or(Err(LoadError::Unavailable))),
            None => return all,
        }
    }
}

/// Asks a conversation to go. What no actor can begin with goes by what is known of it.
async fn erase_one(
    conversations: &Conversations,
    id: ConversationId,
    erase: EraseConversation,
) -> Result<(), LoadError> {
    let asked = match conversations.directory.ask(id, erase.clone()).await {
        Err(AskError::Unreadable) => {
            conversation::erase_unreadable(&*conversations.store, id, erase).await
        }
        asked => asked,
    };
    match asked {
        Ok(()) | Err(AskError::Refused(ConversationError::NotFound)) => Ok(()),
        Err(error) => {
            tracing::warn!(conversation = %id, %error, "a conversation is not erased yet");
            Err(failed(&error))
        }
    }
}

/// What an answer that is none says of what is to be done again.
fn failed<R>(error: &AskError<R>) -> LoadError {
    match error {
        AskError::Unreadable => LoadError::Unreadable,
        AskError::Refused(_)
        | AskError::Unavailable { .. }
        | AskError::Crashed
        | AskError::TimedOut
        | AskError::Unknown => LoadError::Unavailable,
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
        // What can't be read keeps nothing.
        Ok(_) | Err(_) => Value::Object(Map::new()),
    };
    serde_json::to_vec(&left).unwrap_or_default()
}
