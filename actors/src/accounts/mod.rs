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
mod sessions;
mod sign_in;
mod user;

pub use account::{Account, ChangeAccount, CreateAccount, OpenAccount, PlanRates, set_plans};
pub use customer::{ChangeCustomer, CreateCustomer, Customer, CustomerView};
pub use identity::{Identity, KnownAccount, KnownKey, KnownSession, Principal};
pub use key::{ChangeKey, CreateKey, IssueKey, KeepAnswer, Key, RevokeKey, RotateKey};
pub use records::{Filter, Records};
pub use sessions::{
    AcceptInvitation, ChangeSession, EndSession, EndSessions, InviteUser, OpenSession,
};
pub use sign_in::token_holder;
pub use user::{ChangeUser, CreateOperator, CreateUser, User};
