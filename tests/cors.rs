//! Pages of other origins: none may call unless config.toml names it; one that may can send
//! whatever the interface takes.

use serde_json::Value;

use crate::support::{Server, Setup};

const PAGE: &str = "https://app.example.com";

/// The names of all header parameters in the interface's description, in small letters.
fn header_parameters(openapi: &Value) -> Vec<String> {
    let paths = openapi["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|path| path.as_object().unwrap().values());
    let shared = openapi["components"]["parameters"]
        .as_object()
        .into_iter()
        .flat_map(|named| named.values());
    let beside = paths
        .filter_map(|operation| operation["parameters"].as_array())
        .flatten();
    let mut names: Vec<String> = beside
        .chain(shared)
        .filter(|parameter| parameter["in"] == "header")
        .map(|parameter| parameter["name"].as_str().unwrap().to_lowercase())
        .collect();
    names.sort();
    names.dedup();
    names
}

#[tokio::test]
async fn an_allowed_page_may_send_every_header_that_the_interface_takes() {
    let server = Setup::default()
        .config(&format!("[cors]\nallowed_origins = [\"{PAGE}\"]\n"))
        .start();
    let nobody = server.anonymous();
    let names = header_parameters(&nobody.get("/openapi.json").await.expect(200).body);
    assert!(names.contains(&"x-share-password".to_owned()), "{names:?}");
    let asked = nobody.call("OPTIONS", "/v1/customers").with("origin", PAGE);
    let answer = asked
        .with("access-control-request-method", "POST")
        .await
        .expect(204);
    assert_eq!(answer.header("access-control-allow-origin"), PAGE);
    let allowed = answer.header("access-control-allow-headers").to_lowercase();
    let allowed: Vec<&str> = allowed.split(", ").collect();
    for name in names
        .iter()
        .map(String::as_str)
        .chain(["authorization", "content-type"])
    {
        assert!(allowed.contains(&name), "{name} is not among {allowed:?}");
    }
}

#[tokio::test]
async fn an_allowed_page_may_read_every_header_that_the_interface_answers_with() {
    let server = Setup::default()
        .config(&format!("[cors]\nallowed_origins = [\"{PAGE}\"]\n"))
        .start();
    let nobody = server.anonymous();
    let document = nobody.get("/openapi.json").await.expect(200).body;
    let answer = nobody.get("/healthz").with("origin", PAGE).await;
    let exposed = answer.expect(200);
    let exposed = exposed
        .header("access-control-expose-headers")
        .to_lowercase();
    let exposed: Vec<&str> = exposed.split(", ").collect();
    let headers = document["components"]["headers"].as_object().unwrap();
    assert!(headers.contains_key("Content-Range"));
    // Every page may read the first of these; the others are for shared caches, which take them off.
    let others = ["Cache-Control", "Surrogate-Key", "Cache-Tag"];
    for name in headers
        .keys()
        .filter(|name| !others.contains(&name.as_str()))
    {
        let name = name.to_lowercase();
        assert!(
            exposed.contains(&name.as_str()),
            "{name} is not among {exposed:?}"
        );
    }
}

#[tokio::test]
async fn no_other_page_is_told_that_it_may() {
    let named = Setup::default()
        .config(&format!("[cors]\nallowed_origins = [\"{PAGE}\"]\n"))
        .start();
    let unnamed = Server::start();
    for (server, origin) in [
        (&named, "https://evil.example"),
        (&named, "null"),
        (&unnamed, PAGE),
    ] {
        let asked = server
            .anonymous()
            .call("OPTIONS", "/v1/customers")
            .with("origin", origin);
        let answer = asked
            .with("access-control-request-method", "POST")
            .await
            .expect(204);
        assert!(
            !answer
                .headers
                .keys()
                .any(|name| name.as_str() == "access-control-allow-origin"),
            "{answer}"
        );
    }
}
