//! A user: an agent or author of an account, in whose name keys may act.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Identity;
use super::record::{RecordError, Rules, Secret, Setting, Step, to_json};
use crate::id::{UserId, UserKind};
use crate::present::present;
use crate::store::{Chore, Condition, Effect, Kind, NameField};
use crate::text::{Email, Name, Text};
use crate::time::Timestamp;

/// What a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything.
    Admin,
    /// All but users and webhooks.
    Agent,
}

/// Makes a user.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// For people.
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
    /// For people.
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

/// A user as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, ToSchema)]
#[schema(as = User)]
pub struct UserView {
    /// Names it.
    pub user_id: UserId,
    /// For people.
    pub name: String,
    /// Unique in the account.
    pub email: String,
    /// What the user may do.
    pub role: Role,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}

/// What a user may be asked.
#[derive(Debug)]
pub enum UserRequest {
    /// Make it.
    Create(CreateUser),
    /// Show it.
    Read,
    /// Change it.
    Change(ChangeUser),
    /// Delete it; its assignments read as null from the answer on.
    Delete,
}

/// A user as it is stored.
pub type User = UserView;

impl Rules for User {
    const KIND: Kind = Kind::User;
    const NAME: &'static str = "user";
    type Named = UserKind;
    type Request = UserRequest;

    fn judge(
        current: Option<&Self>,
        request: UserRequest,
        setting: &Setting<Self>,
    ) -> Result<Step<Self>, RecordError> {
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
                Ok(Step::Put(user, Vec::new()))
            }
            (Some(_), UserRequest::Read) => Ok(Step::Show),
            (Some(held), UserRequest::Change(change)) => {
                let mut user = held.clone();
                user.name = change.name.map_or(user.name, Text::into_string);
                user.email = change.email.map_or(user.email, Text::into_string);
                user.role = change.role.unwrap_or(user.role);
                if user == *held {
                    return Ok(Step::Show);
                }
                user.updated_at = Timestamp(setting.now.max(held.updated_at.0));
                Ok(Step::Put(user, Vec::new()))
            }
            (Some(_), UserRequest::Delete) => {
                let gone = Effect::UserGone(setting.scope, setting.id);
                let conditions = vec![Condition::NoDocuments(setting.id)];
                Ok(Step::Delete(
                    conditions,
                    vec![gone],
                    Some(Chore::Unassign(setting.scope, setting.id)),
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

    fn effects(&self, _: Option<&Self>, setting: &Setting<Self>) -> Vec<Effect> {
        vec![Effect::User(setting.scope, self.user_id, self.role)]
    }
}
