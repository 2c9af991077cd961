//! Headers that protect whoever reads an answer, and that the settings say. What is the same on
//! every answer is checked on every answer, in `support/answer.rs`.

use super::support::{Person, Server, Setup};

const HSTS: &str = "strict-transport-security";
/// Answers of each kind: data, refusals before and after the credential, pages for people, files.
const PLACES: [&str; 9] = [
    "/healthz",
    "/v1/customers",
    "/nothing",
    "/docs",
    "/openapi.json",
    "/s/nothing",
    "/console/sign-in",
    "/console/nothing",
    "/console/assets/nothing.js",
];

/// What the answers at all these places say of encrypted ways.
async fn said(server: &Server) -> Vec<Option<String>> {
    let mut said = Vec::new();
    let person = Person::stranger(server);
    for place in PLACES {
        let data = server.anonymous().get(place).await;
        let page = person.get(place).await;
        said.push(data.header_opt(HSTS).map(str::to_owned));
        said.push(page.headers.get(HSTS).map(|_| page.header(HSTS).to_owned()));
    }
    said
}

#[tokio::test]
async fn that_the_way_is_to_be_encrypted_is_said_everywhere_where_it_is_set_and_nowhere_else() {
    const SET: &str = "max-age=63072000; includeSubDomains";
    let server = Setup::default()
        .env("COLLOQUY__SECURITY_HEADERS__STRICT_TRANSPORT_SECURITY", SET)
        .start();
    for said in said(&server).await {
        assert_eq!(said.as_deref(), Some(SET));
    }
    // Not even where the public address is of HTTPS: it can't be taken back.
    let server = Setup::default()
        .env("COLLOQUY__SERVER__PUBLIC_URL", "https://desk.example.com")
        .start();
    assert_eq!(said(&server).await, vec![None; 2 * PLACES.len()]);
}
