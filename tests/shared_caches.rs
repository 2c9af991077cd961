//! What shared caches may keep: nginx and Varnish in front of the server show that nothing private is
//! served to another, and that what is revoked or changed is gone in time.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::attachments::uploaded;
use crate::support::documents::id_of;
use crate::support::ports::ReservedPort;
use crate::support::server::Folder;
use crate::support::{
    Account, Answer, Client, Nginx, Person, Receiver, Reply, Server, Setup, Varnish, account,
    shared as shared_server, unique, until,
};

const SOON: Duration = Duration::from_secs(20);
const TEXT: &str = "# Refunds\n\nWithin 30 days.\n";
const LINK_SECONDS: &str = "COLLOQUY__SHARED_CACHES__LINK_SECONDS";
const PURGE_URL: &str = "COLLOQUY__SHARED_CACHES__PURGE_URL";
const PURGE_FORMAT: &str = "COLLOQUY__SHARED_CACHES__PURGE_FORMAT";
const PURGE_HEADER: &str = "COLLOQUY__SHARED_CACHES__PURGE_HEADER";

const DONE: &str = "cache_purges_total{outcome=\"done\"}";
const FAILED: &str = "cache_purges_total{outcome=\"failed\"}";

/// A server that lets shared caches keep what links open for so long.
fn keeping(seconds: u32) -> Setup {
    Setup::default().env(LINK_SECONDS, &seconds.to_string())
}

/// A document and a link to it, for a viewer.
pub(crate) struct Shared {
    pub(crate) owner: Client,
    pub(crate) at: String,
    share: String,
    pub(crate) link: String,
}

impl Shared {
    pub(crate) async fn new(server: &Server) -> Self {
        let owner = server.account().await.test();
        let at = owner.document(TEXT).await;
        let (share, link) = owner.share(&at, json!({})).await;
        Shared {
            owner,
            at,
            share,
            link,
        }
    }

    async fn revoke(&self) {
        self.revoke_by(&self.owner).await;
    }

    pub(crate) async fn revoke_by(&self, owner: &Client) {
        let path = format!("{}/share/{}", self.at, self.share);
        owner.delete(&path).await.expect(204);
    }
}

pub(crate) async fn json_of(c: &Client, path: &str) -> Answer {
    c.get(path).with("accept", "application/json").await
}

async fn page_of(c: &Client, path: &str) -> Answer {
    c.get(path).with("accept", "text/html").await
}

fn assert_not_kept(answer: &Answer) {
    assert_eq!(answer.header("cache-control"), "no-store", "{answer}");
    for tags in ["surrogate-key", "cache-tag"] {
        assert!(answer.header_opt(tags).is_none(), "{answer}");
    }
}

/// Asks as JSON, and tells whether a cache had kept the answer: then it names another request.
async fn asked(c: &Client, path: &str) -> (Answer, bool) {
    let id = unique("request");
    let call = c.get(path).with("x-request-id", &id);
    let answer = call.with("accept", "application/json").await;
    // While the server is away, a cache answers without one.
    let was_kept = answer.status == 200 && answer.header("x-request-id") != id;
    (answer, was_kept)
}

/// Asks until a cache has kept what it answers.
pub(crate) async fn kept(c: &Client, path: &str) -> Answer {
    until("it is kept", SOON, async || {
        let (answer, was_kept) = asked(c, path).await;
        was_kept.then_some(answer)
    })
    .await
}

#[tokio::test]
async fn what_a_viewers_link_opens_says_for_how_long_and_by_what_it_is_purged() {
    let server = keeping(300).start();
    let shared = Shared::new(&server).await;
    let (holder, link) = (server.anonymous(), &shared.link);
    let head = shared.owner.head(&shared.at).await;
    let version = format!("{link}/versions/{head}");
    let changing = "public, max-age=0, s-maxage=300, must-revalidate";
    let answers = [
        (json_of(&holder, link).await, changing),
        (page_of(&holder, link).await, changing),
        (
            json_of(&holder, &version).await,
            "public, max-age=300, immutable",
        ),
    ];
    for (answer, keep) in answers {
        let answer = answer.expect(200);
        assert_eq!(answer.header("cache-control"), keep, "{answer}");
        let vary = answer.header_all("vary").join(", ");
        assert!(vary.contains("Accept"), "{answer}");
        let tags = [id_of(&shared.at), &shared.share, "share-links"];
        assert_eq!(answer.header("surrogate-key"), tags.join(" "));
        assert_eq!(answer.header("cache-tag"), tags.join(","));
        assert!(answer.header_opt("set-cookie").is_none(), "{answer}");
        // Caches ask again with the tag, and are told for how long what they have holds.
        let again = holder.get(answer_path(&answer, link, &version));
        let again = again.with("if-none-match", &answer.etag());
        let again = again.with("accept", kind_of(&answer)).await.expect(304);
        assert_eq!(again.header("cache-control"), keep, "{again}");
        assert_eq!(again.header("surrogate-key"), tags.join(" "));
    }
    // One that ends sooner is kept no longer.
    let in_a_minute = chrono::Utc::now() + chrono::Duration::seconds(60);
    let terms = json!({"expires_at": in_a_minute.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()});
    let (_, ending) = shared.owner.share(&shared.at, terms).await;
    let answer = json_of(&holder, &ending).await.expect(200);
    let seconds = answer.header("cache-control").split("s-maxage=").nth(1);
    let seconds: u32 = seconds.unwrap().split(',').next().unwrap().parse().unwrap();
    assert!((30..=60).contains(&seconds), "{answer}");
}

#[tokio::test]
async fn the_description_of_the_interface_names_the_tags_where_they_come() {
    let described = shared_server().anonymous().get("/openapi.json").await;
    let described = described.expect(200);
    for tags in ["Surrogate-Key", "Cache-Tag"] {
        let shared = &described["components"]["headers"]["Surrogate-Key"];
        let words = shared["description"].as_str().unwrap();
        assert!(words.contains("Only where `[shared_caches]` is set"));
        let mut named = BTreeSet::new();
        for (path, operations) in described["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                for (status, response) in operation["responses"].as_object().unwrap() {
                    if !response["headers"][tags].is_null() {
                        named.insert(format!("{method} {path} {status}"));
                    }
                }
            }
        }
        let expected = [
            "get /s/{token} 200",
            "get /s/{token} 304",
            "get /s/{token}/versions/{version_id} 200",
            "get /s/{token}/versions/{version_id} 304",
        ];
        assert_eq!(named, expected.map(str::to_owned).into(), "{tags}");
    }
}

fn answer_path<'p>(answer: &Answer, link: &'p str, version: &'p str) -> &'p str {
    match answer.header("cache-control").contains("immutable") {
        true => version,
        false => link,
    }
}

fn kind_of(answer: &Answer) -> &'static str {
    match answer.header("content-type").starts_with("text/html") {
        true => "text/html",
        false => "application/json",
    }
}

#[tokio::test]
async fn what_is_not_for_everybody_or_not_for_long_is_kept_by_nobody() {
    let server = keeping(300).start();
    let shared = Shared::new(&server).await;
    let holder = server.anonymous();
    let head = shared.owner.head(&shared.at).await;
    for terms in [
        json!({"password": "secret words"}),
        json!({"max_uses": 10}),
        json!({"role": "commenter"}),
        json!({"role": "editor"}),
    ] {
        let (_, link) = shared.owner.share(&shared.at, terms).await;
        let version = format!("{link}/versions/{head}");
        for path in [&link, &version] {
            let with_password = |accept: &str| {
                let call = holder.get(path).with("accept", accept);
                call.with("x-share-password", "secret words")
            };
            assert_not_kept(&with_password("application/json").await.expect(200));
            assert_not_kept(&with_password("text/html").await.expect(200));
        }
    }
    // What was done just now is shown once.
    let done = page_of(&holder, &format!("{}?done=saved", shared.link)).await;
    assert_not_kept(&done.expect(200));
    shared.revoke().await;
    assert_not_kept(&json_of(&holder, &shared.link).await.expect(404));
    // Unless the settings say so, no link is kept.
    let other = account().await;
    let at = other.test().document(TEXT).await;
    let (_, link) = other.test().share(&at, json!({})).await;
    let head = other.test().head(&at).await;
    for path in [link.clone(), format!("{link}/versions/{head}")] {
        assert_not_kept(&json_of(&other.anonymous(), &path).await.expect(200));
        assert_not_kept(&page_of(&other.anonymous(), &path).await.expect(200));
    }
}

#[tokio::test]
async fn a_link_opens_the_versions_that_were_the_head_since_it_was_made() {
    let account = account().await;
    let (owner, holder) = (account.test(), account.anonymous());
    let at = owner.document("one").await;
    let first = owner.head(&at).await;
    let second = owner.write(&at, "two").await;
    let (share, link) = owner.share(&at, json!({})).await;
    let version = |id: &str| format!("{link}/versions/{id}");
    // Of a change in the millisecond in which the link is made nobody knows which was first.
    let made = chrono::Utc::now().timestamp_millis();
    until("the next millisecond", SOON, async || {
        (chrono::Utc::now().timestamp_millis() > made).then_some(())
    })
    .await;
    let shown = json_of(&holder, &version(&second)).await.expect(200);
    let whole = owner.get(&format!("{at}/versions/{second}")).await;
    assert_eq!(shown.bytes, whole.expect(200).bytes);
    let third = owner.write(&at, "three").await;
    let fourth = owner.write(&at, "four").await;
    let side = owner.branch(&at, "draft", "not yet").await;
    let elsewhere = owner.document("elsewhere").await;
    let elsewhere = owner.head(&elsewhere).await;
    for (id, content) in [(&second, "two"), (&third, "three"), (&fourth, "four")] {
        let shown = json_of(&holder, &version(id)).await.expect(200);
        assert_eq!(shown["content"], content);
    }
    for id in [&*first, &*side, &*elsewhere, "ver_0", "head", "1"] {
        json_of(&holder, &version(id))
            .await
            .error(404, "not_found", "*");
    }
    holder
        .get(&format!("{}?x=1", version(&third)))
        .await
        .error(400, "invalid_request", "x");
    let list = owner.get(&format!("{at}/share")).await.expect(200);
    assert_eq!(list.data()[0]["uses"], 4, "each 200 is a use: {list}");
    let terms = json!({"password": "secret words"});
    let (_, guarded) = owner.share(&at, terms).await;
    let guarded = format!("{guarded}/versions/{fourth}");
    json_of(&holder, &guarded)
        .await
        .error(401, "unauthorized", "*");
    let call = holder
        .get(&guarded)
        .with("x-share-password", "secret words");
    call.await.expect(200);
    owner
        .delete(&format!("{at}/share/{share}"))
        .await
        .expect(204);
    json_of(&holder, &version(&fourth))
        .await
        .error(404, "not_found", "*");
}

/// The pages of the console in which a person's own things stand, and a file.
fn pages_of(conversation: &str, customer: &str, attachment: &str) -> Vec<String> {
    let pages = [
        "overview",
        "inbox",
        "customers",
        "documents",
        "webhooks",
        "analytics",
        "usage",
        "settings",
    ];
    let pages = pages.map(|page| format!("/console/{page}"));
    let ours = [
        format!("/console/inbox/{conversation}"),
        format!("/console/customers/{customer}"),
        format!("/console/inbox/attachments/{attachment}"),
    ];
    pages.into_iter().chain(ours).collect()
}

#[tokio::test]
async fn no_page_of_the_console_and_no_file_of_it_is_kept_for_whoever_is_not_signed_in() {
    let server = keeping(300).start();
    let address = server.address();
    let nginx = Nginx::caching_everywhere([&address; 3]);
    let account = server.account().await;
    let person = Person::user(&account, "admin").await;
    let c = account.live();
    let (customer, attachment) = (c.customer().await, uploaded(&c, "for nobody else").await);
    let conversation = c.conversation_of(&customer).await;
    let message = json!({"type": "file", "attachment_id": attachment});
    let at = format!("/v1/conversations/{conversation}/messages");
    c.post(&at, message).await.expect(201);
    let signed_in = person.through(&nginx.address());
    let nobody = signed_in.clone().with_cookie(None);
    let mut shown = 0;
    for page in pages_of(&conversation, &customer, &attachment) {
        let of_theirs = signed_in.get(&page).await;
        shown += usize::from(of_theirs.status == 200);
        signed_in.get(&page).await;
        let refused = nobody.get(&page).await.expect(303);
        assert!(
            refused.location().contains("sign-in"),
            "{page}: {refused:?}"
        );
    }
    assert!(shown >= 9, "{shown} of them are there");
}

/// The paths of all GETs of the interface that end, with the identifiers of one account's things.
async fn all_paths(account: &Account) -> Vec<String> {
    let c = account.test();
    let conversation = c.conversation().await;
    let message = c.message(&conversation, "for nobody else").await;
    let attachment = uploaded(&c, "for nobody else").await;
    let erased = format!("/v1/customers/{}?erase=true", c.customer().await);
    let erased = c.delete(&erased).await.expect(202);
    let client = json!({"name": "Reports", "scopes": ["conversations:read"]});
    let client = c.post("/v1/oauth/clients", client).await.expect(201);
    let keys = format!("/admin/v1/accounts/{}/keys", account.account_id);
    let keys = account.operator().get(&keys).await.expect(200);
    let key = keys.data()[0]["key_id"].as_str().unwrap().to_owned();
    let at = c.document(TEXT).await;
    let (share, link) = c.share(&at, json!({})).await;
    let webhook = json!({"url": "https://receiver.example/", "events": ["message.created"]});
    let webhook = c.post("/v1/webhooks", webhook).await.expect(201);
    let user = c.user("agent").await;
    let customer = c.customer().await;
    let token = link.trim_start_matches("/s/");
    let version = c.head(&at).await;
    let filled = |path: &str| {
        [
            ("{conversation_id}", &*conversation),
            ("{message_id}", &message.id("message_id")),
            ("{document_id}", id_of(&at)),
            ("{version_id}", &version),
            ("{version}", &version),
            ("{share_id}", &share),
            ("{webhook_id}", &webhook.id("webhook_id")),
            ("{user_id}", &user),
            ("{customer_id}", &customer),
            ("{token}", token),
            ("{attachment_id}", &attachment),
            ("{erasure_id}", &erased.id("erasure_id")),
            ("{account_id}", &account.account_id),
            ("{key_id}", &key),
            ("{client_id}", &client.id("client_id")),
            ("{actor_kind}", "conversations"),
            ("{actor_id}", &conversation),
        ]
        .into_iter()
        .fold(path.to_owned(), |path, (name, id)| path.replace(name, id))
    };
    let document = account.anonymous().get("/openapi.json").await;
    let document = document.expect(200);
    let paths = document["paths"].as_object().unwrap().iter();
    let reads = paths.filter(|(_, methods)| methods.get("get").is_some());
    let reads = reads.map(|(path, _)| filled(path));
    // Streams and sockets do not end.
    let ends = |path: &String| !path.ends_with("/realtime");
    let mut all: Vec<String> = reads.filter(ends).collect();
    for page in ["/docs", &link] {
        let page = page_of(&account.anonymous(), page).await.expect(200);
        let text = String::from_utf8(page.bytes).unwrap();
        let files = text.split('"').filter(|part| part.contains("?v="));
        all.extend(files.map(str::to_owned));
    }
    all
}

/// What a cache answers, whose headers may be those of an answer to somebody else, and whether it had kept
/// that.
async fn through_a_cache(c: &Client, path: &str) -> (Vec<u8>, bool) {
    let id = unique("request");
    let call = c.get(path).with("x-request-id", &id);
    let answer = call
        .with("accept", "application/json")
        .open()
        .await
        .unwrap();
    let was_kept = answer.headers()["x-request-id"] != *id;
    // An event stream does not end.
    let streams = answer.headers()["content-type"] == "text/event-stream";
    let bytes = match streams {
        true => Vec::new(),
        false => answer.bytes().await.unwrap().into(),
    };
    (bytes, was_kept)
}

#[tokio::test]
async fn a_cache_that_goes_by_our_headers_alone_serves_nothing_private_to_another() {
    let server = keeping(300).start();
    let address = server.address();
    let nginx = Nginx::caching_everywhere([&address; 3]);
    let (mine, other) = (server.account().await, server.account().await);
    let paths = all_paths(&mine).await;
    assert!(paths.len() > 60, "{paths:?}");
    // Of these there is none here.
    let none = ["{backup_id}", "{delivery_id}", "{operator_id}"];
    let is_filled =
        |path: &&String| !path.contains('{') || none.iter().any(|one| path.contains(one));
    let unfilled: Vec<&String> = paths.iter().filter(|path| !is_filled(path)).collect();
    assert!(unfilled.is_empty(), "{unfilled:?}");
    let through = |c: Client| c.at(&nginx.address());
    let (owner, stranger) = (through(mine.test()), through(other.test()));
    let (operator, nobody) = (through(mine.operator()), through(mine.anonymous()));
    // Each is asked with the right to it, twice, so that whatever may be kept is kept …
    for path in &paths {
        for caller in [&owner, &operator, &owner, &operator] {
            through_a_cache(caller, path).await;
        }
    }
    // … and then by those who have none.
    let mut kept = BTreeSet::new();
    for path in &paths {
        for caller in [&stranger, &nobody] {
            let (bytes, was_kept) = through_a_cache(caller, path).await;
            if was_kept {
                kept.insert(path.clone());
                let direct = json_of(&mine.anonymous(), path).await.expect(200);
                assert_eq!(bytes, direct.bytes, "{path}");
            }
        }
    }
    let public = |path: &String| path.starts_with("/s/") || path.contains("?v=");
    assert!(kept.iter().all(public), "{kept:?}");
    assert!(kept.iter().any(|path| path.starts_with("/s/")), "{kept:?}");
    assert!(kept.iter().any(|path| path.contains("/docs/")), "{kept:?}");
}

#[tokio::test]
async fn what_is_revoked_is_gone_from_nginx_within_the_stated_time() {
    let server = keeping(3).start();
    let address = server.address();
    let nginx = Nginx::start([&address; 3]);
    let shared = Shared::new(&server).await;
    let holder = server.anonymous().at(&nginx.address());
    let head = shared.owner.head(&shared.at).await;
    let version = format!("{}/versions/{head}", shared.link);
    for path in [&shared.link, &version] {
        assert_eq!(kept(&holder, path).await["content"], TEXT);
    }
    // What browsers are shown is another answer at the same address.
    let page = page_of(&holder, &shared.link).await.expect(200);
    assert!(page.header("content-type").starts_with("text/html"));
    // Nothing of what changes the document is kept, and a HEAD is no GET.
    holder
        .put(&shared.link, json!({"content": "x"}))
        .await
        .error(403, "forbidden", "*");
    holder.call("HEAD", &shared.link).await.expect(200);
    let (_, was_kept) = asked(&holder, "/openapi.json").await;
    assert!(!was_kept);
    shared.revoke().await;
    let revoked = Instant::now();
    for path in [&shared.link, &version] {
        until("it is gone", SOON, async || {
            let (answer, _) = asked(&holder, path).await;
            (answer.status == 404).then_some(())
        })
        .await;
    }
    // The stated time, and what a busy machine takes to ask.
    let gone_after = revoked.elapsed();
    assert!(gone_after < Duration::from_secs(3 + 2), "{gone_after:?}");
}

/// A server that tells the Varnish at this port of changes; nothing would be gone by itself for an hour.
pub(crate) fn telling(varnish: &ReservedPort) -> Setup {
    keeping(3_600).env(PURGE_URL, &format!("http://{}/", varnish.address()))
}

/// Waits until a server has told of its start, and of so many changes, of each once more: what comes
/// next is not helped by a purge of before.
pub(crate) async fn has_told_of(changes: u64, server: &Server) {
    let purges = 2 + 2 * changes;
    until("all is told, and once more", SOON, async || {
        (server.metric(DONE).await == purges).then_some(())
    })
    .await;
}

/// A server behind Varnish.
async fn behind_varnish() -> (Server, Varnish) {
    // The server is found at its port again when it has been started again.
    let (at, port) = (ReservedPort::new(), ReservedPort::new());
    let setup = telling(&port).env("COLLOQUY__SERVER__BIND", &at.address());
    let server = setup.start();
    let varnish = Varnish::start(&port, &server.address());
    has_told_of(0, &server).await;
    (server, varnish)
}

#[tokio::test]
async fn of_an_account_that_is_forgotten_varnish_shows_nothing_any_more() {
    let port = ReservedPort::new();
    let key = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let encrypting = telling(&port)
        .env("COLLOQUY__ENCRYPTION__ENABLED", "true")
        .env("COLLOQUY__ENCRYPTION__MASTER_KEY", key);
    let server = encrypting.start();
    let varnish = Varnish::start(&port, &server.address());
    has_told_of(0, &server).await;
    let account = server.account().await;
    let at = account.test().document(TEXT).await;
    let (_, link) = account.test().share(&at, json!({})).await;
    let holder = server.anonymous().at(&varnish.address());
    kept(&holder, &link).await;
    let path = format!("/admin/v1/accounts/{}/forget", account.account_id);
    account.operator().post(&path, json!({})).await.expect(200);
    until("it is gone", SOON, async || {
        (json_of(&holder, &link).await.status == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn varnish_drops_what_was_changed_or_revoked_within_seconds() {
    let (server, varnish) = behind_varnish().await;
    let shared = Shared::new(&server).await;
    let (owner, at) = (&shared.owner, &shared.at);
    let other = Shared::new(&server).await;
    let holder = server.anonymous().at(&varnish.address());
    let link = &*shared.link;
    let changes = Cell::new(0);
    let is_told_twice = async || {
        changes.set(changes.get() + 1);
        has_told_of(changes.get(), &server).await;
    };
    let is_shown = async |content: &str| {
        until("the new text is shown", SOON, async || {
            let answer = json_of(&holder, link).await.expect(200);
            (answer["content"] == content).then_some(())
        })
        .await;
        kept(&holder, link).await;
    };
    let is_gone = async || {
        until("it is gone", SOON, async || {
            (json_of(&holder, link).await.status == 404).then_some(())
        })
        .await;
    };
    is_shown(TEXT).await;
    kept(&holder, &other.link).await;
    owner.write(at, "another text").await;
    is_told_twice().await;
    is_shown("another text").await;
    let permissions = format!("{at}/permissions");
    let share_by_links = async |on: bool| {
        let change = owner.put(&permissions, json!({"link_sharing": on}));
        change.await.expect(200);
    };
    share_by_links(false).await;
    is_gone().await;
    is_told_twice().await;
    share_by_links(true).await;
    is_told_twice().await;
    is_shown("another text").await;
    owner.delete(at).await.expect(204);
    is_gone().await;
    is_told_twice().await;
    owner
        .post(&format!("{at}/restore"), json!({}))
        .await
        .expect(200);
    is_told_twice().await;
    is_shown("another text").await;
    shared.revoke().await;
    is_gone().await;
    // Nothing else went: what it kept of the other document it has still.
    let (_, was_kept) = asked(&holder, &other.link).await;
    assert!(was_kept);
    // What it is told by stays between us.
    let answer = json_of(&holder, &other.link).await;
    assert!(answer.header_opt("surrogate-key").is_none(), "{answer}");
}

#[tokio::test]
async fn a_change_right_before_a_kill_is_told_after_the_start() {
    let (mut server, varnish) = behind_varnish().await;
    let shared = Shared::new(&server).await;
    let holder = server.anonymous().at(&varnish.address());
    for round in 0..3 {
        kept(&holder, &shared.link).await;
        let content = format!("text {round}");
        shared.owner.write(&shared.at, &content).await;
        server.kill9();
        server.restart();
        until("the new text is shown", SOON, async || {
            let answer = json_of(&holder, &shared.link).await;
            (answer.status == 200 && answer["content"] == *content).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_purge_that_fails_is_made_again_and_each_is_made_once_more() {
    let cdn = Receiver::in_turn([Reply::status(503), Reply::status(500)]).await;
    let server = keeping(300)
        .env(PURGE_URL, &format!("{}/purge_cache", cdn.url()))
        .env(PURGE_FORMAT, "cache-tag")
        .env(PURGE_HEADER, "Authorization: Bearer of-the-tests")
        .start();
    let tags = |body: &Value| -> Vec<String> {
        let tags = body["tags"].as_array().unwrap().iter();
        tags.map(|tag| tag.as_str().unwrap().to_owned()).collect()
    };
    // A start tells of everything, until it is taken, and then once more.
    for purge in cdn.wait_for(4).await {
        assert_eq!(purge.method, "POST");
        assert_eq!(purge.header("authorization"), "Bearer of-the-tests");
        assert_eq!(purge.header("content-type"), "application/json");
        assert_eq!(tags(&purge.event()), ["share-links"]);
    }
    let shared = Shared::new(&server).await;
    // Nobody has it: nobody is told.
    shared.owner.write(&shared.at, "one").await;
    json_of(&server.anonymous(), &shared.link).await.expect(200);
    shared.owner.write(&shared.at, "two").await;
    let comment = json!({"body": "well said", "start_line": 1, "end_line": 1});
    let comments = format!("{}/comments", shared.at);
    shared.owner.post(&comments, comment).await.expect(201);
    let last = cdn.wait_for(6).await.split_off(4);
    for purge in &last {
        assert_eq!(tags(&purge.event()), [id_of(&shared.at)]);
    }
    let apart = last[1].at - last[0].at;
    assert!(apart > Duration::from_secs(4), "{apart:?}");
    until("they are counted", SOON, async || {
        let counted = (server.metric(DONE).await, server.metric(FAILED).await);
        (counted == (4, 2)).then_some(())
    })
    .await;
    let log = server.log();
    assert_eq!(log.matches("takes no purges").count(), 1, "{log}");
    assert!(log.contains("takes purges again"), "{log}");
    assert!(!log.contains("of-the-tests"), "{log}");
}

#[tokio::test]
async fn settings_that_cant_be_meant_are_refused_by_name() {
    for (name, value, also) in [
        ("LINK_SECONDS", "86401", None),
        ("PURGE_URL", "ftp://cdn.example", Some((LINK_SECONDS, "10"))),
        ("PURGE_URL", "https://cdn.example", None),
        ("PURGE_HEADER", "no header", None),
        ("PURGE_FORMAT", "by-hand", None),
    ] {
        let setup = Setup::default().env(&format!("COLLOQUY__SHARED_CACHES__{name}"), value);
        let setup = match also {
            Some((name, value)) => setup.env(name, value),
            None => setup,
        };
        let folder = Folder::new();
        let (status, said) = setup.refused_in(&folder.work());
        let key = format!("shared_caches.{}", name.to_lowercase());
        assert!(!status.success() && said.contains(&key), "{said}");
    }
}

#[tokio::test]
async fn whoever_revokes_a_link_in_the_console_is_told_how_soon_it_is_gone() {
    let kept = keeping(90).start();
    for (server, words) in [
        (&kept, "in caches on its way within 90 s"),
        (
            shared_server(),
            "The very next visit with this link finds nothing.",
        ),
    ] {
        let account = server.account().await;
        let person = Person::user(&account, "admin").await;
        let c = person.api(&account);
        let at = c.document(TEXT).await;
        c.share(&at, json!({})).await;
        let page = format!("/console/documents/{}/sharing", id_of(&at));
        let page = person.page(&page).await;
        assert!(page.contains(words), "{page}");
    }
}
