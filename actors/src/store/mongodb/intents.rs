//! What a commit announces before it is written, where it depends on more than its own entity, so
//! that of two commits at two nodes which may not both stand the later one sees the earlier one.
//!
//! A commit reserves its positions; writes one announcement for each thing that it depends on; reads
//! the announcements of other nodes for the same things; settles each of them; judges its conditions
//! by what is carried over; and only then inserts itself into the log, at its position. It takes its
//! announcements back behind what it carries over. A thing is *shared* by those who only need it to
//! be there (a conversation its customer) and *taken* by who changes that (the customer's removal, a
//! unique name, a bounded number); only what is taken meets others.
//!
//! Why of two commits that meet at most one is inserted without knowing the other: each writes its
//! announcement before it reads, and writes are acknowledged by a majority, so that whoever writes
//! second reads the first one's, or it was taken back: then its commit is carried over, or can't land
//! any more. Whoever reads one settles it by its position, which is unique in the log:
//! - Something stands there: it is committed. Whoever looks carries over what judging needs of it.
//! - A void stands there: it can't land any more, for its position is given once.
//! - Nothing: rounds are ordered by their first position. The later round waits for the earlier one,
//!   for at most [`PATIENCE`]; the earlier one does not wait. Who does not wait any longer puts a void
//!   there. A commit that lost its position begins anew at another one, and judges once more. As
//!   nobody waits for a later round, nobody waits in a circle.
//!
//! A crash between two of these writes leaves an announcement behind: the position that it names
//! decides what it means, and it is deleted when everything up to there is carried over. A node that
//! was paused and goes on inserts at a position that is a void by then, or lands before whoever else
//! depends on the thing has judged. Nothing of this depends on a lease or a clock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mongodb::bson::{self, Document, doc};
use mongodb::error::{Error, Result};
use serde::{Deserialize, Serialize};

use super::carry_over::name_id;
use super::codec::{Met, int, met};
use super::connection::{AGAIN, answered};
use super::gaps::void;
use super::header::HeaderDocument;
use super::header_carrying::carry_over_conditioned;
use super::log::LogDocument;
use super::positions;
use super::schema::{Collections, INTENTS, LOG};
use super::work::Insert;
use colloquy_model::commit::{Condition, NameField};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;

/// How long a round waits for an earlier one that is neither committed nor void.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How often taking announcements back is tried; what is left then is deleted by the housekeeping.
const TAKEN_BACK_MAX: u32 = 10;

/// How a commit depends on a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Hold {
    /// It needs the thing as it is, and so may others.
    Shared,
    /// It changes what others depend on.
    Taken,
}

/// An announcement, as it stands in its collection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Intent {
    #[serde(rename = "_id")]
    id: String,
    thing: String,
    hold: Hold,
    /// The position of the commit in the log.
    position: i64,
    /// The first position of the round in which it is written.
    round: i64,
    /// The node that announces it.
    node: i64,
}

/// What a round has announced.
#[derive(Debug, Default)]
pub(super) struct Announced {
    intents: Vec<Intent>,
}

/// What the judging of documents gives.
pub(super) struct Admitted {
    /// Those that may be inserted, at their positions.
    pub(super) inserts: Vec<Insert>,
    /// What is taken back when they are settled.
    pub(super) announced: Announced,
}

impl Announced {
    /// What these documents have to announce, for they stand at their positions.
    pub(super) fn of(inserts: &[Insert]) -> Self {
        let round = inserts.iter().map(|insert| insert.document.position).min();
        let intents = inserts.iter().flat_map(|insert| {
            let LogDocument { position, node, .. } = insert.document;
            let of = move |(thing, hold): (String, Hold)| Intent {
                id: format!("{position:016x}.{thing}"),
                thing,
                hold,
                position,
                round: round.unwrap_or(position),
                node,
            };
            depends_on(insert).into_iter().map(of)
        });
        Announced {
            intents: intents.collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.intents.is_empty()
    }

    /// Whether this document depends on anything.
    pub(super) fn names(&self, document: &LogDocument) -> bool {
        let mut intents = self.intents.iter();
        intents.any(|intent| intent.position == document.position)
    }

    /// Announces it, and settles what other nodes have announced for the same things: afterwards each
    /// is committed and can be seen by whoever judges, or never will be.
    ///
    /// # Errors
    /// The server does not answer: nothing of this may be inserted.
    pub(super) async fn settle(&self, collections: &Collections) -> Result<()> {
        let collection = collections.database.collection::<Intent>(INTENTS);
        let announced = collection.insert_many(&self.intents).ordered(false);
        answered(announced.into_future()).await?;
        for other in self.meets(collections).await? {
            self.decide(collections, &other).await?;
        }
        Ok(())
    }

    /// What other nodes have announced that does not go together with this.
    async fn meets(&self, collections: &Collections) -> Result<Vec<Intent>> {
        let mut things: Vec<&str> = self
            .intents
            .iter()
            .map(|intent| intent.thing.as_str())
            .collect();
        things.sort_unstable();
        things.dedup();
        let filter = doc! {"thing": {"$in": things}};
        let collection = collections.database.collection::<Intent>(INTENTS);
        let found = async {
            let mut cursor = collection.find(filter).await?;
            let mut found = Vec::new();
            while cursor.advance().await? {
                found.push(cursor.deserialize_current()?);
            }
            Ok::<Vec<Intent>, Error>(found)
        };
        let mut found = answered(found).await?;
        found.retain(|other| self.intents.iter().any(|own| own.meets(other)));
        found.sort_unstable_by_key(|other| other.position);
        found.dedup_by_key(|other| other.position);
        Ok(found)
    }

    /// Waits until it is certain what became of another commit, or sees to it; carries over what
    /// stands in the log.
    async fn decide(&self, collections: &Collections, other: &Intent) -> Result<()> {
        let log = collections.database.collection::<Document>(LOG);
        let is_earlier = self.intents.iter().any(|own| own.round < other.round);
        let begun = Instant::now();
        loop {
            let found = log.find_one(doc! {"position": other.position});
            if let Some(found) = answered(found.into_future()).await? {
                if found.contains_key("rows") {
                    let document = bson::deserialize_from_document(found)?;
                    carry_over_conditioned(collections, &document).await?;
                }
                return Ok(());
            }
            if is_earlier || begun.elapsed() > PATIENCE {
                let void = log.insert_one(void(Position(other.position)));
                match answered(void.into_future()).await {
                    Err(error) if met(&error) != Met::Duplicate => return Err(error),
                    Ok(_) | Err(_) => {}
                }
            } else {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }

    /// Takes it back, beside what is committed meanwhile: what was inserted is carried over, what was
    /// not never will be at its position.
    pub(super) fn take_back(self, collections: &Collections) {
        if self.is_empty() {
            return;
        }
        let collection = collections.database.collection::<Document>(INTENTS);
        tokio::spawn(async move {
            let ids: Vec<String> = self.intents.into_iter().map(|intent| intent.id).collect();
            for _ in 0..TAKEN_BACK_MAX {
                let over = collection.delete_many(doc! {"_id": {"$in": &ids}});
                if answered(over.into_future()).await.is_ok() {
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
}

impl Intent {
    /// Whether another one has to be settled first. What this node announced before it has settled:
    /// it writes one round behind the other.
    fn meets(&self, other: &Intent) -> bool {
        self.thing == other.thing
            && self.node != other.node
            && (self.hold == Hold::Taken || other.hold == Hold::Taken)
    }
}

/// What a document depends on beyond its own entity, or changes of what others depend on.
fn depends_on(insert: &Insert) -> BTreeMap<String, Hold> {
    let mut things = BTreeMap::new();
    let mut note = |thing: String, hold: Hold| {
        let held = things.entry(thing).or_insert(hold);
        *held = hold.max(*held);
    };
    for pending in &insert.commits {
        let tenant = pending.commit.tenant;
        for condition in &pending.commit.conditions {
            match condition {
                Condition::CustomerExists(id) => note(entity(id.number()), Hold::Shared),
                Condition::UserExists(id) => note(entity(id.number()), Hold::Shared),
                Condition::DocumentExists(id) => note(entity(id.number()), Hold::Shared),
                Condition::NoConversations(id) => note(entity(id.number()), Hold::Taken),
                Condition::NoDocuments(id) => note(entity(id.number()), Hold::Taken),
                Condition::FewerThan(kind, _) => {
                    let number = tenant.number();
                    note(format!("count.{number}.{}", *kind as i32), Hold::Taken);
                }
                // Whoever takes one and whoever lets it go for good meet.
                Condition::AttachmentUnchanged(id, _) | Condition::AttachmentUntaken(id) => {
                    note(entity(id.number()), Hold::Taken);
                }
            }
        }
    }
    let document = &insert.document;
    let own = || format!("entity.{:016x}", document.entity);
    match &document.header {
        Some(HeaderDocument::Record { names, .. }) => {
            let is_unique = |field: i32| NameField::from_code(field.into()).map(NameField::unique);
            for name in names
                .iter()
                .filter(|name| is_unique(name.field) == Some(true))
            {
                note(format!("name.{}", name_id(document, name)), Hold::Taken);
            }
            // A new conversation shows the name that its customer has.
            if document.renamed.is_some() {
                note(own(), Hold::Taken);
            }
        }
        Some(
            HeaderDocument::RecordGone
            | HeaderDocument::RecordErased
            | HeaderDocument::DocumentGone { .. },
        ) => note(own(), Hold::Taken),
        Some(
            HeaderDocument::Conversation { .. }
            | HeaderDocument::ConversationGone { .. }
            | HeaderDocument::Document(_)
            | HeaderDocument::LinkUsed { .. },
        )
        | None => {}
    }
    things
}

fn entity(number: EntityNumber) -> String {
    format!("entity.{:016x}", int(number))
}

/// Deletes the announcements of commits that are decided and carried over, whoever made them and
/// whatever kept it from taking them back.
///
/// # Errors
/// The server does not answer.
pub(super) async fn delete_settled(collections: &Collections) -> Result<()> {
    let carried = positions::standing(collections).await?.carried;
    let collection = collections.database.collection::<Document>(INTENTS);
    let settled = collection.delete_many(doc! {"position": {"$lte": carried.0}});
    answered(settled.into_future()).await.map(|_| ())
}
