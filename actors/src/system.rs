//! The wiring of everything that remembers: store, views, directories, limits. What the edge holds.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::runtime::{self, Runtime};
use tokio::time::Instant;

use crate::accounts::record::{Record, RecordSpec};
use crate::accounts::{
    Account, Client, Customer, DomainProofs, Grant, Identity, Key, Nonces, Plans, ProofSettings,
    Records, TxtRecords, User, set_plans,
};
use crate::analytics::Analytics;
use crate::attachments::{AttachmentParts, Attachments};
use crate::audit::AuditTrail;
use crate::backup::{BackupSettings, Backups};
pub use crate::bootstrap::{FirstKeys, FirstStart, NoFirstAccount};
use crate::chores::Rooms;
use crate::conversation::{Conversation, Conversations, SearchIndexer as MessageIndexer};
use crate::document::{Document, Documents, SearchIndexer};
use crate::erasures::Erasures;
use crate::feed::{Events, Interest};
use crate::idempotency::Idempotency;
use crate::journal::{Kept, StoreJournal};
use crate::key_rotation::KeyRotation;
use crate::limiter::{AddressLimiter, LinkLimiter, RateLimiter, SharedLimits};
use crate::metrics::{self, MetricsWriter};
use crate::oauth::{
    self, BadIssuer, FetchText, IssuerSettings, OAuth, OAuthParts, OAuthSettings, SigningKeysError,
};
use crate::passwords::{HashPermits, HashSettings, KnownBrowsers};
use crate::realtime::{Hub, Tickets};
use crate::sealing::texts;
use crate::sealing::{self, KeyFileError, MasterKeySources, UnsealError};
use crate::search::{self, SearchError};
use crate::sign_in::{SignInDependencies, SignIns};
use crate::store::mongodb::{self, MongoSettings, MongoStore};
use crate::store::sqlite::{OpenError, SqliteStore, StoreSettings};
use crate::store::{
    CommitSink, EncryptedStore, Later, NodeFigures, Nodes, OpeningSink, Operator, ReadError, Store,
    Topic,
};
use crate::supervision::{Lags, Peers, StoreView, Supervision};
use crate::timers::Timers;
use crate::usage::Usage;
use crate::views::Views;
use crate::webhook::{
    CountedCourier, Courier, Deliveries, DeliveryDependencies, DisableEndpoint, DisableWebhook,
    Disabling, Webhook, WebhookSettings,
};
use crate::{bootstrap, chores, sharing};
use colloquy_model::account::AccountNumber;
use colloquy_model::caller::{Actor, Caller};
use colloquy_model::command::CommandMeta;
use colloquy_model::idempotency::ReservedKeys;
use colloquy_model::key::SecretHash;
use colloquy_model::position::Position;
use colloquy_model::public_url::PublicUrl;
use colloquy_model::time::Timestamp;
use colloquy_objects::{Location, NotALocation, ObjectError, Unusable};
use colloquy_runtime::alarm::Alarm;
use colloquy_runtime::fair_queue::QueueBounds;
use colloquy_runtime::offload::ComputeLimits;
use colloquy_runtime::shard::current_arbiter;
use colloquy_runtime::threads::{self, BackgroundThread};
use colloquy_runtime::{Directory, Placement, Policy, SupervisedKind, cores};

/// Where data is stored.
#[derive(Debug, Clone)]
pub enum StoreLocation {
    /// In a file of this machine, by the embedded store.
    Sqlite(PathBuf),
    /// In MongoDB.
    MongoDb {
        /// The connection string.
        uri: String,
        /// The name of the database.
        database: String,
    },
}

/// What is set before anything starts.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where data is stored.
    pub store: StoreLocation,
    /// The file of the search index, which is made anew where it is lost.
    pub index_path: PathBuf,
    /// The file of the index of conversations, in the same way.
    pub message_index_path: PathBuf,
    /// Whether conversations can be searched.
    pub message_search: bool,
    /// How long events are kept; unset, for ever.
    pub events_kept: Option<Duration>,
    /// The operators' token; unset, one is made at the first start.
    pub operator_token: Option<String>,
    /// Where the master keys come from.
    pub master_keys: MasterKeySources,
    /// Whether what people write is encrypted wherever it is stored.
    pub encrypt_texts: bool,
    /// What accounts may do by their plans.
    pub plans: Plans,
    /// What may wait for a reading connection of the store, or of the search index.
    pub reads: QueueBounds,
    /// Failed authentications that one address may make in a minute.
    pub auth_failures_per_minute: u32,
    /// Requests a minute that may come through share links from one address …
    pub link_requests_per_address: u32,
    /// … and through one share link.
    pub link_requests_per_link: u32,
    /// Refusals of one account that are recorded in a minute, and of those whose account nobody
    /// knows.
    pub audited_refusals_per_minute: u32,
    /// How passwords are hashed.
    pub hashing: HashSettings,
    /// How long a session in the console lasts.
    pub session: Duration,
    /// How long codes and tokens hold.
    pub oauth: OAuthSettings,
    /// Whose access tokens are accepted beside this server's own.
    pub issuers: Vec<IssuerSettings>,
    /// How clients reach this server: who issues its tokens, and for whom they are.
    pub public_url: String,
    /// Tickets of one account that wait to be used.
    pub tickets_per_account: usize,
    /// Conversations in which the connections of one account say that somebody is present.
    pub presences_per_account: usize,
    /// Bytes of events that wait for the connections of one account.
    pub queue_bytes_per_account: usize,
    /// How webhooks are sent: attempts, pauses, what may be in flight.
    pub webhooks: WebhookSettings,
    /// How long the bin keeps a document.
    pub bin_kept: Duration,
    /// What may be computed over documents at once.
    pub computing: ComputeLimits,
    /// When and where backups are made.
    pub backup: BackupSettings,
    /// When domains are looked up again that are to be proven.
    pub proofs: ProofSettings,
    /// Where attachments are kept.
    pub objects: Result<Location, NotALocation>,
    /// Whether operators may let actors crash.
    pub drills: bool,
    /// How every kind of entity is run …
    pub policy: Policy,
    /// … but for these, by kind: `conversation`, `account`, `key`, `user`, `customer`, `webhook`,
    /// `document`.
    pub policies: BTreeMap<&'static str, Policy>,
}

/// Why nothing could be opened.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    /// The embedded store can't be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The store on MongoDB can't be.
    #[error(transparent)]
    MongoDb(#[from] mongodb::OpenError),
    /// The master key can't be read.
    #[error("[encryption]: {0}")]
    MasterKey(#[from] KeyFileError),
    /// What is stored is sealed under another master key.
    #[error("what is stored can't be read: {0}")]
    Sealed(#[from] UnsealError),
    /// Texts are encrypted in the store and shall not be, or the other way round.
    #[error(
        "[encryption] enabled: texts are {stored} in this store, and that is settled when it is made; \
         to change it, export into a new one"
    )]
    Texts {
        /// How they are stored.
        stored: &'static str,
    },
    /// An issuer of access tokens can't be trusted as the settings have it.
    #[error(transparent)]
    Issuer(#[from] BadIssuer),
    /// There are no keys to sign tokens with.
    #[error(transparent)]
    SigningKeys(#[from] SigningKeysError),
    /// The first start could not make its account.
    #[error(transparent)]
    FirstStart(#[from] NoFirstAccount),
    /// What accounts have used can't be read.
    #[error("what accounts have used can't be read: {0}")]
    Usage(#[from] ReadError),
    /// There is no place where attachments can be put.
    #[error("attachments can't be kept at [objects] url: {0}")]
    Objects(ObjectError),
    /// The setting names no place where attachments can be put.
    #[error("[objects] url: {0}")]
    ObjectsUrl(#[from] NotALocation),
    /// The storage of a cloud does not let this server in, or has no such bucket.
    #[error("{setting}: {unusable}")]
    Bucket {
        /// Which setting names the bucket.
        setting: &'static str,
        /// What the provider says.
        unusable: Unusable,
    },
    /// There is no place where backups can be put.
    #[error("backups can't be kept at [backup] url: {0}")]
    Backups(ObjectError),
    /// The search index can't be, nor be made anew.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The operating system starts no further thread.
    #[error("a thread can't be started: {0}; is the limit of threads too low?")]
    Thread(#[from] std::io::Error),
}

/// Asks the clouds in which files are to be kept, before anything is made: what they refuse, every file
/// would be refused. One that does not answer may do so by then.
fn ask_clouds(settings: &Settings) -> Result<(), NotOpened> {
    let objects = settings.objects.clone()?;
    let objects = ("[objects] url", Some(&objects));
    let backups = ("[backup] url", settings.backup.location.as_ref());
    let asking = [objects, backups].map(|(setting, location)| async move {
        match location {
            Some(location) => location.ask().await.map_err(|error| (setting, error)),
            None => Ok(()),
        }
    });
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let answers = runtime.block_on(join_all(asking));
    // A name that is still looked up is waited for no longer.
    runtime.shutdown_background();
    for (setting, unusable) in answers.into_iter().filter_map(Result::err) {
        match unusable {
            Unusable::Refused { .. } => return Err(NotOpened::Bucket { setting, unusable }),
            Unusable::Away { .. } => {
                tracing::warn!(setting, error = %unusable, "files can't be kept until it does");
            }
        }
    }
    Ok(())
}

/// Opens the store where it is set to be.
fn open_store(settings: &Settings, views: &Views) -> Result<(Arc<dyn Store>, Operator), NotOpened> {
    let mut sink: Arc<dyn CommitSink> = Arc::new(views.clone());
    if settings.encrypt_texts {
        texts::enable();
        sink = Arc::new(OpeningSink(sink));
    }
    let operator_token = settings.operator_token.as_deref();
    let master_keys = &settings.master_keys.read()?;
    let (store, operator): (Arc<dyn Store>, _) = match &settings.store {
        StoreLocation::Sqlite(path) => {
            let settings = StoreSettings {
                operator_token,
                master_keys,
                events_kept: settings.events_kept,
                reads: settings.reads,
            };
            let (store, operator) = SqliteStore::open(path, sink, settings)?;
            (Arc::new(store), operator)
        }
        StoreLocation::MongoDb { uri, database } => {
            let settings = MongoSettings {
                uri,
                database,
                operator_token,
                master_keys,
                events_kept: settings.events_kept,
                reads: settings.reads,
            };
            let (store, operator) = MongoStore::open(settings, sink)?;
            (Arc::new(store), operator)
        }
    };
    check_texts(settings, views)?;
    Ok(match settings.encrypt_texts {
        true => (Arc::new(EncryptedStore(store)), operator),
        false => (store, operator),
    })
}

/// Every account has keys of its texts, or none has.
fn check_texts(settings: &Settings, views: &Views) -> Result<(), NotOpened> {
    let mut accounts = views.identity.account_ids().into_keys();
    match settings.encrypt_texts {
        true if !accounts.all(texts::has_keys) => Err(NotOpened::Texts {
            stored: "not encrypted",
        }),
        false if accounts.any(texts::has_keys) => Err(NotOpened::Texts {
            stored: "encrypted",
        }),
        true | false => Ok(()),
    }
}

/// What is asked of others' servers.
#[derive(Clone)]
pub struct Sources {
    /// The public keys of issuers.
    pub texts: Arc<dyn FetchText>,
    /// What proves accounts' domains.
    pub txt_records: Arc<dyn TxtRecords>,
}

/// A system that has been opened.
pub struct Opened {
    /// The system, open and recovered.
    pub system: Arc<System>,
    /// What a first start made, to be shown once.
    pub first_start: FirstStart,
}

/// Everything that remembers.
pub struct System {
    /// Accounts, keys and users in memory: who may come in.
    pub identity: Arc<Identity>,
    /// The way to every conversation.
    pub conversations: Arc<Conversations>,
    /// The way to every document.
    pub documents: Arc<Documents>,
    /// The accounts, as entities that can be asked and listed.
    pub accounts: Arc<Records<Account>>,
    /// What proves accounts' domains.
    pub domain_proofs: Arc<DomainProofs>,
    /// The API keys of all accounts, in the same way.
    pub keys: Records<Key>,
    /// The users of all accounts, in the same way.
    pub users: Arc<Records<User>>,
    /// Signs people in to the console.
    pub sign_ins: SignIns,
    /// The customers of all accounts, in the same way.
    pub customers: Arc<Records<Customer>>,
    /// The OAuth clients of all accounts, in the same way.
    pub clients: Arc<Records<Client>>,
    /// What conversations have come to, and what was made.
    pub analytics: Analytics,
    /// Gives and ends access tokens.
    pub oauth: Arc<OAuth>,
    /// The way to every webhook endpoint.
    pub webhooks: Arc<Records<Webhook>>,
    /// What is delivered to them.
    pub deliveries: Deliveries,
    /// Lists and streams of what happened.
    pub events: Events,
    /// Idempotency keys, with the answers that are kept under them.
    pub idempotency: Idempotency,
    /// How many requests a key may still make.
    pub limiter: RateLimiter,
    /// How often an address may still fail to authenticate.
    pub addresses: Arc<AddressLimiter>,
    /// Limits of what comes through share links.
    pub links: Arc<LinkLimiter>,
    /// What accounts use, and how much of their quotas that is.
    pub usage: Arc<Usage>,
    /// Open connections, and what passes between them.
    pub connections: Arc<Hub>,
    /// Tickets that open a connection without a key.
    pub tickets: Tickets,
    /// The audit trail.
    pub audit: Arc<AuditTrail>,
    /// Files that messages bring.
    pub attachments: Arc<Attachments>,
    /// Customers who are erased.
    pub erasures: Arc<Erasures>,
    /// Whole copies of the store.
    pub backups: Backups,
    /// Every kind of actor, and how each is supervised.
    pub supervision: Supervision,
    /// The processes that serve the store, and this one among them.
    pub nodes: Arc<dyn Nodes>,
    drills: bool,
    /// The search indexes and their logs.
    index_files: [PathBuf; 4],
    store: Arc<dyn Store>,
    placement: Placement,
    operator: SecretHash,
    /// The largest number that an account had when this was opened.
    accounts_at_start: u32,
    draining: AtomicBool,
    alarm: Arc<Alarm>,
    messages: Arc<AtomicU64>,
    background: Mutex<Vec<BackgroundThread>>,
}

impl System {
    /// The nonces of requests that are signed.
    #[must_use]
    pub fn nonces(&self) -> Nonces {
        Nonces::new(self.store.clone())
    }

    /// Which master key the store is under.
    #[must_use]
    pub fn key_rotation(&self) -> KeyRotation {
        KeyRotation::new(Arc::clone(&self.store))
    }

    /// Opens the store, recovers it, fills the views; at the first start makes an account with its
    /// keys.
    ///
    /// # Errors
    /// The store or the search index can't be opened.
    pub fn open(
        settings: Settings,
        courier: Arc<dyn Courier>,
        sources: Sources,
    ) -> Result<Opened, NotOpened> {
        ask_clouds(&settings)?;
        set_plans(settings.plans);
        settings.computing.set();
        let views = Views::default();
        views.feed.set_share(settings.queue_bytes_per_account);
        let (store, mut operator) = open_store(&settings, &views)?;
        if let Some(error) = views.signing_keys.unreadable() {
            return Err(error.into());
        }
        let highest = views.identity.account_numbers();
        let makes_token = settings.operator_token.is_none();
        let to_make = store.nodes().first_start(highest, makes_token);
        let to_make = to_make.map_err(|_| NoFirstAccount)?;
        // One that holds still is known here with its token, if this node has made it.
        operator = match to_make.operator {
            Some(new) if new.hash != operator.hash => new,
            Some(_) | None => operator,
        };
        let keys = to_make
            .account
            .map(|number| bootstrap::first_account(&*store, &views, number))
            .transpose()?;
        let first_start = FirstStart {
            keys,
            operator_token: operator.fresh,
        };
        oauth::make_first(&store, &views.signing_keys, settings.oauth.access_token)?;
        let builder = Builder {
            settings: &settings,
            store: &store,
            views: &views,
            placement: &Placement::new(),
            hashes: Arc::new(HashPermits::new(settings.hashing)),
            sources,
            audit: Arc::new(AuditTrail::new(
                Arc::clone(&store),
                settings.audited_refusals_per_minute,
            )),
            usage: waiting()?.block_on(Usage::open(Arc::clone(&store)))?,
        };
        let system = builder.system(courier, operator.hash)?;
        Ok(Opened {
            system: Arc::new(system),
            first_start,
        })
    }

    /// Notes that whoever started the server has been shown the keys that `FirstStart` has, for good.
    /// Before that nothing may be served.
    ///
    /// # Errors
    /// It is not noted: the next start is a first start again.
    pub fn secrets_shown(&self) -> Result<(), ReadError> {
        self.store.nodes().secrets_shown()
    }

    /// Lets entities and limits live on the arbiter of the current thread; each HTTP worker calls
    /// it as it starts.
    pub fn register_worker(&self) {
        cores::mark_latency_sensitive();
        threads::register("worker");
        if let Some(arbiter) = current_arbiter() {
            self.placement.register(arbiter.clone());
            self.limiter.register(arbiter);
            // Whatever was due before had nowhere to be carried out.
            self.alarm.ring_now();
        }
    }

    /// Whether it can serve: a thread to live on, a store that commits, no drain.
    pub fn ready(&self) -> bool {
        !self.placement.is_empty()
            && self.has_store()
            && !self.nodes.is_draining()
            && !self.draining.load(Ordering::Relaxed)
    }

    /// Whether the store answers, and what others commit to it is known here.
    pub fn has_store(&self) -> bool {
        self.store.healthy() && self.nodes.is_current()
    }

    /// Lets what these say of plans and of how actors are supervised hold from now on.
    pub fn reconfigure(&self, plans: Plans, policies: &BTreeMap<&'static str, Policy>) {
        set_plans(plans);
        self.supervision.configure(policies);
    }

    /// The request that did what stands at this position; none where nothing stands there.
    ///
    /// # Errors
    /// The store is away.
    pub async fn request_at(&self, position: Position) -> Result<Option<String>, ReadError> {
        self.store.request_at(position).await
    }

    /// Whether others commit to the same store.
    pub fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    /// Tells the other nodes the address at which this one is reached and the region that it runs
    /// in, and from now on how many actors it has.
    pub fn announce(&self, address: String, region: String) {
        let kinds = self.supervision.kinds().to_vec();
        self.nodes.describe(Arc::new(move || NodeFigures {
            address: address.clone(),
            region: region.clone(),
            live: kinds
                .iter()
                .map(|kind| kind.overview())
                .map(|overview| {
                    let live = u64::try_from(overview.live).unwrap_or(u64::MAX);
                    (overview.kind.to_owned(), live)
                })
                .collect(),
        }));
    }

    /// The number of an account that is to be made.
    ///
    /// # Errors
    /// The store, which counts them, does not answer.
    pub async fn next_account_number(&self) -> Result<AccountNumber, ReadError> {
        self.nodes.next_account(self.accounts_at_start).await
    }

    /// The hash of the operators' token.
    pub fn operator_token_hash(&self) -> SecretHash {
        self.operator
    }

    /// Refuses new work from now on; what is queued is still done.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        // What goes on by itself asks conversations: it ends before these refuse.
        self.background.lock().clear();
        self.conversations.directory.drain();
        self.documents.directory.drain();
        self.accounts.directory.drain();
        self.keys.directory.drain();
        self.users.directory.drain();
        self.customers.directory.drain();
        self.attachments.drain();
        self.erasures.drain();
        self.webhooks.directory.drain();
    }

    /// Waits until no place is taken, at most so long; whether that was reached.
    pub async fn drained(&self, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        let mut done = self.conversations.directory.drained(deadline).await;
        done &= self.documents.directory.drained(deadline).await;
        done &= self.accounts.directory.drained(deadline).await;
        done &= self.keys.directory.drained(deadline).await;
        done &= self.users.directory.drained(deadline).await;
        done &= self.customers.directory.drained(deadline).await;
        done &= self.attachments.drained(deadline).await;
        done &= self.erasures.drained(deadline).await;
        done &= self.webhooks.directory.drained(deadline).await;
        self.deliveries
            .stop(deadline.saturating_duration_since(Instant::now()))
            .await;
        done
    }

    /// Writes down what lags and closes the store.
    pub fn close(&self) {
        if let Some(finder) = &self.documents.finder {
            finder.close();
        }
        if let Some(finder) = &self.conversations.finder {
            finder.close();
        }
        match waiting() {
            Ok(waiting) => waiting.block_on(self.usage.close()),
            Err(error) => tracing::warn!(%error, "what accounts used last is not written down"),
        }
        self.store.close();
    }

    /// How the store is doing, and those who follow it, as far as is known now.
    pub fn store_health(&self) -> StoreView {
        let bytes = |path: &PathBuf| std::fs::metadata(path).map_or(0, |file| file.len());
        let lags = Lags {
            index_bytes: self.index_files.iter().map(bytes).sum(),
            feed: self.feed_lag(),
            index: self.index_lag().max(self.message_index_lag()),
        };
        StoreView::of(self.store.health(), lags)
    }

    /// How many positions those that are matched with webhook endpoints are behind.
    fn feed_lag(&self) -> u64 {
        let matched = self.deliveries.metrics().matched;
        self.events.feed.lag(Interest::Webhooks, matched)
    }

    /// How many positions the index of documents is behind; none where there is none.
    fn index_lag(&self) -> u64 {
        let finder = self.documents.finder.as_ref();
        finder.map_or(0, |finder| finder.lag())
    }

    /// How many positions the index of conversations is behind; none where there is none.
    fn message_index_lag(&self) -> u64 {
        let finder = self.conversations.finder.as_ref();
        finder.map_or(0, |finder| finder.lag())
    }

    /// Whether operators may let actors crash.
    pub fn drills(&self) -> bool {
        self.drills
    }

    /// How many messages this process has committed.
    pub fn messages_committed(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Commits and other works that the store's writer has not finished.
    pub fn commits_waiting(&self) -> u64 {
        self.store.health().queue
    }

    /// Writes the metrics of the actors, the store, deliveries and threads.
    ///
    /// # Errors
    /// What it writes to does not take it.
    pub fn write_metrics(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let deliveries = self.deliveries.metrics();
        let kinds = self.supervision.kinds().iter();
        let overviews: Vec<_> = kinds.map(|kind| kind.overview()).collect();
        metrics::write_actors(out, &overviews)?;
        metrics::write_store(out, &self.store.metrics())?;
        out.gauge(
            "feed_queue_bytes",
            "Bytes of committed events that wait for the feed's reader.",
            u64::try_from(self.events.feed.waiting_bytes()).unwrap_or(u64::MAX),
        )?;
        out.gauge(
            "search_positions_behind",
            "Committed positions of documents that full text search has not reached.",
            self.index_lag(),
        )?;
        out.gauge(
            "message_search_positions_behind",
            "Committed positions of conversations that full text search has not reached.",
            self.message_index_lag(),
        )?;
        out.gauge(
            "analytics_positions_behind",
            "Committed positions that figures do not count yet.",
            self.analytics.lag(),
        )?;
        out.gauge(
            "webhook_positions_behind",
            "Committed positions that are still to be matched with webhook endpoints.",
            self.feed_lag(),
        )?;
        out.counter(
            "messages_total",
            "Messages committed.",
            self.messages_committed(),
        )?;
        metrics::write_backups(out, &self.backups)?;
        metrics::write_deliveries(out, &deliveries)?;
        metrics::write_threads(out, &threads::metrics())
    }
}

/// What waits for the store where nothing else runs on this thread: before it serves, and at its end.
fn waiting() -> std::io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_time().build()
}

/// The kinds of those who call and are talked to, as operators see them.
fn people(
    accounts: &Records<Account>,
    keys: &Records<Key>,
    (users, customers): (&Records<User>, &Records<Customer>),
) -> [Arc<dyn SupervisedKind>; 4] {
    [
        accounts.directory.clone(),
        keys.directory.clone(),
        users.directory.clone(),
        customers.directory.clone(),
    ]
}

struct Builder<'b> {
    settings: &'b Settings,
    store: &'b Arc<dyn Store>,
    views: &'b Views,
    placement: &'b Placement,
    hashes: Arc<HashPermits>,
    sources: Sources,
    audit: Arc<AuditTrail>,
    usage: Arc<Usage>,
}

impl Builder<'_> {
    /// Makes every room's way in and starts what is done without a request.
    fn system(&self, courier: Arc<dyn Courier>, operator: SecretHash) -> Result<System, NotOpened> {
        let (conversations, nodes) = (Arc::new(self.conversations()?), self.store.nodes());
        let documents = Arc::new(self.documents(&*nodes)?);
        let (users, customers) = (Arc::new(self.records::<User>()), Arc::new(self.records()));
        let rooms = self.rooms(&conversations, &customers)?;
        let mut background = self.background(&rooms, &documents)?;
        let limits = self.limits(&*nodes, &mut background)?;
        let webhooks: Arc<Records<Webhook>> = Arc::new(self.records());
        let (accounts, keys) = (Arc::new(self.records::<Account>()), self.records::<Key>());
        let (clients, grants) = (Arc::new(self.records()), Arc::new(self.records()));
        let deliveries = self.deliveries(courier, &webhooks)?;
        let oauth = self.oauth((&clients, &grants), &mut background)?;
        let mut actors = rooms.supervised(documents.directory.clone());
        actors.extend(people(&accounts, &keys, (&users, &customers)));
        actors.extend::<[Arc<dyn SupervisedKind>; 5]>([
            webhooks.directory.clone(),
            clients.directory.clone(),
            grants.directory.clone(),
            limits.keys.supervised(),
            deliveries.supervised(),
        ]);
        Ok(System {
            audit: Arc::clone(&self.audit),
            backups: self.backups(&mut background)?,
            analytics: self.analytics(&mut background)?,
            supervision: self.supervision(actors, &*nodes, &mut background)?,
            attachments: rooms.attachments,
            erasures: rooms.erasures,
            drills: self.settings.drills,
            index_files: self.index_files(),
            documents,
            deliveries,
            webhooks,
            clients,
            oauth,
            domain_proofs: self.domain_proofs(&accounts, &mut background)?,
            accounts,
            keys,
            sign_ins: self.sign_ins(&users, operator, &*nodes)?,
            users,
            customers,
            events: self.events(),
            idempotency: Idempotency::new(Arc::clone(&self.views.keys), self.store.clone()),
            limiter: limits.keys,
            addresses: limits.addresses,
            links: limits.links,
            usage: Arc::clone(&self.usage),
            connections: self.connections(&*nodes),
            tickets: Tickets::new(self.settings.tickets_per_account, nodes.tickets()),
            accounts_at_start: self.views.identity.account_numbers(),
            identity: Arc::clone(&self.views.identity),
            conversations,
            nodes,
            store: Arc::clone(self.store),
            placement: self.placement.clone(),
            operator,
            draining: AtomicBool::new(false),
            alarm: Arc::clone(&self.views.timers),
            messages: Arc::clone(&self.views.messages),
            background: Mutex::new(background),
        })
    }

    /// What proves accounts' domains, with the thread that looks after those that are to be proven.
    fn domain_proofs(
        &self,
        accounts: &Arc<Records<Account>>,
        background: &mut Vec<BackgroundThread>,
    ) -> std::io::Result<Arc<DomainProofs>> {
        let proofs = Arc::new(DomainProofs {
            accounts: Arc::clone(accounts),
            identity: Arc::clone(&self.views.identity),
            source: Arc::clone(&self.sources.txt_records),
            settings: self.settings.proofs,
        });
        background.push(proofs.start()?);
        Ok(proofs)
    }

    /// The authorization server, with the thread that forgets what is over.
    fn oauth(
        &self,
        (clients, grants): (&Arc<Records<Client>>, &Arc<Records<Grant>>),
        background: &mut Vec<BackgroundThread>,
    ) -> Result<Arc<OAuth>, NotOpened> {
        let parts = OAuthParts {
            identity: Arc::clone(&self.views.identity),
            clients: Arc::clone(clients),
            grants: Arc::clone(grants),
            keys: Arc::clone(&self.views.signing_keys),
            issuer: PublicUrl::new(&self.settings.public_url),
            trusted: self.settings.issuers.clone(),
            source: Arc::clone(&self.sources.texts),
        };
        let oauth = OAuth::new(parts, Arc::clone(self.store), self.settings.oauth)?;
        let oauth = Arc::new(oauth);
        background.push(oauth::start_upkeep(&oauth)?);
        Ok(oauth)
    }

    /// Figures, with the thread that keeps them up.
    fn analytics(&self, background: &mut Vec<BackgroundThread>) -> std::io::Result<Analytics> {
        let (store, feed) = (Arc::clone(self.store), Arc::clone(&self.views.feed));
        let (analytics, counting) = Analytics::start(store, feed)?;
        background.push(counting);
        Ok(analytics)
    }

    /// Whom chores are done with.
    fn rooms(
        &self,
        conversations: &Arc<Conversations>,
        customers: &Arc<Records<Customer>>,
    ) -> Result<Rooms, NotOpened> {
        let attachments = self.attachments(conversations)?;
        Ok(Rooms {
            store: Arc::clone(self.store),
            conversations: Arc::clone(conversations),
            attachments: Arc::clone(&attachments),
            erasures: Arc::new(Erasures {
                records: self.records(),
                customers: Arc::clone(customers),
                conversations: Arc::clone(conversations),
                attachments,
            }),
        })
    }

    /// Attachments, whose folder is made where it is missing.
    fn attachments(
        &self,
        conversations: &Arc<Conversations>,
    ) -> Result<Arc<Attachments>, NotOpened> {
        let objects = self
            .settings
            .objects
            .clone()?
            .open()
            .map_err(NotOpened::Objects)?;
        Ok(Attachments::new(AttachmentParts {
            records: self.records(),
            conversations: Arc::clone(conversations),
            objects,
            encrypts: self.settings.encrypt_texts,
        }))
    }

    /// Backups, with the thread that makes them.
    fn backups(&self, background: &mut Vec<BackgroundThread>) -> Result<Backups, NotOpened> {
        let settings = self.settings.backup.clone();
        let objects = settings.location.as_ref().map(Location::open).transpose();
        let objects = objects.map_err(NotOpened::Backups)?;
        let attachments = self.settings.objects.clone()?.open();
        let places = (objects, attachments.map_err(NotOpened::Objects)?);
        let (backups, thread) = Backups::start(places, settings, Arc::clone(self.store))?;
        background.extend(thread);
        Ok(backups)
    }

    fn sign_ins(
        &self,
        users: &Arc<Records<User>>,
        operator: SecretHash,
        nodes: &dyn Nodes,
    ) -> Result<SignIns, UnsealError> {
        let browsers = sealing::derived_key("browsers that know a name")?;
        let dependencies = SignInDependencies {
            identity: Arc::clone(&self.views.identity),
            users: Arc::clone(users),
            hashes: Arc::clone(&self.hashes),
            audit: Arc::clone(&self.audit),
            tries: sharing::tries_of_all_nodes(nodes.broadcast(), Topic::SignInTries),
            browsers: KnownBrowsers::new(&browsers),
        };
        Ok(SignIns::new(dependencies, operator, self.settings.session))
    }

    fn directory<E: Kept>(&self) -> Arc<Directory<E>> {
        let journal = StoreJournal::new(Arc::clone(self.store), Arc::clone(&self.views.names));
        let policy = self
            .settings
            .policies
            .get(E::KIND)
            .unwrap_or(&self.settings.policy)
            .clone();
        Directory::new(Arc::new(journal), self.placement.clone(), policy)
    }

    /// Open connections; where other nodes may be, these are told of their signals.
    fn connections(&self, nodes: &dyn Nodes) -> Arc<Hub> {
        let presences_max = self.settings.presences_per_account;
        let Some(broadcast) = nodes.broadcast() else {
            return Hub::start(presences_max, None);
        };
        let tell = sharing::tell_signals(Arc::clone(&broadcast));
        let hub = Hub::start(presences_max, Some(tell));
        sharing::hear_signals(&broadcast, &hub);
        hub
    }

    /// The limits; where other nodes may be, with the thread that tells these what was spent.
    fn limits(
        &self,
        nodes: &dyn Nodes,
        background: &mut Vec<BackgroundThread>,
    ) -> std::io::Result<SharedLimits> {
        let Settings {
            auth_failures_per_minute: failures,
            link_requests_per_address: per_address,
            link_requests_per_link: per_link,
            ..
        } = *self.settings;
        let Some(broadcast) = nodes.broadcast() else {
            let limits = SharedLimits {
                keys: RateLimiter::new(Vec::new()),
                addresses: Arc::new(AddressLimiter::new(failures)),
                links: Arc::new(LinkLimiter::new(per_address, per_link)),
            };
            return Ok(limits);
        };
        let limits = SharedLimits {
            keys: RateLimiter::shared(Vec::new()),
            addresses: Arc::new(AddressLimiter::shared(failures)),
            links: Arc::new(LinkLimiter::shared(per_address, per_link)),
        };
        background.push(sharing::share_limits(&broadcast, limits.clone())?);
        Ok(limits)
    }

    /// How actors are supervised; where other nodes may be, with the thread that answers them.
    fn supervision(
        &self,
        kinds: Vec<Arc<dyn SupervisedKind>>,
        nodes: &dyn Nodes,
        background: &mut Vec<BackgroundThread>,
    ) -> std::io::Result<Supervision> {
        let kept = Arc::clone(&self.views.supervision);
        let supervision = Supervision::new(kinds.clone(), kept, Arc::clone(self.store));
        let Some(broadcast) = nodes.broadcast() else {
            return Ok(supervision);
        };
        let (peers, answering) = Peers::start(broadcast, kinds)?;
        background.push(answering);
        Ok(supervision.with_peers(peers))
    }

    /// What is done without a request.
    fn background(
        &self,
        rooms: &Rooms,
        documents: &Arc<Documents>,
    ) -> std::io::Result<Vec<BackgroundThread>> {
        let attachments = rooms.attachments.start_upkeep()?;
        let timers = Timers {
            store: self.store.clone(),
            conversations: Arc::clone(&rooms.conversations),
            identity: Arc::clone(&self.views.identity),
            alarm: Arc::clone(&self.views.timers),
        };
        let bin = Documents::empty_bin(documents, self.settings.bin_kept)?;
        Ok(vec![
            chores::start(rooms.clone(), Arc::clone(&self.views.chores))?,
            attachments,
            timers.start()?,
            bin,
            self.usage.start(&self.views.identity)?,
        ])
    }

    fn events(&self) -> Events {
        let identity = Arc::clone(&self.views.identity);
        Events {
            store: self.store.clone(),
            feed: Arc::clone(&self.views.feed),
            is_user: Box::new(move |tenant, user| identity.user(tenant, user).is_some()),
        }
    }

    /// The search indexes and their logs.
    fn index_files(&self) -> [PathBuf; 4] {
        let Settings {
            index_path,
            message_index_path,
            ..
        } = self.settings;
        let log = |path: &PathBuf| {
            let mut path = path.clone().into_os_string();
            path.push("-wal");
            PathBuf::from(path)
        };
        [
            index_path.clone(),
            log(index_path),
            message_index_path.clone(),
            log(message_index_path),
        ]
    }

    fn conversations(&self) -> Result<Conversations, SearchError> {
        let Settings {
            ref message_index_path,
            message_search,
            encrypt_texts,
            reads,
            events_kept,
            ..
        } = *self.settings;
        // It would hold the words in plain.
        let finder = if message_search && !encrypt_texts {
            Some(MessageIndexer::open(
                message_index_path,
                Arc::clone(self.store),
                Arc::clone(&self.views.feed),
                (reads, events_kept),
            )?)
        } else {
            search::discard(message_index_path)?;
            None
        };
        Ok(Conversations {
            finder,
            directory: self.directory::<Conversation>(),
            store: Arc::clone(self.store),
            identity: Arc::clone(&self.views.identity),
            names: Arc::clone(&self.views.names),
            public_url: PublicUrl::new(&self.settings.public_url),
        })
    }

    fn documents(&self, nodes: &dyn Nodes) -> Result<Documents, SearchError> {
        let index = &self.settings.index_path;
        let finder = match self.settings.encrypt_texts {
            true => {
                search::discard(index)?;
                None
            }
            false => Some(SearchIndexer::open(
                index,
                Arc::clone(self.store),
                Arc::clone(&self.views.feed),
                self.settings.reads,
            )?),
        };
        Ok(Documents {
            directory: self.directory::<Document>(),
            store: Arc::clone(self.store),
            identity: Arc::clone(&self.views.identity),
            finder,
            tries: sharing::tries_of_all_nodes(nodes.broadcast(), Topic::LinkTries),
            hashes: Arc::clone(&self.hashes),
        })
    }

    fn deliveries(
        &self,
        courier: Arc<dyn Courier>,
        webhooks: &Arc<Records<Webhook>>,
    ) -> std::io::Result<Deliveries> {
        let webhooks = Arc::clone(webhooks);
        let disable = move |endpoint: DisableEndpoint| -> Later<Disabling> {
            let webhooks = Arc::clone(&webhooks);
            Box::pin(async move {
                let caller = Caller {
                    tenant: endpoint.tenant,
                    actor: Actor::server("webhooks"),
                };
                let meta = CommandMeta::new(caller);
                let request = DisableWebhook {
                    reason: endpoint.reason,
                };
                match webhooks.ask(endpoint.id, meta, request).await {
                    Ok(()) => Disabling::Done,
                    Err(_) => Disabling::NotNow,
                }
            })
        };
        let usage = Arc::clone(&self.usage);
        let courier = CountedCourier {
            courier,
            count: Box::new(move |account| usage.counter.count_delivery(account, Timestamp::now())),
        };
        let dependencies = DeliveryDependencies {
            store: Arc::clone(self.store),
            feed: Arc::clone(&self.views.feed),
            identity: Arc::clone(&self.views.identity),
            courier: Arc::new(courier),
            disabler: Arc::new(disable),
            keys: Arc::clone(&self.views.keys) as Arc<dyn ReservedKeys>,
        };
        Deliveries::start(dependencies, self.settings.webhooks.clone())
    }

    fn records<R: RecordSpec>(&self) -> Records<R> {
        Records {
            directory: self.directory::<Record<R>>(),
            store: Arc::clone(self.store),
            identity: Arc::clone(&self.views.identity),
        }
    }
}
