//! The only room that imports `actix::`: it gives the other rooms mailboxes and placement, and knows none of their rules.

pub mod shard;
