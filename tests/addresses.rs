//! From which addresses a key may be used: written in any way, through proxies, by tickets, and for
//! as long as a line is open.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::console::Person;
use crate::support::socket::Ended;
use crate::support::{Account, Client, EventStream, Setup, Socket, account};

/// The longest that the end of a line is waited for.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// A test key that may be used from these addresses.
async fn narrowed(account: &Account, allowed: Value) -> Client {
    let body = json!({"type": "test", "allowed_ips": allowed});
    account.key(body).await.0
}

#[tokio::test]
async fn an_ipv4_address_is_one_in_whichever_way_the_network_is_written() {
    let account = account().await;
    for allowed in [
        "127.0.0.1",
        "127.99.0.7/8",
        "::ffff:127.0.0.1",
        "::ffff:127.0.0.0/104",
    ] {
        let client = narrowed(&account, json!([allowed])).await;
        client.get("/v1").await.expect(200);
    }
    for allowed in ["127.0.0.2", "::ffff:10.0.0.0/104", "::1", "::/0"] {
        let client = narrowed(&account, json!([allowed])).await;
        client.get("/v1").await.error(403, "forbidden", "");
    }
}

#[tokio::test]
async fn a_listener_for_both_versions_sees_ipv4_addresses_as_they_are() {
    let server = Setup::default()
        .env("COLLOQUY__SERVER__BIND", "[::]:0")
        .env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.0/8\"]")
        .start();
    let account = server.account().await;
    let direct = narrowed(&account, json!(["127.0.0.1"])).await;
    direct.get("/v1").await.expect(200);
    let proxied = narrowed(&account, json!(["192.0.2.0/24"])).await;
    proxied.get("/v1").await.error(403, "forbidden", "");
    let through = proxied.get("/v1").with("x-forwarded-for", "192.0.2.7");
    through.await.expect(200);
    let mapped = proxied.get("/v1");
    let mapped = mapped.with("forwarded", "for=\"[::ffff:192.0.2.7]:4711\"");
    mapped.await.expect(200);
}

#[tokio::test]
async fn of_several_proxies_in_a_row_only_believed_ones_are_passed_over() {
    let server = Setup::default()
        .env(
            "COLLOQUY__SERVER__TRUSTED_PROXIES",
            "[\"::ffff:127.0.0.1\", \"10.0.0.0/8\"]",
        )
        .start();
    let account = server.account().await;
    let client = narrowed(&account, json!(["192.0.2.7"])).await;
    for (chain, status) in [
        ("192.0.2.7", 200),
        ("192.0.2.7, 10.0.0.8, 10.0.0.9", 200),
        ("6.6.6.6, 192.0.2.7, 10.0.0.8", 200),
        ("192.0.2.7, 6.6.6.6, 10.0.0.8", 403),
        ("192.0.2.7, 6.6.6.6", 403),
        ("192.0.2.7, nobody, 10.0.0.8", 403),
    ] {
        let call = client.get("/v1").with("x-forwarded-for", chain);
        assert_eq!(call.await.status, status, "{chain}");
    }
}

#[tokio::test]
async fn lines_end_when_their_address_is_allowed_no_more() {
    let account = account().await;
    let operator = account.operator();
    let of_account = format!("/admin/v1/accounts/{}", account.account_id);
    for narrows_account in [false, true] {
        let body = json!({"type": "test", "allowed_ips": []});
        let (client, made) = account.key(body).await;
        let of_key = format!("/admin/v1/keys/{}", made["key_id"].as_str().unwrap());
        let mut socket = Socket::open(&client).await;
        socket.subscribe(Value::Null, None).await;
        let mut stream = EventStream::open(client.get("/v1/events")).await;
        stream.begins_at().await;
        let at = if narrows_account {
            &of_account
        } else {
            &of_key
        };
        let elsewhere = json!({"allowed_ips": ["10.0.0.0/8"]});
        operator.patch(at, elsewhere).await.expect(200);
        assert_eq!(socket.end(ENDS_WITHIN).await, Ended(1008));
        assert_eq!(stream.rest(ENDS_WITHIN).await, []);
    }
}

#[tokio::test]
async fn a_ticket_is_no_way_around_the_addresses_of_its_key() {
    let server = Setup::default()
        .env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")
        .start();
    let account = server.account().await;
    let client = narrowed(&account, json!(["192.0.2.7"])).await;
    let made = client
        .call("POST", "/v1/realtime/tickets")
        .with("x-forwarded-for", "192.0.2.7");
    let ticket = made.await.expect(201).id("ticket");
    let path = format!("/v1/realtime?ticket={ticket}");
    let opened = Socket::try_open(&account.anonymous(), &path).await;
    assert_eq!(opened.err(), Some(403));
}

#[tokio::test]
async fn an_accounts_addresses_bind_its_people_in_the_console_and_no_operator() {
    let server = Setup::default()
        .env("COLLOQUY__SERVER__TRUSTED_PROXIES", "[\"127.0.0.1\"]")
        .start();
    let account = server.account().await;
    let person = Person::user(&account, "admin").await;
    let operator = Person::operator(&server).await;
    let side = format!("/console/accounts/{}/open", account.account_id);
    operator.post(&side, &[]).await.expect(303);
    person.get("/console/inbox").await.expect(200);
    let path = format!("/admin/v1/accounts/{}", account.account_id);

    let shown = person.get("/console/settings/account").await.expect(200);
    let etag = shown.held("etag");
    let save = async |networks: &str| {
        let fields = [("name", "Acme"), ("allowed_ips", networks), ("etag", &etag)];
        person.post("/console/settings/account", &fields).await
    };
    let refused = save("192.0.2.0/24 2001:db8::/32").await.expect(422);
    assert!(refused.text.contains("shut you out"), "{}", refused.text);
    assert_eq!(
        account.operator().get(&path).await.expect(200).body["allowed_ips"],
        json!([])
    );
    save("192.0.2.0/24 127.0.0.1").await.expect(303);
    let office = json!({"allowed_ips": ["192.0.2.0/24"]});
    account.operator().patch(&path, office).await.expect(200);

    for page in [
        "/console/inbox",
        "/console/settings/users",
        "/console/documents",
    ] {
        let refused = person.get(page).await.expect(403);
        assert!(refused.text.contains("from this address"), "{page}");
    }
    person
        .post_without_token("/console/customers", &[("name", "Ada")])
        .await
        .expect(403);
    let (http, base) = person.raw();
    let from_the_office = http
        .get(format!("{base}/console/inbox"))
        .header("x-forwarded-for", "192.0.2.7");
    person.seen(from_the_office).await.expect(200);
    operator.get("/console/inbox").await.expect(200);

    // Signing out is possible from everywhere.
    let token = operator.token().await;
    assert!(!token.is_empty());
    let page = person.get("/console/session").await.expect(200);
    let csrf = page.held("csrf");
    person
        .post_without_token("/console/session/end", &[("csrf", &csrf)])
        .await
        .expect(303);
    person.get("/console/session").await.expect(303);
}
