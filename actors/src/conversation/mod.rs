//! A conversation: one supervised actor that owns its state and gives its messages their sequence.
//! This is the way in: the actors by id, their lists. Beside the actors a thread keeps the index up
//! in which lists are searched (`search_indexer`).

pub mod messages;

mod actor;
mod context;
mod draft;
mod erasing;
mod message_rules;
mod redaction;
mod rules;
mod search_indexer;
mod state;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

pub use self::actor::{ConversationCommand, MessageLookup};
pub(crate) use self::erasing::erase_unreadable;
pub use self::erasing::{EraseConversation, ErasingLookup, FileEraser};
pub(crate) use self::redaction::redacted;
pub use self::rules::ConversationRequest;
pub(crate) use self::search_indexer::SearchIndexer;
pub use self::state::{Changed, Conversation};

use self::context::{CheckContext, OfferedAttachment};
use self::message_rules::{NO_ATTACHMENT, read_message};
use self::messages::{
    CheckReadable, ConversationError, ConversationView, CreateConversation, CustomerShown,
    EmbeddedCustomer, StartConversation,
};
use self::rules::invalid;
use self::search_indexer::ConversationSearch;
use self::state::stored_json;
use crate::accounts::{Identity, attachment, is_own_upload};
use crate::customer_names::Names;
use crate::search::Window;
use crate::store::{
    ConversationHeader, ConversationQuery, Facets, ListFailure, MessageQuery, ReadError,
    RevisionQuery, Store, Stored, StoredPage,
};
use colloquy_model::answer::{Answer, Invalid};
use colloquy_model::caller::Tenant;
use colloquy_model::command::CommandMeta;
use colloquy_model::conversation::{Channel, MessageView, Priority, SenderType, Status};
use colloquy_model::conversation_access::Reach;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::id::{AttachmentId, ConversationId, CustomerId, MessageId, UserId};
use colloquy_model::page::{Page, PageData, Paging, Start};
use colloquy_model::public_url::PublicUrl;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{AskError, Directory, LoadError};

/// How often is searched where what was found changes meanwhile; then it is left out.
const SEARCHES_MAX: u32 = 3;

/// A list of conversations.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the parameters' own names")]
pub struct ConversationList {
    /// By relevance, and by nothing else.
    pub q: Option<String>,
    pub status: Option<Status>,
    pub customer: Option<CustomerId>,
    pub channel: Option<Channel>,
    pub priority: Option<Priority>,
    pub assignee: Option<UserId>,
    pub created_after: Option<Timestamp>,
    pub created_before: Option<Timestamp>,
    /// `sort=updated_at`.
    pub by_update: bool,
    pub paging: Paging,
}

/// A list of messages; `After` and `Before` hold a message's identifier's sequence.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the parameters' own names")]
pub struct MessageList {
    pub paging: Paging,
    pub after_seq: Option<u64>,
    pub before_seq: Option<u64>,
    pub sender_type: Option<SenderType>,
}

/// A customer that a parameter of a request names.
struct CustomerParameter {
    field: &'static str,
    id: CustomerId,
}

/// All conversations.
pub struct Conversations {
    pub(crate) directory: Arc<Directory<Conversation>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) names: Arc<Names>,
    /// What clients write before the path of an attachment.
    pub(crate) public_url: PublicUrl,
    /// None where `q` is switched off.
    pub(crate) finder: Option<SearchIndexer>,
}

impl Conversations {
    /// Starts a conversation.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn create(
        &self,
        meta: CommandMeta,
        new: CreateConversation,
    ) -> Result<Answer, AskError<ConversationError>> {
        if meta.access.writes != Reach::All {
            return Err(AskError::Refused(ConversationError::Forbidden));
        }
        let named = CustomerParameter {
            field: "customer_id",
            id: new.customer_id,
        };
        let customer = self.customer(meta.caller.tenant, named).await?;
        let id = ConversationId::new(Timestamp::now());
        self.ask(id, meta, StartConversation { new, customer })
            .await
    }

    /// Sends a request to a conversation, and waits for the reply of the request's type.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn ask<R: ConversationRequest>(
        &self,
        id: ConversationId,
        meta: CommandMeta,
        request: R,
    ) -> Result<R::Reply, AskError<ConversationError>> {
        let tenant = meta.caller.tenant;
        let context = CheckContext {
            tenant,
            users: &self.identity,
            clock: Timestamp::now,
        };
        request.check(&context).map_err(AskError::Refused)?;
        if let Some(id) = request.sending_customer() {
            let named = CustomerParameter {
                field: "sender_id",
                id,
            };
            self.customer(tenant, named).await?;
        }
        let attachment = match request.attachment() {
            Some(attachment) => Some(self.offered(&meta, attachment).await?),
            None => None,
        };
        let command = ConversationCommand {
            meta,
            request,
            users: Arc::clone(&self.identity),
            attachment,
        };
        self.directory.ask(id, command).await
    }

    /// The attachment that a request takes, as it stands in the store, if its caller may take it.
    async fn offered(
        &self,
        meta: &CommandMeta,
        id: AttachmentId,
    ) -> Result<OfferedAttachment, AskError<ConversationError>> {
        let refused = || AskError::Refused(invalid("attachment_id", NO_ATTACHMENT));
        let found = attachment(&*self.store, meta.caller.tenant, id).await?;
        let (found, sequence) = found.ok_or_else(refused)?;
        let view = found.shown().ok_or_else(refused)?.clone();
        if !is_own_upload(&self.identity, meta, &found) {
            return Err(refused());
        }
        // It stands in the message for good, so it does not depend on where the request came in.
        let account = meta.caller.tenant.account_number();
        let address = match self.identity.hosts.first_of(account) {
            Some(domain) => self.public_url.at(&domain),
            None => self.public_url.as_str().to_owned(),
        };
        let url = format!("{address}/v1/attachments/{id}/content");
        Ok(OfferedAttachment {
            view,
            sequence,
            url,
        })
    }

    /// The customer that a parameter names, as it stands in the store.
    async fn customer(
        &self,
        tenant: Tenant,
        CustomerParameter { field, id }: CustomerParameter,
    ) -> Result<CustomerShown, AskError<ConversationError>> {
        let subject = Subject {
            kind: Kind::Customer,
            number: id.number(),
            tail: id.tail(),
        };
        let found = self.store.load(subject).await?;
        match found {
            Some(Stored::Record(record)) if record.tenant == tenant => {
                let name = self.names.cell(id.number(), &record.name, record.sequence);
                Ok(CustomerShown { id, name })
            }
            Some(_) | None => Err(AskError::Refused(invalid(
                field,
                "must be a valid customer ID",
            ))),
        }
    }

    /// Whether this caller may read a conversation, and where its log stands; nothing is asked for a
    /// caller who reads all. To be asked again behind what was read elsewhere: only then was all of
    /// it there while the caller might read it.
    ///
    /// # Errors
    /// It is not there for this caller, or could not be asked.
    pub async fn check_readable(
        &self,
        id: ConversationId,
        meta: &CommandMeta,
    ) -> Result<Option<Sequence>, AskError<ConversationError>> {
        if meta.access.reads == Reach::All {
            return Ok(None);
        }
        let meta = CommandMeta {
            access: meta.access,
            ..CommandMeta::new(meta.caller.clone())
        };
        self.ask(id, meta, CheckReadable).await.map(Some)
    }

    /// A page of conversations: of those that the caller may read.
    ///
    /// # Errors
    /// A filter names what is not there, the store is away, or the list took too long.
    pub async fn list(
        &self,
        meta: &CommandMeta,
        mut query: ConversationList,
    ) -> Result<Page, ListFailure> {
        let tenant = meta.caller.tenant;
        if let Some(user) = query.assignee
            && self.identity.user(tenant, user).is_none()
        {
            return Err(ListFailure::Invalid(Invalid::new(
                "assignee_id",
                "must be a valid user ID",
            )));
        }
        if !narrow(&mut query.assignee, meta.access.reads) {
            return Ok(Page::empty());
        }
        let facets = Facets {
            status: query.status,
            channel: query.channel,
            priority: query.priority,
            customer: query.customer,
            assignee: query.assignee,
            created_after: query.created_after,
            created_before: query.created_before,
        };
        if let Some(customer) = query.customer {
            let named = CustomerParameter {
                field: "customer_id",
                id: customer,
            };
            self.customer(tenant, named).await.map_err(in_a_list)?;
        }
        let found = match &query.q {
            Some(words) => self.search((tenant, words), facets, query.paging).await?,
            None => {
                let query = ConversationQuery {
                    tenant,
                    facets,
                    by_update: query.by_update,
                    paging: query.paging,
                };
                self.store.conversations(query).await?
            }
        };
        let id = |index: Option<usize>| found.items.get(index?).map(|header| header.id.to_string());
        let (first, last) = (id(Some(0)), id(found.items.len().checked_sub(1)));
        for header in &found.items {
            check_metadata(header)?;
        }
        let shown: Vec<Shown<'_>> = found
            .items
            .iter()
            .map(|header| self.shown(tenant, header))
            .collect();
        let views: Vec<ConversationView<'_>> = shown.iter().map(Shown::view).collect();
        let metadata = found.items.iter().map(|header| header.state.metadata.len());
        let mut data = Vec::with_capacity(1024 * (views.len() + 1) + metadata.sum::<usize>());
        // Shapes of ours can't fail.
        let _ = serde_json::to_writer(&mut data, &views);
        Ok(page(Bytes::from(data), first, last, &found))
    }

    /// A page of what a search finds. What has changed since so that it would not be found any more
    /// is searched for again.
    async fn search(
        &self,
        (tenant, words): (Tenant, &str),
        facets: Facets,
        paging: Paging,
    ) -> Result<StoredPage<ConversationHeader>, ListFailure> {
        let Some(finder) = &self.finder else {
            return Err(ListFailure::Invalid(Invalid::new(
                "q",
                "is switched off on this server; list without it",
            )));
        };
        let offset = match paging.start {
            Start::Offset(offset) => offset,
            Start::After(_) | Start::Before(_) => 0,
        };
        let search = ConversationSearch {
            tenant,
            facets: &facets,
            words,
            window: Window {
                limit: usize::try_from(paging.limit).unwrap_or(usize::MAX),
                offset: usize::try_from(offset).unwrap_or(usize::MAX),
            },
        };
        let mut attempt = 0;
        loop {
            attempt += 1;
            let found = finder.find(search).await?;
            let among = self.store.conversations_among(tenant, found.numbers());
            let mut items = among.await?;
            items.retain(|header| search_indexer::passes(&facets, header));
            if items.len() == found.hits.len() || attempt == SEARCHES_MAX {
                return Ok(StoredPage {
                    items,
                    total: found.total,
                    before: offset > 0,
                    after: offset.saturating_add(paging.limit.into()) < found.total,
                });
            }
        }
    }

    fn shown<'h>(&self, tenant: Tenant, header: &'h ConversationHeader) -> Shown<'h> {
        let assignee = header
            .state
            .assignee
            .filter(|user| self.identity.user(tenant, *user).is_some());
        Shown {
            header,
            assignee,
            renamed: self.names.renamed(header.state.customer.number()),
        }
    }

    /// A page of a conversation's messages.
    ///
    /// # Errors
    /// The conversation is not there, the store is away, or the list took too long.
    pub async fn messages(
        &self,
        meta: &CommandMeta,
        conversation: ConversationId,
        query: MessageList,
    ) -> Result<Page, ListFailure> {
        let tenant = meta.caller.tenant;
        let readable = || self.check_readable(conversation, meta);
        readable().await.map_err(in_a_list)?;
        let query = MessageQuery {
            tenant,
            conversation: Conversation::subject(conversation),
            sender: query.sender_type,
            after_seq: query.after_seq,
            before_seq: query.before_seq,
            paging: query.paging,
        };
        let found = self
            .store
            .messages(query)
            .await?
            .ok_or(ListFailure::NotFound)?;
        readable().await.map_err(in_a_list)?;
        let id = |text: Option<&Arc<str>>| match text {
            Some(text) => serde_json::from_str(text)
                .map(|message: MessageView| Some(message.message_id.to_string()))
                .map_err(|error| {
                    Unreadable::found(format_args!("{conversation}: a message's text"), error)
                }),
            None => Ok(None),
        };
        let (first, last) = (id(found.items.first())?, id(found.items.last())?);
        let each = found.items.iter().map(|text| Text(Arc::clone(text)));
        let each = PageData::Items(each.map(Bytes::from_owner).collect());
        Ok(page(each, first, last, &found))
    }

    /// One message.
    ///
    /// # Errors
    /// It is not there for this caller, or the store is away.
    pub async fn message(
        &self,
        meta: &CommandMeta,
        id: ConversationId,
        message: MessageId,
    ) -> Result<Answer, AskError<ConversationError>> {
        let found = self
            .store
            .shown_message(Conversation::subject(id), message)
            .await?;
        self.check_readable(id, meta).await?;
        read_message(message, meta.caller.tenant, found).map_err(AskError::Refused)
    }

    /// The attachment that a message has.
    ///
    /// # Errors
    /// The store is away.
    pub async fn attachment_of(
        &self,
        id: ConversationId,
        message: MessageId,
    ) -> Result<Option<AttachmentId>, AskError<ConversationError>> {
        let found = self
            .store
            .message(Conversation::subject(id), message)
            .await?;
        let view = found.and_then(|found| found.now.attachment);
        Ok(view.map(|view| view.attachment_id))
    }

    /// A page of a message's earlier texts.
    ///
    /// # Errors
    /// It is not there for this caller, or the store is away.
    pub async fn revisions(
        &self,
        meta: &CommandMeta,
        id: ConversationId,
        message: MessageId,
        paging: Paging,
    ) -> Result<Page, ListFailure> {
        let query = RevisionQuery {
            tenant: meta.caller.tenant,
            conversation: Conversation::subject(id),
            message,
            paging,
        };
        let found = self
            .store
            .revisions(query)
            .await?
            .ok_or(ListFailure::NotFound)?;
        self.check_readable(id, meta).await.map_err(in_a_list)?;
        Ok(page(
            PageData::Items(found.items.clone()),
            None,
            None,
            &found,
        ))
    }
}

/// Narrows a filter by assignee to what a caller may read; false: nothing passes both.
fn narrow(assignee: &mut Option<UserId>, reads: Reach) -> bool {
    match reads {
        Reach::All => true,
        Reach::AssignedTo(own) => assignee.replace(own).is_none_or(|asked| asked == own),
        Reach::Nothing => false,
    }
}

/// What a list shows of one conversation.
struct Shown<'h> {
    header: &'h ConversationHeader,
    assignee: Option<UserId>,
    renamed: Option<Box<str>>,
}

impl Shown<'_> {
    fn view(&self) -> ConversationView<'_> {
        let ConversationHeader {
            id,
            state,
            customer_name,
            messages,
            last_message_at,
            updated_at,
        } = self.header;
        ConversationView {
            conversation_id: *id,
            customer_id: state.customer,
            customer: EmbeddedCustomer {
                id: state.customer,
                name: self.renamed.as_deref().unwrap_or(customer_name),
            },
            status: state.status,
            channel: state.channel,
            priority: state.priority,
            assignee_id: self.assignee,
            metadata: stored_json(&state.metadata),
            message_count: *messages,
            last_message_at: *last_message_at,
            snoozed_until: state.snoozed_until,
            created_at: id.created_at(),
            updated_at: *updated_at,
            closed_at: state.closed_at,
        }
    }
}

fn page<T>(
    data: impl Into<PageData>,
    first: Option<String>,
    last: Option<String>,
    found: &StoredPage<T>,
) -> Page {
    let count = u32::try_from(found.items.len()).unwrap_or(u32::MAX);
    Page {
        data: data.into(),
        count,
        total: found.total,
        first,
        last,
        before: found.before,
        after: found.after,
    }
}

/// The text of a message, shared with whoever else shows it.
struct Text(Arc<str>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Whether a conversation's metadata can be shown.
fn check_metadata(header: &ConversationHeader) -> Result<(), Unreadable> {
    // What most have need not be looked at.
    if &*header.state.metadata == "{}" {
        return Ok(());
    }
    let checked = serde_json::from_str::<&RawValue>(&header.state.metadata);
    checked
        .map(|_| ())
        .map_err(|error| Unreadable::found(format_args!("{}: metadata", header.id), error))
}

/// A filter that names what is not there.
fn in_a_list(error: AskError<ConversationError>) -> ListFailure {
    match error {
        AskError::Refused(ConversationError::Invalid(invalid)) => ListFailure::Invalid(invalid),
        AskError::Refused(ConversationError::NotFound | ConversationError::MessageNotFound) => {
            ListFailure::NotFound
        }
        AskError::Refused(ConversationError::Unreadable) | AskError::Unreadable => {
            ListFailure::Unreadable
        }
        AskError::Refused(_)
        | AskError::Unavailable { .. }
        | AskError::Crashed
        | AskError::TimedOut
        | AskError::Unknown => ListFailure::Away,
    }
}

impl From<ReadError> for AskError<ConversationError> {
    fn from(error: ReadError) -> Self {
        LoadError::from(error).into()
    }
}
