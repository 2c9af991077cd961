//! Figures, a document for each cell, and how far they have come. A slice is written down in the
//! document of its generation first, which is the moment at which it is counted; what that makes of
//! the cells is kept there until each of them has it. So whoever goes on after a crash finishes it,
//! and a cell that has it already is left as it is.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use mongodb::Cursor;
use mongodb::bson::{Binary, Document, deserialize_from_slice, doc, serialize_to_vec};
use mongodb::error::{Error, Result as Answer};
use serde::Deserialize;

use super::codec::{Met, binary, code, damaged, failed, int, malformed, met, uint};
use super::connection::answered;
use super::find::{Find, LIST_MAX, all, one};
use super::schema::{
    Collections, FEEDS, FIGURE_ASSIGNEES, FIGURE_GENERATIONS, FIGURES, MADE, MILESTONES,
};
use super::statements::Statements;
use crate::store::{
    Assignees, FigureGroup, FigureItem, FigureQuery, FigureSlice, FigureTable, Generation,
    GenerationMark, Generations, Later, Made, MadeCell, MadeItem, MadeQuery, MilestonesItem,
    ReadError,
};
use colloquy_model::caller::CredentialCode;
use colloquy_model::conversation::{Channel, Priority};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::figures::{Assigned, Cell, Figures, Milestones};
use colloquy_model::id::UserId;
use colloquy_model::interval::Interval;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// What a generation is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is to take the place of the one that is shown.
    Rebuilt = 0,
    Shown = 1,
}

/// The generation that a database begins with.
const FIRST_GENERATION: Generation = Generation(1);
/// Stands in an `_id` where there was no credential.
const NO_CREDENTIAL: i64 = -1;
/// How often a reader begins again where slices were written meanwhile.
const READ_TRIES: u32 = 20;
/// How long it waits before.
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// A generation, and the slice that it is being given.
#[derive(Debug, Deserialize)]
struct GenerationDocument {
    #[serde(rename = "_id")]
    generation: i64,
    counted: i64,
    state: i32,
    /// Up to where everything is counted with the slice that is being written.
    reached: Option<i64>,
    /// The statements that are still to be made for it.
    redo: Option<Binary>,
}

impl GenerationDocument {
    fn mark(&self) -> GenerationMark {
        GenerationMark {
            generation: Generation(self.generation),
            counted: Position(self.counted),
        }
    }
}

async fn generation_documents(collections: &Collections) -> Answer<Vec<GenerationDocument>> {
    let generations = collections
        .database
        .collection::<GenerationDocument>(FIGURE_GENERATIONS);
    let found = async {
        let mut cursor = generations
            .find(Document::new())
            .sort(doc! {"_id": 1})
            .await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            found.push(cursor.deserialize_current()?);
        }
        Ok(found)
    };
    answered(found).await
}

/// The document of the first generation: everything up to this position is counted in it.
pub(super) fn first_generation(counted: Position) -> Document {
    doc! {"_id": FIRST_GENERATION.0, "counted": counted.0, "state": State::Shown as i32}
}

/// Makes the first generation, unless there is one.
pub(super) async fn ensure_generation(collections: &Collections) -> Answer<()> {
    if !generation_documents(collections).await?.is_empty() {
        return Ok(());
    }
    let generations = collections
        .database
        .collection::<Document>(FIGURE_GENERATIONS);
    let inserted = generations.insert_one(first_generation(Position::ZERO));
    match answered(inserted.into_future()).await {
        // Another node was first.
        Err(error) if met(&error) == Met::Duplicate => Ok(()),
        inserted => inserted.map(|_| ()),
    }
}

/// Finishes what an earlier process left half-written, and lets generations go that are shown no
/// more.
pub(super) async fn begin(collections: &Collections) -> Result<Generations, ReadError> {
    recover(collections).await.map_err(|error| failed(&error))?;
    forget_older(collections).await?;
    generations(collections).await
}

/// Makes what is left to be made of each generation's last slice.
pub(super) async fn recover(collections: &Collections) -> Answer<()> {
    for generation in generation_documents(collections).await? {
        finish(collections, &generation).await?;
    }
    Ok(())
}

/// Makes what is left to be made of a generation's last slice.
async fn finish(collections: &Collections, generation: &GenerationDocument) -> Answer<()> {
    let (Some(redo), Some(reached)) = (&generation.redo, generation.reached) else {
        return Ok(());
    };
    let statements: Statements = deserialize_from_slice(&redo.bytes).map_err(malformed)?;
    statements.run(&collections.database).await?;
    let mut counted = Statements::default();
    let written = doc! {"_id": generation.generation, "reached": reached};
    let change = doc! {"$set": {"counted": reached}, "$unset": {"redo": "", "reached": ""}};
    counted.update(FIGURE_GENERATIONS, written, change);
    counted.run(&collections.database).await
}

/// The generations that are being kept up: of several that are shown, the last one is.
pub(super) async fn generations(collections: &Collections) -> Result<Generations, ReadError> {
    let documents = generation_documents(collections).await;
    let documents = documents.map_err(|error| failed(&error))?;
    let in_state = |state: State| {
        let of_state = documents
            .iter()
            .filter(move |one| one.state == state as i32);
        of_state.map(GenerationDocument::mark).next_back()
    };
    let shown =
        in_state(State::Shown).ok_or_else(|| damaged("generations of figures", "none is shown"))?;
    let rebuilt = in_state(State::Rebuilt).filter(|one| one.generation > shown.generation);
    Ok(Generations { shown, rebuilt })
}

/// Counts a slice; false where the generation does not stand where it begins.
pub(super) async fn count(
    collections: &Collections,
    slice: &FigureSlice,
) -> Result<bool, ReadError> {
    let statements = statements(collections, slice).await?;
    let redo = serialize_to_vec(&statements).map_err(|error| failed(&malformed(error)))?;
    let generations = collections
        .database
        .collection::<Document>(FIGURE_GENERATIONS);
    let standing = doc! {
        "_id": slice.generation.0, "counted": slice.behind.0, "redo": {"$exists": false},
    };
    let set = doc! {"$set": {"reached": slice.reached.0, "redo": binary(&redo)}};
    let update = generations.update_one(standing, set);
    let updated = answered(update.into_future()).await;
    let updated = updated.map_err(|error| failed(&error))?;
    if updated.matched_count == 0 {
        return Ok(false);
    }
    let written = one(
        collections,
        FIGURE_GENERATIONS,
        doc! {"_id": slice.generation.0},
    );
    if let Some(written) = written.await? {
        finish(collections, &written)
            .await
            .map_err(|error| failed(&error))?;
    }
    Ok(true)
}

/// What is to be written of a slice: what cells come to with it, as of now.
async fn statements(
    collections: &Collections,
    slice: &FigureSlice,
) -> Result<Statements, ReadError> {
    let mut statements = Statements::default();
    let FigureSlice {
        generation,
        reached,
        ..
    } = *slice;
    let behind = || doc! {"counted": {"$lt": reached.0}};

    let ids = slice
        .cells
        .iter()
        .map(|(cell, _)| cell_id(generation, cell));
    let kept: HashMap<String, FiguresDocument> = by_id(collections, FIGURES, ids).await?;
    for (cell, figures) in &slice.cells {
        let id = cell_id(generation, cell);
        let mut sum = figures.clone();
        if let Some(kept) = kept.get(&id) {
            sum.merge(&kept.figures()?);
        }
        let text = serde_json::to_string(&sum).map_err(|error| failed(&malformed(error)))?;
        let set = doc! {
            "generation": generation.0, "tenant": cell.tenant.number(),
            "length": code(cell.interval.code()), "assigned": cell.assigned.code(),
            "start": cell.start.0, "channel": code(cell.channel.code()),
            "priority": code(cell.priority.code()), "opened": sum.opened, "figures": text,
            "counted": reached.0,
        };
        statements.put(FIGURES, id, behind(), doc! {"$set": set});
    }
    for (conversation, milestones) in &slice.milestones {
        let set = doc! {
            "generation": generation.0, "conversation": int(*conversation),
            "opened_at": milestones.opened_at.0, "answered": milestones.is_answered,
            "counted": reached.0,
        };
        let id = milestones_id(generation, *conversation);
        statements.put(MILESTONES, id, behind(), doc! {"$set": set});
    }

    put_made(collections, slice, &mut statements).await?;
    for user in &slice.assignees {
        let set = doc! {"$setOnInsert": {"tail": int(user.tail())}};
        let number = int(user.number());
        statements.put(FIGURE_ASSIGNEES, number, Document::new(), set);
    }
    Ok(statements)
}

/// Adds what is to be written of what was made.
async fn put_made(
    collections: &Collections,
    slice: &FigureSlice,
    statements: &mut Statements,
) -> Result<(), ReadError> {
    let FigureSlice {
        generation,
        reached,
        ..
    } = *slice;
    let ids = slice.made.iter().map(|(cell, _)| made_id(generation, cell));
    let kept: HashMap<String, MadeDocument> = by_id(collections, MADE, ids).await?;
    for (cell, made) in &slice.made {
        let id = made_id(generation, cell);
        let mut sum = *made;
        if let Some(kept) = kept.get(&id) {
            sum.merge(kept.made());
        }
        let set = doc! {
            "generation": generation.0, "tenant": cell.tenant.number(), "day": cell.day.0,
            "credential": cell.credential.map(|CredentialCode(code)| code),
            "messages": int(sum.messages), "documents": int(sum.documents),
            "text_bytes": sum.text_bytes, "counted": reached.0,
        };
        let behind = doc! {"counted": {"$lt": reached.0}};
        statements.put(MADE, id, behind, doc! {"$set": set});
    }
    Ok(())
}

/// The `_id` of what these numbers tell from all others of its generation and collection.
fn joined(generation: Generation, numbers: &[i64]) -> String {
    let mut id = generation.0.to_string();
    for number in numbers {
        id.push('.');
        id.push_str(&number.to_string());
    }
    id
}

fn cell_id(generation: Generation, cell: &Cell) -> String {
    let numbers = [
        cell.tenant.number(),
        cell.interval.code(),
        cell.assigned.code(),
        cell.start.0,
        cell.channel.code(),
        cell.priority.code(),
    ];
    joined(generation, &numbers)
}

fn milestones_id(generation: Generation, conversation: EntityNumber) -> String {
    joined(generation, &[int(conversation)])
}

fn made_id(generation: Generation, cell: &MadeCell) -> String {
    let credential = cell.credential.map_or(NO_CREDENTIAL, |code| code.0);
    joined(generation, &[cell.tenant.number(), cell.day.0, credential])
}

/// The generation that is shown.
pub(super) async fn shown(collections: &Collections) -> Answer<GenerationMark> {
    let documents = generation_documents(collections).await?;
    let shown = documents
        .iter()
        .rfind(|one| one.state == State::Shown as i32);
    let shown = shown.map(GenerationDocument::mark);
    shown.ok_or_else(|| malformed("no generation of figures is shown"))
}

/// A cell that was moved here.
pub(super) fn figure_document(item: FigureItem) -> Document {
    let FigureItem {
        tenant,
        length,
        assigned,
        start,
        channel,
        priority,
        opened,
        figures,
    } = item;
    let numbers = [tenant, length, assigned, start, channel, priority];
    doc! {
        "_id": joined(FIRST_GENERATION, &numbers), "generation": FIRST_GENERATION.0,
        "tenant": tenant, "length": code(length), "assigned": assigned, "start": start,
        "channel": code(channel), "priority": code(priority), "opened": opened,
        "figures": String::from_utf8_lossy(&figures.0).into_owned(), "counted": 0_i64,
    }
}

/// A conversation's milestones that were moved here.
pub(super) fn milestones_document(item: &MilestonesItem) -> Document {
    doc! {
        "_id": joined(FIRST_GENERATION, &[item.conversation]), "generation": FIRST_GENERATION.0,
        "conversation": item.conversation, "opened_at": item.opened_at,
        "answered": item.answered, "counted": 0_i64,
    }
}

/// What was made on a day, moved here.
pub(super) fn made_document(item: &MadeItem) -> Document {
    let numbers = [
        item.tenant,
        item.day,
        item.credential.unwrap_or(NO_CREDENTIAL),
    ];
    doc! {
        "_id": joined(FIRST_GENERATION, &numbers), "generation": FIRST_GENERATION.0,
        "tenant": item.tenant, "day": item.day, "credential": item.credential,
        "messages": item.messages, "documents": item.documents, "text_bytes": item.text_bytes,
        "counted": 0_i64,
    }
}

/// A document that can be found by its `_id`.
trait Identified {
    fn id(&self) -> &str;
}

/// The documents with these `_id`s.
async fn by_id<T>(
    collections: &Collections,
    collection: &'static str,
    ids: impl Iterator<Item = String>,
) -> Result<HashMap<String, T>, ReadError>
where
    T: Identified + serde::de::DeserializeOwned + Send + Sync,
{
    let ids: Vec<String> = ids.collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let filter = doc! {"_id": {"$in": ids}};
    let found: Vec<T> = all(collections, collection, filter, doc! {"_id": 1}).await?;
    let by_id = found.into_iter().map(|one| (one.id().to_owned(), one));
    Ok(by_id.collect())
}

#[derive(Debug, Deserialize)]
struct FiguresDocument {
    #[serde(rename = "_id")]
    id: String,
    assigned: i64,
    start: i64,
    channel: i32,
    priority: i32,
    opened: i64,
    figures: String,
}

impl FiguresDocument {
    fn figures(&self) -> Result<Figures, ReadError> {
        let figures = serde_json::from_str(&self.figures);
        figures.map_err(|error| damaged(&self.id, error).into())
    }

    fn group(&self, query: &FigureQuery) -> Result<FigureGroup, ReadError> {
        let channel = Channel::from_code(self.channel.into());
        let priority = Priority::from_code(self.priority.into());
        let group = channel
            .zip(priority)
            .ok_or_else(|| damaged(&self.id, "a code stands for nothing"))?;
        let assigned = Assigned::from_code(self.assigned);
        Ok(FigureGroup::of(query.grouping, assigned, group))
    }
}

impl Identified for FiguresDocument {
    fn id(&self) -> &str {
        &self.id
    }
}

#[derive(Debug, Deserialize)]
struct MadeDocument {
    #[serde(rename = "_id")]
    id: String,
    day: i64,
    credential: Option<i64>,
    messages: i64,
    documents: i64,
    #[serde(default)]
    text_bytes: i64,
}

impl MadeDocument {
    fn made(&self) -> Made {
        Made {
            messages: uint(self.messages),
            documents: uint(self.documents),
            text_bytes: self.text_bytes,
        }
    }
}

impl Identified for MadeDocument {
    fn id(&self) -> &str {
        &self.id
    }
}

#[derive(Debug, Deserialize)]
struct MilestonesDocument {
    #[serde(rename = "_id")]
    id: String,
    opened_at: i64,
    answered: bool,
}

impl Identified for MilestonesDocument {
    fn id(&self) -> &str {
        &self.id
    }
}

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

/// The generation that is shown; none while a slice is written to it.
async fn shown_at_rest(collections: &Collections) -> Result<Option<GenerationMark>, ReadError> {
    let documents = generation_documents(collections).await;
    let documents = documents.map_err(|error| failed(&error))?;
    let shown = documents
        .iter()
        .rfind(|one| one.state == State::Shown as i32);
    Ok(shown
        .filter(|one| one.redo.is_none())
        .map(GenerationDocument::mark))
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

/// Whether retention has taken events of any account.
async fn is_trimmed(collections: &Collections) -> Result<bool, ReadError> {
    let filter = doc! {"floor": {"$gt": 0_i64}};
    let trimmed: Option<Document> = one(collections, FEEDS, filter).await?;
    Ok(trimmed.is_some())
}

/// Begins another generation, unless one is under way; false where events are missing.
pub(super) async fn begin_rebuild(collections: &Collections) -> Result<bool, ReadError> {
    let Generations { shown, rebuilt } = generations(collections).await?;
    if rebuilt.is_some() {
        return Ok(true);
    }
    if is_trimmed(collections).await? {
        return Ok(false);
    }
    // Whoever asks at the same time makes the same one.
    let mut statements = Statements::default();
    let next = shown.generation.0 + 1;
    let made = doc! {"$setOnInsert": {"counted": 0_i64, "state": State::Rebuilt as i32}};
    statements.put(FIGURE_GENERATIONS, next, Document::new(), made);
    let made = statements.run(&collections.database).await;
    made.map_err(|error| failed(&error))?;
    Ok(true)
}

/// Shows the other generation, or gives it up where events are missing; false where it is behind.
pub(super) async fn end_rebuild(collections: &Collections) -> Result<bool, ReadError> {
    let Generations { shown, rebuilt } = generations(collections).await?;
    let Some(rebuilt) = rebuilt else {
        return Ok(true);
    };
    if is_trimmed(collections).await? {
        forget(collections, doc! {"$eq": rebuilt.generation.0}).await?;
        return Ok(true);
    }
    if rebuilt.counted < shown.counted {
        return Ok(false);
    }
    let mut statements = Statements::default();
    let change = doc! {"$set": {"state": State::Shown as i32}};
    let made = doc! {"_id": rebuilt.generation.0};
    statements.update(FIGURE_GENERATIONS, made, change);
    let shown = statements.run(&collections.database).await;
    shown.map_err(|error| failed(&error))?;
    forget_older(collections).await?;
    Ok(true)
}

/// Lets generations go that another one has taken the place of.
async fn forget_older(collections: &Collections) -> Result<(), ReadError> {
    let shown = generations(collections).await?.shown.generation;
    forget(collections, doc! {"$lt": shown.0}).await
}

/// Deletes generations, and then all that was counted in them.
async fn forget(collections: &Collections, which: Document) -> Result<(), ReadError> {
    let delete = async |collection: &str, filter: Document| -> Result<(), Error> {
        let collection = collections.database.collection::<Document>(collection);
        answered(collection.delete_many(filter).into_future())
            .await
            .map(|_| ())
    };
    let forgotten = async {
        delete(FIGURE_GENERATIONS, doc! {"_id": which.clone()}).await?;
        for collection in [FIGURES, MILESTONES, MADE] {
            delete(collection, doc! {"generation": which.clone()}).await?;
        }
        Ok(())
    };
    forgotten.await.map_err(|error: Error| failed(&error))
}
