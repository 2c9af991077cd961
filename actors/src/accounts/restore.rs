//! Records out of the store, as the view of who may come in takes them.

use super::account::Account;
use super::identity::{KnownAccount, KnownKey};
use super::key::Key;
use super::user::User;
use colloquy_model::id::UserId;
use colloquy_model::key::Secrets;
use colloquy_model::user::KnownUser;

/// An account out of the store, for the view.
///
/// # Errors
/// It is no account.
pub fn restore_account(body: &str) -> serde_json::Result<KnownAccount> {
    serde_json::from_str::<Account>(body).map(|account| account.known())
}

/// A key out of the store, for the view.
///
/// # Errors
/// It is no key.
pub fn restore_key(body: &str) -> serde_json::Result<(KnownKey, Secrets)> {
    serde_json::from_str::<Key>(body).map(|key| key.known())
}

/// A user out of the store, for the view.
///
/// # Errors
/// It is no user.
pub fn restore_user(body: &str) -> serde_json::Result<(UserId, KnownUser)> {
    serde_json::from_str::<User>(body).map(|user| (user.view.user_id, user.known()))
}
