//! A page of an account's events and how many match, out of the slices and what is too new for
//! them. Where a page begins and how much is stored does not matter: places are found by binary
//! search over the slices' totals.

use rusqlite::Connection;

use super::slices::{self, Entry, SLICE, Slice, Totals, Wanted, first_of};
use crate::store::{EventQuery, ReadError};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;

/// Where the events of a page stand.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// The positions of the events, in order.
    pub(super) positions: Vec<Position>,
    /// What the page says of the list as a whole.
    pub(super) end: PageEnd,
}

/// Where a page of events ends, and what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageEnd {
    /// How many match, where that was asked for.
    pub(super) total: u64,
    /// The number up to which the page tells everything.
    pub(super) cursor: u64,
    /// Whether more match behind the page.
    pub(super) more: bool,
}

/// One tenant's events, or an audit trail, as of one moment.
pub(super) struct Timeline<'c> {
    connection: &'c Connection,
    tenant: i64,
    /// From the last slice's first number to the newest event. Everything before stands in full
    /// slices.
    tail: Slice,
    floor: u64,
    wanted: Wanted,
}

/// Finds a page; `fresh` was taken from memory before anything was read.
pub(super) fn page(
    connection: &Connection,
    fresh: Option<(u64, Vec<Entry>)>,
    query: &EventQuery,
) -> rusqlite::Result<Result<Places, ReadError>> {
    let tenant = query.tenant.number();
    let wanted = Wanted::new(&query.filter);
    let timeline = Timeline::open(connection, tenant, fresh, wanted)?;
    let floor = timeline.floor;
    let after = query.after.0;
    if after > timeline.last() {
        return Ok(Err(ReadError::NoCursor("after")));
    }
    if after > 0 && after < floor {
        return Ok(Err(ReadError::Expired));
    }
    timeline.page(query).map(Ok)
}

impl<'c> Timeline<'c> {
    /// That of a tenant; `fresh` was taken from memory before anything was read.
    pub(super) fn open(
        connection: &'c Connection,
        tenant: i64,
        fresh: Option<(u64, Vec<Entry>)>,
        wanted: Wanted,
    ) -> rusqlite::Result<Self> {
        let mut tail = slices::newest(connection, tenant)?.unwrap_or_else(Slice::beginning);
        if let Some((first, entries)) = fresh {
            let written = usize::try_from(tail.end().saturating_sub(first)).unwrap_or(usize::MAX);
            tail.entries.extend(entries.into_iter().skip(written));
        }
        Ok(Timeline {
            connection,
            tenant,
            tail,
            floor: slices::floor(connection, tenant)?,
            wanted,
        })
    }
}

impl Timeline<'_> {
    pub(super) fn last(&self) -> u64 {
        self.tail.end() - 1
    }

    fn page(&self, query: &EventQuery) -> rusqlite::Result<Places> {
        let start = query.after.0.max(self.floor);
        let end = match query.until {
            Some(position) => self.last_at(position)?,
            None => self.last(),
        };
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let (found, more) = self.find(start, end, limit)?;
        let cursor = match found.last() {
            Some((number, _)) if more => *number,
            Some(_) | None => end.max(start),
        };
        let total = match query.total {
            true if more => self.count_between(start, end)?,
            true => u64::try_from(found.len()).unwrap_or(u64::MAX),
            false => 0,
        };
        Ok(Places {
            positions: found.into_iter().map(|(_, pos)| pos).collect(),
            end: PageEnd {
                total,
                cursor,
                more,
            },
        })
    }

    /// The next numbers that match, with their positions, and whether more of them follow.
    pub(super) fn find(
        &self,
        start: u64,
        end: u64,
        limit: usize,
    ) -> rusqlite::Result<(Vec<(u64, Position)>, bool)> {
        let mut found = Vec::new();
        let mut more = false;
        self.walk(start, end, |number, entry| {
            more = found.len() >= limit;
            if !more {
                found.push((number, entry.pos));
            }
            !more
        })?;
        Ok((found, more))
    }

    /// Shows what matches behind `start`, up to `end`, for as long as it is wanted.
    fn walk(
        &self,
        start: u64,
        end: u64,
        mut goes_on: impl FnMut(u64, &Entry) -> bool,
    ) -> rusqlite::Result<()> {
        let mut next = Some(first_of(start + 1).min(self.tail.first));
        while let Some(first) = next.filter(|first| *first <= end) {
            let read = if first < self.tail.first {
                slices::read(self.connection, self.tenant, first)?
            } else {
                None
            };
            let slice = read.as_ref().unwrap_or(&self.tail);
            for (number, entry) in slice.numbered().skip_while(|(number, _)| *number <= start) {
                if number > end {
                    return Ok(());
                }
                if self.wanted.admits(entry) && !goes_on(number, entry) {
                    return Ok(());
                }
            }
            next = if first < self.tail.first {
                Some(self.next_slice(first)?)
            } else {
                None
            };
        }
        Ok(())
    }

    /// The next slice behind this one in which something may match.
    fn next_slice(&self, behind: u64) -> rusqlite::Result<u64> {
        if let Some(assignee) = self.wanted.assignee {
            let share = slices::share_behind(self.connection, self.tenant, assignee, behind)?;
            return Ok(share.map_or(self.tail.first, |share| share.first.min(self.tail.first)));
        }
        let mut low = behind + SLICE;
        if !self.wanted.by_kind() || low >= self.tail.first {
            return Ok(low.min(self.tail.first));
        }
        // The last slice before which nothing more stands than before `low`: first in growing
        // steps, then between two.
        let rank = self.before(low)?;
        let mut step = SLICE;
        let mut high = self.tail.first + SLICE;
        while low + step < high {
            let probe = low + step;
            if self.before(probe)? > rank {
                high = probe;
                break;
            }
            low = probe;
            step *= 2;
        }
        while low + SLICE < high {
            let middle = low + (high - low) / SLICE / 2 * SLICE;
            if self.before(middle)? > rank {
                high = middle
            } else {
                low = middle
            }
        }
        Ok(low)
    }

    /// How many pass by kind and channel before this slice.
    fn before(&self, first: u64) -> rusqlite::Result<u64> {
        if first >= self.tail.first {
            return Ok(self.tail.before.of(&self.wanted));
        }
        let totals = slices::totals(self.connection, self.tenant, first)?;
        Ok(totals
            .as_ref()
            .map_or(0, |totals: &Totals| totals.of(&self.wanted)))
    }

    /// Whether no total tells how many match.
    pub(super) fn is_walked(&self) -> bool {
        self.wanted.by_kind() && self.wanted.assignee.is_some()
    }

    /// How many match behind `start`, up to `end`.
    pub(super) fn count_between(&self, start: u64, end: u64) -> rusqlite::Result<u64> {
        if self.wanted.is_all() {
            return Ok(end.saturating_sub(start));
        }
        if self.is_walked() {
            let mut count = 0;
            self.walk(start, end, |_, _| {
                count += 1;
                true
            })?;
            return Ok(count);
        }
        Ok(self.count(end)?.saturating_sub(self.count(start)?))
    }

    /// How many match up to this number, from wherever the totals begin.
    fn count(&self, upto: u64) -> rusqlite::Result<u64> {
        let first = first_of(upto).min(self.tail.first);
        let read = if first < self.tail.first {
            slices::read(self.connection, self.tenant, first)?
        } else {
            None
        };
        let slice = read.as_ref().unwrap_or(&self.tail);
        let here = slice.count(&self.wanted, upto);
        match self.wanted.assignee {
            Some(assignee) => Ok(self.assigned_before(assignee, slice.first)? + here),
            None => Ok(slice.before.of(&self.wanted) + here),
        }
    }

    /// How many of an assignee's stand before a slice.
    fn assigned_before(&self, assignee: EntityNumber, first: u64) -> rusqlite::Result<u64> {
        let earlier = slices::share_until(self.connection, self.tenant, assignee, first - 1)?;
        if let Some(share) = earlier {
            return Ok(share.before + share.here);
        }
        // Retention may have taken the slices that the later ones count from.
        let later = slices::share_behind(self.connection, self.tenant, assignee, first - 1)?;
        Ok(later.map_or(0, |share| share.before))
    }

    /// The position of what has this number.
    pub(super) fn at(&self, number: u64) -> rusqlite::Result<Option<Position>> {
        let first = first_of(number).min(self.tail.first);
        let read = if first < self.tail.first {
            slices::read(self.connection, self.tenant, first)?
        } else {
            None
        };
        let slice = read.as_ref().unwrap_or(&self.tail);
        let entry = slice.numbered().find(|(known, _)| *known == number);
        Ok(entry.map(|(_, entry)| entry.pos))
    }

    /// The number behind which stand all of what matches up to `end` but the first so many behind
    /// `after`.
    pub(super) fn behind(&self, after: u64, end: u64, skipped: u64) -> rusqlite::Result<u64> {
        let (mut low, mut high) = (after, end);
        // The smallest number up to which so many match.
        while low < high {
            let middle = low + (high - low) / 2;
            if self.count_between(after, middle)? < skipped {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The last number that stands at this position or before.
    pub(super) fn last_at(&self, position: Position) -> rusqlite::Result<u64> {
        self.last_where(|entry| entry.pos <= position)
    }

    /// The last number of those with which it begins that are so.
    pub(super) fn last_where(&self, is_so: impl Fn(&Entry) -> bool) -> rusqlite::Result<u64> {
        if self.tail.entries.first().is_some_and(&is_so) {
            return Ok(last_within(&self.tail, &is_so));
        }
        let oldest = slices::oldest(self.connection, self.tenant, 0)?
            .map_or(self.tail.first, |slice| slice.first);
        let (mut low, mut high) = (oldest, self.tail.first);
        let mut found = oldest - 1;
        while low < high {
            let middle = low + (high - low) / SLICE / 2 * SLICE;
            let Some(slice) = slices::read(self.connection, self.tenant, middle)? else {
                break;
            };
            if slice.entries.first().is_some_and(&is_so) {
                found = last_within(&slice, &is_so);
                low = middle + SLICE;
            } else {
                high = middle;
            }
        }
        Ok(found)
    }
}

fn last_within(slice: &Slice, is_so: impl Fn(&Entry) -> bool) -> u64 {
    let upto = slice.entries.partition_point(is_so);
    slice.first + u64::try_from(upto).unwrap_or(0) - 1
}
