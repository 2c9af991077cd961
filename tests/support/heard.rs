//! What a writer heard when the server may die at any moment, and what a repetition must then
//! answer.

use serde_json::Value;

use super::answer::Answer;

#[derive(Clone)]
pub(crate) enum Heard {
    /// 2xx: what a replay must equal.
    Done(Kept),
    /// Nothing was done.
    Refused,
    /// The connection broke: done or not.
    Nothing,
}

/// An answer as it is kept under its key, byte for byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub(crate) status: u16,
    pub(crate) bytes: Vec<u8>,
    pub(crate) location: Option<String>,
    etag: Option<String>,
}

impl Kept {
    pub(crate) fn of(answer: &Answer) -> Self {
        let header = |name| answer.header_opt(name).map(str::to_owned);
        let mut text = String::from_utf8_lossy(&answer.bytes).into_owned();
        if let Some(url) = answer.body["url"].as_str() {
            // A secret is not shown again.
            text = text.replace(&format!("{url:?}"), "null");
        }
        Self {
            status: answer.status,
            bytes: text.into_bytes(),
            location: header("location"),
            etag: header("etag"),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }
}
