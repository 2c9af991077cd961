//! Settings → Users: the people of the account, for its admins: made, invited, changed, deleted.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::forms::{Form, Shown};
use super::layout::{self, Page, csrf};
use super::parts::{
    Field, badge, button, copied, empty, heading, listing, pages, problem, text, time,
};
use super::reply::Reply;
use super::session::{self, Session};
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Problem, Request, Verb};

const HERE: &str = "/console/settings/users";
const FIELDS: &[&str] = &["name", "email", "role"];
const ROLES: &[(&str, &str)] = &[
    ("agent", "Agent: works with conversations and documents"),
    ("admin", "Admin: also users, webhooks and keys"),
];

/// The pages of the account's users.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_admin()?;
    let users = Users { visit, session };
    match (asked.path.get(2..).unwrap_or_default(), asked.form) {
        ([], None) => users.list().await,
        (["new"], None) => Ok(users.new_page(&Shown::default())),
        ([], Some(form)) => users.create(&form).await,
        ([id], None) => users.one(id, &Shown::default()).await,
        ([id], Some(form)) => users.change(id, &form).await,
        ([id, "invite"], Some(_)) => users.invite(id).await,
        ([id, "delete"], Some(_)) => users.delete(id).await,
        _ => Err(no_such_page()),
    }
}

struct Users<'u> {
    visit: &'u Visit,
    session: &'u Session,
}

impl Users<'_> {
    fn page(&self, title: &str, content: Markup) -> Reply {
        layout::page(self.visit, Some(self.session), Page::new(title, content))
    }

    /// Whether the person has set a password.
    fn signs_in(&self, user: &Value) -> Markup {
        let tenant = self
            .session
            .principal
            .as_ref()
            .map(|principal| principal.tenant());
        let id = text(user, "user_id").parse().ok();
        let known = tenant
            .zip(id)
            .and_then(|(tenant, id)| self.visit.app.system.identity.person(tenant, id));
        match known {
            Some(user) if user.password.is_some() => html! {
                (badge("signs in", "good"))
                @if user.bounds.test_only { " " (badge("test data only", "warn")) }
                @if user.bounds.scopes.is_some() { " " (badge("some scopes only", "warn")) }
            },
            Some(user) if user.invitation.is_some() => badge("invited", "warn"),
            _ => badge("not invited", "quiet"),
        }
    }

    async fn list(&self) -> Result<Reply, Problem> {
        let found = self
            .session
            .get(&listing(self.visit, "/v1/users", &[]))
            .await?;
        let new = html! { a.button.primary href={ (HERE) "/new" } { "New user" } };
        let content = html! {
            (heading("Users", "People of the account, who answer conversations and write documents.", new))
            @if found.items().is_empty() {
                (empty("Nobody yet", "Make a user, then send the invitation: with it the person sets a password.", html! {}))
            } @else {
                div.table tabindex="0" { table {
                    caption.hidden { "Users" }
                    thead { tr { th { "Name" } th { "E-mail" } th { "Role" } th { "Console" } th { "Since" } } }
                    tbody data-list { @for user in found.items() {
                        tr {
                            td dir="auto" { a href={ (HERE) "/" (text(user, "user_id")) } data-item { (text(user, "name")) } }
                            td { (text(user, "email")) }
                            td { (text(user, "role")) }
                            td { (self.signs_in(user)) }
                            td { (time(user, "created_at")) }
                        }
                    } }
                } }
                (pages(self.visit, &found))
            }
        };
        Ok(self.page("Users", content))
    }

    fn new_page(&self, shown: &Shown) -> Reply {
        let content = html! {
            (heading("New user", "The next page has the invitation to send.", html! {}))
            (problem(shown, FIELDS))
            form.card method="post" action=(HERE) {
                (csrf(self.session))
                (fields(shown))
                div.actions { a.button href=(HERE) { "Cancel" } button.button.primary { "Create and invite" } }
            }
        };
        self.page("New user", content)
    }

    async fn create(&self, form: &Form) -> Result<Reply, Problem> {
        let body = changes(form);
        match self
            .session
            .ask(Request::new(Verb::Post, "/v1/users", &body))
            .await
        {
            Ok(made) => self.invite(text(&made.body, "user_id")).await,
            Err(problem) if problem.is_refusal() => {
                let page = self.new_page(&Shown::again(form, problem));
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    /// Makes an invitation and shows it, this once.
    async fn invite(&self, id: &str) -> Result<Reply, Problem> {
        let path = format!("/v1/users/{id}/invitations");
        let nothing = json!({});
        let invited = self
            .session
            .ask(Request::new(Verb::Post, &path, &nothing))
            .await?;
        let user = self.session.get(&format!("/v1/users/{id}")).await?;
        let content = html! {
            (heading("The invitation", text(&user.body, "name"), html! {}))
            section.card {
                p { "Send this link to the person. It holds until " (time(&invited.body, "expires_at")) ", once, and is not shown again." }
                (copied("Link", text(&invited.body, "url")))
                p.faint { "With it the person sets a password. An earlier invitation has ended." }
                div.actions { a.button href=(HERE) { "Done" } }
            }
        };
        Ok(self.page("The invitation", content))
    }

    async fn one(&self, id: &str, shown: &Shown) -> Result<Reply, Problem> {
        let found = self.session.get(&format!("/v1/users/{id}")).await?;
        let user = &found.body;
        let filled = shown.or_strings(user, FIELDS);
        let content = html! {
            (heading(text(user, "name"), "", self.signs_in(user)))
            (problem(shown, FIELDS))
            section.card {
                h2 { "Change" }
                form method="post" action={ (HERE) "/" (id) } {
                    (csrf(self.session))
                    input type="hidden" name="etag" value=(found.etag.as_deref().unwrap_or_default());
                    (fields(&filled))
                    div.actions { button.button.primary { "Save" } }
                }
            }
            section.card {
                h2 { "Invite" }
                p { "Who has forgotten the password is invited again: setting a new one ends all sessions." }
                (button(self.session, &format!("{HERE}/{id}/invite"), "Make an invitation", "", ""))
            }
            section.card {
                h2 { "Delete" }
                p { "Sessions end at once, and conversations that were assigned become nobody's. Who owns documents can't be deleted." }
                (button(self.session, &format!("{HERE}/{id}/delete"), "Delete this user", "danger", "The person can't sign in any more. This can't be undone."))
            }
        };
        Ok(self.page(text(user, "name"), content))
    }

    async fn change(&self, id: &str, form: &Form) -> Result<Reply, Problem> {
        let path = format!("/v1/users/{id}");
        let body = changes(form);
        let request = Request {
            if_match: form.filled("etag"),
            ..Request::new(Verb::Patch, &path, &body)
        };
        match self.session.ask(request).await {
            Ok(_) => {
                let reply = Reply::see_other(&format!("{HERE}/{id}"));
                Ok(session::say(self.visit, reply, "The user is saved."))
            }
            Err(problem) if problem.is_refusal() => self.refused(id, form, problem).await,
            Err(problem) => Err(problem),
        }
    }

    async fn delete(&self, id: &str) -> Result<Reply, Problem> {
        let path = format!("/v1/users/{id}");
        let request = Request {
            verb: Verb::Delete,
            ..Request::get(&path)
        };
        match self.session.ask(request).await {
            Ok(_) => {
                let reply = Reply::see_other(HERE);
                Ok(session::say(self.visit, reply, "The user is deleted."))
            }
            Err(problem) if problem.is_refusal() => {
                self.refused(id, &Form::default(), problem).await
            }
            Err(problem) => Err(problem),
        }
    }

    async fn refused(&self, id: &str, form: &Form, problem: Problem) -> Result<Reply, Problem> {
        let page = self.one(id, &Shown::again(form, problem)).await?;
        Ok(page.refused())
    }
}

fn changes(form: &Form) -> Value {
    json!({
        "name": form.text("name").trim(),
        "email": form.text("email").trim(),
        "role": form.text("role"),
    })
}

fn fields(shown: &Shown) -> Markup {
    html! {
        (Field { name: "name", label: "Name", hint: "" }.line(shown, "text", true))
        (Field { name: "email", label: "E-mail address", hint: "By which the person signs in." }.line(shown, "email", true))
        (Field { name: "role", label: "Role", hint: "" }.choice(shown, ROLES))
    }
}
