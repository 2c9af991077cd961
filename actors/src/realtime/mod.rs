//! What passes between open lines and is never stored: who is typing, who is there, and tickets that open a line once.
//! It ends with the process, and nothing that was promised rests on it.

mod hub;
mod mailbox;
mod tickets;

pub use hub::{Hub, Member};
pub use mailbox::{Presence, Sign};
pub use tickets::{Ticket, Tickets};
