//! The nodes: the processes that serve the store, their load, and taking one out.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::figures::{live, part, words};
use super::forms::Form;
use super::layout::{self, Page, csrf};
use super::parts::{badge, grouped, heading, text, time};
use super::reply::Reply;
use super::session::{self, Session};
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, Problem, Request, Verb};

const HERE: &str = "/console/nodes";

/// The pages of nodes.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_operator()?;
    match (asked.path.get(1..).unwrap_or_default(), asked.form) {
        ([], None) => list(visit, session).await,
        (["drain"], Some(form)) => drain(visit, session, &form).await,
        _ => Err(no_such_page()),
    }
}

async fn list(visit: &Visit, session: &Session) -> Result<Reply, Problem> {
    let found = session.get("/admin/v1/nodes").await?;
    let table = table(&found);
    if visit.is_fragment() {
        return Ok(Reply::part(table));
    }
    let about = "The processes that serve the store. On the embedded store there is one.";
    let content = html! {
        (heading("Nodes", about, html! {}))
        (live(HERE, 5, table))
        section.card {
            h2 { "Drain a node" }
            p { "Its readiness says no within 15 seconds, so that a balancer takes it out. It serves until it is told to end; draining can't be taken back." }
            (drains(session, &found))
        }
    };
    Ok(layout::page(
        visit,
        Some(session),
        Page::new("Nodes", content),
    ))
}

fn drains(session: &Session, found: &Found) -> Markup {
    let mut drainable = found.items().iter();
    let any = drainable.any(|node| text(node, "state") == "live");
    html! {
        @if any {
            form.row method="post" action={ (HERE) "/drain" } {
                (csrf(session))
                div.field {
                    label for="field-node" { "Node" }
                    select #field-node name="node" {
                        @for node in found.items().iter().filter(|node| text(node, "state") == "live") {
                            option value=(text(node, "node")) { (text(node, "address")) ", " (text(node, "node")) }
                        }
                    }
                }
                button.button.danger data-confirm="The node stops being ready and takes no new connections from a balancer. This can't be taken back: it has to be started again." { "Drain it" }
            }
        } @else { p.faint { "None is live." } }
    }
}

fn table(found: &Found) -> Markup {
    html! {
        div.table tabindex="0" { table {
            caption.hidden { "Nodes" }
            thead { tr { th { "Address" } th { "Region" } th { "State" } th { "Version" } th { "Started" } th { "Lease until" } th { "Actors in memory" } th { "Node" } } }
            tbody data-list { @for node in found.items() { (row(node)) } }
        } }
    }
}

fn row(node: &Value) -> Markup {
    let (state, region) = (text(node, "state"), text(node, "region"));
    let tone = match state {
        "live" => "good",
        "draining" => "warn",
        _ => "bad",
    };
    let load = part(node, "live").as_object().into_iter().flatten();
    let mut load: Vec<(&String, u64)> = load
        .filter_map(|(kind, count)| Some((kind, count.as_u64()?)))
        .filter(|(_, count)| *count > 0)
        .collect();
    load.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    html! {
        tr {
            td { (text(node, "address")) }
            td { @if region.is_empty() { span.faint { "none" } } @else { (region) } }
            td { (badge(state, tone)) }
            td { (text(node, "version")) }
            td { (time(node, "started_at")) }
            td { (time(node, "lease_until")) }
            td {
                @if load.is_empty() { span.faint { "none" } }
                @for (kind, count) in load { div { (grouped(count)) " " (words(kind)) } }
            }
            td { code { (text(node, "node")) } }
        }
    }
}

async fn drain(visit: &Visit, session: &Session, form: &Form) -> Result<Reply, Problem> {
    let path = format!("/admin/v1/nodes/{}/drain", form.text("node").trim());
    let body = json!({});
    session.ask(Request::new(Verb::Post, &path, &body)).await?;
    let words = "The node drains: its readiness says no within 15 seconds.";
    Ok(session::say(visit, Reply::see_other(HERE), words))
}
