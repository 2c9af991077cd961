//! Tickets: a credential for one opening within a minute, for browsers, which can't send a header
//! with a WebSocket. Kept by its hash, in memory only; so many for each account.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use colloquy_model::id::UserId;
use colloquy_model::key::{SecretHash, secret_hash};
use colloquy_model::secret;
use colloquy_model::time::Timestamp;

/// What a ticket stands for: the key that it was made with, and until when it opens a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The small number of the key's account.
    pub account: u32,
    /// The key's secret, by its hash.
    pub secret: SecretHash,
    /// The user that the key acts for.
    pub user: Option<UserId>,
    /// The instant from which on it opens nothing.
    pub ends_at: Timestamp,
}

/// All tickets that have not been used.
#[derive(Debug)]
pub struct Tickets {
    per_account: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    tickets: HashMap<SecretHash, Ticket>,
    /// By account, the oldest first; one that was used stands here until its time has come.
    accounts: HashMap<u32, VecDeque<(SecretHash, Timestamp)>>,
}

impl Tickets {
    /// So many may wait for each account; beyond it the account's oldest are void.
    #[must_use]
    pub fn new(per_account: usize) -> Self {
        Tickets {
            per_account,
            waiting: Mutex::default(),
        }
    }

    /// A new one; the text is known to nobody else.
    #[must_use]
    pub fn issue(&self, ticket: Ticket, now: Timestamp) -> String {
        let text = secret::generate("rt_");
        let hash = secret_hash(&text);
        let mut waiting = self.waiting.lock();
        let Waiting { tickets, accounts } = &mut *waiting;
        let own = accounts.entry(ticket.account).or_default();
        while own.len() >= self.per_account
            || own.front().is_some_and(|(_, ends_at)| *ends_at <= now)
        {
            let Some((oldest, _)) = own.pop_front() else {
                break;
            };
            tickets.remove(&oldest);
        }
        own.push_back((hash, ticket.ends_at));
        tickets.insert(hash, ticket);
        text
    }

    /// What it opens, if it still does.
    #[must_use]
    pub fn look(&self, text: &str, now: Timestamp) -> Option<Ticket> {
        self.waiting
            .lock()
            .tickets
            .get(&secret_hash(text))
            .filter(|ticket| ticket.ends_at > now)
            .copied()
    }

    /// Uses it up; false where somebody was faster.
    #[must_use]
    pub fn redeem(&self, text: &str) -> bool {
        self.waiting
            .lock()
            .tickets
            .remove(&secret_hash(text))
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_opens_once_and_not_after_its_time() {
        let tickets = Tickets::new(10);
        let ticket = Ticket {
            account: 1,
            secret: [1; 32],
            user: None,
            ends_at: Timestamp(1_000),
        };
        let text = tickets.issue(ticket, Timestamp(0));
        assert_eq!(tickets.look(&text, Timestamp(999)), Some(ticket));
        assert_eq!(tickets.look(&text, Timestamp(1_000)), None);
        assert_eq!(tickets.look("rt_x", Timestamp(0)), None);
        assert!(tickets.redeem(&text) && !tickets.redeem(&text));
        assert_eq!(tickets.look(&text, Timestamp(0)), None);
    }

    #[test]
    fn an_account_has_so_many_that_wait_and_voids_none_of_another() {
        let tickets = Tickets::new(2);
        let ticket = |account, ends_at| Ticket {
            account,
            secret: [1; 32],
            user: None,
            ends_at,
        };
        let strangers = tickets.issue(ticket(2, Timestamp(1_000)), Timestamp(0));
        let texts: Vec<String> = (0..4)
            .map(|_| tickets.issue(ticket(1, Timestamp(1_000)), Timestamp(0)))
            .collect();
        let open: Vec<bool> = texts
            .iter()
            .map(|text| tickets.look(text, Timestamp(0)).is_some())
            .collect();
        assert_eq!(open, [false, false, true, true]);
        assert!(tickets.look(&strangers, Timestamp(0)).is_some());
        let _last = tickets.issue(ticket(1, Timestamp(3_000)), Timestamp(2_000));
        assert_eq!(
            tickets.waiting.lock().tickets.len(),
            2,
            "what is over leaves"
        );
    }
}
