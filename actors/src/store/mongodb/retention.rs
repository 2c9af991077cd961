//! Retention: events older than is set are no events any more. The floor of an account and mode,
//! the last position that was taken away, moves up at once; what the rows below it need not hold is
//! freed later. Rows stay, so that sequences have no gap.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::codec::{failed, int, uint};
use super::connection::answered;
use super::event_rows::{documents, public_of};
use super::find::{all, one};
use super::loads::last_id_of;
use super::log::LogDocument;
use super::redacting::Left;
use super::schema::{Collections, DELIVERIES, FEEDS, LOG};
use super::statements::Statements;
use crate::store::{DeliveryState, ReadError};
use colloquy_model::caller::Tenant;
use colloquy_model::event_kind::EventKind;
use colloquy_model::idempotency::KEPT_FOR;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

/// Documents of the log that a step passes.
const AT_ONCE: i64 = 512;

/// What rows need not hold when they are events no more: messages and their edits hold state, and
/// events of documents tell a search index that lags what has changed.
pub(super) const FREED: [EventKind; 3] = [
    EventKind::ConversationCreated,
    EventKind::ConversationUpdated,
    EventKind::ConversationClosed,
];

/// Where the events of an account and mode begin.
#[derive(Debug, Default, Deserialize)]
struct FeedDocument {
    /// The last position that retention took away.
    floor: i64,
    /// Up to which position rows are freed.
    freed: i64,
    /// Up to which position cursors show other numbers.
    #[serde(default)]
    numbered_to: i64,
}

/// What a page of the events of an account and mode has to know before it is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct FeedBounds {
    /// The last position that retention took away; 0 where it took none.
    pub(super) floor: Position,
    /// Up to this position cursors show other numbers than positions; 0 where none do.
    pub(super) numbered_to: Position,
}

/// The bounds of the events of an account and mode.
pub(super) async fn bounds(
    collections: &Collections,
    tenant: Tenant,
) -> Result<FeedBounds, ReadError> {
    let feed = feed(collections, tenant.number()).await?;
    Ok(FeedBounds {
        floor: Position(feed.floor),
        numbered_to: Position(feed.numbered_to),
    })
}

async fn feed(collections: &Collections, tenant: i64) -> Result<FeedDocument, ReadError> {
    let found = one(collections, FEEDS, doc! {"_id": tenant}).await?;
    Ok(found.unwrap_or_default())
}

/// The last position that retention took away; 0 where it took none.
pub(super) async fn floor(
    collections: &Collections,
    tenant: Tenant,
) -> Result<Position, ReadError> {
    let feed = feed(collections, tenant.number()).await?;
    Ok(Position(feed.floor))
}

/// How far retention has come with all accounts.
#[derive(Debug)]
pub(super) struct Retention {
    kept: Option<Duration>,
    /// The last tenant that was looked at.
    behind: Option<i64>,
}

impl Retention {
    /// Without a duration events are kept for ever.
    pub(super) fn new(kept: Option<Duration>) -> Self {
        Retention { kept, behind: None }
    }

    /// Looks at the next account and mode: moves its floor and frees some rows below it. Nothing
    /// behind `decided` is touched. When nothing is left all have been looked at, and the next step
    /// begins with the first one again.
    ///
    /// # Errors
    /// The server does not answer; the next step goes on from here.
    pub(super) async fn trim_some(
        &mut self,
        collections: &Collections,
        decided: Position,
    ) -> Result<Left, ReadError> {
        let Some(kept) = self.kept else {
            return Ok(Left::Nothing);
        };
        let behind = self.behind.unwrap_or(i64::MIN);
        let Some(tenant) = next_tenant(collections, behind).await? else {
            self.behind = None;
            return Ok(Left::Nothing);
        };
        let now = Timestamp::now();
        let until = now - kept;
        let feed = Feed {
            collections,
            tenant,
            decided,
        };
        let mut left = feed.trim(until).await?;
        // An answer that is kept may be the payload of its row.
        if feed.free(until.min(now - KEPT_FOR)).await? == Left::More {
            left = Left::More;
        }
        if left == Left::Nothing {
            self.behind = Some(tenant.number());
        }
        Ok(Left::More)
    }
}

/// The next account and mode that has anything in the log.
async fn next_tenant(collections: &Collections, behind: i64) -> Result<Option<Tenant>, ReadError> {
    let log = collections.database.collection::<Document>(LOG);
    let next = log
        .find_one(doc! {"tenant": {"$gt": behind}})
        .projection(doc! {"tenant": 1})
        .sort(doc! {"tenant": 1, "position": 1});
    let next = answered(next.into_future())
        .await
        .map_err(|error| failed(&error))?;
    let tenant = next.and_then(|next| next.get_i64("tenant").ok());
    Ok(tenant.map(Tenant::from_number))
}

/// The events of one account and mode.
struct Feed<'c> {
    collections: &'c Collections,
    tenant: Tenant,
    decided: Position,
}

impl Feed<'_> {
    /// Its next documents behind a position, up to another.
    async fn behind(&self, after: i64, upto: i64) -> Result<Vec<LogDocument>, ReadError> {
        let mut filter = public_of(self.tenant);
        filter.insert("first", doc! {"$gt": 0});
        filter.insert("position", doc! {"$gt": after, "$lte": upto});
        let order = doc! {"position": 1};
        documents(self.collections, filter, order, AT_ONCE).await
    }

    /// Moves the floor over documents that are older than this, up to the first that is not.
    async fn trim(&self, until: Timestamp) -> Result<Left, ReadError> {
        let before = feed(self.collections, self.tenant.number()).await?.floor;
        let some = self.behind(before, self.decided.0).await?;
        let is_old = |document: &&LogDocument| document.rows.iter().all(|row| row.at < until.0);
        let old: Vec<&LogDocument> = some.iter().take_while(is_old).collect();
        let Some(floor) = old.last().map(|last| last.last_position().0) else {
            return Ok(Left::Nothing);
        };
        self.note(doc! {"floor": floor, "freed": 0_i64}).await?;
        let is_whole = int(u64::try_from(old.len()).unwrap_or(u64::MAX)) == AT_ONCE;
        Ok(if is_whole { Left::More } else { Left::Nothing })
    }

    /// The positions behind one, up to another, of what is still to be delivered.
    async fn to_deliver(&self, after: i64, upto: Position) -> Result<HashSet<i64>, ReadError> {
        let filter = doc! {
            "position": {"$gt": after, "$lte": upto.0}, "state": DeliveryState::Pending as i32,
        };
        let waiting: Vec<Document> =
            all(self.collections, DELIVERIES, filter, doc! {"position": 1}).await?;
        let positions = waiting.iter().map(|waiting| waiting.get_i64("position"));
        Ok(positions.flatten().collect())
    }

    /// Notes how far it has come; neither number ever goes back.
    async fn note(&self, reached: Document) -> Result<(), ReadError> {
        let feeds = self.collections.database.collection::<Document>(FEEDS);
        let change = doc! {"$max": reached};
        let noting = feeds
            .update_one(doc! {"_id": self.tenant.number()}, change)
            .upsert(true);
        let noted = answered(noting.into_future()).await;
        noted.map(|_| ()).map_err(|error| failed(&error))
    }

    /// Frees rows below the floor that are older than this, some documents at a time.
    async fn free(&self, until: Timestamp) -> Result<Left, ReadError> {
        let FeedDocument { floor, freed, .. } =
            feed(self.collections, self.tenant.number()).await?;
        if freed >= floor {
            return Ok(Left::Nothing);
        }
        let some = self.behind(freed, floor).await?;
        let is_old = |document: &&LogDocument| document.rows.iter().all(|row| row.at < until.0);
        let old: Vec<&LogDocument> = some.iter().take_while(is_old).collect();
        let Some(last) = old.last() else {
            return Ok(Left::Nothing);
        };
        let to_deliver = self.to_deliver(freed, last.last_position()).await?;
        // An entity goes on from what it ends with.
        let mut ends = HashMap::new();
        let entities: HashSet<i64> = old.iter().map(|document| document.entity).collect();
        for entity in entities {
            let end = last_id_of(self.collections, uint(entity)).await?;
            ends.insert(entity, end);
        }
        let mut statements = Statements::default();
        for document in &old {
            let end = ends.get(&document.entity).and_then(Option::as_ref);
            if end.is_some_and(|end| *end != document.id) {
                free(document, &to_deliver, &mut statements);
            }
        }
        if !statements.is_empty() {
            statements
                .run(&self.collections.database)
                .await
                .map_err(|error| failed(&error))?;
        }
        self.note(doc! {"freed": last.last_position().0}).await?;
        Ok(Left::More)
    }
}

fn free(document: &LogDocument, to_deliver: &HashSet<i64>, statements: &mut Statements) {
    let (mut set, mut unset) = (Document::new(), Document::new());
    for (index, (position, _, row)) in document.placed_rows().enumerate() {
        let is_freed = FREED.iter().any(|kind| *kind as i32 == row.kind);
        if is_freed && !to_deliver.contains(&position.0) {
            set.insert(format!("rows.{index}.payload"), "");
            unset.insert(format!("rows.{index}.salt"), "");
        }
    }
    if set.is_empty() {
        return;
    }
    let change = doc! {"$set": set, "$unset": unset};
    statements.update(LOG, doc! {"_id": &document.id}, change);
}
