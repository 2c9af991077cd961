//! A user: an agent or author of an account, in whose name keys may act.

use bytes::Bytes;
use serde::Deserialize;
use utoipa::ToSchema;

use super::Identity;
use super::record::{
    CommandContext, DeleteRecord, Deletion, NewRecord, Outcome, RecordError, RecordRequest,
    RecordSpec, Secret, to_json,
};
use colloquy_model::answer::Answer;
use colloquy_model::commit::{Chore, Condition, Effect, NameField, RecordName};
use colloquy_model::entity::Kind;
use colloquy_model::id::UserKind;
use colloquy_model::present::present;
use colloquy_model::text::{Email, Name, Text};
use colloquy_model::user::{Role, UserView};

/// Makes a user.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// A name for people to read; nothing depends on it.
    pub name: Name,
    /// Unique in the account.
    pub email: Email,
    /// What the user may do.
    pub role: Role,
}

/// Changes a user.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeUser {
    /// A name for people to read; nothing depends on it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub name: Option<Name>,
    /// Unique in the account.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub email: Option<Email>,
    /// What the user may do.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub role: Option<Role>,
}

/// A user as its record is stored, and as it is shown.
pub type User = UserView;

impl RecordRequest<User> for CreateUser {
    type Reply = Answer;

    fn decide(self, _: &User, _: &CommandContext<User>) -> Result<Outcome<User>, RecordError> {
        Err(RecordError::NotFound)
    }

    fn decide_vacant(self, context: &CommandContext<User>) -> Result<NewRecord<User>, RecordError> {
        let made = context.id.created_at();
        Ok(NewRecord::new(UserView {
            user_id: context.id,
            name: self.name.into_string(),
            email: self.email.into_string(),
            role: self.role,
            created_at: made,
            updated_at: made,
        }))
    }
}

impl RecordRequest<User> for ChangeUser {
    type Reply = Answer;

    fn decide(
        self,
        held: &User,
        context: &CommandContext<User>,
    ) -> Result<Outcome<User>, RecordError> {
        let mut user = held.clone();
        user.name = self.name.map_or(user.name, Text::into_string);
        user.email = self.email.map_or(user.email, Text::into_string);
        user.role = self.role.unwrap_or(user.role);
        if user == *held {
            return Ok(Outcome::Show);
        }
        user.updated_at = context.now.max(held.updated_at);
        Ok(Outcome::Put(user, Vec::new()))
    }
}

/// A user is deleted who owns no document; assignments read as null from the answer on.
impl RecordRequest<User> for DeleteRecord {
    type Reply = Answer;

    fn decide(
        self,
        _: &User,
        context: &CommandContext<User>,
    ) -> Result<Outcome<User>, RecordError> {
        Ok(Outcome::Delete(Deletion {
            conditions: vec![Condition::NoDocuments(context.id)],
            effects: vec![Effect::UserGone(context.tenant, context.id)],
            chore: Some(Chore::Unassign(context.tenant, context.id)),
        }))
    }
}

impl RecordSpec for User {
    const KIND: Kind = Kind::User;
    const NAME: &'static str = "user";
    type Named = UserKind;

    fn show(&self, _: &Identity, _: Secret<'_>) -> Bytes {
        to_json(self)
    }

    fn label(&self) -> &str {
        &self.name
    }

    fn names(&self) -> Vec<RecordName> {
        vec![RecordName {
            field: NameField::UserEmail,
            value: self.email.to_lowercase(),
        }]
    }

    fn effects(&self, _: Option<&Self>, context: &CommandContext<Self>) -> Vec<Effect> {
        vec![Effect::User(context.tenant, self.user_id, self.role)]
    }
}
