//! The state of a conversation in memory, and how it is shown. Pure: no actor, no clock, no store.

use std::sync::{Arc, LazyLock};

use serde_json::value::RawValue;

use super::messages::{ConversationView, EmbeddedCustomer};
use crate::accounts::Identity;
use crate::customer_names::CustomerName;
use colloquy_model::answer::{Answer, Done};
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{ConversationState, MessageCounts};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::id::{ConversationId, UserId};
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// A conversation, or the place of one that is not there.
#[derive(Debug)]
pub struct Conversation {
    pub(super) id: ConversationId,
    pub(super) live: Option<Live>,
}

/// A conversation that is there.
#[derive(Debug, Clone)]
pub struct Live {
    pub(super) id: ConversationId,
    pub(super) tenant: Tenant,
    pub(super) state: ConversationState,
    pub(super) customer: Arc<CustomerName>,
    pub(super) sequence: Sequence,
    pub(super) updated_at: Timestamp,
    pub(super) counts: MessageCounts,
}

/// What a decision makes of the conversation; none: it is gone.
#[derive(Debug)]
pub struct Changed(pub(super) Option<Box<Live>>);

impl Conversation {
    /// The entity as the store names it.
    #[must_use]
    pub fn subject(id: ConversationId) -> Subject {
        Subject {
            kind: Kind::Conversation,
            number: id.number(),
            tail: id.tail(),
        }
    }

    /// Becomes what a decision made of it.
    pub(super) fn take(&mut self, changed: Changed) {
        self.live = changed.0.map(|live| *live);
    }
}

impl Live {
    /// The answer that shows the conversation as it is.
    pub(super) fn answer(&self, users: &Identity, done: Done) -> Answer {
        let assignee = self
            .state
            .assignee
            .filter(|user| self.is_user(users, *user));
        Answer {
            done,
            id: (done == Done::Created).then(|| self.id.to_string()),
            etag: Some(self.etag(users)),
            body: colloquy_model::json::bytes(&self.view(assignee, &self.customer.now().name)),
            replayed: false,
        }
    }

    /// The conversation as the interface shows it, with this assignee and customer's name.
    pub(super) fn view<'a>(
        &'a self,
        assignee: Option<UserId>,
        name: &'a str,
    ) -> ConversationView<'a> {
        ConversationView {
            conversation_id: self.id,
            customer_id: self.state.customer,
            customer: EmbeddedCustomer {
                id: self.state.customer,
                name,
            },
            status: self.state.status,
            channel: self.state.channel,
            priority: self.state.priority,
            assignee_id: assignee,
            metadata: stored_json(&self.state.metadata),
            message_count: self.counts.total(),
            last_message_at: self.counts.last_message_at,
            snoozed_until: self.state.snoozed_until,
            created_at: self.id.created_at(),
            updated_at: self.updated_at,
            closed_at: self.state.closed_at,
        }
    }

    /// The entity tag, which changes with every event of the conversation, with the customer's
    /// name, and when its assignee is no more.
    pub(super) fn etag(&self, users: &Identity) -> String {
        let assignee = self.state.assignee;
        let is_gone = assignee.is_some_and(|user| !self.is_user(users, user));
        let gone = if is_gone { "-0" } else { "" };
        format!("{}-{:08x}{gone}", self.sequence, self.customer.now().tag)
    }

    fn is_user(&self, users: &Identity, user: UserId) -> bool {
        users.user(self.tenant, user).is_some()
    }

    /// Bytes that it holds in memory beside itself.
    pub(super) fn bytes(&self) -> usize {
        self.state.metadata.len()
    }
}

/// What most conversations have for metadata: not worth to be parsed each time that it is shown.
static EMPTY: LazyLock<Box<RawValue>> = LazyLock::new(|| {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
});

/// JSON as it is stored, to be shown as it stands.
pub(super) fn stored_json(json: &str) -> &RawValue {
    if json == "{}" {
        return &EMPTY;
    }
    serde_json::from_str(json).unwrap_or(RawValue::NULL)
}
