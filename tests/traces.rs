//! Traces, as an OpenTelemetry collector that is none of ours is sent them.

use std::time::Duration;

use serde_json::json;

use crate::support::server::Folder;
use crate::support::{Answer, Client, Collector, Receiver, Setup, Span, unique, until};

const SOON: Duration = Duration::from_secs(30);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const MESSAGES: &str = "POST /v1/conversations/{conversation_id}/messages";

/// The one span of this name.
fn one<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    let mut named = spans.iter().filter(|span| span.name == name);
    let found = named.next().unwrap_or_else(|| panic!("{name}: {spans:#?}"));
    assert!(named.next().is_none(), "{name}: {spans:#?}");
    found
}

/// The trace of a request that is part of no other.
fn trace_of(answer: &Answer) -> String {
    let id = answer.header("x-request-id");
    id.strip_prefix("req_").unwrap().to_owned()
}

async fn sent(c: &Client, conversation: &str, text: &str, parent: Option<&str>) -> Answer {
    let at = format!("/v1/conversations/{conversation}/messages");
    let message = json!({"content": text, "sender_type": "customer"});
    let mut call = c.post(&at, message);
    if let Some(parent) = parent {
        call = call.with("traceparent", parent);
    }
    call.await.expect(201)
}

/// An endpoint for all messages of an account.
async fn receiver(c: &Client) -> Receiver {
    let receiver = Receiver::start().await;
    let hook = json!({"url": receiver.url(), "events": ["message.created"]});
    c.post("/v1/webhooks", hook).await.expect(201);
    receiver
}

/// That a message is traced from its request to the delivery of its event.
fn check_steps(spans: &[Span], conversation: &str) {
    let request = one(spans, MESSAGES);
    let asked: Vec<&Span> = spans
        .iter()
        .filter(|span| span.attribute("actor.id") == Some(conversation))
        .collect();
    let [ask] = asked[..] else {
        panic!("{spans:#?}")
    };
    let within = |name: &str, outer: &Span| {
        let inner = spans
            .iter()
            .find(|span| span.name == name && span.parent == outer.id);
        let inner = inner.unwrap_or_else(|| panic!("{name}: {spans:#?}"));
        assert!(
            inner.span[0] >= outer.span[0] && inner.span[1] <= outer.span[1],
            "{name}: {spans:#?}"
        );
    };
    assert_eq!((&*ask.name, &ask.parent), ("ask", &request.id));
    assert_eq!(ask.attribute("actor.kind"), Some("conversation"));
    within("ask", request);
    within("decide", ask);
    within("commit", ask);
    let delivery = one(spans, "deliver");
    assert_eq!(delivery.parent, request.id);
    assert_eq!(delivery.attribute("http.response.status_code"), Some("200"));
    assert_eq!(delivery.attribute("delivery.attempt"), Some("1"));
}

#[tokio::test]
async fn a_message_is_traced_from_its_request_to_its_delivery() {
    let collector = Collector::start();
    let server = collector.setup("1").delivering("[1]", "5").start();
    let account = server.account().await;
    let c = account.test();
    let _receiver = receiver(&c).await;
    let conversation = c.conversation().await;
    let sent = sent(&c, &conversation, "hello", None).await;
    let spans = collector.trace_with(&trace_of(&sent), "deliver").await;
    check_steps(&spans, &conversation);
    let request = one(&spans, MESSAGES);
    assert_eq!(request.parent, "");
    for (name, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/v1/conversations/{conversation_id}/messages"),
        ("http.response.status_code", "201"),
        ("request.id", sent.header("x-request-id")),
        ("account.id", &account.account_id),
    ] {
        assert_eq!(request.attribute(name), Some(value), "{request:?}");
    }
    // What is refused is traced like all else.
    let refused = c.get("/v1/conversations/conv_0").await;
    assert_eq!(refused.status, 404);
    let name = "GET /v1/conversations/{conversation_id}";
    let spans = collector.trace_with(&trace_of(&refused), name).await;
    let status = one(&spans, name).attribute("http.response.status_code");
    assert_eq!(status, Some("404"));
}

#[tokio::test]
async fn the_trace_of_a_caller_goes_on_and_its_word_counts() {
    let collector = Collector::start();
    let server = collector.setup("0").delivering("[1]", "5").start();
    let c = server.account().await.test();
    let _receiver = receiver(&c).await;
    let conversation = c.conversation().await;
    let unsampled = sent(&c, &conversation, "none", None).await;
    let wrong = sent(&c, &conversation, "wrong", Some("00-nothing")).await;
    let parent = format!("00-{TRACE}-{CALLER}-01");
    sent(&c, &conversation, "hello", Some(&parent)).await;
    let spans = collector.trace_with(TRACE, "deliver").await;
    check_steps(&spans, &conversation);
    assert_eq!(one(&spans, MESSAGES).parent, CALLER);
    let all = collector.spans();
    for other in [unsampled, wrong] {
        let trace = trace_of(&other);
        assert!(all.iter().all(|span| span.trace != trace), "{all:#?}");
    }
    let everything = collector.setup("1").start();
    let c = everything.account().await.test();
    let conversation = c.conversation().await;
    let other = TRACE.replace("4bf", "aaa");
    let parent = format!("00-{other}-{CALLER}-00");
    sent(&c, &conversation, "not this", Some(&parent)).await;
    let last = sent(&c, &conversation, "but this", None).await;
    collector.trace_with(&trace_of(&last), MESSAGES).await;
    assert!(!collector.text().contains(&other));
}

#[tokio::test]
async fn a_trace_holds_no_text_and_no_secret() {
    let collector = Collector::start();
    let server = collector.setup("1").delivering("[1]", "5").start();
    let account = server.account().await;
    let c = account.test();
    let receiver = receiver(&c).await;
    let (text, name, query) = (unique("words"), unique("name"), unique("asked"));
    let customer = json!({"name": name, "email": format!("{name}@example.com")});
    c.post("/v1/customers", customer).await.expect(201);
    let conversation = c.conversation().await;
    let message = sent(&c, &conversation, &text, None).await;
    let document = c.document("shared\n").await;
    let (_, link) = c.share(&document, json!({})).await;
    account.anonymous().get(&link).await.expect(200);
    c.get(&format!("/nowhere/{query}?{query}={query}")).await;
    let last = c.get(&format!("/v1/customers?email={query}")).await;
    collector
        .trace_with(&trace_of(&last), "GET /v1/customers")
        .await;
    collector.trace_with(&trace_of(&message), "deliver").await;
    let told = collector.text();
    assert!(told.contains("GET /s/{token}"), "{told}");
    let token = link.trim_start_matches("/s/");
    let url = receiver.url();
    for hidden in [&*text, &name, &query, token, account.test_key(), &url] {
        assert!(!told.contains(hidden), "{hidden}");
    }
}

#[tokio::test]
async fn a_collector_that_is_away_costs_traces_and_nothing_else() {
    let mut collector = Collector::start();
    let mut server = collector.setup("1").start();
    let c = server.account().await.test();
    let conversation = c.conversation().await;
    collector.close();
    for _ in 0..20 {
        sent(&c, &conversation, "goes on", None).await;
    }
    until("it is told", SOON, async || {
        server.log().contains("takes no traces").then_some(())
    })
    .await;
    collector.open();
    until("it is sent traces again", SOON, async || {
        let last = sent(&c, &conversation, "again", None).await;
        let trace = trace_of(&last);
        tokio::time::timeout(
            Duration::from_secs(4),
            collector.trace_with(&trace, MESSAGES),
        )
        .await
        .ok()
    })
    .await;
    let metrics = server.operator().get("/metrics").await.expect(200);
    let metrics = String::from_utf8(metrics.bytes).unwrap();
    let lost = metrics
        .lines()
        .find_map(|line| line.strip_prefix("colloquy_trace_spans_total{outcome=\"lost\"} "));
    assert!(lost.unwrap().parse::<u64>().unwrap() >= 20, "{metrics}");
    let log = server.log();
    assert_eq!(log.matches("takes no traces").count(), 1, "{log}");
    assert!(log.contains("takes traces again"), "{log}");
    // What was recorded right before the end is sent before it.
    let last = sent(&c, &conversation, "the last", None).await;
    server.term();
    collector.trace_with(&trace_of(&last), MESSAGES).await;
}

#[tokio::test]
async fn a_half_of_the_requests_is_traced_where_the_ratio_is_a_half() {
    let collector = Collector::start();
    let mut server = collector.setup("0.5").start();
    let c = server.account().await.test();
    let conversation = c.conversation().await;
    let mut traces = Vec::new();
    for _ in 0..200 {
        traces.push(trace_of(
            &sent(&c, &conversation, "one of many", None).await,
        ));
    }
    // What was recorded is sent before the end.
    server.term();
    // Seven standard deviations below and above.
    let sampled = until("they are written", SOON, async || {
        let told = collector.text();
        let sampled = traces.iter().filter(|trace| told.contains(*trace)).count();
        (sampled >= 50).then_some(sampled)
    })
    .await;
    assert!(sampled <= 150, "{sampled}");
}

#[tokio::test]
async fn a_collector_is_shown_the_authorization_that_the_settings_give() {
    let collector = Receiver::start().await;
    let server = Setup::default()
        .env("COLLOQUY__TRACES__ENDPOINT", &collector.url())
        .env("COLLOQUY__TRACES__RATIO", "1")
        .env("COLLOQUY__TRACES__AUTHORIZATION", "Bearer of-the-collector")
        .start();
    server.account().await;
    let sent = collector.wait_for(1).await;
    assert_eq!(sent[0].header("authorization"), "Bearer of-the-collector");
    assert_eq!(sent[0].header("content-type"), "application/x-protobuf");
}

#[tokio::test]
async fn settings_that_can_not_be_used_are_refused_by_name() {
    for (name, value) in [
        ("ENDPOINT", "127.0.0.1:4318"),
        ("RATIO", "1.5"),
        ("RATIO", "-1"),
        ("AUTHORIZATION", "Bearer\n"),
    ] {
        let folder = Folder::new();
        let setup = Setup::default().env(&format!("COLLOQUY__TRACES__{name}"), value);
        let (status, said) = setup.refused_in(&folder.work());
        let key = format!("traces.{}", name.to_lowercase());
        assert!(!status.success() && said.contains(&key), "{said}");
    }
}
