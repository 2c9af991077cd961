//! Records out of the store, as the view of who may come in takes them.

use super::account::Account;
use super::client::Client;
use super::grant::Grant;
use super::identity::{KnownAccount, KnownKey};
use super::key::Key;
use super::user::User;
use colloquy_model::account::TextKeys;
use colloquy_model::caller::Tenant;
use colloquy_model::client::{KnownClient, KnownGrant};
use colloquy_model::id::UserId;
use colloquy_model::key::Secrets;
use colloquy_model::user::KnownUser;

/// An account out of the store, for the view, with the keys of its texts.
///
/// # Errors
/// It is no account.
pub fn restore_account(body: &str) -> serde_json::Result<(KnownAccount, TextKeys)> {
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

/// A client out of the store, for the view.
///
/// # Errors
/// It is no client.
pub fn restore_client(body: &str, tenant: Tenant) -> serde_json::Result<KnownClient> {
    serde_json::from_str::<Client>(body).map(|client| client.known(tenant))
}

/// A grant out of the store, for the view.
///
/// # Errors
/// It is no grant.
pub fn restore_grant(body: &str, tenant: Tenant) -> serde_json::Result<KnownGrant> {
    serde_json::from_str::<Grant>(body).map(|grant| grant.known(tenant))
}
