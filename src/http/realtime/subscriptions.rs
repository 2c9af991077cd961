//! The subscriptions of one socket, and the events that they bring, each once.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use colloquy_actors::feed::{Cursor, EventReader, ReadEnd};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::ConversationId;
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::FeedNumber;
use futures_util::StreamExt;
use futures_util::future::AbortHandle;
use futures_util::stream::{LocalBoxStream, SelectAll, abortable};

use super::deduplicator::{Deduplicator, Watermark};
use super::json_frames::SubscriptionTarget;
use super::narrowing::{Narrowing, Verdict};
use super::sse::{Events, events};

struct Account {
    events: Events,
    watermark: Watermark,
    narrowing: Narrowing,
}

struct Conversation {
    id: ConversationId,
    deduplicator: Deduplicator,
    narrowing: Narrowing,
    /// Tells its reader from one that it had before.
    reader: u64,
    stop: AbortHandle,
    /// It is unsubscribed, or its conversation erased, and ends with what it owes.
    leaving: bool,
}

/// An event on its way out; the cursor stands beside what the account's subscription shows.
pub(super) struct Delivery {
    pub(super) event: Arc<Event>,
    pub(super) cursor: Option<Cursor>,
    /// What becomes of it, whichever subscription has brought it.
    pub(super) verdict: Verdict,
    /// The conversation whose subscription has ended with it.
    pub(super) ended: Option<ConversationId>,
}

type Read = (EntityNumber, u64, Result<Arc<Event>, ReadEnd>);

/// All of one socket's, by the number of the conversation.
#[derive(Default)]
pub(super) struct Subscriptions {
    account: Option<Account>,
    conversations: HashMap<EntityNumber, Conversation>,
    readers: SelectAll<LocalBoxStream<'static, Read>>,
    last_reader: u64,
}

impl Subscriptions {
    pub(super) fn has(&self, target: SubscriptionTarget) -> bool {
        match target {
            SubscriptionTarget::Account => self.account.is_some(),
            SubscriptionTarget::Entity(id) => self
                .conversations
                .get(&id.number())
                .is_some_and(|one| one.id == id && !one.leaving),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.conversations.len() + usize::from(self.account.is_some())
    }

    /// Follows the account behind this number.
    pub(super) fn add_account(
        &mut self,
        after: FeedNumber,
        reader: EventReader,
        narrowing: Narrowing,
    ) {
        self.account = Some(Account {
            events: events(reader),
            watermark: Watermark {
                start: after,
                passed: after,
            },
            narrowing,
        });
    }

    /// Follows a conversation behind this `seq`.
    pub(super) fn add(
        &mut self,
        id: ConversationId,
        after: Sequence,
        reader: EventReader,
        narrowing: Narrowing,
    ) {
        let (number, stop) = self.read(id, reader);
        let before = self.conversations.remove(&id.number());
        let deduplicator = before.map_or(Deduplicator::new(after), |before| {
            before.stop.abort();
            before.deduplicator.again(after)
        });
        self.conversations.insert(
            id.number(),
            Conversation {
                id,
                deduplicator,
                narrowing,
                reader: number,
                stop,
                leaving: false,
            },
        );
    }

    fn read(&mut self, id: ConversationId, reader: EventReader) -> (u64, AbortHandle) {
        self.last_reader += 1;
        let (entity, number) = (id.number(), self.last_reader);
        let (events, stop) = abortable(events(reader).map(move |read| (entity, number, read)));
        self.readers.push(events.boxed_local());
        (number, stop)
    }

    pub(super) fn remove(&mut self, id: ConversationId) {
        let Some(one) = self.conversations.get_mut(&id.number()) else {
            return;
        };
        if one.deduplicator.has_pending() {
            one.leaving = true;
        } else {
            one.stop.abort();
            self.conversations.remove(&id.number());
        }
    }

    /// Ends the subscription of a conversation that is erased with this event, behind which nothing
    /// comes; gives the conversation, if one was.
    fn end_with(&mut self, event: &Event) -> Option<ConversationId> {
        if event.kind != EventKind::ConversationErased {
            return None;
        }
        let id = self.conversations.get(&event.entity)?.id;
        self.remove(id);
        Some(id)
    }

    /// Follows the account no more; gives the conversations that have to be read again, and behind
    /// which `seq`.
    pub(super) fn remove_account(&mut self) -> Vec<(ConversationId, Sequence)> {
        self.account = None;
        let pending = self
            .conversations
            .values()
            .filter(|one| one.deduplicator.awaits_account());
        pending
            .map(|one| (one.id, one.deduplicator.passed()))
            .collect()
    }

    /// Reads a conversation anew, with what it has shown in mind.
    pub(super) fn read_again(&mut self, id: ConversationId, reader: EventReader) {
        if self.conversations.contains_key(&id.number()) {
            let (number, stop) = self.read(id, reader);
            if let Some(one) = self.conversations.get_mut(&id.number()) {
                one.stop.abort();
                (one.reader, one.stop) = (number, stop);
            }
        }
    }

    /// The next event of any of the subscriptions, each event once.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Delivery, ReadEnd>> {
        // The account's first: what it shows has a cursor.
        while let Some(account) = &mut self.account {
            let Poll::Ready(Some(read)) = account.events.poll_next_unpin(context) else {
                break;
            };
            let event = read?;
            account.watermark.passed = event.number;
            let mut one = self.conversations.get_mut(&event.entity);
            let by_account =
                |one: &mut &mut Conversation| one.deduplicator.by_account(event.sequence);
            if one.as_mut().is_none_or(by_account) {
                let narrowing = one.map_or(account.narrowing, |one| one.narrowing);
                return Poll::Ready(Ok(Delivery {
                    cursor: Some(Cursor(event.number.into())),
                    verdict: narrowing.judge(&event),
                    ended: self.end_with(&event),
                    event,
                }));
            }
        }
        let watermark = self.account.as_ref().map(|account| account.watermark);
        while let Poll::Ready(Some((entity, reader, read))) = self.readers.poll_next_unpin(context)
        {
            let Some(one) = self
                .conversations
                .get_mut(&entity)
                .filter(|one| one.reader == reader)
            else {
                continue;
            };
            let event = match read {
                // The account's may still have to show its last event, which ends it.
                Err(ReadEnd::Complete) => continue,
                read => read?,
            };
            let shown = one
                .deduplicator
                .by_itself(event.sequence, event.number, watermark);
            let verdict = one.narrowing.judge(&event);
            if one.leaving && !one.deduplicator.has_pending() {
                one.stop.abort();
                self.conversations.remove(&entity);
            }
            if shown {
                return Poll::Ready(Ok(Delivery {
                    cursor: None,
                    verdict,
                    ended: self.end_with(&event),
                    event,
                }));
            }
        }
        Poll::Pending
    }
}
