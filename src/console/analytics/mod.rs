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

use super::charts::{self, Chart, Span};
use super::figures::part;
use super::forms::Shown;
use super::grouped::{self, Group};
use super::parts::{empty, target, text};
use super::period::{self, Period};
use super::reply::Reply;
use super::report::{Outcome, Report, choice};
use super::session::Session;
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, Kind, Problem, Request};

const OPERATION: &str = "/v1/analytics/conversations";
const REPORT: Report = Report {
    title: "Analytics",
    about: "What conversations have come to. Days are those of UTC, and both are included.",
    here: "/console/analytics",
    csv: "/console/analytics.csv",
    fields: &[
        "from",
        "to",
        "interval",
        "group_by",
        "channel",
        "priority",
        "assignee_id",
    ],
};
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
    let mut asked = REPORT.asked(visit);
    for (name, value) in &mut asked {
        match name.as_str() {
            "from" => value.clone_from(&from),
            "to" => value.clone_from(&to),
            _ => {}
        }
    }
    let parameters = asked
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let parameters: Vec<(&str, &str)> = parameters.collect();
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
    let Outcome { shown, answer } = REPORT.found(visit, answered(visit, session).await)?;
    let figures = match answer {
        Some(answer) => Some(figures(visit, session, &answer).await),
        None => None,
    };
    // What is too much for a page is not for a file.
    let has_file = figures.is_some() || shown.wrong("from").is_some();
    let choices = choices(&shown, &agents(session, &shown).await?);
    Ok(REPORT.page((visit, session), (&shown, has_file), choices, figures))
}

/// Whose conversations may be asked for: as many as one page of the list has,
/// and who is asked for now.
async fn agents(session: &Session, shown: &Shown) -> Result<Vec<Group>, Problem> {
    let users = match session.get("/v1/users?limit=100").await {
        // Whoever may see no others asks for all together.
        Err(problem) if problem.kind == Kind::Forbidden => Found::default(),
        users => users?,
    };
    let users = users.items().iter();
    let mut ids: Vec<&str> = users.clone().map(|user| text(user, "user_id")).collect();
    let mut names: Vec<String> = users.map(|user| text(user, "name").to_owned()).collect();
    let chosen = shown.form.text("assignee_id");
    if !chosen.is_empty() && !ids.contains(&chosen) {
        ids.push(chosen);
        names.push(groups::agent(session, chosen).await);
    }
    Ok(Group::all(&ids, &names))
}

fn choices(shown: &Shown, agents: &[Group]) -> Markup {
    let all = std::iter::once(("", "All"));
    let agents: Vec<(&str, &str)> = all.chain(agents.iter().map(Group::named)).collect();
    html! {
        (choice(("interval", "Intervals"), shown, INTERVALS))
        (choice(("group_by", "Conversations"), shown, GROUPS))
        (choice(("channel", "Channel"), shown, CHANNELS))
        (choice(("priority", "Priority"), shown, PRIORITIES))
        (choice(("assignee_id", "Agent"), shown, &agents))
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
