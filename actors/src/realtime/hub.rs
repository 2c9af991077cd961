//! Who listens where, and who is there: signs go from one line to all others that listen to their conversation, or to the
//! whole account and mode, once each.
//!
//! A user is in a conversation what the last word of any of their lines said. With a line goes what it said: the user is
//! offline when no other line of theirs has said otherwise.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::mailbox::{Mailbox, Presence, Sign};
use crate::caller::Scope;
use crate::id::{ConversationId, UserId};

#[derive(Debug, Clone)]
struct Listener {
    line: u64,
    mailbox: Arc<Mailbox>,
}

/// What one line said of its user; the last word stands last.
#[derive(Debug, Clone, Copy)]
struct Said {
    line: u64,
    user: UserId,
    presence: Presence,
}

#[derive(Debug, Default)]
struct Room {
    listeners: Vec<Listener>,
    said: Vec<Said>,
}

impl Room {
    fn of(&self, user: UserId) -> Presence {
        self.said.iter().rfind(|said| said.user == user).map_or(Presence::Offline, |said| said.presence)
    }

    fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.said.is_empty()
    }
}

/// One account and mode.
#[derive(Debug, Default)]
struct House {
    rooms: HashMap<ConversationId, Room>,
    listeners: Vec<Listener>,
}

#[derive(Debug, Default)]
struct Lines {
    houses: HashMap<Scope, House>,
    last: u64,
}

/// All open lines.
#[derive(Debug, Default)]
pub struct Hub(Mutex<Lines>);

/// One open line; dropped, it is gone from everywhere.
#[derive(Debug)]
pub struct Member {
    hub: Arc<Hub>,
    scope: Scope,
    line: u64,
    mailbox: Arc<Mailbox>,
    /// Where it listens or is present.
    rooms: Vec<ConversationId>,
}

impl Hub {
    /// A new line, which listens to nothing yet.
    #[must_use]
    pub fn enter(self: &Arc<Self>, scope: Scope) -> Member {
        let mut lines = self.0.lock();
        lines.last += 1;
        let line = lines.last;
        drop(lines);
        Member { hub: Arc::clone(self), scope, line, mailbox: Arc::default(), rooms: Vec::new() }
    }
}

impl House {
    /// Tells everybody but the line itself, once each.
    fn tell(&self, conversation: ConversationId, from: u64, sign: Sign) {
        let room = self.rooms.get(&conversation).map(|room| room.listeners.as_slice()).unwrap_or_default();
        for listener in room {
            if listener.line != from {
                listener.mailbox.put(sign);
            }
        }
        let told = |line: u64| line == from || room.iter().any(|listener| listener.line == line);
        for listener in self.listeners.iter().filter(|listener| !told(listener.line)) {
            listener.mailbox.put(sign);
        }
    }

    /// Takes in what a line says of its user, or that it says nothing any more; tells others what that changes.
    fn say(&mut self, conversation: ConversationId, said: Said) {
        let room = self.rooms.entry(conversation).or_default();
        let before = room.of(said.user);
        room.said.retain(|other| (other.line, other.user) != (said.line, said.user));
        if said.presence != Presence::Offline {
            room.said.push(said);
        }
        let now = room.of(said.user);
        if now != before {
            self.tell(conversation, said.line, Sign::Presence(conversation, said.user, now));
        }
    }

    fn leave(&mut self, conversation: ConversationId, line: u64) {
        let said: Vec<Said> = self
            .rooms
            .get(&conversation)
            .map_or_else(Vec::new, |room| room.said.iter().filter(|said| said.line == line).copied().collect());
        for last in said {
            self.say(conversation, Said { presence: Presence::Offline, ..last });
        }
        if let Some(room) = self.rooms.get_mut(&conversation) {
            room.listeners.retain(|listener| listener.line != line);
            if room.is_empty() {
                self.rooms.remove(&conversation);
            }
        }
    }

    /// Tells a new listener who is in a conversation.
    fn present(&self, conversation: ConversationId, room: &Room, to: &Listener) {
        for (index, said) in room.said.iter().enumerate() {
            let last_word = room.said.iter().skip(index + 1).all(|later| later.user != said.user);
            if last_word && said.line != to.line {
                to.mailbox.put(Sign::Presence(conversation, said.user, said.presence));
            }
        }
    }
}

impl Member {
    /// Listens to one conversation, and is told who is there.
    pub fn listen(&mut self, conversation: ConversationId) {
        self.note(conversation);
        let listener = self.listener();
        let mut lines = self.hub.0.lock();
        let house = lines.houses.entry(self.scope).or_default();
        let room = house.rooms.entry(conversation).or_default();
        if room.listeners.iter().all(|other| other.line != listener.line) {
            room.listeners.push(listener.clone());
        }
        if let Some(room) = house.rooms.get(&conversation) {
            house.present(conversation, room, &listener);
        }
    }

    /// Listens to all conversations, and is told who is where.
    pub fn listen_to_all(&mut self) {
        let listener = self.listener();
        let mut lines = self.hub.0.lock();
        let house = lines.houses.entry(self.scope).or_default();
        house.listeners.push(listener.clone());
        for (conversation, room) in &house.rooms {
            house.present(*conversation, room, &listener);
        }
    }

    /// Listens to one conversation no more; what it said there stands.
    pub fn unlisten(&mut self, conversation: ConversationId) {
        self.in_house(|house, line| {
            if let Some(room) = house.rooms.get_mut(&conversation) {
                room.listeners.retain(|listener| listener.line != line);
            }
        });
        self.forget(conversation);
    }

    /// Listens no more to all.
    pub fn unlisten_to_all(&mut self) {
        self.in_house(|house, line| house.listeners.retain(|listener| listener.line != line));
    }

    /// Tells the others that somebody writes.
    pub fn typing(&self, conversation: ConversationId, user: Option<UserId>) {
        let lines = self.hub.0.lock();
        if let Some(house) = lines.houses.get(&self.scope) {
            house.tell(conversation, self.line, Sign::Typing(conversation, user));
        }
    }

    /// Tells the others how far its user is there.
    pub fn say(&mut self, conversation: ConversationId, user: UserId, presence: Presence) {
        self.note(conversation);
        let said = Said { line: self.line, user, presence };
        let mut lines = self.hub.0.lock();
        lines.houses.entry(self.scope).or_default().say(conversation, said);
        drop(lines);
        self.forget(conversation);
    }

    /// Whether it listens or is present there.
    #[must_use]
    pub fn is_in(&self, conversation: ConversationId) -> bool {
        self.rooms.contains(&conversation)
    }

    /// In how many conversations it listens or is present.
    #[must_use]
    pub fn rooms(&self) -> usize {
        self.rooms.len()
    }

    /// The next sign for this line; none where it could not keep up.
    pub fn poll_sign(&self, context: &mut Context<'_>) -> Poll<Option<Sign>> {
        self.mailbox.poll(context)
    }

    fn listener(&self) -> Listener {
        Listener { line: self.line, mailbox: Arc::clone(&self.mailbox) }
    }

    /// Lets go of a conversation in which it neither listens nor is present.
    fn forget(&mut self, conversation: ConversationId) {
        let mut there = false;
        self.in_house(|house, line| {
            let Some(room) = house.rooms.get(&conversation) else { return };
            there = room.listeners.iter().any(|listener| listener.line == line)
                || room.said.iter().any(|said| said.line == line);
            if room.is_empty() {
                house.rooms.remove(&conversation);
            }
        });
        if !there {
            self.rooms.retain(|other| *other != conversation);
        }
    }

    fn note(&mut self, conversation: ConversationId) {
        if !self.rooms.contains(&conversation) {
            self.rooms.push(conversation);
        }
    }

    fn in_house(&self, change: impl FnOnce(&mut House, u64)) {
        let mut lines = self.hub.0.lock();
        if let Some(house) = lines.houses.get_mut(&self.scope) {
            change(house, self.line);
            if house.rooms.is_empty() && house.listeners.is_empty() {
                lines.houses.remove(&self.scope);
            }
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let rooms = std::mem::take(&mut self.rooms);
        self.in_house(|house, line| {
            house.listeners.retain(|listener| listener.line != line);
            for conversation in rooms {
                house.leave(conversation, line);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::caller::Mode;

    fn waiting(member: &Member) -> Vec<Sign> {
        let mut context = Context::from_waker(Waker::noop());
        let mut all = Vec::new();
        while let Poll::Ready(Some(sign)) = member.poll_sign(&mut context) {
            all.push(sign);
        }
        all
    }

    fn house() -> (Arc<Hub>, Scope, ConversationId, UserId) {
        (Arc::default(), Scope::of(1, Mode::Live), ConversationId::new(1), UserId::new(1))
    }

    #[test]
    fn a_line_keeps_no_conversation_that_it_has_left() {
        let (hub, scope, conversation, user) = house();
        let mut line = hub.enter(scope);
        line.listen(conversation);
        line.say(conversation, user, Presence::Online);
        line.unlisten(conversation);
        assert!(line.is_in(conversation), "its user is still there");
        line.say(conversation, user, Presence::Offline);
        assert_eq!((line.rooms(), line.is_in(conversation)), (0, false));
        assert!(hub.0.lock().houses.is_empty());
    }

    #[test]
    fn typing_reaches_every_other_line_once_and_no_other_account() {
        let (hub, scope, conversation, user) = house();
        let (mut writer, mut reader) = (hub.enter(scope), hub.enter(scope));
        let mut stranger = hub.enter(Scope::of(2, Mode::Live));
        writer.listen(conversation);
        reader.listen(conversation);
        reader.listen_to_all();
        stranger.listen_to_all();
        writer.typing(conversation, Some(user));
        writer.typing(ConversationId::new(2), None);
        assert!(waiting(&writer).is_empty() && waiting(&stranger).is_empty());
        assert_eq!(waiting(&reader).len(), 2);
    }

    #[test]
    fn a_user_is_offline_when_the_last_line_that_said_otherwise_is_gone() {
        let (hub, scope, conversation, user) = house();
        let (mut first, mut second, mut reader) = (hub.enter(scope), hub.enter(scope), hub.enter(scope));
        let is = |presence| Sign::Presence(conversation, user, presence);
        first.say(conversation, user, Presence::Online);
        second.say(conversation, user, Presence::Away);
        reader.listen(conversation);
        assert_eq!(waiting(&reader), [is(Presence::Away)]);
        drop(second);
        assert_eq!(waiting(&reader), [is(Presence::Online)]);
        drop(first);
        assert_eq!(waiting(&reader), [is(Presence::Offline)]);
    }

    #[test]
    fn nothing_is_left_when_all_lines_are_gone() {
        let (hub, scope, conversation, user) = house();
        let mut one = hub.enter(scope);
        one.listen(conversation);
        one.listen_to_all();
        one.say(conversation, user, Presence::Online);
        one.unlisten(conversation);
        drop(one);
        assert!(hub.0.lock().houses.is_empty());
    }
}
