//! Accounts and what belongs to them: keys, users, customers. Each is a supervised entity with one
//! small record.

pub mod record;
pub mod restore;

mod account;
mod attachment;
mod authorizations;
mod client;
mod customer;
mod domain;
mod domain_proofs;
mod erasure;
mod grant;
mod hosts;
mod identity;
mod key;
mod network;
mod nonces;
mod plans;
mod records;
mod redirect_uri;
mod sessions;
mod sign_in;
mod signing;
mod token_bearers;
mod unreadable_records;
mod user;

pub use account::{
    Account, AlterAccount, ChangeAccount, CreateAccount, ForgetAccount, MONTHLY_QUOTA_MAX,
    OpenAccount, ProveDomain,
};
pub(crate) use attachment::unsettled;
pub use attachment::{
    Attachment, AttachmentFile, BeginAttachment, CompleteAttachment, DropAttachment,
    ExpireAttachment, SettleAttachment, attachment, is_own_upload, object_name,
};
pub use authorizations::Authorizations;
pub use client::{ChangeClient, Client, CreateClient, EndToken, RotateClientSecret};
pub use customer::{ChangeCustomer, CreateCustomer, Customer, CustomerView, EraseCustomer};
pub use domain::{HostName, TxtAnswer};
pub use domain_proofs::{DomainProofs, ProofSettings, TxtRecords};
pub(crate) use erasure::erasure_of;
pub use erasure::{
    BeginErasure, CountErasure, Erasure, ErasureCounts, ErasureState, ErasureView, FinishErasure,
};
pub use grant::{
    Grant, IsCurrent, OpenGrant, RedeemCode, Refresh, RefreshHashes, RevokeGrant, Taken,
};
pub use hosts::Hosts;
pub use identity::{Identity, KnownAccount, KnownKey, KnownSession, Principal};
pub use key::{ChangeKey, CreateKey, IssueKey, KeepAnswer, Key, RevokeKey, RotateKey};
pub use nonces::Nonces;
pub use plans::{PlanRates, Plans, set_plans};
pub use records::{Filter, Records};
pub use redirect_uri::is_same as is_same_redirect_uri;
pub use sessions::{
    AcceptInvitation, ChangePassword, ChangeSession, EndSession, EndSessions, InviteUser,
    OpenSession,
};
pub use sign_in::token_holder;
pub use user::{ChangeUser, CreateOperator, CreateUser, User};
