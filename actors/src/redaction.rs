//! What stays of JSON whose words are erased: identifiers, numbers, times and words of the interface,
//! each where it is known to stand. Whatever stands elsewhere goes, what is added later too. Which
//! fields those are is said by the rooms whose JSON it is.

use serde_json::{Map, Value};

use colloquy_model::time::Timestamp;

/// What a field of erased JSON may keep.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept {
    /// Identifiers: one, or a list of them.
    Ids,
    /// A number that counts something of ours.
    Count,
    /// A JSON boolean.
    Truth,
    /// A time in RFC 3339.
    Time,
    /// One of the interface's own words, such as a role.
    Word(fn(&str) -> bool),
    /// What its own fields may keep: of one object, or of a list of them.
    Inside,
    /// Of `{"field":{"from":…,"to":…}}` the fields that may keep something, and of each what that
    /// field may.
    Changes,
}

/// What may stay of some JSON.
#[derive(Debug)]
pub(crate) struct Redaction {
    /// All fields that may keep something, wherever they stand. What a caller named (keys of metadata)
    /// must stand in none of these.
    pub(crate) kept: &'static [(&'static str, Kept)],
    /// What stands in a field that keeps nothing: the interface promises some a shape.
    pub(crate) empty: fn(&str) -> Value,
}

impl Redaction {
    /// These fields without what people wrote.
    pub(crate) fn of(&self, fields: Map<String, Value>) -> Map<String, Value> {
        let left = |(name, value): (String, Value)| {
            let kept = self.rule(&name).and_then(|kept| self.left_of(kept, value));
            let kept = kept.unwrap_or_else(|| (self.empty)(&name));
            (name, kept)
        };
        fields.into_iter().map(left).collect()
    }

    fn rule(&self, name: &str) -> Option<Kept> {
        let rule = self.kept.iter().find(|(known, _)| *known == name);
        rule.map(|(_, kept)| *kept)
    }

    /// What stays of a value; none where it is not what may stand there.
    fn left_of(&self, kept: Kept, value: Value) -> Option<Value> {
        let is_id = |value: &Value| value.as_str().is_some_and(is_id);
        match (kept, value) {
            (Kept::Inside, Value::Object(fields)) => Some(Value::Object(self.of(fields))),
            (Kept::Inside, Value::Array(items)) => {
                let left = items
                    .into_iter()
                    .map(|item| self.left_of(Kept::Inside, item).unwrap_or_default());
                Some(Value::Array(left.collect()))
            }
            (Kept::Ids, Value::Array(items)) => {
                Some(Value::Array(items.into_iter().filter(is_id).collect()))
            }
            (Kept::Ids | Kept::Inside, value) => Some(value).filter(is_id),
            (Kept::Count, value) => Some(value).filter(Value::is_u64),
            (Kept::Truth, value) => Some(value).filter(Value::is_boolean),
            (Kept::Time, value) => Some(value).filter(|value| {
                value
                    .as_str()
                    .is_some_and(|text| text.parse::<Timestamp>().is_ok())
            }),
            (Kept::Word(known), value) => {
                Some(value).filter(|value| value.as_str().is_some_and(known))
            }
            (Kept::Changes, Value::Object(fields)) => {
                let left = fields.into_iter().filter_map(|(name, change)| {
                    let kept = self.rule(&name)?;
                    Some((name, self.ends_of(kept, change)))
                });
                Some(Value::Object(left.collect()))
            }
            (Kept::Changes, _) => None,
        }
    }

    /// What stays of `{"from":…,"to":…}` of a field.
    fn ends_of(&self, kept: Kept, change: Value) -> Value {
        let Value::Object(ends) = change else {
            return Value::Null;
        };
        let left = ends
            .into_iter()
            .filter(|(end, _)| matches!(end.as_str(), "from" | "to"))
            .map(|(end, value)| (end, self.left_of(kept, value).unwrap_or_default()));
        Value::Object(left.collect())
    }
}

/// A prefix of small letters and 32 hex digits.
fn is_id(text: &str) -> bool {
    let digits = |text: &str| {
        text.len() == 32
            && text
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let is_prefix = |prefix: &str| {
        (3..=4).contains(&prefix.len()) && prefix.bytes().all(|b| b.is_ascii_lowercase())
    };
    text.split_once('_')
        .is_some_and(|(prefix, rest)| is_prefix(prefix) && digits(rest))
}

/// Whether a word is one of those that this can be.
pub(crate) fn is_one<T: serde::de::DeserializeOwned>(word: &str) -> bool {
    serde_json::from_value::<T>(Value::String(word.to_owned())).is_ok()
}
