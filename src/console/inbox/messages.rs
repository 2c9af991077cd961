//! Messages of the open conversation: how one is shown, sent, edited and redacted.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::super::forms::Form;
use super::super::layout::csrf;
use super::super::parts::{is, number, target, text};
use super::super::reply::Reply;
use super::refused::Refused;
use super::{HERE, Inbox, attachments};
use crate::console::no_such_page;
use crate::http::{Problem, Request, Verb};

/// Messages of one part that a script asks for.
const PART: u64 = 100;

/// A name under which a message is sent once, however often its form is.
pub(super) fn new_key() -> String {
    format!(
        "console-{:016x}{:016x}",
        colloquy_model::random::u64(),
        colloquy_model::random::u64()
    )
}

/// Answers what is asked about messages.
pub(super) async fn answer(
    inbox: &Inbox<'_>,
    conversation: &str,
    rest: &[&str],
    form: Option<Form>,
) -> Result<Reply, Problem> {
    match (rest, form) {
        ([], None) => some(inbox, conversation).await,
        ([], Some(form)) => send(inbox, conversation, &form).await,
        ([id], None) => {
            let path = format!("/v1/conversations/{conversation}/messages/{id}");
            let found = inbox.session.get(&path).await?;
            Ok(Reply::part(message(inbox, &found.body)))
        }
        ([id, "edit"], Some(form)) => edit(inbox, conversation, id, &form).await,
        ([id, "redact"], Some(_)) => redact(inbox, conversation, id).await,
        ([id, "revisions"], None) => revisions(inbox, conversation, id).await,
        _ => Err(no_such_page()),
    }
}

/// The messages behind one, or those before one: what a script has missed, or what came earlier.
async fn some(inbox: &Inbox<'_>, conversation: &str) -> Result<Reply, Problem> {
    let after = inbox.visit.query("after_seq");
    if after.is_empty() {
        let before = inbox.visit.query("before_seq").parse().unwrap_or(1);
        return page(inbox, conversation, before, PART)
            .await
            .map(Reply::part);
    }
    let path = format!("/v1/conversations/{conversation}/messages");
    let limit = PART.to_string();
    let parameters = [("after_seq", after.as_str()), ("limit", &limit)];
    let found = inbox.session.get(&target(&path, &parameters)).await?;
    Ok(Reply::part(html! {
        @for one in found.items() { (message(inbox, one)) }
    }))
}

/// The last messages before one, with the way to those before them.
pub(super) async fn page(
    inbox: &Inbox<'_>,
    conversation: &str,
    before: u64,
    limit: u64,
) -> Result<Markup, Problem> {
    let path = format!("/v1/conversations/{conversation}/messages");
    let (before, limit) = (before.max(1).to_string(), limit.to_string());
    let parameters = [("before_seq", before.as_str()), ("limit", &limit)];
    let found = inbox.session.get(&target(&path, &parameters)).await?;
    let first = found
        .items()
        .first()
        .map_or(1, |first| number(first, "seq"));
    Ok(html! {
        @if first > 1 {
            div.earlier {
                button.button.small type="button" hx-get={ (HERE) "/" (conversation) "/messages?before_seq=" (first) } hx-target="closest .earlier" hx-swap="outerHTML" {
                    "Earlier messages (" (first - 1) ")"
                }
            }
        }
        @for one in found.items() { (message(inbox, one)) }
    })
}

async fn send(inbox: &Inbox<'_>, conversation: &str, form: &Form) -> Result<Reply, Problem> {
    let path = format!("/v1/conversations/{conversation}/messages");
    let body = json!({"content": form.words("content")?, "sender_type": "agent"});
    let request = Request {
        idempotency_key: form.filled("key"),
        ..Request::new(Verb::Post, &path, &body)
    };
    let sent = inbox.session.ask(request).await?;
    Ok(match inbox.visit.is_fragment() {
        true => Reply::part(message(inbox, &sent.body)),
        false => Reply::see_other(&format!("{HERE}/{conversation}")),
    })
}

async fn edit(
    inbox: &Inbox<'_>,
    conversation: &str,
    id: &str,
    form: &Form,
) -> Result<Reply, Problem> {
    let path = format!("/v1/conversations/{conversation}/messages/{id}");
    let body = json!({"content": form.words("content")?});
    let edited = inbox
        .session
        .ask(Request::new(Verb::Patch, &path, &body))
        .await?;
    Ok(match inbox.visit.is_fragment() {
        true => Reply::part(message(inbox, &edited.body)),
        false => Reply::see_other(&format!("{HERE}/{conversation}")),
    })
}

async fn redact(inbox: &Inbox<'_>, conversation: &str, id: &str) -> Result<Reply, Problem> {
    let path = format!("/v1/conversations/{conversation}/messages/{id}");
    let request = Request {
        verb: Verb::Delete,
        ..Request::get(&path)
    };
    inbox.session.ask(request).await?;
    if !inbox.visit.is_fragment() {
        return Ok(Reply::see_other(&format!("{HERE}/{conversation}")));
    }
    let found = inbox.session.get(&path).await?;
    Ok(Reply::part(message(inbox, &found.body)))
}

/// What a message said before.
async fn revisions(inbox: &Inbox<'_>, conversation: &str, id: &str) -> Result<Reply, Problem> {
    let path = format!("/v1/conversations/{conversation}/messages/{id}/revisions?limit=20");
    let found = inbox.session.get(&path).await?;
    Ok(Reply::part(html! {
        ol.revisions {
            @for revision in found.items() {
                li { p.words dir="auto" { (text(revision, "content")) }
                    span.faint { "until " (super::super::parts::time(revision, "replaced_at")) } }
            }
        }
    }))
}

/// A message as it is shown. What it says is text, whatever it looks like.
pub(super) fn message(inbox: &Inbox<'_>, message: &Value) -> Markup {
    let sender = text(message, "sender_type");
    let id = text(message, "message_id");
    let is_mine = sender == "agent" && text(message, "sender_id") == inbox.own_id();
    let is_redacted = is(message, "redacted");
    let edited = !text(message, "edited_at").is_empty();
    html! {
        article class={ "message " (sender) @if is_mine { " is-mine" } } id=(id) data-seq=(number(message, "seq")) {
            header {
                strong dir="auto" { (author(inbox, message)) }
                " " time.faint datetime=(text(message, "sent_at")) data-time { (text(message, "sent_at")) }
                @if edited && !is_redacted { " " span.faint { "edited" } }
            }
            @if is_redacted { p.words.faint { "This message was redacted." } }
            @else { (words(message)) (tools(inbox, message, edited)) }
        }
    }
}

fn author(inbox: &Inbox<'_>, message: &Value) -> String {
    match text(message, "sender_type") {
        "customer" => "Customer".to_owned(),
        "agent" => match text(message, "sender_id") {
            "" => "Agent".to_owned(),
            id => inbox.user_name(id),
        },
        _ => "System".to_owned(),
    }
}

fn words(message: &Value) -> Markup {
    let content = text(message, "content");
    if let Some(attached) = message.get("attachment").filter(|one| one.is_object()) {
        return attachments::attachment(attached);
    }
    match text(message, "type") {
        // A picture of somebody else's server is not loaded: that server would learn who reads.
        kind @ ("image" | "file") => html! {
            p.words { (kind) ": " a href=(content) rel="noopener noreferrer" target="_blank" { (content) } }
        },
        _ => html! { p.words dir="auto" { (content) } },
    }
}

/// Whether the text of a message can be changed: it is an agent's, and a text.
pub(super) fn is_editable(message: &Value) -> bool {
    text(message, "sender_type") == "agent" && text(message, "type") == "text"
}

/// Where the text of a message is changed; with what was typed there, if that was refused.
fn editor(inbox: &Inbox<'_>, message: &Value, refused: Option<&Refused>) -> Markup {
    let id = text(message, "message_id");
    let typed = refused.and_then(|refused| refused.edit(id));
    let to = format!(
        "{HERE}/{}/messages/{id}/edit",
        text(message, "conversation_id")
    );
    html! {
        form method="post" action=(to) hx-post=(to) hx-target={ "#" (id) } hx-swap="outerHTML" {
            (csrf(inbox.session))
            @if let Some(refused) = refused { (refused.why()) }
            label for={ "edit-" (id) } { "Edit" }
            textarea id={ "edit-" (id) } name="content" rows="3" required dir="auto" { "\n" (typed.unwrap_or(text(message, "content"))) }
            button.button.small { "Save" }
        }
    }
}

/// What can be done with a message.
fn tools(inbox: &Inbox<'_>, message: &Value, edited: bool) -> Markup {
    let (conversation, id) = (
        text(message, "conversation_id"),
        text(message, "message_id"),
    );
    let at = format!("{HERE}/{conversation}/messages/{id}");
    let refused = inbox.refused.as_ref();
    let refused = refused.filter(|refused| refused.edit(id).is_some());
    html! {
        details.tools open[refused.is_some()] {
            summary { span.hidden { "What to do with this message" } span aria-hidden="true" { "⋯" } }
            div {
                @if is_editable(message) { (editor(inbox, message, refused)) }
                @if edited {
                    button.button.small type="button" hx-get={ (at) "/revisions" } hx-target={ "#" (id) " .earlier-texts" } { "What it said before" }
                    div.earlier-texts {}
                }
                form method="post" action={ (at) "/redact" } {
                    (csrf(inbox.session))
                    button.button.small.danger data-confirm="What the message says is erased everywhere, for good. The message stays in its place." { "Redact" }
                }
            }
        }
    }
}
