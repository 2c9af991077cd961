//! Everything that the database holds, collection by collection. What is not handed out is made
//! again or was of no use any more:
//!
//! - `log` are events and answers; voids and answers whose time is over stay behind. What its
//!   documents say of headers stands in the other collections. `feed_numbers` and `numbered_to` of
//!   `feeds` are in the numbers of events.
//! - `conversations`, `records` with `names`, `documents`, `versions`, `comments`, `renames`,
//!   `chores`, `key_uses`, `endpoints`, `deliveries`, `replays`, `counters`, `usage` and the floor of `feeds`
//!   are handed out; of what is gone, users only, whose work is told.
//! - of `figures`, `milestones` and `made` what is of the generation that is shown, and
//!   `figure_assignees`, are handed out: retention may have taken what they were made of.
//! - of `meta` the store key, as it is wrapped, the operator, the position and what deliveries have reached are handed out, the
//!   others are of this database.
//! - `messages` and `event_totals` are made again. `redactions` and `erasures` are done before.
//!   `nonces` are of requests of the last minutes, and stay behind.

use std::io;

use mongodb::Cursor;
use mongodb::bson::{Document, doc};
use mongodb::error::Error;
use serde::de::DeserializeOwned;

use super::delivery_documents::DeliveryDocument;
use super::export_events::{Numbering, events_of};
use super::export_rows::{
    CommentRow, ConversationRow, CounterRow, DocumentRow, EndpointRow, FeedRow, FigureRow, GoneRow,
    KeyUseRow, MadeRow, MilestonesRow, NameRow, RecordRow, RenameRow, ReplayRow, TakenRow,
    VersionRow, delivery_item,
};
use super::figure_generations;
use super::log::{AnswerDocument, ChoreDocument, LogDocument};
use super::schema::{
    CHORES, COMMENTS, CONVERSATIONS, COUNTERS, Collections, DELIVERIES, DOCUMENTS, ENDPOINTS,
    FEEDS, FIGURE_ASSIGNEES, FIGURES, KEY_USES, LOG, MADE, META, MILESTONES, NAMES, RECORDS,
    RENAMES, REPLAYS, USAGE, VERSIONS,
};
use super::transfer::MongoTransfer;
use super::usage::UsageDocument;
use super::{deliveries, open, positions, store_key};
use crate::store::transfer_items::COUNTS_DELIVERIES;
use crate::store::{
    Base64, ChoreItem, CommentItem, CounterItem, DepartedItem, Export, FeedItem,
    FigureAssigneeItem, Item, KeyUseItem, Marks, NameItem, OperatorItem, RenameItem, Text,
    TransferError,
};
use colloquy_model::commit::NameField;
use colloquy_model::entity::Kind;
use colloquy_model::idempotency::KEPT_FOR;
use colloquy_model::position::Position;
use colloquy_model::time::Timestamp;

impl Export for MongoTransfer {
    fn export(
        &mut self,
        take: &mut dyn FnMut(Item) -> io::Result<()>,
    ) -> Result<(), TransferError> {
        let mut exporter = Exporter {
            collections: &self.collections,
            take,
        };
        self.runtime.block_on(exporter.run())
    }
}

/// Hands out everything of these collections.
struct Exporter<'e> {
    collections: &'e Collections,
    take: &'e mut dyn FnMut(Item) -> io::Result<()>,
}

impl Exporter<'_> {
    async fn run(&mut self) -> Result<(), TransferError> {
        if let Some(key) = store_key::stored(self.collections).await? {
            self.take(Item::StoreKey(key))?;
        }
        let position = self.marks().await?;
        self.events().await?;
        self.conversations().await?;
        self.records().await?;
        self.documents().await?;
        self.rest_of_records().await?;
        self.deliveries().await?;
        self.counters().await?;
        self.feeds().await?;
        self.figures().await?;
        self.usage().await?;
        let end = self.standing().await?;
        if end != position {
            let moved = Error::custom("something was committed meanwhile: is a server running?");
            return Err(moved.into());
        }
        Ok(())
    }

    fn take(&mut self, item: Item) -> Result<(), TransferError> {
        (self.take)(item).map_err(TransferError::Output)
    }

    /// All documents of a collection that match, by this order.
    async fn all<T: DeserializeOwned + Send + Sync>(
        &self,
        collection: &str,
        filter: Document,
        order: Document,
    ) -> Result<Cursor<T>, Error> {
        let collection = self.collections.database.collection::<T>(collection);
        collection.find(filter).sort(order).await
    }

    async fn by_id<T: DeserializeOwned + Send + Sync>(
        &self,
        collection: &str,
    ) -> Result<Cursor<T>, Error> {
        self.all(collection, doc! {}, doc! {"_id": 1}).await
    }

    async fn meta(&self, id: &str) -> Result<Document, Error> {
        let meta = self.collections.database.collection::<Document>(META);
        Ok(meta.find_one(doc! {"_id": id}).await?.unwrap_or_default())
    }

    /// The last position that was given.
    async fn standing(&self) -> Result<Position, Error> {
        let next = self.meta(positions::COUNT).await?.get_i64("next");
        Ok(Position(next.unwrap_or(1)).previous())
    }

    async fn marks(&mut self) -> Result<Position, TransferError> {
        let position = self.standing().await?;
        let mark = self.meta(deliveries::MARK).await?;
        let shown = figure_generations::shown(self.collections).await?;
        let field = |name| mark.get_i64(name).unwrap_or(0);
        self.take(Item::Marks(Marks {
            position: position.0,
            matched: field("matched"),
            matched_within: field("within"),
            last_delivery: field("last_delivery"),
            counted: shown.counted.0,
        }))?;
        let operator = self.meta(open::OPERATOR).await?;
        if let Ok(hash) = operator.get_binary_generic("hash") {
            self.take(Item::Operator(OperatorItem {
                hash: Base64(hash.clone()),
            }))?;
        }
        Ok(position)
    }

    async fn events(&mut self) -> Result<(), TransferError> {
        let mut numbering = Numbering::of(self.collections).await?;
        let kept_since = (Timestamp::now() - KEPT_FOR).0;
        let filter = doc! {"rows": {"$exists": true}};
        let mut cursor: Cursor<LogDocument> = self.all(LOG, filter, doc! {"position": 1}).await?;
        while cursor.advance().await? {
            let mut document = cursor.deserialize_current()?;
            let is_kept = |answer: &AnswerDocument| answer.at >= kept_since;
            document.answer = document.answer.take().filter(is_kept);
            for mut event in events_of(&document) {
                if event.number.is_some() {
                    let number = numbering.shown(event.tenant, event.position).await?;
                    event.number = Some(number);
                }
                self.take(Item::Event(Box::new(event)))?;
            }
        }
        Ok(())
    }

    async fn conversations(&mut self) -> Result<(), TransferError> {
        let there = doc! {"gone": {"$ne": true}};
        let mut cursor: Cursor<ConversationRow> =
            self.all(CONVERSATIONS, there, doc! {"_id": 1}).await?;
        while cursor.advance().await? {
            let item = cursor.deserialize_current()?.item();
            self.take(Item::Conversation(Box::new(item)))?;
        }
        Ok(())
    }

    async fn records(&mut self) -> Result<(), TransferError> {
        let there = doc! {"gone": false};
        let mut cursor: Cursor<RecordRow> = self.all(RECORDS, there, doc! {"_id": 1}).await?;
        while cursor.advance().await? {
            let row = cursor.deserialize_current()?;
            let own = doc! {"record": row.number};
            let order = doc! {"field": 1, "value": 1};
            let mut names: Cursor<NameRow> = self.all(NAMES, own, order).await?;
            let mut found = Vec::new();
            while names.advance().await? {
                let NameRow { field, value } = names.deserialize_current()?;
                let field = field.into();
                found.push(NameItem { field, value });
            }
            self.take(Item::Record(row.item(found)))?;
        }
        let users = doc! {"gone": true, "kind": Kind::User as i32};
        let mut cursor: Cursor<GoneRow> = self.all(RECORDS, users, doc! {"_id": 1}).await?;
        while cursor.advance().await? {
            let GoneRow { number, tail } = cursor.deserialize_current()?;
            self.take(Item::Departed(DepartedItem { number, tail }))?;
        }
        Ok(())
    }

    async fn documents(&mut self) -> Result<(), TransferError> {
        let there = doc! {"gone": false};
        let mut cursor: Cursor<DocumentRow> = self.all(DOCUMENTS, there, doc! {"_id": 1}).await?;
        while cursor.advance().await? {
            let item = cursor.deserialize_current()?.item();
            self.take(Item::Document(Box::new(item)))?;
        }
        let mut cursor: Cursor<VersionRow> = self.by_id(VERSIONS).await?;
        while cursor.advance().await? {
            let item = cursor.deserialize_current()?.item();
            self.take(Item::Version(Box::new(item)))?;
        }
        let mut cursor: Cursor<CommentRow> = self.by_id(COMMENTS).await?;
        while cursor.advance().await? {
            let CommentRow {
                document,
                number,
                body,
            } = cursor.deserialize_current()?;
            // One that is gone has none.
            if let Some(body) = body {
                self.take(Item::Comment(CommentItem {
                    document,
                    number,
                    body: Text(body.into_bytes()),
                }))?;
            }
        }
        Ok(())
    }

    async fn rest_of_records(&mut self) -> Result<(), TransferError> {
        let mut cursor: Cursor<RenameRow> = self.by_id(RENAMES).await?;
        while cursor.advance().await? {
            let RenameRow {
                customer,
                name,
                revision,
            } = cursor.deserialize_current()?;
            self.take(Item::Rename(RenameItem {
                customer,
                name,
                revision,
            }))?;
        }
        let mut cursor: Cursor<ChoreDocument> = self.by_id(CHORES).await?;
        while cursor.advance().await? {
            let ChoreDocument {
                tenant,
                kind,
                user,
                tail,
            } = cursor.deserialize_current()?;
            self.take(Item::Chore(ChoreItem {
                tenant,
                kind,
                user,
                tail,
            }))?;
        }
        let taken = doc! {"field": NameField::TakenAttachment as i32};
        let mut cursor: Cursor<TakenRow> = self.all(NAMES, taken, doc! {"_id": 1}).await?;
        while cursor.advance().await? {
            let item = cursor.deserialize_current()?.item();
            self.take(Item::TakenAttachment(item))?;
        }
        let mut cursor: Cursor<KeyUseRow> = self.by_id(KEY_USES).await?;
        while cursor.advance().await? {
            let KeyUseRow { key, at } = cursor.deserialize_current()?;
            self.take(Item::KeyUse(KeyUseItem { key, at }))?;
        }
        Ok(())
    }

    async fn deliveries(&mut self) -> Result<(), TransferError> {
        let mut cursor: Cursor<EndpointRow> = self.by_id(ENDPOINTS).await?;
        while cursor.advance().await? {
            let item = cursor.deserialize_current()?.item();
            self.take(Item::Endpoint(item))?;
        }
        let mut cursor: Cursor<DeliveryDocument> = self.by_id(DELIVERIES).await?;
        while cursor.advance().await? {
            let item = delivery_item(&cursor.deserialize_current()?)?;
            self.take(Item::Delivery(Box::new(item)))?;
        }
        let mut cursor: Cursor<ReplayRow> = self.by_id(REPLAYS).await?;
        while cursor.advance().await? {
            let item = cursor.deserialize_current()?.item();
            self.take(Item::Replay(item))?;
        }
        Ok(())
    }

    /// One for all writers of each, then those of deliveries.
    async fn counters(&mut self) -> Result<(), TransferError> {
        // Those of one counter stand together: the writer's number is at the end.
        let mut cursor: Cursor<CounterRow> = self.by_id(COUNTERS).await?;
        let mut open: Option<CounterItem> = None;
        while cursor.advance().await? {
            let next = cursor.deserialize_current()?.item();
            match &mut open {
                Some(open) if same(open, &next) => open.total += next.total,
                Some(_) | None => {
                    let whole = open.replace(next);
                    self.counter(whole)?;
                }
            }
        }
        self.counter(open)?;
        let mut cursor: Cursor<EndpointRow> = self.by_id(ENDPOINTS).await?;
        while cursor.advance().await? {
            let EndpointRow { number, totals, .. } = cursor.deserialize_current()?;
            for (key, total) in totals {
                self.counter(total_item(number, &key, total))?;
            }
        }
        Ok(())
    }

    fn counter(&mut self, counter: Option<CounterItem>) -> Result<(), TransferError> {
        match counter.filter(|counter| counter.total != 0) {
            Some(counter) => self.take(Item::Counter(counter)),
            None => Ok(()),
        }
    }

    async fn feeds(&mut self) -> Result<(), TransferError> {
        let trimmed = doc! {"floor": {"$gt": 0}};
        let mut cursor: Cursor<FeedRow> = self.all(FEEDS, trimmed, doc! {"_id": 1}).await?;
        while cursor.advance().await? {
            let FeedRow { tenant, floor, .. } = cursor.deserialize_current()?;
            self.take(Item::Feed(FeedItem { tenant, floor }))?;
        }
        Ok(())
    }

    /// Of the generation that is shown; another one that is being made stays behind.
    async fn figures(&mut self) -> Result<(), TransferError> {
        let shown = figure_generations::shown(self.collections)
            .await?
            .generation
            .0;
        let (of_shown, by_id) = (doc! {"generation": shown}, doc! {"_id": 1});
        let mut cursor: Cursor<FigureRow> =
            self.all(FIGURES, of_shown.clone(), by_id.clone()).await?;
        while cursor.advance().await? {
            self.take(Item::Figure(cursor.deserialize_current()?.item()))?;
        }
        let mut cursor: Cursor<GoneRow> = self.by_id(FIGURE_ASSIGNEES).await?;
        while cursor.advance().await? {
            let GoneRow { number, tail } = cursor.deserialize_current()?;
            self.take(Item::FigureAssignee(FigureAssigneeItem { number, tail }))?;
        }
        let mut cursor: Cursor<MilestonesRow> = self
            .all(MILESTONES, of_shown.clone(), by_id.clone())
            .await?;
        while cursor.advance().await? {
            self.take(Item::Milestones(cursor.deserialize_current()?.item()))?;
        }
        let mut cursor: Cursor<MadeRow> = self.all(MADE, of_shown, by_id).await?;
        while cursor.advance().await? {
            self.take(Item::Made(cursor.deserialize_current()?.item()))?;
        }
        Ok(())
    }

    /// One for all nodes of each day and credential.
    async fn usage(&mut self) -> Result<(), TransferError> {
        let order = doc! {"account": 1, "day": 1, "credential": 1, "tail": 1};
        let mut cursor: Cursor<UsageDocument> = self.all(USAGE, doc! {}, order).await?;
        let mut open: Option<UsageDocument> = None;
        while cursor.advance().await? {
            let next = cursor.deserialize_current()?;
            let whole = match &mut open {
                Some(open) if open.is_beside(&next) => {
                    open.add(&next);
                    None
                }
                Some(_) | None => open.replace(next),
            };
            if let Some(whole) = whole {
                self.take(Item::Usage(whole.item()))?;
            }
        }
        match open {
            Some(whole) => self.take(Item::Usage(whole.item())),
            None => Ok(()),
        }
    }
}

/// Whether both are of one counter.
fn same(one: &CounterItem, other: &CounterItem) -> bool {
    (one.tenant, one.field, one.value, one.status)
        == (other.tenant, other.field, other.value, other.status)
}

/// How many deliveries of an endpoint there are, by the key under which it counts them.
fn total_item(endpoint: i64, key: &str, total: i64) -> Option<CounterItem> {
    let (kind, state) = key.split_once('_')?;
    Some(CounterItem {
        tenant: endpoint,
        field: COUNTS_DELIVERIES,
        value: kind.parse().ok()?,
        status: state.parse().ok()?,
        total,
    })
}
