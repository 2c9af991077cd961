//! Accounts and what belongs to them: keys, users, customers. Each is a supervised entity with one
//! small record.

pub mod record;
pub mod restore;

mod account;
mod customer;
mod identity;
mod key;
mod network;
mod records;
mod user;

pub use account::{Account, AccountRequest, ChangeAccount, CreateAccount, PlanRates, set_plans};
pub use customer::{ChangeCustomer, CreateCustomer, Customer, CustomerRequest, CustomerView};
pub use identity::{Identity, KnownAccount, KnownKey, Principal};
pub use key::{ChangeKey, CreateKey, Key, KeyRequest, RotateKey};
pub use records::{Filter, Records};
pub use user::{ChangeUser, CreateUser, User, UserRequest};
