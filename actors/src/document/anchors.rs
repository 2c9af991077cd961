//! Where a comment's lines stand after the text has changed. Pure: knows line numbers, not texts;
//! which lines changed is the diff's to say.

use std::ops::Range;

use colloquy_merge::diff::Change;

/// Lines of one version, as the interface counts them: from 1, the last included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRange {
    start: u64,
    end: u64,
}

/// Why a range of lines can't be commented on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchLines {
    /// The first is 0 or behind the text's last.
    #[error("start_line must be a line of the version")]
    Start,
    /// The last is before the first or behind the text's last.
    #[error("end_line must be a line of the version, start_line or later")]
    End,
}

impl LineRange {
    /// Lines of a text that has `lines` of them (see [`count_lines`]).
    ///
    /// # Errors
    /// Which of the two is no such line.
    pub fn new(start: u64, end: u64, lines: usize) -> Result<Self, NoSuchLines> {
        let last = u64::try_from(lines).unwrap_or(u64::MAX);
        if start == 0 || start > last {
            return Err(NoSuchLines::Start);
        }
        if end < start || end > last {
            return Err(NoSuchLines::End);
        }
        Ok(LineRange { start, end })
    }

    /// Lines that [`LineRange::new`] has taken before.
    #[must_use]
    pub fn of(start: u64, end: u64) -> Self {
        LineRange {
            start,
            end: end.max(start),
        }
    }

    /// The first line, from 1.
    #[must_use]
    pub fn start(self) -> u64 {
        self.start
    }

    /// The last line; never before the first.
    #[must_use]
    pub fn end(self) -> u64 {
        self.end
    }

    /// Where the same lines stand in the newer text; none where something between the first and the
    /// last was changed, added or taken away: the comment is then outdated, and goes on naming the
    /// lines of the version that had them. Lines added directly before or behind the range are not
    /// part of it.
    #[must_use]
    pub fn follow(self, changes: &[Change]) -> Option<LineRange> {
        let index = |line: u64| usize::try_from(line).unwrap_or(usize::MAX);
        let lines = index(self.start.saturating_sub(1))..index(self.end);
        // Those that end before the range tell how far it has moved; only the next one can be
        // within.
        let (before, behind) =
            changes.split_at(changes.partition_point(|change| change.before.end <= lines.start));
        if behind
            .first()
            .is_some_and(|change| is_within(change, &lines))
        {
            return None;
        }
        let before = before.last();
        let moved = |line: u64| match before {
            Some(change) => index(line)
                .checked_sub(change.before.end)?
                .checked_add(change.after.end)
                .and_then(|at| at.try_into().ok()),
            None => Some(line),
        };
        Some(LineRange {
            start: moved(self.start)?,
            end: moved(self.end)?,
        })
    }
}

/// Whether a change touches something from these lines' first to their last: an insertion at either
/// edge does not.
fn is_within(change: &Change, lines: &Range<usize>) -> bool {
    if change.before.is_empty() {
        return lines.start < change.before.start && change.before.start < lines.end;
    }
    change.before.start < lines.end && lines.start < change.before.end
}

/// Counts the lines of a text: what stands between line feeds, the last one only if there is anything in it.
#[must_use]
pub fn count_lines(text: &str) -> usize {
    text.split_inclusive('\n').count()
}

/// A change from two beginnings, counted from 0, and two lengths.
#[cfg(test)]
pub(super) fn change(
    before_start: usize,
    before_lines: usize,
    after_start: usize,
    after_lines: usize,
) -> Change {
    let run = |start: usize, lines: usize| start..start.saturating_add(lines);
    Change {
        before: run(before_start, before_lines),
        after: run(after_start, after_lines),
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        reason = "a test fails by panicking"
    )]
    use proptest::prelude::*;

    use super::*;

    fn lines(start: u64, end: u64) -> LineRange {
        LineRange::new(start, end, 1_000).unwrap()
    }

    #[test]
    fn lines_follow_what_is_added_and_taken_away_above_them() {
        let added = change(0, 0, 0, 3);
        let taken = change(5, 2, 8, 0);
        assert_eq!(
            lines(3, 4).follow(std::slice::from_ref(&added)),
            Some(lines(6, 7))
        );
        assert_eq!(
            lines(10, 12).follow(&[added.clone(), taken.clone()]),
            Some(lines(11, 13))
        );
        assert_eq!(lines(1, 2).follow(&[taken]), Some(lines(1, 2)));
        assert_eq!(lines(1, 5).follow(&[added]), Some(lines(4, 8)));
        assert_eq!(lines(7, 9).follow(&[]), Some(lines(7, 9)));
    }

    #[test]
    fn a_change_within_makes_it_outdated_and_one_beside_it_does_not() {
        let table = [
            // Lines 3 to 5 are 2..5 counted from 0.
            (change(2, 1, 2, 1), None),
            (change(4, 1, 4, 1), None),
            (change(3, 0, 3, 1), None),
            (change(0, 9, 0, 0), None),
            (change(4, 3, 4, 0), None),
            (change(2, 0, 2, 1), Some((4, 6))),
            (change(5, 0, 5, 4), Some((3, 5))),
            (change(1, 1, 1, 1), Some((3, 5))),
            (change(0, 2, 0, 0), Some((1, 3))),
            (change(5, 1, 5, 0), Some((3, 5))),
        ];
        for (hunk, wanted) in table {
            let found = lines(3, 5)
                .follow(std::slice::from_ref(&hunk))
                .map(|range| (range.start(), range.end()));
            assert_eq!(found, wanted, "{hunk:?}");
        }
    }

    #[test]
    fn only_lines_that_are_there_can_be_named() {
        assert_eq!(LineRange::new(0, 1, 3), Err(NoSuchLines::Start));
        assert_eq!(LineRange::new(4, 4, 3), Err(NoSuchLines::Start));
        assert_eq!(LineRange::new(2, 1, 3), Err(NoSuchLines::End));
        assert_eq!(LineRange::new(2, 4, 3), Err(NoSuchLines::End));
        assert!(LineRange::new(3, 3, 3).is_ok());
        assert_eq!(
            ["", "a", "a\n", "a\nb", "\n\n"].map(count_lines),
            [0, 1, 1, 2, 2]
        );
    }

    /// Keep so many lines, then replace so many by so many others.
    type Step = (usize, usize, usize);

    /// Old lines, new lines and the hunks between them. Every line is unlike every other.
    fn play(steps: &[Step], rest: usize) -> (Vec<u32>, Vec<u32>, Vec<Change>) {
        let (mut old, mut new, mut hunks) = (Vec::new(), Vec::new(), Vec::new());
        let mut next = 0..;
        for &(keep, taken, added) in steps {
            let kept: Vec<u32> = next.by_ref().take(keep).collect();
            old.extend(&kept);
            new.extend(&kept);
            if taken + added > 0 {
                hunks.push(change(old.len(), taken, new.len(), added));
            }
            old.extend(next.by_ref().take(taken));
            new.extend(next.by_ref().take(added));
        }
        let kept: Vec<u32> = next.take(rest).collect();
        old.extend(&kept);
        new.extend(&kept);
        (old, new, hunks)
    }

    proptest! {
        #[test]
        fn a_comment_that_follows_names_the_same_lines_and_any_other_has_lost_one(
            steps in proptest::collection::vec((1..5_usize, 0..4_usize, 0..4_usize), 0..8), rest in 0..5_usize,
        ) {
            let (old, new, hunks) = play(&steps, rest);
            for start in 0..old.len() {
                for end in start + 1..=old.len() {
                    let range = LineRange::new(start as u64 + 1, end as u64, old.len()).unwrap();
                    let was = &old[start..end];
                    let is = new.windows(was.len()).position(|window| window == was);
                    let found = range.follow(&hunks).map(|range| (range.start() as usize - 1, range.end() as usize));
                    prop_assert_eq!(found, is.map(|at| (at, at + was.len())), "{:?} of {:?}", range, hunks);
                }
            }
        }

        #[test]
        fn no_hunks_make_it_panic(
            hunks in proptest::collection::vec((any::<usize>(), any::<usize>(), any::<usize>(), any::<usize>()), 0..5),
            start in 1..u64::MAX,
        ) {
            let hunks: Vec<Change> = hunks.into_iter().map(|(a, b, c, d)| change(a, b, c, d)).collect();
            let range = LineRange { start, end: start };
            let _ = range.follow(&hunks);
        }
    }
}
