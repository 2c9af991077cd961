//! Shapes of ours as JSON, for answers and for the store.

use bytes::Bytes;
use serde::Serialize;

/// JSON of a shape of ours, as text.
pub fn text<T: Serialize + ?Sized>(shape: &T) -> String {
    // They have no maps with keys other than strings, so it can't fail. Did it, the command would
    // crash: an empty text in its place would replace what is stored.
    serde_json::to_string(shape)
        .unwrap_or_else(|error| unreachable!("a shape of ours can't be written: {error}"))
}

/// The JSON of a value of a shape that can't fail to be written, as bytes.
pub fn bytes<T: Serialize + ?Sized>(shape: &T) -> Bytes {
    text(shape).into()
}
