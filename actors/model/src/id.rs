//! Identifiers: a prefix that names the kind and a UUIDv7 (RFC 9562) in 32 hex digits. Knows no
//! store and no clock but the one that it is given.
//!
//! The first 60 payload bits (48 of Unix milliseconds, 12 of a counter) are handed out once per
//! process and only upwards: they are the identifier's *number*, which is how the store finds a
//! thing without an index of its own.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering as Memory};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::entity_number::EntityNumber;
use crate::position::Position;
use crate::sequence::Sequence;
use crate::time::Timestamp;

/// What stands before the underscore.
pub trait Prefix: 'static {
    /// What identifiers of the kind begin with, such as `conv`.
    const PREFIX: &'static str;
    /// For error messages: `a conversation`.
    const NOUN: &'static str;
}

macro_rules! kinds {
    ($($kind:ident $alias:ident $prefix:literal $noun:literal),* $(,)?) => {$(
        #[doc = concat!("The kind of ", $noun, ".")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $kind {}
        impl Prefix for $kind {
            const PREFIX: &'static str = $prefix;
            const NOUN: &'static str = $noun;
        }
        #[doc = concat!("Names ", $noun, ": `", $prefix, "_` and 32 hex digits.")]
        pub type $alias = Id<$kind>;
    )*};
}

kinds! {
    AccountKind AccountId "acc" "an account",
    UserKind UserId "usr" "a user",
    KeyKind KeyId "key" "a key",
    CustomerKind CustomerId "cus" "a customer",
    ConversationKind ConversationId "conv" "a conversation",
    MessageKind MessageId "msg" "a message",
    DocumentKind DocumentId "doc" "a document",
    VersionKind VersionId "ver" "a version",
    ShareKind ShareId "shr" "a share link",
    CommentKind CommentId "cmt" "a comment",
    ActivityKind ActivityId "act" "an activity",
    WebhookKind WebhookId "whk" "a webhook endpoint",
    EventKind EventId "evt" "an event",
    DeliveryKind DeliveryId "dlv" "a delivery",
    SupervisionKind SupervisionId "sup" "the settings of supervision",
    NodeKind NodeId "node" "a node",
    ClientKind ClientId "cli" "a client",
    GrantKind GrantId "gra" "a grant",
    SigningKeysKind SigningKeysId "jwk" "the signing keys",
    AuditKind AuditId "aud" "an audit record",
    AlertsKind AlertsId "alr" "the alerts of an account",
    BackupKind BackupId "bak" "a backup",
    AttachmentKind AttachmentId "att" "an attachment",
    ErasureKind ErasureId "era" "an erasure",
}

/// An identifier of one kind. Ordered by creation.
pub struct Id<K>(u128, PhantomData<fn() -> K>);

const TAIL_BITS: u32 = 62;
const VERSION: u128 = 0x7 << 76;
const VARIANT: u128 = 0b10 << TAIL_BITS;

impl<K: Prefix> Id<K> {
    /// A new identifier, larger than every one made before in this process.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self::from_parts(next_number(now), random_tail())
    }

    /// A new identifier that carries `ordinal`, the place of what it names in its document or
    /// conversation, in 32 of its random bits, so that it can be found by it.
    #[must_use]
    pub fn with_ordinal(now: Timestamp, ordinal: u64) -> Self {
        let tail = (random_tail() & !0xffff_ffff) | (ordinal & 0xffff_ffff);
        Self::from_parts(next_number(now), tail)
    }

    /// The identifier of what stands at this position, as [`Id::of_row`] makes it.
    #[must_use]
    pub fn at_position(at: Timestamp, position: Position) -> Self {
        Self::of_row(at, position.0)
    }

    /// An identifier of what the store gave a number, made of that and of its instant and nothing
    /// else: the same each time. These come in the order of their instants, and of their numbers
    /// within one.
    #[must_use]
    pub fn of_row(at: Timestamp, number: i64) -> Self {
        Self::from_parts(first_number_at(at), u64::try_from(number).unwrap_or(0))
    }

    /// The number that [`Id::of_row`] put in.
    #[must_use]
    pub fn row(self) -> i64 {
        i64::try_from(self.tail()).unwrap_or(i64::MAX)
    }

    /// Puts together what [`Id::number`] and [`Id::tail`] took apart.
    #[must_use]
    pub fn from_parts(number: EntityNumber, tail: u64) -> Self {
        let EntityNumber(number) = number;
        let (ms, counter) = (u128::from(number >> 12), u128::from(number & 0xfff));
        let tail = u128::from(tail & ((1 << TAIL_BITS) - 1));
        Id(
            (ms << 80) | VERSION | (counter << 64) | VARIANT | tail,
            PhantomData,
        )
    }

    /// 60 bits, unique in one store and in order of creation.
    #[must_use]
    pub fn number(self) -> EntityNumber {
        let (ms, counter) = (self.0 >> 80, (self.0 >> 64) & 0xfff);
        EntityNumber(u64::try_from((ms << 12) | counter).unwrap_or(u64::MAX))
    }

    /// The 62 bits behind the number.
    #[must_use]
    pub fn tail(self) -> u64 {
        u64::try_from(self.0 & ((1 << TAIL_BITS) - 1)).unwrap_or(u64::MAX)
    }

    /// All 128 bits, with those that say which version of UUID it is.
    #[must_use]
    pub fn bits(self) -> u128 {
        self.0
    }

    /// The ordinal that [`Id::with_ordinal`] put in.
    #[must_use]
    pub fn ordinal(self) -> u64 {
        self.tail() & 0xffff_ffff
    }

    /// When the identifier was made, to the millisecond.
    #[must_use]
    pub fn created_at(self) -> Timestamp {
        Timestamp(i64::try_from(self.0 >> 80).unwrap_or(i64::MAX))
    }
}

impl MessageId {
    /// A new identifier of the message whose own row has this sequence, which is its ordinal.
    #[must_use]
    pub fn with_sequence(now: Timestamp, sequence: Sequence) -> Self {
        Self::with_ordinal(now, sequence.0)
    }

    /// The sequence of the message's own row.
    #[must_use]
    pub fn sequence(self) -> Sequence {
        Sequence(self.ordinal())
    }
}

/// The lowest number that an identifier made at `at` or later can have.
#[must_use]
pub fn first_number_at(at: Timestamp) -> EntityNumber {
    EntityNumber(u64::try_from(at.0).unwrap_or(0) << 12)
}

static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Makes every later number larger than `number`: the store calls this at its start, so that a
/// clock set back can't repeat one.
pub fn never_below(number: EntityNumber) {
    LAST_NUMBER.fetch_max(number.0, Memory::Relaxed);
}

/// Among so many processes numbers are shared out, so that they rarely give the same one. The
/// store's fence refuses the later of two creations under one number.
const NODE_SLOTS: u32 = 64;

/// Which of [`NODE_SLOTS`] this process has: its numbers are those that leave this remainder.
/// Where one process hands out all numbers, none is left out.
static NODE_SLOT: AtomicU64 = AtomicU64::new(ALONE);
/// In the place of a slot: no other process hands out numbers.
const ALONE: u64 = u64::MAX;

/// Leaves all numbers but one in 64 to other processes that write to the same store.
pub fn set_node_slot(slot: i32) {
    let slot = u64::from(slot.unsigned_abs()) % u64::from(NODE_SLOTS);
    NODE_SLOT.store(slot, Memory::Relaxed);
}

fn next_number(now: Timestamp) -> EntityNumber {
    let EntityNumber(floor) = first_number_at(now);
    let slot = NODE_SLOT.load(Memory::Relaxed);
    let next = |last: u64| {
        let next = (last + 1).max(floor);
        if slot == ALONE {
            next
        } else {
            let stride = u64::from(NODE_SLOTS);
            next + (slot + stride - next % stride) % stride
        }
    };
    let before = LAST_NUMBER
        .fetch_update(Memory::Relaxed, Memory::Relaxed, |last| Some(next(last)))
        .unwrap_or(0);
    EntityNumber(next(before))
}

fn random_tail() -> u64 {
    crate::random::u64() >> 2
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Id<K> {}
impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<K> Eq for Id<K> {}
impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}
impl<K> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// The longest prefix, an underscore and 32 digits.
const LENGTH_MAX: usize = 4 + 1 + uuid::fmt::Simple::LENGTH;

impl<K: Prefix> Id<K> {
    /// Gives its text to `then` without a memory of its own.
    fn with_text<R>(self, then: impl FnOnce(&str) -> R) -> R {
        let mut digits = [0; uuid::fmt::Simple::LENGTH];
        let hex = Uuid::from_u128(self.0).simple().encode_lower(&mut digits);
        let mut text = [0; LENGTH_MAX];
        let parts = K::PREFIX.bytes().chain([b'_']).chain(hex.bytes());
        let mut length = 0;
        for (to, from) in text.iter_mut().zip(parts) {
            *to = from;
            length += 1;
        }
        then(
            text.get(..length)
                .and_then(|text| str::from_utf8(text).ok())
                .unwrap_or_default(),
        )
    }
}

impl<K: Prefix> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_text(|text| f.write_str(text))
    }
}
impl<K: Prefix> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no identifier of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a valid ID")]
pub struct NotAnId;

impl<K: Prefix> FromStr for Id<K> {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let hex = text
            .strip_prefix(K::PREFIX)
            .and_then(|rest| rest.strip_prefix('_'))
            .ok_or(NotAnId)?;
        let canonical = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if hex.len() != 32 || !hex.bytes().all(canonical) {
            return Err(NotAnId);
        }
        let value = u128::from_str_radix(hex, 16).map_err(|_| NotAnId)?;
        let id = Id(value, PhantomData);
        if Self::from_parts(id.number(), id.tail()) == id {
            Ok(id)
        } else {
            Err(NotAnId)
        }
    }
}

impl<K: Prefix> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_text(|text| serializer.serialize_str(text))
    }
}

impl<'de, K: Prefix> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(|_| {
            let words: Vec<&str> = K::NOUN.split(' ').collect();
            serde::de::Error::custom(format!(
                "must be a valid {} ID",
                words.last().unwrap_or(&"")
            ))
        })
    }
}

impl<K: Prefix> utoipa::PartialSchema for Id<K> {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .pattern(Some(format!(
                "^{}_[0-9a-f]{{12}}7[0-9a-f]{{3}}[89ab][0-9a-f]{{15}}$",
                K::PREFIX
            )))
            .into()
    }
}
impl<K: Prefix> utoipa::ToSchema for Id<K> {
    fn name() -> std::borrow::Cow<'static, str> {
        format!("{}_id", K::PREFIX).into()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn an_identifier_reads_back_as_itself_and_nothing_else_does() {
        let id = CustomerId::new(Timestamp(1_773_570_600_000));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(
            id.created_at(),
            Timestamp(1_773_570_600_000.max(id.created_at().0))
        );
        for wrong in [
            id.to_string().to_uppercase(),
            id.to_string().replace("cus_", "conv_"),
            "cus_1".into(),
        ] {
            assert_eq!(wrong.parse::<CustomerId>(), Err(NotAnId), "{wrong}");
        }
        assert!(
            "cus_00000000000000000000000000000000"
                .parse::<CustomerId>()
                .is_err()
        );
    }

    #[test]
    fn identifiers_increase_even_when_the_clock_stands_or_goes_back() {
        let ids: Vec<MessageId> = [5_000, 5_000, 4_000, 5_001]
            .map(|at| MessageId::new(Timestamp(at)))
            .to_vec();
        assert!(
            ids.is_sorted()
                && ids
                    .windows(2)
                    .all(|pair| pair.first().unwrap() < pair.last().unwrap())
        );
    }

    #[test]
    fn a_message_carries_the_sequence_of_its_row() {
        assert_eq!(
            MessageId::with_sequence(Timestamp(1), Sequence(77)).sequence(),
            Sequence(77)
        );
    }
}
