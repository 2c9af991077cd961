//! The open conversation: its messages, its customer, and what is done with it.

use std::time::Duration;

use colloquy_model::time::Timestamp;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::super::forms::Form;
use super::super::layout::csrf;
use super::super::parts::{number, target, text, time};
use super::super::reply::Reply;
use super::super::session::say;
use super::refused::Refused;
use super::{HERE, Inbox, PRIORITIES, capitalized, messages, priority, state};
use crate::console::no_such_page;
use crate::http::{Found, Kind, Problem, Request, Verb};

/// Messages that are shown at once; those before are a click away.
pub(super) const MESSAGES: u64 = 50;
const SNOOZES: &[(&str, &str)] = &[
    ("3600", "1 hour"),
    ("14400", "4 hours"),
    ("86400", "1 day"),
    ("604800", "1 week"),
];

/// A conversation as it was read.
pub(super) struct Thread {
    conversation: Found,
}

/// Answers what is asked about one conversation.
pub(super) async fn answer(
    inbox: &Inbox<'_>,
    id: &str,
    rest: &[&str],
    form: Option<Form>,
) -> Result<Reply, Problem> {
    match (rest, form) {
        ([], Some(form)) => change(inbox, id, &form).await,
        (["head"], None) => {
            let thread = Thread::read(inbox, id).await?;
            Ok(Reply::part(thread.head(inbox)))
        }
        (["side"], None) => {
            let thread = Thread::read(inbox, id).await?;
            Ok(Reply::part(thread.side(inbox).await?))
        }
        (["answer"], None) => {
            let thread = Thread::read(inbox, id).await?;
            Ok(Reply::part(thread.composer(inbox)))
        }
        (["messages", rest @ ..], form) => messages::answer(inbox, id, rest, form).await,
        _ => Err(no_such_page()),
    }
}

/// Does what a button or a choice asks for.
async fn change(inbox: &Inbox<'_>, id: &str, form: &Form) -> Result<Reply, Problem> {
    let path = format!("/v1/conversations/{id}");
    let (body, words) = match form.text("do") {
        "close" => (json!({"status": "closed"}), "The conversation is closed."),
        "reopen" => (
            json!({"status": "active"}),
            "The conversation is open again.",
        ),
        "wait" => (json!({"status": "pending"}), "It waits for the customer."),
        "wake" => (
            json!({"status": "active"}),
            "The conversation is active again.",
        ),
        "snooze" => {
            let seconds = form.text("seconds").parse().unwrap_or(3_600);
            let until = Timestamp::now() + Duration::from_secs(seconds);
            let body = json!({"status": "pending", "snoozed_until": until});
            (body, "It comes back by itself.")
        }
        "assign" => (
            json!({"assignee_id": form.filled("assignee_id")}),
            "The assignment is saved.",
        ),
        "priority" => (
            json!({"priority": form.text("priority")}),
            "The priority is saved.",
        ),
        _ => return Err(Problem::invalid("do", "must be one of the page's buttons")),
    };
    let request = Request::new(Verb::Patch, &path, &body);
    inbox.session.ask(request).await?;
    if inbox.visit.is_fragment() {
        let thread = Thread::read(inbox, id).await?;
        return Ok(Reply::part(thread.head(inbox)));
    }
    let reply = Reply::see_other(&format!("{HERE}/{id}"));
    Ok(say(inbox.visit, reply, words))
}

impl Thread {
    /// Reads a conversation of this account.
    pub(super) async fn read(inbox: &Inbox<'_>, id: &str) -> Result<Self, Problem> {
        let path = format!("/v1/conversations/{id}");
        let conversation = inbox.session.get(&path).await?;
        Ok(Thread { conversation })
    }

    pub(super) fn id(&self) -> &str {
        text(&self.conversation.body, "conversation_id")
    }

    pub(super) fn customer_name(&self) -> &str {
        let customer = self.conversation.body.get("customer");
        customer.map_or("", |customer| text(customer, "name"))
    }

    /// How many messages it has, and so the number of the last one.
    pub(super) fn last(&self) -> u64 {
        number(&self.conversation.body, "message_count")
    }

    pub(super) fn is_closed(&self) -> bool {
        text(&self.conversation.body, "status") == "closed"
    }

    /// The conversation with all that belongs to it.
    pub(super) async fn markup(&self, inbox: &Inbox<'_>) -> Result<Markup, Problem> {
        let id = self.id();
        let messages = messages::page(inbox, id, self.last() + 1, MESSAGES).await?;
        let side = self.side(inbox).await?;
        Ok(html! {
            section.thread aria-label="Conversation" {
                div #head { (self.head(inbox)) }
                div.messages #messages role="log" aria-label="Messages" tabindex="0" data-conversation=(id) {
                    (messages)
                }
                p.faint.signs #signs aria-live="polite" {}
                div #answer { (self.composer(inbox)) }
            }
            aside.beside #side aria-label="Customer" { (side) }
        })
    }

    fn action(&self) -> String {
        format!("{HERE}/{}", self.id())
    }

    /// Who it is with, how it stands, and what can be done.
    fn head(&self, inbox: &Inbox<'_>) -> Markup {
        let conversation = &self.conversation.body;
        let assignee = text(conversation, "assignee_id");
        html! {
            header.head {
                a.button.small.back href=(HERE) { "Inbox" }
                h1 dir="auto" { a href={ "/console/customers/" (text(conversation, "customer_id")) } { (self.customer_name()) } }
                (state(conversation)) (priority(conversation))
                span.present #present aria-live="polite" {}
            }
            div.doing {
                (self.doing(inbox))
                form.inline method="post" action=(self.action()) {
                    (csrf(inbox.session)) input type="hidden" name="do" value="assign";
                    label.hidden for="assignee" { "Assigned to" }
                    select #assignee name="assignee_id" data-submit {
                        @for (value, words) in inbox.assignees("Assigned to nobody") {
                            option value=(value) selected[value == assignee] { (words) }
                        }
                        @if !assignee.is_empty() && !inbox.assignees("").iter().any(|(id, _)| id == assignee) {
                            option value=(assignee) selected { (inbox.user_name(assignee)) }
                        }
                    }
                    noscript { button.button.small { "Assign" } }
                }
                form.inline method="post" action=(self.action()) {
                    (csrf(inbox.session)) input type="hidden" name="do" value="priority";
                    label.hidden for="priority" { "Priority" }
                    select #priority name="priority" data-submit {
                        @for value in PRIORITIES {
                            option value=(value) selected[*value == text(conversation, "priority")] { (capitalized(value)) " priority" }
                        }
                    }
                    noscript { button.button.small { "Set" } }
                }
            }
        }
    }

    /// The ways from the state that it has to another.
    fn doing(&self, inbox: &Inbox<'_>) -> Markup {
        let button = |what: &str, words: &str, class: &str| {
            html! {
                form.inline method="post" action=(self.action()) {
                    (csrf(inbox.session))
                    button class={ "button small " (class) } name="do" value=(what) { (words) }
                }
            }
        };
        let until = text(&self.conversation.body, "snoozed_until");
        let status = text(&self.conversation.body, "status");
        html! {
            @match status {
                "closed" => (button("reopen", "Reopen", "")),
                "pending" => { (button("close", "Close", "primary")) (button("wake", "Make active", "")) },
                _ => { (button("close", "Close", "primary")) (button("wait", "Wait for customer", "")) },
            }
            @if status != "closed" {
                form.inline method="post" action=(self.action()) {
                    (csrf(inbox.session)) input type="hidden" name="do" value="snooze";
                    label.hidden for="snooze" { "Snooze for" }
                    select #snooze name="seconds" data-submit {
                        option value="" { @if until.is_empty() { "Snooze…" } @else { "Snoozed" } }
                        @for (seconds, words) in SNOOZES { option value=(seconds) { "for " (words) } }
                    }
                    noscript { button.button.small { "Snooze" } }
                }
            }
            @if !until.is_empty() { span.faint { "until " (time(&self.conversation.body, "snoozed_until")) } }
        }
    }

    /// Where an answer is written.
    fn composer(&self, inbox: &Inbox<'_>) -> Markup {
        let refused = inbox.refused.as_ref();
        let answer = refused.and_then(Refused::answer);
        let key = refused.and_then(Refused::key);
        let key = key.map_or_else(messages::new_key, str::to_owned);
        html! {
            @if let Some(refused) = refused.filter(|refused| refused.has_no_field()) { (refused.to_copy()) }
            @if self.is_closed() {
                div.notice { "This conversation is closed. Reopen it to answer." }
            } @else {
                form.composer method="post" action={ (self.action()) "/messages" } data-composer {
                    (csrf(inbox.session))
                    input type="hidden" name="key" value=(key);
                    @if let (Some(refused), Some(_)) = (refused, answer) { (refused.why()) }
                    label.hidden for="answer-text" { "Your answer" }
                    textarea #answer-text name="content" rows="3" required placeholder="Write an answer. Ctrl Enter sends it." dir="auto" data-answer { "\n" (answer.unwrap_or_default()) }
                    div.actions {
                        label.button.attach data-attach hidden { "Attach files" input type="file" multiple data-files; }
                        button.button.primary { "Send" }
                    }
                }
            }
        }
    }

    /// The customer, and what else is known of the conversation.
    async fn side(&self, inbox: &Inbox<'_>) -> Result<Markup, Problem> {
        let conversation = &self.conversation.body;
        let id = text(conversation, "customer_id");
        let customer = match inbox.session.get(&format!("/v1/customers/{id}")).await {
            // Who works with some of the conversations only sees what they say of the customer.
            Err(problem) if problem.kind == Kind::Forbidden => {
                conversation.get("customer").cloned()
            }
            customer => Some(customer?.body),
        };
        let customer = &customer.unwrap_or_default();
        let parameters = [("customer_id", id), ("limit", "6")];
        let path = target("/v1/conversations", &parameters);
        let others = inbox.session.get(&path).await?;
        Ok(html! {
            h2 dir="auto" { a href={ "/console/customers/" (id) } { (text(customer, "name")) } }
            dl.facts {
                @if !text(customer, "email").is_empty() { div { dt { "E-mail" } dd { (text(customer, "email")) } } }
                @if !text(customer, "external_id").is_empty() { div { dt { "Your own ID" } dd { code { (text(customer, "external_id")) } } } }
                @if customer.get("created_at").is_some() { div { dt { "Customer since" } dd { (time(customer, "created_at")) } } }
            }
            (metadata(customer))
            h2 { "This conversation" }
            dl.facts {
                div { dt { "Channel" } dd { (capitalized(text(conversation, "channel"))) } }
                div { dt { "Begun" } dd { (time(conversation, "created_at")) } }
                @if self.is_closed() { div { dt { "Closed" } dd { (time(conversation, "closed_at")) } } }
                div { dt { "Messages" } dd { (number(conversation, "message_count")) } }
                div { dt { "ID" } dd { code { (self.id()) } } }
            }
            (metadata(conversation))
            @if others.total() > 1 {
                h2 { "Other conversations" }
                ul.others {
                    @for other in others.items().iter().filter(|other| text(other, "conversation_id") != self.id()) {
                        li { a href={ (HERE) "/" (text(other, "conversation_id")) } { (time(other, "created_at")) } " " (state(other)) }
                    }
                }
                @if others.total() > 6 { p { a href={ "/console/customers/" (id) } { "All " (others.total()) } } }
            }
        })
    }
}

/// What the account's own software has noted.
fn metadata(value: &Value) -> Markup {
    let metadata = value.get("metadata").and_then(Value::as_object);
    let pairs: Vec<_> = metadata.into_iter().flatten().collect();
    html! {
        @if !pairs.is_empty() {
            details { summary { "Metadata" }
                dl.facts {
                    @for (name, value) in pairs {
                        div { dt dir="auto" { (name) } dd dir="auto" { @match value { Value::String(words) => (words), other => code { (other.to_string()) } } } }
                    }
                }
            }
        }
    }
}
