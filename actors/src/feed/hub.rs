//! From the writer's hand to whoever listens. The writer publishes each batch between its fsync and
//! its replies; a thread of the hub's hands the events to the subscribers that want them. So a
//! commit costs what matches it, and a slow subscriber costs nobody but itself: beyond its queue,
//! or its account's share of what may wait, it is let go.
//!
//! A subscription names the position at which it joins. Everything up to that is in the store when
//! [`Feed::subscribe`] returns, everything after it comes through the queue: read the one, then the
//! other, and nothing is missed or doubled.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::inbox::Inbox;
use super::queue::{Put, Queue, Share};
use super::read_ahead::ReadAhead;
use colloquy_model::caller::Tenant;
use colloquy_model::endpoint::Endpoint;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::Event;
use colloquy_model::event_kind::EventKind;
use colloquy_model::event_source::EventSource;
use colloquy_model::id::WebhookId;
use colloquy_model::position::Position;
use colloquy_runtime::{cores, threads};

/// Which events a subscriber gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interest {
    /// Those of an account and mode, or of one of its entities, by the number of its identifier.
    Events(Tenant, EventSource<EntityNumber>),
    /// Those of every account and mode that has a webhook endpoint, and what becomes of endpoints.
    Webhooks,
    /// Those of documents, of every account and mode.
    Documents,
    /// Those of conversations, of every account and mode, and customers' new names.
    Conversations,
    /// Those that figures are made of, of every account and mode: those of conversations, documents
    /// that are made, and texts that become more or fewer.
    Figures,
}

/// What comes through a subscription, in the order of commits.
#[derive(Debug, Clone)]
pub enum Item {
    /// Something that happened to an entity.
    Event(Arc<Event>),
    /// A webhook endpoint as it is from this position on.
    Endpoint(Position, Arc<Endpoint>),
    /// A webhook endpoint that is no more.
    EndpointGone(Position, WebhookId),
    /// What a customer is called from this position on.
    Renamed(Position, Arc<Renamed>),
    /// Texts of this entity were redacted: what is held of its events is to be let go.
    Redacted(EntityNumber),
    /// Everything up to this position has come.
    Reached(Position),
}

/// A customer's new name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renamed {
    /// The number of the customer's identifier.
    pub customer: EntityNumber,
    /// The account and mode that it belongs to.
    pub tenant: Tenant,
    /// What the customer is called now.
    pub name: Box<str>,
}

/// Why a subscription brings nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// Its queue was full: what came since is lost to it and has to be read from the store.
    #[error("the subscriber was too slow")]
    TooSlow,
    /// The feed is closed.
    #[error("the feed is closed")]
    Closed,
}

/// A queue of what happens from one position on.
#[derive(Debug)]
pub struct Subscription {
    /// Everything up to here is in the store; the queue brings what comes after.
    pub joined: Position,
    queue: Arc<Queue>,
    interest: Interest,
    number: u64,
    feed: Arc<Shared>,
}

impl Subscription {
    /// The next item.
    ///
    /// # Errors
    /// Nothing more will come.
    pub async fn next(&mut self) -> Result<Item, Ended> {
        match poll_fn(|context| self.queue.poll(context)).await {
            Some(item) => Ok(item),
            None if self.feed.closed.load(Ordering::Relaxed) => Err(Ended::Closed),
            None => Err(Ended::TooSlow),
        }
    }

    /// The next item, if it has come already.
    pub fn waiting(&mut self) -> Option<Item> {
        self.queue.waiting()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut table = self.feed.table.lock();
        if let Some(count) = table.wanted.get_mut(&self.interest) {
            *count -= 1;
            if *count == 0 {
                table.wanted.remove(&self.interest);
            }
        }
        table.inbox.put(Message::Leave(self.interest, self.number));
        drop(table);
        self.queue.let_go();
    }
}

/// What the hub's thread is told, in the order in which it happened.
pub(super) enum Message {
    Batch(Vec<Published>),
    /// Events of this account that stood here were taken out: whoever wanted them is let go.
    Lost(u32),
    Join(Interest, Listener),
    Leave(Interest, u64),
    Close,
}

/// An item on its way to whoever listens.
pub(super) struct Published {
    pub(super) item: Item,
    /// Whether webhooks want it: events of accounts without an endpoint don't wake their thread.
    pub(super) to_webhooks: bool,
}

/// A subscriber as the thread knows it; dropped, it is brought nothing more.
pub(super) struct Listener {
    number: u64,
    queue: Arc<Queue>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.queue.end();
    }
}

/// Who listens to what, as the writer needs to know it while it publishes.
struct Table {
    /// How many subscriptions there are for each interest; none: no entry.
    wanted: HashMap<Interest, usize>,
    /// How many webhook endpoints an account and mode has.
    endpoints: HashMap<Tenant, usize>,
    known: HashMap<WebhookId, Tenant>,
    /// The last position that was published.
    last: Position,
    /// The last position that was published to each of the server's own subscribers.
    last_for: LastFor,
    subscriptions: u64,
    inbox: Arc<Inbox>,
}

/// The last position that each of the server's own subscribers has to take. Everything up to where
/// it joined is one, since it reads that from the store.
#[derive(Debug, Default)]
struct LastFor {
    webhooks: Position,
    documents: Position,
    conversations: Position,
    figures: Position,
}

impl LastFor {
    fn event(&mut self, event: &Event, to_webhooks: bool) {
        if to_webhooks {
            self.webhooks = event.position;
        }
        if event.kind.is_of_document() {
            self.documents = event.position;
        } else if event.kind.is_of_conversation() {
            self.conversations = event.position;
        }
        if is_counted(event) {
            self.figures = event.position;
        }
    }

    fn joined(&mut self, interest: Interest, position: Position) {
        match interest {
            Interest::Webhooks => self.webhooks = position,
            Interest::Documents => self.documents = position,
            Interest::Conversations => self.conversations = position,
            Interest::Figures => self.figures = position,
            Interest::Events(..) => {}
        }
    }
}

/// Whether figures count an event.
fn is_counted(event: &Event) -> bool {
    let is_made = event.kind == EventKind::DocumentCreated;
    is_made || event.kind.is_of_conversation() || event.text_bytes != 0
}

impl Drop for Table {
    fn drop(&mut self) {
        self.inbox.end();
    }
}

struct Shared {
    table: Mutex<Table>,
    closed: AtomicBool,
    /// Bytes of events that may wait for the connections of one account.
    share_max: Arc<AtomicUsize>,
    read_ahead: Arc<ReadAhead>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Feed")
    }
}

/// What happens, to whoever listens.
#[derive(Debug)]
pub struct Feed(Arc<Shared>);

impl Feed {
    /// A feed with its thread; the process ends where none can be had.
    #[must_use]
    pub fn new() -> Self {
        let (inbox, share_max) = (
            Arc::new(Inbox::default()),
            Arc::new(AtomicUsize::new(usize::MAX)),
        );
        let (told, most) = (Arc::clone(&inbox), Arc::clone(&share_max));
        let table = Table {
            wanted: HashMap::new(),
            endpoints: HashMap::new(),
            known: HashMap::new(),
            last: Position::ZERO,
            last_for: LastFor::default(),
            subscriptions: 0,
            inbox,
        };
        let shared = Arc::new(Shared {
            table: Mutex::new(table),
            closed: AtomicBool::new(false),
            share_max,
            read_ahead: Arc::default(),
        });
        // A panic lets everybody who listened go: they go on from the store, as those do who are
        // too slow.
        let started = threads::spawn("feed", threads::Restart, move || {
            cores::mark_latency_sensitive();
            run(&told, &most);
        });
        if let Err(error) = started {
            tracing::error!(%error, "no thread can be had for the feed: the process ends");
            std::process::exit(threads::EXIT_CODE);
        }
        Feed(shared)
    }

    /// Lets so many bytes of events wait for the connections of one account.
    pub(crate) fn set_share(&self, bytes_max: usize) {
        self.0.share_max.store(bytes_max, Ordering::Relaxed);
    }

    /// What waits for those who read on from the store.
    pub(super) fn read_ahead(&self) -> &Arc<ReadAhead> {
        &self.0.read_ahead
    }

    /// Notes the last position that was in the store when it was opened.
    pub(crate) fn opened(&self, last: Position) {
        self.0.table.lock().last = last;
    }

    /// Notes a webhook endpoint that was in the store when it was opened.
    pub(crate) fn recovered_endpoint(&self, id: WebhookId, tenant: Tenant) {
        self.0.table.lock().endpoint(id, tenant);
    }

    /// Opens the one batch that is being published; only the writer does.
    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch {
            table: self.0.table.lock(),
            items: Vec::new(),
        }
    }

    /// Listens from now on, with a queue of so many places.
    #[must_use]
    pub fn subscribe(&self, interest: Interest, places: usize) -> Subscription {
        let queue = Arc::new(Queue::new(places));
        let mut table = self.0.table.lock();
        table.subscriptions += 1;
        let number = table.subscriptions;
        *table.wanted.entry(interest).or_default() += 1;
        let joined = table.last;
        table.last_for.joined(interest, joined);
        // Under the lock: what was published before stands before it in the thread's queue, what
        // comes after stands after.
        table.inbox.put(Message::Join(
            interest,
            Listener {
                number,
                queue: Arc::clone(&queue),
            },
        ));
        Subscription {
            joined,
            queue,
            interest,
            number,
            feed: Arc::clone(&self.0),
        }
    }

    /// The last position that was committed.
    #[must_use]
    pub fn last(&self) -> Position {
        self.0.table.lock().last
    }

    /// How many positions one of the server's own subscribers, which has come this far, is behind the
    /// last one that concerns it; one that does not listen reads the store, all of which concerns it.
    pub(crate) fn lag(&self, interest: Interest, position: Position) -> u64 {
        let table = self.0.table.lock();
        let last = match interest {
            _ if !table.wanted.contains_key(&interest) => table.last,
            Interest::Webhooks => table.last_for.webhooks,
            Interest::Documents => table.last_for.documents,
            Interest::Conversations => table.last_for.conversations,
            Interest::Figures => table.last_for.figures,
            Interest::Events(..) => table.last,
        };
        last.distance_from(position)
    }

    /// Whether everybody is let go.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Relaxed)
    }

    /// How many subscriptions there are, the server's own with them.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.0.table.lock().wanted.values().sum()
    }

    /// Bytes of events that were committed and not yet handed to those who listen.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let inbox = Arc::clone(&self.0.table.lock().inbox);
        inbox.waiting_bytes()
    }

    /// Tells who follows all accounts, behind everything that was committed before, how far it has
    /// come.
    pub fn reach(&self) {
        let mut batch = self.batch();
        let last = batch.table.last;
        batch.publish(Item::Reached(last));
    }

    /// Ends every subscription: the server stops.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::Relaxed);
        self.0.table.lock().inbox.put(Message::Close);
    }
}

impl Default for Feed {
    fn default() -> Self {
        Feed::new()
    }
}

impl Table {
    fn endpoint(&mut self, id: WebhookId, tenant: Tenant) {
        if self.known.insert(id, tenant).is_none() {
            *self.endpoints.entry(tenant).or_default() += 1;
        }
    }

    fn endpoint_gone(&mut self, id: WebhookId) {
        let Some(tenant) = self.known.remove(&id) else {
            return;
        };
        if let Some(count) = self.endpoints.get_mut(&tenant) {
            *count -= 1;
            if *count == 0 {
                self.endpoints.remove(&tenant);
            }
        }
    }
}

/// A batch that is being published. While it is open nobody can join, so a subscriber gets a batch
/// whole or finds it in the store; dropped, it is on its way.
pub(crate) struct Batch<'f> {
    table: MutexGuard<'f, Table>,
    items: Vec<Published>,
}

impl Batch<'_> {
    /// Whether anybody wants events of this entity.
    pub(crate) fn wants(&self, tenant: Tenant, entity: Subject) -> bool {
        let Table {
            wanted, endpoints, ..
        } = &*self.table;
        let wanted = |interest| wanted.contains_key(&interest);
        endpoints.contains_key(&tenant)
            || wanted(Interest::Events(tenant, EventSource::Entity(entity.number)))
            || wanted(Interest::Events(tenant, EventSource::Account))
            || match entity.kind {
                Kind::Document => wanted(Interest::Documents) || wanted(Interest::Figures),
                Kind::Conversation => wanted(Interest::Conversations) || wanted(Interest::Figures),
                Kind::Account
                | Kind::Key
                | Kind::User
                | Kind::Customer
                | Kind::Webhook
                | Kind::Supervision
                | Kind::Audit
                | Kind::Client
                | Kind::Attachment
                | Kind::Erasure
                | Kind::Grant
                | Kind::SigningKeys
                | Kind::Alerts => false,
            }
    }

    /// Publishes an event, to whoever wants it when the batch is dropped.
    pub(crate) fn event(&mut self, event: Event) {
        let to_webhooks = self.table.endpoints.contains_key(&event.tenant);
        self.table.last_for.event(&event, to_webhooks);
        let item = Item::Event(Arc::new(event));
        self.items.push(Published { item, to_webhooks });
    }

    /// Publishes what concerns webhooks, whosever it is.
    fn publish(&mut self, item: Item) {
        let to_webhooks = true;
        self.items.push(Published { item, to_webhooks });
    }

    /// Publishes an endpoint as it is from this position on.
    pub(crate) fn endpoint(&mut self, position: Position, endpoint: Arc<Endpoint>) {
        self.table.endpoint(endpoint.id, endpoint.tenant);
        self.table.last_for.webhooks = position;
        self.publish(Item::Endpoint(position, endpoint));
    }

    /// Publishes that an endpoint is no more.
    pub(crate) fn endpoint_gone(&mut self, position: Position, id: WebhookId) {
        self.table.endpoint_gone(id);
        self.table.last_for.webhooks = position;
        self.publish(Item::EndpointGone(position, id));
    }

    /// Publishes what a customer is called from this position on, where anybody wants it.
    pub(crate) fn renamed(&mut self, position: Position, renamed: Renamed) {
        if self.table.wanted.contains_key(&Interest::Conversations) {
            self.table.last_for.conversations = position;
            self.items.push(Published {
                item: Item::Renamed(position, Arc::new(renamed)),
                to_webhooks: false,
            });
        }
    }

    /// Publishes that texts of this entity were redacted.
    pub(crate) fn redacted(&mut self, entity: EntityNumber) {
        self.publish(Item::Redacted(entity));
    }

    /// Everything up to this position is committed.
    pub(crate) fn reached(&mut self, position: Position) {
        self.table.last = self.table.last.max(position);
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let items = std::mem::take(&mut self.items);
        if !items.is_empty() {
            self.table.inbox.put(Message::Batch(items));
        }
    }
}

/// Whom the thread hands events to, and what waits for the connections of each account.
#[derive(Default)]
struct Listeners {
    by_interest: HashMap<Interest, Vec<Listener>>,
    shares: HashMap<u32, Share>,
}

impl Interest {
    /// The number of the account whose streams and sockets have it; none for the server's own
    /// subscribers.
    fn account(self) -> Option<u32> {
        match self {
            Interest::Events(tenant, _) => Some(tenant.account_number()),
            Interest::Webhooks
            | Interest::Documents
            | Interest::Conversations
            | Interest::Figures => None,
        }
    }
}

impl Listeners {
    fn join(&mut self, interest: Interest, listener: Listener) {
        self.by_interest.entry(interest).or_default().push(listener);
    }

    fn leave(&mut self, interest: Interest, number: u64) {
        let Some(some) = self.by_interest.get_mut(&interest) else {
            return;
        };
        some.retain(|listener| listener.number != number);
        if some.is_empty() {
            self.by_interest.remove(&interest);
        }
        if let Some(account) = interest.account()
            && self.shares.get_mut(&account).is_some_and(Share::is_empty)
        {
            self.shares.remove(&account);
        }
    }

    /// Lets everybody go who wanted events of this account.
    fn lose(&mut self, account: u32) {
        for (interest, some) in &self.by_interest {
            if interest.account().is_none_or(|own| own == account) {
                some.iter().for_each(|listener| listener.queue.let_go());
            }
        }
    }

    fn hand_out(&mut self, published: &Published, share_max: usize) {
        let item = &published.item;
        match item {
            Item::Event(event) => {
                self.give_lines(event, item, share_max);
                if event.kind.is_of_document() {
                    self.give(Interest::Documents, item);
                } else if event.kind.is_of_conversation() {
                    self.give(Interest::Conversations, item);
                }
                if is_counted(event) {
                    self.give(Interest::Figures, item);
                }
            }
            Item::Reached(_) => {
                self.give(Interest::Figures, item);
                self.give(Interest::Documents, item);
                self.give(Interest::Conversations, item);
            }
            Item::Renamed(..) => self.give(Interest::Conversations, item),
            Item::Endpoint(..) | Item::EndpointGone(..) | Item::Redacted(..) => {}
        }
        if published.to_webhooks {
            self.give(Interest::Webhooks, item);
        }
    }

    /// Gives an item to the server's own subscribers.
    fn give(&mut self, interest: Interest, item: &Item) {
        if let Some(some) = self.by_interest.get_mut(&interest) {
            some.retain(|listener| listener.queue.put(item, None) != Put::Lost);
        }
    }

    /// Gives an event to the streams and sockets that want it.
    fn give_lines(&mut self, event: &Event, item: &Item, share_max: usize) {
        for source in [EventSource::Entity(event.entity), EventSource::Account] {
            let interest = Interest::Events(event.tenant, source);
            let Some(some) = self.by_interest.get_mut(&interest) else {
                continue;
            };
            let share = self
                .shares
                .entry(event.tenant.account_number())
                .or_default();
            let held = share.hold(item);
            some.retain(|listener| match listener.queue.put(item, Some(&held)) {
                Put::Waits => true,
                Put::Unlisted => {
                    share.list(&listener.queue);
                    true
                }
                Put::Lost => false,
            });
            drop(held);
            share.keep_within(share_max);
        }
    }
}

fn run(told: &Inbox, share_max: &AtomicUsize) {
    let mut listeners = Listeners::default();
    let mut closed = false;
    while let Some(message) = told.next() {
        match message {
            Message::Batch(items) => {
                let share_max = share_max.load(Ordering::Relaxed);
                items
                    .iter()
                    .for_each(|item| listeners.hand_out(item, share_max));
            }
            Message::Lost(account) => listeners.lose(account),
            // One that comes too late is dropped, which tells it.
            Message::Join(..) if closed => {}
            Message::Join(interest, listener) => listeners.join(interest, listener),
            Message::Leave(interest, number) => listeners.leave(interest, number),
            Message::Close => {
                closed = true;
                listeners = Listeners::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use colloquy_model::caller::Mode;
    use colloquy_model::event::{EventRow, SeenNow};
    use colloquy_model::sequence::Sequence;
    use colloquy_model::stream::FeedNumber;
    use colloquy_model::time::Timestamp;

    fn publish(feed: &Feed, position: i64, tenant: Tenant) {
        let row = EventRow {
            position: Position(position),
            tenant,
            number: FeedNumber(1),
            entity: EntityNumber(1),
            sequence: Sequence(1),
            kind: EventKind::MessageCreated,
            at: Timestamp(0),
            credential: None,
            text_bytes: 0,
        };
        let event = Event::new(row, SeenNow::default(), b"{}".as_slice().into());
        feed.batch().event(event);
    }

    /// The positions of events up to where everything has come.
    async fn positions(subscription: &mut Subscription) -> Vec<i64> {
        let mut seen = Vec::new();
        loop {
            match subscription.next().await.unwrap() {
                Item::Event(event) => seen.push(event.position.0),
                Item::Reached(_) => return seen,
                Item::Endpoint(..)
                | Item::EndpointGone(..)
                | Item::Renamed(..)
                | Item::Redacted(_) => {}
            }
        }
    }

    #[tokio::test]
    async fn webhooks_are_given_the_events_of_who_has_an_endpoint_and_others_all() {
        let feed = Feed::new();
        let mut webhooks = feed.subscribe(Interest::Webhooks, 100);
        let mut conversations = feed.subscribe(Interest::Conversations, 100);
        let (live, test) = (Tenant::of(1, Mode::Live), Tenant::of(1, Mode::Test));
        let (one, other) = (WebhookId::new(Timestamp(0)), WebhookId::new(Timestamp(0)));
        publish(&feed, 1, live);
        feed.recovered_endpoint(one, live);
        publish(&feed, 2, live);
        publish(&feed, 3, test);
        feed.recovered_endpoint(other, live);
        feed.batch().endpoint_gone(Position(4), one);
        publish(&feed, 5, live);
        feed.batch().endpoint_gone(Position(6), other);
        publish(&feed, 7, live);
        feed.reach();
        assert_eq!(positions(&mut webhooks).await, [2, 5]);
        assert_eq!(positions(&mut conversations).await, [1, 2, 3, 5, 7]);
        assert_eq!(feed.lag(Interest::Webhooks, Position(6)), 0);
        assert_eq!(feed.lag(Interest::Conversations, Position(5)), 2);
    }
}
