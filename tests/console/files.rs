//! Files in the inbox: chosen, dropped or pasted into an answer, shown to those who are signed in and
//! to nobody else.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::support::{Account, Browser, Person, Server, until};
use super::browser_of;

const SOON: Duration = Duration::from_secs(60);
/// An image of 40 by 20 pixels.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAACgAAAAUCAIAAABwJOjsAAAAJElEQVR4nGNwtjg1IIhh1OJRi0ctHrV41OJRi0ctHrV45FgMAOcF9872jMzuAAAAAElFTkSuQmCC";
/// A file with this name and type out of base64, within a transfer.
const TRANSFER: &str =
    "const bytes = Uint8Array.from(atob(arguments[0]), (one) => one.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], arguments[1], { type: arguments[2] }));";

async fn open_conversation(server: &Server, account: &Account) -> (Browser, String) {
    let id = account.live().conversation().await;
    let (browser, _) = browser_of(server, account, "agent").await;
    browser.go(&format!("/console/inbox/{id}")).await;
    browser.waits_for("[data-line='up']").await;
    (browser, id)
}

async fn messages(account: &Account, conversation: &str) -> Vec<Value> {
    let path = format!("/v1/conversations/{conversation}/messages?limit=100");
    let messages = account.live().get(&path).await.expect(200);
    messages.data().to_vec()
}

/// Waits until a picture is there that a browser can show; gives its address.
async fn picture(browser: &Browser, alt: &str) -> String {
    let script = "const image = document.querySelector(`#messages img[alt='${arguments[0]}']`);
        return image?.complete && image.naturalWidth === 40 ? image.src : null";
    until(&format!("the picture {alt}"), SOON, async || {
        let found = browser.run(script, vec![json!(alt)]).await;
        found.as_str().map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn files_are_chosen_dropped_and_pasted_into_an_answer() {
    let server = Server::start();
    let account = server.account().await;
    let (browser, id) = open_conversation(&server, &account).await;

    let chosen = server.work().join("naïve (1).html");
    fs::write(&chosen, "<script>document.title = 'taken over'</script>").unwrap();
    let field = browser.waits_for("[data-files]").await;
    field.send_keys(chosen.to_str().unwrap()).await.unwrap();
    browser
        .shows("#messages article.is-mine", "naïve (1).html")
        .await;
    browser.shows("#messages article.is-mine", "46 B").await;

    let drop = format!(
        "{TRANSFER} document.querySelector('.thread').dispatchEvent(new DragEvent('drop', {{ dataTransfer: transfer, bubbles: true, cancelable: true }}))"
    );
    let image = vec![json!(PNG), json!("dropped.png"), json!("image/png")];
    browser.run(&drop, image).await;
    picture(&browser, "dropped.png").await;

    let paste = format!(
        "{TRANSFER} document.querySelector('[data-answer]').dispatchEvent(new ClipboardEvent('paste', {{ clipboardData: transfer, bubbles: true, cancelable: true }}))"
    );
    browser.fill("#answer-text", "Not sent with it").await;
    let image = vec![json!(PNG), json!("pasted.png"), json!("image/png")];
    browser.run(&paste, image).await;
    let address = picture(&browser, "pasted.png").await;
    assert_eq!(browser.value("#answer-text").await, "Not sent with it");

    browser.shows("#list", "pasted.png").await;
    let sent = messages(&account, &id).await;
    let told: Vec<_> = sent
        .iter()
        .map(|one| (one["type"].clone(), one["attachment"]["filename"].clone()))
        .collect();
    let expected = [
        ("file", "naïve (1).html"),
        ("image", "dropped.png"),
        ("image", "pasted.png"),
    ];
    let expected = expected.map(|(kind, name)| (json!(kind), json!(name)));
    assert_eq!(told, expected);
    assert_eq!(sent[0]["attachment"]["content_type"], "text/html");

    for (width, scheme) in [(1440, "light"), (390, "dark")] {
        browser.looks(width, scheme).await;
        browser
            .picture(&format!("inbox-files-{width}-{scheme}"))
            .await;
    }

    // What is redacted is nobody's any more.
    let last = sent[2]["message_id"].as_str().unwrap();
    let at = format!("/v1/conversations/{id}/messages/{last}");
    account.live().delete(&at).await.expect(204);
    browser
        .shows("#messages", "This message was redacted.")
        .await;
    let script = "return fetch(arguments[0]).then((answer) => answer.status)";
    assert_eq!(browser.run(script, vec![json!(address)]).await, 404);
}

#[tokio::test]
async fn a_file_of_the_inbox_is_a_download_for_whoever_may_see_its_message() {
    let server = Server::start();
    let account = server.account().await;
    let c = account.live();
    let upload = c
        .call("POST", "/v1/attachments")
        .with("content-type", "text/html")
        .with("content-disposition", "attachment; filename=\"a.html\"");
    let made = upload.bytes(*b"<script>1</script>").await.expect(201);
    let attachment = made.id("attachment_id");
    let conversation = c.conversation().await;
    let message = json!({"type": "file", "attachment_id": attachment});
    let messages = format!("/v1/conversations/{conversation}/messages");
    c.post(&messages, message).await.expect(201);
    let at = format!("/console/inbox/attachments/{attachment}");
    let agent = Person::user(&account, "agent").await;
    let get = async |person: &Person| {
        let (http, base) = person.raw();
        let asked = http.get(format!("{base}{at}")).header("range", "bytes=1-6");
        let cookie = person.cookie.clone().unwrap_or_default();
        asked.header("cookie", cookie).send().await.unwrap()
    };
    let part = get(&agent).await;
    assert_eq!(part.status(), 206);
    for (name, value) in [
        ("content-type", "application/octet-stream"),
        ("content-range", "bytes 1-6/18"),
        ("x-content-type-options", "nosniff"),
        ("vary", "Cookie"),
        ("cache-control", "private, no-cache"),
    ] {
        assert_eq!(part.headers()[name], value, "{name}");
    }
    let header = |name: &str| part.headers()[name].to_str().unwrap().to_owned();
    assert!(header("content-disposition").starts_with("attachment"));
    assert!(header("content-security-policy").contains("sandbox"));
    assert_eq!(part.text().await.unwrap(), "script");
    // Without a session, and for another account's people, there is nothing.
    assert_eq!(get(&Person::stranger(&server)).await.status(), 303);
    let other = server.account().await;
    let other = Person::user(&other, "admin").await;
    assert_eq!(get(&other).await.status(), 404);
}

#[tokio::test]
async fn a_file_comes_from_a_page_of_ours_and_is_sent_once() {
    let server = Server::start();
    let account = server.account().await;
    let id = account.live().conversation().await;
    let agent = Person::user(&account, "agent").await;
    let (http, base) = agent.raw();
    let token = agent
        .get(&format!("/console/inbox/{id}"))
        .await
        .held("csrf");
    let post = |key: &str, token: &str, content: Vec<u8>| {
        let url = format!("{base}/console/inbox/{id}/attachments?key={key}");
        let post = http
            .post(url)
            .header("cookie", agent.cookie.clone().unwrap());
        let post = post.body(content);
        post.header("x-csrf-token", token)
            .header("hx-request", "true")
            .send()
    };
    for foreign in ["", "another.token"] {
        let refused = post("first", foreign, b"x".to_vec()).await.unwrap();
        assert_eq!(refused.status(), 403);
    }
    assert_eq!(messages(&account, &id).await.len(), 0);
    let mut shown = Vec::new();
    for _ in 0..3 {
        let sent = post("second", &token, b"once".to_vec()).await.unwrap();
        assert_eq!(sent.status(), 200);
        shown.push(sent.text().await.unwrap());
    }
    assert_eq!(messages(&account, &id).await.len(), 1);
    assert!(shown[0].contains("4 B"), "{}", shown[0]);
    let large = post("third", &token, vec![0; 26_214_401]).await.unwrap();
    assert_eq!(large.status(), 413);
    assert!(large.text().await.unwrap().contains("at most"));
    let empty = post("fourth", &token, Vec::new()).await.unwrap();
    assert_eq!(empty.status(), 400);
    assert_eq!(messages(&account, &id).await.len(), 1);
}
