//! `colloquy export` and `colloquy import`: a store as text on stdout, and from stdin into another
//! one, with no server on either. How far they are is told on stderr.

use std::io::{self, BufReader, BufWriter, Write};
use std::time::{Duration, Instant};

use colloquy_actors::dump::{self, ImportError, Imported, Source};
use colloquy_actors::erasures::redacted;
use colloquy_actors::sealing::KeyFileError;
use colloquy_actors::store::mongodb::{self, MongoTransfer};
use colloquy_actors::store::sqlite::{self, SqliteTransfer};
use colloquy_actors::store::{Export, Import, TransferError};

use crate::config::{Config, Store, StoreKind};

/// Between two lines about how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(2);
/// Bytes that are read or written at once.
const AT_ONCE: usize = 1 << 18;

/// Why a store was not exported, or a dump not imported.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The embedded store can't be opened.
    #[error(transparent)]
    Sqlite(#[from] sqlite::OpenError),
    /// The database can't be opened.
    #[error(transparent)]
    MongoDb(#[from] Box<mongodb::OpenError>),
    /// A master key can't be read.
    #[error("[encryption]: {0}")]
    MasterKey(#[from] KeyFileError),
    /// What was written is no whole dump.
    #[error("the export is not whole: {0}")]
    Export(TransferError),
    /// The dump is not imported, or not to its end.
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// Writes everything that the configured store holds to stdout.
///
/// # Errors
/// A server uses the store, it can't be read, or stdout takes no more.
pub(crate) fn export(config: &Config) -> Result<(), MoveError> {
    let mut store = to_export(&config.store)?;
    let source = Source {
        store: config.store.kind.name().to_owned(),
        colloquy: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut out = BufWriter::with_capacity(AT_ONCE, io::stdout().lock());
    let mut progress = Progress::new("exported");
    let lines = dump::export(&mut *store, source, &mut out, &mut |lines| {
        progress.reached(lines);
    });
    let lines = lines.map_err(MoveError::Export)?;
    say(&format!("exported {lines} lines: the dump is whole"));
    Ok(())
}

/// Writes the dump on stdin into the configured store.
///
/// # Errors
/// A server uses the store, it holds something else, or the dump is not whole.
pub(crate) fn import(config: &Config) -> Result<(), MoveError> {
    let mut store = to_import(config)?;
    let mut input = BufReader::with_capacity(AT_ONCE, io::stdin().lock());
    let mut progress = Progress::new("imported");
    let imported = dump::import(&mut input, &mut *store, &mut |lines| {
        progress.reached(lines);
    })?;
    say(&match imported {
        Imported::Now(lines) => format!("imported {lines} lines: the store has all of the dump"),
        Imported::Before(lines) => {
            format!("the store has all {lines} lines of this dump: nothing was left to import")
        }
    });
    Ok(())
}

fn to_export(store: &Store) -> Result<Box<dyn Export>, MoveError> {
    Ok(match store.kind {
        StoreKind::Sqlite => Box::new(SqliteTransfer::to_export(&store.path, redacted)?),
        StoreKind::MongoDb => {
            let opened = MongoTransfer::to_export(&store.uri, &store.database, redacted);
            Box::new(opened.map_err(Box::new)?)
        }
    })
}

fn to_import(config: &Config) -> Result<Box<dyn Import>, MoveError> {
    let (store, given) = (&config.store, config.encryption.master_keys().read()?);
    Ok(match store.kind {
        StoreKind::Sqlite => Box::new(SqliteTransfer::to_import(&store.path, &given)?),
        StoreKind::MongoDb => {
            let opened = MongoTransfer::to_import(&store.uri, &store.database, &given);
            Box::new(opened.map_err(Box::new)?)
        }
    })
}

/// Tells now and then how far it is.
struct Progress {
    done: &'static str,
    told_at: Instant,
}

impl Progress {
    fn new(done: &'static str) -> Self {
        Progress {
            done,
            told_at: Instant::now(),
        }
    }

    fn reached(&mut self, lines: u64) {
        if self.told_at.elapsed() >= TOLD_EVERY {
            self.told_at = Instant::now();
            say(&format!("{} {lines} lines …", self.done));
        }
    }
}

/// Whoever has closed stderr does not want to know.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
