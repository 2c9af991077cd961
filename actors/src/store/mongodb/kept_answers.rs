//! Answers that are kept under idempotency keys.

use bytes::Bytes;
use mongodb::bson::doc;

use super::codec::{binary, damaged, failed};
use super::find::one;
use super::loads::wait_for_header;
use super::log::{LogDocument, NO_EVENT};
use super::nodes::Membership;
use super::redacting;
use super::schema::{Collections, LOG};
use super::statements::Statements;
use super::veil::Veil;
use crate::store::{KeptRow, ReadError};
use colloquy_model::answer::Done;
use colloquy_model::idempotency::KeyHash;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// Waits until what another node has committed shows as if that one had answered: it may have ended
/// before, and whoever is given its answer relies on it.
async fn settled(
    collections: &Collections,
    membership: &Membership,
    document: &LogDocument,
) -> Result<(), ReadError> {
    let Some(subject) = document.subject() else {
        return Ok(());
    };
    if document.header.is_some() {
        wait_for_header(collections, subject.kind, subject.number).await?;
    }
    let mut statements = Statements::default();
    redacting::note(document, &mut statements);
    if !statements.is_empty() {
        let noted = statements.run(&collections.database).await;
        noted.map_err(|error| failed(&error))?;
    }
    if document.changes_views() {
        let last = document.last_position();
        let mut followed = membership.known.followed.clone();
        let reached = followed.wait_for(|followed| *followed >= last).await;
        drop(reached.map_err(|_| ReadError::Away)?);
        membership.taken_in_everywhere(last).await;
    }
    Ok(())
}

/// The answer that was kept at this position.
pub(super) async fn kept(
    collections: &Collections,
    membership: &Membership,
    position: Position,
) -> Result<Option<KeptRow>, ReadError> {
    let filter = doc! {"position": position.0};
    let found: Option<LogDocument> = one(collections, LOG, filter).await?;
    let Some(found) = found else {
        return Ok(None);
    };
    let (Some(key), Some(answer)) = (&found.key, &found.answer) else {
        return Ok(None);
    };
    if found.node != membership.number() {
        settled(collections, membership, &found).await?;
    }
    let place = format!("the answer at {position}");
    let done = Done::from_code(answer.done)
        .ok_or_else(|| damaged(&place, "the code of what it did stands for nothing"))?;
    let hash = key
        .bytes
        .as_slice()
        .try_into()
        .map_err(|_| damaged(&place, "its key is none"))?;
    Ok(Some(KeptRow {
        hash,
        request: answer.request.bytes.clone(),
        at: Timestamp(answer.at),
        done,
        id: answer.id.clone(),
        etag: answer.etag.clone(),
        body: kept_body(collections, &found).await?,
    }))
}

/// What a kept answer says: that of its first row where it has no body of its own, and where the
/// text of that row is hidden.
async fn kept_body(collections: &Collections, found: &LogDocument) -> Result<Bytes, ReadError> {
    let answer = found.answer.as_ref();
    let own = answer.and_then(|answer| answer.body.as_ref());
    let own = own.map(|body| Bytes::copy_from_slice(&body.bytes));
    let first = found.placed_rows().next();
    let Some((_, sequence, row)) = first.filter(|(.., row)| row.kind != NO_EVENT) else {
        return Ok(own.unwrap_or_default());
    };
    let veil = Veil::over(collections, std::slice::from_ref(found)).await?;
    match own {
        Some(body) if !veil.hides(found, sequence, row) => Ok(body),
        Some(_) | None => veil.shown(found, sequence, row),
    }
}

/// The position of the answer under a key.
pub(super) async fn position_of_key(
    collections: &Collections,
    key: KeyHash,
) -> Result<Option<Position>, ReadError> {
    let filter = doc! {"key": binary(&key)};
    let found: Option<LogDocument> = one(collections, LOG, filter).await?;
    Ok(found.map(|document| Position(document.position)))
}
