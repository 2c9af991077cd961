//! One actor: how it stands, and what an operator may have it do.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::Visit;
use super::figures::{actor_state, bytes, live, part, words};
use super::forms::Shown;
use super::layout::{self, Page};
use super::parts::{button, grouped, heading, number, problem, text, time};
use super::reply::Reply;
use super::session::{self, Session};
use crate::http::{Kind, Problem, Request, Verb};

/// A command: its name, its button, what it does, what is asked before, what is said after.
struct Command {
    name: &'static str,
    label: &'static str,
    about: &'static str,
    ask: &'static str,
    done: &'static str,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "restart",
        label: "Restart",
        about: "Drops what it holds in memory, behind what waits, and loads it again from the store. A backoff ends.",
        ask: "It drops what it holds in memory and loads it again. Nothing acknowledged is lost; callers wait a moment.",
        done: "It is restarted.",
    },
    Command {
        name: "passivate",
        label: "Passivate",
        about: "Takes it out of memory as soon as it holds no request; the next request loads it again.",
        ask: "It leaves memory as soon as it holds no request.",
        done: "It was asked to leave memory.",
    },
    Command {
        name: "release",
        label: "Release",
        about: "Ends its quarantine or its backoff, and forgets its crashes.",
        ask: "Its crashes are forgotten and requests reach it at once. If the cause is not gone, it will crash again.",
        done: "It is released.",
    },
];

/// The drill, where drills are on.
const DRILL: Command = Command {
    name: "crash",
    label: "Crash it (drill)",
    about: "A drill: its next message panics, so that you see what follows. Its caller is answered with 500.",
    ask: "Its next request will fail with 500, whoever sends it.",
    done: "It crashes at its next message.",
};

/// The page of an actor.
///
/// # Errors
/// There is none.
pub(super) async fn page(
    visit: &Visit,
    session: &Session,
    (kind, id): (&str, &str),
    shown: &Shown,
) -> Result<Reply, Problem> {
    let found = session
        .get(&format!("/admin/v1/actors/{kind}/instances/{id}"))
        .await?;
    let facts = facts(&found.body);
    if visit.is_fragment() {
        return Ok(Reply::part(facts));
    }
    let here = format!("/console/actors/{kind}/{id}");
    let drill = visit.app.system.drills().then_some(&DRILL);
    let back = format!("/console/actors/{kind}");
    let content = html! {
        (heading(id, &format!("An actor of the kind {}.", words(kind)), html! { a.button href=(back) { "All of its kind" } }))
        (problem(shown, &[]))
        section.card aria-label="How it stands" { (live(&here, 2, facts)) }
        section.card {
            h2 { "What it can be told" }
            dl.commands {
                @for command in COMMANDS.iter().chain(drill) {
                    dt { (button(session, &format!("{here}/{}", command.name), command.label, if command.name == "crash" { "danger" } else { "" }, command.ask)) }
                    dd { (command.about) }
                }
            }
        }
    };
    Ok(layout::page(visit, Some(session), Page::new(id, content)))
}

fn facts(actor: &Value) -> Markup {
    let failure = part(actor, "last_failure");
    let node = text(actor, "node");
    html! {
        dl.facts {
            div { dt { "State" } dd { (actor_state(text(actor, "state"))) } }
            @if !text(actor, "quarantined_until").is_empty() {
                div { dt { "In quarantine until" } dd { (time(actor, "quarantined_until")) } }
            }
            div { dt { "Places used" } dd { (grouped(number(actor, "mailbox_used"))) } }
            div { dt { "Memory" } dd { (bytes(number(actor, "bytes"))) } }
            div { dt { "Number of its last change" } dd { (grouped(number(actor, "revision"))) } }
            div { dt { "Restarts since it came into memory" } dd { (grouped(number(actor, "restarts"))) } }
            div { dt { "Last used" } dd { (time(actor, "last_used_at")) } }
            @if !node.is_empty() { div { dt { "Node" } dd { code { (node) } } } }
            div { dt { "Last failure" } dd {
                @if failure.is_null() { span.faint { "None since it came into memory" } }
                @else { (time(failure, "at")) ": " (words(text(failure, "cause"))) ". " (text(failure, "message")) }
            } }
        }
    }
}

/// Gives an actor a command.
///
/// # Errors
/// There is no such actor or command, or it is not allowed.
pub(super) async fn steer(
    visit: &Visit,
    session: &Session,
    (kind, id): (&str, &str),
    command: &str,
) -> Result<Reply, Problem> {
    let mut commands = COMMANDS.iter().chain([&DRILL]);
    let command = commands.find(|known| known.name == command);
    let command = command.ok_or_else(|| Problem::no_such("there is no such command"))?;
    let path = format!("/admin/v1/actors/{kind}/instances/{id}/{}", command.name);
    let body = json!({});
    match session.ask(Request::new(Verb::Post, &path, &body)).await {
        Ok(_) => {
            let reply = Reply::see_other(&format!("/console/actors/{kind}/{id}"));
            Ok(session::say(visit, reply, command.done))
        }
        Err(busy) if busy.kind == Kind::Conflict => {
            let shown = Shown {
                problem: Some(busy),
                ..Shown::default()
            };
            let page = page(visit, session, (kind, id), &shown).await?;
            Ok(page.refused())
        }
        Err(problem) => Err(problem),
    }
}
