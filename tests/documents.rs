//! `/api/v1/documents`: making, reading, changing, the bin; who sees them; what was acknowledged
//! outlives a crash.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::clock::Clock;
use crate::support::documents::{DOCUMENTS, id_of};
use crate::support::shapes::{DOCUMENT, assert_id, assert_recent, assert_shape};
use crate::support::{
    Account, Answer, Client, EventStream, Server, account, account_with_client, unique, until,
};

const MIB: usize = 1 << 20;

fn read_shape() -> String {
    format!("{DOCUMENT}, content")
}

#[tokio::test]
async fn a_creation_answers_with_every_field_and_its_default() {
    let (_account, c) = account_with_client().await;
    let made = c
        .post(DOCUMENTS, json!({"title": "Refunds"}))
        .await
        .expect(201);
    assert_shape(&made.body, &read_shape());
    assert_id(&made["id"], "doc_");
    assert_id(&made["version"], "ver_");
    assert_eq!(
        (&made["title"], &made["content"]),
        (&json!("Refunds"), &json!(""))
    );
    assert_eq!(
        (&made["content_type"], &made["metadata"]),
        (&json!("text/markdown"), &json!({}))
    );
    assert_eq!(
        (&made["version_number"], &made["role"]),
        (&json!(1), &json!("owner"))
    );
    for field in ["owner_id", "created_by", "updated_by"] {
        assert!(made[field].is_null(), "{field} of {made}");
    }
    assert_recent(&made["created_at"]);
    assert_eq!(made["created_at"], made["updated_at"]);
    assert_eq!(
        made.header("location"),
        format!("{DOCUMENTS}/{}", made.id("id"))
    );
    assert!(made.etag().starts_with('"'), "a strong tag: {made}");
}

#[tokio::test]
async fn a_users_document_is_the_users() {
    let (_account, c) = account_with_client().await;
    let user = c.user("agent").await;
    let made = c
        .acting_for(&user)
        .post(DOCUMENTS, json!({"title": "Mine"}))
        .await
        .expect(201);
    for field in ["owner_id", "created_by", "updated_by"] {
        assert_eq!(made[field], user.as_str(), "{field}");
    }
    assert_eq!(made["role"], "owner");
    let changed = c
        .put(made.header("location"), json!({"title": "Ours"}))
        .await
        .expect(200);
    assert_eq!(
        (&changed["owner_id"], &changed["created_by"]),
        (&json!(user), &json!(user))
    );
    assert!(
        changed["updated_by"].is_null(),
        "the account's key changed it: {changed}"
    );
}

#[tokio::test]
async fn what_was_created_reads_back_the_same() {
    let (_account, c) = account_with_client().await;
    let contents = [
        "plain",
        "",
        "line\r\nline\rline\n",
        "no end\n\n",
        "ключ 🎈 \u{feff}\u{2028}\\\"</script>",
        "\u{1}\t",
    ];
    for (content, kind) in contents.iter().zip(
        [
            "text/markdown",
            "text/plain",
            "text/html",
            "application/json",
        ]
        .iter()
        .cycle(),
    ) {
        let body = json!({
            "title": "Ünï 🎈 <b>", "content": content, "content_type": kind,
            "metadata": {"order": 7, "deep": {"er": [1, null]}},
        });
        let made = c.post(DOCUMENTS, body.clone()).await.expect(201);
        for (field, value) in body.as_object().unwrap() {
            assert_eq!(&made[field.as_str()], value, "{field}");
        }
        let read = c.get(made.header("location")).await.expect(200);
        assert_eq!((read.etag(), &read.body), (made.etag(), &made.body));
        assert_eq!(
            c.get(&format!("{}?version=1", made.header("location")))
                .await
                .expect(200)["content"],
            *content
        );
    }
}

#[tokio::test]
async fn put_replaces_what_it_names_and_only_content_makes_a_version() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let before = c.get(&at).await.expect(200);
    let renamed = c
        .put(&at, json!({"title": "Other", "content_type": "text/plain"}))
        .await
        .expect(200);
    assert_shape(&renamed.body, &read_shape());
    assert_eq!(
        (&renamed["title"], &renamed["content"]),
        (&json!("Other"), &json!("one\n"))
    );
    assert_eq!(
        (&renamed["version"], &renamed["version_number"]),
        (&before["version"], &json!(1))
    );
    assert_ne!(renamed.etag(), before.etag());
    let written = c
        .put(&at, json!({"content": "two\n", "metadata": {"a": 1}}))
        .await
        .expect(200);
    assert_eq!(
        (&written["title"], &written["content_type"]),
        (&json!("Other"), &json!("text/plain"))
    );
    assert_eq!(
        (&written["content"], &written["version_number"]),
        (&json!("two\n"), &json!(2))
    );
    assert_ne!(written["version"], before["version"]);
    let replaced = c.put(&at, json!({"metadata": {"b": 2}})).await.expect(200);
    assert_eq!(
        replaced["metadata"],
        json!({"b": 2}),
        "metadata is replaced, not merged"
    );
    assert_eq!(c.get(&at).await.expect(200).body, replaced.body);
    assert_eq!(
        c.get(&format!("{at}/versions")).await.expect(200).total(),
        2
    );
    assert_eq!(
        c.get(&format!("{at}?version=1")).await.expect(200)["content"],
        "one\n"
    );
}

#[tokio::test]
async fn an_update_without_a_change_makes_no_version_and_keeps_the_etag() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let before = c.get(&at).await.expect(200);
    let all = json!({"title": "Guide", "content": "one\n", "content_type": "text/markdown", "metadata": {}});
    for body in [
        json!({}),
        json!({"content": "one\n"}),
        json!({"title": "Guide"}),
        all,
    ] {
        let same = c.put(&at, body).await.expect(200);
        assert_eq!((same.etag(), &same.body), (before.etag(), &before.body));
    }
    assert_eq!(
        c.get(&format!("{at}/versions")).await.expect(200).total(),
        1
    );
    assert_eq!(
        c.get("/v1/events?after=0").await.expect(200).total(),
        1,
        "document.created alone"
    );
}

#[tokio::test]
async fn if_match_lets_a_change_through_only_on_the_state_that_was_read() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let old = c.get(&at).await.expect(200).etag();
    let new = c
        .put(&at, json!({"content": "two\n"}))
        .with("if-match", &old)
        .await
        .expect(200)
        .etag();
    for (tag, body) in [
        (&old, json!({"content": "three\n"})),
        (&old, json!({})),
        (&format!("W/{new}"), json!({})),
    ] {
        c.put(&at, body)
            .with("if-match", tag)
            .await
            .error(412, "precondition_failed", "*");
    }
    let version = json!({"content": "three\n"});
    let versions = format!("{at}/versions");
    c.post(&versions, version.clone())
        .with("if-match", &old)
        .await
        .error(412, "precondition_failed", "*");
    c.delete(&at)
        .with("if-match", &old)
        .await
        .error(412, "precondition_failed", "*");
    assert_eq!(c.get(&at).await.expect(200)["content"], "two\n");
    c.post(&versions, version)
        .with("if-match", &format!("\"x\", {new}"))
        .await
        .expect(201);
    c.put(&at, json!({"title": "Star"}))
        .with("if-match", "*")
        .await
        .expect(200);
    let last = c.get(&at).await.expect(200).etag();
    c.delete(&at).with("if-match", &last).await.expect(204);
}

#[tokio::test]
async fn of_32_writers_with_the_same_etag_one_wins() {
    let (_account, c) = account_with_client().await;
    let at = c.document("start\n").await;
    let etag = c.get(&at).await.expect(200).etag();
    let writes = (0..32).map(|n| {
        c.put(&at, json!({"content": format!("{n}\n")}))
            .with("if-match", &etag)
            .into_future()
    });
    let statuses: Vec<u16> = join_all(writes)
        .await
        .iter()
        .map(|answer| answer.status)
        .collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        1,
        "{statuses:?}"
    );
    assert!(
        statuses.iter().all(|status| [200, 412].contains(status)),
        "{statuses:?}"
    );
    assert_eq!(c.get(&at).await.expect(200)["version_number"], 2);
}

#[tokio::test]
async fn what_the_document_does_not_show_leaves_its_tag_and_its_time_alone() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let before = c.get(&at).await.expect(200);
    c.branch(&at, "draft", "two\n").await;
    c.version(
        &at,
        json!({"parent": "draft", "content": "three\n", "label": "third"}),
    )
    .await;
    c.post(
        &format!("{at}/comments"),
        json!({"body": "hm", "start_line": 1}),
    )
    .await
    .expect(201);
    let (_, link) = c.share(&at, json!({})).await;
    Client::anonymous(&format!("http://{}", c.address()))
        .get(&link)
        .with("accept", "application/json")
        .await
        .expect(200);
    c.put(
        &format!("{at}/permissions"),
        json!({"default_role": "editor"}),
    )
    .await
    .expect(200);
    c.get(&at)
        .with("if-none-match", &before.etag())
        .await
        .expect(304);
    let shown = c.get(&at).await.expect(200);
    assert_eq!((shown.etag(), &shown.body), (before.etag(), &before.body));
    // Who wrote on the head meanwhile is not in the way of the others.
    c.put(&at, json!({"content": "four\n"}))
        .with("if-match", &before.etag())
        .await
        .expect(200);
}

#[tokio::test]
async fn whatever_the_document_shows_changes_its_tag() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    c.branch(&at, "draft", "two\n").await;
    let (user, mut tags) = (
        c.user("agent").await,
        vec![c.get(&at).await.expect(200).etag()],
    );
    let changes = [
        ("PUT", "", json!({"title": "New"})),
        ("PUT", "", json!({"metadata": {"a": 1}})),
        ("PUT", "", json!({"content_type": "text/plain"})),
        ("PUT", "", json!({"content": "three\n"})),
        ("POST", "/versions", json!({"content": "three\n"})),
        ("POST", "/versions/1/restore", json!({})),
        (
            "POST",
            "/merge",
            json!({"source": "draft", "strategy": "ours"}),
        ),
        ("PUT", "/permissions", json!({"transfer_owner_to": user})),
    ];
    for (method, part, body) in changes {
        let answer = c
            .call(method, &format!("{at}{part}"))
            .bytes(body.to_string())
            .await;
        assert!([200, 201].contains(&answer.status), "{answer}");
        let tag = c.get(&at).await.expect(200).etag();
        assert!(!tags.contains(&tag), "{method} {part}: {tags:?}, {tag}");
        tags.push(tag);
    }
    c.delete(&at).await.expect(204);
    let restored = c
        .post(&format!("{at}/restore"), json!({}))
        .await
        .expect(200);
    assert!(!tags.contains(&restored.etag()), "{restored}");
}

#[tokio::test]
async fn a_document_is_not_sent_again_to_who_has_it_and_each_role_has_a_tag_of_its_own() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let owner = c.get(&at).await.expect(200);
    let same = c
        .get(&at)
        .with("if-none-match", &owner.etag())
        .await
        .expect(304);
    assert!(same.bytes.is_empty());
    assert!(
        owner.header("cache-control").contains("no-cache"),
        "{owner}"
    );
    assert!(
        owner
            .header("vary")
            .to_ascii_lowercase()
            .contains("x-acting-user"),
        "{owner}"
    );
    c.put(
        &format!("{at}/permissions"),
        json!({"visibility": "account"}),
    )
    .await
    .expect(200);
    let user = c.user("agent").await;
    let owner = c.get(&at).await.expect(200);
    let viewer = c.acting_for(&user).get(&at).await.expect(200);
    assert_eq!(viewer["role"], "viewer");
    assert_ne!(
        viewer.etag(),
        owner.etag(),
        "the answers differ in their role"
    );
}

#[tokio::test]
async fn head_is_get_without_the_body_and_other_methods_are_named() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    for path in [
        DOCUMENTS.to_owned(),
        at.clone(),
        format!("{at}/versions"),
        format!("{at}/versions/1"),
        format!("{at}/diff"),
    ] {
        let (head, get) = (
            c.call("HEAD", &path).await.expect(200),
            c.get(&path).await.expect(200),
        );
        assert!(head.bytes.is_empty(), "{head}");
        assert_eq!(head.header_opt("etag"), get.header_opt("etag"), "{path}");
    }
    for (method, path) in [
        ("PATCH", at.clone()),
        ("PUT", DOCUMENTS.to_owned()),
        ("DELETE", format!("{at}/versions/1")),
    ] {
        c.call(method, &path)
            .await
            .error(405, "method_not_allowed", "*");
    }
    let options = c.call("OPTIONS", &at).await.expect(204);
    for method in ["GET", "PUT", "DELETE"] {
        assert!(options.header("allow").contains(method), "{options}");
    }
    c.get(&format!("{at}/")).await.error(404, "not_found", "*");
}

/// Every route below a document, with a body that it would take.
fn routes(at: &str) -> Vec<(&'static str, String, Value)> {
    let comment = "cmt_0190163d8694739b85d52d5e4a4d6d5f";
    let share = "shr_0190163d8694739b85d52d5e4a4d6d5f";
    let user = "usr_0190163d8694739b85d52d5e4a4d6d5f";
    let route = |method, below: &str, body| (method, format!("{at}{below}"), body);
    vec![
        route("GET", "", Value::Null),
        route("GET", "?version=1", Value::Null),
        route("PUT", "", json!({"title": "x"})),
        route("DELETE", "", Value::Null),
        route("DELETE", "?permanent=true", Value::Null),
        route("GET", "/versions", Value::Null),
        route("POST", "/versions", json!({"content": "x"})),
        route("GET", "/versions/1", Value::Null),
        route("POST", "/versions/1/restore", json!({})),
        route("POST", "/merge", json!({"source": "1"})),
        route("GET", "/diff", Value::Null),
        route("GET", "/collaborators", Value::Null),
        route("DELETE", &format!("/collaborators/{user}"), Value::Null),
        route(
            "PUT",
            &format!("/collaborators/{user}"),
            json!({"role": "viewer"}),
        ),
        route("GET", "/permissions", Value::Null),
        route("PUT", "/permissions", json!({"visibility": "private"})),
        route("POST", "/share", json!({})),
        route("GET", "/share", Value::Null),
        route("DELETE", &format!("/share/{share}"), Value::Null),
        route("GET", "/comments", Value::Null),
        route("POST", "/comments", json!({"start_line": 1, "body": "x"})),
        route(
            "PATCH",
            &format!("/comments/{comment}"),
            json!({"resolved": true}),
        ),
        route("DELETE", &format!("/comments/{comment}"), Value::Null),
        route("GET", "/activity", Value::Null),
    ]
}

async fn send(c: &Client, (method, path, body): &(&str, String, Value)) -> Answer {
    let call = c.call(method, path);
    if body.is_null() {
        call.await
    } else {
        call.bytes(body.to_string())
            .with("content-type", "application/json")
            .await
    }
}

async fn assert_not_there(c: &Client, at: &str) {
    for route in routes(at) {
        send(c, &route).await.error(404, "not_found", "*");
    }
}

#[tokio::test]
async fn in_the_bin_a_document_is_nowhere_until_it_is_restored() {
    let (_account, c) = account_with_client().await;
    let kept = c.document("kept\n").await;
    let at = c.document("one\n").await;
    c.write(&at, "two\n").await;
    c.delete(&at).await.expect(204);
    assert_not_there(&c, &at).await;
    let list = c.get(DOCUMENTS).await.expect(200);
    assert_eq!(
        (list.column("id"), list.total()),
        (vec![id_of(&kept).to_owned()], 1)
    );
    let bin = c
        .get(&format!("{DOCUMENTS}?deleted=true"))
        .await
        .expect(200);
    assert_eq!(
        (bin.column("id"), bin.total()),
        (vec![id_of(&at).to_owned()], 1)
    );
    let restored = c.call("POST", &format!("{at}/restore")).await.expect(200);
    assert_shape(&restored.body, &read_shape());
    assert_eq!(
        (&restored["content"], &restored["version_number"]),
        (&json!("two\n"), &json!(2))
    );
    let again = c.call("POST", &format!("{at}/restore")).await.expect(200);
    assert_eq!(
        (again.etag(), &again.body),
        (restored.etag(), &restored.body),
        "nothing to restore, nothing changes"
    );
    assert_eq!(
        c.get(&format!("{DOCUMENTS}?deleted=true"))
            .await
            .expect(200)
            .total(),
        0
    );
    assert_eq!(c.get(DOCUMENTS).await.expect(200).total(), 2);
    assert_eq!(
        c.get(&format!("{at}/versions")).await.expect(200).total(),
        2
    );
}

#[tokio::test]
async fn what_is_deleted_for_good_can_not_be_restored() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    c.delete(&format!("{at}?permanent=true")).await.expect(204);
    assert_not_there(&c, &at).await;
    c.call("POST", &format!("{at}/restore"))
        .await
        .error(404, "not_found", "*");
    for list in [DOCUMENTS.to_owned(), format!("{DOCUMENTS}?deleted=true")] {
        assert_eq!(c.get(&list).await.expect(200).total(), 0, "{list}");
    }
    let other = c.document("one\n").await;
    c.delete(&format!("{other}?permanent=maybe"))
        .await
        .error(400, "invalid_request", "permanent");
    c.get(&other).await.expect(200);
}

#[tokio::test]
async fn every_bad_field_is_refused_by_name() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let cases = [
        (json!({"title": ""}), "title"),
        (json!({"title": "é".repeat(501)}), "title"),
        (json!({"title": 7}), "title"),
        (json!({"title": null}), "title"),
        (json!({"title": "a\u{0}b"}), "title"),
        (json!({"title": "x", "content": 7}), "content"),
        (json!({"title": "x", "content": "a\u{0}b"}), "content"),
        (
            json!({"title": "x", "content_type": "text/css"}),
            "content_type",
        ),
        (json!({"title": "x", "metadata": []}), "metadata"),
        (
            json!({"title": "x", "metadata": {"a": "\u{0}"}}),
            "metadata",
        ),
        (json!({"title": "x", "owner_id": null}), "owner_id"),
        (json!({"title": "x", "role": "owner"}), "role"),
    ];
    for (body, field) in cases {
        let text = body.to_string();
        let named = |answer: Answer| {
            let refused = answer.error(400, "invalid_request", "*");
            let found = refused.body["error"]["details"]["field"].as_str().unwrap();
            // A field inside of metadata may be named by its path.
            assert!(found.starts_with(field), "{text}: {refused}");
        };
        named(c.post(DOCUMENTS, body.clone()).await);
        named(c.put(&at, body).await);
    }
    c.post(DOCUMENTS, json!({"content": "x"}))
        .await
        .error(400, "invalid_request", "title");
    let twice = c
        .call("POST", DOCUMENTS)
        .bytes(r#"{"title":"a","title":"b"}"#);
    twice
        .with("content-type", "application/json")
        .await
        .error(400, "invalid_request", "title");
    c.post(DOCUMENTS, json!({"title": "é".repeat(500)}))
        .await
        .expect(201);
    assert_eq!(c.get(DOCUMENTS).await.expect(200).total(), 2);
}

#[tokio::test]
async fn a_body_that_is_not_utf_8_is_refused() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    for bad in [
        &b"\xff\xfe"[..],
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xc0\xaf",
    ] {
        let mut body = br#"{"title":"x","content":""#.to_vec();
        body.extend_from_slice(bad);
        body.extend_from_slice(br#""}"#);
        for call in [c.call("POST", DOCUMENTS), c.call("PUT", &at)] {
            call.bytes(body.clone())
                .with("content-type", "application/json")
                .await
                .error(400, "invalid_request", "*");
        }
    }
    let lone = r#"{"title":"x","content":"\ud800"}"#;
    let call = c
        .call("POST", DOCUMENTS)
        .bytes(lone)
        .with("content-type", "application/json");
    call.await.error(400, "invalid_request", "*");
    assert_eq!(c.text(&at).await, "one\n");
}

/// A creation's body of exactly so many bytes, and its content.
fn sized(bytes: usize) -> (String, String) {
    let frame = json!({"title": "Big", "content": ""}).to_string().len();
    // Plain bytes: what JSON escapes would count double.
    let content =
        "a line of text that nobody reads. ".repeat(bytes / 34 + 1)[..bytes - frame].to_owned();
    (
        json!({"title": "Big", "content": content}).to_string(),
        content,
    )
}

#[tokio::test]
async fn a_body_of_8_mib_is_taken_and_one_byte_more_is_not() {
    let (_account, c) = account_with_client().await;
    let json = |call: crate::support::client::Call| call.with("content-type", "application/json");
    let (body, content) = sized(8 * MIB);
    assert_eq!(body.len(), 8 * MIB);
    let made = json(c.call("POST", DOCUMENTS).bytes(body))
        .await
        .expect(201);
    assert!(
        made["content"] == content.as_str(),
        "8 MiB come back with the creation"
    );
    let at = made.header("location");
    assert!(c.text(at).await == content, "8 MiB are kept");
    for bytes in [8 * MIB + 1, 9 * MIB] {
        let (body, _) = sized(bytes);
        for call in [
            c.call("POST", DOCUMENTS),
            c.call("PUT", at),
            c.call("POST", &format!("{at}/versions")),
        ] {
            json(call.bytes(body.clone()))
                .await
                .error(413, "payload_too_large", "*");
        }
    }
    assert_eq!(c.get(at).await.expect(200)["version_number"], 1);
    let (body, _) = sized(2 * MIB);
    json(c.call("POST", "/v1/customers").bytes(body))
        .await
        .error(413, "payload_too_large", "*");
}

#[tokio::test]
async fn a_replayed_creation_shows_the_first_answer_byte_for_byte() {
    let (_account, c) = account_with_client().await;
    let content = "first\r\n\u{1F388} \"quoted\" <b>\n".repeat(500);
    let body = json!({"title": "Once", "content": content, "metadata": {"b": 1, "a": 2}});
    let create = || {
        c.post(DOCUMENTS, body.clone())
            .with("idempotency-key", "\"create\"")
    };
    let made = create().await.expect(201);
    let at = made.header("location").to_owned();
    c.put(&at, json!({"content": "second\n", "title": "Twice"}))
        .await
        .expect(200);
    let again = create().await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert!(again.bytes == made.bytes, "{again}\nis not\n{made}");
    assert_eq!(
        (again.header("location"), again.etag()),
        (at.as_str(), made.etag())
    );
    assert_eq!(c.get(DOCUMENTS).await.expect(200).total(), 1);
    assert_eq!(c.text(&at).await, "second\n");
    let other = json!({"title": "Another"});
    c.post(DOCUMENTS, other)
        .with("idempotency-key", "create")
        .await
        .error(422, "idempotency_key_reused", "*");
}

#[tokio::test]
async fn every_post_below_a_document_is_done_once_under_its_key() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    c.branch(&at, "side", "one\ntwo\n").await;
    let user = c.user("agent").await;
    let posts = [
        (
            "versions",
            json!({"content": "zero\none\n", "label": "first"}),
            201,
        ),
        ("versions/1/restore", json!({"message": "back"}), 201),
        ("merge", json!({"source": "side"}), 201),
        ("merge", json!({"source": "1"}), 200),
        (
            "collaborators",
            json!({"user_id": user, "role": "viewer"}),
            201,
        ),
        ("comments", json!({"start_line": 1, "body": "hm"}), 201),
        ("restore", json!({}), 200),
    ];
    for (n, (below, body, status)) in posts.into_iter().enumerate() {
        let key = format!("post-{n}");
        let post = || {
            c.post(&format!("{at}/{below}"), body.clone())
                .with("idempotency-key", &key)
        };
        let first = post().await.expect(status);
        let events = c
            .get("/v1/events?after=0&limit=1")
            .await
            .expect(200)
            .total();
        let again = post().await.expect(status);
        assert_eq!(
            again.header_opt("idempotent-replayed"),
            Some("true"),
            "{again}"
        );
        assert_eq!(
            (&again.bytes, again.header_opt("etag")),
            (&first.bytes, first.header_opt("etag")),
            "{below}"
        );
        assert_eq!(
            again.header_opt("location"),
            first.header_opt("location"),
            "{below}"
        );
        assert_eq!(
            c.get("/v1/events?after=0&limit=1")
                .await
                .expect(200)
                .total(),
            events,
            "{below} was done twice"
        );
    }
}

#[tokio::test]
async fn test_and_live_documents_do_not_see_each_other() {
    let account = account().await;
    let (test, live, read) = (account.test(), account.live(), account.read());
    let at = test.document("test\n").await;
    assert_not_there(&live, &at).await;
    assert_eq!(live.get(DOCUMENTS).await.expect(200).total(), 0);
    let at = live.document("live\n").await;
    test.get(&at).await.error(404, "not_found", "*");
    assert_eq!(read.get(&at).await.expect(200)["content"], "live\n");
    for route in routes(&at).iter().filter(|(method, ..)| *method != "GET") {
        send(&read, route).await.error(403, "forbidden", "*");
    }
    read.post(DOCUMENTS, json!({"title": "x"}))
        .await
        .error(403, "forbidden", "*");
    assert_eq!(live.text(&at).await, "live\n");
}

#[tokio::test]
async fn another_accounts_document_is_404_never_403() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let stranger = account().await;
    assert_not_there(&stranger.test(), &at).await;
    stranger
        .test()
        .call("POST", &format!("{at}/restore"))
        .await
        .error(404, "not_found", "*");
    assert_eq!(stranger.test().get(DOCUMENTS).await.expect(200).total(), 0);
    for route in routes(&at) {
        send(&stranger.anonymous(), &route)
            .await
            .error(401, "unauthorized", "*");
    }
}

#[tokio::test]
async fn ids_that_name_no_document_are_404() {
    let (_account, c) = account_with_client().await;
    let customer = c.customer().await;
    let real = c.document("one\n").await;
    let upper = id_of(&real).to_uppercase();
    let ids = [
        "doc_0190163d8694739b85d52d5e4a4d6d5f",
        "nonsense",
        customer.as_str(),
        upper.as_str(),
        "doc_",
        "..",
        "%2e%2e",
        "%2e%2e%2fconversations",
        "doc_%00",
        "%ff",
        "doc_0190163d8694739b85d52d5e4a4d6d5f%2f..",
        "a%0d%0aSet-Cookie:x",
    ];
    for id in ids {
        for below in ["", "/versions", "/diff", "/activity"] {
            let answer = c.get(&format!("{DOCUMENTS}/{id}{below}")).await;
            assert_eq!(answer.status, 404, "{id}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_narrowed_key_does_what_its_scopes_name() {
    let account = account().await;
    let at = account.test().document("one\n").await;
    let with = async |scopes: Value| {
        account
            .key(json!({"type": "test", "name": "narrow", "scopes": scopes}))
            .await
            .0
    };
    let none = with(json!(["conversations:read", "conversations:write"])).await;
    let reads = with(json!(["documents:read"])).await;
    let writes = with(json!(["documents:read", "documents:write"])).await;
    let shares = with(json!(["documents:read", "documents:share"])).await;
    for route in routes(&at) {
        send(&none, &route).await.error(403, "forbidden", "*");
    }
    for (c, read, write, share) in [
        (&reads, 200, 403, 403),
        (&writes, 200, 200, 403),
        (&shares, 200, 403, 201),
    ] {
        c.get(&at).await.expect(read);
        c.put(&at, json!({"title": "Guide"})).await.expect(write);
        c.post(&format!("{at}/share"), json!({}))
            .await
            .expect(share);
    }
}

/// One document's life under load: what was acknowledged.
struct Life {
    at: String,
    title: String,
    contents: Vec<String>,
}

async fn live_on(c: &Client, writer: usize) -> Life {
    let title = format!("writer {writer}");
    let mut life = Life {
        at: String::new(),
        title: title.clone(),
        contents: Vec::new(),
    };
    for n in 0.. {
        let content = format!("{title}, text {n}\n");
        let call = if life.at.is_empty() {
            c.post(DOCUMENTS, json!({"title": title, "content": content}))
        } else {
            c.put(&life.at, json!({"content": content}))
        };
        let Ok(answer) = call
            .with("idempotency-key", &format!("{writer}-{n}"))
            .try_send()
            .await
        else {
            break;
        };
        if life.at.is_empty() {
            life.at = answer.expect(201).header("location").to_owned();
        } else {
            answer.expect(200);
        }
        life.contents.push(content);
    }
    life
}

impl Life {
    /// What was acknowledged is there, once.
    async fn assert_kept(&self, c: &Client) {
        let at = &self.at;
        let now = c.get(at).await.expect(200);
        let number = now["version_number"].as_u64().unwrap();
        // One more may have been committed whose answer was lost.
        let acknowledged = self.contents.len() as u64;
        assert!(
            [acknowledged, acknowledged + 1].contains(&number),
            "{acknowledged} acknowledged: {now}"
        );
        assert_eq!(now["title"], self.title.as_str());
        for list in ["versions", "activity"] {
            let all = c.get(&format!("{at}/{list}?limit=1")).await.expect(200);
            assert_eq!(all.total(), number, "{list} has each version once");
        }
        for (n, content) in (1..).zip(&self.contents) {
            let version = c.get(&format!("{at}/versions/{n}")).await.expect(200);
            assert_eq!(version["content"], content.as_str());
        }
        let writer = self.title.rsplit(' ').next().unwrap();
        let body = json!({"title": self.title, "content": self.contents[0]});
        let replay = c
            .post(DOCUMENTS, body)
            .with("idempotency-key", &format!("{writer}-0"))
            .await
            .expect(201);
        assert_eq!(
            (replay.header("location"), &replay["content"]),
            (at.as_str(), &json!(self.contents[0]))
        );
    }
}

#[tokio::test]
async fn acknowledged_documents_and_versions_survive_kill_9() {
    let mut server = Server::start();
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let c = account.test();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let c = c.clone();
            tokio::spawn(async move { live_on(&c, writer).await })
        })
        .collect();
    let events = || async { c.get("/v1/events?after=0&limit=1").await.total() };
    until("work goes on", Duration::from_secs(30), async || {
        (events().await > 150).then_some(())
    })
    .await;
    server.kill9();
    let mut lives = Vec::new();
    for writer in writers {
        lives.push(writer.await.unwrap());
    }
    server.restart();
    let c = server.with_key(&key);
    for life in lives.iter().filter(|life| !life.at.is_empty()) {
        life.assert_kept(&c).await;
    }
}

#[tokio::test]
async fn the_bin_keeps_a_document_for_30_days() {
    let (mut server, clock) = Clock::start();
    let account = server.account().await;
    let c = account.test();
    let (back, lost, kept) = (
        c.document("back\n").await,
        c.document("lost\n").await,
        c.document("kept\n").await,
    );
    for at in [&back, &lost] {
        c.delete(at).await.expect(204);
    }
    clock.ahead(29 * 24 * 60);
    server.restart();
    let c = c.at(&server.address());
    c.call("POST", &format!("{back}/restore")).await.expect(200);
    assert_eq!(
        c.get(&format!("{DOCUMENTS}?deleted=true"))
            .await
            .expect(200)
            .column("id"),
        [id_of(&lost)]
    );
    clock.ahead(31 * 24 * 60);
    server.restart();
    let c = c.at(&server.address());
    until("the bin is emptied", Duration::from_secs(20), async || {
        (c.get(&format!("{DOCUMENTS}?deleted=true"))
            .await
            .expect(200)
            .total()
            == 0)
            .then_some(())
    })
    .await;
    c.call("POST", &format!("{lost}/restore"))
        .await
        .error(404, "not_found", "*");
    assert_eq!(c.text(&back).await, "back\n", "its time begins anew");
    assert_eq!(c.text(&kept).await, "kept\n");
    let last = c
        .get("/v1/events?after=0&event=document.deleted")
        .await
        .expect(200)
        .data()
        .last()
        .cloned()
        .unwrap();
    assert_eq!(
        (&last["data"]["id"], &last["data"]["permanent"]),
        (&json!(id_of(&lost)), &json!(true))
    );
}

#[tokio::test]
async fn a_replay_after_the_document_was_erased_shows_no_text_and_is_still_json() {
    let (_account, c) = account_with_client().await;
    let (key, new) = (
        unique("key"),
        json!({"title": "Secret", "content": "words"}),
    );
    let create = async || {
        c.post(DOCUMENTS, new.clone())
            .with("idempotency-key", &key)
            .await
            .expect(201)
    };
    let first = create().await;
    c.delete(&format!("{DOCUMENTS}/{}?permanent=true", first.id("id")))
        .await
        .expect(204);
    // Which of the two goes first is the store's affair.
    let is_erased = |replay: &Answer| replay["title"] == "" && replay["content"] == Value::Null;
    let erased = async || Some(create().await).filter(is_erased);
    let replay = until("the texts are erased", Duration::from_secs(10), erased).await;
    assert_shape(&replay.body, &read_shape());
    assert_eq!(replay["id"], first["id"]);
}

#[tokio::test]
async fn a_list_goes_on_behind_a_document_that_was_erased() {
    let (_account, c) = account_with_client().await;
    let made = [
        c.document("a").await,
        c.document("b").await,
        c.document("c").await,
    ];
    let [first, second, third] = made.each_ref().map(|at| id_of(at));
    c.delete(&format!("{}?permanent=true", made[1]))
        .await
        .expect(204);
    let ids = async |query: &str| {
        c.get(&format!("{DOCUMENTS}?{query}"))
            .await
            .expect(200)
            .column("id")
    };
    assert_eq!(ids(&format!("after={second}")).await, [first]);
    assert_eq!(ids(&format!("before={second}")).await, [third]);
    assert_eq!(
        ids(&format!("after={second}&order=asc&limit=1"))
            .await
            .len(),
        1
    );
    let path = format!("{DOCUMENTS}?after={second}&sort=title");
    c.get(&path).await.error(400, "invalid_request", "after");
}

/// Whether events of documents are among these.
fn shows_documents(page: &Answer) -> bool {
    page.column("event")
        .iter()
        .any(|kind| kind.starts_with("document."))
}

/// An account with a conversation, a document, and a client that may read conversations only.
async fn account_with_a_document() -> (Account, Client, [String; 2]) {
    let (account, c) = account_with_client().await;
    let conversation = c.conversation().await;
    c.message(&conversation, "hello").await;
    let at = c.document("secret words").await;
    (account, c, [conversation, at])
}

#[tokio::test]
async fn events_of_documents_are_for_who_may_read_all_of_them() {
    let (account, c, _) = account_with_a_document().await;
    let admin = c.user("admin").await;
    let scopes = json!(["conversations:read", "documents:read"]);
    let (scoped, _) = account.key(json!({"type": "test", "scopes": scopes})).await;
    for client in [c.clone(), c.acting_for(&admin), scoped] {
        let page = client.get("/v1/events?after=0&limit=100").await.expect(200);
        assert!(shows_documents(&page), "{page}");
        client
            .get("/v1/events?after=0&event=document.created")
            .await
            .expect(200);
    }
}

#[tokio::test]
async fn events_of_documents_are_kept_from_who_may_not_read_them() {
    let (account, c, [conversation, at]) = account_with_a_document().await;
    let agent = c.user("agent").await;
    let scopes = json!(["conversations:read"]);
    let (scoped, _) = account.key(json!({"type": "test", "scopes": scopes})).await;
    let visible = c
        .get("/v1/events?after=0&event=conversation.created,message.created")
        .await
        .expect(200)
        .total();
    for client in [c.acting_for(&agent), scoped] {
        let page = client.get("/v1/events?after=0&limit=100").await.expect(200);
        assert!(!shows_documents(&page), "{page}");
        assert!(
            page.total() >= visible && page.total() == page.data().len() as u64,
            "{page}"
        );
        let mixed = "/v1/events?after=0&event=message.created,document.created";
        client.get(mixed).await.error(403, "forbidden", "event");
        let mut stream = EventStream::open(
            client
                .get("/v1/events?after=0")
                .with("accept", "text/event-stream"),
        )
        .await;
        c.put(&at, json!({"title": unique("title")}))
            .await
            .expect(200);
        c.message(&conversation, "last").await;
        loop {
            let event = stream.event().await.json();
            let kind = event["event"].as_str().unwrap();
            assert!(!kind.starts_with("document."), "{event}");
            if event["data"]["content"] == "last" {
                break;
            }
        }
    }
}
