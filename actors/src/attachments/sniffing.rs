//! What a file is by its first bytes, whatever its sender calls it.

use colloquy_model::attachment::IMAGES;

/// Bytes of a file's beginning by which it is told.
pub(super) const HEAD_BYTES: usize = 12;

/// The media type of an image that browsers show safely; none of anything else.
fn image(head: &[u8]) -> Option<&'static str> {
    let [png, jpeg, gif, webp] = IMAGES;
    if head.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some(png)
    } else if head.starts_with(b"\xff\xd8\xff") {
        Some(jpeg)
    } else if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") {
        Some(gif)
    } else if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
        Some(webp)
    } else {
        None
    }
}

/// The media type that is told of a file which begins so: one that is declared as such an image and
/// is none may be anything.
pub(super) fn content_type(head: &[u8], declared: Option<&str>) -> String {
    let plain = |media: &str| {
        media
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase()
    };
    match (image(head), declared) {
        (Some(image), _) => image.to_owned(),
        (None, Some(declared)) if !IMAGES.contains(&plain(declared).as_str()) => {
            declared.to_owned()
        }
        (None, Some(_) | None) => "application/octet-stream".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_it_begins_with() {
        let png = b"\x89PNG\r\n\x1a\n....";
        assert_eq!(content_type(png, Some("text/html")), "image/png");
        assert_eq!(content_type(b"RIFF....WEBP", None), "image/webp");
        let html = b"<html>";
        assert_eq!(
            content_type(html, Some("Image/PNG; x=y")),
            "application/octet-stream"
        );
        assert_eq!(content_type(html, Some("text/html")), "text/html");
    }
}
