//! What goes on while a person is erased and afterwards: whoever follows, whoever writes, receivers that
//! are sent something again, and a check of the store.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::erasing::{Somebody, Words, begin_many, conversation, erased, finished, messages};
use crate::support::receiver::Reply;
use crate::support::stream::StreamEvent;
use crate::support::{Client, EventStream, Receiver, Server, Setup, Socket, account, sized, until};

const SOON: Duration = Duration::from_secs(30);

fn assert_wordless(shown: &str, words: &Words) {
    for word in &words.0 {
        assert!(!shown.contains(word), "{word}: {shown}");
    }
}

/// The next `conversation.erased` of a stream, and before it nothing with a word.
async fn erased_on_stream(stream: &mut EventStream, words: &Words) -> StreamEvent {
    loop {
        let event = stream.event().await;
        assert_wordless(&event.data, words);
        if event.event == "conversation.erased" {
            return event;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_an_erased_conversation_sees_its_end_without_a_word() {
    let c = account().await.test();
    let somebody = Somebody::talking(&c).await;
    let own = conversation(&somebody.conversation);
    let mut of_it = EventStream::open(c.get(&format!("{own}/events"))).await;
    let mut of_all = EventStream::open(c.get("/v1/events")).await;
    let mut socket = Socket::open(&c).await;
    let id = json!(somebody.conversation);
    socket.subscribe(id.clone(), None).await;
    let begun = erased(&c, &somebody.customer).await;
    let last = erased_on_stream(&mut of_it, &somebody.words).await;
    let data = &last.json()["data"];
    assert_eq!(
        [
            &data["conversation_id"],
            &data["customer_id"],
            &data["status"],
            &data["message_count"]
        ],
        [&id, &json!(somebody.customer), &json!("closed"), &json!(3)]
    );
    for _ in 0..2 {
        erased_on_stream(&mut of_all, &somebody.words).await;
    }
    let heard = socket.event().await;
    assert_eq!(heard, last.json(), "every way shows the same bytes");
    assert!(of_it.rest(SOON).await.is_empty(), "behind it nothing comes");
    // Whoever asks anew is told that it is not there.
    let again = c
        .get(&format!("{own}/events"))
        .with("accept", "text/event-stream")
        .with("last-event-id", &last.id);
    again.await.error(404, "not_found", "");
    let mut another = Socket::open(&c).await;
    another
        .say(json!({"type": "subscribe", "conversation_id": id}))
        .await;
    another.hear_error("not_found").await;
    socket
        .say(json!({"type": "send", "ref": "late", "conversation_id": id, "message": {"content": "late"}}))
        .await;
    socket.hear_error("not_found").await;
    assert_eq!(socket.before_pong().await, Vec::<Value>::new());
    finished(&c, &begun.id("erasure_id")).await;
    // From the beginning on nobody is shown a word either.
    let mut all = EventStream::open(c.get("/v1/events?after=0")).await;
    for _ in 0..2 {
        erased_on_stream(&mut all, &somebody.words).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_one_conversation_ends_with_it_and_what_follows_others_goes_on() {
    let subscriptions = "COLLOQUY__REALTIME__SUBSCRIPTIONS_MAX";
    let server = Setup::default().env(subscriptions, "2").start();
    let c = server.account().await.test();
    let customer = c.customer().await;
    let (gone, stays) = (c.conversation_of(&customer).await, c.conversation().await);
    let events = |id: &str| c.get(&format!("{}/events", conversation(id)));
    let only = |id: &str, kind: &str| c.get(&format!("{}/events?event={kind}", conversation(id)));
    let mut of_it = EventStream::open(events(&gone)).await;
    let of_its_messages = EventStream::open(only(&gone, "message.created")).await;
    let mut of_other = EventStream::open(events(&stays)).await;
    let mut socket = Socket::open(&c).await;
    let mut with_account = Socket::open(&c).await;
    for id in [&gone, &stays] {
        socket.subscribe(json!(id), None).await;
    }
    for id in [Value::Null, json!(gone)] {
        with_account.subscribe(id, None).await;
    }
    erased(&c, &customer).await;
    let last = erased_on_stream(&mut of_it, &Words::default()).await;
    for mut stream in [of_it, of_its_messages] {
        assert!(stream.rest(SOON).await.is_empty(), "nothing comes any more");
    }
    for socket in [&mut socket, &mut with_account] {
        assert_eq!(socket.event().await, last.json());
        socket
            .say(json!({"type": "unsubscribe", "conversation_id": gone}))
            .await;
        socket.hear_error("not_found").await;
    }
    // What it held is free for another one.
    let another = c.conversation().await;
    socket.subscribe(json!(another), None).await;
    let said = c.message(&stays, "goes on").await.expect(201);
    assert_eq!(of_other.event().await.event, "message.created");
    for socket in [&mut socket, &mut with_account] {
        let mut heard = socket.event().await;
        while heard["event"] == "conversation.created" {
            heard = socket.event().await;
        }
        assert_eq!(heard["data"]["message_id"], said["message_id"]);
    }
}

/// What somebody was answered who wrote on and on, until it was refused.
async fn write_on(c: &Client, id: &str, texts: &[String]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for text in texts.iter().cycle() {
        let body = json!({"content": text});
        let answer = c.post(&messages(id), body).await;
        statuses.push(answer.status);
        if answer.status != 201 {
            answer.error(404, "not_found", "");
            return statuses;
        }
    }
    statuses
}

/// Begins conversations with a customer for as long as that goes.
async fn begin_on(c: &Client, customer: &str, text: &str) {
    loop {
        let new = json!({"customer_id": customer, "initial_message": text});
        let answer = c.post("/v1/conversations", new).await;
        if answer.status != 201 {
            answer.error(400, "invalid_request", "customer_id");
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_while_a_person_is_erased_goes_along_or_is_refused() {
    let server = Server::start();
    let c = server.account().await.test();
    let customer = c.customer().await;
    let mut words = Words::default();
    let mut conversations = Vec::new();
    for _ in 0..sized(40, 10) {
        conversations.push(c.conversation_of(&customer).await);
    }
    let texts: Vec<String> = (0..4).map(|_| words.next("late")).collect();
    let writing = conversations.iter().map(|id| write_on(&c, id, &texts));
    let beginning = (0..sized(8, 2)).map(|_| begin_on(&c, &customer, &texts[0]));
    let erasing = async {
        let has_begun = async || {
            let first = c.get(&messages(&conversations[0])).await;
            (first.status == 404 || first.total() >= 3).then_some(())
        };
        until("they write", SOON, has_begun).await;
        erased(&c, &customer).await
    };
    let (statuses, _, begun) = tokio::join!(join_all(writing), join_all(beginning), erasing);
    assert!(statuses.iter().any(|of_one| of_one.contains(&201)));
    // Nothing was left behind by what came in between.
    for list in ["/v1/conversations", "/v1/customers"] {
        assert_eq!(c.get(list).await.expect(200).total(), 0, "{list}");
    }
    finished(&c, &begun.id("erasure_id")).await;
    assert_eq!(words.found(&server), std::collections::BTreeSet::new());
    let usage = c.get("/v1/usage").await.expect(200);
    for name in ["conversations", "messages", "bytes"] {
        assert_eq!(usage["meta"]["stored"][name], 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_customer_is_gone_before_the_first_conversation_also_across_kill_9() {
    let mut server = Server::start();
    let account = server.account().await;
    let mut c = account.test();
    let customer = c.customer().await;
    let mut words = Words::default();
    let count = sized(1_000, 60);
    begin_many(&c, &customer, (count, &mut words)).await;
    let oldest = c.get("/v1/conversations?order=asc&limit=1").await;
    let first = oldest.expect(200).data()[0]["conversation_id"].clone();
    let first = conversation(first.as_str().unwrap());
    let at = format!("/v1/customers/{customer}");
    let erasing = tokio::spawn({
        let (c, at) = (c.clone(), format!("{at}?erase=true"));
        async move { c.delete(&at).try_send().await.ok() }
    });
    // They go in the order in which they came.
    until("the first conversation is gone", SOON, async || {
        (c.get(&first).await.status == 404).then_some(())
    })
    .await;
    c.get(&at).await.error(404, "not_found", "");
    let late = json!({"customer_id": customer, "initial_message": "late"});
    c.post("/v1/conversations", late)
        .await
        .error(400, "invalid_request", "customer_id");
    server.kill9();
    let status = erasing.await.unwrap().map(|answer| answer.status);
    assert!(matches!(status, None | Some(202)), "{status:?}");
    server.restart();
    c = c.at(&server.address());
    c.get(&at).await.error(404, "not_found", "");
    // It goes on by itself, whoever it is that is gone.
    let audit = c.get("/v1/audit?action=erasure.created").await.expect(200);
    let erasure = audit.data()[0]["subject"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let shown = finished(&c, &erasure).await;
    assert_eq!(shown["customer_id"], customer.as_str());
    assert_eq!(shown["conversations"], count);
    assert_eq!(c.get("/v1/conversations").await.expect(200).total(), 0);
    assert_eq!(words.found(&server), std::collections::BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_sound_at_every_moment_of_an_erasure() {
    let mut server = Server::start();
    let account = server.account().await;
    let mut c = account.test();
    let customer = c.customer().await;
    let neighbour = c.conversation().await;
    c.message(&neighbour, "stays").await;
    let mut words = Words::default();
    begin_many(&c, &customer, (sized(200, 40), &mut words)).await;
    let with_files = Somebody::talking(&c).await;
    let begun = erased(&c, &customer).await;
    let with_files = erased(&c, &with_files.customer).await;
    for _ in 0..sized(4, 2) {
        server.kill9();
        server.assert_sound();
        server.restart();
    }
    c = c.at(&server.address());
    for begun in [begun, with_files] {
        finished(&c, &begun.id("erasure_id")).await;
    }
    assert_eq!(c.get("/v1/conversations").await.expect(200).total(), 1);
    server.term();
    server.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_again_of_an_erased_person_has_no_word() {
    let server = Setup::default().delivering("[0.05]", "5").start();
    let c = server.account().await.test();
    let receiver = Receiver::start().await;
    receiver.answer(|received| Reply::with_body(200, &received.body));
    let hook = json!({"url": receiver.url(), "events": ["*"]});
    let hook = c.post("/v1/webhooks", hook).await.expect(201);
    let hook = format!("/v1/webhooks/{}", hook.id("webhook_id"));
    let somebody = Somebody::talking(&c).await;
    let begun = erased(&c, &somebody.customer).await;
    finished(&c, &begun.id("erasure_id")).await;
    let deliveries = async || {
        let listed = c.get(&format!("{hook}/deliveries?limit=100")).await;
        let listed = listed.expect(200);
        let waits = |item: &&Value| item["status"] == "pending";
        (listed.data().iter().filter(waits).count() == 0).then_some(listed)
    };
    let before = until("all is delivered", SOON, deliveries).await;
    let (count, mut sent) = (before.data().len(), receiver.count());
    assert!(count >= 10, "{count}");
    for item in before.data() {
        let at = format!(
            "{hook}/deliveries/{}",
            item["delivery_id"].as_str().unwrap()
        );
        let shown = c.get(&at).await.expect(200);
        assert_wordless(&String::from_utf8_lossy(&shown.bytes), &somebody.words);
        c.post(&format!("{at}/retry"), json!({})).await.expect(202);
    }
    let again = receiver.wait_for(sent + count).await.split_off(sent);
    sent += count;
    until("all is delivered again", SOON, deliveries).await;
    let since = json!({"since": "2020-01-01T00:00:00Z"});
    c.post(&format!("{hook}/replay"), since).await.expect(202);
    let replayed = receiver.wait_for(sent + count).await.split_off(sent);
    for received in again.iter().chain(&replayed) {
        assert_wordless(&received.body, &somebody.words);
    }
    let erased = again
        .iter()
        .filter(|one| one.kind() == "conversation.erased");
    assert_eq!(erased.count(), 2);
    assert_eq!(words_in_files(&server, &somebody), 0);
}

fn words_in_files(server: &Server, somebody: &Somebody) -> usize {
    somebody.words.found(server).len()
}

/// Only POST knows idempotency keys: the second answer is that of what is there by then.
#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_is_asked_for_again_under_the_same_key_and_under_none() {
    let c = account().await.test();
    let somebody = Somebody::talking(&c).await;
    let at = format!("/v1/customers/{}?erase=true", somebody.customer);
    let keyed = || c.delete(&at).with("idempotency-key", "of the erasure");
    let asked = join_all([keyed(), c.delete(&at), keyed()].map(IntoFuture::into_future)).await;
    for again in &asked {
        assert_eq!(again.status, 202, "{again}");
        assert_eq!(again.body, asked[0].body, "one erasure");
    }
    finished(&c, &asked[0].id("erasure_id")).await;
    keyed().await.error(404, "not_found", "");
    c.delete(&at).await.error(404, "not_found", "");
    let audit = c.get("/v1/audit?action=erasure.created").await.expect(200);
    assert_eq!(audit.total(), 1);
    let audit = c.get("/v1/audit?action=customer.erased").await.expect(200);
    assert_eq!(audit.total(), 1);
}

/// The contract's bound for 10,000 messages is a minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_person_with_many_messages_is_gone_within_the_promised_time() {
    let c = account().await.test();
    let customer = c.customer().await;
    let (conversations, messages_each) = (sized(20, 4), sized(100, 20));
    let several = (0..conversations).map(|_| async {
        let id = c.conversation_of(&customer).await;
        for n in 0..messages_each {
            c.message(&id, &format!("message {n}")).await.expect(201);
        }
    });
    join_all(several).await;
    let from = Instant::now();
    let begun = erased(&c, &customer).await;
    assert_eq!(begun["messages"], conversations * messages_each);
    finished(&c, &begun.id("erasure_id")).await;
    let took = from.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}
