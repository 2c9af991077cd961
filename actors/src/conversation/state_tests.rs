//! Property tests of a conversation's rules: random commands under a clock that may go backwards, against what the
//! contract says of each.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::caller::{By, Mode};
use crate::id::CustomerId;
use crate::idempotency::{Keys, Looked};

/// Fields of a conversation whose change an event names.
const CHANGING: [&str; 6] = ["status", "channel", "priority", "assignee_id", "metadata", "closed_at"];

/// What is asked; numbers choose among what there is.
#[derive(Debug, Clone)]
enum Ask {
    Read,
    Change { status: Option<Status>, priority: Option<Priority>, assignee: Option<Option<usize>>, key: Option<Value> },
    Close(Option<String>),
    Reopen,
    Send(SenderType),
    Edit { message: usize, same: bool },
    Redact(usize),
    Unassign(usize),
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
    let key = proptest::option::of(prop::sample::select(vec![json!(null), json!(1), json!({"deep": true})]));
    prop_oneof![
        1 => Just(Ask::Read),
        4 => (status, priority, assignee, key)
            .prop_map(|(status, priority, assignee, key)| Ask::Change { status, priority, assignee, key }),
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
    rows: Vec<(Happened, Bytes, i64)>,
    /// Of each message: the sequences of its texts.
    messages: Vec<(MessageId, Vec<u64>)>,
    senders: HashMap<SenderType, u64>,
    texts: usize,
}

impl Play {
    fn new() -> Self {
        let people = Arc::new(Identity::default());
        let scope = Scope::of(1, Mode::Live);
        let users = [UserId::new(1), UserId::new(1)];
        for user in users {
            people.put_user(scope, user, crate::accounts::Role::Agent);
        }
        let id = ConversationId::new(1_000_000);
        let mut play = Play {
            conversation: Conversation { id, live: None },
            caller: Caller { scope, by: By::server("a test") },
            people,
            users,
            now: 1_000_000,
            rows: Vec::new(),
            messages: Vec::new(),
            senders: HashMap::new(),
            texts: 0,
        };
        let new = json!({"customer_id": CustomerId::new(1), "initial_message": "first", "metadata": {"a": 1}});
        let new: CreateConversation = serde_json::from_value(new).unwrap();
        let customer = CustomerShown { id: new.customer_id, name: Arc::new(CustomerName::new("Ada", 1)) };
        let Decision::Change { change, commit, pipelined, .. } =
            play.decide(Request::Create { new: Box::new(new), customer }, None)
        else {
            panic!("refused")
        };
        assert!(!pipelined, "a condition may refuse it");
        assert!(matches!(commit.conditions[..], [Condition::CustomerExists(_)]));
        play.take_rows(&commit).unwrap();
        play.conversation.take(change);
        play
    }

    fn live(&self) -> &Live {
        self.conversation.live.as_ref().unwrap()
    }

    fn decide(&self, request: Request, if_match: Option<Precondition>) -> Decision<Conversation> {
        let found = match &request {
            Request::Edit(id, _) | Request::Redact(id) => Some(self.found(*id)),
            Request::Create { .. }
            | Request::Read
            | Request::Change(_)
            | Request::Close(_)
            | Request::Reopen
            | Request::Send(_)
            | Request::Unassign(_) => None,
        };
        let people = Arc::clone(&self.people);
        let command = ConversationCommand { caller: self.caller.clone(), if_match, reservation: None, request, people };
        self.conversation.judge(command, found, self.now)
    }

    fn found(&self, id: MessageId) -> Found {
        let (_, texts) = self.messages.iter().find(|(held, _)| *held == id)?;
        let text = |sequence: &u64| {
            let (_, payload, at) = &self.rows[usize::try_from(*sequence).unwrap() - 1];
            (*sequence, *at, payload.clone())
        };
        Some(StoredMessage { scope: self.caller.scope, texts: texts.iter().map(text).collect() })
    }

    fn shown(&self) -> Value {
        let Decision::Answer(answer) = self.decide(Request::Read, None) else { panic!("a read answers") };
        serde_json::from_slice(&answer.body).unwrap()
    }

    fn request(&mut self, ask: &Ask) -> Option<Request> {
        self.texts += 1;
        let text = format!("text {}", self.texts);
        let message = |index: usize| index.checked_rem(self.messages.len()).map(|index| self.messages[index].0);
        Some(match ask {
            Ask::Read => Request::Read,
            Ask::Change { status, priority, assignee, key } => {
                let mut change = Map::new();
                change.extend(status.map(|status| ("status".to_owned(), json!(status))));
                change.extend(priority.map(|priority| ("priority".to_owned(), json!(priority))));
                change
                    .extend(assignee.map(|user| ("assignee_id".to_owned(), json!(user.map(|user| self.users[user])))));
                change.extend(key.clone().map(|key| ("metadata".to_owned(), json!({"b": key}))));
                Request::Change(Box::new(serde_json::from_value(change.into()).unwrap()))
            }
            Ask::Close(reason) => Request::Close(serde_json::from_value(json!({"reason": reason})).unwrap()),
            Ask::Reopen => Request::Reopen,
            Ask::Send(sender) => {
                let send = json!({"content": text, "sender_type": sender});
                Request::Send(Box::new(serde_json::from_value(send).unwrap()))
            }
            Ask::Edit { message: index, same } => {
                let id = message(*index)?;
                let held: MessageView = serde_json::from_slice(&self.found(id)?.texts.last()?.2).unwrap();
                let content = if *same && !held.content.is_empty() { held.content } else { text };
                Request::Edit(id, Box::new(serde_json::from_value(json!({"content": content})).unwrap()))
            }
            Ask::Redact(index) => Request::Redact(message(*index)?),
            Ask::Unassign(user) => Request::Unassign(self.users[*user]),
        })
    }

    /// What the contract has a commit consist of: events in order, or the refusal.
    fn expected(&self, ask: &Ask, request: &Request) -> Result<Vec<Happened>, ConversationError> {
        let status = self.live().state.status;
        let redacted = |id: &MessageId| {
            let latest: MessageView =
                serde_json::from_slice(&self.found(*id).unwrap().texts.last().unwrap().2).unwrap();
            (latest.redacted, latest.content)
        };
        let updated = |changes: bool| Ok(if changes { vec![Happened::ConversationUpdated] } else { Vec::new() });
        match (ask, request) {
            (Ask::Read, _) => Ok(Vec::new()),
            (Ask::Close(_), _) | (Ask::Change { status: Some(Status::Closed), .. }, _) if status != Status::Closed => {
                Ok(vec![Happened::ConversationClosed])
            }
            (Ask::Close(_), _) => Ok(Vec::new()),
            (Ask::Reopen, _) => updated(status == Status::Closed),
            (Ask::Unassign(user), _) => updated(self.live().state.assignee == Some(self.users[*user])),
            (Ask::Change { status: Some(Status::Pending), .. }, _) if status == Status::Closed => {
                Err(ConversationError::InvalidTransition { from: Status::Closed, to: Status::Pending })
            }
            (Ask::Change { status: to, priority, assignee, key }, _) => {
                let state = &self.live().state;
                let metadata: Value = serde_json::from_str(&state.metadata).unwrap();
                let put = key.as_ref().is_some_and(|key| metadata.get("b").unwrap_or(&Value::Null) != key);
                updated(
                    to.is_some_and(|to| to != status)
                        || priority.is_some_and(|priority| priority != state.priority)
                        || assignee.is_some_and(|user| user.map(|user| self.users[user]) != state.assignee)
                        || put,
                )
            }
            (Ask::Send(SenderType::Customer), _) if status != Status::Active => {
                Ok(vec![Happened::MessageCreated, Happened::ConversationUpdated])
            }
            (Ask::Send(SenderType::Customer), _) => Ok(vec![Happened::MessageCreated]),
            (Ask::Send(_), _) if status == Status::Closed => Err(ConversationError::Closed),
            (Ask::Send(_), _) => Ok(vec![Happened::MessageCreated]),
            (Ask::Edit { .. }, Request::Edit(id, edit)) => match redacted(id) {
                (true, _) => Err(ConversationError::Redacted),
                (false, held) if edit.content.as_deref() == Some(&*held) => Ok(Vec::new()),
                (false, _) => Ok(vec![Happened::MessageUpdated]),
            },
            (Ask::Redact(_), Request::Redact(id)) => {
                Ok(if redacted(id).0 { Vec::new() } else { vec![Happened::MessageUpdated] })
            }
            (Ask::Edit { .. } | Ask::Redact(_), _) => panic!("another request was made of it"),
        }
    }

    fn turn(&mut self, ask: &Ask, wanted: Match) -> Result<(), TestCaseError> {
        let Some(request) = self.request(ask) else { return Ok(()) };
        let expected = self.expected(ask, &request);
        let etag = match &request {
            Request::Edit(id, _) | Request::Redact(id) => self.found(*id).unwrap().texts.last().unwrap().0.to_string(),
            Request::Create { .. }
            | Request::Read
            | Request::Change(_)
            | Request::Close(_)
            | Request::Reopen
            | Request::Send(_)
            | Request::Unassign(_) => self.live().etag(&self.people),
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
                self.check_change(&before, &commit)?;
            }
        }
        Ok(())
    }

    /// Notes a commit's rows; each carries the counts up to it.
    fn take_rows(&mut self, commit: &Commit) -> Result<(), TestCaseError> {
        prop_assert_eq!(commit.expected, u64::try_from(self.rows.len()).unwrap());
        prop_assert!(!commit.rows.is_empty(), "no change without event");
        for row in &commit.rows {
            let sequence = u64::try_from(self.rows.len()).unwrap() + 1;
            if matches!(row.happened, Happened::MessageCreated | Happened::MessageUpdated) {
                self.take_message(row, sequence)?;
            }
            self.rows.push((row.happened, row.payload.clone(), commit.at));
            let count = |sender| self.senders.get(&sender).copied().unwrap_or(0);
            let counts = (count(SenderType::Customer), count(SenderType::Agent), count(SenderType::System));
            prop_assert_eq!((row.tallies.customer, row.tallies.agent, row.tallies.system), counts);
        }
        for rewrite in &commit.rewrites {
            self.rows[usize::try_from(rewrite.sequence).unwrap() - 1].1 = rewrite.payload.clone();
        }
        Ok(())
    }

    fn take_message(&mut self, row: &NewRow, sequence: u64) -> Result<(), TestCaseError> {
        let message: MessageView = serde_json::from_slice(&row.payload).unwrap();
        if row.happened == Happened::MessageUpdated {
            let (_, texts) = self.messages.iter_mut().find(|(id, _)| *id == message.message_id).unwrap();
            prop_assert_eq!(row.edits, texts.first().copied());
            texts.push(sequence);
            return Ok(());
        }
        self.messages.push((message.message_id, vec![sequence]));
        *self.senders.entry(message.sender_type).or_insert(0) += 1;
        prop_assert_eq!(message.seq, u64::try_from(self.messages.len()).unwrap(), "no gap and no repeat");
        prop_assert_eq!(message.message_id.sequence(), sequence);
        prop_assert_eq!(row.tallies.last_message_at, Some(message.sent_at.0));
        prop_assert!(self.rows.last().is_none_or(|(_, _, at)| message.sent_at.0 >= *at), "sent_at runs backwards");
        Ok(())
    }

    /// What `changes` says is what differs, and the header holds it.
    fn check_change(&self, before: &Value, commit: &Commit) -> Result<(), TestCaseError> {
        let after = self.shown();
        let mut differs = Map::new();
        for field in CHANGING.into_iter().filter(|field| before[*field] != after[*field]) {
            differs.insert(field.to_owned(), json!({"from": before[field], "to": after[field]}));
        }
        let said = commit
            .rows
            .iter()
            .find(|row| matches!(row.happened, Happened::ConversationUpdated | Happened::ConversationClosed));
        match said {
            None => {
                prop_assert!(differs.is_empty(), "a change that no event names: {differs:?}");
                prop_assert!(matches!(commit.header, Header::Unchanged));
            }
            Some(row) => {
                let data: Value = serde_json::from_slice(&row.payload).unwrap();
                prop_assert_eq!(&data["changes"], &Value::Object(differs));
                prop_assert!(!data["changes"].as_object().unwrap().is_empty());
                let shown = after.as_object().unwrap();
                prop_assert!(shown.iter().all(|(field, value)| data[field] == *value), "the event shows the result");
                prop_assert_eq!(data.get("reason").is_some(), row.happened == Happened::ConversationClosed);
                let Header::Conversation { after: header, .. } = &commit.header else { panic!("no header") };
                prop_assert_eq!(&**header, &self.live().state);
            }
        }
        prop_assert_eq!(after["closed_at"].is_null(), after["status"] != "closed");
        prop_assert_eq!(&after["message_count"], &json!(self.messages.len()));
        prop_assert_eq!(self.live().sequence, u64::try_from(self.rows.len()).unwrap());
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
        let redacted: Vec<_> = play.messages.iter().filter_map(|(id, _)| {
            let all = play.found(*id)?.texts;
            let latest: MessageView = serde_json::from_slice(&all.last()?.2).ok()?;
            latest.redacted.then_some(all)
        }).collect();
        for (_, payload) in redacted.iter().flatten().map(|(sequence, _, payload)| (sequence, payload)) {
            let text: MessageView = serde_json::from_slice(payload).unwrap();
            prop_assert!(text.redacted && text.content.is_empty() && text.metadata.is_empty());
        }
    }
}

#[test]
fn nothing_changed_is_kept_only_with_a_key() {
    let play = Play::new();
    let empty = || Request::Change(Box::default());
    assert!(matches!(play.decide(empty(), None), Decision::Answer(_)));
    let keys = Arc::new(Keys::default());
    let hash = Keys::hash(play.caller.scope, "a key");
    let Looked::Fresh(reservation, _) = keys.look(hash, [0; 16]) else { panic!("a new key") };
    let (caller, people) = (play.caller.clone(), Arc::clone(&play.people));
    let reservation = Some(reservation);
    let command = ConversationCommand { caller, if_match: None, reservation, request: empty(), people };
    let Decision::Keep { commit, reply } = play.conversation.judge(command, None, play.now) else { panic!("kept") };
    assert!(commit.rows.is_empty());
    assert_eq!(commit.answer.unwrap().body, Some(reply.body));
    assert!(matches!(keys.look(hash, [0; 16]), Looked::Fresh(..)), "the commit is gone: so is the reservation");
}

#[test]
fn a_stranger_finds_nothing() {
    let mut play = Play::new();
    play.caller.scope = Scope::of(1, Mode::Test);
    for request in [Request::Read, Request::Reopen, Request::Redact(play.messages[0].0)] {
        let Decision::Refuse(refusal) = play.decide(request, None) else { panic!("not refused") };
        assert_eq!(refusal, ConversationError::NotFound);
    }
}
