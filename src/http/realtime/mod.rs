//! What stays open: event streams (`text/event-stream`) and WebSockets. Bytes are made when the
//! connection has room for them and not before, so a slow reader holds nothing but its place.
//!
//! - `access_watch.rs` whether a connection may still see what it sees; `narrowing.rs` which events a
//!   caller is shown who sees a user's conversations only; `limits.rs` what the
//!   settings say, how many are open, what their frames hold in memory
//! - `sse.rs` an event stream
//! - `handshake.rs`, `websocket_codec.rs` how a WebSocket is opened, and its bytes (RFC 6455);
//!   `frame_bucket.rs` how many frames it may send
//! - `socket.rs` one WebSocket: bytes in, bytes out; `session.rs` the same in frames, knowing no
//!   bytes
//! - `json_frames.rs` what frames say; `subscriptions.rs`, `deduplicator.rs` which events go out;
//!   `inbound_messages.rs` messages that come in

mod access_watch;
mod deduplicator;
mod frame_bucket;
mod handshake;
mod inbound_messages;
mod json_frames;
mod limits;
mod narrowing;
mod session;
mod socket;
mod sse;
mod subscriptions;
mod websocket_codec;

pub(crate) use access_watch::{AccessWatch, ConnectionAuth, Visibility};
pub(crate) use handshake::{Handshake, PROTOCOL, handshake};
pub(crate) use limits::{LiveConnections, RealtimeLimits, Transport};
pub(crate) use narrowing::Narrowing;
pub(crate) use session::Session;
pub(crate) use socket::{Socket, SocketOpening};
pub(crate) use sse::{CursorKind, EventStream, StreamOpening};
