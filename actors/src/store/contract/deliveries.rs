//! What every store promises of deliveries.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use super::fixture::{Bench, House, live, wait};
use crate::conversation::messages::RedactMessage;
use crate::store::{
    Change, DeliveryChange, DeliveryQuery, DeliverySlice, DeliveryState, DueLanes, DueQuery, Fate,
    GivenUp, LIVE, LaneKey, Matched, NewDelivery, OpenReplay, Replay, ReplayChange, StoredDelivery,
    StoredPage, Written,
};
use colloquy_model::attempt::Attempt;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::page::{Cursor, Order, Paging, Start};
use colloquy_model::position::Position;
use colloquy_model::stream::StreamOffset;
use colloquy_model::time::Timestamp;

const ENDPOINT: EntityNumber = EntityNumber(77);

fn attempt(answer: &str) -> Attempt {
    let (answer, error) = (
        Some(answer.to_owned()),
        Some(format!("failed with {answer}")),
    );
    Attempt {
        attempted_at: Timestamp(5),
        status: Some(500),
        duration_ms: 1,
        answer,
        error,
    }
}

fn fate(state: DeliveryState, attempts: u32, due: Timestamp) -> Fate {
    Fate {
        state,
        attempts,
        due,
        log: Vec::new(),
    }
}

fn new(number: i64, entity: EntityNumber, kind: EventKind, fate: Fate) -> NewDelivery {
    let key = LaneKey { lane: LIVE, entity };
    NewDelivery {
        number,
        endpoint: ENDPOINT,
        key,
        position: Position(number),
        kind,
        at: Timestamp(1_000 + number),
        fate,
    }
}

fn write<B: Bench>(house: &House<B>, slice: DeliverySlice) -> Written {
    wait(house.store().deliver(Box::new(DeliverySlice {
        now: Timestamp(50),
        ..slice
    })))
    .unwrap()
}

/// `count` deliveries that wait, of three entities in turn.
fn waiting<B: Bench>(house: &House<B>, count: i64) {
    let pending = |number| {
        let entity = u64::try_from(number % 3).unwrap();
        new(
            number,
            EntityNumber(entity),
            EventKind::MessageCreated,
            fate(DeliveryState::Pending, 0, Timestamp(10)),
        )
    };
    write(
        house,
        DeliverySlice {
            new: (1..=count).map(pending).collect(),
            ..DeliverySlice::default()
        },
    );
}

fn due<B: Bench>(house: &House<B>, until: Timestamp) -> DueLanes {
    wait(house.store().due(DueQuery {
        endpoint: ENDPOINT,
        until,
        lanes: 10,
        deliveries: 100,
    }))
    .unwrap()
}

fn numbers(found: &DueLanes) -> Vec<Vec<i64>> {
    found
        .lanes
        .iter()
        .map(|lane| lane.iter().map(|waiting| waiting.number).collect())
        .collect()
}

fn list<B: Bench>(
    house: &House<B>,
    state: Option<DeliveryState>,
    start: Start,
) -> StoredPage<StoredDelivery> {
    let paging = Paging {
        limit: 3,
        start,
        order: Order::Desc,
    };
    wait(house.store().deliveries(DeliveryQuery {
        tenant: live(),
        endpoint: ENDPOINT,
        state,
        kind: None,
        paging,
    }))
    .unwrap()
}

fn total<B: Bench>(house: &House<B>, state: DeliveryState) -> u64 {
    list(house, Some(state), Start::Offset(0)).total
}

/// What became of deliveries, by number.
fn numbered(changes: impl IntoIterator<Item = (i64, Change)>) -> Vec<DeliveryChange> {
    let one = |(number, change)| DeliveryChange { number, change };
    changes.into_iter().map(one).collect()
}

/// Hands in what became of deliveries, by number.
fn change<B: Bench>(house: &House<B>, changes: impl IntoIterator<Item = (i64, Change)>) {
    write(
        house,
        DeliverySlice {
            changes: numbered(changes),
            ..DeliverySlice::default()
        },
    );
}

/// Seven in three lanes: the first was delivered, the second waits until 99, the third has failed
/// for good; an eighth has ended already, and a ninth waits behind the second.
fn three_lanes<B: Bench>() -> House<B> {
    let house = House::<B>::new();
    waiting(&house, 7);
    assert_eq!(
        numbers(&due(&house, Timestamp(10))),
        [vec![1, 4, 7], vec![2, 5], vec![3, 6]]
    );
    let changes = numbered([
        (
            1,
            Change::Attempted(fate(DeliveryState::Delivered, 1, Timestamp(0))),
        ),
        (
            2,
            Change::Attempted(fate(DeliveryState::Pending, 1, Timestamp(99))),
        ),
        (
            3,
            Change::Attempted(fate(DeliveryState::Failed, 9, Timestamp(0))),
        ),
    ]);
    let delivered = fate(DeliveryState::Delivered, 1, Timestamp(0));
    let pending = fate(DeliveryState::Pending, 0, Timestamp(10));
    write(
        &house,
        DeliverySlice {
            changes,
            new: vec![
                new(8, EntityNumber(1), EventKind::ConversationClosed, delivered),
                new(9, EntityNumber(2), EventKind::MessageCreated, pending),
            ],
            ..DeliverySlice::default()
        },
    );
    house
}

pub(in crate::store) fn the_first_of_each_lane_is_due_and_hands_over_when_it_ends<B: Bench>() {
    let house = three_lanes::<B>();
    let found = due(&house, Timestamp(60));
    assert_eq!(
        (numbers(&found), found.next_due),
        (vec![vec![4, 7], vec![6]], Some(Timestamp(99)))
    );
    assert_eq!(numbers(&due(&house, Timestamp(99)))[2], [2, 5, 9]);
    house.is_sound();
}

pub(in crate::store) fn what_is_sent_again_is_due_at_once_beside_its_lane<B: Bench>() {
    let house = three_lanes::<B>();
    change(&house, [(2, Change::Due(Timestamp(1)))]);
    assert_eq!(numbers(&due(&house, Timestamp(1))), [[2, 5, 9]]);
    change(&house, [(3, Change::Again(Timestamp(0)))]);
    assert_eq!(numbers(&due(&house, Timestamp(0))), [[3]], "it had ended");
    let totals =
        [DeliveryState::Pending, DeliveryState::Delivered].map(|state| total(&house, state));
    assert_eq!(totals, [7, 2]);
    house.is_sound();
}

pub(in crate::store) fn deliveries_are_listed_newest_first_with_exact_totals<B: Bench>() {
    let house = House::<B>::new();
    waiting(&house, 7);
    let changes = [2, 5].map(|number| {
        (
            number,
            Change::Attempted(fate(DeliveryState::Delivered, 1, Timestamp(0))),
        )
    });
    write(
        &house,
        DeliverySlice {
            changes: numbered(changes),
            ..DeliverySlice::default()
        },
    );
    let shown = |page: &StoredPage<StoredDelivery>| {
        page.items
            .iter()
            .map(|item| item.number)
            .collect::<Vec<_>>()
    };
    let first = list(&house, None, Start::Offset(0));
    assert_eq!(
        (shown(&first), first.total, first.before, first.after),
        (vec![7, 6, 5], 7, false, true)
    );
    let cursor = |delivery: &StoredDelivery| Cursor {
        number: delivery.id().number(),
        tail: delivery.id().tail(),
    };
    let second = list(&house, None, Start::After(cursor(&first.items[2])));
    assert_eq!((shown(&second), second.after), (vec![4, 3, 2], true));
    assert_eq!(
        shown(&list(&house, None, Start::Before(cursor(&second.items[0])))),
        [7, 6, 5]
    );
    let pending = list(&house, Some(DeliveryState::Pending), Start::Offset(3));
    assert_eq!((shown(&pending), pending.total), (vec![3, 1], 5));
    let delivered = list(&house, Some(DeliveryState::Delivered), Start::Offset(0));
    assert_eq!(shown(&delivered), [5, 2]);
    let stranger = Start::After(Cursor {
        number: EntityNumber(1),
        tail: 3,
    });
    let paging = Paging {
        limit: 3,
        start: stranger,
        order: Order::Desc,
    };
    let query = DeliveryQuery {
        tenant: live(),
        endpoint: ENDPOINT,
        state: None,
        kind: None,
        paging,
    };
    assert!(wait(house.store().deliveries(query)).is_err());
}

/// Of 500 that waited all are given up, in more slices than one; one more has come since.
fn given_up<B: Bench>() -> House<B> {
    let house = House::<B>::new();
    waiting(&house, 500);
    let given_up = vec![GivenUp {
        endpoint: ENDPOINT,
        up_to: 500,
        gone: false,
    }];
    // Enabled again, it gets what comes then, whatever was given up of the same lane.
    let pending = fate(DeliveryState::Pending, 0, Timestamp(10));
    let slice = DeliverySlice {
        given_up,
        new: vec![new(
            501,
            EntityNumber(1),
            EventKind::MessageCreated,
            pending,
        )],
        ..DeliverySlice::default()
    };
    assert!(write(&house, slice).left);
    house
}

fn failed_and_pending<B: Bench>(house: &House<B>) -> [u64; 2] {
    [DeliveryState::Failed, DeliveryState::Pending].map(|state| total(house, state))
}

pub(in crate::store) fn what_is_given_up_counts_as_failed_at_once_and_the_rows_follow<B: Bench>() {
    let house = given_up::<B>();
    assert_eq!(failed_and_pending(&house), [500, 1]);
    let last = list(&house, Some(DeliveryState::Failed), Start::Offset(497));
    assert_eq!(last.items.len(), 3);
    assert_eq!(numbers(&due(&house, Timestamp(60))), [[501]]);
    while write(&house, DeliverySlice::default()).left {}
    assert_eq!(failed_and_pending(&house), [500, 1]);
    house.is_sound();
}

pub(in crate::store) fn what_lands_after_it_was_given_up_does_not_count<B: Bench>() {
    let house = given_up::<B>();
    let delivered = fate(DeliveryState::Delivered, 1, Timestamp(0));
    change(&house, [(1, Change::Attempted(delivered))]);
    assert_eq!(total(&house, DeliveryState::Delivered), 0);
    while write(&house, DeliverySlice::default()).left {}
    assert_eq!(failed_and_pending(&house), [500, 1]);
    house.is_sound();
}

pub(in crate::store) fn deliveries_of_an_endpoint_that_is_no_more_go_with_it<B: Bench>() {
    let house = given_up::<B>();
    let gone = vec![GivenUp {
        endpoint: ENDPOINT,
        up_to: 501,
        gone: true,
    }];
    write(
        &house,
        DeliverySlice {
            given_up: gone,
            ..DeliverySlice::default()
        },
    );
    while write(&house, DeliverySlice::default()).left {}
    assert_eq!(list(&house, None, Start::Offset(0)).total, 0);
    house.is_sound();
}

pub(in crate::store) fn deliveries_that_ended_go_when_they_are_old<B: Bench>() {
    // More than go at once.
    let pending: i64 = B::VOLUME.of(100, 20);
    let house = House::<B>::new();
    waiting(&house, 3 * pending);
    let ended = (1..=2 * pending).map(|number| {
        (
            number,
            Change::Attempted(fate(DeliveryState::Delivered, 1, Timestamp(0))),
        )
    });
    write(
        &house,
        DeliverySlice {
            changes: numbered(ended),
            ..DeliverySlice::default()
        },
    );
    while write(
        &house,
        DeliverySlice {
            keep_from: Timestamp(1_001 + pending * 3 / 2),
            ..DeliverySlice::default()
        },
    )
    .left
    {}
    assert_eq!(
        (
            total(&house, DeliveryState::Delivered),
            total(&house, DeliveryState::Pending)
        ),
        B::VOLUME.of((50, 100), (10, 20))
    );
    house.is_sound();
}

pub(in crate::store) fn what_receivers_answered_goes_with_the_redacted_message<B: Bench>() {
    let house = House::<B>::new();
    let customer = house.customer(live(), "Ada");
    let mut conversation = house.conversation(live(), customer, Some("my word is xyzzy"));
    let row = wait(house.store().happened_behind(Position(0), 100))
        .unwrap()
        .into_iter()
        .find_map(|row| match row {
            crate::store::FeedRow::Event(event) if event.kind == EventKind::MessageCreated => {
                Some(event)
            }
            crate::store::FeedRow::Event(_)
            | crate::store::FeedRow::Endpoint { .. }
            | crate::store::FeedRow::Renamed { .. } => None,
        });
    let position = row.unwrap().position;
    let pending = Fate {
        log: vec![attempt("echo xyzzy")],
        ..fate(DeliveryState::Pending, 1, Timestamp(10))
    };
    let delivery = NewDelivery {
        position,
        ..new(1, EntityNumber(5), EventKind::MessageCreated, pending)
    };
    write(
        &house,
        DeliverySlice {
            new: vec![delivery],
            ..DeliverySlice::default()
        },
    );
    let log = || {
        wait(house.store().delivery(ENDPOINT, 1))
            .unwrap()
            .unwrap()
            .log
    };
    assert_eq!(log(), [attempt("echo xyzzy")]);
    let shown = house.transcript(live(), conversation.id);
    let message: serde_json::Value = serde_json::from_str(&shown.items[0]).unwrap();
    let id = message["message_id"].as_str().unwrap().parse().unwrap();
    conversation.ask(RedactMessage { message: id }).unwrap();
    let silent = Attempt {
        answer: None,
        error: None,
        ..attempt("")
    };
    assert_eq!(log(), std::slice::from_ref(&silent));
    // One that was under way meanwhile may say it too.
    let late = Fate {
        log: vec![attempt("xyzzy again")],
        ..fate(DeliveryState::Delivered, 2, Timestamp(0))
    };
    write(
        &house,
        DeliverySlice {
            changes: numbered([(1, Change::Attempted(late))]),
            ..DeliverySlice::default()
        },
    );
    assert_eq!(log(), [silent.clone(), silent]);
    // Not digits: those stand by chance in identifiers.
    house.until("no file holds what was redacted", || !house.holds("xyzzy"));
}

pub(in crate::store) fn whoever_delivers_finds_after_a_crash_what_it_had_written<B: Bench>() {
    let house = House::<B>::new();
    waiting(&house, 2);
    let replay = Replay {
        lane: 9,
        endpoint: ENDPOINT,
        tenant: live(),
        next: StreamOffset(3),
        last: Position(40),
        since: Some(Timestamp(1)),
        until: None,
        kinds: vec![EventKind::MessageCreated, EventKind::ConversationClosed],
    };
    let replays = vec![
        ReplayChange::Open(replay.clone()),
        ReplayChange::Reached(9, StreamOffset(12)),
    ];
    let matched = Matched {
        position: Position(33),
        within: EntityNumber(7),
    };
    write(
        &house,
        DeliverySlice {
            matched: Some(matched),
            replays,
            ..DeliverySlice::default()
        },
    );
    let house = house.crash();
    let state = wait(house.store().webhook_state()).unwrap();
    assert_eq!(
        (state.matched, state.last_delivery, state.last_lane),
        (matched, 2, 9)
    );
    assert_eq!(
        state.replays,
        [OpenReplay {
            replay: Replay {
                next: StreamOffset(12),
                ..replay
            },
            waiting: 0
        }]
    );
    write(
        &house,
        DeliverySlice {
            replays: vec![ReplayChange::Done(9)],
            ..DeliverySlice::default()
        },
    );
    assert_eq!(wait(house.store().webhook_state()).unwrap().replays, []);
    assert_eq!(numbers(&due(&house, Timestamp(10))), [[1], [2]]);
}

pub(in crate::store) fn whoever_begins_anew_reads_behind_what_was_handed_in<B: Bench>() {
    let house = House::<B>::new();
    for number in 1..=100 {
        let pending = new(
            number,
            EntityNumber(1),
            EventKind::MessageCreated,
            fate(DeliveryState::Pending, 0, Timestamp(10)),
        );
        let slice = DeliverySlice {
            new: vec![pending],
            now: Timestamp(50),
            ..DeliverySlice::default()
        };
        // Nobody waits for it: whoever handed it in has panicked.
        drop(house.store().deliver(Box::new(slice)));
        wait(house.store().begin_deliveries()).unwrap();
        assert_eq!(
            wait(house.store().webhook_state()).unwrap().last_delivery,
            number
        );
    }
}

pub(in crate::store) fn what_is_left_of_an_endpoint_that_is_no_more_goes<B: Bench>() {
    let house = House::<B>::new();
    waiting(&house, 300);
    let replay = Replay {
        lane: 9,
        endpoint: ENDPOINT,
        tenant: live(),
        next: StreamOffset(3),
        last: Position(40),
        since: None,
        until: None,
        kinds: Vec::new(),
    };
    write(
        &house,
        DeliverySlice {
            replays: vec![ReplayChange::Open(replay)],
            ..DeliverySlice::default()
        },
    );
    wait(house.store().begin_deliveries()).unwrap();
    let slices = std::iter::repeat_with(|| write(&house, DeliverySlice::default()))
        .take_while(|written| written.left);
    assert!(slices.count() > 2, "a few rows at a time");
    assert_eq!(DeliveryState::ALL.map(|state| total(&house, state)), [0; 3]);
    assert_eq!(wait(house.store().webhook_state()).unwrap().replays, []);
}
