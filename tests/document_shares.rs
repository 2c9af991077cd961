//! Share links: what they open and for how long, passwords, what their holders may do, and that a
//! shared page runs nothing.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::browser::{Tab, dom_of};
use crate::support::client::Call;
use crate::support::documents::{DOCUMENTS, id_of};
use crate::support::shapes::{COMMENT, SHARE, assert_id, assert_recent, assert_shape};
use crate::support::{
    Answer, Client, Receiver, Reply, Setup, account, account_with_client, unique, until,
};

const TEXT: &str = "# Refunds\n\nWithin 30 days.\n";

/// A document with one link of the account's key; whoever holds the link has no key.
struct Shared {
    owner: Client,
    holder: Client,
    at: String,
    share: String,
    link: String,
}

async fn shared(terms: Value) -> Shared {
    let account = account().await;
    let owner = account.test();
    let at = owner.document(TEXT).await;
    let (share, link) = owner.share(&at, terms).await;
    Shared {
        owner,
        holder: account.anonymous(),
        at,
        share,
        link,
    }
}

impl Shared {
    fn json(&self) -> Call {
        self.holder
            .get(&self.link)
            .with("accept", "application/json")
    }

    fn page(&self) -> Call {
        self.holder
            .get(&self.link)
            .with("accept", "text/html,application/xhtml+xml,*/*;q=0.8")
    }

    async fn uses(&self) -> u64 {
        let list = self
            .owner
            .get(&format!("{}/share", self.at))
            .await
            .expect(200);
        let share = list
            .data()
            .iter()
            .find(|one| one["share_id"] == self.share.as_str())
            .cloned();
        share.unwrap_or_else(|| panic!("it is gone: {list}"))["uses"]
            .as_u64()
            .unwrap()
    }

    async fn assert_gone(&self) {
        self.json().await.error(404, "not_found", "*");
        self.page().await.expect(404);
    }
}

/// Fails unless nothing of the page can run, load or be framed.
fn assert_strict(page: &Answer) {
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'"), "{page}");
    for word in ["unsafe-eval", "script-src *", "http:", "data:"] {
        assert!(!policy.contains(word), "{word} in {policy}");
    }
    let scripts = policy
        .split(';')
        .map(str::trim)
        .find(|part| part.starts_with("script-src"));
    assert!(
        scripts.is_none_or(|part| part == "script-src 'none'"),
        "{policy}"
    );
    assert!(
        policy.contains("frame-ancestors 'none'") || page.header("x-frame-options") == "DENY",
        "{page}"
    );
    assert_eq!(
        page.header("referrer-policy"),
        "no-referrer",
        "the link is a secret: {page}"
    );
    assert!(
        page.header("cache-control").contains("no-"),
        "a link can be revoked: {page}"
    );
}

#[tokio::test]
async fn a_link_answers_with_every_field_and_its_url_once() {
    let (_account, c) = account_with_client().await;
    let at = c.document(TEXT).await;
    let list = format!("{at}/share");
    let made = c.post(&list, json!({})).await.expect(201);
    assert_shape(&made.body, &format!("{SHARE}, url"));
    assert_id(&made["share_id"], "shr_");
    assert_recent(&made["created_at"]);
    assert_eq!(
        (&made["role"], &made["uses"], &made["has_password"]),
        (&json!("viewer"), &json!(0), &json!(false))
    );
    assert!(
        made["expires_at"].is_null() && made["max_uses"].is_null(),
        "{made}"
    );
    assert_eq!(
        made.header("location"),
        format!("{list}/{}", made.id("share_id"))
    );
    assert_eq!(made.header("cache-control"), "no-store");
    let url = made.id("url");
    let token = url
        .strip_prefix(&format!("http://{}/s/", c.address()))
        .unwrap_or_else(|| panic!("{url}"));
    assert!(
        token.len() >= 43 && token.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "256 random bits: {token}"
    );
    let body = json!({"role": "editor", "password": "secret words", "max_uses": 7, "expires_at": "2099-01-01T00:00:00.000Z"});
    let second = c.post(&list, body).await.expect(201);
    for (field, value) in [
        ("role", json!("editor")),
        ("has_password", json!(true)),
        ("max_uses", json!(7)),
        ("expires_at", json!("2099-01-01T00:00:00.000Z")),
    ] {
        assert_eq!(second[field], value, "{field}");
    }
    assert_ne!(second.id("url"), url);
    let shown = c.get(&list).await.expect(200);
    assert_eq!(
        shown.column("share_id"),
        [second.id("share_id"), made.id("share_id")]
    );
    assert_shape(&shown["data"][0], SHARE);
    let events = c.get("/v1/events?after=0").await.expect(200);
    let activity = c.get(&format!("{at}/activity")).await.expect(200);
    for answer in [shown, events, activity] {
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        assert!(
            !text.contains(token) && !text.contains("secret words"),
            "shown again: {answer}"
        );
    }
}

#[tokio::test]
async fn a_replayed_link_does_not_show_its_url_again() {
    let (_account, c) = account_with_client().await;
    let at = c.document(TEXT).await;
    let share = || {
        c.post(&format!("{at}/share"), json!({"password": "x"}))
            .with("idempotency-key", "link")
    };
    let made = share().await.expect(201);
    let again = share().await.expect(201);
    assert_eq!(
        (again.header("idempotent-replayed"), &again["url"]),
        ("true", &Value::Null)
    );
    assert_eq!(again["share_id"], made["share_id"]);
    assert_eq!(c.get(&format!("{at}/share")).await.expect(200).total(), 1);
}

#[tokio::test]
async fn every_bad_field_of_a_link_is_refused_by_name() {
    let (_account, c) = account_with_client().await;
    let at = c.document(TEXT).await;
    let cases = [
        (json!({"role": "owner"}), "role"),
        (json!({"role": "boss"}), "role"),
        (json!({"expires_at": "2020-01-01T00:00:00Z"}), "expires_at"),
        (json!({"expires_at": "tomorrow"}), "expires_at"),
        (json!({"max_uses": 0}), "max_uses"),
        (json!({"max_uses": -1}), "max_uses"),
        (json!({"max_uses": "1"}), "max_uses"),
        (json!({"password": ""}), "password"),
        (json!({"password": "a\u{0}"}), "password"),
        (json!({"token": "mine"}), "token"),
    ];
    for (body, field) in cases {
        c.post(&format!("{at}/share"), body)
            .await
            .error(400, "invalid_request", field);
    }
    assert_eq!(c.get(&format!("{at}/share")).await.expect(200).total(), 0);
}

#[tokio::test]
async fn public_url_stands_before_every_link() {
    let server = Setup::default()
        .env("COLLOQUY__SERVER__PUBLIC_URL", "https://docs.example.com")
        .start();
    let c = server.account().await.test();
    let at = c.document(TEXT).await;
    let url = c
        .post(&format!("{at}/share"), json!({}))
        .await
        .expect(201)
        .id("url");
    let path = url
        .strip_prefix("https://docs.example.com")
        .unwrap_or_else(|| panic!("{url}"));
    server
        .anonymous()
        .get(path)
        .with("accept", "application/json")
        .await
        .expect(200);
}

#[tokio::test]
async fn a_link_opens_as_json_and_as_a_page_and_each_get_is_one_use() {
    let shared = shared(json!({})).await;
    let read = shared.json().await.expect(200);
    assert!(
        read.header("content-type").starts_with("application/json"),
        "{read}"
    );
    for (field, value) in [
        ("id", json!(id_of(&shared.at))),
        ("title", json!("Guide")),
        ("content", json!(TEXT)),
        ("role", json!("viewer")),
    ] {
        assert_eq!(read[field], value, "{field}");
    }
    assert_eq!(shared.uses().await, 1);
    let page = shared.page().await.expect(200);
    assert!(
        page.header("content-type").starts_with("text/html"),
        "{page}"
    );
    assert_strict(&page);
    let text = String::from_utf8_lossy(&page.bytes).into_owned();
    assert!(
        text.contains("Guide") && text.contains("Within 30 days."),
        "{page}"
    );
    assert_eq!(shared.uses().await, 2);
    shared.owner.write(&shared.at, "new words\n").await;
    assert_eq!(shared.json().await.expect(200)["content"], "new words\n");
    assert_eq!(shared.uses().await, 3);
}

#[tokio::test]
async fn an_expired_link_opens_nothing() {
    let mut shared = shared(json!({})).await;
    let at = chrono::Utc::now() + chrono::Duration::seconds(6);
    let terms = json!({"expires_at": at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)});
    (shared.share, shared.link) = shared.owner.share(&shared.at, terms).await;
    until("the link expires", Duration::from_secs(60), async || {
        let asked = chrono::Utc::now();
        let status = shared.json().await.status;
        assert!(
            status == 200 || chrono::Utc::now() >= at,
            "gone before its time"
        );
        assert!(
            status == 404 || asked < at + chrono::Duration::milliseconds(50),
            "{status} after its time"
        );
        (status == 404).then_some(())
    })
    .await;
    shared.assert_gone().await;
}

#[tokio::test]
async fn of_32_readers_at_once_exactly_as_many_come_in_as_the_link_has_uses() {
    let shared = shared(json!({"max_uses": 10})).await;
    let answers = join_all((0..32).map(|_| shared.json().into_future())).await;
    let count = |status: u16| {
        answers
            .iter()
            .filter(|answer| answer.status == status)
            .count()
    };
    assert_eq!((count(200), count(404)), (10, 22));
    assert_eq!(shared.uses().await, 10);
    shared.assert_gone().await;
    assert_eq!(shared.uses().await, 10);
}

#[tokio::test]
async fn a_revoked_link_is_gone_for_the_very_next_request() {
    let shared = shared(json!({"role": "editor"})).await;
    let (_, other) = shared.owner.share(&shared.at, json!({})).await;
    for _ in 0..10 {
        let (share, link) = shared.owner.share(&shared.at, json!({})).await;
        let read = || shared.holder.get(&link).with("accept", "application/json");
        read().await.expect(200);
        shared
            .owner
            .delete(&format!("{}/share/{share}", shared.at))
            .await
            .expect(204);
        read().await.error(404, "not_found", "*");
    }
    shared
        .owner
        .delete(&format!("{}/share/{}", shared.at, shared.share))
        .await
        .expect(204);
    shared.assert_gone().await;
    shared
        .holder
        .put(&shared.link, json!({"content": "x"}))
        .await
        .error(404, "not_found", "*");
    let comment = json!({"start_line": 1, "body": "x"});
    shared
        .holder
        .post(&format!("{}/comments", shared.link), comment)
        .await
        .error(404, "not_found", "*");
    shared
        .owner
        .delete(&format!("{}/share/{}", shared.at, shared.share))
        .await
        .error(404, "not_found", "*");
    shared
        .holder
        .get(&other)
        .with("accept", "application/json")
        .await
        .expect(200);
}

#[tokio::test]
async fn links_of_a_deleted_document_are_gone() {
    let shared = shared(json!({})).await;
    shared.owner.delete(&shared.at).await.expect(204);
    shared.assert_gone().await;
    shared
        .owner
        .call("POST", &format!("{}/restore", shared.at))
        .await
        .expect(200);
    shared.json().await.expect(200);
    shared
        .owner
        .delete(&format!("{}?permanent=true", shared.at))
        .await
        .expect(204);
    shared.assert_gone().await;
}

#[tokio::test]
async fn without_link_sharing_no_link_opens_and_none_is_made() {
    let shared = shared(json!({})).await;
    let set = async |on: bool| {
        let path = format!("{}/permissions", shared.at);
        shared
            .owner
            .put(&path, json!({"link_sharing": on}))
            .await
            .expect(200);
    };
    set(false).await;
    shared.assert_gone().await;
    shared
        .owner
        .post(&format!("{}/share", shared.at), json!({}))
        .await
        .error(409, "conflict", "*");
    set(true).await;
    shared.json().await.expect(200);
}

#[tokio::test]
async fn a_links_holder_comments_where_its_role_says_so() {
    for (role, status) in [("viewer", 403), ("commenter", 201), ("editor", 201)] {
        let shared = shared(json!({"role": role})).await;
        let comment = json!({"start_line": 3, "body": "through the link"});
        let commented = shared
            .holder
            .post(&format!("{}/comments", shared.link), comment)
            .await
            .expect(status);
        if status == 201 {
            assert_shape(&commented.body, COMMENT);
            assert!(
                commented["author"].is_null(),
                "a link is nobody: {commented}"
            );
        }
        let comments = shared.owner.get(&format!("{}/comments", shared.at)).await;
        let count = u64::from(status == 201);
        assert_eq!(comments.expect(200).total(), count, "{role}");
        assert_eq!(
            shared.uses().await,
            0,
            "neither it nor its refusal is a use"
        );
    }
}

#[tokio::test]
async fn a_links_holder_writes_where_its_role_says_so() {
    for role in ["viewer", "commenter", "editor"] {
        let shared = shared(json!({"role": role})).await;
        assert_eq!(shared.json().await.expect(200)["role"], role);
        let new = json!({"content": "by the holder\n"});
        let written = shared.holder.put(&shared.link, new).await;
        let now = shared.owner.get(&shared.at).await.expect(200);
        let uses = shared.uses().await;
        if role == "editor" {
            written.expect(200);
            assert_eq!(
                (&now["content"], &now["version_number"], &now["updated_by"]),
                (&json!("by the holder\n"), &json!(2), &Value::Null)
            );
            let stale = shared
                .holder
                .put(&shared.link, json!({"title": "x"}))
                .with("if-match", "\"old\"");
            stale.await.error(412, "precondition_failed", "*");
            assert_eq!(uses, 2, "what is answered 200 is a use");
        } else {
            written.error(403, "forbidden", "*");
            assert_eq!(now["content"], TEXT, "{role}");
            assert_eq!(uses, 1, "a refusal is none");
        }
    }
}

#[tokio::test]
async fn a_link_is_no_way_to_anything_else() {
    let shared = shared(json!({"role": "editor"})).await;
    let token = shared.link.trim_start_matches("/s/").to_owned();
    let as_key = shared.holder.with_key(&token);
    as_key.get(&shared.at).await.error(401, "unauthorized", "*");
    for below in [
        "/permissions",
        "/share",
        "/collaborators",
        "/versions",
        "/activity",
        "/merge",
    ] {
        shared
            .holder
            .get(&format!("{}{below}", shared.link))
            .await
            .error(404, "not_found", "*");
    }
    for method in ["DELETE", "PATCH"] {
        shared
            .holder
            .call(method, &shared.link)
            .await
            .error(405, "method_not_allowed", "*");
    }
    shared.owner.get(&shared.at).await.expect(200);
}

#[tokio::test]
async fn tokens_that_are_none_are_404() {
    let shared = shared(json!({})).await;
    let token = shared.link.trim_start_matches("/s/").to_owned();
    let mut one_off = token.clone().into_bytes();
    one_off[0] = if one_off[0] == b'a' { b'b' } else { b'a' };
    let tricks = [
        String::from_utf8(one_off).unwrap(),
        token.to_lowercase(),
        token[..token.len() - 1].to_owned(),
        format!("{token}x"),
        format!("{token}/"),
        format!("{token}%00"),
        format!("{token}%2f"),
        format!("{token}%2f..%2f"),
        format!("..%2f{token}"),
        format!("%2e%2e/{token}"),
        format!("{token};a=b"),
        format!("{token}%0a"),
        "%ff".to_owned(),
        "x".repeat(4000),
        "%27%20OR%201=1--".to_owned(),
        shared.share.clone(),
        String::new(),
    ];
    for trick in tricks {
        let answer = shared
            .holder
            .get(&format!("/s/{trick}"))
            .with("accept", "application/json")
            .await;
        assert_eq!(answer.status, 404, "{trick}: {answer}");
    }
    assert_eq!(shared.uses().await, 0);
}

#[tokio::test]
async fn a_password_is_asked_for_and_wrong_ones_are_no_use() {
    let shared = shared(json!({"password": "open sesame", "max_uses": 3, "role": "editor"})).await;
    for call in [
        shared.json(),
        shared.json().with("x-share-password", "Open sesame"),
        shared.json().with("x-share-password", ""),
    ] {
        call.await.error(401, "unauthorized", "*");
    }
    shared
        .holder
        .put(&shared.link, json!({"content": "x"}))
        .await
        .error(401, "unauthorized", "*");
    assert_eq!(shared.uses().await, 0);
    let asks = shared.page().await.expect(401);
    assert_strict(&asks);
    let text = String::from_utf8_lossy(&asks.bytes).into_owned();
    assert!(
        !text.contains("Guide") && !text.contains("30 days"),
        "it tells what it keeps: {asks}"
    );
    assert_eq!(
        shared
            .json()
            .with("x-share-password", "open sesame")
            .await
            .expect(200)["content"],
        TEXT
    );
    let put = shared
        .holder
        .put(&shared.link, json!({"content": "x\n"}))
        .with("x-share-password", "open sesame");
    put.await.expect(200);
    assert_eq!(shared.uses().await, 2);
}

/// The value of an attribute in a tag.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let behind = &tag[tag.find(&format!("{name}=\""))? + name.len() + 2..];
    Some(behind[..behind.find('"')?].to_owned())
}

/// The tags of this name that hold a word.
fn tag_with(page: &str, name: &str, word: &str) -> String {
    let tags = page
        .split('<')
        .filter(|tag| tag.starts_with(name))
        .map(|tag| tag.split('>').next().unwrap());
    tags.into_iter()
        .find(|tag| tag.contains(word))
        .unwrap_or_else(|| panic!("no {name} with {word}: {page}"))
        .to_owned()
}

/// Fills the page's form in as a browser would; gives where it leads.
async fn filled_in(shared: &Shared, password: &str) -> Answer {
    let page = String::from_utf8(shared.page().await.expect(401).bytes).unwrap();
    let form = tag_with(&page, "form", "");
    let field = attribute(&tag_with(&page, "input", "type=\"password\""), "name").unwrap();
    assert_eq!(
        attribute(&form, "method")
            .map(|method| method.to_lowercase())
            .as_deref(),
        Some("post"),
        "not in the URL"
    );
    let action = attribute(&form, "action")
        .filter(|action| !action.is_empty())
        .unwrap_or_else(|| shared.link.clone());
    let body = format!("{field}={}", password.replace(' ', "+"));
    let call = shared
        .holder
        .call("POST", &action)
        .bytes(body)
        .with("accept", "text/html");
    let answer = call
        .with("content-type", "application/x-www-form-urlencoded")
        .await;
    if answer.status != 303 {
        return answer;
    }
    let cookie = answer
        .header("set-cookie")
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    shared
        .holder
        .get(answer.header("location"))
        .with("accept", "text/html")
        .with("cookie", &cookie)
        .await
}

#[tokio::test]
async fn the_pages_form_opens_the_link() {
    let shared = shared(json!({"password": "open sesame"})).await;
    let wrong = filled_in(&shared, "close sesame").await.expect(401);
    assert_strict(&wrong);
    let page = filled_in(&shared, "open sesame").await.expect(200);
    assert_strict(&page);
    assert!(
        String::from_utf8_lossy(&page.bytes).contains("Within 30 days."),
        "{page}"
    );
    shared.json().await.error(401, "unauthorized", "*");
}

const SUBMIT: &str = "document.querySelector('input[type=password]').value = PASSWORD; \
                      document.querySelector('form button').click()";

#[tokio::test]
async fn a_person_enters_the_password_in_a_browser_and_sees_the_document() {
    let shared = shared(json!({"password": "open sesame"})).await;
    let mut tab = Tab::open(&format!(
        "http://{}{}",
        shared.holder.address(),
        shared.link
    ))
    .await;
    tab.shows("It opens with a password.").await;
    tab.run(&SUBMIT.replace("PASSWORD", "'close sesame'")).await;
    tab.shows("That is not the password.").await;
    assert_eq!(shared.uses().await, 0);
    tab.run(&SUBMIT.replace("PASSWORD", "'open sesame'")).await;
    tab.shows("Within 30 days.").await;
    assert_eq!(shared.uses().await, 1);
    assert_eq!(
        tab.run("location.search + location.hash").await,
        "",
        "the password stands in the address"
    );
}

#[tokio::test]
async fn the_pages_form_can_be_sent_nowhere_else() {
    let shared = shared(json!({"password": "open sesame"})).await;
    let receiver = Receiver::start().await;
    let mut tab = Tab::open(&format!(
        "http://{}{}",
        shared.holder.address(),
        shared.link
    ))
    .await;
    tab.shows("Password").await;
    let elsewhere = format!("document.forms[0].action = '{}'; ", receiver.url());
    let told = "window.told = new Promise(told => document.addEventListener('securitypolicyviolation', told)); 0";
    tab.run(told).await;
    tab.run(&format!(
        "{elsewhere}{}",
        SUBMIT.replace("PASSWORD", "'open sesame'")
    ))
    .await;
    assert_eq!(
        tab.run("told.then(violation => violation.effectiveDirective)")
            .await,
        "form-action"
    );
    // A browser may connect ahead; it asks nothing.
    assert_eq!(receiver.count(), 0, "{:?}", receiver.received());
}

#[tokio::test]
async fn ten_tries_a_minute_and_no_more() {
    let shared = shared(json!({"password": "open sesame"})).await;
    let (_, other) = shared
        .owner
        .share(&shared.at, json!({"password": "open sesame"}))
        .await;
    let attempt = |password: &str| {
        shared
            .json()
            .with("x-share-password", password)
            .into_future()
    };
    let wrong = join_all((0..16).map(|n| attempt(&format!("guess {n}")))).await;
    let count = |status: u16| {
        wrong
            .iter()
            .filter(|answer| answer.status == status)
            .count()
    };
    assert_eq!((count(401), count(429)), (10, 6));
    let refused = attempt("open sesame").await.error(429, "rate_limited", "*");
    assert!(refused.number("retry-after") <= 60, "{refused}");
    shared
        .page()
        .with("x-share-password", "guess")
        .await
        .expect(429);
    let elsewhere = shared
        .holder
        .get(&other)
        .with("accept", "application/json")
        .with("x-share-password", "open sesame");
    elsewhere.await.expect(200);
}

/// Whatever a page could do if it were let: each sets the title or calls the receiver.
fn payload(receiver: &Receiver) -> String {
    let url = receiver.url();
    format!(
        "</title></pre></textarea></style>\n\n<script>document.title='owned';fetch('{url}?by=script')</script>\n\n\
         <img src=\"{url}?by=img\" onerror=\"document.title='owned'\">\n\n<svg onload=\"document.title='owned'\"></svg>\n\n\
         <iframe src=\"{url}?by=iframe\"></iframe><iframe srcdoc=\"<script>parent.document.title='owned'</script>\"></iframe>\n\n\
         <meta http-equiv=\"refresh\" content=\"0;url={url}?by=refresh\"><base href=\"{url}\">\n\n\
         <link rel=\"stylesheet\" href=\"{url}?by=link\"><style>body{{background:url({url}?by=style)}}</style>\n\n\
         <input autofocus onfocus=\"document.title='owned'\"><details open ontoggle=\"document.title='owned'\">x</details>\n\n\
         ![x]({url}?by=markdown) [x](javascript:document.title='owned') <javascript:document.title='owned'>\n\n\
         \"'><script src=\"{url}?by=src\"></script> the visible end\n"
    )
}

/// A user whose name is a script.
async fn scripted_user(c: &Client) -> String {
    let email = format!("{}@example.com", unique("user"));
    let body =
        json!({"name": "<script>document.title='owned'</script>", "email": email, "role": "admin"});
    c.post("/v1/users", body).await.expect(201).id("user_id")
}

#[tokio::test]
async fn a_browser_runs_and_loads_nothing_of_a_shared_page() {
    let (account, c) = account_with_client().await;
    let c = c.acting_for(&scripted_user(&c).await);
    let receiver = Receiver::start().await;
    let payload = payload(&receiver);
    let mut urls = Vec::new();
    for kind in ["text/markdown", "text/html"] {
        let title = format!(
            "</title><script>document.title='owned'</script><img src={}>",
            receiver.url()
        );
        let metadata = json!({"<script>document.title='owned'</script>": "</script>"});
        let body =
            json!({"title": title, "content": payload, "content_type": kind, "metadata": metadata});
        let made = c.post(DOCUMENTS, body).await.expect(201);
        let at = made.header("location");
        c.post(
            &format!("{at}/comments"),
            json!({"start_line": 1, "body": payload}),
        )
        .await
        .expect(201);
        let (_, link) = c.share(at, json!({"role": "commenter"})).await;
        let page = account
            .anonymous()
            .get(&link)
            .with("accept", "text/html")
            .await
            .expect(200);
        assert_strict(&page);
        let text = String::from_utf8_lossy(&page.bytes).into_owned();
        assert!(
            text.contains("&lt;/title&gt;&lt;script&gt;"),
            "the title is not escaped: {text}"
        );
        for bad in [
            "<script",
            "<iframe",
            "<base",
            "<meta http-equiv=\"refresh\"",
            "onerror=\"",
            "href=\"javascript:",
        ] {
            assert!(!text.contains(bad), "{bad} in {text}");
        }
        urls.push(format!("http://{}{link}", account.anonymous().address()));
    }
    for dom in join_all(urls.iter().map(|url| dom_of(url))).await {
        assert!(
            dom.contains("the visible end"),
            "the page was not shown: {dom}"
        );
        assert!(!dom.contains("<title>owned</title>"), "a script ran: {dom}");
    }
    assert_eq!(
        receiver.connections(),
        0,
        "the page called: {:?}",
        receiver.received()
    );
}

#[tokio::test]
async fn the_same_payload_does_run_where_nothing_forbids_it() {
    let receiver = Receiver::start().await;
    let page = format!(
        "<title>mine{}",
        payload(&receiver).replace("http-equiv=\"refresh\"", "")
    );
    receiver.answer(move |request| {
        let body = if request.path == "/hook" {
            page.clone()
        } else {
            String::new()
        };
        Reply::Answer(200, "Content-Type: text/html\r\n".to_owned(), body)
    });
    let dom = dom_of(&receiver.url()).await;
    assert!(
        dom.contains("<title>owned</title>"),
        "the browser test is blind: {dom}"
    );
    assert!(
        receiver
            .received()
            .iter()
            .any(|request| request.path == "/hook?by=img"),
        "{:?}",
        receiver.received()
    );
}

#[tokio::test]
async fn a_links_holder_is_told_nothing_of_the_accounts_own() {
    let account = account().await;
    let (c, holder) = (account.test(), account.anonymous());
    let user = c.user("agent").await;
    let new = json!({"title": "Guide", "content": TEXT, "metadata": {"margin": "40 %"}});
    let made = c
        .acting_for(&user)
        .post("/api/v1/documents", new)
        .await
        .expect(201);
    let at = made.header("location").to_owned();
    let (_, link) = c.share(&at, json!({"role": "editor"})).await;
    let read = holder
        .get(&link)
        .with("accept", "application/json")
        .await
        .expect(200);
    let written = holder
        .put(&link, json!({"title": "Other"}))
        .await
        .expect(200);
    for shown in [read, written] {
        assert_eq!(
            (&shown["content"], &shown["metadata"]),
            (&json!(TEXT), &json!({})),
            "{shown}"
        );
        for field in ["owner_id", "created_by", "updated_by"] {
            assert!(shown[field].is_null(), "{field}: {shown}");
        }
    }
    holder
        .put(&link, json!({"metadata": {}}))
        .await
        .error(400, "invalid_request", "metadata");
    assert_eq!(c.get(&at).await.expect(200)["metadata"]["margin"], "40 %");
}
