//! Histories that cross, against the real `git merge`: what is merged silently there is merged
//! silently here, and nothing else, but where git's own commands differ.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::cell::Cell;
use std::fmt::Write as _;

use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq};
use proptest::sample::Index;
use proptest::strategy::Strategy as Arbitrary;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::*;
use crate::document::git::Git;
use crate::document::version_graph::{contains, plan};

/// Lines of a text: each place says one of a few things, or nothing.
const PLACES: usize = 8;

/// A branch goes on, or crosses another one: each takes in what the other one had before. What a
/// merge says is chosen by hand, so that conflicts are decided in many ways.
#[derive(Debug, Clone)]
struct Step {
    line: Index,
    other: Option<Index>,
    takes_other: [bool; 2],
    edits: Vec<(Index, u8)>,
}

#[derive(Debug, Clone)]
struct Version {
    parents: Vec<u64>,
    words: [u8; PLACES],
}

impl Version {
    /// No two places ever have the same line: so there is one way only to compare two versions.
    fn text(&self) -> String {
        let said = self.words.iter().enumerate().filter(|(_, word)| **word > 0);
        said.map(|(place, word)| format!("place {place} says {}\n", char::from(b'a' + word)))
            .collect()
    }
}

fn steps() -> impl Arbitrary<Value = (usize, Vec<Step>)> {
    let edits = prop::collection::vec((any::<Index>(), 0..4_u8), 0..3);
    let step = (
        any::<Index>(),
        prop::option::of(any::<Index>()),
        any::<[bool; 2]>(),
        edits,
    )
        .prop_map(|(line, other, takes_other, edits)| Step {
            line,
            other,
            takes_other,
            edits,
        });
    (2..4_usize, prop::collection::vec(step, 3..9))
}

/// The versions, and the tips of their branches.
fn history(lines: usize, steps: &[Step]) -> (Vec<Version>, Vec<u64>) {
    let mut versions = vec![Version {
        parents: vec![],
        words: [1; PLACES],
    }];
    let mut tips = vec![1; lines];
    for step in steps {
        let line = step.line.index(lines);
        let mut goes_on = vec![(line, None)];
        if let Some(other) = &step.other {
            let other = (line + 1 + other.index(lines - 1)) % lines;
            goes_on = vec![(line, Some(tips[other])), (other, Some(tips[line]))];
        }
        for (turn, (line, other)) in goes_on.into_iter().enumerate() {
            let of = |number: u64| &versions[usize::try_from(number).unwrap() - 1];
            let mut version = Version {
                parents: vec![tips[line]],
                words: of(tips[line]).words,
            };
            if let Some(other) =
                other.filter(|other| !contains(tips[line], *other, |number| &of(number).parents))
            {
                version.parents.push(other);
                if step.takes_other[turn] {
                    version.words = of(other).words;
                }
            }
            for (place, word) in step.edits.iter().skip(turn) {
                version.words[place.index(PLACES)] = *word;
            }
            versions.push(version);
            tips[line] = u64::try_from(versions.len()).unwrap();
        }
    }
    (versions, tips)
}

/// Gives git the history; each version's commit has a mark of its number and a reference
/// `name/number`.
fn import(git: &Git, name: &str, versions: &[Version]) {
    let mut stream = String::new();
    for (before, version) in versions.iter().enumerate() {
        let (number, text) = (before + 1, version.text());
        write!(
            stream,
            "commit refs/heads/{name}/{number}\nmark :{number}\n"
        )
        .unwrap();
        // git takes common ancestors in the order of their times.
        write!(
            stream,
            "committer t <t@example.com> {} +0000\ndata 0\n",
            1_000_000 + number
        )
        .unwrap();
        for (place, parent) in version.parents.iter().enumerate() {
            writeln!(
                stream,
                "{} :{parent}",
                if place == 0 { "from" } else { "merge" }
            )
            .unwrap();
        }
        write!(
            stream,
            "M 100644 inline document\ndata {}\n{text}\n",
            text.len()
        )
        .unwrap();
    }
    git.write("stream", &stream);
    let (code, said) = git.output("sh", &["-c", "git fast-import --quiet <stream"]);
    assert_eq!(code, 0, "{said}");
}

/// What `git merge` of two references comes to: whether it is clean, and the text.
fn git_merges(git: &Git, ours: &str, theirs: &str) -> (bool, String) {
    let (code, said) = git.run(&["merge-tree", "--write-tree", "--no-messages", ours, theirs]);
    let tree = said.lines().next().unwrap();
    let (_, text) = git.run(&["cat-file", "blob", &format!("{tree}:document")]);
    (code == 0, text)
}

/// The same here, and the text that it starts from.
fn merges(
    versions: &[Version],
    ours: (u64, &str),
    theirs: (u64, &str),
) -> ((bool, String), Arc<str>) {
    let parents = |number: u64| {
        versions[usize::try_from(number).unwrap() - 1]
            .parents
            .as_slice()
    };
    let text = |number: u64| versions[usize::try_from(number).unwrap() - 1].text();
    let planned = plan(ours.0, theirs.0, parents);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let base = runtime
        .block_on(compute(&planned, ComputePermit::IN_PLACE, async |number| {
            Ok::<_, Failure>(Arc::from(text(number)))
        }))
        .unwrap();
    let labels = Labels {
        ours: ours.1,
        base: "base",
        theirs: theirs.1,
    };
    let options = MergeOptions {
        style: MergeStyle::Merge,
        strategy: MergeStrategy::Fail,
        labels,
        depth: 0,
        conflict_bytes_max: usize::MAX,
    };
    let merged = merge(
        Texts {
            base: &base,
            ours: &text(ours.0),
            theirs: &text(theirs.0),
        },
        &options,
        &StepBudget::new(u64::MAX),
    )
    .unwrap();
    ((merged.conflicts.is_empty(), merged.text), base)
}

/// What `git merge-file` of these three texts comes to.
fn git_merges_files(git: &Git, [ours, base, theirs]: [(&str, &str); 3]) -> (bool, String) {
    let sides = [("ours", ours), ("base", base), ("theirs", theirs)];
    let mut arguments = vec!["merge-file", "-p"];
    for (file, (label, text)) in sides {
        git.write(file, text);
        arguments.extend(["-L", label]);
    }
    arguments.extend(["ours", "base", "theirs"]);
    let (code, text) = git.run(&arguments);
    (code == 0, text)
}

/// How a merge came out, here and in git alike.
struct Agreed {
    is_clean: bool,
    is_ambiguous: bool,
}

/// Merges two versions here and in git.
///
/// Where the common ancestors conflict, the text to start from has lines twice and out of order:
/// there is more than one way to compare with it, and git's two commands may each take another one.
/// Then what is merged here is what `git merge-file` makes of the same three texts.
fn agreed(
    git: &Git,
    name: &str,
    versions: &[Version],
    (ours, theirs): (u64, u64),
) -> Result<Agreed, TestCaseError> {
    let of = |version: u64| format!("{name}/{version}");
    let expected = git_merges(git, &of(ours), &of(theirs));
    let (found, base) = merges(versions, (ours, &of(ours)), (theirs, &of(theirs)));
    let is_ambiguous = found != expected;
    if is_ambiguous {
        prop_assert!(base.contains("<<<<<<<<<"), "{}\n{}", found.1, expected.1);
        let text = |number: u64| versions[usize::try_from(number).unwrap() - 1].text();
        let (ours, theirs) = ((of(ours), text(ours)), (of(theirs), text(theirs)));
        let files = [
            (&*ours.0, &*ours.1),
            ("base", &*base),
            (&*theirs.0, &*theirs.1),
        ];
        prop_assert_eq!(&found, &git_merges_files(git, files));
    }
    Ok(Agreed {
        is_clean: found.0,
        is_ambiguous,
    })
}

#[test]
fn histories_that_cross_merge_as_in_git() {
    let git = Git::new();
    git.run(&["init", "--quiet"]);
    let [number, crossed, deep, clean, ambiguous] = [const { Cell::new(0) }; 5];
    let more = |counter: &Cell<usize>, by: bool| counter.set(counter.get() + usize::from(by));
    let check = |(lines, steps): (usize, Vec<Step>)| {
        more(&number, true);
        let (versions, tips) = history(lines, &steps);
        let parents = |number: u64| {
            versions[usize::try_from(number).unwrap() - 1]
                .parents
                .as_slice()
        };
        let (ours, theirs) = (tips[0], tips[1]);
        let planned = plan(ours, theirs, parents);
        if planned.merges.is_empty()
            || contains(ours, theirs, parents)
            || contains(theirs, ours, parents)
        {
            return Ok(());
        }
        more(&crossed, true);
        more(&deep, planned.merges.iter().any(|merge| merge.depth > 1));
        let name = format!("history{}", number.get());
        import(&git, &name, &versions);
        for sides in [(ours, theirs), (theirs, ours)] {
            let agreed = agreed(&git, &name, &versions, sides)?;
            more(&clean, agreed.is_clean);
            more(&ambiguous, agreed.is_ambiguous);
        }
        Ok::<(), TestCaseError>(())
    };
    let config = ProptestConfig {
        cases: 500,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Default::default()
    };
    if let Err(error) = TestRunner::new(config).run(&steps(), check) {
        assert_eq!(error.to_string(), "", "git merge says otherwise");
    }
    let (crossed, clean) = (crossed.get(), clean.get());
    assert!(
        ambiguous.get() * 50 < crossed,
        "{} of {crossed} are merged in another way than `git merge` does",
        ambiguous.get()
    );
    assert!(
        crossed > 250 && deep.get() > 40,
        "{crossed} crossed, {} deep: the dice are loaded",
        deep.get()
    );
    assert!(
        (crossed / 4..2 * crossed - crossed / 4).contains(&clean),
        "{clean} clean of {}",
        2 * crossed
    );
}
