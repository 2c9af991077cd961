//! Analytics: what the account's conversations have come to, as charts with a table beside each, and
//! as CSV.
//!
//! - `whole.rs` the charts of all conversations together
//! - `groups.rs` what the charts by channel, by agent, by priority show

mod groups;
mod whole;

use colloquy_model::interval::Interval;
use colloquy_model::time::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use super::assets;
use super::charts::{self, Chart, Span};
use super::figures::part;
use super::forms::{Form, Shown};
use super::grouped;
use super::layout::{self, Page};
use super::parts::{Field, empty, heading, problem, target, text};
use super::period::{self, Period};
use super::reply::Reply;
use super::session::Session;
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, Kind, Problem, Request};

const HERE: &str = "/console/analytics";
const CSV: &str = "/console/analytics.csv";
const OPERATION: &str = "/v1/analytics/conversations";
const FIELDS: &[&str] = &[
    "from",
    "to",
    "interval",
    "group_by",
    "channel",
    "priority",
    "assignee_id",
];
const INTERVALS: &[(&str, &str)] = &[("day", "Days"), ("hour", "Hours"), ("month", "Months")];
const GROUPS: &[(&str, &str)] = &[
    ("", "All together"),
    ("channel", "By channel"),
    ("assignee_id", "By agent"),
    ("priority", "By priority"),
];
const CHANNELS: &[(&str, &str)] = &[
    ("", "All"),
    ("chat", "Chat"),
    ("email", "Email"),
    ("voice", "Voice"),
];
const PRIORITIES: &[(&str, &str)] = &[
    ("", "All"),
    ("low", "Low"),
    ("normal", "Normal"),
    ("high", "High"),
];
/// Rows of a table on the page. CSV has as many as the interface does.
const ROWS_MAX: u64 = 1_000;

/// The page of the account's analytics, and its file.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    match (asked.path, asked.form) {
        (["analytics"], None) => page(visit, session).await,
        (["analytics.csv"], None) => file(visit, session).await,
        _ => Err(no_such_page()),
    }
}

/// The interval that the address names, or the one that the interface takes by default.
fn interval(visit: &Visit) -> Interval {
    let word = visit.query("interval");
    let mut all = Interval::ALL.iter().copied();
    all.find(|interval| interval.word() == word)
        .unwrap_or(Interval::Day)
}

/// What the interface is asked for this address.
fn operation(visit: &Visit) -> Result<String, Problem> {
    let Period { from, to } = Period::asked(visit, interval(visit))?;
    let values = FIELDS.iter().map(|name| match *name {
        "from" => from.clone(),
        "to" => to.clone(),
        name => visit.query(name),
    });
    let values: Vec<String> = values.collect();
    let names = FIELDS.iter().copied();
    let parameters: Vec<(&str, &str)> = names.zip(values.iter().map(String::as_str)).collect();
    Ok(target(OPERATION, &parameters))
}

async fn file(visit: &Visit, session: &Session) -> Result<Reply, Problem> {
    let asked = operation(visit)?;
    let found = session.ask(Request::csv(&asked)).await?;
    let text = found.body.as_str().unwrap_or_default().to_owned();
    let name = format!("conversations-by-{}.csv", interval(visit).word());
    Ok(Reply::csv(text, &name))
}

/// What the interface answers for this address, if it is not too much for a page.
async fn answered(visit: &Visit, session: &Session) -> Result<Value, Problem> {
    let found = session.get(&operation(visit)?).await?;
    if starts(&found.body, interval(visit)).len() as u64 > ROWS_MAX {
        return Err(Problem::invalid(
            "from",
            format!(
                "must leave at most {ROWS_MAX} rows on a page: fewer days or longer intervals. As CSV you get more"
            ),
        ));
    }
    Ok(found.body)
}

/// When the intervals of an answer begin.
fn starts(answer: &Value, interval: Interval) -> Vec<Timestamp> {
    period::starts(part(answer, "meta"), interval)
}

async fn page(visit: &Visit, session: &Session) -> Result<Reply, Problem> {
    let typed = FIELDS
        .iter()
        .map(|name| ((*name).to_owned(), visit.query(name)));
    let typed: Vec<(String, String)> = typed.collect();
    let (shown, figures) = match answered(visit, session).await {
        Ok(answer) => {
            let mut form = Form::of(&typed);
            for (name, day) in period::days(part(&answer, "meta")) {
                form.set(&name, &day);
            }
            let shown = Shown {
                form,
                problem: None,
            };
            (shown, Some(figures(visit, session, &answer).await))
        }
        Err(problem) if problem.is_refusal() && !problem.field.is_empty() => {
            (Shown::again(&Form::of(&typed), problem), None)
        }
        Err(problem) => return Err(problem),
    };
    let is_refused = figures.is_none();
    let content = html! {
        link rel="stylesheet" href=(assets::path("uPlot.min.css"));
        (heading(
            "Analytics",
            "What conversations have come to. Days are those of UTC, and both are included.",
            html! { @if !is_refused || shown.wrong("from").is_some() { a.button href=(address(visit, CSV)) { "Export as CSV" } } },
        ))
        (problem(&shown, FIELDS))
        (asking(&shown, &agents(session, &shown).await?))
        @if let Some(figures) = figures { (figures) }
    };
    let page = Page::new("Analytics", content).with_scripts(charts::SCRIPTS);
    let reply = layout::page(visit, Some(session), page);
    Ok(if is_refused { reply.refused() } else { reply })
}

/// Another address with what this one asks.
fn address(visit: &Visit, path: &str) -> String {
    let values: Vec<(&str, String)> = FIELDS
        .iter()
        .map(|name| (*name, visit.query(name)))
        .collect();
    let parameters: Vec<(&str, &str)> = values
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    target(path, &parameters)
}

/// Whose conversations may be asked for, by identifier and name: as many as one page of the list has,
/// and who is asked for now.
async fn agents(session: &Session, shown: &Shown) -> Result<Vec<(String, String)>, Problem> {
    let users = match session.get("/v1/users?limit=100").await {
        // Whoever may see no others asks for all together.
        Err(problem) if problem.kind == Kind::Forbidden => Found::default(),
        users => users?,
    };
    let mut agents = vec![(String::new(), "All".to_owned())];
    let named = users.items().iter();
    agents.extend(named.map(|user| {
        let [id, name] = ["user_id", "name"].map(|field| text(user, field).to_owned());
        (id, name)
    }));
    let chosen = shown.form.text("assignee_id");
    if agents.iter().all(|(id, _)| id != chosen) {
        agents.push((chosen.to_owned(), groups::agent(session, chosen).await));
    }
    Ok(agents)
}

fn asking(shown: &Shown, agents: &[(String, String)]) -> Markup {
    let agents = agents.iter();
    let agents: Vec<(&str, &str)> = agents.map(|(id, name)| (&**id, &**name)).collect();
    let field = |name, label| Field {
        name,
        label,
        hint: "",
    };
    html! {
        form.row.asking method="get" action=(HERE) {
            (field("from", "From").line(shown, "date", false))
            (field("to", "To").line(shown, "date", false))
            (field("interval", "Intervals").choice(shown, INTERVALS))
            (field("group_by", "Conversations").choice(shown, GROUPS))
            (field("channel", "Channel").choice(shown, CHANNELS))
            (field("priority", "Priority").choice(shown, PRIORITIES))
            (field("assignee_id", "Agent").choice(shown, &agents))
            button.button.primary { "Show" }
        }
    }
}

async fn figures(visit: &Visit, session: &Session, answer: &Value) -> Markup {
    let interval = interval(visit);
    let starts = starts(answer, interval);
    let span = Span {
        step: interval.into(),
        starts: &starts,
    };
    let entries = answer.get("data").and_then(Value::as_array);
    let entries = entries.map(Vec::as_slice).unwrap_or_default();
    let charts: Vec<Chart> = match &*visit.query("group_by") {
        "" => whole::charts(entries, interval),
        group_by => {
            let groups = groups::named(session, entries, group_by).await;
            grouped::charts(groups::KINDS, &groups::entries(entries), &groups, span)
        }
    };
    html! {
        @if charts.is_empty() {
            (empty("Nothing happened", "In these days there was no conversation, and none was open.", html! {}))
        } @else {
            (charts::figures(&charts, span))
        }
    }
}

/// A figure of an entry.
fn figure(entry: &Value, pointer: &str) -> Option<f64> {
    entry.pointer(pointer)?.as_f64()
}
