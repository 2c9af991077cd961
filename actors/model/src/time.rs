//! Instants as the interface shows them: RFC 3339, UTC, milliseconds, `Z`.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Datelike, Timelike, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Unix time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The beginning of 1970: before anything that is stored here.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// Later than any instant that comes.
    pub const MAX: Timestamp = Timestamp(i64::MAX);

    /// Earlier than any instant that was.
    pub const MIN: Timestamp = Timestamp(i64::MIN);

    /// How long this instant comes after `earlier`; nothing where it does not.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Duration {
        let ms = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(ms).unwrap_or(0))
    }

    /// How far apart the two instants are, whichever comes first.
    #[must_use]
    pub fn abs_diff(self, other: Timestamp) -> Duration {
        Duration::from_millis(self.0.abs_diff(other.0))
    }

    /// The whole second that this instant falls into, in Unix time.
    #[must_use]
    pub fn unix_seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// The instant that the wall clock shows, or one [`be_behind`] it; it may be set back.
    #[must_use]
    pub fn now() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let shown = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Timestamp(shown.saturating_sub(BEHIND_MS.load(Ordering::Relaxed)))
    }
}

/// By how much [`Timestamp::now`] is behind the wall clock.
static BEHIND_MS: AtomicI64 = AtomicI64::new(0);

/// Has this process take it for so much earlier than the wall clock says: `colloquy demo` plays a
/// week in a minute. To be made shorter only, since what is stored expects that time goes on.
pub fn be_behind(span: Duration) {
    BEHIND_MS.store(millis(span), Ordering::Relaxed);
}

/// Whole milliseconds of a span; where they are too many, those that there are instants for.
fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(millis(span)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(millis(span)))
    }
}

/// How an instant stands in JSON that only the store sees: as its number of milliseconds. For
/// `#[serde(with = "…")]`.
pub mod unix_ms {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Timestamp;

    /// Writes an instant as the number of its Unix milliseconds.
    ///
    /// # Errors
    /// What it writes to does not take it.
    pub fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(at.0)
    }

    /// Reads an instant from the number of its Unix milliseconds.
    ///
    /// # Errors
    /// What is stored is no number.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        i64::deserialize(deserializer).map(Timestamp)
    }

    /// The same for an instant that may be absent.
    pub mod option {
        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        use super::Timestamp;

        /// Writes the number, or null.
        ///
        /// # Errors
        /// What it writes to does not take it.
        pub fn serialize<S: Serializer>(
            at: &Option<Timestamp>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            at.map(|at| at.0).serialize(serializer)
        }

        /// Reads the number, or null.
        ///
        /// # Errors
        /// What is stored is neither a number nor null.
        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Timestamp>, D::Error> {
            Ok(Option::<i64>::deserialize(deserializer)?.map(Timestamp))
        }
    }
}

/// `2026-03-15T10:30:00.000Z`
const LENGTH: usize = 24;

impl Timestamp {
    /// Its text. Written by hand: a list shows eighty of them, and chrono's formatter took a fifth
    /// of its time.
    fn text(self) -> [u8; LENGTH] {
        let at = DateTime::<Utc>::from_timestamp_millis(self.0).unwrap_or_default();
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let parts = [
            (0, 4, at.year().unsigned_abs()),
            (5, 2, at.month()),
            (8, 2, at.day()),
            (11, 2, at.hour()),
            (14, 2, at.minute()),
            (17, 2, at.second()),
            (20, 3, at.timestamp_subsec_millis()),
        ];
        for (first, digits, mut value) in parts {
            for digit in text.iter_mut().skip(first).take(digits).rev() {
                *digit += u8::try_from(value % 10).unwrap_or(0);
                value /= 10;
            }
        }
        text
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.text()).unwrap_or_default())
    }
}

/// The text is no RFC 3339 instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a time in RFC 3339, such as 2026-03-15T10:30:00.000Z")]
pub struct NotATime;

impl FromStr for Timestamp {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let at = DateTime::parse_from_rfc3339(text).map_err(|_| NotATime)?;
        let ms = at.timestamp_millis();
        // Years 1 to 9999: what RFC 3339 can write back.
        if (-62_135_596_800_000..=253_402_300_799_999).contains(&ms) {
            Ok(Timestamp(ms))
        } else {
            Err(NotATime)
        }
    }
}

/// An instant rounded up to the millisecond: what lies before it lies before the instant that was
/// meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundedUp(pub Timestamp);

impl<'de> Deserialize<'de> for RoundedUp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let at: Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        let within = DateTime::parse_from_rfc3339(&text)
            .map_or(0, |at| at.timestamp_subsec_nanos() % 1_000_000);
        Ok(RoundedUp(if within == 0 {
            at
        } else {
            Timestamp(at.0 + 1)
        }))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(str::from_utf8(&self.text()).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .format(Some(utoipa::openapi::SchemaFormat::KnownFormat(
                utoipa::openapi::KnownFormat::DateTime,
            )))
            .into()
    }
}
impl utoipa::ToSchema for Timestamp {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_utc_with_milliseconds() {
        assert_eq!(
            Timestamp(1_773_570_600_000).to_string(),
            "2026-03-15T10:30:00.000Z"
        );
        assert_eq!(
            "2026-03-15T12:30:00+02:00".parse(),
            Ok(Timestamp(1_773_570_600_000))
        );
        assert_eq!(Timestamp(-1).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(
            "9999-12-31T23:59:59.999Z".parse(),
            Ok(Timestamp(253_402_300_799_999))
        );
        assert_eq!(
            Timestamp(253_402_300_799_999).to_string(),
            "9999-12-31T23:59:59.999Z"
        );
        assert_eq!("2026-03-15".parse::<Timestamp>(), Err(NotATime));
    }

    #[test]
    fn a_span_leads_from_one_instant_to_the_other_and_never_beyond_them_all() {
        let (early, late) = (Timestamp(1_000), Timestamp(61_000));
        assert_eq!(late.since(early), Duration::from_secs(60));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early + late.since(early), late);
        assert_eq!(late - Duration::from_secs(60), early);
        assert_eq!(Timestamp::MAX + Duration::MAX, Timestamp::MAX);
        assert_eq!(Timestamp(i64::MIN) - Duration::MAX, Timestamp(i64::MIN));
    }

    #[test]
    fn what_the_store_alone_sees_holds_instants_as_numbers() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Stored {
            #[serde(with = "unix_ms")]
            at: Timestamp,
            #[serde(with = "unix_ms::option", default)]
            until: Option<Timestamp>,
        }
        for (json, until) in [
            (r#"{"at":5,"until":7}"#, Some(Timestamp(7))),
            (r#"{"at":5,"until":null}"#, None),
        ] {
            let at = Timestamp(5);
            let stored: Option<Stored> = serde_json::from_str(json).ok();
            assert_eq!(stored, Some(Stored { at, until }));
            assert_eq!(serde_json::to_string(&stored).ok().as_deref(), Some(json));
        }
        let without: Option<Stored> = serde_json::from_str(r#"{"at":5}"#).ok();
        assert!(without.is_some_and(|without| without.until.is_none()));
    }
}
