//! A text cut into lines, and where two such texts differ, as git finds it. Knows neither markers
//! nor formats.

use std::ops::Range;

use gix_imara_diff::{Algorithm, Diff, Interner, NoSliderHeuristic, Token};

use crate::budget::StepBudget;
use crate::indent::ByIndent;
use crate::myers::Marks;

/// Room is made at first for at most so many different lines: the first lines can promise more than
/// there are.
const DIFFERENT_LINES_EXPECTED_MAX: usize = 1 << 16;

/// A text and where its lines end. Equal lines have equal tokens if they were cut with the same
/// interner.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a str,
    /// Where each line ends, its line end included, in bytes.
    ends: Vec<u32>,
    tokens: Vec<Token>,
}

impl<'a> Lines<'a> {
    pub(crate) fn cut(text: &'a str, interner: &mut Interner<&'a str>) -> Self {
        let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let (mut ends, mut tokens) = (Vec::with_capacity(lines), Vec::with_capacity(lines));
        let mut end = 0;
        for line in text.split_inclusive('\n') {
            end += line.len();
            // No setting lets a text be longer than these can say.
            ends.push(u32::try_from(end).unwrap_or(u32::MAX));
            tokens.push(interner.intern(line));
        }
        Self { text, ends, tokens }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The text of these lines; what lies past the end is empty.
    pub(crate) fn text(&self, lines: Range<usize>) -> &'a str {
        self.text
            .get(self.start(lines.start)..self.start(lines.end))
            .unwrap_or_default()
    }

    /// One line with its line end; empty past the end.
    pub(crate) fn line(&self, line: usize) -> &'a str {
        self.text(line..line + 1)
    }

    pub(crate) fn tokens(&self, lines: Range<usize>) -> &[Token] {
        self.tokens.get(lines).unwrap_or_default()
    }

    fn start(&self, line: usize) -> usize {
        let end = |line: usize| {
            self.ends
                .get(line)
                .and_then(|end| usize::try_from(*end).ok())
        };
        line.checked_sub(1)
            .map_or(Some(0), end)
            .unwrap_or(self.text.len())
    }
}

/// About how many different lines a text has, from its first ones; only saves reallocation.
pub(crate) fn estimate(text: &str) -> usize {
    let sample: usize = text.split_inclusive('\n').take(20).map(str::len).sum();
    (text.len() * 20)
        .checked_div(sample)
        .unwrap_or(0)
        .min(DIFFERENT_LINES_EXPECTED_MAX)
        + 1
}

/// Lines of one text that stand in the place of lines of another. Lines are counted from 0; changes
/// come in order, and between two of them lies at least one line that both texts have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Lines of the older text; empty where lines were only added.
    pub before: Range<usize>,
    /// Lines of the newer text in their place; empty where lines were only removed.
    pub after: Range<usize>,
}

/// The changes as `git merge-file` sees them: what can slide lies as low as it can.
pub(crate) fn compare(before: &[Token], after: &[Token], budget: &StepBudget) -> Vec<Change> {
    let mut diff = diff(before, after, budget);
    diff.postprocess_with(before, after, NoSliderHeuristic);
    collect(&diff)
}

/// The changes as `git diff` shows them: what can slide lies where its indentation suggests.
pub(crate) fn compare_to_show(
    before: &[Token],
    after: &[Token],
    interner: &Interner<&str>,
    budget: &StepBudget,
) -> Vec<Change> {
    let mut diff = diff(before, after, budget);
    diff.postprocess_with(before, after, ByIndent::new(interner));
    collect(&diff)
}

/// The changes before they slide. The library's own search can be neither bounded nor interrupted:
/// it is given texts between which there is nothing left to find, and does the sliding.
fn diff(before: &[Token], after: &[Token], budget: &StepBudget) -> Diff {
    let [before, after] = Marks::of(before, after, budget).spelled_out();
    let mut diff = Diff::default();
    diff.compute_with(Algorithm::Myers, &before, &after, 0);
    diff
}

fn collect(diff: &Diff) -> Vec<Change> {
    let wide = |range: Range<u32>| range.start as usize..range.end as usize;
    // Counted first: there can be millions, and growing would hold them twice.
    let mut changes = Vec::with_capacity(diff.hunks().count());
    changes.extend(diff.hunks().map(|hunk| Change {
        before: wide(hunk.before),
        after: wide(hunk.after),
    }));
    changes
}
