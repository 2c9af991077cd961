//! The changes as a page: both texts side by side, escaped, without any script.

use std::borrow::Cow;
use std::ops::Range;

use super::compared::{Compared, Group, Part};
use super::words::{ChangedWords, SideOfChange, WordComparison};
use super::{DiffOptions, FileNames, TooLong};

/// Where the page looks for its style.
const STYLE_AT: &str = "/docs/diff.css";

/// How the page looks: to be found under [`STYLE_AT`], since the page's policy lets no style stand
/// in it.
pub const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:14px/1.5 system-ui,sans-serif;margin:1rem}\
table{border-collapse:collapse;table-layout:fixed;width:100%}\
col.n{width:3.5rem}\
th,td{padding:0 .5rem;text-align:left;vertical-align:top}\
thead th{padding:.5rem;overflow-wrap:anywhere}\
td{font-family:ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}\
td.d,td.a,td.k{position:relative;padding-left:calc(.5rem + 2ch)}\
td.d::before,td.a::before{position:absolute;left:.5rem}\
td.n,tr.at td,i{color:#767676;color:light-dark(#686868,#9a9a9a)}\
td.n{text-align:right;user-select:none}\
tr.at td{background:#8883}\
td.d{background:#f852}\
td.a{background:#2a52}\
td.d::before{content:\"\\2212\"}\
td.a::before{content:\"+\"}\
del{background:#f856;text-decoration:none}\
ins{background:#2a56;text-decoration:none}\
@media (max-width:50rem){\
body{font-size:12px;margin:.25rem}\
col.n{width:2.5rem}\
td,td.n{padding-right:.25rem;padding-left:.25rem}\
}";

/// Writes a whole HTML page with the changes from `old` to `new` side by side.
///
/// # Errors
/// The page would be longer than it may be.
pub fn html(
    old: &str,
    new: &str,
    names: &FileNames<'_>,
    options: &DiffOptions,
) -> Result<String, TooLong> {
    let mut page =
        String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str(
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
    );
    escape(&mut page, names.old);
    page.push_str(" → ");
    escape(&mut page, names.new);
    page.push_str("</title>\n<link rel=\"stylesheet\" href=\"");
    page.push_str(STYLE_AT);
    page.push_str("\">\n</head>\n<body>\n");
    if old == new {
        page.push_str("<p>Nothing changed.</p>\n");
    } else {
        table(
            &mut page,
            &Compared::new(old, new, options.context_lines, &options.budget),
            names,
            options,
        )?;
    }
    page.push_str("</body>\n</html>\n");
    if page.len() > options.bytes_max {
        Err(TooLong)
    } else {
        Ok(page)
    }
}

fn table(
    page: &mut String,
    compared: &Compared<'_>,
    names: &FileNames<'_>,
    options: &DiffOptions,
) -> Result<(), TooLong> {
    page.push_str(
        "<table>\n<colgroup><col class=\"n\"><col><col class=\"n\"><col></colgroup>\n<thead><tr><th colspan=\"2\">",
    );
    escape(page, names.old);
    page.push_str("</th><th colspan=\"2\">");
    escape(page, names.new);
    page.push_str("</th></tr></thead>\n");
    let mut words = WordComparison::new(&options.budget);
    for group in compared.groups() {
        let (old, new) = (Group::start(&group.old), Group::start(&group.new));
        let (old_lines, new_lines) = (group.old.len(), group.new.len());
        page.push_str(&format!(
            "<tbody>\n<tr class=\"at\"><td colspan=\"4\">@@ -{old},{old_lines} +{new},{new_lines} @@</td></tr>\n"
        ));
        let (mut old_line, mut new_line) = (group.old.start, group.new.start);
        for part in group.parts() {
            let rows = Rows::new(compared, part, &mut words);
            for row in 0..rows.old.len().max(rows.new.len()) {
                page.push_str("<tr>");
                cell(page, rows.removed(row), &mut old_line);
                cell(page, rows.added(row), &mut new_line);
                page.push_str("</tr>\n");
                if page.len() > options.bytes_max {
                    return Err(TooLong);
                }
            }
        }
        page.push_str("</tbody>\n");
    }
    page.push_str("</table>\n");
    Ok(())
}

/// A part of a group as rows with a line of each side.
struct Rows<'c> {
    compared: &'c Compared<'c>,
    old: Range<usize>,
    new: Range<usize>,
    /// None: both sides have these lines.
    changed: Option<ChangedWords>,
    ends: Ends,
}

/// A line of one side: its kind is the class of its cell.
struct Cell<'a> {
    text: &'a str,
    kind: &'static str,
    spans: Cow<'a, [[usize; 2]]>,
    ends: Ends,
}

/// How the lines of a change end: shown only where that is a difference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Alike,
    Mixed,
}

impl<'c> Rows<'c> {
    fn new(compared: &'c Compared<'c>, part: Part, words: &mut WordComparison<'_>) -> Self {
        let change = match part {
            Part::Kept(lines) => {
                return Rows {
                    compared,
                    old: lines.clone(),
                    new: lines,
                    changed: None,
                    ends: Ends::Alike,
                };
            }
            Part::Replaced(change) => change,
        };
        let changed = Some(words.changed(compared, &change));
        let removed = change.before.clone().map(|line| compared.old.line(line));
        let added = change.after.clone().map(|line| compared.new.line(line));
        let (mut crlf, mut other) = (false, false);
        for line in removed.chain(added) {
            *(if line.ends_with("\r\n") {
                &mut crlf
            } else {
                &mut other
            }) = true;
        }
        let ends = if crlf && other {
            Ends::Mixed
        } else {
            Ends::Alike
        };
        Rows {
            compared,
            old: change.before,
            new: change.after,
            changed,
            ends,
        }
    }

    fn removed(&self, row: usize) -> Option<Cell<'_>> {
        let line = self.old.clone().nth(row)?;
        Some(self.cell(self.compared.old.line(line), row, SideOfChange::Removed))
    }

    fn added(&self, row: usize) -> Option<Cell<'_>> {
        let line = self.new.clone().nth(row)?;
        // Where both sides have it, its place is that in the old text.
        let lines = if self.changed.is_some() {
            &self.compared.new
        } else {
            &self.compared.old
        };
        Some(self.cell(lines.line(line), row, SideOfChange::Added))
    }

    fn cell<'a>(&'a self, text: &'a str, row: usize, side: SideOfChange) -> Cell<'a> {
        let (kind, spans) = match (&self.changed, side) {
            (None, _) => ("k", Cow::Borrowed(&[][..])),
            (Some(changed), SideOfChange::Removed) => ("d", changed.of(side, row, text)),
            (Some(changed), SideOfChange::Added) => ("a", changed.of(side, row, text)),
        };
        Cell {
            text,
            kind,
            spans,
            ends: self.ends,
        }
    }
}

/// Writes a line's number and its text; two empty cells for no line.
fn cell(page: &mut String, cell: Option<Cell<'_>>, line: &mut usize) {
    let Some(Cell {
        text,
        kind,
        spans,
        ends,
    }) = cell
    else {
        page.push_str("<td></td><td></td>");
        return;
    };
    *line += 1;
    page.push_str(&format!(
        "<td class=\"n\">{line}</td><td class=\"{kind}\" dir=\"auto\">"
    ));
    let tag = if kind == "d" { "del" } else { "ins" };
    let content = text
        .strip_suffix('\n')
        .map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
    let length = content.chars().count();
    let mut rest = content;
    let mut at = 0;
    // A line that changed as a whole is coloured as a whole already.
    for [start, end] in spans
        .iter()
        .map(|[start, end]| [*start, (*end).min(length)])
    {
        if start >= end || (start, end) == (0, length) {
            continue;
        }
        escape(page, take_characters(&mut rest, start - at));
        page.push_str(&format!("<{tag}>"));
        escape(page, take_characters(&mut rest, end - start));
        page.push_str(&format!("</{tag}>"));
        at = end;
    }
    escape(page, rest);
    if !text.ends_with('\n') {
        page.push_str(" <i>(no newline at the end)</i>");
    } else if ends == Ends::Mixed
        && spans
            .last()
            .is_some_and(|[start, end]| *start > 0 && *end > length)
    {
        page.push_str(if text.ends_with("\r\n") {
            " <i>(CRLF)</i>"
        } else {
            " <i>(LF)</i>"
        });
    }
    page.push_str("</td>");
}

fn take_characters<'a>(rest: &mut &'a str, characters: usize) -> &'a str {
    let end = rest
        .char_indices()
        .nth(characters)
        .map_or(rest.len(), |(end, _)| end);
    let (taken, left) = rest.split_at(end);
    *rest = left;
    taken
}

/// Writes a text so that a browser shows it and obeys nothing in it.
fn escape(page: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            '\t' => page.push('\t'),
            c if c.is_control() => page.push('\u{fffd}'),
            c => page.push(c),
        }
    }
}
