//! A user as the interface shows it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use std::sync::Arc;

use crate::caller::Mode;
use crate::id::{AccountId, UserId};
use crate::key::{Permission, SecretHash};
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

/// An operator as the interface shows it: a person who signs in to the console.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Operator)]
pub struct OperatorView<'a> {
    /// The identifier of the operator.
    pub operator_id: UserId,
    /// By which the operator signs in.
    pub name: &'a str,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
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

/// What of a user is held in memory: the rights, and with what the user signs in to the console.
#[derive(Debug, Clone)]
pub struct KnownUser {
    /// What the user may do.
    pub role: Role,
    /// A name for people to read.
    pub name: String,
    /// By which the user signs in, in lower case: an e-mail address, or an operator's name.
    pub sign_in_name: String,
    /// The password's hash, in PHC form; none where none was set.
    pub password: Option<Arc<str>>,
    /// The hash of the invitation's token, and until when it holds.
    pub invitation: Option<(SecretHash, Timestamp)>,
    /// What the user may at most do in the console.
    pub bounds: SignInBounds,
    /// The user's sessions in the console.
    pub sessions: Vec<SessionTerms>,
}

impl KnownUser {
    /// A user whose record can't be read: may do the least, and does not sign in.
    #[must_use]
    pub fn unreadable() -> Self {
        KnownUser {
            role: Role::Agent,
            name: String::new(),
            sign_in_name: String::new(),
            password: None,
            invitation: None,
            bounds: SignInBounds::default(),
            sessions: Vec::new(),
        }
    }
}

/// What a person in the console may at most do: what the credential could that invited the person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SignInBounds {
    /// Test data only.
    pub test_only: bool,
    /// These scopes and no other; none: all that the role may.
    pub scopes: Option<Vec<Permission>>,
}

impl SignInBounds {
    /// Whether they bound nothing.
    #[must_use]
    pub fn are_none(&self) -> bool {
        !self.test_only && self.scopes.is_none()
    }
}

/// What a session in the console lets its browser do, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTerms {
    /// The hash of the token that the browser's cookie holds.
    pub token: SecretHash,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it ends by itself.
    pub ends_at: Timestamp,
    /// The data that it shows.
    pub mode: Mode,
    /// The account whose side an operator has opened.
    pub account: Option<AccountId>,
    /// The hash of the operator token with which it was opened; it ends with that token.
    pub operator_token: Option<SecretHash>,
    /// What it may at most do.
    #[serde(default, skip_serializing_if = "SignInBounds::are_none")]
    pub bounds: SignInBounds,
}
