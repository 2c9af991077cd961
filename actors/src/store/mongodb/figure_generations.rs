//! How far figures have come, and what is added to them. A slice is written down in the document of
//! its generation first, which is the moment at which it is counted; what that makes of the cells is
//! kept there until each of them has it. So whoever goes on after a crash finishes it, and a cell
//! that has it already is left as it is.

use std::collections::HashMap;

use mongodb::bson::{Binary, Document, deserialize_from_slice, doc, serialize_to_vec};
use mongodb::error::{Error, Result as Answer};
use serde::Deserialize;

use super::codec::{Met, binary, code, damaged, failed, int, malformed, met};
use super::connection::answered;
use super::figure_documents::{
    FIRST_GENERATION, FiguresDocument, MadeDocument, by_id, cell_id, made_id, milestones_id,
};
use super::find::one;
use super::schema::{
    Collections, FEEDS, FIGURE_ASSIGNEES, FIGURE_GENERATIONS, FIGURES, MADE, MILESTONES,
};
use super::statements::Statements;
use crate::store::{FigureSlice, Generation, GenerationMark, Generations, ReadError};
use colloquy_model::caller::CredentialCode;
use colloquy_model::position::Position;

/// What a generation is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is to take the place of the one that is shown.
    Rebuilt = 0,
    Shown = 1,
}

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

/// The generation that is shown.
pub(super) async fn shown(collections: &Collections) -> Answer<GenerationMark> {
    let documents = generation_documents(collections).await?;
    let shown = documents
        .iter()
        .rfind(|one| one.state == State::Shown as i32);
    let shown = shown.map(GenerationDocument::mark);
    shown.ok_or_else(|| malformed("no generation of figures is shown"))
}

/// The generation that is shown; none while a slice is written to it.
pub(super) async fn shown_at_rest(
    collections: &Collections,
) -> Result<Option<GenerationMark>, ReadError> {
    let documents = generation_documents(collections).await;
    let documents = documents.map_err(|error| failed(&error))?;
    let shown = documents
        .iter()
        .rfind(|one| one.state == State::Shown as i32);
    Ok(shown
        .filter(|one| one.redo.is_none())
        .map(GenerationDocument::mark))
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
