//! The dispatcher, over the embedded store, with a courier that stands in for the network.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::accounts::record::{Record, RecordCommand, RecordRequest};
use crate::idempotency::Keys;
use crate::store::sqlite::{SqliteStore, StoreSettings};
use crate::store::{DeliveryState, Later, Store};
use crate::views::Views;
use crate::webhook::target::PrivateTargets;
use crate::webhook::{
    ChangeWebhook, Courier, CreateWebhook, Deliveries, DeliveryDependencies, DeliveryList,
    Disabling, Lost, OutboundRequest, ReplayEvents, Reply, Webhook, WebhookSettings,
};
use colloquy_model::answer::Done;
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::commit::{Commit, NewRow};
use colloquy_model::conversation::MessageCounts;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::WebhookId;
use colloquy_model::page::{Order, Paging, Start};
use colloquy_runtime::{Command, Decision, Entity, Incarnation};

/// What the network would do, in order; then it answers 200.
#[derive(Default)]
struct Scripted {
    script: Mutex<VecDeque<u16>>,
    taken: Mutex<Vec<(u16, u64)>>,
}

/// A status that is none: the courier panics.
const PANIC: u16 = 0;

impl Courier for Scripted {
    fn post(&self, request: OutboundRequest) -> Later<Result<Reply, Lost>> {
        let status = self.script.lock().pop_front().unwrap_or(200);
        let event: Value = serde_json::from_slice(&request.body).unwrap();
        self.taken
            .lock()
            .push((status, event.get("seq").unwrap().as_u64().unwrap()));
        Box::pin(async move {
            assert_ne!(status, PANIC, "asked to");
            Ok(Reply {
                status,
                retry_after: None,
                answer: String::new(),
            })
        })
    }
}

struct Desk {
    store: Arc<dyn Store>,
    views: Views,
    courier: Arc<Scripted>,
    runtime: tokio::runtime::Runtime,
    endpoint: Record<Webhook>,
    id: WebhookId,
}

fn tenant() -> Tenant {
    Tenant::of(1, Mode::Live)
}

fn settings() -> WebhookSettings {
    WebhookSettings {
        private_targets: PrivateTargets::Allowed,
        retry_schedule: vec![Duration::from_millis(20); 3],
        jitter: 0.0,
        timeout: Duration::from_secs(5),
        places: 4,
        account_places: 128,
        replays_max: 16,
        retry_after_max: Duration::from_secs(1),
        disable_after: Duration::from_secs(3600),
        keep_deliveries: Duration::from_secs(3600),
    }
}

impl Desk {
    fn new(folder: &Path) -> Self {
        let views = Views::default();
        let path = folder.join("colloquy.db");
        let store = SqliteStore::open(&path, Arc::new(views.clone()), StoreSettings::for_tests())
            .unwrap()
            .0;
        let id = WebhookId::new(Timestamp(1));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let mut desk = Desk {
            store: Arc::new(store),
            views,
            courier: Arc::default(),
            runtime,
            endpoint: Record::vacant(id),
            id,
        };
        let new = json!({"url": "https://example.com/"});
        desk.ask(serde_json::from_value::<CreateWebhook>(new).unwrap());
        desk
    }

    fn commit(&self, commit: Commit) {
        let (settled, outcome) = sync_channel(1);
        self.store.submit(
            Incarnation::next(),
            commit,
            Box::new(move |outcome| settled.send(outcome).unwrap()),
        );
        assert_eq!(outcome.recv().unwrap(), Ok(()));
    }

    fn ask<Q: RecordRequest<Webhook>>(&mut self, request: Q) {
        let caller = Caller {
            tenant: tenant(),
            actor: Actor::server("a test"),
        };
        let command = RecordCommand {
            meta: CommandMeta::new(caller),
            request,
            identity: Arc::clone(&self.views.identity),
        };
        match command.decide(&self.endpoint, None, Timestamp::now()) {
            Decision::Change { commit, change, .. } => {
                self.commit(commit);
                self.endpoint.apply(change);
            }
            Decision::Answer(_) | Decision::Refuse(_) | Decision::Keep { .. } => {
                panic!("nothing changed")
            }
        }
    }

    fn enabled(&mut self, enabled: bool) {
        let change = json!({ "enabled": enabled });
        self.ask(serde_json::from_value::<ChangeWebhook>(change).unwrap());
    }

    /// Events of one conversation.
    fn events(&self, sequences: std::ops::RangeInclusive<u64>) {
        for sequence in sequences {
            let counts = MessageCounts {
                agent: sequence,
                last_message_at: Some(Timestamp(1)),
                ..MessageCounts::default()
            };
            let kind = EventKind::MessageCreated;
            let row = NewRow {
                counts,
                ..NewRow::new(kind, "{}".into())
            };
            let subject = Subject {
                kind: Kind::Conversation,
                number: EntityNumber(5),
                tail: 1,
            };
            let caller = Caller {
                tenant: tenant(),
                actor: Actor::server("a test"),
            };
            self.commit(Commit {
                rows: vec![row],
                ..Commit::new(subject, Sequence(sequence - 1), caller, Timestamp::now())
            });
        }
    }

    fn start(&self) -> Deliveries {
        let dependencies = DeliveryDependencies {
            store: Arc::clone(&self.store),
            feed: Arc::clone(&self.views.feed),
            identity: Arc::clone(&self.views.identity),
            courier: Arc::<Scripted>::clone(&self.courier),
            disabler: Arc::new(|_| Box::pin(async { Disabling::Done })),
            keys: Arc::<Keys>::clone(&self.views.keys),
        };
        Deliveries::start(dependencies, settings()).unwrap()
    }

    fn stop(&self, deliveries: &Deliveries) {
        self.runtime
            .block_on(deliveries.stop(Duration::from_secs(20)));
    }

    fn total(&self, deliveries: &Deliveries, status: DeliveryState) -> u64 {
        let paging = Paging {
            limit: 1,
            start: Start::Offset(0),
            order: Order::Desc,
        };
        let list = DeliveryList {
            status: Some(status),
            event: None,
            paging,
        };
        // While it begins anew there is nobody to ask.
        let asked = || {
            self.runtime
                .block_on(deliveries.list(tenant(), self.id, list))
                .ok()
        };
        std::iter::repeat_with(asked)
            .flatten()
            .next()
            .unwrap()
            .total
    }

    fn until(&self, deliveries: &Deliveries, delivered: u64) {
        let begun = Instant::now();
        while self.total(deliveries, DeliveryState::Delivered) < delivered {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{:?}",
                self.courier.taken.lock()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What was taken with this status.
    fn taken(&self, status: u16) -> Vec<u64> {
        self.courier
            .taken
            .lock()
            .iter()
            .filter(|(with, _)| *with == status)
            .map(|(_, seq)| *seq)
            .collect()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.store.close();
    }
}

#[test]
fn failures_and_panics_delay_a_conversation_but_neither_reorder_nor_lose_it() {
    let folder = TempDir::new().unwrap();
    let desk = Desk::new(folder.path());
    desk.courier
        .script
        .lock()
        .extend([200, 500, 500, 200, PANIC, 500]);
    let deliveries = desk.start();
    desk.events(1..=6);
    desk.until(&deliveries, 6);
    let mut taken = desk.taken(200);
    taken.dedup();
    assert_eq!(taken, [1, 2, 3, 4, 5, 6]);
    assert_eq!(desk.taken(500).first(), Some(&2));
    desk.stop(&deliveries);
}

#[test]
fn an_endpoint_gets_exactly_what_is_committed_while_it_is_enabled_also_across_a_stop() {
    let folder = TempDir::new().unwrap();
    let mut desk = Desk::new(folder.path());
    let deliveries = desk.start();
    desk.events(1..=2);
    desk.until(&deliveries, 2);
    desk.stop(&deliveries);
    desk.events(3..=4);
    desk.enabled(false);
    desk.events(5..=6);
    desk.enabled(true);
    desk.events(7..=8);
    let deliveries = desk.start();
    desk.until(&deliveries, 4);
    assert_eq!(
        desk.total(&deliveries, DeliveryState::Failed),
        2,
        "what waited was given up"
    );
    assert_eq!(desk.taken(200), [1, 2, 7, 8]);
    desk.enabled(false);
    desk.events(9..=9);
    desk.enabled(true);
    desk.events(10..=10);
    desk.until(&deliveries, 5);
    assert_eq!(desk.taken(200), [1, 2, 7, 8, 10]);
    desk.stop(&deliveries);
}

#[test]
fn what_happened_before_is_delivered_again_in_order() {
    let folder = TempDir::new().unwrap();
    let desk = Desk::new(folder.path());
    let deliveries = desk.start();
    desk.events(1..=150);
    desk.until(&deliveries, 150);
    let caller = Caller {
        tenant: tenant(),
        actor: Actor::server("a test"),
    };
    let replay = deliveries.replay(desk.id, ReplayEvents::default(), caller, None);
    assert_eq!(desk.runtime.block_on(replay).unwrap().done, Done::Accepted);
    desk.until(&deliveries, 300);
    let twice: Vec<u64> = (1..=150).chain(1..=150).collect();
    assert_eq!(desk.taken(200), twice);
    desk.stop(&deliveries);
}

#[test]
fn panics_while_slices_are_written_neither_repeat_nor_lose_a_deliverys_number() {
    let folder = TempDir::new().unwrap();
    let desk = Desk::new(folder.path());
    desk.courier
        .script
        .lock()
        .extend([200, 200, PANIC].into_iter().cycle().take(12));
    let deliveries = desk.start();
    desk.events(1..=60);
    desk.until(&deliveries, 60);
    let states = DeliveryState::ALL.map(|state| desk.total(&deliveries, state));
    assert_eq!(states, [0, 60, 0], "one for each event");
    let mut taken = desk.taken(200);
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken, (1..=60).collect::<Vec<u64>>());
    desk.stop(&deliveries);
}
