//! What passes between open lines and is never stored: who is typing, who is there, and tickets
//! that open a line once. It ends with the process, and nothing that was promised rests on it.

mod hub;
mod mailbox;
mod signs;
mod tickets;

pub use hub::{Hub, Member, TooManyPresences};
pub use mailbox::{PRESENCE_MAX, Presence, Sign};
pub use tickets::{Ticket, Tickets};
