//! Tests of who is answered, and of what is kept of an answer.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;

use super::play::Play;
use crate::conversation::context::NewIds;
use crate::conversation::messages::{
    ChangeConversation, ConversationError, ReadConversation, RedactMessage, ReopenConversation,
    SendMessage,
};
use crate::conversation::rules::ConversationRequest;
use crate::idempotency::{Keys, Looked};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::MessageId;
use colloquy_model::idempotency::key_hash;
use colloquy_runtime::Decision;

#[test]
fn nothing_changed_is_kept_only_with_a_key() {
    let play = Play::new();
    assert!(play.changes_nothing(ChangeConversation::default()));
    let keys = Arc::new(Keys::default());
    let hash = key_hash(play.caller.tenant, "a key");
    let Looked::Fresh(reservation, _) = keys.look(hash, crate::idempotency::numbered(0)) else {
        panic!("a new key")
    };
    let meta = CommandMeta {
        reservation: Some(reservation),
        ..CommandMeta::new(play.caller.clone())
    };
    let Decision::Keep { commit, reply } = play.decide_with(meta, ChangeConversation::default())
    else {
        panic!("kept")
    };
    assert!(commit.rows.is_empty());
    assert_eq!(commit.answer.unwrap().body, Some(reply.body));
    assert!(
        matches!(
            keys.look(hash, crate::idempotency::numbered(0)),
            Looked::Fresh(..)
        ),
        "the commit is gone: so is the reservation"
    );
}

#[test]
fn a_stranger_finds_nothing() {
    let mut play = Play::new();
    play.caller.tenant = Tenant::of(1, Mode::Test);
    finds_nothing(&play, ReadConversation);
    finds_nothing(&play, ReopenConversation);
    let message = play.messages[0].0;
    finds_nothing(&play, RedactMessage { message });
}

fn finds_nothing<R: ConversationRequest>(play: &Play, request: R) {
    let Decision::Refuse(refusal) = play.decide(request, None) else {
        panic!("not refused")
    };
    assert_eq!(refusal, ConversationError::NotFound);
}

#[test]
fn a_decision_is_made_of_nothing_but_what_is_handed_in() {
    let play = Play::new();
    let ids = NewIds {
        message: |at, sequence| {
            MessageId::from_parts(EntityNumber(at.0.unsigned_abs()), sequence.0)
        },
    };
    let rows = || {
        let meta = CommandMeta::new(play.caller.clone());
        let send: SendMessage = serde_json::from_str(r#"{"content": "once more"}"#).unwrap();
        let Decision::Change { commit, reply, .. } = play.decide_with_ids(meta, send, ids) else {
            panic!("nothing changes")
        };
        let payloads = commit.rows.into_iter().map(|row| row.payload);
        (
            commit.at,
            payloads.collect::<Vec<_>>(),
            reply.id,
            reply.body,
        )
    };
    assert_eq!(rows(), rows());
}
