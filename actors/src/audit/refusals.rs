//! How many refusals are recorded: so many a minute of each account, and of those whose account
//! nobody knows, so that they can't fill the disk. Pure; the clock is handed in.

use std::collections::HashMap;
use std::net::IpAddr;

use colloquy_model::caller::{Actor, Caller, CredentialId, Tenant};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::UserId;
use colloquy_model::time::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value};

/// Of a trail's refusals one source has at most one in so many.
const SHARE: u32 = 4;
const MINUTE_MS: i64 = 60_000;

/// Something that was refused.
#[derive(Debug)]
pub struct Refusal {
    /// Why: [`EventKind::is_refusal`].
    pub event: EventKind,
    /// Who wanted it, as far as that is known.
    pub caller: Caller,
    /// What was wanted.
    pub details: Map<String, Value>,
}

/// Who is refused: the holder of a credential, or somebody at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    Credential(i64),
    User(UserId),
    Address(IpAddr),
    Nowhere,
}

impl Source {
    fn of(actor: &Actor) -> Self {
        let visitor = CredentialId::Visitor.code();
        match (actor.user, actor.credential.code(), actor.address) {
            (Some(user), ..) => Source::User(user),
            (None, Some(code), _) if Some(code) != visitor => Source::Credential(code),
            (None, _, Some(address)) => Source::Address(address),
            (None, _, None) => Source::Nowhere,
        }
    }
}

/// The refusals of one trail in the running minute.
#[derive(Debug, Default)]
struct Counted {
    recorded: u32,
    by_source: HashMap<Source, u32>,
    /// Since the last one that was recorded.
    left_out: u64,
}

#[derive(Debug, Default)]
struct Window {
    minute: i64,
    trails: HashMap<i64, Counted>,
}

/// Counts refusals by account.
#[derive(Debug)]
pub(super) struct Refusals {
    per_minute: u32,
    window: Mutex<Window>,
}

impl Refusals {
    pub(super) fn new(per_minute: u32) -> Self {
        Refusals {
            per_minute,
            window: Mutex::default(),
        }
    }

    /// How many were left out before this one, where it is to be recorded.
    pub(super) fn take(&self, caller: &Caller, now: Timestamp) -> Option<u64> {
        let mut window = self.window.lock();
        let minute = now.0.div_euclid(MINUTE_MS);
        if window.minute != minute {
            window.minute = minute;
            window.trails.retain(|_, counted| counted.left_out > 0);
            for counted in window.trails.values_mut() {
                counted.recorded = 0;
                counted.by_source.clear();
            }
        }
        let trail = caller.tenant.account_wide().number();
        let counted = window.trails.entry(trail).or_default();
        let share = (self.per_minute / SHARE).max(1);
        let source = Source::of(&caller.actor);
        let of_source = counted.by_source.get(&source).copied().unwrap_or(0);
        if counted.recorded >= self.per_minute || of_source >= share {
            counted.left_out += 1;
            return None;
        }
        counted.recorded += 1;
        counted.by_source.insert(source, of_source + 1);
        Some(std::mem::take(&mut counted.left_out))
    }

    /// One that was to be recorded was not.
    pub(super) fn lost(&self, trail: Tenant, left_out: u64) {
        let mut window = self.window.lock();
        let counted = window
            .trails
            .entry(trail.account_wide().number())
            .or_default();
        counted.left_out += left_out + 1;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use colloquy_model::caller::Mode;

    fn caller(account: u32, address: &str) -> Caller {
        Caller {
            tenant: Tenant::of(account, Mode::Live),
            actor: Actor {
                credential: CredentialId::Visitor,
                user: None,
                address: Some(address.parse().unwrap()),
                request_id: "req".into(),
            },
        }
    }

    fn recorded(refusals: &Refusals, caller: &Caller, times: u32) -> usize {
        let take = |_| refusals.take(caller, Timestamp(90_000));
        (0..times).filter_map(take).count()
    }

    #[test]
    fn one_source_leaves_room_for_the_others_of_its_account_and_none_is_another_accounts() {
        let refusals = Refusals::new(8);
        let loud = caller(1, "192.0.2.1");
        assert_eq!(recorded(&refusals, &loud, 100), 2);
        assert_eq!(recorded(&refusals, &caller(1, "192.0.2.2"), 1), 1);
        for last in 3..100 {
            let from = caller(1, &format!("192.0.2.{last}"));
            recorded(&refusals, &from, 1);
        }
        assert_eq!(
            recorded(&refusals, &caller(1, "198.51.100.1"), 1),
            0,
            "8 a minute"
        );
        assert_eq!(recorded(&refusals, &caller(2, "192.0.2.1"), 100), 2);
    }

    #[test]
    fn the_next_one_that_is_recorded_tells_how_many_were_left_out() {
        let refusals = Refusals::new(4);
        let one = caller(1, "192.0.2.1");
        assert_eq!(refusals.take(&one, Timestamp(0)), Some(0));
        assert_eq!(refusals.take(&one, Timestamp(1)), None);
        assert_eq!(refusals.take(&one, Timestamp(59_999)), None);
        assert_eq!(refusals.take(&one, Timestamp(60_000)), Some(2));
        refusals.lost(one.tenant, 2);
        assert_eq!(refusals.take(&one, Timestamp(120_000)), Some(3));
        assert_eq!(refusals.take(&one, Timestamp(180_000)), Some(0));
    }
}
