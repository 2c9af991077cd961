//! Patches against the real `git diff`, `git apply` and `patch`; texts made again from patches and
//! from hunks.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests"
)]

use std::fs;

use proptest::test_runner::{Config, TestCaseError, TestRunner};
use proptest::{prop_assert, prop_assert_eq};

use serde::{Deserialize, Serialize};

use super::{DiffOptions, FileNames, Stat, TooLong};
use crate::arbitrary::documents;
use crate::budget::StepBudget;
use crate::git::Git;

/// What changed, as it is read back from JSON.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct LineDiff {
    hunks: Vec<Hunk>,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Hunk {
    old_start: usize,
    old_lines: usize,
    new_start: usize,
    new_lines: usize,
    lines: Vec<Line>,
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Line {
    op: Op,
    text: String,
    spans: Vec<[usize; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
enum Op {
    #[serde(rename = " ")]
    Kept,
    #[serde(rename = "-")]
    Removed,
    #[serde(rename = "+")]
    Added,
}

fn up_to(bytes_max: usize, context_lines: usize) -> DiffOptions {
    DiffOptions {
        context_lines,
        bytes_max,
        budget: StepBudget::new(u64::MAX),
    }
}

fn stat(old: &str, new: &str) -> Stat {
    super::stat(old, new, &StepBudget::new(u64::MAX))
}

fn line_diff(old: &str, new: &str, context: usize) -> LineDiff {
    serde_json::from_slice(&super::json(old, new, &up_to(usize::MAX, context)).unwrap()).unwrap()
}

fn unified(old: &str, new: &str, names: &FileNames<'_>, context: usize) -> String {
    super::unified(old, new, names, &up_to(usize::MAX, context)).unwrap()
}

fn html(old: &str, new: &str, names: &FileNames<'_>, context: usize) -> String {
    super::html(old, new, names, &up_to(usize::MAX, context)).unwrap()
}

const CONTEXTS: [usize; 4] = [3, 1, 0, 10];
/// Pairs that git is asked about at once; a failing batch shrinks to the failing ones.
const BATCH: std::ops::RangeInclusive<usize> = 1..=100;
const NAMES: FileNames<'static> = FileNames {
    old: "a/doc.md",
    new: "b/doc.md",
};

fn for_each_pair(
    cases: u32,
    lines: std::ops::Range<usize>,
    check: impl Fn(&str, &str) -> Result<(), TestCaseError>,
) {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    if let Err(error) = runner.run(&documents(1, lines), |texts| check(&texts[0], &texts[1])) {
        assert_eq!(error.to_string(), "", "the check says otherwise");
    }
}

/// Some context or other, the same for the same texts.
fn some_context(old: &str, new: &str) -> usize {
    CONTEXTS[(old.len() + new.len()) % CONTEXTS.len()]
}

/// Removes a folder of git's, if it is there.
fn clear(git: &Git, folder: &str) {
    let path = git.path(folder);
    if path.exists() {
        fs::remove_dir_all(path).unwrap();
    }
}

fn read(git: &Git, name: &str) -> String {
    String::from_utf8(fs::read(git.path(name)).unwrap_or_default()).unwrap()
}

/// A batch of pairs as git sees it: asking costs a process, so it is asked about many pairs at
/// once, a folder for each context and in it a file for each pair, named by its number.
fn as_git(git: &Git, pairs: &[Vec<String>]) -> Result<(), TestCaseError> {
    CONTEXTS
        .iter()
        .for_each(|context| clear(git, &context.to_string()));
    for (number, pair) in pairs.iter().enumerate() {
        let context = some_context(&pair[0], &pair[1]);
        git.write(&format!("{context}/old/{number}"), &pair[0]);
        git.write(&format!("{context}/new/{number}"), &pair[1]);
    }
    for context in CONTEXTS {
        let asked = numbered(pairs, |pair| some_context(&pair[0], &pair[1]) == context);
        if !asked.is_empty() {
            printed_as_git_does(&git_diff(git, context), &asked)?;
        }
    }
    // Without context `git apply` may take the place next to the right one, with git's own patches
    // too.
    let with_context = numbered(pairs, |pair| some_context(&pair[0], &pair[1]) > 0);
    applied_by(
        git,
        (
            "git",
            &["apply", "--allow-empty", "--directory=work", "patch"],
        ),
        &with_context,
    )?;
    applied_by(
        git,
        ("patch", &["-d", "work", "-p1", "-s", "-i", "../patch"]),
        &numbered(pairs, |_| true),
    )
}

/// A pair with its number.
type Numbered<'p> = (usize, &'p Vec<String>);

fn numbered(pairs: &[Vec<String>], wanted: impl Fn(&[String]) -> bool) -> Vec<Numbered<'_>> {
    pairs
        .iter()
        .enumerate()
        .filter(|(_, pair)| wanted(pair))
        .collect()
}

/// The command makes the new texts out of the old ones and our patches.
fn applied_by(
    git: &Git,
    (command, arguments): (&str, &[&str]),
    pairs: &[Numbered<'_>],
) -> Result<(), TestCaseError> {
    clear(git, "work");
    for (number, pair) in pairs {
        git.write(&format!("work/{number}"), &pair[0]);
    }
    let patches: String = pairs
        .iter()
        .map(|(number, pair)| patch_of(*number, &pair[0], &pair[1]))
        .collect();
    git.write("patch", &patches);
    if pairs.is_empty() {
        return Ok(());
    }
    prop_assert_eq!(
        git.output(command, arguments).0,
        0,
        "{}: {}",
        command,
        patches
    );
    for (number, pair) in pairs {
        prop_assert_eq!(
            &read(git, &format!("work/{number}")),
            &pair[1],
            "{}: {}",
            command,
            patches
        );
    }
    Ok(())
}

fn patch_of(number: usize, old: &str, new: &str) -> String {
    let (before, after) = (format!("a/{number}"), format!("b/{number}"));
    unified(
        old,
        new,
        &FileNames {
            old: &before,
            new: &after,
        },
        some_context(old, new),
    )
}

/// What git prints of the pairs in this context's folder.
fn git_diff(git: &Git, context: usize) -> String {
    let (lines, old, new) = (
        format!("-U{context}"),
        format!("{context}/old"),
        format!("{context}/new"),
    );
    let asked = [
        "diff",
        "--no-index",
        "--no-color",
        "--no-renames",
        "--text",
        "--numstat",
        "-p",
        &lines,
        &old,
        &new,
    ];
    let (code, printed) = git.run(&asked);
    assert!(code < 2, "git diff failed");
    printed
        .replace(&format!("--- a/{old}/"), "--- a/")
        .replace(&format!("+++ b/{new}/"), "+++ b/")
}

/// Git's word on some pairs: first a line of numbers for each that differs, then the patches.
fn printed_as_git_does(printed: &str, asked: &[Numbered<'_>]) -> Result<(), TestCaseError> {
    let mut patches = printed.split("\ndiff --git ");
    let numbers = patches.next().unwrap();
    let patches: Vec<String> = patches
        .map(|patch| patch[patch.find("--- a/").unwrap()..].to_owned())
        .collect();
    let mut differing = 0;
    for (number, pair) in asked {
        let (old, new) = (&pair[0], &pair[1]);
        let Stat { added, removed } = stat(old, new);
        let counted = format!("{added}\t{removed}\t");
        let line = numbers
            .lines()
            .find(|line| line.ends_with(&format!("/{number}")));
        prop_assert_eq!(line.is_some(), old != new);
        prop_assert_eq!((added, removed) == (0, 0), old == new);
        prop_assert!(
            line.is_none_or(|line| line.starts_with(&counted)),
            "{:?} {}",
            line,
            counted
        );
        let patch = patch_of(*number, old, new);
        let theirs = patches
            .iter()
            .find(|patch| patch.starts_with(&format!("--- a/{number}\n")));
        prop_assert_eq!(
            theirs.map_or("", |patch| patch.trim_end_matches('\n')),
            patch.trim_end_matches('\n')
        );
        differing += usize::from(old != new);
    }
    prop_assert_eq!(patches.len(), differing);
    Ok(())
}

fn batches_are_as_in_git(batches: u32, lines: std::ops::Range<usize>) {
    let git = Git::new();
    let config = Config {
        cases: batches,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let pairs = proptest::collection::vec(documents(1, lines), BATCH);
    if let Err(error) = TestRunner::new(config).run(&pairs, |pairs| as_git(&git, &pairs)) {
        assert_eq!(error.to_string(), "", "git says otherwise");
    }
}

#[test]
fn patches_of_short_documents_are_those_of_git_and_apply() {
    batches_are_as_in_git(60, 0..14);
}

#[test]
fn lines_that_can_slide_stand_where_git_shows_them() {
    let less_indented_than_above_and_last = [
        "    if a > b {\n\treturn a;\n\treturn a;\n\t\tcall(b, a);\n\n\treturn a;\n}\nfn main() {\nfn main() {",
        "\t\tcall(b, a);\n\n\treturn a;\n    if a > b {\n\treturn a;\n\treturn a;\n}\n",
    ];
    let as_many_blank_lines_as_git_looks_at = ["x\n\n", &format!("x\n{}", "\n".repeat(21))];
    let form_feeds = ["\ta\n\x0c\n\tb\n", "\ta\n\x0c\n\tc\n\x0c\n\tb\n"];
    let pairs = [
        less_indented_than_above_and_last,
        as_many_blank_lines_as_git_looks_at,
        form_feeds,
    ];
    let git = Git::new();
    for pair in pairs {
        as_git(&git, &[pair.map(str::to_owned).to_vec()]).unwrap();
    }
}

#[test]
fn patches_of_longer_documents_are_those_of_git_and_apply() {
    batches_are_as_in_git(30, 10..200);
}

/// Makes the new text of the old one and the hunks.
fn rebuilt(old: &str, diff: &LineDiff) -> String {
    let lines: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut text, mut done) = (String::new(), 0);
    for hunk in &diff.hunks {
        let start = if hunk.old_lines == 0 {
            hunk.old_start
        } else {
            hunk.old_start - 1
        };
        text.extend(lines[done..start].iter().copied());
        done = start;
        for line in &hunk.lines {
            match line.op {
                Op::Kept | Op::Removed => {
                    assert_eq!(lines[done], line.text);
                    done += 1;
                }
                Op::Added => {}
            }
            if line.op != Op::Removed {
                text += &line.text;
            }
        }
        assert_eq!(done, start + hunk.old_lines);
    }
    text.extend(lines[done..].iter().copied());
    text
}

/// Reads a patch of ours back into hunks, without spans.
fn read_back(patch: &str) -> LineDiff {
    let mut hunks: Vec<Hunk> = Vec::new();
    for line in patch.split_inclusive('\n').skip(2) {
        let text = line[1..].to_owned();
        match &line[..1] {
            "@" => {
                let ranges: Vec<(usize, usize)> =
                    line.split(' ').skip(1).take(2).map(range).collect();
                let ((old_start, old_lines), (new_start, new_lines)) = (ranges[0], ranges[1]);
                hunks.push(Hunk {
                    old_start,
                    old_lines,
                    new_start,
                    new_lines,
                    lines: Vec::new(),
                });
            }
            "\\" => drop(
                hunks
                    .last_mut()
                    .unwrap()
                    .lines
                    .last_mut()
                    .unwrap()
                    .text
                    .pop(),
            ),
            sign => {
                let op = match sign {
                    " " => Op::Kept,
                    "-" => Op::Removed,
                    "+" => Op::Added,
                    _ => panic!("{line:?}"),
                };
                hunks.last_mut().unwrap().lines.push(Line {
                    op,
                    text,
                    spans: Vec::new(),
                });
            }
        }
    }
    LineDiff { hunks }
}

fn range(text: &str) -> (usize, usize) {
    let (start, lines) = text[1..].split_once(',').unwrap_or((&text[1..], "1"));
    (start.parse().unwrap(), lines.parse().unwrap())
}

/// A block's text outside the spans, without blanks.
fn unchanged(lines: &[&Line]) -> String {
    let mut kept = String::new();
    for line in lines {
        let outside = |at: &usize| {
            !line
                .spans
                .iter()
                .any(|[start, end]| (start..end).contains(&at))
        };
        let characters = line
            .text
            .chars()
            .enumerate()
            .filter(|(at, c)| outside(at) && !c.is_whitespace());
        kept.extend(characters.map(|(_, c)| c));
    }
    kept
}

fn spans_hold(diff: &LineDiff) -> Result<(), TestCaseError> {
    for hunk in &diff.hunks {
        for block in hunk.lines.split(|line| line.op == Op::Kept) {
            let side = |op: Op| {
                block
                    .iter()
                    .filter(move |line| line.op == op)
                    .collect::<Vec<&Line>>()
            };
            let (removed, added) = (side(Op::Removed), side(Op::Added));
            prop_assert_eq!(unchanged(&removed), unchanged(&added));
            for line in block {
                let edges: Vec<usize> = line.spans.iter().flatten().copied().collect();
                prop_assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", line);
                prop_assert!(
                    edges
                        .last()
                        .is_none_or(|last| *last <= line.text.chars().count()),
                    "{:?}",
                    line
                );
            }
        }
        prop_assert!(
            hunk.lines
                .iter()
                .all(|line| line.op != Op::Kept || line.spans.is_empty())
        );
    }
    Ok(())
}

#[test]
fn the_new_text_can_be_made_of_the_old_one_and_a_patch_or_the_hunks() {
    for_each_pair(3_000, 0..60, |old, new| {
        let context = some_context(old, new);
        let diff = line_diff(old, new, context);
        prop_assert_eq!(rebuilt(old, &diff), new);
        spans_hold(&diff)?;
        let mut read = read_back(&unified(old, new, &NAMES, context));
        prop_assert_eq!(rebuilt(old, &read), new);
        let spans = diff
            .hunks
            .iter()
            .flat_map(|hunk| &hunk.lines)
            .map(|line| line.spans.clone());
        read.hunks
            .iter_mut()
            .flat_map(|hunk| &mut hunk.lines)
            .zip(spans)
            .for_each(|(line, spans)| line.spans = spans);
        prop_assert_eq!(read, diff);
        Ok(())
    });
}

/// The changed words of each line of a change.
fn words(old: &str, new: &str) -> Vec<Vec<String>> {
    let diff = line_diff(old, new, 0);
    let cut = |line: &Line| {
        let part =
            |[start, end]: &[usize; 2]| line.text.chars().skip(*start).take(end - start).collect();
        line.spans.iter().map(part).collect()
    };
    diff.hunks
        .iter()
        .flat_map(|hunk| &hunk.lines)
        .map(cut)
        .collect()
}

#[test]
fn spans_are_the_changed_words() {
    assert_eq!(
        words("the quick fox\n", "the slow fox\n"),
        [["quick"], ["slow"]]
    );
    assert_eq!(
        words("one two three\n", "one 2 3\n"),
        [["two three"], ["2 3"]]
    );
    assert_eq!(words("Größe: 17 €\n", "Größe: 18 €\n"), [["17"], ["18"]]);
    assert_eq!(words("返品の件\n", "返金の件\n"), [["品"], ["金"]]);
    assert_eq!(
        words("cafe\u{301} x\n", "cafe x\n"),
        [["cafe\u{301}"], ["cafe"]]
    );
    assert_eq!(words("same\r\n", "same\n"), [["\r\n"], ["\n"]]);
    assert_eq!(words("same", "same\n"), [vec![], vec!["\n".to_owned()]]);
    assert_eq!(words("", "new line\n"), [["new line\n"]]);
    assert_eq!(words("a b\n", "a b c\n"), [vec![], vec![" c".to_owned()]]);
}

#[test]
fn hunks_are_written_as_the_contract_says() {
    let diff = line_diff("a\nthe quick fox\n", "a\nthe slow fox\n", 3);
    let line = |op: &str, text: &str, spans: serde_json::Value| serde_json::json!({"op": op, "text": text, "spans": spans});
    let expected = serde_json::json!({"hunks": [{
        "old_start": 1, "old_lines": 2, "new_start": 1, "new_lines": 2,
        "lines": [
            line(" ", "a\n", serde_json::json!([])),
            line("-", "the quick fox\n", serde_json::json!([[4, 9]])),
            line("+", "the slow fox\n", serde_json::json!([[4, 8]])),
        ],
    }]});
    assert_eq!(serde_json::to_value(diff).unwrap(), expected);
    let nothing = serde_json::to_value(line_diff("a\n", "a\n", 3)).unwrap();
    assert_eq!(nothing, serde_json::json!({"hunks": []}));
    assert_eq!(
        serde_json::to_value(stat("a\nb\n", "a\nc\nd")).unwrap(),
        serde_json::json!({"added": 2, "removed": 1})
    );
}

#[test]
fn names_that_could_be_misread_are_quoted_as_git_does() {
    let header = |name: &str| {
        unified(
            "",
            "a\n",
            &FileNames {
                old: name,
                new: name,
            },
            3,
        )
        .lines()
        .next()
        .unwrap()
        .to_owned()
    };
    assert_eq!(header("a/notes.md"), "--- a/notes.md");
    assert_eq!(header("a/my notes.md"), "--- a/my notes.md\t");
    assert_eq!(
        header("a/two\nlines\u{1}\"\\"),
        "--- \"a/two\\nlines\\001\\\"\\\\\""
    );
    assert_eq!(header("a/Überblick.md"), "--- a/Überblick.md");
}

#[test]
fn awkward_names_are_taken_by_git_apply() {
    let git = Git::new();
    for name in [
        "my notes.md",
        "say \"hi\".md",
        "a\\b.md",
        "two\nlines.md",
        "Überblick.md",
    ] {
        let (before, after) = (format!("a/{name}"), format!("b/{name}"));
        git.write(
            "patch",
            &unified(
                "",
                "a\n",
                &FileNames {
                    old: &before,
                    new: &after,
                },
                3,
            ),
        );
        git.write(name, "");
        assert_eq!(git.run(&["apply", "patch"]).0, 0, "{name}");
        assert_eq!(read(&git, name), "a\n", "{name}");
    }
}

#[test]
fn a_title_is_cut_between_characters() {
    let above = format!("{}{}\n", "a".repeat(79), "é");
    let old = format!("{above}1\n2\n3\n4\n5\n");
    let patch = unified(&old, &old.replace('5', "6"), &NAMES, 3);
    assert!(
        patch.contains(&format!(" @@ {}\n", "a".repeat(79))),
        "{patch}"
    );
}

#[test]
fn pages_show_texts_and_obey_nothing_in_them() {
    let page = html(
        "<b>old</b> & 'x'\nsame\n",
        "<script>alert(1)</script> & 'x'\nsame",
        &FileNames {
            old: "<1>",
            new: "\"2\"",
        },
        3,
    );
    assert!(page.starts_with("<!DOCTYPE html>"));
    assert!(
        !page.contains("<script") && !page.contains("<b>") && !page.contains("<1>"),
        "{page}"
    );
    assert!(
        page.contains("<title>&lt;1&gt; → &quot;2&quot;</title>"),
        "{page}"
    );
    assert!(page.contains("(no newline at the end)"), "{page}");
    let page = html("the quick fox\nsame\n", "the slow fox\nsame\n", &NAMES, 3);
    assert!(
        page.contains(">the <del>quick</del> fox</td>")
            && page.contains(">the <ins>slow</ins> fox</td>"),
        "{page}"
    );
    assert!(html("a", "a", &NAMES, 3).contains("Nothing changed."));
}

#[test]
fn every_tag_of_a_page_is_closed() {
    for_each_pair(500, 0..30, |old, new| {
        let page = html(old, new, &NAMES, some_context(old, new));
        for tag in ["table", "tbody", "tr", "td", "del", "ins", "i", "th"] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            prop_assert_eq!(
                opened,
                page.matches(&format!("</{tag}>")).count(),
                "{}: {}",
                tag,
                page
            );
        }
        Ok(())
    });
}

#[test]
fn what_would_be_longer_than_it_may_be_is_not_written_to_its_end() {
    for_each_pair(200, 0..30, |old, new| {
        let context = some_context(old, new);
        let json =
            |bytes_max| super::json(old, new, &up_to(bytes_max, context)).map(|json| json.len());
        let html = |bytes_max| {
            super::html(old, new, &NAMES, &up_to(bytes_max, context)).map(|page| page.len())
        };
        let unified = |bytes_max| {
            super::unified(old, new, &NAMES, &up_to(bytes_max, context)).map(|patch| patch.len())
        };
        let forms: [&dyn Fn(usize) -> Result<usize, TooLong>; 3] = [&json, &html, &unified];
        for form in forms {
            let bytes = form(usize::MAX).unwrap();
            prop_assert_eq!(form(bytes), Ok(bytes));
            prop_assert!(bytes == 0 || form(bytes - 1) == Err(TooLong));
        }
        Ok(())
    });
}

#[test]
fn words_are_compared_only_for_as_long_as_it_does_not_cost_too_much() {
    let line = |word: &str| format!("{}\n", format!("{word} ").repeat(2_000));
    let hunks =
        |word: &str| -> String { (0..100).map(|n| format!("{n}\n{}", line(word))).collect() };
    let diff = line_diff(&hunks("old"), &hunks("new"), 0);
    let whole = |hunk: &&Hunk| hunk.lines[0].spans == [[0, hunk.lines[0].text.chars().count()]];
    let parts = diff.hunks.iter().take_while(|hunk| !whole(hunk)).count();
    assert!(
        (1..100).contains(&parts),
        "{parts} of 100 were compared word by word"
    );
    assert!(
        diff.hunks[parts..].iter().all(|hunk| whole(&hunk)),
        "nothing behind the first that was not"
    );
}
