//! One client of a history: asks any node, and records what it asked and what it heard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::history::{Entity, History, Record};
use crate::support::{Addresses, Answer, Client, Dice};

/// How long a request is repeated until it is answered.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
const NEXT_ATTEMPT: Duration = Duration::from_millis(15);

/// What is asked of one entity.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) entity: Entity,
    /// In the words of the history.
    asked: Value,
    method: &'static str,
    path: String,
    body: Option<Value>,
    /// The tag that a reader has already.
    none_match: Option<String>,
    /// Repeated under its idempotency key until its outcome is known.
    keyed: bool,
    /// The field of the answer that names the entity, where the request makes it.
    names: Option<&'static str>,
    /// What a 200 or 201 tells, in the words of the history.
    shows: fn(&Value) -> Value,
}

impl Request {
    /// A read of what stands at the path.
    pub(super) fn get(entity: &Entity, path: &str, asked: Value) -> Self {
        Self {
            entity: entity.clone(),
            asked,
            method: "GET",
            path: path.to_owned(),
            body: None,
            none_match: None,
            keyed: false,
            names: None,
            shows: |_| json!({}),
        }
    }

    fn change(self, method: &'static str, body: Value) -> Self {
        Self {
            method,
            body: Some(body),
            ..self
        }
    }

    pub(super) fn post(self, body: Value) -> Self {
        self.change("POST", body)
    }

    pub(super) fn put(self, body: Value) -> Self {
        self.change("PUT", body)
    }

    pub(super) fn patch(self, body: Value) -> Self {
        self.change("PATCH", body)
    }

    pub(super) fn delete(self) -> Self {
        Self {
            method: "DELETE",
            ..self
        }
    }

    pub(super) fn showing(self, shows: fn(&Value) -> Value) -> Self {
        Self { shows, ..self }
    }

    pub(super) fn keyed(self) -> Self {
        Self {
            keyed: true,
            ..self
        }
    }

    /// Makes the entity, which this field of the answer names.
    pub(super) fn naming(self, field: &'static str) -> Self {
        Self {
            names: Some(field),
            ..self
        }
    }

    /// Only if the entity still has this tag.
    pub(super) fn if_match(mut self, tag: Option<String>) -> Self {
        if let Some(tag) = tag {
            self.asked["if_match"] = json!(tag);
        }
        self
    }

    /// Only if the entity no longer has this tag.
    pub(super) fn if_none_match(self, none_match: Option<String>) -> Self {
        Self { none_match, ..self }
    }

    /// What an answer tells, in the words of the history.
    fn told(&self, answer: &Answer) -> Value {
        let mut told = match answer.status {
            200 | 201 => (self.shows)(&answer.body),
            204 => json!({}),
            304 => json!({"code": "not_modified"}),
            _ => return json!({"code": answer["error"]["code"]}),
        };
        if let Some(tag) = answer.header_opt("etag").filter(|tag| tag.starts_with('"')) {
            told["tag"] = json!(tag);
        }
        told
    }
}

/// How one attempt ended.
enum Outcome {
    Answered(Box<Answer>),
    /// It may have been done, now or later.
    Unknown,
    /// Nothing was done, and the server said so or never heard of it.
    Nothing,
}

impl Outcome {
    fn of(answer: Answer) -> Self {
        let details = &answer["error"]["details"];
        match answer.status {
            429 => Self::Nothing,
            500 | 503 if details["outcome"] == "none" => Self::Nothing,
            500 | 503 => Self::Unknown,
            409 if answer["error"]["code"] == "idempotency_in_progress" => Self::Unknown,
            _ => Self::Answered(Box::new(answer)),
        }
    }
}

/// One client, which asks one thing after the other.
pub(super) struct Caller {
    pub(super) number: usize,
    pub(super) client: Client,
    pub(super) addresses: Addresses,
    pub(super) history: Arc<History>,
    pub(super) dice: Dice,
    /// How long it waits for an answer before it hangs up.
    pub(super) patience: Duration,
    pub(super) marks: usize,
    /// Whether a list's page and its total are of one instant.
    pub(super) sees_whole_lists: bool,
}

impl Caller {
    /// A text that no other request of the history has.
    pub(super) fn mark(&mut self) -> String {
        self.marks += 1;
        format!("c{}-{}", self.number, self.marks)
    }

    /// True once in so many times.
    pub(super) fn once_in(&mut self, times: u64) -> bool {
        self.dice.below(times) == 0
    }

    /// One of these, by chance.
    pub(super) fn one_of<T: Clone>(&mut self, these: &[T]) -> Option<T> {
        let bound = these.len().max(1) as u64;
        let place = usize::try_from(self.dice.below(bound)).unwrap();
        these.get(place).cloned()
    }

    async fn attempt(&mut self, request: &Request, key: Option<&str>) -> Outcome {
        let client = self.client.at(&self.addresses.any(&mut self.dice));
        let mut call = match &request.body {
            Some(body) => client
                .call(request.method, &request.path)
                .bytes(serde_json::to_vec(body).unwrap()),
            None => client.call(request.method, &request.path),
        };
        for (name, value) in [
            ("idempotency-key", key),
            ("if-match", request.asked["if_match"].as_str()),
            ("if-none-match", request.none_match.as_deref()),
        ] {
            if let Some(value) = value {
                call = call.with(name, value);
            }
        }
        match tokio::time::timeout(self.patience, call.try_send()).await {
            Ok(Ok(answer)) => Outcome::of(answer),
            Ok(Err(error)) if error.is_connect() => Outcome::Nothing,
            Ok(Err(_)) | Err(_) => Outcome::Unknown,
        }
    }

    /// Asks once, or under a key until the outcome is known, and records it. Gives the answer, if
    /// there was one.
    pub(super) async fn ask(&mut self, request: &Request) -> Option<Answer> {
        let (call, outcome) = if request.keyed {
            let key = self.mark();
            self.until_known(request, &key).await
        } else {
            (self.history.now(), self.attempt(request, None).await)
        };
        let mut entity = request.entity.clone();
        let answer = match outcome {
            Outcome::Answered(answer) => Some(*answer),
            Outcome::Unknown => None,
            Outcome::Nothing => return None,
        };
        if let (Some(field), Some(answer)) = (request.names, &answer) {
            entity.id = answer.id(field);
        }
        let told = answer.as_ref().map(|answer| request.told(answer));
        self.history.add(Record {
            entity,
            client: self.number,
            call,
            told: told.map(|told| (self.history.now(), told)),
            asked: request.asked.clone(),
        });
        answer
    }

    /// Asks until there is an answer; each time is recorded.
    pub(super) async fn surely(&mut self, request: &Request) -> Answer {
        let end = Instant::now() + ANSWERED_WITHIN;
        loop {
            if let Some(answer) = self.ask(request).await {
                return answer;
            }
            Self::wait(end).await;
        }
    }

    /// Asks under a key until the outcome is known; gives it with the time of calling. No key keeps a
    /// refusal: it is the last attempt's alone, and what was sent before without an answer may still
    /// be done. That is recorded as unknown, unless it would make an entity that nobody can name.
    async fn until_known(&mut self, request: &Request, key: &str) -> (u64, Outcome) {
        let end = Instant::now() + ANSWERED_WITHIN;
        let first = self.history.now();
        let mut is_sent = false;
        loop {
            let last = self.history.now();
            match self.attempt(request, Some(key)).await {
                Outcome::Answered(answer)
                    if is_sent && answer.status >= 400 && request.names.is_none() =>
                {
                    self.history.add(Record {
                        entity: request.entity.clone(),
                        client: self.number,
                        call: first,
                        told: None,
                        asked: request.asked.clone(),
                    });
                    return (last, Outcome::Answered(answer));
                }
                Outcome::Answered(answer) => return (first, Outcome::Answered(answer)),
                Outcome::Unknown => is_sent = true,
                Outcome::Nothing => {}
            }
            Self::wait(end).await;
        }
    }

    /// Waits before the next attempt.
    async fn wait(end: Instant) {
        assert!(Instant::now() < end, "not answered in time");
        tokio::time::sleep(NEXT_ATTEMPT).await;
    }

    /// Reads a list, and records it as a read of all entities of its kind. A list stands on one
    /// page here, so its total is the number of what it shows; on MongoDB the two are read one
    /// after the other.
    pub(super) async fn list(&mut self, request: &Request, shown: fn(&Value) -> (String, Value)) {
        let call = self.history.now();
        let Outcome::Answered(answer) = self.attempt(request, None).await else {
            return;
        };
        let answer = answer.expect(200);
        let found: BTreeMap<String, Value> = answer.data().iter().map(shown).collect();
        let is_whole = found.len() as u64 == answer.total();
        assert!(is_whole || !self.sees_whole_lists, "{answer}");
        let record = Record {
            entity: request.entity.clone(),
            client: self.number,
            call,
            told: Some((self.history.now(), Value::Null)),
            asked: request.asked.clone(),
        };
        self.history.add_list(record, found);
    }
}
