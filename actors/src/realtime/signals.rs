//! Hands signs from one line to all that listen: on a thread of its own, so that many listeners
//! hold up nobody who sends. Presence is told by its newest state, typing once a second for each
//! who types; each account and mode has so many signs in a tenth of a second, and what is beyond
//! waits (presence) or is dropped (typing).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::mailbox::{Mailbox, Presence, Signal};
use colloquy_model::caller::Tenant;
use colloquy_model::id::{ConversationId, UserId};

/// The time between two rounds.
const ROUND: Duration = Duration::from_millis(100);
/// Signs that one account and mode has put into mailboxes in one round, counted by mailbox.
const PUTS_MAX: usize = 2_000;
/// Who types is told again after this.
const TYPING_EVERY: Duration = Duration::from_secs(1);
/// Typing that waits in one account and mode.
const TYPING_MAX: usize = 1_000;
/// What is taken in between two rounds before it is looked whether one is due.
const TAKEN: usize = 1_000;

/// One connection that listens, as the thread that hands out signals knows it.
#[derive(Debug, Clone)]
pub(super) struct Listener {
    pub(super) line: u64,
    pub(super) mailbox: Arc<Mailbox>,
}

/// What one line said of its user; the last word stands last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub(super) line: u64,
    pub(super) user: UserId,
    pub(super) presence: Presence,
}

/// What a connection tells the thread that hands out signals.
#[derive(Debug)]
pub(super) enum Told {
    /// It listens to a conversation, or to all.
    Listen(Option<ConversationId>, Listener),
    /// It listens there no more; what it said there stands.
    Unlisten(Option<ConversationId>, u64),
    /// Its user writes, or somebody unnamed.
    Typing(ConversationId, Option<UserId>, u64),
    /// Its user is there, or not.
    Say(ConversationId, Said),
    /// It is gone, from these conversations too.
    Leave(u64, Vec<ConversationId>),
}

#[derive(Debug, Default)]
struct Topic {
    listeners: HashMap<u64, Arc<Mailbox>>,
    said: Vec<Said>,
}

impl Topic {
    fn of(&self, user: UserId) -> Presence {
        self.said
            .iter()
            .rfind(|said| said.user == user)
            .map_or(Presence::Offline, |said| said.presence)
    }

    fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.said.is_empty()
    }
}

/// Who types: a user, or a line that has none.
type Typist = Result<UserId, u64>;

/// What the lines of one account and mode say and listen to.
#[derive(Debug, Default)]
struct TenantTopics {
    rooms: HashMap<ConversationId, Topic>,
    /// Lines that listen to all conversations.
    listeners: HashMap<u64, Arc<Mailbox>>,
    /// Whose presence has changed, and by which line.
    changed: VecDeque<(ConversationId, UserId, u64)>,
    waiting: HashSet<(ConversationId, UserId)>,
    typing: VecDeque<(ConversationId, Option<UserId>, u64)>,
    /// Who types where, and when that was told last.
    typed: HashMap<(ConversationId, Typist), Instant>,
}

impl TenantTopics {
    fn is_empty(&self) -> bool {
        self.rooms.is_empty() && self.listeners.is_empty() && !self.is_due()
    }

    fn is_due(&self) -> bool {
        !self.changed.is_empty() || !self.typing.is_empty()
    }

    fn listen(&mut self, conversation: Option<ConversationId>, listener: Listener) {
        let Listener { line, mailbox } = listener;
        match conversation {
            Some(id) => {
                let room = self.rooms.entry(id).or_default();
                room.listeners.insert(line, Arc::clone(&mailbox));
                present(id, room, line, &mailbox);
            }
            None => {
                self.rooms
                    .iter()
                    .for_each(|(id, room)| present(*id, room, line, &mailbox));
                self.listeners.insert(line, mailbox);
            }
        }
    }

    fn unlisten(&mut self, conversation: Option<ConversationId>, line: u64) {
        match conversation {
            Some(id) => {
                if let Some(room) = self.rooms.get_mut(&id) {
                    room.listeners.remove(&line);
                }
                self.forget(id);
            }
            None => {
                self.listeners.remove(&line);
            }
        }
    }

    fn forget(&mut self, conversation: ConversationId) {
        if self.rooms.get(&conversation).is_some_and(Topic::is_empty) {
            self.rooms.remove(&conversation);
        }
    }

    /// Takes in what a line says of its user, or that it says nothing any more.
    fn say(&mut self, conversation: ConversationId, said: Said) {
        let room = self.rooms.entry(conversation).or_default();
        let before = room.of(said.user);
        room.said
            .retain(|other| (other.line, other.user) != (said.line, said.user));
        if said.presence != Presence::Offline {
            room.said.push(said);
        }
        if room.of(said.user) != before && self.waiting.insert((conversation, said.user)) {
            self.changed.push_back((conversation, said.user, said.line));
        }
        self.forget(conversation);
    }

    fn types(
        &mut self,
        conversation: ConversationId,
        user: Option<UserId>,
        line: u64,
        now: Instant,
    ) {
        let typist = (conversation, user.ok_or(line));
        let told = self
            .typed
            .get(&typist)
            .is_some_and(|at| now.duration_since(*at) < TYPING_EVERY);
        if !told && self.typing.len() < TYPING_MAX {
            self.typed.insert(typist, now);
            self.typing.push_back((conversation, user, line));
        }
    }

    fn leave(&mut self, line: u64, conversations: Vec<ConversationId>) {
        self.listeners.remove(&line);
        for conversation in conversations {
            let said = self
                .rooms
                .get(&conversation)
                .map_or(&[][..], |room| &room.said);
            let own: Vec<Said> = said
                .iter()
                .filter(|said| said.line == line)
                .copied()
                .collect();
            for last in own {
                self.say(
                    conversation,
                    Said {
                        presence: Presence::Offline,
                        ..last
                    },
                );
            }
            self.unlisten(Some(conversation), line);
        }
    }

    /// Tells what has changed, as far as one round allows.
    fn tell(&mut self, now: Instant) {
        let mut puts = 0;
        while puts < PUTS_MAX
            && let Some((conversation, user, from)) = self.changed.pop_front()
        {
            self.waiting.remove(&(conversation, user));
            let presence = self
                .rooms
                .get(&conversation)
                .map_or(Presence::Offline, |room| room.of(user));
            puts += self.put(
                conversation,
                from,
                Signal::Presence(conversation, user, presence),
            );
        }
        while puts < PUTS_MAX
            && let Some((conversation, user, from)) = self.typing.pop_front()
        {
            puts += self.put(conversation, from, Signal::Typing(conversation, user));
        }
        self.typed
            .retain(|_, at| now.duration_since(*at) < TYPING_EVERY);
    }

    /// Tells everybody who listens but the line itself, once each; gives how many that were.
    fn put(&self, conversation: ConversationId, from: u64, sign: Signal) -> usize {
        let room = self.rooms.get(&conversation).map(|room| &room.listeners);
        let here = room.into_iter().flatten();
        let everywhere = self
            .listeners
            .iter()
            .filter(|(line, _)| room.is_none_or(|room| !room.contains_key(line)));
        let mut puts = 1;
        for (_, mailbox) in here.chain(everywhere).filter(|(line, _)| **line != from) {
            mailbox.put(sign);
            puts += 1;
        }
        puts
    }
}

/// Tells a new listener who is in a conversation.
fn present(conversation: ConversationId, room: &Topic, line: u64, to: &Mailbox) {
    let last_words: HashMap<UserId, &Said> =
        room.said.iter().map(|said| (said.user, said)).collect();
    for said in last_words.into_values().filter(|said| said.line != line) {
        to.put(Signal::Presence(conversation, said.user, said.presence));
    }
}

/// All accounts and modes. Dropped, it lets every listener go.
#[derive(Debug, Default)]
pub(super) struct Table {
    houses: HashMap<Tenant, TenantTopics>,
    due: HashSet<Tenant>,
}

impl Table {
    /// Takes in what a line tells.
    pub(super) fn take(&mut self, tenant: Tenant, told: Told, now: Instant) {
        let house = self.houses.entry(tenant).or_default();
        match told {
            Told::Listen(conversation, listener) => house.listen(conversation, listener),
            Told::Unlisten(conversation, line) => house.unlisten(conversation, line),
            Told::Typing(conversation, user, line) => house.types(conversation, user, line, now),
            Told::Say(conversation, said) => house.say(conversation, said),
            Told::Leave(line, conversations) => house.leave(line, conversations),
        }
        if house.is_due() {
            self.due.insert(tenant);
        } else if house.is_empty() {
            self.houses.remove(&tenant);
        }
    }

    /// One round: tells what is due in each account and mode.
    pub(super) fn tell(&mut self, now: Instant) {
        for tenant in std::mem::take(&mut self.due) {
            let Some(house) = self.houses.get_mut(&tenant) else {
                continue;
            };
            house.tell(now);
            if house.is_due() {
                self.due.insert(tenant);
            } else if house.is_empty() {
                self.houses.remove(&tenant);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.houses.is_empty()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for house in self.houses.values() {
            let rooms = house
                .rooms
                .values()
                .flat_map(|room| room.listeners.values());
            house
                .listeners
                .values()
                .chain(rooms)
                .for_each(|mailbox| mailbox.end());
        }
    }
}

/// The thread: takes in what is told and tells it in rounds, until nobody can tell it anything.
/// `waiting` counts what has not been taken in.
pub(super) fn run(told: &Receiver<(Tenant, Told)>, waiting: &AtomicUsize) {
    let mut table = Table::default();
    let mut next_round = Instant::now();
    loop {
        let first = if table.due.is_empty() {
            told.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            told.recv_timeout(next_round.saturating_duration_since(Instant::now()))
        };
        let now = Instant::now();
        match first {
            Ok(first) => {
                for (tenant, told) in std::iter::once(first).chain(told.try_iter().take(TAKEN)) {
                    waiting.fetch_sub(1, Ordering::Relaxed);
                    table.take(tenant, told, now);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if now >= next_round && !table.due.is_empty() {
            table.tell(now);
            next_round = now + ROUND;
        }
    }
}
