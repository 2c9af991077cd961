//! Tests of a conversation's rules.

mod answers;
mod commands;
mod play;
mod snoozes;
