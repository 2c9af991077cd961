//! What is found at an account's domain, and what links to it.

use serde_json::json;

use super::{address, domain, host, is_proven, prove, set, setup, text, two_accounts};
use crate::support::client::Call;
use crate::support::signing::Signer;
use crate::support::{Account, Answer, Client, Nameserver};

#[tokio::test(flavor = "multi_thread")]
async fn at_a_domain_only_its_account_is_there() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let (a, b) = two_accounts(&server).await;
    let host = host();
    prove(&names, &a, &host).await;
    let document = a.test().document("Ours").await;
    let (_, ours) = a.test().share(&document, json!({})).await;
    let document = b.test().document("Theirs").await;
    let (_, theirs) = b.test().share(&document, json!({})).await;
    let there = |call: Call| call.with("host", &format!("{}:443", host.to_uppercase()));
    let nobody = server.anonymous();
    let json = "application/json";
    there(nobody.get(&ours))
        .with("accept", json)
        .await
        .expect(200);
    there(nobody.get(&theirs))
        .with("accept", json)
        .await
        .error(404, "not_found", "");
    nobody.get(&theirs).with("accept", json).await.expect(200);
    there(a.test().get("/v1")).await.expect(200);
    there(b.test().get("/v1")).await.error(404, "not_found", "");
    // The key is good, so it is counted and told its limits, as at any other path that is not there.
    let left = |answer: Answer| {
        let refused = answer.error(404, "not_found", "");
        assert!(refused.number("x-ratelimit-limit") > 0);
        assert!(refused.header("ratelimit").contains("\"burst\""));
        refused.number("x-ratelimit-remaining")
    };
    let first = left(there(b.test().get("/v1/customers")).await);
    let second = left(there(b.test().get("/v1/customers")).await);
    assert_eq!(second, first - 1);
    there(nobody.with_key("sk_test_nonsense").get("/v1"))
        .await
        .error(401, "unauthorized", "");
    there(nobody.get("/v1"))
        .await
        .error(401, "unauthorized", "");
    for path in ["/admin/v1/accounts", "/metrics"] {
        there(server.operator().get(path))
            .await
            .error(404, "not_found", "");
    }
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs"] {
        there(nobody.get(path)).await.expect(200);
    }
    // Nothing of the other account has changed.
    let customer = json!({"name": "Ada"});
    there(b.test().post("/v1/customers", customer))
        .await
        .error(404, "not_found", "");
    let list = b.test().get("/v1/customers").await.expect(200);
    assert_eq!(list.body["meta"]["total"], 0);
    // Anybody may write a header: only a proxy that is believed names another host.
    let spoofed = b.test().get("/v1").with("x-forwarded-host", &host);
    spoofed.await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_is_believed_says_which_host_was_asked() {
    let names = Nameserver::start();
    let server = setup(&names)
        .env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")
        .start();
    let (a, b) = two_accounts(&server).await;
    let host = host();
    prove(&names, &a, &host).await;
    let asked = |c: Client| c.get("/v1").with("x-forwarded-host", &host);
    asked(a.test()).await.expect(200);
    asked(b.test()).await.error(404, "not_found", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_covers_the_host_that_was_asked() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let account = Account::make(server.anonymous()).await;
    let host = host();
    prove(&names, &account, &host).await;
    let body = json!({"type": "test", "require_signature": true});
    let (client, made) = account.key(body).await;
    let signed_for = |public_url: String| Signer {
        client: client.clone(),
        key_id: text(&made, "key_id"),
        secret: text(&made, "signing_secret"),
        public_url,
    };
    let here = signed_for(format!("http://{}", server.address()));
    let there = signed_for(address(&server, &host));
    let at_domain = |signer: &Signer| signer.get("/v1").call().with("host", &host);
    at_domain(&there).await.expect(200);
    at_domain(&here).await.error(401, "unauthorized", "");
    here.get("/v1").call().await.expect(200);
    let astray = there.get("/v1").call().await;
    astray.error(401, "unauthorized", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_carry_the_domain() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let account = Account::make(server.anonymous()).await;
    let c = account.test();
    let (first, second) = two_domains(&names, &account).await;
    let document = c.document("Text").await;
    let share = format!("{document}/share");
    for (asked, shown) in [
        (None, &first),
        (Some(&first), &first),
        (Some(&second), &second),
    ] {
        let call = c.post(&share, json!({}));
        let call = match asked {
            Some(host) => call.with("host", host),
            None => call,
        };
        let url = text(&call.await.expect(201).body, "url");
        assert!(
            url.starts_with(&format!("{}/s/", address(&server, shown))),
            "{url}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_in_a_message_carries_the_first_domain_and_stays() {
    let names = Nameserver::start();
    let server = setup(&names).start();
    let account = Account::make(server.anonymous()).await;
    let c = account.test();
    let (first, second) = two_domains(&names, &account).await;
    let user = c.user("agent").await;
    let invited = c.call("POST", &format!("/v1/users/{user}/invitations"));
    let url = text(&invited.await.expect(201).body, "url");
    assert!(url.starts_with(&address(&server, &first)), "{url}");
    // What stands in a message for good is the same wherever it was sent.
    let conversation = c.conversation().await;
    let upload = c
        .call("POST", "/v1/attachments")
        .with("content-type", "text/plain");
    let attachment = upload.bytes("file").await.expect(201).id("attachment_id");
    let message = json!({"type": "file", "attachment_id": attachment});
    let messages = format!("/v1/conversations/{conversation}/messages");
    let sent = c
        .post(&messages, message)
        .with("host", &second)
        .await
        .expect(201);
    let content = text(&sent.body, "content");
    let path = format!("/v1/attachments/{attachment}/content");
    assert_eq!(content, format!("{}{path}", address(&server, &first)));
    assert_eq!(
        c.get(&path).with("host", &first).await.expect(200).bytes,
        b"file"
    );
    let document = c.document("Text").await;
    let share = format!("{document}/share");
    // Once it is given up, new links are the server's own again; what was sent stays.
    set(&account, json!({"domains": []})).await.expect(200);
    let url = text(&c.post(&share, json!({})).await.expect(201).body, "url");
    assert!(
        url.starts_with(&format!("http://{}/s/", server.address())),
        "{url}"
    );
    let list = c.get(&messages).await.expect(200);
    assert_eq!(list.body["data"][0]["content"], content);
}

/// Gives the account two domains, both proven.
async fn two_domains(names: &Nameserver, account: &Account) -> (String, String) {
    let (first, second) = (host(), host());
    prove(names, account, &first).await;
    set(account, json!({"domains": [first, second]}))
        .await
        .expect(200);
    let value = text(&domain(account, 1).await, "txt_value");
    names.publish(&format!("_colloquy.{second}"), &value).await;
    is_proven(account, &second).await;
    (first, second)
}
