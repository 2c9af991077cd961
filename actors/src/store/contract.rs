//! The suite that every store passes: what a commit promises, what lists show, what a crash leaves.
//! Knows no store; each one's tests name a [`Bench`] and let [`contract`] make a test of every
//! function here.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod deliveries;
mod document_pages;
mod documents;
mod erasing;
mod events;
mod figures;
mod fixture;
mod model;
mod usage;

pub(super) use self::deliveries::{
    deliveries_are_listed_newest_first_with_exact_totals,
    deliveries_of_an_endpoint_that_is_no_more_go_with_it,
    deliveries_that_ended_go_when_they_are_old,
    the_first_of_each_lane_is_due_and_hands_over_when_it_ends,
    what_is_given_up_counts_as_failed_at_once_and_the_rows_follow,
    what_is_left_of_an_endpoint_that_is_no_more_goes,
    what_is_sent_again_is_due_at_once_beside_its_lane,
    what_lands_after_it_was_given_up_does_not_count,
    what_receivers_answered_goes_with_the_redacted_message,
    whoever_begins_anew_reads_behind_what_was_handed_in,
    whoever_delivers_finds_after_a_crash_what_it_had_written,
};
pub(super) use self::document_pages::{
    a_content_is_made_of_its_own_frames_however_long_their_chain,
    a_list_of_documents_counts_what_its_filters_let_through,
    pages_of_documents_in_each_order_go_on_from_a_cursor,
    versions_are_listed_from_a_cursor_on_and_named_by_number,
    what_was_done_to_a_document_is_found_by_kind_actor_and_time,
    what_was_done_to_a_document_is_told_page_by_page,
};
pub(super) use self::documents::{
    a_commit_that_names_a_document_needs_it_in_its_own_account_and_mode,
    a_document_comes_back_as_it_was_committed,
    a_document_in_the_bin_is_listed_there_only_and_is_still_a_place,
    a_document_that_is_gone_is_taken_off_the_total_in_which_it_was,
    a_link_leads_to_its_document_until_it_is_taken_back,
    a_list_of_documents_is_by_title_or_among_some_where_it_is_asked_so,
    a_long_frame_comes_back_whole_and_leaves_the_files, a_user_who_owns_documents_stays,
    a_version_comes_back_with_the_frames_that_make_its_content,
    lists_of_documents_hold_and_count_what_one_may_read,
    what_was_answered_about_an_erased_document_leaves_the_files,
    what_was_erased_of_a_document_leaves_the_files,
};
pub(super) use self::erasing::{
    an_erased_conversation_is_nowhere_and_takes_nothing,
    an_erased_customer_leaves_the_files_and_gives_up_its_names,
    files_go_before_a_conversation_that_is_due_and_stay_with_one_that_is_not,
    one_erasure_of_a_customer_runs_until_it_is_finished,
    the_bytes_of_a_conversation_are_those_of_its_texts,
    the_files_of_a_conversation_are_known_when_it_is_gone,
    what_is_known_of_a_record_is_enough_to_erase_it,
    what_is_still_erased_is_told_until_no_file_holds_it,
    what_is_to_be_erased_is_loaded_without_its_texts,
    what_may_have_to_be_erased_is_listed_by_number,
    what_was_said_in_an_erased_conversation_leaves_the_files,
};
pub(super) use self::events::{
    a_page_is_whole_while_events_are_written_behind, a_reader_is_let_go_when_the_feed_closes,
    a_reader_that_is_too_slow_goes_on_from_the_store_or_ends,
    a_reader_that_joins_misses_nothing_and_sees_nothing_twice,
    endpoints_are_read_among_the_events_by_position,
    events_and_their_totals_are_what_the_model_says, what_retention_took_is_found_by_no_position,
    what_retention_took_is_no_event_of_its_account_any_more,
    what_retention_took_is_no_event_of_its_entity_any_more,
};
pub(super) use self::figures::{
    a_slice_of_figures_is_counted_once_and_behind_the_one_before,
    figures_are_given_by_interval_and_group_with_what_was_open_before,
    figures_that_are_made_anew_take_the_place_of_the_others_when_they_know_as_much,
    milestones_and_what_was_made_come_back_as_they_were_counted,
};
pub(super) use self::fixture::{Asked, Bench, Failed, House, Numbering, Opened, Volume, wait};
pub(super) use self::model::lists_totals_and_transcripts_are_what_the_model_says;
pub(super) use self::usage::{
    requests_of_every_account_are_known_from_a_day_on,
    what_accounts_used_is_added_up_by_day_and_credential,
};

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use self::fixture::{live, other, test};
use crate::accounts::record::DeleteRecord;
use crate::accounts::{ChangeCustomer, Customer, IssueKey, Key, User};
use crate::conversation::messages::{
    ChangeConversation, CloseConversation, CloseIdle, ConversationError, EndSnooze,
    ReadConversation, RedactMessage, ReopenConversation, ReviseMessage, SendMessage,
};
use crate::idempotency::{Idempotency, Known, Looked};
use crate::store::{Facets, FeedRow, Stored, TimedCursor, TimedQuery, Timing};
use colloquy_model::answer::Done;
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{Chore, ConstraintViolation};
use colloquy_model::conversation::Status;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::AccountId;
use colloquy_model::idempotency::key_hash;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{CommitFailure, Incarnation};

/// Makes a test of each promise for one store. All promises stand here, so that none is tested on
/// one store only.
macro_rules! contract {
    ($bench:ty) => {
        $crate::store::contract::contract! {
            $bench:
            a_commit_that_names_a_document_needs_it_in_its_own_account_and_mode,
            a_document_comes_back_as_it_was_committed,
            a_version_comes_back_with_the_frames_that_make_its_content,
            a_long_frame_comes_back_whole_and_leaves_the_files,
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
            a_customers_new_name_is_read_among_the_events_by_position,
            conversations_are_read_by_number_in_the_order_that_is_asked_for,
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
            a_slice_of_figures_is_counted_once_and_behind_the_one_before,
            figures_are_given_by_interval_and_group_with_what_was_open_before,
            milestones_and_what_was_made_come_back_as_they_were_counted,
            figures_that_are_made_anew_take_the_place_of_the_others_when_they_know_as_much,
            what_receivers_answered_goes_with_the_redacted_message,
            whoever_delivers_finds_after_a_crash_what_it_had_written,
            whoever_begins_anew_reads_behind_what_was_handed_in,
            what_is_left_of_an_endpoint_that_is_no_more_goes,
            what_accounts_used_is_added_up_by_day_and_credential,
            requests_of_every_account_are_known_from_a_day_on,
            an_erased_conversation_is_nowhere_and_takes_nothing,
            an_erased_customer_leaves_the_files_and_gives_up_its_names,
            files_go_before_a_conversation_that_is_due_and_stay_with_one_that_is_not,
            one_erasure_of_a_customer_runs_until_it_is_finished,
            the_bytes_of_a_conversation_are_those_of_its_texts,
            the_files_of_a_conversation_are_known_when_it_is_gone,
            what_is_known_of_a_record_is_enough_to_erase_it,
            what_is_still_erased_is_told_until_no_file_holds_it,
            what_was_said_in_an_erased_conversation_leaves_the_files,
            what_is_to_be_erased_is_loaded_without_its_texts,
            what_may_have_to_be_erased_is_listed_by_number,
        }
    };
    ($bench:ty: $($promise:ident),* $(,)?) => {$(
        #[test]
        fn $promise() {
            $crate::store::contract::$promise::<$bench>();
        }
    )*};
}
pub(super) use contract;

pub(super) fn an_acknowledged_commit_is_there_after_a_crash<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut conversation = house.conversation(live(), customer, Some("hello"));
    conversation.send("second").unwrap();
    let shown = conversation.ask(ReadConversation).unwrap();
    let house = house.crash();
    let again = house
        .reopened(conversation.id)
        .ask(ReadConversation)
        .unwrap();
    assert_eq!(shown, again);
    let page = house.transcript(live(), conversation.id);
    assert_eq!(page.items.len(), 2);
    assert!(page.items[1].contains("second"));
    assert_eq!(
        house.list(live(), Facets::default()).items[0].messages,
        2,
        "recovery folds headers"
    );
}

pub(super) fn the_sink_has_a_commit_before_its_reply_leaves<B: Bench>() {
    let house = House::<B>::new();
    for _ in 0..20 {
        let key = house.vacant::<Key>(Tenant::account(1));
        let (id, account) = (key.id, AccountId::new(Timestamp(1)));
        let new = serde_json::from_value(json!({"type": "test"})).unwrap();
        let known = key.ask_and_look(IssueKey { new, account }, move |views| {
            views.identity.key(id).is_some()
        });
        assert!(known, "a key lets in as soon as it is answered");
    }
}

pub(super) fn a_sequence_is_accepted_once_and_only_behind_the_one_before<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut first = house.conversation(live(), customer, None);
    let mut second = house.reopened(first.id);
    first.send("from the first").unwrap();
    // The second copy does not know: its change is refused, and what was decided on top of it as
    // well.
    let refused = second.prepare(CloseConversation::default());
    let later = second.prepare(ReopenConversation);
    assert_eq!(refused.settled(), Err(CommitFailure::Conflict));
    assert!(nothing_was_done(later.settled()));
    first.send("the first goes on").unwrap();
    assert_eq!(house.counted(live(), Some(Status::Closed)), 0);
    assert_eq!(house.counted(live(), None), 1);
}

/// Whether a commit is known to have failed behind one that met a conflict.
fn nothing_was_done(outcome: Result<(), CommitFailure<ConstraintViolation>>) -> bool {
    matches!(
        outcome,
        Err(CommitFailure::Conflict | CommitFailure::Unavailable)
    )
}

pub(super) fn an_answer_without_a_change_is_refused_where_another_change_came_first<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut first = house.conversation(live(), customer, None);
    let mut second = house.reopened(first.id);
    let nothing = || change(json!({"status": "active"}));
    assert!(first.ask_with_key("of what is so", nothing()).is_ok());
    first.ask(change(json!({"status": "pending"}))).unwrap();
    // It does not know: what it would say is so is so no more.
    let refused = second.ask_with_key("of what was so", nothing());
    assert_eq!(refused, Err(Failed::Commit(CommitFailure::Conflict)));
    assert!(
        nothing_was_done(second.barrier()),
        "what it decided on top of it is refused as well"
    );
    let mut third = house.reopened(first.id);
    let now = third.ask_with_key("of what was so", nothing()).unwrap();
    assert!(
        String::from_utf8_lossy(&now.body).contains("\"active\""),
        "the key is free, and it is decided anew"
    );
    house.is_sound();
}

pub(super) fn what_follows_a_lost_commit_is_lost_even_where_its_sequence_fits<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut first = house.conversation(live(), customer, None);
    let mut second = house.reopened(first.id);
    first.send("takes the sequence").unwrap();
    assert_eq!(
        second.prepare(message("lost")).settled(),
        Err(CommitFailure::Conflict)
    );
    // The sequence that it expects is there now, but it is not the one that it meant.
    let by_chance = second.prepare(message("fits by chance")).settled();
    assert!(nothing_was_done(by_chance));
    assert!(nothing_was_done(second.barrier()));
    assert_eq!(
        first.barrier_of(Incarnation::next()),
        Ok(()),
        "a newer copy is not touched"
    );
    assert!(
        wait(house.store().reload(first.subject()))
            .unwrap()
            .is_some()
    );
    let mut third = house.reopened(first.id);
    third.send("after the reload").unwrap();
    assert_eq!(house.transcript(live(), first.id).items.len(), 2);
}

pub(super) fn a_loser_in_a_batch_leaves_nothing_and_the_batch_goes_on<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut lost = house.conversation(live(), customer, None);
    let mut winner = house.reopened(lost.id);
    winner.ask(CloseConversation::default()).unwrap();
    let mut others: Vec<_> = (0..20)
        .map(|_| house.conversation(live(), customer, None))
        .collect();
    let mut settles = Vec::new();
    for (index, other) in others.iter_mut().enumerate() {
        settles.push(other.prepare(message("before")));
        if index == 10 {
            assert_eq!(
                lost.prepare(change(json!({"priority": "high"}))).settled(),
                Err(CommitFailure::Conflict)
            );
        }
        settles.push(other.prepare(change(json!({"status": "pending"}))));
    }
    assert!(settles.into_iter().all(|settle| settle.settled() == Ok(())));
    assert_eq!(house.counted(live(), Some(Status::Pending)), 20);
    assert_eq!(house.counted(live(), Some(Status::Closed)), 1);
    assert_eq!(house.counted(live(), None), 21);
    house.is_sound();
}

pub(super) fn a_broken_condition_refuses_its_commit_alone<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let stranger = house.customer(test(), "in another mode");
    let elsewhere = house.customer(other(), "in another account");
    for absent in [stranger, elsewhere] {
        let refused = house.try_conversation(live(), absent, None);
        assert_eq!(
            refused.unwrap_err(),
            Failed::Commit(CommitFailure::Violated(ConstraintViolation::NoCustomer))
        );
    }
    let mut conversation = house.conversation(live(), customer, None);
    let user = house.user(other(), "else@example.org").unwrap();
    let refused = conversation
        .ask(change(json!({"assignee_id": user.id})))
        .unwrap_err();
    assert_eq!(
        refused,
        Failed::Commit(CommitFailure::Violated(ConstraintViolation::NoUser))
    );
    conversation.send("the incarnation goes on").unwrap();
    let refused = house
        .record::<Customer>(live(), customer)
        .ask(DeleteRecord)
        .unwrap_err();
    assert_eq!(
        refused,
        Failed::Commit(CommitFailure::Violated(
            ConstraintViolation::HasConversations
        ))
    );
    let idle = house.customer(live(), "idle");
    let deleted = house
        .record::<Customer>(live(), idle)
        .ask(DeleteRecord)
        .unwrap();
    assert_eq!(deleted.done, Done::Deleted);
    assert!(house.try_conversation(live(), idle, None).is_err());
    house.is_sound();
}

pub(super) fn a_unique_name_is_taken_once_even_within_one_batch<B: Bench>() {
    let house = House::<B>::new();
    let both: Vec<_> = (0..2)
        .map(|_| {
            house
                .vacant::<User>(live().account_wide())
                .prepare(house.new_user("Twice@Example.org"))
                .settled()
        })
        .collect();
    assert_eq!(both.iter().filter(|settled| settled.is_ok()).count(), 1);
    assert!(
        both.contains(&Err(CommitFailure::Violated(ConstraintViolation::Taken(
            colloquy_model::commit::NameField::UserEmail
        ))))
    );
    let mut user = house.user(other(), "twice@example.org").unwrap();
    user.ask(DeleteRecord).unwrap();
    assert!(
        house.user(other(), "twice@example.org").is_ok(),
        "a deleted record gives its name back"
    );
    house.is_sound();
}

pub(super) fn positions_and_numbers_have_no_gap<B: Bench>() {
    let house = House::<B>::new();
    let mut settles = Vec::new();
    for tenant in [live(), test(), other()] {
        let customer = house.customer(tenant, "Ada");
        for _ in 0..5 {
            let mut conversation = house.conversation(tenant, customer, Some("one"));
            settles.push(conversation.prepare(message("two")));
            settles.push(conversation.prepare(change(json!({"status": "pending"}))));
        }
    }
    assert!(settles.into_iter().all(|settle| settle.settled() == Ok(())));
    house.is_sound();
    let house = house.crash();
    let customer = house.customer(live(), "after the crash");
    house.conversation(live(), customer, Some("goes on"));
    house.is_sound();
}

pub(super) fn a_kept_answer_survives<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut conversation = house.conversation(live(), customer, None);
    let sent = conversation.ask_with_key("send", message("kept")).unwrap();
    let unchanged = conversation
        .ask_with_key("nothing", ReopenConversation)
        .unwrap();
    let closed = conversation
        .ask_with_key("close", CloseConversation::default())
        .unwrap();
    let refused = conversation
        .ask_with_key("refused", system_message())
        .unwrap_err();
    assert_eq!(refused, Failed::Refused(ConversationError::Closed));
    let house = house.crash();
    for (key, first) in [("send", sent), ("nothing", unchanged), ("close", closed)] {
        let Known::Replay(again) = house.look(live(), key, 1) else {
            panic!("{key} is not known")
        };
        assert_eq!(
            (again.body, again.done, again.id, again.etag),
            (first.body, first.done, first.id, first.etag)
        );
        assert!(again.replayed);
        assert!(matches!(house.look(live(), key, 2), Known::Reused));
        assert!(matches!(house.look(test(), key, 1), Known::Fresh(_)));
    }
    assert!(
        matches!(house.look(live(), "refused", 1), Known::Fresh(_)),
        "a refusal is decided anew"
    );
}

pub(super) fn memory_holds_a_bounded_number_of_keys_and_none_is_forgotten<B: Bench>() {
    let house = House::<B>::with_keys(40, 20);
    let customer = house.customer(live(), "Ada");
    let mut conversation = house.conversation(live(), customer, None);
    let keys: Vec<String> = (0..150).map(|index| format!("key {index}")).collect();
    for key in &keys {
        conversation.ask_with_key(key, message(key)).unwrap();
    }
    let in_memory = |house: &House<B>| {
        let looked = |key: &&String| {
            matches!(
                house
                    .views
                    .keys
                    .look(key_hash(live(), key), crate::idempotency::numbered(1)),
                Looked::Done { .. }
            )
        };
        keys.iter().filter(looked).count()
    };
    house.until("no more keys are in memory than may be", || {
        (1..=40).contains(&in_memory(&house))
    });
    let house = house.crash();
    for key in &keys {
        let Known::Replay(again) = house.look(live(), key, 1) else {
            panic!("{key} is not known")
        };
        assert!(String::from_utf8_lossy(&again.body).contains(key.as_str()));
    }
    for index in 0..200 {
        assert!(matches!(
            house.look(live(), &format!("new {index}"), 1),
            Known::Fresh(_)
        ));
    }
}

pub(super) fn a_renamed_customer_is_renamed_everywhere_at_once<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "before");
    let mut active = house.conversation(live(), customer, None);
    // More than are renamed at once.
    for _ in 0..B::VOLUME.of(600, 60) {
        house.conversation(live(), customer, None);
    }
    let renamed = |house: &House<B>, name: &str| {
        house
            .list(live(), Facets::default())
            .items
            .iter()
            .all(|header| &*house.name_of(header) == name)
    };
    assert!(renamed(&house, "before"));
    house
        .record::<Customer>(live(), customer)
        .ask(serde_json::from_value::<ChangeCustomer>(json!({"name": "after"})).unwrap())
        .unwrap();
    assert!(renamed(&house, "after"), "before and during the copying");
    let body = active.ask(ReadConversation).unwrap().body;
    assert!(
        String::from_utf8_lossy(&body).contains("after"),
        "the active conversation shows it"
    );
    house.conversation(live(), customer, None);
    let house = house.crash();
    assert!(
        renamed(&house, "after"),
        "a crash in the middle of the copying"
    );
    house.until("the name is copied into every header", || {
        let headers = house.list(live(), Facets::default()).items;
        headers
            .iter()
            .all(|header| &*header.customer_name == "after")
    });
    house.is_sound();
}

pub(super) fn a_customers_new_name_is_read_among_the_events_by_position<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "before");
    house.conversation(live(), customer, None);
    let rename = |change| {
        house
            .record::<Customer>(live(), customer)
            .ask(serde_json::from_value::<ChangeCustomer>(change).unwrap())
            .unwrap()
    };
    rename(json!({"name": "after"}));
    house.conversation(live(), customer, None);
    house.settle();
    let rows = wait(house.store().happened_behind(Position(0), 100)).unwrap();
    let told: Vec<String> = rows
        .into_iter()
        .map(|row| match row {
            FeedRow::Event(event) => event.kind.word().to_owned(),
            FeedRow::Renamed {
                customer: renamed,
                tenant,
                name,
                ..
            } => {
                assert_eq!((renamed, tenant), (customer.number(), live()));
                name.into()
            }
            FeedRow::Endpoint { .. } => panic!("there is no endpoint"),
        })
        .collect();
    let created = "conversation.created";
    assert_eq!(told, [created, "after", created]);
}

pub(super) fn conversations_are_read_by_number_in_the_order_that_is_asked_for<B: Bench>() {
    let house = House::<B>::lagging();
    let customer = house.customer(live(), "Ada");
    let mut talks: Vec<_> = (0..3)
        .map(|_| house.conversation(live(), customer, None))
        .collect();
    talks[1]
        .ask(message("a message that the header lags behind"))
        .unwrap();
    let elsewhere = house.conversation(test(), house.customer(test(), "Ada"), None);
    let ids: Vec<_> = talks.iter().map(|talk| talk.id).collect();
    let number = |at: usize| ids[at].number();
    let asked = [
        number(2),
        EntityNumber(1),
        number(1),
        elsewhere.id.number(),
        number(0),
    ];
    let found = wait(house.store().conversations_among(live(), Arc::from(asked))).unwrap();
    let shown: Vec<_> = found
        .iter()
        .map(|header| (header.id, header.messages))
        .collect();
    assert_eq!(shown, [(ids[2], 0), (ids[1], 1), (ids[0], 0)]);
    let mut behind = EntityNumber::ZERO;
    let mut all = Vec::new();
    loop {
        let page = wait(house.store().conversations_behind(behind, 3)).unwrap();
        let Some(last) = page.last() else { break };
        behind = last.id.number();
        all.extend(page.iter().map(|one| (one.id, one.tenant)));
    }
    let mut wanted: Vec<_> = ids.into_iter().map(|id| (id, live())).collect();
    wanted.push((elsewhere.id, test()));
    wanted.sort_unstable_by_key(|(id, _)| id.number());
    assert_eq!(all, wanted);
}

pub(super) fn a_redacted_text_is_gone_from_every_file<B: Bench>() {
    const MARKER: &str = "xyzzy-2718281828";
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut conversation = house.conversation(live(), customer, None);
    let sent = conversation
        .ask_with_key("key", message(&format!("{MARKER} first")))
        .unwrap();
    let id = sent.id.unwrap().parse().unwrap();
    let edit = json!({"content": format!("{MARKER} second"), "metadata": {"note": MARKER}});
    conversation
        .ask(ReviseMessage {
            message: id,
            edit: serde_json::from_value(edit).unwrap(),
        })
        .unwrap();
    assert!(house.holds(MARKER), "the test looks in the right place");
    conversation.ask(RedactMessage { message: id }).unwrap();
    house.until("the text is gone", || !house.holds(MARKER));
    let Known::Replay(again) = house.look(live(), "key", 1) else {
        panic!("the key is not known")
    };
    assert!(!String::from_utf8_lossy(&again.body).contains(MARKER));
    let found = wait(house.store().message(conversation.subject(), id))
        .unwrap()
        .unwrap();
    assert!(found.now.redacted && found.now.content.is_empty() && found.edits == 2);
    house.is_sound();
}

pub(super) fn a_last_use_of_a_key_is_written_down<B: Bench>() {
    let house = House::<B>::new();
    let (id, secret) = house.key();
    assert!(
        house
            .views
            .identity
            .authenticate(&secret, Timestamp(120_000))
            .is_some()
    );
    let last_use = |house: &House<B>| {
        let known = house.views.identity.key(id).unwrap();
        known
            .last_used_ms
            .load(std::sync::atomic::Ordering::Relaxed)
    };
    house.until("a crash would not lose it", || {
        last_use(&House::at(house.bench().killed())) == 120_000
    });
    let house = house.crash();
    assert_eq!(last_use(&house), 120_000);
    assert!(
        house
            .views
            .identity
            .authenticate(&secret, Timestamp(180_000))
            .is_some()
    );
}

pub(super) fn a_chore_stays_until_it_is_done<B: Bench>() {
    let house = House::<B>::new();
    let mut user = house.user(live(), "gone@example.org").unwrap();
    user.ask(DeleteRecord).unwrap();
    let house = house.crash();
    let left = wait(house.store().chores()).unwrap();
    assert_eq!(left, [Chore::Unassign(live().account_wide(), user.id)]);
    house.store().chore_done(left[0]);
    house.settle();
    assert_eq!(wait(house.store().chores()).unwrap(), []);
    assert_eq!(wait(house.crash().store().chores()).unwrap(), []);
}

pub(super) fn after_its_end_nothing_is_acknowledged<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut conversation = house.conversation(live(), customer, None);
    let last = conversation.prepare(message("just before the end"));
    house.store().close();
    assert_eq!(last.settled(), Ok(()));
    assert_eq!(
        conversation.send("after the end").unwrap_err(),
        Failed::Commit(CommitFailure::Unavailable)
    );
    assert_eq!(conversation.barrier(), Err(CommitFailure::Unavailable));
    assert!(wait(house.store().reload(conversation.subject())).is_err());
    assert!(wait(house.store().chores()).is_err());
}

pub(super) fn what_sleeps_is_found_in_the_order_of_its_waking<B: Bench>() {
    let house = House::<B>::new();
    let (here, there) = (
        house.customer(live(), "Ada"),
        house.customer(other(), "Eve"),
    );
    let mut sleepers = Vec::new();
    let [first, second, third, all_due] = [1000, 2000, 3000, 5000].map(Timestamp);
    for (tenant, customer, until) in [
        (live(), here, third),
        (other(), there, first),
        (live(), here, second),
    ] {
        let mut conversation = house.conversation(tenant, customer, None);
        conversation.ask(snoozed_until(until)).unwrap();
        sleepers.push((conversation, until));
    }
    house.conversation(live(), here, Some("awake"));
    sleepers.sort_by_key(|(_, until)| *until);
    let query = |until, behind, limit| TimedQuery {
        timing: Timing::Snooze,
        until,
        behind,
        limit,
    };
    let found = |house: &House<B>, query| {
        let found = wait(house.store().timed(query)).unwrap();
        assert!(found.iter().all(|one| one.at == one.listed_at));
        found
            .into_iter()
            .map(|one| (one.id, one.tenant, one.at))
            .collect::<Vec<_>>()
    };
    let all: Vec<_> = sleepers
        .iter()
        .map(|(sleeper, until)| (sleeper.id, sleeper.tenant, *until))
        .collect();
    assert_eq!(found(&house, query(all_due, None, 10)), all);
    assert_eq!(
        found(&house, query(Timestamp::EPOCH, None, 10)),
        all[..1],
        "the first that is not due ends it"
    );
    assert_eq!(found(&house, query(Timestamp(5000), None, 2)), all[..2]);
    let second = TimedCursor {
        listed_at: Timestamp(2000),
        number: all[1].0.number(),
    };
    assert_eq!(
        found(&house, query(Timestamp(5000), Some(second), 2)),
        all[2..]
    );
    sleepers[0].0.ask(EndSnooze).unwrap();
    let house = house.crash();
    assert_eq!(
        found(&house, query(all_due, None, 10)),
        all[1..],
        "a crash changes nothing"
    );
    house.is_sound();
}

/// Waits until the clock shows a later millisecond; gives it.
fn the_next_millisecond() -> Timestamp {
    let begun = Timestamp::now();
    loop {
        let now = Timestamp::now();
        if now > begun {
            return now;
        }
        std::thread::yield_now();
    }
}

pub(super) fn who_spoke_is_not_idle_even_where_the_header_lags<B: Bench>() {
    let house = House::<B>::lagging();
    let customer = house.customer(live(), "Ada");
    let mut quiet = house.conversation(live(), customer, None);
    let mut spoke = house.conversation(live(), customer, None);
    let mut asleep = house.conversation(live(), customer, None);
    let closed = house
        .conversation(live(), customer, None)
        .ask(CloseConversation::default());
    assert!(closed.is_ok());
    asleep
        .ask(snoozed_until(Timestamp(i64::from(u32::MAX) * 1000)))
        .unwrap();
    let before = the_next_millisecond();
    the_next_millisecond();
    spoke.send("after that").unwrap();
    let timing = Timing::Inactivity(live());
    let query = |until| TimedQuery {
        timing,
        until,
        behind: None,
        limit: 10,
    };
    let found = |house: &House<B>, until| wait(house.store().timed(query(until))).unwrap();
    let lagging = found(&house, before);
    assert_eq!(
        lagging.iter().map(|one| one.id).collect::<Vec<_>>(),
        [quiet.id, spoke.id]
    );
    assert!(
        lagging[0].at <= before && lagging[1].at > before && lagging[1].listed_at <= lagging[1].at,
        "{lagging:?}"
    );
    let house = house.crash();
    let folded = found(&house, before);
    assert!(
        folded[1].at == folded[1].listed_at && folded[1].at == lagging[1].at,
        "{folded:?}"
    );
    assert_eq!(
        found(&house, Timestamp::EPOCH).len(),
        1,
        "the first that is not due ends it"
    );
    quiet = house.reopened(quiet.id);
    let after = Duration::ZERO;
    quiet.ask(CloseIdle { after }).unwrap();
    assert_eq!(
        found(&house, before)
            .iter()
            .map(|one| one.id)
            .collect::<Vec<_>>(),
        [spoke.id]
    );
    let stranger = TimedQuery {
        timing: Timing::Inactivity(test()),
        ..query(before)
    };
    assert_eq!(wait(house.store().timed(stranger)).unwrap(), []);
    house.is_sound();
}

fn snoozed_until(until: Timestamp) -> ChangeConversation {
    change(json!({"status": "pending", "snoozed_until": until}))
}

pub(super) fn a_thing_is_loaded_by_its_whole_identifier<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let conversation = house.conversation(live(), customer, None);
    let mut subject = conversation.subject();
    assert!(matches!(
        wait(house.store().load(subject)),
        Ok(Some(Stored::Conversation(_)))
    ));
    subject.tail ^= 1;
    assert!(matches!(wait(house.store().load(subject)), Ok(None)));
}

/// A customer's message.
pub(super) fn message(text: &str) -> SendMessage {
    serde_json::from_value(json!({"content": text})).unwrap()
}

fn system_message() -> SendMessage {
    serde_json::from_value(json!({"content": "x", "sender_type": "system"})).unwrap()
}

/// A change of a conversation.
pub(super) fn change(change: serde_json::Value) -> ChangeConversation {
    serde_json::from_value(change).unwrap()
}

impl<B: Bench> House<B> {
    /// What a key turns out to be for a request that is told apart by `request`.
    fn look(&self, tenant: colloquy_model::caller::Tenant, key: &str, request: u8) -> Known {
        let idempotency = Idempotency::new(self.views.keys.clone(), self.store());
        wait(async move {
            idempotency
                .look(tenant, key, crate::idempotency::numbered(request))
                .await
        })
        .unwrap()
    }
}
