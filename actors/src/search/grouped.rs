//! The layout of an index of texts that stand in groups and are found as groups: all words of a
//! query must be in a group, in whichever of its texts, or in the label that it shares with others.
//!
//! `texts` and `label_texts` hold words only. To take one out again FTS5 wants its words, so `parts`
//! and `labels` keep them, without what marks their tenant. A text costs the same however many its
//! group has: its row in `texts` has the group's short number and its own in it.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::found::{Found, Hit, Window};
use super::index::key;
use super::layout::{Layout, Progress};
use super::separators::TakenOut;
use super::words;
use crate::store::sqlite::codec::{Columns, columns, only, whole};
use colloquy_model::caller::Tenant;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::time::Timestamp;

/// A word in the label counts as much as one in so many texts.
const LABEL_WEIGHT: f64 = 10.0;
/// Bits of a row's number that a text's own number takes; what is beyond is not found. The others
/// hold its group's.
const TEXT_BITS: u32 = 28;
/// BM25's usual constants: how soon further texts with a word count less, and how much a long group
/// counts less than a short one.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

/// So many groups may be read over for each that is a candidate.
const READ_OVER: usize = 4;

/// How many values a group can be filtered by.
pub const FACETS: usize = 4;

/// A group as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The number by which it is found.
    pub number: EntityNumber,
    /// The number of the label that it shares with others.
    pub label: EntityNumber,
    /// What it is filtered by.
    pub facets: [i64; FACETS],
}

/// What becomes of a group, a text or a label.
#[derive(Debug)]
pub enum GroupChange {
    /// A group is put in before its texts are, or is now like this.
    Group(Group),
    /// A text of a group is put in, in place of the one with the same number; without a word it is
    /// taken out.
    Text {
        /// The number of its group; of one that is not there no text is found.
        group: EntityNumber,
        /// Its number in the group, from 1 on.
        number: u64,
        /// Whose it is: found by nobody else.
        tenant: Tenant,
        /// The whole text.
        text: String,
    },
    /// A group goes with all of its texts, and with its label where no other group has that.
    Gone {
        /// Its number.
        group: EntityNumber,
        /// Whose it was.
        tenant: Tenant,
    },
    /// A label is put in, in place of the one with the same number.
    Label(Label),
    /// The same, where the label is there: one that no group has is not kept.
    Relabel(Label),
}

/// A text that groups share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Its number, which names it in all tenants.
    pub number: EntityNumber,
    /// Whose it is: found by nobody else.
    pub tenant: Tenant,
    /// The whole text.
    pub text: String,
}

/// Which groups are wanted of those that fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupFilter {
    /// Only those with this label.
    pub label: Option<EntityNumber>,
    /// Only those that have these values.
    pub facets: [Option<i64>; FACETS],
    /// Only those from this number on.
    pub from: Option<EntityNumber>,
    /// Only those below this number.
    pub below: Option<EntityNumber>,
}

/// Texts in groups, found as groups.
#[derive(Debug)]
pub struct Grouped;

impl Layout for Grouped {
    /// "CoQg".
    const APPLICATION_ID: i64 = 0x436f_5167;
    const VERSION: i64 = 2;
    const SCHEMA: &'static [&'static str] = &["
    CREATE TABLE progress (
        one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL, scrubbed INTEGER NOT NULL,
        at INTEGER NOT NULL
    );
    INSERT INTO progress VALUES (1, 0, 0, 0);
    CREATE TABLE groups (
        id INTEGER PRIMARY KEY, number INTEGER NOT NULL UNIQUE, label INTEGER NOT NULL,
        facet_1 INTEGER NOT NULL, facet_2 INTEGER NOT NULL, facet_3 INTEGER NOT NULL,
        facet_4 INTEGER NOT NULL, words INTEGER NOT NULL
    );
    CREATE INDEX groups_by_label ON groups(label);
    CREATE TABLE parts (id INTEGER PRIMARY KEY, words TEXT NOT NULL);
    CREATE TABLE labels (number INTEGER PRIMARY KEY, words TEXT NOT NULL);
    CREATE VIRTUAL TABLE texts USING fts5(words, content = '', columnsize = 0, tokenize = 'ascii');
    INSERT INTO texts (texts, rank) VALUES ('secure-delete', 1);
    INSERT INTO texts (texts, rank) VALUES ('hashsize', 8388608);
    CREATE VIRTUAL TABLE label_texts USING fts5(words, content = '', columnsize = 0, tokenize = 'ascii');
    INSERT INTO label_texts (label_texts, rank) VALUES ('secure-delete', 1);"];
    const ANY: &'static str = "SELECT EXISTS(SELECT 1 FROM groups) OR EXISTS(SELECT 1 FROM labels)";
    const PROBE: &'static str = "SELECT
        (SELECT count(*) FROM texts WHERE texts MATCH '\"0zx\"')
        + (SELECT count(*) FROM label_texts WHERE label_texts MATCH '\"0zx\"')
        + (SELECT count(*) FROM (SELECT 1 FROM groups LIMIT 1))
        + (SELECT count(*) FROM (SELECT 1 FROM parts LIMIT 1))";

    type Change = GroupChange;
    type Subject = ();

    /// A text has to follow its group.
    fn subject(_: &GroupChange) -> Option<()> {
        None
    }

    fn bytes(change: &GroupChange) -> usize {
        match change {
            GroupChange::Group(_) | GroupChange::Gone { .. } => 0,
            GroupChange::Text { text, .. } => text.len(),
            GroupChange::Label(label) | GroupChange::Relabel(label) => label.text.len(),
        }
    }

    fn write(connection: &Connection, changes: &[GroupChange]) -> rusqlite::Result<bool> {
        let mut writing = Writing {
            connection,
            ids: HashMap::new(),
            lengths: HashMap::new(),
            texts: TakenOut::of("texts"),
            labels: TakenOut::of("label_texts"),
        };
        for change in changes {
            match change {
                GroupChange::Group(group) => put_group(connection, group)?,
                GroupChange::Text {
                    group,
                    number,
                    tenant,
                    text,
                } => {
                    if let Some(id) = writing.row_of(*group, *number)? {
                        writing.put_text(id, *tenant, text)?;
                    }
                }
                GroupChange::Gone { group, tenant } => writing.take_out(*group, *tenant)?,
                GroupChange::Label(label) => writing.put_label(label)?,
                GroupChange::Relabel(label) => {
                    if label_words(connection, label.number)?.is_some() {
                        writing.put_label(label)?;
                    }
                }
            }
        }
        writing.add_lengths()?;
        let texts = writing.texts.finish(connection)?;
        let labels = writing.labels.finish(connection)?;
        Ok(texts || labels)
    }

    fn set_progress(connection: &Connection, progress: Progress) -> rusqlite::Result<()> {
        let Progress {
            position,
            ahead,
            lags,
        } = progress;
        // The time is that of what it knows: where something waits, that is not now.
        let sql = "UPDATE progress SET position = ?1, ahead = ?2, at = iif(?3, at, ?4)";
        connection
            .prepare_cached(sql)?
            .execute(params![position.0, ahead.0, lags, Timestamp::now().0])
            .map(|_| ())
    }

    fn lags(connection: &Connection, longer_than: Duration) -> rusqlite::Result<bool> {
        let at: i64 = connection.query_row("SELECT at FROM progress", [], only)?;
        Ok(Timestamp(at) < Timestamp::now() - longer_than)
    }
}

/// Changes that are being written.
struct Writing<'c> {
    connection: &'c Connection,
    /// The short numbers of groups that were looked up.
    ids: HashMap<EntityNumber, i64>,
    /// By how many words groups have grown, by their short numbers.
    lengths: HashMap<i64, i64>,
    /// The words that were taken out.
    texts: TakenOut,
    labels: TakenOut,
}

impl Writing<'_> {
    /// The row of a text; none where its group is not there.
    fn row_of(&mut self, group: EntityNumber, number: u64) -> rusqlite::Result<Option<i64>> {
        let known = self.ids.get(&group).copied();
        let id = match known {
            Some(id) => id,
            None => {
                let found: Option<i64> = self
                    .connection
                    .prepare_cached("SELECT id FROM groups WHERE number = ?1")?
                    .query_row([key(group)], only)
                    .optional()?;
                let Some(id) = found else { return Ok(None) };
                self.ids.insert(group, id);
                id
            }
        };
        let number = i64::try_from(number).ok();
        Ok(number
            .filter(|number| number >> TEXT_BITS == 0)
            .map(|number| id << TEXT_BITS | number))
    }

    fn put_text(&mut self, row: i64, tenant: Tenant, text: &str) -> rusqlite::Result<()> {
        let new = words::folded(text);
        let before: Option<String> = self
            .connection
            .prepare_cached("SELECT words FROM parts WHERE id = ?1")?
            .query_row([row], only)
            .optional()?;
        if before.as_deref().unwrap_or_default() == new {
            return Ok(());
        }
        let grown = self.lengths.entry(row >> TEXT_BITS).or_default();
        *grown += length(&new) - before.as_deref().map_or(0, length);
        if let Some(before) = before {
            let before = words::of_tenant(tenant, &before);
            self.connection
                .prepare_cached(
                    "INSERT INTO texts (texts, rowid, words) VALUES ('delete', ?1, ?2)",
                )?
                .execute(params![row, before])?;
            self.texts.add(self.connection, &before)?;
        }
        if new.is_empty() {
            self.connection
                .prepare_cached("DELETE FROM parts WHERE id = ?1")?
                .execute([row])?;
            return Ok(());
        }
        self.connection
            .prepare_cached("INSERT INTO texts (rowid, words) VALUES (?1, ?2)")?
            .execute(params![row, words::of_tenant(tenant, &new)])?;
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO parts (id, words) VALUES (?1, ?2)")?
            .execute(params![row, new])?;
        Ok(())
    }

    fn put_label(&mut self, label: &Label) -> rusqlite::Result<()> {
        let (number, new) = (key(label.number), words::folded(&label.text));
        let before = label_words(self.connection, label.number)?;
        if before.as_deref() == Some(&*new) {
            return Ok(());
        }
        if let Some(before) = before {
            self.take_out_label(number, &words::of_tenant(label.tenant, &before))?;
        }
        self.connection
            .prepare_cached("INSERT INTO label_texts (rowid, words) VALUES (?1, ?2)")?
            .execute(params![number, words::of_tenant(label.tenant, &new)])?;
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO labels (number, words) VALUES (?1, ?2)")?
            .execute(params![number, new])?;
        Ok(())
    }

    /// Takes a group out with its texts, and its label where it was the last that had it.
    fn take_out(&mut self, group: EntityNumber, tenant: Tenant) -> rusqlite::Result<()> {
        let sql = format!("SELECT {} FROM groups WHERE number = ?1", GroupRow::COLUMNS);
        let found: Option<GroupRow> = self
            .connection
            .prepare_cached(&sql)?
            .query_row([key(group)], whole)
            .optional()?;
        let Some(row) = found else { return Ok(()) };
        let end = row.id.saturating_add(1) << TEXT_BITS;
        let texts: Vec<i64> = self
            .connection
            .prepare_cached("SELECT id FROM parts WHERE id >= ?1 AND id < ?2")?
            .query_map([row.id << TEXT_BITS, end], only)?
            .collect::<rusqlite::Result<_>>()?;
        for text in texts {
            self.put_text(text, tenant, "")?;
        }
        self.connection
            .prepare_cached("DELETE FROM groups WHERE id = ?1")?
            .execute([row.id])?;
        self.ids.remove(&group);
        self.lengths.remove(&row.id);
        let is_shared = self
            .connection
            .prepare_cached("SELECT 1 FROM groups WHERE label = ?1 LIMIT 1")?
            .exists([key(row.label)])?;
        match is_shared {
            true => Ok(()),
            false => self.drop_label(row.label, tenant),
        }
    }

    fn drop_label(&mut self, label: EntityNumber, tenant: Tenant) -> rusqlite::Result<()> {
        let Some(before) = label_words(self.connection, label)? else {
            return Ok(());
        };
        self.take_out_label(key(label), &words::of_tenant(tenant, &before))?;
        self.connection
            .prepare_cached("DELETE FROM labels WHERE number = ?1")?
            .execute([key(label)])?;
        Ok(())
    }

    fn take_out_label(&mut self, number: i64, words: &str) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO label_texts (label_texts, rowid, words) VALUES ('delete', ?1, ?2)",
            )?
            .execute(params![number, words])?;
        self.labels.add(self.connection, words)
    }

    fn add_lengths(&self) -> rusqlite::Result<()> {
        let mut update = self
            .connection
            .prepare_cached("UPDATE groups SET words = words + ?2 WHERE id = ?1")?;
        for (id, grown) in &self.lengths {
            update.execute([id, grown])?;
        }
        Ok(())
    }
}

/// How many words these are.
fn length(folded: &str) -> i64 {
    i64::try_from(folded.split_terminator(' ').count()).unwrap_or(i64::MAX)
}

fn put_group(connection: &Connection, group: &Group) -> rusqlite::Result<()> {
    let [first, second, third, fourth] = group.facets;
    connection
        .prepare_cached(
            "INSERT INTO groups (number, label, facet_1, facet_2, facet_3, facet_4, words)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0) ON CONFLICT (number) DO UPDATE SET
             label = ?2, facet_1 = ?3, facet_2 = ?4, facet_3 = ?5, facet_4 = ?6",
        )?
        .execute([
            key(group.number),
            key(group.label),
            first,
            second,
            third,
            fourth,
        ])
        .map(|_| ())
}

fn label_words(connection: &Connection, number: EntityNumber) -> rusqlite::Result<Option<String>> {
    connection
        .prepare_cached("SELECT words FROM labels WHERE number = ?1")?
        .query_row([key(number)], only)
        .optional()
}

columns! {
    /// A group that may be wanted.
    struct GroupRow {
        id: i64,
        number: EntityNumber,
        label: EntityNumber,
        facet_1: i64,
        facet_2: i64,
        facet_3: i64,
        facet_4: i64,
        words: i64,
    }
}

impl From<&GroupRow> for Group {
    fn from(row: &GroupRow) -> Self {
        Group {
            number: row.number,
            label: row.label,
            facets: [row.facet_1, row.facet_2, row.facet_3, row.facet_4],
        }
    }
}

impl GroupFilter {
    /// Whether a group is wanted.
    #[must_use]
    pub fn passes(&self, group: &Group) -> bool {
        let mut wanted = self.facets.iter().zip(group.facets);
        self.label.is_none_or(|label| group.label == label)
            && wanted.all(|(wanted, facet)| wanted.is_none_or(|wanted| wanted == facet))
            && self.from.is_none_or(|from| group.number >= from)
            && self.below.is_none_or(|below| group.number < below)
    }
}

/// A group in which a phrase is, and how much that weighs: in so many texts.
struct Match {
    id: i64,
    weight: f64,
}

/// A group in which all phrases are, and what each weighs in it.
struct Candidate {
    id: i64,
    weights: Vec<f64>,
}

/// The groups that fit a query and pass the filter, best first; of equal ones the newest first.
///
/// It costs one row for each text that has a word of the query, and one for each group that has all
/// of them. Ranked by BM25, a group being one text: a word counts once for each of its texts that
/// has it, the more the rarer it is beside the other words, and less in a group of many words.
pub(super) fn find(
    connection: &Connection,
    (tenant, typed): (Tenant, &str),
    filter: &GroupFilter,
    window: Window,
) -> rusqlite::Result<Found> {
    let mut candidates: Option<Vec<Candidate>> = None;
    let mut counts: Vec<f64> = Vec::new();
    for phrase in words::phrases(typed) {
        let matches = matches(connection, &phrase.query(tenant))?;
        counts.push(as_weight(matches.len()));
        let both = match candidates {
            None => matches.into_iter().map(Candidate::from).collect(),
            Some(before) => in_both(before, matches),
        };
        if both.is_empty() {
            return Ok(Found::nothing());
        }
        candidates = Some(both);
    }
    let wanted = wanted(connection, candidates.unwrap_or_default(), filter)?;
    let all: f64 = counts.iter().sum();
    let rarities: Vec<f64> = counts
        .iter()
        .map(|count| (1.0 + all / count).ln())
        .collect();
    let lengths = wanted.iter().map(|(_, group)| group.words);
    let usual = as_weight_of(lengths.sum()) / as_weight(wanted.len().max(1));
    let hits = wanted.into_iter().map(|(candidate, group)| {
        let longer = as_weight_of(group.words) / usual.max(1.0);
        let damping = SATURATION * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * longer);
        let parts = candidate.weights.iter().zip(&rarities);
        let score: f64 = parts
            .map(|(weight, rarity)| rarity * weight / (weight + damping))
            .sum();
        Hit {
            number: group.number,
            rank: -score,
        }
    });
    Ok(Found::of(hits.collect(), window))
}

/// The candidates that pass the filter, each with its group. Those that stand close together are
/// read in one go, which is quicker than one by one.
fn wanted(
    connection: &Connection,
    candidates: Vec<Candidate>,
    filter: &GroupFilter,
) -> rusqlite::Result<Vec<(Candidate, GroupRow)>> {
    let (Some(first), Some(last)) = (candidates.first(), candidates.last()) else {
        return Ok(Vec::new());
    };
    let passes = |group: &GroupRow| filter.passes(&Group::from(group));
    let sql = |which| format!("SELECT {} FROM groups WHERE {which}", GroupRow::COLUMNS);
    let mut wanted = Vec::new();
    let span = usize::try_from(last.id - first.id).unwrap_or(usize::MAX);
    if span / READ_OVER < candidates.len() {
        let mut select = connection.prepare_cached(&sql("id BETWEEN ?1 AND ?2 ORDER BY id"))?;
        let groups = select.query_map([first.id, last.id], whole::<GroupRow>)?;
        let mut candidates = candidates.into_iter().peekable();
        for group in groups {
            let group = group?;
            if let Some(candidate) = candidates.next_if(|candidate| candidate.id == group.id)
                && passes(&group)
            {
                wanted.push((candidate, group));
            }
        }
        // Each candidate has a group; one that has none is found out here, as it is one by one.
        if candidates.next().is_some() {
            return Err(rusqlite::Error::QueryReturnedNoRows);
        }
    } else {
        let mut select = connection.prepare_cached(&sql("id = ?1"))?;
        for candidate in candidates {
            let group = select.query_row([candidate.id], whole::<GroupRow>)?;
            if passes(&group) {
                wanted.push((candidate, group));
            }
        }
    }
    Ok(wanted)
}

/// The groups in which a phrase is, by their short numbers.
fn matches(connection: &Connection, phrase: &str) -> rusqlite::Result<Vec<Match>> {
    let mut found: Vec<Match> = Vec::new();
    let mut texts =
        connection.prepare_cached("SELECT rowid FROM texts WHERE texts MATCH ?1 ORDER BY rowid")?;
    let mut rows = texts.query([phrase])?;
    while let Some(row) = rows.next()? {
        let id = only::<i64>(row)? >> TEXT_BITS;
        match found.last_mut() {
            Some(last) if last.id == id => last.weight += 1.0,
            Some(_) | None => found.push(Match { id, weight: 1.0 }),
        }
    }
    let mut labels = connection.prepare_cached(
        "SELECT groups.id FROM label_texts JOIN groups ON groups.label = label_texts.rowid
         WHERE label_texts MATCH ?1",
    )?;
    let labelled = labels.query_map([phrase], only::<i64>)?;
    let before = found.len();
    for id in labelled {
        found.push(Match {
            id: id?,
            weight: LABEL_WEIGHT,
        });
    }
    if found.len() > before {
        found.sort_by_key(|found| found.id);
        found.dedup_by(|later, earlier| {
            let same = later.id == earlier.id;
            if same {
                earlier.weight += later.weight;
            }
            same
        });
    }
    Ok(found)
}

impl From<Match> for Candidate {
    fn from(Match { id, weight }: Match) -> Self {
        Candidate {
            id,
            weights: vec![weight],
        }
    }
}

/// The candidates in which another phrase is, too; both by their short numbers.
fn in_both(before: Vec<Candidate>, matches: Vec<Match>) -> Vec<Candidate> {
    let mut matches = matches.into_iter().peekable();
    let both = before.into_iter().filter_map(|mut candidate| {
        while matches.next_if(|other| other.id < candidate.id).is_some() {}
        let found = matches.next_if(|other| other.id == candidate.id)?;
        candidate.weights.push(found.weight);
        Some(candidate)
    });
    both.collect()
}

fn as_weight(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn as_weight_of(words: i64) -> f64 {
    f64::from(u32::try_from(words).unwrap_or(u32::MAX))
}
