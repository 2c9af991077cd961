//! The store: its size, how fast it commits, what waits for it, who follows it and how far behind;
//! and how deliveries to webhook endpoints fare.

use maud::{Markup, html};
use serde_json::Value;

use super::figures::{bytes, endpoint_state, live, part, percentiles, tile};
use super::layout::{self, Page};
use super::parts::{
    PER_PAGE, badge, empty, grouped, heading, number, offset, pages, target, text, time,
};
use super::reply::Reply;
use super::session::Session;
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, Problem};

const HERE: &str = "/console/store";

/// The page of the store.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_operator()?;
    if asked.path.len() > 1 || asked.form.is_some() {
        return Err(no_such_page());
    }
    let store = session.get("/admin/v1/store").await?;
    let page = (offset(visit) / PER_PAGE + 1).to_string();
    let (limit, offset) = (PER_PAGE.to_string(), offset(visit).to_string());
    let asked = target(
        "/admin/v1/webhooks",
        &[("limit", &limit), ("offset", &offset)],
    );
    let endpoints = session.get(&asked).await;
    let shown = html! {
        (figures(visit, &store.body))
        h2.apart #deliveries { "Deliveries to webhook endpoints" }
        @match &endpoints {
            Ok(found) => { (deliveries(visit, found)) }
            Err(problem) => { div.notice.warn { "How they fare is not known now: " (problem.reason) "." } }
        }
    };
    if visit.is_fragment() {
        return Ok(Reply::part(shown));
    }
    let content = html! {
        (heading("Store", "Where everything is kept, and who follows what is written to it.", html! {}))
        (live(&target(HERE, &[("page", &page)]), 5, shown))
        p.faint { "Refreshed every 5 seconds. Times and batches are of all commits since the start." }
    };
    Ok(layout::page(
        visit,
        Some(session),
        Page::new("Store", content),
    ))
}

fn figures(visit: &Visit, store: &Value) -> Markup {
    let (size, checkpoint) = (part(store, "size"), part(store, "checkpoint"));
    let lag = |name| grouped(number(part(store, name), "lag"));
    let is_there = visit.app.system.has_store();
    html! {
        p { "State: " @if is_there { (badge("answers", "good")) } @else { (badge("away", "bad")) " Changes are answered with 503 until it is back." } }
        dl.tiles {
            (tile("Commit ms, p50 / p99", percentiles(store, "commit_ms")))
            (tile("Commits in a batch, p50 / p99", percentiles(store, "batch")))
            (tile("Commits waiting", grouped(number(store, "queue"))))
            (tile("Events not yet matched with webhooks", lag("feed")))
            (tile("Changes not yet in the search index", lag("index")))
        }
        div.columns {
            section.card {
                h2 { "Size" }
                dl.facts {
                    div { dt { "Database" } dd { (bytes(number(size, "database_bytes"))) } }
                    div { dt { "Log in front of it" } dd { (bytes(number(size, "log_bytes"))) } }
                    div { dt { "Search index" } dd { (bytes(number(size, "index_bytes"))) } }
                }
            }
            section.card {
                h2 { "Last checkpoint" }
                dl.facts {
                    div { dt { "Ended" } dd { (time(checkpoint, "at")) } }
                    div { dt { "Pages moved" } dd { (grouped(number(checkpoint, "pages"))) } }
                }
            }
        }
    }
}

fn deliveries(visit: &Visit, found: &Found) -> Markup {
    html! {
        @if found.items().is_empty() {
            (empty("No endpoints", "No account has a webhook endpoint yet.", html! {}))
        } @else {
            div.table tabindex="0" { table {
                caption.hidden { "Webhook endpoints of all accounts" }
                thead { tr {
                    th { "Endpoint" } th { "State" } th.number { "Waiting" } th.number { "Oldest waits" } th.number { "Delivered" }
                    th.number { "Given up" } th { "Last success" } th { "Account" }
                } }
                tbody data-list { @for endpoint in found.items() { (row(endpoint)) } }
            } }
            (pages(visit, found))
        }
    }
}

fn row(endpoint: &Value) -> Markup {
    let account = text(endpoint, "account_id");
    let oldest = part(endpoint, "oldest_pending_seconds").as_i64();
    html! {
        tr {
            td { (text(endpoint, "url")) }
            td { (endpoint_state(endpoint)) @if !text(endpoint, "failing_since").is_empty() { br; span.faint { "since " (time(endpoint, "failing_since")) } } }
            td.number { (grouped(number(endpoint, "pending"))) }
            td.number { (oldest.map_or("—".to_owned(), |seconds| format!("{seconds} s"))) }
            td.number { (grouped(number(endpoint, "delivered"))) }
            td.number { (grouped(number(endpoint, "failed"))) }
            td { (time(endpoint, "last_success_at")) }
            td { a id={ "of-" (text(endpoint, "webhook_id")) } href={ "/console/accounts/" (account) } data-item { "Its account" } }
        }
    }
}
