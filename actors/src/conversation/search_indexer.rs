//! Search over conversations: what an index of their messages and their customers' names is filled
//! with, and how it is searched. Each message is a text of its own, so that one costs the same
//! however many its conversation has.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::Conversation;
use crate::feed::{Feed, Interest};
use crate::search::{
    Adding, ErasingDue, Found, Group, GroupChange, GroupFilter, Grouped, Indexer, Label, Layout,
    Pending, Place, Search, SearchError, Source, TURN_BYTES, ThreadNames, Window, insist,
    insist_if_readable,
};
use crate::store::{
    ConversationHeader, Facets, FeedRow, ListFailure, MessageQuery, OwnedConversation, ReadError,
    Store, Stored,
};
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{Channel, MessageView, Priority, Status};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ConversationId, CustomerId, MessageId, UserId, first_number_at};
use colloquy_model::idempotency::KEPT_FOR;
use colloquy_model::page::{Order, Paging, Start};
use colloquy_runtime::LoadError;
use colloquy_runtime::fair_queue::QueueBounds;

/// Conversations or messages read from the store at once.
const PAGE: u32 = 500;
/// What has no text counts as much in its account's turn as one of so many bytes.
const LEAST_TURN_BYTES: usize = 256;
/// Long enough that a transaction takes in many messages where many come, and nobody waits for it:
/// who searches ends it.
const GATHERED_FOR: Duration = Duration::from_millis(25);
/// Retention leaves what it takes at least as long as answers under keys are kept; half of that is
/// for clocks that are wrong.
const TOLD_FOR: Duration = Duration::from_secs(KEPT_FOR.as_secs() / 2);
const THREADS: ThreadNames = ThreadNames {
    follower: "message-finder",
    writer: "message-indexer",
    readers: "message-search",
};
/// Nobody has this number.
const NOBODY: i64 = 0;

/// The index of conversations, and the thread that fills it.
pub(crate) struct SearchIndexer(Indexer<Conversations>);

/// A search for conversations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConversationSearch<'q> {
    /// Whose conversations.
    pub(crate) tenant: Tenant,
    /// Which of them.
    pub(crate) facets: &'q Facets,
    /// The words, as the caller wrote them.
    pub(crate) words: &'q str,
    /// The part of what fits that is wanted.
    pub(crate) window: Window,
}

impl SearchIndexer {
    /// Opens the index in this file and starts the thread.
    ///
    /// # Errors
    /// The file can't be used, or another process has it.
    pub(crate) fn open(
        path: &Path,
        store: Arc<dyn Store>,
        feed: Arc<Feed>,
        (reads, events_kept): (QueueBounds, Option<Duration>),
    ) -> Result<Self, SearchError> {
        let place = Place {
            path: path.to_owned(),
            reads,
            told_for: events_kept.map(|_| TOLD_FOR),
            threads: THREADS,
        };
        Indexer::open(place, Conversations { store }, feed).map(SearchIndexer)
    }

    /// Finds conversations, best first.
    ///
    /// # Errors
    /// The index is behind, or can't be read.
    pub(crate) async fn find(&self, search: ConversationSearch<'_>) -> Result<Found, ListFailure> {
        let ConversationSearch {
            tenant,
            facets,
            words,
            window,
        } = search;
        let filter = filter(facets);
        let find = |index: &Search<Grouped>| index.find((tenant, words), filter, window);
        self.0.find(tenant, find).await
    }

    /// From where on its files hold nothing of what this tenant erased before.
    ///
    /// # Errors
    /// The index is behind.
    pub(crate) async fn erasing_due(&self, tenant: Tenant) -> Result<ErasingDue, ListFailure> {
        self.0.erasing_due(tenant).await
    }

    /// Whether its files hold nothing of that any more.
    pub(crate) fn is_erased(&self, since: ErasingDue) -> bool {
        self.0.is_erased(since)
    }

    /// How many positions the index is behind.
    pub(crate) fn lag(&self) -> u64 {
        self.0.lag()
    }

    /// Ends the thread and closes the index. Blocks: not for an arbiter.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

/// What the index has to filter by.
fn filter(facets: &Facets) -> GroupFilter {
    let Facets {
        status,
        channel,
        priority,
        customer,
        assignee,
        created_after,
        created_before,
    } = *facets;
    GroupFilter {
        label: customer.map(|customer| customer.number()),
        facets: [
            status.map(Status::code),
            channel.map(Channel::code),
            priority.map(Priority::code),
            assignee.map(|user| facet(Some(user))),
        ],
        from: created_after.map(|after| first_number_at(after + Duration::from_millis(1))),
        below: created_before.map(first_number_at),
    }
}

/// Whether a conversation is as it was searched for.
pub(super) fn passes(facets: &Facets, header: &ConversationHeader) -> bool {
    filter(facets).passes(&Header::from(header).group(header.id.number()))
}

fn facet(assignee: Option<UserId>) -> i64 {
    assignee.map_or(NOBODY, |user| {
        i64::try_from(user.number().0).unwrap_or(i64::MAX)
    })
}

/// What the index filters a conversation by; events that show the whole conversation have it, too.
#[derive(Deserialize)]
struct Header {
    customer_id: CustomerId,
    status: Status,
    channel: Channel,
    priority: Priority,
    assignee_id: Option<UserId>,
}

impl From<&ConversationHeader> for Header {
    fn from(header: &ConversationHeader) -> Self {
        let state = &header.state;
        Header {
            customer_id: state.customer,
            status: state.status,
            channel: state.channel,
            priority: state.priority,
            assignee_id: state.assignee,
        }
    }
}

impl Header {
    fn group(&self, number: EntityNumber) -> Group {
        Group {
            number,
            label: self.customer_id.number(),
            facets: [
                self.status.code(),
                self.channel.code(),
                self.priority.code(),
                facet(self.assignee_id),
            ],
        }
    }
}

/// What is to be found of conversations: their messages as they are now, and their customers' names.
struct Conversations {
    store: Arc<dyn Store>,
}

/// What happened to a conversation or a customer.
#[derive(Debug)]
enum Changed {
    /// A message was sent or changed.
    Message {
        tenant: Tenant,
        conversation: ConversationId,
        message: MessageId,
        seq: u64,
        /// What it says; none: it is to be read anew.
        text: Option<String>,
    },
    /// Something else.
    Other(GroupChange),
}

impl Changed {
    fn message(tenant: Tenant, message: MessageView) -> Self {
        Changed::Message {
            tenant,
            conversation: message.conversation_id,
            message: message.message_id,
            seq: message.seq,
            text: Some(message.content),
        }
    }
}

impl Pending for Changed {
    type Subject = ();

    // A text has to follow its conversation.
    fn subject(&self) -> Option<()> {
        None
    }

    fn bytes(&self) -> usize {
        match self {
            Changed::Message { text, .. } => text.as_ref().map_or(0, String::len),
            Changed::Other(change) => Grouped::bytes(change),
        }
    }

    fn turn_bytes(&self) -> usize {
        match self {
            // How long it is, nobody knows before.
            Changed::Message { text: None, .. } => TURN_BYTES,
            Changed::Message { .. } | Changed::Other(_) => self.bytes().max(LEAST_TURN_BYTES),
        }
    }

    fn forget_text(&mut self) {
        match self {
            Changed::Message { text, .. } => *text = None,
            // A name is short.
            Changed::Other(_) => {}
        }
    }
}

impl Source for Conversations {
    type Layout = Grouped;
    type Pending = Changed;
    const INTEREST: Interest = Interest::Conversations;
    const GATHERED_FOR: Duration = GATHERED_FOR;

    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn add_all(&self, to: &Adding<'_, Changed>) {
        let mut behind = EntityNumber::ZERO;
        loop {
            let page = insist(|| self.store.conversations_behind(behind, PAGE)).await;
            let Some(last) = page.last() else {
                return;
            };
            behind = last.id.number();
            let mut customers = HashSet::new();
            for conversation in page {
                self.add_conversation(conversation, &mut customers, to)
                    .await;
            }
        }
    }

    async fn add(&self, happened: FeedRow, to: &Adding<'_, Changed>) {
        match happened {
            FeedRow::Event(event) if event.kind.is_of_conversation() => {
                for change in self.of_event(&event).await {
                    to.add(event.tenant, change).await;
                }
            }
            FeedRow::Renamed {
                customer,
                tenant,
                name,
                ..
            } => {
                let label = Label {
                    number: customer,
                    tenant,
                    text: name.into(),
                };
                to.add(tenant, Changed::Other(GroupChange::Relabel(label)))
                    .await;
            }
            FeedRow::Event(_) | FeedRow::Endpoint { .. } => {}
        }
    }

    async fn changes(&self, changed: Changed, _: bool) -> Result<Vec<GroupChange>, Changed> {
        Ok(match changed {
            Changed::Other(change) => vec![change],
            Changed::Message {
                tenant,
                conversation,
                message,
                seq,
                text,
            } => {
                let text = match text {
                    Some(text) => Some(text),
                    None => self.text(conversation, message).await,
                };
                let group = conversation.number();
                let changed = text.map(|text| GroupChange::Text {
                    group,
                    number: seq,
                    tenant,
                    text,
                });
                Vec::from_iter(changed)
            }
        })
    }
}

impl Conversations {
    /// What an event changes. One that can't be read was told where it was found, and changes
    /// nothing.
    async fn of_event(&self, event: &Event) -> Vec<Changed> {
        let tenant = event.tenant;
        let kind = event.kind;
        let mut changes = Vec::new();
        if matches!(kind, EventKind::MessageCreated | EventKind::MessageUpdated) {
            let message = read::<MessageView>(event);
            changes.extend(message.map(|message| Changed::message(tenant, message)));
        } else if kind == EventKind::ConversationCreated {
            if let Some(header) = read::<Header>(event) {
                // The event's own copy of the name may be older than one that was read before.
                changes.extend(self.label(tenant, header.customer_id).await);
                let group = GroupChange::Group(header.group(event.entity));
                changes.push(Changed::Other(group));
            }
        } else if kind == EventKind::ConversationErased {
            let group = event.entity;
            changes.push(Changed::Other(GroupChange::Gone { group, tenant }));
        } else if matches!(
            kind,
            EventKind::ConversationUpdated | EventKind::ConversationClosed
        ) {
            let group = read::<Header>(event).map(|header| header.group(event.entity));
            changes.extend(group.map(|group| Changed::Other(GroupChange::Group(group))));
        }
        changes
    }

    /// The customer's name as it is now; a later one is told by the feed.
    async fn label(&self, tenant: Tenant, customer: CustomerId) -> Option<Changed> {
        let subject = Subject {
            kind: Kind::Customer,
            number: customer.number(),
            tail: customer.tail(),
        };
        let found = insist_if_readable(async || match self.store.load(subject).await {
            Ok(found) => Ok(found),
            Err(LoadError::Unreadable) => Err(ReadError::Unreadable),
            Err(LoadError::Unavailable | LoadError::Busy) => Err(ReadError::Away),
        });
        match found.await.flatten() {
            Some(Stored::Record(record)) => Some(Changed::Other(GroupChange::Label(Label {
                number: customer.number(),
                tenant,
                text: record.name.into(),
            }))),
            Some(Stored::Conversation(_) | Stored::Document(_)) | None => None,
        }
    }

    /// Adds all of a conversation; `customers` are those whose names were added.
    async fn add_conversation(
        &self,
        OwnedConversation { id, tenant }: OwnedConversation,
        customers: &mut HashSet<CustomerId>,
        to: &Adding<'_, Changed>,
    ) {
        let this: Arc<[EntityNumber]> = Arc::from([id.number()]);
        let headers = insist_if_readable(async || {
            let among = self.store.conversations_among(tenant, Arc::clone(&this));
            among.await
        });
        let Some(header) = headers.await.and_then(|mut headers| headers.pop()) else {
            return;
        };
        let header = Header::from(&header);
        if customers.insert(header.customer_id)
            && let Some(label) = self.label(tenant, header.customer_id).await
        {
            to.add(tenant, label).await;
        }
        let group = GroupChange::Group(header.group(id.number()));
        to.add(tenant, Changed::Other(group)).await;
        let mut after = 0;
        loop {
            to.room(tenant).await;
            let messages = self.messages(tenant, id, after).await;
            match messages.last() {
                Some(last) => after = last.seq,
                None => return,
            }
            for message in messages {
                to.add(tenant, Changed::message(tenant, message)).await;
            }
        }
    }

    /// What a message says now; none where it is no more, or can't be read. In no account's turn: what
    /// others wait for, no account's requests hold up.
    async fn text(&self, conversation: ConversationId, message: MessageId) -> Option<String> {
        let subject = Conversation::subject(conversation);
        let found = insist_if_readable(async || self.store.shown_message(subject, message).await);
        Some(found.await??.now.content)
    }

    /// The next messages behind the one with this `seq`; those that can't be read are left out.
    async fn messages(&self, tenant: Tenant, id: ConversationId, after: u64) -> Vec<MessageView> {
        let (mut after, mut limit) = (after, PAGE);
        loop {
            let query = MessageQuery {
                tenant,
                conversation: Conversation::subject(id),
                sender: None,
                after_seq: Some(after),
                before_seq: None,
                paging: Paging {
                    limit,
                    start: Start::Offset(0),
                    order: Order::Asc,
                },
            };
            let page = insist_if_readable(async || self.store.messages(query).await).await;
            let Some(page) = page else {
                // One by one those are found that can be read.
                after += if limit == 1 { 1 } else { 0 };
                limit = 1;
                continue;
            };
            let Some(page) = page.filter(|page| !page.items.is_empty()) else {
                return Vec::new();
            };
            let messages: Vec<MessageView> = page
                .items
                .iter()
                .filter_map(|message| serde_json::from_str(message).ok())
                .collect();
            if messages.is_empty() {
                after += u64::from(limit);
                continue;
            }
            return messages;
        }
    }
}

/// What an event says.
fn read<'e, T: Deserialize<'e>>(event: &'e Event) -> Option<T> {
    serde_json::from_slice(&event.payload)
        .map_err(|error| Unreadable::found(format_args!("{}: an event's data", event.id()), error))
        .ok()
}
