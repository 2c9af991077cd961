//! What happened, by position: events as they were committed, read from the store up to where a
//! reader came in and taken from the writer's hand from there on. Nothing in here makes an event; a
//! row of a commit is one.
//!
//! A reader stands at an offset: in one conversation an event's `seq`, in an account and mode an
//! event's number there, which clients see as an opaque text ([`Cursor`]). Whoever goes on from an
//! offset misses nothing and sees nothing twice, across restarts.

mod cursor;
mod events;
mod hub;
mod inbox;
mod queue;
mod read_ahead;
mod reader;

pub use cursor::Cursor;
pub use events::{EventList, EventListing, Events};
pub(crate) use hub::Batch;
pub use hub::{Ended, Feed, Interest, Item, Renamed, Subscription};
pub use reader::{EventReader, Falling, Followed, ReadEnd};
