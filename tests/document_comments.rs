//! Comments: anchored to lines, they follow them or are marked outdated; open or resolved; whose
//! words they are.

use serde_json::{Value, json};

use crate::support::shapes::{COMMENT, assert_id, assert_recent, assert_shape};
use crate::support::{Answer, Client, account_with_client};

const TEXT: &str = "1\n2\n3\n4\n5\n6\n";

async fn comment(c: &Client, at: &str, start: u64, end: u64) -> Answer {
    let body =
        json!({"start_line": start, "end_line": end, "body": format!("on {start} to {end}")});
    c.post(&format!("{at}/comments"), body).await.expect(201)
}

/// The comment as it stands now.
async fn now(c: &Client, at: &str, made: &Answer) -> Value {
    let list = c.get(&format!("{at}/comments?limit=100")).await.expect(200);
    let found = list
        .data()
        .iter()
        .find(|one| one["comment_id"] == made["comment_id"])
        .cloned();
    found.unwrap_or_else(|| panic!("it is gone: {list}"))
}

#[tokio::test]
async fn a_comment_answers_with_every_field() {
    let (_account, c) = account_with_client().await;
    let user = c.user("admin").await;
    let at = c.document(TEXT).await;
    let made = c
        .acting_for(&user)
        .post(
            &format!("{at}/comments"),
            json!({"start_line": 2, "body": "Why? 🎈"}),
        )
        .await
        .expect(201);
    assert_shape(&made.body, COMMENT);
    assert_id(&made["comment_id"], "cmt_");
    assert_recent(&made["created_at"]);
    let expected = json!({
        "comment_id": made["comment_id"], "version": c.head(&at).await, "start_line": 2, "end_line": 2,
        "body": "Why? 🎈", "author": user, "resolved": false, "outdated": false,
        "created_at": made["created_at"], "updated_at": made["created_at"],
    });
    assert_eq!(made.body, expected);
    assert_eq!(
        made.header("location"),
        format!("{at}/comments/{}", made.id("comment_id"))
    );
    let second = comment(&c, &at, 1, 6).await;
    assert!(
        second["author"].is_null(),
        "the account's key has no user: {second}"
    );
    let list = c.get(&format!("{at}/comments")).await.expect(200);
    assert_eq!(
        (list.data(), list.total()),
        (&vec![second.body, made.body], 2),
        "newest first"
    );
}

#[tokio::test]
async fn a_comment_follows_its_lines() {
    let (_account, c) = account_with_client().await;
    let at = c.document(TEXT).await;
    let made = comment(&c, &at, 3, 4).await;
    for (text, start, end) in [
        ("0\n1\n2\n3\n4\n5\n6\n", 4, 5),
        ("3\n4\n5\n6\n", 1, 2),
        ("a\nb\n3\n4\nsix\n", 3, 4),
        ("a\nb\nbefore\n3\n4\nbehind\nsix\n", 4, 5),
    ] {
        let head = c.write(&at, text).await;
        let moved = now(&c, &at, &made).await;
        assert_eq!(
            (&moved["start_line"], &moved["end_line"]),
            (&json!(start), &json!(end)),
            "in {text:?}"
        );
        assert_eq!(
            (&moved["version"], &moved["outdated"]),
            (&json!(head), &json!(false))
        );
        assert_eq!(
            (&moved["body"], &moved["created_at"]),
            (&made["body"], &made["created_at"])
        );
    }
}

#[tokio::test]
async fn a_comment_whose_lines_change_is_outdated_and_keeps_its_place() {
    let (_account, c) = account_with_client().await;
    for text in [
        "1\n2\nthree\n4\n5\n6\n",
        "1\n2\n5\n6\n",
        "1\n2\n3\nbetween\n4\n5\n6\n",
        "",
    ] {
        let at = c.document(TEXT).await;
        let version = c.head(&at).await;
        let made = comment(&c, &at, 3, 4).await;
        let beside = comment(&c, &at, 1, 1).await;
        c.write(&at, text).await;
        let stays = now(&c, &at, &made).await;
        assert_eq!(
            (&stays["outdated"], &stays["version"]),
            (&json!(true), &json!(version)),
            "in {text:?}"
        );
        assert_eq!(
            (&stays["start_line"], &stays["end_line"]),
            (&json!(3), &json!(4))
        );
        assert_eq!(
            now(&c, &at, &beside).await["outdated"],
            text.is_empty(),
            "in {text:?}"
        );
        c.write(&at, TEXT).await;
        assert_eq!(
            now(&c, &at, &made).await["outdated"],
            true,
            "what was outdated stays so"
        );
    }
}

#[tokio::test]
async fn a_comment_follows_through_restoring_and_merging_and_side_lines_leave_it_alone() {
    let (_account, c) = account_with_client().await;
    let at = c.document(TEXT).await;
    let made = comment(&c, &at, 5, 6).await;
    c.branch(&at, "side", "0\n1\n2\n3\n4\n5\n6\n").await;
    assert_eq!(now(&c, &at, &made).await["start_line"], 5);
    c.post(&format!("{at}/merge"), json!({"source": "side"}))
        .await
        .expect(201);
    assert_eq!(now(&c, &at, &made).await["start_line"], 6);
    c.call("POST", &format!("{at}/versions/1/restore"))
        .await
        .expect(201);
    let back = now(&c, &at, &made).await;
    assert_eq!(
        (&back["start_line"], &back["version"]),
        (&json!(5), &json!(c.head(&at).await))
    );
}

#[tokio::test]
async fn a_comment_can_be_on_an_older_version_or_a_side_line() {
    let (_account, c) = account_with_client().await;
    let at = c.document(TEXT).await;
    let first = c.head(&at).await;
    let side = c.branch(&at, "side", "only one\n").await;
    c.write(&at, "x\n").await;
    for (name, id, last) in [
        ("1", &first, 6),
        ("side", &side, 1),
        (first.as_str(), &first, 6),
    ] {
        let body = json!({"version": name, "start_line": last, "body": "there"});
        let made = c.post(&format!("{at}/comments"), body).await.expect(201);
        assert_eq!(
            (&made["version"], &made["start_line"]),
            (&json!(id), &json!(last))
        );
        let beyond = json!({"version": name, "start_line": last + 1, "body": "there"});
        c.post(&format!("{at}/comments"), beyond)
            .await
            .error(400, "invalid_request", "start_line");
    }
}

#[tokio::test]
async fn every_bad_field_of_a_comment_is_refused_by_name() {
    let (_account, c) = account_with_client().await;
    let at = c.document(TEXT).await;
    let other = c.document("other\n").await;
    let foreign = c.head(&other).await;
    let long = "a".repeat(65_537);
    let cases = [
        (json!({"body": "x"}), "start_line"),
        (json!({"start_line": 0, "body": "x"}), "start_line"),
        (json!({"start_line": -1, "body": "x"}), "start_line"),
        (json!({"start_line": 1.5, "body": "x"}), "start_line"),
        (json!({"start_line": 7, "body": "x"}), "start_line"),
        (
            json!({"start_line": 3, "end_line": 2, "body": "x"}),
            "end_line",
        ),
        (
            json!({"start_line": 3, "end_line": 7, "body": "x"}),
            "end_line",
        ),
        (json!({"start_line": 1}), "body"),
        (json!({"start_line": 1, "body": ""}), "body"),
        (json!({"start_line": 1, "body": "a\u{0}"}), "body"),
        (json!({"start_line": 1, "body": long}), "body"),
        (
            json!({"start_line": 1, "body": "x", "version": foreign}),
            "version",
        ),
        (
            json!({"start_line": 1, "body": "x", "version": "9"}),
            "version",
        ),
        (
            json!({"start_line": 1, "body": "x", "resolved": true}),
            "resolved",
        ),
    ];
    for (body, field) in cases {
        c.post(&format!("{at}/comments"), body)
            .await
            .error(400, "invalid_request", field);
    }
    assert_eq!(
        c.get(&format!("{at}/comments")).await.expect(200).total(),
        0
    );
    let empty = c.document("").await;
    let body = json!({"start_line": 1, "body": "x"});
    c.post(&format!("{empty}/comments"), body)
        .await
        .error(400, "invalid_request", "start_line");
}

#[tokio::test]
async fn comments_are_resolved_reopened_and_listed_by_it() {
    let (_account, c) = account_with_client().await;
    let at = c.document(TEXT).await;
    let (one, two) = (comment(&c, &at, 1, 1).await, comment(&c, &at, 2, 2).await);
    let path = one.header("location");
    let done = c.patch(path, json!({"resolved": true})).await.expect(200);
    assert_shape(&done.body, COMMENT);
    assert_eq!(
        (&done["resolved"], &done["body"]),
        (&json!(true), &one["body"])
    );
    let events = async || {
        c.get("/v1/events?after=0&event=document.commented&limit=1")
            .await
            .total()
    };
    assert_eq!(events().await, 3);
    for body in [
        json!({}),
        json!({"resolved": true}),
        json!({"body": one["body"]}),
    ] {
        assert_eq!(c.patch(path, body).await.expect(200).body, done.body);
    }
    assert_eq!(events().await, 3, "nothing changed");
    for (query, expected) in [("resolved=true", &one), ("resolved=false", &two)] {
        let list = c.get(&format!("{at}/comments?{query}")).await.expect(200);
        assert_eq!(
            (list.column("comment_id"), list.total()),
            (vec![expected.id("comment_id")], 1),
            "{query}"
        );
    }
    assert_eq!(
        c.patch(path, json!({"resolved": false})).await.expect(200)["resolved"],
        false
    );
    for (body, field) in [
        (json!({"resolved": "no"}), "resolved"),
        (json!({"start_line": 2}), "start_line"),
        (json!({"body": ""}), "body"),
    ] {
        c.patch(path, body)
            .await
            .error(400, "invalid_request", field);
    }
}

#[tokio::test]
async fn words_are_changed_and_taken_away_by_who_wrote_them_or_the_owner() {
    let (_account, c) = account_with_client().await;
    let at = c.document(TEXT).await;
    let (ada, bob) = (c.user("agent").await, c.user("agent").await);
    for (user, role) in [(&ada, "commenter"), (&bob, "editor")] {
        c.post(
            &format!("{at}/collaborators"),
            json!({"user_id": user, "role": role}),
        )
        .await
        .expect(201);
    }
    let (ada, bob) = (c.acting_for(&ada), c.acting_for(&bob));
    let made = comment(&ada, &at, 1, 2).await;
    let path = made.header("location");
    let changed = ada
        .patch(path, json!({"body": "better words"}))
        .await
        .expect(200);
    assert_eq!(
        (&changed["body"], &changed["author"]),
        (&json!("better words"), &made["author"])
    );
    bob.patch(path, json!({"body": "bob's words"}))
        .await
        .error(403, "forbidden", "*");
    bob.delete(path).await.error(403, "forbidden", "*");
    assert_eq!(
        bob.patch(path, json!({"resolved": true})).await.expect(200)["resolved"],
        true
    );
    let by_owner = c
        .patch(path, json!({"body": "moderated"}))
        .await
        .expect(200);
    assert_eq!(
        (&by_owner["body"], &by_owner["author"]),
        (&json!("moderated"), &made["author"])
    );
    ada.delete(path).await.expect(204);
    ada.delete(path).await.error(404, "not_found", "*");
    ada.patch(path, json!({"resolved": false}))
        .await
        .error(404, "not_found", "*");
    let bobs = comment(&bob, &at, 1, 1).await;
    ada.delete(bobs.header("location"))
        .await
        .error(403, "forbidden", "*");
    c.delete(bobs.header("location")).await.expect(204);
    assert_eq!(
        c.get(&format!("{at}/comments")).await.expect(200).total(),
        0
    );
}

#[tokio::test]
async fn a_comment_of_another_document_is_404() {
    let (_account, c) = account_with_client().await;
    let (at, other) = (c.document(TEXT).await, c.document(TEXT).await);
    let id = comment(&c, &other, 1, 1).await.id("comment_id");
    for id in [
        id.as_str(),
        "cmt_0190163d8694739b85d52d5e4a4d6d5f",
        "nonsense",
        "%2e%2e",
    ] {
        c.patch(&format!("{at}/comments/{id}"), json!({"resolved": true}))
            .await
            .error(404, "not_found", "*");
        c.delete(&format!("{at}/comments/{id}"))
            .await
            .error(404, "not_found", "*");
    }
    assert_eq!(
        c.get(&format!("{other}/comments"))
            .await
            .expect(200)
            .total(),
        1
    );
}

#[tokio::test]
async fn comments_are_listed_by_the_page() {
    let (_account, c) = account_with_client().await;
    let at = c.document(TEXT).await;
    let mut ids = Vec::new();
    for n in 0..7 {
        ids.push(comment(&c, &at, n % 6 + 1, 6).await.id("comment_id"));
    }
    let (mut found, mut next) = (Vec::new(), Some(format!("{at}/comments?limit=3&order=asc")));
    while let Some(path) = next {
        let page = c.get(&path).await.expect(200);
        assert_eq!(page.total(), 7);
        found.extend(page.column("comment_id"));
        next = page.link("next");
        assert!(found.len() <= 7, "no end");
    }
    assert_eq!(found, ids);
    for (query, field) in [
        ("limit=0", "limit"),
        ("resolved=maybe", "resolved"),
        ("author=x", "author"),
    ] {
        c.get(&format!("{at}/comments?{query}"))
            .await
            .error(400, "invalid_request", field);
    }
}
