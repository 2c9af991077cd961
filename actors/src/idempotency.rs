//! Idempotency keys: which are running, and where the answers of those that are done stand. Memory
//! holds a bounded number of them; older ones stand behind, in slices of the store, each with a
//! filter in memory.
//!
//! A key is reserved before its command is enqueued. The reservation travels with the command and
//! its commit and ends there, as result or refusal, never when the caller leaves.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use sha2::{Digest, Sha256};

use crate::store::{KeptRow, ListFailure, ReadError, Store};
use colloquy_model::answer::Answer;
use colloquy_model::caller::Scope;
use colloquy_model::time::Timestamp;

/// What identifies a key in its scope: a hash, so that a key's text is kept nowhere.
pub type KeyHash = [u8; 16];

/// What a request is, so that the same key with another one is noticed: digests of all of it, and
/// of all but its body.
///
/// What is kept of it goes with what the request brought: whoever has the files could confirm a
/// guess of a short text that is redacted. What is left then tells requests apart by all but their
/// bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    /// One of a test's own, told apart by the number.
    #[cfg(test)]
    pub(crate) fn numbered(number: u8) -> Self {
        Fingerprint::of(
            RequestHead {
                method: "POST",
                path: "/",
                query: "",
                user: "",
            },
            &[number],
        )
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

/// The first 8 bytes of a key's hash: by these it stands in memory. The row, which has all of it,
/// decides.
pub(crate) type Short = u64;

/// What memory knows a key by.
pub(crate) fn short(hash: &KeyHash) -> Short {
    hash.first_chunk()
        .map_or(0, |first| u64::from_le_bytes(*first))
}

const SHARDS: usize = 16;
/// Keys in memory; beyond, the older ones go behind.
const KEYS_MAX: usize = 200_000;
/// Keys that go behind at once.
const SLICE: usize = 25_000;
/// So many slices of about the same size become one. So there are at most three of each size,
/// 25,000 keys and so many times that: of 10 million keys some 13 slices, and a new key costs a
/// look into each one's filter. Each filter is wrong for one key in 100, so one new key in ten
/// costs a read. A slice goes a day after its newest key, so that filters hold the keys of at most
/// 56 hours: at 10 million a day some 16 million, 20 MB.
const MERGED: usize = 4;

/// Where a key's answer stands; positions begin at 1.
type Place = i64;
const RUNNING: Place = 0;

/// Which keys a slice may hold: a Bloom filter of 10 bits a key, wrong for about 1 in 100 keys that
/// it does not hold.
#[derive(Debug)]
pub(crate) struct Filter(Vec<u8>);

const FILTER_BITS_PER_KEY: usize = 10;
const FILTER_PROBES: u64 = 7;

impl Filter {
    /// An empty one for so many keys.
    pub(crate) fn sized(keys: usize) -> Self {
        Filter(vec![0; (keys * FILTER_BITS_PER_KEY).div_ceil(8).max(1)])
    }

    /// How many keys it is made for.
    pub(crate) fn keys(&self) -> usize {
        self.0.len() * 8 / FILTER_BITS_PER_KEY
    }

    /// Takes in a key.
    pub(crate) fn add(&mut self, key: Short) {
        for (byte, bit) in self.places(key) {
            if let Some(byte) = self.0.get_mut(byte) {
                *byte |= bit;
            }
        }
    }

    /// As it was kept.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        Filter(bytes)
    }

    /// To be kept.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// False only if the key is not among them.
    pub(crate) fn may_hold(&self, key: Short) -> bool {
        self.places(key)
            .into_iter()
            .all(|(byte, bit)| self.0.get(byte).is_some_and(|held| held & bit != 0))
    }

    /// The bits that stand for a key: keys are hashes already, so two halves of one give all of
    /// them.
    fn places(&self, key: Short) -> impl Iterator<Item = (usize, u8)> + use<> {
        let bits = u64::try_from(self.0.len())
            .unwrap_or(0)
            .saturating_mul(8)
            .max(1);
        let step = key.rotate_left(32) | 1;
        (0..FILTER_PROBES).map(move |probe| {
            let place = key.wrapping_add(step.wrapping_mul(probe)) % bits;
            (usize::try_from(place / 8).unwrap_or(0), 1 << (place % 8))
        })
    }
}

/// Keys that the store holds and memory does not.
#[derive(Debug)]
pub(crate) struct Slice {
    /// How the store names it.
    pub(crate) number: i64,
    /// Which keys it may hold.
    pub(crate) filter: Filter,
    /// What has just been put there and leaves memory.
    pub(crate) keys: Vec<(Short, Place)>,
}

/// The process-wide map of keys.
#[derive(Debug)]
pub struct Keys {
    shards: [Mutex<HashMap<Short, Place>>; SHARDS],
    held: AtomicUsize,
    behind: RwLock<Vec<(i64, Filter)>>,
    keys_max: usize,
    slice: usize,
}

impl Default for Keys {
    fn default() -> Self {
        Keys::bounded(KEYS_MAX, SLICE)
    }
}

/// What a key turned out to be.
#[derive(Debug)]
pub enum Looked {
    /// Not in memory: it is now reserved. Its answer may stand behind, in one of these slices.
    Fresh(Reservation, Vec<i64>),
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
    request: Fingerprint,
    settled: bool,
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").finish_non_exhaustive()
    }
}

impl Keys {
    /// The hash under which a key is known: per account and mode, on the operators' side per
    /// operator.
    #[must_use]
    pub fn hash(scope: Scope, key: &str) -> KeyHash {
        let mut hasher = Sha256::new();
        hasher.update(scope.number().to_le_bytes());
        hasher.update(key.as_bytes());
        beginning(&hasher.finalize())
    }

    /// At most `keys_max` in memory; beyond, `slice` of them go behind.
    pub(crate) fn bounded(keys_max: usize, slice: usize) -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Keys {
            shards,
            held: AtomicUsize::new(0),
            behind: RwLock::default(),
            keys_max,
            slice,
        }
    }

    /// Reserves the key, or says what it is.
    #[must_use]
    pub fn look(self: &Arc<Self>, hash: KeyHash, request: Fingerprint) -> Looked {
        let key = short(&hash);
        let mut shard = self.shard(key).lock();
        match shard.get(&key) {
            Some(&RUNNING) => Looked::Running,
            Some(position) => Looked::Done {
                position: *position,
            },
            None => {
                // A key that goes behind is in a slice before it leaves the map.
                let slices = self.slices_of(key);
                self.insert(&mut shard, key, RUNNING);
                Looked::Fresh(
                    Reservation {
                        keys: Arc::clone(self),
                        hash,
                        request,
                        settled: false,
                    },
                    slices,
                )
            }
        }
    }

    /// Notes after a commit where a key's answer stands.
    pub fn done(&self, hash: KeyHash, position: i64) {
        let key = short(&hash);
        self.insert(&mut self.shard(key).lock(), key, position);
    }

    /// The same at the start, where newer keys have been noted before older ones.
    pub(crate) fn done_before(&self, hash: &KeyHash, position: i64) {
        let key = short(hash);
        let mut shard = self.shard(key).lock();
        if !shard.contains_key(&key) {
            self.insert(&mut shard, key, position);
        }
    }

    /// Forgets a key whose time is over, unless it has been used again since.
    pub fn forget_at(&self, hash: &KeyHash, position: i64) {
        self.remove(short(hash), position);
    }

    /// The oldest keys, where memory holds too many: they are to be put behind.
    pub(crate) fn overflow(&self) -> Option<Vec<(Short, Place)>> {
        if self.held.load(Ordering::Relaxed) <= self.keys_max {
            return None;
        }
        let mut done = Vec::with_capacity(self.keys_max);
        for shard in &self.shards {
            done.extend(
                shard
                    .lock()
                    .iter()
                    .filter(|(_, at)| **at != RUNNING)
                    .map(|(key, at)| (*key, *at)),
            );
        }
        if done.len() <= self.slice {
            return None;
        }
        done.select_nth_unstable_by_key(self.slice, |(_, at)| *at);
        done.truncate(self.slice);
        Some(done)
    }

    /// The slices that may hold this key.
    fn slices_of(&self, key: Short) -> Vec<i64> {
        let behind = self.behind.read();
        behind
            .iter()
            .filter(|(_, filter)| filter.may_hold(key))
            .map(|(slice, _)| *slice)
            .collect()
    }

    /// Whether all of these slices are still what keys are looked for in: only then did a read of
    /// them see all that they held.
    fn are_current(&self, slices: &[i64]) -> bool {
        let behind = self.behind.read();
        slices
            .iter()
            .all(|slice| behind.iter().any(|(number, _)| number == slice))
    }

    /// The oldest slices of about one size, where there are enough of them to become one.
    pub(crate) fn to_merge(&self) -> Option<Vec<i64>> {
        let mut by_size: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
        for (number, filter) in &*self.behind.read() {
            let times = filter.keys() / self.slice.max(1);
            by_size
                .entry(times.max(1).ilog(MERGED))
                .or_default()
                .push(*number);
        }
        let mut slices = by_size
            .into_values()
            .find(|slices| slices.len() >= MERGED)?;
        slices.sort_unstable();
        slices.truncate(MERGED);
        Some(slices)
    }

    /// The store holds these keys: memory needs them no more, nor the slices that they come from.
    pub(crate) fn put_behind(&self, slice: Slice, in_place_of: &[i64]) {
        {
            let mut behind = self.behind.write();
            behind.retain(|(number, _)| !in_place_of.contains(number));
            behind.push((slice.number, slice.filter));
        }
        for (key, position) in slice.keys {
            self.remove(key, position);
        }
    }

    /// The time of all keys of this slice is over.
    pub(crate) fn drop_slice(&self, slice: i64) {
        self.behind.write().retain(|(number, _)| *number != slice);
    }

    fn insert(&self, shard: &mut HashMap<Short, Place>, key: Short, place: Place) {
        if shard.insert(key, place).is_none() {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn remove(&self, key: Short, place: Place) {
        let mut shard = self.shard(key).lock();
        if shard.get(&key) == Some(&place) {
            shard.remove(&key);
            self.held.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn shard(&self, key: Short) -> &Mutex<HashMap<Short, Place>> {
        let [first, ..] = &self.shards;
        self.shards
            .get(usize::try_from(key >> 60).unwrap_or(0))
            .unwrap_or(first)
    }
}

impl Reservation {
    /// The key's hash, for the row.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// What the request is, for the row.
    #[must_use]
    pub fn request(&self) -> Fingerprint {
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
            self.keys.remove(short(&self.hash), RUNNING);
        }
    }
}

/// How long a key's answer is kept, in milliseconds.
pub(crate) const KEPT_MS: i64 = 24 * 60 * 60 * 1000;

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

    /// Whether the row at this position has this key's answer, and it is still kept.
    async fn holds(&self, hash: KeyHash, position: i64) -> Result<bool, ReadError> {
        let kept = self.store.kept(position).await?;
        Ok(kept.is_some_and(|kept| kept.hash == hash && kept.at > Timestamp::now().0 - KEPT_MS))
    }

    /// The position of the answer under a key that may be behind.
    async fn older(&self, hash: KeyHash, mut slices: Vec<i64>) -> Result<Option<i64>, ReadError> {
        while !slices.is_empty() {
            let found = self.store.older_key(slices.clone(), hash).await?;
            if found.is_some() || self.keys.are_current(&slices) {
                return Ok(found);
            }
            // Some became one meanwhile: what was read may have been on its way.
            slices = self.keys.slices_of(short(&hash));
        }
        Ok(None)
    }

    /// Reserves the key, or gives what is known of it.
    ///
    /// # Errors
    /// The store is away.
    pub async fn look(
        &self,
        scope: Scope,
        key: &str,
        request: Fingerprint,
    ) -> Result<Known, ListFailure> {
        let hash = Keys::hash(scope, key);
        loop {
            let position = match self.keys.look(hash, request) {
                Looked::Fresh(reservation, slices) => match self.older(hash, slices).await? {
                    Some(position) if self.holds(hash, position).await? => {
                        reservation.settle(position);
                        position
                    }
                    Some(_) | None => return Ok(Known::Fresh(reservation)),
                },
                Looked::Running => return Ok(Known::Running),
                Looked::Done { position } => position,
            };
            let kept = self.store.kept(position).await?;
            match kept.filter(|kept| kept.hash == hash && kept.at > Timestamp::now().0 - KEPT_MS) {
                None => self.keys.forget_at(&hash, position),
                Some(kept) if !request.is_of(&kept.request) => return Ok(Known::Reused),
                Some(kept) => {
                    let KeptRow {
                        done,
                        id,
                        etag,
                        body,
                        ..
                    } = kept;
                    return Ok(Known::Replay(Answer {
                        done,
                        id,
                        etag,
                        body,
                        replayed: true,
                    }));
                }
            }
        }
    }
}
