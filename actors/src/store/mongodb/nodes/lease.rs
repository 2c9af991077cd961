//! How long leases last, and the clock by which they do.

use std::time::Duration;

use super::super::codec::uint;

/// How often a node renews its lease and looks at the others.
pub(super) const RENEW_EVERY: Duration = Duration::from_millis(500);
/// How long a node serves behind the last renewal that it knows to have been written, in
/// milliseconds.
pub(super) const LEASE_MS: u64 = 5_000;
/// How long others wait for a node that they do not hear of. Longer than its lease, so that it has
/// stopped by then whatever the clocks' rates.
pub(super) const GONE_AFTER: Duration = Duration::from_secs(7);
/// How long a node that is gone is still told of.
pub(super) const TOLD_FOR: Duration = Duration::from_hours(1);
/// How often whoever waits for others looks at them.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Milliseconds since the machine was started, those with it in which it slept. No setting of the
/// clock changes them.
pub(super) fn since_boot_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    uint::<u64>(now.tv_sec) * 1_000 + uint::<u64>(now.tv_nsec) / 1_000_000
}
