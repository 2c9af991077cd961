//! Attachments: uploaded, shown, read whole and in part, taken by one message, and gone with it; how a
//! file may be declared, what a crash leaves of an upload, and who may see one.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::attachments::{content_of, uploaded};
use crate::support::clock::Clock;
use crate::support::files;
use crate::support::process::peak_mib;
use crate::support::raw::{Raw, exchange};
use crate::support::server::{Server, Setup};
use crate::support::{Answer, Client, account, shared, until};

const SOON: Duration = Duration::from_secs(30);
const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand what follows";

/// Uploads a file that its sender calls this.
async fn sent_as(c: &Client, name: &str, kind: &str, content: &[u8]) -> Answer {
    let disposition = format!("attachment; filename=\"{name}\"");
    c.call("POST", "/v1/attachments")
        .with("content-type", kind)
        .with("content-disposition", &disposition)
        .bytes(content)
        .await
}

fn at(attachment: &str) -> String {
    format!("/v1/attachments/{attachment}")
}

async fn send(c: &Client, conversation: &str, attachment: &str) -> Answer {
    let message = json!({"type": "file", "attachment_id": attachment});
    c.post(
        &format!("/v1/conversations/{conversation}/messages"),
        message,
    )
    .await
}

/// The files that stand in the folder of attachments, those that are not whole as well.
fn files(server: &Server) -> Vec<PathBuf> {
    files::below(&server.work().join("data/objects"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_uploaded_shown_and_read() {
    let c = account().await.test();
    let made = sent_as(&c, "naïve \u{201c}a\u{201d}.html", "text/html", b"<html>").await;
    let made = made.expect(201);
    let id = made.id("attachment_id");
    assert_eq!(made.header("location"), at(&id));
    let sha = "b7d082ee12e91b756ea22e8513b8594eebcf5d39fab813da3cb55794dc888ad7";
    assert_eq!(made["sha256"], sha);
    let mut names: Vec<&String> = made.body.as_object().unwrap().keys().collect();
    names.sort();
    let expected = [
        "attachment_id",
        "bytes",
        "content_type",
        "created_at",
        "filename",
        "sha256",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        (&made["bytes"], &made["content_type"]),
        (&json!(6), &json!("text/html"))
    );
    let shown = c.get(&at(&id)).await.expect(200);
    assert_eq!(
        (shown.bytes.clone(), shown.etag()),
        (made.bytes.clone(), made.etag())
    );
    let read = c.get(&content_of(&id)).await.expect(200);
    assert_eq!(read.bytes, b"<html>");
    assert_eq!(read.header("content-type"), "application/octet-stream");
    assert!(
        read.header("content-disposition")
            .starts_with("attachment; filename=")
    );
    assert!(read.header("content-security-policy").contains("sandbox"));
    let again = c
        .get(&content_of(&id))
        .with("if-none-match", &read.etag())
        .await;
    again.expect(304);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_with_one_file_is_an_upload_and_any_other_is_refused() {
    let c = account().await.test();
    let part = |name: &str| {
        format!(
            "--x\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"C:\\\\a\\\\b.png\"\r\nContent-Type: image/png\r\n\r\n"
        )
    };
    let form = |parts: &[&str], content: &[u8]| {
        let mut body = Vec::new();
        for name in parts {
            body.extend(part(name).into_bytes());
            body.extend(content);
            body.extend(b"\r\n");
        }
        body.extend(b"--x--\r\n");
        c.call("POST", "/v1/attachments")
            .with("content-type", "multipart/form-data; boundary=x")
            .bytes(body)
    };
    let made = form(&["file"], PNG).await.expect(201);
    assert_eq!(
        (&made["filename"], &made["content_type"]),
        (&json!("b.png"), &json!("image/png"))
    );
    let read = c
        .get(&content_of(&made.id("attachment_id")))
        .await
        .expect(200);
    assert_eq!(
        (&read.bytes[..], read.header("content-type")),
        (PNG, "image/png")
    );
    assert!(read.header("content-disposition").starts_with("inline"));
    form(&["other"], PNG)
        .await
        .error(400, "invalid_request", "file");
    form(&["file", "file"], PNG)
        .await
        .error(400, "invalid_request", "file");
    form(&[], PNG).await.error(400, "invalid_request", "file");
    form(&["file"], b"")
        .await
        .error(400, "invalid_request", "file");
    let no_boundary = c
        .call("POST", "/v1/attachments")
        .with("content-type", "multipart/form-data");
    no_boundary
        .bytes(*b"x")
        .await
        .error(400, "invalid_request", "Content-Type");
}

/// What stands in a form beside its file is held and looked through with each piece that comes.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_form_little_is_read_beside_its_file_and_a_file_of_any_length() {
    let account = account().await;
    let head = format!(
        "POST /v1/attachments HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\
         Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n",
        account.test_key()
    );
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let opening = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n";
    let (much, end) = ("x".repeat(100_000), "\r\n--b--\r\n");
    let cut_head = &opening[..opening.len() - 2];
    // Neither of these comes to its end: what has come is too much already.
    for before in [
        chunk(&much) + &chunk("x"),
        chunk(cut_head) + &chunk(&much) + &chunk("x"),
        chunk(&format!("{opening}file\r\n--b\r\n")) + &chunk(&much) + &chunk("x"),
    ] {
        let mut raw = Raw::connect(account.test().address()).await;
        raw.write(head.as_bytes()).await;
        raw.write(before.as_bytes()).await;
        let answer = raw.read_to_end(Duration::from_secs(10)).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert!(
            answer.body().contains("\"field\":\"file\""),
            "{}",
            answer.text
        );
    }
    // The file's own bytes do not count, in whatever pieces they come.
    let mut raw = Raw::connect(account.test().address()).await;
    raw.write(head.as_bytes()).await;
    for piece in [
        &format!("{opening}{much}"),
        &much,
        &much[1..],
        &end[..3],
        &end[3..],
        "",
    ] {
        raw.write(chunk(piece).as_bytes()).await;
    }
    assert_eq!(raw.read_head().await, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_names_what_is_wrong() {
    let c = account().await.test();
    c.call("POST", "/v1/attachments")
        .await
        .error(400, "invalid_request", "file");
    let large = vec![0; 26_214_401];
    sent_as(&c, "a", "text/plain", &large)
        .await
        .error(413, "payload_too_large", "");
    let conversation = c.conversation().await;
    let messages = format!("/v1/conversations/{conversation}/messages");
    let id = uploaded(&c, b"x").await;
    for (message, field) in [
        (json!({"attachment_id": id}), "attachment_id"),
        (json!({"type": "file"}), "content"),
        (
            json!({"type": "file", "attachment_id": id, "content": "https://a.example/"}),
            "content",
        ),
        (
            json!({"type": "file", "attachment_id": "att_0"}),
            "attachment_id",
        ),
        (
            json!({"type": "file", "attachment_id": "att_0190a0000000700080000000000000ff"}),
            "attachment_id",
        ),
    ] {
        c.post(&messages, message)
            .await
            .error(400, "invalid_request", field);
    }
    c.get(&at("att_0190a0000000700080000000000000ff"))
        .await
        .error(404, "not_found", "");
}

/// Uploads a file as the one part of a form, whose headers beside these are a browser's.
async fn sent_in_form(c: &Client, filename: &str, media_type: &str) -> Answer {
    let disposition = format!("Content-Disposition: form-data; name=\"file\"; {filename}");
    let body = format!("--x\r\n{disposition}\r\nContent-Type: {media_type}\r\n\r\nx\r\n--x--\r\n");
    c.call("POST", "/v1/attachments")
        .with("content-type", "multipart/form-data; boundary=x")
        .bytes(body)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_media_type_is_a_type_a_subtype_and_parameters_wherever_it_is_declared() {
    let c = account().await.test();
    for wrong in [
        "nothing",
        "text/",
        "/plain",
        "text plain",
        "text /plain",
        "text/plain/x",
        "*/*",
        "image/*",
        "text/plain; charset=\"utf",
        "text/plain; charset=\"utf\\\"",
        "text/plain; charset=\"utf-8\" x",
        "text/plain; charset",
        "text/plain; charset=",
        "text/plain; charset = utf-8",
        "text/plain, text/html",
    ] {
        let refused = sent_as(&c, "a", wrong, b"x").await;
        refused.error(400, "invalid_request", "Content-Type");
        let refused = sent_in_form(&c, "filename=\"a\"", wrong).await;
        refused.error(400, "invalid_request", "file");
    }
    for right in [
        "text/plain; charset=utf-8",
        "Text/Plain;charset=\"utf-8\"; format=flowed",
        "text/plain;",
        "text/plain ; a=\"; \\\" b=\"",
        "application/vnd.api+json",
    ] {
        let made = sent_as(&c, "a", right, b"x").await.expect(201);
        assert_eq!(made["content_type"], right);
        let made = sent_in_form(&c, "filename=\"a\"", right).await.expect(201);
        assert_eq!(made["content_type"], right);
    }
    let undeclared = c.call("POST", "/v1/attachments").bytes(*b"x").await;
    assert_eq!(
        undeclared.expect(201)["content_type"],
        "application/octet-stream"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_names_no_file_or_shows_as_another_is_refused() {
    let c = account().await.test();
    let long = "a".repeat(501);
    for wrong in [
        "",
        ".",
        "..",
        " ",
        "folder/",
        "C:\\\\folder\\\\..",
        // It shows as `aexe.jpg`.
        "a\u{202e}gpj.exe",
        "a\u{202a}b",
        "a\u{2066}b\u{2069}.txt",
        "a\u{2028}b",
        "a\u{85}b",
        &long,
    ] {
        let refused = sent_as(&c, wrong, "text/plain", b"x").await;
        refused.error(400, "invalid_request", "Content-Disposition");
        let quoted = format!("filename=\"{wrong}\"");
        let refused = sent_in_form(&c, &quoted, "text/plain").await;
        refused.error(400, "invalid_request", "file");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extended_name_is_held_to_the_same_and_to_its_charset() {
    let c = account().await.test();
    for wrong in [
        "filename*=UTF-8''a%E2%80%AEgpj.exe",
        "filename*=UTF-8''a%0Ab",
        "filename*=UTF-8''a%00",
        "filename*=UTF-8''..%2F",
        // Not in UTF-8, and in a charset that nobody has to know.
        "filename*=UTF-8''%FF",
        "filename*=KOI8-R''%C1",
    ] {
        let refused = c
            .call("POST", "/v1/attachments")
            .with("content-disposition", &format!("attachment; {wrong}"));
        let refused = refused.bytes(*b"x").await;
        refused.error(400, "invalid_request", "Content-Disposition");
        let refused = sent_in_form(&c, wrong, "text/plain").await;
        refused.error(400, "invalid_request", "file");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_stored_as_it_is_said_without_the_folders_before_it() {
    let c = account().await.test();
    for (said, name) in [
        ("filename=\"/tmp/a b.txt\"", "a b.txt"),
        ("filename=\".gitignore\"", ".gitignore"),
        ("filename=\"na\u{ef}ve.txt\"", "na\u{ef}ve.txt"),
        // A mark that a name in Hebrew may have turns nothing around.
        ("filename=\"\u{5d0}\u{200f}.txt\"", "\u{5d0}\u{200f}.txt"),
        ("filename*=UTF-8''na%C3%AFve.txt", "na\u{ef}ve.txt"),
        (
            "filename=\"naive.txt\"; filename*=utf-8'en'na%C3%AFve.txt",
            "na\u{ef}ve.txt",
        ),
        ("filename*=ISO-8859-1''na%EFve.txt", "na\u{ef}ve.txt"),
    ] {
        let made = c
            .call("POST", "/v1/attachments")
            .with("content-disposition", &format!("attachment; {said}"));
        let made = made.bytes(*b"x").await.expect(201);
        assert_eq!(made["filename"], name, "{said}");
        let made = sent_in_form(&c, said, "text/plain").await.expect(201);
        assert_eq!(made["filename"], name, "{said}");
    }
    let unnamed = c.call("POST", "/v1/attachments").bytes(*b"x").await;
    assert_eq!(unnamed.expect(201)["filename"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_disposition_is_refused() {
    let c = account().await.test();
    // What is no disposition names nothing, and of two nobody knows which is meant.
    for wrong in [
        "Content-Disposition: filename=\"a.txt\"",
        "Content-Disposition: attachment; filename=a\r\nContent-Disposition: attachment; filename=b",
    ] {
        let request = format!(
            "POST /v1/attachments HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\n{wrong}\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
            c.credential().unwrap()
        );
        let refused = exchange(c.address(), request.as_bytes()).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        let named = "\"field\":\"Content-Disposition\"";
        assert!(refused.text.contains(named), "{}", refused.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_type_image_takes_an_image_and_nothing_else() {
    let c = account().await.test();
    let conversation = c.conversation().await;
    let path = format!("/v1/conversations/{conversation}");
    let messages = format!("{path}/messages");
    for (kind, content) in [
        ("text/plain", &b"words"[..]),
        ("image/png", b"<html><script>"),
        (
            "image/svg+xml",
            b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        ),
        ("image/heic", b"\0\0\0\x18ftypheic"),
    ] {
        let made = sent_as(&c, "a.png", kind, content).await.expect(201);
        let id = made.id("attachment_id");
        let image = json!({"type": "image", "attachment_id": id});
        let before = c.get(&path).await.expect(200).etag();
        let refused = c.post(&messages, image.clone()).await;
        refused.error(400, "invalid_request", "attachment_id");
        let many = json!({"operations": [{"op": "message", "conversation_id": conversation, "body": image}]});
        let many = c.post("/v1/conversations/bulk", many).await.expect(200);
        let many = &many["data"][0];
        assert_eq!(many["status"], 400, "{many}");
        assert_eq!(c.get(&path).await.expect(200).etag(), before);
        // The file is nobody's yet: as what it is, it is taken.
        send(&c, &conversation, &id).await.expect(201);
    }
    for content in [
        PNG,
        b"\xff\xd8\xff\xe0 and what follows",
        b"GIF89a and what follows",
        b"RIFF....WEBP and what follows",
    ] {
        let id = uploaded(&c, content).await;
        let image = json!({"type": "image", "attachment_id": id});
        let sent = c.post(&messages, image).await.expect(201);
        assert_eq!(sent["attachment"]["attachment_id"], id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_called_an_image_that_is_none_is_a_download() {
    let c = account().await.test();
    let made = sent_as(&c, "a.png", "image/png", b"<html><script>")
        .await
        .expect(201);
    assert_eq!(made["content_type"], "application/octet-stream");
    let read = c
        .get(&content_of(&made.id("attachment_id")))
        .await
        .expect(200);
    assert_eq!(read.header("content-type"), "application/octet-stream");
    assert!(read.header("content-disposition").starts_with("attachment"));
}

/// Reads parts of one file, as clients that go on with a download do.
async fn check_ranges(c: &Client) {
    let content: Vec<u8> = (0..200_003_u32).map(|at| (at % 251) as u8).collect();
    let id = uploaded(c, &content).await;
    let whole = c.get(&content_of(&id)).await.expect(200);
    assert_eq!(whole.bytes, content);
    assert_eq!(whole.header("accept-ranges"), "bytes");
    for (range, start, end) in [
        ("bytes=0-0", 0, 1),
        ("bytes=65530-65545", 65_530, 65_546),
        ("bytes=65536-131071", 65_536, 131_072),
        ("bytes=-3", 200_000, 200_003),
        ("bytes=131072-", 131_072, 200_003),
        ("bytes=200002-999999", 200_002, 200_003),
        // The name of a unit has no case (RFC 9110, 14.1).
        ("Bytes=0-1", 0, 2),
        ("BYTES=-1", 200_002, 200_003),
    ] {
        let part = c
            .get(&content_of(&id))
            .with("range", range)
            .await
            .expect(206);
        assert_eq!(part.bytes, content[start..end], "{range}");
        let told = format!("bytes {start}-{}/200003", end - 1);
        assert_eq!(part.header("content-range"), told);
        assert_eq!(part.etag(), whole.etag());
    }
    let behind = c.get(&content_of(&id)).with("range", "bytes=200003-").await;
    let behind = behind.error(416, "range_not_satisfiable", "");
    assert_eq!(behind.header("content-range"), "bytes */200003");
    assert_eq!(behind.header("content-type"), "application/json");
    let behind = c
        .get(&content_of(&id))
        .with("range", "bytes=200003-")
        .with("accept", "application/problem+json")
        .await
        .expect(416);
    assert_eq!(behind.header("content-range"), "bytes */200003");
    assert_eq!(
        (&behind["status"], &behind["code"]),
        (&json!(416), &json!("range_not_satisfiable"))
    );
    // Whoever has the whole needs no part of it, there or not (RFC 9110, 13.2.2).
    for range in ["bytes=0-1", "bytes=200003-"] {
        let held = c.get(&content_of(&id)).with("range", range);
        held.with("if-none-match", &whole.etag()).await.expect(304);
    }
    for (tag, status) in [(whole.etag(), 206), ("\"another\"".to_owned(), 200)] {
        let part = c
            .get(&content_of(&id))
            .with("range", "bytes=0-9")
            .with("if-range", &tag);
        part.await.expect(status);
    }
    let head = c.call("HEAD", &content_of(&id)).await.expect(200);
    assert_eq!(head.header("content-length"), "200003");
}

/// What stands at a place of the interface's description, where references lead.
fn described<'d>(document: &'d Value, at: &str) -> &'d Value {
    let found = document.pointer(at).unwrap_or_else(|| panic!("no {at}"));
    match found["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => found,
    }
}

#[tokio::test]
async fn the_interfaces_description_tells_of_parts_and_of_names() {
    let document = shared().anonymous().get("/openapi.json").await.expect(200);
    let document = document.body;
    let content = "/paths/~1v1~1attachments~1{attachment_id}~1content/get";
    let has_parameter = |at: &str, name: &str| {
        let all = document.pointer(&format!("{at}/parameters")).unwrap();
        let reference = format!("#/components/parameters/{name}");
        all.as_array()
            .unwrap()
            .iter()
            .any(|one| one["$ref"] == reference)
    };
    for name in ["Range", "If-Range"] {
        assert!(has_parameter(content, name), "{name}");
    }
    assert!(has_parameter(
        "/paths/~1v1~1attachments/post",
        "Content-Disposition"
    ));
    for (status, headers) in [
        ("200", &["Accept-Ranges", "Content-Disposition"][..]),
        (
            "206",
            &["Accept-Ranges", "Content-Disposition", "Content-Range"],
        ),
        ("416", &["Content-Range"]),
    ] {
        let response = described(&document, &format!("{content}/responses/{status}"));
        for name in headers {
            assert!(response["headers"][name].is_object(), "{status} {name}");
        }
    }
    let whole = described(&document, &format!("{content}/responses/200"));
    assert!(whole["headers"]["Content-Range"].is_null());
    let refused = described(&document, &format!("{content}/responses/416"));
    let words = refused["description"].as_str().unwrap();
    assert!(words.contains("range_not_satisfiable"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_is_read_by_its_range() {
    check_ranges(&account().await.test()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_where_texts_are_and_read_in_part_all_the_same() {
    let mut server = Setup::default()
        .env("COLLOQUY__ENCRYPTION__ENABLED", "true")
        .env(
            "COLLOQUY__ENCRYPTION__MASTER_KEY",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        )
        .start();
    let c = server.account().await.test();
    check_ranges(&c).await;
    let marker = b"a marker that nobody may find in any file";
    let id = sent_as(&c, "a-marked-name.txt", "text/plain", marker)
        .await
        .expect(201);
    let read = c
        .get(&content_of(&id.id("attachment_id")))
        .await
        .expect(200);
    assert_eq!(read.bytes, marker);
    for marker in ["a marker that nobody may find", "a-marked-name"] {
        assert_eq!(server.places_with(marker), Vec::<PathBuf>::new());
    }
    server.term();
    server.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_takes_a_file_and_no_other_message_does() {
    let c = account().await.test();
    let id = uploaded(&c, b"content").await;
    let (first, second) = (c.conversation().await, c.conversation().await);
    let (one, other) = tokio::join!(send(&c, &first, &id), send(&c, &second, &id));
    let (won, lost) = if one.status == 201 {
        (one, other)
    } else {
        (other, one)
    };
    lost.error(409, "conflict", "attachment_id");
    let won = won.expect(201);
    let url = won["content"].as_str().unwrap().to_owned();
    assert!(
        url.starts_with("http") && url.ends_with(&content_of(&id)),
        "{url}"
    );
    assert_eq!(won["attachment"], c.get(&at(&id)).await.expect(200).body);
    let conversation = won["conversation_id"].as_str().unwrap();
    send(&c, conversation, &id)
        .await
        .error(409, "conflict", "attachment_id");
    let message = format!(
        "/v1/conversations/{conversation}/messages/{}",
        won.id("message_id")
    );
    assert_eq!(c.get(&message).await.expect(200).body, won.body);
    let edit = json!({"content": "https://example.com/"});
    c.patch(&message, edit)
        .await
        .error(400, "invalid_request", "content");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_under_its_key_an_upload_and_a_message_are_done_once() {
    let c = account().await.test();
    let upload = |content: &'static [u8]| {
        c.call("POST", "/v1/attachments")
            .with("idempotency-key", "upload-1")
            .bytes(content)
    };
    let made = upload(b"content").await.expect(201);
    let again = upload(b"content").await.expect(201);
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(
        (again.bytes.clone(), again.etag()),
        (made.bytes.clone(), made.etag())
    );
    upload(b"other")
        .await
        .error(422, "idempotency_key_reused", "");
    let id = made.id("attachment_id");
    let messages = format!("/v1/conversations/{}/messages", c.conversation().await);
    let message = json!({"type": "file", "attachment_id": id});
    let send = || {
        c.post(&messages, message.clone())
            .with("idempotency-key", "message-1")
    };
    let sent = send().await.expect(201);
    let again = send().await.expect(201);
    assert_eq!(
        (
            again.bytes,
            again.headers.contains_key("idempotent-replayed")
        ),
        (sent.bytes, true)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_redacted_is_nobodys_and_its_bytes_go() {
    let mut server = Server::start();
    let c = server.account().await.test();
    let id = uploaded(&c, b"to be forgotten").await;
    let conversation = c.conversation().await;
    let sent = send(&c, &conversation, &id).await.expect(201);
    let message = format!(
        "/v1/conversations/{conversation}/messages/{}",
        sent.id("message_id")
    );
    c.delete(&message).await.expect(204);
    c.get(&at(&id)).await.error(404, "not_found", "");
    c.get(&content_of(&id)).await.error(404, "not_found", "");
    until("its bytes are gone", SOON, async || {
        files(&server).is_empty().then_some(())
    })
    .await;
    let left = c.get(&message).await.expect(200);
    assert!(
        left["redacted"] == true && left.body.get("attachment").is_none(),
        "{left}"
    );
    send(&c, &conversation, &id)
        .await
        .error(400, "invalid_request", "attachment_id");
    server.term();
    server.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_see_it() {
    let account = account().await;
    let c = account.test();
    let (agent, other, admin) = (
        c.user("agent").await,
        c.user("agent").await,
        c.user("admin").await,
    );
    let id = uploaded(&c.acting_for(&agent), b"content").await;
    for (client, status) in [
        (c.clone(), 200),
        (c.acting_for(&agent), 200),
        (c.acting_for(&admin), 200),
        (c.acting_for(&other), 404),
        (account.live(), 404),
        (account.read(), 404),
        (crate::support::account().await.test(), 404),
    ] {
        client.get(&at(&id)).await.expect(status);
        client.get(&content_of(&id)).await.expect(status);
    }
    let conversation = c.conversation().await;
    let others = send(&c.acting_for(&other), &conversation, &id).await;
    others.error(400, "invalid_request", "attachment_id");
    send(&c.acting_for(&agent), &conversation, &id)
        .await
        .expect(201);
    c.acting_for(&other).get(&at(&id)).await.expect(200);
    let (narrow, _) = account
        .key(json!({"type": "test", "user_id": other, "scopes": ["conversations:assigned"]}))
        .await;
    narrow.get(&at(&id)).await.expect(404);
    let path = format!("/v1/conversations/{conversation}");
    c.patch(&path, json!({"assignee_id": other}))
        .await
        .expect(200);
    narrow.get(&at(&id)).await.expect(200);
    narrow.get(&content_of(&id)).await.expect(200);
}

/// Begins an upload and sends half of it.
async fn half_an_upload(c: &Client) -> TcpStream {
    let mut stream = TcpStream::connect(c.address()).await.unwrap();
    let head = format!(
        "POST /v1/attachments HTTP/1.1\r\nHost: x\r\nAuthorization: {}\r\nContent-Length: 2000000\r\n\r\n",
        c.credential().unwrap()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![7; 1_000_000]).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_ends_before_its_time_leaves_nothing() {
    let mut server = Server::start();
    let c = server.account().await.test();
    let stream = half_an_upload(&c).await;
    until("it has begun", SOON, async || {
        (!files(&server).is_empty()).then_some(())
    })
    .await;
    drop(stream);
    until("nothing is left", SOON, async || {
        files(&server).is_empty().then_some(())
    })
    .await;
    server.term();
    server.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_leaves_neither_bytes_without_a_record_nor_a_record_without_bytes() {
    let mut server = Server::start();
    let account = server.account().await;
    let c = account.test();
    let (kept, taken) = (uploaded(&c, b"kept").await, uploaded(&c, b"taken").await);
    let conversation = c.conversation().await;
    send(&c, &conversation, &taken).await.expect(201);
    let _half = half_an_upload(&c).await;
    until("it has begun", SOON, async || {
        (files(&server).len() == 3).then_some(())
    })
    .await;
    server.restart();
    let c = c.at(&server.address());
    until("nothing is left of it", SOON, async || {
        (files(&server).len() == 2).then_some(())
    })
    .await;
    for (id, content) in [(&kept, "kept"), (&taken, "taken")] {
        assert_eq!(
            c.get(&content_of(id)).await.expect(200).bytes,
            content.as_bytes()
        );
    }
    send(&c, &conversation, &taken)
        .await
        .error(409, "conflict", "attachment_id");
    send(&c, &conversation, &kept).await.expect(201);
    server.term();
    server.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_no_message_takes_within_a_day_goes() {
    let (mut server, clock) = Clock::start();
    let c = server.account().await.test();
    let (left, taken) = (uploaded(&c, b"left").await, uploaded(&c, b"taken").await);
    let conversation = c.conversation().await;
    send(&c, &conversation, &taken).await.expect(201);
    clock.ahead(23 * 60 + 50);
    server.restart();
    let c = c.at(&server.address());
    c.get(&at(&left)).await.expect(200);
    clock.ahead(24 * 60 + 1);
    server.restart();
    let c = c.at(&server.address());
    until("it is gone", SOON, async || {
        (c.get(&at(&left)).await.status == 404 && files(&server).len() == 1).then_some(())
    })
    .await;
    c.get(&content_of(&taken)).await.expect(200);
    send(&c, &conversation, &taken)
        .await
        .error(409, "conflict", "attachment_id");
    server.term();
    server.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_upload_takes_no_memory_for_its_size() {
    let mut server = Setup::default()
        .env("COLLOQUY__LIMITS__MAX_ATTACHMENT_BYTES", "300000000")
        .start();
    let c = server.account().await.test();
    let before = peak_mib(server.pid());
    let id = uploaded(&c, &vec![1; 200_000_000]).await;
    let part = c
        .get(&content_of(&id))
        .with("range", "bytes=199999990-")
        .await
        .expect(206);
    assert_eq!(part.bytes, [1; 10]);
    let grown = peak_mib(server.pid()) - before;
    assert!(grown < 100, "{grown} MiB more");
    server.term();
}
