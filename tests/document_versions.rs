//! Versions: the graph, numbers, labels and branches; writers on side lines; restoring.

use serde_json::{Value, json};

use crate::support::documents::id_of;
use crate::support::shapes::{VERSION, assert_id, assert_recent, assert_shape};
use crate::support::{Client, account_with_client};

async fn numbers(c: &Client, path: &str) -> Vec<u64> {
    c.get(path)
        .await
        .expect(200)
        .data()
        .iter()
        .map(|version| version["number"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn a_version_answers_with_every_field() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let first = c.head(&at).await;
    let user = c.user("admin").await;
    let body = json!({"content": "two\n", "message": "a second line", "label": "v1.0_final-b"});
    let made = c.acting_for(&user).version(&at, body).await;
    assert_shape(&made.body, VERSION);
    assert_id(&made["id"], "ver_");
    assert_recent(&made["created_at"]);
    assert_eq!(
        made.header("location"),
        format!("{at}/versions/{}", made.id("id"))
    );
    let expected = json!({
        "id": made["id"], "document_id": id_of(&at), "number": 2, "label": "v1.0_final-b", "branch": "main",
        "parents": [first], "message": "a second line", "author": user, "created_at": made["created_at"],
    });
    assert_eq!(made.body, expected);
    let mut read = c.get(made.header("location")).await.expect(200);
    assert_eq!(read.etag(), format!("\"{}\"", made.id("id")));
    let cached = read.header("cache-control").to_owned();
    assert!(
        cached.contains("immutable") && cached.contains("private"),
        "{cached}"
    );
    assert_eq!(
        read.body.as_object_mut().unwrap().remove("content"),
        Some(json!("two\n"))
    );
    assert_eq!(read.body, expected);
    let first = c.get(&format!("{at}/versions/1")).await.expect(200);
    assert_shape(&first.body, &format!("{VERSION}, content"));
    assert_eq!(
        (&first["parents"], &first["author"], &first["label"]),
        (&json!([]), &Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn a_version_on_the_head_advances_it_even_with_the_same_content() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let before = c.get(&at).await.expect(200);
    let made = c.version(&at, json!({"content": "one\n"})).await;
    let after = c.get(&at).await.expect(200);
    assert_eq!(
        (&after["version"], &after["version_number"]),
        (&made["id"], &json!(2))
    );
    assert_ne!(after.etag(), before.etag());
    for n in 2..6 {
        let head = c.head(&at).await;
        let parent = [
            "head".to_owned(),
            "main".to_owned(),
            n.to_string(),
            head.clone(),
        ][n - 2]
            .clone();
        let next = c
            .version(
                &at,
                json!({"content": format!("after {n}\n"), "parent": parent}),
            )
            .await;
        assert_eq!(
            (&next["branch"], &next["parents"]),
            (&json!("main"), &json!([head])),
            "{parent}"
        );
        assert_eq!(c.head(&at).await, next.id("id"));
    }
    assert_eq!(
        numbers(&c, &format!("{at}/versions")).await,
        [6, 5, 4, 3, 2, 1]
    );
}

#[tokio::test]
async fn a_version_is_read_by_id_number_label_branch_head_and_main() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let labelled = c
        .version(&at, json!({"content": "two\n", "label": "release"}))
        .await
        .id("id");
    c.write(&at, "three\n").await;
    c.branch(&at, "draft", "four\n").await;
    let cases = [
        ("1", "one\n"),
        ("2", "two\n"),
        ("release", "two\n"),
        (labelled.as_str(), "two\n"),
        ("head", "three\n"),
        ("main", "three\n"),
        ("3", "three\n"),
        ("draft", "four\n"),
        ("4", "four\n"),
    ];
    for (name, content) in cases {
        assert_eq!(
            c.get(&format!("{at}/versions/{name}")).await.expect(200)["content"],
            content,
            "{name}"
        );
        let whole = c.get(&format!("{at}?version={name}")).await.expect(200);
        assert_eq!(
            (&whole["content"], &whole["title"]),
            (&json!(content), &json!("Guide")),
            "{name}"
        );
    }
    let tag = async |query: &str| c.get(&format!("{at}{query}")).await.expect(200).etag();
    assert_ne!(
        tag("?version=1").await,
        tag("").await,
        "what shows another text has another tag"
    );
}

#[tokio::test]
async fn a_name_that_no_version_of_the_document_has_is_not_found() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    c.version(&at, json!({"content": "two\n", "label": "release"}))
        .await;
    c.branch(&at, "draft", "four\n").await;
    let other = c.document("other\n").await;
    let foreign = c.head(&other).await;
    let unknown = [
        "0",
        "5",
        "99999999999999999999999999",
        "nothing",
        "Release",
        "HEAD",
        "ver_",
        foreign.as_str(),
        "-1",
        "1.0",
        "%20",
        "%00",
        "ver_0190163d8694739b85d52d5e4a4d6d5f",
        "..",
        "%2e%2e%2f1",
        "a%2fb",
        "1%3b",
        "draft%00",
    ];
    for name in unknown {
        let read = c.get(&format!("{at}/versions/{name}")).await;
        assert_eq!(read.status, 404, "{name}: {read}");
    }
}

#[tokio::test]
async fn a_branch_leaves_the_head_alone_and_goes_on_from_its_tip() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let first = c.head(&at).await;
    let begun = c
        .version(&at, json!({"content": "side\n", "branch": "draft"}))
        .await;
    assert_eq!(
        (&begun["branch"], &begun["parents"]),
        (&json!("draft"), &json!([first]))
    );
    c.write(&at, "two\n").await;
    let next = c
        .version(&at, json!({"content": "side 2\n", "branch": "draft"}))
        .await;
    assert_eq!(
        (&next["branch"], &next["parents"], &next["number"]),
        (&json!("draft"), &json!([begun["id"]]), &json!(4))
    );
    let by_parent = c
        .version(&at, json!({"content": "side 3\n", "parent": next["id"]}))
        .await;
    assert_eq!(
        (&by_parent["branch"], &by_parent["parents"]),
        (&json!("draft"), &json!([next["id"]])),
        "a tip goes on"
    );
    let named = c
        .version(
            &at,
            json!({"content": "off\n", "parent": "1", "branch": "from-one"}),
        )
        .await;
    assert_eq!(
        (&named["branch"], &named["parents"]),
        (&json!("from-one"), &json!([first]))
    );
    let now = c.get(&at).await.expect(200);
    assert_eq!(
        (&now["content"], &now["version_number"]),
        (&json!("two\n"), &json!(3))
    );
    let list = format!("{at}/versions");
    assert_eq!(
        numbers(&c, &format!("{list}?branch=draft")).await,
        [5, 4, 2]
    );
    assert_eq!(numbers(&c, &format!("{list}?branch=from-one")).await, [6]);
    for main in ["main", "head"] {
        assert_eq!(
            numbers(&c, &format!("{list}?branch={main}")).await,
            [3, 1],
            "{main}"
        );
    }
}

#[tokio::test]
async fn a_version_on_an_old_parent_begins_a_line_named_after_itself() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    c.write(&at, "two\n").await;
    let side = c
        .version(&at, json!({"content": "other two\n", "parent": "1"}))
        .await;
    let name = side.id("branch");
    assert_ne!(name, "main");
    let second = c
        .version(&at, json!({"content": "another two\n", "parent": "1"}))
        .await;
    assert_ne!(second["branch"], side["branch"], "two lines, two names");
    assert_eq!(
        c.get(&format!("{at}/versions/{name}")).await.expect(200)["content"],
        "other two\n"
    );
    let next = c
        .version(&at, json!({"content": "other three\n", "branch": name}))
        .await;
    assert_eq!(next["parents"], json!([side["id"]]));
    assert_eq!(c.text(&at).await, "two\n");
}

#[tokio::test]
async fn two_writers_on_side_lines_do_not_see_each_other() {
    let (_account, c) = account_with_client().await;
    let at = c.document("start\n").await;
    let head = c.head(&at).await;
    let writer = async |name: &str| {
        let mut parent = head.clone();
        for n in 0..20 {
            let made = c
                .version(
                    &at,
                    json!({"content": format!("{name} {n}\n"), "branch": name}),
                )
                .await;
            assert_eq!(made["parents"], json!([parent]), "{name} {n}");
            parent = made.id("id");
            assert_eq!(
                c.get(&format!("{at}/versions/{name}")).await.expect(200)["content"],
                format!("{name} {n}\n")
            );
        }
    };
    futures_util::future::join(writer("ada"), writer("bob")).await;
    assert_eq!(c.head(&at).await, head);
    assert_eq!(
        c.get(&format!("{at}/versions?limit=1"))
            .await
            .expect(200)
            .total(),
        41
    );
    for name in ["ada", "bob"] {
        assert_eq!(
            c.get(&format!("{at}/versions?branch={name}&limit=1"))
                .await
                .expect(200)
                .total(),
            20
        );
    }
}

#[tokio::test]
async fn restoring_a_version_makes_a_new_head_of_its_content() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    c.write(&at, "two\n").await;
    let head = c.head(&at).await;
    let made = c
        .post(
            &format!("{at}/versions/1/restore"),
            json!({"message": "back to one"}),
        )
        .await
        .expect(201);
    assert_shape(&made.body, VERSION);
    assert_eq!(
        (&made["number"], &made["parents"], &made["message"]),
        (&json!(3), &json!([head]), &json!("back to one"))
    );
    let now = c.get(&at).await.expect(200);
    assert_eq!(
        (&now["content"], &now["version"]),
        (&json!("one\n"), &made["id"])
    );
    assert_eq!(
        c.call("POST", &format!("{at}/versions/head/restore"))
            .await
            .expect(201)["number"],
        4
    );
    c.call("POST", &format!("{at}/versions/9/restore"))
        .await
        .error(404, "not_found", "*");
    let other = c.document("other\n").await;
    let foreign = c.head(&other).await;
    c.call("POST", &format!("{at}/versions/{foreign}/restore"))
        .await
        .error(404, "not_found", "*");
}

#[tokio::test]
async fn labels_and_branches_are_names_that_are_taken_once() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let list = format!("{at}/versions");
    c.version(&at, json!({"content": "two\n", "label": "release"}))
        .await;
    c.branch(&at, "draft", "side\n").await;
    for (body, field) in [
        (json!({"content": "x", "label": "release"}), "label"),
        (json!({"content": "x", "label": "draft"}), "label"),
        (json!({"content": "x", "branch": "release"}), "branch"),
    ] {
        c.post(&list, body).await.error(409, "conflict", field);
    }
    let other = c.document("other\n").await;
    c.version(
        &other,
        json!({"content": "x", "label": "release", "branch": "draft"}),
    )
    .await;
    assert_eq!(c.get(&list).await.expect(200).total(), 3);
}

#[tokio::test]
async fn a_branch_goes_on_only_from_its_tip() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let old = c.branch(&at, "draft", "side\n").await;
    c.branch(&at, "draft", "side 2\n").await;
    c.write(&at, "two\n").await;
    for (parent, branch) in [(old.as_str(), "draft"), ("1", "draft"), ("1", "main")] {
        let body = json!({"content": "x", "parent": parent, "branch": branch});
        c.post(&format!("{at}/versions"), body)
            .await
            .error(409, "conflict", "*");
    }
    assert_eq!(
        c.get(&format!("{at}/versions")).await.expect(200).total(),
        4
    );
}

#[tokio::test]
async fn every_bad_field_of_a_version_is_refused_by_name() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let other = c.document("other\n").await;
    let foreign = c.head(&other).await;
    let mut cases = vec![
        (json!({}), "content"),
        (json!({"content": "a\u{0}"}), "content"),
        (json!({"content": null}), "content"),
        (json!({"content": "x", "parent": foreign}), "parent"),
        (json!({"content": "x", "parent": "9"}), "parent"),
        (json!({"content": "x", "parent": "nothing"}), "parent"),
        (json!({"content": "x", "parent": "../1"}), "parent"),
        (json!({"content": "x", "parent": 1}), "parent"),
        (json!({"content": "x", "message": 7}), "message"),
        (json!({"content": "x", "number": 7}), "number"),
        (json!({"content": "x", "branch": "head"}), "branch"),
        (json!({"content": "x", "parent": "01"}), "parent"),
    ];
    let long = "a".repeat(101);
    for name in [
        "",
        "12",
        "head",
        "main",
        "ver_1",
        "a b",
        "a/b",
        "../x",
        ".",
        "..",
        "ü",
        "a\u{0}",
        long.as_str(),
    ] {
        cases.push((json!({"content": "x", "label": name}), "label"));
        if name != "main" {
            cases.push((json!({"content": "x", "branch": name}), "branch"));
        }
    }
    for (body, field) in cases {
        c.post(&format!("{at}/versions"), body)
            .await
            .error(400, "invalid_request", field);
    }
    assert_eq!(
        c.get(&format!("{at}/versions")).await.expect(200).total(),
        1
    );
    for name in [
        "a".repeat(100),
        "...".to_owned(),
        "1a".to_owned(),
        "Head".to_owned(),
        "-".to_owned(),
    ] {
        let made = c.version(&at, json!({"content": "x", "label": name})).await;
        assert_eq!(made["label"], name.as_str());
    }
}

#[tokio::test]
async fn the_list_of_versions_takes_cursors_and_refuses_what_it_does_not_know() {
    let (_account, c) = account_with_client().await;
    let at = c.document("0\n").await;
    for n in 1..25 {
        c.write(&at, &format!("{n}\n")).await;
    }
    let list = format!("{at}/versions");
    let first = c.get(&list).await.expect(200);
    assert_shape(&first["data"][0], VERSION);
    assert_eq!(
        first.body["meta"],
        json!({"total": 25, "limit": 20, "offset": 0})
    );
    let (mut found, mut next) = (Vec::new(), Some(format!("{list}?limit=4")));
    while let Some(path) = next {
        let page = c.get(&path).await.expect(200);
        found.extend(
            page.data()
                .iter()
                .map(|version| version["number"].as_u64().unwrap()),
        );
        next = page.link("next");
        assert!(found.len() <= 25, "no end");
    }
    assert_eq!(found, (1..=25).rev().collect::<Vec<u64>>());
    let tenth = c.get(&format!("{list}/10")).await.expect(200).id("id");
    assert_eq!(
        numbers(&c, &format!("{list}?limit=2&after={tenth}")).await,
        [9, 8]
    );
    assert_eq!(
        numbers(&c, &format!("{list}?limit=2&before={tenth}")).await,
        [12, 11]
    );
    assert_eq!(
        numbers(&c, &format!("{list}?limit=2&order=asc&after={tenth}")).await,
        [11, 12]
    );
    assert_eq!(
        numbers(&c, &format!("{list}?limit=2&offset=20")).await,
        [5, 4]
    );
    for (query, field) in [
        ("limit=0", "limit"),
        ("after=x", "after"),
        ("label=x", "label"),
        ("branch=../x", "branch"),
    ] {
        c.get(&format!("{list}?{query}"))
            .await
            .error(400, "invalid_request", field);
    }
    let other = c.document("other\n").await;
    let foreign = c.head(&other).await;
    c.get(&format!("{list}?after={foreign}"))
        .await
        .error(400, "invalid_request", "after");
}

#[tokio::test]
async fn a_version_that_is_none_is_404_in_a_path_and_400_in_a_query() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    for name in ["9", "01", "nothing", "ver_1"] {
        c.get(&format!("{at}/versions/{name}"))
            .await
            .error(404, "not_found", "*");
        c.get(&format!("{at}?version={name}"))
            .await
            .error(400, "invalid_request", "version");
        c.get(&format!("{at}/diff?from={name}"))
            .await
            .error(400, "invalid_request", "from");
    }
    c.get(&format!("{at}/versions?branch=nothing"))
        .await
        .error(400, "invalid_request", "branch");
}

#[tokio::test]
async fn a_label_is_never_the_name_of_the_branch_that_it_comes_with() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let versions = format!("{at}/versions");
    let both = json!({"content": "two\n", "branch": "rel", "label": "rel"});
    c.post(&versions, both)
        .await
        .error(409, "conflict", "label");
    c.write(&at, "two\n").await;
    let unnamed = c
        .version(
            &at,
            json!({"content": "three\n", "parent": "1", "label": "v3"}),
        )
        .await;
    assert_eq!(
        (&unnamed["label"], &unnamed["branch"]),
        (&json!("v3"), &json!("v3-2"))
    );
}
