//! Open connections as they see one another: each tells what it listens to and what its user does,
//! and gets what others tell. Nothing here waits for a listener: what is told goes to a thread of
//! its own (`signals.rs`).
//!
//! A user's presence in a conversation is the last one that any of their connections reported. With
//! a connection go its reports: the user is offline when no other connection of theirs has reported
//! otherwise. Each other node is one such connection: it tells how far its own connections say that
//! a user is there, and what it told goes with it. Two reports at two nodes within a tenth of a second
//! may be taken in another order by each; the next report mends that.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::mailbox::{Mailbox, Presence, Signal};
use super::node_signals::{NodeSignals, PresenceAt};
use super::other_nodes::{Change, OtherNodes};
use super::signals::{
    HubCommand, HubMessage, Listener, PresenceReport, Table, TellNodes, connection_of, run,
};
use colloquy_model::caller::Tenant;
use colloquy_model::id::{ConversationId, NodeId, UserId};
use colloquy_runtime::threads;

/// Beyond so much that was told and not yet taken in, typing is dropped; the rest is bounded by
/// what connections may send.
const TOLD_MAX: usize = 10_000;

/// The account is present in as many conversations as it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the account is present in too many conversations")]
pub struct TooManyPresences;

/// All connections that are open, and what passes between them without being stored.
#[derive(Debug)]
pub struct Hub {
    told: Sender<HubMessage>,
    /// Told and not yet taken in.
    waiting: Arc<AtomicUsize>,
    last: AtomicU64,
    presences_max: usize,
    /// By account's number: in how many conversations its connections say that somebody is, and
    /// how many users those of other nodes say are somewhere.
    presences: Mutex<HashMap<u32, usize>>,
    others: Mutex<OtherNodes>,
}

/// One open connection; dropped, it is gone from everywhere.
#[derive(Debug)]
pub struct Connection {
    hub: Arc<Hub>,
    tenant: Tenant,
    number: u64,
    mailbox: Arc<Mailbox>,
    listens_to_all: bool,
    conversations: HashMap<ConversationId, Participation>,
}

/// What a connection does in a conversation.
#[derive(Debug, Clone, Copy, Default)]
struct Participation {
    listens: bool,
    is_present: bool,
}

impl Hub {
    /// Starts the thread. The connections of one account may be present in so many conversations.
    /// Other nodes are told of signals by `nodes`, where there may be some.
    #[must_use]
    pub fn start(presences_max: usize, nodes: Option<TellNodes>) -> Arc<Self> {
        let (hub, told) = Hub::with(presences_max);
        let waiting = Arc::clone(&hub.waiting);
        // A panic lets every listener go, to come again: who listens is known anew then.
        let mut is_first = true;
        let started = threads::spawn("signs", threads::Restart, move || {
            let table = Table::telling(nodes.clone());
            if !std::mem::take(&mut is_first) {
                // Other nodes still know those who are not here any more.
                table.tell_all();
            }
            run(&told, &waiting, table);
        });
        if let Err(error) = started {
            tracing::error!(%error, "signs have no thread: nobody will be told who types and who is there");
        }
        hub
    }

    /// One whose thread is somebody else's.
    pub(super) fn with(presences_max: usize) -> (Arc<Self>, Receiver<HubMessage>) {
        let (sender, told) = channel();
        let hub = Hub {
            told: sender,
            waiting: Arc::default(),
            last: AtomicU64::new(0),
            presences_max,
            presences: Mutex::default(),
            others: Mutex::default(),
        };
        (Arc::new(hub), told)
    }

    /// Makes a connection, which listens to nothing yet.
    #[must_use]
    pub fn enter(self: &Arc<Self>, tenant: Tenant) -> Connection {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (mailbox, conversations) = (Arc::default(), HashMap::new());
        Connection {
            hub: Arc::clone(self),
            tenant,
            number,
            mailbox,
            listens_to_all: false,
            conversations,
        }
    }

    /// Takes in what another node tells.
    pub fn hear(&self, node: NodeId, signals: NodeSignals) {
        match signals {
            NodeSignals::Changed { presence, typing } => {
                presence.into_iter().for_each(|at| self.set(node, at));
                for at in typing {
                    if self.waiting.load(Ordering::Relaxed) < TOLD_MAX {
                        let conversation = at.place.conversation;
                        let told = HubCommand::Typing(conversation, at.user, connection_of(node));
                        self.tell(at.place.tenant, told);
                    }
                }
            }
            NodeSignals::All { presence } => {
                let over = self.others.lock().all_but(node, &presence);
                let all = over.into_iter().chain(presence);
                all.for_each(|at| self.set(node, at));
            }
            NodeSignals::Wanted { .. } => self.send(HubMessage::TellAll),
        }
    }

    /// Takes back what a node has said that is gone.
    pub fn forget(&self, node: NodeId) {
        self.hear(
            node,
            NodeSignals::All {
                presence: Vec::new(),
            },
        );
        self.others.lock().forget(node);
    }

    /// Takes in how far a user is there at another node.
    fn set(&self, node: NodeId, at: PresenceAt) {
        let PresenceAt {
            place,
            user,
            presence,
        } = at;
        let account = place.tenant.account_number();
        match self.others.lock().set(node, at) {
            Change::None => return,
            Change::Came => *self.presences.lock().entry(account).or_default() += 1,
            Change::Stayed => {}
            Change::Left => self.give_back_presences(place.tenant, 1),
        }
        let report = PresenceReport {
            connection: connection_of(node),
            user,
            presence,
        };
        let told = HubCommand::SetPresence(place.conversation, report);
        self.tell(place.tenant, told);
    }

    fn tell(&self, tenant: Tenant, told: HubCommand) {
        self.send(HubMessage::Of(tenant, told));
    }

    fn send(&self, message: HubMessage) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // An error means that there is no thread, which was reported.
        let _ = self.told.send(message);
    }

    fn take_presence(&self, tenant: Tenant) -> Result<(), TooManyPresences> {
        let mut presences = self.presences.lock();
        let count = presences.entry(tenant.account_number()).or_default();
        if *count >= self.presences_max {
            return Err(TooManyPresences);
        }
        *count += 1;
        Ok(())
    }

    fn give_back_presences(&self, tenant: Tenant, given: usize) {
        let mut presences = self.presences.lock();
        if let Some(count) = presences.get_mut(&tenant.account_number()) {
            *count = count.saturating_sub(given);
            if *count == 0 {
                presences.remove(&tenant.account_number());
            }
        }
    }
}

impl Connection {
    /// Listens to one conversation, and is told who is there.
    pub fn listen(&mut self, conversation: ConversationId) {
        self.conversations.entry(conversation).or_default().listens = true;
        self.tell(HubCommand::Listen(Some(conversation), self.listener()));
    }

    /// Listens to all conversations, and is told who is where.
    pub fn listen_to_all(&mut self) {
        self.listens_to_all = true;
        self.tell(HubCommand::Listen(None, self.listener()));
    }

    /// Listens to one conversation no more; what it said there stands.
    pub fn unlisten(&mut self, conversation: ConversationId) {
        let Some(participation) = self.conversations.get_mut(&conversation) else {
            return;
        };
        participation.listens = false;
        if !participation.is_present {
            self.conversations.remove(&conversation);
        }
        self.tell(HubCommand::Unlisten(Some(conversation), self.number));
    }

    /// Stops listening to all conversations of the account; those subscribed to by name stay.
    pub fn unlisten_to_all(&mut self) {
        self.listens_to_all = false;
        self.tell(HubCommand::Unlisten(None, self.number));
    }

    /// Tells the others that somebody writes; where much is being told that is dropped.
    pub fn typing(&self, conversation: ConversationId, user: Option<UserId>) {
        if self.hub.waiting.load(Ordering::Relaxed) < TOLD_MAX {
            self.tell(HubCommand::Typing(conversation, user, self.number));
        }
    }

    /// Tells the others how far its user is there.
    ///
    /// # Errors
    /// The account is present in too many conversations already.
    pub fn say(
        &mut self,
        conversation: ConversationId,
        user: UserId,
        presence: Presence,
    ) -> Result<(), TooManyPresences> {
        let was = self
            .conversations
            .get(&conversation)
            .is_some_and(|participation| participation.is_present);
        let is = presence != Presence::Offline;
        match (was, is) {
            (false, false) => return Ok(()),
            (false, true) => {
                self.hub.take_presence(self.tenant)?;
                self.conversations
                    .entry(conversation)
                    .or_default()
                    .is_present = true;
            }
            (true, false) => {
                self.hub.give_back_presences(self.tenant, 1);
                if let Some(participation) = self.conversations.get_mut(&conversation) {
                    participation.is_present = false;
                    if !participation.listens {
                        self.conversations.remove(&conversation);
                    }
                }
            }
            (true, true) => {}
        }
        self.tell(HubCommand::SetPresence(
            conversation,
            PresenceReport {
                connection: self.number,
                user,
                presence,
            },
        ));
        Ok(())
    }

    /// Whether it listens or is present there.
    #[must_use]
    pub fn is_in(&self, conversation: ConversationId) -> bool {
        self.conversations.contains_key(&conversation)
    }

    /// In how many conversations it listens or is present.
    #[must_use]
    pub fn conversations(&self) -> usize {
        self.conversations.len()
    }

    /// The next signal for this connection; none where it could not keep up.
    pub fn poll_signal(&self, context: &mut Context<'_>) -> Poll<Option<Signal>> {
        self.mailbox.poll(context)
    }

    fn listener(&self) -> Listener {
        Listener {
            connection: self.number,
            mailbox: Arc::clone(&self.mailbox),
        }
    }

    fn tell(&self, told: HubCommand) {
        self.hub.tell(self.tenant, told);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let present = self
            .conversations
            .values()
            .filter(|participation| participation.is_present)
            .count();
        self.hub.give_back_presences(self.tenant, present);
        if self.listens_to_all || !self.conversations.is_empty() {
            let conversations = std::mem::take(&mut self.conversations)
                .into_keys()
                .collect();
            self.tell(HubCommand::Leave(self.number, conversations));
        }
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
