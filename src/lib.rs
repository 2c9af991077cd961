//! The edge of Colloquy: HTTP in, messages to actors, answers out. Here is the wiring, top to
//! bottom.
//!
//! - `auditing.rs` the commands that verify and export the audit trail
//! - `config/` what can be set; the defaults stand in config.toml
//! - `console/` the pages for operators and agents
//! - `http/` everything that knows HTTP
//! - `courier.rs` the client that sends webhooks; `name_resolver.rs` how names become addresses
//! - `demo/` the command that shows a server with something in it
//! - `descriptors.rs` how many files and connections the process may open
//! - `issuer_keys.rs` the client that fetches the keys of other issuers of access tokens
//! - `listen/` the command that brings events to a receiver on this machine
//! - `markdown.rs` Markdown as HTML, for pages
//! - `migrating.rs` the command that brings a store of an earlier version to this one
//! - `moving.rs` the commands that take everything out of a store and put it into another
//! - `operate/` the commands by which operators see and steer actors from a terminal
//! - `reload.rs` what holds anew where the settings are read again
//! - `restoring.rs` the command that brings a backup back
//! - `refusal.rs` what these commands print where the server refuses
//! - `service_manager.rs` what systemd is told
//! - `startup.rs` what a start prints; `log.rs` what is logged; `shutdown.rs` how a running server
//!   ends; `signals.rs` what tells it to
//! - `tls/` the listener's certificate, and how it is replaced
//! - `shared_caches/` what CDNs may keep, and how they are told of changes
//! - `traces/` what some requests did, for an OpenTelemetry collector

mod auditing;
pub mod config;
mod console;
mod courier;
mod demo;
mod descriptors;
mod http;
mod issuer_keys;
mod line_ends;
mod listen;
mod log;
mod markdown;
mod migrating;
mod moving;
mod name_resolver;
mod operate;
mod refusal;
mod reload;
mod restoring;
mod service_manager;
mod shared_caches;
mod shutdown;
mod signals;
mod startup;
mod tls;
mod traces;
mod txt_records;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use colloquy_actors::store::{Finding, KnownAttachment, ReadError, mongodb, sqlite};
use colloquy_actors::system::{FirstStart, NotOpened, Opened, Sources, System};
use colloquy_actors::webhook::WebhookSettings;

pub use auditing::{AuditCommand, AuditError};
use config::{Config, Loaded, StoreKind};
pub use courier::CourierError;
use courier::HttpCourier;
use http::{AppState, Outbound};
use issuer_keys::IssuerKeys;
pub use listen::{Listen, ListenError, listen};
pub use moving::MoveError;
pub use operate::{
    ActorCommand, OperateError, OperatorRequest, Output, SettingChange, names_an_actor, operate,
};
pub use restoring::{Restore, RestoreCommandError};
use shared_caches::{SharedCaches, SharedCachesError};
use signals::Signals;
use traces::{Traces, TracesError};
use txt_records::DnsTxtRecords;

/// Why the server could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The address can't be taken.
    #[error("can't listen on {address} ([server] bind, or [tls] redirect_from): {error}")]
    Bind {
        /// The address that was to be listened on.
        address: String,
        /// What the system says to that.
        error: io::Error,
    },
    /// A folder can't be made.
    #[error("can't make the folder {folder} ([store] path): {error}")]
    Folder {
        /// The path of the folder.
        folder: String,
        /// What the system says to that.
        error: io::Error,
    },
    /// The store does not know that the first start's secrets were shown.
    #[error(
        "nothing is served, since it can't be noted that the secrets of a first start were shown: {0}"
    )]
    Shown(#[from] ReadError),
    /// The HTTP client that sends webhooks can't be made.
    #[error(transparent)]
    Courier(#[from] CourierError),
    /// The store or the actors can't be opened.
    #[error(transparent)]
    Open(#[from] NotOpened),
    /// Nobody has seen the first start's secrets.
    #[error("the first start's secrets can't be written to stdout ({error}); {left}")]
    Secrets {
        /// What the system says to that.
        error: io::Error,
        /// What became of the store, in words for the operator.
        left: String,
    },
    /// A store was not exported, or a dump not imported.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// The audit trail could not be read.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// No backup was restored.
    #[error(transparent)]
    Restore(#[from] RestoreCommandError),
    /// No traces can be made.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// Shared caches can't be told of changes.
    #[error(transparent)]
    SharedCaches(#[from] SharedCachesError),
    /// The settings name what there is not.
    #[error(transparent)]
    Settings(#[from] config::ConfigError),
    /// The server failed while it ran.
    #[error("the server failed: {0}")]
    Serve(#[from] io::Error),
}

/// Whether the settings go with the interface: what their types and bounds can't say.
///
/// # Errors
/// The first setting that does not.
pub fn check_settings(config: &Config) -> Result<(), config::ConfigError> {
    // What the table of routes says of bounds is made of those that are in force: whoever asks first
    // for them fixes them.
    config.bounds.clone().set();
    http::check_deprecations(config)?;
    tls::check(config)
}

/// Starts the server and serves until it is told to stop.
///
/// # Errors
/// What kept it from starting or made it end.
pub fn run(settings: Loaded) -> Result<(), RunError> {
    serve(settings, false)
}

/// The same, with an account of its own that is filled and goes on by itself.
///
/// # Errors
/// What kept it from starting or made it end.
pub fn demo(settings: Loaded) -> Result<(), RunError> {
    serve(settings, true)
}

fn serve(settings: Loaded, is_demo: bool) -> Result<(), RunError> {
    let settings = Arc::new(settings);
    let config = &settings.config;
    log::start(&config.log);
    colloquy_runtime::threads::register("main");
    let signals = Signals::listen()?;
    config.bounds.clone().set();
    let bound = http::bind(config).map_err(|(address, error)| RunError::Bind { address, error })?;
    make_folder(&config.store.path)?;
    let webhooks = WebhookSettings::from(&config.webhooks);
    let courier: Arc<HttpCourier> = Arc::new(HttpCourier::start(
        webhooks.timeout,
        webhooks.private_targets,
    )?);
    let first_store = FirstStore::at(&config.store);
    // Only where nothing is stored yet: what is there is of the time that it was.
    let plays_a_week = is_demo && matches!(first_store, FirstStore::Made(_));
    if plays_a_week {
        demo::begin_a_week_ago();
    }
    let url = startup::public_url(bound.address, config);
    let Opened {
        system,
        first_start,
    } = open(config, &url, &courier)?;
    let asked_at = startup::asked_at(bound.address, config);
    show_secrets(&system, &asked_at, &first_start, first_store)?;
    let outbound = Outbound {
        courier,
        traces: Traces::start(&config.traces, &system)?.map(Arc::new),
        shared_caches: Arc::new(SharedCaches::start(&config.shared_caches, &system)?),
    };
    let app = AppState::new(config, Arc::clone(&system), outbound, &url)?;
    let app = Arc::new(app);
    let history = console::keep_history(&app)?;
    system.announce(bound.address.to_string(), config.server.region.clone());
    startup::announce(&bound.address, config);
    actix_web::rt::System::new().block_on(async {
        let address = bound.address;
        let server = bound.serve(&config.server, Arc::clone(&app))?;
        if is_demo {
            let place = demo::Place::new(address, config)?;
            actix_web::rt::spawn(demo::play(system.clone(), place, plays_a_week));
        }
        if let Some(tls) = &app.tls {
            keep_certificates(tls, config, &system);
        }
        let drain_seconds = config.server.drain_seconds;
        let (of, told) = (Arc::clone(&app), Arc::clone(&signals));
        actix_web::rt::spawn(reload::whenever_told(of, Arc::clone(&settings), told));
        shutdown::serve_until_told(server, &app, &signals, drain_seconds).await?;
        if let Some(traces) = &app.traces {
            traces.flush().await;
        }
        Ok::<_, RunError>(())
    })?;
    drop(history);
    system.close();
    Ok(())
}

/// Shows the secrets of a first start, for good: behind it no start makes any again, so nobody may be
/// served before.
fn show_secrets(
    system: &System,
    asked_at: &str,
    first_start: &FirstStart,
    store: FirstStore<'_>,
) -> Result<(), RunError> {
    if let Err(error) = startup::hand_over(asked_at, first_start) {
        if first_start.keys.is_some() {
            return Err(give_up(system, store, error));
        }
        tracing::error!(%error, "the operators' token could not be printed: set [admin] token");
    }
    match first_start.keys {
        Some(_) => Ok(system.secrets_shown()?),
        None => Ok(()),
    }
}

/// Has certificates read again when their files change, and ordered for domains when they are proven.
fn keep_certificates(tls: &Arc<tls::ListenerTls>, config: &Config, system: &Arc<System>) {
    let every = Duration::from_secs_f64(config.tls.check_seconds);
    actix_web::rt::spawn(tls::keep_fresh(Arc::clone(tls), every));
    let (hosts, of) = (system.identity.hosts.changes(), Arc::clone(system));
    let proven = move || of.identity.hosts.all_proven();
    actix_web::rt::spawn(tls::follow_domains(Arc::clone(tls), hosts, proven));
}

/// Opens the store and everything that remembers.
fn open(config: &Config, url: &str, courier: &Arc<HttpCourier>) -> Result<Opened, RunError> {
    let sender = Arc::<HttpCourier>::clone(courier);
    let sources = Sources {
        texts: IssuerKeys::new()?,
        txt_records: DnsTxtRecords::new(&config.domains),
    };
    Ok(System::open(config.settings(url), sender, sources)?)
}

/// Looks whether the store is sound, and prints what is not; true where nothing is wrong.
///
/// # Errors
/// The store can't be opened, or a server uses it.
pub fn check(config: &Config) -> Result<bool, RunError> {
    config.bounds.clone().set();
    let store = &config.store;
    let (mut wrong, known) = match store.kind {
        StoreKind::Sqlite => {
            let wrong = sqlite::check(&store.path).map_err(NotOpened::Store)?;
            let known = sqlite::attachments(&store.path).map_err(NotOpened::Store)?;
            (wrong, known)
        }
        StoreKind::MongoDb => {
            let (uri, database) = (&store.uri, &store.database);
            let wrong = mongodb::check(uri, database).map_err(NotOpened::MongoDb)?;
            let known = mongodb::attachments(uri, database).map_err(NotOpened::MongoDb)?;
            (wrong, known)
        }
    };
    let missing = missing_bytes(config, &known);
    wrong.extend(missing.iter().flatten().cloned());
    // Told also where the storage of the attachments does not answer.
    startup::report(&wrong);
    missing.map(|_| wrong.is_empty())
}

/// What is wrong with the bytes of the attachments that a store knows.
fn missing_bytes(config: &Config, known: &[KnownAttachment]) -> Result<Vec<Finding>, RunError> {
    let objects = config.objects.location().map_err(NotOpened::ObjectsUrl)?;
    let objects = objects.open().map_err(NotOpened::Objects)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(NotOpened::Thread)?;
    let checking = colloquy_actors::attachments::check(&objects, known);
    Ok(runtime.block_on(checking).map_err(NotOpened::Objects)?)
}

/// Verifies the audit trail, or writes it to stdout; true where nothing is wrong.
///
/// # Errors
/// It can't be read, or stdout takes no more.
pub fn audit(config: &Config, command: &AuditCommand) -> Result<bool, RunError> {
    config.bounds.clone().set();
    Ok(auditing::audit(config, command)?)
}

/// Writes everything that the store holds to stdout, as a dump.
///
/// # Errors
/// A server uses the store, it can't be read, or stdout takes no more.
pub fn export(config: &Config) -> Result<(), RunError> {
    log::start(&config.log);
    config.bounds.clone().set();
    Ok(moving::export(config)?)
}

/// Writes the dump on stdin into the store.
///
/// # Errors
/// A server uses the store, it holds something else, or the dump is not whole.
pub fn import(config: &Config) -> Result<(), RunError> {
    log::start(&config.log);
    config.bounds.clone().set();
    Ok(moving::import(config)?)
}

/// Brings the store to the version of this binary, or does a dry run, which changes a copy only; true
/// where nothing is wrong.
///
/// # Errors
/// A server uses the store, it is of a newer version, or it can't be written.
pub fn migrate(config: &Config, is_dry_run: bool) -> Result<bool, RunError> {
    log::start(&config.log);
    config.bounds.clone().set();
    Ok(migrating::migrate(&config.store, is_dry_run).map_err(NotOpened::Store)?)
}

/// Brings a backup back into a folder, and prints what to do with it; true where it is sound.
///
/// # Errors
/// Nothing was restored.
pub fn restore(config: &Config, what: &Restore) -> Result<bool, RunError> {
    log::start(&config.log);
    config.bounds.clone().set();
    Ok(restoring::restore(config, what)?)
}

/// The store at a first start.
enum FirstStore<'p> {
    /// A file that this start has made.
    Made(&'p Path),
    /// A file that was there, and held nothing.
    Found,
    /// A database that held nothing.
    Database,
}

impl<'p> FirstStore<'p> {
    /// As it is before anything is opened.
    fn at(store: &'p config::Store) -> Self {
        match store.kind {
            StoreKind::MongoDb => FirstStore::Database,
            StoreKind::Sqlite if store.path.exists() => FirstStore::Found,
            StoreKind::Sqlite => FirstStore::Made(&store.path),
        }
    }
}

/// Ends a first start whose secrets nobody has seen.
fn give_up(system: &System, store: FirstStore<'_>, error: io::Error) -> RunError {
    system.drain();
    system.close();
    let left = match store {
        FirstStore::Made(path) => match startup::take_back(path) {
            Ok(()) => "the store was taken back: the next start is a first start again".to_owned(),
            Err(why) => format!("remove {} for another first start ({why})", path.display()),
        },
        FirstStore::Found | FirstStore::Database => "the next start makes others".to_owned(),
    };
    RunError::Secrets { error, left }
}

fn make_folder(file: &Path) -> Result<(), RunError> {
    let Some(folder) = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|error| RunError::Folder {
        folder: folder.display().to_string(),
        error,
    })
}
