//! What clients and others find out about the authorization server by themselves.

use colloquy_model::key::Permission;
use colloquy_model::scope;
use std::sync::Arc;

use colloquy_actors::oauth::SigningKeysError;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::super::api_call::ApiCall;
use super::super::super::body::{Empty, OptionalJson};
use super::super::super::output::{CachePolicy, Output, Text};
use super::super::super::problem::{Outcome, Problem};
use super::super::super::query::NoQuery;

/// The server's metadata (RFC 8414).
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ServerMetadata<'a> {
    /// Who issues tokens: `public_url`, or the account's domain that was asked.
    issuer: &'a str,
    /// Where browsers are sent.
    authorization_endpoint: String,
    /// Where tokens are given.
    token_endpoint: String,
    /// Where tokens are ended.
    revocation_endpoint: String,
    /// Where clients ask about their tokens.
    introspection_endpoint: String,
    /// The public keys.
    jwks_uri: String,
    /// All scopes.
    scopes_supported: Vec<String>,
    /// Always `code`.
    response_types_supported: &'static [&'static str],
    /// Always `query`.
    response_modes_supported: &'static [&'static str],
    /// The ways to get tokens.
    grant_types_supported: &'static [&'static str],
    /// How clients say who they are.
    token_endpoint_auth_methods_supported: &'static [&'static str],
    /// The same for ending tokens.
    revocation_endpoint_auth_methods_supported: &'static [&'static str],
    /// The same for asking about tokens.
    introspection_endpoint_auth_methods_supported: &'static [&'static str],
    /// Always `S256`.
    code_challenge_methods_supported: &'static [&'static str],
    /// Always true (RFC 9207).
    authorization_response_iss_parameter_supported: bool,
    /// For people.
    service_documentation: String,
}

const AUTHENTICATED_BY: &[&str] = &["client_secret_basic", "client_secret_post", "none"];
pub(super) async fn metadata(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    let issuer = &*call.site.address(&call.app);
    let at = |path: &str| format!("{issuer}{path}");
    Ok(public(&ServerMetadata {
        issuer,
        authorization_endpoint: at("/oauth/authorize"),
        token_endpoint: at("/oauth/token"),
        revocation_endpoint: at("/oauth/revoke"),
        introspection_endpoint: at("/oauth/introspect"),
        jwks_uri: at("/.well-known/jwks.json"),
        scopes_supported: Permission::ALL.iter().copied().map(scope::word).collect(),
        response_types_supported: &["code"],
        response_modes_supported: &["query"],
        grant_types_supported: &["authorization_code", "client_credentials", "refresh_token"],
        token_endpoint_auth_methods_supported: AUTHENTICATED_BY,
        revocation_endpoint_auth_methods_supported: AUTHENTICATED_BY,
        introspection_endpoint_auth_methods_supported: AUTHENTICATED_BY,
        code_challenge_methods_supported: &["S256"],
        authorization_response_iss_parameter_supported: true,
        service_documentation: at("/docs"),
    }))
}

pub(super) async fn jwks(call: ApiCall, _: NoQuery) -> Result<Output, Problem> {
    Ok(public(&call.app.system.oauth.keys.published()))
}

fn public<T: Serialize>(shape: &T) -> Output {
    Output::Text(Text {
        body: colloquy_model::json::bytes(shape),
        media_type: "application/json",
        cache: CachePolicy::Public,
        room: None,
    })
}

/// Lets the next key sign.
pub(super) async fn rotate_keys(call: ApiCall, _: OptionalJson<Empty>) -> Result<Output, Problem> {
    let ApiCall {
        app,
        caller,
        reservation,
        ..
    } = call;
    let request_id = Arc::clone(&caller.actor.request_id);
    let rotated = app
        .system
        .oauth
        .keys
        .rotate(caller.actor, reservation)
        .await;
    let answer = rotated.map_err(|error| match error {
        SigningKeysError::Away => {
            Problem::unavailable("the store does not answer", Outcome::None, 1)
        }
        SigningKeysError::Unknown => {
            Problem::unavailable("the answer could not be kept", Outcome::Unknown, 1)
        }
        SigningKeysError::Making(_) => Problem::crashed_before_start(),
    })?;
    let request_id = &*request_id;
    tracing::info!(
        request_id,
        "an operator has rotated the keys that sign access tokens"
    );
    Ok(answer.into())
}
