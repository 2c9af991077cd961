//! What a client asks of a user at `/oauth/authorize` (RFC 6749, 4.1.1): checked there and, since
//! anybody can type an address, again where the user consents.

use std::sync::Arc;

use colloquy_actors::accounts::is_same_redirect_uri;
use colloquy_model::client::{GrantType, KnownClient};
use colloquy_model::key::Permission;
use colloquy_model::scope;
use serde::Deserialize;
use url::Url;
use utoipa::IntoParams;

use super::app_state::AppState;
use super::problem::Problem;
use super::site::Site;

/// The characters of an S256 challenge: 32 bytes in base64url.
const CHALLENGE_CHARACTERS: usize = 43;

/// What a client asks for, as the query says it. What is not known here does not count.
#[derive(Debug, Clone, Deserialize, IntoParams)]
pub(crate) struct AuthorizationQuery {
    /// Always `code`.
    response_type: Option<String>,
    /// The client that asks.
    client_id: Option<String>,
    /// Where the browser is sent back to: one that is registered.
    redirect_uri: Option<String>,
    /// What is asked for, with blanks between. Default: all that the client may be allowed.
    scope: Option<String>,
    /// Sent back as it came.
    state: Option<String>,
    /// The code challenge (RFC 7636).
    code_challenge: Option<String>,
    /// Always `S256`.
    code_challenge_method: Option<String>,
}

/// A request that a user can be asked about.
pub(crate) struct AuthorizationRequest {
    pub(crate) client: Arc<KnownClient>,
    pub(crate) redirect_uri: String,
    pub(crate) scopes: Vec<Permission>,
    pub(crate) challenge: String,
    state: Option<String>,
    issuer: String,
}

/// Why no user is asked.
pub(crate) enum Unasked {
    /// Who asks is not known: told on a page, and the browser is sent nowhere.
    Told(Problem),
    /// Told to the client, at this address.
    LedBack(String),
}

impl AuthorizationQuery {
    /// Reads the query of a request.
    ///
    /// # Errors
    /// A parameter is repeated or unreadable.
    pub(crate) fn read(query: &str) -> Result<Self, Problem> {
        super::query::parse(query)
    }
}

fn told(reason: &'static str) -> Unasked {
    Unasked::Told(Problem::invalid("", reason))
}

/// Whether a user can be asked.
pub(crate) fn check(
    app: &AppState,
    site: &Site,
    query: AuthorizationQuery,
) -> Result<AuthorizationRequest, Unasked> {
    let given = |value: Option<String>| value.filter(|text| !text.is_empty());
    let id = given(query.client_id).and_then(|id| id.parse().ok());
    let client = id.and_then(|id| app.system.identity.client(id));
    let client = client.filter(|client| site.serves(client.tenant));
    let client = client.ok_or_else(|| told("no application is registered under this client_id"))?;
    let redirect_uri = given(query.redirect_uri).filter(|asked| {
        let mut registered = client.view.redirect_uris.iter();
        registered.any(|registered| is_same_redirect_uri(registered, asked))
    });
    let redirect_uri = redirect_uri
        .ok_or_else(|| told("this redirect_uri is not registered for the application"))?;
    let mut request = AuthorizationRequest {
        redirect_uri,
        scopes: client.view.scopes.clone(),
        challenge: String::new(),
        state: query.state,
        issuer: site.address(app),
        client,
    };
    let back = |error| Unasked::LedBack(request.refusal(error));
    if query.response_type.as_deref() != Some("code") {
        return Err(back(match query.response_type {
            Some(_) => "unsupported_response_type",
            None => "invalid_request",
        }));
    }
    if !request
        .client
        .view
        .grant_types
        .contains(&GrantType::AuthorizationCode)
    {
        return Err(back("unauthorized_client"));
    }
    let is_plain = |one: u8| one.is_ascii_alphanumeric() || matches!(one, b'-' | b'_');
    let challenge = given(query.code_challenge)
        .filter(|text| text.len() == CHALLENGE_CHARACTERS && text.bytes().all(is_plain));
    let (Some(challenge), Some("S256")) = (challenge, query.code_challenge_method.as_deref())
    else {
        return Err(back("invalid_request"));
    };
    let wanted = given(query.scope).map(|text| scope::parse(&text).unwrap_or_default());
    let allowed = |wanted: &Vec<Permission>| {
        !wanted.is_empty() && wanted.iter().all(|one| request.scopes.contains(one))
    };
    let scopes = match wanted {
        Some(wanted) if allowed(&wanted) => wanted,
        Some(_) => return Err(back("invalid_scope")),
        None => request.scopes.clone(),
    };
    (request.challenge, request.scopes) = (challenge, scopes);
    Ok(request)
}

impl AuthorizationRequest {
    /// The address that tells the client why there is no code (RFC 6749, 4.1.2.1).
    pub(crate) fn refusal(&self, error: &str) -> String {
        self.answered("error", error)
    }

    /// The address that brings the client its code.
    pub(crate) fn granted(&self, code: &str) -> String {
        self.answered("code", code)
    }

    /// The scheme, host and port to which the browser is sent, as a policy of content names it.
    pub(crate) fn leads_to(&self) -> String {
        let Ok(url) = Url::parse(&self.redirect_uri) else {
            return String::new();
        };
        match url.origin().is_tuple() {
            true => url.origin().ascii_serialization(),
            false => format!("{}:", url.scheme()),
        }
    }

    /// Keeps what stands in the redirect URI. `iss` says who answers (RFC 9207), so that a client of
    /// several servers can't mix them up.
    fn answered(&self, name: &str, value: &str) -> String {
        let mut added = url::form_urlencoded::Serializer::new(String::new());
        added.append_pair(name, value);
        if let Some(state) = &self.state {
            added.append_pair("state", state);
        }
        added.append_pair("iss", &self.issuer);
        let separator = if self.redirect_uri.contains('?') {
            '&'
        } else {
            '?'
        };
        format!("{}{separator}{}", self.redirect_uri, added.finish())
    }
}
