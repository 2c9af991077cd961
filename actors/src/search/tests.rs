//! What is found, how soon, and what is left of what was taken out.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::time::Instant;

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;
use colloquy_model::caller::Mode;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;

const SOON: Duration = Duration::from_secs(20);
const READS: QueueBounds = QueueBounds {
    each: 100,
    all: 1_000,
    wait: SOON,
};

fn fast() -> Pace {
    let short = Duration::from_millis(20);
    Pace {
        gather: Duration::ZERO,
        chores_every: short,
        erase_after: short,
        retry_after: short,
        rest: short,
    }
}

fn mine() -> Tenant {
    Tenant::of(1, Mode::Live)
}

fn place(path: &Path) -> Place {
    Place {
        path: path.to_owned(),
        reads: READS,
        told_for: None,
        threads: ThreadNames {
            follower: "finder",
            writer: "indexer",
            readers: "search",
        },
    }
}

/// Waits until searches know everything that was handed in up to this position.
pub(super) async fn reached<L: Layout>(search: &Search<L>, position: Position) {
    let mut reached = search.reached.clone();
    let there = reached.wait_for(|reached| *reached >= position);
    tokio::time::timeout(SOON, there).await.unwrap().unwrap();
}

fn window(limit: usize, offset: usize) -> Window {
    Window { limit, offset }
}

/// An index in a folder of its own.
struct Desk {
    folder: tempfile::TempDir,
    search: Search<Titled>,
    position: Position,
}

impl Desk {
    fn new() -> Self {
        Self::at(fast())
    }

    fn at(pace: Pace) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = place(&folder.path().join("c.db.search"));
        let (search, position) = Search::open_at(pace, &place, Position(i64::MAX)).unwrap();
        assert_eq!(position, Position(0));
        Desk {
            folder,
            search,
            position,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("c.db.search")
    }

    fn reopened(self, newest: Position) -> (Self, Position) {
        self.search.close();
        let (search, position) = Search::open_at(fast(), &place(&self.path()), newest).unwrap();
        (Desk { search, ..self }, position)
    }

    async fn hand_in(&self, change: EntryChange) -> Result<(), Closed> {
        let progress = Progress::at(self.position);
        self.search.hand_in(progress, vec![change], None).await
    }

    async fn put_in(&mut self, tenant: Tenant, number: u64, title: &str, content: &str) {
        let entry = Entry {
            number: EntityNumber(number),
            tenant,
            title: title.into(),
            content: content.into(),
        };
        let mut changes = EntryChange::put(entry);
        let last = changes.pop().unwrap();
        for change in changes {
            self.hand_in(change).await.unwrap();
        }
        self.position = self.position.next();
        self.hand_in(last).await.unwrap();
    }

    async fn put(&mut self, number: u64, title: &str, content: &str) {
        self.put_in(mine(), number, title, content).await;
    }

    async fn remove(&mut self, number: u64) {
        self.position = self.position.next();
        let change = EntryChange::Remove(EntityNumber(number));
        self.hand_in(change).await.unwrap();
    }

    async fn found_in(&self, tenant: Tenant, query: &str) -> Vec<u64> {
        reached(&self.search, self.position).await;
        let found = self
            .search
            .find(tenant, query, window(10_000, 0))
            .await
            .unwrap();
        assert_eq!(found.total, found.hits.len() as u64);
        found.hits.iter().map(|hit| hit.number.0).collect()
    }

    async fn found(&self, query: &str) -> Vec<u64> {
        self.found_in(mine(), query).await
    }

    /// Every byte of the index on the disk.
    fn bytes(&self) -> Vec<u8> {
        index::files(&self.path())
            .iter()
            .flat_map(|file| std::fs::read(file).unwrap_or_default())
            .collect()
    }
}

fn holds(bytes: &[u8], marker: &str) -> bool {
    bytes
        .windows(marker.len())
        .any(|window| window == marker.as_bytes())
}

#[tokio::test]
async fn a_title_counts_more_than_a_content_and_often_more_than_once() {
    let mut desk = Desk::new();
    let filler = "nothing of interest stands here at all ".repeat(5);
    desk.put(1, "Notes", &format!("{filler} refund {filler}"))
        .await;
    desk.put(2, "Refund policy", &filler).await;
    desk.put(
        3,
        "Notes",
        &format!("refund refund refund {filler} refund {filler}"),
    )
    .await;
    desk.put(4, "Notes", &filler).await;
    assert_eq!(desk.found("refund").await, [2, 3, 1]);
    assert_eq!(desk.found("refund policy").await, [2]);
    assert_eq!(desk.found("interest notes").await.len(), 3);
}

#[tokio::test]
async fn trees_are_merged_behind_what_was_put_in() {
    const TEXTS: u64 = 60;
    let mut desk = Desk::new();
    for number in 1..=TEXTS {
        let words: Vec<String> = (0..2_000).map(|n| format!("w{number}n{n}")).collect();
        desk.put(number, "Long", &words.join(" ")).await;
        assert_eq!(desk.found(&format!("w{number}n7")).await, [number]);
    }
    let reader = index::connect(&desk.path(), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let begun = Instant::now();
    loop {
        let sql = "SELECT count(DISTINCT segid) FROM texts_idx";
        let trees: i64 = reader.query_row(sql, [], |row| row.get(0)).unwrap();
        // Less than four of each size, each four times that of the one before.
        if trees <= 9 {
            break;
        }
        assert!(begun.elapsed() < SOON, "{trees} trees");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(desk.found("long").await.len() as u64, TEXTS);
}

#[tokio::test]
async fn words_phrases_and_beginnings_are_found_whatever_their_case_and_accents() {
    let mut desk = Desk::new();
    desk.put(
        1,
        "Crème brûlée",
        "Caramelise the sugar. E-mail: chef@example.com",
    )
    .await;
    desk.put(2, "東京タワー", "高さは333メートル。Straße").await;
    for query in [
        "creme",
        "CRÈME brulee",
        "sugar creme",
        "\"the sugar\"",
        "cara",
        "e-mail",
        "chef@example.com",
        "\"crème br",
    ] {
        assert_eq!(desk.found(query).await, [1], "{query}");
    }
    for query in [
        "東京",
        "タワー",
        "京タ",
        "333",
        "メートル",
        "straße",
        "高さは 東京",
    ] {
        assert_eq!(desk.found(query).await, [2], "{query}");
    }
    for query in [
        "\"sugar the\"",
        "ugar",
        "cara sugar xyz",
        "京東",
        "",
        "\"",
        "cara sugar \"cara\"",
    ] {
        assert_eq!(desk.found(query).await, [0_u64; 0], "{query}");
    }
}

#[tokio::test]
async fn nothing_is_found_by_another_account_or_in_the_other_mode() {
    let mut desk = Desk::new();
    let test = Tenant::of(1, Mode::Test);
    let other = Tenant::of(16, Mode::Live);
    desk.put_in(mine(), 1, "shared word", "").await;
    desk.put_in(test, 2, "shared word", "").await;
    desk.put_in(other, 3, "shared word", "").await;
    assert_eq!(desk.found("shared").await, [1]);
    assert_eq!(desk.found_in(test, "shared word").await, [2]);
    assert_eq!(desk.found_in(other, "\"shared word\"").await, [3]);
    assert_eq!(
        desk.found_in(Tenant::of(2, Mode::Live), "shared").await,
        [0_u64; 0]
    );
}

#[tokio::test]
async fn how_rare_a_word_is_elsewhere_moves_nothing() {
    let mut desk = Desk::new();
    desk.put(1, "alpha", "").await;
    desk.put(2, "beta", "").await;
    desk.put(3, "alpha beta", "").await;
    let ranks = async |desk: &Desk| {
        reached(&desk.search, desk.position).await;
        let alpha = desk
            .search
            .find(mine(), "alpha", window(1, 0))
            .await
            .unwrap()
            .hits[0]
            .rank;
        alpha
            - desk
                .search
                .find(mine(), "beta", window(1, 0))
                .await
                .unwrap()
                .hits[0]
                .rank
    };
    assert!(ranks(&desk).await.abs() < 1e-9);
    for number in 10..60 {
        desk.put_in(Tenant::of(2, Mode::Live), number, "beta", "")
            .await;
    }
    assert!(ranks(&desk).await.abs() < 1e-9);
}

#[tokio::test]
async fn pages_follow_one_another_and_the_total_is_exact() {
    let mut desk = Desk::new();
    for number in 1..=50 {
        desk.put(
            number,
            "same",
            &"word ".repeat(usize::try_from(number).unwrap()),
        )
        .await;
    }
    let whole = desk.found("word").await;
    let mut pages = Vec::new();
    for offset in (0..60).step_by(7) {
        let page = desk
            .search
            .find(mine(), "word", window(7, offset))
            .await
            .unwrap();
        assert_eq!(page.total, 50);
        pages.extend(page.hits.iter().map(|hit| hit.number.0));
    }
    assert_eq!(pages, whole);
    assert_eq!(desk.found("same").await.len(), 50);
    let equal: Vec<u64> = {
        let mut desk = Desk::new();
        for number in [3, 1, 2] {
            desk.put(number, "same", "").await;
        }
        desk.found("same").await
    };
    assert_eq!(equal, [3, 2, 1]);
}

#[tokio::test]
async fn a_text_replaces_the_one_before_and_a_removed_one_is_not_found() {
    let mut desk = Desk::new();
    desk.put(1, "first", "one two").await;
    desk.put(2, "second", "one three").await;
    assert_eq!(desk.found("one").await.len(), 2);
    desk.put(1, "first", "four two").await;
    assert_eq!(
        (desk.found("one").await, desk.found("four").await),
        (vec![2], vec![1])
    );
    desk.remove(2).await;
    desk.remove(77).await;
    assert_eq!(desk.found("one").await, [0_u64; 0]);
    // Handed in once more, as after a crash.
    desk.put(1, "first", "four two").await;
    assert_eq!(desk.found("four").await, [1]);
    let (desk, position) = desk.reopened(Position(i64::MAX));
    assert_eq!(position, Position(6));
    assert_eq!(
        (desk.found("four").await, desk.found("one").await),
        (vec![1], vec![])
    );
    let check = Connection::open(desk.path()).unwrap();
    check
        .execute_batch("INSERT INTO texts (texts, rank) VALUES ('integrity-check', 0)")
        .unwrap();
}

#[tokio::test]
async fn positions_without_texts_are_reached_and_written_down_too() {
    let desk = Desk::new();
    let all_up_to = |position| {
        desk.search
            .hand_in(Progress::at(position), Vec::new(), None)
    };
    all_up_to(Position(5)).await.unwrap();
    reached(&desk.search, Position(5)).await;
    let (desk, position) = desk.reopened(Position(i64::MAX));
    assert_eq!(
        (position, desk.search.position()),
        (Position(5), Position(5))
    );
    desk.search.close();
    let handed_in = desk
        .search
        .hand_in(Progress::at(Position(6)), Vec::new(), None);
    assert_eq!(handed_in.await, Err(Closed));
}

#[tokio::test]
async fn what_was_taken_out_is_gone_from_the_disk() {
    let mut desk = Desk::new();
    for number in 1..200 {
        desk.put(
            number,
            "keep",
            &format!("ordinary words and zebra{number} too"),
        )
        .await;
    }
    desk.put(
        500,
        "Confidential",
        &format!(
            "{} quagmire77 {}",
            "lorem ipsum ".repeat(3_000),
            "xylophone99 ".repeat(50)
        ),
    )
    .await;
    desk.put(501, "Old", "wombat55 is replaced").await;
    let long = format!("okapi66 {}", "axolotl88 lorem ".repeat(40_000));
    desk.put(502, "Narwhal44", &long).await;
    desk.put(503, "Long", &format!("{long} pangolin33")).await;
    assert_eq!(desk.found("quagmire77").await, [500]);
    assert_eq!(desk.found("wombat55").await, [501]);
    assert_eq!(desk.found("pangolin33").await, [503]);
    assert!(holds(&desk.bytes(), "wombat55") && holds(&desk.bytes(), "okapi66"));
    desk.remove(500).await;
    desk.put(501, "New", "something else").await;
    desk.remove(502).await;
    desk.put(503, "Long", &"lorem ".repeat(20_000)).await;
    reached(&desk.search, desk.position).await;
    let begun = Instant::now();
    let markers = [
        "quagmire77",
        "quagmire",
        "xylophone99",
        "confidential",
        "wombat55",
        "wombat",
        "okapi",
        "axolotl",
        "narwhal",
        "pangolin",
    ];
    loop {
        let bytes = desk.bytes();
        let left: Vec<_> = markers
            .iter()
            .filter(|marker| holds(&bytes, marker))
            .collect();
        if left.is_empty() {
            break;
        }
        assert!(begun.elapsed() < SOON, "still on the disk: {left:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(desk.found("zebra17 too").await, [17]);
}

#[tokio::test]
async fn a_file_that_was_left_while_it_was_made_or_knows_more_than_the_store_is_begun_anew() {
    let up_to = |position, ahead| Progress {
        position: Position(position),
        ahead: Position(ahead),
        lags: true,
    };
    let table = [
        (up_to(0, 0), 9, 0, "what has gone since is told by nothing"),
        (up_to(3, 7), 9, 3, "it lags for some"),
        (up_to(3, 7), 7, 3, "it lags for some"),
        (
            up_to(3, 7),
            6,
            0,
            "of some it knows what the store does not",
        ),
    ];
    for (progress, newest, wanted, why) in table {
        let desk = Desk::new();
        let entry = Entry {
            number: EntityNumber(1),
            tenant: mine(),
            title: "word".into(),
            content: String::new(),
        };
        let change = EntryChange::Put(Box::new(entry));
        let (written, is_written) = tokio::sync::oneshot::channel();
        let written = Box::new(|| written.send(()).unwrap());
        let handed_in = desk.search.hand_in(progress, vec![change], Some(written));
        handed_in.await.unwrap();
        is_written.await.unwrap();
        let (desk, position) = desk.reopened(Position(newest));
        assert_eq!(position, Position(wanted), "{why}");
        let found = desk.search.find(mine(), "word", window(1, 0)).await;
        assert_eq!(found.unwrap().total, u64::from(wanted > 0), "{why}");
    }
}

#[tokio::test]
async fn a_missing_damaged_foreign_or_too_new_file_is_begun_anew() {
    type Spoil = fn(&Path);
    let spoils: [(&str, Spoil); 5] = [
        ("gone", |path| std::fs::remove_file(path).unwrap()),
        ("garbage", |path| {
            std::fs::write(path, vec![0x5a; 50_000]).unwrap()
        }),
        ("cut", |path| {
            std::fs::File::options()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(6_000)
                .unwrap()
        }),
        ("version", |path| {
            Connection::open(path)
                .unwrap()
                .pragma_update(None, "user_version", 999)
                .unwrap()
        }),
        ("foreign", |path| {
            std::fs::remove_file(path).unwrap();
            Connection::open(path)
                .unwrap()
                .execute_batch("CREATE TABLE progress (position)")
                .unwrap();
        }),
    ];
    for (name, spoil) in spoils {
        let mut desk = Desk::new();
        for number in 1..=300 {
            desk.put(
                number,
                "word",
                &format!("text{number} {}", "filler ".repeat(50)),
            )
            .await;
        }
        desk.found("word").await;
        desk.search.close();
        spoil(&desk.path());
        let (mut desk, position) = desk.reopened(Position(i64::MAX));
        assert_eq!(position, Position(0), "{name}");
        let found = desk.search.find(mine(), "word", window(1, 0)).await;
        assert_eq!(found.unwrap().total, 0, "{name}");
        desk.put(1, "word", "").await;
        assert_eq!(desk.found("word").await, [1], "{name}");
    }
    let mut desk = Desk::new();
    desk.put(1, "word", "").await;
    desk.found("word").await;
    let (desk, position) = desk.reopened(Position(1));
    assert_eq!(position, Position(1));
    let (_, position) = desk.reopened(Position(0));
    assert_eq!(position, Position(0), "ahead of the store");
}

#[tokio::test]
async fn a_power_cut_takes_the_last_text_and_its_position_together() {
    let mut desk = Desk::at(Pace::default());
    desk.put(1, "word", "").await;
    assert_eq!(desk.found("word").await, [1]);
    let log = desk.folder.path().join("c.db.search-wal");
    let synced = std::fs::read(&log).unwrap().len();
    desk.put(2, "word", "").await;
    assert_eq!(desk.found("word").await, [2, 1]);
    let mut left = std::fs::read(&log).unwrap();
    assert!(synced < left.len());
    // Of what was not synced the disk has lost the last byte.
    left.pop();
    let after = tempfile::tempdir().unwrap();
    let path = after.path().join("c.db.search");
    std::fs::copy(desk.path(), &path).unwrap();
    std::fs::write(after.path().join("c.db.search-wal"), left).unwrap();
    let (search, position) = Search::<Titled>::open_at(fast(), &place(&path), Position(2)).unwrap();
    assert_eq!(position, Position(1));
    let mut desk = Desk {
        folder: after,
        search,
        position,
    };
    assert_eq!(desk.found("word").await, [1]);
    desk.put(2, "word", "").await;
    assert_eq!(desk.found("word").await, [2, 1]);
}

#[tokio::test]
async fn what_was_taken_out_before_a_crash_counts_as_erased_once_all_pages_are_scrubbed() {
    let seldom = Pace {
        erase_after: Duration::from_secs(3_600),
        ..fast()
    };
    let is_erased =
        |search: &Search<Titled>| search.is_erased_behind(search.erasing_due(1, Position(0)));
    let mut desk = Desk::at(seldom);
    desk.put(1, "word", "").await;
    assert_eq!(desk.found("word").await, [1]);
    assert!(is_erased(&desk.search), "nothing was taken out");
    desk.remove(1).await;
    assert_eq!(desk.found("word").await, [0_u64; 0]);
    assert!(!is_erased(&desk.search));
    let after = tempfile::tempdir().unwrap();
    let path = after.path().join("c.db.search");
    for end in ["", "-wal"] {
        let file = format!("c.db.search{end}");
        std::fs::copy(desk.folder.path().join(&file), after.path().join(&file)).unwrap();
    }
    let open = |pace| Search::<Titled>::open_at(pace, &place(&path), Position(2)).unwrap();
    let (search, position) = open(seldom);
    assert_eq!(position, Position(2));
    assert!(
        !is_erased(&search),
        "a crash has left what it did not scrub"
    );
    search.close();
    let (search, _) = open(seldom);
    assert!(is_erased(&search), "a stop scrubs what is left");
    search.close();
}

#[tokio::test]
async fn a_long_text_counts_as_erased_once_its_parts_are_deleted_and_their_pages_scrubbed() {
    let mut desk = Desk::new();
    desk.put(1, "long", &"word ".repeat(400_000)).await;
    assert_eq!(desk.found("word").await, [1]);
    desk.remove(1).await;
    assert_eq!(desk.found("word").await, [0_u64; 0]);
    let due = desk.search.erasing_due(1, desk.position);
    assert_eq!(due.gone, 1);
    let begun = Instant::now();
    while !desk.search.is_erased_behind(due) {
        assert!(begun.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let connection = Connection::open(desk.path()).unwrap();
    for table in ["long_texts", "long_parts", "long_blocks", "gone_texts"] {
        let left = connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get::<_, i64>(0)
        });
        assert_eq!(left, Ok(0), "{table}");
    }
}

#[tokio::test]
async fn long_texts_that_were_to_be_deleted_at_a_crash_are_deleted_behind_it() {
    let never = Pace {
        rest: Duration::from_secs(3_600),
        chores_every: Duration::from_secs(3_600),
        ..fast()
    };
    let mut desk = Desk::at(never);
    desk.put(1, "long", &"axolotl88 ".repeat(100_000)).await;
    desk.remove(1).await;
    assert_eq!(desk.found("axolotl88").await, [0_u64; 0]);
    let after = tempfile::tempdir().unwrap();
    let path = after.path().join("c.db.search");
    for end in ["", "-wal"] {
        let file = format!("c.db.search{end}");
        std::fs::copy(desk.folder.path().join(&file), after.path().join(&file)).unwrap();
    }
    let (search, position) =
        Search::<Titled>::open_at(fast(), &place(&path), desk.position).unwrap();
    let due = search.erasing_due(1, position);
    assert_eq!((position, due.gone), (desk.position, 1));
    let begun = Instant::now();
    while !search.is_erased_behind(due) {
        assert!(begun.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let after = Desk {
        folder: after,
        search,
        position,
    };
    assert!(!holds(&after.bytes(), "axolotl"));
}

#[tokio::test]
async fn an_index_of_an_earlier_version_is_taken_over_unless_it_was_being_written() {
    let mut desk = Desk::new();
    let mark = desk.folder.path().join("c.db.search.writing");
    desk.put(1, "word", "").await;
    desk.found("word").await;
    let (desk, position) = desk.reopened(Position(i64::MAX));
    assert_eq!(position, Position(1));
    desk.search.close();
    std::fs::write(&mark, "a boot of the machine").unwrap();
    let (mut desk, position) = desk.reopened(Position(i64::MAX));
    assert_eq!(position, Position(0));
    assert!(!mark.exists());
    desk.put(1, "word", "").await;
    assert_eq!(desk.found("word").await, [1]);
}

#[tokio::test]
async fn a_file_that_turns_out_to_be_damaged_while_running_is_deleted_with_the_closing() {
    let mut desk = Desk::new();
    for number in 1..=2_000 {
        desk.put(
            number,
            "word",
            &format!("text{number} {}", "filler ".repeat(20)),
        )
        .await;
    }
    desk.found("text7").await;
    // Opened anew, it has read next to nothing of the file when all but its beginning is overwritten.
    let (mut desk, position) = desk.reopened(Position(i64::MAX));
    assert_eq!(position, Position(2_000));
    let mut bytes = std::fs::read(desk.path()).unwrap();
    bytes[20 * 4_096..].fill(0x5a);
    std::fs::write(desk.path(), bytes).unwrap();
    for number in 1..=2_000 {
        desk.position = desk.position.next();
        let change = EntryChange::Remove(EntityNumber(number));
        if desk.hand_in(change).await.is_err() {
            break;
        }
    }
    let begun = Instant::now();
    while !desk.search.damaged() {
        assert!(begun.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    desk.search.close();
    assert!(!desk.path().exists());
    let (mut desk, position) = desk.reopened(Position(i64::MAX));
    assert_eq!(position, Position(0));
    desk.put(1, "word", "").await;
    reached(&desk.search, desk.position).await;
}

#[tokio::test]
async fn a_file_with_rows_that_cannot_be_is_damaged_and_nobody_waits_for_it_for_ever() {
    let mut desk = Desk::new();
    let long = "word ".repeat(20_000);
    desk.put(1, "long", &long).await;
    assert_eq!(desk.found("word").await, [1]);
    // The parts of a text that is not there, under the identifiers that the next one's will have.
    let connection = Connection::open(desk.path()).unwrap();
    let sql = "INSERT INTO long_parts (id, firsts) SELECT 2 * id, firsts FROM long_parts";
    assert_eq!(connection.execute(sql, []), Ok(1));
    desk.put(2, "long", &long).await;
    let begun = Instant::now();
    while !desk.search.damaged() {
        assert!(begun.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn no_query_is_wrong() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut desk = Desk::new();
    runtime.block_on(async {
        for (number, text) in (1..).zip([
            "NEAR and OR not",
            "a b c d e",
            "\"quoted\" (x) *",
            "東京 é 한국",
            "{col}: ^first",
        ]) {
            desk.put(number, text, text).await;
        }
        reached(&desk.search, desk.position).await;
        let long = ["word ", "\"", "東", "a\"b ", "(", "é"].map(|part| part.repeat(2_000));
        for query in &long {
            desk.search
                .find(mine(), query, window(10, 0))
                .await
                .unwrap();
        }
    });
    proptest!(|(typed in prop_oneof![
        any::<String>(),
        "[a-e \"*^:(){}+-]{0,30}",
        "((NEAR|AND|OR|NOT|title|content|[a-e]|\"|\\*|\\^|:|\\(|\\)|,|-|\\+|\\{|\\}) ?){0,12}",
    ])| {
        let found = runtime.block_on(desk.search.find(mine(), &typed, window(10, 0)));
        prop_assert!(found.is_ok(), "{typed:?}: {found:?}");
    });
}
