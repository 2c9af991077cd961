//! How long merging and comparing take by themselves, without a server around: `merge FOLDER
//! TIMES`, where the folder holds `base`, `ours` and `theirs`. Prints the median of each in
//! milliseconds.
#![expect(
    clippy::print_stdout,
    reason = "the benchmark reads the times from stdout"
)]

use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use colloquy_merge::diff::{DiffOptions, FileNames, html, json as json_hunks, unified};
use colloquy_merge::{Labels, MergeOptions, MergeStrategy, MergeStyle, StepBudget, Texts, merge};
use serde_json::json;

const OPTIONS: MergeOptions<'static> = MergeOptions {
    style: MergeStyle::Merge,
    strategy: MergeStrategy::Fail,
    labels: Labels {
        ours: "target",
        base: "base",
        theirs: "source",
    },
    depth: 0,
    conflict_bytes_max: usize::MAX,
};
const NAMES: FileNames<'static> = FileNames {
    old: "a/document",
    new: "b/document",
};
const CONTEXT_LINES: usize = 3;
const MS_PER_S: f64 = 1e3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("usage: merge FOLDER TIMES")?);
    let times = args.next().ok_or("usage: merge FOLDER TIMES")?.parse()?;
    let text = |name| std::fs::read_to_string(folder.join(name));
    let (base, ours, theirs) = (text("base")?, text("ours")?, text("theirs")?);
    let texts = Texts {
        base: &base,
        ours: &ours,
        theirs: &theirs,
    };
    let options = || DiffOptions {
        context_lines: CONTEXT_LINES,
        bytes_max: usize::MAX,
        budget: StepBudget::new(u64::MAX),
    };
    let times = json!({
        "merge": timed(times, || merge(texts, &OPTIONS, &StepBudget::new(u64::MAX))),
        "unified": timed(times, || unified(&base, &theirs, &NAMES, &options())),
        "json": timed(times, || json_hunks(&base, &theirs, &options())),
        "html": timed(times, || html(&base, &theirs, &NAMES, &options())),
    });
    println!("{times}");
    Ok(())
}

/// The median of so many times, in milliseconds.
fn timed<T>(times: usize, run: impl Fn() -> T) -> f64 {
    let mut took: Vec<Duration> = (0..times)
        .map(|_| {
            let begun = Instant::now();
            black_box(run());
            begun.elapsed()
        })
        .collect();
    took.sort_unstable();
    took.get(times / 2).map_or(0.0, Duration::as_secs_f64) * MS_PER_S
}
