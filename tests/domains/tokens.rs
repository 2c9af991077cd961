//! Access tokens that are issued at an account's domain.

use serde_json::{Value, json};

use super::{address, host, prove, set, setup, text, two_accounts};
use crate::support::{Answer, Client, Nameserver, Server};

#[tokio::test(flavor = "multi_thread")]
async fn a_token_says_at_which_domain_it_was_issued_and_ends_with_it() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let (a, b) = two_accounts(&server).await;
    let host = host();
    prove(&names, &a, &host).await;
    let there = address(&server, &host);
    let metadata = server
        .anonymous()
        .get("/.well-known/oauth-authorization-server");
    let metadata = metadata.with("host", &host).await.expect(200);
    assert_eq!(metadata.body["issuer"], there);
    assert_eq!(
        metadata.body["token_endpoint"],
        format!("{there}/oauth/token")
    );
    let (ours, theirs) = (machine(&a.test()).await, machine(&b.test()).await);
    let token = token_of(&server, &ours, Some(&host)).await.expect(200);
    let token = text(&token.body, "access_token");
    assert_eq!(claim(&token, "iss"), there);
    assert_eq!(claim(&token, "aud"), there);
    token_of(&server, &theirs, Some(&host)).await.expect(401);
    let own = text(
        &token_of(&server, &ours, None).await.expect(200).body,
        "access_token",
    );
    assert_eq!(claim(&own, "iss"), format!("http://{}", server.address()));
    // Both are the account's, wherever it is reached.
    for token in [&token, &own] {
        let c = server.with_key(token);
        c.get("/v1/customers").await.expect(200);
        c.get("/v1/customers").with("host", &host).await.expect(200);
    }
    let told = introspected(&server, &ours, &token).await;
    assert_eq!(
        (&told.body["active"], &told.body["iss"]),
        (&json!(true), &json!(there))
    );
    let foreign = token_of(&server, &theirs, None).await.expect(200);
    let foreign = server.with_key(&text(&foreign.body, "access_token"));
    foreign
        .get("/v1/customers")
        .with("host", &host)
        .await
        .error(404, "not_found", "");
    // What the domain issued ends with it; what the server issued goes on.
    set(&a, json!({"domains": []})).await.expect(200);
    server
        .with_key(&token)
        .get("/v1/customers")
        .await
        .error(401, "unauthorized", "");
    server.with_key(&own).get("/v1/customers").await.expect(200);
    // Nor does it hold for whoever has the domain next.
    prove(&names, &b, &host).await;
    server
        .with_key(&token)
        .get("/v1/customers")
        .await
        .error(401, "unauthorized", "");
}

/// A client that acts for its account itself: its name and its secret.
async fn machine(c: &Client) -> (String, String) {
    let body = json!({"name": "Machine", "grant_types": ["client_credentials"], "scopes": ["conversations:read"]});
    let made = c.post("/v1/oauth/clients", body).await.expect(201);
    (made.id("client_id"), text(&made.body, "client_secret"))
}

async fn token_of(server: &Server, client: &(String, String), host: Option<&str>) -> Answer {
    let (id, secret) = client;
    let form = format!("grant_type=client_credentials&client_id={id}&client_secret={secret}");
    let call = server.anonymous().call("POST", "/oauth/token");
    let call = call
        .bytes(form)
        .with("content-type", "application/x-www-form-urlencoded");
    match host {
        Some(host) => call.with("host", host).await,
        None => call.await,
    }
}

async fn introspected(server: &Server, client: &(String, String), token: &str) -> Answer {
    let (id, secret) = client;
    let form = format!("token={token}&client_id={id}&client_secret={secret}");
    let call = server.anonymous().call("POST", "/oauth/introspect");
    let call = call
        .bytes(form)
        .with("content-type", "application/x-www-form-urlencoded");
    call.await.expect(200)
}

/// A claim of a JWT, as it is written.
fn claim(token: &str, name: &str) -> String {
    use base64::Engine;
    let payload = token.split('.').nth(1).unwrap();
    let bytes = base64::prelude::BASE64_URL_SAFE_NO_PAD
        .decode(payload)
        .unwrap();
    let claims: Value = serde_json::from_slice(&bytes).unwrap();
    text(&claims, name)
}
