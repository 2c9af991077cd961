//! A person at the console without a browser: a session's cookie and its CSRF token over plain HTTP.

use reqwest::header::{HeaderMap, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use serde_json::json;

use super::answer::check_protection;
use super::client::{Client, no_tls};
use super::{Account, Nginx, Server};

/// The password of every person that the tests make.
pub(crate) const PASSWORD: &str = "correct horse battery staple";

/// A person, signed in or not.
#[derive(Clone)]
pub(crate) struct Person {
    http: reqwest::Client,
    base: String,
    /// What the browser keeps of the session.
    pub(crate) cookie: Option<String>,
    /// What it keeps of whoever has signed in, also after the session.
    pub(crate) known_by: Option<String>,
    /// The identifier of the account's user; empty for anybody else.
    pub(crate) user: String,
    /// What a proxy on the way adds to each request.
    added: Vec<(&'static str, String)>,
}

/// What the server has answered.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) headers: HeaderMap,
}

impl Seen {
    /// Fails where it has another status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    /// Where it leads on.
    pub(crate) fn location(&self) -> &str {
        self.header(LOCATION.as_str())
    }

    /// A header that is there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    /// What a hidden field or a meta element holds.
    pub(crate) fn held(&self, name: &str) -> String {
        let marks = [
            format!("name=\"{name}\" content=\""),
            format!("name=\"{name}\" value=\""),
        ];
        let found = marks.iter().find_map(|mark| {
            let (_, behind) = self.text.split_once(mark)?;
            Some(behind.split('"').next().unwrap_or_default().to_owned())
        });
        found.unwrap_or_else(|| panic!("the page holds no {name}: {}", self.text))
    }
}

impl Person {
    /// Somebody whom the server does not know.
    pub(crate) fn stranger(server: &Server) -> Self {
        Self::at(&server.address())
    }

    /// Whoever has the operator token, signed in at a server that speaks TLS.
    pub(crate) async fn operator_over_tls(server: &Server, tls: rustls::ClientConfig) -> Self {
        let mut person = Self::by(tls, format!("https://{}", server.address()));
        person
            .sign_in(&[("token", super::OPERATOR)])
            .await
            .expect(303);
        person
    }

    /// Somebody who comes over TLS through nginx.
    pub(crate) fn over_tls(nginx: &Nginx) -> Self {
        Self::by(nginx.trusting(), format!("https://{}", nginx.encrypted()))
    }

    fn at(address: &str) -> Self {
        Self::by(no_tls(), format!("http://{address}"))
    }

    fn by(tls: rustls::ClientConfig, base: String) -> Self {
        let http = reqwest::Client::builder()
            .redirect(Policy::none())
            .tls_backend_preconfigured(tls)
            .no_proxy();
        Self {
            http: http.build().unwrap(),
            base,
            cookie: None,
            known_by: None,
            user: String::new(),
            added: Vec::new(),
        }
    }

    /// Whoever has the operator token, signed in.
    pub(crate) async fn operator(server: &Server) -> Self {
        let mut person = Self::stranger(server);
        person
            .sign_in(&[("token", super::OPERATOR)])
            .await
            .expect(303);
        person
    }

    /// Whoever was invited by this link, with a password from now on.
    pub(crate) async fn invited(client: &Client, url: &str) -> Self {
        let (_, path) = url.split_once("/console/").unwrap();
        let mut person = Self::at(client.address());
        let fields = [("password", PASSWORD), ("repeated", PASSWORD)];
        let path = format!("/console/{path}");
        let accepted = person.post_without_token(&path, &fields).await.expect(303);
        person.keep(&accepted);
        person
    }

    /// A new user of an account with this role, invited and signed in.
    pub(crate) async fn user(account: &Account, role: &str) -> Self {
        let user = account.live().user(role).await;
        let path = format!("/v1/users/{user}/invitations");
        let invited = account.live().post(&path, json!({})).await.expect(201);
        let person = Self::invited(&account.anonymous(), &invited.id("url")).await;
        Self { user, ..person }
    }

    /// The same person over the interface.
    pub(crate) fn api(&self, account: &Account) -> Client {
        account.live().acting_for(&self.user)
    }

    /// The same with another cookie.
    /// The same person, who asks this `host:port`.
    pub(crate) fn through(&self, address: &str) -> Self {
        Self {
            base: format!("http://{address}"),
            ..self.clone()
        }
    }

    pub(crate) fn with_cookie(self, cookie: Option<String>) -> Self {
        Self { cookie, ..self }
    }

    /// The same behind a proxy that adds this header, or whoever writes it in a proxy's place.
    pub(crate) fn behind(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.added.push((name, value.into()));
        self
    }

    /// Tries to sign in with these fields.
    pub(crate) async fn sign_in(&mut self, fields: &[(&str, &str)]) -> Seen {
        let seen = self.post_without_token("/console/sign-in", fields).await;
        self.keep(&seen);
        seen
    }

    /// Keeps the session that an answer begins.
    fn keep(&mut self, seen: &Seen) {
        for line in seen.headers.get_all(SET_COOKIE) {
            let pair = line.to_str().unwrap().split(';').next().unwrap();
            let name = pair.trim_start_matches("__Host-");
            if name.starts_with("colloquy_session=") {
                self.cookie = Some(pair.to_owned());
            } else if name.starts_with("colloquy_browser=") {
                self.known_by = Some(pair.to_owned());
            }
        }
    }

    /// Reads a page.
    pub(crate) async fn get(&self, path: &str) -> Seen {
        self.seen(self.http.get(format!("{}{path}", self.base)))
            .await
    }

    /// The text of a page that there is.
    pub(crate) async fn page(&self, path: &str) -> String {
        self.get(path).await.expect(200).text
    }

    /// What every form of the session carries.
    pub(crate) async fn token(&self) -> String {
        self.get("/console/session").await.expect(200).held("csrf")
    }

    /// Sends a form of the session.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Seen {
        let token = self.token().await;
        let mut fields = fields.to_vec();
        fields.push(("csrf", &token));
        self.post_without_token(path, &fields).await
    }

    /// Sends a form as it is.
    pub(crate) async fn post_without_token(&self, path: &str, fields: &[(&str, &str)]) -> Seen {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.extend_pairs(fields);
        let request = self
            .http
            .post(format!("{}{path}", self.base))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body.finish());
        self.seen(request).await
    }

    /// Any request, with the session's cookie.
    pub(crate) async fn seen(&self, request: reqwest::RequestBuilder) -> Seen {
        let mut request = request.header("accept", "text/html,*/*;q=0.8");
        for (name, value) in &self.added {
            request = request.header(*name, value);
        }
        let cookies = [self.cookie.as_deref(), self.known_by.as_deref()];
        let cookies: Vec<&str> = cookies.into_iter().flatten().collect();
        let request = match cookies.is_empty() {
            false => request.header("cookie", cookies.join("; ")),
            true => request,
        };
        let answer = request.send().await.unwrap();
        let seen = Seen {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            text: answer.text().await.unwrap(),
        };
        check_protection(
            &seen.headers,
            seen.text.as_bytes(),
            format_args!("{seen:?}"),
        );
        seen
    }

    /// The client and the address, for a request that is unlike the others.
    pub(crate) fn raw(&self) -> (&reqwest::Client, &str) {
        (&self.http, &self.base)
    }
}
