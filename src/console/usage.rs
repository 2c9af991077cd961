//! Usage: what the account asked and made by day and by key, as charts with a table beside each and
//! as CSV; how much of its quota that is, and what is stored.

use std::collections::{BTreeMap, HashMap};

use colloquy_model::interval::Interval;
use maud::{Markup, html};
use serde_json::Value;

use super::charts::{self, Chart, Line, Span, Step, Unit};
use super::figures::{bytes, part, tile};
use super::grouped::{self, Entries, Group, Kind, Said};
use super::parts::{empty, grouped as written, number, target, text, time};
use super::period::{self, Period};
use super::reply::Reply;
use super::report::{Outcome, Report, choice};
use super::session::Session;
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Problem, Request};

const REPORT: Report = Report {
    title: "Usage",
    about: "What was asked and made, with live and test data together. Days are those of UTC, and both are included.",
    here: "/console/usage",
    csv: "/console/usage.csv",
    fields: &["from", "to", "group_by"],
};
const GROUPS: &[(&str, &str)] = &[("day", "All together"), ("key,day", "Each")];
/// The group of what was done with no key.
const NO_KEY: &str = "No key";

/// The page of the account's usage, and its file.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_admin()?;
    match (asked.path, asked.form) {
        (["usage"], None) => page(visit, session).await,
        (["usage.csv"], None) => {
            let found = session.ask(Request::csv(&operation(visit)?)).await?;
            let text = found.body.as_str().unwrap_or_default().to_owned();
            Ok(Reply::csv(text, "usage.csv"))
        }
        _ => Err(no_such_page()),
    }
}

/// What the interface is asked for this address.
fn operation(visit: &Visit) -> Result<String, Problem> {
    let Period { from, to } = Period::asked(visit, Interval::Day)?;
    let group_by = visit.query("group_by");
    let parameters = [
        ("from", from.as_str()),
        ("to", &to),
        ("group_by", &group_by),
    ];
    Ok(target("/v1/usage", &parameters))
}

async fn page(visit: &Visit, session: &Session) -> Result<Reply, Problem> {
    let answered = match operation(visit) {
        // A picture needs days; the file has keys without them, too.
        Ok(_) if visit.query("group_by") == "key" => Err(Problem::invalid(
            "group_by",
            "must be `day` or `key,day` on this page",
        )),
        Ok(asked) => session.get(&asked).await.map(|found| found.body),
        Err(problem) => Err(problem),
    };
    let Outcome { shown, answer } = REPORT.found(visit, answered)?;
    let figures = match answer {
        Some(answer) => Some(figures(session, &answer).await?),
        None => None,
    };
    let shown = (&shown, figures.is_some());
    let choices = choice(("group_by", "Keys"), shown.0, GROUPS);
    Ok(REPORT.page((visit, session), shown, choices, figures))
}

async fn figures(session: &Session, usage: &Value) -> Result<Markup, Problem> {
    let limits = session.get("/v1/limits").await?;
    let meta = part(usage, "meta");
    let starts = period::starts(meta, Interval::Day);
    let span = Span {
        step: Step::Day,
        starts: &starts,
    };
    let rows = usage.get("data").and_then(Value::as_array);
    let rows = rows.map(Vec::as_slice).unwrap_or_default();
    let charts = match text(meta, "group_by") {
        "key,day" => by_key(session, rows, span).await,
        _ => together(rows),
    };
    Ok(html! {
        (quota(part(meta, "quota"), &limits.body))
        (stored(part(meta, "stored")))
        @if charts.is_empty() {
            (empty("Nothing was used", "In these days nothing was asked or made.", html! {}))
        } @else {
            (charts::figures(&charts, span))
        }
    })
}

/// How much of the month's requests is used, and what each key may ask.
fn quota(quota: &Value, limits: &Value) -> Markup {
    let (used, limit) = (number(quota, "used"), number(quota, "limit"));
    let (rate, burst) = (part(limits, "rate"), part(limits, "burst"));
    html! {
        section.card aria-labelledby="quota" {
            h2 #quota { "Quota" }
            p.said {
                @if limit == 0 {
                    (written(used)) " requests were let in this month; there is no quota."
                } @else {
                    (written(used)) " of " (written(limit)) " requests of this month are used (" (percent(used, limit)) " %)."
                }
                " The count begins anew " (time(quota, "resets_at")) "."
            }
            @if limit > 0 {
                progress max=(limit) value=(used.min(limit)) aria-label="Used of the month's requests" {}
            }
            p.faint {
                "Plan " (text(limits, "plan")) ": each key may ask " (written(number(rate, "limit"))) " requests a minute, and "
                (written(number(burst, "limit"))) " at most in any minute."
            }
        }
    }
}

/// How many hundredths of the limit are used, rounded down: 100 means that nothing is left.
fn percent(used: u64, limit: u64) -> String {
    let hundredths = u128::from(used) * 100 / u128::from(limit.max(1));
    hundredths.to_string()
}

fn stored(stored: &Value) -> Markup {
    let count = |name| written(number(stored, name));
    html! {
        dl.tiles {
            (tile("Conversations stored", count("conversations")))
            (tile("Messages stored", count("messages")))
            (tile("Documents stored", count("documents")))
            (tile("Text stored", bytes(number(stored, "bytes"))))
        }
    }
}

/// The number at this JSON pointer (RFC 6901) of a row of `GET /v1/usage`, if there is one.
fn figure(row: &Value, pointer: &str) -> Option<f64> {
    row.pointer(pointer)?.as_f64()
}

/// The charts of all keys together: the rows are days, one after the other.
fn together(rows: &[Value]) -> Vec<Chart> {
    let line = |name: &str, unit, pointer: &str| Line {
        name: name.to_owned(),
        unit,
        values: rows.iter().map(|row| figure(row, pointer)).collect(),
        is_drawn: true,
    };
    let count = |name, pointer| line(name, Unit::Count, pointer);
    let chart = |id, title, unit, lines: Vec<Line>| Chart {
        id,
        title,
        said: said(unit, &lines),
        unit,
        lines,
    };
    let refused = vec![
        count("Over the rate", "/refused/rate_limited"),
        count("Over the quota", "/refused/quota_exceeded"),
        count("Not allowed", "/refused/forbidden"),
    ];
    let made = vec![
        count("Messages", "/messages"),
        count("Documents", "/documents"),
        count("Deliveries", "/deliveries"),
    ];
    let bytes = vec![
        line("Received", Unit::Bytes, "/bytes_in"),
        line("Sent", Unit::Bytes, "/bytes_out"),
    ];
    let requests = vec![count("Requests", "/requests")];
    vec![
        chart("requests", "Requests", Unit::Count, requests),
        chart("refused", "Refused requests", Unit::Count, refused),
        chart("made", "Messages, documents, deliveries", Unit::Count, made),
        chart("bytes", "Bytes", Unit::Bytes, bytes),
    ]
}

/// What the lines add up to, in words.
fn said(unit: Unit, lines: &[Line]) -> String {
    let each = |line: &Line| format!("{} {}", line.name, unit.words(line.sum()));
    let each: Vec<String> = lines.iter().map(each).collect();
    format!("In all: {}.", each.join(", "))
}

/// The kinds of figures that keys are told apart by.
const KINDS: &[Kind] = &[
    kind("requests", "Requests", Unit::Count, |row| {
        figure(row, "/requests")
    }),
    kind("refused", "Refused requests", Unit::Count, |row| {
        let counts = part(row, "refused").as_object()?;
        Some(counts.values().filter_map(Value::as_f64).sum())
    }),
    kind("messages", "Messages", Unit::Count, |row| {
        figure(row, "/messages")
    }),
    kind("documents", "Documents", Unit::Count, |row| {
        figure(row, "/documents")
    }),
    kind("deliveries", "Deliveries", Unit::Count, |row| {
        figure(row, "/deliveries")
    }),
    kind("bytes_in", "Bytes received", Unit::Bytes, |row| {
        figure(row, "/bytes_in")
    }),
    kind("bytes_out", "Bytes sent", Unit::Bytes, |row| {
        figure(row, "/bytes_out")
    }),
];

const fn kind(
    id: &'static str,
    title: &'static str,
    unit: Unit,
    of: fn(&Value) -> Option<f64>,
) -> Kind {
    Kind {
        id,
        title,
        unit,
        of,
        said: Said::Sum,
    }
}

async fn by_key(session: &Session, rows: &[Value], span: Span<'_>) -> Vec<Chart> {
    let mut asked: BTreeMap<&str, f64> = BTreeMap::new();
    for row in rows {
        *asked.entry(text(row, "key_id")).or_default() += figure(row, "/requests").unwrap_or(0.0);
    }
    let mut keys: Vec<(&str, f64)> = asked.into_iter().collect();
    keys.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let keys: Vec<&str> = keys.into_iter().map(|(key, _)| key).collect();
    let known = names_of_keys(session).await;
    let name = |key: &&str| match (known.get(*key), *key) {
        (Some(name), _) => name.clone(),
        (None, "") => NO_KEY.to_owned(),
        (None, id) => id.to_owned(),
    };
    let names: Vec<String> = keys.iter().map(name).collect();
    let at = |row| format!("{}T00:00:00Z", text(row, "day")).parse();
    let entries = rows.iter().map(|row| {
        let start = at(row).unwrap_or_default();
        ((start, text(row, "key_id")), row)
    });
    let entries: Entries<'_> = entries.collect();
    grouped::charts(KINDS, &entries, &Group::all(&keys, &names), span)
}

/// What the account's keys are called, by identifier; nothing where the person may not know that.
async fn names_of_keys(session: &Session) -> HashMap<String, String> {
    let mut names = HashMap::new();
    let Ok((api, principal)) = session.of_account() else {
        return names;
    };
    let account = principal.account.view.account_id;
    let mut is_more = true;
    while is_more {
        let offset = names.len().to_string();
        let path = format!("/admin/v1/accounts/{account}/keys");
        let page = target(&path, &[("limit", "100"), ("offset", &offset)]);
        let Ok(found) = api.get(&page).await else {
            break;
        };
        let known = names.len();
        for key in found.items() {
            names.insert(text(key, "key_id").to_owned(), text(key, "name").to_owned());
        }
        is_more = found.has_after && names.len() > known;
    }
    names
}
