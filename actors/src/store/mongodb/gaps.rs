//! Positions that were reserved and at which nothing stands: documents that say nothing take them,
//! so that nobody waits for what can't come any more.

use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};

use super::connection::answered;
use super::log::LogDocument;
use super::schema::{Collections, LOG};
use colloquy_model::position::Position;

/// A document that takes a position for good, so that nothing can land there.
pub(super) fn void(position: Position) -> Document {
    doc! {"_id": format!("void.{:016x}", position.0), "position": position.0}
}

/// Takes the positions that no document has; false where something landed there meanwhile. The
/// lowest first: of a document of several rows only the first position keeps others away.
pub(super) async fn take_gaps(
    collections: &Collections,
    documents: &[LogDocument],
    from: Position,
    to: Position,
) -> Result<bool, Error> {
    let mut next = from.next();
    let mut gaps = Vec::new();
    for document in documents {
        gaps.extend((next.0..document.position).map(Position));
        next = document.last_position().next();
    }
    gaps.extend((next.0..=to.0).map(Position));
    if gaps.is_empty() {
        return Ok(true);
    }
    let voids = doc! {"position": {"$gt": from.0, "$lte": to.0}, "rows": {"$exists": false}};
    let log = collections.database.collection::<Document>(LOG);
    let mut cursor = log.find(voids).await?;
    let mut taken = std::collections::HashSet::new();
    while cursor.advance().await? {
        let position = cursor.deserialize_current()?.get_i64("position");
        taken.extend(position.ok().map(Position));
    }
    let voids: Vec<Document> = gaps
        .into_iter()
        .filter(|gap| !taken.contains(gap))
        .map(void)
        .collect();
    if voids.is_empty() {
        return Ok(true);
    }
    let inserted = log.insert_many(voids).ordered(true).into_future();
    let Err(error) = answered(inserted).await else {
        return Ok(true);
    };
    if let ErrorKind::InsertMany(failure) = error.kind.as_ref()
        && failure.write_errors.is_some()
    {
        return Ok(false);
    }
    Err(error)
}
