//! A conversation without actor, clock and store: each request is decided and noted by hand.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};

use crate::accounts::Identity;
use crate::conversation::actor::ConversationCommand;
use crate::conversation::context::{DecisionContext, NewIds};
use crate::conversation::messages::{
    ChangeConversation, CreateConversation, CustomerShown, ReadConversation, StartConversation,
};
use crate::conversation::rules::ConversationRequest;
use crate::conversation::state::{Conversation, Live};
use crate::customer_names::CustomerName;
use crate::store::StoredMessage;
use colloquy_model::answer::Precondition;
use colloquy_model::bounds::Bounds;
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::commit::{Commit, Condition, NewRow};
use colloquy_model::conversation::{MessageView, SenderType};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ConversationId, CustomerId, MessageId, UserId};
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::Decision;

/// A conversation with the rows that its commits wrote.
pub(super) struct Play {
    pub(super) conversation: Conversation,
    pub(super) caller: Caller,
    pub(super) users_known: Arc<Identity>,
    pub(super) users: [UserId; 2],
    pub(super) now: Timestamp,
    /// By sequence.
    pub(super) rows: Vec<(EventKind, Bytes, i64)>,
    /// Of each message: the sequences of its texts.
    pub(super) messages: Vec<(MessageId, Vec<u64>)>,
    senders: HashMap<SenderType, u64>,
    pub(super) texts: usize,
    /// The last message, reopening or waking.
    pub(super) active_at: Timestamp,
}

impl Play {
    pub(super) fn new() -> Self {
        let users_known = Arc::new(Identity::default());
        let tenant = Tenant::of(1, Mode::Live);
        let users = [UserId::new(Timestamp(1)), UserId::new(Timestamp(1))];
        for user in users {
            users_known.put_user(tenant, user, colloquy_model::user::KnownUser::unreadable());
        }
        let id = ConversationId::new(Timestamp(1_000_000));
        // Other tests may have made later identifiers.
        let begun = id.created_at();
        let mut play = Play {
            conversation: Conversation { id, live: None },
            caller: Caller {
                tenant,
                actor: Actor::server("a test"),
            },
            users_known,
            users,
            now: begun,
            rows: Vec::new(),
            messages: Vec::new(),
            senders: HashMap::new(),
            texts: 0,
            active_at: begun,
        };
        let new = json!({"customer_id": CustomerId::new(Timestamp(1)), "initial_message": "first", "metadata": {"a": 1}});
        let new: CreateConversation = serde_json::from_value(new).unwrap();
        let customer = CustomerShown {
            id: new.customer_id,
            name: Arc::new(CustomerName::new("Ada", Sequence(1))),
        };
        let Decision::Change {
            change,
            commit,
            pipelined,
            ..
        } = play.decide(StartConversation { new, customer }, None)
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

    /// The instant that comes so many milliseconds after now.
    pub(super) fn after(&self, ms: i64) -> Timestamp {
        Timestamp(self.now.0 + ms)
    }

    pub(super) fn live(&self) -> &Live {
        self.conversation.live.as_ref().unwrap()
    }

    pub(super) fn decide<R: ConversationRequest>(
        &self,
        request: R,
        if_match: Option<Precondition>,
    ) -> Decision<Conversation, R::Reply> {
        let meta = CommandMeta {
            if_match,
            ..CommandMeta::new(self.caller.clone())
        };
        self.decide_with(meta, request)
    }

    pub(super) fn decide_with<R: ConversationRequest>(
        &self,
        meta: CommandMeta,
        request: R,
    ) -> Decision<Conversation, R::Reply> {
        self.decide_with_ids(meta, request, NewIds::RANDOM)
    }

    pub(super) fn decide_with_ids<R: ConversationRequest>(
        &self,
        meta: CommandMeta,
        request: R,
        ids: NewIds,
    ) -> Decision<Conversation, R::Reply> {
        let found = request.message().and_then(|id| self.found(id));
        let command = ConversationCommand {
            attachment: None,
            meta,
            request,
            users: Arc::clone(&self.users_known),
        };
        let context = DecisionContext {
            now: self.now,
            ids,
            bounds: Bounds::get(),
        };
        command.decide_at(&self.conversation, found, context)
    }

    pub(super) fn found(&self, id: MessageId) -> Option<StoredMessage> {
        let (_, texts) = self.messages.iter().find(|(held, _)| *held == id)?;
        let (sequence, latest) = (*texts.first()?, *texts.last()?);
        let (_, payload, _) = &self.rows[usize::try_from(latest).unwrap() - 1];
        let now = serde_json::from_slice(payload).unwrap();
        let edits = u64::try_from(texts.len()).unwrap() - 1;
        Some(StoredMessage {
            tenant: self.caller.tenant,
            sequence: Sequence(sequence),
            latest: Sequence(latest),
            edits,
            now,
        })
    }

    pub(super) fn shown(&self) -> Value {
        let Decision::Answer(answer) = self.decide(ReadConversation, None) else {
            panic!("a read answers")
        };
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// What the rules make of a request that changes something: its events with their data.
    pub(super) fn events<R: ConversationRequest>(&mut self, request: R) -> Vec<(EventKind, Value)> {
        let Decision::Change { change, commit, .. } = self.decide(request, None) else {
            panic!("nothing changes")
        };
        self.take_rows(&commit).unwrap();
        self.conversation.take(change);
        commit
            .rows
            .iter()
            .map(|row| (row.kind, serde_json::from_slice(&row.payload).unwrap()))
            .collect()
    }

    /// Whether the rules answer a request without a change.
    pub(super) fn changes_nothing<R: ConversationRequest>(&self, request: R) -> bool {
        matches!(self.decide(request, None), Decision::Answer(_))
    }

    /// Notes a commit's rows; each carries the counts up to it.
    pub(super) fn take_rows(&mut self, commit: &Commit) -> Result<(), TestCaseError> {
        prop_assert_eq!(commit.expected, Sequence::ZERO.plus(self.rows.len()));
        prop_assert!(!commit.rows.is_empty(), "no change without event");
        for row in &commit.rows {
            let sequence = Sequence::ZERO.plus(self.rows.len() + 1);
            if matches!(
                row.kind,
                EventKind::MessageCreated | EventKind::MessageUpdated
            ) {
                self.take_message(row, sequence)?;
            }
            self.rows.push((row.kind, row.payload.clone(), commit.at.0));
            let count = |sender| self.senders.get(&sender).copied().unwrap_or(0);
            let counts = (
                count(SenderType::Customer),
                count(SenderType::Agent),
                count(SenderType::System),
            );
            prop_assert_eq!(
                (row.counts.customer, row.counts.agent, row.counts.system),
                counts
            );
        }
        if let Some(original) = commit.redacts {
            let message = self
                .messages
                .iter()
                .find(|(_, texts)| texts.first() == Some(&original.0));
            let now = self.found(message.unwrap().0).unwrap().now;
            prop_assert!(now.redacted && now.content.is_empty() && now.metadata.is_empty());
        }
        Ok(())
    }

    fn take_message(&mut self, row: &NewRow, sequence: Sequence) -> Result<(), TestCaseError> {
        let message: MessageView = serde_json::from_slice(&row.payload).unwrap();
        if row.kind == EventKind::MessageUpdated {
            let (_, texts) = self
                .messages
                .iter_mut()
                .find(|(id, _)| *id == message.message_id)
                .unwrap();
            prop_assert_eq!(row.edits, texts.first().copied().map(Sequence));
            texts.push(sequence.0);
            return Ok(());
        }
        self.messages.push((message.message_id, vec![sequence.0]));
        *self.senders.entry(message.sender_type).or_insert(0) += 1;
        prop_assert_eq!(
            message.seq,
            u64::try_from(self.messages.len()).unwrap(),
            "no gap and no repeat"
        );
        prop_assert_eq!(message.message_id.sequence(), sequence);
        prop_assert_eq!(row.counts.last_message_at, Some(message.sent_at));
        prop_assert!(
            self.rows
                .last()
                .is_none_or(|(_, _, at)| message.sent_at.0 >= *at),
            "sent_at runs backwards"
        );
        Ok(())
    }
}

/// A change of the conversation, as its body says it.
pub(super) fn change(change: Value) -> ChangeConversation {
    serde_json::from_value(change).unwrap()
}
