//! `If-Match`, `If-None-Match` and `Idempotency-Key`: headers that decide whether a request is
//! carried out.

use actix_web::http::header::{HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH};
use colloquy_model::answer::Precondition;

use super::problem::Problem;

/// One entity tag (RFC 9110, 8.8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag<'a> {
    weak: bool,
    text: &'a str,
}

/// The precondition of a change; none where none was given.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Option<Precondition>, Problem> {
    let mut strong = Vec::new();
    let mut given = false;
    for value in headers.get_all(IF_MATCH) {
        given = true;
        let wrong = || {
            Problem::invalid(
                "If-Match",
                "must be * or a list of entity tags in double quotes",
            )
        };
        let text = value.to_str().map_err(|_| wrong())?.trim();
        if text == "*" {
            return Ok(Some(Precondition::Any));
        }
        let tags = tags(text).ok_or_else(wrong)?;
        strong.extend(
            tags.into_iter()
                .filter(|tag| !tag.weak)
                .map(|tag| tag.text.to_owned()),
        );
    }
    Ok(given.then_some(Precondition::OneOf(strong)))
}

/// Whether the caller already has what bears this tag (without quotes): compared weakly.
pub(crate) fn has_already(headers: &HeaderMap, etag: &str) -> bool {
    let mut values = headers
        .get_all(IF_NONE_MATCH)
        .filter_map(|value| value.to_str().ok())
        .map(str::trim);
    values.any(|text| {
        text == "*" || tags(text).is_some_and(|tags| tags.iter().any(|tag| tag.text == etag))
    })
}

fn tags(text: &str) -> Option<Vec<Tag<'_>>> {
    let mut found = Vec::new();
    // An empty element is none (RFC 9110, 5.6.1).
    let next =
        |text: &'_ str| -> usize { text.len() - text.trim_start_matches([' ', '\t', ',']).len() };
    let mut rest = text.get(next(text)..)?;
    while !rest.is_empty() {
        let weak = rest.starts_with("W/");
        rest = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
        let (text, after) = rest.split_once('"')?;
        found.push(Tag { weak, text });
        rest = after.trim_start();
        if !rest.is_empty() && !rest.starts_with(',') {
            return None;
        }
        rest = rest.get(next(rest)..)?;
    }
    (!found.is_empty()).then_some(found)
}

/// The header under which a request is done at most once.
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The key of a request; quoted or bare it is the same.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let wrong = || {
        Problem::invalid(
            "Idempotency-Key",
            "must be 1 to 255 printable characters, quoted or bare",
        )
    };
    let mut values = headers.get_all(IDEMPOTENCY_KEY);
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Problem::invalid("Idempotency-Key", "must not be repeated"));
    }
    let text = value.to_str().map_err(|_| wrong())?;
    sound_key(text).map(Some).ok_or_else(wrong)
}

/// The key that a text is; none where it is none.
pub(super) fn sound_key(text: &str) -> Option<&str> {
    let text = text.trim();
    let key = match text.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"')?,
        None => text,
    };
    let sound = (1..=255).contains(&key.len()) && key.bytes().all(|b| (b' '..=b'~').contains(&b));
    (sound && !key.contains('"')).then_some(key)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    }

    #[test]
    fn if_match_takes_a_star_and_lists_and_never_matches_weakly() {
        let read = |text| if_match(&headers(IF_MATCH, text));
        let one_of = |tags: &[&str]| {
            Ok(Some(Precondition::OneOf(
                tags.iter().map(|&tag| tag.to_owned()).collect(),
            )))
        };
        assert_eq!(if_match(&HeaderMap::new()), Ok(None));
        assert_eq!(read("*"), Ok(Some(Precondition::Any)));
        assert_eq!(read(r#""a""#), one_of(&["a"]));
        assert_eq!(read(r#""a" ,"b,c", W/"d""#), one_of(&["a", "b,c"]));
        assert_eq!(read(r#"W/"d""#), one_of(&[]));
        assert_eq!(read(r#", "a",, "b" ,"#), one_of(&["a", "b"]));
        for wrong in ["a", r#""a"#, r#""a" "b""#, "", ",", "\"a\", *"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn if_none_match_compares_weakly() {
        let has = |text, etag| has_already(&headers(IF_NONE_MATCH, text), etag);
        assert!(has(r#"W/"a""#, "a") && has(r#""x", "a""#, "a") && has("*", "a"));
        assert!(!has(r#""b""#, "a") && !has("a", "a"));
    }

    #[test]
    fn an_idempotency_key_is_the_same_quoted_or_bare() {
        let map = headers(IDEMPOTENCY_KEY, "\"k 1\"");
        assert_eq!(idempotency_key(&map), Ok(Some("k 1")));
        assert_eq!(
            idempotency_key(&headers(IDEMPOTENCY_KEY, "k 1")),
            Ok(Some("k 1"))
        );
        assert_eq!(
            idempotency_key(&headers(IDEMPOTENCY_KEY, &"k".repeat(255)))
                .unwrap()
                .map(str::len),
            Some(255)
        );
        for wrong in ["", "\"\"", "\"k", "k\"", "a\tb", &"k".repeat(256)] {
            let problem = idempotency_key(&headers(IDEMPOTENCY_KEY, wrong)).unwrap_err();
            assert_eq!(problem.field, "Idempotency-Key", "{wrong}");
        }
    }
}
