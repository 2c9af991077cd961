//! A conversation: one supervised actor that owns its state and gives its messages their sequence.
//! This is the way in: the actors by id, their lists.

pub mod messages;

mod actor;
mod draft;
mod message_rules;
mod state;

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::value::RawValue;

pub use self::state::{Changed, Conversation, Found};

use self::draft::raw;
use self::message_rules::read_message;
use self::messages::{
    ConversationCommand, ConversationError, ConversationView, CreateConversation, CustomerShown,
    EmbeddedCustomer, Request,
};
use crate::accounts::Identity;
use crate::customer_names::Names;
use crate::store::{
    ConversationHeader, ConversationQuery, Facets, ListFailure, MessageQuery, ReadError,
    RevisionQuery, Store, Stored, StoredPage,
};
use colloquy_model::answer::{Answer, Invalid, Precondition};
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::conversation::{Channel, MessageView, Priority, SenderId, SenderType, Status};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::id::{ConversationId, CustomerId, MessageId, UserId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::page::{Page, Paging};
use colloquy_model::time::Timestamp;
use colloquy_runtime::{AskError, Directory, LoadError};

/// A list of conversations.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the parameters' own names")]
pub struct ConversationList {
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

/// All conversations.
pub struct Conversations {
    pub(crate) directory: Arc<Directory<Conversation>>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) names: Arc<Names>,
}

impl Conversations {
    /// Starts a conversation.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn create(
        &self,
        caller: Caller,
        new: CreateConversation,
        reservation: Option<Reservation>,
    ) -> Result<Answer, AskError<ConversationError>> {
        let customer = self
            .customer(
                caller.tenant,
                new.customer_id,
                "customer_id",
                "must be a valid customer ID",
            )
            .await?;
        let id = ConversationId::new(Timestamp::now().0);
        self.command(
            id,
            caller,
            None,
            reservation,
            Request::Create {
                new: Box::new(new),
                customer,
            },
        )
        .await
    }

    /// Asks one conversation.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn ask(
        &self,
        id: ConversationId,
        caller: Caller,
        if_match: Option<Precondition>,
        reservation: Option<Reservation>,
        request: Request,
    ) -> Result<Answer, AskError<ConversationError>> {
        match &request {
            Request::Send(send) => self.check_sender(caller.tenant, send.sender_id).await?,
            Request::Change(change) => {
                let user = change.assignee_id.flatten();
                if user.is_some_and(|user| self.identity.user(caller.tenant, user).is_none()) {
                    return Err(refused("assignee_id", "must be a valid user ID"));
                }
                if change
                    .snoozed_until
                    .flatten()
                    .is_some_and(|until| until <= Timestamp::now())
                {
                    return Err(refused("snoozed_until", "must be a time in the future"));
                }
            }
            Request::Create { .. }
            | Request::Read
            | Request::Close(_)
            | Request::Reopen
            | Request::Edit(..)
            | Request::Redact(_)
            | Request::Unassign(_)
            | Request::Wake
            | Request::CloseIdle { .. } => {}
        }
        self.command(id, caller, if_match, reservation, request)
            .await
    }

    async fn command(
        &self,
        id: ConversationId,
        caller: Caller,
        if_match: Option<Precondition>,
        reservation: Option<Reservation>,
        request: Request,
    ) -> Result<Answer, AskError<ConversationError>> {
        let people = Arc::clone(&self.identity);
        self.directory
            .ask(
                id,
                ConversationCommand {
                    caller,
                    if_match,
                    reservation,
                    request,
                    people,
                },
            )
            .await
    }

    async fn check_sender(
        &self,
        tenant: Tenant,
        sender: Option<SenderId>,
    ) -> Result<(), AskError<ConversationError>> {
        match sender {
            None => Ok(()),
            Some(SenderId::User(user)) if self.identity.user(tenant, user).is_some() => Ok(()),
            Some(SenderId::User(_)) => Err(refused("sender_id", "must be a valid user ID")),
            Some(SenderId::Customer(id)) => self
                .customer(tenant, id, "sender_id", "must be a valid customer ID")
                .await
                .map(|_| ()),
        }
    }

    /// The customer that a body names.
    async fn customer(
        &self,
        tenant: Tenant,
        id: CustomerId,
        field: &'static str,
        reason: &str,
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
            Some(_) | None => Err(refused(field, reason)),
        }
    }

    /// A page of conversations.
    ///
    /// # Errors
    /// A filter names what is not there, the store is away, or the list took too long.
    pub async fn list(&self, tenant: Tenant, query: ConversationList) -> Result<Page, ListFailure> {
        if let Some(user) = query.assignee
            && self.identity.user(tenant, user).is_none()
        {
            return Err(ListFailure::Invalid(Invalid::new(
                "assignee_id",
                "must be a valid user ID",
            )));
        }
        let facets = Facets {
            status: query.status,
            channel: query.channel,
            priority: query.priority,
            customer: query.customer,
            assignee: query.assignee,
            created_after: query.created_after.map(|at| at.0),
            created_before: query.created_before.map(|at| at.0),
        };
        if let Some(customer) = query.customer {
            self.customer(
                tenant,
                customer,
                "customer_id",
                "must be a valid customer ID",
            )
            .await
            .map_err(in_a_list)?;
        }
        let query = ConversationQuery {
            tenant,
            facets,
            by_update: query.by_update,
            paging: query.paging,
        };
        let found = self.store.conversations(query).await?;
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
        let mut data = Vec::with_capacity(1024 * (views.len() + 1));
        // Shapes of ours can't fail.
        let _ = serde_json::to_writer(&mut data, &views);
        Ok(page(data.into(), first, last, &found))
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
        tenant: Tenant,
        conversation: ConversationId,
        query: MessageList,
    ) -> Result<Page, ListFailure> {
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
        let id = |text: Option<&Arc<str>>| match text {
            Some(text) => serde_json::from_str(text)
                .map(|message: MessageView| Some(message.message_id.to_string()))
                .map_err(|error| {
                    Unreadable::found(format_args!("{conversation}: a message's text"), error)
                }),
            None => Ok(None),
        };
        let (first, last) = (id(found.items.first())?, id(found.items.last())?);
        Ok(page(
            array(found.items.iter().map(|message| message.as_bytes())),
            first,
            last,
            &found,
        ))
    }

    /// One message.
    ///
    /// # Errors
    /// It is not there for this caller, or the store is away.
    pub async fn message(
        &self,
        tenant: Tenant,
        id: ConversationId,
        message: MessageId,
    ) -> Result<Answer, AskError<ConversationError>> {
        let found = self
            .store
            .message(Conversation::subject(id), message)
            .await?;
        read_message(message, tenant, found).map_err(AskError::Refused)
    }

    /// A page of a message's earlier texts.
    ///
    /// # Errors
    /// It is not there for this caller, or the store is away.
    pub async fn revisions(
        &self,
        tenant: Tenant,
        id: ConversationId,
        message: MessageId,
        paging: Paging,
    ) -> Result<Page, ListFailure> {
        let query = RevisionQuery {
            tenant,
            conversation: Conversation::subject(id),
            message,
            paging,
        };
        let found = self
            .store
            .revisions(query)
            .await?
            .ok_or(ListFailure::NotFound)?;
        Ok(page(
            array(found.items.iter().map(|revision| &revision[..])),
            None,
            None,
            &found,
        ))
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
            metadata: raw(&state.metadata),
            message_count: *messages,
            last_message_at: last_message_at.map(Timestamp),
            snoozed_until: state.snoozed_until.map(Timestamp),
            created_at: Timestamp(id.created_ms()),
            updated_at: Timestamp(*updated_at),
            closed_at: state.closed_at.map(Timestamp),
        }
    }
}

fn page<T>(
    data: Bytes,
    first: Option<String>,
    last: Option<String>,
    found: &StoredPage<T>,
) -> Page {
    let count = u32::try_from(found.items.len()).unwrap_or(u32::MAX);
    Page {
        data,
        count,
        total: found.total,
        first,
        last,
        before: found.before,
        after: found.after,
    }
}

/// A JSON array of what is JSON already.
fn array<'i>(items: impl Iterator<Item = &'i [u8]>) -> Bytes {
    let mut data = BytesMut::from(&b"["[..]);
    for item in items {
        if data.len() > 1 {
            data.put_u8(b',');
        }
        data.extend_from_slice(item);
    }
    data.put_u8(b']');
    data.freeze()
}

fn refused(field: &'static str, reason: &str) -> AskError<ConversationError> {
    AskError::Refused(ConversationError::Invalid(Invalid::new(field, reason)))
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
