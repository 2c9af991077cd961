//! The list of documents, the bin, and a new document.

use maud::{Markup, html};
use serde_json::json;

use super::{CONTENT_TYPES, DOCUMENTS, Docs, HERE, filled, kind, paths, words_line};
use crate::console::forms::{Form, Shown};
use crate::console::layout::csrf;
use crate::console::parts::{
    Field, PER_PAGE, button, empty, heading, number, offset, pages, problem, refusal, target, text,
    time,
};
use crate::console::reply::Reply;
use crate::http::{Found, Problem};

pub(super) const TITLE: Field<'_> = Field {
    name: "title",
    label: "Title",
    hint: "",
};
pub(super) const KIND: Field<'_> = Field {
    name: "content_type",
    label: "Written in",
    hint: "",
};
const CONTENT: Field<'_> = Field {
    name: "content",
    label: "Content",
    hint: "",
};
const SORTS: &[(&str, &str)] = &[
    ("updated_at", "Changed last"),
    ("created_at", "Made last"),
    ("title", "Title"),
];

/// What of the documents is listed.
struct Wanted {
    q: String,
    sort: String,
    content_type: String,
    is_bin: bool,
}

impl Docs<'_> {
    pub(super) async fn list(&self) -> Result<Reply, Problem> {
        let wanted = Wanted {
            q: self.visit.query("q").trim().to_owned(),
            sort: match self.visit.query("sort") {
                sort if sort.is_empty() => "updated_at".to_owned(),
                sort => sort,
            },
            content_type: self.visit.query("content_type"),
            is_bin: self.visit.query("bin") == "true",
        };
        let offset = offset(self.visit).to_string();
        let deleted = if wanted.is_bin { "true" } else { "" };
        let order = if wanted.sort == "title" { "asc" } else { "" };
        // What is searched for stands in the order in which it fits.
        let (sort, order) = match wanted.q.is_empty() {
            true => (wanted.sort.as_str(), order),
            false => ("", ""),
        };
        let path = target(
            DOCUMENTS,
            &[
                ("limit", &PER_PAGE.to_string()),
                ("offset", &offset),
                ("q", &wanted.q),
                ("content_type", &wanted.content_type),
                ("deleted", deleted),
                ("sort", sort),
                ("order", order),
            ],
        );
        let found = match self.session.get(&path).await {
            Err(problem) if problem.field == "q" => Err(problem),
            found => Ok(found?),
        };
        let new = html! { a.button.primary href={ (HERE) "/new" } { "New document" } };
        let content = html! {
            (heading("Documents", "Written together, with every version kept.", new))
            nav.tabs aria-label="Documents and bin" {
                a href=(HERE) aria-current=[(!wanted.is_bin).then_some("page")] { "Documents" }
                a href={ (HERE) "?bin=true" } aria-current=[wanted.is_bin.then_some("page")] { "Bin" }
            }
            (filters(&wanted))
            @match &found {
                Err(problem) => (refusal(problem)),
                Ok(found) if found.items().is_empty() => (nothing(&wanted)),
                Ok(found) => {
                    @if wanted.is_bin { (self.bin(found)) } @else { (self.table(found)) }
                    (pages(self.visit, found))
                }
            }
        };
        Ok(self.page("Documents", content))
    }

    fn table(&self, found: &Found) -> Markup {
        html! {
            div.table tabindex="0" { table.documents {
                caption.hidden { "Documents" }
                thead { tr { th { "Title" } th { "Owner" } th.aside { "Written in" } th.number.aside { "Version" } th { "Changed" } } }
                tbody data-list {
                    @for document in found.items() {
                        tr {
                            td.title { a href={ (HERE) "/" (text(document, "id")) } data-item dir="auto" { (text(document, "title")) } }
                            td dir="auto" { (self.name(text(document, "owner_id"))) }
                            td.aside { (kind(text(document, "content_type"))) }
                            td.number.aside { (number(document, "version_number")) }
                            td { (time(document, "updated_at")) }
                        }
                    }
                }
            } }
        }
    }

    fn bin(&self, found: &Found) -> Markup {
        html! {
            p.faint { "What is in the bin is kept for 30 days." }
            div.table tabindex="0" { table.documents {
                caption.hidden { "Deleted documents" }
                thead { tr { th { "Title" } th { "Owner" } th { "Changed" } th { "What to do" } } }
                tbody data-list {
                    @for document in found.items() {
                        @let here = format!("{HERE}/{}", text(document, "id"));
                        tr {
                            td.title dir="auto" { (text(document, "title")) }
                            td dir="auto" { (self.name(text(document, "owner_id"))) }
                            td { (time(document, "updated_at")) }
                            td {
                                @if text(document, "role") == "owner" {
                                    div.actions {
                                        (button(self.session, &format!("{here}/restore"), "Restore", "small", ""))
                                        form.inline method="post" action={ (here) "/erase" } {
                                            (csrf(self.session))
                                            input type="hidden" name="from" value="bin";
                                            button.button.small.danger data-confirm=(ERASING) { "Delete for good" }
                                        }
                                    }
                                } @else { span.faint { "Its owner may restore it" } }
                            }
                        }
                    }
                }
            } }
        }
    }

    pub(super) async fn new_page(&self, shown: &Shown) -> Result<Reply, Problem> {
        let content = html! {
            (heading("New document", "It belongs to you until you hand it on.", html! {}))
            (problem(shown, &["title", "content", "content_type"]))
            form.card.writing method="post" action=(HERE) {
                (csrf(self.session))
                (words_line(&TITLE, shown, true))
                (KIND.choice(shown, CONTENT_TYPES))
                (CONTENT.around(shown, html! {
                    textarea #field-content.source name="content" rows="16" dir="auto" spellcheck="true" { "\n" (shown.form.text("content")) }
                }))
                div.actions {
                    a.button href=(HERE) { "Cancel" }
                    button.button.primary { "Make it" }
                }
            }
        };
        Ok(self.page("New document", content))
    }

    pub(super) async fn create(&self, form: &Form) -> Result<Reply, Problem> {
        let body = json!({
            "title": form.text("title").trim(),
            "content": form.text("content"),
            "content_type": form.filled("content_type").unwrap_or("text/markdown"),
        });
        match self.post(DOCUMENTS, &body).await {
            Ok(made) => {
                let to = format!("{HERE}/{}", text(&made.body, "id"));
                Ok(self.done(&to, "The document is made."))
            }
            Err(problem) if problem.is_refusal() => {
                let page = self.new_page(&Shown::again(form, problem)).await?;
                Ok(page.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    /// Moves a document to the bin.
    pub(super) async fn delete(&self, id: &str) -> Result<Reply, Problem> {
        let (at, _) = paths(id)?;
        self.remove(&at).await?;
        let words = "The document is in the bin.";
        Ok(self.done(&format!("{HERE}?bin=true"), words))
    }

    /// Takes a document out of the bin.
    pub(super) async fn restore(&self, id: &str) -> Result<Reply, Problem> {
        let (at, here) = paths(id)?;
        self.post(&format!("{at}/restore"), &json!({})).await?;
        Ok(self.done(&here, "The document is out of the bin."))
    }

    /// Deletes a document for good; by the form of the bin only what is in it.
    pub(super) async fn erase(&self, id: &str, form: &Form) -> Result<Reply, Problem> {
        let words = "The document is deleted for good.";
        if form.text("from") == "bin" {
            let id = id.parse().map_err(|_| Problem::not_found())?;
            self.session.erase_from_bin(id).await?;
            return Ok(self.done(&format!("{HERE}?bin=true"), words));
        }
        let (at, _) = paths(id)?;
        self.remove(&format!("{at}?permanent=true")).await?;
        Ok(self.done(HERE, words))
    }
}

/// What is asked before a document is deleted for good.
pub(super) const ERASING: &str =
    "Its text, all its versions and comments are gone at once. This can't be undone.";

fn filters(wanted: &Wanted) -> Markup {
    let chosen = filled(&[
        ("sort", &wanted.sort),
        ("content_type", &wanted.content_type),
    ]);
    html! {
        form.filters method="get" action=(HERE) role="search" {
            @if wanted.is_bin { input type="hidden" name="bin" value="true"; }
            label.grow { "Search titles and contents"
                input type="search" name="q" value=(wanted.q) dir="auto" data-search;
            }
            (select("Written in", "content_type", &chosen, &[&[("", "Anything")], CONTENT_TYPES].concat()))
            @if wanted.q.is_empty() { (select("Sorted by", "sort", &chosen, SORTS)) }
            button.button { "Search" }
        }
    }
}

fn select(label: &str, name: &str, shown: &Shown, values: &[(&str, &str)]) -> Markup {
    html! {
        label { (label)
            select name=(name) {
                @for (value, words) in values {
                    option value=(value) selected[*value == shown.form.text(name)] { (words) }
                }
            }
        }
    }
}

fn nothing(wanted: &Wanted) -> Markup {
    let all = html! { p { a.button href=(HERE) { "Show all documents" } } };
    if !wanted.q.is_empty() || !wanted.content_type.is_empty() {
        let words = "No document that you may read fits. Try fewer words, or the beginning of one.";
        return empty("Nothing found", words, all);
    }
    if wanted.is_bin {
        let words = "What you delete comes here first, for 30 days.";
        return empty("The bin is empty", words, html! {});
    }
    empty(
        "No documents yet",
        "Guides, answers, agreements: write the first one.",
        html! { p { a.button.primary href={ (HERE) "/new" } { "New document" } } },
    )
}
