//! What a client asks the authorization server by itself: tokens, their end, what they allow. Answers
//! and refusals are as RFC 6749, 7009 and 7662 have them.

use std::sync::Arc;

use actix_web::http::header::AUTHORIZATION;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use colloquy_actors::oauth::{Asking, BroughtCode, Denied, Issued, TokenState};
use colloquy_model::caller::{Actor, CredentialId};
use colloquy_model::client::KnownClient;
use colloquy_model::key::Permission;
use colloquy_model::scope;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::super::admission::Arrival;
use super::super::super::api_call::ApiCall;
use super::super::super::authentication::check_failures;
use super::super::super::body::Form;
use super::super::super::output::{CachePolicy, Output, Text};
use super::super::super::problem::{Kind, Problem};
use super::super::super::query::decoded;

/// What a client sends for tokens. What is not known here does not count.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TokenRequest)]
pub(super) struct TokenForm {
    /// `authorization_code`, `refresh_token` or `client_credentials`.
    grant_type: Option<String>,
    /// The code.
    code: Option<String>,
    /// Where the code was sent.
    redirect_uri: Option<String>,
    /// What the code challenge was made of.
    code_verifier: Option<String>,
    /// The refresh token.
    refresh_token: Option<String>,
    /// What is asked for, with blanks between.
    scope: Option<String>,
    /// The client, where it does not say so in `Authorization`.
    client_id: Option<String>,
    /// Its secret.
    client_secret: Option<String>,
}

/// What a client sends about a token.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TokenName)]
pub(super) struct NamedToken {
    /// The token.
    token: Option<String>,
    /// The client, where it does not say so in `Authorization`.
    client_id: Option<String>,
    /// Its secret.
    client_secret: Option<String>,
}

/// Tokens for a client.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tokens)]
pub(super) struct TokenAnswer {
    /// A JWT (RFC 9068).
    access_token: String,
    /// Always `Bearer`.
    token_type: &'static str,
    /// For how many seconds the access token holds.
    expires_in: u64,
    /// What it allows, with blanks between.
    scope: String,
    /// What gets the next tokens, once.
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
}

/// What is known of a token.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct Introspection {
    /// Whether it allows anything.
    active: bool,
    /// What it allows, with blanks between.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// The client that it was given to.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_id: Option<String>,
    /// The user who allowed it, else the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<String>,
    /// `Bearer` for an access token.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_type: Option<&'static str>,
    /// When it ends, in Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    exp: Option<i64>,
    /// When it was issued, in Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    iat: Option<i64>,
    /// Who issued it, and for whom it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<String>,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<String>,
    /// Its own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    jti: Option<String>,
}

pub(super) async fn token(call: ApiCall, Form(form): Form<TokenForm>) -> Result<Output, Problem> {
    let given = granted(&call, form).await;
    if let Err(problem) = &given
        && problem.is_refusal()
    {
        refused(&call)?;
    }
    let Issued {
        access_token,
        expires_in,
        scopes,
        refresh_token,
    } = given?;
    Ok(json(&TokenAnswer {
        access_token,
        token_type: "Bearer",
        expires_in: expires_in.as_secs(),
        scope: scope::text(&scopes),
        refresh_token,
    }))
}

async fn granted(call: &ApiCall, form: TokenForm) -> Result<Issued, Problem> {
    let client = client(call, form.client_id, form.client_secret)?;
    let oauth = &call.app.system.oauth;
    let actor = actor(call, &client);
    let wanted = given(form.scope).map(|text| {
        scope::parse(&text).ok_or_else(|| Problem::oauth("invalid_scope", "a scope is not known"))
    });
    let wanted: Option<Vec<Permission>> = wanted.transpose()?;
    let asking = Asking {
        client: &client,
        domain: call.site.domain(),
    };
    let issued = match given(form.grant_type).as_deref() {
        Some("authorization_code") => {
            let (code, verifier) = (
                required(form.code, "code")?,
                required(form.code_verifier, "code_verifier")?,
            );
            let redirect_uri = given(form.redirect_uri);
            let brought = BroughtCode {
                code: &code,
                redirect_uri: redirect_uri.as_deref(),
                verifier: &verifier,
            };
            oauth.redeem(asking, brought, actor).await
        }
        Some("refresh_token") => {
            let token = required(form.refresh_token, "refresh_token")?;
            oauth.refresh(asking, &token, wanted, actor).await
        }
        Some("client_credentials") => oauth.client_credentials(asking, wanted),
        Some(_) => {
            return Err(Problem::oauth(
                "unsupported_grant_type",
                "this grant_type is not known",
            ));
        }
        None => return Err(missing("grant_type")),
    };
    issued.map_err(|denied| match denied {
        Denied::Grant => Problem::oauth(
            "invalid_grant",
            "the code or the refresh token is unknown, used, ended, or another client's",
        ),
        Denied::Scope => Problem::oauth("invalid_scope", "the scope is more than was allowed"),
        Denied::Client => Problem::oauth(
            "unauthorized_client",
            "the client may not get tokens by this grant_type",
        ),
        Denied::Failed(error) => error.into(),
    })
}

pub(super) async fn revoke(call: ApiCall, Form(form): Form<NamedToken>) -> Result<Output, Problem> {
    let client = counted(&call, form.client_id, form.client_secret)?;
    let token = required(form.token, "token")?;
    let actor = actor(&call, &client);
    call.app.system.oauth.revoke(&client, &token, actor).await?;
    Ok(json(&serde_json::json!({})))
}

pub(super) async fn introspect(
    call: ApiCall,
    Form(form): Form<NamedToken>,
) -> Result<Output, Problem> {
    let client = counted(&call, form.client_id, form.client_secret)?;
    let token = required(form.token, "token")?;
    let state = call.app.system.oauth.introspect(&client, &token).await?;
    let Some(TokenState {
        scopes,
        user,
        ends_at,
        access,
    }) = state
    else {
        return Ok(json(&Introspection::default()));
    };
    let id = client.view.client_id.to_string();
    let access = access.as_ref();
    let issuer = access.map(|access| match &access.domain {
        Some(domain) => call.app.public_url.at(domain),
        None => call.app.public_url.as_str().to_owned(),
    });
    Ok(json(&Introspection {
        active: true,
        scope: Some(scope::text(&scopes)),
        sub: Some(user.map_or_else(|| id.clone(), |user| user.to_string())),
        client_id: Some(id),
        token_type: access.map(|_| "Bearer"),
        exp: Some(ends_at.0 / 1_000),
        iat: access.map(|access| access.issued_at.0 / 1_000),
        iss: issuer.clone(),
        aud: issuer,
        jti: access.map(|access| access.id.clone()),
    }))
}

/// A parameter; one that is empty is none (RFC 6749, 3.2).
fn given(value: Option<String>) -> Option<String> {
    value.filter(|text| !text.is_empty())
}

fn missing(name: &'static str) -> Problem {
    Problem::oauth("invalid_request", "is missing").at(name)
}

fn required(value: Option<String>, name: &'static str) -> Result<String, Problem> {
    given(value).ok_or_else(|| missing(name))
}

/// The client that calls; a refusal counts for the address.
fn counted(
    call: &ApiCall,
    id: Option<String>,
    secret: Option<String>,
) -> Result<Arc<KnownClient>, Problem> {
    let client = client(call, id, secret);
    if client.is_err() {
        refused(call)?;
    }
    client
}

/// Counts a refusal for the address, as failed authentications are.
fn refused(call: &ApiCall) -> Result<(), Problem> {
    let Some(address) = call.caller.actor.address else {
        return Ok(());
    };
    let arrival = Arrival {
        address,
        at: call.now,
    };
    check_failures(&call.app, arrival)?;
    call.app.system.addresses.take(address, call.now);
    Ok(())
}

/// The client that calls, by what stands in `Authorization` or in the form, but not in both.
fn client(
    call: &ApiCall,
    id: Option<String>,
    secret: Option<String>,
) -> Result<Arc<KnownClient>, Problem> {
    let unknown = || {
        Problem::new(
            Kind::Unauthorized,
            "the client is unknown, or its secret is not the one",
        )
    };
    let (id, secret) = match basic(call)? {
        None => (given(id).ok_or_else(unknown)?, given(secret)),
        Some(_) if given(secret).is_some() => {
            return Err(Problem::oauth(
                "invalid_request",
                "the client must say who it is in one way, not in two",
            ));
        }
        Some((basic_id, _)) if given(id.clone()).is_some_and(|id| id != basic_id) => {
            return Err(unknown());
        }
        Some((id, secret)) => (id, Some(secret)),
    };
    let client = call
        .app
        .system
        .oauth
        .client(&id, secret.as_deref(), call.now);
    let client = client.filter(|client| call.site.serves(client.tenant));
    client.ok_or_else(unknown)
}

/// What stands in `Authorization`: both halves are encoded as in a form (RFC 6749, 2.3.1).
fn basic(call: &ApiCall) -> Result<Option<(String, String)>, Problem> {
    let mut lines = call.request.headers().get_all(AUTHORIZATION);
    let Some(line) = lines.next() else {
        return Ok(None);
    };
    let read = || {
        let (scheme, text) = line.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("basic").then_some(())?;
        let bytes = BASE64_STANDARD.decode(text.trim()).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let (id, secret) = text.split_once(':')?;
        Some((decoded(id)?.into_owned(), decoded(secret)?.into_owned()))
    };
    let unreadable = || {
        Problem::new(
            Kind::Unauthorized,
            "Authorization must be Basic, with the client's id and secret",
        )
    };
    let only = lines.next().is_none();
    read().filter(|_| only).map(Some).ok_or_else(unreadable)
}

fn actor(call: &ApiCall, client: &KnownClient) -> Actor {
    Actor {
        credential: CredentialId::Client(client.view.client_id),
        ..call.caller.actor.clone()
    }
}

fn json<T: Serialize>(shape: &T) -> Output {
    Output::Text(Text {
        body: colloquy_model::json::bytes(shape),
        media_type: "application/json",
        cache: CachePolicy::NoStore,
        room: None,
    })
}
