//! Which events an endpoint's owner wants, as requests and answers write it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use colloquy_model::bounds::Bounds;
use colloquy_model::conversation::{Channel, Priority};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::DocumentId;
use colloquy_model::present::present;

const ALL: &str = "*";

/// One kind of event by its published name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventKindName(pub EventKind);

impl Default for EventKindName {
    fn default() -> Self {
        EventKindName(EventKind::ConversationCreated)
    }
}

impl<'de> Deserialize<'de> for EventKindName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<'de, str>::deserialize(deserializer)?;
        EventKind::from_word(&word)
            .map(EventKindName)
            .ok_or_else(|| de::Error::custom("must be a known kind of event"))
    }
}

impl PartialSchema for EventKindName {
    fn schema() -> RefOr<Schema> {
        let words = EventKind::EVENTS.iter().map(|kind| kind.word());
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(words))
            .into()
    }
}

impl ToSchema for EventKindName {}

/// Kinds of events by their published names, or `["*"]`: all of them, also those that come later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventKindNames(Vec<EventKind>);

impl EventKindNames {
    /// The kinds of events that it lets through; empty: all.
    #[must_use]
    pub fn kinds(&self) -> &[EventKind] {
        &self.0
    }
}

impl Serialize for EventKindNames {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_empty() {
            return serializer.collect_seq([ALL]);
        }
        serializer.collect_seq(self.0.iter().map(|kind| kind.word()))
    }
}

impl<'de> Deserialize<'de> for EventKindNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<Cow<'de, str>>::deserialize(deserializer)?;
        if words.len() == 1 && words.iter().all(|word| word == ALL) {
            return Ok(EventKindNames(Vec::new()));
        }
        let known: Option<Vec<EventKind>> = words
            .iter()
            .map(|word| EventKind::from_word(word))
            .collect();
        let kinds = known.ok_or_else(|| {
            de::Error::custom("must be [\"*\"] or a list of known kinds of events")
        })?;
        distinct(&kinds).map_err(de::Error::custom)?;
        Ok(EventKindNames(kinds))
    }
}

impl PartialSchema for EventKindNames {
    fn schema() -> RefOr<Schema> {
        let words = [ALL]
            .into_iter()
            .chain(EventKind::EVENTS.iter().map(|kind| kind.word()));
        let word = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(words));
        ArrayBuilder::new()
            .items(word)
            .min_items(Some(1))
            .unique_items(true)
            .into()
    }
}

impl ToSchema for EventKindNames {}

/// Every property that is named must match, with one of its values; an event without that property
/// does not match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookFilter {
    /// Of conversations of these channels.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(schema_with = values::<Channel>)]
    channel: Option<Values<Channel>>,
    /// Of conversations of these priorities.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(schema_with = values::<Priority>)]
    priority: Option<Values<Priority>>,
    /// Of these documents.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(schema_with = values::<DocumentId>)]
    document_id: Option<Values<DocumentId>>,
}

impl WebhookFilter {
    /// Whether it names no property at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == WebhookFilter::default()
    }

    pub(super) fn channels(&self) -> Vec<Channel> {
        self.channel
            .iter()
            .flat_map(|values| &values.0)
            .copied()
            .collect()
    }

    pub(super) fn priorities(&self) -> Vec<Priority> {
        self.priority
            .iter()
            .flat_map(|values| &values.0)
            .copied()
            .collect()
    }

    pub(super) fn documents(&self) -> impl Iterator<Item = DocumentId> {
        self.document_id
            .iter()
            .flat_map(|values| &values.0)
            .copied()
    }
}

/// A filter as it was accepted before, bounds or not: those of today may be others.
#[derive(Deserialize)]
struct Accepted {
    channel: Option<Vec<Channel>>,
    priority: Option<Vec<Priority>>,
    document_id: Option<Vec<DocumentId>>,
}

/// Reads a stored endpoint's filter.
pub(super) fn accepted<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<WebhookFilter>, D::Error> {
    let accepted = Option::<Accepted>::deserialize(deserializer)?;
    Ok(accepted.map(
        |Accepted {
             channel,
             priority,
             document_id,
         }| WebhookFilter {
            channel: channel.map(Values),
            priority: priority.map(Values),
            document_id: document_id.map(Values),
        },
    ))
}

/// At least one value, none twice, and as many as the bounds allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
struct Values<T>(Vec<T>);

impl<'de, T: Deserialize<'de> + PartialEq> Deserialize<'de> for Values<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = deserializer.deserialize_seq(Few(PhantomData))?;
        distinct(&values).map_err(de::Error::custom)?;
        Ok(Values(values))
    }
}

/// Takes as many values as the bounds allow: none behind them is kept, or compared with the others.
struct Few<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Few<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
        let most = Bounds::get().filter_values_max;
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element()? {
            if values.len() == most {
                return Err(de::Error::custom(format_args!(
                    "must hold at most {most} values"
                )));
            }
            values.push(value);
        }
        Ok(values)
    }
}

fn values<T: PartialSchema>() -> RefOr<Schema> {
    let most = Bounds::get().filter_values_max;
    ArrayBuilder::new()
        .items(T::schema())
        .min_items(Some(1))
        .max_items(Some(most))
        .into()
}

fn distinct<T: PartialEq>(values: &[T]) -> Result<(), &'static str> {
    if values.is_empty() {
        return Err("must not be empty");
    }
    let again = |(index, value)| values.iter().take(index).any(|before| before == value);
    if values.iter().enumerate().any(again) {
        Err("must not repeat a value")
    } else {
        Ok(())
    }
}
