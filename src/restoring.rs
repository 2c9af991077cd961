//! `colloquy restore`: a backup into a folder of this machine, from which a server can be started.

use std::path::{Path, PathBuf};

use colloquy_actors::backup::{self, RestoreError};
use colloquy_actors::sealing::KeyFileError;
use colloquy_model::time::Timestamp;

use crate::config::Config;
use crate::startup;

/// Why nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreCommandError {
    /// A master key can't be read.
    #[error("[encryption]: {0}")]
    MasterKey(#[from] KeyFileError),
    /// The backup can't be restored.
    #[error("nothing was restored: {0}")]
    Restore(#[from] RestoreError),
    /// What it needs of the system is not there.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// What is to be restored, and to where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restore {
    /// The URL of a backup, as it is shown by the server that made it.
    pub url: String,
    /// A folder that is empty, or not there.
    pub to: PathBuf,
}

/// Restores and checks, and says what to do with it; true where what was restored is sound.
///
/// # Errors
/// Nothing was restored.
pub(crate) fn restore(config: &Config, what: &Restore) -> Result<bool, RestoreCommandError> {
    let keys = config.encryption.master_keys().read()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let from = (what.url.as_str(), config.backup.endpoint.as_str());
    let restored = runtime.block_on(backup::restore(from, &what.to, keys))?;
    startup::report(&restored.findings);
    startup::say(&who_is_back(restored.begun_at));
    startup::say(&next_steps(
        &restored.database,
        restored.attachments.as_deref(),
    ));
    Ok(restored.findings.is_empty())
}

/// A backup names nobody who was erased later, so whoever restores it has to find out.
fn who_is_back(begun_at: Timestamp) -> String {
    format!(
        "This backup was begun at {begun_at}. WHOEVER WAS ERASED LATER IS IN IT AGAIN. Read these erasures from\n\
         the store that it replaces, or from a kept export of its audit trail: records of customer.erased after\n\
         that time, whose subject is the customer. Before anybody else comes in, erase these customers again:\n\
         DELETE /v1/customers/{{customer_id}}?erase=true.\n"
    )
}

fn next_steps(database: &Path, attachments: Option<&Path>) -> String {
    let path = database.display();
    let steps = format!(
        "Restored to {path}. Start a server on it with\n\n  [store]\n  path = \"{path}\"\n"
    );
    match attachments {
        Some(folder) => format!(
            "{steps}\n  [objects]\n  url = \"file:{folder}\"\n\n\
             or copy what stands in {folder} to the bucket that [objects] url is to name.\n",
            folder = folder.display()
        ),
        None => format!(
            "{steps}\nFiles of messages are not in this backup. With the [objects] url of the server that made it,\n\
             colloquy check tells which are missing there, and which nobody knows any more.\n"
        ),
    }
}
