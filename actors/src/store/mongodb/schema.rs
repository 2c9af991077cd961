//! The collections and their indexes, and what each is for.
//!
//! `log` is what is true; everything else is carried over from it and could be made again. A number
//! as `_id` is that of the entity's identifier, as in the embedded store. `seq` of a document is
//! the sequence up to which it is carried over: a later one takes its place, an earlier one never
//! does, so that carrying over twice or late does no harm.

use mongodb::bson::{Document, doc};
use mongodb::options::IndexOptions;
use mongodb::{Collection, Database, IndexModel};

use super::log::LogDocument;

/// The collections of the store.
#[derive(Debug, Clone)]
pub(super) struct Collections {
    pub(super) database: Database,
    /// What was committed, by entity and by position.
    pub(super) log: Collection<LogDocument>,
    /// Where the log stands, and what was made at the first start.
    pub(super) meta: Collection<Document>,
    /// Conversations as lists show them.
    pub(super) conversations: Collection<Document>,
    /// Messages by their place among those of their conversation; texts stand in the log.
    pub(super) messages: Collection<Document>,
    /// Accounts, keys, users, customers, endpoints and settings.
    pub(super) records: Collection<Document>,
}

/// Names of collections, where commands name them.
pub(super) const LOG: &str = "log";
pub(super) const META: &str = "meta";
pub(super) const CONVERSATIONS: &str = "conversations";
pub(super) const MESSAGES: &str = "messages";
pub(super) const RECORDS: &str = "records";
/// Names under which records are found, each with the position of the commit that gave it last.
pub(super) const NAMES: &str = "names";
/// The audit trail's chain, in slices.
pub(super) const AUDIT_LINKS: &str = "audit_links";
/// What commits announce before they are written, where they depend on more than their own entity.
pub(super) const INTENTS: &str = "intents";
/// How many there are of what lists count.
pub(super) const COUNTERS: &str = "counters";
/// When keys were used last.
pub(super) const KEY_USES: &str = "key_uses";
/// Customers' new names that are still to be copied into their conversations.
pub(super) const RENAMES: &str = "renames";
/// Work that commits left behind.
pub(super) const CHORES: &str = "chores";
/// Documents as lists show them, with who may read them and their links.
pub(super) const DOCUMENTS: &str = "documents";
/// Documents' versions, each with its frame.
pub(super) const VERSIONS: &str = "versions";
/// Documents' comments.
pub(super) const COMMENTS: &str = "comments";
/// Documents that are gone and whose texts are still to be erased.
pub(super) const ERASURES: &str = "erasures";
/// Where the list of events of an account and mode begins.
pub(super) const FEEDS: &str = "feeds";
/// The numbers that cursors show, where they are not the events' positions.
pub(super) const FEED_NUMBERS: &str = "feed_numbers";
/// Totals of events up to some positions.
pub(super) const EVENT_TOTALS: &str = "event_totals";
/// Redacted messages whose texts are hidden until they are erased, and a while longer.
pub(super) const REDACTIONS: &str = "redactions";
/// Deliveries to webhook endpoints: the queue, and what became of each.
pub(super) const DELIVERIES: &str = "deliveries";
/// Webhook endpoints: since when they only fail, what was given up of them, and how many of their
/// deliveries stand where.
pub(super) const ENDPOINTS: &str = "endpoints";
/// The processes that share the database, and their leases.
pub(super) const NODES: &str = "nodes";
/// What nodes tell one another; a document is there for a few seconds.
pub(super) const BROADCASTS: &str = "broadcasts";
/// Requests about deliveries that wait for the node that leads, and its answers.
pub(super) const RELAYED: &str = "relayed_requests";
/// Tickets that open a realtime connection, until they are redeemed or have ended.
pub(super) const TICKETS: &str = "tickets";
/// Nonces of signed requests that were let in, until their time is over.
pub(super) const NONCES: &str = "nonces";
/// What conversations have come to, cell by cell.
pub(super) const FIGURES: &str = "figures";
/// How far each generation of figures has come.
pub(super) const FIGURE_GENERATIONS: &str = "figure_generations";
/// The identifiers of users who are or were somebody's assignee.
pub(super) const FIGURE_ASSIGNEES: &str = "figure_assignees";
/// Milestones of conversations that have other ones than their creation.
pub(super) const MILESTONES: &str = "milestones";
/// What was made with which credential, day by day.
pub(super) const MADE: &str = "made";
/// What accounts used, by day, credential and node.
pub(super) const USAGE: &str = "usage";
/// Replays whose deliveries are not all made.
pub(super) const REPLAYS: &str = "replays";

impl Collections {
    pub(super) fn of(database: Database) -> Self {
        Collections {
            log: database.collection(LOG),
            meta: database.collection(META),
            conversations: database.collection(CONVERSATIONS),
            messages: database.collection(MESSAGES),
            records: database.collection(RECORDS),
            database,
        }
    }

    /// Makes the indexes that are not there yet.
    pub(super) async fn ensure_indexes(&self) -> mongodb::error::Result<()> {
        for Index {
            collection,
            keys,
            kind,
        } in indexes()
        {
            let options = match kind {
                IndexKind::Plain => IndexOptions::default(),
                IndexKind::WherePresent => IndexOptions::builder().sparse(true).build(),
                IndexKind::Unique => IndexOptions::builder().unique(true).build(),
                IndexKind::UniqueWherePresent => {
                    IndexOptions::builder().unique(true).sparse(true).build()
                }
            };
            let model = IndexModel::builder().keys(keys).options(options).build();
            let collection = self.database.collection::<Document>(collection);
            collection.create_index(model).await?;
        }
        Ok(())
    }
}

/// What an index promises.
#[derive(Debug, Clone, Copy)]
pub(super) enum IndexKind {
    Plain,
    /// Holds only the documents that have the field.
    WherePresent,
    Unique,
    /// Unique among the documents that have the field.
    UniqueWherePresent,
}

/// An index that a query needs.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) collection: &'static str,
    pub(super) keys: Document,
    pub(super) kind: IndexKind,
}

impl Index {
    fn new(collection: &'static str, keys: Document, kind: IndexKind) -> Self {
        Index {
            collection,
            keys,
            kind,
        }
    }
}

/// An index that promises nothing but order.
fn plain(collection: &'static str, keys: Document) -> Index {
    Index::new(collection, keys, IndexKind::Plain)
}

/// All indexes.
pub(super) fn indexes() -> Vec<Index> {
    let parts = [
        log_indexes(),
        conversation_indexes(),
        record_indexes(),
        node_indexes(),
        document_indexes(),
        delivery_indexes(),
        figure_indexes(),
    ];
    parts.into_iter().flatten().collect()
}

/// The indexes of what only nodes need: leases, what they tell one another, tickets, and what each
/// has counted.
fn node_indexes() -> Vec<Index> {
    vec![
        Index::new(NODES, doc! {"slot": 1}, IndexKind::Unique),
        plain(BROADCASTS, doc! {"node": 1, "number": 1}),
        // An account's newest.
        plain(TICKETS, doc! {"account": 1, "ends_at": -1, "_id": 1}),
        plain(TICKETS, doc! {"ends_at": 1}),
        plain(NONCES, doc! {"ends_at": 1}),
        // What an account used, and how much of its quota every account has used.
        plain(
            USAGE,
            doc! {"account": 1, "day": 1, "credential": 1, "tail": 1},
        ),
        plain(USAGE, doc! {"day": 1}),
    ]
}

/// The indexes of the log, and of what is read beside it.
fn log_indexes() -> Vec<Index> {
    vec![
        // A position is given once; the feed is read by it.
        Index::new(LOG, doc! {"position": 1}, IndexKind::Unique),
        // A key is answered once.
        Index::new(LOG, doc! {"key": 1}, IndexKind::UniqueWherePresent),
        // Answers whose time is over.
        Index::new(LOG, doc! {"answer.at": 1}, IndexKind::WherePresent),
        // The feed of an account and mode.
        plain(LOG, doc! {"tenant": 1, "position": 1}),
        plain(EVENT_TOTALS, doc! {"tenant": 1, "position": 1}),
        // What cursors of another store mean, and under which numbers an export tells of events.
        plain(FEED_NUMBERS, doc! {"tenant": 1, "shown": 1}),
        plain(FEED_NUMBERS, doc! {"tenant": 1, "position": 1}),
        plain(FEED_NUMBERS, doc! {"position": 1}),
        // The chain behind a position.
        plain(AUDIT_LINKS, doc! {"last": 1}),
        // What lists count, in each writer's part.
        plain(
            COUNTERS,
            doc! {"tenant": 1, "field": 1, "value": 1, "status": 1},
        ),
        plain(REDACTIONS, doc! {"entity": 1}),
        plain(REDACTIONS, doc! {"erased_at": 1, "position": 1}),
    ]
}

/// The indexes of conversations and their messages.
fn conversation_indexes() -> Vec<Index> {
    vec![
        plain(CONVERSATIONS, doc! {"tenant": 1, "status": 1, "_id": 1}),
        plain(
            CONVERSATIONS,
            doc! {"tenant": 1, "channel": 1, "status": 1, "_id": 1},
        ),
        plain(
            CONVERSATIONS,
            doc! {"tenant": 1, "priority": 1, "status": 1, "_id": 1},
        ),
        plain(CONVERSATIONS, doc! {"customer": 1, "status": 1, "_id": 1}),
        plain(CONVERSATIONS, doc! {"assignee": 1, "status": 1, "_id": 1}),
        plain(CONVERSATIONS, doc! {"tenant": 1, "updated_at": 1, "_id": 1}),
        plain(CONVERSATIONS, doc! {"snoozed_until": 1, "_id": 1}),
        plain(CONVERSATIONS, doc! {"tenant": 1, "active_at": 1, "_id": 1}),
        plain(MESSAGES, doc! {"conversation": 1, "nth": 1}),
        plain(
            MESSAGES,
            doc! {"conversation": 1, "sender": 1, "nth_of_sender": 1},
        ),
    ]
}

/// The indexes of records and the names under which they are found.
fn record_indexes() -> Vec<Index> {
    vec![
        plain(RECORDS, doc! {"tenant": 1, "kind": 1, "_id": 1}),
        plain(RECORDS, doc! {"kind": 1, "_id": 1}),
        plain(
            NAMES,
            doc! {"tenant": 1, "field": 1, "value": 1, "record": 1},
        ),
        plain(NAMES, doc! {"record": 1}),
        plain(INTENTS, doc! {"thing": 1}),
        plain(INTENTS, doc! {"position": 1}),
    ]
}

/// The indexes of documents, their versions and comments.
fn document_indexes() -> Vec<Index> {
    vec![
        plain(DOCUMENTS, doc! {"tenant": 1, "deleted": 1, "_id": 1}),
        plain(
            DOCUMENTS,
            doc! {"tenant": 1, "deleted": 1, "updated_at": 1, "_id": 1},
        ),
        plain(
            DOCUMENTS,
            doc! {"tenant": 1, "deleted": 1, "sorted_title": 1, "_id": 1},
        ),
        plain(DOCUMENTS, doc! {"owner": 1, "deleted": 1, "_id": 1}),
        plain(
            DOCUMENTS,
            doc! {"tenant": 1, "readers": 1, "deleted": 1, "_id": 1},
        ),
        plain(DOCUMENTS, doc! {"links": 1, "_id": 1}),
        plain(DOCUMENTS, doc! {"deleted_at": 1, "_id": 1}),
        plain(VERSIONS, doc! {"document": 1, "_id": 1}),
        plain(VERSIONS, doc! {"document": 1, "branch": 1, "_id": 1}),
        plain(COMMENTS, doc! {"document": 1, "_id": 1}),
    ]
}

/// The indexes of figures.
fn figure_indexes() -> Vec<Index> {
    vec![
        plain(
            FIGURES,
            doc! {"generation": 1, "tenant": 1, "length": 1, "assigned": 1, "start": 1},
        ),
        // Those of each assignee for itself, in one go.
        plain(
            FIGURES,
            doc! {"generation": 1, "tenant": 1, "length": 1, "start": 1},
        ),
        plain(MILESTONES, doc! {"generation": 1}),
        plain(
            MADE,
            doc! {"generation": 1, "tenant": 1, "day": 1, "_id": 1},
        ),
        // Whether retention has taken anything.
        plain(FEEDS, doc! {"floor": 1}),
    ]
}

/// The indexes of deliveries.
fn delivery_indexes() -> Vec<Index> {
    vec![
        // Lists of deliveries name every kind and state, so that the index gives their order.
        plain(
            DELIVERIES,
            doc! {"endpoint": 1, "kind": 1, "state": 1, "_id": 1},
        ),
        // What waits in a lane.
        plain(
            DELIVERIES,
            doc! {"endpoint": 1, "lane": 1, "entity": 1, "state": 1, "_id": 1},
        ),
        // What may be tried next.
        plain(DELIVERIES, doc! {"endpoint": 1, "due": 1, "_id": 1}),
        // What receivers said of an event that is redacted.
        plain(DELIVERIES, doc! {"position": 1}),
        // Endpoints whose deliveries are to be tidied.
        plain(ENDPOINTS, doc! {"unsettled": 1}),
        plain(REPLAYS, doc! {"endpoint": 1}),
        plain(RELAYED, doc! {"state": 1}),
    ]
}
