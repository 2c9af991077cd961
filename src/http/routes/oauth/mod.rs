//! OAuth 2.0: clients, and the authorization server's part of the table.

mod authorize;
mod clients;
mod discovery;
mod token;

use colloquy_actors::accounts::Client;
use colloquy_actors::oauth::Jwks;
use colloquy_model::client::ClientView;
use colloquy_model::key::Permission;

use super::super::operation::{AuthRequirement, LocationRule, Operation, delete, get, patch, post};
use super::super::problem::Kind;
use super::records;
use discovery::ServerMetadata;
use token::{Introspection, TokenAnswer};

const TAG: &str = "OAuth 2.0";
const MANAGE: AuthRequirement = AuthRequirement::Key(&[Permission::UsersManage]);

pub(super) fn operations() -> Vec<Operation> {
    let mut all = client_operations();
    all.extend(server());
    all
}

fn client_operations() -> Vec<Operation> {
    vec![
        post("/v1/oauth/clients", "createClient", clients::create)
            .about(
                TAG,
                "Register a client",
                "It belongs to the account and to the key's mode, and may be allowed what the key is. The answer's `client_secret` is shown only here.",
            )
            .auth(MANAGE)
            .creates::<ClientView>(LocationRule::UnderRequestPath)
            .refuses(&[Kind::Conflict])
            .secret(),
        get("/v1/oauth/clients", "listClients", records::list::<Client>)
            .about(TAG, "List clients", "Newest first.")
            .auth(MANAGE)
            .lists::<ClientView>(),
        get("/v1/oauth/clients/{client_id}", "getClient", records::read::<Client>)
            .about(TAG, "Get a client", "Shows one client, without its secret.")
            .auth(MANAGE)
            .shows::<ClientView>(),
        patch("/v1/oauth/clients/{client_id}", "changeClient", clients::change)
            .about(
                TAG,
                "Change a client",
                "What is given is set, what is left out stays. Scopes that are taken away are gone from its tokens at once.",
            )
            .auth(MANAGE)
            .shows::<ClientView>(),
        delete("/v1/oauth/clients/{client_id}", "deleteClient", records::remove::<Client>)
            .about(TAG, "Delete a client", "Its tokens and what users have allowed it end at once.")
            .auth(MANAGE),
        post("/v1/oauth/clients/{client_id}/rotate-secret", "rotateClientSecret", clients::rotate_secret)
            .about(
                TAG,
                "Rotate a client's secret",
                "The answer's `client_secret` is the new one: it is shown only here. The old one holds too for the overlap.",
            )
            .auth(MANAGE)
            .shows::<ClientView>()
            .conditional()
            .refuses(&[Kind::Conflict])
            .secret(),
    ]
}

fn server() -> Vec<Operation> {
    vec![
        get("/oauth/authorize", "authorize", authorize::authorize)
            .about(
                TAG,
                "Ask a user for access",
                "Where a client sends a browser (RFC 6749, 4.1.1): the user signs in to the console and consents, and the \
                 browser comes back with a `code`, `state` and `iss` (RFC 9207), or with an `error`.",
            )
            .auth(AuthRequirement::Public)
            .writes("text/html; charset=utf-8")
            .leads_on(),
        post("/oauth/token", "token", token::token)
            .about(
                TAG,
                "Get tokens",
                "For a code (with PKCE, RFC 7636), for a refresh token, which is used up, or for the client itself.",
            )
            .auth(AuthRequirement::OAuthClient)
            .shows::<TokenAnswer>()
            .unrepeatable()
            .secret(),
        post("/oauth/revoke", "revoke", token::revoke)
            .about(
                TAG,
                "End a token",
                "RFC 7009. A token that a user allowed ends with all others of that consent. One that is unknown is 200, too.",
            )
            .auth(AuthRequirement::OAuthClient)
            .writes("application/json")
            .unrepeatable()
            .secret(),
        post("/oauth/introspect", "introspect", token::introspect)
            .about(TAG, "Ask about a token", "RFC 7662. A client may ask about its own tokens only.")
            .auth(AuthRequirement::OAuthClient)
            .shows::<Introspection>()
            .unrepeatable()
            .secret(),
        get("/.well-known/oauth-authorization-server", "getServerMetadata", discovery::metadata)
            .about(TAG, "Get the authorization server's metadata", "RFC 8414.")
            .auth(AuthRequirement::Public)
            .shows::<ServerMetadata<'_>>(),
        get("/.well-known/jwks.json", "getJwks", discovery::jwks)
            .about(
                TAG,
                "Get the public keys",
                "RFC 7517: with these, access tokens can be verified. A key is shown before it signs.",
            )
            .auth(AuthRequirement::Public)
            .shows::<Jwks>(),
        post("/admin/v1/oauth/rotate-keys", "rotateSigningKeys", discovery::rotate_keys)
            .about(
                TAG,
                "Let the next key sign access tokens",
                "It has been published by now; tokens that were signed before hold on. Shows the public keys.",
            )
            .auth(AuthRequirement::Operator)
            .shows::<Jwks>(),
    ]
}
