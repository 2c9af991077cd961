//! Stored data that was damaged behind the server's back: it is told as a fault of ours, once in
//! the log, it is never replaced, and everything else goes on.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::attachments::{content_of, upload};
use crate::support::client::Call;
use crate::support::clock::Clock;
use crate::support::documents::{DOCUMENTS, id_of};
use crate::support::files::files_with;
use crate::support::server::Folder;
use crate::support::socket::Ended;
use crate::support::stored::{blob, execute, query};
use crate::support::{
    Answer, Client, EventStream, Receiver, Server, Setup, Socket, unique, until, until_now,
};

const SOON: Duration = Duration::from_secs(20);

/// A server whose file can be damaged while it does not run.
struct Damaged {
    server: Server,
    key: String,
    account: String,
}

impl Damaged {
    /// A further key of the account: its identifier and its secret.
    async fn new_key(&self) -> (String, String) {
        let path = format!("/admin/v1/accounts/{}/keys", self.account);
        let new = json!({"type": "test", "name": "lost"});
        let made = self.server.operator().post(&path, new).await.expect(201);
        (made.id("key_id"), made.id("key"))
    }

    async fn start() -> (Self, Client) {
        Self::with(Setup::default()).await
    }

    async fn with(setup: Setup) -> (Self, Client) {
        Self::of(setup.start()).await
    }

    async fn of(mut server: Server) -> (Self, Client) {
        server.expect_errors();
        let account = server.account().await;
        let (key, client) = (account.test_key().to_owned(), account.test());
        (
            Damaged {
                server,
                key,
                account: account.account_id.clone(),
            },
            client,
        )
    }

    fn file(&self) -> PathBuf {
        self.server.work().join("data/colloquy.db")
    }

    /// Stops the server, puts this value into a column of the rows that match, and starts again.
    fn damage(&mut self, (table, column): (&str, &str), of: &str, value: &Value) -> Client {
        self.server.term();
        let sql = format!("UPDATE {table} SET {column} = ? WHERE {of}");
        execute(&self.file(), &sql, std::slice::from_ref(value));
        self.assert_stored((table, column), of, value);
        self.server.restart();
        self.server.with_key(&self.key)
    }

    /// The column holds what was put there, and nothing else.
    fn assert_stored(&self, (table, column): (&str, &str), of: &str, value: &Value) {
        let stored = query(
            &self.file(),
            &format!("SELECT {column} FROM {table} WHERE {of}"),
            &[],
        );
        assert!(
            !stored.is_empty() && stored.iter().all(|row| row[0] == *value),
            "{table}.{column}: {stored:?}"
        );
    }

    /// How often the log tells of damage at this place.
    fn told(&self, place: &str) -> usize {
        let told = |line: &&str| {
            line.contains("ERROR") && line.contains("can't be read") && line.contains(place)
        };
        self.server.log().lines().filter(told).count()
    }
}

/// A fault of ours with nothing done, whatever was asked.
async fn assert_unreadable(call: Call) {
    let answer = call.await.error(500, "server_error", "");
    assert_eq!(
        answer.body["error"]["details"]["outcome"], "none",
        "{answer}"
    );
}

/// The number of an identifier, as the store names it.
pub(crate) fn number(id: &str) -> i64 {
    let hex = id.rsplit('_').next().unwrap();
    let bits = u128::from_str_radix(hex, 16).unwrap();
    i64::try_from(((bits >> 80) << 12) | ((bits >> 64) & 0xfff)).unwrap()
}

#[tokio::test]
async fn metadata_that_can_t_be_read_is_not_patched_over() {
    let (mut damaged, c) = Damaged::start().await;
    let customer = c.customer().await;
    let new = json!({"customer_id": customer, "metadata": {"order": "A-17"}});
    let broken = c
        .post("/v1/conversations", new.clone())
        .await
        .expect(201)
        .id("conversation_id");
    let neighbour = c
        .post("/v1/conversations", new)
        .await
        .expect(201)
        .id("conversation_id");
    let of = format!("n = {}", number(&broken));
    let half = json!("{\"order\": \"A-1");
    let c = damaged.damage(("conversations", "metadata"), &of, &half);
    let at = format!("/v1/conversations/{broken}");
    for _ in 0..3 {
        assert_unreadable(c.get(&at)).await;
        assert_unreadable(c.patch(&at, json!({"metadata": {"vip": true}}))).await;
        assert_unreadable(c.patch(&at, json!({"priority": "high"}))).await;
        assert_unreadable(c.post(&format!("{at}/close"), json!({}))).await;
        assert_unreadable(c.post(&format!("{at}/messages"), json!({"content": "hello"}))).await;
        assert_unreadable(c.get("/v1/conversations")).await;
    }
    let other = format!("/v1/conversations/{neighbour}");
    let patched = c
        .patch(&other, json!({"metadata": {"vip": true}}))
        .await
        .expect(200);
    assert_eq!(patched["metadata"], json!({"order": "A-17", "vip": true}));
    c.message(&neighbour, "hello").await;
    assert_eq!(
        c.get("/v1/conversations?priority=high")
            .await
            .expect(200)
            .total(),
        0
    );
    assert!(
        (1..=2).contains(&damaged.told(&broken)),
        "{}",
        damaged.server.log()
    );
    damaged.assert_stored(("conversations", "metadata"), &of, &half);
}

/// Conversations of one customer, each with a word of its own in its metadata and its first message;
/// the second one is closed.
async fn with_words(c: &Client, customer: &str) -> (Vec<String>, Vec<String>) {
    let words = (0..4).map(|_| unique("wordof").replace('-', "x"));
    let words: Vec<String> = words.collect();
    let mut conversations = Vec::new();
    for word in &words {
        let new = json!({
            "customer_id": customer, "initial_message": word, "metadata": {"note": word},
        });
        let made = c.post("/v1/conversations", new).await.expect(201);
        conversations.push(made.id("conversation_id"));
    }
    let close = format!("/v1/conversations/{}/close", conversations[1]);
    c.post(&close, json!({})).await.expect(200);
    (conversations, words)
}

/// What happened in these conversations is still told, as far as it can be read.
fn assert_events_stay(events: &Answer, conversations: &[String]) {
    let of = |id: &String| {
        let own = |event: &&Value| event["data"]["conversation_id"] == id.as_str();
        let kinds = events.data().iter().filter(own);
        let kinds = kinds.map(|event| event["event"].as_str().unwrap());
        kinds.collect::<Vec<_>>().join(" ")
    };
    let created = "conversation.created";
    let (said, erased) = ("message.created", "conversation.erased");
    let whole = format!("{created} {said} {erased}");
    assert_eq!(of(&conversations[0]), whole);
    let closed = format!("{created} {said} conversation.closed {erased}");
    assert_eq!(of(&conversations[1]), closed);
    // Of what can't be read not even identifiers are known.
    assert_eq!(of(&conversations[2]), format!("{created} {erased}"));
    assert_eq!(of(&conversations[3]), whole);
    let is_empty = |event: &&Value| event["data"] == json!({});
    let empty: Vec<&Value> = events.data().iter().filter(is_empty).collect();
    assert_eq!(empty.len(), 1);
    assert_eq!(
        [&empty[0]["seq"], &empty[0]["event"]],
        [&json!(2), &json!(said)]
    );
}

#[tokio::test]
async fn a_conversation_that_can_t_be_read_is_erased_all_the_same() {
    let (mut damaged, c) = Damaged::start().await;
    let (customer, neighbour) = (c.customer().await, c.conversation().await);
    let (conversations, words) = with_words(&c, &customer).await;
    let numbered = |at: usize| format!("n = {}", number(&conversations[at]));
    let half = json!(format!("{{\"note\": \"{}", words[0]));
    damaged.damage(("conversations", "metadata"), &numbered(0), &half);
    damaged.damage(("conversations", "status"), &numbered(1), &json!(77));
    let payload = blob(format!("{{\"content\": \"{}", words[2]).as_bytes());
    let of = format!("entity = {} AND seq = 2", number(&conversations[2]));
    let c = damaged.damage(("rows", "payload"), &of, &payload);
    assert_unreadable(c.get(&format!("/v1/conversations/{}", conversations[0]))).await;
    let at = format!("/v1/customers/{customer}");
    let begun = c.delete(&format!("{at}?erase=true")).await.expect(202);
    let counts = ["conversations", "messages"].map(|name| begun[name].clone());
    assert_eq!(counts, [4, 4]);
    c.get(&at).await.error(404, "not_found", "");
    for id in &conversations {
        let gone = c.get(&format!("/v1/conversations/{id}")).await;
        gone.error(404, "not_found", "");
    }
    assert_eq!(c.get("/v1/conversations").await.expect(200).total(), 1);
    let erasure = format!("/v1/erasures/{}", begun.id("erasure_id"));
    until("the erasure is finished", SOON, async || {
        (c.get(&erasure).await.expect(200)["state"] == "finished").then_some(())
    })
    .await;
    for word in &words {
        assert_eq!(damaged.server.places_with(word), Vec::<PathBuf>::new());
    }
    let events = c.get("/v1/events?after=0&limit=100").await.expect(200);
    assert_events_stay(&events, &conversations);
    let at = format!("/v1/conversations/{neighbour}");
    c.get(&at).await.expect(200);
    damaged.server.term();
    damaged.server.assert_sound();
}

/// Erases the person and waits until nothing is left; gives what was said of it at its beginning.
async fn erased(c: &Client, customer: &str) -> Answer {
    let at = format!("/v1/customers/{customer}?erase=true");
    let begun = c.delete(&at).await.expect(202);
    let erasure = format!("/v1/erasures/{}", begun.id("erasure_id"));
    until("the erasure is finished", SOON, async || {
        (c.get(&erasure).await.expect(200)["state"] == "finished").then_some(())
    })
    .await;
    begun
}

#[tokio::test]
async fn a_customer_who_can_t_be_read_is_erased_all_the_same() {
    let (mut damaged, c) = Damaged::start().await;
    let word = unique("wordof").replace('-', "x");
    let new = json!({"name": word, "external_id": word, "metadata": {"note": word}});
    let made = c.post("/v1/customers", new.clone()).await.expect(201);
    let customer = made.id("customer_id");
    let (conversation, neighbour) = (c.conversation_of(&customer).await, c.conversation().await);
    let half = json!(format!("{{\"name\": \"{word}"));
    let of = format!("n = {}", number(&customer));
    let c = damaged.damage(("records", "body"), &of, &half);
    let at = format!("/v1/customers/{customer}");
    assert_unreadable(c.get(&at)).await;
    // What it was known as, and what it was not.
    c.delete(&format!("{at}?erase=true"))
        .with("if-match", "\"another\"")
        .await
        .error(412, "precondition_failed", "");
    let other = "/v1/customers/cus_0190163d8694739b85d52d5e4a4d6d5f?erase=true";
    c.delete(other).await.error(404, "not_found", "");
    let stranger = damaged.server.account().await.test();
    let strange = stranger.delete(&format!("{at}?erase=true")).await;
    strange.error(404, "not_found", "");
    let begun = erased(&c, &customer).await;
    assert_eq!(begun["conversations"], 1);
    for gone in [at, format!("/v1/conversations/{conversation}")] {
        c.get(&gone).await.error(404, "not_found", "");
    }
    assert_eq!(damaged.server.places_with(&word), Vec::<PathBuf>::new());
    let audit = format!("/v1/audit?subject={customer}");
    let audit = c.get(&audit).await.expect(200);
    assert_eq!(audit.column("action")[0], "customer.erased");
    // Neither list nor name is held up by it any more.
    assert_eq!(c.get("/v1/customers").await.expect(200).total(), 1);
    c.post("/v1/customers", new).await.expect(201);
    c.get(&format!("/v1/conversations/{neighbour}"))
        .await
        .expect(200);
    damaged.server.term();
    damaged.server.assert_sound();
}

#[tokio::test]
async fn a_file_whose_record_can_t_be_read_is_erased_all_the_same() {
    let (mut damaged, c) = Damaged::start().await;
    let customer = c.customer().await;
    let conversation = c.conversation_of(&customer).await;
    let word = unique("wordof").replace('-', "x");
    let name = format!("{word}.txt");
    let (broken, whole) = (
        upload(&c, &name, &word)
            .await
            .expect(201)
            .id("attachment_id"),
        upload(&c, &name, &word)
            .await
            .expect(201)
            .id("attachment_id"),
    );
    let list = format!("/v1/conversations/{conversation}/messages");
    for attachment in [&broken, &whole] {
        let file = json!({"type": "file", "attachment_id": attachment});
        c.post(&list, file).await.expect(201);
    }
    let half = json!(format!("{{\"filename\": \"{word}"));
    let of = format!("n = {}", number(&broken));
    let c = damaged.damage(("records", "body"), &of, &half);
    assert_unreadable(c.get(&content_of(&broken))).await;
    let objects = damaged.server.work().join("data/objects");
    assert_eq!(files_with(&objects, &word).len(), 2);
    let begun = erased(&c, &customer).await;
    assert_eq!(begun["attachments"], 2);
    for attachment in [&broken, &whole] {
        c.get(&content_of(attachment))
            .await
            .error(404, "not_found", "");
    }
    assert_eq!(damaged.server.places_with(&word), Vec::<PathBuf>::new());
    damaged.server.term();
    damaged.server.assert_sound();
}

/// One that can't be read holds up neither itself nor those behind it.
#[tokio::test]
async fn what_an_account_keeps_no_longer_goes_though_it_can_t_be_read() {
    let (server, clock) = Clock::start();
    let (mut damaged, c) = Damaged::of(server).await;
    let customer = c.customer().await;
    let (conversations, words) = with_words(&c, &customer).await;
    for id in [&conversations[0], &conversations[2]] {
        let close = format!("/v1/conversations/{id}/close");
        c.post(&close, json!({})).await.expect(200);
    }
    let keeps = json!({"retention_days": 2});
    let of = format!("/admin/v1/accounts/{}", damaged.account);
    damaged
        .server
        .operator()
        .patch(&of, keeps)
        .await
        .expect(200);
    let half = json!(format!("{{\"note\": \"{}", words[0]));
    let of = format!("n = {}", number(&conversations[0]));
    damaged.damage(("conversations", "metadata"), &of, &half);
    let of = format!("n = {}", number(&conversations[1]));
    let c = damaged.damage(("conversations", "channel"), &of, &json!(77));
    clock.ahead(3 * 24 * 60);
    until(
        "those that were closed are gone",
        Duration::from_secs(90),
        async || {
            let mut gone = 0;
            for id in &conversations[..3] {
                let shown = c.get(&format!("/v1/conversations/{id}")).await;
                gone += usize::from(shown.status == 404);
            }
            (gone == 3).then_some(())
        },
    )
    .await;
    let open = format!("/v1/conversations/{}", conversations[3]);
    c.get(&open).await.expect(200);
    until("no file holds their words", SOON, async || {
        let places = |word: &String| damaged.server.places_with(word);
        words[..3]
            .iter()
            .all(|word| places(word).is_empty())
            .then_some(())
    })
    .await;
    damaged.server.term();
    damaged.server.assert_sound();
}

#[tokio::test]
async fn a_message_that_can_t_be_read_is_neither_left_out_nor_edited() {
    let (mut damaged, c) = Damaged::start().await;
    let (broken, whole) = (c.conversation().await, c.conversation().await);
    let message = c.message(&broken, "the first").await.id("message_id");
    let second = c.message(&broken, "the second").await.id("message_id");
    c.message(&whole, "beside it").await;
    let of = format!("entity = {} AND happened = 4 AND seq = 2", number(&broken));
    let half = blob(b"{\"message_id\":\"");
    let c = damaged.damage(("rows", "payload"), &of, &half);
    let list = format!("/v1/conversations/{broken}/messages");
    let at = format!("{list}/{message}");
    for _ in 0..2 {
        assert_unreadable(c.get(&at)).await;
        assert_unreadable(c.get(&list)).await;
        assert_unreadable(c.get(&format!("{at}/revisions"))).await;
        assert_unreadable(c.patch(&at, json!({"content": "another"}))).await;
        assert_unreadable(c.get(&format!("/v1/conversations/{broken}/events"))).await;
        assert_unreadable(c.get("/v1/events?after=0")).await;
    }
    c.get(&format!("{list}/{second}")).await.expect(200);
    c.patch(&format!("{list}/{second}"), json!({"content": "edited"}))
        .await
        .expect(200);
    c.get(&format!("{list}?after_seq=1")).await.expect(200);
    c.message(&broken, "the third").await;
    assert_eq!(
        c.get(&format!("/v1/conversations/{whole}/messages"))
            .await
            .expect(200)
            .total(),
        1
    );
    c.get(&format!("/v1/conversations/{whole}/events"))
        .await
        .expect(200);
    assert_eq!(damaged.told(&message), 1, "{}", damaged.server.log());
    damaged.assert_stored(("rows", "payload"), &of, &half);
}

#[tokio::test]
async fn an_event_that_can_t_be_read_ends_what_follows_there_and_a_replay_passes_it_by() {
    let receiver = Receiver::start().await;
    let (mut damaged, c) = Damaged::with(Setup::default().delivering("[0.05]", "5")).await;
    let id = c.conversation().await;
    for text in ["one", "two", "three"] {
        c.message(&id, text).await;
    }
    let of = format!("entity = {} AND seq = 3", number(&id));
    let c = damaged.damage(("rows", "payload"), &of, &blob(b"{"));
    for list in [
        format!("/v1/conversations/{id}/events"),
        "/v1/events".to_owned(),
    ] {
        let mut stream = EventStream::open(c.get(&format!("{list}?after=0"))).await;
        let shown = stream.rest(SOON).await;
        assert_eq!(shown.len(), 2, "what stands before it is shown");
        let again = c
            .get(&list)
            .with("accept", "text/event-stream")
            .with("last-event-id", &shown[1].id);
        assert_unreadable(again).await;
    }
    for (conversation, beginning) in [(json!(id), json!(0)), (Value::Null, json!("0"))] {
        let mut socket = Socket::open(&c).await;
        socket.subscribe(conversation, Some(beginning)).await;
        assert_eq!(
            [
                socket.event().await["seq"].clone(),
                socket.event().await["seq"].clone()
            ],
            [1, 2]
        );
        assert_eq!(socket.end(SOON).await, Ended(1011));
    }
    assert_eq!(
        damaged.told("an event's data"),
        1,
        "{}",
        damaged.server.log()
    );
    let hook = json!({"url": receiver.url(), "events": ["message.created"]});
    let hook = c
        .post("/v1/webhooks", hook)
        .await
        .expect(201)
        .id("webhook_id");
    c.post(
        &format!("/v1/webhooks/{hook}/replay"),
        json!({"since": "2020-01-01T00:00:00Z"}),
    )
    .await
    .expect(202);
    let sent = receiver.wait_for(2).await;
    let texts: Vec<Value> = sent
        .iter()
        .map(|delivery| delivery.event()["data"]["content"].clone())
        .collect();
    assert_eq!(texts, ["one", "three"]);
    damaged.assert_stored(("rows", "payload"), &of, &blob(b"{"));
}

#[tokio::test]
async fn a_cursor_of_an_erased_document_whose_first_event_can_t_be_read_is_not_taken_for_a_stranger()
 {
    let (mut damaged, c) = Damaged::start().await;
    let (gone, stays) = (c.document("one\n").await, c.document("two\n").await);
    c.delete(&format!("{gone}?permanent=true"))
        .await
        .expect(204);
    let list = format!("{DOCUMENTS}?order=asc&after={}", id_of(&gone));
    assert_eq!(
        c.get(&list).await.expect(200)["data"][0]["id"],
        id_of(&stays)
    );
    until_now("its texts are erased", SOON, || {
        (query(&damaged.file(), "SELECT document FROM erasures", &[]).is_empty()).then_some(())
    });
    let of = format!("entity = {} AND seq = 1", number(id_of(&gone)));
    let c = damaged.damage(("rows", "payload"), &of, &blob(b"{"));
    assert_unreadable(c.get(&list)).await;
    c.get(&format!("{DOCUMENTS}?after={}", id_of(&stays)))
        .await
        .expect(200);
    damaged.assert_stored(("rows", "payload"), &of, &blob(b"{"));
}

#[tokio::test]
async fn where_an_account_s_events_are_listed_from_can_t_be_read_and_others_go_on() {
    let (mut damaged, c) = Damaged::start().await;
    let id = c.conversation().await;
    let half = blob(b"cut off");
    let c = damaged.damage(("feed", "entries"), "first = 1 AND scope % 4 <> 0", &half);
    let account = damaged.server.account().await;
    let other = account.test();
    for n in 0..20 {
        c.message(&id, &format!("message {n}")).await;
        let conversation = other.conversation().await;
        other.message(&conversation, "beside it").await;
    }
    assert_unreadable(c.get("/v1/events?after=0")).await;
    assert_eq!(
        other.get("/v1/events?after=0").await.expect(200).total(),
        40
    );
    c.get(&format!("/v1/conversations/{id}/events"))
        .await
        .expect(200);
    // It writes down, when it stops and when it starts, where the others' events stand.
    damaged.server.term();
    damaged.assert_stored(("feed", "entries"), "entries = x'637574206f6666'", &half);
    damaged.server.restart();
    let (c, other) = (
        damaged.server.with_key(&damaged.key),
        damaged.server.with_key(account.test_key()),
    );
    assert_eq!(
        other.get("/v1/events?after=0").await.expect(200).total(),
        40
    );
    assert_unreadable(c.get("/v1/events?after=0")).await;
    c.message(&id, "it goes on").await;
}

#[tokio::test]
async fn an_audit_trail_that_can_t_be_listed_stops_no_start_and_is_found_by_a_check() {
    let (mut damaged, c) = Damaged::start().await;
    c.conversation().await;
    let half = blob(b"cut off");
    let c = damaged.damage(("feed", "entries"), "scope = 0", &half);
    assert_unreadable(damaged.server.operator().get("/admin/v1/audit")).await;
    c.conversation().await;
    let own = damaged.server.operator();
    let of_account = format!("/admin/v1/audit?account_id={}", damaged.account);
    let listed = own.get(&of_account).await.expect(200).column("action");
    let made = listed
        .iter()
        .filter(|action| *action == "conversation.created");
    assert_eq!(made.count(), 2, "{listed:?}");
    damaged.server.term();
    damaged.assert_stored(("feed", "entries"), "entries = x'637574206f6666'", &half);
    assert_astray(&damaged);
}

/// Fails unless a check finds that an audit trail is not as its rows.
#[track_caller]
fn assert_astray(damaged: &Damaged) {
    let check = damaged.server.check();
    let said = String::from_utf8_lossy(&check.stdout);
    assert_eq!(check.status.code(), Some(1), "{said}");
    assert!(said.contains("the audit trails: scope"), "{said}");
}

#[tokio::test]
async fn an_audit_trail_that_does_not_tell_of_its_rows_is_found_by_a_check() {
    let (mut damaged, c) = Damaged::start().await;
    c.conversation().await;
    damaged.server.term();
    damaged.server.assert_sound();
    let file = damaged.file();
    let of_account =
        "SELECT entries FROM feed WHERE scope % 4 = 0 AND scope > 0 ORDER BY scope DESC";
    let kept = query(&file, of_account, &[]);
    let kept = kept[0][0]["hex"].as_str().unwrap().to_owned();
    // An entry has 26 bytes: position, instant, who, what, nothing.
    let (before, last) = kept.split_at(kept.len() - 4);
    let other_action = format!("{before}03{}", &last[2..]);
    let one_is_missing = kept[..kept.len() - 52].to_owned();
    for changed in [other_action, one_is_missing] {
        let set = |from: &str, to: &str| {
            let set = format!("UPDATE feed SET entries = x'{to}' WHERE entries = x'{from}'");
            execute(&file, &set, &[]);
        };
        set(&kept, &changed);
        assert_astray(&damaged);
        set(&changed, &kept);
        damaged.server.assert_sound();
    }
}

#[tokio::test]
async fn a_document_s_header_that_can_t_be_read_stays() {
    let (mut damaged, c) = Damaged::start().await;
    let (broken, whole) = (c.document("one\n").await, c.document("two\n").await);
    let of = format!("n = {}", number(id_of(&broken)));
    let half = json!("{\"title\":\"Gu");
    let c = damaged.damage(("documents", "body"), &of, &half);
    for _ in 0..2 {
        assert_unreadable(c.get(&broken)).await;
        assert_unreadable(c.put(&broken, json!({"title": "Another"}))).await;
        assert_unreadable(c.put(
            &format!("{broken}/permissions"),
            json!({"visibility": "account"}),
        ))
        .await;
        assert_unreadable(c.post(&format!("{broken}/share"), json!({}))).await;
        assert_unreadable(c.get(DOCUMENTS)).await;
    }
    c.write(&whole, "three\n").await;
    until(
        "the others are found",
        Duration::from_secs(20),
        async || {
            let found = c.get(&format!("{DOCUMENTS}?q=three")).await;
            (found.status == 200 && found.total() == 1).then_some(())
        },
    )
    .await;
    assert_eq!(damaged.told(id_of(&broken)), 1, "{}", damaged.server.log());
    damaged.assert_stored(("documents", "body"), &of, &half);
}

#[tokio::test]
async fn a_version_s_frame_that_can_t_be_read_takes_no_new_version_on_it() {
    let (mut damaged, c) = Damaged::start().await;
    let (broken, whole) = (c.document("one\n").await, c.document("two\n").await);
    let of = format!("document = {} AND number = 1", number(id_of(&broken)));
    let c = damaged.damage(("versions", "frame"), &of, &blob(b"not a frame"));
    for _ in 0..2 {
        assert_unreadable(c.get(&broken)).await;
        assert_unreadable(c.put(&broken, json!({"content": "another\n"}))).await;
        assert_unreadable(c.get(&format!("{broken}/diff"))).await;
        assert_unreadable(c.get(&format!("{broken}/versions/1"))).await;
    }
    c.write(&whole, "three\n").await;
    c.get(&format!("{broken}/versions")).await.expect(200);
    assert_eq!(c.get(DOCUMENTS).await.expect(200).total(), 2);
    assert_eq!(damaged.told(id_of(&broken)), 1, "{}", damaged.server.log());
    damaged.assert_stored(("versions", "frame"), &of, &blob(b"not a frame"));
}

#[tokio::test]
async fn a_comment_and_a_list_of_parents_that_can_t_be_read_stay() {
    let (mut damaged, c) = Damaged::start().await;
    let (first, second) = (c.document("one\n").await, c.document("two\n").await);
    for at in [&first, &second] {
        c.post(
            &format!("{at}/comments"),
            json!({"start_line": 1, "body": "why?"}),
        )
        .await
        .expect(201);
        c.write(at, "more\n").await;
    }
    let of = format!("document = {}", number(id_of(&first)));
    damaged.damage(("comments", "body"), &of, &json!("{"));
    let parents = format!("document = {} AND number = 2", number(id_of(&second)));
    let c = damaged.damage(("versions", "parents"), &parents, &json!("1 x"));
    for at in [&first, &second] {
        assert_unreadable(c.get(at)).await;
        assert_unreadable(c.put(at, json!({"content": "new\n"}))).await;
        assert_unreadable(c.get(&format!("{at}/comments"))).await;
    }
    damaged.assert_stored(("comments", "body"), &of, &json!("{"));
    damaged.assert_stored(("versions", "parents"), &parents, &json!("1 x"));
    assert_eq!(damaged.told(id_of(&first)), 1, "{}", damaged.server.log());
}

#[tokio::test]
async fn records_that_can_t_be_read_are_left_alone_and_do_not_stop_the_start() {
    let (mut damaged, c) = Damaged::start().await;
    let (customer, other) = (c.customer().await, c.customer().await);
    let user = c.user("admin").await;
    let hook = json!({"url": "https://hooks.example.com/a", "events": ["*"], "filter": {"channel": ["chat"]}});
    let hook = c.post("/v1/webhooks", hook).await.expect(201);
    let hook = hook.id("webhook_id");
    let (key, secret) = damaged.new_key().await;
    let assigned = c.conversation_of(&other).await;
    let at = format!("/v1/conversations/{assigned}");
    c.patch(&at, json!({"assignee_id": user})).await.expect(200);
    let half = json!("{\"name\": \"Ada");
    let of: Vec<String> = [&customer, &user, &hook, &key]
        .iter()
        .map(|id| number(id).to_string())
        .collect();
    let of = format!("n IN ({})", of.join(", "));
    let c = damaged.damage(("records", "body"), &of, &half);
    let operator = damaged.server.operator();
    let bob = json!({"name": "Bob"});
    for _ in 0..2 {
        for (list, id, change) in [
            ("/v1/customers", &customer, &bob),
            ("/v1/users", &user, &bob),
            ("/v1/webhooks", &hook, &json!({"enabled": false})),
        ] {
            let at = format!("{list}/{id}");
            assert_unreadable(c.get(&at)).await;
            assert_unreadable(c.patch(&at, change.clone())).await;
            assert_unreadable(c.get(list)).await;
        }
        let at = format!("/admin/v1/keys/{key}");
        assert_unreadable(operator.get(&at)).await;
        assert_unreadable(operator.patch(&at, bob.clone())).await;
    }
    // Nobody comes in with a key that can't be read; whoever else is there goes on.
    damaged
        .server
        .with_key(&secret)
        .get("/v1/conversations")
        .await
        .error(401, "unauthorized", "");
    c.get(&format!("/v1/customers/{other}")).await.expect(200);
    assert_eq!(
        c.get(&at).await.expect(200)["assignee_id"],
        user.as_str(),
        "the user is still there"
    );
    c.message(&assigned, "hello").await;
    c.conversation_of(&other).await;
    for id in [&customer, &user, &hook, &key] {
        assert_eq!(damaged.told(id), 1, "{id}: {}", damaged.server.log());
    }
    damaged.assert_stored(("records", "body"), &of, &half);
}

#[tokio::test]
async fn a_kept_answer_that_can_t_be_read_is_not_taken_for_none() {
    let (mut damaged, c) = Damaged::start().await;
    let conversation = c.conversation().await;
    let list = format!("/v1/conversations/{conversation}/messages");
    let send = |c: &Client| {
        c.post(&list, json!({"content": "once"}))
            .with("idempotency-key", "k")
    };
    send(&c).await.expect(201);
    let c = damaged.damage(("rows", "done"), "key IS NOT NULL", &json!(77));
    for _ in 0..2 {
        assert_unreadable(send(&c)).await;
    }
    assert_eq!(
        c.get(&list).await.expect(200).total(),
        1,
        "it was sent twice"
    );
    c.post(&list, json!({"content": "twice"}))
        .with("idempotency-key", "l")
        .await
        .expect(201);
    assert_eq!(damaged.told("kept answer"), 1, "{}", damaged.server.log());
}

#[tokio::test]
async fn without_an_account_s_record_the_server_does_not_start_and_names_it() {
    let (mut damaged, _) = Damaged::start().await;
    damaged.server.term();
    let of = format!("n = {}", number(&damaged.account));
    let half = json!("{");
    execute(
        &damaged.file(),
        &format!("UPDATE records SET body = ? WHERE {of}"),
        std::slice::from_ref(&half),
    );
    let folder = Folder::new();
    std::fs::create_dir(folder.work().join("data")).unwrap();
    std::fs::copy(damaged.file(), folder.work().join("data/colloquy.db")).unwrap();
    let key = damaged.file().with_extension("db.key");
    std::fs::copy(key, folder.work().join("data/colloquy.db.key")).unwrap();
    let (status, printed) = Setup::default().refused_in(&folder.work());
    assert!(
        !status.success() && printed.contains(&damaged.account),
        "{printed}"
    );
    damaged.assert_stored(("records", "body"), &of, &half);
}

#[tokio::test]
async fn what_was_accepted_under_wider_bounds_is_still_read() {
    let mut server = Server::start();
    let account = server.account().await;
    let (c, metadata) = (account.test(), json!({"one": 1, "two": 2}));
    let customer = c
        .post(
            "/v1/customers",
            json!({"name": "Ada", "metadata": metadata}),
        )
        .await
        .expect(201);
    let of = json!({"customer_id": customer.id("customer_id"), "metadata": metadata});
    let conversation = c.post("/v1/conversations", of).await.expect(201);
    let messages = format!("{}/messages", conversation.header("location"));
    let message = c
        .post(&messages, json!({"content": "Hello", "metadata": metadata}))
        .await
        .expect(201);
    let long =
        json!({"title": "Guide", "metadata": metadata, "content": "A line.\n".repeat(1_000)});
    let document = c.post(DOCUMENTS, long).await.expect(201);
    let filtered =
        json!({"url": "https://hooks.example.com/", "filter": {"channel": ["chat", "email"]}});
    let webhook = c.post("/v1/webhooks", filtered).await.expect(201);
    server.term();
    server.set_env("COLLOQUY__BOUNDS__METADATA_KEYS_MAX", "1");
    server.set_env("COLLOQUY__BOUNDS__FILTER_VALUES_MAX", "1");
    server.set_env("COLLOQUY__BOUNDS__DOCUMENT_BYTES_MAX", "100");
    server.restart();
    let c = server.with_key(account.test_key());
    for (made, field) in [
        (&customer, "metadata"),
        (&conversation, "metadata"),
        (&message, "metadata"),
        (&document, "metadata"),
        (&document, "content"),
        (&webhook, "filter"),
    ] {
        let read = c.get(made.header("location")).await.expect(200);
        assert_eq!(read.body[field], made.body[field], "{read}");
    }
    c.post(
        "/v1/customers",
        json!({"name": "Ada", "metadata": metadata}),
    )
    .await
    .error(400, "invalid_request", "metadata");
}
