//! Tickets: a credential for one opening within a minute, for browsers, which can't send a header
//! with a WebSocket. Kept by its hash, so many for each account: in memory, or where several nodes
//! share the store, there.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::store::{ReadError, SharedTickets, Ticket};
use colloquy_model::key::{SecretHash, secret_hash};
use colloquy_model::secret;
use colloquy_model::time::Timestamp;

/// All tickets that have not been used.
pub struct Tickets {
    per_account: usize,
    kept: Kept,
}

enum Kept {
    /// By this node, which is alone.
    InMemory(Mutex<Waiting>),
    /// By the store, for all nodes.
    Shared(Arc<dyn SharedTickets>),
}

#[derive(Debug, Default)]
struct Waiting {
    tickets: HashMap<SecretHash, Ticket>,
    /// By account, the oldest first; one that was used stands here until its time has come.
    accounts: HashMap<u32, VecDeque<(SecretHash, Timestamp)>>,
}

impl Waiting {
    fn issue(&mut self, hash: SecretHash, ticket: Ticket, per_account: usize, now: Timestamp) {
        let own = self.accounts.entry(ticket.account).or_default();
        while own.len() >= per_account || own.front().is_some_and(|(_, ends_at)| *ends_at <= now) {
            let Some((oldest, _)) = own.pop_front() else {
                break;
            };
            self.tickets.remove(&oldest);
        }
        own.push_back((hash, ticket.ends_at));
        self.tickets.insert(hash, ticket);
    }
}

impl Tickets {
    /// So many may wait for each account; beyond it the account's oldest are void. Where nodes
    /// share the store, it keeps them.
    #[must_use]
    pub fn new(per_account: usize, shared: Option<Arc<dyn SharedTickets>>) -> Self {
        let kept = shared.map_or_else(|| Kept::InMemory(Mutex::default()), Kept::Shared);
        Tickets { per_account, kept }
    }

    /// Whether the store must be asked for each.
    #[must_use]
    pub fn are_shared(&self) -> bool {
        matches!(self.kept, Kept::Shared(_))
    }

    /// A new one; the text is known to nobody else.
    ///
    /// # Errors
    /// The store that keeps it does not answer: there is no ticket that anybody knows.
    pub async fn issue(&self, ticket: Ticket, now: Timestamp) -> Result<String, ReadError> {
        let text = secret::generate("rt_");
        let hash = secret_hash(&text);
        match &self.kept {
            Kept::InMemory(waiting) => {
                let mut waiting = waiting.lock();
                waiting.issue(hash, ticket, self.per_account, now);
            }
            Kept::Shared(shared) => shared.issue(hash, ticket, self.per_account).await?,
        }
        Ok(text)
    }

    /// What it opens, if it still does.
    ///
    /// # Errors
    /// The store that keeps it does not answer.
    pub async fn look(&self, text: &str, now: Timestamp) -> Result<Option<Ticket>, ReadError> {
        let hash = secret_hash(text);
        let found = match &self.kept {
            Kept::InMemory(waiting) => waiting.lock().tickets.get(&hash).cloned(),
            Kept::Shared(shared) => shared.find(hash).await?,
        };
        Ok(found.filter(|ticket| ticket.ends_at > now))
    }

    /// Uses it up; false where somebody was faster.
    ///
    /// # Errors
    /// The store that keeps it does not answer: it may be used up.
    pub async fn redeem(&self, text: &str) -> Result<bool, ReadError> {
        let hash = secret_hash(text);
        match &self.kept {
            Kept::InMemory(waiting) => Ok(waiting.lock().tickets.remove(&hash).is_some()),
            Kept::Shared(shared) => shared.redeem(hash).await,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::panic,
        reason = "a test fails by panicking"
    )]
    use super::*;
    use colloquy_model::access_token::Bearer;

    async fn issued(tickets: &Tickets, ticket: Ticket, now: i64) -> String {
        tickets.issue(ticket, Timestamp(now)).await.unwrap()
    }

    async fn looked(tickets: &Tickets, text: &str, now: i64) -> Option<Ticket> {
        tickets.look(text, Timestamp(now)).await.unwrap()
    }

    #[tokio::test]
    async fn a_ticket_opens_once_and_not_after_its_time() {
        let tickets = Tickets::new(10, None);
        let ticket = Ticket {
            account: 1,
            bearer: Bearer::Secret([1; 32]),
            user: None,
            signed: false,
            ends_at: Timestamp(1_000),
        };
        let text = issued(&tickets, ticket.clone(), 0).await;
        assert_eq!(looked(&tickets, &text, 999).await, Some(ticket));
        assert_eq!(looked(&tickets, &text, 1_000).await, None);
        assert_eq!(looked(&tickets, "rt_x", 0).await, None);
        let redeem = async || tickets.redeem(&text).await.unwrap();
        assert!(redeem().await && !redeem().await);
        assert_eq!(looked(&tickets, &text, 0).await, None);
    }

    #[tokio::test]
    async fn an_account_has_so_many_that_wait_and_voids_none_of_another() {
        let tickets = Tickets::new(2, None);
        let ticket = |account, ends_at| Ticket {
            account,
            bearer: Bearer::Secret([1; 32]),
            user: None,
            signed: false,
            ends_at: Timestamp(ends_at),
        };
        let strangers = issued(&tickets, ticket(2, 1_000), 0).await;
        let mut texts = Vec::new();
        for _ in 0..4 {
            texts.push(issued(&tickets, ticket(1, 1_000), 0).await);
        }
        for (place, text) in texts.iter().enumerate() {
            let opens = looked(&tickets, text, 0).await.is_some();
            assert_eq!(opens, place >= 2, "{place}");
        }
        assert!(looked(&tickets, &strangers, 0).await.is_some());
        let _last = issued(&tickets, ticket(1, 3_000), 2_000).await;
        let Kept::InMemory(waiting) = &tickets.kept else {
            panic!("there is no store");
        };
        assert_eq!(waiting.lock().tickets.len(), 2, "what is over leaves");
    }
}
