//! What the store does beside commits: copies of customers' new names, last uses of keys, answers
//! whose time is over. What is to be done stands in collections, so that a start goes on with it.

use std::sync::Arc;
use std::time::Instant;

use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Result;
use tokio::sync::{Notify, watch};

use super::codec::{int, malformed, uint};
use super::connection::answered;
use super::erasing;
use super::intents;
use super::nonces;
use super::pace::Pace;
use super::progress::Progress;
use super::redacting::Left;
use super::schema::{CONVERSATIONS, Collections, KEY_USES, RENAMES};
use super::statements::Statements;
use super::tickets;
use super::writer::Writer;
use crate::store::{CommitSink, HeldName, KeyFilter, KeySlice, KeyUse};
use colloquy_model::idempotency::KEPT_FOR;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// Documents that are changed at once. Tests want many slices.
const SLICE: i64 = if cfg!(test) { 16 } else { 256 };

/// The task that does the store's work beside commits.
pub(super) struct Housekeeping {
    collections: Collections,
    sink: Arc<dyn CommitSink>,
    progress: Arc<Progress>,
    pace: Pace,
    /// Told when a commit leaves something to be done.
    wake: Arc<Notify>,
    /// Told when memory has one key more.
    keyed: Arc<Notify>,
    /// True when the store closes.
    closing: watch::Receiver<bool>,
    /// Keys that memory has let go, in slices: the number of each and when it was made.
    slices: Vec<(i64, Instant)>,
}

impl Housekeeping {
    /// The task beside this writer, until `closing` is true.
    pub(super) fn beside(writer: &Writer, pace: Pace, closing: watch::Receiver<bool>) -> Self {
        Housekeeping {
            collections: writer.collections.clone(),
            sink: Arc::clone(&writer.sink),
            progress: Arc::clone(&writer.progress),
            pace,
            wake: Arc::clone(&writer.wake),
            keyed: Arc::clone(&writer.keyed),
            closing,
            slices: Vec::new(),
        }
    }

    /// Runs until the store closes.
    pub(super) async fn run(mut self) {
        let mut uses_at = Instant::now() + self.pace.uses_every;
        let (mut looks, mut next_look) = (true, uses_at);
        let mut answers_at = Instant::now() + self.pace.answers_every;
        while !*self.closing.borrow() {
            self.shelve_keys();
            if looks {
                self.what_is_left().await;
                next_look = Instant::now() + self.pace.uses_every;
            }
            if uses_at <= Instant::now() {
                uses_at = Instant::now() + self.pace.uses_every;
                self.write_uses_down().await;
            }
            if answers_at <= Instant::now() {
                answers_at = Instant::now() + self.pace.answers_every;
                if let Err(error) = self.let_answers_go().await {
                    tracing::warn!(%error, "answers whose time is over could not be let go");
                }
                if let Err(error) = intents::delete_settled(&self.collections).await {
                    tracing::warn!(%error, "announcements that are settled wait to be deleted");
                }
                if let Err(error) = tickets::delete_ended(&self.collections).await {
                    tracing::warn!(%error, "tickets that have ended wait to be deleted");
                }
                if let Err(error) = nonces::delete_ended(&self.collections).await {
                    tracing::warn!(%error, "nonces that have ended wait to be deleted");
                }
            }
            looks = tokio::select! {
                biased;
                _ = self.closing.changed() => true,
                () = self.wake.notified() => true,
                // Nothing of it is in the database.
                () = self.keyed.notified() => false,
                () = tokio::time::sleep_until(next_look.into()) => true,
            }
        }
        self.write_uses_down().await;
    }

    /// Does what commits have left to be done.
    async fn what_is_left(&self) {
        let copied = match self.copy_names().await {
            Ok(()) => self.names_copied_elsewhere().await,
            Err(error) => Err(error),
        };
        if let Err(error) = copied {
            tracing::warn!(%error, "customers' new names wait for MongoDB");
        }
        if let Err(error) = self.erase_texts().await {
            tracing::warn!(%error, "texts of documents that are gone wait to be erased");
        }
    }

    async fn write_uses_down(&self) {
        if let Err(error) = self.write_uses().await {
            tracing::warn!(%error, "the last uses of keys could not be written down");
        }
    }

    /// Lets memory go of its oldest keys: the log finds them by its index.
    fn shelve_keys(&mut self) {
        let keys = self.sink.keys();
        while let Some(oldest) = keys.overflow() {
            let mut filter = KeyFilter::sized(oldest.len());
            for held in &oldest {
                filter.add(held.key);
            }
            let number = self.slices.last().map_or(1, |(last, _)| last + 1);
            self.slices.push((number, Instant::now()));
            let slice = KeySlice {
                number,
                filter,
                keys: oldest,
            };
            keys.put_behind(slice, &[]);
        }
        let over = |(_, made): &(i64, Instant)| made.elapsed() > KEPT_FOR;
        let first_kept = self.slices.iter().position(|slice| !over(slice));
        let over = self.slices.drain(..first_kept.unwrap_or(self.slices.len()));
        for (number, _) in over {
            keys.drop_slice(number);
        }
    }

    /// Copies customers' new names into their conversations' headers.
    async fn copy_names(&self) -> Result<()> {
        let renames = self.collections.database.collection::<Document>(RENAMES);
        loop {
            let next = renames.find_one(doc! {}).sort(doc! {"_id": 1});
            let Some(rename) = answered(next.into_future()).await? else {
                self.progress.counters.renames_waiting(0);
                return Ok(());
            };
            let (Some(customer), Ok(name), Ok(revision)) = (
                rename.get("_id").and_then(Bson::as_i64),
                rename.get_str("name"),
                rename.get_i64("revision"),
            ) else {
                return Err(malformed("a rename is not what it must be"));
            };
            if *self.closing.borrow() {
                return Ok(());
            }
            let waiting = answered(renames.count_documents(doc! {}).into_future()).await?;
            self.progress
                .counters
                .renames_waiting(usize::try_from(waiting).unwrap_or(usize::MAX));
            if self.copy_name(customer, name, revision).await? {
                let done = renames.delete_one(doc! {"_id": customer, "revision": revision});
                answered(done.into_future()).await?;
                let revision = Sequence(uint(revision));
                self.sink.name_copied(uint(customer), revision);
            }
        }
    }

    /// Lets names go that another node has copied into the headers.
    async fn names_copied_elsewhere(&self) -> Result<()> {
        for HeldName { customer, revision } in self.sink.names_held() {
            let (number, given) = (int(customer), int(revision.0));
            let carried_over = doc! {"_id": number, "seq": {"$gte": given}};
            let record = self.collections.records.find_one(carried_over);
            let older = doc! {"customer": number, "customer_revision": {"$lt": given}};
            let header = self.collections.conversations.find_one(older);
            // A new header takes the name from the record.
            if answered(record.into_future()).await?.is_some()
                && answered(header.into_future()).await?.is_none()
            {
                self.sink.name_copied(customer, revision);
            }
        }
        Ok(())
    }

    /// Erases the texts of documents that were deleted for good.
    async fn erase_texts(&self) -> Result<()> {
        while !*self.closing.borrow()
            && erasing::erase_some(&self.collections, &*self.sink).await? == Left::More
        {}
        Ok(())
    }

    /// Copies a name into the next headers that have an older one; whether none are left.
    async fn copy_name(&self, customer: i64, name: &str, revision: i64) -> Result<bool> {
        let older = doc! {"customer": customer, "customer_revision": {"$lt": revision}};
        let conversations = self
            .collections
            .database
            .collection::<Document>(CONVERSATIONS);
        let some = async {
            let found = conversations.find(older).projection(doc! {"_id": 1});
            let mut cursor = found.limit(SLICE).await?;
            let mut numbers = Vec::new();
            while cursor.advance().await? {
                numbers.extend(cursor.deserialize_current()?.remove("_id"));
            }
            Ok(numbers)
        };
        let numbers = answered(some).await?;
        if numbers.is_empty() {
            return Ok(true);
        }
        let filter = doc! {
            "_id": {"$in": numbers}, "customer_revision": {"$lt": revision},
        };
        let set = doc! {"$set": {"customer_name": name, "customer_revision": revision}};
        let update = conversations.update_many(filter, set);
        answered(update.into_future()).await?;
        Ok(false)
    }

    /// Writes down when keys were used last.
    async fn write_uses(&self) -> Result<()> {
        let mut statements = Statements::default();
        for KeyUse { key, at } in self.sink.key_uses() {
            let change = doc! {"$max": {"at": at.0}};
            statements.put(KEY_USES, int(key.number()), Document::new(), change);
        }
        answered(statements.run(&self.collections.database)).await
    }

    /// Takes answers whose time is over out of the log, so that their keys are free again.
    async fn let_answers_go(&self) -> Result<()> {
        let until = (Timestamp::now() - KEPT_FOR).0;
        let over = doc! {"answer.at": {"$lt": until}};
        let log = self.collections.log.clone_with_type::<Document>();
        let change = doc! {"$unset": {"key": "", "answer": ""}};
        answered(log.update_many(over, change).into_future()).await?;
        Ok(())
    }
}
