//! How the actors of one kind are supervised: each setting with its value, what is configured and
//! what more of it does, and a form that changes it.

use colloquy_actors::supervision::messages::KINDS;
use maud::{Markup, html};
use serde_json::{Map, Number, Value, json};

use super::Visit;
use super::figures::{part, words};
use super::forms::{Form, Shown};
use super::layout::csrf;
use super::parts::problem;
use super::reply::Reply;
use super::session::{self, Session};
use crate::http::{Found, Kind, Problem, Request, Verb};

const SETTINGS: &[(&str, &str)] = &[
    (
        "mailbox_places",
        "Requests that one actor may hold. More: bursts to one actor wait in place of 503.",
    ),
    (
        "turn_budget",
        "Messages after which a busy actor lets its neighbours run. Less: its neighbours wait less for it.",
    ),
    (
        "ask_timeout_seconds",
        "Seconds that a caller waits for an actor. Less: callers learn sooner, and may retry.",
    ),
    (
        "active_max",
        "Actors of the kind in memory. More: fewer loads; less: less memory.",
    ),
    (
        "bytes_max",
        "Bytes that their states may hold. More: fewer loads; less: less memory.",
    ),
    (
        "idle_seconds",
        "Seconds without use after which an actor leaves memory.",
    ),
    (
        "sweep_seconds",
        "Seconds between two looks at who is idle; 0: as often as costs a hundredth of a core.",
    ),
    (
        "loads_max",
        "Actors that may be loading at once. Less: loads leave the disk to commits.",
    ),
    (
        "crashes_max",
        "The crash within the window that quarantines an actor. More: one that crashes at times stays in service.",
    ),
    ("window_seconds", "Seconds for which a crash counts."),
    (
        "backoff_first_seconds",
        "Seconds before the restart after a first crash.",
    ),
    (
        "backoff_min_seconds",
        "Seconds before the restart after a second crash; doubled with each that follows.",
    ),
    ("backoff_max_seconds", "The longest such wait."),
    (
        "backoff_jitter",
        "The part of a wait by which it varies, 0 to 1.",
    ),
    (
        "quarantine_seconds",
        "Seconds for which an actor in quarantine is left alone. Less: what was repaired is back sooner.",
    ),
];

/// The card with the settings of a kind; nothing for a kind that has none.
///
/// # Errors
/// The refusal of the operation.
pub(super) async fn card(session: &Session, kind: &str, shown: &Shown) -> Result<Markup, Problem> {
    if !KINDS.contains(&kind) {
        return Ok(html! {});
    }
    let found = session.get("/admin/v1/supervision").await?;
    let action = format!("/console/actors/{kind}/settings");
    let etag = found.etag.as_deref().unwrap_or_default();
    let of_kind = part(part(&found.body, "kinds"), kind);
    Ok(html! {
        section.card #settings {
            h2 { "How they are supervised" }
            p { "A change holds at once for actors that live, at every node, and after a restart. It is logged." }
            (problem(shown, &fields(kind).collect::<Vec<_>>()))
            form #restore method="post" action={ (action) "/restore" } {
                (csrf(session))
                input type="hidden" name="etag" value=(etag);
            }
            form method="post" action=(action) {
                (csrf(session))
                input type="hidden" name="etag" value=(etag);
                div.table.settings { table {
                    caption.hidden { "Settings" }
                    thead { tr { th { "Setting" } th { "Value" } th.number { "Configured" } th { span.hidden { "Back" } } } }
                    tbody { @for (name, effect) in SETTINGS { (row(kind, (name, effect), part(of_kind, name), shown)) } }
                } }
                div.actions { button.button.primary { "Save" } }
            }
        }
    })
}

/// The settings of a kind, as problems name them.
fn fields(kind: &str) -> impl Iterator<Item = &'static str> {
    let kind = kind.to_owned();
    let names = SETTINGS.iter().map(|(name, _)| *name);
    names.filter(move |_| KINDS.contains(&&*kind))
}

fn row(kind: &str, (name, effect): (&str, &str), setting: &Value, shown: &Shown) -> Markup {
    let (value, configured) = (part(setting, "value"), part(setting, "configured"));
    let filled = shown.form.filled(name).map(str::to_owned);
    let filled = filled.unwrap_or_else(|| value.to_string());
    let wrong = shown.wrong(name);
    let is_changed = value != configured;
    html! {
        tr.is-wrong[wrong.is_some()] {
            td {
                label for={ "field-" (name) } { strong { (words(name)) } }
                p.hint id={ "hint-" (name) } { (effect) }
                @if let Some(wrong) = wrong { p.wrong id={ "wrong-" (name) } { code { (kind) "." (name) } " " (wrong) "." } }
            }
            td {
                input id={ "field-" (name) } name=(name) value=(filled) inputmode="decimal" autocomplete="off"
                    aria-invalid=[wrong.map(|_| "true")] aria-describedby={ "hint-" (name) @if wrong.is_some() { " wrong-" (name) } };
            }
            td.number { (configured.to_string()) }
            td {
                @if is_changed {
                    button.button.small form="restore" name="setting" value=(name) {
                        "Go back to what is configured" span.hidden { ": " (words(name)) }
                    }
                }
            }
        }
    }
}

/// What a POST to the settings came to: done, or the form as it is to be shown again.
pub(super) enum Changed {
    Done(Reply),
    Again(Shown),
}

/// Sets what the form has other than it holds.
///
/// # Errors
/// The operation failed.
pub(super) async fn change(
    visit: &Visit,
    session: &Session,
    kind: &str,
    form: &Form,
) -> Result<Changed, Problem> {
    let held = of_kind(session, kind).await?;
    let mut changes = Map::new();
    for (name, _) in SETTINGS {
        let Some(text) = form.filled(name) else {
            continue;
        };
        let shown = part(part(&held, name), "value").to_string();
        if text != shown {
            // What is no number is refused by the operation, which names the setting.
            let number = text.parse::<Number>();
            let value = number.map_or_else(|_| json!(text), Value::Number);
            changes.insert((*name).to_owned(), value);
        }
    }
    patch(
        visit,
        session,
        Wanted {
            kind,
            form,
            changes,
        },
    )
    .await
}

/// Goes back to what is configured, for one setting.
///
/// # Errors
/// The operation failed.
pub(super) async fn restore(
    visit: &Visit,
    session: &Session,
    kind: &str,
    form: &Form,
) -> Result<Changed, Problem> {
    of_kind(session, kind).await?;
    let mut changes = Map::new();
    changes.insert(form.text("setting").to_owned(), Value::Null);
    patch(
        visit,
        session,
        Wanted {
            kind,
            form,
            changes,
        },
    )
    .await
}

async fn of_kind(session: &Session, kind: &str) -> Result<Value, Problem> {
    if !KINDS.contains(&kind) {
        return Err(Problem::no_such("no such kind of actor has settings"));
    }
    let Found { body, .. } = session.get("/admin/v1/supervision").await?;
    Ok(part(part(&body, "kinds"), kind).clone())
}

struct Wanted<'w> {
    kind: &'w str,
    form: &'w Form,
    changes: Map<String, Value>,
}

async fn patch(visit: &Visit, session: &Session, wanted: Wanted<'_>) -> Result<Changed, Problem> {
    let Wanted {
        kind,
        form,
        changes,
    } = wanted;
    let names: Vec<String> = changes.keys().cloned().collect();
    let body = json!({"kinds": {kind: changes}});
    let request = Request {
        if_match: form.filled("etag"),
        ..Request::new(Verb::Patch, "/admin/v1/supervision", &body)
    };
    match session.ask(request).await {
        Ok(found) => {
            let words = effect(part(part(&found.body, "kinds"), kind), &names);
            let to = format!("/console/actors/{kind}#settings");
            Ok(Changed::Done(session::say(
                visit,
                Reply::see_other(&to),
                &words,
            )))
        }
        // What was filled in is set against values that are others by now: these are shown.
        Err(problem) if problem.kind == Kind::PreconditionFailed => Ok(Changed::Again(Shown {
            problem: Some(problem),
            ..Shown::default()
        })),
        Err(problem) if problem.is_refusal() => {
            let prefix = format!("kinds.{kind}.");
            let named = problem.field.strip_prefix(&prefix).map(str::to_owned);
            let field = named.map_or_else(|| problem.field.clone(), Into::into);
            let problem = Problem { field, ..problem };
            Ok(Changed::Again(Shown::again(form, problem)))
        }
        Err(problem) => Err(problem),
    }
}

/// What has become of the settings that were changed.
fn effect(of_kind: &Value, names: &[String]) -> String {
    let each = names.iter().map(|name| {
        let setting = part(of_kind, name);
        let (value, configured) = (part(setting, "value"), part(setting, "configured"));
        match value == configured {
            true => format!("{} is {value} again, as configured", words(name)),
            false => format!("{} is {value} now, configured is {configured}", words(name)),
        }
    });
    match each.collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => "Nothing was changed.".to_owned(),
        told => format!("{told}. It holds at once."),
    }
}
