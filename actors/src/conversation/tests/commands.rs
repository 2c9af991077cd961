//! Property tests of a conversation's rules: random commands under a clock that may go backwards,
//! against what the contract says of each.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use serde_json::{Map, Value, json};

use super::play::{Play, change};
use crate::conversation::messages::{
    CloseConversation, CloseIdle, ConversationError, EditMessage, EndSnooze, ReadConversation,
    RedactMessage, ReopenConversation, ReviseMessage, SendMessage, UnassignUser,
};
use crate::conversation::rules::ConversationRequest;
use crate::conversation::state::Conversation;
use colloquy_model::answer::Precondition;
use colloquy_model::commit::{Commit, Header};
use colloquy_model::conversation::{Priority, SenderType, Status};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::MessageId;
use colloquy_model::sequence::Sequence;
use colloquy_runtime::Decision;

/// Fields of a conversation whose change an event names.
const CHANGING: [&str; 7] = [
    "status",
    "channel",
    "priority",
    "assignee_id",
    "metadata",
    "closed_at",
    "snoozed_until",
];

/// What is asked; numbers choose among what there is.
#[derive(Debug, Clone)]
enum Ask {
    Read,
    Change(Changes),
    Close(Option<String>),
    Reopen,
    Send(SenderType),
    Edit { message: usize, same: bool },
    Redact(usize),
    Unassign(usize),
    Wake,
    CloseIdle { after_ms: u64 },
}

/// `snooze` counts from now.
#[derive(Debug, Clone)]
struct Changes {
    status: Option<Status>,
    priority: Option<Priority>,
    assignee: Option<Option<usize>>,
    key: Option<Value>,
    snooze: Option<Option<i64>>,
}

/// `If-Match` with the tag as it is, or as it was.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Match {
    No,
    Now,
    Stale,
}

fn asks() -> impl Strategy<Value = Ask> {
    let status = proptest::option::of(prop::sample::select(Status::ALL));
    let priority = proptest::option::of(prop::sample::select(Priority::ALL));
    let assignee = proptest::option::of(proptest::option::of(0..2_usize));
    let key = proptest::option::of(prop::sample::select(vec![
        json!(null),
        json!(1),
        json!({"deep": true}),
    ]));
    let snooze = proptest::option::weighted(0.4, proptest::option::of(1..1000_i64));
    prop_oneof![
        1 => Just(Ask::Read),
        5 => (status, priority, assignee, key, snooze).prop_map(|(status, priority, assignee, key, snooze)| {
            Ask::Change(Changes { status, priority, assignee, key, snooze })
        }),
        2 => Just(Ask::Wake),
        2 => (0..2000_u64).prop_map(|after_ms| Ask::CloseIdle { after_ms }),
        2 => proptest::option::of("[a-z]{1,5}").prop_map(Ask::Close),
        1 => Just(Ask::Reopen),
        5 => prop::sample::select(SenderType::ALL).prop_map(Ask::Send),
        2 => (0..50_usize, any::<bool>()).prop_map(|(message, same)| Ask::Edit { message, same }),
        1 => (0..50_usize).prop_map(Ask::Redact),
        1 => (0..2_usize).prop_map(Ask::Unassign),
    ]
}

type WithoutReply = Decision<Conversation, ()>;
type Decide = dyn FnOnce(&Play, Option<Precondition>) -> WithoutReply;

/// A request of any type, ready to be decided.
struct Posed {
    message: Option<MessageId>,
    decide: Box<Decide>,
}

impl Posed {
    fn new<R: ConversationRequest>(request: R) -> Self {
        Posed {
            message: request.message(),
            decide: Box::new(|play, if_match| play.decide(request, if_match).map(drop)),
        }
    }
}

impl Play {
    /// The body of a request that makes these changes.
    fn change(&self, changes: &Changes) -> Value {
        let Changes {
            status,
            priority,
            assignee,
            key,
            snooze,
        } = changes;
        let until = |after: &Option<i64>| json!(after.map(|after| self.after(after)));
        let user = |index: &Option<usize>| json!(index.map(|index| self.users[index]));
        let members = [
            ("snoozed_until", snooze.as_ref().map(until)),
            ("status", status.map(|status| json!(status))),
            ("priority", priority.map(|priority| json!(priority))),
            ("assignee_id", assignee.as_ref().map(user)),
            ("metadata", key.as_ref().map(|key| json!({"b": key}))),
        ];
        let given = members
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(given.collect())
    }

    fn message(&self, index: usize) -> Option<MessageId> {
        let index = index.checked_rem(self.messages.len())?;
        Some(self.messages[index].0)
    }

    /// The request that is asked; none where it is about a message and there is none.
    fn pose(&mut self, ask: &Ask) -> Option<Posed> {
        self.texts += 1;
        let text = format!("text {}", self.texts);
        Some(match ask {
            Ask::Read => Posed::new(ReadConversation),
            Ask::Change(changes) => Posed::new(change(self.change(changes))),
            Ask::Close(reason) => {
                let close = json!({ "reason": reason });
                Posed::new(serde_json::from_value::<CloseConversation>(close).unwrap())
            }
            Ask::Reopen => Posed::new(ReopenConversation),
            Ask::Send(sender) => {
                let send = json!({"content": text, "sender_type": sender});
                Posed::new(serde_json::from_value::<SendMessage>(send).unwrap())
            }
            Ask::Edit {
                message: index,
                same,
            } => {
                let message = self.message(*index)?;
                let held = self.found(message)?.now;
                let content = if *same && !held.content.is_empty() {
                    held.content
                } else {
                    text
                };
                let edit = json!({ "content": content });
                let edit: EditMessage = serde_json::from_value(edit).unwrap();
                Posed::new(ReviseMessage { message, edit })
            }
            Ask::Redact(index) => Posed::new(RedactMessage {
                message: self.message(*index)?,
            }),
            Ask::Unassign(user) => Posed::new(UnassignUser {
                user: self.users[*user],
            }),
            Ask::Wake => Posed::new(EndSnooze),
            Ask::CloseIdle { after_ms } => Posed::new(CloseIdle {
                after: Duration::from_millis(*after_ms),
            }),
        })
    }

    /// What the contract has a commit consist of: events in order, or the refusal.
    fn expected(&self, ask: &Ask) -> Result<Vec<EventKind>, ConversationError> {
        let status = self.live().state.status;
        let redacted = |index: usize| {
            let message = self.message(index).unwrap();
            self.found(message).unwrap().now.redacted
        };
        let updated = |changes: bool| {
            Ok(if changes {
                vec![EventKind::ConversationUpdated]
            } else {
                Vec::new()
            })
        };
        match ask {
            Ask::Read => Ok(Vec::new()),
            Ask::Change(changes) => self.expected_change(changes),
            Ask::Close(_) if status != Status::Closed => Ok(vec![EventKind::ConversationClosed]),
            Ask::Close(_) => Ok(Vec::new()),
            Ask::Wake => updated(
                self.live()
                    .state
                    .snoozed_until
                    .is_some_and(|until| until <= self.now),
            ),
            Ask::CloseIdle { after_ms } => {
                let open = status != Status::Closed && self.live().state.snoozed_until.is_none();
                let due = open && self.active_at + Duration::from_millis(*after_ms) <= self.now;
                Ok(if due {
                    vec![EventKind::ConversationClosed]
                } else {
                    Vec::new()
                })
            }
            Ask::Reopen => updated(status == Status::Closed),
            Ask::Unassign(user) => updated(self.live().state.assignee == Some(self.users[*user])),
            Ask::Send(SenderType::Customer) if status != Status::Active => Ok(vec![
                EventKind::MessageCreated,
                EventKind::ConversationUpdated,
            ]),
            Ask::Send(SenderType::Customer) => Ok(vec![EventKind::MessageCreated]),
            Ask::Send(_) if status == Status::Closed => Err(ConversationError::Closed),
            Ask::Send(_) => Ok(vec![EventKind::MessageCreated]),
            Ask::Edit { message, .. } if redacted(*message) => Err(ConversationError::Redacted),
            Ask::Edit { same: true, .. } => Ok(Vec::new()),
            Ask::Redact(message) if redacted(*message) => Ok(Vec::new()),
            Ask::Edit { .. } | Ask::Redact(_) => Ok(vec![EventKind::MessageUpdated]),
        }
    }

    fn expected_change(&self, changes: &Changes) -> Result<Vec<EventKind>, ConversationError> {
        let Changes {
            status: to,
            priority,
            assignee,
            key,
            snooze,
        } = changes;
        let state = &self.live().state;
        if let (Status::Closed, Some(to @ Status::Pending)) = (state.status, *to) {
            return Err(ConversationError::InvalidTransition {
                from: Status::Closed,
                to,
            });
        }
        let wakes = *snooze == Some(None) && to.is_none() && state.snoozed_until.is_some();
        let status = if wakes {
            Status::Active
        } else {
            to.unwrap_or(state.status)
        };
        if matches!(snooze, Some(Some(_))) && status != Status::Pending {
            return Err(ConversationError::NotPending);
        }
        if status == Status::Closed && state.status != Status::Closed {
            return Ok(vec![EventKind::ConversationClosed]);
        }
        let metadata: Value = serde_json::from_str(&state.metadata).unwrap();
        let changes = status != state.status
            || snooze
                .is_some_and(|after| after.map(|after| self.after(after)) != state.snoozed_until)
            || priority.is_some_and(|priority| priority != state.priority)
            || assignee.is_some_and(|user| user.map(|user| self.users[user]) != state.assignee)
            || key
                .as_ref()
                .is_some_and(|key| metadata.get("b").unwrap_or(&Value::Null) != key);
        Ok(if changes {
            vec![EventKind::ConversationUpdated]
        } else {
            Vec::new()
        })
    }

    fn turn(&mut self, ask: &Ask, wanted: Match) -> Result<(), TestCaseError> {
        let Some(posed) = self.pose(ask) else {
            return Ok(());
        };
        let expected = self.expected(ask);
        let etag = match posed.message {
            Some(id) => self.found(id).unwrap().latest.to_string(),
            None => self.live().etag(&self.users_known),
        };
        let if_match = match wanted {
            Match::No => None,
            Match::Now => Some(Precondition::OneOf(vec!["other".to_owned(), etag])),
            Match::Stale => Some(Precondition::OneOf(vec!["0-0".to_owned()])),
        };
        let before = self.shown();
        match (posed.decide)(self, if_match) {
            Decision::Refuse(refusal) if wanted == Match::Stale => {
                prop_assert_eq!(refusal, ConversationError::Precondition);
            }
            Decision::Refuse(refusal) => prop_assert_eq!(Err(refusal), expected),
            Decision::Answer(_) => {
                prop_assert_ne!(wanted, Match::Stale);
                prop_assert_eq!(Ok(Vec::new()), expected);
            }
            Decision::Keep { .. } => prop_assert!(false, "nothing is kept without a key"),
            Decision::Change { change, commit, .. } => {
                prop_assert_ne!(wanted, Match::Stale);
                let kind: Vec<_> = commit.rows.iter().map(|row| row.kind).collect();
                prop_assert_eq!(Ok(kind), expected);
                self.take_rows(&commit)?;
                self.conversation.take(change);
                self.note_activity(&before, &commit);
                self.check_change(&before, &commit)?;
            }
        }
        Ok(())
    }

    fn note_activity(&mut self, before: &Value, commit: &Commit) {
        let after = self.shown();
        let reopened = before["status"] == "closed" && after["status"] != "closed";
        let woken = !before["snoozed_until"].is_null() && after["snoozed_until"].is_null();
        if reopened
            || woken
            || commit
                .rows
                .iter()
                .any(|row| row.kind == EventKind::MessageCreated)
        {
            self.active_at = commit.at;
        }
    }

    /// What `changes` says is what differs, and the header holds it.
    fn check_change(&self, before: &Value, commit: &Commit) -> Result<(), TestCaseError> {
        let after = self.shown();
        let mut differs = Map::new();
        for field in CHANGING
            .into_iter()
            .filter(|field| before[*field] != after[*field])
        {
            differs.insert(
                field.to_owned(),
                json!({"from": before[field], "to": after[field]}),
            );
        }
        let said = commit.rows.iter().find(|row| {
            matches!(
                row.kind,
                EventKind::ConversationUpdated | EventKind::ConversationClosed
            )
        });
        match said {
            None => {
                prop_assert!(
                    differs.is_empty(),
                    "a change that no event names: {differs:?}"
                );
                prop_assert!(matches!(commit.header, Header::Unchanged));
            }
            Some(row) => {
                let data: Value = serde_json::from_slice(&row.payload).unwrap();
                prop_assert_eq!(&data["changes"], &Value::Object(differs));
                prop_assert!(!data["changes"].as_object().unwrap().is_empty());
                let shown = after.as_object().unwrap();
                prop_assert!(
                    shown.iter().all(|(field, value)| data[field] == *value),
                    "the event shows the result"
                );
                prop_assert_eq!(
                    data.get("reason").is_some(),
                    row.kind == EventKind::ConversationClosed
                );
                let Header::Conversation { after: header, .. } = &commit.header else {
                    panic!("no header")
                };
                prop_assert_eq!(&**header, &self.live().state);
            }
        }
        prop_assert_eq!(after["closed_at"].is_null(), after["status"] != "closed");
        prop_assert!(
            after["snoozed_until"].is_null() || after["status"] == "pending",
            "only a pending one sleeps"
        );
        prop_assert_eq!(&after["message_count"], &json!(self.messages.len()));
        prop_assert_eq!(self.live().sequence, Sequence::ZERO.plus(self.rows.len()));
        prop_assert_eq!(&after["updated_at"], &json!(commit.at));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_command_does_what_the_contract_says(
        asks in proptest::collection::vec((asks(), prop::sample::select(vec![Match::No, Match::No, Match::Now, Match::Stale]), -500..1000_i64), 1..60)
    ) {
        let mut play = Play::new();
        for (ask, wanted, passes) in asks {
            play.now.0 += passes;
            play.turn(&ask, wanted)?;
        }
    }
}
