//! An account: the customer of the platform. It has a plan and owns everything else.

use bytes::Bytes;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Identity;
use super::domain::{
    HostName, TxtAnswer, host_names, host_names_present, listed, origins, origins_present, proven,
};
use super::identity::KnownAccount;
use super::network::{networks, networks_present};
use super::plans::plan_rates;
use super::record::{
    CommandContext, NewRecord, Outcome, RecordError, RecordRequest, RecordSpec, Secret, to_json,
};
use crate::sealing::texts;
use colloquy_model::account::{AccountNumber, AccountView, Plan, TextKeys};
use colloquy_model::answer::{Answer, Invalid};
use colloquy_model::commit::{Effect, NameField, RecordName};
use colloquy_model::domain::DomainView;
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{AccountId, AccountKind};
use colloquy_model::present::present;
use colloquy_model::text::{Name, Text};
use colloquy_model::time::Timestamp;

/// Why an account that was forgotten is not changed.
const FORGOTTEN: &str = "the account was forgotten";

/// Makes an account.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateAccount {
    /// The name for people; it need not be unique.
    pub name: Name,
    /// Default: `basic`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub plan: Option<Plan>,
    /// Requests a minute; `enterprise` only, and required there.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub rate_per_minute: Option<u32>,
    /// At least the rate; `enterprise` only. Default: 1.5 times the rate.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 15_000_000)]
    pub burst_per_minute: Option<u32>,
    /// Requests per calendar month (UTC); 0: no bound; null: as the plan has it.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    pub monthly_quota: Option<u64>,
    /// Addresses that may use its keys (CIDR); empty: all.
    #[serde(default, deserialize_with = "networks")]
    #[schema(value_type = Vec<String>)]
    pub allowed_ips: Vec<IpNet>,
    /// After how long without a message, a reopening or a waking a conversation closes by itself;
    /// null: never.
    #[serde(default)]
    #[schema(minimum = 10, maximum = 525_600)]
    pub auto_close_after_minutes: Option<u32>,
    /// Host names of its own at which it is to be reached; each has to be proven by a TXT record.
    #[serde(default, deserialize_with = "host_names")]
    #[schema(value_type = Vec<String>)]
    pub domains: Vec<HostName>,
    /// Origins whose pages may call; `*`: all; null: those that config.toml names.
    #[serde(default, deserialize_with = "origins")]
    pub cors_origins: Option<Vec<String>>,
    /// How many days a closed conversation is kept; then it is erased for good. Null: for ever.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3_650)]
    pub retention_days: Option<u32>,
}

/// Changes an account.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeAccount {
    /// The name for people; it need not be unique.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub name: Option<Name>,
    /// The plan from now on.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    pub plan: Option<Plan>,
    /// Requests a minute; `enterprise` only.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, minimum = 1, maximum = 10_000_000)]
    pub rate_per_minute: Option<u32>,
    /// At least the rate; `enterprise` only.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, minimum = 1, maximum = 15_000_000)]
    pub burst_per_minute: Option<u32>,
    /// Requests per calendar month (UTC); 0: no bound; null: as the plan has it. What was used of
    /// the month stays used.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 9_007_199_254_740_991_u64)]
    pub monthly_quota: Option<Option<u64>>,
    /// Addresses that may use its keys (CIDR); empty: all.
    #[serde(default, deserialize_with = "networks_present")]
    #[schema(nullable = false, value_type = Option<Vec<String>>)]
    pub allowed_ips: Option<Vec<IpNet>>,
    /// After how long without a message, a reopening or a waking a conversation closes by itself;
    /// null: never.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u32>, minimum = 10, maximum = 525_600)]
    pub auto_close_after_minutes: Option<Option<u32>>,
    /// How many days a closed conversation is kept; then it is erased for good. Null: for ever.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 3_650)]
    pub retention_days: Option<Option<u32>>,
    /// Host names of its own at which it is to be reached, all of them: one that is not named any
    /// more is given up, and a new one has to be proven by a TXT record.
    #[serde(default, deserialize_with = "host_names_present")]
    #[schema(nullable = false, value_type = Option<Vec<String>>)]
    pub domains: Option<Vec<HostName>>,
    /// Origins whose pages may call; `*`: all; null: those that config.toml names.
    #[serde(default, deserialize_with = "origins_present")]
    #[schema(value_type = Option<Vec<String>>)]
    pub cors_origins: Option<Option<Vec<String>>>,
}

/// Changes an account, with what is known elsewhere of the domains that it is to have.
#[derive(Debug)]
pub struct AlterAccount {
    /// What is asked for.
    pub change: ChangeAccount,
    /// The place in its list of a domain that another account has proven.
    pub taken: Option<usize>,
}

/// Takes a domain as the account's own if its TXT record says so. Once more, it changes nothing.
#[derive(Debug)]
pub struct ProveDomain {
    /// The host name.
    pub host: String,
    /// What its TXT record was found to hold.
    pub found: TxtAnswer,
}

/// Destroys the keys of an account's texts, so that nobody can read them any more, and lets nobody
/// in. Once more, it changes nothing.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgetAccount {}

/// Opens an account under a number that no account has had.
#[derive(Debug)]
pub struct OpenAccount {
    /// The account as the operator asks for it.
    pub new: CreateAccount,
    /// The number under which data of the account is stored.
    pub number: AccountNumber,
}

/// An account as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Account {
    account_id: AccountId,
    number: AccountNumber,
    name: String,
    plan: Plan,
    /// Enterprise only: rate and burst.
    rates: Option<(u32, u32)>,
    /// Its own in place of the plan's. Older records don't have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    monthly_quota: Option<u64>,
    allowed_ips: Vec<IpNet>,
    /// Older records don't have it.
    #[serde(default)]
    auto_close_after_minutes: Option<u32>,
    /// Older records don't have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    domains: Vec<DomainView>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cors_origins: Option<Vec<String>>,
    /// Older records don't have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retention_days: Option<u32>,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(
        with = "crate::sealing::texts::text_keys",
        default,
        skip_serializing_if = "texts::is_none"
    )]
    text_keys: TextKeys,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forgotten_at: Option<Timestamp>,
}

impl Account {
    fn view(&self) -> AccountView {
        let plan = plan_rates(self.plan);
        let rates = plan.map(|plan| (plan.rate_per_minute, plan.burst_per_minute));
        let (rate, burst) = rates.or(self.rates).unwrap_or((1, 1));
        let plan_quota = plan.map_or(0, |plan| plan.monthly_quota);
        AccountView {
            account_id: self.account_id,
            name: self.name.clone(),
            plan: self.plan,
            rate_per_minute: rate,
            burst_per_minute: burst,
            monthly_quota: self.monthly_quota.unwrap_or(plan_quota),
            allowed_ips: self.allowed_ips.clone(),
            auto_close_after_minutes: self.auto_close_after_minutes,
            domains: self.domains.clone(),
            cors_origins: self.cors_origins.clone(),
            retention_days: self.retention_days,
            created_at: self.created_at,
            updated_at: self.updated_at,
            forgotten_at: self.forgotten_at,
        }
    }

    /// The account as the view of who may come in holds it, and the keys of its texts.
    pub(super) fn known(self) -> (KnownAccount, TextKeys) {
        let known = KnownAccount {
            view: self.view(),
            number: self.number.0,
            own_quota: self.monthly_quota,
        };
        (known, self.text_keys)
    }
}

/// The rates that a plan goes with, given what the caller says and what was before.
fn rates(
    plan: Plan,
    rate: Option<u32>,
    burst: Option<u32>,
    before: Option<(u32, u32)>,
) -> Result<Option<(u32, u32)>, RecordError> {
    let refused = |field, reason: &str| Err(RecordError::Invalid(Invalid::new(field, reason)));
    if plan != Plan::Enterprise {
        return match (rate, burst) {
            (None, None) => Ok(None),
            (Some(_), _) => refused("rate_per_minute", "is for the enterprise plan only"),
            (None, Some(_)) => refused("burst_per_minute", "is for the enterprise plan only"),
        };
    }
    let Some(new_rate) = rate.or(before.map(|(rate, _)| rate)) else {
        return refused("rate_per_minute", "is required for the enterprise plan");
    };
    if !(1..=10_000_000).contains(&new_rate) {
        return refused("rate_per_minute", "must be 1 to 10000000");
    }
    let held = before.map(|(_, burst)| burst).filter(|_| rate.is_none());
    let burst = burst
        .or(held)
        .unwrap_or(new_rate.saturating_add(new_rate / 2));
    if burst < new_rate || burst > 15_000_000 {
        return refused(
            "burst_per_minute",
            "must be at least the rate and at most 15000000",
        );
    }
    Ok(Some((new_rate, burst)))
}

/// The most requests that a quota may allow: what every JSON reader can count to.
pub const MONTHLY_QUOTA_MAX: u64 = (1 << 53) - 1;

fn quota(requests: Option<u64>) -> Result<Option<u64>, RecordError> {
    if requests.is_none_or(|requests| requests <= MONTHLY_QUOTA_MAX) {
        return Ok(requests);
    }
    Err(RecordError::Invalid(Invalid::new(
        "monthly_quota",
        format!("must be 0 to {MONTHLY_QUOTA_MAX}, or null"),
    )))
}

/// After how many minutes conversations may be closed: from ten minutes to a year.
const AUTO_CLOSE_MINUTES: std::ops::RangeInclusive<u32> = 10..=525_600;

fn auto_close(minutes: Option<u32>) -> Result<Option<u32>, RecordError> {
    if minutes.is_none_or(|minutes| AUTO_CLOSE_MINUTES.contains(&minutes)) {
        return Ok(minutes);
    }
    Err(RecordError::Invalid(Invalid::new(
        "auto_close_after_minutes",
        "must be 10 to 525600, or null",
    )))
}

/// How many days closed conversations may be kept: from a day to ten years.
const RETENTION_DAYS: std::ops::RangeInclusive<u32> = 1..=3_650;

fn retention(days: Option<u32>) -> Result<Option<u32>, RecordError> {
    if days.is_none_or(|days| RETENTION_DAYS.contains(&days)) {
        return Ok(days);
    }
    Err(RecordError::Invalid(Invalid::new(
        "retention_days",
        "must be 1 to 3650, or null",
    )))
}

impl RecordRequest<Account> for OpenAccount {
    type Reply = Answer;

    fn decide(
        self,
        _: &Account,
        _: &CommandContext<Account>,
    ) -> Result<Outcome<Account>, RecordError> {
        Err(RecordError::NotFound)
    }

    fn decide_vacant(
        self,
        context: &CommandContext<Account>,
    ) -> Result<NewRecord<Account>, RecordError> {
        let OpenAccount { new, number } = self;
        let plan = new.plan.unwrap_or(Plan::Basic);
        let made = context.id.created_at();
        Ok(NewRecord::new(Account {
            account_id: context.id,
            number,
            name: new.name.into_string(),
            plan,
            rates: rates(plan, new.rate_per_minute, new.burst_per_minute, None)?,
            monthly_quota: quota(new.monthly_quota)?,
            allowed_ips: new.allowed_ips,
            auto_close_after_minutes: auto_close(new.auto_close_after_minutes)?,
            domains: listed(new.domains, &[]),
            cors_origins: new.cors_origins,
            retention_days: retention(new.retention_days)?,
            created_at: made,
            updated_at: made,
            text_keys: texts::first_keys(),
            forgotten_at: None,
        }))
    }
}

/// Refuses a domain that another account has proven. What is decided here may be overtaken: the store
/// refuses a second one once and for all, when it is proven.
fn check_free(taken: Option<usize>) -> Result<(), RecordError> {
    match taken {
        None => Ok(()),
        Some(place) => Err(RecordError::Taken {
            field: format!("domains[{place}]").into(),
        }),
    }
}

impl RecordRequest<Account> for AlterAccount {
    type Reply = Answer;

    fn decide(
        self,
        held: &Account,
        context: &CommandContext<Account>,
    ) -> Result<Outcome<Account>, RecordError> {
        if held.forgotten_at.is_some() {
            return Err(RecordError::InUse { reason: FORGOTTEN });
        }
        let AlterAccount { change, taken } = self;
        let mut account = held.clone();
        account.plan = change.plan.unwrap_or(held.plan);
        account.name = change.name.map_or(account.name, Text::into_string);
        account.rates = rates(
            account.plan,
            change.rate_per_minute,
            change.burst_per_minute,
            held.rates,
        )?;
        if let Some(requests) = change.monthly_quota {
            account.monthly_quota = quota(requests)?;
        }
        account.allowed_ips = change.allowed_ips.unwrap_or(account.allowed_ips);
        if let Some(minutes) = change.auto_close_after_minutes {
            account.auto_close_after_minutes = auto_close(minutes)?;
        }
        check_free(taken)?;
        if let Some(names) = change.domains {
            account.domains = listed(names, &held.domains);
        }
        account.cors_origins = change.cors_origins.unwrap_or(account.cors_origins);
        if let Some(days) = change.retention_days {
            account.retention_days = retention(days)?;
        }
        if account == *held {
            return Ok(Outcome::Show);
        }
        account.updated_at = context.now.max(held.updated_at);
        Ok(Outcome::Put(account, Vec::new()))
    }
}

impl RecordRequest<Account> for ProveDomain {
    type Reply = Answer;

    fn decide(
        self,
        held: &Account,
        context: &CommandContext<Account>,
    ) -> Result<Outcome<Account>, RecordError> {
        let mut account = held.clone();
        let mut domains = account.domains.iter_mut();
        let domain = domains.find(|domain| domain.host == self.host);
        let domain = domain.ok_or(RecordError::NotFound)?;
        if domain.is_proven() {
            return Ok(Outcome::Show);
        }
        let refused = |reason| RecordError::InUse { reason };
        self.found.proves(domain).map_err(refused)?;
        account.updated_at = context.now.max(held.updated_at);
        *domain = proven(domain, account.updated_at);
        Ok(Outcome::Put(account, Vec::new()))
    }
}

impl RecordRequest<Account> for ForgetAccount {
    type Reply = Answer;

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::AccountForgotten)
    }

    fn decide(
        self,
        held: &Account,
        context: &CommandContext<Account>,
    ) -> Result<Outcome<Account>, RecordError> {
        if held.forgotten_at.is_some() {
            return Ok(Outcome::Show);
        }
        if held.text_keys.0.is_empty() {
            return Err(RecordError::InUse {
                reason: "the account's texts are not encrypted on this server",
            });
        }
        let now = context.now.max(held.updated_at);
        let account = Account {
            text_keys: TextKeys::default(),
            domains: Vec::new(),
            cors_origins: None,
            forgotten_at: Some(now),
            updated_at: now,
            ..held.clone()
        };
        Ok(Outcome::Put(account, Vec::new()))
    }
}

impl RecordSpec for Account {
    const KIND: Kind = Kind::Account;
    const NAME: &'static str = "account";
    type Named = AccountKind;

    fn show(&self, _: &Identity, _: Secret<'_>) -> Bytes {
        to_json(&self.view())
    }

    fn label(&self) -> &str {
        &self.name
    }

    /// Its proven domains: no two accounts have the same.
    fn names(&self) -> Vec<RecordName> {
        let proven = self.domains.iter().filter(|domain| domain.is_proven());
        let name = |domain: &DomainView| RecordName {
            field: NameField::ProvenDomain,
            value: domain.host.clone(),
        };
        proven.map(name).collect()
    }

    fn effects(&self, _: Option<&Self>, _: &CommandContext<Self>) -> Vec<Effect> {
        let text_keys = self.text_keys.clone();
        vec![Effect::Account(
            Box::new(self.view()),
            self.number.0,
            self.monthly_quota,
            text_keys,
        )]
    }
}
