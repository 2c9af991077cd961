//! The page on which the holder of an editor's link goes on with a text: how it will look, what
//! happened to the document meanwhile, what the two texts differ in. The text is always there.

use bytes::Bytes;
use maud::{Markup, PreEscaped, html};
use serde::Deserialize;

use super::page::{self, Visitor};
use crate::http::problem::Problem;
use crate::markdown;

/// Versions that are told of at most.
pub(super) const VERSIONS_MAX: u32 = 50;

/// A version as a list has it.
#[derive(Deserialize)]
pub(super) struct VersionShown {
    pub(super) number: u64,
    message: Option<String>,
    author: Option<String>,
    created_at: String,
}

/// A text that is being written, and the version on which it is to be saved.
pub(super) struct Editing {
    pub(super) visitor: Visitor,
    pub(super) title: String,
    pub(super) base: String,
    pub(super) text: String,
    pub(super) is_markdown: bool,
}

/// What the page says beside the text.
pub(super) enum Told {
    /// How it will look.
    Preview,
    /// The lines that it would change, as a patch; none where there are too many.
    Compared(Option<String>),
    /// What others did meanwhile, newest first.
    MovedOn(Vec<VersionShown>),
    /// Why it was not saved.
    Refused(Problem),
}

/// The page with the text and what there is to say about it.
pub(super) fn editing(editing: &Editing, told: &Told) -> Bytes {
    let moved_on = matches!(told, Told::MovedOn(_) | Told::Compared(_));
    let body = html! {
        h1 { "Edit: " (editing.title) }
        @match told {
            Told::Preview => {
                p.notice role="status" { "This is how your text will look. It is not saved yet." }
                (preview(editing))
            }
            Told::Compared(patch) => {
                p.notice role="status" { "This is what your text would change. It is not saved yet." }
                (compared(patch.as_deref()))
            }
            Told::MovedOn(versions) => (happened(editing, versions)),
            Told::Refused(problem) => div.notice.bad role="alert" {
                p { strong { "Your text was not saved." } " " (page::reason(problem)) }
                p { "Nothing is lost: it stands below. " (page::advice(problem)) }
            },
        }
        h2 { "Your text" }
        (page::editor(&editing.visitor, &editing.base, &editing.text, moved_on))
        p.about { (editing.visitor.reopen("Read the document as it is now")) }
    };
    page::framed(&format!("Edit: {}", editing.title), &body)
}

fn preview(editing: &Editing) -> Markup {
    let rendered = editing
        .is_markdown
        .then(|| markdown::to_html(&editing.text))
        .flatten();
    html! {
        section.preview aria-label="Preview" {
            @match rendered {
                Some(markup) => div.text { (PreEscaped(markup)) },
                None => pre { "\n" (editing.text) },
            }
        }
    }
}

fn happened(editing: &Editing, versions: &[VersionShown]) -> Markup {
    html! {
        div.notice.bad role="alert" {
            p { strong { "The document has moved on while you were writing. Your text was not saved." } }
            p {
                "Nothing is lost: your text stands below. Compare it with the current one, bring over what you want to keep, "
                "then save it on top."
            }
        }
        h2 { "What happened in between" }
        ol.versions {
            @for version in versions {
                li {
                    strong { "Version " (version.number) }
                    @if version.author.is_some() { " by a member of the team" } @else { ", unsigned" }
                    ", " (page::time(&version.created_at))
                    @if let Some(message) = &version.message { p.said { (message) } }
                    @else { p.about { "No message." } }
                }
            }
        }
        @if versions.len() >= VERSIONS_MAX as usize { p.about { "There are more before these." } }
        p.about { (editing.visitor.reopen("Read the document as it is now")) }
    }
}

fn compared(patch: Option<&str>) -> Markup {
    html! {
        h2 { "Current text and yours" }
        @match patch {
            None => p { "The texts differ in too much to be shown here." },
            Some("") => p { "They are the same." },
            // The first two lines name files, of which there are none.
            Some(patch) => pre.diff {
                @for line in patch.lines().skip(2) {
                    @match line.as_bytes().first() {
                        Some(b'+') => { ins { (line) } "\n" }
                        Some(b'-') => { del { (line) } "\n" }
                        Some(b'@') => { span.about { (line) } "\n" }
                        _ => { (line) "\n" }
                    }
                }
            },
        }
    }
}

/// That a comment was not added, with its words.
pub(super) fn comment_refused(visitor: &Visitor, words: &str, problem: &Problem) -> Bytes {
    page::framed(
        "Your comment was not added",
        &html! {
            h1 { "Your comment was not added" }
            p role="alert" { (page::reason(problem)) }
            p.about { (page::advice(problem)) }
            h2 { "What you wrote" }
            p.said { (words) }
            p { (visitor.reopen("Read the document as it is now")) }
        },
    )
}
