//! The store on MongoDB: the same promises without transactions.
//!
//! `log` is what is true: one document for each insert, whose `_id` (entity and sequence) is the
//! fence and whose insert is the moment of the commit. Everything that lists, loads and counts need
//! is carried over from it into other collections, idempotently and in the order of each entity's
//! sequences. What lists count or filter by is carried over before the answer leaves; numbers of
//! messages and their places follow at once behind, and a list waits until they have.

mod account_numbers;
mod activity;
mod admission;
mod aging;
mod audit;
mod broadcasts;
mod carry_over;
mod carrying;
mod chain;
mod check;
mod check_counters;
mod check_log;
mod codec;
mod conditions;
mod connection;
mod counters;
mod deliveries;
mod delivery_documents;
mod delivery_lists;
mod delivery_logs;
mod delivery_reads;
mod delivery_slices;
mod delivery_tidying;
mod document_lists;
mod document_loads;
mod documents;
mod emptied_rows;
mod entity_documents;
mod entity_events;
mod erasable;
mod erasing;
mod event_pages;
mod event_rows;
mod event_totals;
mod events;
mod export;
mod export_events;
mod export_rows;
mod feed_numbers;
mod figure_documents;
mod figure_generations;
mod figures;
mod find;
mod findings;
mod first_start;
mod following;
mod gaps;
mod header;
mod header_carrying;
mod housekeeping;
mod import;
mod intents;
mod kept_answers;
mod linking;
mod lists;
mod loads;
mod log;
mod message_lists;
mod misshapen;
mod nodes;
mod nonces;
mod open;
mod pace;
mod places;
mod positions;
mod processes;
mod progress;
mod recovery;
mod redacting;
mod relayed_requests;
mod retention;
mod roles;
mod schema;
mod sealed_documents;
mod sizes;
mod sizing;
mod statements;
mod store_key;
#[cfg(test)]
mod tests;
mod tickets;
mod transfer;
mod usage;
mod veil;
mod versions;
mod work;
mod writer;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::task::{Context, Poll};
use std::time::Duration;

use mongodb::Database;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, watch};

use self::aging::Aging;
use self::broadcasts::Broadcasts;
use self::carrying::Carrying;
pub use self::chain::MongoChain;
pub use self::check::{attachments, check};
use self::deliveries::{Deliverer, Deliveries, DeliveryParts};
use self::following::LogFollower;
use self::housekeeping::Housekeeping;
use self::linking::Linker;
use self::nodes::{Known, Membership};
pub use self::open::OpenError;
use self::pace::Pace;
use self::progress::Progress;
use self::schema::Collections;
use self::sizing::Sizing;
pub use self::store_key::use_key_of;
pub use self::transfer::MongoTransfer;
use self::work::Work;
use self::writer::Writer;
use crate::sealing::{GivenKeys, MasterKeys};
use crate::store::{CommitSink, Later, Operator, ReadError};
use colloquy_model::caller::Tenant;
use colloquy_model::position::Position;
use colloquy_runtime::fair_queue::QueueBounds;
use colloquy_runtime::fair_semaphore::FairSemaphore;
use colloquy_runtime::threads;

/// How long a read may take, whatever it waits for.
const READ_MAX: Duration = Duration::from_secs(10);

/// Where the database is, and how it is used.
#[derive(Debug, Clone, Copy)]
pub struct MongoSettings<'s> {
    /// The connection string: `mongodb://…` or `mongodb+srv://…`.
    pub uri: &'s str,
    /// The name of the database.
    pub database: &'s str,
    /// The operators' token; none: one is made at the first start.
    pub operator_token: Option<&'s str>,
    /// The master keys; where none is given, one is kept in the database.
    pub master_keys: &'s GivenKeys,
    /// How long events are kept; none: for ever.
    pub events_kept: Option<Duration>,
    /// How many lists may wait for their turn, and how long.
    pub reads: QueueBounds,
}

/// The store on MongoDB: its writer, and what it reads with.
pub struct MongoStore {
    inbox: UnboundedSender<Work>,
    deliveries: Deliveries,
    runtime: Handle,
    collections: Collections,
    progress: Arc<Progress>,
    /// Up to which position numbers and places of this node's messages are carried over …
    listed: watch::Receiver<Position>,
    /// … and those of all nodes.
    all_listed: watch::Receiver<Position>,
    membership: Arc<Membership>,
    broadcasts: Arc<Broadcasts>,
    /// Accounts take turns with their lists.
    lists: FairSemaphore,
    list_wait: Duration,
    master_keys: MasterKeys,
    /// Disconnected when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl MongoStore {
    /// Connects, carries over what a crash left, and tells the sink what it has to know.
    ///
    /// # Errors
    /// The server does not answer, or what is stored can't be read.
    pub fn open(
        settings: MongoSettings<'_>,
        sink: Arc<dyn CommitSink>,
    ) -> Result<(Self, Operator), OpenError> {
        Self::open_at(Pace::default(), settings, sink)
    }

    /// The same, with its housekeeping at another pace.
    fn open_at(
        pace: Pace,
        settings: MongoSettings<'_>,
        sink: Arc<dyn CommitSink>,
    ) -> Result<(Self, Operator), OpenError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (uri, name) = (settings.uri.to_owned(), settings.database.to_owned());
        let given = Given {
            token: settings.operator_token.map(str::to_owned),
            keys: settings.master_keys.clone(),
        };
        let pace = Pace {
            events_kept: settings.events_kept,
            ..pace
        };
        let start = move |sink| async move {
            let database = connection::database(&uri, &name).await?;
            Parts::open(pace, &database, given, sink).await
        };
        let (opened, open) = sync_channel(1);
        let (ends, ended) = sync_channel::<()>(1);
        let work = move || {
            let _ends = ends;
            runtime.block_on(async move {
                match start(sink).await {
                    Ok((parts, at_start)) => {
                        let shared = parts.shared();
                        let membership = Arc::clone(&shared.membership);
                        let running = parts.run();
                        let serving = async move {
                            membership.current().await;
                            // Whoever opens waits for it.
                            drop(opened.send(Ok((shared, at_start))));
                        };
                        tokio::join!(running, serving);
                    }
                    // Whoever opens waits for it.
                    Err(error) => drop(opened.send(Err(error))),
                }
            });
        };
        threads::spawn("writer", threads::EndProcess, work)?;
        let gone = || OpenError::Thread(std::io::Error::other("the thread ended at its start"));
        let (shared, at_start) = open.recv().map_err(|_| gone())??;
        let store = MongoStore {
            inbox: shared.inbox,
            deliveries: shared.deliveries,
            runtime: handle,
            collections: shared.collections,
            progress: shared.progress,
            listed: shared.listed,
            all_listed: shared.all_listed,
            membership: shared.membership,
            broadcasts: shared.broadcasts,
            lists: FairSemaphore::bounded(LISTS_AT_ONCE, settings.reads),
            list_wait: settings.reads.wait,
            ended: Mutex::new(ended),
            master_keys: at_start.master_keys,
        };
        Ok((store, at_start.operator))
    }

    /// Reads on the store's thread; whoever drops the answer has left, and nothing more is read. What
    /// waits for a server that is away ends in time.
    fn read<T: Send + 'static>(
        &self,
        reading: impl Future<Output = Result<T, ReadError>> + Send + 'static,
    ) -> Later<Result<T, ReadError>> {
        let in_time = async move {
            let read = tokio::time::timeout(READ_MAX, reading).await;
            read.unwrap_or(Err(ReadError::Away))
        };
        Box::pin(Reading(self.runtime.spawn(in_time)))
    }

    /// A read when it is this account's turn.
    fn in_turn<T>(
        &self,
        tenant: Tenant,
        reading: impl Future<Output = Result<T, ReadError>> + Send + 'static,
    ) -> impl Future<Output = Result<T, ReadError>> + Send + 'static {
        let (lists, wait) = (self.lists.clone(), self.list_wait);
        async move {
            let turn = lists.acquire(tenant, 0, wait).await;
            let _turn = turn.ok_or(ReadError::Busy)?;
            reading.await
        }
    }

    /// The same, behind everything that was acknowledged before it was asked.
    fn read_listed<T: Send + 'static>(
        &self,
        reading: impl Future<Output = Result<T, ReadError>> + Send + 'static,
    ) -> Later<Result<T, ReadError>> {
        let acknowledged = self.progress.acknowledged();
        let (mut listed, all_listed) = (self.listed.clone(), self.all_listed.clone());
        let (membership, collections) = (Arc::clone(&self.membership), self.collections.clone());
        self.read_visible(async move {
            let reached = listed.wait_for(|listed| *listed >= acknowledged).await;
            reached.map(|_| ()).map_err(|_| ReadError::Away)?;
            if membership.had_peers() {
                let from = *all_listed.borrow();
                let carried = recovery::carry_messages_behind(&collections, from).await;
                carried.map_err(|error| codec::failed(&error))?;
            }
            reading.await
        })
    }

    /// Reads what is carried over before it is acknowledged: the answer leaves behind what it may
    /// have seen, so that nobody who asks later is shown less.
    fn read_visible<T: Send + 'static>(
        &self,
        reading: impl Future<Output = Result<T, ReadError>> + Send + 'static,
    ) -> Later<Result<T, ReadError>> {
        let (progress, mut listed) = (Arc::clone(&self.progress), self.listed.clone());
        self.read(async move {
            let read = reading.await?;
            let seen = progress.visible();
            let reached = listed.wait_for(|listed| *listed >= seen).await;
            reached.map(|_| read).map_err(|_| ReadError::Away)
        })
    }

    fn send(&self, work: Work) -> Result<(), Work> {
        self.progress.counters.sending();
        self.inbox.send(work).map_err(|unsent| {
            self.progress.counters.finished(1);
            unsent.0
        })
    }

    /// Closes the inbox, and waits until everything submitted is settled and carried over. Without
    /// a lease it waits no longer: other nodes, or the next start, do what is left.
    fn close_writer(&self) {
        self.deliveries.close();
        let (done, closed) = sync_channel(1);
        // An error means that the writer is gone already.
        let sent = self.inbox.send(Work::Close { done }).is_ok();
        if sent && self.waits_for(&closed) {
            self.waits_for(&self.ended.lock());
        }
    }

    /// Waits until this is told, or will never be; false where the lease ended before.
    fn waits_for(&self, told: &Receiver<()>) -> bool {
        while told.recv_timeout(LOOK_WHILE_CLOSING) == Err(RecvTimeoutError::Timeout) {
            if self.membership.has_lost_its_lease() {
                tracing::error!(
                    "the server ends while MongoDB does not answer: what became of the last \
                     commits is decided by another node, or at the next start"
                );
                return false;
            }
        }
        true
    }
}

/// Lists that are read at once, so that the driver has connections left for all else.
const LISTS_AT_ONCE: usize = 8;

/// How often a close looks whether the lease still runs.
const LOOK_WHILE_CLOSING: Duration = Duration::from_millis(100);

/// A read that ends with whoever waits for it.
struct Reading<T>(tokio::task::JoinHandle<Result<T, ReadError>>);

impl<T> Future for Reading<T> {
    type Output = Result<T, ReadError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.0).poll(context);
        polled.map(|joined| joined.unwrap_or(Err(ReadError::Away)))
    }
}

impl<T> Drop for Reading<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What whoever asks the store needs of its parts.
struct Shared {
    inbox: UnboundedSender<Work>,
    deliveries: Deliveries,
    collections: Collections,
    progress: Arc<Progress>,
    listed: watch::Receiver<Position>,
    all_listed: watch::Receiver<Position>,
    membership: Arc<Membership>,
    broadcasts: Arc<Broadcasts>,
}

/// Where it is noted how far a node has come.
struct Reached {
    followed: watch::Sender<Position>,
    own: watch::Sender<Position>,
}

/// The tasks of the store, before they run.
struct Parts {
    writer: Writer,
    inbox: UnboundedSender<Work>,
    deliverer: Deliverer,
    deliveries: Deliveries,
    carrying: Carrying,
    follower: LogFollower,
    membership: Arc<Membership>,
    broadcasts: Arc<Broadcasts>,
    all_listed: watch::Receiver<Position>,
    housekeeping: Housekeeping,
    aging: Aging,
    sizing: Sizing,
    linker: Linker,
    /// Ends the housekeeping.
    close: watch::Sender<bool>,
}

/// What the settings give of what the store would otherwise make and keep.
struct Given {
    token: Option<String>,
    keys: GivenKeys,
}

/// What a start finds or makes.
struct AtStart {
    operator: Operator,
    master_keys: MasterKeys,
}

impl Parts {
    async fn open(
        pace: Pace,
        database: &Database,
        given: Given,
        sink: Arc<dyn CommitSink>,
    ) -> Result<(Self, AtStart), OpenError> {
        let collections = Collections::of(database.clone());
        transfer::refuse_part(&collections).await?;
        let master_keys = store_key::open(&collections, &given.keys).await?;
        collections.ensure_indexes().await?;
        figure_generations::ensure_generation(&collections).await?;
        let followed = watch::Sender::new(Position::ZERO);
        let (reached, listed) = watch::channel(Position::ZERO);
        let progress = Arc::new(Progress::default());
        let known = Known {
            followed: followed.subscribe(),
            listed,
            progress,
        };
        let membership = Arc::new(Membership::join(&collections, known).await?);
        let standing = recovery::recover(&collections).await?;
        reached.send_replace(standing.carried);
        colloquy_model::id::never_below(open::newest(&collections).await?);
        open::tell(&collections, &*sink).await?;
        let operator = open::operator(&collections, given.token.as_deref()).await?;
        sink.opened(standing.carried);
        followed.send_replace(standing.carried);
        let parts = Self::compose(
            sink,
            pace,
            membership,
            Reached {
                followed,
                own: reached,
            },
        );
        let at_start = AtStart {
            operator,
            master_keys,
        };
        Ok((parts, at_start))
    }

    /// Makes the parts of a store whose log is carried over up to a position.
    fn compose(
        sink: Arc<dyn CommitSink>,
        pace: Pace,
        membership: Arc<Membership>,
        reached: Reached,
    ) -> Self {
        let Reached { followed, own } = reached;
        let collections = membership.collections.clone();
        let carried = *followed.borrow();
        let (inbox, works) = unbounded_channel();
        let (behind, documents) = unbounded_channel();
        let (landed, to_tell) = unbounded_channel();
        let (all, all_listed) = watch::channel(carried);
        let Known {
            progress, listed, ..
        } = membership.known.clone();
        progress.stands_at(carried);
        let (close, closing) = watch::channel(false);
        let (deliveries, deliverer) = Deliverer::beside(DeliveryParts {
            collections: collections.clone(),
            inbox: inbox.clone(),
            sink: Arc::clone(&sink),
            progress: Arc::clone(&progress),
            membership: Arc::clone(&membership),
        });
        let carrying = Carrying {
            collections: collections.clone(),
            documents,
            reached: own,
            all,
            of_others: (Vec::new(), carried),
        };
        let writer = Writer {
            collections,
            sink,
            wake: Arc::new(Notify::new()),
            keyed: Arc::new(Notify::new()),
            redacted: Arc::new(Notify::new()),
            inbox: works,
            behind,
            landed,
            membership: Arc::clone(&membership),
            listed,
            progress,
            closes: None,
            banned: HashMap::new(),
        };
        let follower = LogFollower::beside(&writer, to_tell, followed);
        let housekeeping = Housekeeping::beside(&writer, pace, closing.clone());
        let aging = Aging::beside(&writer, pace, all_listed.clone(), closing.clone());
        Parts {
            sizing: Sizing::beside(&writer, pace, closing.clone()),
            linker: Linker::beside(&writer, pace, closing.clone()),
            writer,
            inbox,
            deliverer,
            deliveries,
            carrying,
            follower,
            broadcasts: Broadcasts::of(&membership),
            membership,
            all_listed,
            housekeeping,
            aging,
            close,
        }
    }

    fn shared(&self) -> Shared {
        Shared {
            inbox: self.inbox.clone(),
            deliveries: self.deliveries.clone(),
            collections: self.writer.collections.clone(),
            progress: Arc::clone(&self.writer.progress),
            listed: self.writer.listed.clone(),
            all_listed: self.all_listed.clone(),
            membership: Arc::clone(&self.membership),
            broadcasts: Arc::clone(&self.broadcasts),
        }
    }

    async fn run(self) {
        let Parts {
            writer,
            inbox,
            deliverer,
            deliveries,
            carrying,
            follower,
            membership,
            broadcasts,
            all_listed,
            housekeeping,
            aging,
            sizing,
            linker,
            close,
        } = self;
        drop((inbox, deliveries, all_listed));
        spawn(deliverer.run());
        spawn(broadcasts.run(close.subscribe()));
        let carrying = spawn(carrying.run());
        let following = spawn(follower.run());
        let (leave, leaving) = watch::channel(false);
        let linking = spawn(linker.run());
        let member = Arc::clone(&membership);
        let member = spawn(async move { member.run(leaving).await });
        let housekeeping = spawn(housekeeping.run());
        let aging = spawn(aging.run());
        let sizing = spawn(sizing.run());
        let closed = writer.run().await;
        close.send_replace(true);
        let _ = tokio::join!(housekeeping, aging, sizing, linking, following, carrying);
        linking::link_last(&membership).await;
        leave.send_replace(true);
        let _ = member.await;
        if let Some(done) = closed {
            // Whoever closes the store may have left.
            let _ = done.send(());
        }
    }
}

/// Runs a task without which the store can't go on: where it panics the process ends, as it does
/// where the writer panics. A node whose tasks are not all there would keep its lease, and with it
/// others waiting.
fn spawn(task: impl Future<Output = ()> + Send + 'static) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let ended = tokio::spawn(task).await;
        if ended.is_err_and(|error| error.is_panic()) {
            tracing::error!("an essential task of the store panicked: the process ends");
            std::process::exit(threads::EXIT_CODE);
        }
    })
}
