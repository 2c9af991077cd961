//! What clients do to conversations: send, edit, close, reopen, change, read and list them.

use std::sync::Mutex;

use serde_json::{Value, json};

use super::caller::{Caller, Request};
use super::history::Entity;
use crate::support::Answer;

/// Conversations that are made at first, and how many at most.
const AT_FIRST: usize = 3;
const AT_MOST: usize = 5;
/// Edits go to one of the newest messages, so that they meet.
const EDITED: usize = 4;

/// A message that somebody has sent.
#[derive(Clone)]
struct Sent {
    number: u64,
    id: String,
    tag: String,
}

/// What clients know of a conversation and tell each other; it may be old.
#[derive(Clone)]
struct Known {
    entity: Entity,
    tag: Option<String>,
    messages: Vec<Sent>,
}

impl Known {
    fn path(&self) -> String {
        format!("/v1/conversations/{}", self.entity.id)
    }

    /// A request to it, in the words of the history.
    fn request(&self, below: &str, asked: Value) -> Request {
        Request::get(&self.entity, &format!("{}{below}", self.path()), asked)
    }
}

/// The conversations of a history: all of one customer.
pub(super) struct Conversations {
    customer: String,
    known: Mutex<Vec<Known>>,
}

/// The fields of a conversation that the model has.
fn shown(body: &Value) -> Value {
    json!({"status": body["status"], "messages": body["message_count"], "mark": word(&body["metadata"]["mark"])})
}

fn whole(body: &Value) -> Value {
    json!({"shown": shown(body)})
}

fn message(body: &Value) -> Value {
    json!({"number": body["seq"], "text": body["content"]})
}

fn messages(body: &Value) -> Value {
    json!({"total": body["meta"]["total"], "items": items(body, message)})
}

fn revision(body: &Value) -> Value {
    json!({"text": body["content"]})
}

fn revisions(body: &Value) -> Value {
    json!({"total": body["meta"]["total"], "items": items(body, revision)})
}

fn event(body: &Value) -> Value {
    let data = &body["data"];
    json!({
        "number": body["seq"], "kind": body["event"], "text": word(&data["content"]), "status": word(&data["status"]),
        "mark": word(&data["metadata"]["mark"]), "reason": word(&data["reason"]),
    })
}

fn events(body: &Value) -> Value {
    json!({"total": body["meta"]["total"], "items": items(body, event)})
}

fn listed(body: &Value) -> (String, Value) {
    (word(&body["conversation_id"]).to_owned(), shown(body))
}

/// A string, empty where there is none.
fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(body: &Value, item: fn(&Value) -> Value) -> Vec<Value> {
    body["data"].as_array().unwrap().iter().map(item).collect()
}

impl Conversations {
    /// A customer, and a few conversations of theirs.
    pub(super) async fn begin(caller: &mut Caller) -> Self {
        let conversations = Self {
            customer: caller.client.customer().await,
            known: Mutex::default(),
        };
        for _ in 0..AT_FIRST {
            conversations.create(caller).await;
        }
        conversations
    }

    fn any(&self, caller: &mut Caller) -> Known {
        let known = self.known.lock().unwrap().clone();
        caller.one_of(&known).unwrap()
    }

    /// All of them.
    pub(super) fn entities(&self) -> Vec<Entity> {
        let known = self.known.lock().unwrap();
        known.iter().map(|known| known.entity.clone()).collect()
    }

    fn learn(&self, entity: &Entity, learn: impl FnOnce(&mut Known)) {
        let mut known = self.known.lock().unwrap();
        learn(
            known
                .iter_mut()
                .find(|known| &known.entity == entity)
                .unwrap(),
        );
    }

    async fn create(&self, caller: &mut Caller) {
        let text = caller.mark();
        let kind = "conversation";
        let entity = Entity {
            kind,
            id: String::new(),
        };
        let request = Request::get(
            &entity,
            "/v1/conversations",
            json!({"do": "create", "text": text}),
        )
        .post(json!({"customer_id": self.customer, "initial_message": text}))
        .showing(whole)
        .keyed()
        .naming("conversation_id");
        let id = caller.surely(&request).await.id("conversation_id");
        self.known.lock().unwrap().push(Known {
            entity: Entity { kind, id },
            tag: None,
            messages: Vec::new(),
        });
    }

    /// Does one thing, by chance.
    pub(super) async fn act(&self, caller: &mut Caller) {
        let known = self.any(caller);
        match caller.dice.below(24) {
            0..=5 => self.send(caller, &known, "customer").await,
            6..=7 => self.send(caller, &known, "agent").await,
            8..=9 => self.edit(caller, &known).await,
            10 => self.close(caller, &known).await,
            11 => self.reopen(caller, &known).await,
            12..=14 => self.set(caller, &known).await,
            15..=16 => self.read(caller, &known).await,
            17..=20 => self.read_below(caller, &known).await,
            21..=22 => self.list(caller).await,
            _ if self.entities().len() < AT_MOST => self.create(caller).await,
            _ => self.read(caller, &known).await,
        }
    }

    async fn send(&self, caller: &mut Caller, known: &Known, sender: &str) {
        let text = caller.mark();
        let asked = json!({"do": "send", "text": text, "sender": sender});
        let request = known
            .request("/messages", asked)
            .post(json!({"content": text, "sender_type": sender}))
            .showing(message);
        let request = if caller.once_in(3) {
            request.keyed()
        } else {
            request
        };
        let answer = caller.ask(&request).await;
        if let Some(answer) = answer.filter(|answer| answer.status == 201) {
            let sent = Sent {
                number: answer["seq"].as_u64().unwrap(),
                id: answer.id("message_id"),
                tag: answer.etag(),
            };
            self.learn(&known.entity, |known| known.messages.push(sent));
        }
    }

    async fn edit(&self, caller: &mut Caller, known: &Known) {
        let newest = known.messages.len().saturating_sub(EDITED);
        let Some(sent) = caller.one_of(&known.messages[newest..]) else {
            return;
        };
        let text = caller.mark();
        let tag = caller.once_in(2).then_some(sent.tag);
        let asked = json!({"do": "edit", "number": sent.number, "text": text});
        let request = known
            .request(&format!("/messages/{}", sent.id), asked)
            .patch(json!({"content": text}))
            .showing(message)
            .if_match(tag);
        let answer = caller.ask(&request).await;
        if let Some(answer) = answer.filter(|answer| answer.status == 200) {
            let tag = answer.etag();
            self.learn(&known.entity, |known| {
                let sent = known
                    .messages
                    .iter_mut()
                    .find(|known| known.number == sent.number);
                sent.unwrap().tag = tag;
            });
        }
    }

    async fn change(&self, caller: &mut Caller, known: &Known, request: &Request) {
        let answer = caller.ask(request).await;
        self.heard(known, answer);
    }

    /// Takes in the tag of an answer that shows the conversation.
    fn heard(&self, known: &Known, answer: Option<Answer>) {
        if let Some(answer) = answer.filter(|answer| answer.status == 200) {
            self.learn(&known.entity, |known| known.tag = Some(answer.etag()));
        }
    }

    async fn close(&self, caller: &mut Caller, known: &Known) {
        let reason = caller.mark();
        let tag = known.tag.clone().filter(|_| caller.once_in(3));
        let request = known
            .request("/close", json!({"do": "close", "mark": reason}))
            .post(json!({"reason": reason}))
            .showing(whole)
            .if_match(tag);
        let request = if caller.once_in(2) {
            request.keyed()
        } else {
            request
        };
        self.change(caller, known, &request).await;
    }

    /// It leaves no mark of its own in the log, so its outcome is always made known.
    async fn reopen(&self, caller: &mut Caller, known: &Known) {
        let request = known
            .request("/reopen", json!({"do": "reopen"}))
            .post(json!({}))
            .showing(whole)
            .keyed();
        self.change(caller, known, &request).await;
    }

    async fn set(&self, caller: &mut Caller, known: &Known) {
        let mark = caller.mark();
        let mut asked = json!({"do": "set", "mark": mark});
        let mut body = json!({"metadata": {"mark": mark}});
        if let Some(status) = caller
            .one_of(&["active", "pending", "closed", ""])
            .filter(|status| !status.is_empty())
        {
            asked["status"] = json!(status);
            body["status"] = json!(status);
        }
        let tag = known.tag.clone().filter(|_| caller.once_in(2));
        let request = known
            .request("", asked)
            .patch(body)
            .showing(whole)
            .if_match(tag);
        self.change(caller, known, &request).await;
    }

    async fn read(&self, caller: &mut Caller, known: &Known) {
        let tag = known.tag.clone().filter(|_| caller.once_in(3));
        let request = known
            .request("", json!({"do": "get"}))
            .showing(whole)
            .if_none_match(tag);
        self.change(caller, known, &request).await;
    }

    /// Reads what stands in it.
    async fn read_below(&self, caller: &mut Caller, known: &Known) {
        let sent = caller.one_of(&known.messages);
        let request = match (caller.dice.below(5), sent) {
            (0, Some(sent)) => known
                .request(
                    &format!("/messages/{}", sent.id),
                    json!({"do": "message", "number": sent.number}),
                )
                .showing(message),
            (1, Some(sent)) => known
                .request(
                    &format!("/messages/{}/revisions?limit=100", sent.id),
                    json!({"do": "revisions", "number": sent.number}),
                )
                .showing(revisions),
            (2, Some(sent)) => known
                .request(
                    &format!("/messages?limit=100&after_seq={}", sent.number),
                    json!({"do": "messages", "after": sent.number}),
                )
                .showing(messages),
            (3, _) => known_events(known, caller.dice.below(100)),
            _ => last_messages(known),
        };
        caller.ask(&request).await;
    }

    /// Lists them, by status or all.
    async fn list(&self, caller: &mut Caller) {
        let status = caller.one_of(&["", "active", "pending", "closed"]).unwrap();
        let mut path = format!("/v1/conversations?limit=100&customer_id={}", self.customer);
        if !status.is_empty() {
            path = format!("{path}&status={status}");
        }
        let entity = Entity {
            kind: "conversation",
            id: String::new(),
        };
        let request = Request::get(&entity, &path, json!({"do": "listed", "status": status}));
        caller.list(&request, listed).await;
    }

    /// Reads everything, when nobody writes any more.
    pub(super) async fn read_all(&self, caller: &mut Caller) {
        let all = self.known.lock().unwrap().clone();
        for known in &all {
            caller
                .surely(&known.request("", json!({"do": "get"})).showing(whole))
                .await;
            caller.surely(&last_messages(known)).await;
            let mut after = 0;
            loop {
                let page = caller.surely(&known_events(known, after)).await;
                after += page.data().len() as u64;
                if page.data().is_empty() {
                    break;
                }
            }
        }
        self.list(caller).await;
    }
}

fn last_messages(known: &Known) -> Request {
    let path = "/messages?limit=100&before_seq=1000000";
    known
        .request(path, json!({"do": "messages"}))
        .showing(messages)
}

fn known_events(known: &Known, after: u64) -> Request {
    let path = format!("/events?limit=100&after={after}");
    known
        .request(&path, json!({"do": "events", "after": after}))
        .showing(events)
}
