//! What operators are told of the store.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::OwnDatabase;
use crate::accounts::{ChangeCustomer, Customer};
use crate::conversation::messages::CloseConversation;
use crate::store::contract::{House, message, wait};
use crate::store::{BatchSizes, StoreValue};
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::secret;
use colloquy_runtime::CommitFailure;

fn live() -> Tenant {
    Tenant::of(1, Mode::Live)
}

fn metrics(house: &House<OwnDatabase>) -> BTreeMap<&'static str, u64> {
    let metrics = house.store().metrics().into_iter();
    let whole = metrics.filter_map(|metric| match metric.value {
        StoreValue::Counter(value) | StoreValue::Gauge(value) => Some((metric.name, value)),
        StoreValue::Seconds(_) => None,
    });
    whole.collect()
}

#[test]
fn operators_are_told_what_the_server_holds() {
    let mut own = OwnDatabase::quiet();
    own.pace.sizes_every = Duration::from_millis(20);
    let house = House::at(own);
    house.until("the size of an empty store is known", || {
        house.store().health().database_bytes > 0
    });
    let before = house.store().health();
    let customer = house.customer(live(), "Ada");
    let mut conversation = house.conversation(live(), customer, None);
    // Texts that a server can't keep in less than their length.
    for _ in 0..20 {
        let parts = std::iter::repeat_with(|| secret::generate("part_"));
        conversation
            .send(&parts.take(300).collect::<String>())
            .unwrap();
    }
    // The log is asked for before the whole: what is written between the two counts to the rest,
    // until they are asked for again.
    house.until(
        "the log has grown by the texts, and the rest by less",
        || {
            let now = house.store().health();
            let log = now.log_bytes.saturating_sub(before.log_bytes);
            let rest = now.database_bytes.saturating_sub(before.database_bytes);
            log > 20 * 10_000 && rest < log
        },
    );
    let (health, metrics) = (house.store().health(), metrics(&house));
    assert!(metrics["store_log_bytes"] >= health.log_bytes);
    for part in ["conversations", "documents", "deliveries"] {
        let bytes = metrics[format!("store_{part}_bytes").as_str()];
        assert!(
            (1..=health.database_bytes).contains(&bytes),
            "{part}: {bytes}"
        );
    }
}

#[test]
fn operators_are_told_how_commits_fare() {
    let house = House::at(OwnDatabase::quiet());
    let customer = house.customer(live(), "Ada");
    let mut conversation = house.conversation(live(), customer, None);
    let mut late = house.reopened(conversation.id);
    for _ in 0..5 {
        conversation.send("one at a time").unwrap();
    }
    assert_eq!(
        late.prepare(CloseConversation::default()).settled(),
        Err(CommitFailure::Conflict)
    );
    assert_eq!(
        late.prepare(message("depends on it")).settled(),
        Err(CommitFailure::Conflict),
        "what was decided behind it is decided anew with it"
    );
    let _ = late.barrier();
    assert!(house.user(live(), "ada@example.org").is_ok());
    assert!(
        house.user(live(), "ada@example.org").is_err(),
        "the name is taken"
    );
    wait(house.store().reload(conversation.subject())).unwrap();
    house.settle();
    let (health, counted) = (house.store().health(), metrics(&house));
    assert_eq!(health.queue, 0, "all is finished, what was refused too");
    assert_eq!(health.batch, BatchSizes { p50: 1, p99: 1 });
    assert!(health.commit.p50 > Duration::ZERO);
    assert_eq!(
        counted["store_commits_total"], 8,
        "what was refused is no commit"
    );
    assert_eq!(counted["store_batch_commits_max"], 1);
    let change = json!({"name": "Bea"});
    let change: ChangeCustomer = serde_json::from_value(change).unwrap();
    let mut record = house.record::<Customer>(live(), customer);
    record.ask(change).unwrap();
    house.until("no name waits to be copied", || {
        metrics(&house)["store_renames_waiting"] == 0
    });
}
