//! A server with a little of everything, and all that it answers to reads.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::documents::DOCUMENTS;
use crate::support::receiver::{Reply, dead_url};
use crate::support::{Account, Client, Receiver, Server, until};

const TEXT: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n";

/// The number of the document that is deleted for good.
const GONE: usize = 3;

/// The title of the document with this number.
fn title(number: usize) -> String {
    format!("Guide {number}")
}

/// What was made, by which everything is found again.
pub(super) struct Filled {
    pub(super) account: Account,
    pub(super) receiver: Receiver,
    pub(super) test: Mode,
    pub(super) live: Mode,
}

/// What was made in one mode.
pub(super) struct Mode {
    pub(super) client: Client,
    pub(super) hook: String,
    pub(super) conversations: Vec<String>,
    pub(super) documents: Vec<String>,
    /// Whoever has them reads by them.
    links: Vec<String>,
    pub(super) repeats: Vec<Repeat>,
}

/// A POST with an `Idempotency-Key`.
pub(super) struct Repeat {
    path: String,
    body: Value,
    key: String,
}

impl Repeat {
    async fn send(&self, client: &Client) -> crate::support::Answer {
        let call = client.post(&self.path, self.body.clone());
        call.with("idempotency-key", &self.key).await
    }
}

impl Mode {
    /// Sends a POST that can be repeated.
    async fn once(&mut self, path: &str, body: Value) -> Value {
        let repeat = Repeat {
            path: path.to_owned(),
            body,
            key: format!("key-{}", self.repeats.len()),
        };
        let made = repeat.send(&self.client).await.expect(201).body;
        self.repeats.push(repeat);
        made
    }

    /// What every repeated request is answered.
    pub(super) async fn repeated(&self, client: &Client) -> Vec<Value> {
        let mut answers = Vec::new();
        for repeat in &self.repeats {
            let again = repeat.send(client).await.expect(201);
            assert_eq!(again.header("idempotent-replayed"), "true", "{again}");
            answers.push(again.body);
        }
        answers
    }

    async fn conversation(&mut self, number: usize, customer: &str, user: &str) {
        let channel = ["chat", "email"][number % 2];
        let priority = ["normal", "high", "low"][number % 3];
        let new = json!({
            "customer_id": customer, "channel": channel, "priority": priority,
            "metadata": {"number": number.to_string()},
            "initial_message": format!("The first of {number} ☕"),
        });
        let made = self.once("/v1/conversations", new).await;
        let id = made["conversation_id"].as_str().unwrap().to_owned();
        let at = format!("/v1/conversations/{id}");
        let mut sent = Vec::new();
        for (turn, sender) in ["customer", "agent", "system"].into_iter().enumerate() {
            let message = json!({
                "content": format!("{turn} of {number}"), "sender_type": sender,
                "metadata": {"turn": turn.to_string()},
            });
            let made = self.once(&format!("{at}/messages"), message).await;
            sent.push(made["message_id"].as_str().unwrap().to_owned());
        }
        let c = self.client.clone();
        for again in 0..3 {
            let edited = json!({"content": format!("edited {again}")});
            let edited = c.patch(&format!("{at}/messages/{}", sent[0]), edited);
            edited.await.expect(200);
        }
        if number == 0 {
            let redacted = c.delete(&format!("{at}/messages/{}", sent[0]));
            redacted.await.expect(204);
        }
        // A list waits for what follows behind messages: FerretDB, which changes a document in two
        // steps, would lose one of two changes that meet.
        let listed = c.get(&format!("{at}/messages?limit=1"));
        listed.await.expect(200);
        let change = match number {
            0 => json!({"assignee_id": user}),
            1 => json!({"status": "pending", "snoozed_until": "2999-01-01T00:00:00Z"}),
            _ => json!({"metadata": {"number": "changed"}}),
        };
        c.patch(&at, change).await.expect(200);
        if number > 1 {
            let close = c.post(&format!("{at}/close"), json!({"reason": "solved"}));
            close.await.expect(200);
        }
        if number > 2 {
            c.call("POST", &format!("{at}/reopen")).await.expect(200);
        }
        self.conversations.push(id);
    }

    async fn document(&mut self, number: usize, user: &str) {
        let new = json!({
            "title": title(number), "content": TEXT,
            "metadata": {"number": number.to_string()},
        });
        let made = self.once(DOCUMENTS, new).await;
        let at = format!("{DOCUMENTS}/{}", made["id"].as_str().unwrap());
        let c = self.client.clone();
        c.write(&at, &TEXT.replace("two", "zwei")).await;
        c.branch(&at, "draft", &TEXT.replace("nine", "neun")).await;
        let merge = c.post(&format!("{at}/merge"), json!({"source": "draft"}));
        merge.await.expect(201);
        for line in [3, 8] {
            let comment = json!({"start_line": line, "body": format!("on {line}")});
            c.post(&format!("{at}/comments"), comment).await.expect(201);
        }
        let reader = json!({"user_id": user, "role": "editor"});
        let reader = c.post(&format!("{at}/collaborators"), reader);
        reader.await.expect(201);
        let (_, link) = c.share(&at, json!({"max_uses": 1_000})).await;
        let anybody = Client::anonymous(&format!("http://{}", c.address()));
        anybody.get(&link).await.expect(200);
        for turn in 0..5 {
            c.write(&at, &TEXT.replace("six", &format!("six {turn}")))
                .await;
        }
        match number {
            2 => drop(c.delete(&at).await.expect(204)),
            GONE => drop(c.delete(&format!("{at}?permanent=true")).await.expect(204)),
            _ => {
                self.links.push(link);
                self.documents.push(at);
            }
        }
    }

    async fn fill(client: Client, receiver: &Receiver) -> Mode {
        let c = client.clone();
        let mut hooks = Vec::new();
        for (url, events) in [
            (receiver.url(), json!(["*"])),
            (
                dead_url().await,
                json!(["conversation.created", "message.created"]),
            ),
            (receiver.url(), json!(["document.deleted"])),
        ] {
            let new = json!({"url": url, "events": events});
            hooks.push(
                c.post("/v1/webhooks", new)
                    .await
                    .expect(201)
                    .id("webhook_id"),
            );
        }
        c.delete(&format!("/v1/webhooks/{}", hooks[2]))
            .await
            .expect(204);
        let mut mode = Mode {
            client,
            hook: hooks.swap_remove(0),
            conversations: Vec::new(),
            documents: Vec::new(),
            links: Vec::new(),
            repeats: Vec::new(),
        };
        let (user, gone) = (c.user("agent").await, c.user("agent").await);
        let mut customers = Vec::new();
        for name in ["Ada", "Blaise", "Zoe"] {
            let new = json!({"name": name, "metadata": {"note": format!("about {name} ñ")}});
            let made = mode.once("/v1/customers", new).await;
            customers.push(made["customer_id"].as_str().unwrap().to_owned());
        }
        for number in 0..4 {
            let whose = if number == 0 { &gone } else { &user };
            mode.conversation(number, &customers[number % 2], whose)
                .await;
        }
        let renamed = c.patch(
            &format!("/v1/customers/{}", customers[1]),
            json!({"name": "Blaise Pascal"}),
        );
        renamed.await.expect(200);
        c.delete(&format!("/v1/customers/{}", customers[2]))
            .await
            .expect(204);
        for number in 0..4 {
            mode.document(number, &user).await;
        }
        c.delete(&format!("/v1/users/{gone}")).await.expect(204);
        mode
    }

    /// Waits until what goes on behind the answers is done.
    async fn settle(&self) {
        let c = &self.client;
        let first = format!("/v1/conversations/{}", self.conversations[0]);
        let deliveries = format!("/v1/webhooks/{}/deliveries?limit=1", self.hook);
        until("all is delivered", Duration::from_secs(60), async || {
            let assignee = c.get(&first).await.expect(200).body["assignee_id"].clone();
            let events = c
                .get("/v1/events?after=0&limit=1")
                .await
                .expect(200)
                .total();
            let delivered = c.get(&format!("{deliveries}&status=delivered")).await;
            let delivered = delivered.expect(200).total();
            (assignee.is_null() && delivered == events).then_some(())
        })
        .await;
        until(
            "the texts are erased",
            Duration::from_secs(60),
            async || self.is_erased().await.then_some(()),
        )
        .await;
    }

    /// Whether no event has the title of the document that is gone.
    async fn is_erased(&self) -> bool {
        let gone = title(GONE);
        let mut path = "/v1/events?after=0&limit=100".to_owned();
        loop {
            let page = self.client.get(&path).await.expect(200);
            if page.data().is_empty() {
                return true;
            }
            if page
                .data()
                .iter()
                .any(|event| event["data"]["title"] == gone)
            {
                return false;
            }
            path = page.link("next").unwrap();
        }
    }

    /// Reads all that can be read in this mode.
    async fn read(&self, reads: &mut Reads) {
        for (path, field) in [
            ("/v1/customers", "customer_id"),
            ("/v1/users", "user_id"),
            ("/v1/webhooks", "webhook_id"),
            ("/v1/conversations", "conversation_id"),
        ] {
            reads.list(&self.client, path, field).await;
        }
        for status in ["active", "pending", "closed"] {
            let path = format!("/v1/conversations?status={status}&limit=100");
            reads.get(&self.client, &path).await;
        }
        for query in ["sort=updated_at", "channel=chat", "priority=high&limit=1"] {
            let path = format!("/v1/conversations?{query}");
            reads.get(&self.client, &path).await;
        }
        self.read_conversations(reads).await;
        self.read_events(reads).await;
        self.read_deliveries(reads).await;
        self.read_documents(reads).await;
    }

    async fn read_conversations(&self, reads: &mut Reads) {
        for conversation in &self.conversations {
            let at = format!("/v1/conversations/{conversation}");
            let messages = format!("{at}/messages");
            let all = reads.list(&self.client, &messages, "message_id").await;
            for message in all {
                let revisions = format!("{messages}/{message}/revisions");
                reads.get(&self.client, &revisions).await;
            }
            let customers = format!("{messages}?sender_type=customer&limit=1");
            reads.get(&self.client, &customers).await;
            reads
                .get(&self.client, &format!("{at}/events?after=0"))
                .await;
            reads
                .get(&self.client, &format!("{at}/events?after=3&limit=2"))
                .await;
        }
    }

    /// Every page of the feed, by the cursor of the one before.
    async fn read_events(&self, reads: &mut Reads) {
        for filter in ["", "&event=message.created", "&channel=chat"] {
            let mut next = format!("/v1/events?after=0&limit=7{filter}");
            let mut pages = 0;
            loop {
                let page = self.client.get(&next).await.expect(200);
                reads.get(&self.client, &next).await;
                if page.data().is_empty() {
                    break;
                }
                next = page.link("next").expect("a link to next on every page");
                pages += 1;
            }
            assert!(pages > 1, "no pages of {filter:?}");
        }
    }

    async fn read_deliveries(&self, reads: &mut Reads) {
        let hooks = self.client.get("/v1/webhooks?limit=100").await.expect(200);
        for hook in hooks.body["data"].as_array().unwrap() {
            let hook = hook["webhook_id"].as_str().unwrap();
            let at = format!("/v1/webhooks/{hook}/deliveries");
            reads.list(&self.client, &at, "delivery_id").await;
            reads
                .get(&self.client, &format!("{at}?status=pending"))
                .await;
        }
    }

    async fn read_documents(&self, reads: &mut Reads) {
        let c = &self.client;
        for query in ["", "deleted=true&", "sort=title&", "q=zwei&"] {
            let path = format!("{DOCUMENTS}?{query}limit=100");
            reads.get(c, &path).await;
        }
        for at in &self.documents {
            reads.get(c, at).await;
            reads.list(c, &format!("{at}/versions"), "id").await;
            reads.get(c, &format!("{at}/diff?from=1&format=json")).await;
            reads.get(c, &format!("{at}/permissions")).await;
            for part in ["comments", "collaborators", "share", "activity"] {
                reads.get(c, &format!("{at}/{part}?limit=100")).await;
            }
        }
    }
}

/// Reads, and what was answered.
#[derive(Default)]
pub(super) struct Reads(Vec<Read>);

/// A GET and its answer.
struct Read {
    client: Client,
    path: String,
    status: u16,
    headers: Vec<(String, String)>,
    bytes: Vec<u8>,
}

/// Headers that tell of the request or the moment, not of what is read.
const PASSING: [&str; 9] = [
    "date",
    "x-request-id",
    "ratelimit",
    "ratelimit-policy",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "server-timing",
    "x-response-time",
];

impl Reads {
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Reads a path; gives the body.
    async fn get(&mut self, client: &Client, path: &str) -> Value {
        let answer = settled(client, path).await;
        assert!(answer.status == 200 || answer.status == 404, "{answer}");
        let body = answer.body.clone();
        self.0.push(Read {
            client: client.clone(),
            path: path.to_owned(),
            status: answer.status,
            headers: headers(&answer),
            bytes: answer.bytes,
        });
        body
    }

    /// Reads a list and each thing in it; gives their identifiers.
    async fn list(&mut self, client: &Client, path: &str, field: &str) -> Vec<String> {
        let page = self.get(client, &format!("{path}?limit=100")).await;
        let id = |item: &Value| item[field].as_str().unwrap().to_owned();
        let ids: Vec<String> = page["data"].as_array().unwrap().iter().map(id).collect();
        for id in &ids {
            self.get(client, &format!("{path}/{id}")).await;
        }
        ids
    }

    /// Fails where another server answers otherwise to any of them.
    pub(super) async fn assert_same_at(&self, server: &Server) {
        let mut others = Vec::new();
        for read in &self.0 {
            let answer = settled(&read.client.at(&server.address()), &read.path).await;
            let same = answer.status == read.status
                && headers(&answer) == read.headers
                && answer.bytes == read.bytes;
            if !same {
                others.push(format!(
                    "GET {}\n  before {} {:?} {}\n  after  {} {:?} {}",
                    read.path,
                    read.status,
                    read.headers,
                    String::from_utf8_lossy(&read.bytes),
                    answer.status,
                    headers(&answer),
                    String::from_utf8_lossy(&answer.bytes),
                ));
            }
        }
        let some = others.iter().take(12).cloned().collect::<Vec<_>>();
        let (others, all) = (others.len(), self.0.len());
        assert!(others == 0, "{others} of {all} reads:\n{}", some.join("\n"));
    }
}

/// A search waits for its index, which is made anew.
async fn settled(client: &Client, path: &str) -> crate::support::Answer {
    until(path, Duration::from_secs(30), async || {
        let answer = client.get(path).await;
        (answer.status != 503).then_some(answer)
    })
    .await
}

fn headers(answer: &crate::support::Answer) -> Vec<(String, String)> {
    let headers = answer.headers.iter();
    let told = headers.filter(|(name, _)| !PASSING.contains(&name.as_str()));
    let mut told: Vec<(String, String)> = told
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    told.sort();
    told
}

impl Filled {
    /// Puts a little of everything into a server, and waits until all of it is done.
    pub(super) async fn server(server: &Server) -> Filled {
        let account = server.account().await;
        let receiver = Receiver::planned(|request| {
            if request.body.contains("conversation.updated") {
                return Reply::with_body(200, "what the receiver says");
            }
            Reply::ok()
        })
        .await;
        let test = Mode::fill(account.test(), &receiver).await;
        let live = Mode::fill(account.live(), &receiver).await;
        let settings = json!({"kinds": {"conversation": {"crashes_max": 3}}});
        let set = server.operator().patch("/admin/v1/supervision", settings);
        set.await.expect(200);
        test.settle().await;
        live.settle().await;
        Filled {
            account,
            receiver,
            test,
            live,
        }
    }

    /// All that can be read.
    pub(super) async fn reads(&self, server: &Server) -> Reads {
        let mut reads = Reads::default();
        self.test.read(&mut reads).await;
        self.live.read(&mut reads).await;
        let operator = server.operator();
        let account = &self.account.account_id;
        for path in [
            "/admin/v1/accounts?limit=100".to_owned(),
            format!("/admin/v1/accounts/{account}"),
            "/admin/v1/supervision".to_owned(),
        ] {
            reads.get(&operator, &path).await;
        }
        reads
    }
}
