//! What a caller would rather read: errors come as `application/problem+json` only to those who
//! prefer it, events as a stream only to those who name it.

use actix_web::http::header::{ACCEPT, HeaderMap};

const PROBLEM: &str = "application/problem+json";
const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
const PAGE: &str = "text/html";
const TABLE: &str = "text/csv";
/// How exactly a range names a media type that it spells out.
const BY_NAME: u8 = 2;

/// Whether `Accept` prefers problem details (RFC 9457) to plain JSON.
pub(super) fn prefers_problem(headers: &HeaderMap) -> bool {
    let Some(accept) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    // The usual case costs one search.
    if !accept
        .as_bytes()
        .windows(7)
        .any(|word| word.eq_ignore_ascii_case(b"problem"))
    {
        return false;
    }
    match (liking(accept, PROBLEM), liking(accept, JSON)) {
        (Some(problem), Some(json)) => problem > json,
        (Some(problem), None) => problem.quality > 0,
        (None, Some(_) | None) => false,
    }
}

/// Whether `Accept` names `text/event-stream` and likes it better than JSON.
pub(super) fn prefers_stream(headers: &HeaderMap) -> bool {
    names_and_prefers(headers, EVENT_STREAM)
}

fn names_and_prefers(headers: &HeaderMap, wanted: &str) -> bool {
    let lines: Vec<&str> = headers
        .get_all(ACCEPT)
        .filter_map(|value| value.to_str().ok())
        .collect();
    let accept = lines.join(",");
    let Some(liked) = liking(&accept, wanted) else {
        return false;
    };
    liked.exactness == BY_NAME
        && liked.quality > 0
        && liking(&accept, JSON).is_none_or(|json| liked > json)
}

/// Whether `Accept` names `text/csv` and likes it better than JSON.
pub(super) fn prefers_csv(headers: &HeaderMap) -> bool {
    names_and_prefers(headers, TABLE)
}

/// Whether `Accept` likes JSON better than a page: browsers don't, and who says nothing has come by
/// the link.
pub(super) fn prefers_json(headers: &HeaderMap) -> bool {
    let lines: Vec<&str> = headers
        .get_all(ACCEPT)
        .filter_map(|value| value.to_str().ok())
        .collect();
    let accept = lines.join(",");
    let liked = |wanted| liking(&accept, wanted).filter(|liking| liking.quality > 0);
    [JSON, PROBLEM].into_iter().filter_map(liked).max() > liked(PAGE)
}

/// Whether `Accept` names pages, as browsers do.
pub(super) fn names_a_page(headers: &HeaderMap) -> bool {
    let mut lines = headers
        .get_all(ACCEPT)
        .filter_map(|value| value.to_str().ok());
    lines.any(|accept| liking(accept, PAGE).is_some_and(|liking| liking.exactness == BY_NAME))
}

/// How much a media type is liked: by quality, then by how exactly it is named, then by who comes
/// first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Liking {
    quality: u16,
    exactness: u8,
    earliness: std::cmp::Reverse<usize>,
}

fn liking(accept: &str, wanted: &str) -> Option<Liking> {
    let mut best: Option<Liking> = None;
    for (place, range) in accept.split(',').enumerate() {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let exactness = match media {
            "*/*" => 0,
            some if of_its_kind(some, wanted) => 1,
            other if other.eq_ignore_ascii_case(wanted) => BY_NAME,
            _ => continue,
        };
        let quality =
            parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let quality = quality.map_or(1_000, thousandths);
        // The most exact range decides (RFC 9110, 12.5.1).
        if best.as_ref().is_none_or(|best| exactness > best.exactness) {
            best = Some(Liking {
                quality,
                exactness,
                earliness: std::cmp::Reverse(place),
            });
        }
    }
    best
}

/// Whether it is such as `application/*` for `application/json`.
fn of_its_kind(range: &str, wanted: &str) -> bool {
    let main = |text: &'_ str| text.split_once('/').map_or(0, |(main, _)| main.len());
    let size = main(wanted);
    range.get(size..) == Some("/*")
        && range
            .get(..size)
            .is_some_and(|main| wanted.starts_with(&main.to_lowercase()))
}

fn thousandths(text: &str) -> u16 {
    let value = text.parse::<f32>().unwrap_or(0.0).clamp(0.0, 1.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 1000"
    )]
    let whole = (value * 1_000.0) as u16;
    whole
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use actix_web::http::header::HeaderValue;

    use super::*;

    #[test]
    fn a_stream_comes_only_to_those_who_name_it() {
        for (accept, expected) in [
            ("text/event-stream", true),
            ("Text/Event-Stream;q=0.5", true),
            ("text/event-stream, */*", true),
            ("text/event-stream, application/json;q=0.9", true),
            ("application/json, text/event-stream", false),
            ("text/event-stream;q=0", false),
            ("text/*", false),
            ("*/*", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
            assert_eq!(prefers_stream(&headers), expected, "{accept}");
        }
        assert!(!prefers_stream(&HeaderMap::new()));
    }

    #[test]
    fn problem_details_come_only_where_they_are_preferred() {
        for (accept, expected) in [
            ("application/problem+json", true),
            ("APPLICATION/PROBLEM+JSON, Application/*", true),
            ("application/problem+json, application/json;q=0.9", true),
            ("application/json, application/problem+json;q=0.9", false),
            ("application/json, application/problem+json", false),
            ("application/problem+json, application/json", true),
            ("application/problem+json, */*", true),
            ("application/problem+json;q=0.5, */*", false),
            ("application/problem+json;q=0", false),
            ("application/json", false),
            ("*/*", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
            assert_eq!(prefers_problem(&headers), expected, "{accept}");
        }
        assert!(!prefers_problem(&HeaderMap::new()));
    }
}
