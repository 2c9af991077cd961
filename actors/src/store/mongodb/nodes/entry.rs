//! How a node comes to a lease.

use std::collections::HashMap;

use super::documents::NodeDocument;
use super::lease::LEASE_MS;
use colloquy_model::id::NodeId;
use colloquy_model::position::Position;

/// How far a node without a lease is on its way to one: first all others have to know of it, so that
/// from then on they wait for it; then it takes in what was committed until then.
#[derive(Default)]
pub(super) struct Entry {
    /// When it said last that it is there.
    renewed_at_ms: Option<u64>,
    /// The others' beats when it began to wait for being seen.
    first_beats: HashMap<NodeId, i64>,
    /// Up to where the log has to be taken in; none before the others have seen this node.
    pub(super) end: Option<Position>,
}

impl Entry {
    /// Notes that the node has said that it is there. It begins anew where the others may have gone on
    /// without it since it said so last.
    pub(super) fn renewed(&mut self, sent_ms: u64) {
        let is_late = |at_ms: u64| sent_ms.saturating_sub(at_ms) > LEASE_MS;
        if self.renewed_at_ms.is_none_or(is_late) {
            *self = Entry::default();
        }
        self.renewed_at_ms = Some(sent_ms);
    }

    /// Whether all these others, which serve, have looked since this node said that it is there:
    /// twice, as one look may have begun before.
    pub(super) fn is_seen_by<'n>(
        &mut self,
        others: impl Iterator<Item = &'n NodeDocument>,
    ) -> bool {
        let mut is_seen = true;
        for node in others {
            let begun = *self.first_beats.entry(node.id).or_insert(node.beat);
            is_seen &= node.beat >= begun + 2;
        }
        is_seen
    }
}
