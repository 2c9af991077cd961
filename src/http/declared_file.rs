//! What its sender says of a file, in the headers of a request or of a form's part: its name and its
//! media type, checked before a byte of it is written. Knows nothing of what the file is.

use actix_web::http::header::{
    CONTENT_DISPOSITION, CONTENT_TYPE, Charset, ContentDisposition, DispositionType, ExtendedValue,
    HeaderMap, HeaderValue,
};
use colloquy_actors::attachments::DeclaredFile;
use colloquy_model::attachment::is_disguising;
use multer::Field;

use super::problem::Problem;

/// Characters of a file's name.
const NAME_MAX: usize = 500;
/// Bytes of a media type.
const MEDIA_TYPE_MAX: usize = 255;
/// White space that may stand around the signs between parameters (RFC 9110, 5.6.3).
const OWS: [char; 2] = [' ', '\t'];

/// The names under which a refusal tells what says it.
struct Sayers {
    name: &'static str,
    media_type: &'static str,
}

/// The headers of a request whose body is the file.
const REQUEST: Sayers = Sayers {
    name: "Content-Disposition",
    media_type: "Content-Type",
};
/// Those of the part of a form, which is known by its name.
const PART: Sayers = Sayers {
    name: "file",
    media_type: "file",
};

/// What the headers of a request say of its body.
///
/// # Errors
/// It is no name, or no media type.
pub(super) fn of_request(headers: &HeaderMap) -> Result<DeclaredFile, Problem> {
    let mut dispositions = headers.get_all(CONTENT_DISPOSITION);
    let name = dispositions.next().map(|value| said_name(value, &REQUEST));
    if dispositions.next().is_some() {
        return Err(Problem::invalid(REQUEST.name, "must stand there once"));
    }
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    REQUEST.checked(name.transpose()?.flatten(), media_type)
}

/// What the headers of a form's part say of its content.
///
/// # Errors
/// It is no name, or no media type.
pub(super) fn of_part(part: &Field<'_>) -> Result<DeclaredFile, Problem> {
    let headers = part.headers();
    let name = match headers.get("content-disposition") {
        Some(value) => {
            let value = HeaderValue::from_bytes(value.as_bytes());
            let value = value.map_err(|_| PART.wrong_name())?;
            let parsed = ContentDisposition::from_raw(&value).ok();
            let is_extended = parsed.is_some_and(|one| one.get_filename_ext().is_some());
            // A backslash in a part's plain name is one, as browsers write it.
            match part.file_name().filter(|_| !is_extended) {
                Some(plain) => Some(plain.to_owned()),
                None => said_name(&value, &PART)?,
            }
        }
        None => None,
    };
    let media_type = headers.get("content-type").map(AsRef::as_ref);
    PART.checked(name, media_type)
}

impl Sayers {
    fn checked(
        &self,
        name: Option<String>,
        media_type: Option<&[u8]>,
    ) -> Result<DeclaredFile, Problem> {
        let filename = match name {
            Some(name) => Some(bare_name(&name).ok_or_else(|| self.wrong_name())?),
            None => None,
        };
        let content_type = match media_type {
            Some(bytes) => {
                let text = std::str::from_utf8(bytes).ok();
                let declared = text.filter(|text| is_media_type(text));
                Some(declared.ok_or_else(|| self.wrong_media_type())?.to_owned())
            }
            None => None,
        };
        Ok(DeclaredFile {
            filename,
            content_type,
        })
    }

    fn wrong_name(&self) -> Problem {
        let reason = format!(
            "must name a file by 1 to {NAME_MAX} characters, without control characters and direction overrides"
        );
        Problem::invalid(self.name, reason)
    }

    fn wrong_media_type(&self) -> Problem {
        let reason = "must be declared with a media type, such as \"text/plain; charset=utf-8\"";
        Problem::invalid(self.media_type, reason)
    }
}

/// The name in a disposition (RFC 6266): the extended one where there are both.
fn said_name(value: &HeaderValue, by: &Sayers) -> Result<Option<String>, Problem> {
    let unreadable = || Problem::invalid(by.name, "must be a disposition as RFC 6266 has it");
    let disposition = ContentDisposition::from_raw(value).map_err(|_| unreadable())?;
    if let DispositionType::Ext(kind) = &disposition.disposition
        && !is_token(kind)
    {
        return Err(unreadable());
    }
    match disposition.get_filename_ext() {
        Some(extended) => decoded(extended).map(Some).ok_or_else(|| by.wrong_name()),
        None => Ok(disposition.get_filename().map(str::to_owned)),
    }
}

/// An extended value in one of the two charsets that everybody knows (RFC 5987, 3.2).
fn decoded(value: &ExtendedValue) -> Option<String> {
    if value.charset == Charset::Iso_8859_1 {
        return Some(value.value.iter().copied().map(char::from).collect());
    }
    let is_utf_8 = value.charset.to_string().eq_ignore_ascii_case("utf-8");
    is_utf_8
        .then(|| String::from_utf8(value.value.clone()).ok())
        .flatten()
}

/// The name of a file without the folders before it, which are its sender's; none where that names no
/// file, or shows as another name.
fn bare_name(name: &str) -> Option<String> {
    let bare = name.rsplit(['/', '\\']).next()?;
    let names_a_file = bare.chars().any(|one| one != '.' && !one.is_whitespace());
    let is_legible = bare.chars().count() <= NAME_MAX && !bare.chars().any(is_disguising);
    (names_a_file && is_legible).then(|| bare.to_owned())
}

/// Whether a text is a type and a subtype, with or without parameters (RFC 9110, 8.3.1). A range of
/// media types, such as `image/*`, is none.
fn is_media_type(text: &str) -> bool {
    let is_printable = text.bytes().all(|b| (b' '..=b'~').contains(&b));
    if !is_printable || text.len() > MEDIA_TYPE_MAX {
        return false;
    }
    let is_name = |name: &str| !name.contains('*') && is_token(name);
    let (media, parameters) = text.split_once(';').unwrap_or((text, ""));
    let both = media.trim_matches(OWS).split_once('/');
    both.is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype))
        && are_parameters(parameters)
}

/// Whether a text is parameters with semicolons between them, of which each may be missing
/// (RFC 9110, 5.6.6).
fn are_parameters(text: &str) -> bool {
    let mut left = text;
    loop {
        let Some(behind) = behind_parameter(left.trim_start_matches(OWS)) else {
            return false;
        };
        let behind = behind.trim_start_matches(OWS);
        match behind.strip_prefix(';') {
            Some(next) => left = next,
            None => return behind.is_empty(),
        }
    }
}

/// What follows a parameter at the beginning of a text, or the text where it begins with none.
fn behind_parameter(text: &str) -> Option<&str> {
    let (name, rest) = token(text);
    if name.is_empty() {
        return Some(text);
    }
    let value = rest.strip_prefix('=')?;
    match value.strip_prefix('"') {
        Some(quoted) => behind_quoted(quoted),
        None => {
            let (value, rest) = token(value);
            (!value.is_empty()).then_some(rest)
        }
    }
}

/// What follows the quote that ends a quoted string.
fn behind_quoted(text: &str) -> Option<&str> {
    let mut is_escaped = false;
    let end = text.find(|one| {
        let ends = one == '"' && !is_escaped;
        is_escaped = one == '\\' && !is_escaped;
        ends
    })?;
    text.get(end..)?.strip_prefix('"')
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && token(text).1.is_empty()
}

/// The token at the beginning of a text (RFC 9110, 5.6.2), and what follows it.
fn token(text: &str) -> (&str, &str) {
    let is_of_it = |one: char| one.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(one);
    let end = text.find(|one| !is_of_it(one)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_has_two_names_and_whole_parameters() {
        for (text, expected) in [
            ("text/plain", true),
            ("text/plain;", true),
            ("text/plain; ; charset=utf-8", true),
            ("text/plain ; charset=\"a;\\\"b\"; c=d", true),
            ("text/plain; charset=\"\"", true),
            ("", false),
            ("text", false),
            ("text/plain/x", false),
            ("image/*", false),
            ("text/plain; charset", false),
            ("text/plain; =utf-8", false),
            ("text/plain; charset=\"utf", false),
            ("text/plain; charset=\"utf\\\"", false),
            ("text/plain; charset=\"utf\"x", false),
            ("text/plain; a=b c=d", false),
            ("text/plain, text/html", false),
            ("text/pl\u{e4}in", false),
        ] {
            assert_eq!(is_media_type(text), expected, "{text}");
        }
    }

    #[test]
    fn a_name_is_that_of_one_file() {
        for (said, name) in [
            ("C:\\a\\b.png", Some("b.png")),
            ("/etc/passwd", Some("passwd")),
            (".profile", Some(".profile")),
            ("a/", None),
            ("../..", None),
            (" . ", None),
            ("a\u{202e}b", None),
            ("a\tb", None),
        ] {
            assert_eq!(bare_name(said).as_deref(), name, "{said}");
        }
    }
}
