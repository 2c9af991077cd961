//! Idempotency keys: which are running, and where the answers of those that are done stand.
//!
//! A key is reserved before its command is enqueued. The reservation travels with the command and its commit and ends
//! there, as result or refusal, never when the caller leaves.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::answer::Answer;
use crate::caller::Scope;
use crate::store::{KeptRow, ReadError, Store};
use crate::time::Timestamp;

/// What identifies a key in its scope: a hash, so that a key's text is kept nowhere.
pub type KeyHash = [u8; 16];

const SHARDS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Running,
    Done { position: i64 },
}

/// The process-wide map of keys.
#[derive(Debug, Default)]
pub struct Keys {
    shards: [Mutex<HashMap<KeyHash, Place>>; SHARDS],
}

/// What a key turned out to be.
#[derive(Debug)]
pub enum Looked {
    /// Not seen before: it is now reserved.
    Fresh(Reservation),
    /// The first request with it is still running.
    Running,
    /// Its answer stands in the row at this position.
    Done {
        /// The row's position.
        position: i64,
    },
}

/// A reserved key. Dropped without an answer it is free again.
pub struct Reservation {
    keys: Arc<Keys>,
    hash: KeyHash,
    request: [u8; 16],
    settled: bool,
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").finish_non_exhaustive()
    }
}

impl Keys {
    /// The hash under which a key is known: per account and mode, on the operators' side per operator.
    #[must_use]
    pub fn hash(scope: Scope, key: &str) -> KeyHash {
        let mut hasher = Sha256::new();
        hasher.update(scope.number().to_le_bytes());
        hasher.update(key.as_bytes());
        first_half(&hasher.finalize())
    }

    /// What a request is, so that the same key with another one is noticed.
    #[must_use]
    pub fn request_hash(parts: &[&[u8]]) -> [u8; 16] {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update(part.len().to_le_bytes());
            hasher.update(part);
        }
        first_half(&hasher.finalize())
    }

    /// Reserves the key, or says what it is.
    #[must_use]
    pub fn look(self: &Arc<Self>, hash: KeyHash, request: [u8; 16]) -> Looked {
        let mut shard = self.shard(&hash).lock();
        match shard.get(&hash) {
            Some(Place::Running) => Looked::Running,
            Some(Place::Done { position }) => Looked::Done { position: *position },
            None => {
                shard.insert(hash, Place::Running);
                Looked::Fresh(Reservation { keys: Arc::clone(self), hash, request, settled: false })
            }
        }
    }

    /// Notes at the start, or after a commit, where a key's answer stands.
    pub fn done(&self, hash: KeyHash, position: i64) {
        self.shard(&hash).lock().insert(hash, Place::Done { position });
    }

    /// Forgets a key whose time is over, unless it has been used again since.
    pub fn forget_at(&self, hash: &KeyHash, position: i64) {
        let mut shard = self.shard(hash).lock();
        if shard.get(hash) == Some(&Place::Done { position }) {
            shard.remove(hash);
        }
    }

    fn release(&self, hash: &KeyHash) {
        self.shard(hash).lock().remove(hash);
    }

    fn shard(&self, hash: &KeyHash) -> &Mutex<HashMap<KeyHash, Place>> {
        let [first, ..] = self.shards.each_ref();
        let index = usize::from(hash.first().copied().unwrap_or(0)) % SHARDS;
        self.shards.get(index).unwrap_or(first)
    }
}

fn first_half(digest: &[u8]) -> [u8; 16] {
    let mut half = [0; 16];
    for (to, from) in half.iter_mut().zip(digest) {
        *to = *from;
    }
    half
}

impl Reservation {
    /// The key's hash, for the row.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// The request's hash, for the row.
    #[must_use]
    pub fn request(&self) -> [u8; 16] {
        self.request
    }

    /// The answer is durable, in the row at this position.
    pub fn settle(mut self, position: i64) {
        self.settled = true;
        self.keys.done(self.hash, position);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.settled {
            self.keys.release(&self.hash);
        }
    }
}

/// How long a key's answer is kept, in milliseconds.
const KEPT_MS: i64 = 24 * 60 * 60 * 1000;

/// What a request's key turned out to be.
#[derive(Debug)]
pub enum Known {
    /// Not seen in the last 24 hours: it is now reserved.
    Fresh(Reservation),
    /// The first request with it is still running.
    Running,
    /// It was used with another request.
    Reused,
    /// The first answer.
    Replay(Answer),
}

/// The keys together with the rows that hold their answers.
pub struct Idempotency {
    keys: Arc<Keys>,
    store: Arc<dyn Store>,
}

impl Idempotency {
    pub(crate) fn new(keys: Arc<Keys>, store: Arc<dyn Store>) -> Self {
        Idempotency { keys, store }
    }

    /// Reserves the key, or gives what is known of it.
    ///
    /// # Errors
    /// The store is away.
    pub async fn look(&self, scope: Scope, key: &str, request: [u8; 16]) -> Result<Known, ReadError> {
        let hash = Keys::hash(scope, key);
        loop {
            let position = match self.keys.look(hash, request) {
                Looked::Fresh(reservation) => return Ok(Known::Fresh(reservation)),
                Looked::Running => return Ok(Known::Running),
                Looked::Done { position } => position,
            };
            let kept = self.store.kept(position).await?;
            match kept.filter(|kept| kept.hash == hash && kept.at > Timestamp::now().0 - KEPT_MS) {
                None => self.keys.forget_at(&hash, position),
                Some(kept) if kept.request != request => return Ok(Known::Reused),
                Some(kept) => {
                    let KeptRow { done, id, etag, body, .. } = kept;
                    return Ok(Known::Replay(Answer { done, id, etag, body, replayed: true }));
                }
            }
        }
    }
}
