//! Carries over what commits leave of their conversations' messages: behind their answers, many at
//! once. Those of this node at once; those of others only where they have not done it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::error::Result;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::carry_over;
use super::codec::int;
use super::connection::AGAIN;
use super::connection::answered;
use super::log::{LogDocument, RowDocument};
use super::places::message_id;
use super::schema::Collections;
use colloquy_model::entity::Kind;
use colloquy_model::event_kind::EventKind;
use colloquy_model::position::Position;

/// How long other nodes are left to carry over what is theirs.
const OTHERS_FIRST: Duration = Duration::from_millis(500);

/// Documents of the log to be carried over, and how far the log is known with them.
pub(super) enum Carry {
    /// What this node committed.
    Own(Vec<LogDocument>, Position),
    /// Documents that other nodes committed.
    OfOthers(Vec<LogDocument>, Position),
}

/// The task that carries over what answers need not wait for.
pub(super) struct Carrying {
    pub(super) collections: Collections,
    pub(super) documents: UnboundedReceiver<Carry>,
    /// Up to which position this node's own are carried over.
    pub(super) reached: watch::Sender<Position>,
    /// Up to which position everybody's are.
    pub(super) all: watch::Sender<Position>,
    pub(super) of_others: (Vec<LogDocument>, Position),
}

/// How many documents of other nodes wait at most: they are held in memory, and whoever lists looks
/// at all of them.
const OTHERS_MAX: usize = 1_000;

impl Carrying {
    /// Runs until whoever commits is gone and all of it is carried over.
    pub(super) async fn run(mut self) {
        // From the first that waits, whatever comes behind it.
        let mut due: Option<Instant> = None;
        loop {
            if self.of_others.1 > *self.all.borrow() {
                due.get_or_insert_with(|| Instant::now() + OTHERS_FIRST);
            } else {
                due = None;
            }
            let is_due = due.is_some_and(|due| due <= Instant::now());
            if is_due || self.of_others.0.len() >= OTHERS_MAX {
                self.carry_of_others().await;
                due = None;
                continue;
            }
            let next = tokio::select! {
                next = self.documents.recv() => next,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => continue,
            };
            let Some(next) = next else {
                return self.carry_of_others().await;
            };
            let (mut own, mut reached) = (Vec::new(), None);
            let mut next = Some(next);
            while let Some(some) = next {
                match some {
                    Carry::Own(documents, position) => {
                        own.extend(documents);
                        reached = Some(position);
                    }
                    Carry::OfOthers(documents, position) => {
                        self.of_others.0.extend(documents);
                        self.of_others.1 = position;
                    }
                }
                next = self.documents.try_recv().ok();
            }
            if self.of_others.0.is_empty() {
                self.all.send_replace(self.of_others.1);
            }
            if let Some(reached) = reached {
                self.carry(&own).await;
                self.reached.send_replace(reached);
            }
        }
    }

    async fn carry_of_others(&mut self) {
        let (documents, position) = std::mem::take(&mut self.of_others);
        loop {
            match lagging(&self.collections, &documents).await {
                Ok(lagging) => {
                    self.carry(lagging).await;
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "lists wait for MongoDB");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
        self.of_others.1 = position;
        self.all.send_replace(position);
    }

    async fn carry<'d>(&self, documents: impl IntoIterator<Item = &'d LogDocument>) {
        let documents: Vec<&LogDocument> = documents.into_iter().collect();
        let statements = carry_over::messages(&documents);
        while !statements.is_empty() {
            match statements.run(&self.collections.database).await {
                Ok(()) => break,
                Err(error) => {
                    tracing::warn!(%error, "lists wait for MongoDB");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}

/// Those of these documents that are not carried over yet, as far as a look can tell.
pub(super) async fn lagging<'d>(
    collections: &Collections,
    documents: &'d [LogDocument],
) -> Result<Vec<&'d LogDocument>> {
    let of_conversations: Vec<&LogDocument> = documents
        .iter()
        .filter(|document| document.kind == Kind::Conversation as i32)
        .collect();
    if of_conversations.is_empty() {
        return Ok(Vec::new());
    }
    let mut entities: Vec<i64> = of_conversations
        .iter()
        .map(|document| document.entity)
        .collect();
    entities.sort_unstable();
    entities.dedup();
    let shown = shown(collections, entities).await?;
    let messages = of_conversations
        .iter()
        .flat_map(|document| message_ids(document));
    let placed = placed(collections, messages.collect()).await?;
    // A header of a later sequence may stand there before the places of earlier messages do.
    let lags = |document: &&LogDocument| {
        let shown = shown.get(&document.entity).copied().unwrap_or(0);
        shown < int(document.last_sequence().0)
            || document.rows.iter().any(|row| row.edits.is_some())
            || message_ids(document).any(|id| !placed.contains(&id))
    };
    Ok(of_conversations.into_iter().filter(lags).collect())
}

/// The `_id`s of the places of a document's messages.
fn message_ids(document: &LogDocument) -> impl Iterator<Item = String> {
    let is_message = |row: &RowDocument| row.kind == EventKind::MessageCreated as i32;
    let messages = document
        .placed_rows()
        .filter(move |(.., row)| is_message(row));
    messages.map(|(_, sequence, _)| message_id(document.entity, sequence))
}

/// The sequences up to which these conversations show their numbers.
async fn shown(collections: &Collections, entities: Vec<i64>) -> Result<HashMap<i64, i64>> {
    let found = async {
        let conversations = collections.conversations.clone_with_type::<Document>();
        let found = conversations.find(doc! {"_id": {"$in": entities}});
        let mut cursor = found.projection(doc! {"seq": 1}).await?;
        let mut found = HashMap::new();
        while cursor.advance().await? {
            let document = cursor.deserialize_current()?;
            if let (Ok(number), Ok(sequence)) = (document.get_i64("_id"), document.get_i64("seq")) {
                found.insert(number, sequence);
            }
        }
        Ok(found)
    };
    answered(found).await
}

/// Those of these messages that have a place.
async fn placed(collections: &Collections, messages: Vec<String>) -> Result<HashSet<String>> {
    let found = async {
        let found = collections.messages.find(doc! {"_id": {"$in": messages}});
        let mut cursor = found.projection(doc! {"_id": 1}).await?;
        let mut found = HashSet::new();
        while cursor.advance().await? {
            let document = cursor.deserialize_current()?;
            found.extend(document.get_str("_id").ok().map(str::to_owned));
        }
        Ok(found)
    };
    answered(found).await
}
