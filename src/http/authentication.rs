//! Who calls, and what that allows: API keys for the interface, the operator token for operators.

use std::net::IpAddr;

use actix_web::HttpRequest;
use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use colloquy_actors::accounts::Principal;
use colloquy_actors::document::access::Requester;
use colloquy_model::caller::Caller;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::UserId;
use colloquy_model::key::{KeyType, Permission, same_hash, secret_hash};
use colloquy_model::network::includes;
use colloquy_model::time::Timestamp;
use colloquy_model::user::Role;
use ipnet::IpNet;

use super::admission::Arrival;
use super::api_call::{ApiCall, Credential};
use super::app_state::AppState;
use super::operation::{AuthRequirement, Verb};
use super::problem::{Kind, Outcome, Problem};
use super::signed_requests;
use super::{client_certificate, conversation_access};

/// The user for whom a key acts.
const ACTING_USER: HeaderName = HeaderName::from_static("x-acting-user");

/// What an operator's token begins with.
const OPERATOR_PREFIX: &str = "op_";

/// What the header says about the acting user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acting {
    /// The request names no user, and the key acts as none.
    Nobody,
    /// A user of the account, whom the request acts for.
    User(UserId),
    /// Somebody whom the account does not have.
    Unknown,
}

impl Acting {
    /// The user for whom a credential acts by itself.
    pub(super) fn by_itself(credential: &Credential) -> Self {
        credential.user().map_or(Acting::Nobody, Acting::User)
    }

    /// The user, once an unknown one may be told.
    pub(super) fn known(self) -> Result<Option<UserId>, Problem> {
        match self {
            Acting::Nobody => Ok(None),
            Acting::User(user) => Ok(Some(user)),
            Acting::Unknown => Err(Problem::invalid("X-Acting-User", "must be a valid user ID")),
        }
    }
}

/// Finds out who calls. Failures are counted by address; a valid key is let in whatever the count.
pub(super) async fn identify(
    app: &AppState,
    auth: AuthRequirement,
    request: &HttpRequest,
    arrival: Arrival,
) -> Result<Credential, Problem> {
    let (address, now) = (arrival.address, arrival.at);
    if auth == AuthRequirement::Operator {
        // Without one, nobody finds out whether a token is the operators'.
        client_certificate::check(app, request)?;
    }
    let headers = request.headers();
    let bearer = bearer(headers);
    let found = match auth {
        AuthRequirement::Public | AuthRequirement::ShareLink | AuthRequirement::OAuthClient => {
            return Ok(Credential::None);
        }
        AuthRequirement::Metrics if app.live().metrics_public => return Ok(Credential::None),
        AuthRequirement::Metrics | AuthRequirement::Operator => bearer
            .filter(|token| is_operator(app, token))
            .map(|_| Credential::Operator),
        AuthRequirement::KeyOrTicket(_) if !headers.contains_key(AUTHORIZATION) => {
            ticket(app, request, arrival).await?
        }
        AuthRequirement::Key(_) | AuthRequirement::KeyOrTicket(_) => {
            match bearer.filter(|token| !token.starts_with(OPERATOR_PREFIX)) {
                Some(secret) => key_or_token(app, secret, now).await.map(Credential::Key),
                None => None,
            }
        }
    };
    let refused = match found {
        Some(Credential::Key(principal)) if signed_requests::are_required(&principal) => {
            match signed_requests::check(app, &principal, request, now).await {
                Err(problem) if problem.kind == Kind::Unauthorized => problem,
                checked => return checked.map(|()| Credential::Key(principal)),
            }
        }
        Some(credential) => return Ok(credential),
        None => Problem::new(
            Kind::Unauthorized,
            "the credential is missing, malformed, unknown, expired or revoked",
        ),
    };
    check_failures(app, arrival)?;
    app.system.addresses.take(address, now);
    Err(refused)
}

/// Who bears a key, or an access token: a token has dots, and a key none.
async fn key_or_token(app: &AppState, secret: &str, now: Timestamp) -> Option<Principal> {
    match secret.contains('.') {
        true => app.system.oauth.authenticate(secret, now).await,
        false => app.system.identity.authenticate(secret, now),
    }
}

/// Refuses what memory alone has let in, where that may be old: this node has lost the others. Asked
/// behind what was looked up: so long that holds.
pub(crate) fn check_is_current(app: &AppState) -> Result<(), Problem> {
    if app.system.nodes.is_current() {
        return Ok(());
    }
    let reason = "this node has lost the others: it finds them again, or another one answers";
    Err(Problem::unavailable(reason, Outcome::None, 1))
}

/// Refuses an address from which too many authentications have failed.
pub(super) fn check_failures(app: &AppState, arrival: Arrival) -> Result<(), Problem> {
    match app.system.addresses.blocked(arrival.address, arrival.at) {
        Some(seconds) => Err(Problem::rate_limited(
            "too many failed authentications from this address",
            seconds,
        )),
        None => Ok(()),
    }
}

/// Whose ticket stands in the query. Where the store has to be asked, an address that guesses asks
/// it only so often.
async fn ticket(
    app: &AppState,
    request: &HttpRequest,
    arrival: Arrival,
) -> Result<Option<Credential>, Problem> {
    let now = arrival.at;
    let mut pairs = request.query_string().split('&');
    let Some(text) = pairs.find_map(|pair| pair.strip_prefix("ticket=")) else {
        return Ok(None);
    };
    let tickets = &app.system.tickets;
    if tickets.are_shared() {
        check_failures(app, arrival)?;
    }
    let Some(ticket) = tickets.look(text, now).await? else {
        return Ok(None);
    };
    let principal = app.system.identity.bearer(&ticket.bearer, now);
    // It stands for the request that made it.
    let holds = |principal: &Principal| ticket.signed || !signed_requests::are_required(principal);
    Ok(principal
        .filter(holds)
        .map(|principal| Credential::Ticket(principal, ticket.user)))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION);
    let text = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, credential) = text.split_once(' ')?;
    let credential = credential.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !credential.is_empty()).then_some(credential)
}

/// Compares hashes, so that the time tells nothing.
fn is_operator(app: &AppState, token: &str) -> bool {
    same_hash(&secret_hash(token), &app.system.operator_token_hash())
}

/// Whether the key and its account may be used from this address.
pub(crate) fn address_allowed(principal: &Principal, address: IpAddr) -> bool {
    let allows =
        |list: &[IpNet]| list.is_empty() || list.iter().any(|range| includes(range, address));
    allows(&principal.key.view.allowed_ips) && allows(&principal.account.view.allowed_ips)
}

/// Which events of an account a caller is shown, beside those of conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VisibleEvents {
    /// Those of documents.
    documents: bool,
    /// Those that tell the account of its limits.
    alerts: bool,
}

impl VisibleEvents {
    /// Those of these kinds; empty: all.
    pub(super) fn of(kinds: &[EventKind]) -> Self {
        let shows = |is_meant: fn(EventKind) -> bool| {
            kinds.is_empty() || kinds.iter().copied().any(is_meant)
        };
        VisibleEvents {
            documents: shows(EventKind::is_of_document),
            alerts: shows(EventKind::is_alert),
        }
    }

    /// Whether these are shown, too.
    pub(super) fn covers(self, shown: VisibleEvents) -> bool {
        (self.documents || !shown.documents) && (self.alerts || !shown.alerts)
    }

    /// Their kinds; empty: all.
    pub(super) fn kinds(self) -> Vec<EventKind> {
        let VisibleEvents { documents, alerts } = self;
        if documents && alerts {
            return Vec::new();
        }
        let is_visible = |kind: &EventKind| {
            kind.is_of_conversation()
                || (documents && kind.is_of_document())
                || (alerts && kind.is_alert())
        };
        let visible = EventKind::EVENTS.iter().copied().filter(is_visible);
        visible.collect()
    }
}

/// Which events a caller is shown. What happened to documents is for keys that read documents and see
/// all of them; a user finds it in the activity of each document that is theirs to read. What is told
/// of limits is for those who may read how much the account is used.
pub(super) fn visible_events(
    app: &AppState,
    principal: &Principal,
    caller: &Caller,
) -> VisibleEvents {
    let sees_all = matches!(
        app.system.documents.requester(caller),
        Requester::Account(_)
    );
    VisibleEvents {
        documents: sees_all && granted(principal, Permission::DocumentsRead),
        // Who sees one user's conversations only is shown what happens to these.
        alerts: [Permission::AnalyticsRead, Permission::ConversationsRead]
            .into_iter()
            .all(|needed| granted(principal, needed)),
    }
}

/// Whether the key has been given this. What is narrowed to a user's conversations is given by name
/// only.
pub(super) fn granted(principal: &Principal, one: Permission) -> bool {
    match &principal.key.view.scopes {
        Some(scopes) => scopes.contains(&one),
        None => one != Permission::ConversationsAssigned,
    }
}

/// What an operation needs of the key that calls it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// One of these permissions; with none named, any key will do.
    pub(super) permissions: &'static [Permission],
    /// Read-only keys may only get.
    pub(super) verb: Verb,
}

/// Refuses a read-only key that would change something.
pub(super) fn check_key_type(principal: &Principal, needs: Needs) -> Result<(), Problem> {
    if principal.key.view.kind == KeyType::Read && needs.verb != Verb::Get {
        return Err(Problem::forbidden("a read-only key may only read"));
    }
    Ok(())
}

/// Refuses a key that has none of the permissions.
pub(super) fn check_permissions(principal: &Principal, needs: Needs) -> Result<(), Problem> {
    let allowed = needs.permissions.is_empty()
        || needs.permissions.iter().any(|one| granted(principal, *one));
    if !allowed {
        return Err(Problem::forbidden("the key is not allowed this scope"));
    }
    Ok(())
}

/// Refuses a caller who may call the operation, and not what it is asked for: that has a permission of
/// its own.
pub(super) fn check_also(call: &ApiCall, needs: Needs) -> Result<(), Problem> {
    let Some(principal) = call.principal() else {
        return Ok(());
    };
    check_permissions(principal, needs)?;
    let user = call.caller.actor.user;
    let role = user.and_then(|user| call.app.system.identity.user(principal.tenant(), user));
    check_role(principal, role, needs)
}

/// Whether the key may do this, and for whom it acts.
pub(super) fn permit(
    app: &AppState,
    credential: &Credential,
    needs: Needs,
    headers: &HeaderMap,
) -> Result<Acting, Problem> {
    let (principal, ticket) = match credential {
        Credential::None | Credential::Operator => return Ok(Acting::Nobody),
        Credential::Key(principal) => (principal, None),
        Credential::Ticket(principal, user) => (principal, Some(*user)),
    };
    check_key_type(principal, needs)?;
    let (acting, role) = match ticket {
        None => acting(app, principal, headers)?,
        Some(None) => (Acting::Nobody, None),
        Some(Some(user)) => {
            let role = app.system.identity.user(principal.tenant(), user);
            let role = role
                .ok_or_else(|| Problem::forbidden("the user for whom the key acts is no more"))?;
            (Acting::User(user), Some(role))
        }
    };
    check_permissions(principal, needs)?;
    check_role(principal, role, needs)?;
    conversation_access::check_user(principal, acting, needs)?;
    Ok(acting)
}

/// Refuses a user what only admins may do.
pub(super) fn check_role(
    principal: &Principal,
    role: Option<Role>,
    needs: Needs,
) -> Result<(), Problem> {
    let for_admins =
        |one: &Permission| matches!(one, Permission::UsersManage | Permission::WebhooksManage);
    if role == Some(Role::Agent)
        && !needs.permissions.is_empty()
        && needs
            .permissions
            .iter()
            .filter(|one| granted(principal, **one))
            .all(for_admins)
    {
        return Err(Problem::forbidden("an agent may not do this"));
    }
    Ok(())
}

fn acting(
    app: &AppState,
    principal: &Principal,
    headers: &HeaderMap,
) -> Result<(Acting, Option<Role>), Problem> {
    let mut named = headers.get_all(ACTING_USER);
    let first = named.next();
    let role_of = |user| app.system.identity.user(principal.tenant(), user);
    let id: Option<UserId> = first
        .filter(|_| named.next().is_none())
        .and_then(|text| text.to_str().ok()?.parse().ok());
    if let Some(own) = principal.key.view.user_id {
        if first.is_some() && id != Some(own) {
            return Err(Problem::forbidden("the key acts for another user"));
        }
        let role = role_of(own)
            .ok_or_else(|| Problem::forbidden("the user for whom the key acts is no more"))?;
        return Ok((Acting::User(own), Some(role)));
    }
    Ok(match (first, id.and_then(|id| Some((id, role_of(id)?)))) {
        (None, _) => (Acting::Nobody, None),
        (Some(_), Some((id, role))) => (Acting::User(id), Some(role)),
        (Some(_), None) => (Acting::Unknown, None),
    })
}
