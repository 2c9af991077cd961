//! Tests of queues and of what they hold together.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

use super::*;
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::{Event, EventRow, SeenNow};
use colloquy_model::event_kind::EventKind;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::FeedNumber;
use colloquy_model::time::Timestamp;

/// An event at this position with so many bytes of data.
fn event(position: Position, bytes: usize) -> Item {
    let tenant = Tenant::of(1, Mode::Live);
    let row = EventRow {
        position,
        tenant,
        number: FeedNumber(1),
        entity: EntityNumber(1),
        sequence: Sequence(1),
        kind: EventKind::MessageCreated,
        at: Timestamp(0),
        credential: None,
        text_bytes: 0,
    };
    let payload = vec![b'x'; bytes].into();
    Item::Event(Arc::new(Event::new(row, SeenNow::default(), payload)))
}

fn positions(queue: &Queue) -> Vec<i64> {
    std::iter::from_fn(|| queue.waiting())
        .filter_map(|item| Some(item.position()?.0))
        .collect()
}

#[test]
fn a_full_queue_is_let_go_with_all_that_it_holds() {
    let (queue, share) = (Queue::new(2), Share::default());
    let put = |position| {
        let item = event(position, 10);
        queue.put(&item, Some(&share.hold(&item)))
    };
    assert_eq!(
        [
            put(Position(1)),
            put(Position(2)),
            put(Position(3)),
            put(Position(4))
        ],
        [Put::Unlisted, Put::Waits, Put::Lost, Put::Lost]
    );
    assert_eq!(
        queue
            .poll(&mut Context::from_waker(Waker::noop()))
            .map(|item| item.is_none()),
        Poll::Ready(true)
    );
    assert_eq!(share.held.load(Ordering::Relaxed), 0);
}

#[test]
fn bytes_fill_a_queue_too_but_one_item_always_fits() {
    let queue = Queue::new(100);
    assert_eq!(
        queue.put(&event(Position(1), BYTES_MAX), None),
        Put::Unlisted
    );
    assert_eq!(positions(&queue), [1]);
    assert_eq!(
        queue.put(&event(Position(2), BYTES_MAX / 4), None),
        Put::Waits
    );
    assert_eq!(
        queue.put(&event(Position(3), BYTES_MAX / 4), None),
        Put::Lost
    );
}

#[test]
fn queues_whose_readers_have_left_are_not_kept() {
    let mut share = Share::default();
    let kept = Arc::new(Queue::new(10));
    for position in 0..1_000 {
        let (item, left) = (event(Position(position), 10), Arc::new(Queue::new(10)));
        let held = share.hold(&item);
        for queue in [&kept, &left] {
            if queue.put(&item, Some(&held)) == Put::Unlisted {
                share.list(queue);
            }
        }
        left.let_go();
        kept.waiting();
    }
    assert!(
        share.behind.len() <= LOOK_AT_MIN + 1,
        "{}",
        share.behind.len()
    );
    assert!(share.is_empty() && share.behind.is_empty());
}

#[test]
fn what_waits_when_the_feed_ends_is_still_brought() {
    let queue = Queue::new(10);
    queue.put(&event(Position(1), 10), None);
    queue.end();
    assert_eq!(positions(&queue), [1]);
    assert_eq!(
        queue
            .poll(&mut Context::from_waker(Waker::noop()))
            .map(|item| item.is_none()),
        Poll::Ready(true)
    );
}

#[test]
fn beyond_the_share_those_go_that_are_furthest_behind() {
    let mut share = Share::default();
    let queues: Vec<Arc<Queue>> = (0..3).map(|_| Arc::new(Queue::new(1_000))).collect();
    let most = 100 * event(Position(0), 1_000).bytes();
    for position in 0..=100 {
        let item = event(Position(position), 1_000);
        let held = share.hold(&item);
        for (number, queue) in (0_i64..).zip(&queues) {
            if queue.put(&item, Some(&held)) == Put::Unlisted {
                share.list(queue);
            }
            // The first never reads, the second is half-way, the third reads all.
            if (number == 1 && position < 50) || number == 2 {
                queue.waiting();
            }
        }
        drop(held);
        share.keep_within(most);
        assert!(share.held.load(Ordering::Relaxed) <= most);
    }
    assert_eq!(positions(&queues[0]), [0; 0], "let go");
    assert_eq!(positions(&queues[1]), (50..=100).collect::<Vec<_>>());
    assert_eq!(share.held.load(Ordering::Relaxed), 0);
    assert_eq!(queues[0].put(&event(Position(101), 1), None), Put::Lost);
    assert_eq!(
        queues[2].put(&event(Position(101), 1), None),
        Put::Unlisted,
        "what holds nothing is listed no more"
    );
}
