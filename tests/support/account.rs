//! A fresh account with three keys for each test, made through the operators' interface.

use serde_json::{Value, json};

use super::client::Client;
use super::server::{OPERATOR, Server, delivering, shared};

/// Far above what any test sends in a minute.
const RATE_PER_MINUTE: u64 = 1_000_000;

/// An account and a client for each of its keys.
pub(crate) struct Account {
    pub(crate) account_id: String,
    anonymous: Client,
    test_key: String,
    prod_key: String,
    read_key: String,
    watched: Option<&'static Server>,
}

/// A fresh account on the shared server, whose log must stay quiet.
pub(crate) async fn account() -> Account {
    let server = shared();
    let mut account = Account::make(server.anonymous()).await;
    account.watched = Some(server);
    account
}

/// A fresh account on the shared server that delivers to this machine.
pub(crate) async fn account_with_deliveries() -> (Account, Client) {
    let server = delivering();
    let mut account = Account::make(server.anonymous()).await;
    account.watched = Some(server);
    let client = account.test();
    (account, client)
}

/// The same with the client of its test key.
pub(crate) async fn account_with_client() -> (Account, Client) {
    let account = account().await;
    let client = account.test();
    (account, client)
}

impl Account {
    /// A fresh account on any server.
    pub(crate) async fn make(anonymous: Client) -> Self {
        let operator = anonymous.with_operator(OPERATOR);
        let body = json!({
            "name": "Black box", "plan": "enterprise",
            "rate_per_minute": RATE_PER_MINUTE, "burst_per_minute": RATE_PER_MINUTE * 2,
        });
        let account_id = operator
            .post("/admin/v1/accounts", body)
            .await
            .expect(201)
            .id("account_id");
        let mut keys = Vec::new();
        for kind in ["test", "prod", "read"] {
            let path = format!("/admin/v1/accounts/{account_id}/keys");
            let body = json!({"type": kind, "name": format!("{kind} key")});
            keys.push(operator.post(&path, body).await.expect(201).id("key"));
        }
        let [test_key, prod_key, read_key] = <[String; 3]>::try_from(keys).unwrap();
        Self {
            account_id,
            anonymous,
            test_key,
            prod_key,
            read_key,
            watched: None,
        }
    }

    /// The test key: reads and writes test data.
    pub(crate) fn test(&self) -> Client {
        self.anonymous.with_key(&self.test_key)
    }

    /// The production key: reads and writes live data.
    pub(crate) fn live(&self) -> Client {
        self.anonymous.with_key(&self.prod_key)
    }

    /// The read-only key: reads live data.
    pub(crate) fn read(&self) -> Client {
        self.anonymous.with_key(&self.read_key)
    }

    /// The same account at a server that has been started again, or at another node.
    pub(crate) fn at(mut self, anonymous: Client) -> Self {
        self.anonymous = anonymous;
        self
    }

    pub(crate) fn anonymous(&self) -> Client {
        self.anonymous.clone()
    }

    pub(crate) fn operator(&self) -> Client {
        self.anonymous.with_operator(OPERATOR)
    }

    /// The secret of the test key.
    pub(crate) fn test_key(&self) -> &str {
        &self.test_key
    }

    /// Makes one more key; gives its client and the answer's body.
    pub(crate) async fn key(&self, body: Value) -> (Client, Value) {
        let path = format!("/admin/v1/accounts/{}/keys", self.account_id);
        let made = self.operator().post(&path, body).await.expect(201);
        (self.anonymous.with_key(&made.id("key")), made.body)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let (Some(server), false) = (self.watched, std::thread::panicking()) {
            server.assert_quiet();
        }
    }
}
