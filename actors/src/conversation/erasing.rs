//! How a conversation goes for good: by one commit in its own order, behind which it takes nothing
//! any more. Its texts and attachments are erased behind, by what the commit leaves to be done.

use std::sync::Arc;

use serde::Serialize;

use super::messages::ConversationError;
use super::state::{Changed, Conversation, Live};
use crate::store::Store;
use colloquy_model::caller::Caller;
use colloquy_model::commit::{Chore, Commit, ErasedConversation, Header, NewRow};
use colloquy_model::conversation::{Channel, ConversationState, Priority, Seen, Status};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ConversationId, CustomerId, UserId};
use colloquy_model::time::Timestamp;
use colloquy_runtime::{BoxFuture, Command, Decision, LoadError, Lookup};

/// Takes a conversation away for good; asked by the server itself. One that is not there is refused,
/// so it may be asked again.
#[derive(Debug)]
pub struct EraseConversation {
    /// In whose name, and of which tenant the conversation must be.
    pub caller: Caller,
    /// The number of its customer's erasure; zero where there is none.
    pub erasure: EntityNumber,
    /// Only if it is closed, and has been since before this instant.
    pub closed_before: Option<Timestamp>,
}

/// How many bytes a conversation adds to the texts of its account.
#[derive(Debug)]
pub struct ErasingLookup(ConversationId);

impl Lookup<Conversation> for ErasingLookup {
    type Found = i64;

    fn find(self, store: Arc<dyn Store>) -> BoxFuture<Result<i64, LoadError>> {
        let finding = store.text_bytes_of(self.0.number());
        Box::pin(async move { Ok(finding.await?) })
    }
}

/// What the event of an erased conversation says: no word of anybody's.
#[derive(Serialize)]
struct ErasedData {
    conversation_id: ConversationId,
    customer_id: CustomerId,
    status: Status,
    channel: Channel,
    priority: Priority,
    assignee_id: Option<UserId>,
    message_count: u64,
    last_message_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    closed_at: Option<Timestamp>,
}

impl Command<Conversation> for EraseConversation {
    type Reply = ();
    type Lookup = ErasingLookup;

    fn lookup(&self, conversation: &Conversation) -> Option<ErasingLookup> {
        let live = conversation.live.as_ref()?;
        (live.tenant == self.caller.tenant).then_some(ErasingLookup(live.id))
    }

    fn decide(
        self,
        conversation: &Conversation,
        text_bytes: Option<i64>,
        now: Timestamp,
    ) -> Decision<Conversation, ()> {
        let own = conversation.live.as_ref();
        let Some(live) = own.filter(|live| live.tenant == self.caller.tenant) else {
            return Decision::Refuse(ConversationError::NotFound);
        };
        let is_due = |before: Timestamp| live.state.closed_at.is_some_and(|at| at < before);
        if self.closed_before.is_some_and(|before| !is_due(before)) {
            return Decision::Answer(());
        }
        Decision::Change {
            change: Changed(None),
            commit: self.commit(live, text_bytes.unwrap_or(0), now),
            reply: (),
            // Nothing may be decided on top of it: a conversation that is gone does not know where
            // its log ends.
            pipelined: false,
        }
    }
}

impl EraseConversation {
    fn commit(self, live: &Live, text_bytes: i64, now: Timestamp) -> Commit {
        // Times never run backwards along the sequence, whatever the clock does.
        let at = now.max(live.updated_at);
        let state = &live.state;
        let data = colloquy_model::json::bytes(&ErasedData {
            conversation_id: live.id,
            customer_id: state.customer,
            status: state.status,
            channel: state.channel,
            priority: state.priority,
            assignee_id: state.assignee,
            message_count: live.counts.total(),
            last_message_at: live.counts.last_message_at,
            created_at: live.id.created_at(),
            updated_at: at,
            closed_at: state.closed_at,
        });
        let seen = Seen {
            channel: state.channel,
            priority: state.priority,
            assignee: state.assignee,
            sender: None,
        };
        let row = NewRow {
            counts: live.counts,
            seen: Some(seen),
            text_bytes: text_bytes.saturating_neg(),
            ..NewRow::new(EventKind::ConversationErased, data)
        };
        let before = Box::new(ConversationState {
            metadata: "{}".into(),
            ..state.clone()
        });
        let erased = ErasedConversation {
            conversation: live.id.number(),
            erasure: self.erasure,
        };
        let tenant = self.caller.tenant;
        Commit {
            rows: vec![row],
            header: Header::ConversationGone { before },
            chore: Some(Chore::FinishConversation(tenant, erased)),
            ..Commit::new(
                Conversation::subject(live.id),
                live.sequence,
                self.caller,
                at,
            )
        }
    }
}
