//! API keys: what each type may do, narrowing by scope, address and expiry, rotation with overlap,
//! revocation.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::shapes::{KEY, assert_id, assert_shape, instant};
use crate::support::{Server, Setup, account, until};

#[tokio::test]
async fn a_key_shows_its_secret_once_and_every_field() {
    let account = account().await;
    let (_, made) = account.key(json!({"type": "test", "name": "CI"})).await;
    let mut shape = made.clone();
    let secret = shape.as_object_mut().unwrap().remove("key").unwrap();
    assert_shape(&shape, KEY);
    assert_id(&made["key_id"], "key_");
    let secret = secret.as_str().unwrap();
    assert!(
        secret.starts_with("sk_test_") && secret.ends_with(made["last4"].as_str().unwrap()),
        "{made}"
    );
    assert_eq!(made["account_id"], account.account_id.as_str());
    let at = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
    let read = account.operator().get(&at).await.expect(200);
    assert_shape(&read.body, KEY);
    let list = account
        .operator()
        .get(&format!("/admin/v1/accounts/{}/keys", account.account_id))
        .await
        .expect(200);
    assert_eq!(list.total(), 4);
    for text in [&read.bytes, &list.bytes] {
        assert!(
            !String::from_utf8_lossy(text).contains(secret),
            "the secret is shown again"
        );
    }
}

#[tokio::test]
async fn a_secret_answer_is_not_to_be_stored() {
    let account = account().await;
    let path = format!("/admin/v1/accounts/{}/keys", account.account_id);
    let made = account
        .operator()
        .post(&path, json!({"type": "prod"}))
        .await
        .expect(201);
    assert_eq!(made.header("cache-control"), "no-store");
}

#[tokio::test]
async fn a_read_only_key_reads_live_data_and_changes_nothing() {
    let account = account().await;
    let (live, read) = (account.live(), account.read());
    let at = format!("/v1/conversations/{}", live.conversation().await);
    read.get(&at).await.expect(200);
    read.call("HEAD", &at).await.expect(200);
    assert_eq!(read.get("/v1/conversations").await.expect(200).total(), 1);
    read.patch(&at, json!({"priority": "low"}))
        .await
        .error(403, "forbidden", "*");
    read.delete(&format!(
        "{at}/messages/msg_0190163d8694739b85d52d5e4a4d6d5f"
    ))
    .await
    .error(403, "forbidden", "*");
    read.post("/v1/customers", json!({"name": "x"}))
        .await
        .error(403, "forbidden", "*");
    read.call("POST", &format!("{at}/close"))
        .await
        .error(403, "forbidden", "*");
    let test = account.test().conversation().await;
    read.get(&format!("/v1/conversations/{test}"))
        .await
        .error(404, "not_found", "*");
}

#[tokio::test]
async fn every_bad_credential_gets_the_same_401() {
    let account = account().await;
    let good = account.test_key().to_owned();
    let last = if good.ends_with('A') { "B" } else { "A" };
    let tampered = format!("{}{last}", &good[..good.len() - 1]);
    let credentials = [
        format!("Bearer {tampered}"),
        "Bearer sk_test_".to_owned(),
        "Bearer sk_live_0000".to_owned(),
        format!("Bearer {}", crate::support::OPERATOR),
        format!("Basic {good}"),
        format!("Bearer {good} {good}"),
        format!("Bearer {}", "x".repeat(4000)),
        good.clone(),
        "Bearer".to_owned(),
        String::new(),
    ];
    let missing = account
        .anonymous()
        .get("/v1")
        .await
        .error(401, "unauthorized", "");
    for credential in credentials {
        let refused = account
            .anonymous()
            .get("/v1")
            .with("authorization", &credential)
            .await;
        let refused = refused.error(401, "unauthorized", "");
        assert_eq!(refused.body, missing.body, "{credential}");
    }
}

#[tokio::test]
async fn each_kind_of_credential_is_401_at_the_others_door() {
    let account = account().await;
    account
        .test()
        .get("/admin/v1/accounts")
        .await
        .error(401, "unauthorized", "");
    account
        .operator()
        .get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");
    account
        .anonymous()
        .get("/admin/v1/accounts")
        .await
        .error(401, "unauthorized", "");
}

#[tokio::test]
async fn a_key_narrowed_by_scope_may_do_that_and_nothing_else() {
    let account = account().await;
    let c = account.test();
    let at = format!("/v1/conversations/{}", c.conversation().await);
    let (reader, made) = account
        .key(json!({"type": "test", "scopes": ["conversations:read"]}))
        .await;
    assert_eq!(made["scopes"], json!(["conversations:read"]));
    reader.get(&at).await.expect(200);
    reader.get("/v1/customers").await.expect(200);
    reader.get("/v1/users").await.expect(200);
    reader
        .patch(&at, json!({"priority": "low"}))
        .await
        .error(403, "forbidden", "*");
    reader
        .post("/v1/customers", json!({"name": "x"}))
        .await
        .error(403, "forbidden", "*");
    let (users, _) = account
        .key(json!({"type": "test", "scopes": ["users:manage"]}))
        .await;
    users.user("agent").await;
    users.get(&at).await.error(403, "forbidden", "*");
    let (docs, _) = account
        .key(json!({"type": "test", "scopes": ["documents:write"]}))
        .await;
    docs.get("/v1/conversations")
        .await
        .error(403, "forbidden", "*");
}

#[tokio::test]
async fn a_key_narrowed_by_address_is_403_from_elsewhere() {
    let account = account().await;
    let (elsewhere, made) = account
        .key(json!({"type": "test", "allowed_ips": ["10.1.2.0/24"]}))
        .await;
    elsewhere.get("/v1").await.error(403, "forbidden", "*");
    let (here, _) = account
        .key(json!({"type": "test", "allowed_ips": ["10.1.2.0/24", "127.0.0.0/8"]}))
        .await;
    here.get("/v1").await.expect(200);
    let at = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
    account
        .operator()
        .patch(&at, json!({"allowed_ips": ["127.0.0.1/32"]}))
        .await
        .expect(200);
    elsewhere.get("/v1").await.expect(200);
    let path = format!("/admin/v1/accounts/{}/keys", account.account_id);
    for bad in ["10.1.2.0/33", "not an address", "::/129"] {
        let body = json!({"type": "test", "allowed_ips": [bad]});
        account.operator().post(&path, body).await.expect(400);
    }
}

#[tokio::test]
async fn an_address_behind_a_proxy_counts_where_the_proxy_is_believed() {
    let believing = Setup::default().env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]");
    for (server, believed) in [(believing.start(), 200), (Server::start(), 403)] {
        let account = server.account().await;
        let narrowed = json!({"type": "test", "allowed_ips": ["192.0.2.0/24", "2001:db8::/32"]});
        let (client, _) = account.key(narrowed).await;
        let seen = async |headers: &[(&str, &str)]| {
            let call = client.get("/v1");
            let call = headers
                .iter()
                .fold(call, |call, (name, value)| call.with(name, value));
            call.await.status
        };
        let older = ("x-forwarded-for", "192.0.2.7");
        for headers in [
            &[("forwarded", "for=192.0.2.60;proto=https")][..],
            &[("forwarded", "for=1.1.1.1, for=\"[2001:db8::17]:4711\"")],
            &[older],
            &[older, ("forwarded", "for=1.1.1.1")],
        ] {
            assert_eq!(seen(headers).await, believed, "{headers:?}");
        }
        for headers in [
            &[][..],
            &[("forwarded", "for=192.0.2.60, for=1.1.1.1")],
            &[("forwarded", "for=192.0.2.60, for=unknown")],
            &[
                ("forwarded", "for=192.0.2.60"),
                ("x-forwarded-for", "1.1.1.1"),
            ],
        ] {
            assert_eq!(seen(headers).await, 403, "{headers:?}");
        }
    }
}

#[tokio::test]
async fn an_accounts_allowed_addresses_bind_all_its_keys() {
    let account = account().await;
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    account
        .operator()
        .patch(&at, json!({"allowed_ips": ["10.0.0.0/8"]}))
        .await
        .expect(200);
    account.test().get("/v1").await.error(403, "forbidden", "*");
    account.live().get("/v1").await.error(403, "forbidden", "*");
    account
        .operator()
        .patch(&at, json!({"allowed_ips": ["127.0.0.1/32"]}))
        .await
        .expect(200);
    account.test().get("/v1").await.expect(200);
}

#[tokio::test]
async fn a_key_stops_working_when_it_expires() {
    let account = account().await;
    let soon = chrono::Utc::now() + chrono::TimeDelta::seconds(6);
    let expires_at = soon.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
    let (c, made) = account
        .key(json!({"type": "test", "expires_at": expires_at}))
        .await;
    assert_eq!(made["expires_at"], expires_at.as_str());
    c.get("/v1").await.expect(200);
    let refused = until("the key has expired", Duration::from_secs(60), async || {
        let answer = c.get("/v1").await;
        (answer.status != 200).then_some(answer)
    });
    refused.await.error(401, "unauthorized", "");
    assert!(chrono::Utc::now() >= instant(&made["expires_at"]));
}

#[tokio::test]
async fn revoking_holds_for_the_very_next_request() {
    let account = account().await;
    for _ in 0..10 {
        let (c, made) = account.key(json!({"type": "test"})).await;
        c.get("/v1").await.expect(200);
        let at = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
        account.operator().delete(&at).await.expect(204);
        let asks = (0..8).map(|_| async { c.get("/v1").await.error(401, "unauthorized", "") });
        futures_util::future::join_all(asks).await;
        let read = account.operator().get(&at).await.expect(200);
        instant(&read["revoked_at"]);
    }
    let list = account
        .operator()
        .get(&format!("/admin/v1/accounts/{}/keys", account.account_id))
        .await;
    assert_eq!(list.expect(200).total(), 13, "revoked keys stay listed");
}

async fn rotated(account: &crate::support::Account, made: &Value, overlap: Value) -> String {
    let at = format!("/admin/v1/keys/{}/rotate", made["key_id"].as_str().unwrap());
    let rotated = account.operator().post(&at, overlap).await;
    assert!([200, 201].contains(&rotated.status), "{rotated}");
    assert_eq!(rotated["key_id"], made["key_id"]);
    rotated.id("key")
}

#[tokio::test]
async fn rotation_keeps_the_old_secret_for_the_overlap_and_ends_earlier_ones() {
    let account = account().await;
    let (first, made) = account.key(json!({"type": "test"})).await;
    let second = account
        .anonymous()
        .with_key(&rotated(&account, &made, json!({})).await);
    first.get("/v1").await.expect(200);
    second.get("/v1").await.expect(200);
    let third = account
        .anonymous()
        .with_key(&rotated(&account, &made, json!({"overlap_seconds": 3600})).await);
    first.get("/v1").await.error(401, "unauthorized", "");
    second.get("/v1").await.expect(200);
    third.get("/v1").await.expect(200);
    let fourth = account
        .anonymous()
        .with_key(&rotated(&account, &made, json!({"overlap_seconds": 0})).await);
    for old in [&first, &second, &third] {
        old.get("/v1").await.error(401, "unauthorized", "");
    }
    fourth.get("/v1").await.expect(200);
}

#[tokio::test]
async fn an_overlap_ends_by_itself() {
    let account = account().await;
    let (old, made) = account.key(json!({"type": "test"})).await;
    rotated(&account, &made, json!({"overlap_seconds": 6})).await;
    old.get("/v1").await.expect(200);
    until("the overlap is over", Duration::from_secs(60), async || {
        (old.get("/v1").await.status == 401).then_some(())
    })
    .await;
}

#[tokio::test]
async fn revoking_ends_the_overlap_too() {
    let account = account().await;
    let (old, made) = account.key(json!({"type": "test"})).await;
    let new = account
        .anonymous()
        .with_key(&rotated(&account, &made, json!({})).await);
    account
        .operator()
        .delete(&format!(
            "/admin/v1/keys/{}",
            made["key_id"].as_str().unwrap()
        ))
        .await
        .expect(204);
    old.get("/v1").await.error(401, "unauthorized", "");
    new.get("/v1").await.error(401, "unauthorized", "");
}

#[tokio::test]
async fn last_used_at_is_kept_and_does_not_change_the_etag() {
    let account = account().await;
    let (c, made) = account.key(json!({"type": "test"})).await;
    let at = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
    let before = account.operator().get(&at).await.expect(200);
    assert!(before["last_used_at"].is_null());
    c.get("/v1").await.expect(200);
    let used = until("last_used_at is set", Duration::from_secs(90), async || {
        let read = account.operator().get(&at).await.expect(200);
        (!read["last_used_at"].is_null()).then_some(read)
    });
    let used = used.await;
    instant(&used["last_used_at"]);
    assert_eq!(used.etag(), before.etag());
}
