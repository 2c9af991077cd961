//! A user as the interface shows it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::UserId;
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

/// A user as the interface shows it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, ToSchema)]
#[schema(as = User)]
pub struct UserView {
    /// The identifier of the user.
    pub user_id: UserId,
    /// A name for people to read; nothing depends on it.
    pub name: String,
    /// Unique in the account.
    pub email: String,
    /// What the user may do.
    pub role: Role,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
}
