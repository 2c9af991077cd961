//! Customers: a list, and each with its conversations.

use maud::html;
use serde_json::json;

use super::forms::{Form, Shown};
use super::layout::{self, Page, csrf};
use super::parts::{
    Field, badge, button, empty, heading, listing, number, pages, problem, text, time,
};
use super::reply::Reply;
use super::session::{self, Session};
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, Problem, Request, Verb};

const HERE: &str = "/console/customers";
const FIELDS: &[&str] = &["name", "email", "external_id"];

/// The pages of the account's customers.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    let customers = Customers { visit, session };
    match (asked.path.get(1..).unwrap_or_default(), asked.form) {
        ([], None) => customers.list().await,
        (["new"], None) => Ok(customers.new_page(&Shown::default())),
        ([], Some(form)) => customers.create(&form).await,
        ([id], None) => customers.one(id, &Shown::default()).await,
        ([id], Some(form)) => customers.change(id, &form).await,
        ([id, "delete"], Some(_)) => customers.delete(id).await,
        ([id, "erase"], Some(_)) => customers.erase(id).await,
        ([id, "conversation"], Some(_)) => customers.begin(id).await,
        _ => Err(no_such_page()),
    }
}

struct Customers<'c> {
    visit: &'c Visit,
    session: &'c Session,
}

impl Customers<'_> {
    fn page(&self, title: &str, content: maud::Markup) -> Reply {
        layout::page(self.visit, Some(self.session), Page::new(title, content))
    }

    async fn list(&self) -> Result<Reply, Problem> {
        let wanted = self.visit.query("find");
        let wanted = wanted.trim();
        let by = if wanted.contains('@') {
            "email"
        } else {
            "external_id"
        };
        let found = self
            .session
            .get(&listing(self.visit, "/v1/customers", &[(by, wanted)]))
            .await?;
        let new = html! { a.button.primary href={ (HERE) "/new" } { "New customer" } };
        let content = html! {
            (heading("Customers", "", new))
            form.filters method="get" action=(HERE) role="search" {
                label.grow { "E-mail address or your own ID"
                    input type="search" name="find" value=(wanted) data-search; }
                button.button { "Find" }
            }
            @if found.items().is_empty() && wanted.is_empty() {
                (empty("No customers yet", "A customer is somebody your conversations are with. Your software makes them, or you do.", html! {}))
            } @else if found.items().is_empty() {
                (empty("Nobody found", "No customer has exactly this e-mail address or ID. To find a name, search in the inbox.", html! { p { a.button href=(HERE) { "Show all" } } }))
            } @else {
                div.table tabindex="0" { table {
                    caption.hidden { "Customers" }
                    thead { tr { th { "Name" } th { "E-mail" } th { "Your own ID" } th { "Since" } } }
                    tbody data-list { @for one in found.items() {
                        tr {
                            td dir="auto" { a href={ (HERE) "/" (text(one, "customer_id")) } data-item { (text(one, "name")) } }
                            td { (text(one, "email")) }
                            td { (text(one, "external_id")) }
                            td { (time(one, "created_at")) }
                        }
                    } }
                } }
                (pages(self.visit, &found))
            }
        };
        Ok(self.page("Customers", content))
    }

    fn new_page(&self, shown: &Shown) -> Reply {
        let content = html! {
            (heading("New customer", "", html! {}))
            (problem(shown, FIELDS))
            form.card method="post" action=(HERE) {
                (csrf(self.session))
                (fields(shown))
                div.actions { a.button href=(HERE) { "Cancel" } button.button.primary { "Create" } }
            }
        };
        self.page("New customer", content)
    }

    async fn create(&self, form: &Form) -> Result<Reply, Problem> {
        let body = changes(form);
        let request = Request::new(Verb::Post, "/v1/customers", &body);
        match self.session.ask(request).await {
            Ok(made) => {
                let to = format!("{HERE}/{}", text(&made.body, "customer_id"));
                let reply = Reply::see_other(&to);
                Ok(session::say(self.visit, reply, "The customer is created."))
            }
            Err(problem) if problem.is_refusal() => {
                let page = self.new_page(&Shown::again(form, problem));
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    async fn one(&self, id: &str, shown: &Shown) -> Result<Reply, Problem> {
        let found = self.session.get(&format!("/v1/customers/{id}")).await?;
        let customer = &found.body;
        let conversations = self
            .session
            .get(&listing(
                self.visit,
                "/v1/conversations",
                &[("customer_id", id)],
            ))
            .await?;
        let filled = shown.or_strings(customer, FIELDS);
        let begin = button(
            self.session,
            &format!("{HERE}/{id}/conversation"),
            "New conversation",
            "primary",
            "",
        );
        let content = html! {
            div dir="auto" { (heading(text(customer, "name"), "", begin)) }
            div.columns {
                (self.conversations(&conversations))
                section.card {
                    h2 { "Change" }
                    (problem(shown, FIELDS))
                    form method="post" action={ (HERE) "/" (id) } {
                        (csrf(self.session))
                        input type="hidden" name="etag" value=(found.etag.as_deref().unwrap_or_default());
                        (fields(&filled))
                        div.actions { button.button.primary { "Save" } }
                    }
                }
                section.card {
                    h2 { "Delete" }
                    p { "A customer who has conversations can't be deleted." }
                    (button(self.session, &format!("{HERE}/{id}/delete"), "Delete this customer", "danger", "The customer is deleted for good."))
                    p { "Erasing takes all conversations, messages and files with the customer. Nobody can bring them back." }
                    (button(self.session, &format!("{HERE}/{id}/erase"), "Erase this person", "danger", "The customer is erased for good, with all conversations, messages and files."))
                }
            }
        };
        Ok(self.page(text(customer, "name"), content))
    }

    fn conversations(&self, found: &Found) -> maud::Markup {
        html! {
            section.card {
                h2 { "Conversations" }
                @if found.items().is_empty() { p.faint { "None yet." } }
                @else {
                    ul.plain data-list { @for one in found.items() {
                        li {
                            a href={ "/console/inbox/" (text(one, "conversation_id")) } data-item { (time(one, "created_at")) }
                            " " (badge(text(one, "status"), if text(one, "status") == "active" { "accent" } else { "quiet" }))
                            " " span.faint { (text(one, "channel")) ", " (number(one, "message_count")) " messages" }
                        }
                    } }
                    (pages(self.visit, found))
                }
            }
        }
    }

    async fn change(&self, id: &str, form: &Form) -> Result<Reply, Problem> {
        let path = format!("/v1/customers/{id}");
        let body = changes(form);
        let request = Request {
            if_match: form.filled("etag"),
            ..Request::new(Verb::Patch, &path, &body)
        };
        match self.session.ask(request).await {
            Ok(_) => {
                let reply = Reply::see_other(&format!("{HERE}/{id}"));
                Ok(session::say(self.visit, reply, "The customer is saved."))
            }
            Err(problem) if problem.is_refusal() => {
                let page = self.one(id, &Shown::again(form, problem)).await?;
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    async fn delete(&self, id: &str) -> Result<Reply, Problem> {
        let path = format!("/v1/customers/{id}");
        let request = Request {
            verb: Verb::Delete,
            ..Request::get(&path)
        };
        match self.session.ask(request).await {
            Ok(_) => {
                let reply = Reply::see_other(HERE);
                Ok(session::say(self.visit, reply, "The customer is deleted."))
            }
            Err(problem) => self.refused(id, problem).await,
        }
    }

    /// The customer's page once more, with why a button on it was refused.
    async fn refused(&self, id: &str, problem: Problem) -> Result<Reply, Problem> {
        if !problem.is_refusal() {
            return Err(problem);
        }
        let shown = Shown {
            form: Form::default(),
            problem: Some(problem),
        };
        Ok(self.one(id, &shown).await?.refused())
    }

    async fn erase(&self, id: &str) -> Result<Reply, Problem> {
        let path = format!("/v1/customers/{id}?erase=true");
        let request = Request {
            verb: Verb::Delete,
            ..Request::get(&path)
        };
        match self.session.ask(request).await {
            Ok(begun) => {
                let words = format!(
                    "The person is erased: nobody sees anything of it any more. The proof is erasure {}.",
                    text(&begun.body, "erasure_id")
                );
                Ok(session::say(self.visit, Reply::see_other(HERE), &words))
            }
            Err(problem) => self.refused(id, problem).await,
        }
    }

    /// Begins a conversation with the customer.
    async fn begin(&self, id: &str) -> Result<Reply, Problem> {
        let body = json!({"customer_id": id});
        let request = Request::new(Verb::Post, "/v1/conversations", &body);
        let made = self.session.ask(request).await?;
        let to = format!("/console/inbox/{}", text(&made.body, "conversation_id"));
        Ok(Reply::see_other(&to))
    }
}

fn changes(form: &Form) -> serde_json::Value {
    json!({
        "name": form.text("name").trim(),
        "email": form.filled("email"),
        "external_id": form.filled("external_id"),
    })
}

fn fields(shown: &Shown) -> maud::Markup {
    html! {
        (Field { name: "name", label: "Name", hint: "" }.line(shown, "text", true))
        (Field { name: "email", label: "E-mail address", hint: "" }.line(shown, "email", false))
        (Field { name: "external_id", label: "Your own ID", hint: "By which your software knows the customer; no two may have the same." }.line(shown, "text", false))
    }
}
