//! Positions: one document counts them for all. A batch reserves as many as it has rows before it is
//! inserted; what was reserved and never inserted leaves a gap.

use mongodb::bson::{Document, doc};
use mongodb::error::{Error, Result};
use mongodb::options::ReturnDocument;

use super::codec::malformed;
use super::connection::answered;
use super::schema::Collections;
use colloquy_model::entity::Kind;
use colloquy_model::position::Position;
use colloquy_model::stream::FeedNumber;

/// The `_id` of the document that counts.
pub(super) const COUNT: &str = "positions";
/// The `_id` of the one that says how far the log is carried over. Not the same: nothing but the
/// reserving itself changes the count.
pub(super) const CARRIED: &str = "carried";

/// Where the log stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Standing {
    /// The position that is given next.
    pub(super) next: Position,
    /// Up to here every position is decided, and what stands there carried over.
    pub(super) carried: Position,
}

/// Where the log stands, as it was written down last; makes the documents at the first start.
pub(super) async fn standing(collections: &Collections) -> Result<Standing> {
    let next = first_found(collections, COUNT, doc! {"next": Position::ZERO.next().0}).await?;
    let carried = first_found(collections, CARRIED, doc! {"carried": 0_i64}).await?;
    Ok(Standing {
        next: position(&next, "next")?,
        carried: position(&carried, "carried")?,
    })
}

/// A document of `meta`, made so where it is not there.
async fn first_found(collections: &Collections, id: &str, begin: Document) -> Result<Document> {
    let update = collections
        .meta
        .find_one_and_update(doc! {"_id": id}, doc! {"$setOnInsert": begin});
    let found = update.upsert(true).return_document(ReturnDocument::After);
    answered(found.into_future()).await?.ok_or_else(missing)
}

/// Reserves so many positions: gives the first.
pub(super) async fn reserve(collections: &Collections, count: i64) -> Result<Position> {
    let change = doc! {"$inc": {"next": count}};
    let update = collections
        .meta
        .find_one_and_update(doc! {"_id": COUNT}, change);
    let found = answered(update.return_document(ReturnDocument::Before).into_future());
    position(&found.await?.ok_or_else(missing)?, "next")
}

/// Writes down how far everything is decided and carried over.
pub(super) async fn note_carried(collections: &Collections, carried: Position) -> Result<()> {
    let change = doc! {"$max": {"carried": carried.0}};
    let update = collections.meta.update_one(doc! {"_id": CARRIED}, change);
    answered(update.into_future()).await.map(|_| ())
}

fn position(found: &Document, field: &str) -> Result<Position> {
    found.get_i64(field).map(Position).map_err(|_| missing())
}

fn missing() -> Error {
    malformed("the database does not say which positions are given")
}

/// The number of an event in the feed of its account and mode: its position. Records are no public
/// events.
pub(super) fn number_of(kind: Kind, position: Position) -> FeedNumber {
    match kind {
        Kind::Conversation | Kind::Document | Kind::Alerts => {
            FeedNumber(u64::try_from(position.0).unwrap_or(0))
        }
        Kind::Account
        | Kind::Key
        | Kind::User
        | Kind::Customer
        | Kind::Webhook
        | Kind::Supervision
        | Kind::Audit
        | Kind::Client
        | Kind::Attachment
        | Kind::Erasure
        | Kind::Grant
        | Kind::SigningKeys => FeedNumber::ZERO,
    }
}
