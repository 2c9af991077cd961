//! Backups: what is kept, and making one now.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::figures::{bytes, live, part};
use super::layout::{self, Page, csrf};
use super::parts::{badge, empty, grouped, heading, listing, number, pages, target, text, time};
use super::reply::Reply;
use super::session::{self, Session};
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, Problem, Request, Verb};

const HERE: &str = "/console/backups";
const API: &str = "/admin/v1/backups";

/// The page of backups.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_operator()?;
    match (asked.path.get(1..).unwrap_or_default(), asked.form) {
        ([], None) => list(visit, session).await,
        (["new"], Some(_)) => begin(visit, session).await,
        _ => Err(no_such_page()),
    }
}

async fn list(visit: &Visit, session: &Session) -> Result<Reply, Problem> {
    let found = session.get(&listing(visit, API, &[])).await?;
    let shown = html! { (table(&found)) (pages(visit, &found)) };
    if visit.is_fragment() {
        return Ok(Reply::part(shown));
    }
    let now = html! {
        form method="post" action={ (HERE) "/new" } { (csrf(session)) button.button.primary { "Back up now" } }
    };
    let about = "Whole copies of the store and its files, made while it serves. Where and how often: [backup] in config.toml.";
    let content = html! {
        (heading("Backups", about, now))
        (live(&target(HERE, &[("page", &visit.query("page"))]), 5, shown))
        p.faint { "To restore one: " code { "colloquy restore URL --to FOLDER" } ", with the URL of the table." }
    };
    Ok(layout::page(
        visit,
        Some(session),
        Page::new("Backups", content),
    ))
}

fn table(found: &Found) -> Markup {
    html! {
        @if found.total() == 0 {
            (empty("No backups", "None was made yet, or there is no place for them.", html! {}))
        } @else {
            div.table tabindex="0" { table {
                caption.hidden { "Backups" }
                thead { tr {
                    th { "Begun" } th { "State" } th { "Ended" } th.number { "Size" } th.number { "Position" } th.number { "Files" } th { "Checked" } th { "URL" }
                } }
                tbody data-list { @for backup in found.items() { (row(backup)) } }
            } }
        }
    }
}

fn row(backup: &Value) -> Markup {
    let state = text(backup, "state");
    let tone = match state {
        "finished" => "good",
        "running" => "warn",
        _ => "bad",
    };
    let amount = |name: &str, shown: fn(u64) -> String| {
        let known = !part(backup, name).is_null();
        known.then(|| shown(number(backup, name)))
    };
    let is_verified = part(backup, "verified").as_bool() == Some(true);
    html! {
        tr {
            td { (time(backup, "started_at")) }
            td { (badge(state, tone)) @if !text(backup, "error").is_empty() { br; span.faint { (text(backup, "error")) } } }
            td { (time(backup, "finished_at")) }
            td.number { (amount("bytes", bytes).unwrap_or_default()) }
            td.number { (amount("position", grouped).unwrap_or_default()) }
            td.number { (amount("attachments", grouped).unwrap_or_default()) }
            td { @if is_verified { "restored and sound" } @else { span.faint { "no" } } }
            td.url { code { (text(backup, "url")) } }
        }
    }
}

async fn begin(visit: &Visit, session: &Session) -> Result<Reply, Problem> {
    let body = json!({});
    session.ask(Request::new(Verb::Post, API, &body)).await?;
    let words = "A backup is being made.";
    Ok(session::say(visit, Reply::see_other(HERE), words))
}
