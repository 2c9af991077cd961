//! A page of the audit trail, as the interface asks for it and shows it.

use bytes::{BufMut, BytesMut};
use colloquy_model::audit::{AuditAction, AuditOutcome};
use colloquy_model::caller::Tenant;
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{AccountId, AuditId};
use colloquy_model::json;
use colloquy_model::page::{Page, Paging};
use colloquy_model::time::Timestamp;

use super::views::AuditView;
use crate::store::{AuditQuery, AuditRow, StoredPage};

/// Which records a list shows, and which page of it.
pub struct AuditList<'a> {
    /// The account whose trail it is; [`Tenant::OPERATORS`]: all of them.
    pub trail: Tenant,
    /// The account itself.
    pub account: Option<AccountId>,
    /// Only what this user, or the holder of this credential, did.
    pub actor: Option<EntityNumber>,
    /// Only this.
    pub action: Option<AuditAction>,
    /// Only what was done to this.
    pub subject: Option<Subject>,
    /// Only what was done, or only what was refused.
    pub outcome: Option<AuditOutcome>,
    /// Only after this instant …
    pub since: Option<Timestamp>,
    /// … and before this one.
    pub until: Option<Timestamp>,
    /// The page.
    pub paging: Paging,
    /// Names the account of a record, for those who see several.
    pub shown: &'a (dyn Fn(Tenant) -> Option<AccountId> + Sync),
}

impl From<AuditList<'_>> for AuditQuery {
    fn from(list: AuditList<'_>) -> Self {
        AuditQuery {
            trail: list.trail.account_wide(),
            account: list.account.map(|account| account.number()),
            actor: list.actor,
            action: list.action,
            subject: list.subject,
            outcome: list.outcome,
            since: list.since,
            until: list.until,
            paging: list.paging,
        }
    }
}

/// The page of these records.
pub(super) fn page(
    found: &StoredPage<AuditRow>,
    account: &(dyn Fn(Tenant) -> Option<AccountId> + Sync),
) -> Page {
    let id = |row: &AuditRow| AuditId::at_position(row.at, row.position).to_string();
    let mut data = BytesMut::from(&b"["[..]);
    for row in &found.items {
        if data.len() > 1 {
            data.put_u8(b',');
        }
        let view = AuditView::of(row, account(row.tenant));
        data.extend_from_slice(&json::bytes(&view));
    }
    data.put_u8(b']');
    Page {
        data: data.freeze().into(),
        count: u32::try_from(found.items.len()).unwrap_or(u32::MAX),
        total: found.total,
        first: found.items.first().map(id),
        last: found.items.last().map(id),
        before: found.before,
        after: found.after,
    }
}
