//! Share links as pages for people: a document, the question for its password, and that there is
//! none. Nothing of what others wrote becomes markup, nothing runs, nothing is loaded from
//! elsewhere.

use actix_web::http::header::HeaderMap;
use bytes::Bytes;
use serde::Deserialize;

use crate::http::accept;
use crate::http::docs::html::Html;
use crate::http::problem::{More, Problem};

/// The style sheet of the pages that share links open.
pub(in crate::http) const STYLE: &str = include_str!("page.css");

#[derive(Deserialize)]
struct Shown {
    title: String,
    content: String,
    updated_at: String,
    version_number: u64,
}

/// Bytes of a page beside a document's own texts, and more.
const FRAME: usize = 4_096;

/// The most that a page of an answer of so many bytes takes.
pub(super) fn bytes_max(body: usize) -> usize {
    FRAME.saturating_add(body.saturating_mul("&quot;".len()))
}

/// What the page of this answer takes at most: all that becomes longer in it is counted.
pub(super) fn bytes(body: &[u8]) -> usize {
    let shown = |byte: &u8| match byte {
        b'&' => "&amp;".len(),
        b'<' | b'>' => "&lt;".len(),
        b'"' => "&quot;".len(),
        _ => 1,
    };
    FRAME + body.iter().map(shown).sum::<usize>()
}

/// A document, from the answer that shows it; none where that is not what it should be.
pub(super) fn document(body: &[u8]) -> Option<Bytes> {
    let shown: Shown = serde_json::from_slice(body).ok()?;
    let mut page = begun(&shown.title);
    page.reserve(bytes(body));
    page.raw("<h1>")
        .escaped(&shown.title)
        .raw("</h1><p class=\"about\">Version ");
    page.escaped(&shown.version_number.to_string())
        .raw(", changed <time datetime=\"")
        .escaped(&shown.updated_at);
    page.raw("\">")
        .escaped(&to_the_minute(&shown.updated_at))
        .raw("</time></p><pre>")
        .escaped(&shown.content)
        .raw("</pre>");
    Some(ended(page))
}

/// Writes a time as people read it, to the minute.
fn to_the_minute(time: &str) -> String {
    time.get(..16).map_or_else(
        || time.to_owned(),
        |minute| format!("{} UTC", minute.replace('T', " ")),
    )
}

/// The question for the password of this link, and what there is to say about the one that was
/// given.
pub(super) fn password(token: &str, said: &str) -> Bytes {
    let mut page = begun("A shared document");
    page.raw("<h1>A shared document</h1><p role=\"status\">")
        .escaped(said);
    page.raw("</p><form method=\"post\" action=\"/s/")
        .escaped(token);
    page.raw("\"><label>Password <input type=\"password\" name=\"password\" required autocomplete=\"off\"></label>");
    page.raw("<button>Open</button></form>");
    ended(page)
}

/// That the link opens nothing.
pub(super) fn gone() -> Bytes {
    let mut page = begun("Nothing to show");
    page.raw("<h1>Nothing to show</h1><p>This link opens nothing, or nothing any more.</p>");
    page.raw("<p class=\"about\">Ask whoever gave it to you for a new one.</p>");
    ended(page)
}

/// The refusal with a page that says why, for who does not ask for JSON.
pub(in crate::http) fn refusal_page(headers: &HeaderMap, problem: Problem) -> Problem {
    if accept::prefers_json(headers) {
        return problem;
    }
    let page = refused(problem.kind.message(), &problem.reason);
    Problem {
        more: Some(Box::new(More::Page(page))),
        ..problem
    }
}

/// That nothing is shown, and why.
fn refused(message: &str, reason: &str) -> Bytes {
    let mut page = begun("Nothing to show");
    page.raw("<h1>Nothing to show</h1><p>")
        .escaped(message)
        .raw(".</p><p class=\"about\">")
        .escaped(reason);
    page.raw(".</p>");
    ended(page)
}

fn begun(title: &str) -> Html {
    let mut page = Html::default();
    page.raw("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.raw("<meta name=\"robots\" content=\"noindex\"><title>")
        .escaped(title);
    page.raw("</title><link rel=\"stylesheet\" href=\"/docs/share.css\"></head><body><main>");
    page
}

fn ended(mut page: Html) -> Bytes {
    page.raw("</main></body></html>");
    page.finish().into()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn nothing_that_others_wrote_becomes_markup() {
        let nasty = "</pre></title><script>alert(1)</script>\"'";
        let body = serde_json::json!({
            "title": nasty, "content": nasty, "updated_at": nasty, "version_number": 1, "metadata": {},
        });
        let body = body.to_string();
        assert!(document(body.as_bytes()).unwrap().len() <= bytes(body.as_bytes()));
        assert!(bytes(body.as_bytes()) <= bytes_max(body.len()));
        for page in [
            document(body.as_bytes()).unwrap(),
            password(nasty, nasty),
            refused(nasty, nasty),
        ] {
            let text = String::from_utf8(page.to_vec()).unwrap();
            assert!(
                !text.contains("<script") && !text.contains("</pre></title>"),
                "{text}"
            );
        }
    }
}
