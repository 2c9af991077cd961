//! Settings → Applications: the OAuth clients of the account in the mode that is shown, for its admins.

use colloquy_model::key::Permission;
use colloquy_model::scope;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::authorize::in_words;
use super::forms::{Form, Shown};
use super::layout::{self, Page, csrf};
use super::parts::{
    Field, badge, button, copied, empty, heading, listing, pages, problem, text, time,
};
use super::reply::Reply;
use super::session::{self, Session};
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, Problem, Request, Verb};

const HERE: &str = "/console/settings/applications";
const LIST: &str = "/v1/oauth/clients";
const FIELDS: &[&str] = &["name", "redirect_uris", "scopes", "kind"];
/// What an application is, for people: its secret and the ways in which it gets tokens.
const KINDS: &[(&str, &str)] = &[
    ("web", "On a server, for users who consent"),
    (
        "public",
        "In a browser or on a telephone, for users who consent; it has no secret",
    ),
    ("machine", "By itself, for the account"),
];

/// The pages of the account's applications.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    session.check_admin()?;
    let clients = Applications { visit, session };
    match (asked.path.get(2..).unwrap_or_default(), asked.form) {
        ([], None) => clients.list().await,
        (["new"], None) => Ok(clients.new_page(&Shown::default())),
        ([], Some(form)) => clients.create(&form).await,
        ([id], None) => clients.one(id, &Shown::default()).await,
        ([id], Some(form)) => clients.change(id, &form).await,
        ([id, "rotate-secret"], Some(_)) => clients.rotate(id).await,
        ([id, "delete"], Some(_)) => clients.delete(id).await,
        _ => Err(no_such_page()),
    }
}

struct Applications<'u> {
    visit: &'u Visit,
    session: &'u Session,
}

impl Applications<'_> {
    fn page(&self, title: &str, content: Markup) -> Reply {
        layout::page(self.visit, Some(self.session), Page::new(title, content))
    }

    async fn list(&self) -> Result<Reply, Problem> {
        let found = self.session.get(&listing(self.visit, LIST, &[])).await?;
        let new = html! { a.button.primary href={ (HERE) "/new" } { "New application" } };
        let content = html! {
            (heading("Applications", "Software of others that asks users for access (OAuth 2.0), or acts for the account.", new))
            @if found.items().is_empty() {
                (empty("None yet", "Register an application, then give its developer the client ID and the secret.", html! {}))
            } @else {
                div.table tabindex="0" { table {
                    caption.hidden { "Applications" }
                    thead { tr { th { "Name" } th { "Client ID" } th { "May" } th { "Since" } } }
                    tbody data-list { @for client in found.items() {
                        tr {
                            td dir="auto" { a href={ (HERE) "/" (text(client, "client_id")) } data-item { (text(client, "name")) } }
                            td { code { (text(client, "client_id")) } }
                            td { (words(client, "scopes").join(", ")) }
                            td { (time(client, "created_at")) }
                        }
                    } }
                } }
                (pages(self.visit, &found))
            }
        };
        Ok(self.page("Applications", content))
    }

    fn new_page(&self, shown: &Shown) -> Reply {
        let kind = Field {
            name: "kind",
            label: "Where it runs",
            hint: "",
        };
        let content = html! {
            (heading("New application", "The next page has its secret.", html! {}))
            (problem(shown, FIELDS))
            form.card method="post" action=(HERE) {
                (csrf(self.session))
                (kind.choice(shown, KINDS))
                (fields(shown))
                div.actions { a.button href=(HERE) { "Cancel" } button.button.primary { "Register" } }
            }
        };
        self.page("New application", content)
    }

    async fn create(&self, form: &Form) -> Result<Reply, Problem> {
        let kind = form.text("kind");
        let ways: &[&str] = match kind {
            "machine" => &["client_credentials"],
            _ => &["authorization_code", "refresh_token"],
        };
        let mut body = changes(form);
        if let Some(body) = body.as_object_mut() {
            body.insert("confidential".to_owned(), json!(kind != "public"));
            body.insert("grant_types".to_owned(), json!(ways));
        }
        match self
            .session
            .ask(Request::new(Verb::Post, LIST, &body))
            .await
        {
            Ok(made) => Ok(self.secret_page("The application is registered", &made)),
            Err(problem) if problem.is_refusal() => {
                let page = self.new_page(&Shown::again(form, problem));
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    /// Shows a new secret, this once.
    fn secret_page(&self, title: &str, made: &Found) -> Reply {
        let content = html! {
            (heading(title, text(&made.body, "name"), html! {}))
            section.card {
                (copied("Client ID", text(&made.body, "client_id")))
                @if made.body.get("client_secret").is_some_and(Value::is_string) {
                    p { "The secret is not shown again." }
                    (copied("Client secret", text(&made.body, "client_secret")))
                } @else {
                    p { "It has no secret: it proves by PKCE that a code was meant for it." }
                }
                div.actions { a.button href=(HERE) { "Done" } }
            }
        };
        self.page(title, content)
    }

    async fn one(&self, id: &str, shown: &Shown) -> Result<Reply, Problem> {
        let found = self.session.get(&format!("{LIST}/{id}")).await?;
        let client = &found.body;
        let filled = match shown.problem {
            Some(_) => shown.clone(),
            None => Shown {
                form: Form::of(&held(client)),
                problem: None,
            },
        };
        let is_confidential = client.get("confidential").and_then(Value::as_bool) == Some(true);
        let kind = match is_confidential {
            true => badge("has a secret", "quiet"),
            false => badge("no secret", "quiet"),
        };
        let content = html! {
            (heading(text(client, "name"), text(client, "client_id"), kind))
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
            @if is_confidential {
                section.card {
                    h2 { "Secret" }
                    p { "The one of now holds for a day beside the new one." }
                    (button(self.session, &format!("{HERE}/{id}/rotate-secret"), "Make a new secret", "", ""))
                }
            }
            section.card {
                h2 { "Delete" }
                p { "Its tokens end at once, and so does what users have allowed it." }
                (button(self.session, &format!("{HERE}/{id}/delete"), "Delete this application", "danger", "It can\u{2019}t get at the account any more. This can\u{2019}t be undone."))
            }
        };
        Ok(self.page(text(client, "name"), content))
    }

    async fn change(&self, id: &str, form: &Form) -> Result<Reply, Problem> {
        let path = format!("{LIST}/{id}");
        let body = changes(form);
        let request = Request {
            if_match: form.filled("etag"),
            ..Request::new(Verb::Patch, &path, &body)
        };
        match self.session.ask(request).await {
            Ok(_) => {
                let reply = Reply::see_other(&format!("{HERE}/{id}"));
                Ok(session::say(self.visit, reply, "The application is saved."))
            }
            Err(problem) if problem.is_refusal() => {
                let page = self.one(id, &Shown::again(form, problem)).await?;
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    async fn rotate(&self, id: &str) -> Result<Reply, Problem> {
        let (path, nothing) = (format!("{LIST}/{id}/rotate-secret"), json!({}));
        let made = self
            .session
            .ask(Request::new(Verb::Post, &path, &nothing))
            .await?;
        Ok(self.secret_page("The new secret", &made))
    }

    async fn delete(&self, id: &str) -> Result<Reply, Problem> {
        let path = format!("{LIST}/{id}");
        let request = Request {
            verb: Verb::Delete,
            ..Request::get(&path)
        };
        self.session.ask(request).await?;
        let reply = Reply::see_other(HERE);
        Ok(session::say(
            self.visit,
            reply,
            "The application is deleted.",
        ))
    }
}

fn words(client: &Value, name: &str) -> Vec<String> {
    let values = client.get(name).and_then(Value::as_array);
    let words = values.into_iter().flatten().filter_map(Value::as_str);
    words.map(str::to_owned).collect()
}

/// An application as the fields of its form.
fn held(client: &Value) -> Vec<(String, String)> {
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let uris = words(client, "redirect_uris").join("\n");
    let mut fields = vec![
        own("name", text(client, "name")),
        own("redirect_uris", &uris),
    ];
    fields.extend(
        words(client, "scopes")
            .iter()
            .map(|scope| own("scopes", scope)),
    );
    fields
}

fn fields(shown: &Shown) -> Markup {
    let name = Field {
        name: "name",
        label: "Name",
        hint: "Users read it when they are asked for consent.",
    };
    let back = Field {
        name: "redirect_uris",
        label: "Redirect URIs",
        hint: "Where users are sent back to, one a line, compared to the letter. None for what runs by itself.",
    };
    let ticked = shown.form.all("scopes");
    html! {
        (name.line(shown, "text", true))
        (back.lines(shown, 3))
        fieldset {
            legend { "Scopes" }
            p.hint { "The most that it may be allowed." }
            @for scope in Permission::ALL {
                @let word = scope::word(*scope);
                label.choice {
                    input type="checkbox" name="scopes" value=(word) checked[ticked.contains(&word.as_str())];
                    " " (in_words(*scope))
                }
            }
            @if let Some(wrong) = shown.wrong("scopes") { p.wrong { "It " (wrong) "." } }
        }
    }
}

fn changes(form: &Form) -> Value {
    let lines = form.text("redirect_uris").lines().map(str::trim);
    let uris: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    json!({"name": form.text("name"), "redirect_uris": uris, "scopes": form.all("scopes")})
}
