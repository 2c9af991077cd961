//! Accounts and what belongs to them: keys, users, customers. Each is a supervised entity with one small record.

pub mod names;

mod account;
mod customer;
mod identity;
mod key;
mod user;

pub use account::{AccountView, ChangeAccount, CreateAccount, Plan};
pub use customer::{ChangeCustomer, CreateCustomer, CustomerView};
pub use identity::{Identity, KnownAccount, KnownKey, Principal, SecretHash, secret_hash};
pub use key::{ChangeKey, CreateKey, KeyType, KeyView, Permission, RotateKey};
pub use user::{ChangeUser, CreateUser, Role, UserView};
