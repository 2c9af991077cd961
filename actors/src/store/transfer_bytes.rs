//! Bytes in lines of JSON: JSON stays readable as it is, anything else is in Base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Bytes that are no text: in Base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(deserializer)?;
        STANDARD
            .decode(&*text)
            .map(Base64)
            .map_err(D::Error::custom)
    }
}

/// What is JSON as a rule, and is written as it is; what is none, or has a line's end in it, is
/// written as an object with its bytes in Base64. It reads back byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub Vec<u8>);

/// The beginning of an object that stands for bytes.
const BYTES: &str = r#"{"$bytes":"#;

/// An object that stands for bytes.
#[derive(Serialize, Deserialize)]
struct BytesObject {
    #[serde(rename = "$bytes")]
    bytes: Base64,
}

impl Text {
    /// Itself, where it can stand in a line as it is.
    fn as_json(&self) -> Option<&RawValue> {
        let text = std::str::from_utf8(&self.0).ok()?;
        let json: &RawValue = serde_json::from_str(text).ok()?;
        let is_whole = json.get().len() == text.len();
        (is_whole && !text.contains('\n') && !text.starts_with(BYTES)).then_some(json)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_json() {
            Some(json) => json.serialize(serializer),
            None => serde_json::value::to_raw_value(&BytesObject {
                bytes: Base64(self.0.clone()),
            })
            .map_err(S::Error::custom)?
            .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?.get();
        if !json.starts_with(BYTES) {
            return Ok(Text(json.as_bytes().to_vec()));
        }
        let object: BytesObject = from_json(json).map_err(D::Error::custom)?;
        Ok(Text(object.bytes.0))
    }
}

fn from_json<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    serde_json::from_str(json)
}
