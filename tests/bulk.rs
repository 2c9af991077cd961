//! `POST /v1/conversations/bulk`: each operation is what the single call would be, in its place;
//! what is wrong in one leaves the others alone; with a key each is done once.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::log::events;
use crate::support::shapes::{CONVERSATION, MESSAGE, assert_shape, keys};
use crate::support::{
    Account, Answer, Client, Server, account, account_with_client, sized, unique, until,
};

const NOBODY: &str = "conv_0190163d8694739b85d52d5e4a4d6d5f";

fn bulk(c: &Client, operations: Value) -> crate::support::client::Call {
    c.post("/v1/conversations/bulk", json!({"operations": operations}))
}

fn create(customer: &str, text: &str) -> Value {
    json!({"op": "create", "body": {"customer_id": customer, "initial_message": text}})
}

fn message(conversation: &str, text: &str) -> Value {
    json!({"op": "message", "conversation_id": conversation, "body": {"content": text}})
}

fn statuses(answer: &Answer) -> Vec<u64> {
    answer
        .data()
        .iter()
        .map(|result| result["status"].as_u64().unwrap())
        .collect()
}

/// Fails unless the result is this error in the usual shape.
fn assert_error(result: &Value, status: u64, code: &str, field: &str) {
    assert_eq!(result["status"], status, "{result}");
    let error = &result["body"]["error"];
    assert_eq!(keys(&result["body"]), ["error"]);
    assert_eq!(keys(error), ["code", "details", "message"]);
    assert_eq!(
        (&error["code"], &error["details"]["field"]),
        (&json!(code), &json!(field)),
        "{result}"
    );
    assert!(
        error["details"]["reason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty()),
        "{result}"
    );
}

#[tokio::test]
async fn each_operation_does_what_its_single_call_does() {
    let (_account, c) = account_with_client().await;
    let (customer, conversation) = (c.customer().await, c.conversation().await);
    let answer = bulk(
        &c,
        json!([
            create(&customer, "hello"),
            {"op": "update", "conversation_id": conversation, "body": {"priority": "high", "metadata": {"a": 1}}},
            message(&conversation, "a word"),
            {"op": "close", "conversation_id": conversation, "body": {"reason": "done"}},
            {"op": "close", "conversation_id": conversation},
            {"op": "update", "conversation_id": conversation},
        ]),
    )
    .await
    .expect(200);
    assert_eq!(keys(&answer.body), ["data"]);
    assert_eq!(statuses(&answer), [201, 200, 201, 200, 200, 200]);
    for (index, result) in answer.data().iter().enumerate() {
        assert_eq!(keys(result), ["body", "status"]);
        assert_shape(
            &result["body"],
            if index == 2 { MESSAGE } else { CONVERSATION },
        );
    }
    let body = |index: usize| &answer.data()[index]["body"];
    assert_eq!(
        (&body(1)["priority"], &body(2)["content"]),
        (&json!("high"), &json!("a word"))
    );
    assert_eq!(
        (&body(3)["status"], &body(3)["message_count"]),
        (&json!("closed"), &json!(1)),
        "one after the other"
    );
    assert_eq!((body(4), body(5)), (body(3), body(3)), "nothing changes");
    let made = format!(
        "/v1/conversations/{}",
        body(0)["conversation_id"].as_str().unwrap()
    );
    assert_eq!(&c.get(&made).await.expect(200).body, body(0));
    let shown = c
        .get(&format!("/v1/conversations/{conversation}"))
        .await
        .expect(200);
    assert_eq!(&shown.body, body(3));
    assert!(
        answer.header_opt("idempotent-replayed").is_none()
            && answer.header_opt("location").is_none()
    );
    assert_eq!(answer.header("cache-control"), "private, no-cache");
}

#[tokio::test]
async fn none_more_than_a_hundred_or_no_list_is_refused_as_a_whole() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let hundred = vec![create(&customer, "one of many"); 100];
    let more = vec![create(&customer, "too many"); 101];
    let refused = |body: Value| c.post("/v1/conversations/bulk", body);
    for body in [
        json!({}),
        json!({"operations": []}),
        json!({"operations": more}),
        json!({"operations": null}),
        json!({"operations": {}}),
        json!({"operations": "create"}),
        json!({"operations": 1}),
    ] {
        refused(body)
            .await
            .error(400, "invalid_request", "operations");
    }
    refused(json!({"operations": [create(&customer, "x")], "more": 1}))
        .await
        .error(400, "invalid_request", "more");
    for body in [json!([]), json!(5), json!(null)] {
        refused(body).await.error(400, "invalid_request", "");
    }
    let broken = c
        .call("POST", "/v1/conversations/bulk")
        .bytes(r#"{"operations":[{"op":"create"},]}"#);
    assert_eq!(broken.await.status, 400);
    let twice = c
        .call("POST", "/v1/conversations/bulk")
        .bytes(r#"{"operations":[1],"operations":[2]}"#);
    twice.await.error(400, "invalid_request", "operations");
    c.call("POST", "/v1/conversations/bulk")
        .await
        .error(400, "invalid_request", "*");
    assert_eq!(
        c.get("/v1/conversations").await.total(),
        0,
        "nothing of it was done"
    );
    let done = bulk(&c, json!(hundred)).await.expect(200);
    assert!(statuses(&done).iter().all(|status| *status == 201) && done.data().len() == 100);
    assert_eq!(c.get("/v1/conversations").await.total(), 100);
    let order = c
        .get("/v1/conversations?order=asc&limit=100")
        .await
        .column("conversation_id");
    let made: Vec<&str> = done
        .data()
        .iter()
        .map(|result| result["body"]["conversation_id"].as_str().unwrap())
        .collect();
    assert_eq!(made, order, "in their order");
}

/// An operation, and the error that it gets: status, code, field.
type Wrong = (Value, u64, &'static str, &'static str);

fn invalid(operation: Value, field: &'static str) -> Wrong {
    (operation, 400, "invalid_request", field)
}

fn on(op: &str, id: &str, body: Value) -> Value {
    json!({"op": op, "conversation_id": id, "body": body})
}

/// Whatever is no operation, on a conversation that is there.
fn misshapen(conversation: &str) -> Vec<Wrong> {
    let close = |more: Value| {
        let mut operation = json!({"op": "close"});
        let members = operation.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        operation
    };
    vec![
        invalid(json!(5), ""),
        invalid(json!(null), ""),
        invalid(json!({}), "op"),
        invalid(
            json!({"op": "delete", "conversation_id": conversation}),
            "op",
        ),
        invalid(json!({"op": 5}), "op"),
        invalid(json!({"op": null}), "op"),
        invalid(
            close(json!({"conversation_id": conversation, "id": 1})),
            "id",
        ),
        invalid(close(json!({})), "conversation_id"),
        invalid(close(json!({"conversation_id": null})), "conversation_id"),
    ]
}

/// Bodies that the request of the same name refuses.
fn wrong_bodies(customer: &str, conversation: &str) -> Vec<Wrong> {
    let message = |body: Value| on("message", conversation, body);
    let update = |body: Value| on("update", conversation, body);
    let create = |body: Value| json!({"op": "create", "body": body});
    vec![
        invalid(
            on("create", conversation, json!({"customer_id": customer})),
            "conversation_id",
        ),
        invalid(json!({"op": "create"}), "body"),
        invalid(create(json!(null)), "body"),
        invalid(create(json!({})), "customer_id"),
        invalid(create(json!({"customer_id": "cus_1"})), "customer_id"),
        invalid(message(json!({"content": ""})), "content"),
        invalid(message(json!({"content": "x", "x": 1})), "x"),
        invalid(message(json!([])), "body"),
        invalid(update(json!({"status": "gone"})), "status"),
        invalid(update(json!({"metadata": {"a": "\0"}})), "metadata.a"),
        invalid(
            update(json!({"snoozed_until": "1999-01-01T00:00:00Z"})),
            "snoozed_until",
        ),
        invalid(on("close", conversation, json!({"reason": ""})), "reason"),
    ]
}

/// What the state of a closed conversation does not allow.
fn wrong_for_a_closed_one(closed: &str) -> Vec<Wrong> {
    let send = json!({"content": "x", "sender_type": "agent"});
    let change = on("update", closed, json!({"status": "pending"}));
    vec![
        (change, 409, "invalid_transition", "status"),
        (on("message", closed, send), 409, "conversation_closed", ""),
    ]
}

#[tokio::test]
async fn what_is_wrong_in_one_is_its_own_error_and_leaves_the_others_alone() {
    let (account, c) = account_with_client().await;
    let (customer, conversation) = (c.customer().await, c.conversation().await);
    let (closed, elsewhere) = (c.conversation().await, account.live().conversation().await);
    c.call("POST", &format!("/v1/conversations/{closed}/close"))
        .await
        .expect(200);
    let mut wrong = misshapen(&conversation);
    for id in ["conv_1", &customer, NOBODY, &elsewhere] {
        wrong.push((on("close", id, json!({})), 404, "not_found", ""));
    }
    wrong.extend(wrong_bodies(&customer, &conversation));
    wrong.extend(wrong_for_a_closed_one(&closed));
    let mut operations: Vec<Value> = wrong
        .iter()
        .map(|(operation, ..)| operation.clone())
        .collect();
    operations.insert(0, message(&conversation, "before"));
    operations.push(message(&conversation, "after"));
    let answer = bulk(&c, json!(operations)).await.expect(200);
    assert_eq!(answer.data().len(), operations.len());
    for (result, (operation, status, code, field)) in answer.data().iter().skip(1).zip(&wrong) {
        assert_eq!(result["status"], *status, "{operation}: {result}");
        assert_error(result, *status, code, field);
    }
    assert_eq!(
        (statuses(&answer)[0], *statuses(&answer).last().unwrap()),
        (201, 201)
    );
    let shown = c.get(&format!("/v1/conversations/{conversation}")).await;
    assert_eq!(
        (&shown["message_count"], &shown["status"]),
        (&json!(2), &json!("active"))
    );
}

#[tokio::test]
async fn a_member_that_stands_twice_is_wrong_and_a_read_only_key_may_do_nothing_of_it() {
    let (account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let twice = format!(
        r#"{{"operations":[{{"op":"close","op":"close","conversation_id":"{conversation}"}}]}}"#
    );
    let twice = c
        .call("POST", "/v1/conversations/bulk")
        .bytes(twice)
        .await
        .expect(200);
    assert_error(&twice.data()[0], 400, "invalid_request", "op");
    account
        .read()
        .post("/v1/conversations/bulk", json!({"operations": [1]}))
        .await
        .error(403, "forbidden", "*");
}

#[tokio::test]
async fn a_large_body_is_taken_too() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let operations: Vec<Value> = (0..15)
        .map(|n| message(&conversation, &format!("{n:-<60000}")))
        .collect();
    let answer = bulk(&c, json!(operations)).await.expect(200);
    assert!(statuses(&answer).iter().all(|status| *status == 201));
    let too_much: Vec<Value> = (0..20)
        .map(|n| message(&conversation, &format!("{n:-<60000}")))
        .collect();
    bulk(&c, json!(too_much))
        .await
        .error(413, "payload_too_large", "*");
}

#[tokio::test]
async fn those_beyond_the_limit_are_429_in_their_place() {
    let account = account().await;
    let (free, _) = account.key(json!({"type": "test"})).await;
    let customer = free.customer().await;
    let at = format!("/admin/v1/accounts/{}", account.account_id);
    let limits = json!({"plan": "enterprise", "rate_per_minute": 5, "burst_per_minute": 7});
    account.operator().patch(&at, limits).await.expect(200);
    let c = account.test();
    let three = bulk(
        &c,
        json!([create(&customer, "1"), {"op": "x"}, create(&customer, "3")]),
    )
    .await
    .expect(200);
    assert_eq!(statuses(&three), [201, 400, 201]);
    assert_eq!(
        three.number("x-ratelimit-remaining"),
        2,
        "each took one, the wrong one too"
    );
    let key = unique("limited");
    let operations: Vec<Value> = (0..6)
        .map(|n| create(&customer, &format!("more {n}")))
        .collect();
    let six = bulk(&c, json!(operations))
        .with("idempotency-key", &key)
        .await
        .expect(200);
    assert_eq!(statuses(&six), [201, 201, 201, 201, 429, 429]);
    assert_error(&six.data()[5], 429, "rate_limited", "");
    assert_eq!(six.number("x-ratelimit-remaining"), 0);
    c.get("/v1").await.error(429, "rate_limited", "*");
    bulk(&c, json!(operations))
        .await
        .error(429, "rate_limited", "*");
    let limits = json!({"rate_per_minute": 1000, "burst_per_minute": 2000});
    account.operator().patch(&at, limits).await.expect(200);
    let rest = bulk(&c, json!(operations))
        .with("idempotency-key", &key)
        .await
        .expect(200);
    assert_eq!(
        rest.data()[..4],
        six.data()[..4],
        "what was done is answered again"
    );
    assert_eq!(statuses(&rest), [201; 6], "what was refused is done now");
    assert!(rest.header_opt("idempotent-replayed").is_none());
    assert_eq!(free.get("/v1/conversations").await.total(), 8);
}

#[tokio::test]
async fn with_a_key_each_is_done_once() {
    let (_account, c) = account_with_client().await;
    let (customer, conversation) = (c.customer().await, c.conversation().await);
    let key = unique("bulk");
    let operations = json!([
        create(&customer, "once"),
        message(&conversation, "once"),
        {"op": "close", "conversation_id": conversation},
    ]);
    let ask = || bulk(&c, operations.clone()).with("idempotency-key", &key);
    let first = ask().await.expect(200);
    assert_eq!(statuses(&first), [201, 201, 200]);
    assert!(first.header_opt("idempotent-replayed").is_none());
    for _ in 0..2 {
        let again = ask().await.expect(200);
        assert_eq!(
            (again.header("idempotent-replayed"), &again.bytes),
            ("true", &first.bytes)
        );
    }
    assert_eq!(c.get("/v1/conversations").await.total(), 2);
    assert_eq!(
        c.get(&format!("/v1/conversations/{conversation}")).await["message_count"],
        1
    );
    let reused = |call: crate::support::client::Call| call.with("idempotency-key", &key);
    reused(bulk(&c, json!([create(&customer, "once")])))
        .await
        .error(422, "idempotency_key_reused", "*");
    reused(c.post("/v1/customers", json!({"name": "Ada"})))
        .await
        .error(422, "idempotency_key_reused", "*");
    // The other way round: a key of a single call.
    let single = unique("single");
    c.post("/v1/customers", json!({"name": "Ada"}))
        .with("idempotency-key", &single)
        .await
        .expect(201);
    let mixed = bulk(&c, operations.clone()).with("idempotency-key", &single);
    mixed.await.error(422, "idempotency_key_reused", "*");
}

#[tokio::test]
async fn of_two_at_once_with_a_key_one_is_done() {
    let (_account, c) = account_with_client().await;
    let many = vec![create(&c.customer().await, "race"); 50];
    for round in 1..=20 {
        let key = unique("both");
        let ask = || bulk(&c, json!(many)).with("idempotency-key", &key);
        let two = [ask().into_future(), ask().into_future()];
        let answers = futures_util::future::join_all(two).await;
        // The other one is told that this one still runs, or finds all of it done.
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert!(statuses.contains(&200), "{statuses:?}");
        for answer in answers.into_iter().filter(|answer| answer.status != 200) {
            answer.error(409, "idempotency_in_progress", "*");
        }
        let settled = ask().await.expect(200);
        assert_eq!(settled.header("idempotent-replayed"), "true");
        assert_eq!(c.get("/v1/conversations").await.total(), 50 * round);
    }
}

#[tokio::test]
async fn a_refused_place_is_decided_anew_and_the_others_are_not() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let at = format!("/v1/conversations/{conversation}");
    c.call("POST", &format!("{at}/close")).await.expect(200);
    let from_agent = json!({"content": "late", "sender_type": "agent"});
    let operations = json!([
        {"op": "message", "conversation_id": conversation, "body": from_agent},
        create(&c.customer().await, "at once"),
    ]);
    let key = unique("anew");
    let ask = || bulk(&c, operations.clone()).with("idempotency-key", &key);
    let first = ask().await.expect(200);
    assert_eq!(statuses(&first), [409, 201]);
    let again = ask().await.expect(200);
    assert!(
        again.header_opt("idempotent-replayed").is_none(),
        "not all of it is"
    );
    assert_eq!(again.bytes, first.bytes);
    c.call("POST", &format!("{at}/reopen")).await.expect(200);
    let later = ask().await.expect(200);
    assert_eq!(
        (statuses(&later), &later.data()[1]),
        (vec![201, 201], &first.data()[1])
    );
    assert_eq!(
        ask().await.expect(200).header("idempotent-replayed"),
        "true"
    );
    assert_eq!(c.get("/v1/conversations").await.total(), 2);
}

#[tokio::test]
async fn a_key_is_its_requests_also_where_the_first_operations_are_refused() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let key = unique("bulk");
    let send = |operations: Value| bulk(&c, operations).with("idempotency-key", &key);
    let refused = message(NOBODY, "to nobody");
    let all = json!([
        refused,
        message(&conversation, ""),
        message(&conversation, "one"),
        message(&conversation, "two")
    ]);
    let first = send(all.clone()).await.expect(200);
    assert_eq!(statuses(&first), [404, 400, 201, 201]);
    let reused = async |answer: Answer| {
        answer.error(422, "idempotency_key_reused", "*");
    };
    let other = c.post("/v1/customers", json!({"name": "Ada"}));
    reused(other.with("idempotency-key", &key).await).await;
    for others in [
        json!([message(&conversation, "three")]),
        json!([refused, message(&conversation, "three")]),
        json!([message(&conversation, "one"), message(&conversation, "two")]),
        json!([message(&conversation, "one"), refused, refused, refused]),
    ] {
        reused(send(others).await).await;
    }
    let again = send(all).await.expect(200);
    assert_eq!(again.body, first.body);
    let messages = format!("/v1/conversations/{conversation}/messages?order=asc");
    let messages = c.get(&messages).await.expect(200);
    assert_eq!(messages.column("content"), ["one", "two"]);
    // Where all are refused, nothing has changed: the key is free.
    let free = unique("bulk");
    let sent = bulk(&c, json!([refused, refused])).with("idempotency-key", &free);
    assert_eq!(statuses(&sent.await.expect(200)), [404, 404]);
    let other = c.post("/v1/customers", json!({"name": "Ada"}));
    other.with("idempotency-key", &free).await.expect(201);
}

#[tokio::test]
async fn a_repeat_after_kill_9_goes_on_where_it_stopped() {
    // Each operation costs more than the one before where the tests' server of MongoDB's protocol
    // reads whole collections.
    let (rounds, operations_max) = (sized(12, 2), sized(100, 40));
    let half = operations_max as u64 / 2;
    let mut server = Server::start();
    let mut c = Account::make(server.anonymous()).await.test();
    let (customer, conversation) = (c.customer().await, c.conversation().await);
    let mut cut = 0;
    for round in 0..rounds {
        let key = unique("round");
        let text = |n: usize| format!("{round} {n}");
        let operation = |n: usize| {
            if n.is_multiple_of(2) {
                create(&customer, &text(n))
            } else {
                message(&conversation, &text(n))
            }
        };
        let operations: Vec<Value> = (0..operations_max).map(operation).collect();
        let ask = |c: &Client| bulk(c, json!(operations)).with("idempotency-key", &key);
        let first = tokio::spawn(ask(&c).try_send());
        let begun = 1 + round * half + 1 + 3 * round;
        until("it is in the middle", Duration::from_secs(20), async || {
            (c.get("/v1/conversations?limit=1").await.total() >= begun).then_some(())
        })
        .await;
        server.kill9();
        let heard = first.await.unwrap().ok();
        let before = committed(&server, round);
        server.restart();
        c = c.at(&server.address());
        let again = ask(&c).await.expect(200);
        assert!(
            statuses(&again).iter().all(|status| *status == 201),
            "{again}"
        );
        if let Some(heard) = heard {
            assert_eq!(heard.bytes, again.bytes);
        }
        let after = committed(&server, round);
        assert_eq!(after.len(), operations_max);
        for (n, result) in again.data().iter().enumerate() {
            let id = result["body"]["conversation_id"].as_str().unwrap();
            assert_eq!(after[&text(n)], [id], "exactly once, and this is it");
            assert!(
                before.get(&text(n)).is_none_or(|known| known == &[id]),
                "what was done stays"
            );
        }
        cut += usize::from((1..operations_max).contains(&before.len()));
    }
    assert_eq!(c.get("/v1/conversations").await.total(), 1 + rounds * half);
    assert!(cut > 0, "no crash came in the middle");
    eprintln!("{cut} of {rounds} crashes came in the middle");
}

/// The messages of a round by their text, each with the conversations that it stands in.
fn committed(server: &Server, round: u64) -> HashMap<String, Vec<String>> {
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    for logged in events(server)
        .into_iter()
        .filter(|logged| logged.event == "message.created")
    {
        let text = |field: &str| logged.data[field].as_str().unwrap().to_owned();
        if text("content").starts_with(&format!("{round} ")) {
            found
                .entry(text("content"))
                .or_default()
                .push(text("conversation_id"));
        }
    }
    found
}

#[tokio::test]
async fn many_callers_at_once_lose_nothing() {
    let (_account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    let calls = (0..20).map(|caller| {
        let operations: Vec<Value> = (0..50)
            .map(|n| message(&conversation, &format!("{caller} {n}")))
            .collect();
        bulk(&c, json!(operations)).into_future()
    });
    let answers: Vec<Answer> = futures_util::stream::iter(calls)
        .buffer_unordered(20)
        .collect()
        .await;
    for answer in &answers {
        let numbers: Vec<u64> = answer
            .data()
            .iter()
            .map(|result| result["body"]["seq"].as_u64().unwrap())
            .collect();
        assert!(numbers.is_sorted(), "each caller's in its order");
    }
    assert_eq!(
        c.get(&format!("/v1/conversations/{conversation}")).await["message_count"],
        1000
    );
}

#[tokio::test]
async fn the_document_says_what_it_takes_and_gives() {
    let document = crate::support::shared()
        .anonymous()
        .get("/openapi.json")
        .await
        .expect(200)
        .body;
    let entry = &document["paths"]["/v1/conversations/bulk"]["post"];
    assert_eq!(entry["operationId"], "bulkConversations");
    let schema = |name: &str| &document["components"]["schemas"][name];
    let operations = &schema("BulkRequest")["properties"]["operations"];
    assert_eq!(
        (&operations["minItems"], &operations["maxItems"]),
        (&json!(1), &json!(100))
    );
    assert_eq!(
        operations["items"]["$ref"],
        "#/components/schemas/BulkOperation"
    );
    let operation = schema("BulkOperation");
    assert_eq!(operation["required"], json!(["op"]));
    assert_eq!(
        operation["properties"]["body"]["anyOf"]
            .as_array()
            .map(Vec::len),
        Some(4),
        "{operation}"
    );
    assert_eq!(
        schema("BulkOp")["enum"],
        json!(["create", "update", "close", "message"])
    );
    let result = schema("BulkResult");
    assert_eq!(
        result["properties"]["body"]["anyOf"]
            .as_array()
            .map(Vec::len),
        Some(3),
        "{result}"
    );
    let shown = &entry["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
    assert_eq!(shown, "#/components/schemas/BulkAnswer");
}
