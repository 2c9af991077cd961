//! When and where backups are made.

use std::path::PathBuf;
use std::time::Duration;

use colloquy_objects::Location;

/// When and where backups are made.
#[derive(Debug, Clone)]
pub struct BackupSettings {
    /// Where they are kept; none: none are made.
    pub location: Option<Location>,
    /// How often one is made without anybody asking; none: never.
    pub every: Option<Duration>,
    /// How many are kept.
    pub keep: usize,
    /// Whether each is restored and checked.
    pub verify: bool,
    /// Whether attachments go along.
    pub attachments: bool,
    /// A folder for what is made meanwhile, which nobody else uses.
    pub scratch: PathBuf,
}
