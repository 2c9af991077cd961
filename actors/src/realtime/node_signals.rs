//! Signals as nodes pass them on to one another: who types at one, and who is there.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::mailbox::Presence;
use colloquy_model::caller::Tenant;
use colloquy_model::id::{ConversationId, NodeId, UserId};

/// What one node tells the others of the signals of its own connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeSignals {
    /// What has changed since it told them last.
    Changed {
        /// Users whose presence at this node has changed, each with the new one.
        presence: Vec<PresenceAt>,
        /// Users who have typed since the last message.
        typing: Vec<TypingAt>,
    },
    /// Who is there; whoever is not named is not.
    All {
        /// Whose presence is not `offline`.
        presence: Vec<PresenceAt>,
    },
    /// It wants to be told by this node who is there.
    Wanted {
        /// The node that is to tell it.
        of: NodeId,
    },
}

/// How far a user is there, by all connections of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PresenceAt {
    /// The conversation, and the account and mode that it belongs to.
    #[serde(flatten)]
    pub(super) place: Place,
    /// The user whose presence this is.
    pub(super) user: UserId,
    /// How far that user is there.
    pub(super) presence: Presence,
}

/// Who types at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypingAt {
    /// The conversation, and the account and mode that it belongs to.
    #[serde(flatten)]
    pub(super) place: Place,
    /// The user; none where it is a connection without one.
    pub(super) user: Option<UserId>,
}

/// A conversation, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Place {
    #[serde(serialize_with = "write_tenant", deserialize_with = "read_tenant")]
    pub(super) tenant: Tenant,
    pub(super) conversation: ConversationId,
}

fn write_tenant<S: Serializer>(tenant: &Tenant, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(tenant.number())
}

fn read_tenant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tenant, D::Error> {
    i64::deserialize(deserializer).map(Tenant::from_number)
}
