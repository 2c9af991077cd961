//! Query strings: read by name into a type; an unknown, repeated or ill-formed parameter is refused
//! by its name.

use std::borrow::Cow;

use colloquy_model::bounds::Bounds;
use colloquy_model::id::{Id, Prefix};
use colloquy_model::page::{Cursor, Order, Paging, Start};
use serde::de::value::{MapDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};

use super::json;
use super::problem::Problem;

/// How many a page has unless the caller says otherwise.
pub(crate) const LIMIT_DEFAULT: u32 = 20;
/// How many a page has at most.
pub(crate) const LIMIT_MAX: u32 = 100;

/// How many may be left out at most: what every JSON reader can count to.
pub(crate) const OFFSET_MAX: u64 = (1 << 53) - 1;

/// Reads a query string or a form. Its names are few: each is compared with those before it.
pub(super) fn parse<T: DeserializeOwned>(query: &str) -> Result<T, Problem> {
    let mut pairs: Vec<(Cow<'_, str>, Value<'_>)> = Vec::new();
    let names_max = Bounds::get().query_names_max;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name =
            decoded(name).ok_or_else(|| Problem::invalid("", "must be percent-encoded UTF-8"))?;
        if pairs.len() >= names_max {
            return Err(Problem::invalid(
                name.into_owned(),
                format!("is one name more than the {names_max} allowed"),
            ));
        }
        let Some(value) = decoded(value).filter(|value| !value.contains('\0')) else {
            return Err(Problem::invalid(
                name.into_owned(),
                "must be percent-encoded UTF-8 without U+0000",
            ));
        };
        if pairs.iter().any(|(known, _)| *known == name) {
            return Err(Problem::invalid(name.into_owned(), "must not be repeated"));
        }
        pairs.push((name, Value(value)));
    }
    let reader = MapDeserializer::<_, de::value::Error>::new(pairs.into_iter());
    serde_path_to_error::deserialize(reader)
        .map_err(|error| json::explained(json::dotted(error.path()), &error.inner().to_string()))
}

/// Decodes `%20` and `+`; none where that gives no UTF-8.
pub(super) fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => hex(rest.next()?)? * 16 + hex(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

pub(super) fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

/// One parameter's text, read as whatever the type wants.
struct Value<'a>(Cow<'a, str>);

impl<'de> IntoDeserializer<'de, de::value::Error> for Value<'de> {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! integers {
    ($($method:ident $visit:ident $kind:ty),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            let plain = !self.0.starts_with('+');
            let number = self.0.parse::<$kind>().ok().filter(|_| plain);
            visitor.$visit(number.ok_or_else(|| de::Error::custom("must be an integer within its bounds"))?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_some(self)
    }
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        StrDeserializer::new(&self.0).deserialize_enum(name, variants, visitor)
    }
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match &*self.0 {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(de::Error::custom("must be true or false")),
        }
    }
    integers! { deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64, deserialize_i64 visit_i64 i64 }
    serde::forward_to_deserialize_any! {
        i8 i16 i32 u8 u16 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// The query of an operation that takes none.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoQuery {}

/// Which part of a list is wanted, as the query says it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part<'a> {
    pub(crate) limit: Option<u32>,
    pub(crate) offset: Option<u64>,
    pub(crate) after: Option<&'a str>,
    pub(crate) before: Option<&'a str>,
    pub(crate) order: Option<Order>,
}

impl Part<'_> {
    /// The part of a list as the actors take it; cursors are identifiers of kind `K`.
    ///
    /// # Errors
    /// A parameter is out of its bounds, or does not go with another.
    pub(crate) fn paging<K: Prefix>(&self, default: Order) -> Result<Paging, Problem> {
        let limit = self.limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(Problem::invalid(
                "limit",
                format!("must be an integer from 1 to {LIMIT_MAX}"),
            ));
        }
        let start = match (self.offset, self.after, self.before) {
            (offset, None, None) => Start::Offset(bounded(offset.unwrap_or(0))?),
            (None, Some(id), None) => Start::After(cursor::<K>("after", id)?),
            (None, None, Some(id)) => Start::Before(cursor::<K>("before", id)?),
            (Some(_), ..) => {
                return Err(Problem::invalid(
                    "offset",
                    "must not stand beside after or before",
                ));
            }
            (None, Some(_), Some(_)) => {
                return Err(Problem::invalid("before", "must not stand beside after"));
            }
        };
        Ok(Paging {
            limit,
            start,
            order: self.order.unwrap_or(default),
        })
    }
}

fn bounded(offset: u64) -> Result<u64, Problem> {
    if offset <= OFFSET_MAX {
        Ok(offset)
    } else {
        Err(Problem::invalid(
            "offset",
            "must be an integer within its bounds",
        ))
    }
}

fn cursor<K: Prefix>(name: &'static str, text: &str) -> Result<Cursor, Problem> {
    let id: Id<K> = text.parse().map_err(|_| {
        let noun = K::NOUN.rsplit(' ').next().unwrap_or_default();
        Problem::invalid(name, format!("must be a valid {noun} ID"))
    })?;
    Ok(Cursor::of(id))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use colloquy_model::conversation::Status;
    use colloquy_model::id::{ConversationId, ConversationKind};

    use super::*;
    use colloquy_model::time::Timestamp;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Example {
        status: Option<Status>,
        limit: Option<u32>,
        email: Option<String>,
        after: Option<ConversationId>,
    }

    #[test]
    fn parameters_are_read_by_name() {
        let id = ConversationId::new(Timestamp(1));
        let read: Example =
            parse(&format!("status=active&limit=5&email=a%40b+c&after={id}")).unwrap();
        let email = Some("a@b c".to_owned());
        assert_eq!(
            read,
            Example {
                status: Some(Status::Active),
                limit: Some(5),
                email,
                after: Some(id)
            }
        );
    }

    #[test]
    fn a_parameter_that_is_not_acceptable_is_named() {
        for (query, field) in [
            ("statu=active", "statu"),
            ("status=gone", "status"),
            ("status=", "status"),
            ("limit=x", "limit"),
            ("limit=-1", "limit"),
            ("limit=5000000000", "limit"),
            ("limit=1&limit=2", "limit"),
            ("email=%zz", "email"),
            ("email=%ff", "email"),
            ("email=%00", "email"),
            ("after=cus_1", "after"),
        ] {
            assert_eq!(parse::<Example>(query).unwrap_err().field, field, "{query}");
        }
    }

    #[test]
    fn a_page_keeps_its_bounds() {
        let paging = |part: Part<'_>| part.paging::<ConversationKind>(Order::Desc);
        let plain = paging(Part::default()).unwrap();
        assert_eq!((plain.limit, plain.start), (20, Start::Offset(0)));
        for (part, field) in [
            (
                Part {
                    limit: Some(0),
                    ..Part::default()
                },
                "limit",
            ),
            (
                Part {
                    limit: Some(101),
                    ..Part::default()
                },
                "limit",
            ),
            (
                Part {
                    offset: Some(OFFSET_MAX + 1),
                    ..Part::default()
                },
                "offset",
            ),
            (
                Part {
                    offset: Some(1),
                    after: Some("x"),
                    ..Part::default()
                },
                "offset",
            ),
            (
                Part {
                    after: Some("x"),
                    ..Part::default()
                },
                "after",
            ),
        ] {
            assert_eq!(paging(part).unwrap_err().field, field);
        }
    }
}
