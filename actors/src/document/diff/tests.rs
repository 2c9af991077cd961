//! Patches against the real `git diff`, `git apply` and `patch`; texts made again from patches and from hunks.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use proptest::test_runner::{Config, TestCaseError, TestRunner};
use proptest::{prop_assert, prop_assert_eq};

use super::*;
use crate::document::drafts::documents;
use crate::document::git::Git;

const NAMES: Names<'static> = Names { old: "a/doc.md", new: "b/doc.md" };

fn for_each_pair(cases: u32, lines: std::ops::Range<usize>, check: impl Fn(&str, &str) -> Result<(), TestCaseError>) {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let mut runner = TestRunner::new(config);
    if let Err(error) = runner.run(&documents(1, lines), |texts| check(&texts[0], &texts[1])) {
        assert_eq!(error.to_string(), "", "the check says otherwise");
    }
}

/// Some context or other, the same for the same texts.
fn some_context(old: &str, new: &str) -> usize {
    [3, 3, 1, 0, 10][(old.len() + new.len()) % 5]
}

/// What git prints from the names on, with our names.
fn git_diff(git: &Git, context: usize) -> String {
    let lines = format!("-U{context}");
    let (code, printed) = git.run(&["diff", "--no-index", "--no-color", "--text", &lines, "old", "new"]);
    assert!(code < 2, "git diff failed");
    let from = printed.find("--- a/old\n").unwrap_or(printed.len());
    printed[from..].replacen("--- a/old\n+++ b/new\n", "--- a/doc.md\n+++ b/doc.md\n", 1)
}

fn as_git(git: &Git, old: &str, new: &str) -> Result<(), TestCaseError> {
    let context = some_context(old, new);
    git.write("old", old);
    git.write("new", new);
    let patch = unified(old, new, &NAMES, context);
    prop_assert_eq!(&patch, &git_diff(git, context), "context {}", context);
    let (_, printed) = git.run(&["diff", "--no-index", "--numstat", "old", "new"]);
    let Stat { added, removed } = stat(old, new);
    prop_assert_eq!(printed.is_empty(), (added, removed) == (0, 0));
    prop_assert!(printed.is_empty() || printed.starts_with(&format!("{added}\t{removed}\t")), "{}", printed);
    if old == new {
        return Ok(());
    }
    git.write("patch", &patch);
    git.write("doc.md", old);
    prop_assert_eq!(git.run(&["apply", "--unidiff-zero", "patch"]).0, 0, "git apply");
    // git 2.39 itself applies its own patch wrongly, when it has no context and the old text no final newline.
    if context > 0 || old.ends_with('\n') {
        prop_assert_eq!(&git.read("doc.md"), new, "git apply");
    }
    git.write("doc.md", old);
    prop_assert_eq!(git.output("patch", &["-p1", "-s", "-i", "patch"]).0, 0, "patch");
    prop_assert_eq!(&git.read("doc.md"), new, "patch");
    Ok(())
}

#[test]
fn patches_of_short_documents_are_those_of_git_and_apply() {
    let git = Git::new();
    for_each_pair(700, 0..14, |old, new| as_git(&git, old, new));
}

#[test]
fn patches_of_longer_documents_are_those_of_git_and_apply() {
    let git = Git::new();
    for_each_pair(700, 10..200, |old, new| as_git(&git, old, new));
}

/// Makes the new text of the old one and the hunks.
fn rebuilt(old: &str, diff: &LineDiff) -> String {
    let lines: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut text, mut done) = (String::new(), 0);
    for hunk in &diff.hunks {
        let start = if hunk.old_lines == 0 { hunk.old_start } else { hunk.old_start - 1 };
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
                let ranges: Vec<(usize, usize)> = line.split(' ').skip(1).take(2).map(range).collect();
                let ((old_start, old_lines), (new_start, new_lines)) = (ranges[0], ranges[1]);
                hunks.push(Hunk { old_start, old_lines, new_start, new_lines, lines: Vec::new() });
            }
            "\\" => drop(hunks.last_mut().unwrap().lines.last_mut().unwrap().text.pop()),
            sign => {
                let op = match sign {
                    " " => Op::Kept,
                    "-" => Op::Removed,
                    "+" => Op::Added,
                    _ => panic!("{line:?}"),
                };
                hunks.last_mut().unwrap().lines.push(Line { op, text, spans: Vec::new() });
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
        let outside = |at: &usize| !line.spans.iter().any(|[start, end]| (start..end).contains(&at));
        let characters = line.text.chars().enumerate().filter(|(at, c)| outside(at) && !c.is_whitespace());
        kept.extend(characters.map(|(_, c)| c));
    }
    kept
}

fn spans_hold(diff: &LineDiff) -> Result<(), TestCaseError> {
    for hunk in &diff.hunks {
        for block in hunk.lines.split(|line| line.op == Op::Kept) {
            let side = |op: Op| block.iter().filter(move |line| line.op == op).collect::<Vec<&Line>>();
            let (removed, added) = (side(Op::Removed), side(Op::Added));
            prop_assert_eq!(unchanged(&removed), unchanged(&added));
            for line in block {
                let edges: Vec<usize> = line.spans.iter().flatten().copied().collect();
                prop_assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", line);
                prop_assert!(edges.last().is_none_or(|last| *last <= line.text.chars().count()), "{:?}", line);
            }
        }
        prop_assert!(hunk.lines.iter().all(|line| line.op != Op::Kept || line.spans.is_empty()));
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
        let spans = diff.hunks.iter().flat_map(|hunk| &hunk.lines).map(|line| line.spans.clone());
        read.hunks.iter_mut().flat_map(|hunk| &mut hunk.lines).zip(spans).for_each(|(line, spans)| line.spans = spans);
        prop_assert_eq!(read, diff);
        Ok(())
    });
}

/// The changed words of each line of a change.
fn words(old: &str, new: &str) -> Vec<Vec<String>> {
    let diff = line_diff(old, new, 0);
    let cut = |line: &Line| {
        let part = |[start, end]: &[usize; 2]| line.text.chars().skip(*start).take(end - start).collect();
        line.spans.iter().map(part).collect()
    };
    diff.hunks.iter().flat_map(|hunk| &hunk.lines).map(cut).collect()
}

#[test]
fn spans_are_the_changed_words() {
    assert_eq!(words("the quick fox\n", "the slow fox\n"), [["quick"], ["slow"]]);
    assert_eq!(words("one two three\n", "one 2 3\n"), [["two three"], ["2 3"]]);
    assert_eq!(words("Größe: 17 €\n", "Größe: 18 €\n"), [["17"], ["18"]]);
    assert_eq!(words("返品の件\n", "返金の件\n"), [["品"], ["金"]]);
    assert_eq!(words("cafe\u{301} x\n", "cafe x\n"), [["cafe\u{301}"], ["cafe"]]);
    assert_eq!(words("same\r\n", "same\n"), [["\r\n"], ["\n"]]);
    assert_eq!(words("same", "same\n"), [vec![], vec!["\n".to_owned()]]);
    assert_eq!(words("", "new line\n"), [["new line\n"]]);
    assert_eq!(words("a b\n", "a b c\n"), [vec![], vec![" c".to_owned()]]);
}

#[test]
fn hunks_are_written_as_the_contract_says() {
    let diff = line_diff("a\nthe quick fox\n", "a\nthe slow fox\n", 3);
    let line =
        |op: &str, text: &str, spans: serde_json::Value| serde_json::json!({"op": op, "text": text, "spans": spans});
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
    assert_eq!(serde_json::to_value(stat("a\nb\n", "a\nc\nd")).unwrap(), serde_json::json!({"added": 2, "removed": 1}));
}

#[test]
fn names_that_could_be_misread_are_quoted_as_git_does() {
    let header = |name: &str| unified("", "a\n", &Names { old: name, new: name }, 3).lines().next().unwrap().to_owned();
    assert_eq!(header("a/notes.md"), "--- a/notes.md");
    assert_eq!(header("a/my notes.md"), "--- a/my notes.md\t");
    assert_eq!(header("a/two\nlines\u{1}\"\\"), "--- \"a/two\\nlines\\001\\\"\\\\\"");
    assert_eq!(header("a/Überblick.md"), "--- a/Überblick.md");
}

#[test]
fn awkward_names_are_taken_by_git_apply() {
    let git = Git::new();
    for name in ["my notes.md", "say \"hi\".md", "a\\b.md", "two\nlines.md", "Überblick.md"] {
        let (before, after) = (format!("a/{name}"), format!("b/{name}"));
        git.write("patch", &unified("", "a\n", &Names { old: &before, new: &after }, 3));
        git.write(name, "");
        assert_eq!(git.run(&["apply", "patch"]).0, 0, "{name}");
        assert_eq!(git.read(name), "a\n", "{name}");
    }
}

#[test]
fn a_title_is_cut_between_characters() {
    let above = format!("{}{}\n", "a".repeat(79), "é");
    let old = format!("{above}1\n2\n3\n4\n5\n");
    let patch = unified(&old, &old.replace('5', "6"), &NAMES, 3);
    assert!(patch.contains(&format!(" @@ {}\n", "a".repeat(79))), "{patch}");
}

#[test]
fn pages_show_texts_and_obey_nothing_in_them() {
    let page = html(
        "<b>old</b> & 'x'\nsame\n",
        "<script>alert(1)</script> & 'x'\nsame",
        &Names { old: "<1>", new: "\"2\"" },
        3,
    );
    assert!(page.starts_with("<!DOCTYPE html>"));
    assert!(!page.contains("<script") && !page.contains("<b>") && !page.contains("<1>"), "{page}");
    assert!(page.contains("<title>&lt;1&gt; → &quot;2&quot;</title>"), "{page}");
    assert!(page.contains("(no newline at the end)"), "{page}");
    let page = html("the quick fox\nsame\n", "the slow fox\nsame\n", &NAMES, 3);
    assert!(
        page.contains(">the <del>quick</del> fox</td>") && page.contains(">the <ins>slow</ins> fox</td>"),
        "{page}"
    );
    assert!(html("a", "a", &NAMES, 3).contains("Nothing changed."));
}

#[test]
fn every_tag_of_a_page_is_closed() {
    for_each_pair(500, 0..30, |old, new| {
        let page = html(old, new, &NAMES, some_context(old, new));
        for tag in ["table", "tbody", "tr", "td", "del", "ins", "i", "th"] {
            let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            prop_assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{}: {}", tag, page);
        }
        Ok(())
    });
}
