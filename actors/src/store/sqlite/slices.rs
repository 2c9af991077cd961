//! The feed by account, written behind: slices of consecutive numbers of one tenant. Each holds
//! where its events stand and what filters see of them, and before them the totals up to it, so
//! that how many match is a difference of two slices and where the next match stands is a search
//! over totals, however much lies between.

use std::collections::{BTreeMap, HashSet};

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{self, Columns, columns, int, only, optional_millis, whole};
use crate::store::AuditQuery;
use colloquy_model::audit::AuditAction;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_filter::EventFilter;
use colloquy_model::event_kind::EventKind;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// Numbers in a full slice: one to `SLICE` in the first, and so on. Larger ones cost the readers,
/// smaller ones the writer, who touches a page for each assignee of a slice. Tests want many of
/// them.
pub(super) const SLICE: u64 = if cfg!(test) { 8 } else { 512 };

/// Bytes of one entry: position, instant, assignee, kind, channel.
const ENTRY: usize = 26;
/// Bytes of one total: kind, channel, how many.
const TOTAL: usize = 10;

/// An event, as the index knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pos: Position,
    pub(super) at: Timestamp,
    /// The number of the assignee's identifier; 0 where there is none.
    pub(super) assignee: EntityNumber,
    pub(super) kind: u8,
    /// One more than its code; 0 where there is none.
    pub(super) channel: u8,
}

/// How many there are of each kind and channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Totals(BTreeMap<(u8, u8), u64>);

/// What a filter asks of an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// The kinds that pass, a bit for each.
    kinds: u128,
    channel: Option<u8>,
    pub(super) assignee: Option<EntityNumber>,
}

impl Wanted {
    pub(super) fn new(filter: &EventFilter) -> Self {
        let kinds = filter
            .kinds
            .iter()
            .fold(0, |kinds, kind| kinds | bit(*kind as u8));
        Wanted {
            kinds: if filter.kinds.is_empty() {
                u128::MAX
            } else {
                kinds
            },
            channel: filter
                .channel
                .map(|channel| channel_code(Some(channel.code()))),
            assignee: filter.assignee.map(|user| user.number()),
        }
    }

    /// What a list of the audit trail shows, where each entry has the action in the place of a kind,
    /// and who did it in that of an assignee.
    pub(super) fn of_audit(query: &AuditQuery) -> Self {
        let passes = |action: &AuditAction| query.admits(*action);
        let shown = AuditAction::all().filter(passes);
        Wanted {
            kinds: if query.action.is_none() && query.outcome.is_none() {
                u128::MAX
            } else {
                shown.fold(0, |kinds, action| kinds | bit(action.code()))
            },
            channel: None,
            assignee: query.actor,
        }
    }

    /// Whether everything passes.
    pub(super) fn is_all(&self) -> bool {
        !self.by_kind() && self.assignee.is_none()
    }

    /// Whether kind or channel matter.
    pub(super) fn by_kind(&self) -> bool {
        self.kinds != u128::MAX || self.channel.is_some()
    }

    /// Which rows of a conversation pass by kind.
    pub(super) fn rows(&self) -> WantedRows {
        let messages = bit(EventKind::MessageCreated as u8);
        match (
            self.kinds & messages != 0,
            self.kinds & CONVERSATIONS & !messages != 0,
        ) {
            (true, true) => WantedRows::Both,
            (true, false) => WantedRows::Messages,
            (false, true) => WantedRows::Others,
            (false, false) => WantedRows::Neither,
        }
    }

    /// The same kinds without messages' own rows.
    pub(super) fn of_others(&self) -> Self {
        Wanted {
            kinds: self.kinds & CONVERSATIONS & !bit(EventKind::MessageCreated as u8),
            ..*self
        }
    }

    /// Whether channel and assignee are of no matter.
    pub(super) fn is_of_kinds_alone(&self) -> bool {
        self.channel.is_none() && self.assignee.is_none()
    }

    pub(super) fn admits(&self, entry: &Entry) -> bool {
        self.admits_kind(entry.kind, entry.channel)
            && self.assignee.is_none_or(|user| user == entry.assignee)
    }

    fn admits_kind(&self, kind: u8, channel: u8) -> bool {
        self.kinds & bit(kind) != 0 && self.channel.is_none_or(|wanted| wanted == channel)
    }

    /// The same as SQLite compares.
    pub(super) fn values(&self) -> WantedValues {
        WantedValues {
            kinds: i64::from_le_bytes(low(self.kinds).to_le_bytes()),
            channel: self.channel.map(|channel| i64::from(channel) - 1),
            assignee: self.assignee.map(|user| int(user.0)),
        }
    }
}

/// Which rows of a conversation a filter asks for, as far as their kinds say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WantedRows {
    /// Messages' own rows, and some of the others.
    Both,
    /// Messages' own rows, and none of the others.
    Messages,
    /// Some of the others, and none of messages' own.
    Others,
    /// No row of a conversation passes.
    Neither,
}

/// What a filter asks, in SQLite's values.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedValues {
    /// The kinds that pass, a bit for each.
    pub(super) kinds: i64,
    /// The channel's code; none for any.
    pub(super) channel: Option<i64>,
    /// The number of the assignee's identifier; none for any.
    pub(super) assignee: Option<i64>,
}

/// The bits of what happens in conversations.
const CONVERSATIONS: u128 = 0b11_1110 | 1 << EventKind::ConversationErased as u8;

/// The kinds of events, which all have one of the first 64 bits.
fn low(kinds: u128) -> u64 {
    u64::try_from(kinds & u128::from(u64::MAX)).unwrap_or(u64::MAX)
}

fn bit(kind: u8) -> u128 {
    1_u128.checked_shl(kind.into()).unwrap_or(0)
}

/// A channel as entries hold it.
pub(super) fn channel_code(code: Option<i64>) -> u8 {
    code.and_then(|code| u8::try_from(code + 1).ok())
        .unwrap_or(0)
}

impl Totals {
    pub(super) fn add(&mut self, entry: &Entry) {
        *self.0.entry((entry.kind, entry.channel)).or_default() += 1;
    }

    /// How many of them pass by kind and channel.
    pub(super) fn of(&self, wanted: &Wanted) -> u64 {
        let passes = |((kind, channel), _): &(&(u8, u8), &u64)| wanted.admits_kind(*kind, *channel);
        self.0.iter().filter(passes).map(|(_, total)| total).sum()
    }

    fn bytes(&self) -> Vec<u8> {
        let total = |((kind, channel), total): (&(u8, u8), &u64)| {
            [*kind, *channel].into_iter().chain(total.to_le_bytes())
        };
        self.0.iter().flat_map(total).collect()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let total = |chunk: &[u8]| {
            let (code, total) = chunk.split_first_chunk::<2>()?;
            Some((
                (code[0], code[1]),
                u64::from_le_bytes(total.try_into().ok()?),
            ))
        };
        Totals(bytes.chunks_exact(TOTAL).filter_map(total).collect())
    }
}

impl Entry {
    fn bytes(&self) -> impl Iterator<Item = u8> + use<> {
        let (pos, at, assignee) = (
            self.pos.0.to_le_bytes(),
            self.at.0.to_le_bytes(),
            self.assignee.0.to_le_bytes(),
        );
        pos.into_iter()
            .chain(at)
            .chain(assignee)
            .chain([self.kind, self.channel])
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (pos, rest) = bytes.split_first_chunk::<8>()?;
        let (at, rest) = rest.split_first_chunk::<8>()?;
        let (assignee, rest) = rest.split_first_chunk::<8>()?;
        let (code, _) = rest.split_first_chunk::<2>()?;
        Some(Entry {
            pos: Position(i64::from_le_bytes(*pos)),
            at: Timestamp(i64::from_le_bytes(*at)),
            assignee: EntityNumber(u64::from_le_bytes(*assignee)),
            kind: code[0],
            channel: code[1],
        })
    }
}

/// Consecutive entries of one tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slice {
    /// The number of the first entry.
    pub(super) first: u64,
    /// The totals of all entries before it.
    pub(super) before: Totals,
    pub(super) entries: Vec<Entry>,
}

/// The first number of the slice that this number is in.
pub(super) fn first_of(number: u64) -> u64 {
    number.saturating_sub(1) / SLICE * SLICE + 1
}

impl Slice {
    /// The empty one at the beginning.
    pub(super) fn beginning() -> Self {
        Slice {
            first: 1,
            before: Totals::default(),
            entries: Vec::new(),
        }
    }

    /// The number behind its last.
    pub(super) fn end(&self) -> u64 {
        self.first + u64::try_from(self.entries.len()).unwrap_or(0)
    }

    pub(super) fn numbered(&self) -> impl Iterator<Item = (u64, &Entry)> {
        (self.first..).zip(&self.entries)
    }

    /// How many of its entries up to and with this number pass.
    pub(super) fn count(&self, wanted: &Wanted, upto: u64) -> u64 {
        let matches = self
            .numbered()
            .take_while(|(number, _)| *number <= upto)
            .filter(|(_, entry)| wanted.admits(entry));
        u64::try_from(matches.count()).unwrap_or(u64::MAX)
    }

    /// The totals up to and with its last entry.
    pub(super) fn after(&self) -> Totals {
        let mut totals = self.before.clone();
        self.entries.iter().for_each(|entry| totals.add(entry));
        totals
    }
}

columns! {
    /// An event in the log of changes, as its entry has it.
    pub(super) struct EntryRow {
        scope: i64,
        number: Option<u64>,
        pos: Position,
        at: Timestamp,
        assignee: Option<EntityNumber>,
        happened: u8,
        channel: Option<i64>,
    }
}

impl EntryRow {
    pub(super) fn entry(&self) -> Entry {
        Entry {
            pos: self.pos,
            at: self.at,
            assignee: self.assignee.unwrap_or(EntityNumber::ZERO),
            kind: self.happened,
            channel: channel_code(self.channel),
        }
    }
}

columns! {
    /// A slice as the file holds it.
    struct SliceRow<'r> {
        first: u64,
        before: &'r [u8],
        entries: &'r [u8],
    }
}

fn slice(row: &rusqlite::Row<'_>) -> rusqlite::Result<Slice> {
    let SliceRow {
        first,
        before,
        entries,
    } = SliceRow::read(row)?;
    if before.len() % TOTAL != 0 || entries.len() % ENTRY != 0 {
        return Err(codec::damaged(
            format_args!("the feed's slice from {first}"),
            "it is cut off",
        ));
    }
    let entries = entries
        .chunks_exact(ENTRY)
        .filter_map(Entry::from_bytes)
        .collect();
    Ok(Slice {
        first,
        before: Totals::from_bytes(before),
        entries,
    })
}

/// The slice that begins with this number.
pub(super) fn read(
    connection: &Connection,
    tenant: i64,
    first: u64,
) -> rusqlite::Result<Option<Slice>> {
    let sql = format!(
        "SELECT {} FROM feed WHERE scope = ?1 AND first = ?2",
        SliceRow::COLUMNS
    );
    connection
        .prepare_cached(&sql)?
        .query_row([tenant, int(first)], slice)
        .optional()
}

/// The newest slice of an account and mode.
pub(super) fn newest(connection: &Connection, tenant: i64) -> rusqlite::Result<Option<Slice>> {
    let sql = format!(
        "SELECT {} FROM feed WHERE scope = ?1 ORDER BY first DESC LIMIT 1",
        SliceRow::COLUMNS
    );
    connection
        .prepare_cached(&sql)?
        .query_row([tenant], slice)
        .optional()
}

/// The oldest slice, from this number on.
pub(super) fn oldest(
    connection: &Connection,
    tenant: i64,
    from: u64,
) -> rusqlite::Result<Option<Slice>> {
    let sql = format!(
        "SELECT {} FROM feed WHERE scope = ?1 AND first >= ?2 ORDER BY first LIMIT 1",
        SliceRow::COLUMNS
    );
    connection
        .prepare_cached(&sql)?
        .query_row([tenant, int(from)], slice)
        .optional()
}

/// The totals before a slice.
pub(super) fn totals(
    connection: &Connection,
    tenant: i64,
    first: u64,
) -> rusqlite::Result<Option<Totals>> {
    connection
        .prepare_cached("SELECT before FROM feed WHERE scope = ?1 AND first = ?2")?
        .query_row([tenant, int(first)], |row| {
            codec::column(row, 0, "feed.before").map(Totals::from_bytes)
        })
        .optional()
}

/// The last number that retention took away.
pub(super) fn floor(connection: &Connection, tenant: i64) -> rusqlite::Result<u64> {
    let floor = connection
        .prepare_cached("SELECT floor FROM scopes WHERE scope = ?1")?
        .query_row([tenant], only)
        .optional()?;
    Ok(floor.unwrap_or(0))
}

/// Writes entries behind those that are written; `from` is the number of the first, and what is
/// written already is left out. In the caller's transaction.
pub(super) fn append(
    connection: &Connection,
    tenant: i64,
    from: u64,
    entries: &[Entry],
) -> rusqlite::Result<()> {
    let mut open = match newest(connection, tenant) {
        Ok(newest) => newest.unwrap_or_else(Slice::beginning),
        // Told; its account's lists answer with that. The commits of all others, which it goes
        // along with, go on.
        Err(error) if codec::unreadable(&error).is_some() => return Ok(()),
        Err(error) => return Err(error),
    };
    if from > open.end() {
        tracing::error!(
            tenant,
            from,
            written = open.end(),
            "the feed by account has a gap; run `colloquy check`"
        );
        return Ok(());
    }
    let written = usize::try_from(open.end() - from).unwrap_or(usize::MAX);
    let mut left = entries.get(written..).unwrap_or_default();
    while !left.is_empty() {
        let room = SLICE.saturating_sub(open.end() - open.first);
        if room == 0 {
            open = Slice {
                first: open.end(),
                before: open.after(),
                entries: Vec::new(),
            };
            continue;
        }
        let (now, later) =
            left.split_at(left.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
        open.entries.extend_from_slice(now);
        put(connection, tenant, &open, now)?;
        left = later;
    }
    Ok(())
}

fn put(
    connection: &Connection,
    tenant: i64,
    slice: &Slice,
    added: &[Entry],
) -> rusqlite::Result<()> {
    let newest_at = slice.entries.iter().map(|entry| entry.at).max();
    let entries: Vec<u8> = slice.entries.iter().flat_map(Entry::bytes).collect();
    connection
        .prepare_cached("INSERT OR REPLACE INTO feed(scope, first, at, before, entries) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![
            tenant,
            int(slice.first),
            optional_millis(newest_at),
            slice.before.bytes(),
            entries
        ])?;
    let mut upsert = connection.prepare_cached(
        "INSERT INTO feed_assignees(scope, assignee, first, before, here) SELECT ?1, ?2, ?3, coalesce((SELECT before + here FROM feed_assignees
           WHERE scope = ?1 AND assignee = ?2 AND first < ?3 ORDER BY first DESC LIMIT 1), 0), ?4 WHERE true
         ON CONFLICT DO UPDATE SET here = excluded.here",
    )?;
    let assignees: HashSet<EntityNumber> = added
        .iter()
        .map(|entry| entry.assignee)
        .filter(|user| *user != EntityNumber::ZERO)
        .collect();
    for assignee in assignees {
        let here = slice
            .entries
            .iter()
            .filter(|entry| entry.assignee == assignee)
            .count();
        upsert.execute(params![
            tenant,
            int(assignee.0),
            int(slice.first),
            i64::try_from(here).unwrap_or(i64::MAX)
        ])?;
    }
    Ok(())
}

columns! {
    /// How many of an assignee's events stand before a slice and in it.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Share {
        first: u64,
        before: u64,
        here: u64,
    }
}

/// The assignee's last slice that begins with this number or before.
pub(super) fn share_until(
    connection: &Connection,
    tenant: i64,
    assignee: EntityNumber,
    first: u64,
) -> rusqlite::Result<Option<Share>> {
    let sql = format!(
        "SELECT {} FROM feed_assignees WHERE scope = ?1 AND assignee = ?2 AND first <= ?3
         ORDER BY first DESC LIMIT 1",
        Share::COLUMNS
    );
    share(connection, &sql, [tenant, int(assignee.0), int(first)])
}

/// The assignee's first slice that begins behind this number.
pub(super) fn share_behind(
    connection: &Connection,
    tenant: i64,
    assignee: EntityNumber,
    first: u64,
) -> rusqlite::Result<Option<Share>> {
    let sql = format!(
        "SELECT {} FROM feed_assignees WHERE scope = ?1 AND assignee = ?2 AND first > ?3
         ORDER BY first LIMIT 1",
        Share::COLUMNS
    );
    share(connection, &sql, [tenant, int(assignee.0), int(first)])
}

fn share(connection: &Connection, sql: &str, values: [i64; 3]) -> rusqlite::Result<Option<Share>> {
    connection
        .prepare_cached(sql)?
        .query_row(values, whole)
        .optional()
}

/// Deletes a slice that retention has taken whole.
pub(super) fn delete(connection: &Connection, tenant: i64, slice: &Slice) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM feed WHERE scope = ?1 AND first = ?2")?
        .execute([tenant, int(slice.first)])?;
    let mut delete = connection.prepare_cached(
        "DELETE FROM feed_assignees WHERE scope = ?1 AND assignee = ?2 AND first = ?3",
    )?;
    let assignees: HashSet<EntityNumber> =
        slice.entries.iter().map(|entry| entry.assignee).collect();
    for assignee in assignees {
        delete.execute([tenant, int(assignee.0), int(slice.first)])?;
    }
    Ok(())
}
