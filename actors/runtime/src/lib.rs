//! The runtime over actix: entities that survive panics, bounded mailboxes, commits that no handler
//! waits for, and threads that are watched. It is the only importer of `actix::` below the edge.
//!
//! # What an entity is
//!
//! An [`Entity`] is a pure state machine that owns one thing, such as one conversation. A
//! [`Command`] *decides* over its state without changing anything, and its type says what is
//! replied; the entity *applies* the change that was decided. A [`Directory`] holds all entities of
//! one kind. It loads an entity from its [`Journal`] when the first command comes, runs it in an
//! actor of its own, submits what was decided, and sends the reply.
//!
//! # What is promised
//!
//! - **Order.** An entity takes one command at a time, in the order in which they were enqueued.
//!   Its commits are judged in the same order.
//! - **Durable before answered.** An answer is sent when everything that it rests on is durable,
//!   reads and refusals included. The actor goes on meanwhile. A commit that fails takes the later
//!   ones of its [`Incarnation`] with it, and nothing else; then the entity is loaded again.
//! - **Crash.** A panic fails the command that caused it ([`AskError::Crashed`]) and costs the
//!   state in memory. What was queued behind it is done on the reloaded state, through the same
//!   address. Other entities and the thread are not affected.
//! - **Backoff.** The first crash within the [`Policy`]'s window restarts the entity at once, each
//!   further one after a delay that doubles. New commands are refused meanwhile, queued ones wait.
//!   An operator may end it; a change of the policy holds for one that runs, from its beginning.
//! - **Quarantine.** Too many crashes within the window close the entity for a while. The first
//!   command after that is a trial: one more crash within the window closes it again. It ends and
//!   changes as a backoff does, and the entity stays in the directory all the while.
//! - **Mailbox.** An entity holds a bounded number of commands, queued and under way. The next one
//!   is refused with nothing done. A permit is held by the command, not by its caller: it returns
//!   when the command is answered, also when the caller has left.
//! - **Passivation.** An entity that is idle, vacant, or the least recently used one beyond the
//!   policy's limits leaves the directory when it holds no command. Nothing acknowledged is lost by
//!   that, and the next command loads it again.
//! - **Outcome.** [`AskError::Unavailable`] means that nothing was done. [`AskError::Crashed`],
//!   [`AskError::TimedOut`] and [`AskError::Unknown`] mean that the outcome is not known.
//! - **Threads.** When a thread ends, its entities start again on another one with the next
//!   command; what was queued on it was not done, and is answered so.
//!
//! # What else is here
//!
//! - [`shard`]: state that survives a panic and is lost with its thread, cut into shards on the HTTP
//!   workers' threads.
//! - [`ThreadActor`]: an actor on a thread of its own. [`threads`]: how every thread is started and
//!   what follows its panic. [`alarm`]: what wakes one at a time.
//! - [`fair_queue`]: a bounded queue in which accounts take turns; [`fair_semaphore`]: permits that
//!   are shared the same way.
//! - [`file_lock`]: keeps other processes from a file.
//! - [`offload`]: where computing goes that would hold up a thread with entities; [`cores`]: on
//!   which cores.
//!
//! # What is absent
//!
//! No entity, no store and no HTTP. No timer per entity. No supervision tree: every entity is
//! supervised by its directory alone. No messages between entities: they meet in the store.

mod actor_figures;
pub mod alarm;
mod ask_error;
mod command;
pub mod cores;
mod directory;
mod entity;
mod entity_actor;
mod entity_handle;
pub mod fair_queue;
pub mod fair_semaphore;
pub mod file_lock;
mod journal;
mod kept_history;
mod metrics;
pub mod offload;
mod overview;
mod pending_commit;
mod percentiles;
mod placement;
mod policy;
pub mod private_file;
mod registry;
mod request;
mod resizable_semaphore;
pub mod shard;
mod supervised_actor;
mod supervised_kind;
mod sweeper;
mod thread_actor;
pub mod threads;
pub mod traces;

#[cfg(test)]
mod tests;

pub use ask_error::{AskError, Cause};
pub use command::{Command, Decision, Lookup, NoLookup};
pub use directory::{Directory, StillBusy};
pub use entity::Entity;
pub use journal::{BoxFuture, CommitFailure, Incarnation, Journal, LoadError, Settle};
pub use metrics::{Failure, Histogram, Passivation, Restart};
pub use overview::{
    ActorState, Inspection, Instance, InstanceOrder, InstanceQuery, Life, Overview, StateCounts,
};
pub use percentiles::Percentiles;
pub use placement::Placement;
pub use policy::{Policy, PolicySetting};
pub use supervised_kind::{Found, OperatorError, SupervisedKind};
pub use thread_actor::{ActorHandle, Context, ThreadActor};
