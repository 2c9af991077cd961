//! Webhooks: endpoints, how they fare, deliveries with every attempt, for the account's admins.

use colloquy_model::event_kind::EventKind;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::forms::{Form, Shown, object};
use super::layout::{self, Page, csrf};
use super::parts::{
    Field, badge, button, copied, empty, heading, is, listing, number, pages, problem, text, time,
};
use super::reply::Reply;
use super::session::{self, Session};
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, Problem, Request, Verb};

const HERE: &str = "/console/webhooks";
const FIELDS: &[&str] = &["url", "description", "events"];

/// The pages of the account's webhook endpoints.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_admin()?;
    let hooks = Webhooks { visit, session };
    match (asked.path.get(1..).unwrap_or_default(), asked.form) {
        ([], None) => hooks.list().await,
        (["new"], None) => Ok(hooks.new_page(&Shown::default())),
        ([], Some(form)) => hooks.create(&form).await,
        ([id], None) => hooks.one(id, &Shown::default(), html! {}).await,
        ([id], Some(form)) => hooks.change(id, &form).await,
        ([id, "enable" | "disable"], Some(_)) => {
            let enabled = asked.path.last() == Some(&"enable");
            hooks.switch(id, enabled).await
        }
        ([id, "test"], Some(form)) => hooks.test(id, &form).await,
        ([id, "rotate"], Some(form)) => hooks.rotate(id, &form).await,
        ([id, "replay"], Some(form)) => hooks.replay(id, &form).await,
        ([id, "delete"], Some(_)) => hooks.delete(id).await,
        ([id, "deliveries", delivery], None) => hooks.delivery(id, delivery).await,
        ([id, "deliveries", delivery, "retry"], Some(_)) => hooks.retry(id, delivery).await,
        _ => Err(no_such_page()),
    }
}

struct Webhooks<'w> {
    visit: &'w Visit,
    session: &'w Session,
}

impl Webhooks<'_> {
    fn page(&self, title: &str, content: Markup) -> Reply {
        layout::page(self.visit, Some(self.session), Page::new(title, content))
    }

    fn done(&self, to: &str, words: &str) -> Result<Reply, Problem> {
        Ok(session::say(self.visit, Reply::see_other(to), words))
    }

    async fn list(&self) -> Result<Reply, Problem> {
        let found = self
            .session
            .get(&listing(self.visit, "/v1/webhooks", &[]))
            .await?;
        let new = html! { a.button.primary href={ (HERE) "/new" } { "New endpoint" } };
        let content = html! {
            (heading("Webhooks", "Your servers are told what happens, each event at least once, in order.", new))
            @if found.items().is_empty() {
                (empty("No endpoints yet", "An endpoint is an address of yours that gets a POST for each event.", html! {}))
            } @else {
                div.table tabindex="0" { table {
                    caption.hidden { "Webhook endpoints" }
                    thead { tr { th { "Address" } th { "Events" } th { "State" } th { "Made" } } }
                    tbody data-list { @for one in found.items() {
                        tr {
                            td { a href={ (HERE) "/" (text(one, "webhook_id")) } data-item { (text(one, "url")) }
                                @if !text(one, "description").is_empty() { br; span.faint dir="auto" { (text(one, "description")) } } }
                            td { (events(one)) }
                            td { (state(one)) }
                            td { (time(one, "created_at")) }
                        }
                    } }
                } }
                (pages(self.visit, &found))
            }
        };
        Ok(self.page("Webhooks", content))
    }

    fn new_page(&self, shown: &Shown) -> Reply {
        let content = html! {
            (heading("New endpoint", "Its secret is shown once, on the next page.", html! {}))
            (problem(shown, FIELDS))
            form.card method="post" action=(HERE) {
                (csrf(self.session))
                (fields(shown))
                div.actions { a.button href=(HERE) { "Cancel" } button.button.primary { "Create" } }
            }
        };
        self.page("New endpoint", content)
    }

    async fn create(&self, form: &Form) -> Result<Reply, Problem> {
        let body = changes(form);
        match self
            .session
            .ask(Request::new(Verb::Post, "/v1/webhooks", &body))
            .await
        {
            Ok(made) => Ok(self.secret_page("Your new endpoint", &made)),
            Err(problem) if problem.is_refusal() => {
                let page = self.new_page(&Shown::again(form, problem));
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    /// The secret of an endpoint, this once.
    fn secret_page(&self, title: &str, made: &Found) -> Reply {
        let to = format!("{HERE}/{}", text(&made.body, "webhook_id"));
        let content = html! {
            (heading(title, text(&made.body, "url"), html! {}))
            section.card {
                p { "With this secret your server checks that a delivery is ours. Copy it now: " strong { "it is not shown again." } }
                (copied("Secret", text(&made.body, "secret")))
                p.faint { "Stripe's and Standard Webhooks' libraries verify the signatures as they are." }
                div.actions { a.button href=(to) { "Done" } }
            }
        };
        self.page(title, content)
    }

    async fn one(&self, id: &str, shown: &Shown, above: Markup) -> Result<Reply, Problem> {
        let path = format!("/v1/webhooks/{id}");
        let found = self.session.get(&path).await?;
        let hook = &found.body;
        let status = self.visit.query("status");
        let deliveries = format!("{path}/deliveries");
        let deliveries = self
            .session
            .get(&listing(self.visit, &deliveries, &[("status", &status)]))
            .await?;
        let here = format!("{HERE}/{id}");
        let content = html! {
            (heading(text(hook, "url"), text(hook, "description"), html! { (state(hook)) (self.switch_button(&here, hook)) }))
            (above)
            (disabled(hook))
            (self.deliveries(&here, &status, &deliveries))
            div.columns {
                (self.try_out(&here))
                (self.again(&here))
                section.card {
                    h2 { "Change" }
                    (problem(shown, FIELDS))
                    form method="post" action=(here) {
                        (csrf(self.session))
                        input type="hidden" name="etag" value=(found.etag.as_deref().unwrap_or_default());
                        (fields(&filled(shown, hook)))
                        div.actions { button.button.primary { "Save" } }
                    }
                }
                section.card {
                    h2 { "Secret" }
                    p { "A new secret is shown once. The one that it has goes on:" }
                    form.row method="post" action={ (here) "/rotate" } {
                        (csrf(self.session))
                        (Field { name: "overlap_seconds", label: "The old secret signs too", hint: "" }.choice(&Shown::default(), &[("86400", "for 24 more hours"), ("3600", "for one more hour"), ("0", "not at all")]))
                        button.button { "Rotate" }
                    }
                    h2.apart { "Delete" }
                    (button(self.session, &format!("{here}/delete"), "Delete this endpoint", "danger", "What waits for it is given up. This can't be undone."))
                }
            }
        };
        Ok(self.page(text(hook, "url"), content))
    }

    fn switch_button(&self, here: &str, hook: &Value) -> Markup {
        match is(hook, "enabled") {
            true => button(
                self.session,
                &format!("{here}/disable"),
                "Disable",
                "",
                "It gets nothing from now on, and what waits for it is given up.",
            ),
            false => button(
                self.session,
                &format!("{here}/enable"),
                "Enable",
                "primary",
                "",
            ),
        }
    }

    fn deliveries(&self, here: &str, status: &str, deliveries: &Found) -> Markup {
        html! {
            h2 { "Deliveries" }
            nav.tabs aria-label="Deliveries by status" {
                @for (value, words) in [("", "All"), ("pending", "Waiting"), ("delivered", "Delivered"), ("failed", "Failed")] {
                    a href={ (here) "?status=" (value) } aria-current=[(value == status).then_some("page")] { (words) }
                }
            }
            @if deliveries.items().is_empty() { p.faint { "None." } }
            @else {
                div.table tabindex="0" { table {
                    caption.hidden { "Deliveries" }
                    thead { tr { th { "Event" } th { "Status" } th.number { "Attempts" } th { "Next attempt" } th { "Made" } } }
                    tbody data-list { @for one in deliveries.items() {
                        tr {
                            td { a href={ (here) "/deliveries/" (text(one, "delivery_id")) } data-item { (text(one, "event")) } }
                            td { (delivery_state(one)) }
                            td.number { (number(one, "attempts")) }
                            td { (time(one, "next_attempt_at")) }
                            td { (time(one, "created_at")) }
                        }
                    } }
                } }
                (pages(self.visit, deliveries))
            }
        }
    }

    fn try_out(&self, here: &str) -> Markup {
        let kinds: Vec<(&str, &str)> = EventKind::EVENTS
            .iter()
            .map(|kind| (kind.word(), kind.word()))
            .collect();
        html! {
            section.card {
                h2 { "Send a test event" }
                p { "A sample, sent at once, to a disabled endpoint too." }
                form.row method="post" action={ (here) "/test" } {
                    (csrf(self.session))
                    (Field { name: "event", label: "Event", hint: "" }.choice(&Shown::default(), &kinds))
                    button.button { "Send it" }
                }
            }
        }
    }

    fn again(&self, here: &str) -> Markup {
        html! {
            section.card {
                h2 { "Send the past again" }
                p { "All stored events that fit, in order, beside what happens now." }
                form.row method="post" action={ (here) "/replay" } {
                    (csrf(self.session))
                    (Field { name: "since", label: "Since (UTC)", hint: "" }.line(&Shown::default(), "datetime-local", true))
                    (Field { name: "until", label: "Until (UTC)", hint: "" }.line(&Shown::default(), "datetime-local", false))
                    button.button data-confirm="Your server gets each of these events once more." { "Replay" }
                }
            }
        }
    }

    async fn change(&self, id: &str, form: &Form) -> Result<Reply, Problem> {
        let path = format!("/v1/webhooks/{id}");
        let body = changes(form);
        let request = Request {
            if_match: form.filled("etag"),
            ..Request::new(Verb::Patch, &path, &body)
        };
        match self.session.ask(request).await {
            Ok(_) => self.done(&format!("{HERE}/{id}"), "The endpoint is saved."),
            Err(problem) if problem.is_refusal() => {
                let shown = Shown::again(form, problem);
                let page = self.one(id, &shown, html! {}).await?;
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    async fn switch(&self, id: &str, enabled: bool) -> Result<Reply, Problem> {
        let path = format!("/v1/webhooks/{id}");
        let body = json!({"enabled": enabled});
        self.session
            .ask(Request::new(Verb::Patch, &path, &body))
            .await?;
        let words = if enabled {
            "The endpoint is enabled."
        } else {
            "The endpoint is disabled."
        };
        self.done(&format!("{HERE}/{id}"), words)
    }

    async fn test(&self, id: &str, form: &Form) -> Result<Reply, Problem> {
        let path = format!("/v1/webhooks/{id}/test");
        let body = json!({"event": form.text("event")});
        let tried = self
            .session
            .ask(Request::new(Verb::Post, &path, &body))
            .await?;
        let outcome = html! { section.card { h2 { "The test event" } (attempt(&tried.body)) } };
        self.one(id, &Shown::default(), outcome).await
    }

    async fn rotate(&self, id: &str, form: &Form) -> Result<Reply, Problem> {
        let path = format!("/v1/webhooks/{id}/rotate-secret");
        let overlap: Option<u64> = form.text("overlap_seconds").parse().ok();
        let body = object([("overlap_seconds", overlap.map(Value::from))]);
        let rotated = self
            .session
            .ask(Request::new(Verb::Post, &path, &body))
            .await?;
        Ok(self.secret_page("Its new secret", &rotated))
    }

    async fn replay(&self, id: &str, form: &Form) -> Result<Reply, Problem> {
        let path = format!("/v1/webhooks/{id}/replay");
        let instant = |name| {
            form.filled(name)
                .map(|text| Value::from(format!("{text}:00.000Z")))
        };
        let body = object([("since", instant("since")), ("until", instant("until"))]);
        match self
            .session
            .ask(Request::new(Verb::Post, &path, &body))
            .await
        {
            Ok(_) => self.done(
                &format!("{HERE}/{id}"),
                "The events are sent again, in order.",
            ),
            Err(problem) if problem.is_refusal() => {
                let shown = Shown {
                    form: Form::default(),
                    problem: None,
                };
                let page = self
                    .one(id, &shown, super::parts::refusal(&problem))
                    .await?;
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    async fn delete(&self, id: &str) -> Result<Reply, Problem> {
        let path = format!("/v1/webhooks/{id}");
        let request = Request {
            verb: Verb::Delete,
            ..Request::get(&path)
        };
        self.session.ask(request).await?;
        self.done(HERE, "The endpoint is deleted.")
    }

    async fn delivery(&self, id: &str, delivery: &str) -> Result<Reply, Problem> {
        let path = format!("/v1/webhooks/{id}/deliveries/{delivery}");
        let found = self.session.get(&path).await?;
        let one = &found.body;
        let log = one
            .get("attempt_log")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let here = format!("{HERE}/{id}");
        let again = button(
            self.session,
            &format!("{here}/deliveries/{delivery}/retry"),
            "Send it again",
            "primary",
            "",
        );
        let content = html! {
            p { a href=(here) { "Back to the endpoint" } }
            (heading(text(one, "event"), "", html! { (delivery_state(one)) (again) }))
            section.card {
                dl.facts {
                    div { dt { "Event's ID" } dd { code { (text(one, "event_id")) } } }
                    div { dt { "Made" } dd { (time(one, "created_at")) } }
                    div { dt { "Next attempt" } dd { (time(one, "next_attempt_at")) } }
                }
            }
            h2 { "Attempts" }
            @if number(one, "attempts") == 0 { p.faint { "None yet." } }
            @for entry in log { section.card { (attempt(entry)) } }
        };
        Ok(self.page(text(one, "event"), content))
    }

    async fn retry(&self, id: &str, delivery: &str) -> Result<Reply, Problem> {
        let path = format!("/v1/webhooks/{id}/deliveries/{delivery}/retry");
        let nothing = json!({});
        self.session
            .ask(Request::new(Verb::Post, &path, &nothing))
            .await?;
        self.done(
            &format!("{HERE}/{id}/deliveries/{delivery}"),
            "It is sent again, when its turn has come.",
        )
    }
}

fn changes(form: &Form) -> Value {
    let events = form.all("events");
    json!({
        "url": form.text("url").trim(),
        "description": form.filled("description"),
        "events": if events.is_empty() { vec!["*"] } else { events },
    })
}

fn filled(shown: &Shown, hook: &Value) -> Shown {
    if shown.problem.is_some() {
        return shown.clone();
    }
    let events = hook
        .get("events")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let events = events
        .filter_map(Value::as_str)
        .map(|event| ("events".to_owned(), event.to_owned()));
    let mut fields: Vec<(String, String)> = ["url", "description"]
        .iter()
        .map(|name| ((*name).to_owned(), text(hook, name).to_owned()))
        .collect();
    fields.extend(events);
    Shown {
        form: Form::of(&fields),
        problem: None,
    }
}

fn fields(shown: &Shown) -> Markup {
    let ticked = shown.form.all("events");
    html! {
        (Field { name: "url", label: "Address", hint: "Begins with https://" }.line(shown, "url", true))
        (Field { name: "description", label: "Description", hint: "For people." }.line(shown, "text", false))
        fieldset {
            legend { "Events" }
            p.hint { "None ticked: all of them." }
            div.boxes { @for kind in EventKind::EVENTS {
                label.choice { input type="checkbox" name="events" value=(kind.word()) checked[ticked.contains(&kind.word())]; " " code { (kind.word()) } }
            } }
            @if let Some(wrong) = shown.wrong("events") { p.wrong { "It " (wrong) "." } }
        }
    }
}

fn events(hook: &Value) -> String {
    let events = hook.get("events").and_then(Value::as_array);
    let events: Vec<&str> = events
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match events.as_slice() {
        ["*"] => "all".to_owned(),
        [one] => (*one).to_owned(),
        several => format!("{} kinds", several.len()),
    }
}

fn state(hook: &Value) -> Markup {
    match (is(hook, "enabled"), text(hook, "disabled_reason")) {
        (true, _) => badge("enabled", "good"),
        (false, "") => badge("disabled", "quiet"),
        (false, _) => badge("disabled by the server", "bad"),
    }
}

/// Why the server has disabled it, and what to do.
fn disabled(hook: &Value) -> Markup {
    let words = match text(hook, "disabled_reason") {
        "" => return html! {},
        "gone" => "It answered 410 Gone, which says that nobody lives there any more.",
        _ => "For days every attempt has failed.",
    };
    html! { div.notice.warn { (words) " Mend the receiver, enable it, then replay what it has missed." } }
}

fn delivery_state(delivery: &Value) -> Markup {
    match text(delivery, "status") {
        "delivered" => badge("delivered", "good"),
        "failed" => badge("failed", "bad"),
        _ => badge("waiting", "warn"),
    }
}

/// One attempt: what was answered, and what went wrong.
fn attempt(entry: &Value) -> Markup {
    let status = number(entry, "status");
    html! {
        dl.facts {
            div { dt { "When" } dd { (time(entry, "attempted_at")) } }
            div { dt { "Answer" } dd { @if status == 0 { "none" } @else { (badge(&status.to_string(), if status < 300 { "good" } else { "bad" })) } } }
            div { dt { "Took" } dd { (number(entry, "duration_ms")) " ms" } }
            @if !text(entry, "error").is_empty() { div { dt { "Went wrong" } dd { (text(entry, "error")) } } }
        }
        @if !text(entry, "answer").is_empty() { details { summary { "What was answered" } pre { (text(entry, "answer")) } } }
    }
}
