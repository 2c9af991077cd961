//! Settings → API Keys: the keys of the account, for its admins.

use colloquy_model::id::KeyId;
use colloquy_model::key::Permission;
use colloquy_model::scope;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::forms::{Form, Shown, object};
use super::layout::{self, Page, csrf};
use super::parts::{
    Field, PER_PAGE, badge, button, copied, empty, heading, now, offset, pages, problem, target,
    text, time,
};
use super::reply::Reply;
use super::session::{self, Session};
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, InProcess, Problem, Request, Verb};

const HERE: &str = "/console/settings/api-keys";
const FIELDS: &[&str] = &[
    "name",
    "type",
    "scopes",
    "allowed_ips",
    "expires_at",
    "user_id",
    "require_signature",
];
/// What a box that is ticked says.
const TICKED: &str = "true";
const TYPES: &[(&str, &str)] = &[
    ("test", "Test: reads and writes test data"),
    ("prod", "Production: reads and writes live data"),
    ("read", "Read-only: reads live data"),
];
const OVERLAPS: &[(&str, &str)] = &[
    ("86400", "for 24 more hours"),
    ("3600", "for one more hour"),
    ("0", "not at all: it ends now"),
];

/// The pages of the account's keys.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    let (api, principal) = session.of_account()?;
    let keys = Keys {
        visit,
        session,
        api,
        account: principal.account.view.account_id.to_string(),
    };
    match (asked.path.get(2..).unwrap_or_default(), asked.form) {
        ([], None) => keys.list().await,
        (["new"], None) => Ok(keys.new_page(&Shown::default()).await?),
        ([], Some(form)) => keys.generate(&form).await,
        ([id], None) => keys.one(id, &Shown::default()).await,
        ([id], Some(form)) => keys.change(id, &form).await,
        ([id, "rotate"], Some(form)) => keys.rotate(id, &form).await,
        ([id, "revoke"], Some(_)) => keys.revoke(id).await,
        _ => Err(no_such_page()),
    }
}

struct Keys<'k> {
    visit: &'k Visit,
    session: &'k Session,
    api: InProcess,
    account: String,
}

impl Keys<'_> {
    /// The path of a key of this account at the interface; those of others are none.
    fn path(&self, id: &str) -> Result<String, Problem> {
        let key: KeyId = id.parse().map_err(|_| Problem::not_found())?;
        let of = self.visit.app.system.identity.key(key);
        let is_own = of.is_some_and(|key| key.view.account_id.to_string() == self.account);
        match is_own {
            true => Ok(format!("/admin/v1/keys/{key}")),
            false => Err(Problem::not_found()),
        }
    }

    async fn list(&self) -> Result<Reply, Problem> {
        let path = format!("/admin/v1/accounts/{}/keys", self.account);
        let offset = offset(self.visit).to_string();
        let found = self
            .api
            .get(&target(
                &path,
                &[("limit", &PER_PAGE.to_string()), ("offset", &offset)],
            ))
            .await?;
        let generate = html! { a.button.primary href={ (HERE) "/new" } { "Generate a new key" } };
        let content = html! {
            (heading("API Keys", "With a key, your software calls the interface.", generate))
            @if found.items().is_empty() {
                (empty("No keys yet", "Generate one, and your software can begin.", html! {}))
            } @else {
                (table(&found))
                (pages(self.visit, &found))
            }
        };
        Ok(layout::page(
            self.visit,
            Some(self.session),
            Page::new("API Keys", content),
        ))
    }

    async fn new_page(&self, shown: &Shown) -> Result<Reply, Problem> {
        let users = self.users().await?;
        let content = html! {
            (heading("Generate a new key", "Its secret is shown once, on the next page.", html! {}))
            (problem(shown, FIELDS))
            form.card method="post" action=(HERE) {
                (csrf(self.session))
                (Field { name: "name", label: "Name", hint: "For people to tell it from others, such as “Shop backend”." }.line(shown, "text", true))
                (Field { name: "type", label: "Type", hint: "" }.choice(shown, TYPES))
                (narrowed(shown, &users))
                div.actions {
                    a.button href=(HERE) { "Cancel" }
                    button.button.primary { "Generate a new key" }
                }
            }
        };
        Ok(layout::page(
            self.visit,
            Some(self.session),
            Page::new("Generate a new key", content),
        ))
    }

    async fn generate(&self, form: &Form) -> Result<Reply, Problem> {
        let mut body = changes(form);
        if let Some(fields) = body.as_object_mut() {
            fields.insert("type".to_owned(), json!(form.text("type")));
        }
        let path = format!("/admin/v1/accounts/{}/keys", self.account);
        match self.api.ask(Request::new(Verb::Post, &path, &body)).await {
            Ok(made) => Ok(self.secret_page("Your new key", &made)),
            Err(problem) if problem.is_refusal() => {
                let page = self.new_page(&Shown::again(form, problem)).await?;
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    /// The secret of a key, this once.
    fn secret_page(&self, title: &str, made: &Found) -> Reply {
        let content = html! {
            (heading(title, text(&made.body, "name"), html! {}))
            section.card {
                p { "Copy it now and keep it where secrets are kept: " strong { "it is not shown again." } }
                @if !text(&made.body, "key").is_empty() {
                    (copied("Key", text(&made.body, "key")))
                    p.faint { "Use it as " code { "Authorization: Bearer …" } " in every request." }
                }
                @if !text(&made.body, "signing_secret").is_empty() {
                    (copied("Signing secret", text(&made.body, "signing_secret")))
                    p.faint { "Sign every request with it: HMAC-SHA256 by RFC 9421, " code { "keyid" } " " code { (text(&made.body, "key_id")) } "." }
                }
                div.actions { a.button href=(HERE) { "Done" } }
            }
        };
        layout::page(self.visit, Some(self.session), Page::new(title, content))
    }

    async fn one(&self, id: &str, shown: &Shown) -> Result<Reply, Problem> {
        let found = self.api.get(&self.path(id)?).await?;
        let users = self.users().await?;
        let key = &found.body;
        let is_revoked = !text(key, "revoked_at").is_empty();
        let filled = match shown.problem {
            Some(_) => shown.clone(),
            None => Shown {
                form: Form::of(&fields(key)),
                problem: None,
            },
        };
        let content = html! {
            (heading(name(key), "", html! { (state(key)) }))
            section.card { (facts(key)) }
            @if !is_revoked {
                section.card {
                    h2 { "Change it" }
                    (problem(shown, FIELDS))
                    form method="post" action={ (HERE) "/" (id) } {
                        (csrf(self.session))
                        input type="hidden" name="etag" value=(found.etag.as_deref().unwrap_or_default());
                        (Field { name: "name", label: "Name", hint: "" }.line(&filled, "text", true))
                        (narrowed(&filled, &users))
                        div.actions { button.button.primary { "Save" } }
                    }
                }
                section.card {
                    h2 { "Rotate it" }
                    p { "Gives it a new secret. The one that it has goes on:" }
                    form.row method="post" action={ (HERE) "/" (id) "/rotate" } {
                        (csrf(self.session))
                        (Field { name: "overlap_seconds", label: "The old secret holds", hint: "" }.choice(&Shown::default(), OVERLAPS))
                        button.button { "Rotate" }
                    }
                }
                section.card {
                    h2 { "Revoke it" }
                    p { "The very next request with it is refused. This can't be undone." }
                    (button(self.session, &format!("{HERE}/{id}/revoke"), "Revoke this key", "danger", "Software that uses this key stops working at once."))
                }
            }
        };
        Ok(layout::page(
            self.visit,
            Some(self.session),
            Page::new(name(key), content),
        ))
    }

    async fn change(&self, id: &str, form: &Form) -> Result<Reply, Problem> {
        let path = self.path(id)?;
        let body = changes(form);
        let request = Request {
            if_match: form.filled("etag"),
            ..Request::new(Verb::Patch, &path, &body)
        };
        match self.api.ask(request).await {
            Ok(changed) if !text(&changed.body, "signing_secret").is_empty() => {
                Ok(self.secret_page("Its signing secret", &changed))
            }
            Ok(_) => self.done(&format!("{HERE}/{id}"), "The key is saved."),
            Err(problem) if problem.is_refusal() => {
                let page = self.one(id, &Shown::again(form, problem)).await?;
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    async fn rotate(&self, id: &str, form: &Form) -> Result<Reply, Problem> {
        let path = format!("{}/rotate", self.path(id)?);
        let overlap: Option<u64> = form.text("overlap_seconds").parse().ok();
        let body = object([("overlap_seconds", overlap.map(Value::from))]);
        let rotated = self.api.ask(Request::new(Verb::Post, &path, &body)).await?;
        Ok(self.secret_page("Its new secret", &rotated))
    }

    async fn revoke(&self, id: &str) -> Result<Reply, Problem> {
        let path = self.path(id)?;
        self.api
            .ask(Request {
                verb: Verb::Delete,
                ..Request::get(&path)
            })
            .await?;
        self.done(HERE, "The key is revoked.")
    }

    fn done(&self, to: &str, words: &str) -> Result<Reply, Problem> {
        Ok(session::say(self.visit, Reply::see_other(to), words))
    }

    /// The users whom a key may act as.
    async fn users(&self) -> Result<Vec<(String, String)>, Problem> {
        let found = self.session.get("/v1/users?limit=100").await?;
        let user = |user: &Value| {
            (
                text(user, "user_id").to_owned(),
                text(user, "name").to_owned(),
            )
        };
        let anybody = (String::new(), "Nobody: the account itself".to_owned());
        Ok(std::iter::once(anybody)
            .chain(found.items().iter().map(user))
            .collect())
    }
}

/// What a form asks for, in the interface's words.
fn changes(form: &Form) -> Value {
    let scopes = form.all("scopes");
    let lines = |text: &str| -> Vec<String> {
        let lines = text.split([',', '\n', ' ']).map(str::trim);
        lines
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    };
    json!({
        "name": form.filled("name"),
        "scopes": (!scopes.is_empty()).then_some(scopes),
        "allowed_ips": lines(form.text("allowed_ips")),
        "expires_at": form.filled("expires_at").map(instant),
        "user_id": form.filled("user_id"),
        "require_signature": form.text("require_signature") == TICKED,
    })
}

/// A date and time as a browser's field has it, in UTC, as the interface takes it.
fn instant(text: &str) -> String {
    match text.len() {
        10 => format!("{text}T00:00:00.000Z"),
        16 => format!("{text}:00.000Z"),
        _ => text.to_owned(),
    }
}

/// A key as the fields of its form.
fn fields(key: &Value) -> Vec<(String, String)> {
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let strings = |name: &str| {
        let all = key
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        all.filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut fields = vec![
        own("name", text(key, "name")),
        own("allowed_ips", &strings("allowed_ips").join("\n")),
        own(
            "expires_at",
            text(key, "expires_at").get(..16).unwrap_or_default(),
        ),
        own("user_id", text(key, "user_id")),
    ];
    if key.get("require_signature") == Some(&Value::Bool(true)) {
        fields.push(own("require_signature", TICKED));
    }
    fields.extend(strings("scopes").iter().map(|scope| own("scopes", scope)));
    fields
}

/// What a key may be narrowed to.
fn narrowed(shown: &Shown, users: &[(String, String)]) -> Markup {
    let users: Vec<_> = users
        .iter()
        .map(|(id, name)| (id.as_str(), name.as_str()))
        .collect();
    let ticked = shown.form.all("scopes");
    html! {
        fieldset {
            legend { "Scopes" }
            p.hint { "None ticked: it may do everything that its type allows." }
            div.boxes {
                @for scope in Permission::ALL.iter().copied().map(scope::word) {
                    label.choice {
                        input type="checkbox" name="scopes" value=(scope) checked[ticked.contains(&scope.as_str())];
                        " " code { (scope) }
                    }
                }
            }
            @if let Some(wrong) = shown.wrong("scopes") { p.wrong { "It " (wrong) "." } }
        }
        (Field { name: "allowed_ips", label: "Addresses that may use it", hint: "One a line, such as 203.0.113.7 or 2001:db8::/32. Empty: all." }.lines(shown, 2))
        (Field { name: "expires_at", label: "Ends on (UTC)", hint: "Empty: never." }.line(shown, "datetime-local", false))
        (Field { name: "user_id", label: "Acts as", hint: "Document roles and assignments are then this user's." }.choice(shown, &users))
        fieldset {
            legend { "Signatures" }
            label.choice {
                input type="checkbox" name="require_signature" value=(TICKED) checked[shown.form.text("require_signature") == TICKED];
                " It takes signed requests only (RFC 9421)"
            }
            p.hint { "Its signing secret is shown once, on the next page." }
        }
    }
}

fn name(key: &Value) -> &str {
    match text(key, "name") {
        "" => "A key without a name",
        name => name,
    }
}

/// The secret as far as it may be seen.
fn seen(key: &Value) -> Markup {
    html! { code.secret { (text(key, "prefix")) "…" (text(key, "last4")) } }
}

fn state(key: &Value) -> Markup {
    let ends = text(key, "expires_at");
    match (text(key, "revoked_at"), ends) {
        ("", "") => badge("active", "good"),
        ("", ends) if ends <= now().as_str() => badge("ended", "quiet"),
        ("", _) => badge("active", "good"),
        _ => badge("revoked", "quiet"),
    }
}

fn kind(key: &Value) -> &'static str {
    match text(key, "type") {
        "test" => "Test",
        "prod" => "Production",
        _ => "Read-only",
    }
}

fn table(found: &Found) -> Markup {
    html! {
        div.table tabindex="0" { table {
            caption.hidden { "API keys" }
            thead { tr { th { "Name" } th { "Key" } th { "Type" } th { "Last used" } th { "Made" } th { "State" } } }
            tbody data-list {
                @for key in found.items() {
                    tr {
                        td { a href={ (HERE) "/" (text(key, "key_id")) } data-item { (name(key)) } }
                        td { (seen(key)) }
                        td { (kind(key)) }
                        td { (time(key, "last_used_at")) }
                        td { (time(key, "created_at")) }
                        td { (state(key)) }
                    }
                }
            }
        } }
    }
}

fn facts(key: &Value) -> Markup {
    html! {
        dl.facts {
            div { dt { "Key" } dd { (seen(key)) } }
            div { dt { "Type" } dd { (kind(key)) } }
            div { dt { "Last used" } dd { (time(key, "last_used_at")) } }
            div { dt { "Made" } dd { (time(key, "created_at")) } }
            @if !text(key, "revoked_at").is_empty() { div { dt { "Revoked" } dd { (time(key, "revoked_at")) } } }
            div { dt { "Signed requests" } dd { (match key.get("require_signature") == Some(&Value::Bool(true)) { true => "required", false => "not required" }) } }
            div { dt { "Name at the interface" } dd { code { (text(key, "key_id")) } } }
        }
    }
}
