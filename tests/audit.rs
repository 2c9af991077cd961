//! The audit trail: who did what, from where, and what was refused.

use serde_json::{Value, json};

use crate::support::console::Person;
use crate::support::shapes::{AUDIT, assert_id, assert_recent, assert_shape};
use crate::support::{Account, Answer, Client, Server, Setup, account, unique, until};

const SOON: std::time::Duration = std::time::Duration::from_secs(10);

/// A client that may read the account's trail.
fn reader(account: &Account) -> Client {
    account.live()
}

async fn trail(client: &Client, query: &str) -> Answer {
    client.get(&format!("/v1/audit{query}")).await.expect(200)
}

/// The newest record of this action, once it is there.
async fn newest(client: &Client, path: &str, action: &str) -> Value {
    let path = format!("{path}?action={action}&limit=1");
    until(action, SOON, async || {
        let found = client.get(&path).await.expect(200);
        found.data().first().cloned()
    })
    .await
}

#[tokio::test]
async fn what_is_done_is_recorded_with_who_where_and_by_which_request() {
    let account = account().await;
    let c = account.test();
    let made = c
        .post(
            "/v1/customers",
            json!({"name": "Ada", "email": "ada@example.com"}),
        )
        .with("x-request-id", "audit-1")
        .await
        .expect(201);
    let list = trail(&reader(&account), "?action=customer.created").await;
    assert_eq!(list.total(), 1);
    let record = &list.data()[0];
    assert_shape(record, AUDIT);
    assert_id(&record["audit_id"], "aud_");
    assert_recent(&record["at"]);
    assert_eq!(record["actor"]["type"], "key");
    assert_id(&record["actor"]["id"], "key_");
    let subject = json!({"type": "customer", "id": made["customer_id"]});
    assert_eq!(record["subject"], subject);
    assert_eq!(record["outcome"], "done");
    assert_eq!(record["address"], "127.0.0.1");
    assert_eq!(record["request_id"], "audit-1");
    assert_eq!(record["details"], json!({"mode": "test"}));
    let text = list.body.to_string();
    assert!(!text.contains("Ada") && !text.contains("ada@"), "{text}");
}

#[tokio::test]
async fn a_change_names_the_fields_and_no_value() {
    let account = account().await;
    let c = account.live();
    let customer = c.customer().await;
    let at = format!("/v1/customers/{customer}");
    let secret = unique("secretive");
    c.patch(&at, json!({"name": secret})).await.expect(200);
    let conversation = c.conversation_of(&customer).await;
    c.message(&conversation, &secret).await;
    let at = format!("/v1/conversations/{conversation}");
    c.patch(&at, json!({"priority": "high"})).await.expect(200);
    c.delete(&format!("/v1/customers/{customer}"))
        .await
        .expect(409);
    let all = trail(&c, "?limit=100").await;
    assert!(!all.body.to_string().contains(&secret));
    let of = |action: &str| {
        let found = all.data().iter().find(|one| one["action"] == action);
        found
            .unwrap_or_else(|| panic!("no {action}: {}", all.body))
            .clone()
    };
    let changed = |action: &str| of(action)["details"]["changed"].clone();
    assert_eq!(changed("customer.updated"), json!(["name"]));
    assert_eq!(changed("conversation.updated"), json!(["priority"]));
    assert_id(&of("message.created")["details"]["message_id"], "msg_");
    let subject = json!({"type": "conversation", "id": conversation});
    assert_eq!(of("message.created")["subject"], subject);
}

#[tokio::test]
async fn what_happens_to_keys_has_a_name_of_its_own_and_the_operator_is_told() {
    let account = account().await;
    let operator = account.operator();
    let body = json!({"type": "test", "name": "another"});
    let (_, made) = account.key(body).await;
    let key = made["key_id"].as_str().unwrap();
    let at = format!("/admin/v1/keys/{key}");
    operator
        .post(&format!("{at}/rotate"), json!({}))
        .await
        .expect(200);
    operator.delete(&at).await.expect(204);
    let of_key = trail(&reader(&account), &format!("?subject={key}")).await;
    let actions = of_key.column("action");
    assert_eq!(actions, ["key.revoked", "key.rotated", "key.created"]);
    for record in of_key.data() {
        assert_eq!(record["actor"]["type"], "operator", "{record}");
        assert_id(&record["actor"]["id"], "usr_");
    }
    let secret = made["key"].as_str().unwrap();
    assert!(!of_key.body.to_string().contains(secret));
    let changed = json!({"name": "Renamed"});
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    operator.patch(&at, changed).await.expect(200);
    let renamed = trail(&reader(&account), "?action=account.updated").await;
    assert_eq!(renamed.data()[0]["details"]["changed"], json!(["name"]));
    assert_eq!(
        renamed.data()[0]["subject"]["id"],
        json!(account.account_id)
    );
}

#[tokio::test]
async fn a_refused_permission_is_recorded_with_the_account_and_no_query() {
    let account = account().await;
    let read = account.read();
    read.post("/v1/customers?name=hidden", json!({"name": "x"}))
        .with("x-request-id", "refused-1")
        .await
        .expect(403);
    let refused = newest(&reader(&account), "/v1/audit", "permission.refused").await;
    assert_eq!(refused["outcome"], "refused");
    assert_eq!(refused["request_id"], "refused-1");
    assert_eq!(refused["actor"]["type"], "key");
    assert_eq!(refused["subject"], Value::Null);
    let details = &refused["details"];
    assert_eq!(
        (&details["method"], &details["path"]),
        (&json!("POST"), &json!("/v1/customers"))
    );
    assert_eq!(details["reason"], "forbidden");
    let done = trail(&reader(&account), "?outcome=done&action=permission.refused").await;
    assert_eq!(done.total(), 0);
    let refusals = trail(&reader(&account), "?outcome=refused").await;
    assert_eq!(refusals.column("action"), ["permission.refused"]);
}

#[tokio::test]
async fn a_refused_credential_is_the_operators_to_see_and_no_account_s() {
    let server = Server::start();
    let account = server.account().await;
    let stranger = account.anonymous().with_key("sk_prod_wrong");
    stranger
        .get("/v1/customers")
        .with("x-request-id", "who-1")
        .await
        .expect(401);
    let refused = newest(&account.operator(), "/admin/v1/audit", "auth.refused").await;
    assert_eq!(refused["request_id"], "who-1");
    assert_eq!(refused["actor"], Value::Null);
    assert_eq!(refused["details"]["path"], "/v1/customers");
    let own = trail(&reader(&account), "?action=auth.refused").await;
    assert_eq!(own.total(), 0);
}

#[tokio::test]
async fn refusals_beyond_the_rate_are_counted_and_not_recorded() {
    let server = Setup::default()
        .env("COLLOQUY__AUDIT__REFUSALS_PER_MINUTE", "8")
        .start();
    let account = server.account().await;
    let c = account.read();
    for _ in 0..50 {
        c.post("/v1/customers", json!({"name": "x"}))
            .await
            .expect(403);
    }
    // What is written behind the refusals has been written when this has.
    reader(&account).customer().await;
    let found = trail(&reader(&account), "?outcome=refused").await;
    assert!((1..=4).contains(&found.total()), "{}", found.body);
    let other = server.account().await;
    other
        .read()
        .post("/v1/customers", json!({"name": "x"}))
        .await
        .expect(403);
    newest(&reader(&other), "/v1/audit", "permission.refused").await;
}

#[tokio::test]
async fn an_account_sees_its_own_trail_and_nobody_elses() {
    let (one, other) = (account().await, account().await);
    let customer = other.live().customer().await;
    let mine = trail(&reader(&one), "?limit=100").await;
    assert!(!mine.body.to_string().contains(&other.account_id));
    let theirs = trail(&reader(&one), &format!("?subject={customer}")).await;
    assert_eq!((theirs.total(), theirs.data().len()), (0, 0));
    let narrowed = json!({"type": "prod", "scopes": ["conversations:read"]});
    let (narrow, _) = one.key(narrowed).await;
    narrow.get("/v1/audit").await.expect(403);
    one.test().get("/v1/audit").await.expect(200);
    one.operator().get("/v1/audit").await.expect(401);
    one.live().get("/admin/v1/audit").await.expect(401);
}

#[tokio::test]
async fn pages_are_found_by_offset_and_by_cursor_with_an_exact_total() {
    let account = account().await;
    let c = account.test();
    let conversation = c.conversation().await;
    for number in 0..30 {
        c.message(&conversation, &number.to_string()).await;
    }
    let whole = trail(&reader(&account), "?limit=100").await;
    let ids = whole.column("audit_id");
    assert_eq!(usize::try_from(whole.total()).unwrap(), ids.len());
    let upwards = trail(&reader(&account), "?limit=100&order=asc").await;
    assert!(upwards.column("audit_id").iter().rev().eq(&ids));
    let page = trail(&reader(&account), "?limit=5&offset=7").await;
    assert_eq!(page.column("audit_id"), ids[7..12]);
    let after = trail(&reader(&account), &format!("?limit=5&after={}", ids[11])).await;
    assert_eq!(
        (after.column("audit_id"), after.total()),
        (ids[12..17].to_vec(), whole.total())
    );
    let before = trail(&reader(&account), &format!("?limit=5&before={}", ids[7])).await;
    assert_eq!(before.column("audit_id"), ids[2..7]);
    let messages = trail(
        &reader(&account),
        "?action=message.created&limit=3&offset=27",
    )
    .await;
    assert_eq!((messages.total(), messages.data().len()), (30, 3));
    let at = |id: &String| {
        let found = whole.data().iter().find(|one| one["audit_id"] == json!(id));
        found.unwrap()["at"].as_str().unwrap().to_owned()
    };
    let (since, until) = (at(&ids[20]), at(&ids[4]));
    let between = trail(
        &reader(&account),
        &format!("?limit=100&since={since}&until={until}"),
    )
    .await;
    let expected: Vec<String> = ids
        .iter()
        .filter(|id| at(id) > since && at(id) < until)
        .cloned()
        .collect();
    assert_eq!(
        (between.column("audit_id"), between.data().len() as u64),
        (expected, between.total())
    );
    for (query, field) in [
        ("after=aud_1", "after"),
        ("action=key.eaten", "action"),
        ("actor=cus_1", "actor"),
        ("subject=1", "subject"),
        ("outcome=maybe", "outcome"),
        ("since=yesterday", "since"),
    ] {
        let refused = reader(&account).get(&format!("/v1/audit?{query}")).await;
        refused.error(400, "invalid_request", field);
    }
}

#[tokio::test]
async fn who_did_it_is_a_filter_and_outlives_the_user() {
    let account = account().await;
    let c = account.live();
    let user = c.user("agent").await;
    let acting = c.acting_for(&user);
    let conversation = acting.conversation().await;
    acting.message(&conversation, "by the user").await;
    c.message(&conversation, "by the key").await;
    let by_user = trail(&c, &format!("?actor={user}&action=message.created")).await;
    assert_eq!(by_user.total(), 1);
    let record = &by_user.data()[0];
    assert_eq!(record["actor"], json!({"type": "user", "id": user}));
    assert_id(&record["details"]["key_id"], "key_");
    c.delete(&format!("/v1/users/{user}")).await.expect(204);
    let gone = trail(&c, &format!("?actor={user}")).await;
    assert!(gone.total() >= 3, "{}", gone.body);
    for record in gone.data() {
        assert_eq!(record["actor"]["id"], json!(user));
    }
    let deleted = trail(&c, &format!("?subject={user}")).await;
    assert_eq!(deleted.column("action"), ["user.deleted", "user.created"]);
}

#[tokio::test]
async fn signing_in_and_out_and_failing_to_is_recorded() {
    let server = Server::start();
    let account = server.account().await;
    let person = Person::user(&account, "admin").await;
    let c = reader(&account);
    let opened = newest(&c, "/v1/audit", "session.opened").await;
    assert_eq!(opened["actor"]["type"], "user");
    assert_eq!(opened["actor"]["id"], opened["subject"]["id"]);
    newest(&c, "/v1/audit", "password.set").await;
    newest(&c, "/v1/audit", "user.invited").await;
    person.post("/console/session/end", &[]).await.expect(303);
    newest(&c, "/v1/audit", "session.closed").await;
    let mut wrong = Person::stranger(&server);
    let user = c
        .get(&format!("/v1/users/{}", person.user))
        .await
        .expect(200);
    let name = user.id("email");
    wrong
        .sign_in(&[("name", &name), ("password", "not this one at all")])
        .await;
    let refused = newest(&c, "/v1/audit", "session.refused").await;
    assert_eq!(refused["details"]["reason"], "wrong_password");
    wrong
        .sign_in(&[
            ("name", "nobody@example.com"),
            ("password", "not this one at all"),
        ])
        .await;
    let refused = until("the unknown name", SOON, async || {
        let path = "/admin/v1/audit?action=session.refused";
        let found = account.operator().get(path).await.expect(200);
        let reason = |one: &&Value| one["details"]["reason"] == "unknown_name";
        found.data().iter().find(reason).cloned()
    })
    .await;
    assert!(!refused.to_string().contains("nobody@"));
}

#[tokio::test]
async fn what_operators_do_to_actors_is_recorded() {
    let server = Server::start();
    let account = server.account().await;
    let operator = account.operator();
    let conversation = account.live().conversation().await;
    let at = format!("/admin/v1/actors/conversation/instances/{conversation}/passivate");
    operator.post(&at, json!({})).await.expect(200);
    let change = json!({"kinds": {"conversation": {"crashes_max": 4}}});
    operator
        .patch("/admin/v1/supervision", change)
        .await
        .expect(200);
    let steered = newest(&operator, "/admin/v1/audit", "actor.passivated").await;
    assert_eq!(
        steered["subject"],
        json!({"type": "actor", "id": conversation})
    );
    assert_eq!(steered["details"], json!({"kind": "conversation"}));
    assert_eq!(steered["actor"]["type"], "operator");
    let changed = newest(&operator, "/admin/v1/audit", "supervision.changed").await;
    assert_eq!(changed["subject"]["type"], "supervision");
    let all = operator.get("/admin/v1/audit?limit=100").await.expect(200);
    let made = all
        .data()
        .iter()
        .find(|one| one["action"] == "conversation.created");
    assert_eq!(
        made.unwrap()["details"]["account_id"],
        json!(account.account_id)
    );
    let at = format!(
        "/admin/v1/audit?account_id={}&limit=100",
        account.account_id
    );
    let own = operator.get(&at).await.expect(200);
    assert!(own.total() < all.total());
    assert_eq!(own.total(), trail(&reader(&account), "").await.total());
}

#[tokio::test]
async fn the_trail_is_the_same_after_kill_9_and_after_a_stop() {
    let mut server = Server::start();
    let account = server.account().await;
    let conversation = account.live().conversation().await;
    for _ in 0..20 {
        account.live().message(&conversation, "kept").await;
    }
    let before = trail(&reader(&account), "?limit=100").await;
    server.kill9();
    server.restart();
    let client = reader(&account).at(&server.address());
    assert_eq!(trail(&client, "?limit=100").await.body, before.body);
    assert!(server.term().success());
    server.assert_sound();
    server.restart();
    let client = reader(&account).at(&server.address());
    assert_eq!(trail(&client, "?limit=100").await.body, before.body);
}

#[tokio::test]
async fn the_console_shows_the_trail_to_admins_and_operators_and_to_no_agent() {
    let server = Server::start();
    let account = server.account().await;
    let customer = account.live().customer().await;
    let admin = Person::user(&account, "admin").await;
    let page = admin.page("/console/audit?action=customer.created").await;
    assert!(
        page.contains("customer.created") && page.contains(&customer),
        "{page}"
    );
    assert!(!page.contains("password.set"), "{page}");
    let wrong = admin.get("/console/audit?action=nothing").await.expect(422);
    assert!(wrong.text.contains("role=\"alert\""), "{}", wrong.text);
    let none = admin.page("/console/audit?action=webhook.disabled").await;
    assert!(none.contains("Nothing found"), "{none}");
    let agent = Person::user(&account, "agent").await;
    agent.get("/console/audit").await.expect(403);
    let refused = newest(&reader(&account), "/v1/audit", "permission.refused").await;
    assert_eq!(refused["actor"]["id"], json!(agent.user));
    let operator = Person::operator(&server).await;
    let all = operator.page("/console/all-audit").await;
    assert!(
        all.contains("session.opened") && all.contains(&account.account_id),
        "{all}"
    );
    admin.get("/console/all-audit").await.expect(403);
}
