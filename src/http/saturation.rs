//! How much of what the process may use is in use, between 0 and 1 and by cause: what an autoscaler
//! goes by. At 1 requests wait or are turned away for that cause.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use colloquy_actors::metrics::MetricsWriter;
use colloquy_actors::system::System;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use super::budget::Budget;
use super::connections::Connections;

/// Works that the store's writer takes into one transaction at most. With as many waiting, the next
/// one waits for a transaction more.
const TRANSACTION_WORKS: f64 = 1_024.0;
/// The least time over which the processors' share is taken, however often it is asked for.
const WINDOW_MIN: Duration = Duration::from_secs(5);

/// What can be spent.
pub(super) struct Saturation {
    cpu: Mutex<CpuTime>,
    connections: Arc<Connections>,
    bodies: Arc<Budget>,
    answers: Arc<Budget>,
    system: Arc<System>,
}

impl Saturation {
    pub(super) fn new(
        connections: Arc<Connections>,
        (bodies, answers): (Arc<Budget>, Arc<Budget>),
        system: Arc<System>,
    ) -> Self {
        Saturation {
            cpu: Mutex::new(CpuTime::start(Reading::now())),
            connections,
            bodies,
            answers,
            system,
        }
    }

    pub(super) fn write_metrics(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let waiting = self.system.commits_waiting();
        let causes = [
            ("answers", self.answers.share()),
            ("bodies", self.bodies.share()),
            ("connections", self.connections.share()),
            ("cpu", self.cpu.lock().share(Reading::now(), processors)),
            ("store", waiting as f64 / TRANSACTION_WORKS),
        ];
        out.gauges(
            "saturation",
            "How much is in use of what the process may use, between 0 and 1, by cause.",
            causes.map(|(cause, share)| ([("cause", cause)], share.clamp(0.0, 1.0))),
        )
    }
}

/// The processors' time that the process has had, and when.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    used: Duration,
}

impl Reading {
    fn now() -> Self {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        Reading {
            at: Instant::now(),
            used: Duration::try_from(used).unwrap_or_default(),
        }
    }
}

/// Its share of the processors since a while ago.
#[derive(Debug)]
struct CpuTime {
    before: Reading,
    latest: Reading,
}

impl CpuTime {
    fn start(now: Reading) -> Self {
        CpuTime {
            before: now,
            latest: now,
        }
    }

    /// The share of so many processors since a reading that is `WINDOW_MIN` old or older.
    fn share(&mut self, now: Reading, processors: usize) -> f64 {
        if now.at.duration_since(self.latest.at) >= WINDOW_MIN {
            self.before = self.latest;
            self.latest = now;
        }
        let passed = now.at.duration_since(self.before.at).as_secs_f64();
        let used = now.used.saturating_sub(self.before.used).as_secs_f64();
        if passed > 0.0 {
            used / passed / processors as f64
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_latest_while_whoever_asks_in_between() {
        let start = Instant::now();
        let reading = |at: u64, used: u64| Reading {
            at: start + Duration::from_secs(at),
            used: Duration::from_secs(used),
        };
        let mut cpu = CpuTime::start(reading(0, 0));
        assert_eq!(cpu.share(reading(0, 0), 2).to_bits(), 0.0_f64.to_bits());
        let shares = [
            (10, 10, 0.5),
            (12, 10, 10.0 / 24.0),
            (20, 30, 1.0),
            (30, 30, 0.0),
        ];
        for (at, used, expected) in shares {
            let share = cpu.share(reading(at, used), 2);
            assert!((share - expected).abs() < 1e-9, "{at}: {share}");
        }
    }
}
