//! The ends of lines where a person edits a text in a browser. A field knows one kind, a text may have
//! several, and nobody who changes a word means to change them. Knows no page.

use colloquy_merge::StepBudget;
use colloquy_merge::diff::{Change, changes};

/// Steps in which the fewest changed lines are looked for; beyond, more lines count as changed.
const STEPS_MAX: u64 = 1 << 22;

/// A text as a browser's field holds it: all lines end with the same character.
pub(crate) fn in_a_field(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// What was written in a field that held `before`, with the line ends of `before`: a line that stayed
/// keeps its own, one in the place of another takes that one's, and one that was added takes that of
/// the line above.
pub(crate) fn kept(before: &str, written: &str) -> String {
    let (held, written) = (in_a_field(before), in_a_field(written));
    if held == written {
        return before.to_owned();
    }
    let ends = ends(before);
    match ends.split_first() {
        None => written,
        Some((first, others)) if others.iter().all(|end| end == first) => {
            written.replace('\n', first)
        }
        Some(_) => {
            let changes = changes(&held, &written, &StepBudget::new(STEPS_MAX));
            with_ends(&written, &ends, &changes)
        }
    }
}

/// How the first line of these texts ends that does; LF where none does.
pub(crate) fn first<'t>(texts: impl IntoIterator<Item = &'t str>) -> &'static str {
    let mut found = texts.into_iter().flat_map(ends);
    found.next().unwrap_or("\n")
}

/// How each line ends that does.
fn ends(text: &str) -> Vec<&'static str> {
    let mut bytes = text.bytes().peekable();
    let mut ends = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\r' if bytes.next_if_eq(&b'\n').is_some() => ends.push("\r\n"),
            b'\r' => ends.push("\r"),
            b'\n' => ends.push("\n"),
            _ => {}
        }
    }
    ends
}

/// The text with each line end of the line that it came from.
fn with_ends(written: &str, ends: &[&str], changes: &[Change]) -> String {
    let mut whole = String::with_capacity(written.len() + ends.len());
    let mut changes = changes.iter().peekable();
    // Where the lines that both texts have go on, in each of them.
    let (mut line_before, mut line_after) = (0, 0);
    for (number, line) in written.split_inclusive('\n').enumerate() {
        while let Some(passed) = changes.next_if(|change| change.after.end <= number) {
            (line_before, line_after) = (passed.before.end, passed.after.end);
        }
        let source = match changes.peek().filter(|change| change.after.start <= number) {
            None => line_before + (number - line_after),
            Some(Change { before, .. }) if before.is_empty() => before.start.saturating_sub(1),
            Some(Change { before, after }) => {
                (before.start + number - after.start).min(before.end - 1)
            }
        };
        let Some(words) = line.strip_suffix('\n') else {
            whole.push_str(line);
            continue;
        };
        let end = ends.get(source).or(ends.last()).copied().unwrap_or("\n");
        // Behind a lone CR, an empty line's LF would be read as the rest of one line end.
        let is_torn = end == "\n" && words.is_empty() && whole.ends_with('\r');
        whole.push_str(words);
        whole.push_str(if is_torn { "\r\n" } else { end });
    }
    whole
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_lines_that_were_changed_may_end_otherwise() {
        for (before, written, expected) in [
            ("a\r\nb\r\n", "a\nc\n", "a\r\nc\r\n"),
            ("a\nb\n", "a\nc\n", "a\nc\n"),
            ("a\r\nb\n", "a\nc\n", "a\r\nc\n"),
            ("a\r\nb\n", "a\r\nb\r\n", "a\r\nb\n"),
            ("a\nb\r\n", "b\n", "b\r\n"),
            ("a\nb\r\nc", "a\nb\nnew\nc\nd", "a\nb\r\nnew\r\nc\r\nd"),
            ("a\nb\r\n", "0\na\nb\n", "0\na\nb\r\n"),
            ("a\rb\nc\n", "a\n\nc\n", "a\r\r\nc\n"),
            ("", "a\n", "a\n"),
            ("a", "a\nb\n", "a\nb\n"),
            ("a\r\nb\n", "", ""),
        ] {
            assert_eq!(kept(before, written), expected, "{before:?}, {written:?}");
        }
    }

    proptest! {
        #[test]
        fn no_word_changes_and_what_was_left_alone_stays(before in "[ab\r\n]{0,12}", written in "[ab\r\n]{0,12}") {
            prop_assert_eq!(in_a_field(&kept(&before, &written)), in_a_field(&written));
            prop_assert_eq!(kept(&before, &in_a_field(&before)), before);
        }
    }
}
