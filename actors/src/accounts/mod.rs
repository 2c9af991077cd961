//! Accounts and what belongs to them: keys, users, customers. Each is a supervised entity with one
//! small record.

pub mod names;
pub mod record;
pub mod restore;
pub mod secret;

mod account;
mod customer;
mod identity;
mod key;
mod network;
mod records;
mod user;

pub use account::{
    Account, AccountNumber, AccountRequest, AccountView, ChangeAccount, CreateAccount, Plan,
    PlanRates, set_plans,
};
pub use customer::{ChangeCustomer, CreateCustomer, Customer, CustomerRequest, CustomerView};
pub use identity::{Identity, KnownAccount, KnownKey, Principal, SecretHash, Secrets, secret_hash};
pub use key::{ChangeKey, CreateKey, Key, KeyRequest, KeyType, KeyView, Permission, RotateKey};
pub use records::{Filter, Records};
pub use user::{ChangeUser, CreateUser, Role, User, UserRequest, UserView};
