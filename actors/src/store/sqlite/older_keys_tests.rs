//! That no key is lost while slices are written, become one and go, and what a new key costs
//! however many are kept.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it measured"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::OpenFlags;
use tempfile::TempDir;

use super::*;
use crate::idempotency::{Keys, Looked, numbered};
use crate::store::sqlite::{connect, schema};
use colloquy_model::idempotency::ReservedKeys;
use colloquy_model::position::Position;

/// Keys on the shelves of a store that does nothing else.
struct Desk {
    folder: TempDir,
    connection: Connection,
    shelving: Shelving,
    keys: Arc<Keys>,
    bounds: (usize, usize),
    now: Timestamp,
}

fn hash(key: u64) -> KeyHash {
    let mut hash = [0; 16];
    let (half, _) = hash.split_at_mut(8);
    half.copy_from_slice(
        &key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .to_le_bytes(),
    );
    hash
}

impl Desk {
    fn new(bounds: (usize, usize)) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("colloquy.db");
        let mut connection = connect(
            &path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        )
        .unwrap();
        schema::migrate(&mut connection).unwrap();
        // What a machine's crash would leave is of no matter here.
        connection
            .pragma_update(None, "synchronous", "OFF")
            .unwrap();
        let shelving = Shelving::open(&connection).unwrap();
        Desk {
            folder,
            connection,
            shelving,
            keys: Arc::new(Keys::bounded(bounds.0, bounds.1)),
            bounds,
            now: Timestamp(1),
        }
    }

    /// The process is killed and started again; what stood in memory only is noted anew from the
    /// rows, which are not here.
    fn crash(&mut self, position: i64) {
        let path = self.folder.path().join("colloquy.db");
        self.connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
        self.shelving = Shelving::open(&self.connection).unwrap();
        self.keys = Arc::new(Keys::bounded(self.bounds.0, self.bounds.1));
        fill(&self.connection, &*self.keys, self.now).unwrap();
        let last: i64 = self.one("SELECT coalesce(max(last_pos), 0) FROM key_slices");
        for position in last + 1..=position {
            self.keys
                .note_recovered(&hash(position.unsigned_abs()), Position(position));
        }
    }

    fn step(&mut self) -> bool {
        self.shelving
            .run(&self.connection, &*self.keys, self.now)
            .unwrap()
    }

    fn one(&self, sql: &str) -> i64 {
        self.connection
            .query_row(sql, [], |row| row.get(0))
            .unwrap()
    }

    /// The position of a key, wherever it is, and in how many slices it was looked for.
    fn look(&self, key: u64) -> (Option<Position>, usize) {
        match self.keys.look(hash(key), numbered(0)) {
            Looked::Done { position } => (Some(position), 0),
            Looked::Running => (None, 0),
            Looked::Fresh(_, slices) => (
                find(&self.connection, &slices, &hash(key)).unwrap(),
                slices.len(),
            ),
        }
    }
}

#[test]
fn no_key_is_lost_while_slices_become_one_and_a_crash_comes_at_any_time() {
    for crash_every in [3, 7, 50] {
        let mut desk = Desk::new((2_000, 1_000));
        let (mut position, mut steps) = (0_i64, 0_u32);
        while position < 40_000 {
            for _ in 0..500 {
                position += 1;
                desk.keys
                    .answered(hash(position.unsigned_abs()), Position(position));
            }
            for _ in 0..3 {
                steps += 1;
                desk.step();
                if steps.is_multiple_of(crash_every * 3) {
                    desk.crash(position);
                }
            }
            for key in [1, position / 2, position - 1_500, position]
                .into_iter()
                .filter(|key| *key > 0)
            {
                assert_eq!(
                    desk.look(key.unsigned_abs()).0,
                    Some(Position(key)),
                    "of {position}, a crash every {crash_every}"
                );
            }
        }
        while desk.step() {}
        assert!((1..=position).all(|key| desk.look(key.unsigned_abs()).0 == Some(Position(key))));
        assert!(desk.one("SELECT count(*) FROM key_slices") <= 9);
        let strays =
            "SELECT count(*) FROM older_keys WHERE slice NOT IN (SELECT slice FROM key_slices)";
        assert_eq!(
            desk.one(strays),
            0,
            "what was being written at a crash is taken away"
        );
    }
}

#[test]
fn the_newest_answer_under_a_key_counts_when_slices_become_one() {
    let mut desk = Desk::new((10, 5));
    let mut newest: HashMap<u64, i64> = HashMap::new();
    for position in 1..=400_i64 {
        let key = position.unsigned_abs() * 7 % 60;
        desk.keys.answered(hash(key), Position(position));
        newest.insert(key, position);
        desk.step();
    }
    while desk.step() {}
    for (key, position) in newest {
        assert_eq!(desk.look(key).0, Some(Position(position)));
    }
}

#[test]
fn a_slice_goes_in_pieces_when_its_day_is_over() {
    let mut desk = Desk::new((10, 20_000));
    for key in 1..=40_000_u64 {
        desk.keys
            .answered(hash(key), Position(i64::try_from(key).unwrap()));
    }
    while desk.step() {}
    assert_eq!(
        (desk.look(777).0, desk.look(40_001)),
        (Some(Position(777)), (None, 0))
    );
    let wrong = (50_000..60_000).filter(|key| desk.look(*key).1 > 0).count();
    assert!(wrong < 200, "{wrong} of 10,000 new keys would cost a read");
    desk.now = desk.now + KEPT_FOR;
    desk.shelving.look_for_old();
    while desk.step() {}
    assert_eq!(desk.look(777).0, Some(Position(777)));
    desk.now.0 += 1;
    desk.shelving.look_for_old();
    let mut pieces = 0;
    while desk.step() {
        assert_eq!(desk.look(777), (None, 0), "whoever comes now needs no read");
        pieces += 1;
    }
    assert!(pieces > 1, "{pieces}");
    for table in ["older_keys", "key_slices"] {
        assert_eq!(desk.one(&format!("SELECT count(*) FROM {table}")), 0);
    }
}

/// With `KEYS=10000000` in the environment, of a release build: what it costs at 10 million a day.
#[test]
fn a_new_key_is_looked_for_in_few_slices_however_many_are_kept() {
    const NEW: u64 = 20_000;
    let most = std::env::var("KEYS")
        .ok()
        .and_then(|keys| keys.parse().ok())
        .unwrap_or(400_000);
    let mut desk = Desk::new((200_000, 25_000));
    let (mut kept, mut longest, mut wrote) = (0_u64, Duration::ZERO, Duration::ZERO);
    for until in [200_000, 400_000, 2_000_000, 10_000_000]
        .into_iter()
        .filter(|until| *until <= most)
    {
        while kept < until {
            for _ in 0..1_000 {
                kept += 1;
                desk.keys
                    .answered(hash(kept), Position(i64::try_from(kept).unwrap()));
            }
            let begun = Instant::now();
            desk.step();
            longest = longest.max(begun.elapsed());
            wrote += begun.elapsed();
        }
        let slices = desk.one("SELECT count(*) FROM key_slices");
        let bytes = desk.one("SELECT coalesce(sum(length(filter)), 0) FROM key_slices");
        let request = numbered(0);
        let begun = Instant::now();
        let looked: Vec<Looked> = (0..NEW)
            .map(|key| desk.keys.look(hash(1_000_000_000 + key), request))
            .collect();
        let in_memory = begun.elapsed();
        let may_be =
            |looked: &&Looked| matches!(looked, Looked::Fresh(_, slices) if !slices.is_empty());
        let reads = looked.iter().filter(may_be).count();
        drop(looked);
        let begun = Instant::now();
        assert!((0..NEW).all(|key| desk.look(1_000_000_000 + key).0.is_none()));
        println!(
            "{kept} keys: {slices} slices, filters of {bytes} bytes; a new key: {:?} in memory, {:?} with its reads, {:.1} % \
             of them read; the writer: at worst {longest:?} at once, {:?} for each key",
            in_memory / u32::try_from(NEW).unwrap(),
            begun.elapsed() / u32::try_from(NEW).unwrap(),
            100.0 * f64::from(u32::try_from(reads).unwrap())
                / f64::from(u32::try_from(NEW).unwrap()),
            wrote / u32::try_from(kept).unwrap(),
        );
        assert!(slices <= 19, "{slices} slices of {kept} keys");
        assert!(
            bytes <= i64::try_from(kept).unwrap() * 10 / 8 + 64,
            "{bytes} bytes for {kept} keys"
        );
        assert!(
            u64::try_from(reads).unwrap() < NEW / 5,
            "{reads} of {NEW} new keys cost a read"
        );
    }
}
