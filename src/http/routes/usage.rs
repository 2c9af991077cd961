//! What an account uses, by day and key.

use actix_web::web;
use colloquy_actors::usage::{StoredTotals, UsageGroup, UsageList, UsagePeriod, UsageRow};
use colloquy_model::json;
use colloquy_model::time::{RoundedUp, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::super::api_call::ApiCall;
use super::super::csv::{self, Line};
use super::super::output::{CachePolicy, Output, Text};
use super::super::problem::Problem;
use super::limits::QuotaShown;

/// An instant that may be given as a date: its beginning in UTC.
#[derive(Debug, Clone, Copy)]
struct DayStart(Timestamp);

/// Characters of a date, such as 2026-11-01.
const DATE_CHARS: usize = 10;

impl<'de> Deserialize<'de> for DayStart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let instant = match text.chars().count() {
            DATE_CHARS => format!("{text}T00:00:00Z"),
            _ => text,
        };
        let read = serde::de::value::StringDeserializer::new(instant);
        // What lies behind the beginning of a day by less than a millisecond is not one.
        let read = RoundedUp::deserialize(read).map(|RoundedUp(at)| DayStart(at));
        read.map_err(|_: D::Error| D::Error::custom("must be a day, such as 2026-11-01"))
    }
}

/// Which usage is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageFilters {
    /// The first day, in UTC: `2026-11-01`, or the instant at which it begins. Default: the first of
    /// the month in which the last day lies.
    #[param(value_type = Option<String>)]
    from: Option<DayStart>,
    /// The day behind the last one, at most 366 days later. Default: tomorrow.
    #[param(value_type = Option<String>)]
    to: Option<DayStart>,
    /// What is added up: all keys of each day (`day`, the default, which shows every day), all days of
    /// each key (`key`), or neither (`key,day`).
    #[param(inline)]
    group_by: Option<UsageGroup>,
}

/// What an account used.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UsageReport)]
pub(super) struct UsageShown {
    /// By day, then by key; what no key did comes last.
    data: Vec<UsageLine>,
    /// Which days, and how much of the account's data and quota there is.
    meta: UsageMeta,
}

/// What was used by a key, on a day.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Usage)]
pub(super) struct UsageLine {
    /// The day, in UTC; null with `group_by=key`.
    #[schema(value_type = Option<String>)]
    day: Option<String>,
    /// The key, or the client of an access token; null with `group_by=day`, and for what none of them
    /// did: deliveries to webhook endpoints, what was made in the console or through a share link.
    key_id: Option<String>,
    /// Requests that were let in, whatever they were answered; they count for the quota.
    requests: u64,
    /// Requests that were refused.
    refused: Refused,
    /// Messages that were created, exactly.
    messages: u64,
    /// Documents that were created, exactly.
    documents: u64,
    /// Attempts to deliver to webhook endpoints.
    deliveries: u64,
    /// Bytes of the bodies of requests.
    bytes_in: u64,
    /// Bytes of the bodies of answers, refusals too; what streams and WebSockets carry is not counted.
    bytes_out: u64,
}

/// Requests that were refused.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RefusedRequests)]
pub(super) struct Refused {
    /// By the key's rate or burst (429).
    rate_limited: u64,
    /// By the account's quota (429).
    quota_exceeded: u64,
    /// For what the key may do, or from where (403). Those let in first count as requests, too.
    forbidden: u64,
}

/// What a report covers, and what the account has.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UsageMeta {
    /// The first day.
    from: String,
    /// The day behind the last one.
    to: String,
    /// What was added up.
    group_by: UsageGroup,
    /// The quota of this month.
    quota: QuotaShown,
    /// What is stored of the account now, live and test.
    stored: StoredShown,
}

/// How much of an account's data is stored.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoredData)]
pub(super) struct StoredShown {
    /// Conversations.
    conversations: u64,
    /// Messages, redacted ones too.
    messages: u64,
    /// Documents, without those in the bin.
    documents: u64,
    /// Bytes of the texts as they stand, in UTF-8: of messages, and of the latest versions of those
    /// documents.
    bytes: u64,
}

impl From<StoredTotals> for StoredShown {
    fn from(stored: StoredTotals) -> Self {
        let StoredTotals {
            conversations,
            messages,
            documents,
            bytes,
        } = stored;
        StoredShown {
            conversations,
            messages,
            documents,
            bytes,
        }
    }
}

/// The day of an instant, as a date.
fn date(at: Timestamp) -> String {
    at.to_string().chars().take(DATE_CHARS).collect()
}

impl From<&UsageRow> for UsageLine {
    fn from(row: &UsageRow) -> Self {
        let UsageRow {
            day,
            credential,
            counts,
            made,
        } = row;
        UsageLine {
            day: day.map(date),
            key_id: credential.and_then(|credential| credential.shown()),
            requests: counts.requests,
            refused: Refused {
                rate_limited: counts.rate_limited,
                quota_exceeded: counts.quota_exceeded,
                forbidden: counts.forbidden,
            },
            messages: made.messages,
            documents: made.documents,
            deliveries: counts.deliveries,
            bytes_in: counts.bytes_in,
            bytes_out: counts.bytes_out,
        }
    }
}

impl Line for UsageLine {
    const COLUMNS: &'static [&'static str] = &[
        "day",
        "key_id",
        "requests",
        "refused.rate_limited",
        "refused.quota_exceeded",
        "refused.forbidden",
        "messages",
        "documents",
        "deliveries",
        "bytes_in",
        "bytes_out",
    ];

    fn fields(&self) -> Vec<String> {
        let counts = [
            self.requests,
            self.refused.rate_limited,
            self.refused.quota_exceeded,
            self.refused.forbidden,
            self.messages,
            self.documents,
            self.deliveries,
            self.bytes_in,
            self.bytes_out,
        ];
        let named = [&self.day, &self.key_id].map(|name| name.clone().unwrap_or_default());
        let counts = counts.iter().map(u64::to_string);
        named.into_iter().chain(counts).collect()
    }
}

pub(super) async fn list(call: ApiCall, filters: UsageFilters) -> Result<Output, Problem> {
    let account = call.caller.tenant.account_number();
    let days = [filters.from, filters.to].map(|day| day.map(|DayStart(at)| at));
    let period = UsagePeriod::of(days[0], days[1], call.now)?;
    let group = filters.group_by.unwrap_or_default();
    let system = &call.app.system;
    let list = UsageList {
        account,
        period,
        group,
    };
    let find = |code| system.identity.credential(account, code).map(Into::into);
    let rows = system.usage.rows(list, &system.analytics, &find).await?;
    let as_csv = csv::is_preferred(&call);
    let meta = UsageMeta {
        from: date(period.from),
        to: date(period.to),
        group_by: group,
        quota: QuotaShown::of(&call)?,
        stored: system
            .usage
            .stored(account, &system.analytics)
            .await?
            .into(),
    };
    let write = move || {
        let data: Vec<UsageLine> = rows.iter().map(UsageLine::from).collect();
        match as_csv {
            true => csv::list(&data),
            false => Ok(Text {
                body: json::bytes(&UsageShown { data, meta }),
                media_type: "application/json",
                cache: CachePolicy::PrivateList,
                room: None,
            }),
        }
    };
    let written = web::block(write).await.map_err(|_| Problem::crashed())?;
    Ok(Output::Text(written?))
}
