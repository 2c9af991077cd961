//! Clients as an account registers them.

use std::time::Duration;

use serde_json::json;

use super::{Authority, Registered, signed_in, text};
use crate::support::shapes::assert_shape;
use crate::support::{account, until};

const CLIENTS: &str = "/v1/oauth/clients";
const SHAPE: &str =
    "client_id, name, redirect_uris, grant_types, scopes, confidential, mode, created_at";

#[tokio::test]
async fn a_client_is_registered_changed_listed_and_deleted() {
    let account = account().await;
    let c = account.live();
    let body = json!({"name": "App", "redirect_uris": ["https://app.example/cb"], "scopes": ["conversations:read"]});
    let made = c.post(CLIENTS, body).await.expect(201);
    let secret = text(&made.body, "client_secret");
    assert!(secret.starts_with("cls_"));
    assert_eq!(made.header("cache-control"), "no-store");
    assert_eq!(
        made.body["grant_types"],
        json!(["authorization_code", "refresh_token"])
    );
    assert_eq!(
        (&made.body["confidential"], &made.body["mode"]),
        (&json!(true), &json!("live"))
    );
    let path = made.header("location").to_owned();
    let shown = c.get(&path).await.expect(200);
    assert_shape(&shown.body, SHAPE);
    account.test().get(&path).await.error(404, "not_found", "");

    let changed = c
        .patch(
            &path,
            json!({"name": "Better app", "scopes": ["conversations:write"]}),
        )
        .with("if-match", &shown.etag())
        .await
        .expect(200);
    assert_eq!(changed.body["name"], "Better app");
    assert_ne!(changed.etag(), shown.etag());
    c.patch(&path, json!({"name": "Late"}))
        .with("if-match", &shown.etag())
        .await
        .error(412, "precondition_failed", "");
    let same = c.patch(&path, json!({})).await.expect(200);
    assert_eq!(same.etag(), changed.etag());

    let rotated = c
        .post(&format!("{path}/rotate-secret"), json!({}))
        .await
        .expect(200);
    assert_ne!(text(&rotated.body, "client_secret"), secret);
    assert_eq!(c.get(CLIENTS).await.expect(200).total(), 1);
    c.delete(&path).await.expect(204);
    c.get(&path).await.error(404, "not_found", "");
    assert_eq!(c.get(CLIENTS).await.expect(200).total(), 0);
}

#[tokio::test]
async fn a_client_that_makes_no_sense_is_refused_by_its_field() {
    let account = account().await;
    let c = account.live();
    let cb = "https://app.example/cb";
    for (body, field) in [
        (json!({"scopes": ["conversations:read"]}), "name"),
        (json!({"name": "A"}), "scopes"),
        (json!({"name": "A", "scopes": []}), "scopes"),
        (json!({"name": "A", "scopes": ["everything"]}), "scopes[0]"),
        (
            json!({"name": "A", "scopes": ["users:manage", "users:manage"]}),
            "scopes",
        ),
        (
            json!({"name": "A", "scopes": ["users:manage"], "redirect_uris": ["http://app.example/cb"]}),
            "redirect_uris[0]",
        ),
        (
            json!({"name": "A", "scopes": ["users:manage"], "redirect_uris": ["https://app.example/cb#x"]}),
            "redirect_uris[0]",
        ),
        (
            json!({"name": "A", "scopes": ["users:manage"], "redirect_uris": ["https://a@app.example/cb"]}),
            "redirect_uris[0]",
        ),
        (
            json!({"name": "A", "scopes": ["users:manage"], "redirect_uris": ["javascript:alert(1)"]}),
            "redirect_uris[0]",
        ),
        (
            json!({"name": "A", "scopes": ["users:manage"], "redirect_uris": [cb, cb]}),
            "redirect_uris",
        ),
        (
            json!({"name": "A", "scopes": ["users:manage"], "grant_types": ["authorization_code"]}),
            "redirect_uris",
        ),
        (
            json!({"name": "A", "scopes": ["users:manage"], "grant_types": ["implicit"], "redirect_uris": [cb]}),
            "grant_types[0]",
        ),
        (
            json!({"name": "A", "scopes": ["users:manage"], "grant_types": ["refresh_token"], "redirect_uris": [cb]}),
            "grant_types",
        ),
        (
            json!({"name": "A", "scopes": ["users:manage"], "grant_types": ["client_credentials"], "confidential": false}),
            "grant_types",
        ),
        (
            json!({"name": "A", "scopes": ["users:manage"], "client_id": "mine"}),
            "client_id",
        ),
    ] {
        let refused = c.post(CLIENTS, body.clone()).await;
        assert_eq!(refused.status, 400, "{body}");
        refused.error(400, "invalid_request", field);
    }
    assert_eq!(c.get(CLIENTS).await.expect(200).total(), 0);
}

#[tokio::test]
async fn registering_needs_the_right_to_manage_users() {
    let account = account().await;
    let (narrow, _) = account
        .key(json!({"type": "prod", "scopes": ["conversations:read"]}))
        .await;
    let body = json!({"name": "App", "scopes": ["conversations:read"]});
    narrow
        .post(CLIENTS, body.clone())
        .await
        .error(403, "forbidden", "");
    narrow.get(CLIENTS).await.error(403, "forbidden", "");
    let agent = account.live().user("agent").await;
    account
        .live()
        .acting_for(&agent)
        .post(CLIENTS, body)
        .await
        .error(403, "forbidden", "");
}

#[tokio::test]
async fn an_old_secret_holds_for_its_overlap_and_no_longer() {
    let (_server, account, _person, authority) = signed_in("admin").await;
    let c = account.live();
    let old = Registered::machine(&c).await;
    let rotate = format!("{}/rotate-secret", old.path());
    let new = c.post(&rotate, json!({})).await.expect(200);
    let new = Registered {
        id: old.id.clone(),
        secret: Some(text(&new.body, "client_secret")),
    };
    authority.credentials(&old).await;
    authority.credentials(&new).await;
    let newest = c
        .post(&rotate, json!({"overlap_seconds": 0}))
        .await
        .expect(200);
    let newest = Registered {
        id: old.id.clone(),
        secret: Some(text(&newest.body, "client_secret")),
    };
    authority.credentials(&newest).await;
    let fields = [("grant_type", "client_credentials")];
    for gone in [&old, &new] {
        authority
            .post("/oauth/token", gone, &fields)
            .await
            .refused(401, "invalid_client");
    }
    let soon = json!({"overlap_seconds": 1});
    let last = c.post(&rotate, soon).await.expect(200);
    until("the overlap is over", Duration::from_secs(30), async || {
        let tried = authority.post("/oauth/token", &newest, &fields).await;
        (tried.status == 401).then_some(())
    })
    .await;
    let last = Registered {
        id: old.id.clone(),
        secret: Some(text(&last.body, "client_secret")),
    };
    authority.credentials(&last).await;
    let public = Registered::make(
        &c,
        json!({"name": "Phone", "redirect_uris": ["com.example.app:/cb"], "scopes": ["conversations:read"], "confidential": false}),
    )
    .await;
    assert_eq!(public.secret, None);
    c.post(&format!("{}/rotate-secret", public.path()), json!({}))
        .await
        .error(409, "conflict", "");
}

#[tokio::test]
async fn clients_survive_a_crash_and_their_secrets_are_in_no_file() {
    let (mut server, account, _person, authority) = signed_in("admin").await;
    let client = Registered::machine(&account.live()).await;
    let token = authority.credentials(&client).await;
    server.kill9();
    let secret = client.secret.clone().unwrap();
    assert_eq!(server.places_with(&secret), [] as [std::path::PathBuf; 0]);
    server.restart();
    Authority::of(&server).credentials(&client).await;
    // Signed by the same key, by a server that is reached elsewhere: its issuer is another one.
    server
        .with_key(&token)
        .get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");
}

#[tokio::test]
async fn a_narrowed_key_gives_no_client_more_than_it_has() {
    let account = account().await;
    let c = account.live();
    let all = ["users:manage", "documents:read"];
    let (narrow, _) = account.key(json!({"type": "prod", "scopes": all})).await;
    for scopes in [
        json!(["conversations:read"]),
        json!(["users:manage", "documents:write"]),
        json!(["conversations:assigned"]),
    ] {
        let body = json!({"name": "More", "scopes": scopes});
        narrow.post(CLIENTS, body).await.error(403, "forbidden", "");
    }
    assert_eq!(c.get(CLIENTS).await.expect(200).total(), 0);

    let own = Registered::make(&narrow, json!({"name": "Own", "scopes": all})).await;
    let grown = json!({"scopes": ["documents:read", "documents:write"]});
    narrow
        .patch(&own.path(), grown)
        .await
        .error(403, "forbidden", "");
    let less = json!({"scopes": ["documents:read"]});
    narrow.patch(&own.path(), less).await.expect(200);

    // What may do more is not its to lead elsewhere, nor to have a secret of.
    let other = Registered::web(&c).await;
    let before = c.get(&other.path()).await.expect(200).body;
    for change in [
        json!({"redirect_uris": ["https://elsewhere.example/"]}),
        json!({"scopes": ["documents:read"]}),
        json!({"name": "Renamed"}),
    ] {
        narrow
            .patch(&other.path(), change)
            .await
            .error(403, "forbidden", "");
    }
    narrow
        .post(&format!("{}/rotate-secret", other.path()), json!({}))
        .await
        .error(403, "forbidden", "");
    assert_eq!(c.get(&other.path()).await.expect(200).body, before);

    let scopes = ["users:manage", "conversations:read", "conversations:write"];
    let (whole, _) = account.key(json!({"type": "prod", "scopes": scopes})).await;
    let body = json!({"name": "Bot", "scopes": ["conversations:assigned"]});
    whole.post(CLIENTS, body).await.expect(201);
    let grown = json!({"scopes": ["conversations:assigned"]});
    c.patch(&own.path(), grown).await.expect(200);
}
