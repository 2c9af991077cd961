//! What a document says, now or in an older version.

use maud::{Markup, html};
use serde_json::Value;

use super::history::changes;
use super::list::ERASING;
use super::text::rendered;
use super::{Docs, Document, kind, segment, version_name};
use crate::console::parts::{button, number, target, text, time};
use crate::console::reply::Reply;
use crate::http::Problem;

impl Docs<'_> {
    pub(super) async fn show(&self, document: &Document) -> Result<Reply, Problem> {
        let name = self.visit.query("version");
        let older = match name.is_empty() {
            true => None,
            false => {
                let name = segment("version", &name).map_err(|_| Problem::not_found())?;
                Some(self.version(document, name).await?)
            }
        };
        let older = older.filter(|version| text(version, "id") != document.head());
        let shown = older.as_ref().unwrap_or(&document.found.body);
        let raw = target(
            &format!("{}/raw", document.here),
            &[("version", older.as_ref().map_or("", |it| text(it, "id")))],
        );
        let content_type = document.text("content_type");
        let markup = rendered(text(shown, "content"), content_type, &raw).await?;
        let content = html! {
            @if let Some(version) = &older { (self.older(document, version)) }
            article.card.reading aria-label="Content" { (markup) }
            @if older.is_none() { (self.facts(document)) }
            div.actions.spaced {
                a.button href=(raw) download { "Download" }
                @if older.is_none() && document.allows("owner") {
                    (button(self.session, &format!("{}/delete", document.here), "Move to the bin", "danger", "It leaves all lists and its links open nothing, until it is restored. After 30 days it is gone."))
                    (button(self.session, &format!("{}/erase", document.here), "Delete for good", "danger", ERASING))
                }
            }
        };
        Ok(self.tab(document, "", content))
    }

    fn older(&self, document: &Document, version: &Value) -> Markup {
        let id = text(version, "id");
        let compare = target(
            &format!("{}/compare", document.here),
            &[("from", id), ("to", "head")],
        );
        html! {
            div.notice.warn {
                p { strong { (version_name(version)) } " of " (self.name(text(version, "author"))) ", " (time(version, "created_at"))
                    ", on " code { (text(version, "branch")) } "."
                    @if !text(version, "message").is_empty() { " " q dir="auto" { (text(version, "message")) } }
                }
                div.actions {
                    a.button.small href=(document.here) { "Show the newest" }
                    (changes(document, version))
                    a.button.small href=(compare) { "Compare with the newest" }
                    @if document.allows("editor") {
                        (button(self.session, &format!("{}/versions/{id}/restore", document.here), "Restore this text", "small", "Its text becomes the newest version. Nothing of the history is lost."))
                    }
                }
            }
        }
    }

    fn facts(&self, document: &Document) -> Markup {
        let body = &document.found.body;
        html! {
            section.card {
                h2 { "About it" }
                dl.facts {
                    div { dt { "Owner" } dd dir="auto" { (self.name(text(body, "owner_id"))) } }
                    div { dt { "Version" } dd { (number(body, "version_number")) } }
                    div { dt { "Written in" } dd { (kind(text(body, "content_type"))) } }
                    div { dt { "Changed" } dd { (time(body, "updated_at")) " by " (self.name(text(body, "updated_by"))) } }
                    div { dt { "Made" } dd { (time(body, "created_at")) " by " (self.name(text(body, "created_by"))) } }
                    div { dt { "Name at the interface" } dd { code { (text(body, "id")) } } }
                }
            }
        }
    }
}
