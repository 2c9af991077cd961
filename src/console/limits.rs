//! Limits: the keys of all accounts that come nearest to what they may ask, and those that were
//! refused most, with their last hour by minute.

use std::collections::HashMap;

use futures_util::future::join_all;
use maud::{Markup, html};
use serde_json::Value;

use super::assets;
use super::charts::{self, Span, Step, Unit};
use super::figures::part;
use super::grouped::{self, Entries, Group, Kind, Said, end};
use super::layout::{self, Page};
use super::parts::{empty, grouped as written, heading, number, text};
use super::reply::Reply;
use super::session::Session;
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::Problem;

const OPERATION: &str = "/admin/v1/limits";

/// What was let in of the keys that are nearest to their limits.
const LET_IN: Kind = Kind {
    id: "requests",
    title: "Requests a minute of the keys nearest to their limits",
    unit: Unit::Count,
    of: |minute| minute.get("requests")?.as_f64(),
    said: Said::Sum,
};

/// What was refused of the keys that were refused most.
const REFUSED: Kind = Kind {
    id: "refused",
    title: "Refused requests a minute",
    unit: Unit::Count,
    of: |minute| Some(refused(minute) as f64),
    said: Said::Sum,
};

/// Answers `/console/limits`, where operators see the keys that come near to their limits and those
/// that were refused most.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_operator()?;
    if asked.path.len() > 1 || asked.form.is_some() {
        return Err(no_such_page());
    }
    let found = session.get(OPERATION).await?;
    let nearest = keys(&found.body, "nearest");
    let most = keys(&found.body, "refused");
    let accounts = names_of_accounts(session, &[nearest, most].concat()).await;
    let content = html! {
        link rel="stylesheet" href=(assets::path("uPlot.min.css"));
        (heading("Limits", "Who comes near to what a key may ask, at all nodes together.", html! {}))
        h2 { "Nearest to their limits" }
        @if nearest.is_empty() {
            (empty("Nobody is near", "No key has asked anything in the last hour.", html! {}))
        } @else {
            (table("Keys nearest to their limits", nearest, &accounts))
            (over_time(&LET_IN, nearest))
        }
        h2.apart { "Refused most in the last hour" }
        @if most.is_empty() {
            (empty("Nobody was refused", "No key has asked more than it may in the last hour.", html! {}))
        } @else {
            (table("Keys that were refused most", most, &accounts))
            (over_time(&REFUSED, most))
        }
    };
    let page = Page::new("Limits", content).with_scripts(charts::SCRIPTS);
    Ok(layout::page(visit, Some(session), page))
}

fn keys<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    let keys = answer.get(name).and_then(Value::as_array);
    keys.map(Vec::as_slice).unwrap_or_default()
}

/// What the accounts of these keys are called, by identifier.
async fn names_of_accounts(session: &Session, keys: &[Value]) -> HashMap<String, String> {
    let mut accounts: Vec<&str> = keys.iter().map(|key| text(key, "account_id")).collect();
    accounts.sort_unstable();
    accounts.dedup();
    let names = accounts.iter().map(|account| async move {
        let found = session.get(&format!("/admin/v1/accounts/{account}")).await;
        let name = found.map(|found| text(&found.body, "name").to_owned());
        (
            (*account).to_owned(),
            name.unwrap_or_else(|_| (*account).to_owned()),
        )
    });
    join_all(names).await.into_iter().collect()
}

fn minutes(key: &Value) -> &[Value] {
    keys(key, "minutes")
}

/// What limits refused in a minute.
fn refused(minute: &Value) -> u64 {
    number(minute, "rate_limited") + number(minute, "quota_exceeded")
}

/// What is used of a limit, and the limit.
fn used(limit: &Value) -> String {
    let (limit, left) = (number(limit, "limit"), number(limit, "remaining"));
    of(limit.saturating_sub(left), limit)
}

fn of(used: u64, limit: u64) -> String {
    format!("{} of {}", written(used), written(limit))
}

fn table(caption: &str, keys: &[Value], accounts: &HashMap<String, String>) -> Markup {
    html! {
        div.table tabindex="0" { table {
            caption.hidden { (caption) }
            thead { tr {
                th { "Account" } th { "Key" } th.number { "This minute" } th.number { "At once" } th.number { "This month" }
                th.number { "Let in, last hour" } th.number { "Over the rate" } th.number { "Over the quota" }
            } }
            tbody data-list { @for key in keys { (row(key, accounts)) } }
        } }
    }
}

fn row(key: &Value, accounts: &HashMap<String, String>) -> Markup {
    let account = text(key, "account_id");
    let quota = part(key, "quota");
    let hour = |name| minutes(key).iter().map(|minute| number(minute, name)).sum();
    let month = match number(quota, "limit") {
        0 => written(number(quota, "used")),
        limit => of(number(quota, "used"), limit),
    };
    html! {
        tr {
            td { a href={ "/console/accounts/" (account) } data-item { (accounts.get(account).map_or(account, String::as_str)) } }
            td { code { (text(key, "key_id")) } }
            td.number { (used(part(key, "rate"))) }
            td.number { (used(part(key, "burst"))) }
            td.number { (month) }
            td.number { (written(hour("requests"))) }
            td.number { (written(hour("rate_limited"))) }
            td.number { (written(hour("quota_exceeded"))) }
        }
    }
}

/// The last hour of these keys by minute, each by the end of its identifier.
fn over_time(kind: &Kind, keys: &[Value]) -> Markup {
    let at = |minute| text(minute, "start").parse().unwrap_or_default();
    let starts = keys.first().map(minutes).unwrap_or_default();
    let starts: Vec<_> = starts.iter().map(at).collect();
    let words: Vec<&str> = keys.iter().map(|key| text(key, "key_id")).collect();
    let names: Vec<String> = words.iter().map(|word| end(word)).collect();
    let entries = keys.iter().flat_map(|key| {
        let entry = move |minute| ((at(minute), text(key, "key_id")), minute);
        minutes(key).iter().map(entry)
    });
    let entries: Entries<'_> = entries.collect();
    let span = Span {
        step: Step::Minute,
        starts: &starts,
    };
    let groups = Group::all(&words, &names);
    let charts = grouped::charts(std::slice::from_ref(kind), &entries, &groups, span);
    charts::figures(&charts, span)
}
