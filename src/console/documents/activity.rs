//! What was done to a document, newest first.

use maud::{Markup, html};
use serde_json::Value;

use super::{Docs, Document};
use crate::console::parts::{PER_PAGE, empty, offset, pages, target, text, time};
use crate::console::reply::Reply;
use crate::http::Problem;

/// What was done, in words.
const ACTIONS: &[(&str, &str)] = &[
    ("document.created", "made it"),
    ("document.updated", "changed it"),
    ("document.version_created", "added a version"),
    ("document.merged", "merged"),
    ("document.commented", "commented"),
    ("document.shared", "changed its share links"),
    ("document.permissions_updated", "changed who may do what"),
    ("document.deleted", "deleted it"),
    ("document.restored", "restored it"),
];

impl Docs<'_> {
    pub(super) async fn activity(&self, document: &Document) -> Result<Reply, Problem> {
        let action = self.visit.query("action");
        let path = target(
            &format!("{}/activity", document.at),
            &[
                ("limit", &PER_PAGE.to_string()),
                ("offset", &offset(self.visit).to_string()),
                ("action", &action),
            ],
        );
        let found = self.session.get(&path).await?;
        let content = html! {
            form.filters method="get" action={ (document.here) "/activity" } {
                label { "Show"
                    select name="action" data-submit {
                        option value="" { "Everything" }
                        @for (name, words) in ACTIONS { option value=(name) selected[*name == action] { "Who " (words) } }
                    }
                }
                button.button { "Show" }
            }
            @if found.items().is_empty() {
                (empty("Nothing of this kind", "Choose another one above.", html! {}))
            } @else {
                ol.activity data-list {
                    @for entry in found.items() { (self.entry(document, entry)) }
                }
                (pages(self.visit, &found))
            }
        };
        Ok(self.tab(document, "/activity", content))
    }

    fn entry(&self, document: &Document, entry: &Value) -> Markup {
        let (action, version) = (text(entry, "action"), text(entry, "version"));
        let mut actions = ACTIONS.iter();
        let words = actions.find(|(name, _)| *name == action);
        let words = words.map_or(action, |(_, words)| words);
        let details = entry.get("details").unwrap_or(&Value::Null);
        let actor = match details.get("share_id").is_some() {
            true => "Somebody with a share link".to_owned(),
            false => self.name(text(entry, "actor")),
        };
        html! {
            li {
                strong dir="auto" { (actor) } " " (words)
                (said(details))
                " " span.faint { (time(entry, "at")) }
                @if !version.is_empty() { " " a href={ (document.here) "?version=" (version) } data-item { "The text then" } }
            }
        }
    }
}

/// What there is to know beside who did what.
fn said(details: &Value) -> Markup {
    let of = |name: &str| details.get(name);
    let title = of("changes").and_then(|changes| changes.get("title"));
    let body = of("comment").map_or("", |comment| text(comment, "body"));
    html! {
        @if let Some(title) = title { ": the title is now " q dir="auto" { (text(title, "to")) } }
        @if !body.is_empty() { ": " q dir="auto" { (body.chars().take(200).collect::<String>()) } }
    }
}
