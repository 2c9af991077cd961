//! OAuth 2.0: the software of others, which gets at an account's data with its users' consent.

mod attacks;
mod clients;
mod console;
mod flows;
mod forged;
mod issuers;
mod lifetimes;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use reqwest::header::{HeaderMap, LOCATION, WWW_AUTHENTICATE};
use serde_json::{Value, json};

use crate::support::client::no_tls;
use crate::support::console::{Person, Seen};
use crate::support::{Account, Client, Server};

/// A verifier of 43 characters (RFC 7636, appendix B), and what S256 makes of it.
pub(crate) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub(crate) const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
/// Where the tests' clients are sent back to; nobody listens there.
pub(crate) const BACK: &str = "https://app.example/callback";

/// Has a package of Python's do a step.
pub(crate) fn python(question: &Value) -> Value {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oauth/client.py");
    let mut child = Command::new(folder.join("python/bin/python"))
        .args(["-B", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = question.to_string();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{question}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A client of an account, as whoever registered it knows it.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
}

impl Registered {
    pub(crate) async fn make(c: &Client, body: Value) -> Self {
        let made = c.post("/v1/oauth/clients", body).await.expect(201);
        Registered {
            id: made.id("client_id"),
            secret: made.body["client_secret"].as_str().map(str::to_owned),
        }
    }

    /// One that users are asked about, with a secret.
    pub(crate) async fn web(c: &Client) -> Self {
        Self::make(
            c,
            json!({"name": "Helpful app", "redirect_uris": [BACK], "scopes": ["conversations:read", "conversations:write"]}),
        )
        .await
    }

    /// One that acts for its account itself.
    pub(crate) async fn machine(c: &Client) -> Self {
        Self::make(
            c,
            json!({"name": "Nightly job", "scopes": ["conversations:read", "users:manage"]}),
        )
        .await
    }

    pub(crate) fn path(&self) -> String {
        format!("/v1/oauth/clients/{}", self.id)
    }

    /// The address to which it sends a browser.
    pub(crate) fn asks(&self, more: &[(&str, &str)]) -> String {
        let mut pairs = vec![
            ("response_type", "code"),
            ("client_id", self.id.as_str()),
            ("redirect_uri", BACK),
            ("state", "xyz"),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ];
        pairs.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
        pairs.extend(more.iter().filter(|(_, value)| *value != ABSENT));
        let query = form_urlencoded(&pairs);
        format!("/oauth/authorize?{query}")
    }
}

/// Takes a parameter out in [`Registered::asks`].
pub(crate) const ABSENT: &str = "\u{0}absent";

pub(crate) fn form_urlencoded(pairs: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish()
}

/// What the authorization server has answered.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Told {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.headers["cache-control"], "no-store");
        self.body
    }

    /// Fails unless it is this refusal, as RFC 6749 (5.2) has it.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, error: &str) {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.body["error"], error, "{}", self.body);
        assert!(self.body["error_description"].is_string());
        assert_eq!(self.headers["content-type"], "application/json");
        assert_eq!(self.headers["cache-control"], "no-store");
        let asks_for_basic = self.headers.get(WWW_AUTHENTICATE).is_some();
        assert_eq!(asks_for_basic, status == 401);
    }
}

/// The authorization server, without a library between.
#[derive(Clone)]
pub(crate) struct Authority {
    http: reqwest::Client,
    base: String,
}

impl Authority {
    pub(crate) fn of(server: &Server) -> Self {
        Self::at(&server.address())
    }

    pub(crate) fn at(address: &str) -> Self {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(no_tls())
            .no_proxy();
        Authority {
            http: http.build().unwrap(),
            base: format!("http://{address}"),
        }
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.base
    }

    /// Posts a form; the client says who it is by Basic where it has a secret.
    pub(crate) async fn post(
        &self,
        path: &str,
        client: &Registered,
        fields: &[(&str, &str)],
    ) -> Told {
        let mut fields = fields.to_vec();
        let mut request = self.http.post(format!("{}{path}", self.base));
        match &client.secret {
            Some(secret) => request = request.basic_auth(&client.id, Some(secret)),
            None => fields.push(("client_id", &client.id)),
        }
        self.sent(request, &fields).await
    }

    /// Posts a form and nothing else.
    pub(crate) async fn post_bare(&self, path: &str, fields: &[(&str, &str)]) -> Told {
        self.sent(self.http.post(format!("{}{path}", self.base)), fields)
            .await
    }

    pub(crate) async fn sent(
        &self,
        request: reqwest::RequestBuilder,
        fields: &[(&str, &str)],
    ) -> Told {
        let request = request
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form_urlencoded(fields));
        let answer = request.send().await.unwrap();
        Told {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            body: serde_json::from_str(&answer.text().await.unwrap()).unwrap(),
        }
    }

    pub(crate) fn posting(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.post(format!("{}{path}", self.base))
    }

    /// Where a browser is led from here, and with which status.
    pub(crate) async fn leads(&self, path: &str) -> (u16, String, String) {
        let answer = self
            .http
            .get(format!("{}{path}", self.base))
            .send()
            .await
            .unwrap();
        let place = answer.headers().get(LOCATION);
        let place = place.map_or("", |place| place.to_str().unwrap()).to_owned();
        (
            answer.status().as_u16(),
            place,
            answer.text().await.unwrap(),
        )
    }

    /// Takes a code for tokens.
    pub(crate) async fn redeem(
        &self,
        client: &Registered,
        code: &str,
        more: &[(&str, &str)],
    ) -> Told {
        let mut fields = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", BACK),
            ("code_verifier", VERIFIER),
        ];
        fields.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
        fields.extend(more.iter().filter(|(_, value)| *value != ABSENT));
        self.post("/oauth/token", client, &fields).await
    }

    pub(crate) async fn refresh(&self, client: &Registered, token: &str) -> Told {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.post("/oauth/token", client, &fields).await
    }

    pub(crate) async fn credentials(&self, client: &Registered) -> String {
        let fields = [("grant_type", "client_credentials")];
        let given = self.post("/oauth/token", client, &fields).await.expect(200);
        given["access_token"].as_str().unwrap().to_owned()
    }
}

/// What stands in a query behind a name.
pub(crate) fn held(place: &str, name: &str) -> Option<String> {
    let url: url::Url = place.parse().unwrap();
    let mut pairs = url.query_pairs();
    pairs
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

/// A user who has consented: gives where the browser was sent.
pub(crate) async fn consents(person: &Person, asks: &str, decision: &str) -> Seen {
    let led = person.get(asks).await.expect(303);
    let page = led.location().to_owned();
    let shown = person.get(&page).await.expect(200);
    let csrf = shown.held("csrf");
    let fields = [("csrf", csrf.as_str()), ("decision", decision)];
    person.post_without_token(&page, &fields).await
}

/// The code that a user's consent gives.
pub(crate) async fn code(person: &Person, client: &Registered, more: &[(&str, &str)]) -> String {
    let sent = consents(person, &client.asks(more), "allow")
        .await
        .expect(303);
    held(sent.location(), "code").unwrap_or_else(|| panic!("no code: {}", sent.location()))
}

/// Tokens for a user's consent.
pub(crate) async fn tokens(authority: &Authority, person: &Person, client: &Registered) -> Value {
    let code = code(person, client, &[]).await;
    authority.redeem(client, &code, &[]).await.expect(200)
}

pub(crate) fn text(value: &Value, name: &str) -> String {
    value[name]
        .as_str()
        .unwrap_or_else(|| panic!("no {name}: {value}"))
        .to_owned()
}

/// A server with an account and one of its users, signed in.
pub(crate) async fn signed_in(role: &str) -> (Server, Account, Person, Authority) {
    let server = Server::start();
    let account = server.account().await;
    let person = Person::user(&account, role).await;
    let authority = Authority::of(&server);
    (server, account, person, authority)
}
