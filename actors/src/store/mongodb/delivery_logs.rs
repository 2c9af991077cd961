//! What is asked of the log about the events that are delivered: when they were committed, and
//! whether they are redacted. What receivers answered to a message goes with it.

use std::collections::HashMap;

use mongodb::bson::{Document, doc};
use mongodb::error::Error;

use super::codec::malformed;
use super::find::all;
use super::log::LogDocument;
use super::schema::{Collections, DELIVERIES, LOG};
use super::statements::Statements;
use super::veil::Veil;
use super::work::TOGETHER_MAX;
use crate::store::ReadError;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// Positions that are not farther apart are read in one range.
const GAP_MAX: i64 = 512;

/// An event that is delivered, as the log has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoggedEvent {
    pub(super) at: Timestamp,
    pub(super) is_redacted: bool,
}

/// What the log says of the events at these positions. Those of a slice stand near each other, so
/// they are read in few ranges: a row may stand anywhere in its document.
pub(super) async fn events_at(
    collections: &Collections,
    mut positions: Vec<Position>,
) -> Result<HashMap<Position, LoggedEvent>, ReadError> {
    positions.sort_unstable();
    positions.dedup();
    let mut ranges: Vec<(Position, Position)> = Vec::new();
    for position in &positions {
        match ranges.last_mut() {
            Some((_, last)) if position.0 - last.0 <= GAP_MAX => *last = *position,
            _ => ranges.push((*position, *position)),
        }
    }
    if ranges.is_empty() {
        return Ok(HashMap::new());
    }
    let before = i64::try_from(TOGETHER_MAX).unwrap_or(0);
    let range = |(first, last): &(Position, Position)| -> Document {
        doc! {"position": {"$gt": first.0.saturating_sub(before), "$lte": last.0}}
    };
    let ranges: Vec<Document> = ranges.iter().map(range).collect();
    let filter = doc! {"$or": ranges, "rows": {"$exists": true}};
    let documents: Vec<LogDocument> = all(collections, LOG, filter, doc! {"position": 1}).await?;
    let veil = Veil::over(collections, &documents).await?;
    let mut found = HashMap::new();
    for document in &documents {
        for (position, sequence, row) in document.placed_rows() {
            if positions.binary_search(&position).is_ok() {
                let event = LoggedEvent {
                    at: Timestamp(row.at),
                    // Redaction takes the salt.
                    is_redacted: row.salt.is_none() || veil.hides(document, sequence, row),
                };
                found.insert(position, event);
            }
        }
    }
    Ok(found)
}

/// Erases what receivers said of the events at these positions. It has to follow what makes
/// [`events_at`] say that they are redacted: what is written later looks there.
pub(super) fn erase_answers(positions: &[i64], statements: &mut Statements) {
    if !positions.is_empty() {
        let filter = doc! {"position": {"$in": positions}};
        statements.update(DELIVERIES, filter, doc! {"$unset": {"said": ""}});
    }
}

/// Erases what was written of redacted messages: whoever redacts erases what is written by then,
/// and what is written later is looked at here, behind its writing.
pub(super) async fn silence(collections: &Collections, positions: &[i64]) -> Result<(), Error> {
    let asked = positions.iter().copied().map(Position).collect();
    let events = events_at(collections, asked).await;
    let events = events.map_err(|error| malformed(error.to_string()))?;
    let is_redacted = |position: &i64| {
        let event = events.get(&Position(*position));
        // What retention took away may have been redacted before.
        event.is_none_or(|event| event.is_redacted)
    };
    let redacted: Vec<i64> = positions.iter().copied().filter(is_redacted).collect();
    let mut statements = Statements::default();
    erase_answers(&redacted, &mut statements);
    statements.run(&collections.database).await
}
