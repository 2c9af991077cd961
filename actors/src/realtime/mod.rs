//! What passes between open connections and is never stored: who is typing, who is there, and
//! tickets that open a connection once. It ends with the process, and nothing that was promised
//! rests on it.

mod hub;
mod mailbox;
mod signals;
mod tickets;

pub use hub::{Connection, Hub, TooManyPresences};
pub use mailbox::{PRESENCE_MAX, Presence, Signal};
pub use tickets::{Ticket, Tickets};
