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
    Closed, ErasingDue, Found, Group, GroupChange, GroupFilter, Grouped, Happened, Indexer, Label,
    Place, Search, SearchError, Source, ThreadNames, Window, insist, insist_if_readable,
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
use colloquy_model::id::{ConversationId, CustomerId, UserId, first_number_at};
use colloquy_model::idempotency::KEPT_FOR;
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::position::Position;
use colloquy_runtime::LoadError;
use colloquy_runtime::fair_queue::QueueBounds;

/// Conversations or messages read from the store at once.
const PAGE: u32 = 500;
/// So much text is handed in at once.
const HANDED_IN_BYTES: usize = 1 << 20;
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
        self.0
            .find(|index| index.find((tenant, words), filter, window))
            .await
    }

    /// From where on its files hold nothing of what was erased before.
    ///
    /// # Errors
    /// The index is behind.
    pub(crate) async fn erasing_due(&self) -> Result<ErasingDue, ListFailure> {
        self.0.erasing_due().await
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

fn text(tenant: Tenant, message: MessageView) -> GroupChange {
    GroupChange::Text {
        group: message.conversation_id.number(),
        number: message.seq,
        tenant,
        text: message.content,
    }
}

/// What is to be found of conversations: their messages as they are now, and their customers' names.
struct Conversations {
    store: Arc<dyn Store>,
}

impl Source for Conversations {
    type Layout = Grouped;
    const INTEREST: Interest = Interest::Conversations;
    const GATHERED_FOR: Duration = GATHERED_FOR;

    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn take_all(&self, index: &Search<Grouped>) -> Result<(), Closed> {
        let mut behind = EntityNumber::ZERO;
        loop {
            let page = insist(|| self.store.conversations_behind(behind, PAGE)).await;
            let Some(last) = page.last() else {
                return Ok(());
            };
            behind = last.id.number();
            let mut customers = HashSet::new();
            for conversation in page {
                self.take_conversation(index, conversation, &mut customers)
                    .await?;
            }
        }
    }

    async fn take(&self, index: &Search<Grouped>, happened: Happened) -> Result<(), Closed> {
        let mut changes = Vec::with_capacity(happened.rows.len());
        let mut bytes = 0;
        for row in happened.rows {
            match row {
                FeedRow::Event(event) if event.kind.is_of_conversation() => {
                    bytes += event.payload.len();
                    self.take_event(&event, &mut changes).await;
                }
                FeedRow::Renamed {
                    customer,
                    tenant,
                    name,
                    ..
                } => changes.push(GroupChange::Relabel(Label {
                    number: customer,
                    tenant,
                    text: name.into(),
                })),
                FeedRow::Event(_) | FeedRow::Endpoint { .. } => {}
            }
            if bytes >= HANDED_IN_BYTES {
                bytes = 0;
                index
                    .hand_in(happened.behind, std::mem::take(&mut changes))
                    .await?;
            }
        }
        index.hand_in(happened.reached, changes).await
    }
}

impl Conversations {
    /// What an event changes. One that can't be read was told where it was found, and changes
    /// nothing.
    async fn take_event(&self, event: &Event, changes: &mut Vec<GroupChange>) {
        let tenant = event.tenant;
        let kind = event.kind;
        if matches!(kind, EventKind::MessageCreated | EventKind::MessageUpdated) {
            changes.extend(read::<MessageView>(event).map(|message| text(tenant, message)));
        } else if kind == EventKind::ConversationCreated {
            if let Some(header) = read::<Header>(event) {
                // The event's own copy of the name may be older than one that was read before.
                changes.extend(self.label(tenant, header.customer_id).await);
                changes.push(GroupChange::Group(header.group(event.entity)));
            }
        } else if kind == EventKind::ConversationErased {
            changes.push(GroupChange::Gone {
                group: event.entity,
                tenant,
            });
        } else if matches!(
            kind,
            EventKind::ConversationUpdated | EventKind::ConversationClosed
        ) {
            let group = read::<Header>(event).map(|header| header.group(event.entity));
            changes.extend(group.map(GroupChange::Group));
        }
    }

    /// The customer's name as it is now; a later one is told by the feed.
    async fn label(&self, tenant: Tenant, customer: CustomerId) -> Option<GroupChange> {
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
            Some(Stored::Record(record)) => Some(GroupChange::Label(Label {
                number: customer.number(),
                tenant,
                text: record.name.into(),
            })),
            Some(Stored::Conversation(_) | Stored::Document(_)) | None => None,
        }
    }

    /// Hands in all of a conversation; `customers` are those whose names were handed in.
    async fn take_conversation(
        &self,
        index: &Search<Grouped>,
        OwnedConversation { id, tenant }: OwnedConversation,
        customers: &mut HashSet<CustomerId>,
    ) -> Result<(), Closed> {
        let this: Arc<[EntityNumber]> = Arc::from([id.number()]);
        let headers = insist_if_readable(async || {
            let among = self.store.conversations_among(tenant, Arc::clone(&this));
            among.await
        });
        let Some(header) = headers.await.and_then(|mut headers| headers.pop()) else {
            return Ok(());
        };
        let header = Header::from(&header);
        let mut changes = Vec::new();
        if customers.insert(header.customer_id) {
            changes.extend(self.label(tenant, header.customer_id).await);
        }
        changes.push(GroupChange::Group(header.group(id.number())));
        let mut after = 0;
        loop {
            let messages = self.messages(tenant, id, after).await;
            match messages.last() {
                Some(last) => after = last.seq,
                None => break,
            }
            changes.extend(messages.into_iter().map(|message| text(tenant, message)));
            index
                .hand_in(Position::ZERO, std::mem::take(&mut changes))
                .await?;
        }
        index.hand_in(Position::ZERO, changes).await
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
