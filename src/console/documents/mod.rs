//! Documents: the list, and the pages of one of them.
//!
//! - `list.rs` the list, the bin, a new one; `show.rs` what it says; `text.rs` how a text is shown
//! - `edit.rs` writing, with what to do where somebody else was faster
//! - `history.rs` its versions and `graph.rs` their picture; `compare.rs` two of them side by side
//! - `merge.rs` bringing lines together, conflict by conflict
//! - `comments.rs` what is said at its lines; `sharing.rs` who may do what; `activity.rs` what was done

mod activity;
mod comments;
mod compare;
mod edit;
mod graph;
mod history;
mod list;
mod merge;
mod sharing;
mod show;
mod text;

use colloquy_model::id::{DocumentId, UserId};
use maud::{Markup, html};
use serde_json::Value;

use super::forms::{Form, Shown};
use super::layout::{self, Page};
use super::parts::{Field, badge, number, text};
use super::reply::Reply;
use super::session::{self, Session};
use super::{Asked, Visit};
use crate::console::no_such_page;
use crate::http::{Found, Problem, Request, Verb};

const HERE: &str = "/console/documents";
const DOCUMENTS: &str = "/api/v1/documents";
/// Versions that a field proposes, and in which branches are looked for, at most.
const VERSIONS_KNOWN: usize = 300;
const CONTENT_TYPES: &[(&str, &str)] = &[
    ("text/markdown", "Markdown"),
    ("text/plain", "Plain text"),
    ("text/html", "HTML"),
    ("application/json", "JSON"),
];
/// What a person may do with a document, each with what comes before.
const ROLES: &[&str] = &["viewer", "commenter", "editor", "owner"];

/// The pages of documents.
pub(super) async fn answer(
    visit: &Visit,
    session: &Session,
    asked: Asked<'_>,
) -> Result<Reply, Problem> {
    let docs = Docs { visit, session };
    match (asked.path.get(1..).unwrap_or_default(), asked.form) {
        ([], None) => docs.list().await,
        ([], Some(form)) => docs.create(&form).await,
        (["new"], None) => docs.new_page(&Shown::default()).await,
        (["preview"] | [_, "preview"], Some(form)) => docs.preview(&form).await,
        ([id], None) => docs.show(&docs.document(id).await?).await,
        ([id, "raw"], None) => docs.raw(id).await,
        ([id, "edit"], None) => docs.edit(&docs.document(id).await?).await,
        ([id, "edit"], Some(form)) => docs.save(&docs.document(id).await?, &form).await,
        ([id, "history"], None) => docs.history(&docs.document(id).await?).await,
        ([id, "versions", version, "restore"], Some(form)) => {
            docs.restore_version(id, version, &form).await
        }
        ([id, "compare"], None) => docs.compare(&docs.document(id).await?).await,
        ([id, "merge"], None) => docs.merge_page(&docs.document(id).await?).await,
        ([id, "merge"], Some(form)) => docs.merge(&docs.document(id).await?, &form).await,
        ([id, "comments", rest @ ..], form) => {
            let document = docs.document(id).await?;
            docs.comments(&document, rest, form).await
        }
        ([id, "sharing", rest @ ..], form) => {
            let document = docs.document(id).await?;
            docs.sharing(&document, rest, form).await
        }
        ([id, "activity"], None) => docs.activity(&docs.document(id).await?).await,
        ([id, "delete"], Some(_)) => docs.delete(id).await,
        ([id, "restore"], Some(_)) => docs.restore(id).await,
        ([id, "erase"], Some(form)) => docs.erase(id, &form).await,
        _ => Err(no_such_page()),
    }
}

struct Docs<'d> {
    visit: &'d Visit,
    session: &'d Session,
}

/// A document as it stands now.
struct Document {
    /// Its path at the interface.
    at: String,
    /// Its path here.
    here: String,
    found: Found,
}

impl Document {
    fn text(&self, name: &str) -> &str {
        text(&self.found.body, name)
    }

    fn title(&self) -> &str {
        self.text("title")
    }

    /// The head's identifier.
    fn head(&self) -> &str {
        self.text("version")
    }

    fn etag(&self) -> &str {
        self.found.etag.as_deref().unwrap_or_default()
    }

    /// Whether the person has this role or one that may do more.
    fn allows(&self, role: &str) -> bool {
        let rank = |role: &str| ROLES.iter().position(|one| *one == role);
        rank(self.text("role")) >= rank(role)
    }
}

/// The paths of a document, at the interface and here; what can be no document is none.
fn paths(id: &str) -> Result<(String, String), Problem> {
    let id: DocumentId = id.parse().map_err(|_| Problem::not_found())?;
    Ok((format!("{DOCUMENTS}/{id}"), format!("{HERE}/{id}")))
}

/// A name of a version or a branch as a segment of a path.
///
/// # Errors
/// It can't be one.
fn segment<'n>(field: &'static str, name: &'n str) -> Result<&'n str, Problem> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match !name.is_empty() && name.chars().all(fits) {
        true => Ok(name),
        false => Err(Problem::invalid(
            field,
            "must be a version's number or label, or a branch",
        )),
    }
}

impl Docs<'_> {
    async fn document(&self, id: &str) -> Result<Document, Problem> {
        let (at, here) = paths(id)?;
        let found = self.session.get(&at).await?;
        Ok(Document { at, here, found })
    }

    /// A version with its content, by whatever names it.
    async fn version(&self, document: &Document, name: &str) -> Result<Value, Problem> {
        let path = format!("{}/versions/{name}", document.at);
        Ok(self.session.get(&path).await?.body)
    }

    /// The newest versions, newest first.
    async fn known_versions(&self, document: &Document) -> Result<Vec<Value>, Problem> {
        let mut known: Vec<Value> = Vec::new();
        while known.len() < VERSIONS_KNOWN {
            let path = format!("{}/versions?limit=100&offset={}", document.at, known.len());
            let found = self.session.get(&path).await?;
            known.extend_from_slice(found.items());
            if !found.has_after {
                break;
            }
        }
        Ok(known)
    }

    /// What a user is called here.
    fn name(&self, id: &str) -> String {
        let principal = self.session.principal.as_ref();
        let known = principal.zip(id.parse::<UserId>().ok());
        let person = known.and_then(|(principal, user)| {
            let identity = &self.visit.app.system.identity;
            identity.person(principal.tenant(), user)
        });
        match (person, id.is_empty()) {
            (Some(person), _) => person.name.clone(),
            (None, true) => "The account".to_owned(),
            (None, false) if id.starts_with("key_") => "An API key".to_owned(),
            (None, false) => "A former user".to_owned(),
        }
    }

    fn page(&self, title: &str, content: Markup) -> Reply {
        layout::page(self.visit, Some(self.session), Page::new(title, content))
    }

    /// One of the pages of a document.
    fn tab(&self, document: &Document, tab: &str, content: Markup) -> Reply {
        let markup = html! {
            div.heading.document-heading {
                div {
                    p.crumb { a href=(HERE) { "Documents" } }
                    h1 dir="auto" { (document.title()) }
                }
                div.actions { (role(document.text("role"))) }
            }
            nav.tabs aria-label="Pages of the document" {
                @for (path, name) in TABS {
                    @if *path != "/edit" || document.allows("editor") {
                        a href={ (document.here) (path) } aria-current=[(*path == tab).then_some("page")] { (name) }
                    }
                }
            }
            (content)
        };
        self.page(document.title(), markup)
    }

    fn done(&self, to: &str, words: &str) -> Reply {
        session::say(self.visit, Reply::see_other(to), words)
    }

    async fn post(&self, target: &str, body: &Value) -> Result<Found, Problem> {
        self.session
            .ask(Request::new(Verb::Post, target, body))
            .await
    }

    async fn remove(&self, target: &str) -> Result<(), Problem> {
        let request = Request {
            verb: Verb::Delete,
            ..Request::get(target)
        };
        self.session.ask(request).await.map(drop)
    }
}

const TABS: &[(&str, &str)] = &[
    ("", "Content"),
    ("/edit", "Edit"),
    ("/history", "History"),
    ("/comments", "Comments"),
    ("/sharing", "Sharing"),
    ("/activity", "Activity"),
];

/// What the person may do here.
fn role(role: &str) -> Markup {
    let words = match role {
        "owner" => "You own it",
        "editor" => "You may edit it",
        "commenter" => "You may comment",
        _ => "You may read it",
    };
    badge(words, "quiet")
}

/// What a content is written in, in words.
fn kind(content_type: &str) -> &'static str {
    let mut kinds = CONTENT_TYPES.iter();
    let found = kinds.find(|(name, _)| *name == content_type);
    found.map_or("Text", |(_, words)| words)
}

/// What a version is called: its label, or its number.
fn version_name(version: &Value) -> String {
    let number = number(version, "number");
    match text(version, "label") {
        "" => format!("Version {number}"),
        label => format!("Version {number} ({label})"),
    }
}

/// The branches that these versions are on, the main one first.
fn branches(versions: &[Value]) -> Vec<&str> {
    let mut found = vec!["main"];
    for version in versions {
        let branch = text(version, "branch");
        if !found.contains(&branch) {
            found.push(branch);
        }
    }
    found
}

/// Branches that stand beside each other before the others are folded away.
const BRANCHES_SHOWN: usize = 12;

/// The ways to branches, the newest first.
fn branch_ways(ways: &[Markup]) -> Markup {
    let (shown, others) = ways.split_at(ways.len().min(BRANCHES_SHOWN));
    html! {
        @for way in shown { (way) }
        @if !others.is_empty() {
            details.inline {
                summary.button.small { (others.len()) " more" }
                div.branches { @for way in others { (way) } }
            }
        }
    }
}

/// A field for one line of people's words, in whatever direction they run.
fn words_line(field: &Field<'_>, shown: &Shown, is_required: bool) -> Markup {
    field.around(
        shown,
        html! {
            input id={ "field-" (field.name) } name=(field.name) value=(shown.form.text(field.name)) dir="auto"
                required[is_required] aria-invalid=[shown.wrong(field.name).map(|_| "true")]
                aria-describedby=[described(field, shown)];
        },
    )
}

/// What belongs to a field and stands below it.
fn described(field: &Field<'_>, shown: &Shown) -> Option<String> {
    let name = field.name;
    if shown.wrong(name).is_some() {
        return Some(format!("wrong-{name}"));
    }
    (!field.hint.is_empty()).then(|| format!("hint-{name}"))
}

/// A form with these fields filled in, for what is shown for the first time.
fn filled(fields: &[(&str, &str)]) -> Shown {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let fields: Vec<_> = fields.iter().map(own).collect();
    Shown {
        form: Form::of(&fields),
        problem: None,
    }
}
