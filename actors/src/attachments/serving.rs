//! How a browser gets a file: an image that it shows safely is shown, anything else is downloaded.

use std::fmt::Write;

use colloquy_model::attachment::{IMAGES, legible};

/// What a browser is told of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// The media type (`Content-Type`): of an image that it shows safely its own.
    pub content_type: &'static str,
    /// Whether it is shown or downloaded, and by which name (`Content-Disposition`, RFC 6266).
    pub disposition: String,
}

impl Served {
    /// A file of this media type, as [`AttachmentView::content_type`] tells it, and of this name.
    ///
    /// [`AttachmentView::content_type`]: colloquy_model::attachment::AttachmentView::content_type
    #[must_use]
    pub fn of(content_type: &str, filename: Option<&str>) -> Self {
        let image = IMAGES.into_iter().find(|image| *image == content_type);
        let kind = image.map_or("attachment", |_| "inline");
        Served {
            content_type: image.unwrap_or("application/octet-stream"),
            disposition: named(kind, filename),
        }
    }
}

/// A disposition with a file's name: in ASCII, and in UTF-8.
fn named(kind: &str, filename: Option<&str>) -> String {
    let mut disposition = kind.to_owned();
    let Some(name) = filename.map(|name| legible(name, '_')) else {
        return disposition;
    };
    let plain = |one: char| match one {
        '"' | '\\' | '%' => '_',
        ' '..='~' => one,
        _ => '_',
    };
    let ascii: String = name.chars().map(plain).collect();
    // Writing to memory can't fail.
    let _ = write!(disposition, "; filename=\"{ascii}\"; filename*=UTF-8''");
    for byte in name.bytes() {
        let _ = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => {
                write!(disposition, "{}", char::from(byte))
            }
            _ => write!(disposition, "%{byte:02X}"),
        };
    }
    disposition
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_taken_when_any_was_is_saved_as_what_is_in_it() {
        let served = Served::of("text/html", Some("a\u{202e}gpj.exe"));
        let expected = "attachment; filename=\"a_gpj.exe\"; filename*=UTF-8''a_gpj.exe";
        assert_eq!(served.disposition, expected);
    }
}
