//! Actors, kind by kind: how they fare, which are in memory, how they are supervised.

use maud::{Markup, html};
use serde_json::Value;

use super::figures::{
    actor_state, by_cause, by_state, bytes, live, part, percentiles, sum, tile, words,
};
use super::forms::Shown;
use super::layout::{self, Page};
use super::parts::{empty, grouped, heading, number, target, text, time};
use super::reply::Reply;
use super::session::Session;
use super::supervision::{self, Changed};
use super::{Asked, Visit, actor};
use crate::console::no_such_page;
use crate::http::Problem;

const HERE: &str = "/console/actors";
const STATES: &[(&str, &str)] = &[
    ("", "any"),
    ("ready", "ready"),
    ("loading", "loading"),
    ("backing_off", "backing off"),
    ("quarantined", "quarantined"),
];
const SORTS: &[(&str, &str)] = &[
    ("last_used", "last used"),
    ("mailbox", "places used"),
    ("bytes", "memory"),
    ("restarts", "restarts"),
];
const LIMITS: &[(&str, &str)] = &[("20", "20"), ("100", "100"), ("1000", "1 000")];

/// The pages of actors.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_operator()?;
    match (asked.path.get(1..).unwrap_or_default(), asked.form) {
        ([], None) => kinds(visit, session).await,
        ([kind], None) => one_kind(visit, session, kind, &Shown::default()).await,
        ([kind, "settings"], Some(form)) => {
            let changed = supervision::change(visit, session, kind, &form).await?;
            after(visit, session, kind, changed).await
        }
        ([kind, "settings", "restore"], Some(form)) => {
            let changed = supervision::restore(visit, session, kind, &form).await?;
            after(visit, session, kind, changed).await
        }
        ([kind, id], None) => actor::page(visit, session, (kind, id), &Shown::default()).await,
        ([kind, id, command], Some(_)) => actor::steer(visit, session, (kind, id), command).await,
        _ => Err(no_such_page()),
    }
}

async fn after(
    visit: &Visit,
    session: &Session,
    kind: &str,
    changed: Changed,
) -> Result<Reply, Problem> {
    match changed {
        Changed::Done(reply) => Ok(reply),
        Changed::Again(shown) => {
            let page = one_kind(visit, session, kind, &shown).await?;
            Ok(page.refused())
        }
    }
}

async fn kinds(visit: &Visit, session: &Session) -> Result<Reply, Problem> {
    let found = session.get("/admin/v1/actors").await?;
    let table = html! {
        div.table tabindex="0" { table {
            caption.hidden { "Kinds of actors" }
            thead { tr {
                th { "Kind" } th { "State" } th.number { "In memory" } th.number { "Places used / most" }
                th.number { "Memory" } th.number { "Handled" } th.number { "Refused" } th.number { "Restarts" }
                th.number { "Work ms, p50 / p99" } th.number { "Wait ms, p50 / p99" }
            } }
            tbody data-list { @for kind in found.items() { (kind_row(kind)) } }
        } }
    };
    if visit.is_fragment() {
        return Ok(Reply::part(table));
    }
    let about = "Every conversation, document, account … is an actor of its own while it is in use. All nodes together.";
    let content = html! {
        (heading("Actors", about, html! {}))
        (live(HERE, 2, table))
        p.faint { "Refreshed every 2 seconds. Times are of all commands since the start, one in sixteen measured." }
    };
    Ok(layout::page(
        visit,
        Some(session),
        Page::new("Actors", content),
    ))
}

fn kind_row(kind: &Value) -> Markup {
    let (name, mailbox) = (text(kind, "kind"), part(kind, "mailbox"));
    html! {
        tr {
            td { a id={ "kind-" (name) } href={ (HERE) "/" (name) } data-item { (words(name)) } }
            td { (by_state(kind)) }
            td.number { (grouped(number(kind, "live"))) }
            td.number { (grouped(number(mailbox, "used"))) " / " (grouped(number(mailbox, "max"))) }
            td.number { (bytes(number(kind, "bytes"))) }
            td.number { (grouped(number(kind, "handled"))) }
            td.number { (grouped(sum(kind, "refused"))) }
            td.number { (grouped(sum(kind, "restarts"))) }
            td.number { (percentiles(kind, "working_ms")) }
            td.number { (percentiles(kind, "waiting_ms")) }
        }
    }
}

async fn one_kind(
    visit: &Visit,
    session: &Session,
    kind: &str,
    shown: &Shown,
) -> Result<Reply, Problem> {
    let part = visit.query("part");
    if visit.is_fragment() && part == "instances" {
        return Ok(Reply::part(instances(visit, session, kind).await?));
    }
    let figures = figures(session, kind).await?;
    if visit.is_fragment() {
        return Ok(Reply::part(figures));
    }
    let here = format!("{HERE}/{kind}");
    let listed = instances(visit, session, kind).await?;
    let content = html! {
        (heading(&format!("Actors: {}", words(kind)), "All nodes together.", html! { a.button href=(HERE) { "All kinds" } }))
        (live(&format!("{here}?part=figures"), 2, figures))
        h2.apart { "Those in memory" }
        (filters(visit, &here))
        (live(&target(&here, &wanted(visit, "instances").each()), 2, listed))
        (supervision::card(session, kind, shown).await?)
    };
    Ok(layout::page(
        visit,
        Some(session),
        Page::new(format!("Actors: {}", words(kind)), content),
    ))
}

async fn figures(session: &Session, kind: &str) -> Result<Markup, Problem> {
    let found = session.get(&format!("/admin/v1/actors/{kind}")).await?;
    let kind = &found.body;
    let mailbox = part(kind, "mailbox");
    let places = format!(
        "{} / {}",
        grouped(number(mailbox, "used")),
        grouped(number(mailbox, "max"))
    );
    Ok(html! {
        p { "State: " (by_state(kind)) }
        dl.tiles {
            (tile("In memory", grouped(number(kind, "live"))))
            (tile("Places used / most in one", places))
            (tile("Memory", bytes(number(kind, "bytes"))))
            (tile("Handled", grouped(number(kind, "handled"))))
            (tile("Work ms, p50 / p99", percentiles(kind, "working_ms")))
            (tile("Wait ms, p50 / p99", percentiles(kind, "waiting_ms")))
            (tile("Came into memory", grouped(number(kind, "activations"))))
            (tile("Conflicts", grouped(number(kind, "conflicts"))))
        }
        div.columns {
            (by_cause("Refused, by cause", kind, "refused", "Nobody was turned away."))
            (by_cause("Left memory, by reason", kind, "passivations", "None has left memory."))
            (by_cause("Restarts, by cause", kind, "restarts", "None was restarted."))
        }
        (failures(kind))
    })
}

fn failures(kind: &Value) -> Markup {
    let failures = part(kind, "last_failures").as_array();
    let failures = failures.map(Vec::as_slice).unwrap_or_default();
    let name = text(kind, "kind");
    html! {
        h2.apart { "Last failures" }
        @if failures.is_empty() { p.faint { "None since the start." } }
        @else {
            div.table tabindex="0" { table {
                caption.hidden { "Last failures" }
                thead { tr { th { "When" } th { "Actor" } th { "Cause" } th { "What it said" } } }
                tbody {
                    @for failure in failures {
                        tr {
                            td { (time(failure, "at")) }
                            td { a href={ (HERE) "/" (name) "/" (text(failure, "id")) } { code { (text(failure, "id")) } } }
                            td { (words(text(failure, "cause"))) }
                            td { (text(failure, "message")) }
                        }
                    }
                }
            } }
        }
    }
}

/// Which actors are listed, as the address says it.
struct Listed {
    part: &'static str,
    state: String,
    sort: String,
    limit: String,
}

impl Listed {
    fn each(&self) -> [(&str, &str); 4] {
        [
            ("part", self.part),
            ("state", &self.state),
            ("sort", &self.sort),
            ("limit", &self.limit),
        ]
    }
}

fn wanted(visit: &Visit, part: &'static str) -> Listed {
    Listed {
        part,
        state: visit.query("state"),
        sort: visit.query("sort"),
        limit: visit.query("limit"),
    }
}

fn filters(visit: &Visit, here: &str) -> Markup {
    let choice = |label: &str, name: &str, values: &[(&str, &str)]| {
        let chosen = visit.query(name);
        html! {
            label { (label)
                select name=(name) data-submit {
                    @for (value, words) in values { option value=(value) selected[*value == chosen] { (words) } }
                }
            }
        }
    };
    html! {
        form.filters method="get" action=(here) {
            (choice("State", "state", STATES))
            (choice("The most first, by", "sort", SORTS))
            (choice("At most", "limit", LIMITS))
            button.button { "Show" }
        }
    }
}

async fn instances(visit: &Visit, session: &Session, kind: &str) -> Result<Markup, Problem> {
    let path = format!("/admin/v1/actors/{kind}/instances");
    let found = session
        .get(&target(&path, &wanted(visit, "").each()))
        .await?;
    let items = found.items();
    Ok(html! {
        @if items.is_empty() {
            (empty("None", "No actor of this kind that is in memory is asked for.", html! {}))
        } @else {
            div.table tabindex="0" { table {
                caption.hidden { "Actors in memory" }
                thead { tr {
                    th { "Actor" } th { "State" } th.number { "Places used" } th.number { "Memory" }
                    th.number { "Changes" } th.number { "Restarts" } th { "Last used" } th { "Last failure" }
                } }
                tbody data-list { @for item in items { (instance_row(kind, item)) } }
            } }
        }
    })
}

fn instance_row(kind: &str, item: &Value) -> Markup {
    let id = text(item, "id");
    html! {
        tr {
            td { a id={ "actor-" (id) (text(item, "node")) } href={ (HERE) "/" (kind) "/" (id) } data-item { code { (id) } } }
            td { (actor_state(text(item, "state"))) }
            td.number { (grouped(number(item, "mailbox_used"))) }
            td.number { (bytes(number(item, "bytes"))) }
            td.number { (grouped(number(item, "revision"))) }
            td.number { (grouped(number(item, "restarts"))) }
            td { (time(item, "last_used_at")) }
            td { (text(part(item, "last_failure"), "message")) }
        }
    }
}
