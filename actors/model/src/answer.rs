//! What an actor answers, in terms of what was done. Status codes are the edge's.

use bytes::Bytes;

/// The answer to a command or to a read of a single thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What the command did: created, changed or deleted something.
    pub done: Done,
    /// The identifier of what was created.
    pub id: Option<String>,
    /// The entity tag's text, without quotes.
    pub etag: Option<String>,
    /// JSON; empty where nothing is shown.
    pub body: Bytes,
    /// It is the kept answer to an earlier request with the same idempotency key.
    pub replayed: bool,
}

impl Answer {
    /// Something new with this identifier, as it is shown.
    #[must_use]
    pub fn created(id: String, etag: Option<String>, body: Bytes) -> Self {
        Answer {
            id: Some(id),
            ..Answer::of(Done::Created, etag, body)
        }
    }

    /// What was read or changed, as it is now.
    #[must_use]
    pub fn ok(etag: Option<String>, body: Bytes) -> Self {
        Answer::of(Done::Ok, etag, body)
    }

    /// Something that goes on afterwards, as it is at its beginning.
    #[must_use]
    pub fn accepted(body: Bytes) -> Self {
        Answer::of(Done::Accepted, None, body)
    }

    /// Nothing is left to be shown.
    #[must_use]
    pub fn deleted() -> Self {
        Answer::of(Done::Deleted, None, Bytes::new())
    }

    fn of(done: Done, etag: Option<String>, body: Bytes) -> Self {
        Answer {
            done,
            id: None,
            etag,
            body,
            replayed: false,
        }
    }
}

/// What a command did, in terms that the edge turns into a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// The request has made something new.
    Created,
    /// Read, changed, or found nothing to change.
    Ok,
    /// The request has taken something away; there is no body.
    Deleted,
    /// Took on something that goes on afterwards.
    Accepted,
}

impl Done {
    /// The number by which the store writes it; it never changes.
    #[must_use]
    pub fn code(self) -> i64 {
        match self {
            Done::Created => 1,
            Done::Ok => 2,
            Done::Deleted => 3,
            Done::Accepted => 4,
        }
    }

    /// Reads back what [`Done::code`] gave.
    #[must_use]
    pub fn from_code(code: i64) -> Option<Self> {
        match code {
            1 => Some(Done::Created),
            2 => Some(Done::Ok),
            3 => Some(Done::Deleted),
            4 => Some(Done::Accepted),
            _ => None,
        }
    }
}

/// `If-Match` (RFC 9110, 13.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// `*`: it only has to be there, whatever its state.
    Any,
    /// One of these strong tags, without quotes. Weak tags never match, so they are left out.
    OneOf(Vec<String>),
}

impl Precondition {
    /// Holds for this strong tag, given without quotes.
    #[must_use]
    pub fn of_tag(tag: &str) -> Self {
        Precondition::OneOf(vec![tag.to_owned()])
    }

    /// Whether a thing with this tag may be changed.
    #[must_use]
    pub fn holds(&self, etag: &str) -> bool {
        match self {
            Precondition::Any => true,
            Precondition::OneOf(tags) => tags.iter().any(|tag| tag == etag),
        }
    }
}

/// A value that was refused, with the parameter at fault and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The name of the parameter that is wrong.
    pub field: &'static str,
    /// What the value must be, as a phrase that follows the parameter's name.
    pub reason: String,
}

impl Invalid {
    /// Names the parameter and what it must be.
    pub fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Invalid {
            field,
            reason: reason.into(),
        }
    }
}
