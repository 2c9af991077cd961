//! The edge of Colloquy: HTTP in, messages to actors, answers out. Here is the wiring, top to
//! bottom.
//!
//! - `config/` what can be set; the defaults stand in config.toml
//! - `http/` everything that knows HTTP
//! - `courier.rs` the client that sends webhooks; `name_resolver.rs` how names become addresses
//! - `descriptors.rs` how many files and connections the process may open
//! - `listen/` the command that brings events to a receiver on this machine
//! - `operate/` the commands by which operators see and steer actors from a terminal
//! - `refusal.rs` what these commands print where the server refuses
//! - `startup.rs` what a start prints; `log.rs` what is logged; `shutdown.rs` how a running server
//!   ends

pub mod config;
mod courier;
mod descriptors;
mod http;
mod listen;
mod log;
mod name_resolver;
mod operate;
mod refusal;
mod shutdown;
mod startup;

use std::io;
use std::path::Path;
use std::sync::Arc;

use colloquy_actors::system::{NotOpened, Opened, System};
use colloquy_actors::webhook::WebhookSettings;

use config::Config;
pub use courier::CourierError;
use courier::HttpCourier;
use http::AppState;
pub use listen::{Listen, ListenError, listen};
pub use operate::{
    ActorCommand, OperateError, OperatorRequest, Output, SettingChange, names_an_actor, operate,
};

/// Why the server could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The address can't be taken.
    #[error("can't listen on {address} ([server] bind): {error}")]
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
    /// The server failed while it ran.
    #[error("the server failed: {0}")]
    Serve(#[from] io::Error),
}

/// Starts the server and serves until it is told to stop.
///
/// # Errors
/// What kept it from starting or made it end.
pub fn run(config: Config) -> Result<(), RunError> {
    log::start(&config.log);
    colloquy_runtime::threads::register("main");
    config.bounds.clone().set();
    let bound = http::bind(&config.server).map_err(|error| RunError::Bind {
        address: config.server.bind.clone(),
        error,
    })?;
    make_folder(&config.store.path)?;
    let webhooks = WebhookSettings::from(&config.webhooks);
    let courier: Arc<HttpCourier> = Arc::new(HttpCourier::start(
        webhooks.timeout,
        webhooks.private_targets,
    )?);
    let store_file = match config.store.path.exists() {
        true => StoreFile::Found(&config.store.path),
        false => StoreFile::Made(&config.store.path),
    };
    let Opened {
        system,
        first_start,
    } = System::open(config.settings(), Arc::<HttpCourier>::clone(&courier))?;
    let url = format!("http://{}", bound.address);
    let public_url = if config.server.public_url.is_empty() {
        &url
    } else {
        &config.server.public_url
    };
    if let Some(Err(error)) = first_start.map(|first| startup::hand_over(&bound.address, &first)) {
        return Err(give_up(&system, store_file, error));
    }
    let app = Arc::new(AppState::new(
        &config,
        Arc::clone(&system),
        courier,
        public_url,
    ));
    startup::announce(&bound.address, &config);
    actix_web::rt::System::new().block_on(async {
        let server = bound.serve(&config.server, Arc::clone(&app))?;
        shutdown::serve_until_told(server, &app, config.server.drain_seconds).await
    })?;
    system.close();
    Ok(())
}

/// Looks whether the store is sound, and prints what is not; true where nothing is wrong.
///
/// # Errors
/// Where the store can't be opened.
pub fn check(config: &Config) -> Result<bool, RunError> {
    config.bounds.clone().set();
    let wrong =
        colloquy_actors::store::sqlite::check(&config.store.path).map_err(NotOpened::Store)?;
    startup::report(&wrong);
    Ok(wrong.is_empty())
}

/// The store's file at a first start.
enum StoreFile<'p> {
    /// A file that this start has made.
    Made(&'p Path),
    /// A file that was there, and held nothing.
    Found(&'p Path),
}

/// Ends a first start whose secrets nobody has seen.
fn give_up(system: &System, store: StoreFile<'_>, error: io::Error) -> RunError {
    system.drain();
    system.close();
    let (path, taken_back) = match store {
        StoreFile::Made(path) => (path, startup::take_back(path)),
        StoreFile::Found(path) => (path, Err(io::ErrorKind::AlreadyExists.into())),
    };
    let left = match taken_back {
        Ok(()) => "the store was taken back: the next start is a first start again".to_owned(),
        Err(error) => format!(
            "remove {} for another first start ({error})",
            path.display()
        ),
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
