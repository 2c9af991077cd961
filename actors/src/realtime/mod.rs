//! What passes between open connections and is never stored: who is typing, who is there, and
//! tickets that open a connection once. It ends with the process, and nothing that was promised
//! rests on it. What other nodes' connections say is passed on like that of this node's.

mod hub;
mod mailbox;
mod node_signals;
mod other_nodes;
mod signals;
mod tickets;
mod wakes;

pub use crate::store::Ticket;
pub use hub::{Connection, Hub, TooManyPresences};
pub use mailbox::{PRESENCE_MAX, Presence, Signal};
pub use node_signals::{NodeSignals, PresenceAt, TypingAt};
pub use signals::TellNodes;
pub use tickets::Tickets;
