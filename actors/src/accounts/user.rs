//! A user: an agent or author of an account, in whose name keys may act.

use bytes::Bytes;
use serde::Deserialize;
use utoipa::ToSchema;

use super::Identity;
use super::record::{CommandContext, Outcome, RecordError, RecordSpec, Secret, to_json};
use colloquy_model::commit::{Chore, Condition, Effect, NameField};
use colloquy_model::entity::Kind;
use colloquy_model::id::UserKind;
use colloquy_model::present::present;
use colloquy_model::text::{Email, Name, Text};
use colloquy_model::time::Timestamp;
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

/// What a user may be asked.
#[derive(Debug)]
pub enum UserRequest {
    /// Create the entity.
    Create(CreateUser),
    /// Show the entity as it is.
    Read,
    /// Change what is given of it.
    Change(ChangeUser),
    /// Delete it; its assignments read as null from the answer on.
    Delete,
}

/// A user as it is stored.
pub type User = UserView;

impl RecordSpec for User {
    const KIND: Kind = Kind::User;
    const NAME: &'static str = "user";
    type Named = UserKind;
    type Request = UserRequest;

    fn judge(
        current: Option<&Self>,
        request: UserRequest,
        setting: &CommandContext<Self>,
    ) -> Result<Outcome<Self>, RecordError> {
        match (current, request) {
            (None, UserRequest::Create(new)) => {
                let made = Timestamp(setting.id.created_ms());
                let user = UserView {
                    user_id: setting.id,
                    name: new.name.into_string(),
                    email: new.email.into_string(),
                    role: new.role,
                    created_at: made,
                    updated_at: made,
                };
                Ok(Outcome::Put(user, Vec::new()))
            }
            (Some(_), UserRequest::Read) => Ok(Outcome::Show),
            (Some(held), UserRequest::Change(change)) => {
                let mut user = held.clone();
                user.name = change.name.map_or(user.name, Text::into_string);
                user.email = change.email.map_or(user.email, Text::into_string);
                user.role = change.role.unwrap_or(user.role);
                if user == *held {
                    return Ok(Outcome::Show);
                }
                user.updated_at = Timestamp(setting.now.max(held.updated_at.0));
                Ok(Outcome::Put(user, Vec::new()))
            }
            (Some(_), UserRequest::Delete) => {
                let gone = Effect::UserGone(setting.tenant, setting.id);
                let conditions = vec![Condition::NoDocuments(setting.id)];
                Ok(Outcome::Delete(
                    conditions,
                    vec![gone],
                    Some(Chore::Unassign(setting.tenant, setting.id)),
                ))
            }
            (None | Some(_), _) => Err(RecordError::NotFound),
        }
    }

    fn show(&self, _: &Identity, _: Secret<'_>) -> Bytes {
        to_json(self)
    }

    fn label(&self) -> &str {
        &self.name
    }

    fn names(&self) -> Vec<(NameField, String)> {
        vec![(NameField::UserEmail, self.email.to_lowercase())]
    }

    fn effects(&self, _: Option<&Self>, setting: &CommandContext<Self>) -> Vec<Effect> {
        vec![Effect::User(setting.tenant, self.user_id, self.role)]
    }
}
