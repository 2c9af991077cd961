//! The audit trail: for admins that of their account, for operators that of all.

use maud::{Markup, html};
use serde_json::Value;

use super::layout::{self, Page};
use super::parts::{badge, empty, heading, listing, pages, refusal, text, time};
use super::reply::Reply;
use super::session::Session;
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, Problem};

/// What the list may be narrowed to, with what stands beside each field.
const FILTERS: &[(&str, &str, &str)] = &[
    ("action", "Action", "key.created"),
    ("actor", "Who (ID)", "usr_… or key_…"),
    ("subject", "To what (ID)", "conv_…, doc_…, key_…"),
    ("since", "After", "2026-03-15T10:30:00.000Z"),
    ("until", "Before", "2026-03-16T10:30:00.000Z"),
];

/// The outcomes, each with the words for it.
const OUTCOMES: &[(&str, &str)] = &[
    ("", "Done and refused"),
    ("done", "Done"),
    ("refused", "Refused"),
];

/// The page of an account's trail.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    match (asked.path, asked.form) {
        (["audit"], None) => {
            let about = "Who did what in this account, in both kinds of data, and what was refused. Nothing can be changed here.";
            list(visit, session, "/v1/audit", about).await
        }
        (["all-audit"], None) => {
            session.check_operator()?;
            let about = "What operators did, and everything that was done in any account. Verify it with: colloquy audit verify";
            list(visit, session, "/admin/v1/audit", about).await
        }
        _ => Err(no_such_page()),
    }
}

async fn list(visit: &Visit, session: &Session, path: &str, about: &str) -> Result<Reply, Problem> {
    let names = FILTERS.iter().map(|(name, ..)| *name);
    let names = names.chain(["outcome", "account_id"]);
    let given: Vec<(&str, String)> = names
        .map(|name| (name, visit.query(name).trim().to_owned()))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let filters: Vec<(&str, &str)> = given
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let found = session.get(&listing(visit, path, &filters)).await;
    let refused = match &found {
        Err(problem) if problem.is_refusal() && !problem.field.is_empty() => Some(problem),
        Ok(_) | Err(_) => None,
    };
    let content = html! {
        (heading("Audit", about, html! {}))
        (narrowing(visit, path == "/admin/v1/audit"))
        @if let Some(problem) = refused { (refusal(problem)) }
        @if let Ok(found) = &found { (records(visit, found)) }
    };
    let wrong = refused.is_some();
    if let Err(problem) = found
        && !wrong
    {
        return Err(problem);
    }
    let reply = layout::page(visit, Some(session), Page::new("Audit", content));
    Ok(if wrong { reply.refused() } else { reply })
}

/// The form above the list.
fn narrowing(visit: &Visit, is_for_operators: bool) -> Markup {
    let chosen = visit.query("outcome");
    let line = |(name, label, example): &(&str, &str, &str)| {
        html! {
            label { (label)
                input name=(name) value=(visit.query(name)) placeholder=(example) autocomplete="off" spellcheck="false"; }
        }
    };
    html! {
        form.filters method="get" action=(visit.path()) {
            @for filter in FILTERS { (line(filter)) }
            @if is_for_operators { (line(&("account_id", "Account (ID)", "acc_…"))) }
            label { "Outcome"
                select name="outcome" {
                    @for (value, words) in OUTCOMES { option value=(value) selected[*value == chosen] { (words) } }
                } }
            button.button { "Show" }
        }
    }
}

fn records(visit: &Visit, found: &Found) -> Markup {
    html! {
        @if found.items().is_empty() {
            (empty("Nothing found", "No record is like this. Leave a field empty to see more.", html! { p { a.button href=(visit.path()) { "Show all" } } }))
        } @else {
            div.table.records tabindex="0" { table {
                caption.hidden { "Records, newest first" }
                thead { tr { th { "When" } th { "Who" } th { "What" } th { "To what" } } }
                tbody data-list { @for one in found.items() {
                    tr {
                        td { (time(one, "at")) }
                        td {
                            (named(one.get("actor")))
                            @if !text(one, "address").is_empty() { div { span.faint { "from" } " " (text(one, "address")) } }
                        }
                        td {
                            (text(one, "action")) " " @if text(one, "outcome") == "refused" { (badge("refused", "bad")) }
                            (details(one.get("details")))
                            div { span.faint { (text(one, "request_id")) } }
                        }
                        td { (named(one.get("subject"))) }
                    }
                } }
            } }
            (pages(visit, found))
        }
    }
}

/// Somebody or something, by kind and identifier.
fn named(what: Option<&Value>) -> Markup {
    let what = what.filter(|what| what.is_object());
    html! {
        @if let Some(what) = what {
            (text(what, "type")) @if !text(what, "id").is_empty() { br; code.faint { (text(what, "id")) } }
        } @else { span.faint { "—" } }
    }
}

fn details(details: Option<&Value>) -> Markup {
    let pairs = details.and_then(Value::as_object);
    let shown = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            let texts = values.iter().filter_map(Value::as_str);
            texts.collect::<Vec<_>>().join(", ")
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            other.to_string()
        }
    };
    html! {
        @for (name, value) in pairs.into_iter().flatten() {
            div { span.faint { (name) } " " (shown(value)) }
        }
    }
}
