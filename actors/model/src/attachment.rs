//! An attachment as the interface shows it, by itself and in its message.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::AttachmentId;
use crate::time::Timestamp;

/// Images that every browser shows and none runs anything of.
pub const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Whether a file of this media type, as [`AttachmentView::content_type`] tells it, is shown and not
/// downloaded.
#[must_use]
pub fn is_shown(content_type: &str) -> bool {
    IMAGES.contains(&content_type)
}

/// Whether a character makes a file's name show as another: one that is not printed, ends a line, or
/// turns the order of what stands around it (the embeddings, overrides and isolates of UAX 9). The
/// marks that names in Hebrew and Arabic have turn nothing.
#[must_use]
pub fn is_disguising(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A file's name as people may read it, with something else in the place of what is disguising: names
/// that were taken in earlier versions may have it.
#[must_use]
pub fn legible(name: &str, in_place: char) -> String {
    let plain = |one: char| if is_disguising(one) { in_place } else { one };
    name.chars().map(plain).collect()
}

/// A file that was uploaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Attachment)]
pub struct AttachmentView {
    /// The identifier of the attachment.
    pub attachment_id: AttachmentId,
    /// The file's name as it was given; null where none was.
    pub filename: Option<String>,
    /// The media type: of an image that browsers show safely, by its content; otherwise as it was
    /// given.
    pub content_type: String,
    /// The length of the content.
    pub bytes: u64,
    /// The SHA-256 hash of the content, in hex.
    pub sha256: String,
    /// When its upload began.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_as_it_is_spelled() {
        assert_eq!(legible("a\u{202e}gpj.exe", '_'), "a_gpj.exe");
        assert_eq!(legible("a\n\u{2066}\u{2028}b", '_'), "a___b");
        assert_eq!(legible("\u{5d0}\u{200f}.txt", '_'), "\u{5d0}\u{200f}.txt");
    }
}
