//! Share links as pages for people: a document with what is said of it, the question for its
//! password, and refusals. Nothing of what others wrote becomes markup but what Markdown allows,
//! nothing runs, nothing is loaded from elsewhere.

use actix_web::http::header::HeaderMap;
use bytes::Bytes;
use colloquy_actors::document::access::DocumentRole;
use colloquy_actors::document::messages::ContentType;
use colloquy_actors::document::views::CommentView;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::console;
use crate::http::accept;
use crate::http::problem::{Kind, More, Outcome, Problem};
use crate::http::response::lasting_address;
use crate::markdown::{self, Block};

/// The style sheet of the pages that share links open.
pub(in crate::http) const STYLE: &str = include_str!("page.css");

/// Comments that a page asks for.
pub(super) const COMMENTS_MAX: u32 = 200;
/// Bytes of the comments that a page shows.
const COMMENT_BYTES_MAX: usize = 262_144;
/// Blocks that each have a form of their own; beyond it one form takes line numbers.
const FORMS_MAX: usize = 300;
/// Lines that are numbered.
const NUMBERED_MAX: usize = 5_000;
/// Bytes of a page beside a document's own texts, and more.
const FRAME: usize = 8_192;

/// A document as the answer has it that shows it.
#[derive(Deserialize)]
pub(super) struct Shown {
    pub(super) title: String,
    pub(super) content: String,
    pub(super) content_type: ContentType,
    pub(super) updated_at: String,
    pub(super) version: String,
    pub(super) version_number: u64,
    pub(super) role: DocumentRole,
}

/// Who reads a page: what its forms send along.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) token: String,
    /// What opened the link; it goes with each form, since there is nothing else that remembers it.
    pub(super) password: Option<String>,
}

/// What a page has just done, which it says on top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Done {
    /// A comment was added.
    Commented,
    /// The text was saved.
    Saved,
}

impl Done {
    /// As it stands in an address.
    pub(super) fn word(self) -> &'static str {
        match self {
            Done::Commented => "commented",
            Done::Saved => "saved",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Done::Commented => "Your comment was added.",
            Done::Saved => "Your text was saved.",
        }
    }
}

/// What is said of a document, as far as the page asked for it.
pub(super) struct Comments {
    /// The newest ones, as the list has them.
    pub(super) newest: Bytes,
    pub(super) total: u64,
}

/// All that a document's page is made of.
pub(super) struct Reading {
    pub(super) document: Bytes,
    pub(super) comments: Option<Comments>,
    pub(super) visitor: Visitor,
    pub(super) done: Option<Done>,
    /// Tells this page's forms from those of every other.
    pub(super) nonce: String,
}

impl Reading {
    /// Whether its page stays small, whatever stands in it, so that it can be made before there is
    /// room for it.
    pub(super) fn is_bounded(&self) -> bool {
        self.document.len() <= 2 * markdown::BYTES_MAX
    }

    /// What its page takes at most: all that becomes longer in it is counted.
    pub(super) fn bytes(&self) -> usize {
        let comments = self.comments.as_ref();
        let comments = comments.map_or(0, |all| all.newest.len().min(COMMENT_BYTES_MAX));
        FRAME
            + escaped_bytes(&self.document)
            + comments.saturating_mul("&quot;".len())
            + if comments > 0 {
                COMMENTS_MAX as usize * 512
            } else {
                0
            }
    }
}

fn escaped_bytes(body: &[u8]) -> usize {
    let shown = |byte: &u8| match byte {
        b'&' => "&amp;".len(),
        b'<' | b'>' => "&lt;".len(),
        b'"' => "&quot;".len(),
        _ => 1,
    };
    body.iter().map(shown).sum()
}

/// A document, with the forms that its role allows; none where the answer is not what it should be.
pub(super) fn document(reading: &Reading) -> Option<Bytes> {
    let shown: Shown = serde_json::from_slice(&reading.document).ok()?;
    let (said, hidden) = match &reading.comments {
        Some(comments) => {
            let all: Vec<CommentView> = serde_json::from_slice(&comments.newest).ok()?;
            let said = within_bounds(all);
            let hidden = comments.total.saturating_sub(said.len() as u64);
            (said, hidden)
        }
        None => (Vec::new(), 0),
    };
    let may_comment = shown.role >= DocumentRole::Commenter;
    let short = reading.is_bounded() && shown.content.len() <= markdown::BYTES_MAX;
    let blocks = (shown.content_type == ContentType::Markdown && short)
        .then(|| markdown::blocks(&shown.content))
        .flatten();
    let lines = shown.content.lines().count();
    let forms = may_comment.then_some(CommentForm {
        reading,
        version: &shown.version,
    });
    let (here, elsewhere): (Vec<&CommentView>, Vec<&CommentView>) = said.iter().partition(|one| {
        blocks.is_some() && one.version.to_string() == shown.version && !one.outdated
    });
    let each = blocks
        .as_ref()
        .is_some_and(|blocks| blocks.len() <= FORMS_MAX);
    let body = html! {
        h1 { (shown.title) }
        p.about {
            "Version " (shown.version_number) ", changed " (time(&shown.updated_at)) ". "
            (may(shown.role))
        }
        @if let Some(done) = reading.done { p.notice role="status" { (done.sentence()) } }
        @if shown.role >= DocumentRole::Editor { (edit(&reading.visitor, &shown, short)) }
        @match &blocks {
            Some(blocks) => div.text { (in_blocks(blocks, &here, forms.as_ref().map(|form| (form, each)))) },
            None if may_comment && short && lines <= NUMBERED_MAX => pre.numbered { (numbered(&shown.content)) },
            None => pre { "\n" (shown.content) },
        }
        @if let Some(form) = &forms {
            section.comments aria-labelledby="comments" {
                h2 #comments { "Comments" }
                @if said.is_empty() { p { "Nobody has commented yet." } }
                @else if elsewhere.is_empty() { p { "Comments stand below the lines that they are about." } }
                @for comment in &elsewhere { (remark(comment, &shown.version)) }
                @if hidden > 0 { p.about { "Older comments that are not shown here: " (hidden) "." } }
                @if !each && lines > 0 { (form.by_line_numbers()) }
            }
        }
    };
    Some(framed(&shown.title, &body))
}

/// As many of the comments, the newest first, as a page may show; in the order of their lines.
fn within_bounds(newest: Vec<CommentView>) -> Vec<CommentView> {
    let mut bytes = 0;
    let mut kept: Vec<CommentView> = newest
        .into_iter()
        .take_while(|one| {
            bytes += one.body.len();
            bytes <= COMMENT_BYTES_MAX
        })
        .collect();
    kept.reverse();
    kept.sort_by_key(|one| (one.start_line, one.end_line));
    kept
}

fn may(role: DocumentRole) -> &'static str {
    match role {
        DocumentRole::Viewer => "",
        DocumentRole::Commenter => "You may comment.",
        DocumentRole::Editor | DocumentRole::Owner => "You may comment and edit.",
    }
}

/// A text in its blocks, with what is said of each below it, and with the form to say more.
fn in_blocks(
    blocks: &[Block],
    said: &[&CommentView],
    forms: Option<(&CommentForm<'_>, bool)>,
) -> Markup {
    let mut left = said.iter().copied().peekable();
    html! {
        @for (place, block) in blocks.iter().enumerate() {
            @let is_last = place + 1 == blocks.len();
            div.block id={ "line-" (block.first_line) } {
                (PreEscaped(&block.html))
                @match forms {
                    Some((form, true)) => (form.at(block.first_line, block.last_line)),
                    Some((_, false)) => p.at { (lines(block.first_line, block.last_line)) },
                    None => "",
                }
                @while let Some(comment) = left.next_if(|one| is_last || one.start_line <= block.last_line) {
                    (remark(comment, ""))
                }
            }
        }
        @if blocks.is_empty() { p.about { "There is no text yet." } }
        @for comment in left { (remark(comment, "")) }
    }
}

fn numbered(text: &str) -> Markup {
    html! {
        @for (place, line) in text.lines().enumerate() {
            span id={ "line-" (place + 1) } { (line) "\n" }
        }
    }
}

fn lines(first: u64, last: u64) -> String {
    if first == last {
        format!("line {first}")
    } else {
        format!("lines {first} to {last}")
    }
}

/// A comment; what it is about stands above it, unless it is named.
fn remark(comment: &CommentView, head: &str) -> Markup {
    let CommentView {
        start_line,
        end_line,
        ..
    } = *comment;
    let older = !head.is_empty() && comment.version.to_string() != head;
    html! {
        article.remark.resolved[comment.resolved] id=(comment.comment_id) {
            p.about {
                strong { (author(comment.author.is_some())) }
                " on "
                @if older || comment.outdated { (lines(start_line, end_line)) " of an earlier text" }
                @else { a href={ "#line-" (start_line) } { (lines(start_line, end_line)) } }
                ", " (time(&comment.created_at.to_string()))
                @if comment.resolved { " " span.badge { "resolved" } }
                @if comment.outdated { " " span.badge { "outdated" } }
            }
            p.said { (comment.body) }
        }
    }
}

/// Who wrote something, as far as the holder of a link is told.
pub(super) fn author(is_a_user: bool) -> &'static str {
    if is_a_user {
        "A member of the team"
    } else {
        "Unsigned"
    }
}

/// The form that says something of a document's lines.
struct CommentForm<'a> {
    reading: &'a Reading,
    version: &'a str,
}

impl CommentForm<'_> {
    fn at(&self, first: u64, last: u64) -> Markup {
        let lines = lines(first, last);
        self.form(
            &format!("Comment on {lines}"),
            &html! {
                input type="hidden" name="start_line" value=(first);
                input type="hidden" name="end_line" value=(last);
            },
            first,
        )
    }

    fn by_line_numbers(&self) -> Markup {
        self.form("Add a comment", &html! {
            div.pair {
                label { "From line " input type="number" name="start_line" min="1" value="1" required; }
                label { "to line " input type="number" name="end_line" min="1" value="1" required; }
            }
        }, 0)
    }

    fn form(&self, summary: &str, fields: &Markup, place: u64) -> Markup {
        let visitor = &self.reading.visitor;
        html! {
            details.at {
                summary { (summary) }
                form method="post" action={ "/s/" (visitor.token) "/comment" } {
                    (visitor.fields())
                    input type="hidden" name="nonce" value=(self.reading.nonce);
                    input type="hidden" name="version" value=(self.version);
                    (fields)
                    label for={ "comment-" (place) } { "Your comment" }
                    textarea id={ "comment-" (place) } name="body" rows="4" required {}
                    button { "Comment" }
                }
            }
        }
    }
}

impl Visitor {
    /// What each form sends along to open the link again.
    pub(super) fn fields(&self) -> Markup {
        html! {
            @if let Some(password) = &self.password {
                input type="hidden" name="password" value=(password);
            }
        }
    }

    /// What opens the document anew.
    pub(super) fn reopen(&self, words: &str) -> Markup {
        html! {
            @if self.password.is_some() {
                form.inline method="post" action={ "/s/" (self.token) } target="_blank" {
                    (self.fields()) button.quiet { (words) }
                }
            } @else {
                a href={ "/s/" (self.token) } target="_blank" rel="noopener" { (words) }
            }
        }
    }
}

fn edit(visitor: &Visitor, shown: &Shown, short: bool) -> Markup {
    html! {
        @if short {
            details.edit {
                summary { "Edit the text" }
                (editor(visitor, &shown.version, &shown.content, false))
            }
        } @else {
            p.about { "The text is too long to be edited on a page; a program can, with " code { "PUT" } "." }
        }
    }
}

/// The form with the text, made from the version that is named.
pub(super) fn editor(visitor: &Visitor, base: &str, text: &str, moved_on: bool) -> Markup {
    html! {
        form method="post" action={ "/s/" (visitor.token) "/edit" } {
            (visitor.fields())
            input type="hidden" name="base" value=(base);
            label for="content" { "Text" }
            // The first line break in it is none of its text's.
            textarea #content name="content" rows="24" spellcheck="true" { "\n" (text) }
            div.buttons {
                button.quiet name="act" value="preview" { "Preview" }
                @if moved_on { button.quiet name="act" value="compare" { "Compare with the current text" } }
                button name="act" value="save" {
                    @if moved_on { "Save my text in its place" } @else { "Save" }
                }
            }
        }
    }
}

/// Writes a time as people read it, to the minute.
pub(super) fn time(time: &str) -> Markup {
    let minute = time.get(..16).map_or_else(
        || time.to_owned(),
        |minute| format!("{} UTC", minute.replace('T', " ")),
    );
    html! { time datetime=(time) { (minute) } }
}

/// The question for the password of this link, and what there is to say about the one that was
/// given.
pub(super) fn password(token: &str, said: &str) -> Bytes {
    framed(
        "A shared document",
        &html! {
            h1 { "A shared document" }
            p role="status" { (said) }
            form method="post" action={ "/s/" (token) } {
                label for="password" { "Password" }
                input #password type="password" name="password" required autocomplete="off";
                button { "Open" }
            }
        },
    )
}

/// That the link opens nothing, and what was done before it ended.
pub(super) fn gone(done: Option<Done>) -> Bytes {
    framed(
        "Nothing to show",
        &html! {
            h1 { "Nothing to show" }
            @if let Some(done) = done { p.notice role="status" { (done.sentence()) } }
            p { "This link opens nothing, or nothing any more." }
            p.about { "Ask whoever gave it to you for a new one." }
        },
    )
}

/// The refusal with a page that says why, for who does not ask for JSON; one that has a page keeps
/// it.
pub(in crate::http) fn refusal_page(headers: &HeaderMap, problem: Problem) -> Problem {
    if accept::prefers_json(headers) || matches!(problem.more.as_deref(), Some(More::Page(_))) {
        return problem;
    }
    let page = refused(&problem);
    Problem {
        more: Some(Box::new(More::Page(page))),
        ..problem
    }
}

/// That something was not done, why, and what can be done about it.
fn refused(problem: &Problem) -> Bytes {
    framed(
        "That did not work",
        &html! {
            h1 { "That did not work" }
            p { (reason(problem)) }
            p.about { (advice(problem)) }
        },
    )
}

/// Why something was refused, as a sentence.
pub(super) fn reason(problem: &Problem) -> String {
    let reason = format!("{} {}", problem.field.replace('_', " "), problem.reason);
    let mut letters = reason.trim().chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// What whoever reads a page can do about a refusal.
pub(super) fn advice(problem: &Problem) -> String {
    match problem.kind {
        Kind::RateLimited | Kind::QuotaExceeded | Kind::Unavailable => {
            let seconds = problem.retry_after_seconds.unwrap_or(1);
            let unsure = match problem.outcome {
                Some(Outcome::Unknown) => {
                    "It may have been done all the same: look before you repeat it. "
                }
                Some(Outcome::None) | None => "",
            };
            format!(
                "{unsure}Wait {seconds} s, then try again. What you wrote is still there when you go back."
            )
        }
        Kind::Forbidden => "Ask whoever gave you the link for one that allows it.".to_owned(),
        Kind::PayloadTooLarge | Kind::RangeNotSatisfiable => {
            "Go back: what you wrote is still there. Make it shorter, then send it again."
                .to_owned()
        }
        Kind::RequestTimeout => {
            "Go back and send it again: what you wrote is still there.".to_owned()
        }
        Kind::NotFound | Kind::MethodNotAllowed => {
            "Open the link again as it was given to you.".to_owned()
        }
        Kind::ServerError => {
            "It is a fault of ours. Try again, and tell whoever gave you the link if it stays so."
                .to_owned()
        }
        Kind::InvalidRequest
        | Kind::Unauthorized
        | Kind::Conflict
        | Kind::InvalidTransition
        | Kind::ConversationClosed
        | Kind::IdempotencyInProgress
        | Kind::MergeConflict
        | Kind::CursorExpired
        | Kind::PreconditionFailed
        | Kind::UnsupportedMediaType
        | Kind::IdempotencyKeyReused
        | Kind::HeadersTooLarge => {
            "Go back, change what is said above, then send it again.".to_owned()
        }
    }
}

/// A whole page.
pub(super) fn framed(title: &str, body: &Markup) -> Bytes {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                // With the header's word alone, a form's POST would say that it comes from nowhere.
                meta name="referrer" content="same-origin";
                title { (title) }
                link rel="icon" type="image/svg+xml" href=(console::icon());
                link rel="stylesheet" href=(lasting_address("/docs/share.css", STYLE));
            }
            body { main { (body) } }
        }
    };
    page.into_string().into()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use colloquy_model::id::{CommentId, VersionId};
    use colloquy_model::time::Timestamp;
    use serde_json::json;

    use super::*;

    fn reading(role: &str, kind: &str, text: &str) -> Reading {
        let now = Timestamp::now();
        let version = VersionId::new(now);
        let document = json!({
            "title": text, "content": text, "content_type": kind, "updated_at": text, "version": version, "version_number": 1,
            "role": role,
        });
        let comment = |outdated| CommentView {
            comment_id: CommentId::new(now),
            version,
            start_line: 1,
            end_line: 1,
            body: text.to_owned(),
            author: None,
            resolved: true,
            outdated,
            created_at: now,
            updated_at: now,
        };
        let comments = vec![comment(false), comment(true)];
        Reading {
            document: document.to_string().into(),
            comments: Some(Comments {
                newest: serde_json::to_vec(&comments).unwrap().into(),
                total: 3,
            }),
            visitor: Visitor {
                token: text.to_owned(),
                password: Some(text.to_owned()),
            },
            done: Some(Done::Saved),
            nonce: text.to_owned(),
        }
    }

    #[test]
    fn nothing_that_others_wrote_becomes_markup() {
        let nasty = "</pre></textarea></title><script>alert(1)</script>\"'";
        let refusal = Problem::invalid(nasty, nasty);
        for page in [
            document(&reading("viewer", "text/plain", nasty)).unwrap(),
            document(&reading("commenter", "text/html", nasty)).unwrap(),
            document(&reading("editor", "text/markdown", nasty)).unwrap(),
            password(nasty, nasty),
            refused(&refusal),
        ] {
            let text = String::from_utf8(page.to_vec()).unwrap();
            for never in ["<script", "</pre></textarea>", "\"'", "</textarea></title>"] {
                assert!(!text.contains(never), "{never} in {text}");
            }
        }
    }

    #[test]
    fn a_long_page_takes_no_more_than_the_room_that_is_found_for_it() {
        let text = "\"<&>\n".repeat(2 * markdown::BYTES_MAX / 4);
        for role in ["viewer", "commenter", "editor"] {
            let mut long = reading(role, "text/markdown", "\"");
            let mut document: serde_json::Value = serde_json::from_slice(&long.document).unwrap();
            document
                .as_object_mut()
                .unwrap()
                .insert("content".to_owned(), json!(text));
            long.document = document.to_string().into();
            assert!(!long.is_bounded());
            let bytes = super::document(&long).unwrap().len();
            assert!(bytes <= long.bytes(), "{bytes} of {}", long.bytes());
            assert!(bytes > text.len(), "it is shown");
        }
    }
}
