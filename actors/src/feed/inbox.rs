//! What was published and not yet handed out. The writer never waits here: where more gathers than
//! may, the events of the account that has most of them are taken out, and whoever wanted them is
//! told to read on from the store.

use std::collections::{HashMap, VecDeque};

use parking_lot::{Condvar, Mutex};

use super::Item;
use super::hub::Message;
use colloquy_model::event::Event;

/// Bytes of what was published, at most.
const BYTES_MAX: usize = 64 << 20;

/// The queue between the writer and the feed's thread.
#[derive(Default)]
pub(super) struct Inbox {
    pending: Mutex<Pending>,
    came: Condvar,
}

#[derive(Default)]
struct Pending {
    messages: VecDeque<Message>,
    bytes: usize,
    ended: bool,
}

impl Inbox {
    /// Puts a message behind the others.
    pub(super) fn put(&self, message: Message) {
        let mut pending = self.pending.lock();
        pending.bytes += message.bytes();
        pending.messages.push_back(message);
        while pending.bytes > BYTES_MAX && pending.cut() {}
        drop(pending);
        self.came.notify_one();
    }

    /// Bytes that wait to be handed out.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.pending.lock().bytes
    }

    /// Ends the inbox: what waits is still taken out, and nothing more comes.
    pub(super) fn end(&self) {
        self.pending.lock().ended = true;
        self.came.notify_one();
    }

    /// The next message; none where nothing more comes.
    pub(super) fn next(&self) -> Option<Message> {
        let mut pending = self.pending.lock();
        loop {
            if let Some(message) = pending.messages.pop_front() {
                pending.bytes -= message.bytes();
                return Some(message);
            }
            if pending.ended {
                return None;
            }
            self.came.wait(&mut pending);
        }
    }
}

impl Pending {
    /// Takes out the events of the account that has most of them; false where there are none.
    fn cut(&mut self) -> bool {
        let mut sums: HashMap<u32, usize> = HashMap::new();
        for item in self.messages.iter().flat_map(Message::items) {
            if let Item::Event(event) = item {
                *sums.entry(event.tenant.account_number()).or_default() += item.bytes();
            }
        }
        let Some((account, _)) = sums.into_iter().max_by_key(|(_, bytes)| *bytes) else {
            return false;
        };
        tracing::warn!(
            account,
            "events of this account come faster than they are handed out: its readers go on from the store"
        );
        let of_it = |event: &Event| event.tenant.account_number() == account;
        let mut kept = VecDeque::with_capacity(self.messages.len());
        for message in self.messages.drain(..) {
            let Message::Batch(mut published) = message else {
                kept.push_back(message);
                continue;
            };
            let before = published.len();
            published.retain(|one| !matches!(&one.item, Item::Event(event) if of_it(event)));
            // In their place, so that nobody gets what came later and believes that it is whole.
            let told = matches!(kept.back(), Some(Message::Lost(other)) if *other == account);
            if published.len() < before && !told {
                kept.push_back(Message::Lost(account));
            }
            if !published.is_empty() {
                kept.push_back(Message::Batch(published));
            }
        }
        self.messages = kept;
        self.bytes = self.messages.iter().map(Message::bytes).sum();
        true
    }
}

impl Message {
    fn items(&self) -> impl Iterator<Item = &Item> {
        let published = match self {
            Message::Batch(published) => published.as_slice(),
            Message::Lost(_) | Message::Join(..) | Message::Leave(..) | Message::Close => &[],
        };
        published.iter().map(|one| &one.item)
    }

    fn bytes(&self) -> usize {
        self.items().map(Item::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::hub::Published;
    use super::*;
    use colloquy_model::caller::{Mode, Tenant};
    use colloquy_model::entity_number::EntityNumber;
    use colloquy_model::event::{EventRow, SeenNow};
    use colloquy_model::event_kind::EventKind;
    use colloquy_model::position::Position;
    use colloquy_model::sequence::Sequence;
    use colloquy_model::stream::FeedNumber;
    use colloquy_model::time::Timestamp;

    fn batch(account: u32, bytes: usize, with: impl IntoIterator<Item = Item>) -> Message {
        let tenant = Tenant::of(account, Mode::Live);
        let row = EventRow {
            position: Position(1),
            tenant,
            number: FeedNumber(1),
            entity: EntityNumber(1),
            sequence: Sequence(1),
            kind: EventKind::MessageCreated,
            at: Timestamp(0),
            credential: None,
            text_bytes: 0,
        };
        let payload = vec![b'x'; bytes].into();
        let event = Event::new(row, SeenNow::default(), payload);
        Message::Batch(
            [Item::Event(Arc::new(event))]
                .into_iter()
                .chain(with)
                .map(|item| Published {
                    item,
                    to_webhooks: true,
                })
                .collect(),
        )
    }

    /// What is handed out, in short.
    fn words(inbox: &Inbox) -> Vec<String> {
        inbox.end();
        let word = |item: &Item| match item {
            Item::Event(event) => format!("event of {}", event.tenant.account_number()),
            Item::Reached(position) => format!("reached {position}"),
            Item::Endpoint(..)
            | Item::EndpointGone(..)
            | Item::Renamed(..)
            | Item::Redacted(..) => "other".to_owned(),
        };
        let messages = std::iter::from_fn(|| inbox.next());
        let words = messages.flat_map(|message| match &message {
            Message::Lost(account) => vec![format!("lost by {account}")],
            Message::Batch(published) => published.iter().map(|one| word(&one.item)).collect(),
            Message::Join(..) | Message::Leave(..) | Message::Close => vec!["other".to_owned()],
        });
        words.collect()
    }

    #[test]
    fn within_its_bytes_everything_is_handed_out_in_order() {
        let inbox = Inbox::default();
        inbox.put(batch(1, 10, [Item::Reached(Position(1))]));
        let one = inbox.waiting_bytes();
        inbox.put(batch(2, 10, []));
        assert!(one > 10 && inbox.waiting_bytes() > one + 10);
        assert_eq!(words(&inbox), ["event of 1", "reached 1", "event of 2"]);
        assert_eq!(inbox.waiting_bytes(), 0);
    }

    #[test]
    fn beyond_its_bytes_the_account_with_most_of_them_loses_them() {
        let inbox = Inbox::default();
        inbox.put(batch(1, 8 << 20, []));
        inbox.put(batch(2, 1 << 20, []));
        for _ in 0..3 {
            inbox.put(batch(1, 8 << 20, []));
        }
        inbox.put(batch(2, 10, [Item::Reached(Position(7))]));
        let told = words(&inbox);
        assert_eq!(
            told,
            [
                "lost by 1",
                "event of 2",
                "lost by 1",
                "event of 2",
                "reached 7"
            ]
        );
        assert_eq!(inbox.waiting_bytes(), 0);
    }
}
