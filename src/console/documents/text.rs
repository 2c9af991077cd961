//! How the text of a document is shown: Markdown as a page, everything else as it is written.

use colloquy_runtime::offload;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use super::{Docs, paths};
use crate::console::forms::Form;
use crate::console::parts::{grouped, target, text};
use crate::console::reply::Reply;
use crate::http::Problem;
use crate::markdown;

/// Bytes of a text that a page shows at most.
pub(super) const SHOWN_MAX: usize = 262_144;

/// A text as a page shows it. `whole` leads to all of it where it is too long for that.
///
/// # Errors
/// Rendering it has failed.
pub(super) async fn rendered(
    content: &str,
    content_type: &str,
    whole: &str,
) -> Result<Markup, Problem> {
    if content.is_empty() {
        return Ok(html! { p.faint { "It is empty." } });
    }
    if content_type == "text/markdown" && content.len() <= markdown::BYTES_MAX {
        let source = content.to_owned();
        // The longest that is let through would hold up what else this thread serves.
        let html = offload::run_on_batch_cores((), move || markdown::to_html(&source)).await;
        if let Some(html) = html.ok_or_else(Problem::crashed)? {
            return Ok(html! { div.rendered dir="auto" { (PreEscaped(html)) } });
        }
    }
    let start = start_of(content);
    Ok(html! {
        @if start.len() < content.len() {
            div.notice.warn {
                "It is long: you see its first " (grouped(kilobytes(start.len()))) " KB of " (grouped(kilobytes(content.len()))) " KB."
                @if !whole.is_empty() { " " a href=(whole) { "All of it as a file" } "." }
            }
        }
        pre.source dir="auto" { (start) }
    })
}

/// As much of a text as is shown, whole characters only.
pub(super) fn start_of(content: &str) -> &str {
    let end = content.floor_char_boundary(SHOWN_MAX);
    content.get(..end).unwrap_or_default()
}

fn kilobytes(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(1_024)).unwrap_or(u64::MAX)
}

impl Docs<'_> {
    /// What would be shown of a text that is still being written.
    pub(super) async fn preview(&self, form: &Form) -> Result<Reply, Problem> {
        let markup = rendered(form.text("content"), form.text("content_type"), "").await?;
        Ok(Reply::part(markup))
    }

    /// A text as it is, or the differences of two as a patch, to keep as a file.
    pub(super) async fn raw(&self, id: &str) -> Result<Reply, Problem> {
        let (at, _) = paths(id)?;
        let (visit, query) = (self.visit, |name: &str| self.visit.query(name));
        let is_patch = visit.request.query_string().contains("patch=");
        let (name, content) = if is_patch {
            let (from, to) = (query("from"), query("to"));
            let path = target(&format!("{at}/diff"), &[("from", &from), ("to", &to)]);
            ("document.patch", self.session.get(&path).await?.body)
        } else {
            let path = target(&at, &[("version", &query("version"))]);
            let mut document = self.session.get(&path).await?.body;
            let name = match text(&document, "content_type") {
                "text/markdown" => "document.md",
                "text/html" => "document.html",
                "application/json" => "document.json",
                _ => "document.txt",
            };
            let content = document.get_mut("content").map(Value::take);
            (name, content.unwrap_or_default())
        };
        let Value::String(content) = content else {
            return Err(Problem::crashed());
        };
        Ok(Reply::file(content, name))
    }
}
