//! What waits for one open connection: the newest of each kind, so a slow reader costs no more than
//! what there is to know.

use std::collections::{HashMap, VecDeque};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use colloquy_model::id::{ConversationId, UserId};

/// Typing that waits for one connection at most: it is stale by then.
const TYPING_MAX: usize = 64;
/// Presence that waits for one connection at most; beyond it the connection can't keep up. More
/// than an account may have at once.
pub const PRESENCE_MAX: usize = 4_096;

/// How far somebody is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// The user looks at the conversation.
    Online,
    /// The user has the conversation open and has turned to something else.
    Away,
    /// The user looks at the conversation no more.
    Offline,
}

impl Presence {
    /// Every one, in order.
    pub const ALL: [Presence; 3] = [Presence::Online, Presence::Away, Presence::Offline];

    /// As the interface writes it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Presence::Online => "online",
            Presence::Away => "away",
            Presence::Offline => "offline",
        }
    }
}

/// What is passed on from one connection to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Somebody is writing a message in this conversation.
    Typing(ConversationId, Option<UserId>),
    /// Somebody is there, or not.
    Presence(ConversationId, UserId, Presence),
}

impl Signal {
    /// The conversation that it is about.
    #[must_use]
    pub fn conversation(self) -> ConversationId {
        match self {
            Signal::Typing(conversation, _) | Signal::Presence(conversation, ..) => conversation,
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    typing: VecDeque<(ConversationId, Option<UserId>)>,
    /// Whose presence is to be told, and what it is.
    order: VecDeque<(ConversationId, UserId)>,
    presence: HashMap<(ConversationId, UserId), Presence>,
    overflowed: bool,
    reader: Option<Waker>,
}

impl Waiting {
    fn put(&mut self, signal: Signal) {
        match signal {
            Signal::Typing(conversation, user) => {
                if self.typing.len() < TYPING_MAX && !self.typing.contains(&(conversation, user)) {
                    self.typing.push_back((conversation, user));
                }
            }
            Signal::Presence(conversation, user, presence) => {
                if self
                    .presence
                    .insert((conversation, user), presence)
                    .is_none()
                {
                    self.order.push_back((conversation, user));
                }
            }
        }
    }

    fn take(&mut self) -> Option<Signal> {
        if let Some(whose) = self.order.pop_front()
            && let Some(presence) = self.presence.remove(&whose)
        {
            return Some(Signal::Presence(whose.0, whose.1, presence));
        }
        self.typing
            .pop_front()
            .map(|(conversation, user)| Signal::Typing(conversation, user))
    }
}

/// The signals that wait for one connection, at most so many of each sort.
#[derive(Debug, Default)]
pub(super) struct Mailbox(Mutex<Waiting>);

impl Mailbox {
    /// Adds a signal; gives who is to be woken for it, unless that was given for an earlier one.
    #[must_use]
    pub(super) fn put(&self, signal: Signal) -> Option<Waker> {
        let mut waiting = self.0.lock();
        if waiting.overflowed {
            return None;
        }
        waiting.put(signal);
        if waiting.order.len() > PRESENCE_MAX {
            Self::let_go(waiting);
            return None;
        }
        waiting.reader.take()
    }

    /// Brings nothing more: the connection has to be opened again.
    pub(super) fn end(&self) {
        Self::let_go(self.0.lock());
    }

    fn let_go(mut waiting: parking_lot::MutexGuard<'_, Waiting>) {
        let reader = waiting.reader.take();
        *waiting = Waiting {
            overflowed: true,
            ..Waiting::default()
        };
        drop(waiting);
        reader.into_iter().for_each(Waker::wake);
    }

    /// The next signal; none where the connection could not keep up.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Signal>> {
        let mut waiting = self.0.lock();
        if waiting.overflowed {
            return Poll::Ready(None);
        }
        if let Some(signal) = waiting.take() {
            return Poll::Ready(Some(signal));
        }
        waiting.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use colloquy_model::time::Timestamp;

    #[test]
    fn only_the_newest_word_of_each_waits() {
        let (mailbox, conversation, user) = (
            Mailbox::default(),
            ConversationId::new(Timestamp(1)),
            UserId::new(Timestamp(1)),
        );
        let _ = mailbox.put(Signal::Presence(conversation, user, Presence::Online));
        for _ in 0..1_000 {
            let _ = mailbox.put(Signal::Typing(conversation, Some(user)));
        }
        let _ = mailbox.put(Signal::Presence(conversation, user, Presence::Away));
        let mut context = Context::from_waker(Waker::noop());
        let mut next = || mailbox.poll(&mut context);
        assert_eq!(
            next(),
            Poll::Ready(Some(Signal::Presence(conversation, user, Presence::Away)))
        );
        assert_eq!(
            next(),
            Poll::Ready(Some(Signal::Typing(conversation, Some(user))))
        );
        assert_eq!(next(), Poll::Pending);
    }

    #[test]
    fn who_never_reads_is_let_go_with_all_that_waits() {
        let (mailbox, conversation) = (Mailbox::default(), ConversationId::new(Timestamp(1)));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..=PRESENCE_MAX {
            let _ = mailbox.put(Signal::Typing(ConversationId::new(Timestamp(1)), None));
            let _ = mailbox.put(Signal::Presence(
                conversation,
                UserId::new(Timestamp(1)),
                Presence::Online,
            ));
            assert!(mailbox.0.lock().typing.len() <= TYPING_MAX);
        }
        assert_eq!(mailbox.poll(&mut context), Poll::Ready(None));
        let _ = mailbox.put(Signal::Typing(conversation, None));
        assert!(mailbox.0.lock().order.is_empty() && mailbox.0.lock().typing.is_empty());
    }
}
