//! Which events somebody wants.

use crate::conversation::Channel;
use crate::event::Event;
use crate::event_kind::EventKind;
use crate::id::UserId;

/// Every part that is given must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// One of these kinds; empty: any.
    pub kinds: Vec<EventKind>,
    /// In a conversation of this channel, as of the event.
    pub channel: Option<Channel>,
    /// In a conversation of this assignee, as of the event.
    pub assignee: Option<UserId>,
}

impl EventFilter {
    /// Whether everything passes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.channel.is_none() && self.assignee.is_none()
    }

    /// Whether this event passes every part of the filter that is set.
    #[must_use]
    pub fn admits(&self, event: &Event) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&event.kind))
            && self
                .channel
                .is_none_or(|channel| event.channel == Some(channel))
            && self
                .assignee
                .is_none_or(|user| event.assignee == Some(user.number()))
    }
}
