//! What conversations have come to, by hour, day and month: figures that are kept up from the
//! events of the feed, and from nothing else, so that whoever reads the same events gets the same
//! figures.

mod rules;

pub use rules::{Counted, counted};
