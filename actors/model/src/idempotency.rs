//! Idempotency keys as data: how a key and its request are known, and a key that is reserved.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::caller::Tenant;
use crate::position::Position;

/// What identifies a key in its tenant: a hash, so that a key's text is kept nowhere.
pub type KeyHash = [u8; 16];

/// The hash under which a key is known: per account and mode, on the operators' side per operator.
#[must_use]
pub fn key_hash(tenant: Tenant, key: &str) -> KeyHash {
    let mut hasher = Sha256::new();
    hasher.update(tenant.number().to_le_bytes());
    hasher.update(key.as_bytes());
    beginning(&hasher.finalize())
}

/// What a request is, so that the same key with another one is noticed: digests of all of it, and
/// of all but its body.
///
/// What is kept of it goes with what the request brought: whoever has the files could confirm a
/// guess of a short text that is redacted. What is left then tells requests apart by all but their
/// bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    whole: [u8; 16],
    head: [u8; 8],
    /// What earlier versions stored of the request.
    earlier: [u8; 16],
}

/// All of a request but its body.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "HTTP's own names")]
pub struct RequestHead<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    /// The acting user; empty where there is none.
    pub user: &'a str,
}

/// Bytes of a fingerprint as it is kept: the whole, then the head.
const WHOLE_BYTES: usize = 16;

const KEPT_BYTES: usize = WHOLE_BYTES + 8;

impl Fingerprint {
    /// The fingerprint of a request with this body.
    #[must_use]
    pub fn of(head: RequestHead<'_>, body: &[u8]) -> Self {
        let RequestHead {
            method,
            path,
            query,
            user,
        } = head;
        let [method, path, query, user] = [method, path, query, user].map(str::as_bytes);
        let whole = beginning(&digest(&[method, path, query, user, body]));
        Fingerprint {
            whole,
            head: beginning(&digest(&[method, path, query, user])),
            earlier: whole,
        }
    }

    /// Of one of so many parts of the body, which is kept by itself and goes by itself.
    #[must_use]
    pub fn of_part(self, part: &[u8], count: usize) -> Self {
        Fingerprint {
            whole: beginning(&digest(&[&self.head, &count.to_le_bytes(), part])),
            ..self
        }
    }

    /// The bytes that are stored beside the answer.
    #[must_use]
    pub fn bytes(self) -> [u8; KEPT_BYTES] {
        let mut bytes = [0; KEPT_BYTES];
        for (to, from) in bytes.iter_mut().zip(self.whole.iter().chain(&self.head)) {
            *to = *from;
        }
        bytes
    }

    /// Whether what was kept is of this request, as far as can be told.
    #[must_use]
    pub fn is_of(self, kept: &[u8]) -> bool {
        match kept.len() {
            KEPT_BYTES => kept == self.bytes(),
            WHOLE_BYTES => kept == self.earlier,
            0 => true,
            _ => kept == self.head,
        }
    }
}

/// A digest that tells the parts' lengths.
fn digest(parts: &[&[u8]]) -> impl AsRef<[u8]> {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize()
}

fn beginning<const N: usize>(digest: &impl AsRef<[u8]>) -> [u8; N] {
    let mut beginning = [0; N];
    for (to, from) in beginning.iter_mut().zip(digest.as_ref()) {
        *to = *from;
    }
    beginning
}

/// Where reserved keys are kept, and what they turn into.
pub trait ReservedKeys: Send + Sync {
    /// Reserves a key for this request, whatever was answered under it before; none while another
    /// request with it runs.
    fn reserve(self: Arc<Self>, key: KeyHash, request: Fingerprint) -> Option<Reservation>;

    /// Notes that the answer under this key is durable, in the row at this position.
    fn answered(&self, key: KeyHash, position: Position);

    /// Frees a key whose command came to nothing.
    fn release(&self, key: KeyHash);
}

/// A reserved key: it travels with its command and that one's commit. Dropped without an answer, the
/// key is free again.
pub struct Reservation {
    keys: Arc<dyn ReservedKeys>,
    hash: KeyHash,
    request: Fingerprint,
    settled: bool,
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").finish_non_exhaustive()
    }
}

impl Reservation {
    /// Holds a key, which was found free, for this request.
    #[must_use]
    pub fn new(keys: Arc<dyn ReservedKeys>, hash: KeyHash, request: Fingerprint) -> Self {
        Reservation {
            keys,
            hash,
            request,
            settled: false,
        }
    }

    /// The key's hash, which is written into the row.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// The request's fingerprint, which is written into the row.
    #[must_use]
    pub fn request(&self) -> Fingerprint {
        self.request
    }

    /// Notes that the answer is durable, in the row at this position.
    pub fn settle(mut self, position: Position) {
        self.settled = true;
        self.keys.answered(self.hash, position);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.settled {
            self.keys.release(self.hash);
        }
    }
}

/// How long a key's answer is kept.
pub const KEPT_FOR: Duration = Duration::from_hours(24);
