//! What was typed into the inbox and refused, where no script is there to keep it: it stands on the
//! page again, in its field or to be copied, beside why.

use maud::{Markup, html};

use super::super::forms::Form;
use super::super::parts::{is, kept, number, refusal};
use super::super::reply::Reply;
use super::thread::{self, Thread};
use super::{Inbox, messages};
use crate::http::{Kind, Problem};

/// Where a text was typed.
enum Typed {
    /// As a new answer, sent under this name.
    Answer { key: String },
    /// Into the field of the message with this identifier.
    Message(String),
    /// Into a field that is not on the page, or not any more.
    Elsewhere,
}

/// A text, and why it was refused.
pub(super) struct Refused {
    typed: Typed,
    content: String,
    problem: Problem,
}

/// A text of which nobody knows yet whether it is refused.
pub(super) struct Written {
    typed: Typed,
    content: String,
}

impl Written {
    /// The text, refused for this.
    pub(super) fn because(self, problem: Problem) -> Refused {
        Refused {
            typed: self.typed,
            content: self.content,
            problem,
        }
    }
}

impl Refused {
    /// The text that a form sends below a conversation, if it sends one.
    pub(super) fn of(path: &[&str], form: &Form) -> Option<Written> {
        let typed = match path {
            ["messages"] => Typed::Answer {
                key: form.text("key").to_owned(),
            },
            ["messages", id, "edit"] => Typed::Message((*id).to_owned()),
            _ => return None,
        };
        let content = form.text("content").to_owned();
        Some(Written { typed, content })
    }

    /// What was typed as a new answer.
    pub(super) fn answer(&self) -> Option<&str> {
        matches!(self.typed, Typed::Answer { .. }).then_some(&*self.content)
    }

    /// The name under which the answer is to be sent again, where it is on its way already: under
    /// another one it would be sent twice.
    pub(super) fn key(&self) -> Option<&str> {
        match &self.typed {
            Typed::Answer { key } if self.problem.kind == Kind::IdempotencyInProgress => Some(key),
            Typed::Answer { .. } | Typed::Message(_) | Typed::Elsewhere => None,
        }
    }

    /// What was typed in the place of a message's text.
    pub(super) fn edit(&self, message: &str) -> Option<&str> {
        let is_this = matches!(&self.typed, Typed::Message(id) if id == message);
        is_this.then_some(&*self.content)
    }

    /// Why it was refused, in the field that it was typed into.
    pub(super) fn why(&self) -> Markup {
        refusal(&self.problem)
    }

    /// The same where there is no field for it.
    pub(super) fn to_copy(&self) -> Markup {
        html! { (self.why()) (kept(std::slice::from_ref(&self.content))) }
    }

    /// Whether no field on the page is the one that it was typed into.
    pub(super) fn has_no_field(&self) -> bool {
        matches!(self.typed, Typed::Elsewhere)
    }
}

impl Inbox<'_> {
    /// The whole page once more, with what was refused.
    pub(super) async fn again(self, id: &str, refused: Refused) -> Result<Reply, Problem> {
        let Ok(thread) = Thread::read(&self, id).await else {
            return Err(refused.problem);
        };
        let typed = match refused.typed {
            Typed::Message(message) if self.has_field(id, &message, thread.last()).await => {
                Typed::Message(message)
            }
            Typed::Answer { key } if !thread.is_closed() => Typed::Answer { key },
            Typed::Answer { .. } | Typed::Message(_) | Typed::Elsewhere => Typed::Elsewhere,
        };
        let inbox = Inbox {
            refused: Some(Refused { typed, ..refused }),
            ..self
        };
        Ok(inbox.page(Some(thread)).await?.refused())
    }

    /// Whether the page of a conversation with so many messages has a field for this one's text.
    async fn has_field(&self, conversation: &str, message: &str, last: u64) -> bool {
        let path = format!("/v1/conversations/{conversation}/messages/{message}");
        let found = self.session.get(&path).await;
        found.is_ok_and(|found| {
            let is_shown = number(&found.body, "seq") + thread::MESSAGES > last;
            let is_redacted = is(&found.body, "redacted");
            is_shown && !is_redacted && messages::is_editable(&found.body)
        })
    }
}
