//! Tickets: a credential for one opening within a minute, for browsers, which can't send a header with a WebSocket. Kept
//! by its hash, in memory only.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::accounts::{SecretHash, secret, secret_hash};
use crate::id::UserId;

/// Tickets that may be open at once; beyond it the oldest are void.
const TICKETS_MAX: usize = 100_000;

/// For whom a ticket opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The key's secret, by its hash.
    pub secret: SecretHash,
    /// The user that the key acts for.
    pub user: Option<UserId>,
    /// Until when, in Unix milliseconds.
    pub ends_ms: i64,
}

/// All tickets that have not been used.
#[derive(Debug, Default)]
pub struct Tickets(Mutex<HashMap<SecretHash, Ticket>>);

impl Tickets {
    /// A new one; the text is known to nobody else.
    #[must_use]
    pub fn issue(&self, ticket: Ticket, now_ms: i64) -> String {
        let text = secret::generate("rt_");
        let mut all = self.0.lock();
        if all.len() >= TICKETS_MAX {
            all.retain(|_, other| other.ends_ms > now_ms);
        }
        if all.len() >= TICKETS_MAX {
            let oldest = all.iter().min_by_key(|(_, other)| other.ends_ms).map(|(hash, _)| *hash);
            oldest.and_then(|hash| all.remove(&hash));
        }
        all.insert(secret_hash(&text), ticket);
        text
    }

    /// What it opens, if it still does.
    #[must_use]
    pub fn look(&self, text: &str, now_ms: i64) -> Option<Ticket> {
        self.0.lock().get(&secret_hash(text)).filter(|ticket| ticket.ends_ms > now_ms).copied()
    }

    /// Uses it up; false where somebody was faster.
    #[must_use]
    pub fn redeem(&self, text: &str) -> bool {
        self.0.lock().remove(&secret_hash(text)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_opens_once_and_not_after_its_time() {
        let tickets = Tickets::default();
        let ticket = Ticket { secret: [1; 32], user: None, ends_ms: 1_000 };
        let text = tickets.issue(ticket, 0);
        assert_eq!(tickets.look(&text, 999), Some(ticket));
        assert_eq!(tickets.look(&text, 1_000), None);
        assert_eq!(tickets.look("rt_x", 0), None);
        assert!(tickets.redeem(&text) && !tickets.redeem(&text));
        assert_eq!(tickets.look(&text, 0), None);
    }
}
