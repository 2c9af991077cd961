//! Identifiers with a changed digit name nothing: a path with one is 404, a body or a filter 400,
//! wherever the digit stands.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::support::attachments::uploaded;
use crate::support::documents::id_of;
use crate::support::{Account, Answer, Client, Receiver, Server, Setup, Socket, until};

/// The longest that a backup of next to nothing may take on a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// Requests that run side by side.
const AT_ONCE: usize = 16;
/// Digits of an identifier.
const DIGITS: usize = 32;
/// A domain of the account's, whose record nobody has.
const HOST: &str = "chat.shop.example";

/// An account with one of everything that has an identifier, by the name of its parameter in paths.
struct World {
    c: Client,
    operator: Client,
    nobody: Client,
    ids: HashMap<&'static str, String>,
    /// The path of a share link.
    link: String,
    _receiver: Receiver,
    _account: Account,
}

/// A document with one of everything that stands around it; gives the path of a link to it.
async fn around_a_document(c: &Client, ids: &mut HashMap<&'static str, String>) -> String {
    let document = c.document("one\ntwo\n").await;
    let version = c.write(&document, "one\n2\n").await;
    let editor = json!({"user_id": ids["user_id"], "role": "editor"});
    c.post(&format!("{document}/collaborators"), editor)
        .await
        .expect(201);
    let comment = json!({"body": "what is it?", "start_line": 1, "end_line": 1});
    let comment = c
        .post(&format!("{document}/comments"), comment)
        .await
        .expect(201);
    let (share, link) = c.share(&document, json!({"role": "viewer"})).await;
    ids.extend([
        ("version", version.clone()),
        ("version_id", version),
        ("comment_id", comment.id("comment_id")),
        ("share_id", share),
        ("document_id", id_of(&document).to_owned()),
    ]);
    link
}

/// An account that has a domain.
async fn with_domain(server: &Server) -> Account {
    let account = server.account().await;
    let path = format!("/admin/v1/accounts/{}", account.account_id);
    let change = account.operator().patch(&path, json!({"domains": [HOST]}));
    change.await.expect(200);
    account
}

/// What a webhook was sent first.
async fn first_delivery(c: &Client, webhook: &str) -> String {
    let list = format!("/v1/webhooks/{webhook}/deliveries");
    let soon = std::time::Duration::from_secs(20);
    let delivered = until("the edit is delivered", soon, async || {
        let listed = c.get(&list).await.expect(200);
        (listed.total() > 0).then_some(listed)
    });
    delivered.await.column("delivery_id").remove(0)
}

/// Erases somebody of whom nothing else knows.
async fn erasure(c: &Client) -> String {
    let path = format!("/v1/customers/{}?erase=true", c.customer().await);
    c.delete(&path).await.expect(202).id("erasure_id")
}

impl World {
    async fn of(server: &Server) -> Self {
        let (account, receiver) = (with_domain(server).await, Receiver::start().await);
        let (c, operator) = (account.test(), account.operator());
        let mut ids = HashMap::from([("account_id", account.account_id.clone())]);
        let keys = operator
            .get(&format!("/admin/v1/accounts/{}/keys", account.account_id))
            .await
            .expect(200);
        ids.insert("key_id", keys.column("key_id").remove(2));
        let colleague = operator.post("/admin/v1/operators", json!({"name": "Ada"}));
        ids.insert("operator_id", colleague.await.expect(201).id("operator_id"));
        let app = json!({"name": "App", "scopes": ["conversations:read"]});
        let app = c.post("/v1/oauth/clients", app).await.expect(201);
        ids.insert("client_id", app.id("client_id"));
        // One delivery only: the number of a second one may differ in the one digit that is
        // changed.
        let hook = json!({"url": receiver.url(), "events": ["message.updated"]});
        let hook = c.post("/v1/webhooks", hook).await.expect(201);
        ids.insert("webhook_id", hook.id("webhook_id"));
        ids.insert("customer_id", c.customer().await);
        let conversation = c.conversation_of(&ids["customer_id"]).await;
        let message = c.message(&conversation, "first").await;
        c.patch(message.header("location"), json!({"content": "second"}))
            .await
            .expect(200);
        ids.insert("message_id", message.id("message_id"));
        ids.insert("attachment_id", uploaded(&c, "content").await);
        ids.insert("erasure_id", erasure(&c).await);
        ids.insert("backup_id", backup(&operator).await);
        ids.insert("user_id", c.user("agent").await);
        c.patch(
            &format!("/v1/conversations/{conversation}"),
            json!({"assignee_id": ids["user_id"]}),
        )
        .await
        .expect(200);
        ids.insert("actor_id", conversation.clone());
        ids.insert("conversation_id", conversation);
        let link = around_a_document(&c, &mut ids).await;
        let delivery = first_delivery(&c, &ids["webhook_id"]).await;
        ids.insert("delivery_id", delivery);
        World {
            c,
            operator,
            nobody: account.anonymous(),
            ids,
            link,
            _receiver: receiver,
            _account: account,
        }
    }

    /// The path with the identifiers of this world, of which one is another.
    fn path(&self, template: &str, other: Option<(&str, &str)>) -> String {
        let mut path = template
            .replace("{actor_kind}", "conversation")
            .replace("/s/{token}", &self.link)
            .replace("{host}", HOST);
        for (name, id) in &self.ids {
            let id = other
                .filter(|(changed, _)| changed == name)
                .map_or(id.as_str(), |(_, id)| id);
            path = path.replace(&format!("{{{name}}}"), id);
        }
        assert!(!path.contains('{'), "the test makes none of these: {path}");
        path
    }

    async fn ask(&self, operation: &Operation, path: &str) -> Answer {
        let c = match path.split('/').nth(1) {
            Some("admin") => &self.operator,
            Some("s") => &self.nobody,
            _ => &self.c,
        };
        let call = c.call(&operation.method.to_uppercase(), path);
        match &operation.body {
            Some(body) => {
                call.with("content-type", "application/json")
                    .bytes(body.to_string())
                    .await
            }
            None => call.await,
        }
    }
}

/// An operation whose path names something.
struct Operation {
    method: String,
    path: String,
    body: Option<Value>,
}

impl Operation {
    /// Those of the document, what destroys last.
    async fn all(server: &Server) -> Vec<Self> {
        let document = server
            .anonymous()
            .get("/openapi.json")
            .await
            .expect(200)
            .body;
        let mut all = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            if !path.contains("_id}") {
                continue;
            }
            for (method, operation) in methods.as_object().unwrap() {
                let body = operation["requestBody"]
                    .is_object()
                    .then(|| body(method, path));
                all.push(Operation {
                    method: method.clone(),
                    path: path.clone(),
                    body,
                });
            }
        }
        all.sort_by_key(|operation| (operation.method == "delete", operation.path.len()));
        all
    }

    /// The names of the identifiers in its path.
    fn names<'w>(&self, world: &'w World) -> Vec<&'w str> {
        world
            .ids
            .keys()
            .copied()
            .filter(|name| self.path.contains(&format!("{{{name}}}")))
            .collect()
    }
}

/// What the operation takes.
fn body(method: &str, path: &str) -> Value {
    match (method, path.rsplit('/').next().unwrap()) {
        ("post", "messages" | "versions") => json!({"content": "words"}),
        ("post", "comments") => json!({"body": "words", "start_line": 1, "end_line": 1}),
        ("post", "collaborators") => json!({"email": "nobody@example.com", "role": "viewer"}),
        ("put", "{user_id}") => json!({"role": "viewer"}),
        ("post", "share") => json!({"role": "viewer"}),
        ("post", "keys") => json!({"type": "test"}),
        ("post", "merge") => json!({"source": "main"}),
        _ => json!({}),
    }
}

/// The identifier with another digit at this place.
fn changed(id: &str, place: usize) -> String {
    let (prefix, digits) = id.rsplit_once('_').unwrap();
    let mut digits: Vec<char> = digits.chars().collect();
    // By one, the last digit may name what was made right before, in the same millisecond.
    let bit = if place == DIGITS - 1 { 8 } else { 1 };
    let digit = digits[place].to_digit(16).unwrap() ^ bit;
    digits[place] = char::from_digit(digit, 16).unwrap();
    format!("{prefix}_{}", digits.into_iter().collect::<String>())
}

/// A backup: another one is refused while the server makes its first by itself.
async fn backup(operator: &Client) -> String {
    until("a backup begins", SOON, async || {
        let begun = operator.post("/admin/v1/backups", json!({})).await;
        (begun.status == 202).then(|| begun.id("backup_id"))
    })
    .await
}

/// A server that makes backups.
fn backed_up() -> Setup {
    Setup::default().env("COLLOQUY__BACKUP__URL", "file:backups")
}

/// One that also lets actors be crashed, as the last of all operations does.
fn drilling() -> Server {
    let mut server = backed_up()
        .delivering("[5]", "5")
        .env("COLLOQUY__SUPERVISION__DRILLS", "true")
        // Nobody answers there.
        .env("COLLOQUY__DOMAINS__NAMESERVERS", "[\"127.0.0.1:9\"]")
        .start();
    server.expect_errors();
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_interfaces_description_tells_what_identifiers_in_paths_look_like() {
    let server = drilling();
    let world = World::of(&server).await;
    let document = server.anonymous().get("/openapi.json").await.expect(200);
    let parameters = &document["components"]["parameters"];
    let pattern = |name: &str| parameters[name]["schema"]["pattern"].as_str();
    for (name, id) in &world.ids {
        // An actor's, and a version's, may also be a name.
        if ["actor_id", "version"].contains(name) {
            continue;
        }
        let (prefix, _) = id.rsplit_once('_').unwrap();
        let told = pattern(name).unwrap_or_else(|| panic!("nothing is told of {name}"));
        assert!(
            told.starts_with(&format!("^{prefix}_[0-9a-f]")),
            "{name}: {told}"
        );
    }
    let host = pattern("host").unwrap_or_default();
    assert!(!host.starts_with("^key_"), "{host}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_digit_in_a_path_is_404_everywhere() {
    let server = drilling();
    let world = World::of(&server).await;
    let operations = Operation::all(&server).await;
    assert!(operations.len() > 50, "the document has all of them");
    for operation in operations
        .iter()
        .filter(|operation| operation.method == "get")
    {
        world
            .ask(operation, &world.path(&operation.path, None))
            .await
            .expect(200);
    }
    let mut asked = Vec::new();
    for operation in &operations {
        for name in operation.names(&world) {
            let other = |place| {
                world.path(
                    &operation.path,
                    Some((name, &changed(&world.ids[name], place))),
                )
            };
            asked.extend((0..DIGITS).map(|place| (operation, other(place))));
        }
    }
    let world = &world;
    let answers = futures_util::stream::iter(asked)
        .map(|(operation, path)| async move {
            (world.ask(operation, &path).await.status, operation, path)
        })
        .buffer_unordered(AT_ONCE);
    let wrong: Vec<String> = answers
        .filter_map(|(status, operation, path)| async move {
            (status != 404).then(|| {
                format!(
                    "{} {}: {status} for {path}",
                    operation.method, operation.path
                )
            })
        })
        .collect()
        .await;
    assert!(
        wrong.is_empty(),
        "{} of them found something:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    for operation in &operations {
        let answer = world
            .ask(operation, &world.path(&operation.path, None))
            .await;
        let gone = operation.method == "delete" && operation.path.contains("/collaborators/");
        assert!(
            answer.status != 404 || gone,
            "the whole identifier is found: {answer}"
        );
    }
}

impl World {
    fn conversation(&self) -> String {
        format!("/v1/conversations/{}", self.ids["conversation_id"])
    }

    fn document(&self) -> String {
        format!("/api/v1/documents/{}", self.ids["document_id"])
    }

    /// Bodies that name something, each with the digit at this place changed: method, path, field
    /// and body.
    fn bodies(&self, place: usize) -> Vec<(&'static str, String, &'static str, Value)> {
        let other = |name: &str| changed(&self.ids[name], place);
        let (at, document) = (self.conversation(), self.document());
        let messages = format!("{at}/messages");
        let sent = |sender: &str, name| json!({"content": "x", "sender_type": sender, "sender_id": other(name)});
        let comment =
            json!({"body": "x", "start_line": 1, "end_line": 1, "version": other("version")});
        let owner = json!({"transfer_owner_to": other("user_id")});
        let collaborator = json!({"user_id": other("user_id"), "role": "viewer"});
        vec![
            (
                "POST",
                "/v1/conversations".to_owned(),
                "customer_id",
                json!({"customer_id": other("customer_id")}),
            ),
            (
                "PATCH",
                at,
                "assignee_id",
                json!({"assignee_id": other("user_id")}),
            ),
            (
                "POST",
                messages.clone(),
                "sender_id",
                sent("agent", "user_id"),
            ),
            (
                "POST",
                messages,
                "sender_id",
                sent("customer", "customer_id"),
            ),
            (
                "POST",
                format!("{document}/collaborators"),
                "user_id",
                collaborator,
            ),
            ("POST", format!("{document}/comments"), "version", comment),
            (
                "PUT",
                format!("{document}/permissions"),
                "transfer_owner_to",
                owner,
            ),
        ]
    }

    /// The same for filters and cursors: path, parameter and value. `activity` is an entry of the
    /// document's.
    fn filters(&self, place: usize, activity: &str) -> Vec<(String, &'static str, String)> {
        let other = |name: &str| changed(&self.ids[name], place);
        let (conversations, documents) = (
            "/v1/conversations".to_owned(),
            "/api/v1/documents".to_owned(),
        );
        let (at, document) = (self.conversation(), self.document());
        vec![
            (conversations.clone(), "customer_id", other("customer_id")),
            (conversations.clone(), "assignee_id", other("user_id")),
            (conversations.clone(), "after", other("conversation_id")),
            (conversations, "before", other("conversation_id")),
            (format!("{at}/messages"), "after", other("message_id")),
            (format!("{at}/messages"), "before", other("message_id")),
            ("/v1/events".to_owned(), "assignee_id", other("user_id")),
            (format!("{at}/events"), "assignee_id", other("user_id")),
            (
                format!("/v1/webhooks/{}/deliveries", self.ids["webhook_id"]),
                "after",
                other("delivery_id"),
            ),
            (documents.clone(), "owner_id", other("user_id")),
            (documents, "after", other("document_id")),
            (format!("{document}/versions"), "after", other("version")),
            (
                format!("{document}/activity"),
                "after",
                changed(activity, place),
            ),
            (format!("{document}/activity"), "actor", other("user_id")),
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_digit_in_a_body_or_a_filter_is_400_everywhere() {
    let server = backed_up().delivering("[5]", "5").start();
    let world = World::of(&server).await;
    let c = &world.c;
    let activity = c
        .get(&format!("{}/activity", world.document()))
        .await
        .expect(200)
        .column("id")
        .remove(0);
    for place in 0..DIGITS {
        for (method, path, field, body) in world.bodies(place) {
            let call = c
                .call(method, &path)
                .with("content-type", "application/json")
                .bytes(body.to_string());
            call.await.error(400, "invalid_request", field);
        }
        for (path, field, value) in world.filters(place, &activity) {
            c.get(&format!("{path}?{field}={value}"))
                .await
                .error(400, "invalid_request", field);
        }
        let acting = c
            .acting_for(&changed(&world.ids["user_id"], place))
            .get("/v1/conversations")
            .await;
        acting.error(400, "invalid_request", "X-Acting-User");
    }
}

#[tokio::test]
async fn a_changed_digit_in_a_frame_names_no_conversation() {
    let server = Server::start();
    let c = server.account().await.test();
    let conversation = c.conversation().await;
    let mut socket = Socket::open(&c).await;
    socket.subscribe(json!(conversation), None).await;
    // With another version in its UUID it is no identifier at all.
    for place in (0..DIGITS).filter(|place| *place != 12) {
        let other = changed(&conversation, place);
        for kind in ["typing", "unsubscribe", "subscribe"] {
            socket
                .say(json!({"type": kind, "conversation_id": other}))
                .await;
            socket.hear_error("not_found").await;
        }
    }
}
