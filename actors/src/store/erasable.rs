//! Conversations and records as whoever erases them sees them: also those that can't be read, which go
//! like all others.

use super::StoredConversation;
use colloquy_model::caller::Tenant;
use colloquy_model::conversation::{Channel, ConversationState, MessageCounts, Priority, Status};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{ConversationId, CustomerId, UserId};
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// Which conversations may have to be erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erasing {
    /// All of a customer.
    OfCustomer(CustomerId),
    /// Those that are closed.
    Closed,
}

/// A list of conversations that may have to be erased, by number.
#[derive(Debug, Clone, Copy)]
pub struct ErasableQuery {
    /// The account and mode that they belong to.
    pub tenant: Tenant,
    /// Which of them.
    pub erasing: Erasing,
    /// Only those behind this number.
    pub behind: EntityNumber,
    /// How many at most.
    pub limit: u32,
}

/// A conversation of which no more is read than is needed to erase it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasableConversation {
    /// The identifier of the conversation.
    pub id: ConversationId,
    /// How many messages it has.
    pub messages: u64,
    /// Since when it is closed.
    pub closed_at: Option<Timestamp>,
}

/// A record of which no more is read than is needed to erase it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasableRecord {
    /// The account and mode that it belongs to.
    pub tenant: Tenant,
    /// The sequence of its last change.
    pub sequence: Sequence,
}

/// What is read of a conversation that is to be erased: of its header what stands for something, and
/// of its last row what that needs.
#[derive(Debug)]
pub(super) struct Remains {
    pub(super) tenant: Tenant,
    pub(super) customer: CustomerId,
    pub(super) status: Option<Status>,
    pub(super) channel: Option<Channel>,
    pub(super) priority: Option<Priority>,
    pub(super) assignee: Option<UserId>,
    pub(super) closed_at: Option<Timestamp>,
    pub(super) sequence: Sequence,
    pub(super) updated_at: Timestamp,
    pub(super) counts: MessageCounts,
}

impl From<Remains> for StoredConversation {
    /// What is not known is what it most likely was: a total that counted it otherwise is found by a
    /// check, as the damage was.
    fn from(remains: Remains) -> Self {
        let likely = match remains.closed_at {
            Some(_) => Status::Closed,
            None => Status::Active,
        };
        let state = ConversationState {
            customer: remains.customer,
            status: remains.status.unwrap_or(likely),
            channel: remains.channel.unwrap_or(Channel::Chat),
            priority: remains.priority.unwrap_or(Priority::Normal),
            assignee: remains.assignee,
            metadata: "{}".into(),
            closed_at: remains.closed_at,
            snoozed_until: None,
            activated_at: remains.updated_at,
        };
        StoredConversation {
            tenant: remains.tenant,
            state,
            customer_name: "".into(),
            customer_revision: Sequence::ZERO,
            sequence: remains.sequence,
            updated_at: remains.updated_at,
            counts: remains.counts,
        }
    }
}
