//! How large each text and each set of metadata may be. Set once, from config.toml, before anything
//! is served.

use std::sync::OnceLock;

use serde::Deserialize;

/// Upper bounds of what a caller may send, as config.toml gives them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Bytes of one message's content.
    pub content_bytes_max: usize,
    /// How often one message may be edited at most.
    pub message_edits_max: u64,
    /// Keys of one metadata object.
    pub metadata_keys_max: usize,
    /// Bytes of one metadata object, as compact JSON.
    pub metadata_bytes_max: usize,
    /// Characters of a customer's name.
    pub customer_name_chars_max: usize,
    /// Characters of any other name or title.
    pub name_chars_max: usize,
    /// How many characters a URL may have at most.
    pub url_chars_max: usize,
    /// Bytes of a document's content.
    pub document_bytes_max: usize,
    /// Names of one query or form.
    pub query_names_max: usize,
    /// Webhook endpoints of an account in one mode.
    pub webhook_endpoints_max: usize,
    /// Values that a webhook endpoint's filter names for one property.
    pub filter_values_max: usize,
    /// Bytes of a difference as it is shown, and of the conflicts that a merge tells of.
    pub diff_bytes_max: usize,
    /// Steps in which one comparison or merge looks for the fewest changes.
    pub comparison_steps_max: u64,
}

static BOUNDS: OnceLock<Bounds> = OnceLock::new();

impl Bounds {
    /// Makes these the bounds of the process. The first call counts.
    pub fn set(self) {
        BOUNDS.get_or_init(|| self);
    }

    /// The bounds in force; none at all where none were set.
    pub fn get() -> &'static Bounds {
        BOUNDS.get_or_init(|| Bounds {
            content_bytes_max: usize::MAX,
            message_edits_max: u64::MAX,
            metadata_keys_max: usize::MAX,
            metadata_bytes_max: usize::MAX,
            customer_name_chars_max: usize::MAX,
            name_chars_max: usize::MAX,
            url_chars_max: usize::MAX,
            document_bytes_max: usize::MAX,
            query_names_max: usize::MAX,
            webhook_endpoints_max: usize::MAX,
            filter_values_max: usize::MAX,
            diff_bytes_max: usize::MAX,
            comparison_steps_max: u64::MAX,
        })
    }
}
