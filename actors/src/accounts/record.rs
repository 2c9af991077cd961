//! What accounts, keys, users, customers and webhook endpoints have in common: a small record, owned
//! by one actor, with an entity tag, unique names and an answer in JSON.
//!
//! A request is a type of its own; its rule says by which type it is answered. To add one takes
//! four places: its type and its rule (`impl RecordRequest`), both in the file of its kind, its
//! route, and its row with the right that it needs in `src/http/routes/`.

use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Identity;
use crate::customer_names::Names;
use crate::journal::Kept;
use crate::store::{Store, Stored};
use colloquy_model::answer::{Answer, Done, Invalid};
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::commit::{
    Chore, Commit, Condition, ConstraintViolation, Effect, Header, KeptAnswer, NewRow, RecordName,
};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{Id, Prefix};
use colloquy_model::idempotency::Reservation;
use colloquy_runtime::{Command, Decision, Entity, NoLookup};

/// Why a record refuses a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// There is no such thing for this caller.
    #[error("no such record")]
    NotFound,
    /// `If-Match` named another state.
    #[error("the record has changed")]
    Precondition,
    /// Another one has this value.
    #[error("{field} is taken")]
    Taken {
        /// The name of the parameter that is wrong.
        field: Cow<'static, str>,
    },
    /// Its state, or something that needs it, stands in the way.
    #[error("{reason}")]
    InUse {
        /// What stands in the way.
        reason: &'static str,
    },
    /// There are as many of its kind as there may be.
    #[error("there are {most} of them, and no more may be")]
    Full {
        /// The bound, as config.toml gives it.
        most: usize,
    },
    /// A value is not acceptable.
    #[error("{}: {}", .0.field, .0.reason)]
    Invalid(Invalid),
}

/// One kind of record: its state and its rules, pure.
pub trait RecordSpec:
    Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// How the store names the kind.
    const KIND: Kind;
    /// How logs and metrics name the kind.
    const NAME: &'static str;
    /// The prefix of its identifiers.
    type Named: Prefix;

    /// As the interface shows it, in JSON; `secret` is shown once.
    fn show(&self, identity: &Identity, secret: Secret<'_>) -> Bytes;

    /// Its entity tag when its last change has this sequence.
    fn tag(&self, sequence: Sequence) -> String {
        sequence.to_string()
    }

    /// The name that people call it by.
    fn label(&self) -> &str;

    /// Names under which it is found.
    fn names(&self) -> Vec<RecordName> {
        Vec::new()
    }

    /// What the views take in when it has become this.
    fn effects(&self, before: Option<&Self>, context: &CommandContext<Self>) -> Vec<Effect>;
}

/// A request that a record of one kind takes: the type of its reply, and its rule, pure.
pub trait RecordRequest<R: RecordSpec>: Send + 'static {
    /// The reply to a request that was done.
    type Reply: RecordReply;

    /// What its change is called in the audit trail; none where it is the record that was made,
    /// changed or deleted.
    fn event(&self) -> Option<EventKind> {
        None
    }

    /// Decides on a record that is there and the caller's.
    ///
    /// # Errors
    /// Why the request is refused.
    fn decide(self, record: &R, context: &CommandContext<R>) -> Result<Outcome<R>, RecordError>;

    /// Decides where no record is. Only the request that makes one finds a place there.
    ///
    /// # Errors
    /// Why the request is refused.
    fn decide_vacant(self, _context: &CommandContext<R>) -> Result<NewRecord<R>, RecordError>
    where
        Self: Sized,
    {
        Err(RecordError::NotFound)
    }
}

/// The reply to a request: what the interface shows, or nothing where the server itself asks.
pub trait RecordReply: Send + 'static {
    /// The reply, made of the answer that the interface would show.
    fn of(answer: Answer) -> Self;
}

impl RecordReply for Answer {
    fn of(answer: Answer) -> Self {
        answer
    }
}

impl RecordReply for () {
    fn of(_: Answer) -> Self {}
}

/// Reads a record as the interface shows it.
#[derive(Debug)]
pub struct ReadRecord;

impl<R: RecordSpec> RecordRequest<R> for ReadRecord {
    type Reply = Answer;

    fn decide(self, _: &R, _: &CommandContext<R>) -> Result<Outcome<R>, RecordError> {
        Ok(Outcome::Show)
    }
}

/// Deletes a record.
#[derive(Debug)]
pub struct DeleteRecord;

/// What surrounds a decision about a record.
#[derive(Debug)]
pub struct CommandContext<R: RecordSpec> {
    /// The identifier of the record that is asked.
    pub id: Id<R::Named>,
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// The instant at which it is decided.
    pub now: Timestamp,
}

/// How an answer shows a secret.
#[derive(Debug, Clone, Copy)]
pub enum Secret<'a> {
    /// No secret is shown.
    Hidden,
    /// It was shown before: null.
    Withheld,
    /// What this answer shows.
    Shown(&'a str),
}

/// What a request to a record comes to.
#[derive(Debug)]
pub enum Outcome<R> {
    /// Nothing changes: the record is shown as it is.
    Show,
    /// The record becomes this.
    Put(R, Vec<Condition>),
    /// It becomes this, and the answer says that it was made: it was begun before.
    PutMade(R),
    /// It becomes this, and the answer shows a new secret.
    PutSecret(R, Vec<Condition>, String),
    /// It becomes this, and the answer shows nothing.
    PutWithoutContent(R),
    /// It becomes this; the answer shows something made elsewhere, and the kept one this in its
    /// place.
    PutShowingOnce {
        /// The record from now on.
        state: R,
        /// The body of this answer, with what is shown only once.
        shown: Bytes,
        /// The body that whoever repeats the request gets.
        kept: Bytes,
    },
    /// Nothing changes, and the answer shows nothing.
    NoContent,
    /// Nothing changes, and the answer is this.
    ShowBody(Bytes),
    /// Nothing changes; the answer shows something made elsewhere, and the kept one this in its
    /// place.
    ShowBodyOnce {
        /// The body of this answer, with what is shown only once.
        shown: Bytes,
        /// The body that whoever repeats the request gets.
        kept: Bytes,
    },
    /// The record is deleted.
    Delete(Deletion),
    /// The record is deleted, and all that was ever said of it is erased behind.
    Erase,
}

/// What a deletion depends on, and what follows from it.
#[derive(Debug, Default)]
pub struct Deletion {
    /// Conditions outside the record.
    pub conditions: Vec<Condition>,
    /// What the views take in of the change.
    pub effects: Vec<Effect>,
    /// What the server does afterwards.
    pub chore: Option<Chore>,
}

/// A record that is to be made.
#[derive(Debug)]
pub struct NewRecord<R> {
    /// The state in which the record begins.
    pub state: R,
    /// Conditions outside the record.
    pub conditions: Vec<Condition>,
    /// The secret that the answer shows, if it has one.
    pub secret: Option<String>,
    /// What the server does afterwards.
    pub chore: Option<Chore>,
}

impl<R> NewRecord<R> {
    /// A record without a condition and without a secret.
    pub fn new(state: R) -> Self {
        NewRecord {
            state,
            conditions: Vec::new(),
            secret: None,
            chore: None,
        }
    }
}

/// A request with all that a record needs to decide on it.
#[derive(Debug)]
pub struct RecordCommand<Q> {
    /// Who asks, and under which conditions.
    pub meta: CommandMeta,
    /// The request to the record.
    pub request: Q,
    /// For what an answer shows of keys.
    pub identity: Arc<Identity>,
}

/// A record, or the place of one that is not there.
#[derive(Debug)]
pub struct Record<R: RecordSpec> {
    id: Id<R::Named>,
    held: Option<Held<R>>,
    sequence: Sequence,
}

#[derive(Debug, Clone)]
struct Held<R> {
    tenant: Tenant,
    state: R,
}

/// What a decision makes of a record.
#[derive(Debug)]
pub struct Changed<R> {
    held: Option<Held<R>>,
    sequence: Sequence,
}

impl<R: RecordSpec> Record<R> {
    fn judge<Q: RecordRequest<R>>(
        &self,
        command: RecordCommand<Q>,
        now: Timestamp,
    ) -> Result<Decision<Self, Answer>, RecordError> {
        let RecordCommand {
            meta,
            request,
            identity,
        } = command;
        let CommandMeta {
            caller,
            if_match,
            reservation,
            // A record is no conversation.
            access: _,
        } = meta;
        let context = CommandContext {
            id: self.id,
            tenant: caller.tenant,
            now,
        };
        let event = request.event();
        let turn = |context| Turn {
            record: self,
            event,
            context,
            identity,
            caller,
            reservation,
        };
        let Some(held) = &self.held else {
            let new = request.decide_vacant(&context)?;
            return Ok(turn(context).create(new));
        };
        if held.tenant != context.tenant {
            return Err(RecordError::NotFound);
        }
        let etag = held.state.tag(self.sequence);
        if if_match.is_some_and(|wanted| !wanted.holds(&etag)) {
            return Err(RecordError::Precondition);
        }
        let outcome = request.decide(&held.state, &context)?;
        let turn = turn(context);
        Ok(match outcome {
            Outcome::Show => {
                let body = held.state.show(&turn.identity, Secret::Hidden);
                turn.unchanged(Answer::ok(Some(etag), body))
            }
            Outcome::NoContent => turn.unchanged(Answer::deleted()),
            Outcome::ShowBody(body) => turn.unchanged(Answer::ok(None, body)),
            Outcome::ShowBodyOnce { shown, kept } => turn.show_once(shown, kept),
            Outcome::Put(state, conditions) => turn.put(state, conditions, Showing::Whole),
            Outcome::PutMade(state) => turn.put(state, Vec::new(), Showing::Made),
            Outcome::PutSecret(state, conditions, secret) => {
                turn.put(state, conditions, Showing::Secret(secret))
            }
            Outcome::PutShowingOnce { state, shown, kept } => {
                turn.put(state, Vec::new(), Showing::Once { shown, kept })
            }
            Outcome::PutWithoutContent(state) => turn.put(state, Vec::new(), Showing::Nothing),
            Outcome::Delete(deletion) => turn.delete(deletion, Header::RecordGone),
            Outcome::Erase => turn.delete(Deletion::default(), Header::RecordErased),
        })
    }
}

/// What the answer to a change shows.
enum Showing {
    Whole,
    /// All of it, as something new.
    Made,
    Secret(String),
    Once {
        shown: Bytes,
        kept: Bytes,
    },
    Nothing,
}

/// One decision on its way to a commit.
struct Turn<'r, R: RecordSpec> {
    record: &'r Record<R>,
    event: Option<EventKind>,
    context: CommandContext<R>,
    identity: Arc<Identity>,
    caller: Caller,
    reservation: Option<Reservation>,
}

impl<R: RecordSpec> Turn<'_, R> {
    fn unchanged(self, reply: Answer) -> Decision<Record<R>, Answer> {
        if self.reservation.is_none() {
            return Decision::Answer(reply);
        }
        let body = Some(reply.body.clone());
        let commit = self.commit(&reply, body, Vec::new(), Header::Unchanged);
        Decision::Keep { commit, reply }
    }

    /// Answers with something that was made elsewhere, and keeps the other in its place.
    fn show_once(self, shown: Bytes, kept: Bytes) -> Decision<Record<R>, Answer> {
        // It has no identifier; its place is where it is used.
        let reply = Answer::created(String::new(), None, shown);
        if self.reservation.is_none() {
            return Decision::Answer(reply);
        }
        let commit = self.commit(&reply, Some(kept), Vec::new(), Header::Unchanged);
        Decision::Keep { commit, reply }
    }

    /// Makes the record, and answers with it.
    fn create(self, new: NewRecord<R>) -> Decision<Record<R>, Answer> {
        let showing = new.secret.map_or(Showing::Whole, Showing::Secret);
        let mut decision = self.put(new.state, new.conditions, showing);
        if let Decision::Change { commit, .. } = &mut decision {
            commit.chore = new.chore;
        }
        decision
    }

    fn put(
        self,
        state: R,
        conditions: Vec<Condition>,
        showing: Showing,
    ) -> Decision<Record<R>, Answer> {
        let before = self.record.held.as_ref().map(|held| &held.state);
        let new = before.is_none();
        let is_made = new || matches!(showing, Showing::Made);
        let sequence = self.record.sequence.next();
        let secret = match &showing {
            Showing::Secret(secret) => Secret::Shown(secret),
            Showing::Whole | Showing::Made | Showing::Once { .. } | Showing::Nothing => {
                Secret::Hidden
            }
        };
        let reply = match &showing {
            Showing::Nothing => Answer::deleted(),
            // It has no identifier; its place is where it is used.
            Showing::Once { shown, .. } => Answer::created(String::new(), None, shown.clone()),
            Showing::Whole | Showing::Made | Showing::Secret(_) => Answer {
                done: if is_made { Done::Created } else { Done::Ok },
                id: is_made.then(|| self.record.id.to_string()),
                etag: Some(state.tag(sequence)),
                body: state.show(&self.identity, secret),
                replayed: false,
            },
        };
        let kept = match &showing {
            Showing::Secret(_) => state.show(&self.identity, Secret::Withheld),
            Showing::Once { kept, .. } => kept.clone(),
            Showing::Whole | Showing::Made | Showing::Nothing => reply.body.clone(),
        };
        let payload = state.show(&self.identity, Secret::Hidden);
        let kind = self.event.unwrap_or(match new {
            true => EventKind::RecordCreated,
            false => EventKind::RecordUpdated,
        });
        let header = Header::Record {
            new,
            name: state.label().to_owned(),
            body: colloquy_model::json::text(&state),
            names: state.names(),
        };
        let effects = state.effects(before, &self.context);
        let held = Some(Held {
            tenant: self.context.tenant,
            state,
        });
        let conditional = !conditions.is_empty()
            || !matches!(&header, Header::Record { names, .. } if names.is_empty());
        let mut commit = self.commit(&reply, Some(kept), vec![NewRow::new(kind, payload)], header);
        commit.conditions = conditions;
        commit.effects = effects;
        Decision::Change {
            change: Changed { held, sequence },
            commit,
            reply,
            pipelined: !conditional,
        }
    }

    fn delete(self, deletion: Deletion, header: Header) -> Decision<Record<R>, Answer> {
        let sequence = self.record.sequence.next();
        let kind = self.event.unwrap_or(EventKind::RecordDeleted);
        let rows = vec![NewRow::new(kind, self.last_words(&header))];
        let reply = Answer::deleted();
        let mut commit = self.commit(&reply, None, rows, header);
        commit.conditions = deletion.conditions;
        commit.effects = deletion.effects;
        commit.chore = deletion.chore;
        // Nothing may be decided on top of a deletion that can still be refused.
        Decision::Change {
            change: Changed {
                held: None,
                sequence,
            },
            commit,
            reply,
            pipelined: false,
        }
    }

    /// What the event of a deletion says: all of the record, or of one that is erased its identifier.
    fn last_words(&self, header: &Header) -> Bytes {
        if matches!(header, Header::RecordErased) {
            return last_words_of::<R>(self.record.id);
        }
        let held = self.record.held.as_ref();
        held.map(|held| held.state.show(&self.identity, Secret::Hidden))
            .unwrap_or_default()
    }

    fn commit(
        self,
        reply: &Answer,
        body: Option<Bytes>,
        rows: Vec<NewRow>,
        header: Header,
    ) -> Commit {
        let answer = self.reservation.map(|reservation| KeptAnswer {
            reservation,
            done: reply.done,
            id: reply.id.clone(),
            etag: reply.etag.clone(),
            body,
        });
        let caller = Caller {
            tenant: self.context.tenant,
            actor: self.caller.actor,
        };
        let commit = Commit::new(
            subject::<R>(self.record.id),
            self.record.sequence,
            caller,
            self.context.now,
        );
        Commit {
            rows,
            header,
            answer,
            ..commit
        }
    }
}

/// What the event says by which a record is erased: its identifier.
pub(super) fn last_words_of<R: RecordSpec>(id: Id<R::Named>) -> Bytes {
    let id = serde_json::Value::from(id.to_string());
    let named: serde_json::Map<_, _> = [(format!("{}_id", R::NAME), id)].into_iter().collect();
    colloquy_model::json::bytes(&named)
}

pub(super) fn subject<R: RecordSpec>(id: Id<R::Named>) -> Subject {
    Subject {
        kind: R::KIND,
        number: id.number(),
        tail: id.tail(),
    }
}

impl<R: RecordSpec> Entity for Record<R> {
    const KIND: &'static str = R::NAME;
    type Id = Id<R::Named>;
    type Refusal = RecordError;
    type Source = Arc<dyn Store>;
    type Change = Changed<R>;
    type Commit = Commit;
    type Violation = ConstraintViolation;

    fn vacant(id: Self::Id) -> Self {
        Record {
            id,
            held: None,
            sequence: Sequence::ZERO,
        }
    }

    fn is_vacant(&self) -> bool {
        self.held.is_none()
    }

    fn apply(&mut self, change: Changed<R>) {
        self.held = change.held;
        self.sequence = change.sequence;
    }

    fn refused(broken: ConstraintViolation) -> RecordError {
        match broken {
            ConstraintViolation::Taken(field) => RecordError::Taken {
                field: field.field().into(),
            },
            ConstraintViolation::HasConversations => RecordError::InUse {
                reason: "the customer has conversations",
            },
            ConstraintViolation::HasDocuments => RecordError::InUse {
                reason: "the user owns documents: transfer or delete them first",
            },
            ConstraintViolation::Full(most) => RecordError::Full { most },
            ConstraintViolation::NoUser => {
                RecordError::Invalid(Invalid::new("user_id", "must be a valid user ID"))
            }
            ConstraintViolation::NoCustomer => {
                RecordError::Invalid(Invalid::new("customer_id", "must be a valid customer ID"))
            }
            ConstraintViolation::NoAttachment => RecordError::NotFound,
            ConstraintViolation::NoDocument => RecordError::Invalid(Invalid::new(
                "filter.document_id",
                "must hold valid document IDs",
            )),
        }
    }

    fn revision(&self) -> Sequence {
        self.sequence
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + self
                .held
                .as_ref()
                .map_or(0, |held| held.state.label().len())
    }
}

impl<R: RecordSpec, Q: RecordRequest<R>> Command<Record<R>> for RecordCommand<Q> {
    type Reply = Q::Reply;
    type Lookup = NoLookup;

    fn request_id(&self) -> Option<&str> {
        Some(&self.meta.caller.actor.request_id)
    }

    fn decide(
        self,
        record: &Record<R>,
        _: Option<NoLookup>,
        now: Timestamp,
    ) -> Decision<Record<R>, Q::Reply> {
        let decided = record.judge(self, now);
        let decision = decided.unwrap_or_else(Decision::Refuse);
        decision.map(Q::Reply::of)
    }
}

impl<R: RecordSpec> Kept for Record<R> {
    fn subject(id: Self::Id) -> Subject {
        subject::<R>(id)
    }

    fn restore(id: Self::Id, stored: Stored, _: &Names) -> Result<Self, Unreadable> {
        let Stored::Record(record) = stored else {
            return Err(Unreadable::found(id, "it is no record"));
        };
        let state =
            serde_json::from_str(&record.body).map_err(|error| Unreadable::found(id, error))?;
        Ok(Record {
            id,
            held: Some(Held {
                tenant: record.tenant,
                state,
            }),
            sequence: record.sequence,
        })
    }
}

/// JSON of a shape of ours: these have no maps with keys other than strings, so they can't fail.
pub(crate) fn to_json<T: Serialize>(shape: &T) -> Bytes {
    colloquy_model::json::bytes(shape)
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
