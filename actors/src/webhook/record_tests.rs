//! Tests of an endpoint's rules, without a store.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use colloquy_model::time::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::super::restore_endpoint;
use super::*;
use crate::accounts::record::{Record, RecordCommand};
use crate::idempotency::{Keys, Looked};
use colloquy_model::caller::{Actor, Caller, Mode};
use colloquy_model::command::CommandMeta;
use colloquy_model::endpoint::SigningSecret;
use colloquy_model::event_kind::EventKind;
use colloquy_model::idempotency::key_hash;
use colloquy_runtime::{Command, Decision, Entity};

const TENANT: Tenant = Tenant::OPERATORS;

fn from<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

fn refused<T: DeserializeOwned>(json: Value) -> bool {
    serde_json::from_value::<T>(json).is_err()
}

fn context(id: WebhookId, now: Timestamp) -> CommandContext<Webhook> {
    CommandContext {
        id,
        tenant: TENANT,
        now,
    }
}

fn created(json: Value) -> (WebhookId, Webhook, String) {
    let id = WebhookId::new(Timestamp(1_000));
    let new: CreateWebhook = from(json);
    let made = new.decide_vacant(&context(id, Timestamp(1_000))).unwrap();
    (id, made.state, made.secret.unwrap())
}

fn shown(webhook: &Webhook, secret: Secret<'_>) -> Value {
    serde_json::from_slice(&webhook.show(&Identity::default(), secret)).unwrap()
}

fn ask<Q: RecordRequest<Webhook>>(
    webhook: &Webhook,
    request: Q,
    now: Timestamp,
) -> Outcome<Webhook> {
    let context = context(webhook.view.webhook_id, now);
    request.decide(webhook, &context).unwrap()
}

fn put(step: Outcome<Webhook>) -> Webhook {
    match step {
        Outcome::Put(webhook, _) | Outcome::PutMade(webhook) | Outcome::PutSecret(webhook, ..) => {
            webhook
        }
        Outcome::Show
        | Outcome::PutWithoutContent(_)
        | Outcome::PutShowingOnce { .. }
        | Outcome::NoContent
        | Outcome::ShowBody(_)
        | Outcome::ShowBodyOnce { .. }
        | Outcome::Erase
        | Outcome::Delete(..) => {
            panic!("nothing was put")
        }
    }
}

/// The secret that was made last.
fn newest(text: String) -> SigningSecret {
    SigningSecret {
        text,
        ends_at: None,
    }
}

/// A secret that signs until then.
fn ending(text: String, ends_at: Timestamp) -> SigningSecret {
    SigningSecret {
        text,
        ends_at: Some(ends_at),
    }
}

#[test]
fn a_new_endpoint_gets_everything_and_shows_its_secret_once() {
    let (id, webhook, secret) = created(json!({"url": "https://example.com/hook"}));
    let made = id.created_at();
    let expected = json!({
        "webhook_id": id, "url": "https://example.com/hook", "events": ["*"], "filter": null, "description": null,
        "enabled": true, "disabled_reason": null, "created_at": made, "updated_at": made,
    });
    assert_eq!(shown(&webhook, Secret::Hidden), expected);
    assert_eq!(shown(&webhook, Secret::Withheld)["secret"], Value::Null);
    assert!(
        shown(&webhook, Secret::Withheld)
            .as_object()
            .unwrap()
            .contains_key("secret")
    );
    assert_eq!(
        shown(&webhook, Secret::Shown(&secret))["secret"],
        json!(secret)
    );
    assert!(secret.starts_with("whsec_"));
}

#[test]
fn what_is_no_list_of_events_and_no_filter_is_refused() {
    let with = |name: &str, value: Value| json!({"url": "https://example.com", name: value});
    for events in [
        json!([]),
        json!(null),
        json!(["*", "message.created"]),
        json!(["message.sent"]),
        json!("*"),
        json!(["*", "*"]),
        json!(["message.created", "message.created"]),
        json!([1]),
        json!([""]),
    ] {
        assert!(
            refused::<CreateWebhook>(with("events", events.clone())),
            "{events}"
        );
        assert!(
            refused::<ChangeWebhook>(with("events", events.clone())),
            "{events}"
        );
    }
    // Bodies are read so that an array is never an object; that is tested over HTTP.
    for filter in [
        json!({"channel": []}),
        json!({"channel": "chat"}),
        json!({"channel": null}),
        json!({"status": ["x"]}),
        json!({"channel": ["fax"]}),
        json!({"document_id": ["conv_1"]}),
        json!({"priority": ["low", "low"]}),
    ] {
        assert!(
            refused::<CreateWebhook>(with("filter", filter.clone())),
            "{filter}"
        );
        assert!(
            refused::<ChangeWebhook>(with("filter", filter.clone())),
            "{filter}"
        );
    }
    for other in [
        ("enabled", json!(null)),
        ("description", json!("x".repeat(501))),
        ("nam", json!("x")),
    ] {
        assert!(
            refused::<CreateWebhook>(with(other.0, other.1)),
            "{}",
            other.0
        );
    }
}

#[test]
fn a_change_that_changes_nothing_is_none() {
    let (_, webhook, _) = created(json!({
        "url": "https://example.com", "events": ["document.merged"], "filter": {"channel": ["chat"]}, "description": "x",
    }));
    for same in [
        json!({}),
        json!({"enabled": true}),
        json!({"filter": {"channel": ["chat"]}, "events": ["document.merged"]}),
        json!({"url": "https://example.com", "description": "x"}),
    ] {
        assert!(matches!(
            ask(&webhook, from::<ChangeWebhook>(same), Timestamp(9_000)),
            Outcome::Show
        ));
    }
    let changed = put(ask(
        &webhook,
        from::<ChangeWebhook>(json!({"filter": {}, "description": null})),
        Timestamp(i64::MAX / 4),
    ));
    assert_eq!(
        (&changed.view.filter, &changed.view.description),
        (&None, &None)
    );
    assert!(changed.view.updated_at > webhook.view.updated_at);
}

#[test]
fn rotation_keeps_the_old_secret_for_the_overlap_and_ends_every_earlier_one() {
    let (id, webhook, first) = created(json!({"url": "https://example.com"}));
    let rotate = |webhook: &Webhook, body: Value, now| {
        let step = ask(webhook, from::<RotateSecret>(body), now);
        let Outcome::PutSecret(webhook, _, secret) = step else {
            panic!("{step:?}")
        };
        (webhook, secret)
    };
    let (webhook, second) = rotate(&webhook, json!({}), Timestamp(5_000));
    let held = |webhook: &Webhook| webhook.endpoint(id, TENANT).secrets;
    assert_eq!(
        held(&webhook),
        [newest(second.clone()), ending(first, Timestamp(86_405_000))]
    );
    let (webhook, third) = rotate(&webhook, json!({"overlap_seconds": 60}), Timestamp(6_000));
    assert_eq!(
        held(&webhook),
        [newest(third), ending(second, Timestamp(66_000))]
    );
    let (webhook, fourth) = rotate(&webhook, json!({"overlap_seconds": 0}), Timestamp(7_000));
    assert_eq!(held(&webhook), [newest(fourth)]);
    let request: RotateSecret = from(json!({"overlap_seconds": 31_536_001}));
    assert!(
        request
            .decide(&webhook, &context(id, Timestamp(8_000)))
            .is_err()
    );
}

#[test]
fn who_was_disabled_by_the_server_says_why_until_enabled_again() {
    let (_, webhook, _) = created(json!({"url": "https://example.com"}));
    let gone = put(ask(
        &webhook,
        DisableWebhook {
            reason: DisabledReason::Gone,
        },
        Timestamp(5_000),
    ));
    assert_eq!(shown(&gone, Secret::Hidden)["disabled_reason"], "gone");
    assert!(matches!(
        ask(
            &gone,
            DisableWebhook {
                reason: DisabledReason::Failing
            },
            Timestamp(6_000)
        ),
        Outcome::Show
    ));
    let change = |webhook: &Webhook, enabled: bool| {
        ask(
            webhook,
            from::<ChangeWebhook>(json!({"enabled": enabled})),
            Timestamp(7_000),
        )
    };
    assert!(matches!(change(&gone, false), Outcome::Show));
    let again = put(change(&gone, true));
    assert_eq!(
        (again.view.enabled, again.view.disabled_reason),
        (true, None)
    );
    let by_hand = put(change(&again, false));
    assert_eq!(
        (by_hand.view.enabled, by_hand.view.disabled_reason),
        (false, None)
    );
}

#[test]
fn an_endpoint_reads_back_from_its_record_and_from_its_rows() {
    let document = colloquy_model::id::DocumentId::new(Timestamp(1));
    let (id, webhook, secret) = created(json!({
        "url": "https://example.com", "events": ["message.created", "document.shared"], "enabled": false,
        "filter": {"channel": ["chat", "email"], "priority": ["high"], "document_id": [document]},
    }));
    let stored = restore_endpoint(&serde_json::to_vec(&webhook).unwrap(), id, TENANT).unwrap();
    assert_eq!(
        (&stored, &stored.secrets),
        (&webhook.endpoint(id, TENANT), &vec![newest(secret)])
    );
    let row = restore_endpoint(
        &webhook.show(&Identity::default(), Secret::Hidden),
        id,
        TENANT,
    )
    .unwrap();
    assert_eq!(
        row,
        Endpoint {
            secrets: Vec::new(),
            ..stored.clone()
        }
    );
    assert_eq!(
        stored.wants.kinds,
        [EventKind::MessageCreated, EventKind::DocumentShared]
    );
    assert_eq!(
        (
            stored.wants.channels.len(),
            stored.wants.priorities.len(),
            stored.enabled
        ),
        (2, 1, false)
    );
    assert_eq!(stored.wants.documents, [document.number()]);
}

/// An endpoint as its actor holds it.
struct Play {
    record: Record<Webhook>,
    keys: Arc<Keys>,
}

impl Play {
    fn decide<Q: RecordRequest<Webhook>>(
        &self,
        tenant: Tenant,
        key: &str,
        request: Q,
    ) -> Decision<Record<Webhook>, Q::Reply> {
        let Looked::Fresh(reservation, _) = self
            .keys
            .look(key_hash(tenant, key), crate::idempotency::numbered(0))
        else {
            panic!("{key}")
        };
        let caller = Caller {
            tenant,
            actor: Actor::server("a test"),
        };
        let meta = CommandMeta {
            reservation: Some(reservation),
            ..CommandMeta::new(caller)
        };
        let command = RecordCommand {
            meta,
            request,
            identity: Arc::new(Identity::default()),
        };
        command.decide(&self.record, None, Timestamp(2_000))
    }
}

fn parsed(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// An endpoint of test data that was just made.
fn made() -> Play {
    let mut play = Play {
        record: Record::vacant(WebhookId::new(Timestamp(1))),
        keys: Arc::default(),
    };
    let new: CreateWebhook = from(json!({"url": "https://example.com"}));
    let Decision::Change { change, .. } = play.decide(Tenant::of(1, Mode::Test), "new", new) else {
        panic!()
    };
    play.record.apply(change);
    play
}

#[test]
fn a_kept_answer_has_no_secret() {
    let play = Play {
        record: Record::vacant(WebhookId::new(Timestamp(1))),
        keys: Arc::default(),
    };
    let tenant = Tenant::of(1, Mode::Test);
    let new: CreateWebhook = from(json!({"url": "https://example.com"}));
    let Decision::Change { commit, reply, .. } = play.decide(tenant, "a", new) else {
        panic!()
    };
    let secret = parsed(&reply.body)["secret"].as_str().unwrap().to_owned();
    let kept = commit.answer.unwrap();
    assert_eq!(parsed(&kept.body.unwrap())["secret"], Value::Null);
    assert!(!String::from_utf8_lossy(&commit.rows[0].payload).contains(&secret));
    let [Effect::Endpoint(endpoint)] = commit.effects.as_slice() else {
        panic!()
    };
    assert_eq!(
        (&endpoint.secrets, endpoint.tenant),
        (&vec![newest(secret)], tenant)
    );
}

#[test]
fn a_test_is_kept_without_a_change_while_its_endpoint_is_there() {
    let mut play = made();
    let tenant = Tenant::of(1, Mode::Test);
    let attempt = Bytes::from_static(b"{}");
    let tested = || KeepTestResult {
        attempt: attempt.clone(),
    };
    let Decision::Keep { commit, reply } = play.decide(tenant, "b", tested()) else {
        panic!()
    };
    assert_eq!(
        (
            &reply.body,
            &reply.etag,
            commit.rows.len(),
            commit.effects.len()
        ),
        (&attempt, &None, 0, 0)
    );
    assert_eq!(
        commit.answer.and_then(|kept| kept.body),
        Some(attempt.clone())
    );
    let elsewhere = play.decide(Tenant::of(1, Mode::Live), "c", tested());
    assert!(matches!(elsewhere, Decision::Refuse(RecordError::NotFound)));

    let Decision::Change { change, commit, .. } = play.decide(tenant, "d", DeleteRecord) else {
        panic!()
    };
    assert!(matches!(
        commit.effects.as_slice(),
        [Effect::EndpointGone(_)]
    ));
    play.record.apply(change);
    assert!(matches!(
        play.decide(tenant, "e", tested()),
        Decision::Refuse(RecordError::NotFound)
    ));
}
