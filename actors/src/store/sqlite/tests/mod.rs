//! The contract on the embedded store, and what only it can do.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod earlier_files;
mod log_erasing;
mod soundness;
mod writer;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use bytes::Bytes;
use rusqlite::OpenFlags;
use tempfile::TempDir;

use super::checkpointing::Checkpointing;
use super::codec::only;
use super::dirty_headers::HeaderFlusher;
use super::file::{connect, log_of};
use super::housekeeping::Housekeeping;
use super::pace::Pace;
use super::recent_events::SegmentWriter;
use super::wal_preallocation::WalPreallocation;
use super::work::Work;
use super::writer::Writer;
use super::{SqliteStore, StoreSettings, check, recovery, schema};
use crate::store::contract::{Bench, Numbering, Opened, Volume, contract};
use crate::store::writer_metrics::WriterCounters;
use crate::views::Views;
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::commit::{Commit, ConstraintViolation, NewRow};
use colloquy_model::conversation::MessageCounts;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{CommitFailure, Incarnation};

/// A folder with a store's files.
pub(super) struct Folder(TempDir);

const QUICK: Pace = Pace {
    tick: Duration::from_millis(5),
    age_max: Duration::ZERO,
    uses_every: Duration::from_millis(5),
    erase_within: Duration::from_millis(20),
    trim_every: Duration::from_millis(10),
    events_kept: None,
    rest: Duration::from_millis(1),
};

impl Folder {
    pub(super) fn path(&self) -> PathBuf {
        self.0.path().join("colloquy.db")
    }

    fn open_at(&self, pace: Pace, views: Views) -> Opened {
        Arc::new(
            SqliteStore::open_at(
                pace,
                &self.path(),
                Arc::new(views),
                StoreSettings::for_tests(),
            )
            .unwrap()
            .0,
        )
    }
}

impl Bench for Folder {
    const NUMBERING: Numbering = Numbering::WithoutGaps;
    const VOLUME: Volume = Volume::Large;

    fn new() -> Self {
        Folder(TempDir::new().unwrap())
    }

    fn open(&self, views: Views) -> Opened {
        self.open_at(QUICK, views)
    }

    fn open_lagging(&self, views: Views) -> Opened {
        self.open_at(
            Pace {
                age_max: Duration::from_secs(3600),
                ..QUICK
            },
            views,
        )
    }

    fn open_keeping(&self, views: Views, kept: Duration) -> Opened {
        self.open_at(
            Pace {
                events_kept: Some(kept),
                ..QUICK
            },
            views,
        )
    }

    fn killed(&self) -> Self {
        let copy = Self::new();
        // As long as somebody reads, no checkpoint takes anything out of the log: whatever one writes
        // into the file meanwhile stands in the log, too, which is copied behind it.
        let reader = connect(&self.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        reader.execute_batch("BEGIN").unwrap();
        let _: i64 = reader
            .query_row("SELECT count(*) FROM meta", [], only)
            .unwrap();
        for name in ["colloquy.db", "colloquy.db-wal"] {
            let from = self.0.path().join(name);
            if from.exists() {
                std::fs::copy(from, copy.0.path().join(name)).unwrap();
            }
        }
        copy
    }

    fn holds(&self, text: &str) -> bool {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        files
            .map(|file| std::fs::read(file.unwrap().path()).unwrap())
            .any(|bytes| {
                bytes
                    .windows(text.len())
                    .any(|window| window == text.as_bytes())
            })
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
    a_commit_that_names_a_document_needs_it_in_its_own_account_and_mode,
    a_document_comes_back_as_it_was_committed,
    a_version_comes_back_with_the_frames_that_make_its_content,
    lists_of_documents_hold_and_count_what_one_may_read,
    a_list_of_documents_is_by_title_or_among_some_where_it_is_asked_so,
    a_document_in_the_bin_is_listed_there_only_and_is_still_a_place,
    a_document_that_is_gone_is_taken_off_the_total_in_which_it_was,
    a_link_leads_to_its_document_until_it_is_taken_back,
    what_was_answered_about_an_erased_document_leaves_the_files,
    what_was_erased_of_a_document_leaves_the_files,
    a_user_who_owns_documents_stays,
    a_content_is_made_of_its_own_frames_however_long_their_chain,
    a_list_of_documents_counts_what_its_filters_let_through,
    pages_of_documents_in_each_order_go_on_from_a_cursor,
    versions_are_listed_from_a_cursor_on_and_named_by_number,
    what_was_done_to_a_document_is_found_by_kind_actor_and_time,
    what_was_done_to_a_document_is_told_page_by_page,
    an_acknowledged_commit_is_there_after_a_crash,
    the_sink_has_a_commit_before_its_reply_leaves,
    a_sequence_is_accepted_once_and_only_behind_the_one_before,
    an_answer_without_a_change_is_refused_where_another_change_came_first,
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
    what_sleeps_is_found_in_the_order_of_its_waking,
    who_spoke_is_not_idle_even_where_the_header_lags,
    lists_totals_and_transcripts_are_what_the_model_says,
    events_and_their_totals_are_what_the_model_says,
    a_page_is_whole_while_events_are_written_behind,
    a_reader_that_joins_misses_nothing_and_sees_nothing_twice,
    a_reader_that_is_too_slow_goes_on_from_the_store_or_ends,
    a_reader_is_let_go_when_the_feed_closes,
    what_retention_took_is_no_event_of_its_account_any_more,
    what_retention_took_is_no_event_of_its_entity_any_more,
    what_retention_took_is_found_by_no_position,
    endpoints_are_read_among_the_events_by_position,
    the_first_of_each_lane_is_due_and_hands_over_when_it_ends,
    what_is_sent_again_is_due_at_once_beside_its_lane,
    deliveries_are_listed_newest_first_with_exact_totals,
    what_is_given_up_counts_as_failed_at_once_and_the_rows_follow,
    what_lands_after_it_was_given_up_does_not_count,
    deliveries_of_an_endpoint_that_is_no_more_go_with_it,
    deliveries_that_ended_go_when_they_are_old,
    what_receivers_answered_goes_with_the_redacted_message,
    whoever_delivers_finds_after_a_crash_what_it_had_written,
    whoever_begins_anew_reads_behind_what_was_handed_in,
    what_is_left_of_an_endpoint_that_is_no_more_goes,
}

/// A writer without its thread.
pub(super) struct Bare {
    pub(super) writer: Writer,
    pub(super) folder: Folder,
}

type Outcome = Receiver<Result<(), CommitFailure<ConstraintViolation>>>;

impl Bare {
    fn new() -> Self {
        Self::on(Folder::new())
    }

    /// On files that are there.
    pub(super) fn on(folder: Folder) -> Self {
        let path = folder.path();
        let mut connection = connect(
            &path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        )
        .unwrap();
        schema::migrate(&mut connection).unwrap();
        let counts = recovery::recover(&mut connection).unwrap();
        let views = Views::default();
        let checkpointing = Checkpointing::start(&path, &mut connection).unwrap();
        let writer = Writer {
            leads: Default::default(),
            checkpointing,
            housekeeping: Housekeeping::open(Pace::default(), &connection, &views, Arc::default())
                .unwrap(),
            connection,
            counts,
            sequences: HashMap::new(),
            fold: HeaderFlusher::default(),
            lagging: Arc::default(),
            slicing: SegmentWriter::default(),
            sink: Arc::new(views),
            counters: Arc::new(WriterCounters::default()),
            healthy: Arc::new(AtomicBool::new(true)),
            banned: HashMap::new(),
            tidying: super::delivery_tidying::Tidying::default(),
            wal_preallocation: WalPreallocation::of(&log_of(&path)),
        };
        Bare { writer, folder }
    }

    /// One batch of commits.
    pub(super) fn batch(
        &mut self,
        commits: Vec<(Incarnation, Commit)>,
    ) -> Vec<Result<(), CommitFailure<ConstraintViolation>>> {
        let mut works = Vec::new();
        let outcomes: Vec<Outcome> = commits
            .into_iter()
            .map(|(incarnation, commit)| {
                let (settled, outcome) = sync_channel(1);
                let digests = crate::store::digest::payload_digests(&commit);
                let settle = Box::new(move |outcome| settled.send(outcome).unwrap());
                works.push(Work::Commit {
                    incarnation,
                    commit: Box::new(commit),
                    digests,
                    settle,
                });
                outcome
            })
            .collect();
        self.writer.take(&mut works);
        outcomes
            .into_iter()
            .map(|outcome| outcome.recv().unwrap())
            .collect()
    }

    fn rows(&self) -> i64 {
        self.writer
            .connection
            .query_row("SELECT count(*) FROM rows", [], |row| row.get(0))
            .unwrap()
    }

    fn gaps(&self) -> i64 {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM rows GROUP BY scope HAVING count(*) <> max(number))";
        self.writer
            .connection
            .query_row(sql, [], |row| row.get(0))
            .unwrap()
    }
}

/// A message of an entity, of so many bytes.
pub(super) fn row_of(entity: EntityNumber, expected: u64, bytes: usize) -> Commit {
    let counts = MessageCounts {
        customer: expected + 1,
        last_message_at: Some(Timestamp(1)),
        ..MessageCounts::default()
    };
    let payload = Bytes::from(vec![b'x'; bytes]);
    let row = NewRow {
        kind: EventKind::MessageCreated,
        payload,
        counts,
        seen: None,
        edits: None,
    };
    let subject = Subject {
        kind: Kind::Conversation,
        number: entity,
        tail: 1,
    };
    let caller = Caller {
        tenant: Tenant::of(1, Mode::Live),
        actor: Actor::server("a test"),
    };
    Commit {
        rows: vec![row],
        ..Commit::new(subject, Sequence(expected), caller, Timestamp(1))
    }
}
