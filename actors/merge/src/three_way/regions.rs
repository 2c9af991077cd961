//! Where the sides left the base, and who did: rules 1 to 3. Knows line numbers only.

use std::cmp::Ordering;
use std::ops::Range;

use crate::lines::Change;

/// Who changed a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangedBy {
    /// Only our side changed it.
    Ours,
    /// Only their side changed it.
    Theirs,
    /// Both did, differently: a conflict.
    Both,
    /// Both did, and their results turned out to be equal: our lines stand.
    Alike,
}

/// A region's lines in each of the three texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) by: ChangedBy,
    pub(super) base: Range<usize>,
    pub(super) ours: Range<usize>,
    pub(super) theirs: Range<usize>,
}

/// Pairs both sides' changes. Changes are independent only if an unchanged line of the base lies
/// between them; the others become conflicts, except those that are equal on both sides, which are
/// no region at all. `same` tells whether two changes of one base range write the same lines.
pub(super) fn regions(
    ours: &[Change],
    theirs: &[Change],
    same: impl Fn(&Change, &Change) -> bool,
) -> Vec<Region> {
    let mut found = Vec::new();
    let (mut ours, mut theirs) = (Cursor::of(ours), Cursor::of(theirs));
    loop {
        match (ours.next(), theirs.next()) {
            (None, None) => return found,
            (Some(our), their) if their.is_none_or(|their| our.before.end < their.before.start) => {
                let image = theirs.image(&our.before);
                append(
                    &mut found,
                    Region {
                        by: ChangedBy::Ours,
                        base: our.before.clone(),
                        ours: our.after.clone(),
                        theirs: image,
                    },
                );
                ours.pass();
            }
            (our, Some(their)) if our.is_none_or(|our| their.before.end < our.before.start) => {
                let image = ours.image(&their.before);
                append(
                    &mut found,
                    Region {
                        by: ChangedBy::Theirs,
                        base: their.before.clone(),
                        ours: image,
                        theirs: their.after.clone(),
                    },
                );
                theirs.pass();
            }
            (Some(our), Some(their)) => {
                if our.before != their.before || !same(our, their) {
                    append(&mut found, conflict(our, their));
                }
                let order = our.before.end.cmp(&their.before.end);
                if order != Ordering::Greater {
                    ours.pass();
                }
                if order != Ordering::Less {
                    theirs.pass();
                }
            }
            (Some(_), None) => ours.pass(),
            (None, Some(_)) => theirs.pass(),
        }
    }
}

/// A walk over one side's changes, in order.
struct Cursor<'a> {
    ahead: &'a [Change],
    /// The ends of the last change behind, in the base and in the side.
    behind: (usize, usize),
}

impl<'a> Cursor<'a> {
    fn of(changes: &'a [Change]) -> Self {
        Self {
            ahead: changes,
            behind: (0, 0),
        }
    }

    fn next(&self) -> Option<&'a Change> {
        self.ahead.first()
    }

    fn pass(&mut self) {
        if let Some((change, rest)) = self.ahead.split_first() {
            self.behind = (change.before.end, change.after.end);
            self.ahead = rest;
        }
    }

    /// Where lines of the base stand in this side, which did not change them.
    fn image(&self, base: &Range<usize>) -> Range<usize> {
        let moved = |line: usize| (line + self.behind.1).saturating_sub(self.behind.0);
        moved(base.start)..moved(base.end)
    }
}

/// One conflict over both changes' base lines; each side is widened by as much as its base range
/// is.
fn conflict(our: &Change, their: &Change) -> Region {
    let base = our.before.start.min(their.before.start)..our.before.end.max(their.before.end);
    let widened = |change: &Change| {
        let above = change.before.start - base.start;
        let below = base.end - change.before.end;
        change.after.start.saturating_sub(above)..change.after.end + below
    };
    Region {
        by: ChangedBy::Both,
        ours: widened(our),
        theirs: widened(their),
        base,
    }
}

/// Adds a region, or widens the last one if they touch on either side.
fn append(found: &mut Vec<Region>, region: Region) {
    let Some(last) = found.last_mut().filter(|last| {
        region.ours.start <= last.ours.end || region.theirs.start <= last.theirs.end
    }) else {
        found.push(region);
        return;
    };
    if last.by != region.by {
        last.by = ChangedBy::Both;
    }
    last.base.end = region.base.end;
    last.ours.end = region.ours.end;
    last.theirs.end = region.theirs.end;
}
