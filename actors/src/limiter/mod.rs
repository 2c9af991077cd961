//! Rate limits: how many requests an API key, a client address or a share link may make. Knows
//! neither HTTP headers nor plans. Its state is in memory only: it survives a crash of the limiter,
//! and no restart of the server.
//!
//! - [`RateLimiter`]: by key, one table on each HTTP worker's thread; `messages.rs` is its
//!   protocol.
//! - [`MinuteLimiter`]: a fixed number of requests a minute, asked without an actor;
//!   [`AddressLimiter`] by client address, [`LinkLimiter`] for share links.
//! - [`SharedLimits`]: what other nodes are told of them, and tell.
//! - `allowance.rs`: the rule, pure; `allowance_table.rs`: the allowances of many keys.

mod allowance;
mod allowance_table;
mod client_address;
mod link_limiter;
mod messages;
mod minute_limiter;
mod rate_limiter;
mod spending;

pub use self::allowance::{Limits, RateLimitStatus};
pub use self::client_address::{AddressLimiter, ClientAddress};
pub use self::link_limiter::{LinkLimiter, LinkRefusal};
pub use self::messages::{LimitKey, PeekPermit, TakePermit};
pub use self::minute_limiter::MinuteLimiter;
pub use self::rate_limiter::RateLimiter;
pub use self::spending::{SharedLimits, Spending};
