//! The console as a browser without script has it: each form is answered by a whole page, and what
//! was typed into one that is refused stands on it again, beside why.

use futures_util::future::join_all;
use serde_json::json;

use super::super::support::console::{Person, Seen};
use super::super::support::{Account, account};
use super::texts;

/// Longer than a message may be.
fn long() -> String {
    format!("an hour of work {}", "and more ".repeat(8_000))
}

/// An agent in front of a conversation with one answer; with the conversation and that answer.
async fn answered(account: &Account) -> (Person, String, String) {
    let person = Person::user(account, "agent").await;
    let conversation = account.live().conversation().await;
    let path = format!("/v1/conversations/{conversation}/messages");
    let body = json!({"content": "the first words", "sender_type": "agent"});
    let sent = account.live().post(&path, body).await.expect(201);
    (person, conversation, sent.id("message_id"))
}

/// What the field with this identifier holds.
fn typed<'s>(seen: &'s Seen, field: &str) -> &'s str {
    let start = format!("<textarea id=\"{field}\"");
    let found = seen.text.split_once(&start);
    let (_, rest) = found.unwrap_or_else(|| panic!("no {field}: {}", seen.text));
    let (_, held) = rest.split_once(">\n").unwrap();
    held.split("</textarea>").next().unwrap()
}

#[track_caller]
fn assert_says(seen: &Seen, words: &str) {
    let (_, told) = seen.text.split_once("role=\"alert\"").unwrap();
    assert!(told.contains(words), "no {words:?}: {}", seen.text);
}

#[tokio::test]
async fn a_refused_answer_stands_in_its_field_beside_why() {
    let account = account().await;
    let (person, conversation, _) = answered(&account).await;
    let to = format!("/console/inbox/{conversation}/messages");
    let fields = [("content", &*long()), ("key", "once")];
    let refused = person.post(&to, &fields).await.expect(422);
    assert_eq!(typed(&refused, "answer-text"), long());
    assert_says(&refused, "must be 1 to");
    assert!(refused.text.contains("the first words"), "with its thread");
    let shorter = [("content", "shorter"), ("key", &refused.held("key"))];
    person.post(&to, &shorter).await.expect(303);
    assert_eq!(
        texts(&account, &conversation).await,
        ["the first words", "shorter"]
    );
}

#[tokio::test]
async fn an_answer_that_is_on_its_way_already_is_sent_again_under_its_own_name() {
    let account = account().await;
    let (person, conversation, _) = answered(&account).await;
    let to = format!("/console/inbox/{conversation}/messages");
    let fields = [("content", "pressed twice"), ("key", "once")];
    for seen in join_all((0..16).map(|_| person.post(&to, &fields))).await {
        if seen.status != 303 {
            assert_eq!(seen.expect(422).held("key"), "once");
        }
    }
    assert_eq!(
        texts(&account, &conversation).await,
        ["the first words", "pressed twice"]
    );
}

#[tokio::test]
async fn an_answer_to_what_was_closed_meanwhile_can_be_copied() {
    let account = account().await;
    let (person, conversation, _) = answered(&account).await;
    let path = format!("/v1/conversations/{conversation}/close");
    account.live().post(&path, json!({})).await.expect(200);
    let to = format!("/console/inbox/{conversation}/messages");
    let refused = person.post(&to, &[("content", "Done?")]).await.expect(422);
    assert_eq!(typed(&refused, "kept-0"), "Done?");
    assert_says(&refused, "closed");
    assert!(refused.text.contains("Reopen"), "{}", refused.text);
}

#[tokio::test]
async fn a_refused_edit_stands_in_its_messages_field_beside_why() {
    let account = account().await;
    let (person, conversation, message) = answered(&account).await;
    let at = format!("/console/inbox/{conversation}/messages/{message}");
    let edit = format!("{at}/edit");
    let refused = person.post(&edit, &[("content", &long())]).await;
    let refused = refused.expect(422);
    assert_eq!(typed(&refused, &format!("edit-{message}")), long());
    assert_says(&refused, "must be 1 to");
    assert!(
        refused.text.contains("<details class=\"tools\" open>"),
        "it is shown: {}",
        refused.text
    );
    assert_eq!(typed(&refused, "answer-text"), "", "it is no answer");
    // What was redacted meanwhile has no field any more.
    person.post(&format!("{at}/redact"), &[]).await.expect(303);
    let refused = person.post(&edit, &[("content", "Sorry?")]).await;
    let refused = refused.expect(422);
    assert_eq!(typed(&refused, "kept-0"), "Sorry?");
    assert_says(&refused, "redacted");
}

#[tokio::test]
async fn what_says_nothing_is_refused_with_what_to_do() {
    let account = account().await;
    let (person, conversation, message) = answered(&account).await;
    let to = format!("/console/inbox/{conversation}/messages");
    for blank in ["", "  ", "\r\n \t\u{a0}\u{2003}\r\n"] {
        let refused = person.post(&to, &[("content", blank)]).await.expect(422);
        assert_says(&refused, "write a word or more");
        let edit = format!("{to}/{message}/edit");
        let refused = person.post(&edit, &[("content", blank)]).await.expect(422);
        assert_says(&refused, "write a word or more");
    }
    assert_eq!(texts(&account, &conversation).await, ["the first words"]);
    let document = account.live().document("1\n").await;
    let id = document.rsplit('/').next().unwrap();
    let comments = format!("/console/documents/{id}/comments");
    let admin = Person::user(&account, "admin").await;
    let blank = [("start_line", "1"), ("body", " \r\n ")];
    let refused = admin.post(&comments, &blank).await.expect(422);
    assert!(
        refused.text.contains("write a word or more"),
        "{}",
        refused.text
    );
}

#[tokio::test]
async fn what_a_form_without_its_own_page_sent_can_be_copied() {
    let account = account().await;
    let (person, conversation, _) = answered(&account).await;
    let gone = account.live().document("1\n").await;
    account.live().delete(&gone).await.expect(204);
    let id = gone.rsplit('/').next().unwrap();
    let words = "words";
    for (to, name) in [
        (format!("/console/documents/{id}/edit"), "content"),
        (format!("/console/documents/{id}/comments"), "body"),
        (
            format!("/console/inbox/{conversation}x/messages"),
            "content",
        ),
    ] {
        let refused = person.post(&to, &[(name, words), ("base", "1")]).await;
        let refused = refused.expect(404);
        assert_eq!(typed(&refused, "kept-0"), words, "{to}");
        assert!(
            !refused.text.contains("kept-1"),
            "{to}: only what was typed"
        );
    }
}

#[tokio::test]
async fn a_refused_change_of_a_comment_keeps_its_words() {
    let account = account().await;
    let person = Person::user(&account, "admin").await;
    let document = account.live().document("1\n").await;
    let body = json!({"start_line": 1, "body": "before"});
    let comments = format!("{document}/comments");
    let made = account.live().post(&comments, body).await.expect(201);
    let id = document.rsplit('/').next().unwrap();
    let here = format!("/console/documents/{id}/comments");
    let one = made.id("comment_id");
    let to = format!("{here}/{one}");
    let refused = person.post(&to, &[("body", &long())]).await.expect(400);
    assert_eq!(typed(&refused, "kept-0"), long());
    assert!(refused.text.contains("must be 1 to"), "{}", refused.text);
}
