//! What waits for one open line: the newest of each kind, so a slow reader costs no more than what there is to know.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::id::{ConversationId, UserId};

/// Typing that waits for one line at most: it is stale by then.
const TYPING_MAX: usize = 256;
/// What waits for one line at most; beyond it the line can't keep up.
const SIGNS_MAX: usize = 10_000;

/// How far somebody is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Looking.
    Online,
    /// Has turned away.
    Away,
    /// Gone.
    Offline,
}

impl Presence {
    /// All of them.
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

/// What is passed on from one line to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Somebody writes.
    Typing(ConversationId, Option<UserId>),
    /// Somebody is there, or not.
    Presence(ConversationId, UserId, Presence),
}

impl Sign {
    /// Whether it says anew what the other one said.
    fn replaces(self, other: Sign) -> bool {
        match (self, other) {
            (Sign::Typing(conversation, user), Sign::Typing(other, who)) => (conversation, user) == (other, who),
            (Sign::Presence(conversation, user, _), Sign::Presence(other, who, _)) => {
                (conversation, user) == (other, who)
            }
            (Sign::Typing(..), Sign::Presence(..)) | (Sign::Presence(..), Sign::Typing(..)) => false,
        }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    signs: VecDeque<Sign>,
    overflowed: bool,
    reader: Option<Waker>,
}

/// One line's signs.
#[derive(Debug, Default)]
pub(super) struct Mailbox(Mutex<Waiting>);

impl Mailbox {
    pub(super) fn put(&self, sign: Sign) {
        let mut waiting = self.0.lock();
        let typing = matches!(sign, Sign::Typing(..));
        waiting.signs.retain(|other| !sign.replaces(*other));
        if waiting.signs.len() >= SIGNS_MAX {
            waiting.overflowed = true;
        } else if !typing || waiting.signs.len() < TYPING_MAX {
            waiting.signs.push_back(sign);
        }
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// The next sign; none where the line could not keep up.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Sign>> {
        let mut waiting = self.0.lock();
        if waiting.overflowed {
            return Poll::Ready(None);
        }
        if let Some(sign) = waiting.signs.pop_front() {
            return Poll::Ready(Some(sign));
        }
        waiting.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_word_of_each_waits() {
        let (mailbox, conversation, user) = (Mailbox::default(), ConversationId::new(1), UserId::new(1));
        mailbox.put(Sign::Presence(conversation, user, Presence::Online));
        for _ in 0..1_000 {
            mailbox.put(Sign::Typing(conversation, Some(user)));
        }
        mailbox.put(Sign::Presence(conversation, user, Presence::Away));
        let mut context = Context::from_waker(Waker::noop());
        let mut next = || mailbox.poll(&mut context);
        assert_eq!(next(), Poll::Ready(Some(Sign::Typing(conversation, Some(user)))));
        assert_eq!(next(), Poll::Ready(Some(Sign::Presence(conversation, user, Presence::Away))));
        assert_eq!(next(), Poll::Pending);
    }

    #[test]
    fn who_never_reads_is_let_go() {
        let (mailbox, user) = (Mailbox::default(), UserId::new(1));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..TYPING_MAX * 2 {
            mailbox.put(Sign::Typing(ConversationId::new(1), None));
        }
        assert_eq!(mailbox.0.lock().signs.len(), TYPING_MAX);
        mailbox.0.lock().signs = std::iter::repeat_n(Sign::Typing(ConversationId::new(1), None), SIGNS_MAX).collect();
        mailbox.put(Sign::Presence(ConversationId::new(1), user, Presence::Online));
        assert_eq!(mailbox.poll(&mut context), Poll::Ready(None));
    }
}
