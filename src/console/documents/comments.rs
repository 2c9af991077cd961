//! What is said about a document, at the lines that it is said of.

use std::collections::BTreeMap;

use maud::{Markup, html};
use serde_json::{Value, json};

use super::text::start_of;
use super::{Docs, Document};
use crate::console::forms::{Form, Shown, object};
use crate::console::layout::csrf;
use crate::console::no_such_page;
use crate::console::parts::{Field, badge, grouped, is, number, problem, target, text, time};
use crate::console::reply::Reply;
use crate::http::{Problem, Request, Verb};

/// Lines on one page.
const LINES: u64 = 500;
/// Comments that are shown at most, the newest.
const COMMENTS_MAX: usize = 500;
const FIELDS: &[&str] = &["start_line", "end_line", "body"];
const FROM: Field<'_> = Field {
    name: "start_line",
    label: "From line",
    hint: "",
};
const TO: Field<'_> = Field {
    name: "end_line",
    label: "to line",
    hint: "",
};
const BODY: Field<'_> = Field {
    name: "body",
    label: "Comment",
    hint: "",
};

/// What is asked for among the comments.
struct Wanted {
    first: u64,
    /// The line that a new comment is for.
    line: Option<u64>,
    with_resolved: bool,
}

impl Docs<'_> {
    pub(super) async fn comments(
        &self,
        document: &Document,
        rest: &[&str],
        form: Option<Form>,
    ) -> Result<Reply, Problem> {
        match (rest, form) {
            ([], None) => self.comments_page(document, &Shown::default()).await,
            ([], Some(form)) => self.comment(document, &form).await,
            ([comment], Some(form)) => self.change_comment(document, comment, &form).await,
            ([comment, "delete"], Some(_)) => {
                let path = format!("{}/comments/{comment}", document.at);
                self.remove(&path).await?;
                Ok(self.done(
                    &format!("{}/comments", document.here),
                    "The comment is deleted.",
                ))
            }
            _ => Err(no_such_page()),
        }
    }

    async fn comments_page(&self, document: &Document, shown: &Shown) -> Result<Reply, Problem> {
        let whole = document.text("content");
        let lines: Vec<&str> = start_of(whole).lines().collect();
        let count = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let asked = |name: &str| self.visit.query(name).parse::<u64>().ok();
        let line = asked("line").or_else(|| shown.form.text("start_line").parse().ok());
        let from = asked("from").or(line).unwrap_or(1).max(1);
        let wanted = Wanted {
            first: (from - 1) / LINES * LINES + 1,
            line: line.filter(|line| *line <= count && document.allows("commenter")),
            with_resolved: self.visit.query("resolved") == "true",
        };
        let all = self.all_comments(document, wanted.with_resolved).await?;
        let here = |comment: &&Value| {
            text(comment, "version") == document.head()
                && !is(comment, "outdated")
                && number(comment, "end_line") <= count
        };
        let mut at_lines: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
        let (current, older): (Vec<&Value>, Vec<&Value>) = all.iter().partition(here);
        for comment in &current {
            at_lines
                .entry(number(comment, "end_line"))
                .or_default()
                .push(comment);
        }
        let last = (wanted.first + LINES - 1).min(count);
        let content = html! {
            (toggles(document, &wanted, all.len()))
            (problem(shown, FIELDS))
            @if wanted.line.is_none() && document.allows("commenter") {
                details.card open[shown.problem.is_some()] {
                    summary { "Comment on lines" }
                    (self.new_comment(document, shown))
                }
            }
            @if whole.len() > start_of(whole).len() { p.notice.warn { "It is long: you see the lines of its beginning only." } }
            @if lines.is_empty() { p.faint { "The document is empty." } }
            ol.lines {
                @for (number, line) in (1..).zip(&lines).skip(usize::try_from(wanted.first - 1).unwrap_or(usize::MAX)).take(500) {
                    li id={ "L" (number) } {
                        @if document.allows("commenter") {
                            a.number href={ (target(&format!("{}/comments", document.here), &[("line", &number.to_string())])) "#L" (number) } aria-label={ "Comment on line " (number) } { (number) }
                        } @else { span.number { (number) } }
                        code.line dir="auto" { (line) }
                        @for comment in at_lines.get(&number).into_iter().flatten() { (self.one(document, comment)) }
                        @if wanted.line == Some(number) { div.note.card { (self.new_comment(document, &at(shown, number))) } }
                    }
                }
            }
            (line_pages(document, wanted.first, last, count))
            @if !older.is_empty() {
                section {
                    h2 { "About lines that have changed, or are not shown here" }
                    @for comment in &older { (self.one(document, comment)) }
                }
            }
        };
        Ok(self.tab(document, "/comments", content))
    }

    async fn all_comments(
        &self,
        document: &Document,
        with_resolved: bool,
    ) -> Result<Vec<Value>, Problem> {
        let mut all: Vec<Value> = Vec::new();
        while all.len() < COMMENTS_MAX {
            let resolved = if with_resolved { "" } else { "false" };
            let parameters = [
                ("limit", "100"),
                ("offset", &all.len().to_string()),
                ("resolved", resolved),
            ];
            let path = target(&format!("{}/comments", document.at), &parameters);
            let found = self.session.get(&path).await?;
            all.extend_from_slice(found.items());
            if !found.has_after {
                break;
            }
        }
        Ok(all)
    }

    fn new_comment(&self, document: &Document, shown: &Shown) -> Markup {
        html! {
            form.commenting method="post" action={ (document.here) "/comments" } {
                (csrf(self.session))
                input type="hidden" name="version" value=(document.head());
                div.row {
                    (FROM.line(shown, "number", true))
                    (TO.line(shown, "number", false))
                }
                (BODY.around(shown, html! {
                    textarea #field-body name="body" rows="3" dir="auto" required autofocus[shown.form.filled("start_line").is_some()] { "\n" (shown.form.text("body")) }
                }))
                div.actions {
                    button.button.primary { "Comment" }
                    @if shown.form.filled("start_line").is_some() { a.button href={ (document.here) "/comments" } { "Cancel" } }
                }
            }
        }
    }

    /// A comment, and what the person may do with it.
    fn one(&self, document: &Document, comment: &Value) -> Markup {
        let (start, end) = (number(comment, "start_line"), number(comment, "end_line"));
        let (resolved, outdated) = (is(comment, "resolved"), is(comment, "outdated"));
        let action = format!("{}/comments/{}", document.here, text(comment, "comment_id"));
        let user = self
            .session
            .principal
            .as_ref()
            .and_then(|it| it.key.view.user_id);
        let is_own = user.is_some_and(|user| user.to_string() == text(comment, "author"));
        let may_change = document.allows("owner") || (is_own && document.allows("commenter"));
        html! {
            article.note.card.quiet[resolved] id=(text(comment, "comment_id")) {
                p.faint {
                    strong dir="auto" { (self.name(text(comment, "author"))) } ", " (time(comment, "created_at")) ", "
                    @if start == end { "line " (grouped(start)) } @else { "lines " (grouped(start)) " to " (grouped(end)) }
                    @if text(comment, "version") != document.head() || outdated {
                        " of " a href={ (document.here) "?version=" (text(comment, "version")) } { "an older version" }
                    }
                    @if outdated { " " (badge("outdated", "warn")) }
                    @if resolved { " " (badge("resolved", "good")) }
                }
                p.said dir="auto" { (text(comment, "body")) }
                div.actions {
                    @if document.allows("commenter") {
                        form.inline method="post" action=(action) {
                            (csrf(self.session))
                            input type="hidden" name="resolved" value=(!resolved);
                            button.button.small { @if resolved { "Open again" } @else { "Resolve" } }
                        }
                    }
                    @if may_change {
                        details.inline {
                            summary.button.small { "Edit" }
                            form method="post" action=(action) {
                                (csrf(self.session))
                                textarea name="body" rows="3" dir="auto" required aria-label="Comment" { "\n" (text(comment, "body")) }
                                button.button.small.primary { "Save" }
                            }
                        }
                        form.inline method="post" action={ (action) "/delete" } {
                            (csrf(self.session))
                            button.button.small.danger data-confirm="The comment is deleted for everybody." { "Delete" }
                        }
                    }
                }
            }
        }
    }

    async fn comment(&self, document: &Document, form: &Form) -> Result<Reply, Problem> {
        match self.commented(document, form).await {
            Ok(()) => {
                let to = format!("{}/comments", document.here);
                let line = form.filled("start_line").unwrap_or_default();
                let to = format!("{}#L{line}", target(&to, &[("from", line)]));
                Ok(self.done(&to, "Your comment is there."))
            }
            Err(problem) if problem.is_refusal() => {
                let shown = Shown::again(form, problem);
                Ok(self.comments_page(document, &shown).await?.refused())
            }
            Err(problem) => Err(problem),
        }
    }

    async fn commented(&self, document: &Document, form: &Form) -> Result<(), Problem> {
        let whole = |name: &str| {
            let typed = form.filled(name);
            typed.map(|typed| {
                typed
                    .parse::<u64>()
                    .map_or_else(|_| json!(typed), Value::from)
            })
        };
        let body = object([
            ("version", form.filled("version").map(Value::from)),
            ("start_line", whole("start_line")),
            ("end_line", whole("end_line")),
            ("body", Some(json!(form.words("body")?))),
        ]);
        let path = format!("{}/comments", document.at);
        self.post(&path, &body).await.map(drop)
    }

    async fn change_comment(
        &self,
        document: &Document,
        comment: &str,
        form: &Form,
    ) -> Result<Reply, Problem> {
        // To settle one sends no words.
        let words = match form.all("body").is_empty() {
            true => None,
            false => Some(json!(form.words("body")?)),
        };
        let body = object([
            ("body", words),
            (
                "resolved",
                form.filled("resolved").map(|word| json!(word == "true")),
            ),
        ]);
        let path = format!("{}/comments/{comment}", document.at);
        self.session
            .ask(Request::new(Verb::Patch, &path, &body))
            .await?;
        Ok(self.done(
            &format!("{}/comments", document.here),
            "The comment is changed.",
        ))
    }
}

/// The form for a comment on this line, with what was filled in already.
fn at(shown: &Shown, line: u64) -> Shown {
    let mut shown = shown.clone();
    if shown.form.filled("start_line").is_none() {
        shown.form.set("start_line", &line.to_string());
        shown.form.set("end_line", &line.to_string());
    }
    shown
}

fn toggles(document: &Document, wanted: &Wanted, count: usize) -> Markup {
    let path = format!("{}/comments", document.here);
    let count = grouped(u64::try_from(count).unwrap_or(u64::MAX));
    html! {
        nav.branches aria-label="Which comments" {
            a.button.small href=(path) aria-current=[(!wanted.with_resolved).then_some("true")] { "Open" }
            a.button.small href={ (path) "?resolved=true" } aria-current=[wanted.with_resolved.then_some("true")] { "With resolved ones" }
            span.faint { (count) @if count == "1" { " comment" } @else { " comments" } }
        }
    }
}

fn line_pages(document: &Document, first: u64, last: u64, count: u64) -> Markup {
    let path = format!("{}/comments", document.here);
    let from = |line: u64| target(&path, &[("from", &line.to_string())]);
    html! {
        @if count > LINES {
            nav.pages aria-label="Lines" {
                span.faint { "Lines " (grouped(first)) "–" (grouped(last)) " of " (grouped(count)) }
                @if first > LINES { a.button rel="prev" href=(from(first - LINES)) { "Previous" } }
                @if last < count { a.button rel="next" href=(from(last + 1)) { "Next" } }
            }
        }
    }
}
