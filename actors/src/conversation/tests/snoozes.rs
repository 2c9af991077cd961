//! Tests of snoozing, waking and closing by itself.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use serde_json::json;

use super::play::{Play, change};
use crate::conversation::messages::{
    CloseConversation, CloseIdle, ConversationError, EndSnooze, SendMessage,
};
use crate::conversation::rules::ConversationRequest;
use colloquy_model::event_kind::EventKind;
use colloquy_runtime::Decision;

#[test]
fn a_snooze_ends_by_itself_once_and_not_before_its_time() {
    let mut play = Play::new();
    let until = play.now + Duration::from_millis(1000);
    play.events(change(json!({"status": "pending", "snoozed_until": until})));
    play.now.0 += 999;
    assert!(play.changes_nothing(EndSnooze), "not yet");
    play.now.0 += 1;
    let woken = play.events(EndSnooze);
    let [(EventKind::ConversationUpdated, data)] = &woken[..] else {
        panic!("{woken:?}")
    };
    let changes = json!({
        "status": {"from": "pending", "to": "active"},
        "snoozed_until": {"from": until, "to": null},
    });
    assert_eq!(data["changes"], changes);
    assert!(play.changes_nothing(EndSnooze), "once");
}

#[test]
fn whatever_ends_pending_ends_the_snooze_and_says_so() {
    the_snooze_ends_with(change(json!({"status": "active"})));
    the_snooze_ends_with(change(json!({"snoozed_until": null})));
    the_snooze_ends_with(CloseConversation::default());
    the_snooze_ends_with(change(json!({"status": "pending", "snoozed_until": null})));
    let message = json!({"content": "here I am"});
    the_snooze_ends_with(serde_json::from_value::<SendMessage>(message).unwrap());
}

fn the_snooze_ends_with<R: ConversationRequest>(request: R) {
    let mut play = Play::new();
    let until = play.now + Duration::from_millis(1000);
    play.events(change(json!({"status": "pending", "snoozed_until": until})));
    let ended = play.events(request);
    let (_, data) = ended.last().unwrap();
    assert_eq!(
        data["changes"]["snoozed_until"],
        json!({"from": until, "to": null}),
        "{ended:?}"
    );
    play.now.0 += 1000;
    assert!(play.changes_nothing(EndSnooze), "nothing is left to wake");
}

#[test]
fn only_a_pending_conversation_can_be_snoozed() {
    let play = Play::new();
    let until = play.now + Duration::from_millis(1000);
    for refused in [
        json!({"snoozed_until": until}),
        json!({"status": "active", "snoozed_until": until}),
        json!({"status": "closed", "snoozed_until": until}),
    ] {
        let Decision::Refuse(refusal) = play.decide(change(refused), None) else {
            panic!("not refused")
        };
        assert_eq!(refusal, ConversationError::NotPending);
    }
    assert!(
        play.changes_nothing(change(json!({"snoozed_until": null}))),
        "nothing to end"
    );
}

#[test]
fn an_idle_conversation_closes_with_its_reason_and_a_snoozed_one_does_not() {
    let mut play = Play::new();
    let idle = || CloseIdle {
        after: Duration::from_secs(1),
    };
    let until = play.now + Duration::from_millis(5000);
    play.events(change(json!({"status": "pending", "snoozed_until": until})));
    play.now.0 += 5000;
    assert!(play.changes_nothing(idle()), "it sleeps");
    play.events(EndSnooze);
    play.now.0 += 999;
    assert!(play.changes_nothing(idle()), "waking counts as activity");
    play.now.0 += 1;
    let closed = play.events(idle());
    let [(EventKind::ConversationClosed, data)] = &closed[..] else {
        panic!("{closed:?}")
    };
    assert_eq!(
        (&data["reason"], &data["status"]),
        (&json!("inactivity"), &json!("closed"))
    );
    play.now.0 += 5000;
    assert!(play.changes_nothing(idle()), "once");
}
