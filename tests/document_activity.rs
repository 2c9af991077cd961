//! What was done to a document: one entry for each change, in the log and in the feed, through
//! webhooks and streams.

use serde_json::{Value, json};

use crate::support::documents::id_of;
use crate::support::shapes::{
    ACTIVITY, COLLABORATOR, COMMENT, DOCUMENT, SHARE, VERSION, assert_id, assert_recent,
    assert_shape,
};
use crate::support::{
    Answer, Client, EventStream, Receiver, account_with_client, account_with_deliveries,
};

/// Does everything once to a document's text that leaves a trace, and some that does not; gives
/// what must have been logged.
async fn change_the_text(c: &Client, at: &str) -> Vec<&'static str> {
    c.put(at, json!({"title": "Other", "content": "1\n2\n3\n4\n"}))
        .await
        .expect(200);
    c.put(at, json!({})).await.expect(200);
    c.branch(at, "side", "0\n1\n2\n3\n").await;
    let merge = async |body: Value, status: u16| {
        let merged = c.post(&format!("{at}/merge"), body).await;
        merged.expect(status)
    };
    merge(json!({"source": "side", "dry_run": true}), 200).await;
    merge(json!({"source": "side"}), 201).await;
    merge(json!({"source": "side"}), 200).await;
    c.call("POST", &format!("{at}/versions/1/restore"))
        .await
        .expect(201);
    vec![
        "document.updated",
        "document.version_created",
        "document.version_created",
        "document.merged",
        "document.version_created",
    ]
}

/// The same for what stands around the text.
async fn change_what_is_around((holder, c): (&Client, &Client), at: &str) -> Vec<&'static str> {
    let collaborator = json!({"user_id": c.user("agent").await, "role": "viewer"});
    c.post(&format!("{at}/collaborators"), collaborator)
        .await
        .expect(201);
    let everybody = json!({"visibility": "account"});
    c.put(&format!("{at}/permissions"), everybody)
        .await
        .expect(200);
    let (share, link) = c.share(at, json!({})).await;
    holder
        .get(&link)
        .with("accept", "application/json")
        .await
        .expect(200);
    c.delete(&format!("{at}/share/{share}")).await.expect(204);
    let comment = json!({"start_line": 1, "body": "hm"});
    let comment = c.post(&format!("{at}/comments"), comment).await.expect(201);
    c.patch(comment.header("location"), json!({"resolved": true}))
        .await
        .expect(200);
    c.delete(comment.header("location")).await.expect(204);
    c.delete(at).await.expect(204);
    c.call("POST", &format!("{at}/restore")).await.expect(200);
    vec![
        "document.permissions_updated",
        "document.permissions_updated",
        "document.shared",
        "document.shared",
        "document.commented",
        "document.commented",
        "document.commented",
        "document.deleted",
        "document.restored",
    ]
}

/// A document to which everything was done; gives what must have been logged.
async fn eventful((holder, c): (&Client, &Client)) -> (String, Vec<&'static str>) {
    let at = c.document("1\n2\n3\n").await;
    let mut expected = vec!["document.created"];
    expected.extend(change_the_text(c, &at).await);
    expected.extend(change_what_is_around((holder, c), &at).await);
    (at, expected)
}

async fn activity(c: &Client, at: &str, query: &str) -> Answer {
    c.get(&format!("{at}/activity?limit=100&{query}"))
        .await
        .expect(200)
}

#[tokio::test]
async fn every_change_has_one_entry_and_nothing_else_has() {
    let (account, c) = account_with_client().await;
    let (at, expected) = eventful((&account.anonymous(), &c)).await;
    let log = activity(&c, &at, "order=asc").await;
    assert_eq!(
        (log.column("action"), log.total()),
        (
            expected.iter().map(|kind| (*kind).to_owned()).collect(),
            expected.len() as u64
        )
    );
    for entry in log.data() {
        assert_shape(entry, ACTIVITY);
        assert_id(&entry["id"], "act_");
        assert_id(&entry["version"], "ver_");
        assert_id(&entry["actor"], "key_");
        assert_recent(&entry["at"]);
        assert!(entry["details"].is_object(), "{entry}");
    }
    let mut newest_first = activity(&c, &at, "").await.data().clone();
    newest_first.reverse();
    assert_eq!(&newest_first, log.data());
    let title = &log["data"][1]["details"]["changes"]["title"];
    assert_eq!(title, &json!({"from": "Guide", "to": "Other"}));
}

#[tokio::test]
async fn the_actor_is_the_user_where_there_is_one() {
    let (_account, c) = account_with_client().await;
    let user = c.user("agent").await;
    let mine = c.acting_for(&user);
    let at = mine.document("1\n").await;
    c.write(&at, "2\n").await;
    mine.write(&at, "3\n").await;
    let log = activity(&c, &at, "order=asc").await;
    let key = log["data"][1]["actor"].as_str().unwrap().to_owned();
    assert!(key.starts_with("key_"), "{log}");
    assert_eq!(
        log.column("actor"),
        [user.as_str(), key.as_str(), user.as_str()]
    );
    for (actor, count) in [(&user, 2), (&key, 1)] {
        let of = activity(&c, &at, &format!("actor={actor}")).await;
        assert_eq!(
            (
                of.total(),
                of.data()
                    .iter()
                    .all(|entry| entry["actor"] == actor.as_str())
            ),
            (count, true),
            "{of}"
        );
    }
    let both = activity(
        &c,
        &at,
        &format!("actor={user}&action=document.version_created"),
    )
    .await;
    assert_eq!(both.total(), 1);
}

#[tokio::test]
async fn the_log_is_filtered_by_kind_and_by_time() {
    let (account, c) = account_with_client().await;
    let (at, expected) = eventful((&account.anonymous(), &c)).await;
    let all = activity(&c, &at, "order=asc").await;
    for kind in &expected {
        let of = activity(&c, &at, &format!("action={kind}")).await;
        let count = expected.iter().filter(|one| *one == kind).count();
        assert_eq!(
            (of.total(), of.data().len()),
            (count as u64, count),
            "{kind}"
        );
    }
    let times = all.column("at");
    let (first, last) = (times.first().unwrap(), times.last().unwrap());
    let after = times.iter().filter(|at| *at > first).count() as u64;
    assert_eq!(
        activity(&c, &at, &format!("since={first}")).await.total(),
        after,
        "the instant is excluded"
    );
    let before = times.iter().filter(|at| *at < last).count() as u64;
    assert_eq!(
        activity(&c, &at, &format!("until={last}")).await.total(),
        before,
        "the instant is excluded"
    );
    for (query, field) in [
        ("action=document.read", "action"),
        ("actor=nobody", "actor"),
        ("since=x", "since"),
        ("until=x", "until"),
        ("limit=0", "limit"),
        ("kind=x", "kind"),
        ("after=act_", "after"),
    ] {
        c.get(&format!("{at}/activity?{query}"))
            .await
            .error(400, "invalid_request", field);
    }
}

#[tokio::test]
async fn cursors_lead_through_the_log() {
    let (account, c) = account_with_client().await;
    let (at, _) = eventful((&account.anonymous(), &c)).await;
    let ids = activity(&c, &at, "order=asc").await.column("id");
    let beside = async |cursor: &str| {
        let path = format!("{at}/activity?order=asc&limit=3&{cursor}={}", ids[4]);
        c.get(&path).await.expect(200).column("id")
    };
    assert_eq!(beside("after").await, ids[5..8]);
    assert_eq!(beside("before").await, ids[1..4]);
    let (mut found, mut next) = (Vec::new(), Some(format!("{at}/activity?limit=4&order=asc")));
    while let Some(path) = next {
        let page = c.get(&path).await.expect(200);
        found.extend(page.column("id"));
        next = page.link("next");
        assert!(found.len() <= ids.len(), "no end");
    }
    assert_eq!(found, ids);
}

#[tokio::test]
async fn the_log_is_only_added_to_and_hidden_from_strangers() {
    let (_account, c) = account_with_client().await;
    let at = c.document("1\n").await;
    let log = activity(&c, &at, "").await;
    let id = log.column("id").remove(0);
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        c.call(method, &format!("{at}/activity"))
            .await
            .error(405, "method_not_allowed", "*");
        c.call(method, &format!("{at}/activity/{id}"))
            .await
            .error(404, "not_found", "*");
    }
    let stranger = c.acting_for(&c.user("agent").await);
    stranger
        .get(&format!("{at}/activity"))
        .await
        .error(404, "not_found", "*");
    crate::support::account()
        .await
        .test()
        .get(&format!("{at}/activity"))
        .await
        .error(404, "not_found", "*");
    assert_eq!(
        activity(&c, &at, "").await.body,
        log.body,
        "reading leaves no trace"
    );
}

/// What stands beside the document in the data of each kind.
fn beside(data: &Value) -> Vec<&str> {
    let document: Vec<&str> = DOCUMENT.split(',').map(str::trim).collect();
    let mut fields = crate::support::shapes::keys(data);
    for field in &document {
        assert!(fields.contains(field), "no {field} in {data}");
    }
    fields.retain(|field| !document.contains(field));
    fields
}

#[tokio::test]
async fn events_carry_the_document_as_lists_show_it_and_what_the_kind_says() {
    let (account, c) = account_with_client().await;
    let (at, expected) = eventful((&account.anonymous(), &c)).await;
    let log = c.get("/v1/events?after=0&limit=100").await.expect(200);
    assert_eq!(log.column("event"), expected);
    for (n, event) in log.data().iter().enumerate() {
        let data = &event["data"];
        assert_eq!(
            (&event["seq"], &data["id"]),
            (&json!(n + 1), &json!(id_of(&at))),
            "{event}"
        );
        let fields = beside(data);
        match event["event"].as_str().unwrap() {
            "document.updated" => assert_eq!(
                data["changes"]["title"],
                json!({"from": "Guide", "to": "Other"})
            ),
            "document.version_created" | "document.merged" => {
                assert_shape(&data["version"], VERSION)
            }
            "document.deleted" => assert_eq!(data["permanent"], false),
            "document.shared" => assert_shape(&data["share"], SHARE),
            "document.commented" => assert_shape(&data["comment"], COMMENT),
            "document.permissions_updated" => {
                for one in data["collaborators"].as_array().unwrap() {
                    assert!(
                        crate::support::shapes::keys(one)
                            .iter()
                            .all(|key| COLLABORATOR.contains(key)),
                        "{one}"
                    );
                }
                assert!(!data["changes"].as_object().unwrap().is_empty(), "{event}");
            }
            _ => assert!(fields.is_empty(), "{event}"),
        }
    }
    let kinds: Vec<&Value> = log.data().iter().map(|event| &event["event"]).collect();
    assert_eq!(
        (kinds[1], kinds[2]),
        (
            &json!("document.updated"),
            &json!("document.version_created")
        ),
        "in one commit"
    );
    let merged = c
        .get("/v1/events?after=0&event=document.merged")
        .await
        .expect(200);
    assert_eq!(merged.total(), 1);
}

#[tokio::test]
async fn deleting_for_good_is_told_once() {
    let (_account, c) = account_with_client().await;
    let at = c.document("1\n").await;
    c.delete(&format!("{at}?permanent=true")).await.expect(204);
    c.delete(&format!("{at}?permanent=true"))
        .await
        .error(404, "not_found", "*");
    let log = c
        .get("/v1/events?after=0&event=document.deleted")
        .await
        .expect(200);
    assert_eq!(
        (log.total(), &log["data"][0]["data"]["permanent"]),
        (1, &json!(true))
    );
}

#[tokio::test]
async fn webhooks_get_the_events_of_the_documents_they_filter_in_order() {
    let (_account, c) = account_with_deliveries().await;
    let receiver = Receiver::start().await;
    let at = c.document("1\n").await;
    let other = c.document("other\n").await;
    let hook =
        json!({"url": receiver.url(), "events": ["*"], "filter": {"document_id": [id_of(&at)]}});
    c.post("/v1/webhooks", hook).await.expect(201);
    c.conversation().await;
    for n in 2..8 {
        c.write(&at, &format!("{n}\n")).await;
        c.write(&other, &format!("{n}\n")).await;
    }
    c.delete(&other).await.expect(204);
    c.delete(&at).await.expect(204);
    let received = receiver.wait_for(7).await;
    let log = c.get("/v1/events?after=0&limit=100").await.expect(200);
    let expected: Vec<&Value> = log
        .data()
        .iter()
        .filter(|event| event["data"]["id"] == id_of(&at) && event["seq"] != 1)
        .collect();
    assert_eq!(
        received.len(),
        expected.len(),
        "another document's came too"
    );
    for (request, event) in received.iter().zip(expected) {
        assert_eq!(&request.event(), event);
        assert_eq!(request.header("webhook-id"), event["id"].as_str().unwrap());
    }
    let bad = json!({"url": receiver.url(), "events": ["document.read"]});
    c.post("/v1/webhooks", bad)
        .await
        .error(400, "invalid_request", "*");
}

#[tokio::test]
async fn a_stream_carries_documents_as_they_change() {
    let (_account, c) = account_with_client().await;
    let mut stream = EventStream::open(c.get("/v1/events")).await;
    let at = c.document("1\n").await;
    c.write(&at, "2\n").await;
    c.put(&at, json!({"title": "Other"})).await.expect(200);
    for (seq, kind) in [
        (1, "document.created"),
        (2, "document.version_created"),
        (3, "document.updated"),
    ] {
        let event = stream.event().await;
        assert_eq!(
            (event.event.as_str(), &event.json()["seq"]),
            (kind, &json!(seq))
        );
        assert_eq!(event.json()["data"]["id"], id_of(&at));
    }
    let mut again = EventStream::open(c.get("/v1/events?after=0&event=document.updated")).await;
    assert_eq!(again.event().await.json()["seq"], 3);
}

#[tokio::test]
async fn what_is_the_owners_to_see_is_left_out_for_others() {
    let (account, c) = account_with_client().await;
    let at = c.document("1\n").await;
    let viewer = c.user("agent").await;
    c.post(
        &format!("{at}/collaborators"),
        json!({"user_id": viewer, "role": "viewer"}),
    )
    .await
    .expect(201);
    c.put(
        &format!("{at}/permissions"),
        json!({"visibility": "account", "default_role": "editor"}),
    )
    .await
    .expect(200);
    let (share, link) = c.share(&at, json!({"role": "commenter"})).await;
    let body = json!({"start_line": 1, "body": "through the link"});
    account
        .anonymous()
        .post(&format!("{link}/comments"), body)
        .await
        .expect(201);
    let whole = activity(&c, &at, "order=asc").await;
    let part = activity(&c.acting_for(&viewer), &at, "order=asc").await;
    assert_eq!(
        whole.column("id"),
        part.column("id"),
        "nobody misses an entry"
    );
    let text = |answer: &Answer| String::from_utf8_lossy(&answer.bytes).into_owned();
    for owners in [share.as_str(), "max_uses", "visibility", "default_role"] {
        assert!(
            text(&whole).contains(owners) && !text(&part).contains(owners),
            "{owners}: {part}"
        );
    }
    assert!(
        text(&part).contains(&viewer),
        "collaborators are everybody's to see"
    );
    let comment = whole.data().last().unwrap();
    assert_eq!(
        (&comment["actor"], &comment["details"]["share_id"]),
        (&Value::Null, &json!(share))
    );
}

#[tokio::test]
async fn who_did_it_is_told_after_the_user_is_gone() {
    let (_account, c) = account_with_client().await;
    let at = c.document("1\n").await;
    let admin = c.user("admin").await;
    c.acting_for(&admin)
        .put(&at, json!({"content": "2\n"}))
        .await
        .expect(200);
    c.delete(&format!("/v1/users/{admin}")).await.expect(204);
    let entry = activity(&c, &at, &format!("actor={admin}")).await;
    assert_eq!(
        (entry.total(), &entry["data"][0]["actor"]),
        (1, &json!(admin))
    );
}
