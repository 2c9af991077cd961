//! The runtime over actix: entities that survive panics, bounded mailboxes, commits that nobody
//! waits for in a handler. The only importer of `actix::` in this crate; knows no entity and no
//! store.
//!
//! What it promises:
//!
//! - An entity has one actor here, which takes one command at a time, in the order in which they
//!   were enqueued.
//! - An answer leaves when everything that it rests on is durable. A commit that fails takes the
//!   later ones of its incarnation with it, and nothing else; then the entity is loaded again.
//! - A panic fails the command that caused it. Those behind it meet the reloaded state, through the
//!   same address.
//! - An entity holds at most so many commands; the next one is refused at the door, with nothing
//!   done. A place is held by the work, not by the asker.
//! - `Unavailable` means that nothing was done.

mod ask;
mod directory;
mod entity;
mod entity_actor;
mod flight;
mod guarded;
mod journal;
mod loads;
mod metrics;
mod overview;
mod placement;
mod policy;
mod room;
pub mod shard;
mod slot;
mod solo;
mod sweeper;
#[cfg(test)]
mod tests;

pub use ask::{AskError, Cause};
pub use directory::Directory;
pub use entity::{Decision, Entity};
pub use journal::{BoxFuture, CommitFailure, Incarnation, Journal, LoadError, Settle};
pub use metrics::{Failure, Passivation, Restart};
pub use overview::{Inspection, Life, Overview, Percentiles};
pub use placement::Placement;
pub use policy::Policy;
pub use solo::{Alone, Solo, Turn};
