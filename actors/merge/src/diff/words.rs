//! Which words of replaced lines changed. Lines are compared before words are, so only few are
//! looked at here.

use std::borrow::Cow;

use gix_imara_diff::{Interner, Token};

use super::compared::Compared;
use crate::budget::StepBudget;
use crate::lines::{Change, compare};

/// Lines replaced by more than this have changed as a whole: comparing their words costs much and
/// tells little.
const COMPARED_BYTES_MAX: usize = 16 * 1_024;
/// What the words of one difference may cost, as the words of the old lines times those of the new
/// ones: about a second. What comes behind has changed as a whole.
const COST_MAX: usize = 1 << 30;

/// Places in a line, as `[start, end]` in characters.
pub(super) type Spans = Vec<[usize; 2]>;

/// Compares words, for as long as that does not cost too much.
#[derive(Debug)]
pub(super) struct WordComparison<'s> {
    left: usize,
    budget: &'s StepBudget,
}

/// What changed in lines that were replaced.
#[derive(Debug)]
pub(super) enum ChangedWords {
    /// Every line as a whole: one side has none, they are too long to compare, or the budget
    /// is exhausted.
    All,
    /// The places of the words that changed, for each line that was removed, and for each that was
    /// added.
    Some(Vec<Spans>, Vec<Spans>),
}

/// Which side of a change a line stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideOfChange {
    Removed,
    Added,
}

impl<'s> WordComparison<'s> {
    /// For the lines of one answer, which share this budget.
    pub(super) fn new(budget: &'s StepBudget) -> Self {
        WordComparison {
            left: COST_MAX,
            budget,
        }
    }

    /// Finds what changed in the lines of a change; all where one side has none.
    pub(super) fn changed(&mut self, compared: &Compared<'_>, change: &Change) -> ChangedWords {
        let (old, new) = (&compared.old, &compared.new);
        let most = old
            .text(change.before.clone())
            .len()
            .max(new.text(change.after.clone()).len());
        let is_spent = self.left == 0 || self.budget.is_exhausted();
        if change.before.is_empty()
            || change.after.is_empty()
            || most > COMPARED_BYTES_MAX
            || is_spent
        {
            return ChangedWords::All;
        }
        let mut interner = Interner::new(most / 4);
        let mut removed = Side::cut(
            change.before.clone().map(|line| old.line(line)),
            &mut interner,
        );
        let mut added = Side::cut(
            change.after.clone().map(|line| new.line(line)),
            &mut interner,
        );
        self.left = self
            .left
            .saturating_sub(removed.tokens.len().saturating_mul(added.tokens.len()));
        for words in compare(&removed.tokens, &added.tokens, self.budget) {
            let mark = |side: &mut Side<'_>, range| {
                side.words
                    .get_mut(range)
                    .into_iter()
                    .flatten()
                    .for_each(|word: &mut Word<'_>| word.changed = true);
            };
            mark(&mut removed, words.before);
            mark(&mut added, words.after);
        }
        ChangedWords::Some(
            removed.spans(change.before.len()),
            added.spans(change.after.len()),
        )
    }
}

impl ChangedWords {
    /// The places in one line of a side, its place on that side counted from 0.
    pub(super) fn of(&self, side: SideOfChange, line: usize, text: &str) -> Cow<'_, [[usize; 2]]> {
        let spans = match (self, side) {
            (ChangedWords::All, _) => return Cow::Owned(vec![[0, text.chars().count()]]),
            (ChangedWords::Some(removed, _), SideOfChange::Removed) => removed,
            (ChangedWords::Some(_, added), SideOfChange::Added) => added,
        };
        spans
            .get(line)
            .map_or(Cow::Borrowed(&[]), |spans| Cow::Borrowed(spans))
    }
}

/// A word, a run of blanks, a line end, or any other character.
struct Word<'a> {
    text: &'a str,
    line: usize,
    changed: bool,
}

/// One side's words, and their tokens.
struct Side<'a> {
    words: Vec<Word<'a>>,
    tokens: Vec<Token>,
}

impl<'a> Side<'a> {
    fn cut(lines: impl Iterator<Item = &'a str>, interner: &mut Interner<&'a str>) -> Self {
        let mut side = Self {
            words: Vec::new(),
            tokens: Vec::new(),
        };
        for (line, text) in lines.enumerate() {
            for text in words(text) {
                side.words.push(Word {
                    text,
                    line,
                    changed: false,
                });
                side.tokens.push(interner.intern(text));
            }
        }
        side
    }

    fn spans(&self, lines: usize) -> Vec<Spans> {
        let mut found = vec![Spans::new(); lines];
        let mut words = self.words.as_slice();
        for (line, spans) in found.iter_mut().enumerate() {
            let (mine, rest) = words.split_at(words.partition_point(|word| word.line <= line));
            *spans = spans_of(mine);
            words = rest;
        }
        found
    }
}

/// Joins changed words between which there is nothing or a blank that did not change.
fn spans_of(words: &[Word<'_>]) -> Spans {
    let mut spans = Spans::new();
    let mut at = 0;
    let mut joins = false;
    for word in words {
        let end = at + word.text.chars().count();
        match spans.last_mut().filter(|_| joins) {
            Some(last) if word.changed => last[1] = end,
            None if word.changed => spans.push([at, end]),
            Some(_) | None => {}
        }
        joins = word.changed || joins && word.text.chars().all(char::is_whitespace);
        at = end;
    }
    spans
}

/// Cuts a line into words, runs of blanks, and single other characters. Scripts that write no
/// blanks between words are cut into characters; what only alters the character before it stays
/// with it.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let mut chars = rest.char_indices();
        let (_, mut last) = chars.next()?;
        let end = chars.find(|(_, next)| {
            let goes_on = belongs_together(last, *next);
            last = *next;
            !goes_on
        });
        let (word, left) = rest.split_at(end.map_or(rest.len(), |(end, _)| end));
        rest = left;
        Some(word)
    })
}

fn belongs_together(last: char, next: char) -> bool {
    let of_word = |c: char| (c.is_alphanumeric() || c == '_' || alters(c)) && !stands_alone(c);
    let is_line_end = |c: char| c == '\r' || c == '\n';
    let is_blank = |c: char| c.is_whitespace() && !is_line_end(c);
    alters(next)
        || last == '\u{200d}'
        || of_word(last) && of_word(next)
        || is_blank(last) && is_blank(next)
        || last == '\r' && next == '\n'
}

/// Combining marks, joiners, variation selectors, skin tones.
fn alters(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{200d}' | '\u{1f3fb}'..='\u{1f3ff}')
}

/// Han, kana, Thai, Lao, Khmer, Burmese: words run on without blanks.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{2e80}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}
