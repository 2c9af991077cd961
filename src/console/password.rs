//! The page on which a person changes the own password by giving the one that holds.

use colloquy_actors::sign_in::{NewPassword, SignInError};
use colloquy_model::time::Timestamp;
use maud::html;

use super::forms::{Form, Shown};
use super::layout::{self, Page, csrf};
use super::parts::{Field, heading, problem};
use super::reply::{Ending, Reply};
use super::session::{self, Session};
use super::sign_in::{NEW_PASSWORD, REPEATED};
use super::{Visit, no_such_page};
use crate::http::{Kind, Problem};

const HERE: &str = "/console/session/password";
const FIELDS: &[&str] = &["old_password", "password", "repeated"];
const OLD: Field<'_> = Field {
    name: "old_password",
    label: "Your password until now",
    hint: "",
};

/// Whether the person signs in with a password; whoever has the operator token has none.
pub(super) fn has_one(visit: &Visit, session: &Session) -> bool {
    let own = session.person();
    let known = visit.app.system.identity.person(own.tenant, own.user);
    known.is_some_and(|person| person.password.is_some())
}

/// Shows the form, or takes it.
///
/// # Errors
/// The person has no password, or it could not be changed.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    form: Option<Form>,
) -> Result<Reply, Problem> {
    if !has_one(visit, session) {
        return Err(no_such_page());
    }
    match form {
        None => Ok(page(visit, session, &Shown::default())),
        Some(form) => change(visit, session, &form).await,
    }
}

async fn change(visit: &Visit, session: &Session, form: &Form) -> Result<Reply, Problem> {
    let refused = |problem| page(visit, session, &Shown::again(form, problem));
    if form.text("password") != form.text("repeated") {
        let problem = Problem::invalid("repeated", "must be the same as the one above");
        return Ok(refused(problem).refused());
    }
    let (addresses, now) = (&visit.app.system.addresses, Timestamp::now());
    if let Some(seconds) = addresses.blocked(visit.address, now) {
        let problem = Problem::rate_limited("too many tries from this address", seconds);
        return Ok(too_often(refused(problem), seconds));
    }
    let browser = session::browser(visit);
    let new = NewPassword {
        person: session.person(),
        session: session.token(),
        old: form.text("old_password").to_owned(),
        new: form.text("password").to_owned(),
        browser: browser.as_deref(),
    };
    let sign_ins = &visit.app.system.sign_ins;
    match sign_ins.change_password(new, session.actor(visit)).await {
        Ok(()) => {
            let words = "Your password is changed. You are signed out everywhere else.";
            let reply = Reply::see_other("/console/session");
            Ok(session::say(visit, reply, words))
        }
        Err(SignInError::Wrong) => {
            addresses.take(visit.address, now);
            let problem = Problem::invalid("old_password", "is not your password");
            Ok(refused(problem).refused())
        }
        Err(SignInError::BadPassword(reason)) => {
            Ok(refused(Problem::invalid("password", reason)).refused())
        }
        Err(SignInError::TooManyTries(tries)) => {
            let seconds = tries.retry_after_seconds;
            let problem = Problem::rate_limited("too many wrong passwords", seconds);
            Ok(too_often(refused(problem), seconds))
        }
        Err(SignInError::Failed(error)) => Err(error.into()),
        Err(SignInError::NotInvited | SignInError::Several(_)) => Err(no_such_page()),
    }
}

fn too_often(reply: Reply, seconds: u64) -> Reply {
    reply
        .ending(Ending::Refused(Kind::RateLimited))
        .with("retry-after", &seconds.max(1).to_string())
}

fn page(visit: &Visit, session: &Session, shown: &Shown) -> Reply {
    let own = session.person();
    let known = visit.app.system.identity.person(own.tenant, own.user);
    let name = known.map(|person| person.sign_in_name.clone());
    let content = html! {
        (heading("Change your password", "You stay signed in here, and are signed out everywhere else.", html! {}))
        section.card {
            (problem(shown, FIELDS))
            form method="post" action=(HERE) {
                (csrf(session))
                input type="hidden" name="username" value=(name.unwrap_or_default()) autocomplete="username";
                (OLD.around(shown, html! {
                    input #field-old_password name="old_password" type="password" autocomplete="current-password" required autofocus;
                }))
                (NEW_PASSWORD.around(shown, html! {
                    input #field-password name="password" type="password" autocomplete="new-password" minlength="12" required aria-describedby="hint-password";
                }))
                (REPEATED.around(shown, html! {
                    input #field-repeated name="repeated" type="password" autocomplete="new-password" minlength="12" required;
                }))
                div.actions {
                    button.button.primary { "Change the password" }
                    a.button href="/console/session" { "Cancel" }
                }
            }
        }
    };
    let page = Page::new("Change your password", content);
    layout::page(visit, Some(session), page)
}
