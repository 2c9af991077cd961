//! What the store sends to the server, as the driver tells it: how many commands an operation
//! takes, which shapes of queries there are, and the index that serves each.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};

use mongodb::bson::{Bson, Document, doc};
use mongodb::event::EventHandler;
use mongodb::event::command::{CommandEvent, CommandStartedEvent};
use mongodb::options::ClientOptions;
use parking_lot::Mutex;

use crate::store::mongodb::schema::{self, Index};
use crate::store::mongodb::{following, linking, nodes, positions};

/// Collections that are read as a whole: what is left to be done, mostly nothing, generations of
/// figures, of which there are at most two, and at a start what there is of each key and endpoint.
const READ_AS_A_WHOLE: [&str; 8] = [
    schema::NODES,
    schema::KEY_USES,
    schema::CHORES,
    schema::RENAMES,
    schema::ERASURES,
    schema::ENDPOINTS,
    schema::REPLAYS,
    schema::FIGURE_GENERATIONS,
];

/// What was sent to one database.
#[derive(Debug, Default)]
pub(in crate::store::mongodb) struct Commands {
    /// Each command's name and collection, in the order in which they were sent, but for what a
    /// node sends by itself.
    sent: Mutex<Vec<String>>,
    /// Each shape of a query, with a command that had it.
    shapes: Mutex<BTreeMap<Shape, Document>>,
}

/// Whether a node sends this by itself, whatever it is asked: it renews its lease and looks at the
/// other nodes, says how far the log is carried over, and looks for what others have written there.
fn is_of_the_node(collection: &str, command: &Document) -> bool {
    let filter = filter_of(command);
    match collection {
        schema::NODES | schema::AUDIT_LINKS => true,
        schema::META => filter.get_str("_id").is_ok_and(|id| {
            [nodes::documents::LEADER, positions::CARRIED, linking::HEAD].contains(&id)
                || id.starts_with(nodes::documents::DRAIN)
                // Positions are reserved by another command: the chain looks whether it is begun.
                || (id == positions::COUNT && !command.contains_key("findAndModify"))
        }),
        schema::LOG => {
            let limit = command.get("limit").and_then(number);
            filter.keys().eq(["position"]) && limit == Some(following::AT_ONCE)
        }
        _ => false,
    }
}

/// What a command asks for, or its first statement; empty: for everything, or nothing.
fn filter_of(command: &Document) -> Document {
    let statements = command.get_array("updates").ok();
    let first = statements.and_then(|statements| statements.first()?.as_document());
    let filter = ["filter", "query", "q"].into_iter().find_map(|field| {
        let asked = first.unwrap_or(command).get_document(field);
        asked.ok().cloned()
    });
    filter.unwrap_or_default()
}

/// Records what this connection sends to this database.
pub(in crate::store::mongodb) fn record(database: &str, options: &mut ClientOptions) {
    let (database, commands) = (database.to_owned(), Commands::of(database));
    let handler = EventHandler::callback(move |event| {
        if let CommandEvent::Started(started) = event
            && started.db == database
        {
            commands.note(&started);
        }
    });
    options.command_event_handler = Some(handler);
}

impl Commands {
    /// Those of the database with this name.
    pub(in crate::store::mongodb) fn of(database: &str) -> Arc<Self> {
        static ALL: OnceLock<Mutex<HashMap<String, Arc<Commands>>>> = OnceLock::new();
        let mut all = ALL.get_or_init(Mutex::default).lock();
        Arc::clone(all.entry(database.to_owned()).or_default())
    }

    fn note(&self, started: &CommandStartedEvent) {
        let CommandStartedEvent {
            command,
            command_name,
            ..
        } = started;
        let collection = command.get_str(command_name).unwrap_or_default();
        if !is_of_the_node(collection, command) {
            self.sent
                .lock()
                .push(format!("{command_name} {collection}"));
        }
        let mut shapes = self.shapes.lock();
        for shape in Shape::all_of(command_name, collection, command) {
            shapes.entry(shape).or_insert_with(|| command.clone());
        }
    }

    /// How many commands were sent.
    pub(super) fn count(&self) -> usize {
        self.sent.lock().len()
    }

    /// The names and collections of the commands behind the first so many.
    pub(super) fn behind(&self, count: usize) -> Vec<String> {
        self.sent.lock().iter().skip(count).cloned().collect()
    }

    /// Each query that was sent has an index that serves it; where the server explains what it does
    /// with one, it does not read the whole collection.
    pub(super) fn are_served(&self, uri: &str, database: &str) {
        let shapes = self.shapes.lock().clone();
        let indexes = schema::indexes();
        let unserved: Vec<String> = shapes
            .keys()
            .filter(|shape| !shape.is_served(&indexes))
            .map(ToString::to_string)
            .collect();
        assert_eq!(unserved, Vec::<String>::new(), "no index serves these");
        if std::env::var_os("COLLOQUY_TEST_MONGODB_URI").is_some() {
            super::runtime().block_on(explain(uri, database, shapes));
        }
    }
}

/// Asks the server what it would do with these queries: it must not read any collection that may
/// grow as a whole.
async fn explain(uri: &str, database: &str, shapes: BTreeMap<Shape, Document>) {
    let client = mongodb::Client::with_uri_str(uri).await.unwrap();
    let database = client.database(database);
    for (shape, mut command) in shapes {
        if shape.is_of_all() {
            continue;
        }
        // What the driver adds to a command is none of its own.
        for added in [
            "$db",
            "lsid",
            "$clusterTime",
            "txnNumber",
            "writeConcern",
            "readConcern",
        ] {
            command.remove(added);
        }
        let explain = doc! {"explain": command, "verbosity": "queryPlanner"};
        let explained = database.run_command(explain).await.unwrap();
        let scans = explained.to_string().contains("\"COLLSCAN\"");
        assert!(!scans, "{shape} reads the whole collection: {explained}");
    }
}

/// How a field is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Asked {
    /// It is one of some values.
    Equal,
    /// It is within a range.
    Range,
    /// In a way that no index helps with.
    Otherwise,
}

impl Asked {
    fn of(condition: &Bson) -> Self {
        let Bson::Document(condition) = condition else {
            return Asked::Equal;
        };
        let is_any = |names: &[&str]| condition.keys().any(|key| names.contains(&key.as_str()));
        if is_any(&["$in", "$eq"]) || condition.keys().all(|key| !key.starts_with('$')) {
            Asked::Equal
        } else if is_any(&["$gt", "$gte", "$lt", "$lte"]) {
            Asked::Range
        } else {
            Asked::Otherwise
        }
    }
}

/// What a query asks of which collection, without its values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shape {
    pub(super) collection: String,
    pub(super) fields: BTreeMap<String, Asked>,
    pub(super) sort: Vec<(String, bool)>,
    /// Whether it reads no more than some documents.
    pub(super) is_limited: bool,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape {
            collection,
            fields,
            sort,
            is_limited,
        } = self;
        write!(f, "{collection} where {fields:?} by {sort:?}")?;
        f.write_str(if *is_limited { ", some" } else { "" })
    }
}

impl Shape {
    /// Those of a command: none where it looks for nothing.
    fn all_of(name: &str, collection: &str, command: &Document) -> Vec<Shape> {
        let part = |part: &Document, filter: &str, sort: &str| {
            let empty = Document::new();
            let filter = part.get_document(filter).unwrap_or(&empty).clone();
            let sort = part.get_document(sort).unwrap_or(&empty);
            let limit = part.get("limit").and_then(number).unwrap_or(0);
            let is_limited = limit > 0 || part.get_bool("singleBatch").unwrap_or(false);
            Self::branches(collection, filter, sort, is_limited)
        };
        let parts = |list: &str| {
            let list = command.get_array(list).into_iter().flatten();
            list.filter_map(Bson::as_document)
                .flat_map(|statement| part(statement, "q", ""))
                .collect()
        };
        match name {
            "find" => part(command, "filter", "sort"),
            "findAndModify" => part(command, "query", "sort"),
            "count" => part(command, "query", ""),
            "update" => parts("updates"),
            "delete" => parts("deletes"),
            "aggregate" => {
                let stages = command.get_array("pipeline").unwrap();
                let first = stages.first().and_then(Bson::as_document).unwrap();
                assert!(
                    first.contains_key("$match"),
                    "{command} begins with no match"
                );
                part(first, "$match", "")
            }
            _ => Vec::new(),
        }
    }

    /// A shape for each of the alternatives.
    fn branches(
        collection: &str,
        mut filter: Document,
        sort: &Document,
        is_limited: bool,
    ) -> Vec<Shape> {
        let Some(Bson::Array(alternatives)) = filter.remove("$or") else {
            return vec![Shape {
                collection: collection.to_owned(),
                fields: filter
                    .iter()
                    .map(|(field, condition)| (field.clone(), Asked::of(condition)))
                    .collect(),
                sort: sort
                    .iter()
                    .map(|(field, order)| (field.clone(), number(order) == Some(1)))
                    .collect(),
                is_limited,
            }];
        };
        let alternatives = alternatives.iter().filter_map(Bson::as_document);
        let whole = alternatives.map(|alternative| {
            let mut whole = filter.clone();
            whole.extend(alternative.clone());
            whole
        });
        whole
            .flat_map(|whole| Self::branches(collection, whole, sort, is_limited))
            .collect()
    }

    /// Whether it asks for all that a collection holds which may be read as a whole.
    fn is_of_all(&self) -> bool {
        self.fields.is_empty() && READ_AS_A_WHOLE.contains(&self.collection.as_str())
    }

    /// Whether one of these indexes, or that of `_id`s, serves it.
    pub(super) fn is_served(&self, indexes: &[Index]) -> bool {
        let of_ids = doc! {"_id": 1};
        let own = indexes
            .iter()
            .filter(|index| index.collection == self.collection);
        let mut keys = own.map(|index| &index.keys).chain([&of_ids]);
        self.is_of_all() || keys.any(|keys| self.is_served_by(keys))
    }

    /// Whether an index with these keys leads to what is asked for, in the order that is asked for.
    fn is_served_by(&self, keys: &Document) -> bool {
        let asked = |field: &str| self.fields.get(field).copied();
        if asked("_id") == Some(Asked::Equal) && keys.keys().eq(["_id"]) {
            return true;
        }
        let mut keys = keys.iter().peekable();
        let mut is_led_to = false;
        while keys
            .next_if(|(key, _)| asked(key) == Some(Asked::Equal))
            .is_some()
        {
            is_led_to = true;
        }
        is_led_to |= keys
            .peek()
            .is_some_and(|(key, _)| asked(key) == Some(Asked::Range));
        let mut sort = self
            .sort
            .iter()
            .filter(|(field, _)| asked(field) != Some(Asked::Equal))
            .peekable();
        if sort.peek().is_none() {
            return is_led_to;
        }
        let mut directions = Vec::new();
        let in_order = sort.all(|(field, is_ascending)| {
            let key = keys.find(|(key, _)| asked(key) != Some(Asked::Equal));
            directions.push(*is_ascending);
            key.is_some_and(|(key, _)| key == field)
        });
        directions.dedup();
        in_order && directions.len() == 1 && (is_led_to || self.is_limited)
    }
}

fn number(value: &Bson) -> Option<i64> {
    value.as_i64().or(value.as_i32().map(i64::from))
}

fn shape(collection: &str, command: Document) -> Shape {
    let mut shapes = Shape::all_of("find", collection, &command);
    assert_eq!(shapes.len(), 1);
    shapes.remove(0)
}

#[test]
fn a_query_without_an_index_is_noticed() {
    let served = |shape: &Shape| shape.is_served(&schema::indexes());
    let by_status = doc! {"filter": {"tenant": 1, "status": 2}, "sort": {"_id": -1}};
    let by_status = shape(schema::CONVERSATIONS, by_status);
    assert!(served(&by_status));
    let others = schema::indexes().into_iter();
    let others: Vec<Index> = others
        .filter(|index| !index.keys.keys().eq(["tenant", "status", "_id"]))
        .collect();
    assert!(!by_status.is_served(&others), "its own index is gone");
    for (collection, query) in [
        (schema::LOG, doc! {"filter": {"tail": 7}}),
        (schema::LOG, doc! {"filter": {}}),
        (
            schema::LOG,
            doc! {"filter": {"tenant": 1}, "sort": {"_id": 1}},
        ),
        (schema::LOG, doc! {"filter": {"tenant": {"$ne": 1}}}),
        (
            schema::MESSAGES,
            doc! {"filter": {"conversation": 1}, "sort": {"nth": 1, "_id": -1}},
        ),
        (
            schema::RECORDS,
            doc! {"filter": {"kind": {"$gt": 1}}, "sort": {"_id": 1}},
        ),
        (schema::CHORES, doc! {"filter": {"user": 1}}),
    ] {
        let query = shape(collection, query);
        assert!(!served(&query), "{query}");
    }
    let first = doc! {"filter": {}, "sort": {"position": -1}, "limit": 1};
    assert!(
        served(&shape(schema::LOG, first)),
        "one at the end of an index"
    );
}
