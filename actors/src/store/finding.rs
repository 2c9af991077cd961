//! What a check of a store finds.

use colloquy_model::caller::Tenant;
use colloquy_model::id::AttachmentId;

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The name of the check that found it.
    pub check: &'static str,
    /// Where it was found, in words.
    pub found: String,
}

/// An attachment that a store knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownAttachment {
    /// The account and mode.
    pub tenant: Tenant,
    /// Its identifier.
    pub id: AttachmentId,
    /// Whether all its bytes must be there: it is neither on its way nor about to go.
    pub is_whole: bool,
}
