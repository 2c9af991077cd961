//! How long the search index takes over 100,000 documents, and over 8 MiB texts: `cargo run --release -p colloquy-actors
//! --example search_bench`.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for the terminal")]

use std::path::Path;
use std::time::{Duration, Instant};

use colloquy_actors::caller::{Mode, Scope};
use colloquy_actors::search::{Entry, Search};

const DOCUMENTS: u64 = 100_000;
const WORDS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(600);

/// An index that is being filled.
struct Desk {
    search: Search,
    position: i64,
}

impl Desk {
    async fn put(&mut self, number: u64, title: &str, content: &str) {
        self.position += 1;
        let entry = Entry { number, scope: scope(), title: title.into(), content: content.into() };
        self.search.put(self.position, entry).await.unwrap();
    }

    async fn settled(&self) {
        self.search.wait_for(self.position, PATIENCE).await.unwrap();
    }
}

fn scope() -> Scope {
    Scope::of(1, Mode::Live)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.db.search");
    let (search, position) = Search::open(&path, i64::MAX).unwrap();
    let mut desk = Desk { search, position };
    fill(&mut desk, &path).await;
    ask(&desk).await;
    replace(&mut desk).await;
}

async fn fill(desk: &mut Desk, path: &Path) {
    let begun = Instant::now();
    let mut seed = 1_u64;
    for number in 1..=DOCUMENTS {
        let mut words = String::new();
        for _ in 0..WORDS {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (a, b) = ((seed >> 33) % 20_000, (seed >> 40) % 20_000);
            words.push_str(&format!("w{} ", a.min(b) * (a.max(b) % 7 + 1) / 7));
        }
        desk.put(number, &format!("Document {number} about w{}", seed >> 50), &words).await;
    }
    desk.settled().await;
    let bytes = std::fs::metadata(path).unwrap().len();
    println!("{DOCUMENTS} documents of {WORDS} words: indexed in {:?}, {} MB", begun.elapsed(), bytes / 1_000_000);
}

async fn ask(desk: &Desk) {
    for query in ["w12345", "w17 w18", "\"w17 w18\"", "document", "w1", "w", "d", "w500 w7000", "about w3"] {
        let begun = Instant::now();
        let found = desk.search.find(scope(), query, 20, 0).await.map(|found| found.total);
        println!("{query:>14}: {found:?} in {:?}", begun.elapsed());
    }
}

async fn replace(desk: &mut Desk) {
    let large = "lorem ipsum dolor sit amet consectetur ".repeat(200_000);
    let distinct: String = (0..900_000).map(|n| format!("{n:x}x ")).collect();
    let number = DOCUMENTS + 1;
    for (name, text) in [("few words", &large), ("many words", &distinct)] {
        for round in ["new", "replaced"] {
            let begun = Instant::now();
            desk.put(number, round, text).await;
            desk.settled().await;
            println!("{} bytes, {name}, {round}: {:?}", text.len(), begun.elapsed());
        }
    }
    let begun = Instant::now();
    desk.position += 1;
    desk.search.remove(desk.position, number).await.unwrap();
    desk.settled().await;
    println!("removed: {:?}", begun.elapsed());
}
