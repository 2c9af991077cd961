//! Who may do what with a document: people, what everybody may, share links, its owner.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{Docs, Document};
use crate::console::forms::{Form, Shown, object};
use crate::console::layout::csrf;
use crate::console::no_such_page;
use crate::console::parts::{
    Field, badge, button, copied, grouped, is, now, number, problem, text, time,
};
use crate::console::reply::Reply;
use crate::http::{Found, Problem, Request, Verb};

const GIVEN: &[(&str, &str)] = &[
    ("viewer", "May read"),
    ("commenter", "May comment"),
    ("editor", "May edit"),
];
const SEEN_BY: &[(&str, &str)] = &[
    ("private", "Only who is named here"),
    ("account", "Everybody of the account"),
];
const FIELDS: &[&str] = &[
    "email",
    "role",
    "expires_at",
    "max_uses",
    "password",
    "visibility",
    "default_role",
    "transfer_owner_to",
];
const EMAIL: Field<'_> = Field {
    name: "email",
    label: "E-mail address of a user",
    hint: "",
};
const ROLE: Field<'_> = Field {
    name: "role",
    label: "Role",
    hint: "",
};
const EXPIRES: Field<'_> = Field {
    name: "expires_at",
    label: "Opens until (UTC)",
    hint: "Empty: until you revoke it.",
};
const USES: Field<'_> = Field {
    name: "max_uses",
    label: "Opens how often",
    hint: "Empty: any number of times.",
};
const PASSWORD: Field<'_> = Field {
    name: "password",
    label: "Password",
    hint: "Empty: none is asked for.",
};
const VISIBILITY: Field<'_> = Field {
    name: "visibility",
    label: "Who may see it",
    hint: "",
};
const DEFAULT_ROLE: Field<'_> = Field {
    name: "default_role",
    label: "What everybody of the account may do with it then",
    hint: "",
};
const OWNER: Field<'_> = Field {
    name: "transfer_owner_to",
    label: "New owner",
    hint: "",
};

/// The form of the page that was refused, and what was filled in.
struct Again<'a> {
    form: &'a str,
    shown: Shown,
}

impl Again<'_> {
    /// What was filled in, for the form that it belongs to.
    fn of(&self, form: &str) -> Shown {
        match self.form == form {
            true => self.shown.clone(),
            false => Shown::default(),
        }
    }
}

impl Docs<'_> {
    pub(super) async fn sharing(
        &self,
        document: &Document,
        rest: &[&str],
        form: Option<Form>,
    ) -> Result<Reply, Problem> {
        let none = Again {
            form: "",
            shown: Shown::default(),
        };
        let Some(form) = form else {
            return match rest {
                [] => self.sharing_page(document, &none).await,
                _ => Err(no_such_page()),
            };
        };
        let (which, done) = match rest {
            ["links"] => ("links", self.share(document, &form).await),
            ["links", share, "revoke"] => ("", self.revoke(document, share).await),
            ["people"] => ("people", self.add_person(document, &form).await),
            ["people", user] => ("", self.change_person(document, user, &form).await),
            ["people", user, "remove"] => ("", self.remove_person(document, user).await),
            ["permissions"] => ("permissions", self.permit(document, &form).await),
            ["owner"] => ("owner", self.hand_over(document, &form).await),
            _ => return Err(no_such_page()),
        };
        match done {
            Err(refused)
                if refused.is_refusal() && !which.is_empty() && document.allows("owner") =>
            {
                let again = Again {
                    form: which,
                    shown: Shown::again(&form, refused),
                };
                Ok(self.sharing_page(document, &again).await?.refused())
            }
            done => done,
        }
    }

    async fn sharing_page(&self, document: &Document, again: &Again<'_>) -> Result<Reply, Problem> {
        let is_owner = document.allows("owner");
        let people = self
            .session
            .get(&format!("{}/collaborators?limit=100", document.at))
            .await?;
        let content = html! {
            (problem(&again.shown, FIELDS))
            (self.people(document, &people, &again.of("people")))
            @if is_owner {
                (self.permissions(document, &again.of("permissions")).await?)
                (self.links(document, &again.of("links")).await?)
                (self.owner(document, &again.of("owner")).await?)
            } @else {
                p.notice { "Its owner decides who may do what, and makes share links." }
            }
        };
        Ok(self.tab(document, "/sharing", content))
    }

    fn people(&self, document: &Document, people: &Found, shown: &Shown) -> Markup {
        let is_owner = document.allows("owner");
        let action = format!("{}/sharing/people", document.here);
        html! {
            section.card {
                h2 { "People" }
                ul.plain.people {
                    li {
                        span { strong dir="auto" { (self.name(document.text("owner_id"))) } " " (badge("owner", "accent")) }
                    }
                    @for person in people.items() {
                        @let user = text(person, "user_id");
                        @let name = self.name(user);
                        li {
                            span { strong dir="auto" { (name) } " " span.faint { (text(person, "email")) } }
                            @if is_owner {
                                div.actions {
                                    form.row method="post" action={ (action) "/" (user) } {
                                        (csrf(self.session))
                                        (roles(text(person, "role"), &name))
                                        button.button.small { "Change" }
                                    }
                                    (button(self.session, &format!("{action}/{user}/remove"), "Remove", "small danger", "From the next moment on this person has only what everybody has."))
                                }
                            } @else { (badge(text(person, "role"), "quiet")) }
                        }
                    }
                }
                @if people.has_after { p.faint { "The newest 100 are shown." } }
                @if is_owner {
                    h3 { "Add somebody" }
                    form.row.adding method="post" action=(action) {
                        (csrf(self.session))
                        (EMAIL.line(shown, "email", true))
                        (ROLE.choice(shown, GIVEN))
                        button.button { "Add" }
                    }
                }
            }
        }
    }

    async fn permissions(&self, document: &Document, shown: &Shown) -> Result<Markup, Problem> {
        let found = self
            .session
            .get(&format!("{}/permissions", document.at))
            .await?;
        let set = &found.body;
        let filled = match shown.problem {
            Some(_) => shown.clone(),
            None => super::filled(&[
                ("visibility", text(set, "visibility")),
                ("default_role", text(set, "default_role")),
            ]),
        };
        Ok(html! {
            section.card {
                h2 { "Everybody else" }
                form method="post" action={ (document.here) "/sharing/permissions" } {
                    (csrf(self.session))
                    div.row {
                        (VISIBILITY.choice(&filled, SEEN_BY))
                        (DEFAULT_ROLE.choice(&filled, GIVEN))
                    }
                    label.choice { input type="checkbox" name="link_sharing" value="true" checked[is(set, "link_sharing")]; "Share links open it" }
                    div.actions { button.button { "Save" } }
                }
            }
        })
    }

    async fn links(&self, document: &Document, shown: &Shown) -> Result<Markup, Problem> {
        let found = self
            .session
            .get(&format!("{}/share?limit=100", document.at))
            .await?;
        let action = format!("{}/sharing/links", document.here);
        Ok(html! {
            section.card {
                h2 { "Share links" }
                p { "Whoever has a link opens the document with it, without an account." }
                @if found.items().is_empty() { p.faint { "There are none." } } @else {
                    div.table tabindex="0" { table {
                        caption.hidden { "Share links" }
                        thead { tr { th { "Role" } th { "Opened" } th { "Opens until" } th { "Password" } th { "Made" } th { "What to do" } } }
                        tbody data-list { @for link in found.items() { (self.link(&action, link)) } }
                    } }
                    @if found.has_after { p.faint { "The newest 100 are shown." } }
                }
                h3 { "Make a link" }
                form method="post" action=(action) {
                    (csrf(self.session))
                    div.row.making {
                        div.field {
                            label for="link-role" { "Its holder" }
                            select #link-role name="role" {
                                @for (value, words) in GIVEN { option value=(value) selected[*value == shown.form.text("role")] { (words) } }
                            }
                        }
                        (EXPIRES.line(shown, "datetime-local", false))
                        (USES.line(shown, "number", false))
                        (PASSWORD.around(shown, html! {
                            input #field-password name="password" type="password" autocomplete="new-password" aria-describedby="hint-password";
                        }))
                    }
                    div.actions { button.button.primary { "Make a link" } }
                }
            }
        })
    }

    /// How soon a link that is revoked opens nothing.
    fn revoked(&self) -> String {
        match self.visit.app.shared_caches.link_seconds() {
            0 => "The very next visit with this link finds nothing.".to_owned(),
            seconds => format!(
                "This link finds nothing any more: at once here, in caches on its way within {seconds} s."
            ),
        }
    }

    fn link(&self, action: &str, link: &Value) -> Markup {
        let ends = text(link, "expires_at");
        let most = link.get("max_uses").and_then(Value::as_u64);
        let uses = number(link, "uses");
        let is_over =
            (!ends.is_empty() && ends <= now().as_str()) || most.is_some_and(|most| uses >= most);
        html! {
            tr {
                td { (words(text(link, "role"))) @if is_over { " " (badge("opens no more", "quiet")) } }
                td { (grouped(uses)) @if let Some(most) = most { " of " (grouped(most)) } " times" }
                td { (time(link, "expires_at")) }
                td { @if is(link, "has_password") { "Yes" } @else { "No" } }
                td { (time(link, "created_at")) }
                td { (button(self.session, &format!("{action}/{}/revoke", text(link, "share_id")), "Revoke", "small danger", &self.revoked())) }
            }
        }
    }

    async fn owner(&self, document: &Document, shown: &Shown) -> Result<Markup, Problem> {
        let users = self.session.get("/v1/users?limit=100").await?;
        let own = |user: &Value| {
            (
                text(user, "user_id").to_owned(),
                text(user, "name").to_owned(),
            )
        };
        let mut users: Vec<_> = users.items().iter().map(own).collect();
        users.retain(|(id, _)| id != document.text("owner_id"));
        let users: Vec<_> = users
            .iter()
            .map(|(id, name)| (id.as_str(), name.as_str()))
            .collect();
        Ok(html! {
            section.card {
                h2 { "Hand it on" }
                p { "The new owner decides from then on who may do what." }
                form.row method="post" action={ (document.here) "/sharing/owner" } {
                    (csrf(self.session))
                    (OWNER.choice(shown, &users))
                    button.button data-confirm="You may lose your own rights in this document." { "Hand it on" }
                }
            }
        })
    }

    async fn share(&self, document: &Document, form: &Form) -> Result<Reply, Problem> {
        let whole = |typed: &str| {
            typed
                .parse::<u64>()
                .map_or_else(|_| json!(typed), Value::from)
        };
        let password = form.text("password");
        let body = object([
            ("role", form.filled("role").map(Value::from)),
            (
                "expires_at",
                form.filled("expires_at").map(|at| json!(instant(at))),
            ),
            ("max_uses", form.filled("max_uses").map(whole)),
            ("password", (!password.is_empty()).then(|| json!(password))),
        ]);
        let made = self.post(&format!("{}/share", document.at), &body).await?;
        let content = html! {
            section.card {
                h2 { "Your new link" }
                p { "Copy it now: " strong { "it is not shown again." } }
                (copied("Link", text(&made.body, "url")))
                div.actions { a.button href={ (document.here) "/sharing" } { "Done" } }
            }
        };
        Ok(self.tab(document, "/sharing", content))
    }

    async fn revoke(&self, document: &Document, share: &str) -> Result<Reply, Problem> {
        self.remove(&format!("{}/share/{share}", document.at))
            .await?;
        Ok(self.shared(document, "The link opens nothing any more."))
    }

    async fn add_person(&self, document: &Document, form: &Form) -> Result<Reply, Problem> {
        let body = json!({"email": form.text("email").trim(), "role": form.text("role")});
        let path = format!("{}/collaborators", document.at);
        let added = self.post(&path, &body).await;
        // Whom the address does not lead to is told of at its field.
        added.map_err(|problem| match &*problem.field {
            "user_id" => problem.at("email"),
            _ => problem,
        })?;
        Ok(self.shared(document, "Added."))
    }

    async fn change_person(
        &self,
        document: &Document,
        user: &str,
        form: &Form,
    ) -> Result<Reply, Problem> {
        let path = format!("{}/collaborators/{user}", document.at);
        let body = json!({"role": form.text("role")});
        self.session
            .ask(Request::new(Verb::Put, &path, &body))
            .await?;
        Ok(self.shared(document, "The role is changed."))
    }

    async fn remove_person(&self, document: &Document, user: &str) -> Result<Reply, Problem> {
        self.remove(&format!("{}/collaborators/{user}", document.at))
            .await?;
        Ok(self.shared(document, "Removed."))
    }

    async fn permit(&self, document: &Document, form: &Form) -> Result<Reply, Problem> {
        let body = json!({
            "visibility": form.text("visibility"),
            "default_role": form.text("default_role"),
            "link_sharing": form.is_ticked("link_sharing"),
        });
        self.set(document, &body).await?;
        Ok(self.shared(document, "Saved."))
    }

    async fn hand_over(&self, document: &Document, form: &Form) -> Result<Reply, Problem> {
        let body = json!({"transfer_owner_to": form.text("transfer_owner_to")});
        self.set(document, &body).await?;
        // Whoever handed it on may not be allowed to read it any more.
        let to = match self.session.get(&document.at).await {
            Ok(_) => document.here.as_str(),
            Err(_) => super::HERE,
        };
        Ok(self.done(to, "The document has a new owner."))
    }

    async fn set(&self, document: &Document, body: &Value) -> Result<(), Problem> {
        let path = format!("{}/permissions", document.at);
        self.session
            .ask(Request::new(Verb::Put, &path, body))
            .await?;
        Ok(())
    }

    fn shared(&self, document: &Document, words: &str) -> Reply {
        self.done(&format!("{}/sharing", document.here), words)
    }
}

/// A role in words.
fn words(role: &str) -> &str {
    let mut given = GIVEN.iter();
    given
        .find(|(name, _)| *name == role)
        .map_or(role, |(_, words)| words)
}

fn roles(chosen: &str, name: &str) -> Markup {
    html! {
        select name="role" aria-label={ "Role of " (name) } {
            @for (value, words) in GIVEN { option value=(value) selected[*value == chosen] { (words) } }
        }
    }
}

/// A date and time as a browser's field has it, in UTC, as the interface takes it.
fn instant(text: &str) -> String {
    match text.len() {
        16 => format!("{text}:00.000Z"),
        _ => text.to_owned(),
    }
}
