//! What other nodes have said of their connections, so that it can be taken back when they are gone.

use std::collections::{HashMap, HashSet};

use super::mailbox::Presence;
use super::node_signals::{Place, PresenceAt};
use colloquy_model::id::{NodeId, UserId};

/// How a report of another node changes who is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing that was not known.
    None,
    /// A user is there who was not.
    Came,
    /// A user who was there is there, in this state, by the newest word.
    Stayed,
    /// A user is there no more.
    Left,
}

/// Who is where by the words of other nodes.
#[derive(Debug, Default)]
pub(super) struct OtherNodes(HashMap<NodeId, HashMap<(Place, UserId), Presence>>);

impl OtherNodes {
    /// Takes in that a user is there, or not, at a node; gives what is new by that.
    pub(super) fn set(&mut self, node: NodeId, at: PresenceAt) -> Change {
        let of_node = self.0.entry(node).or_default();
        let whose = (at.place, at.user);
        match at.presence {
            Presence::Offline => match of_node.remove(&whose) {
                Some(_) => Change::Left,
                None => Change::None,
            },
            Presence::Online | Presence::Away => match of_node.insert(whose, at.presence) {
                Some(_) => Change::Stayed,
                None => Change::Came,
            },
        }
    }

    /// What has to be taken back of a node's words where only these hold: as reports that say
    /// `offline`.
    pub(super) fn all_but(&self, node: NodeId, standing: &[PresenceAt]) -> Vec<PresenceAt> {
        let named: HashSet<_> = standing.iter().map(|at| (at.place, at.user)).collect();
        let of_node = self.0.get(&node).into_iter().flatten();
        of_node
            .filter(|(whose, _)| !named.contains(whose))
            .map(|((place, user), _)| PresenceAt {
                place: *place,
                user: *user,
                presence: Presence::Offline,
            })
            .collect()
    }

    /// Removes a node that has no user present any more.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.0.remove(&node);
    }
}
