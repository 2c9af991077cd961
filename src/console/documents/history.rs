//! The versions of a document: drawn, and as a list.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{Docs, Document, branch_ways, branches, graph, paths, segment, version_name};
use crate::console::forms::{Form, object};
use crate::console::parts::{
    PER_PAGE, badge, button, empty, number, offset, pages, target, text, time,
};
use crate::console::reply::Reply;
use crate::http::{Found, Problem};

impl Docs<'_> {
    pub(super) async fn history(&self, document: &Document) -> Result<Reply, Problem> {
        let branch = self.visit.query("branch");
        let offset = offset(self.visit);
        let path = target(
            &format!("{}/versions", document.at),
            &[
                ("limit", &PER_PAGE.to_string()),
                ("offset", &offset.to_string()),
                ("branch", &branch),
            ],
        );
        let found = self.session.get(&path).await?;
        let known = self.known_versions(document).await?;
        let all = branches(&known);
        let content = html! {
            (compare_form(document, &known))
            @if all.len() > 1 { (branch_links(document, &all, &branch)) }
            @if found.items().is_empty() {
                (empty("No versions here", "Choose another branch, or an earlier page.", html! {}))
            } @else {
                h2 { "Versions, newest first" }
                div.history {
                    (graph::draw(found.items(), &document.here, offset > 0))
                    (self.versions(document, &found))
                }
                (pages(self.visit, &found))
            }
        };
        Ok(self.tab(document, "/history", content))
    }

    fn versions(&self, document: &Document, found: &Found) -> Markup {
        let is_head = |version: &Value| text(version, "id") == document.head();
        html! {
            ul.versions data-list {
                @for version in found.items() {
                    li {
                        div.what {
                            a href={ (document.here) "?version=" (text(version, "id")) } data-item { (version_name(version)) }
                            " "
                            @if is_head(version) { (badge("newest", "good")) " " }
                            @if text(version, "branch") != "main" { (badge(text(version, "branch"), "accent")) " " }
                            span dir="auto" title=(text(version, "message")) { (text(version, "message")) }
                        }
                        div.faint {
                            span dir="auto" { (self.name(text(version, "author"))) } ", " (time(version, "created_at"))
                            (from(version, found))
                        }
                        div.actions {
                            (changes(document, version))
                            @if document.allows("editor") && !is_head(version) {
                                (button(self.session, &format!("{}/versions/{}/restore", document.here, text(version, "id")), "Restore", "small", "Its text becomes the newest version. Nothing of the history is lost."))
                            }
                        }
                    }
                }
            }
        }
    }

    /// Makes an older text the newest version.
    pub(super) async fn restore_version(
        &self,
        id: &str,
        version: &str,
        form: &Form,
    ) -> Result<Reply, Problem> {
        let (at, here) = paths(id)?;
        let version = segment("version", version).map_err(|_| Problem::not_found())?;
        let body = object([("message", form.filled("message").map(|words| json!(words)))]);
        self.post(&format!("{at}/versions/{version}/restore"), &body)
            .await?;
        Ok(self.done(&here, "The older text is the newest version now."))
    }
}

/// From what a version was made, where that is not simply the one before.
fn from(version: &Value, found: &Found) -> Markup {
    let parents = version.get("parents").and_then(Value::as_array);
    let parents: Vec<&str> = parents
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let named = |id: &str| {
        let mut known = found.items().iter();
        let number = known.find(|known| text(known, "id") == id);
        number.map_or_else(
            || "one on a later page".to_owned(),
            |known| version_name(known).to_lowercase(),
        )
    };
    html! {
        @match parents.as_slice() {
            [] => ", the first one",
            [parent] => { ", from " (named(parent)) },
            [parent, merged, ..] => { ", merges " (named(merged)) " into " (named(parent)) },
        }
    }
}

/// The way to what a version changed.
pub(super) fn changes(document: &Document, version: &Value) -> Markup {
    let parents = version.get("parents").and_then(Value::as_array);
    let parent = parents
        .and_then(|all| all.first())
        .and_then(Value::as_str)
        .unwrap_or_default();
    let to = text(version, "id");
    let path = format!("{}/compare", document.here);
    // The first one changed nothing.
    html! {
        @if !parent.is_empty() {
            a.button.small href=(target(&path, &[("from", parent), ("to", to)])) { "Changes" }
        }
    }
}

fn branch_links(document: &Document, all: &[&str], chosen: &str) -> Markup {
    let path = format!("{}/history", document.here);
    let link = |branch: &str, words: &str| {
        html! {
            a.button.small href=(target(&path, &[("branch", branch)])) aria-current=[(branch == chosen).then_some("true")] { (words) }
        }
    };
    html! {
        nav.branches aria-label="Branches" {
            (link("", "All branches"))
            @if document.allows("editor") { a.button.small.primary href={ (document.here) "/merge" } { "Merge" } }
            (branch_ways(&all.iter().map(|branch| link(branch, branch)).collect::<Vec<_>>()))
        }
    }
}

/// Two versions to choose.
pub(super) fn compare_form(document: &Document, known: &[Value]) -> Markup {
    html! {
        form.filters method="get" action={ (document.here) "/compare" } {
            (chooser("from", "Compare", ""))
            (chooser("to", "with", "head"))
            (names(known))
            button.button { "Compare" }
        }
    }
}

/// A field that takes a version by its number, label or branch.
pub(super) fn chooser(name: &str, label: &str, value: &str) -> Markup {
    html! { label { (label) " (number, label or branch)"
        input name=(name) value=(value) list="names" autocomplete="off" required;
    } }
}

/// What such a field proposes.
pub(super) fn names(known: &[Value]) -> Markup {
    html! {
        datalist #names {
            option value="head" { "The newest" }
            @for branch in branches(known).iter().filter(|branch| **branch != "main") { option value=(branch) { "Branch" } }
            @for version in known.iter().take(50) {
                option value=(number(version, "number")) { (text(version, "label")) " " (text(version, "message")) }
            }
        }
    }
}
