//! A conversation: one supervised actor that owns its state and gives its messages their sequence.

pub mod messages;
