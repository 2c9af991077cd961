//! What config.toml says will go away: told in headers (RFC 9745, RFC 8594), in the OpenAPI document
//! and in the changelog.

use serde_json::{Value, json};

use crate::support::server::Setup;
use crate::support::{Account, Answer, Client, Server, shared};

const SETTINGS: &str = r#"
[[deprecations]]
route = "POST /v1/conversations/{conversation_id}/close"
since = "2026-12-01"
sunset = "2027-12-01"
link = "https://docs.example/close"
note = "PATCH the status."

[[deprecations]]
route = "GET /v1/conversations"
field = "channel"
since = 2026-11-01
sunset = 2028-02-29
link = "https://docs.example/channel"

[[deprecations]]
route = "POST /v1/customers"
field = "external_id"
since = "2026-10-31"
sunset = "2027-10-31"
link = "https://docs.example/external"
"#;

async fn deprecating() -> (Server, Account, Client) {
    let server = Setup::default().config(SETTINGS).start();
    let account = server.account().await;
    let c = account.test();
    (server, account, c)
}

/// What an answer says of what was used.
fn told(answer: &Answer) -> [Option<&str>; 3] {
    ["deprecation", "sunset", "link"].map(|name| answer.header_opt(name))
}

#[tokio::test]
async fn every_answer_of_a_deprecated_route_says_so_and_no_other() {
    let (_server, account, c) = deprecating().await;
    let at = format!("/v1/conversations/{}", c.conversation().await);
    // 2026-12-01 began 1,796,083,200 seconds after 1970 did.
    let expected = [
        Some("@1796083200"),
        Some("Wed, 01 Dec 2027 00:00:00 GMT"),
        Some("<https://docs.example/close>; rel=\"deprecation\""),
    ];
    let close = format!("{at}/close");
    let closed = c.post(&close, json!({})).await.expect(200);
    assert_eq!(told(&closed), expected);
    let refused = c.post(&close, json!({"reason": 5})).await;
    assert_eq!((refused.status, told(&refused)), (400, expected));
    let stranger = account.anonymous().post(&close, json!({})).await;
    assert_eq!((stranger.status, told(&stranger)), (401, expected));
    let missing = "/v1/conversations/conv_01a212aa98ef70008ed1e6eed32457a5/close";
    let missing = c.post(missing, json!({})).await;
    assert_eq!((missing.status, told(&missing)), (404, expected));
    for other in [
        c.get(&at).await.expect(200),
        c.post(&format!("{at}/reopen"), json!({})).await.expect(200),
        c.get(&close).await.expect(405),
    ] {
        assert_eq!(told(&other), [None; 3], "{other}");
    }
}

#[tokio::test]
async fn a_deprecated_field_is_told_of_where_a_request_names_it() {
    let (_server, _account, c) = deprecating().await;
    c.conversation().await;
    c.conversation().await;
    let named = c.get("/v1/conversations?limit=1&channel=chat").await;
    let named = named.expect(200);
    assert_eq!(named.header("deprecation"), "@1793491200");
    assert_eq!(named.header("sunset"), "Tue, 29 Feb 2028 00:00:00 GMT");
    // Beside the links of the page.
    let links = named.header_all("link");
    assert_eq!(links.len(), 2, "{links:?}");
    assert!(links.iter().any(|link| link.contains("rel=\"next\"")));
    let deprecated = "<https://docs.example/channel>; rel=\"deprecation\"";
    assert!(links.contains(&deprecated), "{links:?}");
    let unnamed = c.get("/v1/conversations?status=active").await.expect(200);
    assert_eq!(unnamed.header_opt("deprecation"), None);
    let customer = |more: Value| {
        let mut body = json!({"name": "Ada Byron"});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        c.post("/v1/customers", body)
    };
    let named = customer(json!({"external_id": "7"})).await.expect(201);
    assert_eq!(named.header("deprecation"), "@1793404800");
    let unnamed = customer(json!({"metadata": {"external_id": "7"}})).await;
    assert_eq!(unnamed.expect(201).header_opt("deprecation"), None);
    let no_object = c
        .call("POST", "/v1/customers")
        .bytes("[\"external_id\"]".to_owned());
    assert_eq!(no_object.await.expect(400).header_opt("deprecation"), None);
}

#[tokio::test]
async fn the_document_and_the_changelog_say_what_will_go_away() {
    let (_server, account, c) = deprecating().await;
    let anonymous = account.anonymous();
    let document = anonymous.get("/openapi.json").await.expect(200).body;
    let plain = shared()
        .anonymous()
        .get("/openapi.json")
        .await
        .expect(200)
        .body;
    let close = "/paths/~1v1~1conversations~1{conversation_id}~1close/post";
    let external = "/components/schemas/CreateCustomer/properties/external_id";
    for (at, words) in [
        (
            close,
            "Deprecated since 2026-12-01; from 2027-12-01 on it may be gone. PATCH the status. See https://docs.example/close.",
        ),
        (external, "Deprecated since 2026-10-31"),
    ] {
        let marked = document.pointer(at).unwrap_or_else(|| panic!("no {at}"));
        assert_eq!(marked["deprecated"], true, "{marked}");
        let description = marked["description"].as_str().unwrap();
        assert!(description.contains(words), "{description}");
        assert_eq!(plain.pointer(at).unwrap().get("deprecated"), None);
    }
    let parameters = document.pointer("/paths/~1v1~1conversations/get/parameters");
    let parameters = parameters.unwrap().as_array().unwrap().iter();
    let marked: Vec<&Value> = parameters
        .filter(|one| one["deprecated"] == true)
        .map(|one| &one["name"])
        .collect();
    assert_eq!(marked, ["channel"]);
    let docs = anonymous.get("/docs").await.expect(200);
    let docs = String::from_utf8(docs.bytes).unwrap();
    assert!(docs.contains("Deprecated since 2026-12-01"), "{docs}");
    let changelog = c.get("/v1/changelog").await.expect(200);
    let entries = changelog.data().iter();
    let entries: Vec<(&Value, &Value)> = entries
        .map(|entry| (&entry["released"], &entry["status"]))
        .collect();
    let expected = [
        ("2026-12-01", "Deprecation"),
        ("2026-11-01", "Deprecation"),
        ("2026-10-31", "Deprecation"),
        ("2024-03-15", "Stable"),
        ("2024-02-15", "Beta"),
    ];
    let expected = expected.map(|(day, status)| (json!(day), json!(status)));
    let expected: Vec<(&Value, &Value)> = expected.iter().map(|(day, one)| (day, one)).collect();
    assert_eq!(entries, expected);
    let change = changelog.data()[1]["changes"][0].as_str().unwrap();
    assert!(
        change.starts_with("`channel` of GET /v1/conversations: "),
        "{change}"
    );
}

/// An entry with one line changed or added.
fn entry(change: &str) -> String {
    let key = change.split_once(' ').unwrap().0;
    let whole = [
        "route = \"GET /v1/customers\"",
        "field = \"limit\"",
        "since = \"2026-12-01\"",
        "sunset = \"2027-12-01\"",
        "link = \"https://docs.example/\"",
    ];
    let kept = whole.into_iter().filter(|line| !line.starts_with(key));
    let lines: Vec<&str> = kept.chain([change]).collect();
    format!("[[deprecations]]\n{}\n", lines.join("\n"))
}

#[test]
fn what_can_not_be_deprecated_stops_the_start() {
    for (change, named) in [
        (
            "sunset = \"2027-11-30\"",
            &["deprecations[0].sunset", "2027-11-30", "12 months"][..],
        ),
        (
            "since = \"2027-12-02\"",
            &["deprecations[0].sunset", "12 months"],
        ),
        (
            "since = \"yesterday\"",
            &["deprecations[0].since", "yesterday", "must be a day"],
        ),
        (
            "link = \"http://docs.example\"",
            &["deprecations[0].link", "https://"],
        ),
        (
            "link = \"https://docs.example/<x>\"",
            &["deprecations[0].link", "https://"],
        ),
        (
            "route = \"GET /v1/costumers\"",
            &["deprecations[0].route", "/v1/costumers", "/openapi.json"],
        ),
        (
            "route = \"PUT /v1/customers\"",
            &["deprecations[0].route", "PUT"],
        ),
        (
            "field = \"limits\"",
            &["deprecations[0].field", "limits", "limit,"],
        ),
        (
            "until = \"2027-12-01\"",
            &["deprecations[0].until", "sunset"],
        ),
    ] {
        let folder = tempfile::TempDir::new().unwrap();
        let setup = Setup::default().config(&entry(change));
        let (status, output) = setup.refused_in(folder.path());
        assert_eq!(status.code(), Some(2), "{change}: {output}");
        for name in named {
            assert!(output.contains(name), "no {name} for {change}: {output}");
        }
        assert!(!folder.path().join("data").exists(), "{change}");
    }
    let twice = format!("{0}{0}", entry("link = \"https://docs.example/\""));
    let folder = tempfile::TempDir::new().unwrap();
    let (status, output) = Setup::default().config(&twice).refused_in(folder.path());
    assert_eq!(status.code(), Some(2), "{output}");
    for name in ["deprecations[1].route", "twice"] {
        assert!(output.contains(name), "no {name}: {output}");
    }
}
