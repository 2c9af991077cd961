//! Imports go one way: which room under `actors/` may import which, and which files of a folder may
//! import one another in a circle. A row of a table goes when its edge is gone; none is added.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::imports::Crate;
use super::{assert_none, root};

/// The rooms, each below those that may import it: a folder or a file of `actors/src`, or a crate
/// under `actors/`; and what each imports of those above it in this table.
const ROOMS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("redaction", &["model"]),
    ("merge", &[]),
    ("runtime", &["model"]),
    ("passwords", &["model", "runtime"]),
    ("sealing", &["model"]),
    ("objects", &[]),
    ("store", &["model", "runtime", "sealing"]),
    ("audit", &["model", "runtime", "store"]),
    ("dump", &["model", "store"]),
    ("feed", &["model", "runtime", "store"]),
    ("analytics", &["feed", "model", "runtime", "store"]),
    ("idempotency", &["model", "store"]),
    ("customer_names", &["model"]),
    ("journal", &["customer_names", "model", "runtime", "store"]),
    ("supervision", &["model", "runtime", "store"]),
    (
        "accounts",
        &[
            "customer_names",
            "journal",
            "model",
            "runtime",
            "sealing",
            "store",
        ],
    ),
    (
        "oauth",
        &["accounts", "model", "runtime", "sealing", "store"],
    ),
    ("key_rotation", &["sealing", "store"]),
    ("limiter", &["model", "runtime"]),
    (
        "usage",
        &[
            "accounts",
            "analytics",
            "limiter",
            "model",
            "runtime",
            "store",
        ],
    ),
    ("search", &["feed", "model", "objects", "runtime", "store"]),
    (
        "conversation",
        &[
            "accounts",
            "customer_names",
            "feed",
            "journal",
            "model",
            "redaction",
            "runtime",
            "search",
            "store",
        ],
    ),
    (
        "document",
        &[
            "accounts",
            "customer_names",
            "feed",
            "journal",
            "merge",
            "model",
            "passwords",
            "redaction",
            "runtime",
            "sealing",
            "search",
            "store",
        ],
    ),
    (
        "sign_in",
        &[
            "accounts",
            "audit",
            "limiter",
            "model",
            "passwords",
            "runtime",
        ],
    ),
    (
        "webhook",
        &[
            "accounts",
            "feed",
            "idempotency",
            "model",
            "runtime",
            "sealing",
            "store",
        ],
    ),
    (
        "attachments",
        &[
            "accounts",
            "conversation",
            "model",
            "objects",
            "runtime",
            "sealing",
            "store",
        ],
    ),
    (
        "backup",
        &[
            "attachments",
            "model",
            "objects",
            "runtime",
            "sealing",
            "store",
        ],
    ),
    (
        "erasures",
        &[
            "accounts",
            "attachments",
            "conversation",
            "document",
            "model",
            "runtime",
            "search",
            "store",
        ],
    ),
    ("realtime", &["model", "runtime", "store"]),
    ("metrics", &["backup", "runtime", "store", "webhook"]),
    (
        "views",
        &[
            "accounts",
            "customer_names",
            "erasures",
            "feed",
            "idempotency",
            "model",
            "oauth",
            "runtime",
            "sealing",
            "store",
            "supervision",
            "webhook",
        ],
    ),
    (
        "bootstrap",
        &["accounts", "model", "runtime", "store", "views"],
    ),
    (
        "chores",
        &[
            "attachments",
            "conversation",
            "erasures",
            "model",
            "runtime",
            "store",
        ],
    ),
    (
        "timers",
        &["accounts", "conversation", "model", "runtime", "store"],
    ),
    (
        "sharing",
        &[
            "limiter",
            "model",
            "passwords",
            "realtime",
            "runtime",
            "store",
        ],
    ),
    (
        "system",
        &[
            "accounts",
            "analytics",
            "attachments",
            "audit",
            "backup",
            "bootstrap",
            "chores",
            "conversation",
            "document",
            "erasures",
            "feed",
            "idempotency",
            "journal",
            "key_rotation",
            "limiter",
            "metrics",
            "model",
            "oauth",
            "objects",
            "passwords",
            "realtime",
            "runtime",
            "sealing",
            "search",
            "sharing",
            "sign_in",
            "store",
            "supervision",
            "timers",
            "usage",
            "views",
            "webhook",
        ],
    ),
];

/// Files of a folder that may import one another in a circle, and why. `mod` and `lib` are what a
/// folder's own file defines; what it only shows belongs to the file that defines it.
const CIRCLES: &[(&str, &[&str], &str)] = &[
    (
        "feed",
        &["hub", "inbox", "queue"],
        "the hub owns the inbox and the queues, which carry its messages and items",
    ),
    (
        "runtime",
        &[
            "entity_actor",
            "entity_handle",
            "pending_commit",
            "registry",
            "request",
            "supervised_actor",
            "sweeper",
        ],
        "the registry owns handles and starts actors, and both report to it when an entity may go or must be loaded again",
    ),
    (
        "merge/three_way",
        &["blocks", "mod", "refine"],
        "the folder's own file defines the pieces that its steps hand on",
    ),
];

/// What is left in a room's name for `lib.rs`, which only names its rooms.
const ROOT: &str = "lib";

/// Every crate under `actors/`, by its name; `actors` itself is no room.
fn crates() -> Vec<(String, Crate)> {
    let actors = root().join("actors");
    let read = |name: &str, folder: &Path| (name.to_owned(), Crate::read(folder));
    let mut crates = vec![read("actors", &actors.join("src"))];
    for entry in fs::read_dir(&actors).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("Cargo.toml").exists() {
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            crates.push(read(&name, &folder.join("src")));
        }
    }
    crates
}

/// Every edge between two rooms, with a file that has it.
fn edges(crates: &[(String, Crate)]) -> BTreeMap<(String, String), String> {
    let mut edges = BTreeMap::new();
    for (name, one) in crates {
        let room = |module: &[String]| match name.as_str() {
            "actors" => module.first().map_or(ROOT, String::as_str).to_owned(),
            name => name.to_owned(),
        };
        let inside = one
            .imports()
            .into_iter()
            .map(|import| (room(import.from), room(import.to), import.file));
        let across = one
            .foreign()
            .map(|(from, file, to)| (room(from), to.to_owned(), file));
        for (from, to, file) in inside.chain(across) {
            if from != to && from != ROOT {
                edges.insert((from, to), file.display().to_string());
            }
        }
    }
    edges
}

fn is_allowed(from: &str, to: &str) -> bool {
    let row = ROOMS.iter().find(|(room, _)| *room == from);
    row.is_some_and(|(_, imports)| imports.contains(&to))
}

#[test]
fn a_room_imports_what_the_table_allows_and_nothing_else() {
    let edges = edges(&crates());
    let others: Vec<String> = edges
        .iter()
        .filter(|((from, to), _)| !is_allowed(from, to))
        .map(|((from, to), file)| format!("{file}: {from} imports {to}"))
        .collect();
    assert_none(&others, "edges that tests/tidy/rooms.rs does not allow");
}

#[test]
fn the_table_of_rooms_names_no_edge_that_is_gone() {
    let edges = edges(&crates());
    let rows = ROOMS
        .iter()
        .flat_map(|(from, imports)| imports.iter().map(|to| (*from, *to)));
    let gone: Vec<String> = rows
        .filter(|(from, to)| !edges.contains_key(&((*from).to_owned(), (*to).to_owned())))
        .map(|(from, to)| format!("{from} imports {to} no more"))
        .collect();
    assert_none(&gone, "rows to be deleted in tests/tidy/rooms.rs");
}

#[test]
fn a_row_of_the_table_names_rooms_above_it() {
    let place = |room: &str| ROOMS.iter().position(|(name, _)| *name == room);
    let rows = ROOMS
        .iter()
        .flat_map(|(from, imports)| imports.iter().map(|to| (*from, *to)));
    let down: Vec<String> = rows
        .filter(|(from, to)| place(to).is_none() || place(to) >= place(from))
        .map(|(from, to)| format!("{from} imports {to}"))
        .collect();
    assert_none(&down, "edges that go down the table");
}

/// The files of one folder and what each imports of the others.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Every folder's graph; a folder below is one node of it, like a file.
fn folders(crates: &[(String, Crate)]) -> BTreeMap<String, Graph> {
    let mut folders: BTreeMap<String, Graph> = BTreeMap::new();
    for (name, one) in crates {
        for import in one.imports() {
            let pairs = import.from.iter().zip(import.to);
            let shared = pairs.take_while(|(from, to)| from == to).count();
            if name == "actors" && shared == 0 {
                // Rooms have a table of their own.
                continue;
            }
            let mut folder = import.from[..shared].to_vec();
            if name != "actors" {
                folder.insert(0, name.clone());
            }
            let node = |module: &[String]| match module.get(shared) {
                Some(file) => file.clone(),
                None if shared == 0 => ROOT.to_owned(),
                None => "mod".to_owned(),
            };
            folders
                .entry(folder.join("/"))
                .or_default()
                .entry(node(import.from))
                .or_default()
                .insert(node(import.to));
        }
    }
    folders
}

fn reached(graph: &Graph, from: &str) -> BTreeSet<String> {
    let (mut seen, mut left) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(file) = left.pop() {
        for next in graph.get(&file).into_iter().flatten() {
            if seen.insert(next.clone()) {
                left.push(next.clone());
            }
        }
    }
    seen
}

/// Files that import one another, each circle once.
fn circles(graph: &Graph) -> BTreeSet<BTreeSet<String>> {
    let around = |file: &String| -> BTreeSet<String> {
        let reached_from = reached(graph, file);
        let back = |other: &String| reached(graph, other).contains(file);
        reached_from.into_iter().filter(back).collect()
    };
    graph
        .keys()
        .map(around)
        .filter(|circle| circle.len() > 1)
        .collect()
}

fn all_circles() -> Vec<(String, BTreeSet<String>)> {
    let folders = folders(&crates()).into_iter();
    folders
        .flat_map(|(folder, graph)| {
            circles(&graph)
                .into_iter()
                .map(move |circle| (folder.clone(), circle))
        })
        .collect()
}

#[test]
fn no_files_of_a_folder_import_one_another_in_a_circle_but_those_with_a_reason() {
    let is_named = |(folder, circle): &(String, BTreeSet<String>)| {
        CIRCLES.iter().any(|(named, files, _)| {
            named == folder && circle.iter().all(|file| files.contains(&file.as_str()))
        })
    };
    let others: Vec<String> = all_circles()
        .into_iter()
        .filter(|circle| !is_named(circle))
        .map(|(folder, circle)| format!("{folder}: {circle:?}"))
        .collect();
    assert_none(&others, "circles that tests/tidy/rooms.rs does not name");
}

#[test]
fn the_table_of_circles_names_no_file_that_is_in_none() {
    let circles = all_circles();
    let is_in_one = |folder: &str, file: &str| {
        let own = circles.iter().filter(|(of, _)| of == folder);
        own.into_iter().any(|(_, circle)| circle.contains(file))
    };
    let gone: Vec<String> = CIRCLES
        .iter()
        .flat_map(|(folder, files, _)| files.iter().map(move |file| (*folder, *file)))
        .filter(|(folder, file)| !is_in_one(folder, file))
        .map(|(folder, file)| format!("{folder}/{file}"))
        .collect();
    assert_none(&gone, "files to be deleted in tests/tidy/rooms.rs");
}
