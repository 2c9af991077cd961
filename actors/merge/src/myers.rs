//! Which lines two texts do not have in common, as git finds it: Myers' algorithm in linear space
//! (E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", 1986), with git's rules for
//! when to settle for less than the fewest changes. Git's rules bound the work by the lines times
//! their square root, which for millions of short lines is minutes; so the steps are counted in a
//! [`StepBudget`], and once it is exhausted a search settles after a few changes.
//!
//! Knows tokens only. Equal lines have equal tokens.

use std::ops::Range;

use gix_imara_diff::Token;

use crate::budget::StepBudget;

/// The least number of changes after which a search settles.
const COST_MIN: i32 = 256;
/// The same once the budget is exhausted.
const COST_SPENT: i32 = 16;
/// Changes from which on a search goes on from a good run of equal lines, without having met the
/// one from the other end.
const GOOD_RUN_FROM: i32 = 256;
/// The fewest equal lines in a row that make a good run.
const RUN_LINES: i32 = 20;
/// How many lines for each change a good run must lie ahead.
const RUN_AHEAD: i32 = 4;
/// The most occurrences in the other text before a line counts as common.
const COMMON_MAX: u32 = 1_024;
/// Lines above and below one that is common in which it looks for company.
const NEAR_LINES: usize = 100;

/// For each line of two texts whether the other one lacks it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) removed: Vec<bool>,
    pub(super) added: Vec<bool>,
}

impl Marks {
    /// Compares two texts, line by line; where the budget is exhausted, more lines are marked than
    /// need be.
    pub(super) fn of(before: &[Token], after: &[Token], budget: &StepBudget) -> Self {
        let mut marks = Marks {
            removed: vec![false; before.len()],
            added: vec![false; after.len()],
        };
        let shorter = before.len().min(after.len());
        let first = before
            .iter()
            .zip(after)
            .take_while(|(one, other)| one == other)
            .count();
        let ends = before
            .iter()
            .rev()
            .zip(after.iter().rev())
            .take(shorter - first);
        let last = ends.take_while(|(one, other)| one == other).count();
        let (of_before, of_after) = (first..before.len() - last, first..after.len() - last);
        if of_before.is_empty() || of_after.is_empty() {
            fill(&mut marks.removed, of_before);
            fill(&mut marks.added, of_after);
            return marks;
        }
        let (in_before, in_after) = (Counts::of(before), Counts::of(after));
        let old = Side::new(before, of_before, &in_after, &mut marks.removed);
        let new = Side::new(after, of_after, &in_before, &mut marks.added);
        drop((in_before, in_after));
        Search::new(&old, &new, budget).run(&mut marks);
        marks
    }

    /// Texts whose only difference is this one: what both have is numbered, once in each.
    pub(super) fn spelled_out(&self) -> [Vec<Token>; 2] {
        let spell = |marks: &[bool], mark: u32| {
            let mut kept = 2;
            let token = |changed: &bool| {
                kept += u32::from(!changed);
                Token(if *changed { mark } else { kept - 1 })
            };
            marks.iter().map(token).collect()
        };
        [spell(&self.removed, 0), spell(&self.added, 1)]
    }
}

fn fill(marks: &mut [bool], lines: Range<usize>) {
    marks
        .get_mut(lines)
        .into_iter()
        .for_each(|marks| marks.fill(true));
}

/// How often each line occurs in a text.
struct Counts(Vec<u32>);

impl Counts {
    fn of(tokens: &[Token]) -> Self {
        let different = tokens
            .iter()
            .map(|token| token.0 as usize + 1)
            .max()
            .unwrap_or(0);
        let mut counts = vec![0; different];
        for token in tokens {
            if let Some(count) = counts.get_mut(token.0 as usize) {
                *count += 1;
            }
        }
        Counts(counts)
    }

    fn get(&self, token: Token) -> u32 {
        self.0.get(token.0 as usize).copied().unwrap_or(0)
    }
}

/// How often the other text has a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occurs {
    Never,
    Sometimes,
    /// So often that it tells little, such as an empty line.
    Often,
}

/// What of a text is worth comparing.
struct Side {
    tokens: Vec<Token>,
    /// Where each of them stands in the text.
    places: Vec<u32>,
}

impl Side {
    /// These lines of a text, but for those that the other one never has, and the common ones among
    /// such: they are marked.
    fn new(tokens: &[Token], lines: Range<usize>, other: &Counts, marks: &mut [bool]) -> Self {
        let often = root(tokens.len()).min(COMMON_MAX);
        let occurs = |token: &Token| match other.get(*token) {
            0 => Occurs::Never,
            count if count >= often => Occurs::Often,
            _ => Occurs::Sometimes,
        };
        let lines_of = tokens.get(lines.clone()).unwrap_or_default();
        let occurrences: Vec<Occurs> = lines_of.iter().map(occurs).collect();
        let mut side = Side {
            tokens: Vec::new(),
            places: Vec::new(),
        };
        for (place, (token, occurs)) in lines_of.iter().zip(&occurrences).enumerate() {
            let left_out = match occurs {
                Occurs::Never => true,
                Occurs::Sometimes => false,
                Occurs::Often => is_lost(&occurrences, place),
            };
            let place = lines.start + place;
            if !left_out {
                side.tokens.push(*token);
                side.places.push(u32::try_from(place).unwrap_or(u32::MAX));
            } else if let Some(mark) = marks.get_mut(place) {
                *mark = true;
            }
        }
        side
    }

    fn mark(&self, lines: Range<i32>, marks: &mut [bool]) {
        for place in self
            .places
            .get(lines.start as usize..lines.end as usize)
            .unwrap_or_default()
        {
            if let Some(mark) = marks.get_mut(*place as usize) {
                *mark = true;
            }
        }
    }
}

/// Whether a common line stands among lines that the other text never has: more than three of those
/// for each common one, itself counted twice, up to the next line on either side that is neither.
fn is_lost(occurrences: &[Occurs], place: usize) -> bool {
    let (above, below) = occurrences.split_at(place);
    let (never_above, often_above) = company(above.iter().rev());
    if never_above == 0 {
        return false;
    }
    let (never_below, often_below) = company(below.iter().skip(1));
    never_below > 0 && never_above + never_below > 3 * (often_above + often_below)
}

/// How many of the next lines never occur, and how many often, one more of these than there are.
fn company<'o>(lines: impl Iterator<Item = &'o Occurs>) -> (usize, usize) {
    let (mut never, mut often) = (0, 1);
    for occurs in lines.take(NEAR_LINES) {
        match occurs {
            Occurs::Never => never += 1,
            Occurs::Often => often += 1,
            Occurs::Sometimes => break,
        }
    }
    (never, often)
}

/// The power of two that git takes for a square root.
fn root(number: usize) -> u32 {
    1_u32
        .checked_shl((usize::BITS - number.leading_zeros()).div_ceil(2))
        .unwrap_or(u32::MAX)
}

/// A place between two lines in each of both sides, counted from 0.
#[derive(Clone, Copy)]
struct Point {
    before: i32,
    after: i32,
}

impl Point {
    /// The place that lies this many lines further down in both sides.
    fn down(self, lines: i32) -> Self {
        Point {
            before: self.before + lines,
            after: self.after + lines,
        }
    }

    /// The place at this line of the first side on this diagonal.
    fn on(diagonal: i32, before: i32) -> Self {
        Point {
            before,
            after: before - diagonal,
        }
    }
}

/// Lines of both sides that are to be compared with each other.
struct Area {
    before: Range<i32>,
    after: Range<i32>,
    /// Whether the fewest changes are known to be so few that looking for them does not take long.
    exactly: bool,
}

impl Area {
    fn start(&self) -> Point {
        Point {
            before: self.before.start,
            after: self.after.start,
        }
    }

    fn end(&self) -> Point {
        Point {
            before: self.before.end,
            after: self.after.end,
        }
    }
}

/// Where an area falls into two.
struct Split {
    at: Point,
    /// Whether the area above is to be compared exactly.
    above_exactly: bool,
    /// Whether the area below is to be compared exactly.
    below_exactly: bool,
}

/// How far a search has come on each diagonal: the line of the first side; that of the second is so
/// much less as the diagonal says.
struct Frontier {
    lines: Vec<i32>,
    /// The diagonal on which it began, and where that one stands.
    middle: i32,
    half: i32,
    low: i32,
    high: i32,
    /// Stands beside the outermost diagonals: worse than any line.
    worst: i32,
}

impl Frontier {
    fn new(cost_max: i32, worst: i32) -> Self {
        let half = cost_max + 2;
        Frontier {
            lines: vec![worst; 2 * half as usize + 1],
            middle: 0,
            half,
            low: 0,
            high: 0,
            worst,
        }
    }

    fn begin(&mut self, diagonal: i32, line: i32) {
        (self.middle, self.low, self.high) = (diagonal, diagonal, diagonal);
        self.set(diagonal, line);
    }

    fn place(&self, diagonal: i32) -> usize {
        (diagonal - self.middle + self.half) as usize
    }

    fn get(&self, diagonal: i32) -> i32 {
        self.lines
            .get(self.place(diagonal))
            .copied()
            .unwrap_or(self.worst)
    }

    fn set(&mut self, diagonal: i32, line: i32) {
        let place = self.place(diagonal);
        if let Some(held) = self.lines.get_mut(place) {
            *held = line;
        }
    }

    /// One change more: a diagonal more on either side, or one less where the area ends.
    fn widen(&mut self, area: &Area) {
        if self.low > area.before.start - area.after.end {
            self.low -= 1;
            self.set(self.low - 1, self.worst);
        } else {
            self.low += 1;
        }
        if self.high < area.before.end - area.after.start {
            self.high += 1;
            self.set(self.high + 1, self.worst);
        } else {
            self.high -= 1;
        }
    }

    /// Every second diagonal, from the highest down: those that this many changes lead to.
    fn diagonals(&self) -> impl Iterator<Item = i32> + use<> {
        (self.low..=self.high).rev().step_by(2)
    }

    fn count(&self) -> u64 {
        u64::try_from((self.high - self.low) / 2 + 1).unwrap_or(0)
    }

    fn holds(&self, diagonal: i32) -> bool {
        (self.low..=self.high).contains(&diagonal)
    }
}

/// What one change more has led to.
enum Found {
    /// The searches have met here.
    Meeting(Point),
    /// A run of equal lines that may be good.
    Run,
    Nothing,
}

/// Looks from both ends of an area at once for the way with the fewest changes, until the searches
/// meet.
struct Search<'a> {
    old: &'a Side,
    new: &'a Side,
    forward: Frontier,
    backward: Frontier,
    cost_max: i32,
    budget: &'a StepBudget,
}

impl<'a> Search<'a> {
    fn new(old: &'a Side, new: &'a Side, budget: &'a StepBudget) -> Self {
        let lines = old.tokens.len() + new.tokens.len();
        let cost_max = i32::try_from(root(lines + 3))
            .unwrap_or(i32::MAX)
            .max(COST_MIN);
        let [forward, backward] = [-1, i32::MAX].map(|worst| Frontier::new(cost_max, worst));
        Search {
            old,
            new,
            forward,
            backward,
            cost_max,
            budget,
        }
    }

    fn run(&mut self, marks: &mut Marks) {
        let all = |side: &Side| 0..i32::try_from(side.tokens.len()).unwrap_or(i32::MAX);
        let mut areas = vec![Area {
            before: all(self.old),
            after: all(self.new),
            exactly: false,
        }];
        while let Some(area) = areas.pop() {
            let area = self.trimmed(area);
            if area.before.is_empty() || area.after.is_empty() {
                self.old.mark(area.before, &mut marks.removed);
                self.new.mark(area.after, &mut marks.added);
                continue;
            }
            let split = self.split(&area);
            areas.push(Area {
                before: split.at.before..area.before.end,
                after: split.at.after..area.after.end,
                exactly: split.below_exactly,
            });
            areas.push(Area {
                before: area.before.start..split.at.before,
                after: area.after.start..split.at.after,
                exactly: split.above_exactly,
            });
        }
    }

    /// Without the equal lines at both ends.
    fn trimmed(&self, area: Area) -> Area {
        let start = area.start();
        let start = start.down(self.equal_from(start, area.end()));
        let end = area.end();
        let end = end.down(-self.equal_up_to(end, start));
        Area {
            before: start.before..end.before,
            after: start.after..end.after,
            exactly: area.exactly,
        }
    }

    /// How many lines are equal from a place on, at most up to an end.
    fn equal_from(&self, start: Point, end: Point) -> i32 {
        let old = self
            .old
            .tokens
            .get(start.before as usize..end.before as usize)
            .unwrap_or_default();
        let new = self
            .new
            .tokens
            .get(start.after as usize..end.after as usize)
            .unwrap_or_default();
        old.iter()
            .zip(new)
            .take_while(|(one, other)| one == other)
            .count() as i32
    }

    /// How many lines are equal up to a place, at most from a start on.
    fn equal_up_to(&self, end: Point, start: Point) -> i32 {
        let old = self
            .old
            .tokens
            .get(start.before as usize..end.before as usize)
            .unwrap_or_default();
        let new = self
            .new
            .tokens
            .get(start.after as usize..end.after as usize)
            .unwrap_or_default();
        old.iter()
            .rev()
            .zip(new.iter().rev())
            .take_while(|(one, other)| one == other)
            .count() as i32
    }

    fn split(&mut self, area: &Area) -> Split {
        self.forward
            .begin(area.before.start - area.after.start, area.before.start);
        self.backward
            .begin(area.before.end - area.after.end, area.before.end);
        let mut cost = 0;
        loop {
            cost += 1;
            let mut has_run = false;
            for one_more in [Self::advance, Self::retreat] {
                match one_more(self, area) {
                    Found::Meeting(at) => {
                        return Split {
                            at,
                            above_exactly: true,
                            below_exactly: true,
                        };
                    }
                    Found::Run => has_run = true,
                    Found::Nothing => {}
                }
            }
            if has_run && !area.exactly && cost > GOOD_RUN_FROM {
                let split = self
                    .good_run_ahead(area, cost)
                    .or_else(|| self.good_run_back(area, cost));
                if let Some(split) = split {
                    return split;
                }
            }
            if cost >= self.cost_max || cost >= COST_SPENT && self.budget.is_exhausted() {
                return self.settled(area);
            }
        }
    }

    /// Whether the searches meet while the one from above goes on; otherwise while the one from
    /// below does.
    fn meets_ahead(&self) -> bool {
        (self.forward.middle - self.backward.middle) % 2 != 0
    }

    /// Goes on from above by one change.
    fn advance(&mut self, area: &Area) -> Found {
        self.forward.widen(area);
        let (meets, mut found, mut steps) = (self.meets_ahead(), Found::Nothing, 0);
        for diagonal in self.forward.diagonals() {
            let (left, right) = (
                self.forward.get(diagonal - 1),
                self.forward.get(diagonal + 1),
            );
            let line = if left >= right { left + 1 } else { right };
            let run = self.equal_from(Point::on(diagonal, line), area.end());
            let line = line + run;
            self.forward.set(diagonal, line);
            steps += 1 + u64::from(run.unsigned_abs());
            if run > RUN_LINES {
                found = Found::Run;
            }
            if meets && self.backward.holds(diagonal) && self.backward.get(diagonal) <= line {
                found = Found::Meeting(Point::on(diagonal, line));
                break;
            }
        }
        self.budget.take(steps);
        found
    }

    /// Goes on from below by one change.
    fn retreat(&mut self, area: &Area) -> Found {
        self.backward.widen(area);
        let (meets, mut found, mut steps) = (!self.meets_ahead(), Found::Nothing, 0);
        for diagonal in self.backward.diagonals() {
            let (left, right) = (
                self.backward.get(diagonal - 1),
                self.backward.get(diagonal + 1),
            );
            let line = if left < right { left } else { right - 1 };
            let run = self.equal_up_to(Point::on(diagonal, line), area.start());
            let line = line - run;
            self.backward.set(diagonal, line);
            steps += 1 + u64::from(run.unsigned_abs());
            if run > RUN_LINES {
                found = Found::Run;
            }
            if meets && self.forward.holds(diagonal) && line <= self.forward.get(diagonal) {
                found = Found::Meeting(Point::on(diagonal, line));
                break;
            }
        }
        self.budget.take(steps);
        found
    }

    /// The end of a run of equal lines that the search from above has gone over, far ahead of what
    /// its changes promise.
    fn good_run_ahead(&self, area: &Area, cost: i32) -> Option<Split> {
        self.budget.take(self.forward.count());
        let (mut best, mut split) = (RUN_AHEAD * cost, None);
        for diagonal in self.forward.diagonals() {
            let at = Point::on(diagonal, self.forward.get(diagonal));
            let Point { before, after } = at;
            let ahead = before - area.before.start + after
                - area.after.start
                - (diagonal - self.forward.middle).abs();
            let has_room =
                area.before.start + RUN_LINES <= before && area.after.start + RUN_LINES <= after;
            if ahead > best
                && has_room
                && before < area.before.end
                && after < area.after.end
                && self.equal_up_to(at, at.down(-RUN_LINES)) == RUN_LINES
            {
                best = ahead;
                split = Some(Split {
                    at,
                    above_exactly: true,
                    below_exactly: false,
                });
            }
        }
        split
    }

    /// The start of a run of equal lines that the search from below has gone over, far ahead of what
    /// its changes promise.
    fn good_run_back(&self, area: &Area, cost: i32) -> Option<Split> {
        self.budget.take(self.backward.count());
        let (mut best, mut split) = (RUN_AHEAD * cost, None);
        for diagonal in self.backward.diagonals() {
            let at = Point::on(diagonal, self.backward.get(diagonal));
            let Point { before, after } = at;
            let ahead = area.before.end - before + area.after.end
                - after
                - (diagonal - self.backward.middle).abs();
            let has_room =
                before <= area.before.end - RUN_LINES && after <= area.after.end - RUN_LINES;
            if ahead > best
                && has_room
                && area.before.start < before
                && area.after.start < after
                && self.equal_from(at, at.down(RUN_LINES)) == RUN_LINES
            {
                best = ahead;
                split = Some(Split {
                    at,
                    above_exactly: false,
                    below_exactly: true,
                });
            }
        }
        split
    }

    /// As far as either search has come, whichever has come farther.
    fn settled(&self, area: &Area) -> Split {
        let (mut ahead, mut ahead_before) = (-1, -1);
        for diagonal in self.forward.diagonals() {
            let before = self
                .forward
                .get(diagonal)
                .min(area.before.end)
                .min(area.after.end + diagonal);
            let sum = before + before - diagonal;
            if sum > ahead {
                (ahead, ahead_before) = (sum, before);
            }
        }
        let (mut back, mut back_before) = (i32::MAX, i32::MAX);
        for diagonal in self.backward.diagonals() {
            let before = self
                .backward
                .get(diagonal)
                .max(area.before.start)
                .max(area.after.start + diagonal);
            let sum = before + before - diagonal;
            if sum < back {
                (back, back_before) = (sum, before);
            }
        }
        if area.before.end + area.after.end - back < ahead - area.before.start - area.after.start {
            Split {
                at: Point {
                    before: ahead_before,
                    after: ahead - ahead_before,
                },
                above_exactly: true,
                below_exactly: false,
            }
        } else {
            Split {
                at: Point {
                    before: back_before,
                    after: back - back_before,
                },
                above_exactly: false,
                below_exactly: true,
            }
        }
    }
}

#[cfg(test)]
#[path = "myers_tests.rs"]
mod tests;
