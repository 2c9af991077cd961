//! How long merges and diffs take beside the git commands, and whether they say the same: `cargo run --release -p
//! colloquy-actors --example merge_bench`. Also 8 MiB texts that are as awkward as texts get.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a program for the terminal")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use colloquy_actors::document::diff::{Names, html, line_diff, unified};
use colloquy_actors::document::merge::{Labels, Options, Strategy, Style, merge};

const OPTIONS: Options<'static> = Options {
    style: Style::Merge,
    strategy: Strategy::Fail,
    labels: Labels { ours: "target", base: "base", theirs: "source" },
    depth: 0,
};
const NAMES: Names<'static> = Names { old: "a/base", new: "b/ours" };

/// A small generator: the same texts on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn line(&mut self) -> String {
        let words = ["the", "customer", "asked", "refund", "order", "again", "Größe", "ticket", "and", "answer"];
        let line: Vec<&str> = (0..7).map(|_| words.get(self.roll(words.len())).copied().unwrap_or_default()).collect();
        line.join(" ")
    }
}

/// A base of so many lines, and two sides with half of the edits each.
fn edited(lines: usize, edits: usize) -> [String; 3] {
    let mut dice = Dice(7);
    let base: Vec<String> = (0..lines).map(|_| dice.line()).collect();
    let mut side = || {
        let mut lines = base.clone();
        for _ in 0..edits / 2 {
            let at = dice.roll(lines.len());
            let fresh = dice.line();
            match dice.roll(3) {
                0 => lines.insert(at, fresh),
                1 => drop(lines.remove(at)),
                _ => drop(lines.splice(at..=at, [fresh])),
            }
        }
        lines.join("\n") + "\n"
    };
    let (ours, theirs) = (side(), side());
    [base.join("\n") + "\n", ours, theirs]
}

/// Texts of lines drawn from a few.
fn drawn(bytes: usize, from: &[&str], seed: u64) -> String {
    let mut dice = Dice(seed);
    let mut text = String::with_capacity(bytes + 100);
    while text.len() < bytes {
        text.push_str(from.get(dice.roll(from.len())).copied().unwrap_or_default());
        text.push('\n');
    }
    text
}

/// The best and the middle of some runs.
fn timed<T>(runs: usize, mut run: impl FnMut() -> T) -> (Duration, Duration, T) {
    let mut last = run();
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            last = run();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times.first().copied().unwrap_or_default(), times.get(runs / 2).copied().unwrap_or_default(), last)
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

const MERGE_FILE: [&str; 12] =
    ["merge-file", "-p", "-q", "-L", "target", "-L", "base", "-L", "source", "ours", "base", "theirs"];
const DIFF: [&str; 6] = ["diff", "--no-index", "--no-color", "--text", "base", "ours"];

fn compare(folder: &Path, name: &str, texts: &[String; 3], runs: usize) {
    for (file, text) in ["base", "ours", "theirs"].iter().zip(texts) {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let [base, ours, theirs] = texts;
    let row = |what: &str, (best, middle): (Duration, Duration), note: &str| {
        println!("{name:34} {what:16} best {best:>11.2?}  median {middle:>11.2?}  {note}");
    };
    let (best, middle, merged) = timed(runs, || merge(base, ours, theirs, &OPTIONS));
    let (git_best, git_middle, git_text) = timed(runs, || git(folder, &MERGE_FILE));
    let same = if merged.text == git_text { "same bytes" } else { "OTHER BYTES" };
    row("merge", (best, middle), &format!("{} conflicts, {same}", merged.conflicts.len()));
    row("git merge-file", (git_best, git_middle), "");
    let (best, middle, patch) = timed(runs, || unified(base, ours, &NAMES, 3));
    let (git_best, git_middle, git_patch) = timed(runs, || git(folder, &DIFF));
    let hunks = |patch: &str| patch.find("@@").and_then(|at| patch.get(at..)).unwrap_or_default().to_owned();
    let same = if hunks(&patch) == hunks(&git_patch) { "same hunks" } else { "OTHER HUNKS" };
    row("unified", (best, middle), same);
    row("git diff", (git_best, git_middle), "");
    let (best, middle, _) = timed(runs, || line_diff(base, ours, 3));
    row("json", (best, middle), "");
    let (best, middle, _) = timed(runs, || html(base, ours, &NAMES, 3));
    row("html", (best, middle), "");
}

fn main() {
    let folder: PathBuf = std::env::temp_dir().join(format!("merge_bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (_, start, _) = timed(50, || git(&folder, &["merge-file", "-h"]));
    println!("starting git takes {start:.2?} of each of its times");
    compare(&folder, "1 KB, 22 lines, 4 edits", &edited(22, 4), 50);
    compare(&folder, "100 KB, 2,200 lines, 50 edits", &edited(2_200, 50), 50);
    compare(&folder, "1 MB, 20,000 lines, 500 edits", &edited(20_000, 500), 30);
    let size = 8 << 20;
    let lines = |line: &str, less: usize| line.repeat((size - less) / line.len());
    compare(&folder, "8 MiB, all lines empty", &[lines("\n", 0), lines("\n", 900), lines("\n", 5_000)], 1);
    compare(&folder, "8 MiB, all lines equal", &[lines("same\n", 0), lines("same\n", 900), lines("same\n", 5_000)], 1);
    compare(&folder, "8 MiB, no common line", &[lines("one\n", 0), lines("two\n", 0), lines("six\n", 0)], 1);
    let unlike = |seed: u64| {
        let mut dice = Dice(seed);
        (0..180_000).map(|line| format!("{seed} {line} {}\n", dice.line())).collect::<String>()
    };
    compare(&folder, "8 MiB, unlike lines, none common", &[unlike(1), unlike(2), unlike(3)], 1);
    let few = ["a", "b", "c"];
    compare(&folder, "1 MiB drawn from 3 lines", &[1, 2, 3].map(|seed| drawn(1 << 20, &few, seed)), 1);
    let pool: Vec<String> =
        (0..5_000).map(|line| format!("line {line} of a pool of lines that all texts have")).collect();
    let pool: Vec<&str> = pool.iter().map(String::as_str).collect();
    compare(&folder, "8 MiB drawn from 5,000 lines", &[1, 2, 3].map(|seed| drawn(size, &pool, seed)), 1);
    if std::env::args().any(|argument| argument == "worst") {
        compare(&folder, "8 MiB drawn from 3 lines", &[1, 2, 3].map(|seed| drawn(size, &few, seed)), 1);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
