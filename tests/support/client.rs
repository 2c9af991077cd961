//! A thin HTTP client that keeps tests at three beats. What holds for every answer is checked in
//! [`super::answer`].

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, redirect};
use serde_json::{Value, json};

use super::answer::{Answer, Expected};
use super::mongodb::sized;

/// The longest that a test reads one stream.
const STREAM_MAX: Duration = Duration::from_secs(600);

/// Who is calling: decides which headers every answer must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    Nobody,
    Key,
    Operator,
}

/// Tests speak plain HTTP; without this, each client would read the machine's certificates.
pub(crate) fn no_tls() -> rustls::ClientConfig {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    config
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

/// One caller of one server.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    caller: Caller,
    credential: Option<String>,
    acting: Option<String>,
}

impl Client {
    /// Without a credential.
    pub(crate) fn anonymous(base: &str) -> Self {
        Self::over_tls(base, no_tls())
    }

    /// Without a credential, at a server that is trusted as this says.
    pub(crate) fn over_tls(base: &str, tls: rustls::ClientConfig) -> Self {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(Duration::from_secs(sized(30, 120)))
            .tls_backend_preconfigured(tls)
            .build()
            .unwrap();
        Self {
            http,
            base: base.to_owned(),
            caller: Caller::Nobody,
            credential: None,
            acting: None,
        }
    }

    /// The same with an API key.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self {
            caller: Caller::Key,
            credential: Some(format!("Bearer {key}")),
            ..self.clone()
        }
    }

    /// The same with an operator token.
    pub(crate) fn with_operator(&self, token: &str) -> Self {
        Self {
            caller: Caller::Operator,
            credential: Some(format!("Bearer {token}")),
            ..self.clone()
        }
    }

    /// The same acting for a user.
    pub(crate) fn acting_for(&self, user: &str) -> Self {
        Self {
            acting: Some(user.to_owned()),
            ..self.clone()
        }
    }

    /// The same caller at another address, such as a proxy's or that of a server that has been
    /// started again.
    pub(crate) fn at(&self, address: &str) -> Self {
        Self {
            base: format!("http://{address}"),
            ..self.clone()
        }
    }

    /// `host:port` of the server.
    pub(crate) fn address(&self) -> &str {
        self.base
            .trim_start_matches("http://")
            .trim_start_matches("https://")
    }

    /// What stands in the `Authorization` header.
    pub(crate) fn credential(&self) -> Option<&str> {
        self.credential.as_deref()
    }

    /// Any method on any path.
    pub(crate) fn call(&self, method: &str, path: &str) -> Call {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut call = Call {
            client: self.clone(),
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: None,
        };
        if let Some(credential) = &self.credential {
            call = call.with("authorization", credential);
        }
        if let Some(user) = &self.acting {
            call = call.with("x-acting-user", user);
        }
        call
    }

    pub(crate) fn get(&self, path: &str) -> Call {
        self.call("GET", path)
    }

    pub(crate) fn delete(&self, path: &str) -> Call {
        self.call("DELETE", path)
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> Call {
        self.call("POST", path).json(&body)
    }

    pub(crate) fn put(&self, path: &str, body: Value) -> Call {
        self.call("PUT", path).json(&body)
    }

    pub(crate) fn patch(&self, path: &str, body: Value) -> Call {
        self.call("PATCH", path).json(&body)
    }

    /// Makes a customer; gives its id.
    pub(crate) async fn customer(&self) -> String {
        self.post("/v1/customers", json!({"name": "Ada Lovelace"}))
            .await
            .expect(201)
            .id("customer_id")
    }

    /// Makes a customer and a conversation with it; gives the conversation's id.
    pub(crate) async fn conversation(&self) -> String {
        let customer = self.customer().await;
        self.conversation_of(&customer).await
    }

    /// Makes a conversation with a customer.
    pub(crate) async fn conversation_of(&self, customer: &str) -> String {
        self.post("/v1/conversations", json!({"customer_id": customer}))
            .await
            .expect(201)
            .id("conversation_id")
    }

    /// Sends a message as the customer.
    pub(crate) async fn message(&self, conversation: &str, content: &str) -> Answer {
        let path = format!("/v1/conversations/{conversation}/messages");
        self.post(&path, json!({"content": content}))
            .await
            .expect(201)
    }

    /// Makes a user with an address of its own; gives its id.
    pub(crate) async fn user(&self, role: &str) -> String {
        let email = format!("{}@example.com", super::unique("user"));
        let body = json!({"name": "Grace Hopper", "email": email, "role": role});
        self.post("/v1/users", body).await.expect(201).id("user_id")
    }
}

/// A request that is sent when it is awaited.
pub(crate) struct Call {
    client: Client,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

impl Call {
    /// Adds a header, in place of one of the same name.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        self.headers
            .insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        self
    }

    /// Takes a header away.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        let bytes = serde_json::to_vec(body).unwrap();
        self.bytes(bytes)
            .with(CONTENT_TYPE.as_str(), "application/json")
    }

    /// A body of any bytes, undeclared.
    pub(crate) fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = Some(bytes.into());
        self
    }

    fn request(&mut self) -> reqwest::RequestBuilder {
        let url = format!("{}{}", self.client.base, self.path);
        let request = self
            .client
            .http
            .request(self.method.clone(), url)
            .headers(std::mem::take(&mut self.headers));
        match self.body.take() {
            Some(body) => request.body(body),
            None => request,
        }
    }

    /// Sends it and leaves the answer's body to be read as it comes, for longer than any other
    /// answer may take.
    pub(crate) async fn open(mut self) -> Result<reqwest::Response, reqwest::Error> {
        self.request().timeout(STREAM_MAX).send().await
    }

    /// Sends it; a broken connection is an error, not a failed test.
    pub(crate) async fn try_send(mut self) -> Result<Answer, reqwest::Error> {
        let response = self.request().send().await?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await?.to_vec();
        let operation = format!("{} {}", self.method, self.path);
        let expected = Expected {
            with_limits: self.client.caller == Caller::Key,
        };
        Ok(Answer::checked(operation, status, headers, bytes, expected))
    }
}

impl IntoFuture for Call {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let operation = format!("{} {}", self.method, self.path);
            self.try_send()
                .await
                .unwrap_or_else(|error| panic!("{operation}: {error:?}"))
        })
    }
}
