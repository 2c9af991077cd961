//! What a check of a store finds.

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The name of the check that found it.
    pub check: &'static str,
    /// Where it was found, in words.
    pub found: String,
}
