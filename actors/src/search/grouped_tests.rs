//! What is found of groups, against a model that goes over all texts; what is left of what was
//! taken out; when an index is too old to be followed up.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::tests::reached;
use super::*;
use colloquy_model::caller::Mode;
use colloquy_model::entity_number::EntityNumber;

const SOON: Duration = Duration::from_secs(20);
const WORDS: [&str; 5] = ["ant", "bee", "cat", "dog", "bees"];

fn mine() -> Tenant {
    Tenant::of(1, Mode::Live)
}

fn place(folder: &Path) -> Place {
    Place {
        path: folder.join("c.db.groups"),
        reads: QueueBounds {
            each: 100,
            all: 1_000,
            wait: SOON,
        },
        told_for: None,
        threads: ThreadNames {
            follower: "finder",
            writer: "indexer",
            readers: "search",
        },
    }
}

struct Desk {
    folder: tempfile::TempDir,
    search: Search<Grouped>,
    position: Position,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let short = Duration::from_millis(20);
        let pace = Pace {
            gather: Duration::ZERO,
            chores_every: short,
            erase_after: short,
            retry_after: short,
            rest: short,
        };
        let (search, position) =
            Search::open_at(pace, &place(folder.path()), Position(i64::MAX)).unwrap();
        Desk {
            folder,
            search,
            position,
        }
    }

    async fn take(&mut self, changes: Vec<GroupChange>) {
        self.position = self.position.next();
        let handed_in = self
            .search
            .hand_in(Progress::at(self.position), changes, None);
        handed_in.await.unwrap();
    }

    async fn find(&self, query: &str, filter: GroupFilter) -> Found {
        reached(&self.search, self.position).await;
        let all = Window {
            limit: 1_000,
            offset: 0,
        };
        let found = self
            .search
            .find((mine(), query), filter, all)
            .await
            .unwrap();
        assert_eq!(found.total, found.hits.len() as u64);
        found
    }

    async fn found(&self, query: &str) -> Vec<u64> {
        let found = self.find(query, GroupFilter::default()).await;
        found.hits.iter().map(|hit| hit.number.0).collect()
    }

    fn holds(&self, marker: &str) -> bool {
        let files = index::files(&place(self.folder.path()).path);
        files.iter().any(|file| {
            let bytes = std::fs::read(file).unwrap_or_default();
            bytes
                .windows(marker.len())
                .any(|window| window == marker.as_bytes())
        })
    }
}

fn group(number: u64, label: u64, facet: i64) -> GroupChange {
    GroupChange::Group(Group {
        number: EntityNumber(number),
        label: EntityNumber(label),
        facets: [facet, 0, 0, 0],
    })
}

fn text(group: u64, number: u64, text: &str) -> GroupChange {
    GroupChange::Text {
        group: EntityNumber(group),
        number,
        tenant: mine(),
        text: text.to_owned(),
    }
}

fn label(number: u64, text: &str) -> Label {
    Label {
        number: EntityNumber(number),
        tenant: mine(),
        text: text.to_owned(),
    }
}

#[tokio::test]
async fn more_texts_with_a_word_count_more_and_rare_words_more_than_frequent_ones() {
    let mut desk = Desk::new();
    let mut changes = Vec::new();
    for number in 1..=20 {
        changes.push(group(number, 1, 0));
        changes.push(text(number, 1, "frequent words stand here"));
    }
    changes.push(text(7, 2, "frequent again"));
    changes.push(text(9, 2, "something rare"));
    changes.push(text(9, 3, "something rare"));
    changes.push(text(11, 2, &format!("rare {}", "filler ".repeat(200))));
    desk.take(changes).await;
    assert_eq!(desk.found("rare").await, [9, 11]);
    let by_frequent = desk.found("frequent").await;
    assert_eq!((by_frequent[0], by_frequent.len()), (7, 20));
    assert_eq!(by_frequent[19], 11, "the longest is last");
    assert_eq!(desk.found("frequent rare").await, [9, 11]);
    assert_eq!(desk.found("rare frequent").await, [9, 11]);
}

#[tokio::test]
async fn groups_that_stand_close_together_and_far_apart_are_filtered_alike() {
    let mut desk = Desk::new();
    let mut changes = Vec::new();
    for number in 1..=100 {
        changes.push(group(number, 1, i64::from(number % 2 == 0)));
        let is_apart = [3, 50, 98].contains(&number);
        let close = ["close", "between"][usize::from(number % 3 == 0)];
        let apart = ["", " apart"][usize::from(is_apart)];
        changes.push(text(number, 1, &format!("{close}{apart}")));
    }
    desk.take(changes).await;
    let even = GroupFilter {
        facets: [Some(1), None, None, None],
        ..GroupFilter::default()
    };
    let numbers = async |word, filter| {
        let found = desk.find(word, filter).await.hits;
        let mut numbers: Vec<u64> = found.iter().map(|hit| hit.number.0).collect();
        numbers.sort_unstable();
        numbers
    };
    let close = (1..=100).filter(|number| number % 3 != 0);
    assert_eq!(numbers("apart", GroupFilter::default()).await, [3, 50, 98]);
    assert_eq!(numbers("apart", even).await, [50, 98]);
    let of_close = numbers("close", GroupFilter::default()).await;
    assert_eq!(of_close, close.clone().collect::<Vec<_>>());
    let even_ones = close.filter(|number| number % 2 == 0);
    assert_eq!(numbers("close", even).await, even_ones.collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_replaced_or_emptied_is_gone_from_the_disk_and_a_label_nobody_has_is_not_kept() {
    let mut desk = Desk::new();
    desk.take(vec![
        group(1, 1, 0),
        GroupChange::Label(label(1, "oldlabel")),
        GroupChange::Relabel(label(2, "unknownlabel")),
        text(1, 1, "firstmarker stays"),
        text(1, 2, "secondmarker"),
        text(2, 1, "orphanmarker"),
    ])
    .await;
    assert_eq!(desk.found("secondmarker oldlabel").await, [1]);
    for nowhere in ["unknownlabel", "orphanmarker"] {
        assert_eq!(desk.found(nowhere).await, [0_u64; 0]);
        assert!(!desk.holds(nowhere), "{nowhere}");
    }
    assert!(desk.holds("secondmarker"), "the search is blind");
    desk.take(vec![
        text(1, 1, "stays"),
        text(1, 2, ""),
        GroupChange::Relabel(label(1, "newlabel")),
    ])
    .await;
    assert_eq!(desk.found("stays newlabel").await, [1]);
    let gone = ["firstmarker", "secondmarker", "oldlabel"];
    for word in gone {
        assert_eq!(desk.found(word).await, [0_u64; 0], "{word}");
    }
    let begun = std::time::Instant::now();
    while gone.iter().any(|word| desk.holds(word)) {
        assert!(begun.elapsed() < SOON, "words stay in the file");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn an_index_that_lags_behind_what_can_be_told_is_begun_anew() {
    let mut desk = Desk::new();
    desk.take(vec![group(1, 1, 0), text(1, 1, "word")]).await;
    assert_eq!(desk.found("word").await, [1]);
    let Desk {
        folder,
        search,
        position,
    } = desk;
    search.close();
    let open = |told_for, newest| {
        let place = Place {
            told_for,
            ..place(folder.path())
        };
        let (search, position) = Search::<Grouped>::open(&place, newest).unwrap();
        search.close();
        position
    };
    let at_once = Some(Duration::ZERO);
    std::thread::sleep(Duration::from_millis(2));
    let newer = position.next();
    assert_eq!(open(None, newer), position);
    assert_eq!(open(at_once, position), position, "nothing is missing");
    assert_eq!(open(Some(SOON), newer), position);
    assert_eq!(open(at_once, newer), Position::ZERO);
}

#[tokio::test]
async fn an_index_that_lags_for_some_is_as_old_as_what_it_knows_of_all() {
    let told_for = Some(Duration::from_millis(50));
    for (lags, wanted) in [(true, Position::ZERO), (false, Position(2))] {
        let mut desk = Desk::new();
        desk.take(vec![group(1, 1, 0), text(1, 1, "word")]).await;
        assert_eq!(desk.found("word").await, [1]);
        std::thread::sleep(Duration::from_millis(60));
        let progress = Progress {
            lags,
            ..Progress::at(Position(2))
        };
        let change = vec![text(1, 2, "another")];
        let handed_in = desk.search.hand_in(progress, change, None);
        handed_in.await.unwrap();
        reached(&desk.search, Position(2)).await;
        desk.search.close();
        let place = Place {
            told_for,
            ..place(desk.folder.path())
        };
        let (_, position) = Search::<Grouped>::open(&place, Position(3)).unwrap();
        assert_eq!(position, wanted, "lags: {lags}");
    }
}

/// What the index should hold.
#[derive(Debug, Default)]
struct Model {
    groups: BTreeMap<u64, (u64, i64)>,
    texts: BTreeMap<(u64, u64), String>,
    labels: BTreeMap<u64, String>,
}

impl Model {
    fn found(&self, words: &[usize], facet: Option<i64>) -> BTreeSet<u64> {
        let fits = |number: u64, label: u64| {
            let texts = self.texts.range((number, 0)..(number + 1, 0));
            let mut all: Vec<&str> = texts.flat_map(|(_, text)| text.split(' ')).collect();
            all.extend(
                self.labels
                    .get(&label)
                    .iter()
                    .flat_map(|text| text.split(' ')),
            );
            let last = words.len() - 1;
            words.iter().enumerate().all(|(place, word)| {
                all.iter().any(|found| match place == last {
                    true => found.starts_with(WORDS[*word]),
                    false => *found == WORDS[*word],
                })
            })
        };
        let groups = self.groups.iter();
        groups
            .filter(|(number, (label, of))| {
                facet.is_none_or(|facet| facet == *of) && fits(**number, *label)
            })
            .map(|(number, _)| *number)
            .collect()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Group(u64, i64),
    Text(u64, u64, Vec<usize>),
    Label(u64, Vec<usize>),
    Relabel(u64, Vec<usize>),
}

fn joined(words: &[usize]) -> String {
    let words: Vec<&str> = words.iter().map(|word| WORDS[*word]).collect();
    words.join(" ")
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let words = || proptest::collection::vec(0..WORDS.len(), 0..4);
    let step = prop_oneof![
        (1..5_u64, 0..2_i64).prop_map(|(number, facet)| Step::Group(number, facet)),
        (1..5_u64, 1..4_u64, words())
            .prop_map(|(group, number, text)| Step::Text(group, number, text)),
        (1..3_u64, words()).prop_map(|(number, text)| Step::Label(number, text)),
        (1..3_u64, words()).prop_map(|(number, text)| Step::Relabel(number, text)),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn groups_are_found_as_the_model_says(
        steps in steps(),
        query in proptest::collection::vec(0..WORDS.len(), 1..4),
        facet in proptest::option::of(0..2_i64),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (mut desk, mut model) = (Desk::new(), Model::default());
        for chunk in steps.chunks(7) {
            let mut changes = Vec::new();
            for step in chunk {
                match step {
                    Step::Group(number, facet) => {
                        let shared = number % 2 + 1;
                        changes.push(group(*number, shared, *facet));
                        model.groups.insert(*number, (shared, *facet));
                    }
                    Step::Text(of, number, words) => {
                        changes.push(text(*of, *number, &joined(words)));
                        if model.groups.contains_key(of) {
                            model.texts.insert((*of, *number), joined(words));
                        }
                    }
                    Step::Label(number, words) => {
                        changes.push(GroupChange::Label(label(*number, &joined(words))));
                        model.labels.insert(*number, joined(words));
                    }
                    Step::Relabel(number, words) => {
                        changes.push(GroupChange::Relabel(label(*number, &joined(words))));
                        model.labels.entry(*number).and_modify(|text| *text = joined(words));
                    }
                }
            }
            runtime.block_on(desk.take(changes));
        }
        let filter = GroupFilter { facets: [facet, None, None, None], ..GroupFilter::default() };
        let found = runtime.block_on(desk.find(&joined(&query), filter));
        let found: BTreeSet<u64> = found.hits.iter().map(|hit| hit.number.0).collect();
        prop_assert_eq!(found, model.found(&query, facet));
    }
}
