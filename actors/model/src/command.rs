//! What goes with every request to an entity, whatever is asked.

use crate::answer::Precondition;
use crate::caller::Caller;
use crate::conversation_access::ConversationAccess;
use crate::idempotency::Reservation;

/// Who asks an entity, and under which conditions.
#[derive(Debug)]
pub struct CommandMeta {
    /// The caller, with tenant, key and user.
    pub caller: Caller,
    /// Which conversations it may read and write.
    pub access: ConversationAccess,
    /// Only if what the request is about is still in this state.
    pub if_match: Option<Precondition>,
    /// The idempotency key under which the answer is kept.
    pub reservation: Option<Reservation>,
}

impl CommandMeta {
    /// Without a condition, without an idempotency key, and not narrowed.
    #[must_use]
    pub fn new(caller: Caller) -> Self {
        CommandMeta {
            caller,
            access: ConversationAccess::ALL,
            if_match: None,
            reservation: None,
        }
    }
}
