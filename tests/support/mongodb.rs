//! The store on MongoDB instead of the embedded one, for the whole suite: with
//! `COLLOQUY_TEST_STORE=mongodb` every server has a database of its own on one server of MongoDB's
//! protocol. That is the one at `COLLOQUY_TEST_MONGODB_URI`, else the program that `tests/run` builds
//! from `tests/ferretdb`, started once and ended with the tests.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use mongodb::bson::{Document, RawDocumentBuf, doc};

use super::{files, process};

/// How long an actor may be waited for: FerretDB reads a whole collection for most questions, on a
/// machine that builds beside it.
const PATIENCE_SECONDS: &str = "20";

/// The setting that says where the server is.
pub(crate) const URI: &str = "COLLOQUY__STORE__URI";

/// Whether the servers of this run have their stores on MongoDB.
pub(crate) fn is_used() -> bool {
    std::env::var("COLLOQUY_TEST_STORE").as_deref() == Ok("mongodb")
}

/// How many of something a test makes: so many on the embedded store, and so many on MongoDB, for
/// the server of the tests reads a whole collection where MongoDB asks an index.
pub(crate) fn sized<T>(embedded: T, mongodb: T) -> T {
    if is_used() { mongodb } else { embedded }
}

/// The settings of the store for a server with this working folder; none for the embedded store.
pub(crate) fn store_of(work: &Path) -> Vec<(&'static str, String)> {
    if !is_used() {
        return Vec::new();
    }
    settings_of(work)
}

/// The settings of a store on MongoDB, in the database of this working folder.
pub(crate) fn settings_of(work: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("COLLOQUY__STORE__KIND", "mongodb".to_owned()),
        (URI, uri().to_owned()),
        ("COLLOQUY__STORE__DATABASE", database_of(work)),
        (
            "COLLOQUY__SUPERVISION__ASK_TIMEOUT_SECONDS",
            PATIENCE_SECONDS.to_owned(),
        ),
    ]
}

/// The name of the database of the server with this working folder.
fn database_of(work: &Path) -> String {
    let folder = work.parent().and_then(Path::file_name).unwrap();
    folder.to_string_lossy().replace(['-', '.'], "_")
}

/// The collections of the server with this working folder that hold the text, to the byte.
pub(crate) fn collections_with(work: &Path, text: &str) -> Vec<String> {
    let (database, text) = (database_of(work), text.to_owned());
    asked(async move {
        let database = client().await.database(&database);
        let mut found = Vec::new();
        for name in database.list_collection_names().await.unwrap() {
            let collection = database.collection::<RawDocumentBuf>(&name);
            let mut cursor = collection.find(doc! {}).await.unwrap();
            while cursor.advance().await.unwrap() {
                if files::holds(cursor.current().as_bytes(), text.as_bytes()) {
                    found.push(name.clone());
                }
            }
        }
        found
    })
}

/// Deletes one document of a collection of the server with this working folder.
pub(crate) fn lose_one(work: &Path, collection: &str) {
    let (database, collection) = (database_of(work), collection.to_owned());
    asked(async move {
        let database = client().await.database(&database);
        let lost = database.collection::<Document>(&collection);
        let lost = lost.delete_one(doc! {}).await.unwrap();
        assert_eq!(lost.deleted_count, 1, "{collection} is empty");
    });
}

/// Changes the first document of a collection of the server with this working folder, or deletes it;
/// gives it as it was.
pub(crate) fn change(
    work: &Path,
    (collection, filter): (&str, Document),
    change: Option<Document>,
) -> Document {
    let (database, collection) = (database_of(work), collection.to_owned());
    asked(async move {
        let database = client().await.database(&database);
        let changed = database.collection::<Document>(&collection);
        let first = doc! {"_id": 1};
        let before = match change {
            Some(change) => {
                changed
                    .find_one_and_update(filter, change)
                    .sort(first)
                    .await
            }
            None => changed.find_one_and_delete(filter).sort(first).await,
        };
        before.unwrap().unwrap()
    })
}

/// Puts a document back as it was.
pub(crate) fn put_back(work: &Path, collection: &str, before: Document) {
    let (database, collection) = (database_of(work), collection.to_owned());
    asked(async move {
        let database = client().await.database(&database);
        let changed = database.collection::<Document>(&collection);
        let own = doc! {"_id": before.get("_id").cloned()};
        changed.delete_one(own).await.unwrap();
        changed.insert_one(before).await.unwrap();
    });
}

/// Deletes what matches of a collection of the server with this working folder.
pub(crate) fn lose(work: &Path, collection: &str, filter: Document) {
    let (database, collection) = (database_of(work), collection.to_owned());
    asked(async move {
        let database = client().await.database(&database);
        let lost = database.collection::<Document>(&collection);
        let lost = lost.delete_many(filter).await.unwrap();
        assert!(lost.deleted_count > 0, "{collection} has nothing of it");
    });
}

/// The last document of a collection of the server with this working folder, in this order.
pub(crate) fn last_of(work: &Path, collection: &str, order: Document) -> Document {
    let (database, collection) = (database_of(work), collection.to_owned());
    asked(async move {
        let database = client().await.database(&database);
        let all = database.collection::<Document>(&collection);
        all.find_one(doc! {}).sort(order).await.unwrap().unwrap()
    })
}

/// A conversation's event in the log: the code of its kind, who did it, its data.
pub(crate) type LogRow = (i32, String, String);

/// Everything that the log of the server with this working folder has, in the order of positions.
pub(crate) fn log_of(work: &Path) -> Vec<LogRow> {
    let database = database_of(work);
    asked(async move { read_log(&database).await })
}

/// Asks from a thread of its own, for a test has a runtime already.
fn asked<T: Send + 'static>(asking: impl Future<Output = T> + Send + 'static) -> T {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(asking)
    });
    thread.join().unwrap()
}

async fn client() -> mongodb::Client {
    mongodb::Client::with_uri_str(uri()).await.unwrap()
}

async fn read_log(database: &str) -> Vec<LogRow> {
    let log = client().await.database(database);
    let log = log.collection::<Document>("log");
    let written = doc! {"first": {"$gt": 0}};
    let mut cursor = log.find(written).sort(doc! {"position": 1}).await.unwrap();
    let mut found = Vec::new();
    while cursor.advance().await.unwrap() {
        let document = cursor.deserialize_current().unwrap();
        for row in document.get_array("rows").unwrap() {
            let row = row.as_document().unwrap();
            let by = row.get_document("by").unwrap().get_str("request").unwrap();
            let payload = row.get_str("payload").unwrap().to_owned();
            found.push((row.get_i32("kind").unwrap(), by.to_owned(), payload));
        }
    }
    found
}

/// The connection string of the server that all tests use.
pub(crate) fn uri() -> &'static str {
    static URI: OnceLock<String> = OnceLock::new();
    URI.get_or_init(|| std::env::var("COLLOQUY_TEST_MONGODB_URI").unwrap_or_else(|_| started()))
}

/// `host:port` of a URI.
pub(crate) fn host(uri: &str) -> &str {
    uri.trim_start_matches("mongodb://").trim_end_matches('/')
}

/// Starts the server on a free port; it ends with the tests, and its files go with it.
fn started() -> String {
    launched(&["-postgres", "127.0.0.1:0"]).1
}

/// Starts the program of the tests with these arguments. Gives its URI, too.
pub(super) fn launched(arguments: &[&str]) -> (Child, String) {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../ferretdb");
    assert!(
        program.exists(),
        "{} is not there: tests/run builds it, or set COLLOQUY_TEST_MONGODB_URI",
        program.display()
    );
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    command.args(arguments).stdout(Stdio::piped());
    let mut server = process::spawn(command);
    let mut line = String::new();
    let output = server.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert!(line.starts_with("mongodb://"), "it said {line:?}");
    (server, line.trim().to_owned())
}
