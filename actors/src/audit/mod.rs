//! The audit trail: who did what, from where, and what was refused. What is committed is a record of
//! it already; here is recorded what has no commit of its own, and the trail is listed.

mod act;
mod details;
mod list;
mod refusals;
mod trail;
mod verifier;
mod views;

pub use crate::store::{Broken, ChainPage};
pub use act::{AuditedAct, Target};
pub use list::AuditList;
pub use refusals::Refusal;
pub use trail::AuditTrail;
pub use verifier::ChainVerifier;
pub use views::{AuditActor, AuditSubject, AuditView};
