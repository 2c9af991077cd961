//! What clients do to documents: write them on the main branch and on others, merge, put them into
//! the bin and out of it, read and list them and their versions.

use std::sync::Mutex;

use serde_json::{Value, json};

use super::caller::{Caller, Request};
use super::history::Entity;
use crate::support::Answer;
use crate::support::documents::DOCUMENTS;

/// Documents that are made at first, and how many at most.
const AT_FIRST: usize = 2;
const AT_MOST: usize = 4;
const BRANCHES: u64 = 2;
/// The parts of a text that change by themselves.
const FIELDS: usize = 3;
/// Lines between two fields that never change, so that a merge takes each field by itself.
const BETWEEN: usize = 5;

/// The text of a document with these fields.
fn text(fields: &[String]) -> String {
    let field = |(number, field): (usize, &String)| {
        let between = (0..BETWEEN).map(|line| format!("between {number} and the next: {line}\n"));
        format!("field {number}: {field}\n{}", between.collect::<String>())
    };
    fields.iter().enumerate().map(field).collect()
}

/// The fields of a text; the whole text where it is none of ours, which no model explains.
fn fields(content: &str) -> Vec<String> {
    let lines = content.lines().step_by(BETWEEN + 1);
    let fields = lines.map(|line| line.split_once(": ").unwrap_or_default().1.to_owned());
    let fields: Vec<String> = fields.collect();
    if text(&fields) == content {
        fields
    } else {
        vec![content.to_owned()]
    }
}

/// What clients know of a document and tell each other; it may be old.
#[derive(Clone)]
struct Known {
    entity: Entity,
    tag: Option<String>,
    fields: Vec<String>,
    versions: u64,
    branches: Vec<String>,
}

impl Known {
    /// A request to it, in the words of the history.
    fn request(&self, below: &str, asked: Value) -> Request {
        let path = format!("{DOCUMENTS}/{}{below}", self.entity.id);
        Request::get(&self.entity, &path, asked)
    }
}

/// The documents of a history: all of one account.
pub(super) struct Documents {
    known: Mutex<Vec<Known>>,
}

/// The fields of a document that the model has.
fn shown(body: &Value) -> Value {
    json!({"title": body["title"], "number": body["version_number"], "version": body["version"]})
}

fn whole(body: &Value) -> Value {
    json!({"shown": shown(body), "fields": fields(body["content"].as_str().unwrap())})
}

fn item(body: &Value) -> Value {
    let branch = body["branch"].as_str().filter(|branch| *branch != "main");
    json!({
        "number": body["number"], "id": body["id"], "branch": branch.unwrap_or_default(),
        "parents": body["parents"], "mark": body["message"].as_str().unwrap_or_default(),
    })
}

fn version(body: &Value) -> Value {
    match body["content"].as_str() {
        Some(content) => json!({"version": item(body), "fields": fields(content)}),
        None => json!({"version": item(body)}),
    }
}

/// A merge without anything to bring in makes no version.
fn merged(body: &Value) -> Value {
    if body["up_to_date"] == true {
        json!({})
    } else {
        version(body)
    }
}

fn versions(body: &Value) -> Value {
    let items: Vec<Value> = body["data"].as_array().unwrap().iter().map(item).collect();
    json!({"total": body["meta"]["total"], "items": items})
}

fn listed(body: &Value) -> (String, Value) {
    (body["id"].as_str().unwrap().to_owned(), shown(body))
}

impl Documents {
    /// A few documents.
    pub(super) async fn begin(caller: &mut Caller) -> Self {
        let documents = Self {
            known: Mutex::default(),
        };
        for _ in 0..AT_FIRST {
            documents.create(caller).await;
        }
        documents
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
        let title = caller.mark();
        let fields = vec![title.clone(); FIELDS];
        let kind = "document";
        let entity = Entity {
            kind,
            id: String::new(),
        };
        let asked = json!({"do": "create", "title": title, "fields": fields});
        let request = Request::get(&entity, DOCUMENTS, asked)
            .post(json!({"title": title, "content": text(&fields)}))
            .showing(whole)
            .keyed()
            .naming("id");
        let id = caller.surely(&request).await.id("id");
        self.known.lock().unwrap().push(Known {
            entity: Entity { kind, id },
            tag: None,
            fields,
            versions: 1,
            branches: Vec::new(),
        });
    }

    /// Does one thing, by chance.
    pub(super) async fn act(&self, caller: &mut Caller) {
        let known = self.any(caller);
        match caller.dice.below(24) {
            0..=4 => self.put(caller, &known).await,
            5..=6 => self.add(caller, &known, "").await,
            7..=8 => {
                let branch = format!("line-{}", caller.dice.below(BRANCHES));
                self.add(caller, &known, &branch).await;
            }
            9..=10 => self.merge(caller, &known).await,
            11 => self.bin(caller, &known).await,
            12..=16 => self.read(caller, &known).await,
            17..=18 => self.read_version(caller, &known).await,
            19..=20 => {
                caller.ask(&newest_versions(&known)).await;
            }
            21..=22 => self.list(caller).await,
            _ if self.entities().len() < AT_MOST => self.create(caller).await,
            _ => self.read(caller, &known).await,
        }
    }

    /// What was read last, with a mark in one field.
    fn changed(caller: &mut Caller, known: &Known) -> (String, Vec<String>) {
        let (mark, mut fields) = (caller.mark(), known.fields.clone());
        let place = usize::try_from(caller.dice.below(FIELDS as u64)).unwrap();
        fields[place].clone_from(&mark);
        (mark, fields)
    }

    async fn put(&self, caller: &mut Caller, known: &Known) {
        let (mark, fields) = Self::changed(caller, known);
        let mut asked = json!({"do": "put", "mark": mark, "fields": fields});
        let mut body = json!({"content": text(&fields)});
        if caller.once_in(3) {
            asked["title"] = json!(mark);
            body["title"] = json!(mark);
        }
        let tag = known.tag.clone().filter(|_| !caller.once_in(3));
        let request = known
            .request("", asked)
            .put(body)
            .showing(whole)
            .if_match(tag);
        let answer = caller.ask(&request).await;
        self.heard(known, answer);
    }

    /// Takes in an answer that shows the document.
    fn heard(&self, known: &Known, answer: Option<Answer>) {
        if let Some(answer) = answer.filter(|answer| answer.status == 200) {
            let read = fields(answer["content"].as_str().unwrap());
            let number = answer["version_number"].as_u64().unwrap();
            self.learn(&known.entity, |known| {
                known.tag = Some(answer.etag());
                known.versions = known.versions.max(number);
                if read.len() == FIELDS {
                    known.fields = read;
                }
            });
        }
    }

    /// Adds a version on the main branch (the empty name) or on another.
    async fn add(&self, caller: &mut Caller, known: &Known, branch: &str) {
        let (mark, fields) = Self::changed(caller, known);
        let asked = json!({"do": "add", "mark": mark, "fields": fields, "branch": branch});
        let mut body = json!({"content": text(&fields), "message": mark});
        if !branch.is_empty() {
            body["branch"] = json!(branch);
        }
        let request = known
            .request("/versions", asked)
            .post(body)
            .showing(version);
        let request = if caller.once_in(2) {
            request.keyed()
        } else {
            request
        };
        let answer = caller.ask(&request).await;
        if let Some(answer) = answer.filter(|answer| answer.status == 201) {
            let number = answer["number"].as_u64().unwrap();
            self.learn(&known.entity, |known| {
                known.versions = known.versions.max(number);
                if !branch.is_empty() && !known.branches.iter().any(|known| known == branch) {
                    known.branches.push(branch.to_owned());
                }
            });
        }
    }

    /// Merges a branch into the main one.
    async fn merge(&self, caller: &mut Caller, known: &Known) {
        let Some(branch) = caller.one_of(&known.branches) else {
            return;
        };
        let mark = caller.mark();
        let asked = json!({"do": "merge", "branch": branch, "mark": mark});
        let request = known
            .request("/merge", asked)
            .post(json!({"source": branch, "message": mark}))
            .showing(merged);
        let request = if caller.once_in(2) {
            request.keyed()
        } else {
            request
        };
        caller.ask(&request).await;
    }

    /// Puts it into the bin if it is as it was last read, and out of it again.
    async fn bin(&self, caller: &mut Caller, known: &Known) {
        let delete = known.request("", json!({"do": "delete"})).delete();
        caller.ask(&delete.if_match(known.tag.clone())).await;
        self.restore(caller, known).await;
    }

    async fn restore(&self, caller: &mut Caller, known: &Known) {
        let request = known
            .request("/restore", json!({"do": "restore"}))
            .post(json!({}))
            .showing(whole)
            .keyed();
        let answer = caller.ask(&request).await;
        self.heard(known, answer);
    }

    async fn read(&self, caller: &mut Caller, known: &Known) {
        let tag = known.tag.clone().filter(|_| caller.once_in(3));
        let request = known
            .request("", json!({"do": "get"}))
            .showing(whole)
            .if_none_match(tag);
        let answer = caller.ask(&request).await;
        self.heard(known, answer);
    }

    async fn read_version(&self, caller: &mut Caller, known: &Known) {
        // Sometimes one that is not there yet.
        let number = caller.dice.below(known.versions + 2) + 1;
        caller.ask(&version_at(known, number)).await;
    }

    /// Lists them, or what is in the bin.
    async fn list(&self, caller: &mut Caller) {
        let binned = caller.once_in(3);
        let (path, status) = if binned {
            ("&deleted=true", "deleted")
        } else {
            ("", "")
        };
        let entity = Entity {
            kind: "document",
            id: String::new(),
        };
        let path = format!("{DOCUMENTS}?limit=100{path}");
        let request = Request::get(&entity, &path, json!({"do": "listed", "status": status}));
        caller.list(&request, listed).await;
    }

    /// Reads everything, when nobody writes any more.
    pub(super) async fn read_all(&self, caller: &mut Caller) {
        let all = self.known.lock().unwrap().clone();
        for known in &all {
            self.restore(caller, known).await;
            let get = known.request("", json!({"do": "get"})).showing(whole);
            caller.surely(&get).await;
            let newest = caller.surely(&newest_versions(known)).await;
            for number in 1..=newest.total() {
                caller.surely(&version_at(known, number)).await;
            }
        }
        self.list(caller).await;
    }
}

fn newest_versions(known: &Known) -> Request {
    let path = "/versions?limit=100";
    known
        .request(path, json!({"do": "versions"}))
        .showing(versions)
}

fn version_at(known: &Known, number: u64) -> Request {
    let path = format!("/versions/{number}");
    known
        .request(&path, json!({"do": "version", "number": number}))
        .showing(version)
}
