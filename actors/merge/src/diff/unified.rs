//! A patch that `git apply` and `patch` take; its hunks are `git diff`'s, byte for byte.

use super::compared::{Compared, Group, Part};
use super::{DiffOptions, FileNames, TooLong};
use crate::lines::Lines;

/// How much of a line is shown as a hunk's title.
const TITLE_BYTES_MAX: usize = 80;

/// Writes the patch from `old` to `new`, as `git diff` does; empty if nothing changed.
///
/// # Errors
/// The patch would be longer than it may be.
pub fn unified(
    old: &str,
    new: &str,
    names: &FileNames<'_>,
    options: &DiffOptions,
) -> Result<String, TooLong> {
    let mut patch = String::new();
    if old == new {
        return Ok(patch);
    }
    let compared = Compared::new(old, new, options.context_lines, &options.budget);
    header(&mut patch, "---", names.old);
    header(&mut patch, "+++", names.new);
    let mut title = Title::default();
    for group in compared.groups() {
        patch.push_str("@@ -");
        range(&mut patch, Group::start(&group.old), group.old.len());
        patch.push_str(" +");
        range(&mut patch, Group::start(&group.new), group.new.len());
        patch.push_str(" @@");
        let title = title.above(group.old.start, &compared.old);
        if !title.is_empty() {
            patch.push(' ');
            patch.push_str(title);
        }
        patch.push('\n');
        for part in group.parts() {
            match part {
                Part::Kept(lines) => {
                    lines.for_each(|line| entry(&mut patch, ' ', compared.old.line(line)))
                }
                Part::Replaced(change) => {
                    change
                        .before
                        .for_each(|line| entry(&mut patch, '-', compared.old.line(line)));
                    change
                        .after
                        .for_each(|line| entry(&mut patch, '+', compared.new.line(line)));
                }
            }
        }
        if patch.len() > options.bytes_max {
            return Err(TooLong);
        }
    }
    Ok(patch)
}

/// FileNames a file. One with blanks ends with a tab, since patch reads a date there; one that could be
/// misread is quoted.
fn header(patch: &mut String, sign: &str, name: &str) {
    patch.push_str(sign);
    patch.push(' ');
    if name.contains(|c: char| c.is_ascii_control() || c == '"' || c == '\\') {
        patch.push('"');
        for c in name.chars() {
            match c {
                '"' | '\\' => patch.extend(['\\', c]),
                '\n' => patch.push_str("\\n"),
                '\r' => patch.push_str("\\r"),
                '\t' => patch.push_str("\\t"),
                c if c.is_ascii_control() => patch.push_str(&format!("\\{:03o}", u32::from(c))),
                c => patch.push(c),
            }
        }
        patch.push('"');
    } else {
        patch.push_str(name);
        if name.contains(' ') {
            patch.push('\t');
        }
    }
    patch.push('\n');
}

fn range(patch: &mut String, start: usize, lines: usize) {
    patch.push_str(&start.to_string());
    if lines != 1 {
        patch.push(',');
        patch.push_str(&lines.to_string());
    }
}

fn entry(patch: &mut String, op: char, line: &str) {
    patch.push(op);
    patch.push_str(line);
    if !line.ends_with('\n') {
        patch.push_str("\n\\ No newline at end of file\n");
    }
}

/// The nearest line above a hunk that begins with a letter, `_` or `$`: git takes it for what the
/// hunk belongs to.
#[derive(Default)]
struct Title<'a> {
    last: &'a str,
    searched: usize,
}

impl<'a> Title<'a> {
    fn above(&mut self, hunk: usize, old: &Lines<'a>) -> &'a str {
        let opens = |line: &&str| {
            line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$')
        };
        let fresh = (self.searched..hunk)
            .rev()
            .map(|line| old.line(line))
            .find(opens);
        self.searched = hunk;
        if let Some(line) = fresh {
            let cut = line
                .get(..line.floor_char_boundary(TITLE_BYTES_MAX))
                .unwrap_or(line);
            self.last = cut.trim_end_matches([' ', '\t', '\r', '\n']);
        }
        self.last
    }
}
