//! The way in to who may do what: collaborators, who are users and have e-mail addresses, and the
//! permission set.

use super::messages::{
    AddCollaborator, ChangeRole, CommandMeta, GrantRole, ReadPermissions, SetPermissions,
};
use super::refusal::{Failure, invalid};
use super::service::Documents;
use super::state::{tag, to_json};
use crate::store::{RecordQuery, Stored};
use bytes::Bytes;
use colloquy_model::answer::{Answer, Precondition};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{NameField, RecordName};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::id::{DocumentId, UserId};
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::text::Email;
use colloquy_runtime::{AskError, LoadError};
use serde_json::{Value, json};

impl Documents {
    /// The permission set.
    ///
    /// # Errors
    /// The document is not there for this caller, or the role does not allow it.
    pub async fn permissions(&self, id: DocumentId, meta: CommandMeta) -> Result<Answer, Failure> {
        let tenant = meta.caller.tenant;
        let answer = self.ask(id, meta, ReadPermissions).await?;
        self.permissions_shown(tenant, answer).await
    }

    /// A permission set with its collaborators' e-mail addresses.
    async fn permissions_shown(&self, tenant: Tenant, answer: Answer) -> Result<Answer, Failure> {
        let mut set: Value = serde_json::from_slice(&answer.body)
            .map_err(|_| AskError::impossible("a permission set that is none"))?;
        let stored = tag(&answer.body);
        if let Some(Value::Array(list)) = set.get_mut("collaborators") {
            list.retain(|one| self.has_user(tenant, one));
            for one in list {
                self.add_email(tenant, one).await?;
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
        mut meta: CommandMeta,
        set: SetPermissions,
    ) -> Result<Answer, Failure> {
        let tenant = meta.caller.tenant;
        if let Some(Precondition::OneOf(tags)) = &meta.if_match {
            // The document knows its half of the tag; the other half is the e-mail addresses.
            let before = CommandMeta::new(meta.caller.clone(), meta.requester);
            let shown = self.permissions(id, before).await?.etag;
            let shown = shown.filter(|shown| tags.contains(shown));
            let stored = shown.and_then(|tag| tag.split('-').next().map(str::to_owned));
            meta.if_match = Some(Precondition::OneOf(stored.into_iter().collect()));
        }
        let answer = self.ask(id, meta, set).await?;
        self.permissions_shown(tenant, answer).await
    }

    /// Changes a collaborator's role.
    ///
    /// # Errors
    /// Its refusal, or why it could not be asked.
    pub async fn change_role(
        &self,
        id: DocumentId,
        meta: CommandMeta,
        change: ChangeRole,
    ) -> Result<Answer, Failure> {
        let tenant = meta.caller.tenant;
        let answer = self.ask(id, meta, change).await?;
        let body = self.with_email(tenant, answer.body).await?;
        Ok(Answer { body, ..answer })
    }

    fn has_user(&self, tenant: Tenant, collaborator: &Value) -> bool {
        user_of(collaborator).is_some_and(|user| self.identity.user(tenant, user).is_some())
    }

    /// A collaborator, in JSON, with the e-mail address.
    ///
    /// # Errors
    /// The store is unavailable.
    pub(super) async fn with_email(
        &self,
        tenant: Tenant,
        collaborator: Bytes,
    ) -> Result<Bytes, Failure> {
        let mut shown: Value = serde_json::from_slice(&collaborator)
            .map_err(|_| AskError::impossible("a collaborator that is none"))?;
        self.add_email(tenant, &mut shown).await?;
        Ok(to_json(&shown))
    }

    async fn add_email(&self, tenant: Tenant, collaborator: &mut Value) -> Result<(), Failure> {
        let email = match user_of(collaborator) {
            Some(id) => self.email(tenant, id).await?,
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
        meta: CommandMeta,
        new: AddCollaborator,
    ) -> Result<Answer, Failure> {
        let tenant = meta.caller.tenant;
        // Who may not do it learns nothing of who is a user.
        let before = CommandMeta::new(meta.caller.clone(), meta.requester);
        self.ask(id, before, ReadPermissions).await?;
        let user = match (new.user_id, &new.email) {
            (Some(user), None) => user,
            (None, Some(email)) => self.user_of(tenant, email).await?,
            (Some(_), Some(_)) => return Err(invalid("email", "must not stand beside user_id")),
            (None, None) => return Err(invalid("user_id", "must be given, or email")),
        };
        let email = self.email(tenant, user).await?;
        let role = new.role;
        self.ask(id, meta, GrantRole { user, role, email }).await
    }

    async fn email(&self, tenant: Tenant, id: UserId) -> Result<Option<String>, Failure> {
        let subject = Subject {
            kind: Kind::User,
            number: id.number(),
            tail: id.tail(),
        };
        match self.store.load(subject).await? {
            Some(Stored::Record(record)) if record.tenant == tenant.account_wide() => {
                let user: Value = serde_json::from_str(&record.body)
                    .map_err(|error| Unreadable::found(subject, error))?;
                Ok(user.get("email").and_then(Value::as_str).map(str::to_owned))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// The user with this e-mail address.
    async fn user_of(&self, tenant: Tenant, email: &Email) -> Result<UserId, Failure> {
        let paging = Paging {
            limit: 1,
            start: Start::Offset(0),
            order: Order::Desc,
        };
        let name = RecordName {
            field: NameField::UserEmail,
            value: email.to_lowercase(),
        };
        let query = RecordQuery {
            tenant: tenant.account_wide(),
            kind: Kind::User,
            names: vec![name],
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
