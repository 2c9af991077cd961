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

/// A picture as a camera takes one: noise, so that it is large, with the Exif data that it was held
/// upright (TIFF 6.0: tag 274, here 6) and where.
fn photograph(width: u32, height: u32) -> Vec<u8> {
    let mut state = 1_u32;
    let noise = image::RgbImage::from_fn(width, height, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [_, red, green, blue] = state.to_be_bytes();
        image::Rgb([red, green, blue])
    });
    let mut jpeg = Vec::new();
    let encoder = image::codecs::jpeg::JpegEncoder::new(&mut jpeg);
    noise.write_with_encoder(encoder).unwrap();
    let tiff = b"MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0at the seaside";
    let mut exif = [b"Exif\0\0", &tiff[..]].concat();
    let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
    exif.splice(0..0, [0xff, 0xe1, length[0], length[1]]);
    jpeg.splice(2..2, exif);
    jpeg
}

/// The head of a PNG of so many pixels (gray), and nothing of them.
fn bomb(side: u32) -> Vec<u8> {
    let side = side.to_be_bytes();
    let head = [&b"IHDR"[..], &side, &side, &[8, 0, 0, 0, 0]].concat();
    let crc = !head.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    });
    let start = b"\x89PNG\r\n\x1a\n\0\0\0\x0d";
    [&start[..], &head, &crc.to_be_bytes(), &[0; 70_000]].concat()
}

/// An image as a message of its own: its attachment's address in the inbox, and the message's.
async fn sent_image(account: &Account, conversation: &str, content: Vec<u8>) -> (String, String) {
    let c = account.live();
    let upload = c.call("POST", "/v1/attachments");
    let upload = upload.with("content-disposition", "attachment; filename=\"photo.jpg\"");
    let attachment = upload.bytes(content).await.expect(201).id("attachment_id");
    let body = json!({"type": "image", "attachment_id": attachment});
    let messages = format!("/v1/conversations/{conversation}/messages");
    let message = c.post(&messages, body).await.expect(201).id("message_id");
    (
        format!("/console/inbox/attachments/{attachment}"),
        format!("{messages}/{message}"),
    )
}

#[tokio::test]
async fn an_image_is_shown_small_and_upright_and_tells_nothing_of_its_place() {
    let server = Server::start();
    let account = server.account().await;
    let (browser, id) = open_conversation(&server, &account).await;
    let original = photograph(1_200, 800);
    assert!(original.windows(7).any(|part| part == b"seaside"));
    let (at, message) = sent_image(&account, &id, original.clone()).await;
    let script = "const image = document.querySelector('#messages .picture img');
        return image?.complete && image.naturalWidth ? [image.naturalWidth, image.naturalHeight] : null";
    let size = until("the thumbnail", SOON, async || {
        let found = browser.run(script, Vec::new()).await;
        found.is_array().then_some(found)
    })
    .await;
    assert_eq!(size, json!([320, 480]));
    browser.picture("inbox-thumbnail").await;

    let agent = Person::user(&account, "agent").await;
    let get = async |person: &Person, at: &str, header: (&'static str, &str)| {
        let (http, base) = person.raw();
        let asked = http.get(format!("{base}{at}")).header(header.0, header.1);
        let cookie = person.cookie.clone().unwrap_or_default();
        asked.header("cookie", cookie).send().await.unwrap()
    };
    let plain = ("accept", "image/*");
    let small = format!("{at}/thumbnail");
    let shown = get(&agent, &small, plain).await;
    assert_eq!(shown.status(), 200);
    let header = |name: &str| shown.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "image/jpeg");
    assert_eq!(header("cache-control"), "private, no-cache");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert!(header("content-security-policy").contains("sandbox"));
    let tag = header("etag");
    let content = shown.bytes().await.unwrap();
    assert!(content.len() * 4 < original.len(), "{}", content.len());
    assert!(!content.windows(7).any(|part| part == b"seaside"));
    let again = get(&agent, &small, ("if-none-match", &tag)).await;
    assert_eq!(again.status(), 304);
    let part = get(&agent, &small, ("range", "bytes=0-9")).await;
    assert_eq!(part.status(), 400);
    let whole = get(&agent, &at, plain).await.bytes().await.unwrap();
    assert_eq!(whole, original);

    // Nobody else has it, and it goes with its message.
    let stranger = Person::stranger(&server);
    assert_eq!(get(&stranger, &small, plain).await.status(), 303);
    let other = server.account().await;
    let other = Person::user(&other, "admin").await;
    assert_eq!(get(&other, &small, plain).await.status(), 404);
    account.live().delete(&message).await.expect(204);
    assert_eq!(get(&agent, &small, plain).await.status(), 404);
    let again = get(&agent, &small, ("if-none-match", &tag)).await;
    assert_eq!(again.status(), 404);
}

#[tokio::test]
async fn of_what_is_small_damaged_or_too_large_no_thumbnail_is_made() {
    let server = Server::start();
    let account = server.account().await;
    let id = account.live().conversation().await;
    let agent = Person::user(&account, "agent").await;
    let mut damaged = photograph(1_200, 800);
    damaged.truncate(70_000);
    damaged[600..].fill(0);
    for content in [photograph(60, 40), damaged, bomb(60_000), bomb(0)] {
        let (at, _) = sent_image(&account, &id, content.clone()).await;
        let (http, base) = agent.raw();
        let asked = http.get(format!("{base}{at}/thumbnail"));
        let cookie = agent.cookie.clone().unwrap();
        let shown = asked.header("cookie", cookie).send().await.unwrap();
        assert_eq!(shown.status(), 200);
        assert!(shown.bytes().await.unwrap() == content);
    }
    let upload = account.live().call("POST", "/v1/attachments");
    let text = upload.bytes(*b"no image").await.expect(201);
    let at = format!(
        "/console/inbox/attachments/{}/thumbnail",
        text.id("attachment_id")
    );
    assert_eq!(agent.get(&at).await.status, 404);
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
