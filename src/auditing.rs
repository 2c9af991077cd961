//! `colloquy audit verify` and `colloquy audit export`: the chain of the audit trail, out of the store
//! where no server has it, else out of the server, or out of an export.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use colloquy_actors::audit::{Broken, ChainVerifier};
use colloquy_actors::sealing::KeyFileError;
use colloquy_actors::store::mongodb::{self, MongoChain};
use colloquy_actors::store::sqlite::{self, OpenError, SqliteChain};
use colloquy_actors::store::{ChainHead, ChainPage, ChainRecord, NUMBERS};
use serde::{Deserialize, Serialize};

use crate::config::{Config, StoreKind};
use crate::operate::{AuditClient, OperateError};

/// Records that are read at once.
const AT_ONCE: u32 = 1_000;
/// The version of what is exported.
const VERSION: u32 = 1;
/// What an export says of itself.
const DIGEST: &str = "link = SHA-256(link before + digest), 32 zero bytes before the first; digest = SHA-256 of \
    \"colloquy audit record 1\\n\" + numbers (0, or 1 and 8 bytes big-endian) + address, request, hash (0, or 2, length in 4 bytes \
    big-endian, bytes)";

/// What is asked of the audit trail.
#[derive(Debug, PartialEq, Eq)]
pub enum AuditCommand {
    /// Verifies the chain, of this export or of the store.
    Verify(Option<PathBuf>),
    /// Writes the chain to stdout.
    Export,
}

/// Why the audit trail could not be read.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The embedded store can't be opened.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The database can't be opened.
    #[error(transparent)]
    Database(#[from] Box<mongodb::OpenError>),
    /// The server that has the store does not answer.
    #[error("a server has the store, and can't be asked: {0}")]
    Server(#[from] OperateError),
    /// The master key can't be read.
    #[error("[encryption]: {0}")]
    MasterKey(#[from] KeyFileError),
    /// The file can't be read, or stdout not be written.
    #[error("{0}: {1}")]
    File(String, io::Error),
    /// The file is no export.
    #[error("line {0} is none of an audit export")]
    NoExport(usize),
    /// There is no end of the chain.
    #[error("the chain of the audit trail has no end: it is gone, or no server has begun it yet")]
    NoChain,
}

/// The first line of an export.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    colloquy_audit: u32,
    numbers: Vec<String>,
    digest: String,
}

/// The last line of an export.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    head: ChainHead,
}

/// Whence the chain is read.
enum Source {
    Store(SqliteChain),
    Database(MongoChain),
    Server(AuditClient),
}

impl Source {
    fn open(config: &Config) -> Result<Self, AuditError> {
        let given = config.encryption.master_keys().read()?;
        let store = &config.store;
        let opened = match store.kind {
            StoreKind::Sqlite => match SqliteChain::open(&store.path, &given) {
                Err(OpenError::InUse(_)) => None,
                opened => Some(Source::Store(opened?)),
            },
            StoreKind::MongoDb => match MongoChain::open(&store.uri, &store.database, &given) {
                Err(mongodb::OpenError::InUse(_)) => None,
                opened => Some(Source::Database(opened.map_err(Box::new)?)),
            },
        };
        match opened {
            Some(source) => Ok(source),
            None => Ok(Source::Server(AuditClient::new(config)?)),
        }
    }

    fn page(&self, position: i64) -> Result<ChainPage, AuditError> {
        match self {
            Source::Store(store) => Ok(store.page(position, AT_ONCE)?),
            Source::Database(database) => Ok(database.page(position, AT_ONCE).map_err(Box::new)?),
            Source::Server(server) => Ok(server.chain(position, AT_ONCE)?),
        }
    }

    /// Hands in all records up to an end of the chain, or up to one that is not as it was written, and
    /// gives the page with the last of them.
    fn read(
        &self,
        mut take: impl FnMut(&ChainRecord) -> Result<bool, AuditError>,
    ) -> Result<ChainPage, AuditError> {
        let mut position = 0;
        loop {
            let page = self.page(position)?;
            for record in &page.data {
                position = record.position();
                if !take(record)? {
                    return Ok(page);
                }
            }
            if page.is_last || page.broken.is_some() {
                return Ok(page);
            }
        }
    }
}

/// Verifies or exports the audit trail; true where nothing is wrong.
///
/// # Errors
/// It can't be read, or stdout takes no more.
pub(crate) fn audit(config: &Config, command: &AuditCommand) -> Result<bool, AuditError> {
    match command {
        AuditCommand::Verify(Some(file)) => verify_file(config, file),
        AuditCommand::Verify(None) => verify(&Source::open(config)?),
        AuditCommand::Export => export(&Source::open(config)?),
    }
}

fn verify(source: &Source) -> Result<bool, AuditError> {
    let mut verifier = ChainVerifier::default();
    let mut broken = None;
    let page = source.read(|record| {
        broken = verifier.take(record).err();
        Ok(broken.is_none())
    })?;
    let told_by_store = page.broken.clone();
    let first = broken.into_iter().chain(told_by_store);
    if let Some(first) = first.min_by_key(|broken| broken.position) {
        return told(&verifier, Err(first), &page);
    }
    let Some(head) = &page.head else {
        if verifier.records() == 0 {
            return Err(AuditError::NoChain);
        }
        let gone = broken_at(verifier.position(), "the end of the chain is gone");
        return told(&verifier, Err(gone), &page);
    };
    let ended = verifier.end(head, page.signed);
    let ended = ended.and_then(|()| match &page.beyond {
        None => Ok(()),
        Some(what) => {
            let what = format!("records behind it are missing: {what}");
            Err(broken_at(head.position, &what))
        }
    });
    told(&verifier, ended, &page)
}

fn broken_at(position: i64, what: &str) -> Broken {
    Broken {
        position,
        what: what.to_owned(),
    }
}

/// Prints what was found; true where nothing is wrong.
fn told(
    verifier: &ChainVerifier,
    found: Result<(), Broken>,
    page: &ChainPage,
) -> Result<bool, AuditError> {
    let line = match &found {
        Ok(()) => format!(
            "{} records up to position {} are as they were written; {}{}",
            verifier.records(),
            verifier.position(),
            match page.signed {
                Some(_) => "the end is signed",
                None => "whether the end is signed was not looked at: the store's key is not here",
            },
            match page.unlinked {
                0 => String::new(),
                more => format!("; the chain does not tell of {more} records behind it yet"),
            }
        ),
        Err(broken) => broken.to_string(),
    };
    let stdout = |error| AuditError::File("stdout".to_owned(), error);
    writeln!(io::stdout(), "{line}").map_err(stdout)?;
    Ok(found.is_ok())
}

fn export(source: &Source) -> Result<bool, AuditError> {
    let stdout = |error| AuditError::File("stdout".to_owned(), error);
    let mut out = BufWriter::new(io::stdout().lock());
    let header = Header {
        colloquy_audit: VERSION,
        numbers: NUMBERS.map(str::to_owned).to_vec(),
        digest: DIGEST.to_owned(),
    };
    write_line(&mut out, &header).map_err(stdout)?;
    let ended = source.read(|record| {
        write_line(&mut out, record).map_err(stdout)?;
        Ok(true)
    })?;
    if let Some(head) = ended
        .head
        .filter(|_| ended.is_last && ended.broken.is_none())
    {
        write_line(&mut out, &End { head }).map_err(stdout)?;
        out.flush().map_err(stdout)?;
        return Ok(true);
    }
    Ok(false)
}

fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

fn verify_file(config: &Config, path: &Path) -> Result<bool, AuditError> {
    let given = config.encryption.master_keys().read()?;
    let store = &config.store;
    if given.present.is_some() {
        match store.kind {
            StoreKind::Sqlite => sqlite::use_key_of(&store.path, &given)?,
            StoreKind::MongoDb => {
                mongodb::use_key_of(&store.uri, &store.database, &given).map_err(Box::new)?
            }
        }
    }
    let failed = |error| AuditError::File(path.display().to_string(), error);
    let mut lines = BufReader::new(File::open(path).map_err(failed)?).lines();
    let first = lines.next().transpose().map_err(failed)?;
    let header: Option<Header> = first.and_then(|line| serde_json::from_str(&line).ok());
    // By these names whoever reads the export tells one number from another.
    let is_ours = |header: Header| {
        header.colloquy_audit == VERSION && header.numbers == NUMBERS && header.digest == DIGEST
    };
    if !header.is_some_and(is_ours) {
        return Err(AuditError::NoExport(1));
    }
    let mut verifier = ChainVerifier::default();
    let mut end = ChainPage::default();
    let mut number = 1;
    while let Some(line) = lines.next() {
        number += 1;
        let line = line.map_err(failed)?;
        if let Ok(End { head }) = serde_json::from_str(&line) {
            end.signed = head.is_signed();
            if lines.next().is_some() {
                return Err(AuditError::NoExport(number + 1));
            }
            return told(&verifier, verifier.end(&head, end.signed), &end);
        }
        let record: ChainRecord =
            serde_json::from_str(&line).map_err(|_| AuditError::NoExport(number))?;
        if let Err(broken) = verifier.take(&record) {
            return told(&verifier, Err(broken), &end);
        }
    }
    let cut = broken_at(verifier.position(), "the export has no end: it was cut off");
    told(&verifier, Err(cut), &end)
}
