//! An endpoint as deliveries see it: where to, what it wants, what it is signed with.

use std::fmt;

use crate::caller::Tenant;
use crate::conversation::{Channel, Priority};
use crate::entity_number::EntityNumber;
use crate::event::Event;
use crate::event_kind::EventKind;
use crate::id::WebhookId;
use crate::time::Timestamp;

/// An endpoint, as of one of its changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The identifier of the webhook endpoint.
    pub id: WebhookId,
    /// Whose it is; it gets events of this account and mode only.
    pub tenant: Tenant,
    /// Where deliveries go.
    pub url: String,
    /// Which events are delivered to it.
    pub wants: Wants,
    /// Whether it gets any events; one that is disabled keeps its settings.
    pub enabled: bool,
    /// What signs, newest first.
    pub secrets: Vec<SigningSecret>,
}

/// A secret that signs deliveries.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningSecret {
    /// Its whole text, `whsec_` included.
    pub text: String,
    /// The instant at which it ends; none while it is the newest.
    pub ends_at: Option<Timestamp>,
}

impl SigningSecret {
    /// Whether it signs at this instant.
    #[must_use]
    pub fn signs_at(&self, now: Timestamp) -> bool {
        self.ends_at.is_none_or(|ends_at| now < ends_at)
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningSecret")
            .field("ends_at", &self.ends_at)
            .finish_non_exhaustive()
    }
}

/// Which events an endpoint wants: of one of the kinds, and with one of the values of each property
/// that is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// Of these kinds; empty: all.
    pub kinds: Vec<EventKind>,
    /// Of these channels; empty: whatever the channel, or without one.
    pub channels: Vec<Channel>,
    /// Of these priorities; empty: whatever the priority, or without one.
    pub priorities: Vec<Priority>,
    /// Of the documents with these numbers; empty: whatever the entity.
    pub documents: Vec<EntityNumber>,
}

impl Wants {
    /// Whether this event is wanted. One without a property that is named is not.
    #[must_use]
    pub fn admits(&self, event: &Event) -> bool {
        let one = |named: bool, found: bool| !named || found;
        one(!self.kinds.is_empty(), self.kinds.contains(&event.kind))
            && one(
                !self.channels.is_empty(),
                event
                    .channel
                    .is_some_and(|channel| self.channels.contains(&channel)),
            )
            && one(
                !self.priorities.is_empty(),
                event
                    .priority
                    .is_some_and(|priority| self.priorities.contains(&priority)),
            )
            && one(
                !self.documents.is_empty(),
                event.channel.is_none() && self.documents.contains(&event.entity),
            )
    }
}
