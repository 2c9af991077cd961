//! Figures as they are read: those of the generation that is shown, between two slices.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use mongodb::Cursor;
use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::codec::{code, failed, int, uint};
use super::connection::answered;
use super::figure_documents::{
    FiguresDocument, MadeDocument, MilestonesDocument, by_id, milestones_id,
};
use super::figure_generations::shown_at_rest;
use super::find::{Find, LIST_MAX, all};
use super::schema::{Collections, FIGURE_ASSIGNEES, FIGURES, MADE, MILESTONES};
use crate::store::{
    Assignees, FigureQuery, FigureTable, Generation, Later, Made, MadeCell, MadeQuery, ReadError,
};
use colloquy_model::caller::CredentialCode;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::figures::{Assigned, Milestones};
use colloquy_model::id::UserId;
use colloquy_model::interval::Interval;
use colloquy_model::time::Timestamp;

/// How often a reader begins again where slices were written meanwhile.
const READ_TRIES: u32 = 20;

/// How long it waits before.
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// The milestones of these conversations.
pub(super) async fn milestones(
    collections: &Collections,
    generation: Generation,
    conversations: Vec<EntityNumber>,
) -> Result<Vec<(EntityNumber, Milestones)>, ReadError> {
    let ids = conversations
        .iter()
        .map(|one| milestones_id(generation, *one));
    let found: HashMap<String, MilestonesDocument> = by_id(collections, MILESTONES, ids).await?;
    let known = conversations.into_iter().filter_map(|conversation| {
        let kept = found.get(&milestones_id(generation, conversation))?;
        let milestones = Milestones {
            opened_at: Timestamp(kept.opened_at),
            is_answered: kept.answered,
        };
        Some((conversation, milestones))
    });
    Ok(known.collect())
}

/// Reads between two slices: what is read while one is written is read again.
async fn between_slices<T>(
    collections: &Collections,
    read: impl Fn(Collections, Generation) -> Later<Result<T, ReadError>> + Send,
) -> Result<T, ReadError> {
    for _ in 0..READ_TRIES {
        let before = shown_at_rest(collections).await?;
        if let Some(mark) = before {
            let found = read(collections.clone(), mark.generation).await?;
            if shown_at_rest(collections).await? == before {
                return Ok(found);
            }
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
    Err(ReadError::Busy)
}

/// The figures that are shown, by interval and group.
pub(super) async fn figures(
    collections: &Collections,
    query: FigureQuery,
) -> Result<FigureTable, ReadError> {
    between_slices(collections, move |collections, generation| {
        Box::pin(async move { table(&collections, &query, generation).await })
    })
    .await
}

async fn table(
    collections: &Collections,
    query: &FigureQuery,
    generation: Generation,
) -> Result<FigureTable, ReadError> {
    let mut table = FigureTable::default();
    let span = (query.interval, query.from, query.to);
    let mut cursor = cells(collections, query, generation, span).await?;
    while let Some(cell) = next(&mut cursor).await? {
        let group = cell.group(query)?;
        table.add(Timestamp(cell.start), group, &cell.figures()?);
        if table.entries.len() > query.entries_max {
            return Ok(table);
        }
    }
    table.end_interval();
    for span in query.spans_before() {
        let mut cursor = cells(collections, query, generation, span).await?;
        while let Some(cell) = next(&mut cursor).await? {
            let group = cell.group(query)?;
            *table.open_before.entry(group).or_default() += cell.opened;
        }
    }
    table.assignees = assignees(collections, &table).await?;
    Ok(table)
}

/// The next cell, however many there are.
async fn next(cursor: &mut Cursor<FiguresDocument>) -> Result<Option<FiguresDocument>, ReadError> {
    let next = async {
        match cursor.advance().await? {
            true => cursor.deserialize_current().map(Some),
            false => Ok(None),
        }
    };
    answered(next).await.map_err(|error| failed(&error))
}

/// The cells that a query asks for, of the intervals of one length between two instants, in their
/// order.
async fn cells(
    collections: &Collections,
    query: &FigureQuery,
    generation: Generation,
    (length, from, to): (Interval, Timestamp, Timestamp),
) -> Result<Cursor<FiguresDocument>, ReadError> {
    let mut filter = doc! {
        "generation": generation.0, "tenant": query.tenant.number(), "length": code(length.code()),
        "start": {"$gte": from.0, "$lt": to.0},
    };
    match query.assignees() {
        Assignees::Together => filter.insert("assigned", Assigned::Any.code()),
        Assignees::Only(user) => filter.insert("assigned", int(user.number())),
        Assignees::Each => filter.insert("assigned", doc! {"$gte": Assigned::To(None).code()}),
    };
    if let Some(channel) = query.channel {
        filter.insert("channel", code(channel.code()));
    }
    if let Some(priority) = query.priority {
        filter.insert("priority", code(priority.code()));
    }
    let figures = collections.database.collection::<FiguresDocument>(FIGURES);
    let found = figures
        .find(filter)
        .sort(doc! {"start": 1})
        .max_time(LIST_MAX);
    let found = answered(found.into_future()).await;
    found.map_err(|error| failed(&error))
}

/// The identifier of a user who is or was somebody's assignee.
#[derive(Debug, Deserialize)]
struct AssigneeDocument {
    #[serde(rename = "_id")]
    number: i64,
    tail: i64,
}

async fn assignees(
    collections: &Collections,
    table: &FigureTable,
) -> Result<BTreeMap<EntityNumber, UserId>, ReadError> {
    let numbers: Vec<i64> = table.users().map(int).collect();
    if numbers.is_empty() {
        return Ok(BTreeMap::new());
    }
    let filter = doc! {"_id": {"$in": numbers}};
    let found: Vec<AssigneeDocument> =
        all(collections, FIGURE_ASSIGNEES, filter, doc! {"_id": 1}).await?;
    let named = found.into_iter().map(|one| {
        let number = uint(one.number);
        (number, UserId::from_parts(number, uint(one.tail)))
    });
    Ok(named.collect())
}

/// What was made of an account and mode, day by day.
pub(super) async fn made(
    collections: &Collections,
    query: MadeQuery,
) -> Result<Vec<(MadeCell, Made)>, ReadError> {
    between_slices(collections, move |collections, generation| {
        Box::pin(async move { made_in(&collections, &query, generation).await })
    })
    .await
}

async fn made_in(
    collections: &Collections,
    query: &MadeQuery,
    generation: Generation,
) -> Result<Vec<(MadeCell, Made)>, ReadError> {
    let filter = doc! {
        "generation": generation.0, "tenant": query.tenant.number(),
        "day": {"$gte": query.from.0, "$lt": query.to.0},
    };
    let find = Find {
        sort: doc! {"day": 1, "_id": 1},
        ..Find::all(MADE, filter, Document::new())
    };
    let found: Vec<MadeDocument> = find.read(collections).await?;
    let cells = found.into_iter().map(|one| {
        let cell = MadeCell {
            tenant: query.tenant,
            day: Timestamp(one.day),
            credential: one.credential.map(CredentialCode),
        };
        (cell, one.made())
    });
    Ok(cells.collect())
}
