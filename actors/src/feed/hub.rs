//! From the writer's hand to whoever listens. The writer publishes each batch between its fsync and its replies; a thread
//! of the hub's hands the events to the subscribers that want them. So a commit costs what matches it, and a slow
//! subscriber costs nobody but itself: beyond its queue it is let go.
//!
//! A subscription names the position at which it joins. Everything up to that is in the store when [`Feed::subscribe`]
//! returns, everything after it comes through the queue: read the one, then the other, and nothing is missed or doubled.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;

use super::Event;
use crate::caller::Scope;
use crate::cores;
use crate::id::WebhookId;
use crate::store::{Kind, Subject};
use crate::threads;
use crate::webhook::Endpoint;

/// Which events a subscriber gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interest {
    /// Those of one entity, by the number of its identifier.
    Entity(u64),
    /// Those of one account and mode.
    Scope(Scope),
    /// Those of every account and mode that has a webhook endpoint, and what becomes of endpoints.
    Webhooks,
    /// Those of documents, of every account and mode.
    Documents,
}

/// What comes through a subscription, in the order of commits.
#[derive(Debug, Clone)]
pub enum Item {
    /// An event.
    Event(Arc<Event>),
    /// A webhook endpoint as it is from this position on.
    Endpoint(i64, Arc<Endpoint>),
    /// A webhook endpoint that is no more.
    EndpointGone(i64, WebhookId),
    /// Texts of this entity were redacted: what is held of its events is to be let go.
    Redacted(u64),
    /// Everything up to this position has come.
    Reached(i64),
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
    pub joined: i64,
    queue: mpsc::Receiver<Item>,
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
        match self.queue.recv().await {
            Some(item) => Ok(item),
            None if self.feed.closed.load(Ordering::Relaxed) => Err(Ended::Closed),
            None => Err(Ended::TooSlow),
        }
    }

    /// The next item, if it has come already.
    pub fn waiting(&mut self) -> Option<Item> {
        self.queue.try_recv().ok()
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
        table.send(Message::Leave(self.interest, self.number));
    }
}

/// What the hub's thread is told, in the order in which it happened.
enum Message {
    Batch(Vec<Item>),
    Join(Interest, Listener),
    Leave(Interest, u64),
    Close,
}

struct Listener {
    number: u64,
    queue: mpsc::Sender<Item>,
    lost: bool,
}

/// What the writer looks at.
struct Table {
    /// How many listen to what.
    wanted: HashMap<Interest, usize>,
    /// How many webhook endpoints an account and mode has.
    endpoints: HashMap<Scope, usize>,
    known: HashMap<WebhookId, Scope>,
    /// The last position that was published.
    last: i64,
    subscriptions: u64,
    thread: Sender<Message>,
}

struct Shared {
    table: Mutex<Table>,
    closed: AtomicBool,
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
        let (thread, told) = channel();
        let table = Table {
            wanted: HashMap::new(),
            endpoints: HashMap::new(),
            known: HashMap::new(),
            last: 0,
            subscriptions: 0,
            thread,
        };
        let shared = Arc::new(Shared { table: Mutex::new(table), closed: AtomicBool::new(false) });
        // A panic lets everybody who listened go: they go on from the store, as those do who are too slow.
        let started = threads::spawn_restarting("feed", move || {
            cores::keep_prompt();
            run(&told);
        });
        if let Err(error) = started {
            tracing::error!(%error, "no thread can be had for the feed: the process ends");
            std::process::exit(threads::EXIT_CODE);
        }
        Feed(shared)
    }

    /// What the store knew when it was opened.
    pub(crate) fn opened(&self, last: i64, endpoints: impl IntoIterator<Item = (WebhookId, Scope)>) {
        let mut table = self.0.table.lock();
        table.last = last;
        for (id, scope) in endpoints {
            table.endpoint(id, scope);
        }
    }

    /// Opens the one batch that is being published; only the writer does.
    pub(crate) fn batch(&self) -> Batch<'_> {
        Batch { table: self.0.table.lock(), items: Vec::new() }
    }

    /// Listens from now on, with a queue of so many places.
    #[must_use]
    pub fn subscribe(&self, interest: Interest, places: usize) -> Subscription {
        let (queue, received) = mpsc::channel(places);
        let mut table = self.0.table.lock();
        table.subscriptions += 1;
        let number = table.subscriptions;
        *table.wanted.entry(interest).or_default() += 1;
        // Under the lock: what was published before stands before it in the thread's queue, what comes after stands after.
        table.send(Message::Join(interest, Listener { number, queue, lost: false }));
        Subscription { joined: table.last, queue: received, interest, number, feed: Arc::clone(&self.0) }
    }

    /// The last position that was committed.
    #[must_use]
    pub fn last(&self) -> i64 {
        self.0.table.lock().last
    }

    /// Whether everybody is let go.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Relaxed)
    }

    /// How many listen.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.0.table.lock().wanted.values().sum()
    }

    /// Tells who follows all accounts, behind everything that was committed before, how far it has come.
    pub fn reach(&self) {
        let mut batch = self.batch();
        let last = batch.table.last;
        batch.items.push(Item::Reached(last));
    }

    /// Lets everybody go.
    pub fn close(&self) {
        self.0.closed.store(true, Ordering::Relaxed);
        self.0.table.lock().send(Message::Close);
    }
}

impl Default for Feed {
    fn default() -> Self {
        Feed::new()
    }
}

impl Table {
    fn send(&self, message: Message) {
        // The thread lives as long as the table.
        let _ = self.thread.send(message);
    }

    fn endpoint(&mut self, id: WebhookId, scope: Scope) {
        if self.known.insert(id, scope).is_none() {
            *self.endpoints.entry(scope).or_default() += 1;
        }
    }

    fn endpoint_gone(&mut self, id: WebhookId) {
        let Some(scope) = self.known.remove(&id) else { return };
        if let Some(count) = self.endpoints.get_mut(&scope) {
            *count -= 1;
            if *count == 0 {
                self.endpoints.remove(&scope);
            }
        }
    }
}

/// A batch that is being published. While it is open nobody can join, so a subscriber gets a batch whole or finds it in
/// the store; dropped, it is on its way.
pub(crate) struct Batch<'f> {
    table: MutexGuard<'f, Table>,
    items: Vec<Item>,
}

impl Batch<'_> {
    /// Whether anybody wants events of this entity.
    pub(crate) fn wants(&self, scope: Scope, entity: Subject) -> bool {
        let Table { wanted, endpoints, .. } = &*self.table;
        let wanted = |interest| wanted.contains_key(&interest);
        endpoints.contains_key(&scope)
            || wanted(Interest::Entity(entity.number))
            || wanted(Interest::Scope(scope))
            || (entity.kind == Kind::Document && wanted(Interest::Documents))
    }

    /// Publishes an event.
    pub(crate) fn event(&mut self, event: Event) {
        self.items.push(Item::Event(Arc::new(event)));
    }

    /// Publishes an endpoint as it is from this position on.
    pub(crate) fn endpoint(&mut self, position: i64, endpoint: Arc<Endpoint>) {
        self.table.endpoint(endpoint.id, endpoint.scope);
        self.items.push(Item::Endpoint(position, endpoint));
    }

    /// Publishes that an endpoint is no more.
    pub(crate) fn endpoint_gone(&mut self, position: i64, id: WebhookId) {
        self.table.endpoint_gone(id);
        self.items.push(Item::EndpointGone(position, id));
    }

    /// Publishes that texts of this entity were redacted.
    pub(crate) fn redacted(&mut self, entity: u64) {
        self.items.push(Item::Redacted(entity));
    }

    /// Everything up to this position is committed.
    pub(crate) fn reached(&mut self, position: i64) {
        self.table.last = self.table.last.max(position);
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let items = std::mem::take(&mut self.items);
        if !items.is_empty() {
            self.table.send(Message::Batch(items));
        }
    }
}

type Listeners = HashMap<Interest, Vec<Listener>>;

fn run(told: &Receiver<Message>) {
    let mut listeners = Listeners::new();
    let mut closed = false;
    while let Ok(message) = told.recv() {
        match message {
            Message::Batch(items) => items.iter().for_each(|item| hand_out(&mut listeners, item)),
            // One that comes too late is dropped, which tells it.
            Message::Join(..) if closed => {}
            Message::Join(interest, listener) => listeners.entry(interest).or_default().push(listener),
            Message::Leave(interest, number) => {
                if let Some(some) = listeners.get_mut(&interest) {
                    some.retain(|listener| listener.number != number);
                    if some.is_empty() {
                        listeners.remove(&interest);
                    }
                }
            }
            Message::Close => {
                closed = true;
                listeners.clear();
            }
        }
    }
}

fn hand_out(listeners: &mut Listeners, item: &Item) {
    let mut to = |interest: Interest| {
        let Some(some) = listeners.get_mut(&interest) else { return };
        for listener in some.iter_mut() {
            // One whose queue is full, or who has left, is let go: dropping its sender tells it.
            listener.lost = listener.queue.try_send(item.clone()).is_err();
        }
        some.retain(|listener| !listener.lost);
    };
    match item {
        Item::Event(event) => {
            to(Interest::Entity(event.entity));
            to(Interest::Scope(event.scope));
            to(Interest::Webhooks);
            if event.happened.is_of_document() {
                to(Interest::Documents);
            }
        }
        Item::Reached(_) => {
            to(Interest::Webhooks);
            to(Interest::Documents);
        }
        Item::Endpoint(..) | Item::EndpointGone(..) | Item::Redacted(..) => to(Interest::Webhooks),
    }
}
