//! The contract on the embedded store, and what only it can do.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use super::chores::Pace;
use super::{SqliteStore, Views, check};
use crate::store::contract::{Bench, Opened, contract};

/// A folder with a store's files.
struct Folder(TempDir);

const QUICK: Pace = Pace {
    tick: Duration::from_millis(5),
    age_max: Duration::ZERO,
    uses_every: Duration::from_millis(5),
    erase_within: Duration::from_millis(20),
};

impl Folder {
    fn path(&self) -> PathBuf {
        self.0.path().join("colloquy.db")
    }

    fn open_at(&self, pace: Pace, views: Views) -> Opened {
        Arc::new(SqliteStore::open_at(pace, &self.path(), views, Some("op_a-token")).unwrap().0)
    }
}

impl Bench for Folder {
    fn new() -> Self {
        Folder(TempDir::new().unwrap())
    }

    fn open(&self, views: Views) -> Opened {
        self.open_at(QUICK, views)
    }

    fn open_lagging(&self, views: Views) -> Opened {
        self.open_at(Pace { age_max: Duration::from_secs(3600), ..QUICK }, views)
    }

    fn killed(&self) -> Self {
        let copy = Self::new();
        // A checkpoint between the two would tear the copy; it can't come before so much has been written.
        for name in ["colloquy.db", "colloquy.db-wal"] {
            std::fs::copy(self.0.path().join(name), copy.0.path().join(name)).unwrap();
        }
        copy
    }

    fn holds(&self, text: &str) -> bool {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        files
            .map(|file| std::fs::read(file.unwrap().path()).unwrap())
            .any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
    }

    fn findings(&self) -> Vec<String> {
        check(&self.path())
            .unwrap()
            .into_iter()
            .map(|finding| format!("{}: {}", finding.check, finding.found))
            .collect()
    }
}

contract! {
    Folder:
    an_acknowledged_commit_is_there_after_a_crash,
    a_sequence_is_accepted_once_and_only_behind_the_one_before,
    what_follows_a_lost_commit_is_lost_even_where_its_sequence_fits,
    a_loser_in_a_batch_leaves_nothing_and_the_batch_goes_on,
    a_broken_condition_refuses_its_commit_alone,
    a_unique_name_is_taken_once_even_within_one_batch,
    positions_and_numbers_have_no_gap,
    a_kept_answer_survives,
    memory_holds_a_bounded_number_of_keys_and_none_is_forgotten,
    a_renamed_customer_is_renamed_everywhere_at_once,
    a_redacted_text_is_gone_from_every_file,
    a_last_use_of_a_key_is_written_down,
    a_chore_stays_until_it_is_done,
    after_its_end_nothing_is_acknowledged,
    a_thing_is_loaded_by_its_whole_identifier,
    lists_totals_and_transcripts_are_what_the_model_says,
}
