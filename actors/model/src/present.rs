//! Tells a field that is there, null included, from one that was left out.

use serde::{Deserialize, Deserializer};

/// For `#[serde(default, deserialize_with = "present")]`: `Some` whenever the field stands in the
/// input. With an inner type that takes no null, null is a wrong type; with `Option` inside, it is
/// a value.
///
/// # Errors
/// The inner type's.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}
