//! How a conversation goes for good: by one commit in its own order, behind which it takes nothing
//! any more. Its texts and attachments are erased behind, by what the commit leaves to be done.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::messages::ConversationError;
use super::state::{Changed, Conversation};
use crate::store::Store;
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::commit::{Chore, Commit, ErasedConversation, Header, NewRow};
use colloquy_model::conversation::{
    Channel, ConversationState, MessageCounts, Priority, Seen, Status,
};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{ConversationId, CustomerId, UserId};
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use colloquy_runtime::{AskError, BoxFuture, Command, Decision, LoadError, Lookup};

/// Whoever erases the files of a conversation that is about to go.
pub trait FileEraser: fmt::Debug + Send + Sync {
    /// Erases them, if that takes no longer than a conversation may be held up: what is left is erased
    /// behind the conversation.
    fn erase_files(self: Arc<Self>, tenant: Tenant, conversation: EntityNumber) -> BoxFuture<()>;
}

/// Takes a conversation away for good; asked by the server itself. One that is not there is refused,
/// so it may be asked again.
#[derive(Debug, Clone)]
pub struct EraseConversation {
    /// In whose name, and of which tenant the conversation must be.
    pub caller: Caller,
    /// The number of its customer's erasure; zero where there is none.
    pub erasure: EntityNumber,
    /// Only if it is closed, and has been since before this instant.
    pub closed_before: Option<Timestamp>,
    /// Who erases its files before it goes, where that was not done before. The conversation takes
    /// nothing else meanwhile: one that is reopened has all of its files.
    pub files: Option<Arc<dyn FileEraser>>,
}

/// How many bytes a conversation adds to the texts of its account, once its files have gone.
#[derive(Debug)]
pub struct ErasingLookup {
    tenant: Tenant,
    conversation: EntityNumber,
    files: Option<Arc<dyn FileEraser>>,
}

impl Lookup<Conversation> for ErasingLookup {
    type Found = i64;

    fn find(self, store: Arc<dyn Store>) -> BoxFuture<Result<i64, LoadError>> {
        Box::pin(async move {
            if let Some(files) = self.files {
                files.erase_files(self.tenant, self.conversation).await;
            }
            Ok(store.text_bytes_of(self.conversation).await?)
        })
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
        let goes = live.tenant == self.caller.tenant && self.is_due(&live.state);
        goes.then(|| ErasingLookup {
            tenant: live.tenant,
            conversation: live.id.number(),
            files: self.files.clone(),
        })
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
        if !self.is_due(&live.state) {
            return Decision::Answer(());
        }
        let known = Known {
            id: live.id,
            state: &live.state,
            sequence: live.sequence,
            updated_at: live.updated_at,
            counts: live.counts,
        };
        Decision::Change {
            change: Changed(None),
            commit: self.commit(known, text_bytes.unwrap_or(0), now),
            reply: (),
            // Nothing may be decided on top of it: a conversation that is gone does not know where
            // its log ends.
            pipelined: false,
        }
    }
}

/// Takes a conversation away that no actor can begin with, because what is stored of it can't be read:
/// its header and its rows go all the same, by the same commit.
///
/// # Errors
/// The store is away, or the conversation has changed meanwhile: nothing was done. Or the commit's
/// outcome is not known.
pub(crate) async fn erase_unreadable(
    store: &dyn Store,
    id: ConversationId,
    erase: EraseConversation,
) -> Result<(), AskError<ConversationError>> {
    let subject = Conversation::subject(id);
    let found = store.load_to_erase(subject).await;
    let found = found.map_err(LoadError::from)?;
    let Some(found) = found.filter(|found| found.tenant == erase.caller.tenant) else {
        return Err(AskError::Refused(ConversationError::NotFound));
    };
    if !erase.is_due(&found.state) {
        return Ok(());
    }
    if let Some(files) = erase.files.clone() {
        files.erase_files(found.tenant, id.number()).await;
    }
    let text_bytes = store.text_bytes_of(id.number()).await;
    let text_bytes = text_bytes.map_err(LoadError::from)?;
    let known = Known {
        id,
        state: &found.state,
        sequence: found.sequence,
        updated_at: found.updated_at,
        counts: found.counts,
    };
    let commit = erase.commit(known, text_bytes, Timestamp::now());
    store.commit_end(commit, ConversationError::NotFound).await
}

/// What a conversation's erasing has to know of it.
struct Known<'c> {
    id: ConversationId,
    state: &'c ConversationState,
    sequence: Sequence,
    updated_at: Timestamp,
    counts: MessageCounts,
}

impl EraseConversation {
    /// Whether a conversation in this state goes.
    fn is_due(&self, state: &ConversationState) -> bool {
        let is_old = |before: Timestamp| state.closed_at.is_some_and(|at| at < before);
        self.closed_before.is_none_or(is_old)
    }

    fn commit(self, known: Known<'_>, text_bytes: i64, now: Timestamp) -> Commit {
        // Times never run backwards along the sequence, whatever the clock does.
        let at = now.max(known.updated_at);
        let state = known.state;
        let data = colloquy_model::json::bytes(&ErasedData {
            conversation_id: known.id,
            customer_id: state.customer,
            status: state.status,
            channel: state.channel,
            priority: state.priority,
            assignee_id: state.assignee,
            message_count: known.counts.total(),
            last_message_at: known.counts.last_message_at,
            created_at: known.id.created_at(),
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
            counts: known.counts,
            seen: Some(seen),
            text_bytes: text_bytes.saturating_neg(),
            ..NewRow::new(EventKind::ConversationErased, data)
        };
        let before = Box::new(ConversationState {
            metadata: "{}".into(),
            ..state.clone()
        });
        let erased = ErasedConversation {
            conversation: known.id.number(),
            erasure: self.erasure,
        };
        let tenant = self.caller.tenant;
        Commit {
            rows: vec![row],
            header: Header::ConversationGone { before },
            chore: Some(Chore::FinishConversation(tenant, erased)),
            ..Commit::new(
                Conversation::subject(known.id),
                known.sequence,
                self.caller,
                at,
            )
        }
    }
}
