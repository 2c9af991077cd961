//! Random histories of documents against a plain model: what a document shows is what the model
//! says, its `ETag` changes with it and stays where nothing changed, and a document loaded anew
//! (passivated, or after kill -9) is the one that was in memory, byte for byte.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::support::documents::DOCUMENTS;
use crate::support::git::{Triple, merge_file};
use crate::support::{Answer, Client, Dice, Server, Setup, sized, until};

fn histories() -> u64 {
    sized(4, 1)
}

const STEPS: u64 = 130;
/// Steps between two times at which the document is loaded anew; every third time the server is
/// killed.
const LOADED_ANEW_EVERY: u64 = 13;
const MARKS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
const LINES: [&str; 5] = ["one\n", "two\n", "three\n", "four\n", "five\n"];

/// A version as the model knows it.
struct Version {
    id: String,
    content: String,
    parents: Vec<usize>,
    /// Empty: the head's.
    branch: String,
    label: Option<String>,
}

/// What a document must be.
struct Model {
    shown: Map<String, Value>,
    versions: Vec<Version>,
    head: usize,
    deleted: bool,
    comments: BTreeMap<String, (String, bool)>,
    shares: BTreeSet<String>,
    people: BTreeMap<String, String>,
    events: u64,
}

/// What a step must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    /// So many events, and the document shows something else.
    Shown(u64),
    /// An event of what stands beside it: a side line, a comment, a link, a collaborator.
    Beside,
    Nothing,
}

/// One history: the document, its model, and chance.
struct Play {
    c: Client,
    at: String,
    users: Vec<String>,
    dice: Dice,
    model: Model,
    /// Body and tag as they were read last; none while it is in the bin.
    seen: Option<(Value, String)>,
}

/// What a new version does: on the head's line it is shown.
fn on_line(branch: &str) -> Does {
    if branch.is_empty() {
        Does::Shown(1)
    } else {
        Does::Beside
    }
}

impl Model {
    fn of(made: &Answer) -> Self {
        let mut shown = made.body.as_object().unwrap().clone();
        shown.remove("updated_at");
        let first = Version {
            id: made.id("version"),
            content: made["content"].as_str().unwrap().to_owned(),
            parents: Vec::new(),
            branch: String::new(),
            label: None,
        };
        let (comments, shares, people) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self {
            shown,
            versions: vec![first],
            head: 0,
            deleted: false,
            comments,
            shares,
            people,
            events: 1,
        }
    }

    /// Adds a version; one on the head's line becomes the head.
    fn add(&mut self, id: String, content: String, parents: Vec<usize>, branch: &str) {
        if branch.is_empty() {
            self.head = self.versions.len();
            self.shown.insert("version".to_owned(), json!(id));
            self.shown
                .insert("version_number".to_owned(), json!(self.versions.len() + 1));
            self.shown.insert("content".to_owned(), json!(content));
        }
        self.versions.push(Version {
            id,
            content,
            parents,
            branch: branch.to_owned(),
            label: None,
        });
    }

    fn tip(&self, branch: &str) -> Option<usize> {
        self.versions
            .iter()
            .rposition(|version| version.branch == branch)
    }

    fn labelled(&self, label: &str) -> Option<usize> {
        self.versions
            .iter()
            .position(|version| version.label.as_deref() == Some(label))
    }

    fn taken(&self, mark: &str) -> bool {
        self.tip(mark).is_some() || self.labelled(mark).is_some()
    }

    fn ancestors(&self, of: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::from([of]);
        for parent in &self.versions[of].parents {
            found.extend(self.ancestors(*parent));
        }
        found
    }

    /// The newest of the common ancestors that are no ancestor of another one.
    fn base(&self, one: usize, other: usize) -> usize {
        let common: BTreeSet<usize> = self
            .ancestors(one)
            .intersection(&self.ancestors(other))
            .copied()
            .collect();
        let below = |version: &usize| {
            common
                .iter()
                .any(|of| of != version && self.ancestors(*of).contains(version))
        };
        *common.iter().rfind(|version| !below(version)).unwrap()
    }

    fn merged(&self, target: usize, source: usize, options: &[&str]) -> (String, usize) {
        let text = |at: usize| self.versions[at].content.clone();
        let triple = Triple {
            base: text(self.base(target, source)),
            ours: text(target),
            theirs: text(source),
        };
        merge_file(&triple, options)
    }
}

impl Play {
    async fn begin(c: Client, seed: u64) -> Self {
        let mut users = Vec::new();
        for _ in 0..3 {
            users.push(c.user("agent").await);
        }
        let body =
            json!({"title": "Begun", "content": "one\ntwo\nthree\n", "metadata": {"seed": seed}});
        let made = c.post(DOCUMENTS, body).await.expect(201);
        let (at, model) = (made.header("location").to_owned(), Model::of(&made));
        let seen = Some((made.body.clone(), made.etag()));
        Self {
            c,
            at,
            users,
            dice: Dice::new(seed),
            model,
            seen,
        }
    }

    fn roll(&mut self, bound: usize) -> usize {
        usize::try_from(self.dice.below(bound as u64)).unwrap()
    }

    fn text(&mut self) -> String {
        (0..self.roll(6))
            .map(|_| LINES[self.roll(LINES.len())])
            .collect()
    }

    fn mark(&mut self) -> &'static str {
        MARKS[self.roll(MARKS.len())]
    }

    async fn post(&self, below: &str, body: Value) -> Answer {
        self.c.post(&format!("{}/{below}", self.at), body).await
    }

    /// One random change, or one that must be refused; what it must do.
    async fn step(&mut self) -> Does {
        match self.roll(17) {
            0..=3 => self.put().await,
            4..=6 => self.add_version().await,
            7 => self.begin_line_at_an_older_version().await,
            8 => self.restore_version().await,
            9..=10 => self.merge().await,
            11..=12 => self.comment().await,
            13 => self.share().await,
            14 => self.people().await,
            15 => self.out_of_date().await,
            _ => self.bin().await,
        }
    }

    async fn put(&mut self) -> Does {
        let mut body = Map::new();
        for (field, value) in [
            ("title", json!(["Begun", "Other", "Third"][self.roll(3)])),
            (
                "content_type",
                json!(["text/markdown", "text/plain"][self.roll(2)]),
            ),
            ("metadata", json!({"n": self.roll(3)})),
        ] {
            if self.roll(3) == 0 {
                body.insert(field.to_owned(), value);
            }
        }
        let content = (self.roll(2) == 0).then(|| self.text());
        let told = body
            .iter()
            .any(|(field, value)| self.model.shown[field] != *value);
        let written = content
            .as_ref()
            .filter(|text| self.model.shown["content"] != text.as_str())
            .cloned();
        self.model.shown.extend(body.clone());
        body.extend(content.map(|text| ("content".to_owned(), json!(text))));
        let now = self.c.put(&self.at, Value::Object(body)).await.expect(200);
        let events = u64::from(told) + u64::from(written.is_some());
        if let Some(text) = written {
            self.model
                .add(now.id("version"), text, vec![self.model.head], "");
        }
        if events == 0 {
            Does::Nothing
        } else {
            Does::Shown(events)
        }
    }

    async fn add_version(&mut self) -> Does {
        let (text, branch, label) = (self.text(), self.mark(), self.mark());
        let (on_branch, with_label) = (self.roll(2) == 0, self.roll(4) == 0 && branch != label);
        let mut body = json!({"content": text});
        if on_branch {
            body["branch"] = json!(branch);
        }
        if with_label {
            body["label"] = json!(label);
        }
        let is_label =
            on_branch && self.model.tip(branch).is_none() && self.model.labelled(branch).is_some();
        let made = self.post("versions", body).await;
        if is_label || (with_label && self.model.taken(label)) {
            made.error(409, "conflict", "*");
            return Does::Nothing;
        }
        let branch = if on_branch { branch } else { "" };
        let parent = if on_branch {
            self.model.tip(branch).unwrap_or(self.model.head)
        } else {
            self.model.head
        };
        self.model
            .add(made.expect(201).id("id"), text, vec![parent], branch);
        self.model.versions.last_mut().unwrap().label = with_label.then(|| label.to_owned());
        on_line(branch)
    }

    async fn begin_line_at_an_older_version(&mut self) -> Does {
        let (text, parent) = (self.text(), self.roll(self.model.versions.len()));
        let named = format!("v{}", self.model.versions.len() + 1);
        let tip = parent == self.model.head || {
            let branch = &self.model.versions[parent].branch;
            !branch.is_empty() && self.model.tip(branch) == Some(parent)
        };
        let body = json!({"content": text, "parent": format!("{}", parent + 1)});
        let made = self.post("versions", body).await.expect(201);
        let branch = if tip {
            self.model.versions[parent].branch.clone()
        } else {
            named
        };
        self.model.add(made.id("id"), text, vec![parent], &branch);
        on_line(&branch)
    }

    async fn restore_version(&mut self) -> Does {
        let older = self.roll(self.model.versions.len());
        let made = self
            .post(&format!("versions/{}/restore", older + 1), json!({}))
            .await
            .expect(201);
        let text = self.model.versions[older].content.clone();
        self.model
            .add(made.id("id"), text, vec![self.model.head], "");
        Does::Shown(1)
    }

    async fn merge(&mut self) -> Does {
        let (strategy, option) = [
            ("fail", ""),
            ("ours", "--ours"),
            ("theirs", "--theirs"),
            ("union", "--union"),
        ][self.roll(4)];
        let source = self.roll(self.model.versions.len());
        let branch = self.mark();
        let (target, into) = match self.model.tip(branch).filter(|_| self.roll(3) == 0) {
            Some(tip) => (tip, branch),
            None => (self.model.head, "main"),
        };
        let body =
            json!({"source": format!("{}", source + 1), "target": into, "strategy": strategy});
        let answer = self.post("merge", body).await;
        if self.model.ancestors(target).contains(&source) {
            assert_eq!(answer.expect(200)["up_to_date"], true);
            return Does::Nothing;
        }
        let options: Vec<&str> = Some(option)
            .filter(|option| !option.is_empty())
            .into_iter()
            .collect();
        let (text, conflicts) = self.model.merged(target, source, &options);
        if strategy == "fail" && conflicts > 0 {
            answer.error(409, "merge_conflict", "*");
            return Does::Nothing;
        }
        let branch = self.model.versions[target].branch.clone();
        self.model.add(
            answer.expect(201).id("id"),
            text,
            vec![target, source],
            &branch,
        );
        on_line(&branch)
    }

    async fn comment(&mut self) -> Does {
        let n = self.roll(4);
        let some = self.model.comments.keys().nth(n).cloned();
        let Some(id) = some else {
            let text = self.model.shown["content"].as_str().unwrap();
            let lines = text.lines().count();
            let body = json!({"start_line": 1, "end_line": lines.max(1), "body": "hm"});
            let made = self.post("comments", body).await;
            if lines == 0 {
                made.error(400, "invalid_request", "start_line");
                return Does::Nothing;
            }
            self.model
                .comments
                .insert(made.expect(201).id("comment_id"), ("hm".to_owned(), false));
            return Does::Beside;
        };
        let path = format!("{}/comments/{id}", self.at);
        if self.roll(3) == 0 {
            self.c.delete(&path).await.expect(204);
            self.model.comments.remove(&id);
            return Does::Beside;
        }
        let new = (["hm", "well"][self.roll(2)].to_owned(), self.roll(2) == 0);
        self.c
            .patch(&path, json!({"body": new.0, "resolved": new.1}))
            .await
            .expect(200);
        let old = self.model.comments.insert(id, new.clone());
        if old == Some(new) {
            Does::Nothing
        } else {
            Does::Beside
        }
    }

    async fn share(&mut self) -> Does {
        let n = self.roll(3);
        let some = self.model.shares.iter().nth(n).cloned();
        match some {
            Some(id) => {
                self.c
                    .delete(&format!("{}/share/{id}", self.at))
                    .await
                    .expect(204);
                self.model.shares.remove(&id);
            }
            None => {
                let (id, link) = self.c.share(&self.at, json!({"role": "commenter"})).await;
                // A use is counted without an event, and nothing of the document changes.
                let holder = Client::anonymous(&format!("http://{}", self.c.address()));
                holder
                    .get(&link)
                    .with("accept", "application/json")
                    .await
                    .expect(200);
                self.model.shares.insert(id);
            }
        }
        Does::Beside
    }

    async fn people(&mut self) -> Does {
        let n = self.roll(self.users.len());
        let user = self.users[n].clone();
        let role = ["viewer", "commenter", "editor"][self.roll(3)].to_owned();
        let list = format!("{}/collaborators", self.at);
        match (self.roll(3), self.model.people.contains_key(&user)) {
            (0, true) => {
                self.c.delete(&format!("{list}/{user}")).await.expect(204);
                self.model.people.remove(&user);
                Does::Beside
            }
            (_, true) => {
                self.c
                    .put(&format!("{list}/{user}"), json!({"role": role}))
                    .await
                    .expect(200);
                let old = self.model.people.insert(user, role.clone());
                if old == Some(role) {
                    Does::Nothing
                } else {
                    Does::Beside
                }
            }
            (_, false) => {
                self.c
                    .post(&list, json!({"user_id": user, "role": role}))
                    .await
                    .expect(201);
                self.model.people.insert(user, role);
                Does::Beside
            }
        }
    }

    /// With a tag of another state nothing is done, whatever is asked.
    async fn out_of_date(&mut self) -> Does {
        let calls = [
            self.c.put(&self.at, json!({"content": "never\n"})),
            self.c.post(
                &format!("{}/versions", self.at),
                json!({"content": "never\n"}),
            ),
            self.c.delete(&self.at),
        ];
        for call in calls {
            call.with("if-match", "\"0-0\"")
                .await
                .error(412, "precondition_failed", "*");
        }
        Does::Nothing
    }

    async fn bin(&mut self) -> Does {
        self.c.delete(&self.at).await.expect(204);
        self.model.deleted = true;
        self.model.events += 1;
        self.look(Does::Shown(1)).await;
        self.post("restore", json!({})).await.expect(200);
        self.model.deleted = false;
        Does::Shown(1)
    }

    /// Compares what is shown with the model, and with what was shown before.
    async fn look(&mut self, does: Does) {
        if self.model.deleted {
            self.c.get(&self.at).await.error(404, "not_found", "*");
            self.seen = None;
            return;
        }
        let now = self.c.get(&self.at).await.expect(200);
        let mut shown = now.body.as_object().unwrap().clone();
        shown.remove("updated_at");
        assert_eq!(shown, self.model.shown);
        if let Some((body, tag)) = &self.seen {
            let same = (&now.body, &now.etag()) == (body, tag);
            let stays = matches!(does, Does::Nothing | Does::Beside);
            assert_eq!(same, stays, "{does:?}: {tag} {body}\n{now}");
            assert_eq!(now.etag() == *tag, stays, "{does:?}: {tag}\n{now}");
        }
        self.seen = Some((now.body.clone(), now.etag()));
        let log = self
            .c
            .get(&format!("{}/activity?limit=1", self.at))
            .await
            .expect(200);
        assert_eq!(log.total(), self.model.events, "{does:?}");
    }

    /// Everything that the document shows, to the byte.
    async fn portrait(&self) -> Vec<(String, Option<String>, String)> {
        let mut paths: Vec<String> = [
            "",
            "/versions?limit=100",
            "/comments?limit=100",
            "/share",
            "/collaborators",
        ]
        .iter()
        .chain(&[
            "/permissions",
            "/activity?limit=100",
            "/diff",
            "/diff?from=1&format=json",
        ])
        .map(|below| format!("{}{below}", self.at))
        .collect();
        paths.extend(
            MARKS
                .iter()
                .chain(&["head", "main", "1"])
                .map(|name| format!("{}/versions/{name}", self.at)),
        );
        let mut portrait = Vec::new();
        for path in paths {
            let answer = self.c.get(&path).await;
            let tag = answer
                .header_opt("etag")
                .map(str::to_owned)
                .filter(|_| answer.status == 200);
            let body = if answer.status == 200 {
                String::from_utf8(answer.bytes).unwrap()
            } else {
                String::new()
            };
            portrait.push((path, tag, body));
        }
        portrait
    }

    /// Every version, by number, identifier and name, is what the model says.
    async fn assert_history(&self) {
        let versions = &self.model.versions;
        for (n, version) in versions.iter().enumerate() {
            let read = self
                .c
                .get(&format!("{}/versions/{}", self.at, n + 1))
                .await
                .expect(200);
            let branch = if version.branch.is_empty() {
                "main"
            } else {
                &version.branch
            };
            let parents: Vec<&str> = version
                .parents
                .iter()
                .map(|parent| versions[*parent].id.as_str())
                .collect();
            assert_eq!(
                (
                    &read["id"],
                    &read["content"],
                    &read["branch"],
                    &read["label"],
                    &read["parents"]
                ),
                (
                    &json!(version.id),
                    &json!(version.content),
                    &json!(branch),
                    &json!(version.label),
                    &json!(parents)
                ),
                "version {}",
                n + 1
            );
        }
        for mark in MARKS {
            let meant = self.model.labelled(mark).or_else(|| self.model.tip(mark));
            let read = self.c.get(&format!("{}/versions/{mark}", self.at)).await;
            match meant {
                Some(version) => assert_eq!(
                    read.expect(200)["id"],
                    versions[version].id.as_str(),
                    "{mark}"
                ),
                None => drop(read.error(404, "not_found", "*")),
            }
        }
    }

    async fn assert_lists(&self) {
        let list = async |part: &str| {
            self.c
                .get(&format!("{}/{part}?limit=100", self.at))
                .await
                .expect(200)
        };
        let comments: BTreeMap<String, (String, bool)> = list("comments")
            .await
            .data()
            .iter()
            .map(|one| {
                let text = |field: &str| one[field].as_str().unwrap().to_owned();
                (text("comment_id"), (text("body"), one["resolved"] == true))
            })
            .collect();
        assert_eq!(comments, self.model.comments);
        let shares: BTreeSet<String> = list("share").await.column("share_id").into_iter().collect();
        assert_eq!(shares, self.model.shares);
        let people = list("collaborators").await;
        let people: BTreeMap<String, String> = people
            .column("user_id")
            .into_iter()
            .zip(people.column("role"))
            .collect();
        assert_eq!(people, self.model.people);
    }
}

/// Lets the document be loaded anew: where only one may be active, another one is asked.
async fn passivate(server: &Server, c: &Client, decoy: &str) {
    let alone = async || {
        until(
            "only one document is active",
            Duration::from_secs(10),
            async || (server.metric("actors_live{kind=\"document\"}").await == 1).then_some(()),
        )
        .await;
    };
    alone().await;
    let before = server
        .metric("actors_activations_total{kind=\"document\"}")
        .await;
    c.get(decoy).await.expect(200);
    alone().await;
    assert_eq!(
        server
            .metric("actors_activations_total{kind=\"document\"}")
            .await,
        before + 1,
        "it was active already"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_history_is_what_the_model_says_in_memory_and_loaded_anew() {
    let mut server = Setup::default()
        .env("COLLOQUY__SUPERVISION__DOCUMENT__ACTIVE_MAX", "1")
        .start();
    let account = server.account().await;
    let key = account.test_key().to_owned();
    let decoy = account.test().document("decoy\n").await;
    for seed in 1..=histories() {
        let mut play = Play::begin(server.with_key(&key), seed).await;
        for n in 1..=STEPS {
            let does = play.step().await;
            play.model.events += match does {
                Does::Shown(events) => events,
                Does::Beside => 1,
                Does::Nothing => 0,
            };
            play.look(does).await;
            if n % LOADED_ANEW_EVERY != 0 {
                continue;
            }
            let before = play.portrait().await;
            if n % (3 * LOADED_ANEW_EVERY) == 0 {
                server.restart();
                play.c = server.with_key(&key);
            } else {
                passivate(&server, &play.c, &decoy).await;
            }
            assert_eq!(
                play.portrait().await,
                before,
                "loaded anew it is another one (seed {seed}, step {n})"
            );
            play.assert_lists().await;
        }
        play.assert_history().await;
    }
}
