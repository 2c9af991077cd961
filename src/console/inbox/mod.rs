//! The inbox: conversations in a list, the one that is open, its customer beside it. Lives by the
//! WebSocket: a script hears what happens and asks for the parts of the page that have changed.
//!
//! - here: the list, and the whole page
//! - `thread.rs` the open conversation: its messages, and what is done with it
//! - `attachments.rs` a file as it is sent and shown
//! - `thumbnail.rs` an image, small
//! - `messages.rs` one message as it is shown, sent, edited and redacted
//! - `refused.rs` what was typed and refused where no script keeps it

mod attachments;
mod messages;
mod refused;
mod thread;
mod thumbnail;

use futures_util::future::join_all;
use maud::{Markup, html};
use serde_json::Value;

use self::refused::Refused;
use self::thread::Thread;
use super::layout::{self, Page};
use super::parts::{PER_PAGE, badge, number, offset, pages, refusal, target, text};
use super::reply::Reply;
use super::session::Session;
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{BodyReader, Found, Kind, Problem, Request, Verb};

const HERE: &str = "/console/inbox";
const STATUSES: &[(&str, &str)] = &[
    ("active", "Active"),
    ("pending", "Pending"),
    ("closed", "Closed"),
    ("all", "All"),
];
const CHANNELS: &[&str] = &["chat", "email", "voice"];
const PRIORITIES: &[&str] = &["low", "normal", "high"];

/// The inbox of an account.
pub(super) struct Inbox<'i> {
    visit: &'i Visit,
    session: &'i Session,
    /// The users to whom conversations may be assigned.
    users: Found,
    /// What was just sent and refused, which the page shows again.
    refused: Option<Refused>,
}

/// The pages of the inbox, and the parts of them that a script asks for.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    if session.principal.is_none() {
        return Err(Problem::forbidden("open an account's side first"));
    }
    let path = asked.path.get(1..).unwrap_or_default();
    if let (["attachments", id], None) = (path, &asked.form) {
        return attachments::show(session, id).await;
    }
    if let (["attachments", id, "thumbnail"], None) = (path, &asked.form) {
        return thumbnail::show(visit, session, id).await;
    }
    if let (["ticket"], Some(_)) = (path, &asked.form) {
        let nothing = serde_json::json!({});
        let ticket = Request::new(Verb::Post, "/v1/realtime/tickets", &nothing);
        return Ok(Reply::json(&session.ask(ticket).await?.body));
    }
    let inbox = Inbox::open(visit, session).await?;
    match (path, asked.form) {
        (["people"], None) => Ok(Reply::json(&inbox.people())),
        ([], None) if visit.is_fragment() => inbox.list(None).await.map(Reply::part),
        ([], None) => inbox.page(None).await,
        ([id], None) => inbox.page(Some(Thread::read(&inbox, id).await?)).await,
        ([id, rest @ ..], form) => {
            let written = form.as_ref().and_then(|form| Refused::of(rest, form));
            match (thread::answer(&inbox, id, rest, form).await, written) {
                (Err(problem), Some(written)) if problem.is_refusal() && !visit.is_fragment() => {
                    inbox.again(id, written.because(problem)).await
                }
                (answered, _) => answered,
            }
        }
        _ => Err(no_such_page()),
    }
}

/// Sends the file that is the request's body into a conversation.
pub(super) async fn receive(
    visit: &Visit,
    session: &Session,
    conversation: &str,
    body: &mut BodyReader<'_>,
) -> Result<Reply, Problem> {
    if session.principal.is_none() {
        return Err(Problem::forbidden("open an account's side first"));
    }
    let inbox = Inbox::open(visit, session).await?;
    attachments::send(&inbox, conversation, body).await
}

impl<'i> Inbox<'i> {
    async fn open(visit: &'i Visit, session: &'i Session) -> Result<Self, Problem> {
        let users = match session.get("/v1/users?limit=100").await {
            // Whoever may see no others assigns to none.
            Err(problem) if problem.kind == Kind::Forbidden => Found::default(),
            users => users?,
        };
        Ok(Inbox {
            visit,
            session,
            users,
            refused: None,
        })
    }
}

impl Inbox<'_> {
    /// The name of a user of the account, whether it can be assigned or not.
    fn user_name(&self, id: &str) -> String {
        let tenant = self.session.person().tenant;
        let tenant = self
            .session
            .principal
            .as_ref()
            .map_or(tenant, |principal| principal.tenant());
        let identity = &self.visit.app.system.identity;
        id.parse()
            .ok()
            .and_then(|id| identity.person(tenant, id))
            .map_or_else(
                || "Somebody who is gone".to_owned(),
                |user| user.name.clone(),
            )
    }

    /// The identifier of the person, where it is a user of the account.
    fn own_id(&self) -> String {
        match self.session.is_operator() {
            true => String::new(),
            false => self.session.person().user.to_string(),
        }
    }

    async fn page(&self, thread: Option<Thread>) -> Result<Reply, Problem> {
        let open = thread.as_ref().map(|thread| thread.id().to_owned());
        let list = match self.list(open.as_deref()).await {
            Ok(list) => list,
            // What can't be searched for is told in the list's place.
            Err(problem) if problem.is_refusal() => refusal(&problem),
            Err(problem) => return Err(problem),
        };
        let title = thread
            .as_ref()
            .map_or("Inbox", Thread::customer_name)
            .to_owned();
        let shown = match &thread {
            Some(thread) => thread.markup(self).await?,
            None => html! {
                section.thread.is-empty { div.empty {
                    h2 { "No conversation is open" }
                    p { "Choose one from the list: " kbd { "j" } " and " kbd { "k" } " go through it, " kbd { "Enter" } " opens." }
                } }
            },
        };
        let content = html! {
            div.inbox.is-open[thread.is_some()] data-inbox data-user=(self.own_id()) data-open=[open] data-people=(self.people().to_string()) {
                section.list aria-label="Conversations" {
                    h1.hidden[thread.is_some()] { "Inbox" }
                    (self.filters())
                    div #list data-live=(self.here()) { (list) }
                }
                (shown)
            }
        };
        let page = Page::new(title, content).wide().with_scripts(&["inbox.js"]);
        Ok(layout::page(self.visit, Some(self.session), page))
    }

    /// This page's list, as a script asks for it again.
    fn here(&self) -> String {
        format!("{HERE}?{}", self.visit.request.query_string())
    }

    /// The names of those who may type and be present.
    fn people(&self) -> Value {
        let people = self.users.items().iter();
        let people = people.map(|user| {
            let name = user.get("name").cloned().unwrap_or_default();
            (text(user, "user_id").to_owned(), name)
        });
        Value::Object(people.collect())
    }

    /// What the address asks the list for, or what holds where it says nothing.
    fn filter(&self, name: &str) -> String {
        let chosen = self.visit.query(name);
        match (name, chosen.as_str()) {
            // Whoever searches means all of them.
            ("status", "") if self.visit.query("q").is_empty() => "active".to_owned(),
            ("status", "all") => String::new(),
            _ => chosen,
        }
    }

    async fn list(&self, open: Option<&str>) -> Result<Markup, Problem> {
        let q = self.visit.query("q");
        let offset = offset(self.visit).to_string();
        let filters: Vec<(&str, String)> = ["status", "channel", "priority", "assignee_id"]
            .into_iter()
            .map(|name| (name, self.filter(name)))
            .collect();
        let mut parameters: Vec<(&str, &str)> = filters
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let per_page = PER_PAGE.to_string();
        parameters.extend([("limit", per_page.as_str()), ("offset", &offset)]);
        match q.trim() {
            "" => parameters.push(("sort", "updated_at")),
            q => parameters.push(("q", q)),
        }
        let found = self
            .session
            .get(&target("/v1/conversations", &parameters))
            .await?;
        let last = join_all(found.items().iter().map(|one| self.last_words(one))).await;
        let rows = found.items().iter().zip(last);
        Ok(html! {
            @if found.items().is_empty() { (self.nothing(&q)) }
            @else {
                ul.conversations data-list {
                    @for (conversation, last) in rows { (self.row(conversation, &last, open)) }
                }
                (pages(self.visit, &found))
            }
        })
    }

    fn nothing(&self, q: &str) -> Markup {
        html! {
            div.empty {
                @if !q.is_empty() {
                    h2 { "Nothing found" }
                    p { "No conversation has all of these words in its messages or its customer's name." }
                } @else if self.visit.request.query_string().is_empty() {
                    h2 { "All done" }
                    p { "No conversation waits for you. New ones appear here by themselves." }
                } @else {
                    h2 { "None like this" }
                    p { "No conversation fits these filters." }
                }
                @if !self.visit.request.query_string().is_empty() { p { a.button href=(HERE) { "Show what is active" } } }
            }
        }
    }

    /// What was said last in a conversation; nothing where that can't be told now.
    async fn last_words(&self, conversation: &Value) -> String {
        let count = number(conversation, "message_count");
        let id = text(conversation, "conversation_id");
        if count == 0 {
            return String::new();
        }
        let path = format!(
            "/v1/conversations/{id}/messages?before_seq={}&limit=1",
            count + 1
        );
        let found = self.session.get(&path).await;
        let last = found.ok().and_then(|found| found.items().first().cloned());
        last.map_or_else(String::new, |message| {
            let attached = message.get("attachment");
            match (text(&message, "content"), attached) {
                ("", _) => "(redacted)".to_owned(),
                (_, Some(attached)) => attachments::name(attached),
                (words, None) => words.chars().take(120).collect(),
            }
        })
    }

    fn row(&self, conversation: &Value, last: &str, open: Option<&str>) -> Markup {
        let id = text(conversation, "conversation_id");
        let is_open = open == Some(id);
        let query = self.visit.request.query_string();
        let customer = conversation
            .get("customer")
            .map_or("", |customer| text(customer, "name"));
        html! {
            li.is-open[is_open] id={ "row-" (id) } {
                a href={ (HERE) "/" (id) @if !query.is_empty() { "?" (query) } } data-item aria-current=[is_open.then_some("true")] {
                    span.who-when {
                        strong dir="auto" { (customer) }
                        time.faint datetime=(last_at(conversation)) data-time="short" { (last_at(conversation).get(..10).unwrap_or_default()) }
                    }
                    span.last.faint dir="auto" { (last) }
                    span.marks {
                        (state(conversation))
                        (priority(conversation))
                        span.faint { (text(conversation, "channel")) }
                        @if !text(conversation, "assignee_id").is_empty() {
                            span.faint { "· " (self.user_name(text(conversation, "assignee_id"))) }
                        }
                    }
                }
            }
        }
    }

    fn filters(&self) -> Markup {
        let q = self.visit.query("q");
        let status = match self.filter("status").as_str() {
            "" => "all".to_owned(),
            status => status.to_owned(),
        };
        let others = ["channel", "priority", "assignee_id"];
        let chosen = others
            .iter()
            .filter(|name| !self.visit.query(name).is_empty())
            .count();
        html! {
            nav.tabs aria-label="Status" {
                @for (value, words) in STATUSES {
                    a href=(self.with_status(value)) aria-current=[(*value == status).then_some("page")] { (words) }
                }
            }
            form.search method="get" action=(HERE) role="search" {
                label.hidden for="q" { "Search conversations" }
                input #q type="search" name="q" value=(q) placeholder="Search messages and names" data-search;
                details open[chosen > 0] {
                    summary { "Filter" @if chosen > 0 { " (" (chosen) ")" } }
                    (choice("channel", "Channel", &words(CHANNELS), &self.visit.query("channel")))
                    (choice("priority", "Priority", &words(PRIORITIES), &self.visit.query("priority")))
                    (choice("assignee_id", "Assigned to", &self.assignees("Anybody"), &self.visit.query("assignee_id")))
                    button.button.small { "Apply" }
                }
            }
        }
    }

    /// The same search and filters among conversations of this status.
    fn with_status(&self, status: &str) -> String {
        let names = ["q", "channel", "priority", "assignee_id"];
        let values = names.map(|name| self.visit.query(name));
        let mut parameters: Vec<(&str, &str)> = names
            .into_iter()
            .zip(values.iter().map(String::as_str))
            .collect();
        parameters.push(("status", status));
        target(HERE, &parameters)
    }

    /// To whom a conversation may be assigned; the person comes first.
    fn assignees(&self, nobody: &str) -> Vec<(String, String)> {
        let own = self.own_id();
        let mut all = vec![(String::new(), nobody.to_owned())];
        let users = self.users.items().iter();
        let users = users.map(|user| {
            (
                text(user, "user_id").to_owned(),
                text(user, "name").to_owned(),
            )
        });
        let (me, others): (Vec<_>, Vec<_>) = users.partition(|(id, _)| *id == own);
        all.extend(
            me.into_iter()
                .map(|(id, name)| (id, format!("{name} (you)"))),
        );
        all.extend(others);
        all
    }
}

fn words(values: &[&str]) -> Vec<(String, String)> {
    let any = (String::new(), "Any".to_owned());
    let values = values
        .iter()
        .map(|value| ((*value).to_owned(), capitalized(value)));
    std::iter::once(any).chain(values).collect()
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().chain(letters).collect())
        .unwrap_or_default()
}

/// A choice without a form of its own.
fn choice(name: &str, label: &str, values: &[(String, String)], chosen: &str) -> Markup {
    html! {
        label { span { (label) } select name=(name) {
            @for (value, words) in values { option value=(value) selected[value == chosen] { (words) } }
        } }
    }
}

fn last_at(conversation: &Value) -> &str {
    match text(conversation, "last_message_at") {
        "" => text(conversation, "created_at"),
        at => at,
    }
}

fn state(conversation: &Value) -> Markup {
    match text(conversation, "status") {
        "active" => badge("active", "accent"),
        "pending" if !text(conversation, "snoozed_until").is_empty() => badge("snoozed", "warn"),
        "pending" => badge("pending", "warn"),
        other => badge(other, "quiet"),
    }
}

fn priority(conversation: &Value) -> Markup {
    match text(conversation, "priority") {
        "high" => badge("high", "bad"),
        _ => html! {},
    }
}
