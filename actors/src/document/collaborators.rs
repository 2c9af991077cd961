//! The way in to who may do what: collaborators, who are users and have e-mail addresses, and the
//! permission set.

use super::access::Requester;
use super::messages::{AddCollaborator, Part, Reply, Request, SetPermissions};
use super::service::{Documents, Failure, invalid};
use super::state::{tag, to_json};
use crate::store::{RecordQuery, Stored};
use bytes::Bytes;
use colloquy_model::answer::{Answer, Done, Precondition};
use colloquy_model::caller::{Caller, Scope};
use colloquy_model::commit::NameField;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::id::{DocumentId, UserId};
use colloquy_model::idempotency::Reservation;
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::text::Email;
use colloquy_runtime::{AskError, LoadError};
use serde_json::{Value, json};

impl Documents {
    /// The permission set.
    ///
    /// # Errors
    /// The document is not there for this caller, or the role does not allow it.
    pub async fn permissions(
        &self,
        id: DocumentId,
        by: (Caller, Requester),
    ) -> Result<Answer, Failure> {
        let scope = by.0.scope;
        match self
            .ask(id, by, None, None, Request::List(Part::Permissions))
            .await?
        {
            Reply::Listed(mut found) => {
                let body = found
                    .pop()
                    .ok_or_else(|| AskError::impossible("no permission set"))?;
                self.permissions_shown(
                    scope,
                    Answer {
                        done: Done::Ok,
                        id: None,
                        etag: None,
                        body,
                        replayed: false,
                    },
                )
                .await
            }
            Reply::Answer(_)
            | Reply::Seen(_)
            | Reply::Opened(_)
            | Reply::Comments(..)
            | Reply::Prepared(_)
            | Reply::Stale(_) => Err(AskError::impossible("to a look at a permission set")),
        }
    }

    /// A permission set with its collaborators' e-mail addresses.
    async fn permissions_shown(&self, scope: Scope, answer: Answer) -> Result<Answer, Failure> {
        let mut set: Value = serde_json::from_slice(&answer.body)
            .map_err(|_| AskError::impossible("a permission set that is none"))?;
        let stored = tag(&answer.body);
        if let Some(Value::Array(list)) = set.get_mut("collaborators") {
            list.retain(|one| self.has_user(scope, one));
            for one in list {
                self.add_email(scope, one).await?;
            }
        }
        let body = to_json(&set);
        Ok(Answer {
            etag: Some(format!("{stored}-{}", tag(&body))),
            body,
            ..answer
        })
    }

    /// Changes the permission set.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn set_permissions(
        &self,
        id: DocumentId,
        by: (Caller, Requester),
        if_match: Option<Precondition>,
        set: SetPermissions,
    ) -> Result<Answer, Failure> {
        let scope = by.0.scope;
        let if_match = match if_match {
            Some(Precondition::OneOf(tags)) => {
                // The document knows its half of the tag; the other half is the e-mail addresses.
                let shown = self
                    .permissions(id, by.clone())
                    .await?
                    .etag
                    .filter(|shown| tags.contains(shown));
                let stored = shown.and_then(|tag| tag.split('-').next().map(str::to_owned));
                Some(Precondition::OneOf(stored.into_iter().collect()))
            }
            Some(Precondition::Any) | None => if_match,
        };
        let answer = self
            .change(
                id,
                by,
                if_match,
                None,
                Request::SetPermissions(Box::new(set)),
            )
            .await?;
        self.permissions_shown(scope, answer).await
    }

    /// A collaborator with the e-mail address.
    ///
    /// # Errors
    /// The store is away.
    pub async fn collaborator_shown(
        &self,
        scope: Scope,
        answer: Answer,
    ) -> Result<Answer, Failure> {
        let body = self
            .with_emails(scope, vec![answer.body.clone()])
            .await?
            .pop();
        Ok(Answer {
            body: body.ok_or_else(|| AskError::impossible("no collaborator"))?,
            ..answer
        })
    }

    /// Whether a collaborator, in JSON, is still a user.
    pub(super) fn is_there(&self, scope: Scope, collaborator: &[u8]) -> bool {
        serde_json::from_slice(collaborator).is_ok_and(|one: Value| self.has_user(scope, &one))
    }

    fn has_user(&self, scope: Scope, collaborator: &Value) -> bool {
        user_of(collaborator).is_some_and(|user| self.identity.user(scope, user).is_some())
    }

    pub(super) async fn with_emails(
        &self,
        scope: Scope,
        items: Vec<Bytes>,
    ) -> Result<Vec<Bytes>, Failure> {
        let mut shown = Vec::with_capacity(items.len());
        for item in items {
            let mut one: Value = serde_json::from_slice(&item)
                .map_err(|_| AskError::impossible("a collaborator that is none"))?;
            self.add_email(scope, &mut one).await?;
            shown.push(to_json(&one));
        }
        Ok(shown)
    }

    async fn add_email(&self, scope: Scope, collaborator: &mut Value) -> Result<(), Failure> {
        let email = match user_of(collaborator) {
            Some(id) => self.email(scope, id).await?,
            None => None,
        };
        if let Value::Object(fields) = collaborator {
            fields.insert("email".to_owned(), json!(email));
        }
        Ok(())
    }

    /// Lets a user in, by identifier or by e-mail address.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn add_collaborator(
        &self,
        id: DocumentId,
        by: (Caller, Requester),
        new: AddCollaborator,
        if_match: Option<Precondition>,
        reservation: Option<Reservation>,
    ) -> Result<Answer, Failure> {
        let scope = by.0.scope;
        // Who may not do it learns nothing of who is a user.
        self.ask(id, by.clone(), None, None, Request::List(Part::Permissions))
            .await?;
        let user = match (new.user_id, &new.email) {
            (Some(user), None) => user,
            (None, Some(email)) => self.user_of(scope, email).await?,
            (Some(_), Some(_)) => return Err(invalid("email", "must not stand beside user_id")),
            (None, None) => return Err(invalid("user_id", "must be given, or email")),
        };
        let email = self.email(scope, user).await?;
        self.change(
            id,
            by,
            if_match,
            reservation,
            Request::AddCollaborator(user, new.role, email),
        )
        .await
    }

    async fn email(&self, scope: Scope, id: UserId) -> Result<Option<String>, Failure> {
        let subject = Subject {
            kind: Kind::User,
            number: id.number(),
            tail: id.tail(),
        };
        match self.store.load(subject).await? {
            Some(Stored::Record(record)) if record.scope == scope.account_wide() => {
                let user: Value = serde_json::from_str(&record.body)
                    .map_err(|error| Unreadable::found(subject, error))?;
                Ok(user.get("email").and_then(Value::as_str).map(str::to_owned))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// The user with this e-mail address.
    async fn user_of(&self, scope: Scope, email: &Email) -> Result<UserId, Failure> {
        let paging = Paging {
            limit: 1,
            start: Start::Offset(0),
            order: Order::Desc,
        };
        let names = vec![(NameField::UserEmail, email.to_lowercase())];
        let query = RecordQuery {
            scope: scope.account_wide(),
            kind: Kind::User,
            names,
            paging,
        };
        let found = self.store.records(query).await.map_err(LoadError::from)?;
        let user = found
            .items
            .first()
            .map(|record| UserId::from_parts(record.subject.number, record.subject.tail));
        user.ok_or_else(|| invalid("email", "must be a user's e-mail address"))
    }
}

/// The user that a collaborator, in JSON, is.
fn user_of(collaborator: &Value) -> Option<UserId> {
    collaborator
        .get("user_id")
        .and_then(Value::as_str)
        .and_then(|id| id.parse().ok())
}
