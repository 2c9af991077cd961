//! The console: what operators, admins and agents see and do in a browser. Server-rendered; asks the
//! operations of the interface in this process, and has no rule of its own.
//!
//! - `session.rs` who is signed in, from the cookie; `forms.rs` what a form sent
//! - `reply.rs` what is answered; `layout.rs` what all pages have around them; `parts.rs` what
//!   several pages are made of; `assets.rs` styles, scripts, icon
//! - `history.rs` what the server did in the last hour and day; `attention.rs` what needs an operator;
//!   `figures.rs` how pages write figures; `charts.rs` figures over time as text, picture and table,
//!   `grouped.rs` those with a line for each group; `period.rs` the days of which they are asked for;
//!   `report.rs` pages on which they are asked for
//! - one file for the pages of one thing: `sign_in.rs`, `api_keys.rs`, …; a folder where
//!   it has many: `documents/`
//!
//! A page's address names what it shows, and its POSTs go to addresses below it. Each POST carries
//! the session's CSRF token and is answered with a redirection, or with the page again and what is
//! wrong with the form.

mod account;
mod accounts;
mod actor;
mod actors;
mod analytics;
mod api_keys;
mod applications;
mod assets;
mod attention;
mod audit;
mod authorize;
mod backups;
mod charts;
mod customers;
mod documents;
mod domains;
mod figures;
mod forms;
mod grouped;
mod history;
mod inbox;
mod layout;
mod limits;
mod nodes;
mod operators;
mod overview;
mod parts;
mod password;
mod period;
mod reply;
mod report;
mod session;
mod sign_in;
mod store;
mod supervision;
mod usage;
mod users;
mod webhooks;

use std::net::IpAddr;
use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::Method;
use colloquy_model::caller::Caller;
use maud::html;

pub(crate) use self::assets::icon;
pub(crate) use self::history::{History, keep as keep_history};
pub(crate) use self::reply::{Ending, Reply};

use self::forms::Form;
use self::layout::Page;
use self::session::Session;
use crate::http::{
    self, AppState, BodyReader, BudgetOwner, Kind, Problem, Site, check_client_certificate,
    check_same_site,
};

/// The methods that pages take.
const METHODS: &str = "GET, HEAD, POST";
/// The methods of a page that is only read.
const READ_METHODS: &str = "GET, HEAD";
/// Why an address is refused that no page has.
const NO_SUCH_PAGE: &str = "there is no such page";

/// Whether a path is the console's.
pub(crate) fn serves(path: &str) -> bool {
    path.strip_prefix("/console")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A request for a page, of whom nobody knows yet who makes it.
pub(crate) struct Visit {
    pub(crate) app: Arc<AppState>,
    pub(crate) request: HttpRequest,
    pub(crate) request_id: Arc<str>,
    pub(crate) address: IpAddr,
    /// At which host name it came in.
    pub(crate) site: Site,
}

impl Visit {
    fn path(&self) -> &str {
        self.request.uri().path()
    }

    /// A parameter of the query, as it was typed; empty where it is missing.
    fn query(&self, name: &str) -> String {
        let query = self.request.query_string().as_bytes();
        url::form_urlencoded::parse(query)
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
            .unwrap_or_default()
    }

    /// Whether a script of ours asks for a part of a page, and not a browser for a page.
    fn is_fragment(&self) -> bool {
        self.request.headers().contains_key("hx-request")
    }
}

/// What an address asks for.
struct Asked<'a> {
    /// The segments of the path behind `/console`.
    path: &'a [&'a str],
    /// What a POST brings; none for a GET.
    form: Option<Form>,
}

/// Answers a request for a page; every refusal is one. Tells whose session it is of.
pub(crate) async fn serve(visit: Visit, body: &mut BodyReader<'_>) -> (Option<BudgetOwner>, Reply) {
    if let Some(to) = without_slash(&visit) {
        return (None, Reply::moved(&to));
    }
    let path = visit.path().to_owned();
    let segments: Vec<&str> = path.split('/').skip(2).collect();
    if let ["assets", name] = segments.as_slice() {
        return (None, assets::serve(&visit, name));
    }
    if visit.request.method() == Method::OPTIONS {
        let reply = Reply::part(html! {})
            .ending(Ending::Empty)
            .with("allow", METHODS);
        return (None, reply);
    }
    let session = match session::find(&visit) {
        Ok(session) => session,
        Err(problem) => return (None, refused(&visit, None, &problem, &[])),
    };
    if session.as_ref().is_some_and(Session::is_operator)
        && let Err(problem) = check_client_certificate(&visit.app, &visit.request)
    {
        return (None, refused(&visit, None, &problem, &[]));
    }
    let answered = answer(&visit, session.as_ref(), &segments, body).await;
    let refused = |problem| refused(&visit, session.as_ref(), &problem, &[]);
    let owner = session.as_ref().map(Session::owner);
    (owner, answered.unwrap_or_else(refused))
}

/// The address of the page that is asked for with a slash at its end.
fn without_slash(visit: &Visit) -> Option<String> {
    let is_read = matches!(*visit.request.method(), Method::GET | Method::HEAD);
    let path = visit.path().trim_end_matches('/');
    if !is_read || path.len() == visit.path().len() {
        return None;
    }
    Some(match visit.request.query_string() {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    })
}

async fn answer(
    visit: &Visit,
    session: Option<&Session>,
    path: &[&str],
    body: &mut BodyReader<'_>,
) -> Result<Reply, Problem> {
    let method = visit.request.method();
    if let ("POST", ["inbox", conversation, "attachments"], Some(session)) =
        (method.as_str(), path, session)
    {
        return receive(visit, session, (path, conversation), body).await;
    }
    let form = if method == Method::POST {
        // Whoever signs in sends little, though a session may come with it.
        let is_small = matches!(path, ["sign-in"] | ["invitations", ..]);
        let signed_in = session.filter(|_| !is_small);
        let form = forms::read(visit, signed_in, body).await?;
        if let Err(problem) = check_same_site(&visit.app, &visit.request) {
            return Ok(refused(visit, session, &problem, &form.written()));
        }
        Some(form)
    } else if method == Method::GET || method == Method::HEAD {
        None
    } else {
        return Err(Problem {
            allow: Some(METHODS),
            ..Problem::new(Kind::MethodNotAllowed, "a page is read or posted to")
        });
    };
    let asked = Asked { path, form };
    if matches!(path, ["sign-in"] | ["invitations", _]) {
        return sign_in::answer(visit, session, asked).await;
    }
    let Some(session) = session else {
        return Ok(sign_in::required(visit, asked.form.as_ref()));
    };
    if let Some(form) = &asked.form
        && let Err(problem) = session.check_csrf(visit, form, path)
    {
        return Ok(refused(visit, Some(session), &problem, &form.written()));
    }
    let written = asked.form.as_ref().map(Form::written);
    let answered = page(visit, session, asked).await;
    let answered = match answered {
        Err(problem) if written.is_some() && problem.reason == NO_SUCH_PAGE => {
            Err(as_only_read(visit, session, path, problem).await)
        }
        answered => answered,
    };
    let written = written.unwrap_or_default();
    Ok(answered.unwrap_or_else(|problem| refused(visit, Some(session), &problem, &written)))
}

/// Takes the file that a script of ours brings, once it is known from whom and from where it comes.
async fn receive(
    visit: &Visit,
    session: &Session,
    (path, conversation): (&[&str], &str),
    body: &mut BodyReader<'_>,
) -> Result<Reply, Problem> {
    check_same_site(&visit.app, &visit.request)?;
    session.check_csrf(visit, &Form::default(), path)?;
    session.check_address(visit)?;
    inbox::receive(visit, session, conversation, body).await
}

/// Whether a page shows what is an account's.
fn is_of_account(path: &[&str]) -> bool {
    matches!(
        path,
        [
            "inbox"
                | "customers"
                | "documents"
                | "analytics"
                | "analytics.csv"
                | "usage"
                | "usage.csv"
                | "webhooks"
                | "settings"
                | "audit",
            ..
        ]
    )
}

/// That no page has this address.
fn no_such_page() -> Problem {
    Problem::no_such(NO_SUCH_PAGE)
}

/// Why nothing is posted to this address: no page has it, or one that is only read.
async fn as_only_read(
    visit: &Visit,
    session: &Session,
    path: &[&str],
    problem: Problem,
) -> Problem {
    if is_of_account(path) && session.principal.is_none() {
        // Whatever is there, it is nothing before an account is chosen.
        return problem;
    }
    let form = None;
    match page(visit, session, Asked { path, form }).await {
        Err(_) => problem,
        Ok(_) => Problem {
            allow: Some(READ_METHODS),
            ..Problem::new(Kind::MethodNotAllowed, "this page is only read")
        },
    }
}

/// Leads to the page that the path names.
async fn page(visit: &Visit, session: &Session, asked: Asked<'_>) -> Result<Reply, Problem> {
    // Signing out is possible from everywhere.
    if asked.path.first() != Some(&"session") {
        session.check_address(visit)?;
    }
    match asked.path {
        path if is_of_account(path)
            && session.principal.is_none()
            && asked.form.is_none()
            && !visit.is_fragment() =>
        {
            let reply = Reply::see_other("/console/accounts");
            Ok(session::say(
                visit,
                reply,
                "Open an account's side first: choose the account.",
            ))
        }
        [] if session.is_operator() && session.principal.is_none() => {
            let path = &["overview"];
            let form = asked.form;
            overview::answer(visit, session, Asked { path, form }).await
        }
        [] if asked.form.is_none() => Ok(Reply::see_other(session.home())),
        ["authorize", ..] => authorize::answer(visit, session, asked).await,
        ["session", ..] => sign_in::session(visit, session, asked).await,
        ["inbox", ..] => inbox::answer(visit, session, asked).await,
        ["customers", ..] => customers::answer(visit, session, asked).await,
        ["analytics" | "analytics.csv", ..] => analytics::answer(visit, session, asked).await,
        ["usage" | "usage.csv", ..] => usage::answer(visit, session, asked).await,
        ["limits", ..] => limits::answer(visit, session, asked).await,
        ["webhooks", ..] => webhooks::answer(visit, session, asked).await,
        ["settings"] if asked.form.is_none() => Ok(Reply::see_other("/console/settings/account")),
        ["settings", "account", ..] => account::answer(visit, session, asked).await,
        ["settings", "users", ..] => users::answer(visit, session, asked).await,
        ["settings", "api-keys", ..] => api_keys::answer(visit, session, asked).await,
        ["settings", "applications", ..] => applications::answer(visit, session, asked).await,
        ["audit" | "all-audit", ..] => audit::answer(visit, session, asked).await,
        ["accounts", ..] => accounts::answer(visit, session, asked).await,
        ["actors", ..] => actors::answer(visit, session, asked).await,
        ["backups", ..] => backups::answer(visit, session, asked).await,
        ["nodes", ..] => nodes::answer(visit, session, asked).await,
        ["operators", ..] => operators::answer(visit, session, asked).await,
        ["overview", ..] => overview::answer(visit, session, asked).await,
        ["store", ..] => store::answer(visit, session, asked).await,
        ["documents", ..] => documents::answer(visit, session, asked).await,
        _ => Err(no_such_page()),
    }
}

/// Records that a page was refused to whoever asked for it, if it was.
fn note_refusal(visit: &Visit, session: Option<&Session>, problem: &Problem) {
    let stranger = || http::stranger(visit.address, &visit.request_id);
    let caller = session.map_or_else(stranger, |session| Caller {
        tenant: session.tenant(),
        actor: session.actor(visit),
    });
    let method = match visit.request.method() == Method::POST {
        true => "POST",
        false => "GET",
    };
    http::note_refusal(&visit.app, (method, "/console"), &caller, problem);
}

/// A refusal as a page, or as a part of one, that says what to do.
fn refused(
    visit: &Visit,
    session: Option<&Session>,
    problem: &Problem,
    written: &[String],
) -> Reply {
    note_refusal(visit, session, problem);
    let ending = Ending::Refused(problem.kind);
    let (heading, advice) = advice(problem);
    let about = html! {
        @if !problem.field.is_empty() { code { (problem.field) } " " }
        (problem.reason) "."
    };
    let reply = if visit.is_fragment() {
        Reply::html(
            ending,
            html! { div.notice.wrong role="alert" { strong { (heading) } " " (about) " " (advice) } },
        )
    } else {
        let content = html! {
            div.empty {
                h1 { (heading) }
                p { (about) }
                p { (advice) }
                (parts::kept(written))
                p { a.button href="/console" { "Go to the start page" } }
                p.faint { "Request " code { (visit.request_id) } }
            }
        };
        let page = Page::new(heading, content);
        layout::page(visit, session, page).ending(ending)
    };
    with_headers(reply, problem)
}

/// A refusal with what it says in headers.
fn with_headers(reply: Reply, problem: &Problem) -> Reply {
    let reply = match problem.allow {
        Some(methods) => reply.with("allow", methods),
        None => reply,
    };
    match problem.retry_after_seconds {
        Some(seconds) => reply.with("retry-after", &seconds.to_string()),
        None => reply,
    }
}

/// What a refusal is called on a page, and what to do about it.
fn advice(problem: &Problem) -> (&'static str, &'static str) {
    match problem.kind {
        Kind::NotFound => (
            "Nothing here",
            "It may have been deleted, or it belongs to another account or to the other kind of data.",
        ),
        Kind::Forbidden => (
            "Not allowed",
            "Ask an admin of the account, or load the page again and repeat what you did.",
        ),
        Kind::Conflict
        | Kind::InvalidTransition
        | Kind::ConversationClosed
        | Kind::MergeConflict
        | Kind::PreconditionFailed => (
            "It has changed meanwhile",
            "Load the page again to see how it stands now.",
        ),
        Kind::RateLimited => ("Too often", "Wait a minute, then try again."),
        Kind::QuotaExceeded => (
            "The month's requests are used up",
            "Wait until the next month begins, or ask an operator for a higher quota.",
        ),
        Kind::Unavailable => (
            "Not available now",
            "Try again in a moment; an operator sees on the overview what is wrong.",
        ),
        Kind::ServerError => (
            "Something went wrong here",
            "It is logged under the request's name. Try again, and tell an operator if it stays.",
        ),
        Kind::MethodNotAllowed => (
            "That can't be done",
            "Go to the page that has the form, and send it from there.",
        ),
        Kind::InvalidRequest
        | Kind::Unauthorized
        | Kind::RequestTimeout
        | Kind::IdempotencyInProgress
        | Kind::CursorExpired
        | Kind::PayloadTooLarge
        | Kind::RangeNotSatisfiable
        | Kind::UnsupportedMediaType
        | Kind::IdempotencyKeyReused
        | Kind::HeadersTooLarge => (
            "That can't be done",
            "Go back, change what the message names, and try again.",
        ),
    }
}

/// What is shown where making a page has failed, or there is no room for it.
pub(crate) fn failed(problem: &Problem) -> Reply {
    let (heading, advice) = advice(problem);
    let reply = Reply::html(
        Ending::Refused(problem.kind),
        html! { (maud::DOCTYPE) html lang="en" {
            head { title { "Colloquy" } }
            body { h1 { (heading) } p { (advice) } }
        } },
    );
    with_headers(reply, problem)
}
