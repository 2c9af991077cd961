//! The words of the domain: what things are called, what values they may have, and how these are
//! checked. Data only: no actor, no store, no HTTP, and no import of any other crate of Colloquy.
//!
//! - [`id`], [`time`], [`text`], [`metadata`], [`bounds`]: values that callers send and see.
//! - [`caller`]: who asks, for which account and in which mode; [`command`]: under which conditions.
//! - [`entity`], [`entity_number`], [`commit`]: what the store names and by which number it finds it,
//!   and everything that one command changes.
//! - [`conversation`], [`document`], [`account`], [`key`], [`user`]: the state of these as it is
//!   stored and shown; [`secret`]: how secrets are made and told from a typing error.
//! - [`event`], [`event_kind`], [`event_filter`]: what happened; [`endpoint`], [`attempt`]: to whom
//!   it is sent.
//! - [`figures`], [`durations`], [`interval`]: what conversations have come to, and when. [`usage`]: how
//!   much accounts use.
//! - [`position`], [`sequence`], [`stream`]: the place of an event in the log of the whole store,
//!   among the events of its entity, and in what a reader of either reads.
//! - [`idempotency`]: how a key and its request are known. [`page`]: the part of a list.
//! - [`answer`]: what a command did, in terms that the edge turns into statuses.
//! - [`domain`], [`origin`], [`public_url`]: by which names accounts are reached, and by whose pages.
//! - [`damage`]: stored data that can't be read back.
//! - [`client`], [`access_token`], [`scope`], [`signing_key`]: the words of OAuth 2.0.
//! - [`supervision`]: what operators have changed of how actors are supervised.
//! - [`json`], [`leb128`], [`present`], [`random`], [`coded_enum!`]: how such values are written, read and
//!   made.

mod coded_enum;

pub mod access_token;
pub mod account;
pub mod answer;
pub mod attachment;
pub mod attempt;
pub mod audit;
pub mod bounds;
pub mod caller;
pub mod client;
pub mod command;
pub mod commit;
pub mod conversation;
pub mod conversation_access;
pub mod damage;
pub mod document;
pub mod domain;
pub mod durations;
pub mod endpoint;
pub mod entity;
pub mod entity_number;
pub mod event;
pub mod event_filter;
pub mod event_kind;
pub mod event_source;
pub mod figures;
pub mod id;
pub mod idempotency;
pub mod interval;
pub mod json;
pub mod key;
pub mod leb128;
pub mod metadata;
pub mod network;
pub mod node;
pub mod origin;
pub mod page;
pub mod position;
pub mod present;
pub mod public_url;
pub mod random;
pub mod scope;
pub mod secret;
pub mod sequence;
pub mod signing_key;
pub mod stream;
pub mod supervision;
pub mod text;
pub mod time;
pub mod usage;
pub mod user;
