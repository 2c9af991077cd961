//! What several pages are made of: fields, tables, times, pages of lists.

use colloquy_model::time::Timestamp;
use maud::{Markup, html};
use serde_json::Value;

use super::Visit;
use super::forms::{Shown, is_within};
use super::layout::csrf;
use super::session::Session;
use crate::http::{Found, Problem};

/// Items on one page of a list.
pub(super) const PER_PAGE: u64 = 25;

/// A string of an answer; empty where there is none.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A whole number of an answer; 0 where there is none.
pub(super) fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// Whether a truth of an answer is true.
pub(super) fn is(value: &Value, name: &str) -> bool {
    value.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// The head of a page: what it is, and what can be done there.
pub(super) fn heading(title: &str, about: &str, actions: Markup) -> Markup {
    html! {
        div.heading {
            div {
                h1 { (title) }
                @if !about.is_empty() { p.faint { (about) } }
            }
            div.actions { (actions) }
        }
    }
}

/// A time of an answer, as the browser's person reads it; `—` where there is none.
pub(super) fn time(value: &Value, name: &str) -> Markup {
    let at = text(value, name);
    html! {
        @if at.is_empty() { span.faint { "—" } }
        @else { time datetime=(at) data-time { (to_the_minute(at)) } }
    }
}

fn to_the_minute(at: &str) -> String {
    at.get(..16).map_or_else(
        || at.to_owned(),
        |minute| format!("{} UTC", minute.replace('T', " ")),
    )
}

/// Now, as answers write it.
pub(super) fn now() -> String {
    Timestamp::now().to_string()
}

/// A word about the state of something, with a colour that says nothing more than the word.
pub(super) fn badge(word: &str, tone: &str) -> Markup {
    html! { span class={ "badge " (tone) } { (word) } }
}

/// What stands in the place of a list that is empty.
pub(super) fn empty(heading: &str, words: &str, action: Markup) -> Markup {
    html! { div.empty { h2 { (heading) } p { (words) } (action) } }
}

/// What was refused of a form and belongs to none of its fields.
pub(super) fn problem(shown: &Shown, fields: &[&str]) -> Markup {
    let problem = shown.problem.as_ref();
    let problem = problem.filter(|problem| {
        let of = |field: &&str| is_within(&problem.field, field);
        !fields.iter().any(of)
    });
    html! {
        @if let Some(problem) = problem { (refusal(problem)) }
    }
}

/// What somebody has written and could not be taken, to be copied.
pub(super) fn kept(written: &[String]) -> Markup {
    html! {
        @for (number, text) in written.iter().enumerate() {
            div.field {
                label for={ "kept-" (number) } { "What you have written; copy it before you go on" }
                textarea id={ "kept-" (number) } rows="6" readonly dir="auto" { "\n" (text) }
            }
        }
    }
}

/// Why something was refused.
pub(super) fn refusal(problem: &Problem) -> Markup {
    html! {
        div.notice.wrong role="alert" {
            strong { (problem.kind.message()) ". " }
            @if !problem.field.is_empty() { code { (problem.field) } " " }
            (problem.reason)
        }
    }
}

/// A field of a form: its label, what it is for, what is wrong with it.
pub(super) struct Field<'f> {
    pub(super) name: &'f str,
    pub(super) label: &'f str,
    pub(super) hint: &'f str,
}

impl Field<'_> {
    /// The label above a control and what belongs below it.
    pub(super) fn around(&self, shown: &Shown, control: Markup) -> Markup {
        let wrong = shown.wrong(self.name);
        html! {
            div.field.is-wrong[wrong.is_some()] {
                label for={ "field-" (self.name) } { (self.label) }
                (control)
                @if let Some(wrong) = wrong {
                    p.wrong id={ "wrong-" (self.name) } { "It " (wrong) "." }
                }
                @if !self.hint.is_empty() { p.hint id={ "hint-" (self.name) } { (self.hint) } }
            }
        }
    }

    fn described(&self, shown: &Shown) -> Option<String> {
        let wrong = shown
            .wrong(self.name)
            .map(|_| format!("wrong-{}", self.name));
        let hint = (!self.hint.is_empty()).then(|| format!("hint-{}", self.name));
        let both: Vec<String> = wrong.into_iter().chain(hint).collect();
        (!both.is_empty()).then(|| both.join(" "))
    }

    /// A line of text.
    pub(super) fn line(&self, shown: &Shown, kind: &str, is_required: bool) -> Markup {
        let is_secret = kind == "password";
        let value = if is_secret {
            ""
        } else {
            shown.form.text(self.name)
        };
        self.around(
            shown,
            html! {
                input id={ "field-" (self.name) } name=(self.name) type=(kind) value=(value)
                    required[is_required] aria-invalid=[shown.wrong(self.name).map(|_| "true")]
                    aria-describedby=[self.described(shown)];
            },
        )
    }

    /// Several lines of text.
    pub(super) fn lines(&self, shown: &Shown, rows: u32) -> Markup {
        self.around(
            shown,
            html! {
                textarea id={ "field-" (self.name) } name=(self.name) rows=(rows)
                    aria-invalid=[shown.wrong(self.name).map(|_| "true")]
                    aria-describedby=[self.described(shown)] { "\n" (shown.form.text(self.name)) }
            },
        )
    }

    /// One of several values, each with the words for it; the first where nothing is chosen.
    pub(super) fn choice(&self, shown: &Shown, values: &[(&str, &str)]) -> Markup {
        let chosen = shown.form.text(self.name);
        self.around(shown, html! {
            select id={ "field-" (self.name) } name=(self.name) aria-describedby=[self.described(shown)] {
                @for (value, words) in values {
                    option value=(value) selected[*value == chosen] { (words) }
                }
            }
        })
    }
}

/// A button that does one thing by itself; asks first where words are given.
pub(super) fn button(
    session: &Session,
    action: &str,
    label: &str,
    class: &str,
    ask: &str,
) -> Markup {
    html! {
        form.inline method="post" action=(action) {
            (csrf(session))
            button class={ "button " (class) } data-confirm=[(!ask.is_empty()).then_some(ask)] { (label) }
        }
    }
}

/// A text to copy, shown whole.
pub(super) fn copied(label: &str, secret: &str) -> Markup {
    html! {
        div.copied {
            label for="secret" { (label) }
            div {
                input #secret readonly value=(secret) spellcheck="false" autocomplete="off";
                button.button.primary type="button" data-copy="#secret" { "Copy" }
            }
        }
    }
}

/// The page of a list that the address asks for, as the interface's `offset`.
pub(super) fn offset(visit: &Visit) -> u64 {
    let page: u64 = visit.query("page").parse().unwrap_or(1);
    page.clamp(1, 1 << 32).saturating_sub(1) * PER_PAGE
}

/// A path of the interface that lists, for the page that the address asks for.
pub(super) fn listing(visit: &Visit, path: &str, filters: &[(&str, &str)]) -> String {
    let (limit, offset) = (PER_PAGE.to_string(), offset(visit).to_string());
    let mut parameters = filters.to_vec();
    parameters.extend([("limit", limit.as_str()), ("offset", &offset)]);
    target(path, &parameters)
}

/// The ways to the neighbouring pages of a list.
pub(super) fn pages(visit: &Visit, found: &Found) -> Markup {
    let (offset, total) = (offset(visit), found.total());
    let shown = u64::try_from(found.items().len()).unwrap_or(u64::MAX);
    let page = offset / PER_PAGE + 1;
    html! {
        @if total > PER_PAGE || page > 1 {
            nav.pages aria-label="Pages of the list" {
                span.faint { (grouped((offset + 1).min(total))) "–" (grouped(offset + shown)) " of " (grouped(total)) }
                @if page > 1 { a.button rel="prev" href=(at_page(visit, page - 1)) { "Previous" } }
                @if offset + shown < total { a.button rel="next" href=(at_page(visit, page + 1)) { "Next" } }
            }
        }
    }
}

/// This address with another page of its list.
fn at_page(visit: &Visit, page: u64) -> String {
    let query = visit.request.query_string().as_bytes();
    let others = url::form_urlencoded::parse(query).filter(|(name, _)| name != "page");
    let mut pairs = url::form_urlencoded::Serializer::new(String::new());
    pairs
        .extend_pairs(others)
        .append_pair("page", &page.to_string());
    format!("{}?{}", visit.path(), pairs.finish())
}

/// A path of the interface with a query of these parameters, those without a value left out.
pub(super) fn target(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut pairs = url::form_urlencoded::Serializer::new(String::new());
    pairs.extend_pairs(parameters.iter().filter(|(_, value)| !value.is_empty()));
    format!("{path}?{}", pairs.finish())
}

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}
