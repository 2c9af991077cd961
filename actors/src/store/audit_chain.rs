//! The chain over the rows of the log: each has a link, made of the link of the row before and of a
//! digest of all that never changes of it. Redaction and retention change what a row says, which
//! stands in it by a salted hash alone. Whoever has the records can verify the chain.

use std::fmt::{self, Display, Formatter};

use colloquy_model::account::TextKeys;
use colloquy_model::conversation::MessageView;
use colloquy_model::sequence::Sequence;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::sealing::{self, texts};

/// What each digest begins with.
const DIGEST: &[u8] = b"colloquy audit record 1\n";
/// What the signature of a head is made over, before its position and its link.
const HEAD: &[u8] = b"colloquy audit head 1\n";
/// What the signature of a slice is made over, before its number, its last position and its link.
const SLICE: &[u8] = b"colloquy audit slice 1\n";
/// What the link is made of from which a chain goes on whose head is gone.
const LOST: &[u8] = b"colloquy audit head lost 1\n";
/// What the key that signs heads is derived for.
const SIGNS: &str = "audit head";

/// The link of a row; before the first row it is all zeros.
pub type Link = [u8; 32];

/// The numbers of a row that go into its digest, in this order, by the names that an export has for
/// them.
pub const NUMBERS: [&str; 19] = [
    "position",
    "entity_kind",
    "entity",
    "tail",
    "sequence",
    "event",
    "tenant",
    "number",
    "at",
    "from_customer",
    "from_agent",
    "from_system",
    "last_message_at",
    "channel",
    "priority",
    "assignee",
    "sender",
    "credential",
    "user",
];

/// All that never changes of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sealed<'r> {
    /// As [`NUMBERS`] names them.
    pub(super) numbers: [Option<i64>; NUMBERS.len()],
    /// Where the request came from.
    pub(super) address: Option<&'r str>,
    /// The request.
    pub(super) request: &'r str,
    /// The salted hash of what the row says; empty where it says nothing.
    pub(super) hash: &'r [u8],
}

impl Sealed<'_> {
    /// SHA-256 over the fields: of each number a byte 0 where there is none, else 1 and the number in
    /// 8 bytes, the highest first; of each text and of the hash a byte 0, or 2, the length in 4
    /// bytes, and the bytes.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut bytes = Vec::with_capacity(320);
        bytes.extend_from_slice(DIGEST);
        for number in self.numbers {
            match number {
                None => bytes.push(0),
                Some(number) => {
                    bytes.push(1);
                    bytes.extend_from_slice(&number.to_be_bytes());
                }
            }
        }
        let address = self.address.map(str::as_bytes);
        for text in [address, Some(self.request.as_bytes()), Some(self.hash)] {
            match text {
                None => bytes.push(0),
                Some(text) => {
                    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                    bytes.push(2);
                    bytes.extend_from_slice(&length.to_be_bytes());
                    bytes.extend_from_slice(text);
                }
            }
        }
        Sha256::digest(&bytes).into()
    }

    /// The link of this row, behind one with this link.
    pub(super) fn link(&self, before: &Link) -> Link {
        link(before, &self.digest())
    }

    /// The row as an export has it, with this link.
    pub(super) fn record(&self, link: Option<&[u8]>) -> ChainRecord {
        ChainRecord {
            numbers: self.numbers.to_vec(),
            address: self.address.map(str::to_owned),
            request: self.request.to_owned(),
            hash: to_hex(self.hash),
            link: link.map(to_hex),
        }
    }
}

/// The link of a row with this digest, behind one with this link.
pub(super) fn link(before: &Link, digest: &[u8; 32]) -> Link {
    let hasher = Sha256::new().chain_update(before);
    hasher.chain_update(digest).finalize().into()
}

/// From which link a chain goes on whose head is gone, behind this position: no row has it, so that
/// what comes later does not heal the chain.
pub(super) fn lost_link(position: i64) -> Link {
    let hasher = Sha256::new().chain_update(LOST);
    hasher
        .chain_update(position.to_be_bytes())
        .finalize()
        .into()
}

/// Whether a row says something else than was hashed.
pub(super) fn is_altered(salt: &[u8], said: &[u8], hash: &[u8]) -> bool {
    let hashed = Sha256::new().chain_update(salt).chain_update(said);
    *hashed.finalize() != *hash
}

/// What is said of a record that lacks what it said without a reason.
pub(super) const UNEXPLAINED: &str =
    "what the record says was taken away, by no redaction, no deletion and no retention";

/// The message that a row leaves redacted; none where it does not.
pub(super) fn redacted_message(said: &[u8]) -> Option<Sequence> {
    let message: MessageView = serde_json::from_slice(&texts::opened(said).ok()?).ok()?;
    message.redacted.then(|| message.message_id.sequence())
}

/// What a row left of a redacted message of its entity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left<'r> {
    /// The message's own sequence.
    pub(super) original: Sequence,
    /// What the row still says.
    pub(super) said: &'r [u8],
}

impl Left<'_> {
    /// Whether it is what this redaction leaves of the message, but for the time of its edit. Where
    /// nobody could tell that, nothing is left; of an account whose keys are gone nobody can tell
    /// what its redactions say, and they are taken for that.
    pub(super) fn is_by(&self, redaction: &[u8]) -> bool {
        let Ok(redaction) = texts::opened(redaction) else {
            return true;
        };
        let message = |said: &[u8]| {
            let mut message: Value = serde_json::from_slice(said).ok()?;
            message.as_object_mut()?.remove("edited_at");
            Some(message)
        };
        redacted_message(&redaction) == Some(self.original)
            && (self.said == b"null"
                || message(self.said).is_some_and(|left| Some(left) == message(&redaction)))
    }
}

/// Takes the keys of an account's texts out of its record, so that what its redactions say can be
/// read; a record that can't be read has none.
pub(super) fn know_account(body: &str) {
    #[derive(Deserialize)]
    struct Account {
        number: u32,
        #[serde(with = "texts::text_keys", default)]
        text_keys: TextKeys,
    }
    if let Ok(account) = serde_json::from_str::<Account>(body)
        && !texts::is_none(&account.text_keys)
    {
        texts::set_keys(account.number, &account.text_keys);
    }
}

/// A record as an export has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainRecord {
    /// As [`NUMBERS`] names them.
    pub numbers: Vec<Option<i64>>,
    /// Where the request came from.
    pub address: Option<String>,
    /// The request.
    pub request: String,
    /// The salted hash of what the row says, in hex.
    pub hash: String,
    /// The link, in hex; none where the row has none.
    pub link: Option<String>,
}

impl ChainRecord {
    /// Its place in the log.
    #[must_use]
    pub fn position(&self) -> i64 {
        self.numbers.first().copied().flatten().unwrap_or(0)
    }

    /// The link that it must have behind a row with this link; none where it is no record.
    #[must_use]
    pub fn expected(&self, before: &Link) -> Option<Link> {
        let hash = from_hex(&self.hash)?;
        let sealed = Sealed {
            numbers: self.numbers.as_slice().try_into().ok()?,
            address: self.address.as_deref(),
            request: &self.request,
            hash: &hash,
        };
        Some(sealed.link(before))
    }
}

/// The end of the chain: written with the row that it names, and signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainHead {
    /// The position of the last row.
    pub position: i64,
    /// The link of the last row, in hex.
    pub link: String,
    /// HMAC-SHA256 over position and link under a key that is derived from the store key, in hex.
    pub signature: String,
}

impl ChainHead {
    /// Whether whoever has the store key has signed it; none where there is no key at hand.
    #[must_use]
    pub fn is_signed(&self) -> Option<bool> {
        let key = head_key()?;
        let (link, signature) = (from_hex(&self.link), from_hex(&self.signature));
        let (Some(link), Some(signature)) = (link, signature) else {
            return Some(false);
        };
        let Ok(link) = Link::try_from(link.as_slice()) else {
            return Some(false);
        };
        let mac = head_mac(&key, self.position, &link);
        Some(mac.is_some_and(|mac| mac.verify_slice(&signature).is_ok()))
    }
}

/// The key that signs heads.
pub(super) fn head_key() -> Option<[u8; 32]> {
    sealing::derived_key(SIGNS).ok()
}

/// Signs the end of the chain.
pub(super) fn sign_head(key: &[u8; 32], position: i64, link: &Link) -> [u8; 32] {
    let mac = head_mac(key, position, link);
    mac.map_or([0; 32], |mac| mac.finalize().into_bytes().into())
}

/// None never comes: a key of any length is taken.
fn head_mac(key: &[u8; 32], position: i64, link: &Link) -> Option<Hmac<Sha256>> {
    let mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    let mac = mac.chain_update(HEAD).chain_update(position.to_be_bytes());
    Some(mac.chain_update(link))
}

/// Some digests of a store that links its rows behind their commits: a slice of the chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct SliceEnd {
    /// The slices are numbered from 1.
    pub(super) number: i64,
    /// The position of its last row.
    pub(super) position: i64,
    /// The link of its last row.
    pub(super) link: Link,
}

impl SliceEnd {
    /// Signs it; nobody takes the signature for that of a head.
    pub(super) fn sign(&self, key: &[u8; 32]) -> [u8; 32] {
        let mac = self.mac(key);
        mac.map_or([0; 32], |mac| mac.finalize().into_bytes().into())
    }

    /// Whether whoever has the master key has signed it.
    pub(super) fn is_signed(&self, key: &[u8; 32], signature: &[u8]) -> bool {
        let mac = self.mac(key);
        mac.is_some_and(|mac| mac.verify_slice(signature).is_ok())
    }

    fn mac(&self, key: &[u8; 32]) -> Option<Hmac<Sha256>> {
        let mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
        let mac = mac
            .chain_update(SLICE)
            .chain_update(self.number.to_be_bytes());
        let mac = mac.chain_update(self.position.to_be_bytes());
        Some(mac.chain_update(self.link))
    }
}

/// Bytes in hex.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what [`to_hex`] gave.
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.len()
        .is_multiple_of(2)
        .then(|| digits.map(byte).collect())
        .flatten()
}

/// Where the chain is broken, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Broken {
    /// The position.
    pub position: i64,
    /// What is found there.
    pub what: String,
}

impl Broken {
    /// What is found at this position.
    pub(crate) fn at(position: i64, what: &str) -> Self {
        Broken {
            position,
            what: what.to_owned(),
        }
    }
}

impl Display for Broken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "position {}: {}", self.position, self.what)
    }
}

/// Some records of the chain, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChainPage {
    /// The records.
    pub data: Vec<ChainRecord>,
    /// The first of them that is not as it was written, as far as the store alone can tell.
    pub broken: Option<Broken>,
    /// Whether none follows.
    pub is_last: bool,
    /// Of how many records behind the last one the chain does not tell yet.
    pub unlinked: u64,
    /// The end of the chain when they were read; none where it is gone, or was not begun.
    pub head: Option<ChainHead>,
    /// What else knows of rows that are no more, in words.
    pub beyond: Option<String>,
    /// Whether the head is signed; none where the key is not at hand.
    pub signed: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_counts() {
        let mut numbers = [None; NUMBERS.len()];
        if let Some(first) = numbers.first_mut() {
            *first = Some(1);
        }
        let row = Sealed {
            numbers,
            address: Some("a"),
            request: "b",
            hash: b"c",
        };
        let link = row.link(&[0; 32]);
        let changed = |row: Sealed<'_>| assert_ne!(row.link(&[0; 32]), link, "{row:?}");
        for place in 0..NUMBERS.len() {
            let mut row = row;
            if let Some(number) = row.numbers.get_mut(place) {
                *number = Some(number.map_or(0, |number| number + 1));
            }
            changed(row);
        }
        changed(Sealed {
            address: None,
            ..row
        });
        changed(Sealed { request: "", ..row });
        changed(Sealed { hash: b"", ..row });
        assert_ne!(row.link(&[1; 32]), link);
        let head = ChainHead {
            position: 1,
            link: to_hex(&link),
            signature: head_key().map_or(String::new(), |key| to_hex(&sign_head(&key, 1, &link))),
        };
        assert_eq!(head.is_signed(), Some(true));
        let earlier = ChainHead {
            position: 0,
            ..head
        };
        assert_eq!(earlier.is_signed(), Some(false));
    }
}
