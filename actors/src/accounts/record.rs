//! What accounts, keys, users and customers have in common: a small record, owned by one actor,
//! with an entity tag, unique names and an answer in JSON. What each may be asked stands in its own
//! file.

use colloquy_model::time::Timestamp;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Identity;
use crate::customer_names::Names;
use crate::journal::Kept;
use crate::store::{Store, Stored};
use colloquy_model::answer::{Answer, Done, Invalid, Precondition};
use colloquy_model::caller::{Caller, Tenant};
use colloquy_model::commit::{
    Chore, Commit, Condition, ConstraintViolation, Effect, Header, KeptAnswer, NameField, NewRow,
};
use colloquy_model::conversation::MessageCounts;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{Id, Prefix};
use colloquy_model::idempotency::Reservation;
use colloquy_runtime::{BoxFuture, Command, Decision, Entity, LoadError};

/// Why a record refuses.
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
        /// The parameter.
        field: &'static str,
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
    /// How metrics name it.
    const NAME: &'static str;
    /// The prefix of its identifiers.
    type Named: Prefix;
    /// What it may be asked.
    type Request: Send + 'static;

    /// Judges a request.
    ///
    /// # Errors
    /// Why it refuses.
    fn judge(
        current: Option<&Self>,
        request: Self::Request,
        setting: &CommandContext<Self>,
    ) -> Result<Outcome<Self>, RecordError>;

    /// As the interface shows it, in JSON; `secret` is shown once.
    fn show(&self, identity: &Identity, secret: Secret<'_>) -> Bytes;

    /// The name that people call it by.
    fn label(&self) -> &str;

    /// Names under which it is found.
    fn names(&self) -> Vec<(NameField, String)> {
        Vec::new()
    }

    /// What the views take in when it has become this.
    fn effects(&self, before: Option<&Self>, setting: &CommandContext<Self>) -> Vec<Effect>;
}

/// What surrounds a decision about a record.
#[derive(Debug)]
pub struct CommandContext<R: RecordSpec> {
    /// Its identifier.
    pub id: Id<R::Named>,
    /// The tenant that the data belongs to.
    pub tenant: Tenant,
    /// When, in Unix milliseconds.
    pub now: i64,
}

/// How an answer shows a secret.
#[derive(Debug, Clone, Copy)]
pub enum Secret<'a> {
    /// It has none to show.
    Hidden,
    /// It was shown before: null.
    Withheld,
    /// What this answer shows.
    Shown(&'a str),
}

/// What a request to a record comes to.
#[derive(Debug)]
pub enum Outcome<R> {
    /// Show it as it is.
    Show,
    /// The record becomes this.
    Put(R, Vec<Condition>),
    /// It becomes this, and the answer shows a new secret.
    PutSecret(R, Vec<Condition>, String),
    /// It becomes this, and the answer shows nothing.
    PutWithoutContent(R),
    /// Nothing changes, and the answer shows nothing.
    NoContent,
    /// Nothing changes, and the answer is this.
    ShowBody(Bytes),
    /// Nothing changes; the answer shows something made elsewhere, and the kept one this in its
    /// place.
    ShowBodyOnce {
        /// This once.
        shown: Bytes,
        /// To whoever asks again.
        kept: Bytes,
    },
    /// The record is deleted.
    Delete(Vec<Condition>, Vec<Effect>, Option<Chore>),
}

/// A request with who sent it and what must hold.
pub struct RecordCommand<R: RecordSpec> {
    /// The caller.
    pub caller: Caller,
    /// Only if the state is still this one.
    pub if_match: Option<Precondition>,
    /// Under which key the answer is kept.
    pub reservation: Option<Reservation>,
    /// The request itself.
    pub request: R::Request,
    /// For what an answer shows of keys.
    pub identity: Arc<Identity>,
}

/// A record, or the place of one that is not there.
#[derive(Debug)]
pub struct Record<R: RecordSpec> {
    id: Id<R::Named>,
    held: Option<Held<R>>,
    sequence: u64,
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
    sequence: u64,
}

impl<R: RecordSpec> Record<R> {
    fn judge(
        &self,
        command: RecordCommand<R>,
        now: i64,
    ) -> Result<Decision<Self, Answer>, RecordError> {
        let RecordCommand {
            caller,
            if_match,
            reservation,
            request,
            identity,
        } = command;
        let current = self.held.as_ref();
        if current.is_some_and(|held| held.tenant != caller.tenant) {
            return Err(RecordError::NotFound);
        }
        let etag = self.sequence.to_string();
        if current.is_some() && if_match.is_some_and(|wanted| !wanted.holds(&etag)) {
            return Err(RecordError::Precondition);
        }
        let setting = CommandContext {
            id: self.id,
            tenant: caller.tenant,
            now,
        };
        let step = R::judge(current.map(|held| &held.state), request, &setting)?;
        let turn = Turn {
            record: self,
            setting,
            identity,
            caller,
            reservation,
        };
        Ok(match (step, current) {
            (Outcome::Show, Some(held)) => {
                let body = held.state.show(&turn.identity, Secret::Hidden);
                turn.unchanged(Answer::ok(Some(etag), body))
            }
            (Outcome::NoContent, Some(_)) => turn.unchanged(gone()),
            (Outcome::ShowBody(body), Some(_)) => turn.unchanged(Answer::ok(None, body)),
            (Outcome::ShowBodyOnce { shown, kept }, Some(_)) => turn.tell(shown, kept),
            (
                Outcome::Show
                | Outcome::NoContent
                | Outcome::ShowBody(_)
                | Outcome::ShowBodyOnce { .. },
                None,
            ) => {
                return Err(RecordError::NotFound);
            }
            (Outcome::Put(state, conditions), _) => turn.put(state, conditions, Showing::Whole),
            (Outcome::PutSecret(state, conditions, secret), _) => {
                turn.put(state, conditions, Showing::Secret(secret))
            }
            (Outcome::PutWithoutContent(state), _) => turn.put(state, Vec::new(), Showing::Nothing),
            (Outcome::Delete(conditions, effects, chore), _) => {
                turn.delete(conditions, effects, chore)
            }
        })
    }
}

enum Showing {
    Whole,
    Secret(String),
    Nothing,
}

/// One decision on its way to a commit.
struct Turn<'r, R: RecordSpec> {
    record: &'r Record<R>,
    setting: CommandContext<R>,
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

    fn tell(self, shown: Bytes, kept: Bytes) -> Decision<Record<R>, Answer> {
        // It has no identifier; its place is where it is used.
        let reply = Answer::created(String::new(), None, shown);
        if self.reservation.is_none() {
            return Decision::Answer(reply);
        }
        let commit = self.commit(&reply, Some(kept), Vec::new(), Header::Unchanged);
        Decision::Keep { commit, reply }
    }

    fn put(
        self,
        state: R,
        conditions: Vec<Condition>,
        showing: Showing,
    ) -> Decision<Record<R>, Answer> {
        let before = self.record.held.as_ref().map(|held| &held.state);
        let new = before.is_none();
        let sequence = self.record.sequence + 1;
        let secret = match &showing {
            Showing::Secret(secret) => Secret::Shown(secret),
            Showing::Whole | Showing::Nothing => Secret::Hidden,
        };
        let reply = match showing {
            Showing::Nothing => gone(),
            Showing::Whole | Showing::Secret(_) => Answer {
                done: if new { Done::Created } else { Done::Ok },
                id: new.then(|| self.record.id.to_string()),
                etag: Some(sequence.to_string()),
                body: state.show(&self.identity, secret),
                replayed: false,
            },
        };
        let kept = match secret {
            Secret::Shown(_) | Secret::Withheld => state.show(&self.identity, Secret::Withheld),
            Secret::Hidden => reply.body.clone(),
        };
        let payload = state.show(&self.identity, Secret::Hidden);
        let happened = if new {
            EventKind::RecordCreated
        } else {
            EventKind::RecordUpdated
        };
        let header = Header::Record {
            new,
            name: state.label().to_owned(),
            body: colloquy_model::json::text(&state),
            names: state.names(),
        };
        let effects = state.effects(before, &self.setting);
        let held = Some(Held {
            tenant: self.setting.tenant,
            state,
        });
        let conditional = !conditions.is_empty()
            || !matches!(&header, Header::Record { names, .. } if names.is_empty());
        let mut commit = self.commit(&reply, Some(kept), vec![row(happened, payload)], header);
        commit.conditions = conditions;
        commit.effects = effects;
        Decision::Change {
            change: Changed { held, sequence },
            commit,
            reply,
            pipelined: !conditional,
        }
    }

    fn delete(
        self,
        conditions: Vec<Condition>,
        effects: Vec<Effect>,
        chore: Option<Chore>,
    ) -> Decision<Record<R>, Answer> {
        let sequence = self.record.sequence + 1;
        let payload = self
            .record
            .held
            .as_ref()
            .map(|held| held.state.show(&self.identity, Secret::Hidden));
        let rows = vec![row(EventKind::RecordDeleted, payload.unwrap_or_default())];
        let reply = gone();
        let mut commit = self.commit(&reply, None, rows, Header::RecordGone);
        commit.conditions = conditions;
        commit.effects = effects;
        commit.chore = chore;
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
            tenant: self.setting.tenant,
            by: self.caller.by,
        };
        let commit = Commit::new(
            subject::<R>(self.record.id),
            self.record.sequence,
            caller,
            self.setting.now,
        );
        Commit {
            rows,
            header,
            answer,
            ..commit
        }
    }
}

fn subject<R: RecordSpec>(id: Id<R::Named>) -> Subject {
    Subject {
        kind: R::KIND,
        number: id.number(),
        tail: id.tail(),
    }
}

fn row(happened: EventKind, payload: Bytes) -> NewRow {
    NewRow {
        happened,
        payload,
        tallies: MessageCounts::default(),
        seen: None,
        edits: None,
    }
}

fn gone() -> Answer {
    Answer::deleted()
}

impl<R: RecordSpec> Entity for Record<R> {
    const KIND: &'static str = R::NAME;
    type Id = Id<R::Named>;
    type Refusal = RecordError;
    type Lookup = std::convert::Infallible;
    type Found = std::convert::Infallible;
    type Change = Changed<R>;
    type Commit = Commit;
    type Violation = ConstraintViolation;

    fn vacant(id: Self::Id) -> Self {
        Record {
            id,
            held: None,
            sequence: 0,
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
                field: field.field(),
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
        }
    }

    fn revision(&self) -> u64 {
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

impl<R: RecordSpec> Command<Record<R>> for RecordCommand<R> {
    type Reply = Answer;

    fn decide(
        self,
        record: &Record<R>,
        _: Option<std::convert::Infallible>,
        now: Timestamp,
    ) -> Decision<Record<R>, Answer> {
        record.judge(self, now.0).unwrap_or_else(Decision::Refuse)
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

    fn find(_: Arc<dyn Store>, lookup: Self::Lookup) -> BoxFuture<Result<Self::Found, LoadError>> {
        match lookup {}
    }
}

/// JSON of a shape of ours: these have no maps with keys other than strings, so they can't fail.
pub(crate) fn to_json<T: Serialize>(shape: &T) -> Bytes {
    colloquy_model::json::bytes(shape)
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
