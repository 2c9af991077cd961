//! `colloquy demo`: the server with an account of its own that looks like a shop's, filled with
//! conversations and documents, some of which go on, so that a newcomer sees a living console. Fills
//! it as any caller would, through the interface.
//!
//! - `shop.rs` what its people say and write
//! - here: the account, the order of things, what goes on

mod shop;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use colloquy_actors::accounts::{CreateAccount, CreateKey, IssueKey, OpenAccount};
use colloquy_actors::system::System;
use colloquy_model::account::Plan;
use colloquy_model::caller::{Actor, Caller, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::id::{AccountId, KeyId};
use colloquy_model::key::KeyType;
use colloquy_model::secret;
use colloquy_model::text::Name;
use colloquy_model::time::{self, Timestamp};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, Method, redirect};
use rustls::ClientConfig;
use serde_json::{Value, json};

use crate::config::{Config, ConfigError};
use crate::courier::tls;
use crate::startup::{self, reachable, say};
use crate::tls::of_this_server;

/// By this name a later start finds the account again.
const ACCOUNT: &str = "Nordlicht Outdoor (demo)";
/// Whoever looks signs in as the first of the shop's people.
const ADMIN: &str = "demo@nordlicht.example";
const CONVERSATIONS: usize = 240;
/// Requests of the filling that run at once: the server has others to serve.
const AT_ONCE: usize = 4;
/// Between what goes on by itself.
const PAUSE: Duration = Duration::from_secs(4);
/// Between looks whether the server has started.
const START_LOOK: Duration = Duration::from_millis(20);
/// After a request that has failed.
const RETRY: Duration = Duration::from_secs(1);

/// Why the demo did not go on; the server does.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// The account or its key could not be made.
    #[error("the demo's account can't be made: {0}")]
    Account(String),
    /// The interface refuses what the demo asks.
    #[error("{method} {path} answers {status}: {body}")]
    Refused {
        method: Method,
        path: String,
        status: u16,
        body: String,
    },
    /// The server does not answer.
    #[error("the server does not answer: {0}")]
    Away(#[from] reqwest::Error),
    /// No HTTP client can be made on this machine.
    #[error("no HTTP client can be made: {0}")]
    Client(String),
}

/// What the filling plays.
const WEEK: Duration = Duration::from_hours(7 * 24);
/// About as many requests as the filling makes: each takes the clock on by its share of the week.
const REQUESTS: u32 = 2_000;

/// Sets the process's clock back, before anything is stored.
pub(crate) fn begin_a_week_ago() {
    time::be_behind(WEEK);
}

/// Where the demo finds its server, as any other client on this machine.
pub(crate) struct Place {
    url: String,
    tls: Option<ClientConfig>,
}

impl Place {
    /// The server that is bound to this address, with these settings.
    ///
    /// # Errors
    /// The settings name no certificate that can be used.
    pub(crate) fn new(address: SocketAddr, config: &Config) -> Result<Self, ConfigError> {
        Ok(Place {
            url: startup::url(reachable(address), config),
            tls: of_this_server(&config.tls)?,
        })
    }
}

/// Fills the demo's account and lets it go on, until the server stops. `of_a_week`: the clock was
/// set back, and comes to the present with the filling.
pub(crate) async fn play(system: Arc<System>, place: Place, of_a_week: bool) {
    if let Err(error) = show(&system, place, of_a_week).await {
        tracing::error!(%error, "the demo has ended; the server goes on");
    }
}

async fn show(system: &System, place: Place, of_a_week: bool) -> Result<(), DemoError> {
    // Before that, nobody could make the account.
    while !system.ready() {
        tokio::time::sleep(START_LOOK).await;
    }
    let mut api = Api::open(system, place).await?;
    let people = api.people().await?;
    let conversations = api.get("/v1/conversations?limit=1").await?;
    let known = conversations
        .pointer("/meta/total")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    // Who signs in while a week is played would be signed in for a session of then.
    if !of_a_week {
        api.let_in(&people).await?;
    }
    if known == 0 {
        api.to_play = of_a_week.then(|| AtomicU32::new(REQUESTS));
        let filled =
            futures_util::future::join(api.fill_inbox(&people), api.fill_shelf(&people)).await;
        time::be_behind(Duration::ZERO);
        api.to_play = None;
        filled.0.and(filled.1)?;
    }
    if of_a_week {
        api.let_in(&people).await?;
    }
    loop {
        tokio::time::sleep(PAUSE).await;
        if let Err(error) = api.go_on(&people).await {
            tracing::warn!(%error, "something of the demo was refused");
        }
    }
}

/// One of these, chosen by chance.
fn any<T>(all: &[T]) -> Option<&T> {
    let length = u64::try_from(all.len()).unwrap_or(u64::MAX);
    let at = colloquy_model::random::u64().checked_rem(length)?;
    all.get(usize::try_from(at).unwrap_or_default())
}

/// Whether something that happens once in so many times happens.
fn once_in(times: u64) -> bool {
    colloquy_model::random::u64().is_multiple_of(times)
}

/// The interface as the demo's account calls it.
struct Api {
    client: Client,
    base: String,
    key: String,
    /// Requests until the filling has come to the present; none where it is played already.
    to_play: Option<AtomicU32>,
}

impl Api {
    /// Finds or makes the account, and makes a key for this run.
    async fn open(system: &System, place: Place) -> Result<Self, DemoError> {
        let client = |error: String| DemoError::Client(error);
        let account = match known(system) {
            Some(account) => account,
            None => make_account(system).await?,
        };
        let usual = || tls().map_err(|error| client(error.to_string()));
        Ok(Api {
            client: Client::builder()
                .tls_backend_preconfigured(place.tls.map_or_else(usual, Ok)?)
                .redirect(redirect::Policy::none())
                .no_proxy()
                .build()
                .map_err(|error| client(error.to_string()))?,
            base: place.url,
            key: make_key(system, account).await?,
            to_play: None,
        })
    }

    async fn get(&self, path: &str) -> Result<Value, DemoError> {
        self.ask(Method::GET, path, None, None).await
    }

    async fn post(&self, path: &str, body: Value, user: Option<&str>) -> Result<Value, DemoError> {
        self.ask(Method::POST, path, Some(body), user).await
    }

    /// Asks until there is an answer that is not for now only.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        user: Option<&str>,
    ) -> Result<Value, DemoError> {
        self.time_goes_on();
        // Sent again, it is done once.
        let once = secret::generate("demo-");
        loop {
            let mut request = self
                .client
                .request(method.clone(), format!("{}{path}", self.base))
                .header(AUTHORIZATION, format!("Bearer {}", self.key));
            if let Some(user) = user {
                request = request.header("x-acting-user", user);
            }
            if method == Method::POST {
                request = request.header("idempotency-key", &once);
            }
            if let Some(body) = &body {
                request = request
                    .header(CONTENT_TYPE, "application/json")
                    .body(body.to_string());
            }
            let answer = request.send().await?;
            let status = answer.status();
            let text = answer.text().await?;
            if status.is_success() {
                return Ok(serde_json::from_str(&text).unwrap_or_default());
            }
            if status.as_u16() != 503 && status.as_u16() != 429 {
                return Err(DemoError::Refused {
                    method,
                    path: path.to_owned(),
                    status: status.as_u16(),
                    body: text,
                });
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Takes the clock on by one request's share of the week.
    fn time_goes_on(&self) {
        let Some(left) = &self.to_play else { return };
        let one_less = |left: u32| left.checked_sub(1);
        let left = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        time::be_behind(WEEK / REQUESTS * left.unwrap_or_default());
    }

    /// The shop's people, by identifier; the first is the admin. Makes those who are missing.
    async fn people(&self) -> Result<Vec<String>, DemoError> {
        let known = self.get("/v1/users?limit=100").await?;
        let known = known.get("data").and_then(Value::as_array).cloned();
        let mut people = Vec::new();
        for (name, email, role) in shop::PEOPLE {
            let mut users = known.iter().flatten();
            let found = users.find(|user| text(user, "email") == *email).cloned();
            let user = match found {
                Some(user) => user,
                None => {
                    let body = json!({"name": name, "email": email, "role": role});
                    self.post("/v1/users", body, None).await?
                }
            };
            people.push(text(&user, "user_id").to_owned());
        }
        Ok(people)
    }

    /// Says where to sign in, as whom.
    async fn let_in(&self, people: &[String]) -> Result<(), DemoError> {
        let password = self.invite(people).await?;
        say(&format!(
            "\nThe demo: sign in at {}/console/sign-in\n\n  name:     {ADMIN}\n  password: {password}\n\nSome of it goes on by itself.\n",
            self.base
        ));
        Ok(())
    }

    /// Sets a new password for the admin, as an invitation does.
    async fn invite(&self, people: &[String]) -> Result<String, DemoError> {
        let admin = people.first().map_or("", String::as_str);
        let path = format!("/v1/users/{admin}/invitations");
        let invited = self.post(&path, json!({}), None).await?;
        let token = text(&invited, "url").rsplit('/').next().unwrap_or_default();
        let password = secret::generate("");
        let password = password.get(..16).unwrap_or(&password);
        let form = format!("password={password}&repeated={password}");
        let path = format!("/console/invitations/{token}");
        let answer = self
            .client
            .post(format!("{}{path}", self.base))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form)
            .send()
            .await?;
        match answer.status().is_redirection() {
            true => Ok(password.to_owned()),
            false => Err(DemoError::Refused {
                method: Method::POST,
                path,
                status: answer.status().as_u16(),
                body: String::new(),
            }),
        }
    }

    async fn fill_inbox(&self, people: &[String]) -> Result<(), DemoError> {
        use futures_util::{StreamExt, TryStreamExt};
        futures_util::stream::iter(0..CONVERSATIONS)
            .map(|_| self.conversation(people))
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await
            .map(drop)
    }

    /// One conversation, played to where it stands.
    async fn conversation(&self, people: &[String]) -> Result<(), DemoError> {
        let Some(story) = any(shop::STORIES) else {
            return Ok(());
        };
        let told = shop::Told::new();
        let customer = json!({
            "name": told.customer, "email": told.email,
            "metadata": {"city": told.city, "orders": colloquy_model::random::u64() % 12},
        });
        let customer = self.post("/v1/customers", customer, None).await?;
        let new = json!({
            "customer_id": text(&customer, "customer_id"),
            "channel": any(&["chat", "chat", "email", "email", "voice"]),
            "priority": any(&["normal", "normal", "normal", "low", "high"]),
            "initial_message": told.words(story.first().copied().unwrap_or_default()),
            "metadata": {"order": told.order},
        });
        let conversation = self.post("/v1/conversations", new, None).await?;
        let at = format!(
            "/v1/conversations/{}",
            text(&conversation, "conversation_id")
        );
        let agent = any(people).map(String::as_str);
        let turns = story.len() - usize::from(once_in(3)).min(story.len());
        for (number, words) in story.iter().enumerate().take(turns).skip(1) {
            let by_agent = number % 2 == 1;
            let body = json!({
                "content": told.words(words),
                "sender_type": if by_agent { "agent" } else { "customer" },
            });
            self.post(&format!("{at}/messages"), body, agent.filter(|_| by_agent))
                .await?;
        }
        if turns > 1 {
            let body = json!({"assignee_id": agent});
            self.ask(Method::PATCH, &at, Some(body), agent).await?;
        }
        self.settle(&at, agent, turns == story.len()).await
    }

    /// Leaves a conversation in the state that its story has come to.
    async fn settle(&self, at: &str, agent: Option<&str>, is_over: bool) -> Result<(), DemoError> {
        let change = if is_over && !once_in(4) {
            json!({"status": "closed"})
        } else if once_in(4) {
            let until =
                Timestamp::now() + Duration::from_hours(1 + colloquy_model::random::u64() % 48);
            json!({"status": "pending", "snoozed_until": until})
        } else if once_in(4) {
            json!({"status": "pending"})
        } else {
            return Ok(());
        };
        self.ask(Method::PATCH, at, Some(change), agent).await?;
        Ok(())
    }

    async fn fill_shelf(&self, people: &[String]) -> Result<(), DemoError> {
        for (number, title) in shop::DOCUMENTS.iter().enumerate() {
            self.document(title, number, people).await?;
        }
        Ok(())
    }

    /// One document with its history: versions, side lines, some merged, some in conflict.
    async fn document(
        &self,
        title: &str,
        number: usize,
        people: &[String],
    ) -> Result<(), DemoError> {
        let (author, other) = (
            any(people).map(String::as_str),
            any(people).map(String::as_str),
        );
        let first = shop::page(title, 0);
        let body = json!({"title": title, "content": first});
        let made = self.post("/api/v1/documents", body, author).await?;
        let id = text(&made, "id").to_owned();
        let at = format!("/api/v1/documents/{id}");
        let all = json!({"visibility": "account", "default_role": "editor"});
        self.ask(Method::PUT, &format!("{at}/permissions"), Some(all), author)
            .await?;
        for edition in 1..2 + number % 4 {
            let body = json!({
                "content": shop::page(title, edition), "message": shop::message(edition),
            });
            self.post(
                &format!("{at}/versions"),
                body,
                any(people).map(String::as_str),
            )
            .await?;
        }
        let comment = json!({"body": any(shop::COMMENTS), "start_line": 3, "end_line": 3});
        self.post(&format!("{at}/comments"), comment, other).await?;
        if number.is_multiple_of(3) {
            let branch = format!("draft-{}", number + 1);
            // Its last line is another one than the head's will be.
            let text = shop::side_line(title, 1 + number % 4);
            let body =
                json!({"content": text, "branch": branch, "message": "A proposal for the season"});
            self.post(&format!("{at}/versions"), body, other).await?;
            if number.is_multiple_of(6) {
                let merge = json!({"source": branch, "message": "Take over the proposal"});
                self.post(&format!("{at}/merge"), merge, author).await?;
            } else {
                let clash = shop::clash(title, 1 + number % 4);
                let body = json!({"content": clash, "message": "What holds until then"});
                self.post(&format!("{at}/versions"), body, author).await?;
            }
        }
        Ok(())
    }

    /// Something that happens by itself: a new conversation, an answer, one more question.
    async fn go_on(&self, people: &[String]) -> Result<(), DemoError> {
        if once_in(6) {
            return self.conversation(people).await;
        }
        let open = self.get("/v1/conversations?status=active&limit=50").await?;
        let open = open.get("data").and_then(Value::as_array).cloned();
        let open = open.unwrap_or_default();
        let Some(conversation) = any(&open) else {
            return self.conversation(people).await;
        };
        let at = format!(
            "/v1/conversations/{}",
            text(conversation, "conversation_id")
        );
        let by_agent = once_in(2);
        let words = any(if by_agent {
            shop::ANSWERS
        } else {
            shop::QUESTIONS
        });
        let body = json!({
            "content": words.copied().unwrap_or_default(),
            "sender_type": if by_agent { "agent" } else { "customer" },
        });
        let agent = any(people).map(String::as_str).filter(|_| by_agent);
        self.post(&format!("{at}/messages"), body, agent).await?;
        // Otherwise the inbox would only grow.
        if by_agent && once_in(4) {
            self.post(&format!("{at}/close"), json!({}), agent).await?;
        }
        Ok(())
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The account of an earlier run.
fn known(system: &System) -> Option<AccountId> {
    let mut ids = system.identity.account_ids().into_values();
    ids.find(|id| {
        let account = system.identity.account(*id);
        account.is_some_and(|account| account.view.name == ACCOUNT)
    })
}

fn meta(tenant: Tenant) -> CommandMeta {
    CommandMeta::new(Caller {
        tenant,
        actor: Actor::server("demo"),
    })
}

async fn make_account(system: &System) -> Result<AccountId, DemoError> {
    let failed = |error: &dyn std::fmt::Debug| DemoError::Account(format!("{error:?}"));
    let id = AccountId::new(Timestamp::now());
    let new = CreateAccount {
        name: Name::new(ACCOUNT).map_err(|error| failed(&error))?,
        plan: Some(Plan::Enterprise),
        rate_per_minute: Some(100_000),
        burst_per_minute: Some(150_000),
        monthly_quota: None,
        allowed_ips: Vec::new(),
        auto_close_after_minutes: None,
        domains: Vec::new(),
        cors_origins: None,
        retention_days: None,
    };
    let number = system.next_account_number().await;
    let number = number.map_err(|error| failed(&error))?;
    let open = OpenAccount { new, number };
    let made = system.accounts.ask(id, meta(Tenant::OPERATORS), open).await;
    made.map(|_| id).map_err(|error| failed(&error))
}

async fn make_key(system: &System, account: AccountId) -> Result<String, DemoError> {
    let failed = |error: &dyn std::fmt::Debug| DemoError::Account(format!("{error:?}"));
    let known = system.identity.account(account);
    let number = known.map(|known| known.number).unwrap_or_default();
    let now = Timestamp::now();
    let new = CreateKey {
        kind: KeyType::Prod,
        name: Name::new("The demo itself").ok(),
        scopes: None,
        allowed_ips: Vec::new(),
        // Whoever leaves the demo running longer starts it again.
        expires_at: Some(now + Duration::from_hours(24 * 30)),
        user_id: None,
        require_signature: false,
    };
    let issue = IssueKey { new, account };
    let made = system
        .keys
        .ask(KeyId::new(now), meta(Tenant::account(number)), issue)
        .await;
    let made = made.map_err(|error| failed(&error))?;
    let shown: Value = serde_json::from_slice(&made.body).map_err(|error| failed(&error))?;
    Ok(text(&shown, "key").to_owned())
}
