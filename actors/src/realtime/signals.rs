//! Hands signals from one connection to all that listen: on a thread of its own, so that many
//! listeners hold up nobody who sends. Presence is told by its newest state, typing once a second
//! for each who types; each account and mode has so many signals in a tenth of a second, and what
//! is beyond waits (presence) or is dropped (typing). Other nodes are told in the same rounds; what
//! comes from them counts as that of one connection for each node.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::mailbox::{Mailbox, Presence, Signal};
use super::node_signals::{NodeSignals, Place, PresenceAt, TypingAt};
use super::wakes::{ROUND, Wakes};
use colloquy_model::caller::Tenant;
use colloquy_model::id::{ConversationId, NodeId, UserId};

/// Signals that one account and mode has put into mailboxes in one round, counted by mailbox.
const PUTS_MAX: usize = 2_000;
/// Who types is told again after this.
const TYPING_EVERY: Duration = Duration::from_secs(1);
/// Typing that waits in one account and mode.
const TYPING_MAX: usize = 1_000;
/// What is taken in between two rounds before it is looked whether one is due.
const TAKEN: usize = 1_000;

/// Whose presence other nodes are told at once when they ask for all; as much as one message of
/// theirs may hold, and more than one node has in practice.
const ALL_MAX: usize = 40_000;

/// Tells all other nodes something.
pub type TellNodes = Arc<dyn Fn(NodeSignals) + Send + Sync>;

/// The number that stands for all connections of another node: none of this node has it.
pub(super) fn connection_of(node: NodeId) -> u64 {
    node.tail() | ELSEWHERE
}

/// Whether a connection is one of this node.
fn is_here(connection: u64) -> bool {
    connection & ELSEWHERE == 0
}

/// The bit of numbers that stand for other nodes; a connection of this node would reach it after
/// centuries.
const ELSEWHERE: u64 = 1 << 63;

/// One connection that listens, as the thread that hands out signals knows it.
#[derive(Debug, Clone)]
pub(super) struct Listener {
    pub(super) connection: u64,
    pub(super) mailbox: Arc<Mailbox>,
}

/// What one connection reported of its user; the newest report stands last.
#[derive(Debug, Clone, Copy)]
pub(super) struct PresenceReport {
    pub(super) connection: u64,
    pub(super) user: UserId,
    pub(super) presence: Presence,
}

/// What the thread that hands out signals is told.
#[derive(Debug)]
pub(super) enum HubMessage {
    /// A connection of this account and mode, or another node, tells something.
    Of(Tenant, HubCommand),
    /// Another node wants to know who is there.
    TellAll,
}

/// What a connection tells the thread that hands out signals.
#[derive(Debug)]
pub(super) enum HubCommand {
    /// It listens to a conversation, or to all.
    Listen(Option<ConversationId>, Listener),
    /// It listens there no more; what it said there stands.
    Unlisten(Option<ConversationId>, u64),
    /// Its user writes, or somebody unnamed.
    Typing(ConversationId, Option<UserId>, u64),
    /// Its user is there, or not.
    SetPresence(ConversationId, PresenceReport),
    /// It is gone, from these conversations too.
    Leave(u64, Vec<ConversationId>),
}

#[derive(Debug, Default)]
struct Topic {
    listeners: HashMap<u64, Arc<Mailbox>>,
    said: Vec<PresenceReport>,
}

impl Topic {
    fn of(&self, user: UserId) -> Presence {
        self.said
            .iter()
            .rfind(|said| said.user == user)
            .map_or(Presence::Offline, |said| said.presence)
    }

    /// The same by the connections of this node alone.
    fn here(&self, user: UserId) -> Presence {
        let mut newest_first = self.said.iter().rev();
        newest_first
            .find(|said| said.user == user && is_here(said.connection))
            .map_or(Presence::Offline, |said| said.presence)
    }

    fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.said.is_empty()
    }
}

/// Who types: a user, or a connection that has none.
type Typist = Result<UserId, u64>;

/// What the connections of one account and mode say and listen to.
#[derive(Debug, Default)]
struct TenantTopics {
    topics: HashMap<ConversationId, Topic>,
    /// Connections that listen to all conversations.
    listeners: HashMap<u64, Arc<Mailbox>>,
    /// Whose presence has changed, and by which connection.
    changed: VecDeque<(ConversationId, UserId, u64)>,
    waiting: HashSet<(ConversationId, UserId)>,
    typing: VecDeque<(ConversationId, Option<UserId>, u64)>,
    /// Who types where, and when that was told last.
    typed: HashMap<(ConversationId, Typist), Instant>,
    /// Whose presence other nodes are still to be told; none where there are no other nodes.
    untold: Option<HashSet<(ConversationId, UserId)>>,
}

/// What other nodes are told of one round.
#[derive(Debug, Default)]
struct News {
    presence: Vec<PresenceAt>,
    typing: Vec<TypingAt>,
}

impl TenantTopics {
    /// Topics of which other nodes are told.
    fn shared() -> Self {
        TenantTopics {
            untold: Some(HashSet::new()),
            ..TenantTopics::default()
        }
    }

    fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.listeners.is_empty() && !self.is_due()
    }

    fn is_due(&self) -> bool {
        !self.changed.is_empty()
            || !self.typing.is_empty()
            || self
                .untold
                .as_ref()
                .is_some_and(|untold| !untold.is_empty())
    }

    fn listen(&mut self, conversation: Option<ConversationId>, listener: Listener) {
        let Listener {
            connection,
            mailbox,
        } = listener;
        match conversation {
            Some(id) => {
                let topic = self.topics.entry(id).or_default();
                topic.listeners.insert(connection, Arc::clone(&mailbox));
                present(id, topic, connection, &mailbox);
            }
            None => {
                self.topics
                    .iter()
                    .for_each(|(id, topic)| present(*id, topic, connection, &mailbox));
                self.listeners.insert(connection, mailbox);
            }
        }
    }

    fn unlisten(&mut self, conversation: Option<ConversationId>, connection: u64) {
        match conversation {
            Some(id) => {
                if let Some(topic) = self.topics.get_mut(&id) {
                    topic.listeners.remove(&connection);
                }
                self.forget(id);
            }
            None => {
                self.listeners.remove(&connection);
            }
        }
    }

    fn forget(&mut self, conversation: ConversationId) {
        if self.topics.get(&conversation).is_some_and(Topic::is_empty) {
            self.topics.remove(&conversation);
        }
    }

    /// Takes in what a connection reports of its user, or that it reports nothing any more.
    fn say(&mut self, conversation: ConversationId, said: PresenceReport) {
        let topic = self.topics.entry(conversation).or_default();
        let (before, here) = (topic.of(said.user), topic.here(said.user));
        topic
            .said
            .retain(|other| (other.connection, other.user) != (said.connection, said.user));
        if said.presence != Presence::Offline {
            topic.said.push(said);
        }
        let changes = topic.of(said.user) != before;
        if let Some(untold) = &mut self.untold
            && is_here(said.connection)
            && (changes || topic.here(said.user) != here)
        {
            untold.insert((conversation, said.user));
        }
        if changes && self.waiting.insert((conversation, said.user)) {
            self.changed
                .push_back((conversation, said.user, said.connection));
        }
        self.forget(conversation);
    }

    fn types(
        &mut self,
        conversation: ConversationId,
        user: Option<UserId>,
        connection: u64,
        now: Instant,
    ) {
        let typist = (conversation, user.ok_or(connection));
        let told = self
            .typed
            .get(&typist)
            .is_some_and(|at| now.duration_since(*at) < TYPING_EVERY);
        if !told && self.typing.len() < TYPING_MAX {
            self.typed.insert(typist, now);
            self.typing.push_back((conversation, user, connection));
        }
    }

    fn leave(&mut self, connection: u64, conversations: Vec<ConversationId>) {
        self.listeners.remove(&connection);
        for conversation in conversations {
            let said = self
                .topics
                .get(&conversation)
                .map_or(&[][..], |topic| &topic.said);
            let own: Vec<PresenceReport> = said
                .iter()
                .filter(|said| said.connection == connection)
                .copied()
                .collect();
            for last in own {
                self.say(
                    conversation,
                    PresenceReport {
                        presence: Presence::Offline,
                        ..last
                    },
                );
            }
            self.unlisten(Some(conversation), connection);
        }
    }

    /// Tells what has changed, as far as one round allows; gives what other nodes are told of it.
    fn tell(&mut self, tenant: Tenant, now: Instant, wakes: &mut Wakes) -> News {
        let mut news = News {
            presence: self.take_untold(tenant),
            typing: Vec::new(),
        };
        let mut puts = 0;
        while puts < PUTS_MAX
            && let Some((conversation, user, from)) = self.changed.pop_front()
        {
            self.waiting.remove(&(conversation, user));
            let presence = self
                .topics
                .get(&conversation)
                .map_or(Presence::Offline, |topic| topic.of(user));
            puts += self.put(
                conversation,
                from,
                Signal::Presence(conversation, user, presence),
                wakes,
            );
        }
        while puts < PUTS_MAX
            && let Some((conversation, user, from)) = self.typing.pop_front()
        {
            let signal = Signal::Typing(conversation, user);
            puts += self.put(conversation, from, signal, wakes);
            if self.untold.is_some() && is_here(from) {
                let place = Place {
                    tenant,
                    conversation,
                };
                news.typing.push(TypingAt { place, user });
            }
        }
        self.typed
            .retain(|_, at| now.duration_since(*at) < TYPING_EVERY);
        news
    }

    /// Whose presence here other nodes are to be told now, and what it is.
    fn take_untold(&mut self, tenant: Tenant) -> Vec<PresenceAt> {
        let untold = self.untold.as_mut().map(std::mem::take);
        let untold = untold.into_iter().flatten();
        let told = untold.map(|(conversation, user)| {
            let topic = self.topics.get(&conversation);
            PresenceAt {
                place: Place {
                    tenant,
                    conversation,
                },
                user,
                presence: topic.map_or(Presence::Offline, |topic| topic.here(user)),
            }
        });
        told.collect()
    }

    /// Who is where by the connections of this node.
    fn present_here(&self, tenant: Tenant) -> impl Iterator<Item = PresenceAt> {
        self.topics.iter().flat_map(move |(conversation, topic)| {
            let place = Place {
                tenant,
                conversation: *conversation,
            };
            let here = topic.said.iter().filter(|said| is_here(said.connection));
            let users: HashSet<UserId> = here.map(|said| said.user).collect();
            users.into_iter().map(move |user| PresenceAt {
                place,
                user,
                presence: topic.here(user),
            })
        })
    }

    /// Tells everybody who listens but the connection itself, once each; gives how many that were.
    fn put(
        &self,
        conversation: ConversationId,
        from: u64,
        signal: Signal,
        wakes: &mut Wakes,
    ) -> usize {
        let topic = self.topics.get(&conversation).map(|topic| &topic.listeners);
        let here = topic.into_iter().flatten();
        let everywhere = self
            .listeners
            .iter()
            .filter(|(connection, _)| topic.is_none_or(|topic| !topic.contains_key(connection)));
        let mut puts = 1;
        for (_, mailbox) in here
            .chain(everywhere)
            .filter(|(connection, _)| **connection != from)
        {
            wakes.add(mailbox.put(signal));
            puts += 1;
        }
        puts
    }
}

/// Tells a new listener who is in a conversation.
fn present(conversation: ConversationId, topic: &Topic, connection: u64, to: &Mailbox) {
    let last_words: HashMap<UserId, &PresenceReport> =
        topic.said.iter().map(|said| (said.user, said)).collect();
    for said in last_words
        .into_values()
        .filter(|said| said.connection != connection)
    {
        let put = to.put(Signal::Presence(conversation, said.user, said.presence));
        put.into_iter().for_each(Waker::wake);
    }
}

/// All accounts and modes. Dropped, it lets every listener go.
#[derive(Default)]
pub(super) struct Table {
    tenants: HashMap<Tenant, TenantTopics>,
    due: HashSet<Tenant>,
    wakes: Wakes,
    /// The way to other nodes, where there may be some.
    nodes: Option<TellNodes>,
}

impl Table {
    /// A table of which other nodes are told, if there is a way to them.
    pub(super) fn telling(nodes: Option<TellNodes>) -> Self {
        Table {
            tenants: HashMap::new(),
            due: HashSet::new(),
            wakes: Wakes::default(),
            nodes,
        }
    }

    /// Tells other nodes who is here.
    pub(super) fn tell_all(&self) {
        if let Some(tell) = &self.nodes {
            let all = self.tenants.iter();
            let all = all.flat_map(|(tenant, topics)| topics.present_here(*tenant));
            tell(NodeSignals::All {
                presence: all.take(ALL_MAX).collect(),
            });
        }
    }

    /// Takes in what the thread is told.
    pub(super) fn hear(&mut self, told: HubMessage, now: Instant) {
        match told {
            HubMessage::Of(tenant, told) => self.take(tenant, told, now),
            HubMessage::TellAll => self.tell_all(),
        }
    }

    /// Takes in what a connection tells.
    fn take(&mut self, tenant: Tenant, told: HubCommand, now: Instant) {
        let is_shared = self.nodes.is_some();
        let tenant_topics = self.tenants.entry(tenant).or_insert_with(|| {
            if is_shared {
                TenantTopics::shared()
            } else {
                TenantTopics::default()
            }
        });
        match told {
            HubCommand::Listen(conversation, listener) => {
                tenant_topics.listen(conversation, listener)
            }
            HubCommand::Unlisten(conversation, connection) => {
                tenant_topics.unlisten(conversation, connection)
            }
            HubCommand::Typing(conversation, user, connection) => {
                tenant_topics.types(conversation, user, connection, now)
            }
            HubCommand::SetPresence(conversation, said) => tenant_topics.say(conversation, said),
            HubCommand::Leave(connection, conversations) => {
                tenant_topics.leave(connection, conversations)
            }
        }
        if tenant_topics.is_due() {
            self.due.insert(tenant);
        } else if tenant_topics.is_empty() {
            self.tenants.remove(&tenant);
        }
    }

    /// One round: tells what is due in each account and mode.
    pub(super) fn tell(&mut self, now: Instant) {
        let (mut presence, mut typing) = (Vec::new(), Vec::new());
        for tenant in std::mem::take(&mut self.due) {
            let Some(tenant_topics) = self.tenants.get_mut(&tenant) else {
                continue;
            };
            let news = tenant_topics.tell(tenant, now, &mut self.wakes);
            presence.extend(news.presence);
            typing.extend(news.typing);
            if tenant_topics.is_due() {
                self.due.insert(tenant);
            } else if tenant_topics.is_empty() {
                self.tenants.remove(&tenant);
            }
        }
        self.wakes.spread(now);
        if let Some(tell) = &self.nodes
            && !(presence.is_empty() && typing.is_empty())
        {
            tell(NodeSignals::Changed { presence, typing });
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for tenant_topics in self.tenants.values() {
            let topics = tenant_topics
                .topics
                .values()
                .flat_map(|topic| topic.listeners.values());
            tenant_topics
                .listeners
                .values()
                .chain(topics)
                .for_each(|mailbox| mailbox.end());
        }
    }
}

/// The thread: takes in what is told and tells it in rounds, until nobody can tell it anything.
/// `waiting` counts what has not been taken in.
pub(super) fn run(told: &Receiver<HubMessage>, waiting: &AtomicUsize, mut table: Table) {
    let mut next_round = Instant::now();
    loop {
        let round = (!table.due.is_empty()).then_some(next_round);
        let first = match round.into_iter().chain(table.wakes.next()).min() {
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => told.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        let now = Instant::now();
        match first {
            Ok(first) => {
                for told in std::iter::once(first).chain(told.try_iter().take(TAKEN)) {
                    waiting.fetch_sub(1, Ordering::Relaxed);
                    table.hear(told, now);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if now >= next_round && !table.due.is_empty() {
            table.tell(now);
            next_round = now + ROUND;
        }
        table.wakes.wake(now);
    }
}
