//! What goes with every request to an entity, whatever is asked.

use crate::answer::Precondition;
use crate::caller::Caller;
use crate::idempotency::Reservation;

/// Who asks an entity, and under which conditions.
#[derive(Debug)]
pub struct CommandMeta {
    /// The caller, with tenant, key and user.
    pub caller: Caller,
    /// Only if what the request is about is still in this state.
    pub if_match: Option<Precondition>,
    /// The idempotency key under which the answer is kept.
    pub reservation: Option<Reservation>,
}

impl CommandMeta {
    /// Without a condition and without an idempotency key.
    #[must_use]
    pub fn new(caller: Caller) -> Self {
        CommandMeta {
            caller,
            if_match: None,
            reservation: None,
        }
    }
}
