//! How backups fare: what metrics and the console tell without a look into their place.

use std::time::Duration;

use super::manifest::{BackupState, Manifest};
use colloquy_model::time::Timestamp;

/// How often backups are made, when the latest was finished, and what has failed.
#[derive(Debug, Clone, Default)]
pub struct BackupStatus {
    /// How often one is made without anybody asking; none: never.
    pub every: Option<Duration>,
    /// When the latest was finished; none where none was, or their place has not answered since the
    /// start.
    pub finished_at: Option<Timestamp>,
    /// How many have failed since the start, counting those that the end of the process before has
    /// interrupted, and how often their place could not be used when one may have been due.
    pub failures: u64,
    /// Why the next can't be begun.
    pub unusable: Option<String>,
    /// Why the latest failed; none where it did not.
    pub failed: Option<String>,
}

impl BackupStatus {
    pub(super) fn of_schedule(every: Option<Duration>) -> Self {
        BackupStatus {
            every,
            ..BackupStatus::default()
        }
    }

    /// Takes up how one went: the latest is told of last.
    pub(super) fn remember(&mut self, ended: &Manifest) {
        if ended.state == BackupState::Finished {
            self.finished_at = ended.finished_at;
        }
        self.failed.clone_from(&ended.error);
    }

    /// Takes up how one went that this process has made or ended.
    pub(super) fn count(&mut self, ended: &Manifest) {
        self.failures += u64::from(ended.state == BackupState::Failed);
        self.remember(ended);
    }

    /// Takes up whether the next could be begun if it was due, or why not.
    pub(super) fn looked(&mut self, unusable: Option<String>) {
        self.failures += u64::from(unusable.is_some());
        self.unusable = unusable;
    }
}
