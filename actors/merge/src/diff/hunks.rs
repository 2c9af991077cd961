//! The changes as data, in JSON: hunks of lines, each with the places of its changed words. Written
//! line by line: it can be many times as long as the texts.

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;

use super::compared::{Compared, Group, Part};
use super::words::{SideOfChange, WordComparison};
use super::{DiffOptions, TooLong};

/// Where changes close together stand, with the lines around them.
#[derive(Debug, Serialize)]
struct Head {
    /// Its first line in the old text, from 1; the line above if it has none there.
    old_start: usize,
    old_lines: usize,
    /// The same in the new text.
    new_start: usize,
    new_lines: usize,
}

/// A line of a hunk, and which text has it.
#[derive(Debug, Serialize)]
struct Line<'a> {
    /// Which text has it.
    op: Op,
    /// The line with its line end, so that the new text can be made of the old one; a text's last
    /// line may have none.
    text: &'a str,
    /// What changed in it, as `[start, end]` in characters; all of it where no line stood or came
    /// in its place.
    spans: Cow<'a, [[usize; 2]]>,
}

/// Which text has a line.
#[derive(Debug, Clone, Copy, Serialize)]
enum Op {
    /// Both texts have the line.
    #[serde(rename = " ")]
    Kept,
    /// Only the old text has the line.
    #[serde(rename = "-")]
    Removed,
    /// Only the new text has the line.
    #[serde(rename = "+")]
    Added,
}

/// The text in the making.
struct Written {
    json: Vec<u8>,
    bytes_max: usize,
}

/// Writes the changes from `old` to `new` as JSON, `{"hunks":[…]}`.
///
/// # Errors
/// The JSON would be longer than it may be.
pub fn json(old: &str, new: &str, options: &DiffOptions) -> Result<Vec<u8>, TooLong> {
    let mut written = Written {
        json: b"{\"hunks\":[".to_vec(),
        bytes_max: options.bytes_max,
    };
    if old != new {
        let compared = Compared::new(old, new, options.context_lines, &options.budget);
        let mut words = WordComparison::new(&options.budget);
        for (place, group) in compared.groups().enumerate() {
            if place > 0 {
                written.json.push(b',');
            }
            written.hunk(&compared, &group, &mut words)?;
        }
    }
    written.json.extend_from_slice(b"]}");
    written.checked()?;
    Ok(written.json)
}

impl Written {
    fn hunk(
        &mut self,
        compared: &Compared<'_>,
        group: &Group<'_>,
        words: &mut WordComparison<'_>,
    ) -> Result<(), TooLong> {
        let start = |lines: &Range<usize>| Group::start(lines);
        self.put(&Head {
            old_start: start(&group.old),
            old_lines: group.old.len(),
            new_start: start(&group.new),
            new_lines: group.new.len(),
        })?;
        // The lines go into the same object.
        self.json.pop();
        self.json.extend_from_slice(b",\"lines\":[");
        let begin = self.json.len();
        for part in group.parts() {
            match part {
                Part::Kept(lines) => {
                    for line in lines {
                        self.line(begin, Op::Kept, compared.old.line(line), Cow::Borrowed(&[]))?;
                    }
                }
                Part::Replaced(change) => {
                    let changed = words.changed(compared, &change);
                    for (place, line) in change.before.enumerate() {
                        let text = compared.old.line(line);
                        self.line(
                            begin,
                            Op::Removed,
                            text,
                            changed.of(SideOfChange::Removed, place, text),
                        )?;
                    }
                    for (place, line) in change.after.enumerate() {
                        let text = compared.new.line(line);
                        self.line(
                            begin,
                            Op::Added,
                            text,
                            changed.of(SideOfChange::Added, place, text),
                        )?;
                    }
                }
            }
        }
        self.json.extend_from_slice(b"]}");
        Ok(())
    }

    /// A line of the list that begins there.
    fn line(
        &mut self,
        begin: usize,
        op: Op,
        text: &str,
        spans: Cow<'_, [[usize; 2]]>,
    ) -> Result<(), TooLong> {
        if self.json.len() > begin {
            self.json.push(b',');
        }
        self.put(&Line { op, text, spans })
    }

    fn put(&mut self, shape: &impl Serialize) -> Result<(), TooLong> {
        // A shape of ours, into memory: it can't fail.
        let _ = serde_json::to_writer(&mut self.json, shape);
        self.checked()
    }

    fn checked(&self) -> Result<(), TooLong> {
        if self.json.len() > self.bytes_max {
            Err(TooLong)
        } else {
            Ok(())
        }
    }
}
