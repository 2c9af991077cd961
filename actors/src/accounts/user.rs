//! A user: an agent or author of an account, in whose name keys may act.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::UserId;
use crate::present::present;
use crate::text::{Email, Name};
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
