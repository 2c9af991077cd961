//! A document: one supervised actor that owns its head, its version graph, its collaborators and its links.

pub mod messages;
