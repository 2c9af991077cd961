//! Who may do what: every route for every role; permission sets; ownership, which is never nobody's
//! once it was somebody's.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::documents::DOCUMENTS;
use crate::support::shapes::{COLLABORATOR, PERMISSIONS, assert_recent, assert_shape};
use crate::support::{Account, Answer, Client, account, account_with_client};

/// Roles in the order of what they may.
const VIEWER: usize = 1;
const COMMENTER: usize = 2;
const EDITOR: usize = 3;
const OWNER: usize = 4;

/// One way to ask: the method, the path below the document, the body (null: none), the least role,
/// the status that enough of a role gets. In paths, `{share}`, `{comment}` and `{viewer}` stand for
/// what the document has.
type Route = (&'static str, &'static str, Value, usize, u16);

fn routes() -> Vec<Route> {
    [
        routes_of_the_text(),
        routes_of_people_and_links(),
        routes_of_comments(),
    ]
    .concat()
}

fn routes_of_the_text() -> Vec<Route> {
    let new = || json!({"content": "new\n"});
    let on_a_side_line = json!({"content": "new\n", "branch": "another"});
    let dry_run = json!({"source": "side", "dry_run": true});
    vec![
        ("GET", "", Value::Null, VIEWER, 200),
        ("HEAD", "", Value::Null, VIEWER, 200),
        ("GET", "?version=1", Value::Null, VIEWER, 200),
        ("PUT", "", new(), EDITOR, 200),
        ("PUT", "", json!({"title": "New"}), EDITOR, 200),
        ("PUT", "", json!({}), EDITOR, 200),
        ("DELETE", "", Value::Null, OWNER, 204),
        ("DELETE", "?permanent=true", Value::Null, OWNER, 204),
        ("POST", "/restore", Value::Null, OWNER, 200),
        ("GET", "/versions", Value::Null, VIEWER, 200),
        ("POST", "/versions", new(), EDITOR, 201),
        ("POST", "/versions", on_a_side_line, EDITOR, 201),
        ("GET", "/versions/1", Value::Null, VIEWER, 200),
        ("GET", "/versions/side", Value::Null, VIEWER, 200),
        ("POST", "/versions/1/restore", Value::Null, EDITOR, 201),
        ("POST", "/merge", json!({"source": "side"}), EDITOR, 201),
        ("POST", "/merge", dry_run, EDITOR, 200),
        ("GET", "/diff?from=1&to=side", Value::Null, VIEWER, 200),
        ("GET", "/activity", Value::Null, VIEWER, 200),
    ]
}

fn routes_of_people_and_links() -> Vec<Route> {
    let (list, one) = ("/collaborators", "/collaborators/{viewer}");
    let viewer = json!({"user_id": "{new}", "role": "viewer"});
    let everybody = json!({"visibility": "account"});
    let another_owner = json!({"transfer_owner_to": "{new}"});
    vec![
        ("GET", list, Value::Null, VIEWER, 200),
        ("POST", list, viewer, OWNER, 201),
        ("PUT", one, json!({"role": "editor"}), OWNER, 200),
        ("DELETE", one, Value::Null, OWNER, 204),
        ("GET", "/permissions", Value::Null, OWNER, 200),
        ("PUT", "/permissions", everybody, OWNER, 200),
        ("PUT", "/permissions", another_owner, OWNER, 200),
        ("POST", "/share", json!({}), OWNER, 201),
        ("GET", "/share", Value::Null, OWNER, 200),
        ("DELETE", "/share/{share}", Value::Null, OWNER, 204),
    ]
}

fn routes_of_comments() -> Vec<Route> {
    let (list, one) = ("/comments", "/comments/{comment}");
    let new = json!({"start_line": 1, "body": "hm"});
    let words = json!({"body": "other words"});
    vec![
        ("GET", list, Value::Null, VIEWER, 200),
        ("POST", list, new, COMMENTER, 201),
        ("PATCH", one, json!({"resolved": true}), COMMENTER, 200),
        ("PATCH", one, words, OWNER, 200),
        ("DELETE", one, Value::Null, OWNER, 204),
    ]
}

/// The people around every document of these tests.
struct People {
    owner: String,
    editor: String,
    commenter: String,
    viewer: String,
    stranger: String,
    admin: String,
}

impl People {
    async fn gather(c: &Client) -> Self {
        Self {
            owner: c.user("agent").await,
            editor: c.user("agent").await,
            commenter: c.user("agent").await,
            viewer: c.user("agent").await,
            stranger: c.user("agent").await,
            admin: c.user("admin").await,
        }
    }

    /// Who asks, and as what.
    fn callers(&self, c: &Client) -> Vec<(&'static str, Client, usize)> {
        vec![
            ("the owner", c.acting_for(&self.owner), OWNER),
            ("an editor", c.acting_for(&self.editor), EDITOR),
            ("a commenter", c.acting_for(&self.commenter), COMMENTER),
            ("a viewer", c.acting_for(&self.viewer), VIEWER),
            (
                "an agent who is a stranger",
                c.acting_for(&self.stranger),
                0,
            ),
            ("an administrator", c.acting_for(&self.admin), OWNER),
            ("the account's key", c.clone(), OWNER),
        ]
    }

    fn collaborators(&self) -> Value {
        json!([
            {"user_id": self.editor, "role": "editor"},
            {"user_id": self.commenter, "role": "commenter"},
            {"user_id": self.viewer, "role": "viewer"},
        ])
    }

    /// The owner's document with a side line, a comment and a link: its path, and what stands in it
    /// by name.
    async fn document(&self, c: &Client) -> (String, Vec<(&'static str, String)>) {
        let owner = c.acting_for(&self.owner);
        let at = owner.document("one\n").await;
        owner
            .put(
                &format!("{at}/permissions"),
                json!({"collaborators": self.collaborators()}),
            )
            .await
            .expect(200);
        owner.branch(&at, "side", "one\ntwo\n").await;
        let comment = owner
            .post(
                &format!("{at}/comments"),
                json!({"start_line": 1, "body": "why?"}),
            )
            .await
            .expect(201);
        let (share, _) = owner.share(&at, json!({})).await;
        let names = vec![
            ("{comment}", comment.id("comment_id")),
            ("{share}", share),
            ("{viewer}", self.viewer.clone()),
            ("{new}", self.stranger.clone()),
        ];
        (at, names)
    }
}

async fn asked(caller: &Client, at: &str, route: &Route, names: &[(&str, String)]) -> Answer {
    let (method, below, body, ..) = route;
    let (mut path, mut body) = (format!("{at}{below}"), body.to_string());
    for (name, value) in names {
        path = path.replace(name, value);
        body = body.replace(name, value);
    }
    let call = caller.call(method, &path);
    if body == "null" {
        call.await
    } else {
        call.bytes(body)
            .with("content-type", "application/json")
            .await
    }
}

#[tokio::test]
async fn every_role_may_do_on_every_route_what_the_table_says() {
    let (_account, c) = account_with_client().await;
    let people = People::gather(&c).await;
    for route in routes() {
        let (method, below, _, least, status) = &route;
        let cases = people.callers(&c).into_iter().map(|(who, caller, role)| {
            let (people, c, route) = (&people, &c, &route);
            async move {
                let (at, names) = people.document(c).await;
                let answer = asked(&caller, &at, route, &names).await;
                let expected = match role {
                    0 => 404,
                    role if role < *least => 403,
                    _ => *status,
                };
                assert_eq!(answer.status, expected, "{who}: {method} {below}: {answer}");
                if expected == 404 && *method != "HEAD" {
                    answer.error(404, "not_found", "*");
                } else if expected == 403 {
                    answer.error(403, "forbidden", "*");
                }
            }
        });
        join_all(cases).await;
    }
}

#[tokio::test]
async fn what_was_refused_changed_nothing() {
    let (_account, c) = account_with_client().await;
    let people = People::gather(&c).await;
    let (at, names) = people.document(&c).await;
    let before = c.get(&at).await.expect(200);
    let activity = c.get(&format!("{at}/activity")).await.expect(200).total();
    for (_, caller, role) in people.callers(&c) {
        for route in routes() {
            if role < route.3 {
                asked(&caller, &at, &route, &names).await;
            }
        }
    }
    let after = c.get(&at).await.expect(200);
    assert_eq!((after.etag(), after.body), (before.etag(), before.body));
    assert_eq!(
        c.get(&format!("{at}/activity")).await.expect(200).total(),
        activity
    );
}

#[tokio::test]
async fn restoring_from_the_bin_is_the_owners() {
    let (_account, c) = account_with_client().await;
    let people = People::gather(&c).await;
    for (who, caller, role) in people.callers(&c) {
        let (at, _) = people.document(&c).await;
        c.delete(&at).await.expect(204);
        let status = caller.call("POST", &format!("{at}/restore")).await.status;
        let expected = match role {
            OWNER => 200,
            0 => 404,
            _ => 403,
        };
        assert_eq!(status, expected, "{who}");
        let bin = caller
            .get(&format!("{DOCUMENTS}?deleted=true&limit=100"))
            .await
            .expect(200);
        assert!(role > 0 || bin.total() == 0, "{who} sees {bin}");
    }
}

#[tokio::test]
async fn a_key_of_a_user_has_that_users_role() {
    let account = account().await;
    let c = account.test();
    let people = People::gather(&c).await;
    let (at, _) = people.document(&c).await;
    let as_user = async |user: &str| {
        account
            .key(json!({"type": "test", "name": "user's", "user_id": user}))
            .await
            .0
    };
    let viewer = as_user(&people.viewer).await;
    assert_eq!(viewer.get(&at).await.expect(200)["role"], "viewer");
    viewer
        .put(&at, json!({"title": "x"}))
        .await
        .error(403, "forbidden", "*");
    as_user(&people.stranger)
        .await
        .get(&at)
        .await
        .error(404, "not_found", "*");
    assert_eq!(
        as_user(&people.admin).await.get(&at).await.expect(200)["role"],
        "owner"
    );
    let editor = as_user(&people.editor).await;
    let changed = editor
        .put(&at, json!({"content": "by the editor\n"}))
        .await
        .expect(200);
    assert_eq!(changed["updated_by"], people.editor.as_str());
    assert_eq!(
        c.get(&format!("{at}/versions/head")).await.expect(200)["author"],
        people.editor.as_str()
    );
}

async fn permissions(c: &Client, at: &str) -> Answer {
    c.get(&format!("{at}/permissions")).await.expect(200)
}

#[tokio::test]
async fn a_new_document_is_its_makers_alone() {
    let (_account, c) = account_with_client().await;
    let user = c.user("agent").await;
    let of_user = permissions(&c, &c.acting_for(&user).document("x").await).await;
    assert_shape(&of_user.body, PERMISSIONS);
    let expected = |owner: Value| {
        json!({
            "visibility": "private", "default_role": "viewer", "owner_id": owner, "collaborators": [],
            "link_sharing": true,
        })
    };
    assert_eq!(of_user.body, expected(json!(user)));
    assert_eq!(
        permissions(&c, &c.document("x").await).await.body,
        expected(Value::Null)
    );
}

#[tokio::test]
async fn a_permission_set_is_replaced_at_once_and_what_is_left_out_stays() {
    let (_account, c) = account_with_client().await;
    let people = People::gather(&c).await;
    let (at, _) = people.document(&c).await;
    let set = async |body: Value| c.put(&format!("{at}/permissions"), body).await;
    let before = permissions(&c, &at).await.body;
    assert_eq!(before["collaborators"].as_array().map(Vec::len), Some(3));
    for one in before["collaborators"].as_array().unwrap() {
        assert_shape(one, COLLABORATOR);
        assert!(
            one["email"]
                .as_str()
                .is_some_and(|email| email.contains('@')),
            "{one}"
        );
        assert_recent(&one["added_at"]);
    }
    let mut expected = before.clone();
    expected["default_role"] = json!("editor");
    assert_eq!(
        set(json!({"default_role": "editor"}))
            .await
            .expect(200)
            .body,
        expected
    );
    assert_eq!(permissions(&c, &at).await.body, expected);
    let swapped = json!([{"user_id": people.viewer, "role": "editor"}, {"user_id": people.stranger, "role": "viewer"}]);
    set(json!({"collaborators": swapped})).await.expect(200);
    let roles = [
        (&people.editor, 404),
        (&people.commenter, 404),
        (&people.viewer, 200),
        (&people.stranger, 200),
    ];
    for (user, status) in roles {
        assert_eq!(c.acting_for(user).get(&at).await.status, status);
    }
    c.acting_for(&people.viewer)
        .put(&at, json!({"title": "New"}))
        .await
        .expect(200);
    let events = async || {
        c.get("/v1/events?after=0&event=document.permissions_updated&limit=1")
            .await
            .total()
    };
    let count = events().await;
    set(json!({})).await.expect(200);
    set(json!({"collaborators": swapped, "default_role": "editor", "link_sharing": true}))
        .await
        .expect(200);
    assert_eq!(events().await, count, "nothing changed");
    set(json!({"collaborators": []})).await.expect(200);
    c.acting_for(&people.viewer)
        .get(&at)
        .await
        .error(404, "not_found", "*");
    assert_eq!(events().await, count + 1);
}

#[tokio::test]
async fn the_permission_set_has_a_tag_of_its_own() {
    let (_account, c) = account_with_client().await;
    let people = People::gather(&c).await;
    let (at, _) = people.document(&c).await;
    let set = format!("{at}/permissions");
    let first = permissions(&c, &at).await.etag();
    c.put(&at, json!({"title": "New"})).await.expect(200);
    c.get(&set).with("if-none-match", &first).await.expect(304);
    let second = c
        .put(&set, json!({"default_role": "editor"}))
        .with("if-match", &first)
        .await
        .expect(200)
        .etag();
    assert_ne!(first, second);
    assert_eq!(permissions(&c, &at).await.etag(), second);
    c.put(&set, json!({"default_role": "viewer"}))
        .with("if-match", &first)
        .await
        .error(412, "precondition_failed", "*");
    let document = c.get(&at).await.expect(200).etag();
    c.put(&set, json!({"visibility": "account"}))
        .with("if-match", &document)
        .await
        .error(412, "precondition_failed", "*");
    c.patch(
        &format!("/v1/users/{}", people.viewer),
        json!({"email": "else@example.com"}),
    )
    .await
    .expect(200);
    let third = permissions(&c, &at).await.etag();
    assert_ne!(second, third, "it shows e-mail addresses");
    c.put(&set, json!({"default_role": "viewer"}))
        .with("if-match", &second)
        .await
        .error(412, "precondition_failed", "*");
    c.put(&set, json!({"default_role": "viewer"}))
        .with("if-match", &format!("\"x\", {third}"))
        .await
        .expect(200);
}

/// Makes something below a document and changes it by this method; with the tag that it had before
/// the change, nothing more is done to it, and with the one after it, it can be taken away.
async fn assert_guarded(
    c: &Client,
    made: Answer,
    method: &str,
    [change, back]: [Value; 2],
) -> String {
    let one = made.header("location").to_owned();
    let ask = |body: &Value, tag: &str| {
        c.call(method, &one)
            .bytes(body.to_string())
            .with("content-type", "application/json")
            .with("if-match", tag)
    };
    let changed = ask(&change, &made.etag()).await.expect(200);
    ask(&back, &made.etag())
        .await
        .error(412, "precondition_failed", "*");
    let delete = |tag: &str| c.delete(&one).with("if-match", tag);
    delete(&made.etag())
        .await
        .error(412, "precondition_failed", "*");
    delete(&changed.etag()).await.expect(204);
    one
}

#[tokio::test]
async fn collaborators_links_and_comments_are_changed_only_as_they_were_read() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let viewer = json!({"user_id": c.user("agent").await, "role": "viewer"});
    let made = c.post(&format!("{at}/collaborators"), viewer).await;
    let roles = [json!({"role": "editor"}), json!({"role": "viewer"})];
    let gone = assert_guarded(&c, made.expect(201), "PUT", roles).await;
    c.delete(&gone)
        .with("if-match", "\"x\"")
        .await
        .error(404, "not_found", "*");

    let comment = json!({"body": "hm", "start_line": 1});
    let made = c.post(&format!("{at}/comments"), comment).await;
    let states = [json!({"resolved": true}), json!({"resolved": false})];
    assert_guarded(&c, made.expect(201), "PATCH", states).await;

    let made = c.post(&format!("{at}/share"), json!({})).await.expect(201);
    let one = made.header("location").to_owned();
    c.delete(&one)
        .with("if-match", "\"x\"")
        .await
        .error(412, "precondition_failed", "*");
    c.delete(&one)
        .with("if-match", &made.etag())
        .await
        .expect(204);
}

#[tokio::test]
async fn what_the_whole_account_may_see_has_the_default_role() {
    let (_account, c) = account_with_client().await;
    let people = People::gather(&c).await;
    let (at, _) = people.document(&c).await;
    let stranger = c.acting_for(&people.stranger);
    for (role, comments, writes) in [
        ("viewer", 403, 403),
        ("commenter", 201, 403),
        ("editor", 201, 200),
    ] {
        let body = json!({"visibility": "account", "default_role": role});
        c.put(&format!("{at}/permissions"), body).await.expect(200);
        assert_eq!(stranger.get(&at).await.expect(200)["role"], role);
        let comment = json!({"start_line": 1, "body": "hm"});
        assert_eq!(
            stranger
                .post(&format!("{at}/comments"), comment)
                .await
                .status,
            comments,
            "{role}"
        );
        assert_eq!(
            stranger.put(&at, json!({"title": role})).await.status,
            writes,
            "{role}"
        );
        assert_eq!(stranger.get(DOCUMENTS).await.expect(200).total(), 1);
    }
    let viewer = c.acting_for(&people.viewer).get(&at).await.expect(200);
    assert_eq!(
        viewer["role"], "editor",
        "who is named does not lose what everybody has"
    );
    c.put(
        &format!("{at}/permissions"),
        json!({"visibility": "private"}),
    )
    .await
    .expect(200);
    stranger.get(&at).await.error(404, "not_found", "*");
    assert_eq!(stranger.get(DOCUMENTS).await.expect(200).total(), 0);
}

#[tokio::test]
async fn every_bad_field_of_a_permission_set_is_refused_and_nothing_of_it_is_done() {
    let (_account, c) = account_with_client().await;
    let people = People::gather(&c).await;
    let (at, _) = people.document(&c).await;
    let foreign = account().await.test().user("agent").await;
    let one = |user: &str, role: &str| json!({"user_id": user, "role": role});
    let (editor, owner) = (people.editor.as_str(), people.owner.as_str());
    let cases = [
        (json!({"visibility": "public"}), "visibility"),
        (json!({"default_role": "owner"}), "default_role"),
        (json!({"default_role": "boss"}), "default_role"),
        (json!({"link_sharing": "no"}), "link_sharing"),
        (json!({"transfer_owner_to": foreign}), "transfer_owner_to"),
        (json!({"transfer_owner_to": "nobody"}), "transfer_owner_to"),
        (json!({"transfer_owner_to": null}), "transfer_owner_to"),
        (json!({"owner_id": editor}), "owner_id"),
        (
            json!({"collaborators": [one(&foreign, "viewer")]}),
            "collaborators",
        ),
        (
            json!({"collaborators": [one(editor, "owner")]}),
            "collaborators",
        ),
        (
            json!({"collaborators": [one(owner, "viewer")]}),
            "collaborators",
        ),
        (
            json!({"collaborators": [one(editor, "viewer"), one(editor, "viewer")]}),
            "collaborators",
        ),
    ];
    let before = permissions(&c, &at).await.body;
    for (mut body, field) in cases {
        if field != "visibility" {
            body["visibility"] = json!("account");
        }
        let refused =
            c.put(&format!("{at}/permissions"), body)
                .await
                .error(400, "invalid_request", "*");
        let named = refused.body["error"]["details"]["field"].as_str().unwrap();
        assert!(named.starts_with(field), "not {field}: {refused}");
    }
    assert_eq!(permissions(&c, &at).await.body, before);
}

#[tokio::test]
async fn collaborators_come_by_id_or_email_and_only_once() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let list = format!("{at}/collaborators");
    let (ada, bob) = (c.user("agent").await, c.user("agent").await);
    let add = |body: Value| c.post(&list, body);
    let made = add(json!({"user_id": ada, "role": "viewer"}))
        .await
        .expect(201);
    assert_shape(&made.body, COLLABORATOR);
    assert_eq!(made.header("location"), format!("{list}/{ada}"));
    let user = c.get(&format!("/v1/users/{bob}")).await.expect(200);
    let email = user.id("email");
    let by_email = add(json!({"email": email.to_uppercase(), "role": "editor"}))
        .await
        .expect(201);
    assert_eq!(
        (&by_email["user_id"], &by_email["email"]),
        (&json!(bob), &json!(email))
    );
    let found = c.get(&list).await.expect(200);
    assert_eq!(
        (found.data(), found.total()),
        (&vec![by_email.body, made.body], 2)
    );
    for twice in [
        json!({"user_id": ada, "role": "editor"}),
        json!({"email": email, "role": "editor"}),
    ] {
        add(twice).await.error(409, "conflict", "*");
    }
}

#[tokio::test]
async fn a_collaborators_role_changes_once_and_goes_with_the_collaborator() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let list = format!("{at}/collaborators");
    let (ada, bob) = (c.user("agent").await, c.user("agent").await);
    let add = async |user: &str| {
        let added = c.post(&list, json!({"user_id": user, "role": "viewer"}));
        added.await.expect(201)
    };
    let (made, _) = (add(&ada).await, add(&bob).await);
    let one = format!("{list}/{ada}");
    let edit = || c.put(&one, json!({"role": "editor"}));
    let changed = edit().await.expect(200);
    assert_eq!(
        (&changed["role"], &changed["added_at"]),
        (&json!("editor"), &made["added_at"])
    );
    let events = async || {
        c.get("/v1/events?after=0&event=document.permissions_updated&limit=1")
            .await
            .total()
    };
    let count = events().await;
    edit().await.expect(200);
    assert_eq!(events().await, count, "nothing changed");
    c.delete(&one).await.expect(204);
    c.delete(&one).await.error(404, "not_found", "*");
    edit().await.error(404, "not_found", "*");
    assert_eq!(c.get(&list).await.expect(200).column("user_id"), [bob]);
}

#[tokio::test]
async fn every_bad_collaborator_is_refused_by_name() {
    let (_account, c) = account_with_client().await;
    let at = c.document("one\n").await;
    let user = c.user("agent").await;
    let stranger = account().await;
    let foreign = stranger.test().user("agent").await;
    let email = stranger
        .test()
        .get(&format!("/v1/users/{foreign}"))
        .await
        .expect(200)
        .id("email");
    let cases = [
        (json!({"user_id": foreign, "role": "viewer"}), "user_id"),
        (json!({"user_id": "nobody", "role": "viewer"}), "user_id"),
        (
            json!({"user_id": "usr_0190163d8694739b85d52d5e4a4d6d5f", "role": "viewer"}),
            "user_id",
        ),
        (json!({"email": email, "role": "viewer"}), "email"),
        (json!({"email": "no address", "role": "viewer"}), "email"),
        (json!({"role": "viewer"}), "*"),
        (
            json!({"user_id": user, "email": "a@example.com", "role": "viewer"}),
            "*",
        ),
        (json!({"user_id": user}), "role"),
        (json!({"user_id": user, "role": "owner"}), "role"),
        (json!({"user_id": user, "role": "boss"}), "role"),
        (
            json!({"user_id": user, "role": "viewer", "since": 1}),
            "since",
        ),
    ];
    for (body, field) in cases {
        c.post(&format!("{at}/collaborators"), body)
            .await
            .error(400, "invalid_request", field);
    }
    c.put(
        &format!("{at}/collaborators/{foreign}"),
        json!({"role": "viewer"}),
    )
    .await
    .error(404, "not_found", "*");
    assert_eq!(
        c.get(&format!("{at}/collaborators"))
            .await
            .expect(200)
            .total(),
        0
    );
}

#[tokio::test]
async fn ownership_goes_over_whole_and_the_one_before_stays_as_an_editor() {
    let (_account, c) = account_with_client().await;
    let people = People::gather(&c).await;
    let (at, _) = people.document(&c).await;
    let (before, after) = (c.acting_for(&people.owner), c.acting_for(&people.editor));
    let set = format!("{at}/permissions");
    let moved = before
        .put(&set, json!({"transfer_owner_to": people.editor}))
        .await
        .expect(200);
    assert_eq!(moved["owner_id"], people.editor.as_str());
    let roles: Vec<(Value, Value)> = moved["collaborators"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["user_id"].clone(), one["role"].clone()))
        .collect();
    assert!(
        roles.contains(&(json!(people.owner), json!("editor"))),
        "{moved}"
    );
    assert!(
        !roles
            .iter()
            .any(|(user, _)| *user == people.editor.as_str()),
        "an owner is no collaborator: {moved}"
    );
    assert_eq!(before.get(&at).await.expect(200)["role"], "editor");
    assert_eq!(
        after.get(&at).await.expect(200)["owner_id"],
        people.editor.as_str()
    );
    before
        .put(&set, json!({"transfer_owner_to": people.owner}))
        .await
        .error(403, "forbidden", "*");
    before.delete(&at).await.error(403, "forbidden", "*");
    after.delete(&at).await.expect(204);
}

#[tokio::test]
async fn the_owner_can_not_be_taken_away() {
    let (_account, c) = account_with_client().await;
    let people = People::gather(&c).await;
    let (at, _) = people.document(&c).await;
    let owner = &people.owner;
    for caller in [c.clone(), c.acting_for(owner), c.acting_for(&people.admin)] {
        caller
            .delete(&format!("{at}/collaborators/{owner}"))
            .await
            .error(409, "conflict", "*");
        let less = json!({"role": "viewer"});
        caller
            .put(&format!("{at}/collaborators/{owner}"), less)
            .await
            .error(409, "conflict", "*");
        caller
            .post(
                &format!("{at}/collaborators"),
                json!({"user_id": owner, "role": "viewer"}),
            )
            .await
            .error(409, "conflict", "*");
    }
    assert_eq!(permissions(&c, &at).await["owner_id"], owner.as_str());
    let transfers = (0..8).map(|n| {
        let to = if n % 2 == 0 {
            &people.editor
        } else {
            &people.viewer
        };
        c.put(
            &format!("{at}/permissions"),
            json!({"transfer_owner_to": to}),
        )
        .into_future()
    });
    for answer in join_all(transfers).await {
        answer.expect(200);
    }
    let last = permissions(&c, &at).await;
    let now = last.id("owner_id");
    assert!([&people.editor, &people.viewer].contains(&&now), "{last}");
    assert_eq!(
        c.acting_for(&now).get(&at).await.expect(200)["role"],
        "owner"
    );
}

async fn delete_user(c: &Client, user: &str) -> Answer {
    c.delete(&format!("/v1/users/{user}")).await
}

#[tokio::test]
async fn a_user_who_owns_documents_is_not_deleted_and_one_who_has_none_leaves_them_all() {
    let (_account, c) = account_with_client().await;
    let people = People::gather(&c).await;
    let (at, _) = people.document(&c).await;
    delete_user(&c, &people.owner)
        .await
        .error(409, "conflict", "*");
    c.delete(&at).await.expect(204);
    delete_user(&c, &people.owner)
        .await
        .error(409, "conflict", "*");
    c.call("POST", &format!("{at}/restore")).await.expect(200);
    c.put(
        &format!("{at}/permissions"),
        json!({"transfer_owner_to": people.admin}),
    )
    .await
    .expect(200);
    for user in [&people.owner, &people.viewer] {
        delete_user(&c, user).await.expect(204);
    }
    crate::support::until(
        "the deleted users are no collaborators",
        std::time::Duration::from_secs(10),
        async || {
            let left = c
                .get(&format!("{at}/collaborators"))
                .await
                .expect(200)
                .column("user_id");
            (!left.contains(&people.owner) && !left.contains(&people.viewer)).then_some(())
        },
    )
    .await;
    assert_eq!(
        c.get(&at).await.expect(200)["owner_id"],
        people.admin.as_str()
    );
}

#[tokio::test]
async fn a_user_of_one_mode_is_one_of_both() {
    let account: Account = account().await;
    let user = account.test().user("agent").await;
    let at = account.live().document("live\n").await;
    let body = json!({"user_id": user, "role": "viewer"});
    account
        .live()
        .post(&format!("{at}/collaborators"), body)
        .await
        .expect(201);
    assert_eq!(
        account.live().acting_for(&user).get(&at).await.expect(200)["role"],
        "viewer"
    );
    account
        .test()
        .acting_for(&user)
        .get(&at)
        .await
        .error(404, "not_found", "*");
}
