//! An attachment as the interface shows it, by itself and in its message.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::id::AttachmentId;
use crate::time::Timestamp;

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
