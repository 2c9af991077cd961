//! What is to be done without anybody asking: chores that commits left, and times that have come,
//! of which only the node that leads is told. And what is spent once, at whichever node, and what each
//! node counts.

use std::sync::Arc;

use mongodb::bson::{Document, doc};
use serde::Deserialize;

use super::super::MongoStore;
use super::super::codec::{failed, int, uint};
use super::super::connection::answered;
use super::super::find::all;
use super::super::log::ChoreDocument;
use super::super::schema::{CHORES, Collections};
use super::super::work::Work;
use super::super::{nonces, store_key, usage};
use crate::sealing::{MasterKeys, WrappedKey};
use crate::store::{
    Later, NodeRequests, Nonce, ReadError, Rewrap, SpentNonces, StoreKeys, Timed, TimedCursor,
    TimedQuery, TimerStore, Timing, UsageQuery, UsageSlice, UsageStore,
};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::Chore;
use colloquy_model::id::ConversationId;
use colloquy_model::time::Timestamp;
use colloquy_model::usage::DayUsage;

impl TimerStore for MongoStore {
    fn chores(&self) -> Later<Result<Vec<Chore>, ReadError>> {
        let collections = self.collections.clone();
        let membership = Arc::clone(&self.membership);
        self.read(async move {
            membership.lead().await;
            let found: Vec<ChoreDocument> =
                all(&collections, CHORES, Document::new(), doc! {"_id": 1}).await?;
            Ok(found.into_iter().filter_map(ChoreDocument::chore).collect())
        })
    }

    fn chore_done(&self, chore: Chore) {
        // Unsent, the next start finds the chore again and nothing left to do in it.
        let _ = self.send(Work::ChoreDone { chore });
    }

    fn timed(&self, query: TimedQuery) -> Later<Result<Vec<Timed>, ReadError>> {
        let collections = self.collections.clone();
        let membership = Arc::clone(&self.membership);
        self.read_listed(async move {
            membership.lead().await;
            timed(&collections, query).await
        })
    }
}

impl SpentNonces for MongoStore {
    fn spend(&self, nonce: Nonce) -> Later<Result<bool, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { nonces::spend(&collections, nonce).await })
    }
}

impl StoreKeys for MongoStore {
    fn master_keys(&self) -> &MasterKeys {
        &self.master_keys
    }

    fn store_key(&self) -> Later<Result<WrappedKey, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { store_key::read(&collections).await })
    }

    fn rewrap(&self, change: Rewrap) -> Later<Result<bool, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { store_key::rewrap(&collections, change).await })
    }
}

impl UsageStore for MongoStore {
    fn add_usage(&self, slice: Arc<UsageSlice>) -> Later<Result<(), ReadError>> {
        let (collections, node) = (self.collections.clone(), self.membership.number());
        self.read(async move {
            let added = usage::adding(&slice, node).run(&collections.database).await;
            added.map_err(|error| failed(&error))
        })
    }

    fn usage(&self, query: UsageQuery) -> Later<Result<Vec<DayUsage>, ReadError>> {
        let collections = self.collections.clone();
        let turn = self.in_turn(Tenant::account(query.account), async move {
            usage::days(&collections, query).await
        });
        self.read(turn)
    }

    fn requests_since(&self, day: Timestamp) -> Later<Result<Vec<NodeRequests>, ReadError>> {
        let collections = self.collections.clone();
        self.read(async move { usage::requests_since(&collections, day).await })
    }
}

/// A conversation and its time.
#[derive(Debug, Deserialize)]
struct TimedDocument {
    #[serde(rename = "_id")]
    number: i64,
    tail: i64,
    tenant: i64,
    snoozed_until: Option<i64>,
    active_at: Option<i64>,
}

/// The next conversations in the order of their time; the last is the first that is not due.
async fn timed(collections: &Collections, query: TimedQuery) -> Result<Vec<Timed>, ReadError> {
    let (field, mut filter) = match query.timing {
        Timing::Snooze => ("snoozed_until", Document::new()),
        Timing::Inactivity(tenant) => ("active_at", doc! {"tenant": tenant.number()}),
    };
    // A comparison with a number lets through what has one, and nothing else.
    match query.behind {
        None => filter.extend(doc! {field: {"$gt": i64::MIN}}),
        Some(TimedCursor { listed_at, number }) => filter.extend(doc! {"$or": [
            {field: {"$gt": listed_at.0}},
            {field: listed_at.0, "_id": {"$gt": int(number)}},
        ]}),
    }
    let conversations = collections.conversations.clone_with_type::<TimedDocument>();
    let found = async {
        let found = conversations.find(filter).sort(doc! {field: 1, "_id": 1});
        let mut cursor = found.limit(i64::from(query.limit)).await?;
        let mut timed = Vec::new();
        while cursor.advance().await? {
            let row: TimedDocument = cursor.deserialize_current()?;
            let at = match query.timing {
                Timing::Snooze => row.snoozed_until,
                Timing::Inactivity(_) => row.active_at,
            };
            let at = Timestamp(at.unwrap_or(i64::MIN));
            timed.push(Timed {
                id: ConversationId::from_parts(uint(row.number), uint(row.tail)),
                tenant: Tenant::from_number(row.tenant),
                listed_at: at,
                at,
            });
            if at > query.until {
                break;
            }
        }
        Ok(timed)
    };
    answered(found).await.map_err(|error| failed(&error))
}
