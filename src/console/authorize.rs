//! Where a user allows an application of somebody else's access to the account's data (RFC 6749,
//! 4.1.1), or does not.

use colloquy_actors::oauth::Consent;
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::key::Permission;
use colloquy_model::scope;
use maud::{Markup, html};

use super::forms::Form;
use super::layout::{self, Page, csrf};
use super::parts::badge;
use super::reply::{Ending, Reply};
use super::session::{self, Session};
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{
    AuthorizationQuery, AuthorizationRequest, Kind, Problem, Unasked, check_authorization,
};

/// The page at which a user is asked.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    if asked.path.len() > 1 {
        return Err(no_such_page());
    }
    let query = AuthorizationQuery::read(visit.request.query_string())?;
    let request = match check_authorization(&visit.app, &visit.site, query) {
        Ok(request) => request,
        Err(Unasked::LedBack(place)) => return Ok(Reply::see_other(&place)),
        Err(Unasked::Told(problem)) => return Err(problem),
    };
    let person = session.person();
    if session.is_operator() || person.tenant != request.client.tenant.account_wide() {
        return Ok(somebody_else(visit, session, &request));
    }
    let request = bounded(session, request)?;
    match asked.form {
        None => Ok(asking(visit, session, &request)),
        Some(form) => decided(visit, session, request, &form).await,
    }
}

/// What a person can allow who may not do everything: no more than that.
fn bounded(
    session: &Session,
    mut request: AuthorizationRequest,
) -> Result<AuthorizationRequest, Problem> {
    let bounds = session.bounds();
    if bounds.test_only && request.client.view.mode != Mode::Test {
        return Err(Problem::forbidden(
            "the application asks for live data, and you were invited with a test key",
        ));
    }
    if let Some(scopes) = &bounds.scopes {
        request.scopes = scope::shared(&request.scopes, scopes);
    }
    match request.scopes.is_empty() {
        true => Err(Problem::forbidden(
            "the application asks for nothing that you may do",
        )),
        false => Ok(request),
    }
}

/// Whose data a client's tenant is, as the sign-in names it: the account of the client that the way
/// back from the sign-in names.
pub(super) fn account_of(visit: &Visit, next: &str) -> Option<Tenant> {
    let query = next.strip_prefix("/console/authorize?")?;
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let (_, id) = pairs.find(|(name, _)| name == "client_id")?;
    let authorizations = &visit.app.system.identity.authorizations;
    let client = authorizations.client(id.parse().ok()?)?;
    Some(client.tenant.account_wide())
}

fn account_name(visit: &Visit, request: &AuthorizationRequest) -> String {
    let number = request.client.tenant.account_number();
    let account = visit.app.system.identity.account_numbered(number);
    account.map_or_else(String::new, |account| account.view.name.clone())
}

/// The page's own address, to which its forms come back.
fn here(visit: &Visit) -> String {
    let here = visit.request.uri().path_and_query();
    here.map_or_else(String::new, |here| here.as_str().to_owned())
}

fn asking(visit: &Visit, session: &Session, request: &AuthorizationRequest) -> Reply {
    let client = &request.client.view;
    let content = html! {
        div.door {
            (layout::logo())
            h1 { (client.name) " asks for access" }
            p {
                "If you allow it, it may do the following in your name, in the account "
                strong dir="auto" { (account_name(visit, request)) }
                @if client.mode == Mode::Test { " " (badge("test data", "warn")) }
                ":"
            }
            ul { @for scope in &request.scopes { li { (in_words(*scope)) } } }
            p.faint { "You go on at " code { (request.leads_to()) } ". You can withdraw it at any time under " q { "You" } "." }
            p.faint { "You are " strong dir="auto" { (session.name) } "." }
            form method="post" action=(here(visit)) {
                (csrf(session))
                button.button.primary name="decision" value="allow" { "Allow" }
                button.button name="decision" value="deny" { "Don\u{2019}t allow" }
            }
        }
    };
    let page = Page::new(format!("{} asks for access", client.name), content);
    layout::page(visit, None, page).leading_to(request.leads_to())
}

async fn decided(
    visit: &Visit,
    session: &Session,
    request: AuthorizationRequest,
    form: &Form,
) -> Result<Reply, Problem> {
    if form.text("decision") != "allow" {
        let place = request.refusal("access_denied");
        return Ok(Reply::see_other(&place).leading_to(request.leads_to()));
    }
    let consent = Consent {
        client: request.client.view.client_id,
        user: session.person().user,
        scopes: request.scopes.clone(),
        redirect_uri: request.redirect_uri.clone(),
        challenge: request.challenge.clone(),
    };
    let (tenant, actor) = (request.client.tenant, session.actor(visit));
    let code = visit
        .app
        .system
        .oauth
        .consent(tenant, actor, consent)
        .await?;
    Ok(Reply::see_other(&request.granted(&code)).leading_to(request.leads_to()))
}

/// Who is signed in is no user of the client's account.
fn somebody_else(visit: &Visit, session: &Session, request: &AuthorizationRequest) -> Reply {
    let next: String = url::form_urlencoded::byte_serialize(here(visit).as_bytes()).collect();
    let content = html! {
        div.door {
            (layout::logo())
            h1 { "Sign in as somebody else" }
            p {
                (request.client.view.name) " asks for access to the account " strong dir="auto" { (account_name(visit, request)) }
                ", and you are " strong dir="auto" { (session.name) } ", who is none of its users."
            }
            form method="post" action={ "/console/session/end?next=" (next) } {
                (csrf(session))
                button.button.primary { "Sign out, and in as somebody else" }
            }
        }
    };
    layout::page(visit, None, Page::new("Sign in as somebody else", content))
        .ending(Ending::Refused(Kind::Forbidden))
}

/// What a scope allows, for people.
pub(super) fn in_words(scope: Permission) -> &'static str {
    match scope {
        Permission::ConversationsRead => "Read all conversations, their customers and messages",
        Permission::ConversationsWrite => {
            "Write in all conversations, and change them and their customers"
        }
        Permission::ConversationsAssigned => {
            "Read and write in the conversations that are assigned to you"
        }
        Permission::DocumentsRead => "Read the documents that you may read",
        Permission::DocumentsWrite => "Change the documents that you may change",
        Permission::DocumentsShare => "Share your documents with others",
        Permission::WebhooksManage => "Have events of the account sent elsewhere",
        Permission::AnalyticsRead => "Read how much the account is used",
        Permission::UsersManage => {
            "Make, change and delete the account\u{2019}s users and applications"
        }
    }
}

/// What the user has allowed, to be withdrawn.
pub(super) fn consents(visit: &Visit, session: &Session) -> Markup {
    let person = session.person();
    let authorizations = &visit.app.system.identity.authorizations;
    let now = colloquy_model::time::Timestamp::now();
    let given = match session.is_operator() {
        true => Vec::new(),
        false => authorizations.consents(person.tenant, person.user, now),
    };
    html! {
        section.card {
            h2 { "Applications" }
            @if given.is_empty() {
                p.faint { "You have allowed no application anything." }
            } @else {
                p { "These may act in your name, until you withdraw it or until it ends by itself." }
                @for grant in &given {
                    @if let Some(client) = authorizations.client(grant.client) {
                        div.row data-consent=(client.view.name) {
                            div {
                                strong dir="auto" { (client.view.name) }
                                @if client.view.mode == Mode::Test { " " (badge("test data", "warn")) }
                                ul.faint { @for scope in &grant.scopes { li { (in_words(*scope)) } } }
                                p.faint { "Since " (grant.given_at) ", until " (grant.ends_at) "." }
                            }
                            form method="post" action={ "/console/session/consents/" (grant.id) "/withdraw" } {
                                (csrf(session))
                                button.button.danger { "Withdraw" }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Withdraws what the user has allowed: every token that came of it ends.
pub(super) async fn withdraw(visit: &Visit, session: &Session, id: &str) -> Result<Reply, Problem> {
    let person = session.person();
    let grant = id.parse().ok();
    let grant = grant.and_then(|id| visit.app.system.identity.authorizations.grant(id));
    let own = grant
        .filter(|grant| grant.user == person.user && grant.tenant.account_wide() == person.tenant);
    let own = own.ok_or_else(no_such_page)?;
    let (oauth, actor) = (&visit.app.system.oauth, session.actor(visit));
    oauth.withdraw(own.tenant, own.id, actor).await?;
    let reply = Reply::see_other("/console/session");
    Ok(session::say(
        visit,
        reply,
        "It is withdrawn: what the application had has ended.",
    ))
}
