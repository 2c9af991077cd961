//! JSON bodies: what is wrong with one is told as a field and a reason, never by echoing what came.

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use super::problem::Problem;
use super::strict_json::Strict;

const NETWORK: &str = "a network in CIDR notation, such as 203.0.113.0/24";

/// Reads a whole body of JSON into its type; what is wrong is told by its field.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(Strict(&mut reader)).map_err(|error| {
        let syntax = !matches!(error.inner().classify(), serde_json::error::Category::Data);
        let (field, reason) = (dotted(error.path()), error.inner().to_string());
        let reason = reason
            .rsplit_once(" at line ")
            .map_or(reason.as_str(), |(reason, _)| reason);
        if syntax {
            Problem::invalid(field, broken(reason))
        } else {
            explained(field, reason)
        }
    })?;
    reader
        .end()
        .map_err(|_| Problem::invalid("", "must be one JSON value and nothing after it"))?;
    Ok(value)
}

/// Turns serde's words about one field into ours.
pub(super) fn explained(parent: String, words: &str) -> Problem {
    if let Some(name) = quoted_after(words, "unknown field `") {
        return Problem::invalid(under(&parent, name), "is not a known name");
    }
    if let Some(name) = quoted_after(words, "missing field `") {
        return Problem::invalid(under(&parent, name), "is required");
    }
    if let Some(name) = quoted_after(words, "duplicate field `") {
        return Problem::invalid(under(&parent, name), "must not be repeated");
    }
    if let Some(name) = quoted_after(words, "must not repeat the name `") {
        return Problem::invalid(under(&parent, name), "must not be repeated");
    }
    if let Some((_, known)) = words
        .strip_prefix("unknown variant `")
        .and_then(|rest| rest.rsplit_once(", expected "))
    {
        return Problem::invalid(parent, format!("must be {}", known.replace('`', "\"")));
    }
    if words.starts_with("invalid ")
        && let Some((_, expected)) = words.rsplit_once(", expected ")
    {
        return Problem::invalid(
            parent,
            format!("must be {}", expected_words(expected).replace('`', "\"")),
        );
    }
    if words == "invalid IP address syntax" {
        return Problem::invalid(parent, format!("must be {NETWORK}"));
    }
    Problem::invalid(parent, words.to_owned())
}

fn expected_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "an integer, 0 or more, within its bounds",
        "i8" | "i16" | "i32" | "i64" | "isize" => "an integer within its bounds",
        "f32" | "f64" => "a number",
        "unit" => "null",
        "map" => "an object",
        "a sequence" => "an array",
        "string or map" => "a string",
        "IPv4 or IPv6 network address" => NETWORK,
        other if other.starts_with("struct ") || other.starts_with("a map") => "an object",
        other => other,
    }
}

fn broken(words: &str) -> String {
    if words.contains("recursion limit") {
        return "must not nest more than 64 levels".to_owned();
    }
    if words.starts_with("number out of range") {
        return "must not hold a number beyond 64 bits".to_owned();
    }
    format!("must be JSON: {words}")
}

fn quoted_after<'a>(words: &'a str, start: &str) -> Option<&'a str> {
    let rest = words.strip_prefix(start)?;
    let end = rest
        .rfind("`, expected")
        .or_else(|| rest.rfind("`, there are no fields"))
        .or_else(|| rest.rfind('`'))?;
    rest.get(..end)
}

fn under(parent: &str, name: &str) -> String {
    if parent.is_empty() || parent == name || parent.ends_with(&format!(".{name}")) {
        if parent.is_empty() {
            name.to_owned()
        } else {
            parent.to_owned()
        }
    } else {
        format!("{parent}.{name}")
    }
}

/// Where an error lies, such as `metadata.a` or `allowed_ips[0]`; empty for the whole.
pub(super) fn dotted(path: &Path) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => text.push_str(&format!("[{index}]")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Segment::Unknown => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use colloquy_actors::accounts::{CreateAccount, CreateCustomer, CreateKey};
    use colloquy_actors::conversation::messages::{ChangeConversation, SendMessage};

    use super::*;

    fn error<T: DeserializeOwned>(body: &str) -> (String, String) {
        let problem = parse::<T>(body.as_bytes()).err().unwrap();
        (problem.field.into_owned(), problem.reason.into_owned())
    }

    #[test]
    fn the_field_at_fault_is_named() {
        for (body, field, reason) in [
            (r#"{"content":"a","x":1}"#, "x", "is not a known name"),
            (
                r#"{"content":"a","content":"b"}"#,
                "content",
                "must not be repeated",
            ),
            (r#"{"content":5}"#, "content", "must be a string"),
            (r#"{"content":null}"#, "content", "must be a string"),
            (
                r#"{"content":"a","type":"video"}"#,
                "type",
                "must be one of \"text\", \"image\", \"file\"",
            ),
            (
                r#"{"content":"a","metadata":{"a":1,"a":2}}"#,
                "metadata.a",
                "must not be repeated",
            ),
            (
                r#"{"content":"a","metadata":{"b":{"a":"\u0000"}}}"#,
                "metadata.b.a",
                "must not contain U+0000",
            ),
            (
                r#"{"content":"a","metadata":[]}"#,
                "metadata",
                "must be an object",
            ),
            (
                r#"{"content":"a","sender_id":"usr_1"}"#,
                "sender_id",
                "must be a valid user ID or customer ID",
            ),
            (r#"[]"#, "", "must be an object"),
            (r#"["a"]"#, "", "must be an object"),
            (r#"7"#, "", "must be an object"),
            (
                r#"{"content":"a"} x"#,
                "",
                "must be one JSON value and nothing after it",
            ),
        ] {
            assert_eq!(
                error::<SendMessage>(body),
                (field.to_owned(), reason.to_owned()),
                "{body}"
            );
        }
    }

    #[test]
    fn other_shapes_are_told_as_well() {
        assert_eq!(error::<CreateCustomer>(r#"{"name":""}"#).0, "name");
        let required = ("name".to_owned(), "is required".to_owned());
        assert_eq!(error::<CreateAccount>("{}"), required);
        let network = |body| {
            let (field, reason) = error::<CreateAccount>(body);
            assert_eq!(
                reason, "must be a network in CIDR notation, such as 203.0.113.0/24",
                "{body}"
            );
            field
        };
        assert_eq!(
            network(r#"{"name":"a","allowed_ips":["1.2.3.4/8","x"]}"#),
            "allowed_ips[1]"
        );
        assert_eq!(
            network(r#"{"name":"a","allowed_ips":[5]}"#),
            "allowed_ips[0]"
        );
        assert_eq!(
            error::<CreateAccount>(r#"{"name":"a","rate_per_minute":-1}"#).0,
            "rate_per_minute"
        );
        assert_eq!(
            error::<CreateKey>(r#"{"type":"prod","scopes":["all"]}"#).0,
            "scopes[0]"
        );
        assert_eq!(
            error::<ChangeConversation>(r#"{"status":"gone"}"#).0,
            "status"
        );
        let id = error::<colloquy_actors::conversation::messages::CreateConversation>(
            r#"{"customer_id":"nope"}"#,
        );
        assert_eq!(
            id,
            (
                "customer_id".to_owned(),
                "must be a valid customer ID".to_owned()
            )
        );
    }

    #[test]
    fn where_a_word_should_stand_the_known_ones_are_told() {
        let known = "must be one of \"text\", \"image\", \"file\"".to_owned();
        for wrong in [
            "null",
            "true",
            "7",
            "1.5",
            "[]",
            "[\"text\"]",
            "{}",
            r#"{"text":1}"#,
            r#"{"video":null}"#,
        ] {
            let body = format!(r#"{{"content":"a","type":{wrong}}}"#);
            assert_eq!(
                error::<SendMessage>(&body),
                ("type".to_owned(), known.clone()),
                "{body}"
            );
        }
        let (field, reason) =
            error::<CreateKey>(r#"{"type":"prod","scopes":["conversations:read",null]}"#);
        assert!(
            field == "scopes[1]" && reason.starts_with("must be one of "),
            "{field}: {reason}"
        );
        assert!(
            error::<SendMessage>(r#"{"content":"a","type":nul}"#)
                .1
                .starts_with("must be JSON")
        );
    }

    #[test]
    fn what_is_no_json_is_refused_without_an_echo() {
        for body in [
            "",
            "{",
            "{\"content\":",
            "nonsense",
            "{\"content\":\"\u{1}\"}",
            "{\"content\":1e999}",
        ] {
            assert!(parse::<SendMessage>(body.as_bytes()).is_err(), "{body}");
        }
        assert!(parse::<SendMessage>(b"{\"content\":\"\xff\"}").is_err());
        let deep = format!(
            "{{\"content\":\"a\",\"metadata\":{{\"a\":{}}}}}",
            "[".repeat(10_000)
        );
        assert!(error::<SendMessage>(&deep).1.contains("64 levels"));
        let long = format!("{{\"{}\":1}}", "x".repeat(10_000));
        assert!(error::<SendMessage>(&long).0.len() <= 100);
    }
}
