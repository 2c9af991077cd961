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

use crate::store::{
    CommitLog, KeptRow, KeyCache, KeyFilter, KeyPosition, KeySlice, ListFailure, ReadError,
    ShortKey, short_key,
};
use colloquy_model::answer::Answer;
use colloquy_model::caller::Tenant;
use colloquy_model::idempotency::{
    Fingerprint, KEPT_FOR, KeyHash, Reservation, ReservedKeys, key_hash,
};
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

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

/// In the place of an answer's position, while the first request with the key is running.
const RUNNING: Position = Position::ZERO;

/// The process-wide map of keys.
#[derive(Debug)]
pub struct Keys {
    shards: [Mutex<HashMap<ShortKey, Position>>; SHARDS],
    held: AtomicUsize,
    behind: RwLock<Vec<(i64, KeyFilter)>>,
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
        position: Position,
    },
}

impl Keys {
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
        let key = short_key(&hash);
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
                let keys: Arc<dyn ReservedKeys> = Arc::clone(self) as _;
                Looked::Fresh(Reservation::new(keys, hash, request), slices)
            }
        }
    }

    /// Whether something is known of a key: it is answered, or its request runs.
    fn knows(&self, hash: &KeyHash) -> bool {
        let key = short_key(hash);
        self.shard(key).lock().contains_key(&key)
    }

    /// Forgets a key whose time is over, unless it has been used again since.
    pub fn forget_at(&self, hash: &KeyHash, position: Position) {
        self.remove(short_key(hash), position);
    }

    /// The slices that may hold this key.
    fn slices_of(&self, key: ShortKey) -> Vec<i64> {
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

    fn insert(&self, shard: &mut HashMap<ShortKey, Position>, key: ShortKey, position: Position) {
        if shard.insert(key, position).is_none() {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn remove(&self, key: ShortKey, position: Position) {
        let mut shard = self.shard(key).lock();
        if shard.get(&key) == Some(&position) {
            shard.remove(&key);
            self.held.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn shard(&self, key: ShortKey) -> &Mutex<HashMap<ShortKey, Position>> {
        let [first, ..] = &self.shards;
        self.shards
            .get(usize::try_from(key >> 60).unwrap_or(0))
            .unwrap_or(first)
    }
}

impl ReservedKeys for Keys {
    fn reserve(self: Arc<Self>, key: KeyHash, request: Fingerprint) -> Option<Reservation> {
        let short = short_key(&key);
        let mut shard = self.shard(short).lock();
        if shard.get(&short) == Some(&RUNNING) {
            return None;
        }
        self.insert(&mut shard, short, RUNNING);
        let keys: Arc<dyn ReservedKeys> = Arc::clone(&self) as _;
        Some(Reservation::new(keys, key, request))
    }

    fn answered(&self, key: KeyHash, position: Position) {
        let key = short_key(&key);
        self.insert(&mut self.shard(key).lock(), key, position);
    }

    fn release(&self, key: KeyHash) {
        self.remove(short_key(&key), RUNNING);
    }
}

impl KeyCache for Keys {
    fn note_recovered(&self, key: &KeyHash, position: Position) {
        let key = short_key(key);
        let mut shard = self.shard(key).lock();
        if !shard.contains_key(&key) {
            self.insert(&mut shard, key, position);
        }
    }

    fn overflow(&self) -> Option<Vec<KeyPosition>> {
        if self.held.load(Ordering::Relaxed) <= self.keys_max {
            return None;
        }
        let mut done = Vec::with_capacity(self.keys_max);
        for shard in &self.shards {
            done.extend(
                shard
                    .lock()
                    .iter()
                    .filter(|(_, position)| **position != RUNNING)
                    .map(|(&key, &position)| KeyPosition { key, position }),
            );
        }
        if done.len() <= self.slice {
            return None;
        }
        done.select_nth_unstable_by_key(self.slice, |held| held.position);
        done.truncate(self.slice);
        Some(done)
    }

    fn slices_to_merge(&self) -> Option<Vec<i64>> {
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

    fn put_behind(&self, slice: KeySlice, in_place_of: &[i64]) {
        {
            let mut behind = self.behind.write();
            behind.retain(|(number, _)| !in_place_of.contains(number));
            behind.push((slice.number, slice.filter));
        }
        for KeyPosition { key, position } in slice.keys {
            self.remove(key, position);
        }
    }

    fn drop_slice(&self, slice: i64) {
        self.behind.write().retain(|(number, _)| *number != slice);
    }
}

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

/// Whether the row at this position has this key's answer, and it is still kept.
async fn holds(
    store: &dyn CommitLog,
    hash: KeyHash,
    position: Position,
) -> Result<bool, ReadError> {
    let kept = store.kept(position).await?;
    Ok(kept.is_some_and(|kept| kept.hash == hash && kept.at > Timestamp::now() - KEPT_FOR))
}

/// Where the answer stands that any process has given under a key, while it is kept.
pub(crate) async fn answer_under(
    store: &dyn CommitLog,
    hash: KeyHash,
) -> Result<Option<Position>, ReadError> {
    match store.older_key(Vec::new(), hash).await? {
        Some(position) if holds(store, hash, position).await? => Ok(Some(position)),
        Some(_) | None => Ok(None),
    }
}

/// Gives a reservation back if no other process has answered its key; otherwise the answer is known
/// here from then on. For requests that do something before they commit: memory does not know what
/// another process has answered.
pub(crate) async fn still_reserved(
    store: &dyn CommitLog,
    reservation: Reservation,
) -> Result<Option<Reservation>, ReadError> {
    if !store.is_shared() {
        return Ok(Some(reservation));
    }
    Ok(match answer_under(store, reservation.hash()).await? {
        Some(position) => {
            reservation.settle(position);
            None
        }
        None => Some(reservation),
    })
}

/// The keys together with the rows that hold their answers.
pub struct Idempotency {
    keys: Arc<Keys>,
    store: Arc<dyn CommitLog>,
}

impl Idempotency {
    pub(crate) fn new(keys: Arc<Keys>, store: Arc<dyn CommitLog>) -> Self {
        Idempotency { keys, store }
    }

    /// The position of the answer under a key that may be behind.
    async fn older(
        &self,
        hash: KeyHash,
        mut slices: Vec<i64>,
    ) -> Result<Option<Position>, ReadError> {
        while !slices.is_empty() {
            let found = self.store.older_key(slices.clone(), hash).await?;
            if found.is_some() || self.keys.are_current(&slices) {
                return Ok(found);
            }
            // Some became one meanwhile: what was read may have been on its way.
            slices = self.keys.slices_of(short_key(&hash));
        }
        Ok(None)
    }

    /// Looks whether another process has answered a key of which nothing is known here; from then
    /// on it is known. Memory alone does not tell: a request that is refused meets no answer.
    ///
    /// # Errors
    /// The store is away.
    pub async fn learn(&self, tenant: Tenant, key: &str) -> Result<bool, ListFailure> {
        let hash = key_hash(tenant, key);
        if !self.store.is_shared() || self.keys.knows(&hash) {
            return Ok(false);
        }
        let position = answer_under(&*self.store, hash).await?;
        if let Some(position) = position {
            self.keys.note_recovered(&hash, position);
        }
        Ok(position.is_some())
    }

    /// [`still_reserved`], for whoever asks from outside.
    ///
    /// # Errors
    /// The store is away.
    pub async fn still_reserved(
        &self,
        reservation: Reservation,
    ) -> Result<Option<Reservation>, ListFailure> {
        Ok(still_reserved(&*self.store, reservation).await?)
    }

    /// Reserves the key, or gives what is known of it.
    ///
    /// # Errors
    /// The store is away.
    pub async fn look(
        &self,
        tenant: Tenant,
        key: &str,
        request: Fingerprint,
    ) -> Result<Known, ListFailure> {
        let hash = key_hash(tenant, key);
        loop {
            let position = match self.keys.look(hash, request) {
                Looked::Fresh(reservation, slices) => match self.older(hash, slices).await? {
                    Some(position) if holds(&*self.store, hash, position).await? => {
                        reservation.settle(position);
                        position
                    }
                    Some(_) | None => return Ok(Known::Fresh(reservation)),
                },
                Looked::Running => return Ok(Known::Running),
                Looked::Done { position } => position,
            };
            let kept = self.store.kept(position).await?;
            match kept.filter(|kept| kept.hash == hash && kept.at > Timestamp::now() - KEPT_FOR) {
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

/// A fingerprint of a test's own, told apart by the number.
#[cfg(test)]
pub(crate) fn numbered(number: u8) -> Fingerprint {
    let head = colloquy_model::idempotency::RequestHead {
        method: "POST",
        path: "/",
        query: "",
        user: "",
    };
    Fingerprint::of(head, &[number])
}
