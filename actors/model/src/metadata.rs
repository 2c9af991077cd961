//! Metadata: a JSON object that belongs to the caller, bounded in keys, bytes and depth.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Number, Value};

use crate::bounds::Bounds;

/// How deep JSON may nest, the body itself counted.
const DEPTH_MAX: usize = 64;
/// A patch may be so many times as long as what it makes: it may take away all that is there, which
/// is longer to say, and put as much in its place.
const PATCH_TIMES: usize = 4;

/// An object with string keys and any values.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Metadata(Map<String, Value>);

/// A JSON merge patch (RFC 7396) for metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataPatch(Map<String, Value>);

impl Metadata {
    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Metadata out of the store, also where the bounds of today would refuse it.
    ///
    /// # Errors
    /// The text is no JSON object.
    pub fn stored(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str(json).map(Metadata)
    }

    /// What it would be after the patch (RFC 7396); `None` empties it.
    ///
    /// # Errors
    /// The reason, where the result would be beyond the bounds.
    pub fn patched(&self, patch: Option<&MetadataPatch>) -> Result<Self, String> {
        let Some(patch) = patch else {
            return Ok(Metadata::default());
        };
        let mut target = self.0.clone();
        merge(&mut target, &patch.0);
        let result = Metadata(target);
        result.within_bounds()?;
        Ok(result)
    }

    /// Reads metadata out of a stored shape, also where the bounds of today would refuse it.
    ///
    /// # Errors
    /// The value is no JSON object.
    pub fn accepted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Metadata)
    }

    fn within_bounds(&self) -> Result<(), String> {
        let bounds = Bounds::get();
        if self.0.len() > bounds.metadata_keys_max {
            return Err(format!(
                "must have at most {} keys",
                bounds.metadata_keys_max
            ));
        }
        let bytes = serde_json::to_vec(&self.0).map_or(usize::MAX, |json| json.len());
        if !self.0.is_empty() && bytes > bounds.metadata_bytes_max {
            return Err(format!(
                "must be at most {} bytes of JSON",
                bounds.metadata_bytes_max
            ));
        }
        Ok(())
    }
}

fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(key);
            }
            Value::Object(inner) => {
                let slot = target
                    .entry(key.clone())
                    .or_insert_with(|| Value::Object(Map::new()));
                if !slot.is_object() {
                    *slot = Value::Object(Map::new());
                }
                if let Value::Object(slot) = slot {
                    merge(slot, inner);
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                target.insert(key.clone(), value.clone());
            }
        }
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Null means nothing, as a merge patch has it.
        let bytes_max = Bounds::get().metadata_bytes_max;
        let metadata = Metadata(checked_object(deserializer, bytes_max)?.unwrap_or_default());
        metadata.within_bounds().map_err(de::Error::custom)?;
        Ok(metadata)
    }
}

impl<'de> Deserialize<'de> for MetadataPatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match checked_object(
            deserializer,
            Bounds::get().metadata_bytes_max.saturating_mul(PATCH_TIMES),
        )? {
            Some(patch) => Ok(MetadataPatch(patch)),
            None => Err(de::Error::custom("must be an object")),
        }
    }
}

fn checked_object<'de, D: Deserializer<'de>>(
    deserializer: D,
    bytes_max: usize,
) -> Result<Option<Map<String, Value>>, D::Error> {
    let room = Room(Cell::new(Some(bytes_max)));
    let read = (Checked {
        depth: 2,
        room: &room,
    })
    .deserialize(deserializer)?;
    if room.is_exceeded() {
        return Err(de::Error::custom(format!(
            "must be at most {bytes_max} bytes of JSON"
        )));
    }
    match read {
        Value::Object(map) => Ok(Some(map)),
        Value::Null => Ok(None),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(de::Error::custom("must be an object"))
        }
    }
}

/// Bytes of JSON that there is still room for; none once it is exceeded. It is looked at while
/// reading, and nothing more is kept then: a megabyte of small values is thirty in memory.
struct Room(Cell<Option<usize>>);

impl Room {
    /// Takes what a value, or a name, has at least as JSON.
    fn take(&self, bytes: usize) {
        self.0
            .set(self.0.get().and_then(|left| left.checked_sub(bytes)));
    }

    fn is_exceeded(&self) -> bool {
        self.0.get().is_none()
    }
}

/// Reads any JSON, but no repeated name, no U+0000, no integer beyond 64 bits, no nesting beyond
/// the bound and no more bytes than there is room for.
#[derive(Clone, Copy)]
struct Checked<'r> {
    depth: usize,
    room: &'r Room,
}

impl Checked<'_> {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        if self.depth > DEPTH_MAX {
            return Err(E::custom(format!(
                "must not nest more than {DEPTH_MAX} levels"
            )));
        }
        Ok(Checked {
            depth: self.depth + 1,
            ..self
        })
    }
}

fn checked_text<E: de::Error>(text: &str) -> Result<(), E> {
    if text.contains('\0') {
        Err(E::custom("must not contain U+0000"))
    } else {
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Checked<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.room.take(1);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Checked<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        // An integer beyond 64 bits arrives here already rounded: to keep it would be to change it
        // in silence.
        if value >= 18_446_744_073_709_551_616.0 || value <= -9_223_372_036_854_775_808.0 {
            return Err(E::custom("must not hold a number beyond 64 bits"));
        }
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("must hold finite numbers"))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        checked_text(text)?;
        // With the quotes; the first byte was taken before it was known what comes.
        self.room.take(text.len() + 1);
        Ok(Value::String(text.to_owned()))
    }
    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let seed = self.deeper()?;
        let mut list = Vec::new();
        while !self.room.is_exceeded()
            && let Some(item) = items.next_element_seed(seed)?
        {
            list.push(item);
        }
        while self.room.is_exceeded() && items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Array(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let seed = self.deeper()?;
        let mut map = Map::new();
        while !self.room.is_exceeded()
            && let Some(key) = entries.next_key::<String>()?
        {
            checked_text(&key)?;
            self.room.take(key.len() + 2);
            let value = entries.next_value_seed(seed)?;
            if map.contains_key(&key) {
                let shown: String = key.chars().take(64).collect();
                return Err(de::Error::custom(format!(
                    "must not repeat the name `{shown}`"
                )));
            }
            map.insert(key, value);
        }
        while self.room.is_exceeded() && entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
        }
        Ok(Value::Object(map))
    }
}

fn object_schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::Type::Object)
        .additional_properties(Some(
            utoipa::openapi::schema::AdditionalProperties::FreeForm(true),
        ))
        .max_properties(Some(Bounds::get().metadata_keys_max))
        .into()
}
impl utoipa::PartialSchema for Metadata {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        object_schema()
    }
}
impl utoipa::ToSchema for Metadata {}
impl utoipa::PartialSchema for MetadataPatch {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        object_schema()
    }
}
impl utoipa::ToSchema for MetadataPatch {}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn read(json: &str) -> Result<Metadata, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn what_could_not_be_kept_as_sent_is_refused() {
        for bad in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":"\u0000"}"#,
            r#"{"a":123456789012345678901234567890}"#,
            r#"{"a":-9223372036854775809}"#,
            "[]",
            "7",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(&format!("{{\"a\":{}{}}}", "[".repeat(62), "]".repeat(62))).is_ok());
        assert!(read(&format!("{{\"a\":{}{}}}", "[".repeat(63), "]".repeat(63))).is_err());
    }

    #[test]
    fn a_patch_merges_as_rfc_7396_says() {
        let before = read(r#"{"a":"b","c":{"d":"e","f":"g"}}"#).unwrap();
        let patch: MetadataPatch = serde_json::from_str(r#"{"a":"z","c":{"f":null}}"#).unwrap();
        assert_eq!(
            before.patched(Some(&patch)),
            Ok(read(r#"{"a":"z","c":{"d":"e"}}"#).unwrap())
        );
        assert_eq!(before.patched(None), Ok(Metadata::default()));
    }
}
