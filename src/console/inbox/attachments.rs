//! Files of the open conversation: one that is dropped into an answer becomes a message of its own, and
//! those of messages are shown here, where a browser is signed in.

use colloquy_model::attachment::{is_shown, legible};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::super::figures::bytes;
use super::super::parts::{number, text};
use super::super::reply::Reply;
use super::super::session::Session;
use super::{HERE, Inbox, messages};
use crate::http::{BodyReader, Problem, Request, Verb};

/// Takes the file that is the request's body, and sends it as a message. Under the same key both are
/// done once.
pub(super) async fn send(
    inbox: &Inbox<'_>,
    conversation: &str,
    body: &mut BodyReader<'_>,
) -> Result<Reply, Problem> {
    let key = inbox.visit.query("key");
    // A key is one request's.
    let keys = (!key.is_empty()).then(|| (format!("{key}-file"), key));
    let keys = keys.as_ref();
    let upload = Request {
        verb: Verb::Post,
        idempotency_key: keys.map(|(of_file, _)| of_file.as_str()),
        ..Request::get("/v1/attachments")
    };
    let made = inbox.session.upload(upload, body).await?.body;
    let kind = match is_shown(text(&made, "content_type")) {
        true => "image",
        false => "file",
    };
    let path = format!("/v1/conversations/{conversation}/messages");
    let message = json!({
        "type": kind, "attachment_id": text(&made, "attachment_id"), "sender_type": "agent",
    });
    let request = Request {
        idempotency_key: keys.map(|(_, of_message)| of_message.as_str()),
        ..Request::new(Verb::Post, &path, &message)
    };
    let sent = inbox.session.ask(request).await?;
    Ok(Reply::part(messages::message(inbox, &sent.body)))
}

/// The bytes of an attachment.
pub(super) async fn show(session: &Session, id: &str) -> Result<Reply, Problem> {
    let path = format!("/v1/attachments/{id}/content");
    Ok(Reply::attachment(session.file(&path).await?))
}

/// An attachment as it is shown in its message.
pub(super) fn attachment(attachment: &Value) -> Markup {
    let at = format!("{HERE}/attachments/{}", text(attachment, "attachment_id"));
    let (name, is_image) = (name(attachment), is_shown(text(attachment, "content_type")));
    html! {
        @if is_image {
            a.picture href=(at) target="_blank" rel="noopener" {
                img src={ (at) "/thumbnail" } alt=(name) loading="lazy";
            }
        }
        p.words { a href=(at) download[!is_image] target="_blank" rel="noopener" dir="auto" { (name) }
            " " span.faint { (bytes(number(attachment, "bytes"))) } }
    }
}

/// What it is called, in an order of letters that its sender has not turned.
pub(super) fn name(attachment: &Value) -> String {
    match text(attachment, "filename") {
        "" => "File".to_owned(),
        name => legible(name, char::REPLACEMENT_CHARACTER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_taken_when_any_was_shows_what_is_in_it() {
        let stored =
            json!({"filename": "a\u{202e}gpj.exe", "content_type": "text/plain", "bytes": 1});
        let shown = attachment(&stored).into_string();
        assert!(shown.contains("a\u{fffd}gpj.exe"), "{shown}");
        assert!(!shown.contains('\u{202e}'), "{shown}");
    }
}
