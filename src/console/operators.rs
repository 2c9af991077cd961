//! The operators: who signs in to this side of the console by name, new ones by invitation.

use colloquy_actors::accounts::token_holder;
use maud::{Markup, html};
use serde_json::json;

use super::forms::{Form, Shown};
use super::layout::{self, Page, csrf};
use super::parts::{
    Field, PER_PAGE, button, copied, heading, offset, pages, problem, target, text, time,
};
use super::reply::Reply;
use super::session::{self, Session};
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, Problem, Request, Verb};

const HERE: &str = "/console/operators";
const OPERATIONS: &str = "/admin/v1/operators";

/// The pages of operators.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_operator()?;
    match (asked.path.get(1..).unwrap_or_default(), asked.form) {
        ([], None) => list(visit, session, &Shown::default()).await,
        ([], Some(form)) => create(visit, session, &form).await,
        ([id, "invite"], Some(_)) => invite(visit, session, id).await,
        ([id, "delete"], Some(_)) => delete(visit, session, id).await,
        _ => Err(no_such_page()),
    }
}

async fn list(visit: &Visit, session: &Session, shown: &Shown) -> Result<Reply, Problem> {
    let (limit, offset) = (PER_PAGE.to_string(), offset(visit).to_string());
    let asked = target(OPERATIONS, &[("limit", &limit), ("offset", &offset)]);
    let found = session.get(&asked).await?;
    let about = "They sign in by name and password. Whoever has the operator token is one of them.";
    let content = html! {
        (heading("Operators", about, html! {}))
        (problem(shown, &["name"]))
        form.card method="post" action=(HERE) {
            h2 { "Add an operator" }
            (csrf(session))
            (Field { name: "name", label: "Name", hint: "The person signs in with it. It is unique, whatever its case." }.line(shown, "text", true))
            div.actions { button.button.primary { "Add, and make an invitation" } }
        }
        (table(session, &found))
        (pages(visit, &found))
    };
    Ok(layout::page(
        visit,
        Some(session),
        Page::new("Operators", content),
    ))
}

fn table(session: &Session, found: &Found) -> Markup {
    let own = session.person().user.to_string();
    let of_token = token_holder().to_string();
    html! {
        div.table tabindex="0" { table {
            caption.hidden { "Operators" }
            thead { tr { th { "Name" } th { "Added" } th { "What can be done" } } }
            tbody {
                @for operator in found.items() {
                    @let id = text(operator, "operator_id");
                    @let name = text(operator, "name");
                    tr {
                        td { (name) @if id == own { " " span.faint { "(you)" } } }
                        @if id == of_token {
                            td { span.faint { "—" } }
                            td.faint { "Whoever has the operator token; config.toml changes it." }
                        } @else {
                        td { (time(operator, "created_at")) }
                        td { div.actions {
                            (button(session, &format!("{HERE}/{id}/invite"), "Invite anew", "small", "An earlier invitation ends. With the new one the person sets another password, which ends all of the person's sessions."))
                            (button(session, &format!("{HERE}/{id}/delete"), "Delete", "small danger", &format!("{name} can't sign in any more, and is signed out everywhere at once.")))
                        } }
                        }
                    }
                }
            }
        } }
    }
}

async fn create(visit: &Visit, session: &Session, form: &Form) -> Result<Reply, Problem> {
    let body = json!({"name": form.text("name").trim()});
    let made = session
        .ask(Request::new(Verb::Post, OPERATIONS, &body))
        .await;
    match made {
        Ok(made) => invite(visit, session, text(&made.body, "operator_id")).await,
        Err(problem) => refused(visit, session, Shown::again(form, problem)).await,
    }
}

/// The list with why something was refused; what has failed stays a failure.
async fn refused(visit: &Visit, session: &Session, shown: Shown) -> Result<Reply, Problem> {
    match shown.problem {
        Some(problem) if !problem.is_refusal() => Err(problem),
        _ => {
            let page = list(visit, session, &shown).await?;
            Ok(page.refused())
        }
    }
}

/// Makes an invitation and shows its link, this once.
async fn invite(visit: &Visit, session: &Session, id: &str) -> Result<Reply, Problem> {
    let path = format!("{OPERATIONS}/{id}");
    let operator = session.get(&path).await?;
    let path = format!("{path}/invitations");
    let body = json!({});
    let made = session.ask(Request::new(Verb::Post, &path, &body)).await?;
    let name = text(&operator.body, "name");
    let content = html! {
        (heading(&format!("An invitation for {name}"), "", html! {}))
        section.card {
            p { "Give " (name) " this link, over a way that you trust. It opens a page on which a password is set. " strong { "It is not shown again." } }
            (copied("Invitation link", text(&made.body, "url")))
            p.faint { "It holds once, until " (time(&made.body, "expires_at")) "." }
            div.actions { a.button href=(HERE) { "Done" } }
        }
    };
    Ok(layout::page(
        visit,
        Some(session),
        Page::new("Invitation", content),
    ))
}

async fn delete(visit: &Visit, session: &Session, id: &str) -> Result<Reply, Problem> {
    let path = format!("{OPERATIONS}/{id}");
    let deleted = session
        .ask(Request {
            verb: Verb::Delete,
            ..Request::get(&path)
        })
        .await;
    match deleted {
        Ok(_) => Ok(session::say(
            visit,
            Reply::see_other(HERE),
            "The operator is deleted.",
        )),
        Err(problem) if problem.kind == crate::http::Kind::NotFound => Err(problem),
        Err(problem) => {
            let shown = Shown {
                problem: Some(problem),
                ..Shown::default()
            };
            refused(visit, session, shown).await
        }
    }
}
