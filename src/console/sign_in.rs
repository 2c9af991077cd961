//! Signing in and out, and setting a password by invitation.

use colloquy_actors::accounts::ChangeSession;
use colloquy_actors::sign_in::{Given, Person, SignInError};
use colloquy_model::caller::{Actor, CredentialId, Mode, Tenant};
use maud::{Markup, html};

use super::forms::{Form, Shown};
use super::layout::{self, Page, csrf};
use super::parts::{self, Field, heading};
use super::reply::{Ending, Reply};
use super::session::{self, Session};
use super::{Asked, Visit, authorize, password};
use crate::console::no_such_page;
use crate::http::{BudgetOwner, Kind, Problem, check_client_certificate};

const NAME: Field<'_> = Field {
    name: "name",
    label: "Name or e-mail address",
    hint: "",
};
const PASSWORD: Field<'_> = Field {
    name: "password",
    label: "Password",
    hint: "",
};
const TOKEN: Field<'_> = Field {
    name: "token",
    label: "Operator token",
    hint: "The server printed it at its first start; config.toml may set another one.",
};
pub(super) const NEW_PASSWORD: Field<'_> = Field {
    name: "password",
    label: "New password",
    hint: "At least 12 characters. A sentence that you remember is better than a word that you don't.",
};
pub(super) const REPEATED: Field<'_> = Field {
    name: "repeated",
    label: "The same once more",
    hint: "",
};

/// Sends whoever is not signed in to the sign-in, and back afterwards.
pub(super) fn required(visit: &Visit, form: Option<&Form>) -> Reply {
    if let Some(form) = form.filter(|_| !visit.is_fragment()) {
        let content = html! {
            div.door {
                (layout::logo())
                h1 { "You are signed out" }
                p { "What you sent was not taken: your session has ended." }
                (parts::kept(&form.written()))
                p { a.button.primary href="/console/sign-in" { "Sign in" } }
            }
        };
        let page = layout::page(visit, None, Page::new("Signed out", content));
        return page.ending(Ending::Refused(Kind::Forbidden));
    }
    if visit.is_fragment() {
        // The page that asks goes there as a whole.
        return Reply::part(html! {}).with("hx-redirect", "/console/sign-in");
    }
    let here = visit.request.uri().path_and_query();
    let here = here.map_or("/console", |here| here.as_str());
    let next: String = url::form_urlencoded::byte_serialize(here.as_bytes()).collect();
    Reply::see_other(&format!("/console/sign-in?next={next}"))
}

/// The pages of whoever is not signed in yet.
pub(super) async fn answer(
    visit: &Visit,
    signed_in: Option<&Session>,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    match (asked.path, asked.form) {
        (["sign-in"], None) => Ok(match signed_in {
            Some(_) => Reply::see_other(&next(visit)),
            None => sign_in_page(visit, &Shown::default(), &[]),
        }),
        (["sign-in"], Some(form)) => sign_in_in_turn(visit, &form).await,
        (["invitations", token], None) => Ok(invitation_page(visit, token, &Shown::default())),
        (["invitations", token], Some(form)) => accept(visit, token, &form).await,
        _ => Err(no_such_page()),
    }
}

/// The address to go on at: one of ours, or the start page.
fn next(visit: &Visit) -> String {
    let next = visit.query("next");
    // `//host` and `/\\host` lead elsewhere, dots upwards, and what is not visible into headers.
    let leads_astray = ["//", "\\", ".."].iter().any(|mark| next.contains(mark));
    let is_ours = super::serves(next.split(['?', '#']).next().unwrap_or_default());
    let is_visible = next.bytes().all(|byte| byte.is_ascii_graphic());
    match is_ours && is_visible && !leads_astray {
        true => next,
        false => "/console".to_owned(),
    }
}

/// Whose people somebody means to be one of, where anything says so: the account at whose domain that is,
/// that of whoever asks for consent, or the one that was chosen.
fn account_meant(visit: &Visit, form: &Form) -> Option<Tenant> {
    let chosen = form.filled("account").and_then(|text| text.parse().ok());
    let chosen = chosen.map(Tenant::from_number);
    let asking = || authorize::account_of(visit, &next(visit));
    visit.site.account_wide().or_else(asking).or(chosen)
}

/// Signs somebody in, behind others of the same address: one would fill the queue in which all wait until
/// passwords are compared.
async fn sign_in_in_turn(visit: &Visit, form: &Form) -> Result<Reply, Problem> {
    let owner = BudgetOwner::at(visit.address);
    let _tries = visit.app.sign_ins_at_once.enter(owner).await?;
    sign_in(visit, form).await
}

async fn sign_in(visit: &Visit, form: &Form) -> Result<Reply, Problem> {
    let addresses = &visit.app.system.addresses;
    let now = colloquy_model::time::Timestamp::now();
    if let Some(seconds) = addresses.blocked(visit.address, now) {
        let reason = "too many tries to sign in from this address";
        return Ok(tried_too_often(visit, form, reason, seconds));
    }
    // Operators sign in at the server's own host.
    let is_own_host = visit.site.domain().is_none();
    let token = form.filled("token").filter(|_| is_own_host);
    if token.is_some() {
        // Without one, nobody finds out whether a token is the operators'.
        check_client_certificate(&visit.app, &visit.request)?;
    }
    let sign_ins = &visit.app.system.sign_ins;
    let opened = match token {
        Some(token) => sign_ins.with_token(token, actor(visit)).await,
        None => {
            let tenant = account_meant(visit, form);
            let browser = session::browser(visit);
            let given = Given {
                name: form.text("name"),
                password: form.text("password").to_owned(),
                tenant,
                browser: browser.as_deref(),
            };
            sign_ins.with_password(given, actor(visit)).await
        }
    };
    match opened {
        Ok(signed_in) => Ok(session::begin(
            visit,
            Reply::see_other(&next(visit)),
            &signed_in,
        )),
        Err(SignInError::Wrong) => {
            addresses.take(visit.address, now);
            let reason = "no person has this name and this password";
            let reason = match form.filled("token") {
                Some(_) => "this is not the operator token",
                None => reason,
            };
            let shown = Shown::again(form, Problem::new(Kind::Unauthorized, reason));
            Ok(sign_in_page(visit, &shown, &[]).refused())
        }
        Err(SignInError::TooManyTries(tries)) => {
            let reason = "too many wrong passwords for this name";
            let seconds = tries.retry_after_seconds;
            Ok(tried_too_often(visit, form, reason, seconds))
        }
        Err(SignInError::Several(people)) => {
            let shown = Shown {
                form: form.clone(),
                problem: None,
            };
            Ok(sign_in_page(visit, &shown, &people))
        }
        Err(SignInError::NotInvited | SignInError::BadPassword(_)) => Err(Problem::crashed()),
        Err(SignInError::Failed(error)) => Err(error.into()),
    }
}

fn tried_too_often(visit: &Visit, form: &Form, reason: &'static str, seconds: u64) -> Reply {
    let problem = Problem::rate_limited(reason, seconds);
    let shown = Shown::again(form, problem);
    sign_in_page(visit, &shown, &[])
        .ending(Ending::Refused(Kind::RateLimited))
        .with("retry-after", &seconds.max(1).to_string())
}

/// Somebody of whom nothing is known yet.
fn actor(visit: &Visit) -> Actor {
    Actor {
        credential: CredentialId::Visitor,
        user: None,
        address: Some(visit.address),
        request_id: std::sync::Arc::clone(&visit.request_id),
    }
}

fn sign_in_page(visit: &Visit, shown: &Shown, several: &[Person]) -> Reply {
    let with_token = shown.form.filled("token").is_some();
    let action = match visit.request.query_string() {
        "" => "/console/sign-in".to_owned(),
        query => format!("/console/sign-in?{query}"),
    };
    let content = html! {
        div.door {
            (layout::logo())
            h1 { "Sign in to Colloquy" }
            @if let Some(problem) = &shown.problem { (refused(problem)) }
            form method="post" action=(action) {
                (NAME.around(shown, html! {
                    input #field-name name="name" value=(shown.form.text("name")) autocomplete="username" autocapitalize="none" required autofocus;
                }))
                @if !several.is_empty() { (accounts(visit, several)) }
                (PASSWORD.around(shown, html! {
                    input #field-password name="password" type="password" autocomplete="current-password" required;
                }))
                button.button.primary { "Sign in" }
            }
            @if visit.site.domain().is_none() { details open[with_token] {
                summary { "Sign in with the operator token" }
                form method="post" action=(action) {
                    (TOKEN.around(&Shown::default(), html! {
                        input #field-token name="token" type="password" autocomplete="off" required aria-describedby="hint-token";
                    }))
                    button.button { "Sign in as operator" }
                }
            } }
        }
    };
    layout::page(visit, None, Page::new("Sign in", content))
}

fn refused(problem: &Problem) -> Markup {
    html! {
        div.notice.wrong role="alert" {
            "That did not work: " (problem.reason) "."
            @if let Some(seconds) = problem.retry_after_seconds { " The next try is let in after " (seconds) " s." }
        }
    }
}

fn accounts(visit: &Visit, several: &[Person]) -> Markup {
    html! {
        fieldset {
            legend { "Which account? You are in several of them. Choose one, and type the password again." }
            @for person in several {
                @let account = visit.app.system.identity.account_numbered(person.tenant.account_number());
                @let name = account.map_or_else(|| "Operators".to_owned(), |account| account.view.name.clone());
                label.choice { input type="radio" name="account" value=(person.tenant.number()) required; " " (name) }
            }
        }
    }
}

async fn accept(visit: &Visit, token: &str, form: &Form) -> Result<Reply, Problem> {
    if form.text("password") != form.text("repeated") {
        let problem = Problem::invalid("repeated", "must be the same as the one above");
        let shown = Shown::again(form, problem);
        return Ok(invitation_page(visit, token, &shown).refused());
    }
    let sign_ins = &visit.app.system.sign_ins;
    let invited = sign_ins.invited(token);
    if invited.is_some_and(|person| !visit.site.serves(person.tenant)) {
        return Ok(invitation_page(visit, token, &Shown::default()));
    }
    let password = form.text("password").to_owned();
    match sign_ins.accept(token, password, actor(visit)).await {
        Ok(signed_in) => {
            let reply = session::begin(visit, Reply::see_other("/console"), &signed_in);
            Ok(session::say(visit, reply, "Your password is set. Welcome."))
        }
        Err(SignInError::BadPassword(reason)) => {
            let shown = Shown::again(form, Problem::invalid("password", reason));
            Ok(invitation_page(visit, token, &shown).refused())
        }
        Err(SignInError::Failed(error)) => Err(error.into()),
        Err(_) => Ok(invitation_page(visit, token, &Shown::default())),
    }
}

fn invitation_page(visit: &Visit, token: &str, shown: &Shown) -> Reply {
    let system = &visit.app.system;
    let invited = system
        .sign_ins
        .invited(token)
        .filter(|person| visit.site.serves(person.tenant))
        .and_then(|Person { tenant, user }| system.identity.person(tenant, user));
    let Some(person) = invited else {
        let content = html! {
            div.door {
                (layout::logo())
                h1 { "This invitation opens nothing" }
                p { "It was used, it is older than 72 hours, or a newer one was made. Ask whoever invited you for a new one." }
                p { a.button href="/console/sign-in" { "Sign in" } }
            }
        };
        return layout::page(visit, None, Page::new("Invitation", content))
            .ending(Ending::Refused(Kind::NotFound));
    };
    let content = html! {
        div.door {
            (layout::logo())
            h1 { "Welcome, " (person.name) }
            p { "Set a password. From then on you sign in with it as " strong { (person.sign_in_name) } "." }
            form method="post" action={ "/console/invitations/" (token) } {
                input type="hidden" name="username" value=(person.sign_in_name) autocomplete="username";
                (NEW_PASSWORD.around(shown, html! {
                    input #field-password name="password" type="password" autocomplete="new-password" minlength="12" required autofocus aria-describedby="hint-password";
                }))
                (REPEATED.around(shown, html! {
                    input #field-repeated name="repeated" type="password" autocomplete="new-password" minlength="12" required;
                }))
                button.button.primary { "Set the password" }
            }
        }
    };
    layout::page(visit, None, Page::new("Invitation", content))
}

/// What a person does about the own session.
pub(super) async fn session(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    match (asked.path, asked.form) {
        (["session"], None) => {
            let page = own_page(visit, session);
            Ok(layout::page(visit, Some(session), page))
        }
        (["session", "password"], form) => password::answer(visit, session, form).await,
        (["session", "end"], Some(_)) => {
            let (person, actor) = (session.person(), session.actor(visit));
            visit
                .app
                .system
                .sign_ins
                .end(person, session.token(), actor)
                .await?;
            let place = match next(visit).as_str() {
                "/console" => "/console/sign-in".to_owned(),
                next => parts::target("/console/sign-in", &[("next", next)]),
            };
            Ok(session::forget(visit, Reply::see_other(&place)))
        }
        (["session", "consents", id, "withdraw"], Some(_)) => {
            authorize::withdraw(visit, session, id).await
        }
        (["session", "end-all"], Some(_)) => {
            let (person, actor) = (session.person(), session.actor(visit));
            visit.app.system.sign_ins.end_all(person, actor).await?;
            Ok(session::forget(visit, Reply::see_other("/console/sign-in")))
        }
        (["session", "mode"], Some(form)) => {
            let mode = match form.text("mode") {
                "test" => Mode::Test,
                _ if session.bounds().test_only => {
                    return Err(Problem::forbidden(
                        "you were invited with a test key, which opens test data only",
                    ));
                }
                _ => Mode::Live,
            };
            let change = ChangeSession {
                token: session.token(),
                mode: Some(mode),
                account: None,
            };
            session.change(visit, change).await?;
            Ok(Reply::see_other("/console"))
        }
        (["session", "leave"], Some(_)) if session.is_operator() => {
            let change = ChangeSession {
                token: session.token(),
                mode: None,
                account: Some(None),
            };
            session.change(visit, change).await?;
            Ok(Reply::see_other("/console/accounts"))
        }
        _ => Err(no_such_page()),
    }
}

fn own_page(visit: &Visit, session: &Session) -> Page {
    let content = html! {
        (heading(&session.name, "You, as the console knows you.", html! {}))
        (authorize::consents(visit, session))
        @if password::has_one(visit, session) {
            section.card {
                h2 { "Password" }
                p { "Whoever knows it signs in as you." }
                p { a.button href="/console/session/password" { "Change your password" } }
            }
        }
        section.card {
            h2 { "Sign out everywhere" }
            p { "Ends your session in every browser, in this one too." }
            form method="post" action="/console/session/end-all" {
                (csrf(session))
                button.button.danger data-confirm="Every browser in which you are signed in will ask for your password again." { "Sign out everywhere" }
            }
        }
    };
    Page::new("You", content)
}
