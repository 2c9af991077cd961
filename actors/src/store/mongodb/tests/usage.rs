//! What a node counted is added once, however often it is written, and beside what others counted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use super::OwnDatabase;
use crate::store::contract::{Bench, House, wait};
use crate::store::{AccountUsage, UsageQuery, UsageSlice};
use colloquy_model::time::Timestamp;
use colloquy_model::usage::{CountedCredential, DayUsage, UsageCounts};

const DAY: Timestamp = Timestamp(20_000 * 86_400_000);

fn slice(number: u64, requests: u64) -> Arc<UsageSlice> {
    let counts = UsageCounts {
        requests,
        ..UsageCounts::default()
    };
    let used = DayUsage {
        day: DAY,
        credential: CountedCredential { code: 7, tail: 1 },
        counts,
    };
    let rows = vec![AccountUsage { account: 1, used }];
    Arc::new(UsageSlice { number, rows })
}

fn requests(house: &House<OwnDatabase>) -> Vec<u64> {
    let query = UsageQuery {
        account: 1,
        from: DAY,
        to: Timestamp::MAX,
    };
    let days = wait(house.store().usage(query)).unwrap();
    days.iter().map(|usage| usage.counts.requests).collect()
}

#[test]
fn a_slice_whose_outcome_is_unknown_is_written_again_and_added_once() {
    let house = House::at(OwnDatabase::new());
    for (number, count) in [(1, 1), (1, 1), (2, 10), (2, 10), (2, 10), (3, 100)] {
        wait(house.store().add_usage(slice(number, count))).unwrap();
    }
    assert_eq!(requests(&house), [111]);
}

#[test]
fn what_several_nodes_count_stands_beside_one_another_and_is_read_as_one() {
    let mut second = OwnDatabase::new();
    let first = OwnDatabase::new();
    second.name.clone_from(&first.name);
    let (first, second) = (House::at(first), House::at(second));
    wait(first.store().add_usage(slice(1, 1))).unwrap();
    wait(second.store().add_usage(slice(1, 10))).unwrap();
    wait(first.store().add_usage(slice(2, 100))).unwrap();
    assert_eq!(requests(&first), [111]);
    let known = wait(second.store().requests_since(DAY)).unwrap();
    let mut by_node: Vec<u64> = known.iter().map(|node| node.requests).collect();
    by_node.sort_unstable();
    assert_eq!(by_node, [10, 101]);
}
