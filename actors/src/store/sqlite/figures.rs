//! Figures, cell by cell, and how far they have come. A slice is added within one transaction with
//! the mark that it moves, so that no event is counted twice and none is left out.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, ToSql, params, params_from_iter};

use super::codec::{self, Columns, columns, insert, int, only};
use super::work::FigureChange;
use crate::store::{
    Assignees, FigureGroup, FigureQuery, FigureSlice, FigureTable, Generation, GenerationMark,
    Generations, Made, MadeCell, MadeQuery,
};
use colloquy_model::caller::{CredentialCode, Tenant};
use colloquy_model::conversation::{Channel, Priority};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::figures::{Assigned, Cell, Figures, Milestones};
use colloquy_model::id::UserId;
use colloquy_model::interval::Interval;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// Of a generation that is gone, so many rows of each table go with each slice.
const TAKEN_AWAY: i64 = 256;

/// What a generation is there for, as its row says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is to take the place of the one that is shown.
    Rebuilt = 0,
    Shown = 1,
    /// Its rows are still to be deleted.
    Gone = 2,
}

/// Makes a change within the running transaction; gives whether it could be made.
pub(super) fn change(connection: &Connection, change: &FigureChange) -> rusqlite::Result<bool> {
    match change {
        FigureChange::Count(slice) => count(connection, slice),
        FigureChange::BeginRebuild => begin_rebuild(connection),
        FigureChange::EndRebuild => end_rebuild(connection),
    }
}

fn count(connection: &Connection, slice: &FigureSlice) -> rusqlite::Result<bool> {
    let moved = connection
        .prepare_cached(
            "UPDATE figure_generations SET counted = ?3
             WHERE generation = ?1 AND counted = ?2 AND state <> 2",
        )?
        .execute(params![slice.generation.0, slice.behind.0, slice.reached.0])?;
    if moved == 0 {
        return Ok(false);
    }
    for (cell, figures) in &slice.cells {
        add(connection, slice.generation, cell, figures)?;
    }
    for (conversation, milestones) in &slice.milestones {
        insert!(connection, "INSERT INTO milestones", {
            generation: slice.generation.0,
            entity: int(conversation.0),
            opened_at: milestones.opened_at.0,
            answered: milestones.is_answered,
        }, "ON CONFLICT DO UPDATE SET opened_at = excluded.opened_at, answered = excluded.answered")?;
    }
    for (cell, made) in &slice.made {
        insert!(connection, "INSERT INTO made", {
            generation: slice.generation.0,
            scope: cell.tenant.number(),
            day: cell.day.0,
            credential: credential_code(cell.credential),
            messages: int(made.messages),
            documents: int(made.documents),
            text_bytes: made.text_bytes,
        }, "ON CONFLICT DO UPDATE SET messages = messages + excluded.messages,
            documents = documents + excluded.documents,
            text_bytes = text_bytes + excluded.text_bytes")?;
    }
    for user in &slice.assignees {
        insert!(connection, "INSERT INTO figure_assignees", {
            n: int(user.number().0),
            tail: int(user.tail()),
        }, "ON CONFLICT DO NOTHING")?;
    }
    take_away(connection)?;
    Ok(true)
}

/// Adds to what the cell has come to.
fn add(
    connection: &Connection,
    generation: Generation,
    cell: &Cell,
    figures: &Figures,
) -> rusqlite::Result<()> {
    let key = params![
        generation.0,
        cell.tenant.number(),
        cell.interval.code(),
        cell.assigned.code(),
        cell.start.0,
        cell.channel.code(),
        cell.priority.code(),
    ];
    let kept: Option<String> = connection
        .prepare_cached(
            "SELECT figures FROM figures WHERE generation = ?1 AND scope = ?2 AND length = ?3
             AND assigned = ?4 AND start = ?5 AND channel = ?6 AND priority = ?7",
        )?
        .query_row(key, only)
        .optional()?;
    let mut sum = figures.clone();
    if let Some(kept) = kept {
        sum.merge(&read_figures(kept.as_bytes())?);
    }
    let text = serde_json::to_string(&sum)
        .map_err(|error| codec::damaged("figures that are to be kept", error))?;
    insert!(connection, "INSERT INTO figures", {
        generation: generation.0,
        scope: cell.tenant.number(),
        length: cell.interval.code(),
        assigned: cell.assigned.code(),
        start: cell.start.0,
        channel: cell.channel.code(),
        priority: cell.priority.code(),
        opened: sum.opened,
        figures: text,
    }, "ON CONFLICT DO UPDATE SET opened = excluded.opened, figures = excluded.figures")?;
    Ok(())
}

fn read_figures(text: &[u8]) -> rusqlite::Result<Figures> {
    serde_json::from_slice(text).map_err(|error| codec::damaged("figures", error))
}

/// Takes away some rows of a generation that is gone, and that itself when none are left.
fn take_away(connection: &Connection) -> rusqlite::Result<()> {
    let gone: Option<i64> = connection
        .prepare_cached("SELECT generation FROM figure_generations WHERE state = 2 LIMIT 1")?
        .query_row([], only)
        .optional()?;
    let Some(gone) = gone else {
        return Ok(());
    };
    let mut taken = 0;
    for (table, key) in [
        (
            "figures",
            "scope, length, assigned, start, channel, priority",
        ),
        ("milestones", "entity"),
        ("made", "scope, day, credential"),
    ] {
        taken += connection
            .prepare_cached(&format!(
                "DELETE FROM {table} WHERE (generation, {key}) IN
                 (SELECT generation, {key} FROM {table} WHERE generation = ?1 LIMIT ?2)"
            ))?
            .execute([gone, TAKEN_AWAY])?;
    }
    if taken == 0 {
        connection
            .prepare_cached("DELETE FROM figure_generations WHERE generation = ?1")?
            .execute([gone])?;
    }
    Ok(())
}

/// Whether retention has taken events of any account.
fn is_trimmed(connection: &Connection) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM scopes WHERE floor > 0)")?
        .query_row([], only)
}

fn begin_rebuild(connection: &Connection) -> rusqlite::Result<bool> {
    if generations(connection)?.rebuilt.is_some() {
        return Ok(true);
    }
    if is_trimmed(connection)? {
        return Ok(false);
    }
    connection.execute(
        "INSERT INTO figure_generations(generation, counted, state)
         SELECT max(generation) + 1, 0, ?1 FROM figure_generations",
        [State::Rebuilt as i64],
    )?;
    Ok(true)
}

fn end_rebuild(connection: &Connection) -> rusqlite::Result<bool> {
    let Generations { shown, rebuilt } = generations(connection)?;
    let Some(rebuilt) = rebuilt else {
        return Ok(true);
    };
    if is_trimmed(connection)? {
        set_state(connection, rebuilt.generation, State::Gone)?;
        return Ok(true);
    }
    if rebuilt.counted < shown.counted {
        return Ok(false);
    }
    set_state(connection, shown.generation, State::Gone)?;
    set_state(connection, rebuilt.generation, State::Shown)?;
    Ok(true)
}

fn set_state(
    connection: &Connection,
    generation: Generation,
    state: State,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE figure_generations SET state = ?2 WHERE generation = ?1")?
        .execute([generation.0, state as i64])?;
    Ok(())
}

columns! {
    struct GenerationRow {
        generation: i64,
        counted: Position,
        state: i64,
    }
}

/// The generations that are being kept up.
pub(super) fn generations(connection: &Connection) -> rusqlite::Result<Generations> {
    let sql = format!(
        "SELECT {} FROM figure_generations WHERE state <> 2",
        GenerationRow::COLUMNS
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    let (mut shown, mut rebuilt) = (None, None);
    while let Some(row) = rows.next()? {
        let row = GenerationRow::read(row)?;
        let mark = GenerationMark {
            generation: Generation(row.generation),
            counted: row.counted,
        };
        if row.state == State::Shown as i64 {
            shown = Some(mark);
        } else {
            rebuilt = Some(mark);
        }
    }
    let shown = shown.ok_or_else(|| codec::damaged("generations of figures", "none is shown"))?;
    Ok(Generations { shown, rebuilt })
}

columns! {
    struct MilestonesRow {
        opened_at: Timestamp,
        answered: bool,
    }
}

/// The milestones of these conversations.
pub(super) fn milestones(
    connection: &Connection,
    generation: Generation,
    conversations: &[EntityNumber],
) -> rusqlite::Result<Vec<(EntityNumber, Milestones)>> {
    let sql = format!(
        "SELECT {} FROM milestones WHERE generation = ?1 AND entity = ?2",
        MilestonesRow::COLUMNS
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = Vec::new();
    for conversation in conversations {
        let key = params![generation.0, int(conversation.0)];
        let row = statement
            .query_row(key, codec::whole::<MilestonesRow>)
            .optional()?;
        found.extend(row.map(|row| {
            let milestones = Milestones {
                opened_at: row.opened_at,
                is_answered: row.answered,
            };
            (*conversation, milestones)
        }));
    }
    Ok(found)
}

columns! {
    struct FiguresRow<'r> {
        start: Timestamp,
        assigned: i64,
        channel: Channel,
        priority: Priority,
        figures: &'r [u8] = "CAST(figures AS BLOB)",
    }
}

columns! {
    struct OpenRow {
        assigned: i64,
        channel: Channel,
        priority: Priority,
        open: i64 = "sum(opened)",
    }
}

/// The condition of the cells that a query asks for, and its values. Whoever groups by assignee steps
/// from one to the next by the index, and reads of each only what is asked for.
struct Condition {
    text: String,
    values: Vec<i64>,
}

impl Condition {
    fn of(query: &FigureQuery, generation: Generation) -> Self {
        const ONE_BY_ONE: &str = "assigned IN (WITH RECURSIVE each_one(user) AS (
            SELECT min(assigned) FROM figures
              WHERE generation = ?1 AND scope = ?2 AND length = ?3 AND assigned >= 0
            UNION ALL SELECT (SELECT min(assigned) FROM figures
              WHERE generation = ?1 AND scope = ?2 AND length = ?3 AND assigned > each_one.user)
            FROM each_one WHERE each_one.user IS NOT NULL)
            SELECT user FROM each_one WHERE user IS NOT NULL)";
        let mut condition = Condition {
            text: "generation = ?1 AND scope = ?2 AND length = ?3 AND start >= ?4 AND start < ?5"
                .to_owned(),
            values: vec![generation.0, query.tenant.number(), 0, 0, 0],
        };
        match query.assignees() {
            Assignees::Together => condition.and("assigned", Assigned::Any.code()),
            Assignees::Only(user) => condition.and("assigned", int(user.number().0)),
            Assignees::Each => condition.text.push_str(&format!(" AND {ONE_BY_ONE}")),
        }
        if let Some(channel) = query.channel {
            condition.and("channel", channel.code());
        }
        if let Some(priority) = query.priority {
            condition.and("priority", priority.code());
        }
        condition
    }

    fn and(&mut self, column: &str, value: i64) {
        self.values.push(value);
        let place = self.values.len();
        self.text.push_str(&format!(" AND {column} = ?{place}"));
    }

    /// Its values where it asks for the intervals of this length between two instants.
    fn within(&self, (length, from, to): (Interval, Timestamp, Timestamp)) -> Vec<i64> {
        let span = [length.code(), from.0, to.0];
        let head = self.values.iter().take(2).copied();
        let tail = self.values.iter().skip(2 + span.len()).copied();
        head.chain(span).chain(tail).collect()
    }
}

/// The figures that are shown, by interval and group.
pub(super) fn figures(
    connection: &Connection,
    query: &FigureQuery,
) -> rusqlite::Result<FigureTable> {
    let generation = generations(connection)?.shown.generation;
    let condition = Condition::of(query, generation);
    let mut table = FigureTable::default();
    let group = |assigned: i64, channel: Channel, priority: Priority| {
        let assigned = Assigned::from_code(assigned);
        FigureGroup::of(query.grouping, assigned, (channel, priority))
    };

    let sql = format!(
        "SELECT {} FROM figures WHERE {} ORDER BY start",
        FiguresRow::COLUMNS,
        condition.text
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let values = condition.within((query.interval, query.from, query.to));
    let mut rows = statement.query(params_from_iter(values))?;
    while let Some(row) = rows.next()? {
        let row = FiguresRow::read(row)?;
        let group = group(row.assigned, row.channel, row.priority);
        table.add(row.start, group, &read_figures(row.figures)?);
        if table.entries.len() > query.entries_max {
            return Ok(table);
        }
    }
    table.end_interval();

    let sql = format!(
        "SELECT {} FROM figures WHERE {} GROUP BY assigned, channel, priority",
        OpenRow::COLUMNS,
        condition.text
    );
    let mut statement = connection.prepare_cached(&sql)?;
    for span in query.spans_before() {
        let mut rows = statement.query(params_from_iter(condition.within(span)))?;
        while let Some(row) = rows.next()? {
            let row = OpenRow::read(row)?;
            let group = group(row.assigned, row.channel, row.priority);
            *table.open_before.entry(group).or_default() += row.open;
        }
    }
    name_assignees(connection, &mut table)?;
    Ok(table)
}

/// Adds the identifiers of the users among the groups.
fn name_assignees(connection: &Connection, table: &mut FigureTable) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare_cached("SELECT tail FROM figure_assignees WHERE n = ?1")?;
    let mut found = BTreeMap::new();
    for user in table.users().collect::<BTreeSet<_>>() {
        let tail: Option<u64> = statement.query_row([int(user.0)], only).optional()?;
        let tail = tail.ok_or_else(|| codec::damaged("figures", "they name an unknown user"))?;
        found.insert(user, UserId::from_parts(user, tail));
    }
    table.assignees = found;
    Ok(())
}

/// No credential has this code: what was made in a session, or by the server itself.
const NO_CREDENTIAL: i64 = -1;

fn credential_code(credential: Option<CredentialCode>) -> i64 {
    credential.map_or(NO_CREDENTIAL, |CredentialCode(code)| code)
}

columns! {
    struct MadeRow {
        scope: Tenant,
        day: Timestamp,
        credential: i64,
        messages: u64,
        documents: u64,
        text_bytes: i64,
    }
}

/// What was made of an account and mode, day by day.
pub(super) fn made(
    connection: &Connection,
    query: &MadeQuery,
) -> rusqlite::Result<Vec<(MadeCell, Made)>> {
    let generation = generations(connection)?.shown.generation;
    let sql = format!(
        "SELECT {} FROM made WHERE generation = ?1 AND scope = ?2 AND day >= ?3 AND day < ?4
         ORDER BY day, credential",
        MadeRow::COLUMNS
    );
    let values: [&dyn ToSql; 4] = [
        &generation.0,
        &query.tenant.number(),
        &query.from.0,
        &query.to.0,
    ];
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map(values, codec::whole::<MadeRow>)?;
    rows.map(|row| {
        let row = row?;
        let cell = MadeCell {
            tenant: row.scope,
            day: row.day,
            credential: Some(CredentialCode(row.credential)).filter(|code| code.0 != NO_CREDENTIAL),
        };
        let made = Made {
            messages: row.messages,
            documents: row.documents,
            text_bytes: row.text_bytes,
        };
        Ok((cell, made))
    })
    .collect()
}
