//! What a store promises of what accounts use.

use std::sync::Arc;

use super::fixture::{Bench, House, wait};
use crate::store::{AccountUsage, NodeRequests, UsageQuery, UsageSlice};
use colloquy_model::time::Timestamp;
use colloquy_model::usage::{CountedCredential, DayUsage, UsageCounts};

const DAY_MS: i64 = 86_400_000;
const FIRST: Timestamp = Timestamp(20_000 * DAY_MS);
const SECOND: Timestamp = Timestamp(20_001 * DAY_MS);
const THIRD: Timestamp = Timestamp(20_002 * DAY_MS);

const KEY: CountedCredential = CountedCredential { code: 7, tail: 1 };

/// What a credential did of everything.
fn used(account: u32, day: Timestamp, credential: CountedCredential, times: u64) -> AccountUsage {
    AccountUsage {
        account,
        used: DayUsage {
            day,
            credential,
            counts: UsageCounts {
                requests: times,
                rate_limited: 2 * times,
                quota_exceeded: 3 * times,
                forbidden: 4 * times,
                deliveries: 5 * times,
                bytes_in: 6 * times,
                bytes_out: 7 * times,
            },
        },
    }
}

fn slice(number: u64, rows: &[AccountUsage]) -> Arc<UsageSlice> {
    Arc::new(UsageSlice {
        number,
        rows: rows.to_vec(),
    })
}

/// What is stored of an account between two days, in one order.
fn stored<B: Bench>(
    house: &House<B>,
    account: u32,
    (from, to): (Timestamp, Timestamp),
) -> Vec<DayUsage> {
    let query = UsageQuery { account, from, to };
    let mut days = wait(house.store().usage(query)).unwrap();
    days.sort_unstable_by_key(|usage| (usage.day, usage.credential));
    days
}

pub(in crate::store) fn what_accounts_used_is_added_up_by_day_and_credential<B: Bench>() {
    let house = House::<B>::new();
    let first = [
        used(1, FIRST, KEY, 1),
        used(1, FIRST, CountedCredential::NONE, 10),
        used(1, SECOND, KEY, 100),
        used(2, FIRST, KEY, 1_000),
    ];
    wait(house.store().add_usage(slice(1, &first))).unwrap();
    wait(house.store().add_usage(slice(2, &[used(1, FIRST, KEY, 2)]))).unwrap();
    let house = house.crash();
    let both = [
        used(1, FIRST, CountedCredential::NONE, 10).used,
        used(1, FIRST, KEY, 3).used,
        used(1, SECOND, KEY, 100).used,
    ];
    assert_eq!(stored(&house, 1, (FIRST, THIRD)), both);
    assert_eq!(stored(&house, 1, (FIRST, SECOND)), both[..2]);
    assert_eq!(stored(&house, 1, (SECOND, THIRD)), both[2..]);
    assert_eq!(stored(&house, 3, (FIRST, THIRD)), []);
    // Whoever comes after a crash counts anew.
    wait(
        house
            .store()
            .add_usage(slice(1, &[used(1, SECOND, KEY, 1)])),
    )
    .unwrap();
    let second = [used(1, SECOND, KEY, 101).used];
    assert_eq!(stored(&house, 1, (SECOND, THIRD)), second);
}

pub(in crate::store) fn requests_of_every_account_are_known_from_a_day_on<B: Bench>() {
    let house = House::<B>::new();
    let rows = [
        used(1, FIRST, KEY, 1),
        used(1, SECOND, KEY, 10),
        used(1, SECOND, CountedCredential { code: 8, tail: 1 }, 100),
        used(2, THIRD, KEY, 1_000),
    ];
    wait(house.store().add_usage(slice(1, &rows))).unwrap();
    let since = |day| {
        let mut known: Vec<(u32, u64)> = wait(house.store().requests_since(day))
            .unwrap()
            .iter()
            .map(
                |NodeRequests {
                     account, requests, ..
                 }| (*account, *requests),
            )
            .collect();
        known.sort_unstable();
        known
    };
    assert_eq!(since(FIRST), [(1, 111), (2, 1_000)]);
    assert_eq!(since(SECOND), [(1, 110), (2, 1_000)]);
    assert_eq!(since(THIRD), [(2, 1_000)]);
}
