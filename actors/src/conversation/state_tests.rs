//! Property tests of a conversation's rules: random commands under a clock that may go backwards,
//! against what the contract says of each.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::*;
use crate::idempotency::{Keys, Looked};
use colloquy_model::caller::{Actor, Mode};
use colloquy_model::commit::{Commit, NewRow};
use colloquy_model::conversation::MessageView;
use colloquy_model::id::{CustomerId, MessageId};
use colloquy_model::idempotency::key_hash;
use colloquy_model::time::Timestamp;

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
    CloseIdle { after_ms: i64 },
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
        2 => (0..2000_i64).prop_map(|after_ms| Ask::CloseIdle { after_ms }),
        2 => proptest::option::of("[a-z]{1,5}").prop_map(Ask::Close),
        1 => Just(Ask::Reopen),
        5 => prop::sample::select(SenderType::ALL).prop_map(Ask::Send),
        2 => (0..50_usize, any::<bool>()).prop_map(|(message, same)| Ask::Edit { message, same }),
        1 => (0..50_usize).prop_map(Ask::Redact),
        1 => (0..2_usize).prop_map(Ask::Unassign),
    ]
}

/// A conversation with the rows that its commits wrote.
struct Play {
    conversation: Conversation,
    caller: Caller,
    people: Arc<Identity>,
    users: [UserId; 2],
    now: i64,
    /// By sequence.
    rows: Vec<(EventKind, Bytes, i64)>,
    /// Of each message: the sequences of its texts.
    messages: Vec<(MessageId, Vec<u64>)>,
    senders: HashMap<SenderType, u64>,
    texts: usize,
    /// The last message, reopening or waking.
    active_at: i64,
}

impl Play {
    fn new() -> Self {
        let people = Arc::new(Identity::default());
        let tenant = Tenant::of(1, Mode::Live);
        let users = [UserId::new(1), UserId::new(1)];
        for user in users {
            people.put_user(tenant, user, colloquy_model::user::Role::Agent);
        }
        let id = ConversationId::new(1_000_000);
        // Other tests may have made later identifiers.
        let begun = id.created_ms();
        let mut play = Play {
            conversation: Conversation { id, live: None },
            caller: Caller {
                tenant,
                by: Actor::server("a test"),
            },
            people,
            users,
            now: begun,
            rows: Vec::new(),
            messages: Vec::new(),
            senders: HashMap::new(),
            texts: 0,
            active_at: begun,
        };
        let new = json!({"customer_id": CustomerId::new(1), "initial_message": "first", "metadata": {"a": 1}});
        let new: CreateConversation = serde_json::from_value(new).unwrap();
        let customer = CustomerShown {
            id: new.customer_id,
            name: Arc::new(CustomerName::new("Ada", 1)),
        };
        let Decision::Change {
            change,
            commit,
            pipelined,
            ..
        } = play.decide(
            Request::Create {
                new: Box::new(new),
                customer,
            },
            None,
        )
        else {
            panic!("refused")
        };
        assert!(!pipelined, "a condition may refuse it");
        assert!(matches!(
            commit.conditions[..],
            [Condition::CustomerExists(_)]
        ));
        play.take_rows(&commit).unwrap();
        play.conversation.take(change);
        play
    }

    fn live(&self) -> &Live {
        self.conversation.live.as_ref().unwrap()
    }

    fn decide(
        &self,
        request: Request,
        if_match: Option<Precondition>,
    ) -> Decision<Conversation, Answer> {
        let found = match &request {
            Request::Edit(id, _) | Request::Redact(id) => Some(self.found(*id)),
            Request::Create { .. }
            | Request::Read
            | Request::Change(_)
            | Request::Close(_)
            | Request::Reopen
            | Request::Send(_)
            | Request::Unassign(_)
            | Request::Wake
            | Request::CloseIdle { .. } => None,
        };
        let people = Arc::clone(&self.people);
        let command = ConversationCommand {
            caller: self.caller.clone(),
            if_match,
            reservation: None,
            request,
            people,
        };
        self.conversation.judge(command, found, self.now)
    }

    fn found(&self, id: MessageId) -> Found {
        let (_, texts) = self.messages.iter().find(|(held, _)| *held == id)?;
        let (sequence, latest) = (*texts.first()?, *texts.last()?);
        let (_, payload, _) = &self.rows[usize::try_from(latest).unwrap() - 1];
        let now = serde_json::from_slice(payload).unwrap();
        let edits = u64::try_from(texts.len()).unwrap() - 1;
        Some(StoredMessage {
            tenant: self.caller.tenant,
            sequence,
            latest,
            edits,
            now,
        })
    }

    fn shown(&self) -> Value {
        let Decision::Answer(answer) = self.decide(Request::Read, None) else {
            panic!("a read answers")
        };
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// The body of a request that makes these changes.
    fn change(&self, changes: &Changes) -> Value {
        let Changes {
            status,
            priority,
            assignee,
            key,
            snooze,
        } = changes;
        let until = |after: &Option<i64>| json!(after.map(|after| Timestamp(self.now + after)));
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

    fn request(&mut self, ask: &Ask) -> Option<Request> {
        self.texts += 1;
        let text = format!("text {}", self.texts);
        let message = |index: usize| {
            index
                .checked_rem(self.messages.len())
                .map(|index| self.messages[index].0)
        };
        Some(match ask {
            Ask::Read => Request::Read,
            Ask::Change(changes) => Request::Change(Box::new(
                serde_json::from_value(self.change(changes)).unwrap(),
            )),
            Ask::Close(reason) => {
                Request::Close(serde_json::from_value(json!({"reason": reason})).unwrap())
            }
            Ask::Reopen => Request::Reopen,
            Ask::Send(sender) => {
                let send = json!({"content": text, "sender_type": sender});
                Request::Send(Box::new(serde_json::from_value(send).unwrap()))
            }
            Ask::Edit {
                message: index,
                same,
            } => {
                let id = message(*index)?;
                let held = self.found(id)?.now;
                let content = if *same && !held.content.is_empty() {
                    held.content
                } else {
                    text
                };
                Request::Edit(
                    id,
                    Box::new(serde_json::from_value(json!({"content": content})).unwrap()),
                )
            }
            Ask::Redact(index) => Request::Redact(message(*index)?),
            Ask::Unassign(user) => Request::Unassign(self.users[*user]),
            Ask::Wake => Request::Wake,
            Ask::CloseIdle { after_ms } => Request::CloseIdle {
                after_ms: *after_ms,
            },
        })
    }

    /// What the contract has a commit consist of: events in order, or the refusal.
    fn expected(&self, ask: &Ask, request: &Request) -> Result<Vec<EventKind>, ConversationError> {
        let status = self.live().state.status;
        let redacted = |id: &MessageId| {
            let latest = self.found(*id).unwrap().now;
            (latest.redacted, latest.content)
        };
        let updated = |changes: bool| {
            Ok(if changes {
                vec![EventKind::ConversationUpdated]
            } else {
                Vec::new()
            })
        };
        match (ask, request) {
            (Ask::Read, _) => Ok(Vec::new()),
            (Ask::Change(changes), _) => self.expected_change(changes),
            (Ask::Close(_), _) if status != Status::Closed => {
                Ok(vec![EventKind::ConversationClosed])
            }
            (Ask::Close(_), _) => Ok(Vec::new()),
            (Ask::Wake, _) => updated(
                self.live()
                    .state
                    .snoozed_until
                    .is_some_and(|until| until <= self.now),
            ),
            (Ask::CloseIdle { after_ms }, _) => {
                let open = status != Status::Closed && self.live().state.snoozed_until.is_none();
                let due = open && self.active_at + after_ms <= self.now;
                Ok(if due {
                    vec![EventKind::ConversationClosed]
                } else {
                    Vec::new()
                })
            }
            (Ask::Reopen, _) => updated(status == Status::Closed),
            (Ask::Unassign(user), _) => {
                updated(self.live().state.assignee == Some(self.users[*user]))
            }
            (Ask::Send(SenderType::Customer), _) if status != Status::Active => Ok(vec![
                EventKind::MessageCreated,
                EventKind::ConversationUpdated,
            ]),
            (Ask::Send(SenderType::Customer), _) => Ok(vec![EventKind::MessageCreated]),
            (Ask::Send(_), _) if status == Status::Closed => Err(ConversationError::Closed),
            (Ask::Send(_), _) => Ok(vec![EventKind::MessageCreated]),
            (Ask::Edit { .. }, Request::Edit(id, edit)) => match redacted(id) {
                (true, _) => Err(ConversationError::Redacted),
                (false, held) if edit.content.as_deref() == Some(&*held) => Ok(Vec::new()),
                (false, _) => Ok(vec![EventKind::MessageUpdated]),
            },
            (Ask::Redact(_), Request::Redact(id)) => Ok(if redacted(id).0 {
                Vec::new()
            } else {
                vec![EventKind::MessageUpdated]
            }),
            (Ask::Edit { .. } | Ask::Redact(_), _) => panic!("another request was made of it"),
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
                .is_some_and(|after| after.map(|after| self.now + after) != state.snoozed_until)
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
        let Some(request) = self.request(ask) else {
            return Ok(());
        };
        let expected = self.expected(ask, &request);
        let etag = match &request {
            Request::Edit(id, _) | Request::Redact(id) => {
                self.found(*id).unwrap().latest.to_string()
            }
            Request::Create { .. }
            | Request::Read
            | Request::Change(_)
            | Request::Close(_)
            | Request::Reopen
            | Request::Send(_)
            | Request::Unassign(_)
            | Request::Wake
            | Request::CloseIdle { .. } => self.live().etag(&self.people),
        };
        let if_match = match wanted {
            Match::No => None,
            Match::Now => Some(Precondition::OneOf(vec!["other".to_owned(), etag])),
            Match::Stale => Some(Precondition::OneOf(vec!["0-0".to_owned()])),
        };
        let before = self.shown();
        match self.decide(request, if_match) {
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
                let happened: Vec<_> = commit.rows.iter().map(|row| row.happened).collect();
                prop_assert_eq!(Ok(happened), expected);
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
                .any(|row| row.happened == EventKind::MessageCreated)
        {
            self.active_at = commit.at;
        }
    }

    /// Notes a commit's rows; each carries the counts up to it.
    fn take_rows(&mut self, commit: &Commit) -> Result<(), TestCaseError> {
        prop_assert_eq!(commit.expected, u64::try_from(self.rows.len()).unwrap());
        prop_assert!(!commit.rows.is_empty(), "no change without event");
        for row in &commit.rows {
            let sequence = u64::try_from(self.rows.len()).unwrap() + 1;
            if matches!(
                row.happened,
                EventKind::MessageCreated | EventKind::MessageUpdated
            ) {
                self.take_message(row, sequence)?;
            }
            self.rows
                .push((row.happened, row.payload.clone(), commit.at));
            let count = |sender| self.senders.get(&sender).copied().unwrap_or(0);
            let counts = (
                count(SenderType::Customer),
                count(SenderType::Agent),
                count(SenderType::System),
            );
            prop_assert_eq!(
                (row.tallies.customer, row.tallies.agent, row.tallies.system),
                counts
            );
        }
        if let Some(original) = commit.redacts {
            let message = self
                .messages
                .iter()
                .find(|(_, texts)| texts.first() == Some(&original));
            let now = self.found(message.unwrap().0).unwrap().now;
            prop_assert!(now.redacted && now.content.is_empty() && now.metadata.is_empty());
        }
        Ok(())
    }

    fn take_message(&mut self, row: &NewRow, sequence: u64) -> Result<(), TestCaseError> {
        let message: MessageView = serde_json::from_slice(&row.payload).unwrap();
        if row.happened == EventKind::MessageUpdated {
            let (_, texts) = self
                .messages
                .iter_mut()
                .find(|(id, _)| *id == message.message_id)
                .unwrap();
            prop_assert_eq!(row.edits, texts.first().copied());
            texts.push(sequence);
            return Ok(());
        }
        self.messages.push((message.message_id, vec![sequence]));
        *self.senders.entry(message.sender_type).or_insert(0) += 1;
        prop_assert_eq!(
            message.seq,
            u64::try_from(self.messages.len()).unwrap(),
            "no gap and no repeat"
        );
        prop_assert_eq!(message.message_id.sequence(), sequence);
        prop_assert_eq!(row.tallies.last_message_at, Some(message.sent_at.0));
        prop_assert!(
            self.rows
                .last()
                .is_none_or(|(_, _, at)| message.sent_at.0 >= *at),
            "sent_at runs backwards"
        );
        Ok(())
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
                row.happened,
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
                    row.happened == EventKind::ConversationClosed
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
        prop_assert_eq!(
            self.live().sequence,
            u64::try_from(self.rows.len()).unwrap()
        );
        prop_assert_eq!(&after["updated_at"], &json!(Timestamp(commit.at)));
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
            play.now += passes;
            play.turn(&ask, wanted)?;
        }
    }
}

#[test]
fn nothing_changed_is_kept_only_with_a_key() {
    let play = Play::new();
    let empty = || Request::Change(Box::default());
    assert!(matches!(play.decide(empty(), None), Decision::Answer(_)));
    let keys = Arc::new(Keys::default());
    let hash = key_hash(play.caller.tenant, "a key");
    let Looked::Fresh(reservation, _) = keys.look(hash, crate::idempotency::numbered(0)) else {
        panic!("a new key")
    };
    let (caller, people) = (play.caller.clone(), Arc::clone(&play.people));
    let reservation = Some(reservation);
    let command = ConversationCommand {
        caller,
        if_match: None,
        reservation,
        request: empty(),
        people,
    };
    let Decision::Keep { commit, reply } = play.conversation.judge(command, None, play.now) else {
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
    for request in [
        Request::Read,
        Request::Reopen,
        Request::Redact(play.messages[0].0),
    ] {
        let Decision::Refuse(refusal) = play.decide(request, None) else {
            panic!("not refused")
        };
        assert_eq!(refusal, ConversationError::NotFound);
    }
}

/// What the rules make of a request that changes something: its events with their data.
fn events(play: &mut Play, request: Request) -> Vec<(EventKind, Value)> {
    let Decision::Change { change, commit, .. } = play.decide(request, None) else {
        panic!("nothing changes")
    };
    play.take_rows(&commit).unwrap();
    play.conversation.take(change);
    commit
        .rows
        .iter()
        .map(|row| (row.happened, serde_json::from_slice(&row.payload).unwrap()))
        .collect()
}

fn change(change: Value) -> Request {
    Request::Change(Box::new(serde_json::from_value(change).unwrap()))
}

#[test]
fn a_snooze_ends_by_itself_once_and_not_before_its_time() {
    let mut play = Play::new();
    let until = Timestamp(play.now + 1000);
    events(
        &mut play,
        change(json!({"status": "pending", "snoozed_until": until})),
    );
    play.now += 999;
    assert!(
        matches!(play.decide(Request::Wake, None), Decision::Answer(_)),
        "not yet"
    );
    play.now += 1;
    let woken = events(&mut play, Request::Wake);
    let [(EventKind::ConversationUpdated, data)] = &woken[..] else {
        panic!("{woken:?}")
    };
    let changes = json!({
        "status": {"from": "pending", "to": "active"},
        "snoozed_until": {"from": until, "to": null},
    });
    assert_eq!(data["changes"], changes);
    assert!(
        matches!(play.decide(Request::Wake, None), Decision::Answer(_)),
        "once"
    );
}

#[test]
fn whatever_ends_pending_ends_the_snooze_and_says_so() {
    let message = || {
        Request::Send(Box::new(
            serde_json::from_value(json!({"content": "here I am"})).unwrap(),
        ))
    };
    let ends: [fn() -> Request; 4] = [
        || change(json!({"status": "active"})),
        || change(json!({"snoozed_until": null})),
        || Request::Close(CloseConversation::default()),
        || change(json!({"status": "pending", "snoozed_until": null})),
    ];
    for end in ends.into_iter().chain([message as fn() -> Request]) {
        let mut play = Play::new();
        let until = Timestamp(play.now + 1000);
        events(
            &mut play,
            change(json!({"status": "pending", "snoozed_until": until})),
        );
        let ended = events(&mut play, end());
        let (_, data) = ended.last().unwrap();
        assert_eq!(
            data["changes"]["snoozed_until"],
            json!({"from": until, "to": null}),
            "{ended:?}"
        );
        play.now += 1000;
        assert!(
            matches!(play.decide(Request::Wake, None), Decision::Answer(_)),
            "nothing is left to wake"
        );
    }
}

#[test]
fn only_a_pending_conversation_can_be_snoozed() {
    let play = Play::new();
    let until = Timestamp(play.now + 1000);
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
        matches!(
            play.decide(change(json!({"snoozed_until": null})), None),
            Decision::Answer(_)
        ),
        "nothing to end"
    );
}

#[test]
fn an_idle_conversation_closes_with_its_reason_and_a_snoozed_one_does_not() {
    let mut play = Play::new();
    let idle = || Request::CloseIdle { after_ms: 1000 };
    let until = Timestamp(play.now + 5000);
    events(
        &mut play,
        change(json!({"status": "pending", "snoozed_until": until})),
    );
    play.now += 5000;
    assert!(
        matches!(play.decide(idle(), None), Decision::Answer(_)),
        "it sleeps"
    );
    events(&mut play, Request::Wake);
    play.now += 999;
    assert!(
        matches!(play.decide(idle(), None), Decision::Answer(_)),
        "waking counts as activity"
    );
    play.now += 1;
    let closed = events(&mut play, idle());
    let [(EventKind::ConversationClosed, data)] = &closed[..] else {
        panic!("{closed:?}")
    };
    assert_eq!(
        (&data["reason"], &data["status"]),
        (&json!("inactivity"), &json!("closed"))
    );
    play.now += 5000;
    assert!(
        matches!(play.decide(idle(), None), Decision::Answer(_)),
        "once"
    );
}
