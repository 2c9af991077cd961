//! The limits and times by which a kind of entity is run. They may change while it runs.

use std::time::Duration;

/// The limits and times of one kind of entity.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// How many commands one entity may hold, queued and under way; the next one is refused.
    pub mailbox_max: u32,
    /// After how many messages in a row an actor lets others on its thread run.
    pub turn_budget: u32,
    /// How long a caller waits for an answer.
    pub ask_timeout: Duration,
    /// How many entities may be active; beyond this the least recently used ones are passivated.
    pub active_max: usize,
    /// How much memory the states may hold, in bytes; beyond this the least recently used ones are
    /// passivated.
    pub bytes_max: usize,
    /// How long an entity may be idle before it is passivated.
    pub idle: Duration,
    /// How often the sweeper looks for what to passivate.
    pub sweep: Duration,
    /// How many loads may be under way at once.
    pub loads_max: usize,
    /// How many crashes within `window` quarantine an entity.
    pub crashes_max: u32,
    /// For how long a crash counts.
    pub window: Duration,
    /// The delay before the restart after the first crash in the window.
    pub backoff_first: Duration,
    /// The delay after the second crash; each further one doubles it.
    pub backoff_min: Duration,
    /// The longest delay.
    pub backoff_max: Duration,
    /// The part of a delay (0 to 1) by which it varies at random, so that entities that crashed
    /// together do not restart together.
    pub jitter: f64,
    /// How long a quarantine lasts.
    pub quarantine: Duration,
}

#[cfg(test)]
impl Default for Policy {
    fn default() -> Self {
        Self {
            mailbox_max: 256,
            turn_budget: 32,
            ask_timeout: Duration::from_secs(5),
            active_max: 100_000,
            bytes_max: 256 << 20,
            idle: Duration::from_secs(300),
            sweep: Duration::from_secs(5),
            loads_max: 50,
            crashes_max: 5,
            window: Duration::from_secs(30),
            backoff_first: Duration::ZERO,
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(10),
            jitter: 0.2,
            quarantine: Duration::from_secs(60),
        }
    }
}

impl Policy {
    /// The delay before the restart after the `nth` crash in the window (from 1). `chance` is in
    /// 0..1, places it within the jitter.
    pub(super) fn backoff(&self, nth: u32, chance: f64) -> Duration {
        let delay = match nth {
            0 | 1 => self.backoff_first,
            _ => {
                let doublings = nth.saturating_sub(2).min(20);
                self.backoff_min
                    .saturating_mul(1 << doublings)
                    .min(self.backoff_max)
            }
        };
        let jitter = self.jitter.clamp(0.0, 1.0);
        delay.mul_f64(1.0 - jitter + 2.0 * jitter * chance.clamp(0.0, 1.0))
    }
}
