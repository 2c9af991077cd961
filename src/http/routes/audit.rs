//! The audit trail: an account's own, and for operators that of all.

use colloquy_actors::audit::AuditList;
use colloquy_model::audit::{AuditAction, AuditOutcome};
use colloquy_model::caller::Tenant;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::{AccountId, AuditId, AuditKind, ClientId, KeyId, UserId};
use colloquy_model::json;
use colloquy_model::page::Order;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use super::super::api_call::ApiCall;
use super::super::output::{CachePolicy, LinkStyle, Listing, Output, Text};
use super::super::problem::Problem;
use super::super::query::{OFFSET_MAX, Part};

/// What both lists may be asked. A query is read by the names of one struct, so that an unknown one
/// can be refused: what they share is written once all the same.
macro_rules! filters {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Debug, Deserialize, IntoParams)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $($own)*
            /// Only what this user, key or client did.
            #[param(pattern = "^(usr|key|cli)_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$")]
            actor: Option<String>,
            /// Only this, such as `key.created` or `message.created`.
            action: Option<String>,
            /// Only what was done to this: the id of an account, conversation, document, customer, user, key …
            subject: Option<String>,
            /// Only what was done, or only what was refused.
            #[param(inline)]
            outcome: Option<AuditOutcome>,
            /// Only what was done after this instant.
            #[param(inline)]
            since: Option<Timestamp>,
            /// Only what was done before this instant.
            #[param(inline)]
            until: Option<Timestamp>,
            /// How many at most. Default: 20.
            #[param(minimum = 1, maximum = 100)]
            limit: Option<u32>,
            /// How many to leave out first. Default: 0.
            #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
            offset: Option<u64>,
            /// A record's id: what follows it in the list's order.
            #[param(inline, value_type = Option<AuditId>)]
            after: Option<String>,
            /// A record's id: what stands directly before it in the list's order.
            #[param(inline, value_type = Option<AuditId>)]
            before: Option<String>,
            /// The list's direction. Default: `desc`.
            #[param(inline)]
            order: Option<Order>,
        }

        impl $name {
            /// The page of this trail; `shown` names the account of a record.
            fn list<'s>(&self, trail: &Trail, shown: &'s Shown<'s>) -> Result<AuditList<'s>, Problem> {
                let part = Part {
                    limit: self.limit,
                    offset: self.offset,
                    after: self.after.as_deref(),
                    before: self.before.as_deref(),
                    order: self.order,
                };
                Ok(AuditList {
                    trail: trail.tenant,
                    account: trail.account,
                    paging: part.paging::<AuditKind>(Order::Desc)?,
                    actor: self.actor.as_deref().map(actor).transpose()?,
                    action: self.action.as_deref().map(action).transpose()?,
                    subject: self.subject.as_deref().map(subject).transpose()?,
                    outcome: self.outcome,
                    since: self.since,
                    until: self.until,
                    shown,
                })
            }
        }
    };
}

filters! {
    /// What an account's audit trail may be asked.
    AuditFilters {}
}

filters! {
    /// What the operators' audit trail may be asked.
    AllAuditFilters {
        /// Only the trail of this account.
        #[param(inline, value_type = Option<AccountId>)]
        account_id: Option<String>,
    }
}

/// Which records of the chain are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ChainQuery {
    /// Behind this position. Default: 0.
    #[param(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    after: Option<u64>,
    /// How many at most. Default: 1000.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<u32>,
}

/// Records of the chain at most at once.
const CHAIN_MAX: u32 = 1_000;

pub(super) async fn chain(call: ApiCall, query: ChainQuery) -> Result<Output, Problem> {
    let limit = query.limit.unwrap_or(CHAIN_MAX);
    if !(1..=CHAIN_MAX).contains(&limit) {
        let reason = format!("must be an integer from 1 to {CHAIN_MAX}");
        return Err(Problem::invalid("limit", reason));
    }
    let after = query.after.unwrap_or(0);
    if after > OFFSET_MAX {
        return Err(Problem::invalid(
            "after",
            "must be an integer within its bounds",
        ));
    }
    let after = Position(i64::try_from(after).unwrap_or(i64::MAX));
    let page = call.app.system.audit.chain(after, limit).await?;
    Ok(Output::Text(Text {
        body: json::bytes(&page),
        media_type: "application/json",
        cache: CachePolicy::NoStore,
        room: None,
    }))
}

/// Whose trail is shown.
struct Trail {
    tenant: Tenant,
    account: Option<AccountId>,
}

/// Names the account of a record, for those who see several.
type Shown<'s> = dyn Fn(Tenant) -> Option<AccountId> + Sync + 's;

pub(super) async fn list(call: ApiCall, query: AuditFilters) -> Result<Output, Problem> {
    let principal = call.principal().ok_or_else(Problem::not_found)?;
    let trail = Trail {
        tenant: call.account_wide(),
        account: Some(principal.account.view.account_id),
    };
    page(&call, query.list(&trail, &|_| None)?).await
}

pub(super) async fn list_all(call: ApiCall, query: AllAuditFilters) -> Result<Output, Problem> {
    let identity = &call.app.system.identity;
    let trail = match &query.account_id {
        None => Trail {
            tenant: Tenant::OPERATORS,
            account: None,
        },
        Some(id) => {
            let known = id.parse().ok().and_then(|id| identity.account(id));
            let known = known
                .ok_or_else(|| Problem::invalid("account_id", "must be a valid account ID"))?;
            Trail {
                tenant: Tenant::account(known.number),
                account: Some(known.view.account_id),
            }
        }
    };
    let named = |tenant: Tenant| {
        let account = identity.account_numbered(tenant.account_number())?;
        Some(account.view.account_id)
    };
    page(&call, query.list(&trail, &named)?).await
}

async fn page(call: &ApiCall, list: AuditList<'_>) -> Result<Output, Problem> {
    let paging = list.paging;
    Ok(Output::Page(Listing {
        page: call.app.system.audit.list(list).await?,
        paging,
        style: LinkStyle::Plain,
    }))
}

fn action(word: &str) -> Result<AuditAction, Problem> {
    let reason = "must be what is done, such as message.created or key.created";
    AuditAction::from_word(word).ok_or_else(|| Problem::invalid("action", reason))
}

/// The number of the user or credential of this identifier.
fn actor(text: &str) -> Result<EntityNumber, Problem> {
    let user = text.parse().map(|id: UserId| id.number());
    let key = || text.parse().map(|id: KeyId| id.number());
    let client = || text.parse().map(|id: ClientId| id.number());
    let found = user.or_else(|_| key()).or_else(|_| client());
    found.map_err(|_| Problem::invalid("actor", "must be a valid user, key or client ID"))
}

fn subject(text: &str) -> Result<Subject, Problem> {
    let reason = "must be the ID of what something is done to";
    Subject::from_id(text)
        .filter(|subject| subject.kind != Kind::Audit)
        .ok_or_else(|| Problem::invalid("subject", reason))
}
