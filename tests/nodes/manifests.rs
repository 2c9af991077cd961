//! What `deploy/` sets is known to the server, and taken by it.

use std::fs;

use serde_json::Value;

use crate::support::server::Folder;
use crate::support::{Setup, mongodb};

/// Places within containers, for which the test has its own.
const PLACES: [&str; 6] = [
    "COLLOQUY__SERVER__BIND",
    "COLLOQUY__STORE__URI",
    "COLLOQUY__STORE__DATABASE",
    "COLLOQUY__OBJECTS__URL",
    "COLLOQUY__STORE__PATH",
    "COLLOQUY__ADMIN__TOKEN",
];

/// The settings in the environment of a node, as lines of YAML give them.
fn settings_in(manifest: &str) -> Vec<(String, String)> {
    let path = format!("{}/deploy/{manifest}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).unwrap();
    let settings = text.lines().filter_map(|line| {
        let (name, value) = line.trim().split_once(": ")?;
        let value = value.trim_matches(['\'', '"']);
        name.starts_with("COLLOQUY__")
            .then(|| (name.to_owned(), value.to_owned()))
    });
    settings.collect()
}

#[tokio::test]
async fn a_server_starts_with_what_the_manifests_set() {
    for manifest in ["compose.yaml", "kubernetes.yaml"] {
        let mut settings = settings_in(manifest);
        assert!(settings.len() > 4, "{manifest}: {settings:?}");
        settings.retain(|(name, _)| !PLACES.contains(&name.as_str()));
        let folder = Folder::new();
        let mut setup = Setup::default();
        for (name, value) in &settings {
            setup = setup.env(name, value);
        }
        let places = mongodb::settings_of(&folder.work()).into_iter();
        // The kind of store is the manifest's.
        for (name, value) in places.filter(|(name, _)| PLACES.contains(name)) {
            setup = setup.env(name, &value);
        }
        let server = setup.start_in(folder);
        let nodes = server.operator().get("/admin/v1/nodes").await.expect(200);
        assert_ne!(nodes["data"][0]["lease_until"], Value::Null, "{nodes}");
    }
}
