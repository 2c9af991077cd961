//! Everything in Colloquy that remembers: conversations, accounts, limits, and the store beneath
//! them.
//!
//! # The map
//!
//! - [`conversation`], [`accounts`]: the entities. `messages.rs` or the requests say what each may
//!   be asked, `state.rs` the rules (pure), `actor.rs` the order; `mod.rs` is the way in.
//! - [`feed`]: what happened, by position; [`webhook`]: to whom it is sent.
//! - [`document`]: texts with their versions, merges, comments, links and permissions; how texts
//!   are compared and merged, pure. [`search`]: full text, a file of its own that can be lost and
//!   is made anew.
//! - [`realtime`]: what passes between open connections and is never stored.
//! - [`colloquy_runtime`]: the only importer of `actix::`; runs entities, knows none of them. The
//!   threads of the process, fair queues and permits to compute are there, too.
//! - [`journal`]: how the runtime's entities are found in the store.
//! - [`dump`]: everything that a store holds, as text, by which it moves to another one.
//! - [`sealing`]: secrets that are read again, encrypted under the store key, and that under a master key.
//! - [`colloquy_objects`]: whole files by name, outside the store: in a folder, or a cloud's object
//!   storage.
//! - [`store`]: what is committed: traits by role; `sqlite` is the embedded store. `views` is the
//!   sink that it tells of commits.
//! - [`attachments`]: files that messages bring: their bytes in object storage, uploaded, read, deleted.
//! - [`backup`]: whole copies of the store, made while it serves, and how one is brought back.
//! - [`supervision`]: what operators see of actors and how they steer them.
//! - [`idempotency`], [`limiter`]: keys that are running or done; what a key or an address may ask
//!   for. [`usage`]: how much accounts use, and what is left of their quotas.
//! - [`oauth`]: codes and tokens for the software of others, and the keys that sign them.
//! - [`erasures`]: people who are erased, with all that they said; `redaction`: what may stay of it.
//! - `chores`, `timers`: what is done without anybody asking, each on a thread of its own.
//! - `sharing`: what nodes keep in step beside what is committed.
//! - [`system`]: the wiring, and what the edge holds.
//!
//! # What is absent
//!
//! No HTTP crate and no status code. No `actix::`. No clock, store or actor in a `state.rs`.
//!
//! # Guarantees
//!
//! 1. **Whole.** A command takes effect whole or not at all: its rows, its header, its counters,
//!    its kept answer.
//! 2. **Durable before answered.** An answer leaves after the fsync of everything that it rests on,
//!    reads and refusals included; what is kept in memory is set before it leaves and never before
//!    the fsync.
//! 3. **In order.** An entity takes commands in the order in which they were enqueued; a commit is
//!    accepted only directly after the sequence that it expects.
//! 4. **Once.** A command with an idempotency key is done once, across crashes and hung-up callers,
//!    for 24 hours.
//! 5. **Alone.** A panic fails the command that caused it. The entity begins anew from the store;
//!    its neighbours notice nothing. The fifth crash in 30 seconds quarantines the entity.
//! 6. **Bounded.** An entity holds at most 256 commands; the next is refused at the door, with
//!    nothing done. Active entities, their memory, loads and keys in memory are bounded too. So are
//!    reads that wait; accounts take turns with them, and what nobody waits for any more is not
//!    read.
//! 7. **In its time, once.** What a conversation does by itself, it does when its time has come, or
//!    at the next start; whatever comes first wins, and the other finds nothing left to do.
//! 8. **An event exists if and only if its change was committed**: both are one row.

mod bootstrap;
mod chores;
mod redaction;
mod sharing;
mod timers;
mod views;

pub mod accounts;
pub mod analytics;
pub mod attachments;
pub mod audit;
pub mod backup;
pub mod conversation;
pub mod customer_names;
pub mod document;
pub mod dump;
pub mod erasures;
pub mod feed;
pub mod idempotency;
pub mod journal;
pub mod key_rotation;
pub mod limiter;
pub mod metrics;
pub mod oauth;
pub mod passwords;
pub mod realtime;
pub mod sealing;
pub mod search;
pub mod sign_in;
pub mod store;
pub mod supervision;
pub mod system;
pub mod usage;
pub mod webhook;
