//! Erasing a person: the answer, what is gone from it on, and what is left in no file when it is
//! finished, also after a crash; and conversations that an account keeps no longer.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::support::clock::Clock;
use crate::support::files::words_in;
use crate::support::receiver::{Reply, dead_url};
use crate::support::server::Folder;
use crate::support::{
    Answer, Client, Person, Receiver, Server, Setup, account, process, sized, unique, until,
};

/// The contract's bound for what is erased here, and a little for a busy machine.
const FINISHED_WITHIN: Duration = Duration::from_secs(90);
const SOON: Duration = Duration::from_secs(30);
const MASTER_KEY: &str = "COLLOQUY__ENCRYPTION__MASTER_KEY";
/// 32 bytes in base64.
const GIVEN: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Words that nobody else writes, one for each place in which people write.
#[derive(Default)]
pub(crate) struct Words(pub(crate) Vec<String>);

impl Words {
    pub(crate) fn next(&mut self, place: &str) -> String {
        let word = unique(place).replace('-', "x").to_lowercase();
        self.0.push(word.clone());
        word
    }

    /// The places of the server that hold any of them.
    pub(crate) fn found(&self, server: &Server) -> BTreeSet<(String, PathBuf)> {
        let places = |word: &String| {
            let places = server.places_with(word).into_iter();
            places
                .map(|place| (word.clone(), place))
                .collect::<Vec<_>>()
        };
        self.0.iter().flat_map(places).collect()
    }
}

/// Somebody who has said something everywhere.
pub(crate) struct Somebody {
    pub(crate) customer: String,
    pub(crate) conversation: String,
    pub(crate) message: String,
    pub(crate) attachment: String,
    pub(crate) words: Words,
}

pub(crate) fn conversation(id: &str) -> String {
    format!("/v1/conversations/{id}")
}

pub(crate) fn messages(id: &str) -> String {
    format!("/v1/conversations/{id}/messages")
}

async fn uploaded(c: &Client, name: &str, content: &str) -> String {
    let disposition = format!("attachment; filename=\"{name}.txt\"");
    let made = c
        .call("POST", "/v1/attachments")
        .with("content-type", "text/plain")
        .with("content-disposition", &disposition)
        .with("idempotency-key", name)
        .bytes(content)
        .await;
    made.expect(201).id("attachment_id")
}

impl Somebody {
    /// Two conversations with five messages and a file.
    pub(crate) async fn talking(c: &Client) -> Somebody {
        let mut words = Words::default();
        let new = json!({
            "name": words.next("firstname"), "email": format!("{}@example.com", words.next("mail")),
            "external_id": words.next("external"), "metadata": {"note": words.next("ofcustomer")},
        });
        let keyed = c
            .post("/v1/customers", new)
            .with("idempotency-key", &unique("customer"));
        let customer = keyed.await.expect(201).id("customer_id");
        let new = json!({
            "customer_id": customer, "initial_message": words.next("initial"),
            "metadata": {"note": words.next("ofconversation")},
        });
        let keyed = c
            .post("/v1/conversations", new)
            .with("idempotency-key", &unique("begin"));
        let first = keyed.await.expect(201).id("conversation_id");
        let renamed = json!({"name": words.next("secondname")});
        c.patch(&format!("/v1/customers/{customer}"), renamed)
            .await
            .expect(200);
        let body = json!({"content": words.next("content"), "metadata": {"note": words.next("ofmessage")}});
        let keyed = c
            .post(&messages(&first), body)
            .with("idempotency-key", &unique("message"));
        let message = keyed.await.expect(201).id("message_id");
        let edit = json!({"content": words.next("edited")});
        c.patch(&format!("{}/{message}", messages(&first)), edit)
            .await
            .expect(200);
        let patch = json!({"metadata": {"note": words.next("changed")}});
        c.patch(&conversation(&first), patch).await.expect(200);
        let attachment = uploaded(c, &words.next("filename"), &words.next("filecontent")).await;
        let file = json!({"type": "file", "attachment_id": attachment});
        c.post(&messages(&first), file).await.expect(201);
        let reason = json!({"reason": words.next("reason")});
        c.post(&format!("{}/close", conversation(&first)), reason)
            .await
            .expect(200);
        let second = c.conversation_of(&customer).await;
        c.message(&second, &words.next("elsewhere"))
            .await
            .expect(201);
        c.message(&second, &words.next("elsewhere"))
            .await
            .expect(201);
        Somebody {
            customer,
            conversation: first,
            message,
            attachment,
            words,
        }
    }

    fn at(&self) -> String {
        format!("/v1/customers/{}", self.customer)
    }

    /// Everything under which the person could be found.
    pub(crate) fn paths(&self) -> Vec<String> {
        let own = conversation(&self.conversation);
        vec![
            self.at(),
            own.clone(),
            format!("{own}/messages"),
            format!("{own}/events"),
            format!("{own}/messages/{}", self.message),
            format!("{own}/messages/{}/revisions", self.message),
            format!("/v1/attachments/{}", self.attachment),
            format!("/v1/attachments/{}/content", self.attachment),
        ]
    }
}

pub(crate) async fn erased(c: &Client, customer: &str) -> Answer {
    c.delete(&format!("/v1/customers/{customer}?erase=true"))
        .await
        .expect(202)
}

/// The erasure when nothing is left.
pub(crate) async fn finished(c: &Client, erasure: &str) -> Answer {
    let at = format!("/v1/erasures/{erasure}");
    until("the erasure is finished", FINISHED_WITHIN, async || {
        // A database that has much to do may be late.
        let shown = c.get(&at).await;
        (shown.status == 200 && shown["state"] == "finished").then_some(shown)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_says_how_much_it_takes_and_is_read_again() {
    let c = account().await.test();
    let somebody = Somebody::talking(&c).await;
    let begun = erased(&c, &somebody.customer).await;
    let mut names: Vec<&String> = begun.body.as_object().unwrap().keys().collect();
    names.sort();
    let expected = [
        "attachments",
        "conversations",
        "customer_id",
        "erasure_id",
        "finished_at",
        "messages",
        "requested_at",
        "state",
    ];
    assert_eq!(names, expected);
    assert!(begun.id("erasure_id").starts_with("era_"));
    assert_eq!(begun["customer_id"], somebody.customer.as_str());
    let numbers = ["conversations", "messages", "attachments"].map(|name| &begun[name]);
    assert_eq!(numbers, [&json!(2), &json!(5), &json!(1)]);
    assert_eq!(
        (&begun["state"], &begun["finished_at"]),
        (&json!("running"), &Value::Null)
    );
    // Asked again while it runs, it is the same one.
    let again = erased(&c, &somebody.customer).await;
    assert_eq!(again.body, begun.body);
    let shown = finished(&c, &begun.id("erasure_id")).await;
    assert!(shown["finished_at"].as_str() > shown["requested_at"].as_str());
    let numbers = ["conversations", "messages", "attachments"].map(|name| &shown[name]);
    assert_eq!(numbers, [&json!(2), &json!(5), &json!(1)]);
    let gone = c.delete(&format!("{}?erase=true", somebody.at())).await;
    gone.error(404, "not_found", "");
    c.get("/v1/erasures/era_0190163d8694739b85d52d5e4a4d6d5f")
        .await
        .error(404, "not_found", "");
}

/// Lists, totals and searches show one person of two, with two conversations.
async fn assert_only_one_is_listed(c: &Client, somebody: &Somebody) {
    for (list, total) in [
        ("/v1/conversations", 2),
        ("/v1/conversations?status=closed", 1),
        ("/v1/conversations?sort=updated_at", 2),
        ("/v1/customers", 1),
    ] {
        let list = c.get(list).await.expect(200);
        assert_eq!((list.total(), list.data().len()), (total, total as usize));
    }
    for word in &somebody.words.0 {
        let found = c
            .get(&format!("/v1/conversations?q={word}"))
            .await
            .expect(200);
        assert_eq!(found.total(), 0, "{word}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn from_the_answer_on_nobody_finds_the_person() {
    let account = account().await;
    let c = account.test();
    let (somebody, neighbour) = (Somebody::talking(&c).await, Somebody::talking(&c).await);
    let paths = neighbour.paths();
    let neighbours = || async {
        let mut shown = Vec::new();
        for path in &paths {
            shown.push(c.get(path).await.expect(200).bytes);
        }
        shown
    };
    let before = neighbours().await;
    for path in somebody.paths() {
        c.get(&path).await.expect(200);
    }
    erased(&c, &somebody.customer).await;
    for path in somebody.paths() {
        c.get(&path).await.error(404, "not_found", "");
    }
    let own = conversation(&somebody.conversation);
    let refused = [
        c.post(&format!("{own}/messages"), json!({"content": "late"})),
        c.patch(&own, json!({"priority": "high"})),
        c.post(&format!("{own}/reopen"), json!({})),
        c.patch(&somebody.at(), json!({"name": "Late"})),
        c.delete(&somebody.at()),
        c.delete(&format!("{own}/messages/{}", somebody.message)),
    ];
    for refused in refused {
        refused.await.error(404, "not_found", "");
    }
    c.post(
        "/v1/conversations",
        json!({"customer_id": somebody.customer}),
    )
    .await
    .error(400, "invalid_request", "customer_id");
    c.get(&format!(
        "/v1/conversations?customer_id={}",
        somebody.customer
    ))
    .await
    .error(400, "invalid_request", "customer_id");
    assert_only_one_is_listed(&c, &somebody).await;
    assert_eq!(neighbours().await, before);
    // What follows one that is gone is found all the same.
    let after = format!(
        "/v1/conversations?order=asc&after={}",
        somebody.conversation
    );
    assert_eq!(c.get(&after).await.expect(200).data().len(), 2);
}

/// What stays of events.
fn places(events: &[Value]) -> Vec<Value> {
    let place = |event: &Value| {
        json!([
            event["id"],
            event["event"],
            event["seq"],
            event["created_at"],
            event["data"]["conversation_id"],
            event["data"]["status"],
            event["data"]["channel"],
            event["data"]["message_id"],
            event["data"]["sender_type"],
            event["data"]["message_count"]
        ])
    };
    events.iter().map(place).collect::<Vec<_>>()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_stay_in_their_places_with_identifiers_and_numbers_only() {
    let c = account().await.test();
    let somebody = Somebody::talking(&c).await;
    let of_it = |events: &Answer| {
        let own = |event: &&Value| {
            event["data"]["customer_id"] == somebody.customer.as_str()
                || event["data"]["conversation_id"] == somebody.conversation.as_str()
        };
        events
            .data()
            .iter()
            .filter(own)
            .cloned()
            .collect::<Vec<_>>()
    };
    let all = "/v1/events?after=0&limit=100";
    let before = of_it(&c.get(all).await.expect(200));
    let usage = c.get("/v1/usage").await.expect(200);
    let figures = c.get("/v1/analytics/conversations").await.expect(200);
    let begun = erased(&c, &somebody.customer).await;
    finished(&c, &begun.id("erasure_id")).await;
    let listed = c.get(all).await.expect(200);
    let after = of_it(&listed);
    let (kept, added) = after.split_at(before.len());
    assert_eq!(places(kept), places(&before));
    assert!(
        added
            .iter()
            .all(|event| event["event"] == "conversation.erased"),
        "{added:?}"
    );
    assert_eq!(added.len(), 2);
    let text = String::from_utf8(listed.bytes.clone()).unwrap();
    for word in &somebody.words.0 {
        assert!(!text.contains(word), "{word}");
    }
    // What is stored shrank by what was erased; what was counted stays.
    let now = c.get("/v1/usage").await.expect(200);
    let stored = |usage: &Answer, name: &str| usage["meta"]["stored"][name].as_i64().unwrap();
    assert_eq!(
        ["conversations", "messages", "bytes"].map(|name| stored(&now, name)),
        [0, 0, 0]
    );
    assert!(stored(&usage, "bytes") > 0);
    assert_eq!(now["data"][0]["messages"], usage["data"][0]["messages"]);
    assert_eq!(
        c.get("/v1/analytics/conversations").await.body,
        figures.body
    );
}

/// A thousand messages, fifty at a time; on MongoDB fewer.
async fn say_much(c: &Client, several: &str, words: &mut Words) {
    for chunk in 0..sized(20, 4) {
        let word = words.next("many");
        let sent = (0..50).map(|n| {
            let (c, several, word) = (c, several, &word);
            async move {
                c.message(several, &format!("{word} {chunk} {n}"))
                    .await
                    .expect(201)
            }
        });
        join_all(sent).await;
    }
}

/// Erases somebody with everything that a server could have kept, and looks into every file.
async fn assert_no_file_holds_anything(setup: Setup, is_encrypted: bool) {
    let server = setup.delivering("[0.05]", "5").start();
    let account = server.account().await;
    let c = account.test();
    let receiver = Receiver::start().await;
    receiver.answer(|received| Reply::with_body(200, &received.body));
    let hook = json!({"url": receiver.url(), "events": ["*"]});
    c.post("/v1/webhooks", hook).await.expect(201);
    let dead = json!({"url": dead_url().await, "events": ["*"]});
    c.post("/v1/webhooks", dead).await.expect(201);
    let mut somebody = Somebody::talking(&c).await;
    let neighbour = Somebody::talking(&c).await;
    let several = c.conversation_of(&somebody.customer).await;
    say_much(&c, &several, &mut somebody.words).await;
    if !is_encrypted {
        let search = format!("/v1/conversations?q={}", somebody.words.0[4]);
        until("it is found", SOON, async || {
            let found = c.get(&search).await;
            (found.status == 200 && found.total() == 1).then_some(())
        })
        .await;
        let found = somebody.words.found(&server);
        let blind: Vec<&String> = somebody
            .words
            .0
            .iter()
            .filter(|word| !found.iter().any(|(found, _)| found == *word))
            .collect();
        assert!(
            blind.is_empty(),
            "the search is blind: {blind:?} were never in a file"
        );
    }
    let begun = erased(&c, &somebody.customer).await;
    assert_eq!(
        (&begun["conversations"], &begun["messages"]),
        (&json!(3), &json!(5 + 50 * sized(20, 4)))
    );
    finished(&c, &begun.id("erasure_id")).await;
    assert_eq!(somebody.words.found(&server), BTreeSet::new());
    let log = server.log();
    assert!(somebody.words.0.iter().all(|word| !log.contains(word)));
    if !is_encrypted {
        assert_eq!(
            neighbour.words.0.len(),
            neighbour
                .words
                .found(&server)
                .into_iter()
                .map(|(word, _)| word)
                .collect::<BTreeSet<_>>()
                .len()
        );
    }
    for path in neighbour.paths() {
        c.get(&path).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_it_is_finished_no_file_holds_a_text_a_name_or_a_file() {
    assert_no_file_holds_anything(Setup::default(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_texts_are_erased_as_well() {
    let setup = Setup::default()
        .env("COLLOQUY__ENCRYPTION__ENABLED", "true")
        .env(MASTER_KEY, GIVEN);
    assert_no_file_holds_anything(setup, true).await;
}

/// A customer with a conversation, whose every text has this word, more or less often.
async fn saying(c: &Client, word: &str, number: usize) -> String {
    let much = |times: usize| word.repeat(1 + number * times % 29);
    let new = json!({"name": word, "email": format!("{word}@example.com"), "metadata": {"note": much(3)}});
    let customer = c.post("/v1/customers", new);
    let customer = customer
        .with("idempotency-key", &unique("customer"))
        .await
        .expect(201)
        .id("customer_id");
    let new =
        json!({"customer_id": customer, "initial_message": much(5), "metadata": {"note": word}});
    let conversation = c.post("/v1/conversations", new).await.expect(201);
    let conversation = conversation.id("conversation_id");
    for turn in 0..number % 5 {
        c.message(&conversation, &much(7 + turn)).await.expect(201);
        let changed =
            json!({"name": format!("{word}{turn}"), "metadata": {"note": much(11 + turn)}});
        c.patch(&format!("/v1/customers/{customer}"), changed)
            .await
            .expect(200);
    }
    let file = json!({"type": "file", "attachment_id": uploaded(c, word, word).await});
    c.post(&messages(&conversation), file).await.expect(201);
    customer
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_many_who_are_erased_is_left_between_what_others_wrote() {
    const PEOPLE: usize = 300;
    let server = Server::start();
    let c = server.account().await.test();
    let words: Vec<String> = (0..PEOPLE)
        .map(|_| format!("{:z<32}", unique("zq").replace('-', "x")))
        .collect();
    let said = words
        .iter()
        .enumerate()
        .map(|(number, word)| saying(&c, word, number));
    let customers: Vec<String> = stream::iter(said).buffered(4).collect().await;
    // Those in between stay.
    let gone = |number: &usize| number % 5 > 1;
    let mut erasures = Vec::new();
    for number in (0..PEOPLE).filter(gone) {
        erasures.push(erased(&c, &customers[number]).await.id("erasure_id"));
    }
    for erasure in erasures {
        finished(&c, &erasure).await;
    }
    let words: BTreeSet<&str> = (0..PEOPLE)
        .filter(gone)
        .map(|n| words[n].as_str())
        .collect();
    assert_eq!(words_in(&server.work(), &words), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_receiver_is_delivered_without_a_word() {
    let server = Setup::default()
        .delivering("[1, 1, 1, 1, 1, 1, 1, 1]", "5")
        .start();
    let c = server.account().await.test();
    let receiver = Receiver::planned(|_| Reply::status(500)).await;
    let hook = json!({"url": receiver.url(), "events": ["*"]});
    c.post("/v1/webhooks", hook).await.expect(201);
    let somebody = Somebody::talking(&c).await;
    receiver.wait_for(1).await;
    let begun = erased(&c, &somebody.customer).await;
    finished(&c, &begun.id("erasure_id")).await;
    let before = receiver.count();
    receiver.answer(|_| Reply::ok());
    let events = until("the last event has come", SOON, async || {
        let received = receiver.received().split_off(before);
        let last = received
            .iter()
            .filter(|one| one.kind() == "conversation.erased");
        (last.count() == 2).then_some(received)
    })
    .await;
    // Of each of the two conversations one delivery may have been on its way, read before.
    for received in events.into_iter().skip(2) {
        for word in &somebody.words.0 {
            assert!(!received.body.contains(word), "{}", received.body);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_manages_users_may_erase_and_only_with_true_or_false() {
    let account = account().await;
    let c = account.test();
    let customer = c.customer().await;
    let at = format!("/v1/customers/{customer}?erase=true");
    let agent = c.user("agent").await;
    let narrow = json!(["conversations:read", "conversations:write"]);
    for body in [
        json!({"type": "test", "scopes": narrow}),
        json!({"type": "test", "user_id": agent}),
    ] {
        let (narrow, _) = account.key(body).await;
        narrow.delete(&at).await.error(403, "forbidden", "");
    }
    c.acting_for(&agent)
        .delete(&at)
        .await
        .error(403, "forbidden", "");
    for wrong in ["erase=yes", "erase=", "erase=1"] {
        c.delete(&format!("/v1/customers/{customer}?{wrong}"))
            .await
            .error(400, "invalid_request", "erase");
    }
    c.delete(&at)
        .with("if-match", "\"another\"")
        .await
        .error(412, "precondition_failed", "");
    let of_it = c.conversation_of(&customer).await;
    c.delete(&format!("/v1/customers/{customer}?erase=false"))
        .await
        .error(409, "conflict", "");
    c.get(&conversation(&of_it)).await.expect(200);
    let (manager, _) = account
        .key(json!({"type": "test", "scopes": ["users:manage"]}))
        .await;
    let begun = erased(&manager, &customer).await;
    manager
        .get(&format!("/v1/erasures/{}", begun.id("erasure_id")))
        .await
        .expect(200);
    let live = account.live();
    live.get(&format!("/v1/erasures/{}", begun.id("erasure_id")))
        .await
        .error(404, "not_found", "");
    let audit = c
        .get(&format!("/v1/audit?subject={customer}"))
        .await
        .expect(200);
    assert_eq!(audit.column("action")[0], "customer.erased");
    let audit = c
        .get(&format!("/v1/audit?subject={of_it}"))
        .await
        .expect(200);
    assert_eq!(audit.column("action")[0], "conversation.erased");
}

/// So many conversations with one message each, twenty at a time.
pub(crate) async fn begin_many(c: &Client, customer: &str, (count, words): (usize, &mut Words)) {
    for _ in 0..count / 20 {
        let texts: Vec<String> = (0..20).map(|_| words.next("crash")).collect();
        let made = texts.iter().map(|text| {
            let new = json!({"customer_id": customer, "initial_message": text});
            async move { c.post("/v1/conversations", new).await.expect(201) }
        });
        join_all(made).await;
    }
}

fn assert_sound_with_its_chain(server: &mut Server) {
    server.term();
    server.assert_sound();
    let verified = process::colloquy()
        .args(["audit", "verify"])
        .current_dir(server.work())
        .envs(server.store())
        .output()
        .unwrap();
    assert!(verified.status.success(), "{verified:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_goes_on_after_kill_9_while_others_write() {
    let mut server = Server::start();
    let account = server.account().await;
    let neighbours = account.test();
    let neighbour = neighbours.conversation().await;
    let mut c = account.test();
    let customer = c.customer().await;
    let mut words = Words::default();
    let count = sized(200, 40);
    begin_many(&c, &customer, (count, &mut words)).await;
    let at = format!("/v1/customers/{customer}?erase=true");
    let mut kept = 0_u64;
    for round in 0..sized(8, 2) {
        c = c.at(&server.address());
        let writer = neighbours.at(&server.address());
        let erasing = tokio::spawn({
            let (c, at) = (c.clone(), at.clone());
            async move {
                c.delete(&at)
                    .try_send()
                    .await
                    .ok()
                    .map(|answer| answer.status)
            }
        });
        for n in 0..=round * 7 {
            writer
                .message(&neighbour, &format!("kept {n}"))
                .await
                .expect(201);
            kept += 1;
        }
        server.kill9();
        let status = erasing.await.unwrap();
        assert!(matches!(status, None | Some(202 | 404)), "{status:?}");
        server.restart();
    }
    c = c.at(&server.address());
    // It has begun by now, or begins with this.
    let again = c.delete(&at).await;
    assert!(matches!(again.status, 202 | 404), "{again}");
    until("no conversation is left", SOON, async || {
        (c.get("/v1/conversations").await.expect(200).total() == 1).then_some(())
    })
    .await;
    let audit = c.get("/v1/audit?action=erasure.created").await.expect(200);
    assert_eq!(audit.total(), 1);
    let erasure = audit.data()[0]["subject"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let shown = finished(&c, &erasure).await;
    assert_eq!(
        (&shown["conversations"], &shown["messages"]),
        (&json!(count), &json!(count))
    );
    assert_eq!(words.found(&server), BTreeSet::new());
    let left = c.get(&messages(&neighbour)).await.expect(200);
    assert_eq!(left.total(), kept);
    assert_sound_with_its_chain(&mut server);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_erases_what_was_closed_longer_ago_than_it_keeps() {
    let (server, clock) = Clock::start();
    let account = server.account().await;
    let c = account.test();
    let (mut words, customer) = (Words::default(), c.customer().await);
    let mut begin = Vec::new();
    for _ in 0..3 {
        let new = json!({"customer_id": customer, "initial_message": words.next("kept")});
        begin.push(
            c.post("/v1/conversations", new)
                .await
                .expect(201)
                .id("conversation_id"),
        );
    }
    let [old, young, open] = <[String; 3]>::try_from(begin).unwrap();
    let close = |id: &str| c.post(&format!("{}/close", conversation(id)), json!({}));
    close(&old).await.expect(200);
    let keeps = json!({"retention_days": 2});
    let of = format!("/admin/v1/accounts/{}", account.account_id);
    let o = account.operator();
    assert_eq!(o.patch(&of, keeps).await.expect(200)["retention_days"], 2);
    const DAY: u32 = 24 * 60;
    clock.ahead(DAY + DAY / 2);
    until("the clock is ahead", SOON, async || {
        let at = c.customer().await;
        let made = c.get(&format!("/v1/customers/{at}")).await.expect(200);
        let made = made["created_at"]
            .as_str()
            .unwrap()
            .parse::<chrono::DateTime<chrono::Utc>>();
        (made.unwrap() - chrono::Utc::now() > chrono::TimeDelta::hours(30)).then_some(())
    })
    .await;
    close(&young).await.expect(200);
    clock.ahead(2 * DAY + DAY / 4);
    until("the old one is erased", FINISHED_WITHIN, async || {
        (c.get(&conversation(&old)).await.status == 404).then_some(())
    })
    .await;
    for kept in [&young, &open] {
        c.get(&conversation(kept)).await.expect(200);
    }
    let first = Words(vec![words.0[0].clone()]);
    until("no file holds its text", FINISHED_WITHIN, async || {
        first.found(&server).is_empty().then_some(())
    })
    .await;
    assert_eq!(
        c.get(&format!("/v1/customers/{customer}")).await.status,
        200
    );
    for wrong in [json!(0), json!(3_651), json!("7"), json!(1.5), json!(-1)] {
        let refused = o.patch(&of, json!({"retention_days": wrong})).await;
        refused.error(400, "invalid_request", "retention_days");
    }
    let back = o
        .patch(&of, json!({"retention_days": null}))
        .await
        .expect(200);
    assert!(back["retention_days"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_person_moves_without_coming_back() {
    // The store key is moved as it is wrapped: both places need the one master key.
    let mut server = Setup::default().env(MASTER_KEY, GIVEN).start();
    let account = server.account().await;
    let c = account.test();
    let (somebody, neighbour) = (Somebody::talking(&c).await, Somebody::talking(&c).await);
    erased(&c, &somebody.customer).await;
    let events = c.get("/v1/events?after=0&limit=100").await.expect(200);
    server.term();
    let exported = process::colloquy()
        .arg("export")
        .current_dir(server.work())
        .env(MASTER_KEY, GIVEN)
        .envs(server.store())
        .output()
        .unwrap();
    assert!(exported.status.success(), "{exported:?}");
    let dump = server.work().join("dump.ndjson");
    std::fs::write(&dump, &exported.stdout).unwrap();
    let text = String::from_utf8(exported.stdout).unwrap();
    for word in &somebody.words.0 {
        assert!(!text.contains(word), "{word}");
    }
    assert!(text.contains(&neighbour.words.0[0]));
    // The bytes of files stay where they are.
    let objects = server.work().join("data/objects");
    let files = format!("file:{}", objects.display());
    let folder = Folder::new();
    let moved = |command: &str| {
        let mut process = process::colloquy();
        process
            .arg(command)
            .current_dir(folder.work())
            .env("COLLOQUY__STORE__KIND", "sqlite")
            .env(MASTER_KEY, GIVEN)
            .env("COLLOQUY__OBJECTS__URL", &files)
            .stdin(File::open(&dump).unwrap());
        let output = process.output().unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    };
    moved("import");
    moved("check");
    let sqlite = Setup::default()
        .env("COLLOQUY__STORE__KIND", "sqlite")
        .env(MASTER_KEY, GIVEN);
    let server = sqlite.known().start_in(folder);
    let c = c.at(&server.address());
    for path in somebody.paths() {
        c.get(&path).await.error(404, "not_found", "");
    }
    c.get(&neighbour.at()).await.expect(200);
    let moved = c.get("/v1/events?after=0&limit=100").await.expect(200);
    assert_eq!(moved.total(), events.total());
}

#[tokio::test(flavor = "multi_thread")]
async fn people_of_an_account_erase_a_person_in_the_console() {
    let account = account().await;
    let c = account.live();
    let somebody = Somebody::talking(&c).await;
    let admin = Person::user(&account, "admin").await;
    let page = format!("/console/customers/{}", somebody.customer);
    assert!(admin.page(&page).await.contains("Erase this person"));
    let asked = admin.post(&format!("{page}/erase"), &[]).await;
    asked.expect(303);
    c.get(&somebody.at()).await.error(404, "not_found", "");
    c.get(&conversation(&somebody.conversation))
        .await
        .error(404, "not_found", "");
}
