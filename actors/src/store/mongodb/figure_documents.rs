//! The documents in which figures, milestones and what was made are kept, one for each cell.

use std::collections::HashMap;

use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::codec::{code, damaged, int, uint};
use super::find::all;
use super::schema::Collections;
use crate::store::{
    FigureGroup, FigureItem, FigureQuery, Generation, Made, MadeCell, MadeItem, MilestonesItem,
    ReadError,
};
use colloquy_model::conversation::{Channel, Priority};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::figures::{Assigned, Cell, Figures};

/// Stands in an `_id` where there was no credential.
pub(super) const NO_CREDENTIAL: i64 = -1;

/// The generation that a database begins with.
pub(super) const FIRST_GENERATION: Generation = Generation(1);

/// The `_id` of what these numbers tell from all others of its generation and collection.
fn joined(generation: Generation, numbers: &[i64]) -> String {
    let mut id = generation.0.to_string();
    for number in numbers {
        id.push('.');
        id.push_str(&number.to_string());
    }
    id
}

/// The `_id` of the document that holds a cell of figures in this generation.
pub(super) fn cell_id(generation: Generation, cell: &Cell) -> String {
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

/// The `_id` of the document that holds a conversation's milestones in this generation.
pub(super) fn milestones_id(generation: Generation, conversation: EntityNumber) -> String {
    joined(generation, &[int(conversation)])
}

/// The `_id` of the document that says what was made on a day with a credential.
pub(super) fn made_id(generation: Generation, cell: &MadeCell) -> String {
    let credential = cell.credential.map_or(NO_CREDENTIAL, |code| code.0);
    joined(generation, &[cell.tenant.number(), cell.day.0, credential])
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
pub(super) trait Identified {
    fn id(&self) -> &str;
}

/// The documents with these `_id`s.
pub(super) async fn by_id<T>(
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
pub(super) struct FiguresDocument {
    #[serde(rename = "_id")]
    pub(super) id: String,
    pub(super) assigned: i64,
    pub(super) start: i64,
    pub(super) channel: i32,
    pub(super) priority: i32,
    pub(super) opened: i64,
    pub(super) figures: String,
}

impl FiguresDocument {
    pub(super) fn figures(&self) -> Result<Figures, ReadError> {
        let figures = serde_json::from_str(&self.figures);
        figures.map_err(|error| damaged(&self.id, error).into())
    }

    pub(super) fn group(&self, query: &FigureQuery) -> Result<FigureGroup, ReadError> {
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
pub(super) struct MadeDocument {
    #[serde(rename = "_id")]
    pub(super) id: String,
    pub(super) day: i64,
    pub(super) credential: Option<i64>,
    pub(super) messages: i64,
    pub(super) documents: i64,
    #[serde(default)]
    pub(super) text_bytes: i64,
}

impl MadeDocument {
    pub(super) fn made(&self) -> Made {
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
pub(super) struct MilestonesDocument {
    #[serde(rename = "_id")]
    pub(super) id: String,
    pub(super) opened_at: i64,
    pub(super) answered: bool,
}

impl Identified for MilestonesDocument {
    fn id(&self) -> &str {
        &self.id
    }
}
