//! Writing HTML so that no text can become markup, and reading the document without ceremony.

use serde_json::Value;

/// An HTML page that is being written; what is no markup of ours is escaped.
#[derive(Default)]
pub(crate) struct Html(String);

impl Html {
    /// Adds markup of our own, as it stands.
    pub(crate) fn raw(&mut self, markup: &str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds text from elsewhere, escaped.
    pub(crate) fn escaped(&mut self, text: &str) -> &mut Self {
        for character in text.chars() {
            match character {
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '&' => self.0.push_str("&amp;"),
                '"' => self.0.push_str("&quot;"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// Text in which backticks mark code.
    pub(super) fn prose(&mut self, text: &str) -> &mut Self {
        for (index, part) in text.split('`').enumerate() {
            if index % 2 == 0 {
                self.escaped(part);
            } else {
                self.element("code", part);
            }
        }
        self
    }

    /// Adds an element with this text in it, escaped.
    pub(crate) fn element(&mut self, tag: &str, text: &str) -> &mut Self {
        self.raw("<")
            .raw(tag)
            .raw(">")
            .escaped(text)
            .raw("</")
            .raw(tag)
            .raw(">")
    }

    /// The page as it was written so far.
    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// The text at a place of a document; empty where there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The items at a place of a document.
pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}
