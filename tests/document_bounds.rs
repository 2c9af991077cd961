//! How large a document, what it is made of and what is said about it may become, and that nothing
//! which was taken is lost by its size.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::client::Call;
use crate::support::documents::DOCUMENTS;
use crate::support::git::git_apply;
use crate::support::raw::exchange;
use crate::support::{Client, Server, Setup, account_with_client, unique, until};

const MIB: usize = 1 << 20;
/// What a document may hold on a server of its own, so that its bound is soon reached: ten of the
/// longest comments.
const SMALL: usize = 655_360;
const LONG_COMMENT: usize = 65_536;

/// A server on which documents are small, and a client.
async fn small() -> (Server, Client) {
    let server = Setup::default()
        .env("COLLOQUY__BOUNDS__DOCUMENT_BYTES_MAX", &SMALL.to_string())
        .start();
    let client = server.account().await.test();
    (server, client)
}

fn declared(call: Call, body: String) -> Call {
    call.bytes(body).with("content-type", "application/json")
}

/// A creation's body of exactly so many bytes, whose content is written in escapes of six bytes
/// each, and that content.
fn escaped(bytes: usize, escape: &str, means: char) -> (String, String) {
    let (before, behind) = (r#"{"title":"Escaped","content":""#, r#""}"#);
    let room = bytes - before.len() - behind.len();
    let (count, rest) = (room / escape.len(), room % escape.len());
    let body = format!(
        "{before}{}{}{behind}",
        escape.repeat(count),
        "x".repeat(rest)
    );
    assert_eq!(body.len(), bytes);
    (body, means.to_string().repeat(count) + &"x".repeat(rest))
}

#[tokio::test]
async fn the_bound_is_on_the_body_as_it_is_sent_escapes_and_all() {
    let (_account, c) = account_with_client().await;
    for (escape, means) in [(r"\u0001", '\u{1}'), (r#"\""#, '"')] {
        let (body, content) = escaped(8 * MIB, escape, means);
        let made = declared(c.call("POST", DOCUMENTS), body).await.expect(201);
        assert!(
            made["content"] == content.as_str(),
            "{escape} is taken and shown"
        );
        assert!(
            c.text(made.header("location")).await == content,
            "{escape} is kept"
        );
        let (body, _) = escaped(8 * MIB + 1, escape, means);
        declared(c.call("POST", DOCUMENTS), body)
            .await
            .error(413, "payload_too_large", "*");
    }
    let (body, _) = escaped(8 * MIB, r"\u0000", '\0');
    declared(c.call("POST", DOCUMENTS), body)
        .await
        .error(400, "invalid_request", "content");
    let (body, _) = escaped(8 * MIB + 6, r"\u0000", '\0');
    declared(c.call("POST", DOCUMENTS), body)
        .await
        .error(413, "payload_too_large", "*");
    assert_eq!(c.get(DOCUMENTS).await.expect(200).total(), 2);
}

/// A document whose head and side line both grew to so many bytes in different places.
async fn grown(c: &Client, bytes: usize) -> String {
    let much = |word: &str| format!("{word} in this line\n").repeat(bytes / 18);
    let at = c.document("top\nmiddle\nbottom\n").await;
    c.branch(
        &at,
        "side",
        &format!("top\nmiddle\nbottom\n{}", much("bbb")),
    )
    .await;
    c.write(&at, &format!("{}top\nmiddle\nbottom\n", much("aaa")))
        .await;
    at
}

#[tokio::test]
async fn a_merge_that_would_be_larger_than_a_document_may_be_is_refused_whole() {
    let (_server, c) = small().await;
    let at = grown(&c, SMALL / 3 * 2).await;
    let before = c.get(&at).await.expect(200);
    for more in [
        json!({}),
        json!({"dry_run": true}),
        json!({"strategy": "union"}),
        json!({"target": "side"}),
    ] {
        let mut body = more;
        body["source"] = json!(if body["target"] == "side" {
            "head"
        } else {
            "side"
        });
        c.post(&format!("{at}/merge"), body)
            .await
            .error(409, "conflict", "*");
    }
    let after = c.get(&at).await.expect(200);
    assert!(
        (after.etag(), &after.body) == (before.etag(), &before.body),
        "nothing changed"
    );
    assert_eq!(
        c.get(&format!("{at}/versions")).await.expect(200).total(),
        3
    );
    assert_eq!(
        c.get("/v1/events?after=0&event=document.merged")
            .await
            .expect(200)
            .total(),
        0
    );
    c.write(&at, "top\nmiddle\nbottom\n").await;
    c.post(&format!("{at}/merge"), json!({"source": "side"}))
        .await
        .expect(201);
    assert!(c.text(&at).await.ends_with("bbb in this line\n"));
}

#[tokio::test]
async fn resolutions_can_not_make_a_document_larger_than_it_may_be() {
    let (_server, c) = small().await;
    let kept = format!("{}\n", "x".repeat(SMALL / 2 - 1));
    let at = c.document(&format!("{kept}yes\n")).await;
    let side = c.branch(&at, "side", &format!("{kept}no\n")).await;
    let head = c.write(&at, &format!("{kept}perhaps\n")).await;
    let resolved = |bytes: usize| {
        let resolutions = json!([{"index": 0, "content": "y".repeat(bytes)}]);
        c.post(
            &format!("{at}/merge"),
            json!({"source": side, "target": head, "resolutions": resolutions}),
        )
    };
    resolved(SMALL / 2 + 1).await.error(409, "conflict", "*");
    assert_eq!(c.head(&at).await, head);
    resolved(SMALL / 2).await.expect(201);
    assert_eq!(c.text(&at).await.len(), SMALL);
}

#[tokio::test]
async fn what_is_said_about_a_document_is_together_as_long_as_a_document_at_most() {
    let (_server, c) = small().await;
    let at = c.document("1\n").await;
    let comment = |body: &str| {
        c.post(
            &format!("{at}/comments"),
            json!({"start_line": 1, "body": body}),
        )
    };
    let long = "c".repeat(LONG_COMMENT);
    for _ in 0..SMALL / LONG_COMMENT {
        comment(&long).await.expect(201);
    }
    comment("x").await.error(409, "conflict", "");
    let list = c
        .get(&format!("{at}/comments?limit=3&offset=2"))
        .await
        .expect(200);
    assert_eq!((list.data().len(), list.total()), (3, 10));
    assert!(list.data().iter().all(|one| one["body"] == long.as_str()));
    let one = format!(
        "{at}/comments/{}",
        list["data"][0]["comment_id"].as_str().unwrap()
    );
    c.patch(&one, json!({"body": "short"})).await.expect(200);
    comment("x").await.expect(201);
    c.patch(&one, json!({"body": long}))
        .await
        .error(409, "conflict", "");
    assert_eq!(
        c.patch(&one, json!({"resolved": true})).await.expect(200)["body"],
        "short"
    );
    // All of them follow the head, in one commit.
    let head = c.write(&at, "0\n1\n").await;
    let list = c.get(&format!("{at}/comments?limit=100")).await.expect(200);
    assert!(
        list.data()
            .iter()
            .all(|one| one["version"] == head.as_str() && one["start_line"] == 2)
    );
}

#[tokio::test]
async fn names_that_are_markup_or_hold_line_ends_stay_names() {
    let (_account, c) = account_with_client().await;
    let nasty = "</title><script>alert(1)</script>\r\n--- a/etc/passwd\r\n+++ b/etc/passwd\n@@ -1 +1 @@\n\"'&lt;";
    let email = format!("{}@example.com", unique("nasty"));
    let user = json!({"name": nasty, "email": email, "role": "agent"});
    let user = c.post("/v1/users", user).await.expect(201).id("user_id");
    let writer = c.acting_for(&user);
    let made = writer
        .post(DOCUMENTS, json!({"title": nasty, "content": "one\ntwo\n"}))
        .await
        .expect(201);
    let at = made.header("location").to_owned();
    assert_eq!(c.get(&at).await.expect(200)["title"], nasty);
    let version = json!({"content": "one\n2\n", "message": nasty, "label": "v1.0"});
    writer
        .post(&format!("{at}/versions"), version)
        .await
        .expect(201);
    let patch = c.get(&format!("{at}/diff")).await.expect(200);
    let patch = String::from_utf8(patch.bytes).unwrap();
    assert_eq!(
        patch.lines().take(2).collect::<Vec<_>>(),
        ["--- a/document", "+++ b/document"]
    );
    assert!(
        !patch.contains("passwd") && !patch.contains("script"),
        "{patch}"
    );
    assert_eq!(git_apply("one\ntwo\n", &patch), "one\n2\n");
    let page = c.get(&format!("{at}/diff?format=html")).await.expect(200);
    assert!(
        !String::from_utf8_lossy(&page.bytes).contains("<script"),
        "{page}"
    );
    let (_, link) = c.share(&at, json!({})).await;
    let page = Client::anonymous(&format!("http://{}", c.address()))
        .get(&link)
        .with("accept", "text/html")
        .await;
    let text = String::from_utf8_lossy(&page.expect(200).bytes).into_owned();
    assert!(
        !text.contains("<script") && text.contains("&lt;script&gt;alert(1)"),
        "{text}"
    );
}

#[tokio::test]
async fn a_content_that_looks_like_a_patch_is_compared_as_text() {
    let (_account, c) = account_with_client().await;
    let tricks = [
        ("-- a/document\n", "++ b/document\n"),
        (
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
            "@@ -1 +1 @@\n--- a/x\n+++ b/x\n-b\n",
        ),
        (
            "\\ No newline at end of file",
            "\\ No newline at end of file\n",
        ),
        (
            "diff --git a/x b/x\ndeleted file mode 100644\n",
            "rename from x\nrename to /etc/passwd\n",
        ),
        ("a\r\nb\rc\n", "a\nb\r\nc\r"),
        ("\u{2028}\u{85}\u{c}\n", "\u{2029}\u{b}\n"),
        (
            "<<<<<<< head\na\n=======\nb\n>>>>>>> side\n",
            "<<<<<<< head\nc\n=======\nb\n>>>>>>> side\n",
        ),
    ];
    for (old, new) in tricks {
        let at = c.document(old).await;
        c.write(&at, new).await;
        let patch =
            String::from_utf8(c.get(&format!("{at}/diff")).await.expect(200).bytes).unwrap();
        assert_eq!(git_apply(old, &patch), new, "{patch}");
    }
}

/// What a path segment may try.
const TRICKS: [&str; 17] = [
    "..",
    ".",
    "%2e%2e",
    "%2E",
    "..%2f..%2fv1%2fcustomers",
    "%2fetc%2fpasswd",
    "1%2f",
    "1%00",
    "%00",
    "%0a",
    "1%20",
    "%d9%a1",
    "%ef%bc%91",
    "v%c3%bc",
    "-1",
    "1e0",
    "0",
];

/// The status of a request whose path no client has tidied up.
async fn status(c: &Client, method: &str, path: &str) -> u16 {
    let (address, credential) = (c.address(), c.credential().unwrap());
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: {credential}\r\n");
    exchange(
        address,
        format!("{head}Connection: close\r\nContent-Length: 0\r\n\r\n").as_bytes(),
    )
    .await
    .status
}

#[tokio::test]
async fn no_path_trick_names_a_version() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    c.version(&at, json!({"content": "two\n", "label": "v1"}))
        .await;
    let mut tricks: Vec<String> = TRICKS.iter().map(|trick| (*trick).to_owned()).collect();
    tricks.extend([
        "01".to_owned(),
        "v".repeat(101),
        "9".repeat(101),
        "9".repeat(19),
        format!("{}1", u64::MAX),
    ]);
    for trick in tricks {
        assert_eq!(
            status(&c, "GET", &format!("{at}/versions/{trick}")).await,
            404,
            "{trick}"
        );
        assert_eq!(
            status(&c, "POST", &format!("{at}/versions/{trick}/restore")).await,
            404,
            "{trick}"
        );
        for query in ["?version=", "/diff?from=", "/diff?to=", "/versions?branch="] {
            let answer = c.get(&format!("{at}{query}{trick}")).await;
            // A branch that is a mere name is one without versions.
            let none = query.contains("branch") && answer.status == 200 && answer.total() == 0;
            assert!(
                [400, 404].contains(&answer.status) || none,
                "{query}{trick}: {answer}"
            );
        }
    }
    assert_eq!(
        c.get(&format!("{at}/versions")).await.expect(200).total(),
        2
    );
}

#[tokio::test]
async fn every_text_beside_the_content_has_its_bound() {
    let (_account, c) = account_with_client().await;
    let at = c.document("1\n").await;
    let versions = format!("{at}/versions");
    let long = |n: usize| "é".repeat(n);
    c.put(&at, json!({"title": long(500)})).await.expect(200);
    c.put(&at, json!({"title": long(501)}))
        .await
        .error(400, "invalid_request", "title");
    c.post(&versions, json!({"content": "", "message": long(500)}))
        .await
        .expect(201);
    c.post(&versions, json!({"content": "", "message": long(501)}))
        .await
        .error(400, "invalid_request", "message");
    let keys = |n: usize| -> Value {
        (0..n)
            .map(|n| (format!("{n}"), json!(n)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    c.put(&at, json!({"metadata": keys(50)})).await.expect(200);
    c.put(&at, json!({"metadata": keys(51)}))
        .await
        .error(400, "invalid_request", "metadata");
    c.put(&at, json!({"metadata": {"k": "x".repeat(16_384)}}))
        .await
        .error(400, "invalid_request", "metadata");
    let deep = format!(
        "{{\"metadata\":{{\"a\":{}{}}}}}",
        "[".repeat(70),
        "]".repeat(70)
    );
    declared(c.call("PUT", &at), deep)
        .await
        .error(400, "invalid_request", "*");
}

#[tokio::test]
async fn the_settings_of_bodies_and_of_the_bin_are_obeyed() {
    let server = Setup::default()
        .env("COLLOQUY__LIMITS__MAX_DOCUMENT_BYTES", "2000")
        .env("COLLOQUY__DOCUMENTS__BIN_DAYS", "0.00001")
        .start();
    let c = server.account().await.test();
    let new = |bytes: usize| json!({"title": "Guide", "content": "x".repeat(bytes)});
    c.post(DOCUMENTS, new(2_001))
        .await
        .error(413, "payload_too_large", "*");
    let at = c
        .post(DOCUMENTS, new(1_000))
        .await
        .expect(201)
        .header("location")
        .to_owned();
    c.delete(&at).await.expect(204);
    let bin = format!("{DOCUMENTS}?deleted=true");
    let emptied = async || (c.get(&bin).await.expect(200).total() == 0).then_some(());
    until("the bin is emptied", Duration::from_secs(30), emptied).await;
    c.call("POST", &format!("{at}/restore"))
        .await
        .error(404, "not_found", "*");
}
