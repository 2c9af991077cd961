//! Emptying the log after a redaction, so that no redacted text stays in it. A reader of older
//! pages is in the way of it: one that is short is waited for, for a moment; the long ones are kept
//! from beginning, so that soon there is none. No commit waits for a reader longer than that
//! moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::codec;
use super::file::BUSY_MAX;
use super::gate::{BARRED_MAX, Gate};
use super::pace::Phase;

/// How long an attempt waits for readers, while no commit can be made.
const WAIT: Duration = Duration::from_millis(25);
/// The same when the store closes.
const WAIT_CLOSING: Duration = Duration::from_millis(3200);
/// Between two attempts while another process reads: doubled each time, up to the longest.
const AGAIN_FIRST: Duration = Duration::from_millis(500);
const AGAIN_MAX: Duration = Duration::from_secs(8);
/// Between two looks at whether the readers that are under way have ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How far the emptying of the log is.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Nothing was redacted since it was emptied.
    Empty,
    /// The next attempt is made at this instant.
    At(Instant),
    /// Readers were in the way: no further ones begin. It is tried when none is left, at the latest
    /// then.
    Barred(Instant),
}

/// What the writer does for it between batches.
#[derive(Debug)]
pub(super) struct LogErasing {
    /// So long after a redaction, with all that were redacted meanwhile: emptying costs as much for
    /// one as for many.
    within: Duration,
    step: Step,
    again: Duration,
    gate: Arc<Gate>,
}

impl LogErasing {
    pub(super) fn new(within: Duration, gate: Arc<Gate>) -> Self {
        LogErasing {
            within,
            step: Step::Empty,
            again: AGAIN_FIRST,
            gate,
        }
    }

    /// Notes that a text was redacted: the log must lose it.
    pub(super) fn note(&mut self) {
        if matches!(self.step, Step::Empty) {
            self.step = Step::At(Instant::now() + self.within);
        }
    }

    /// How long the writer may sleep, at most this long.
    pub(super) fn tick(&self, tick: Duration) -> Duration {
        match self.step {
            Step::Barred(_) => tick.min(LOOK_EVERY),
            Step::Empty | Step::At(_) => tick,
        }
    }

    /// The next step, if it is due; whether the log was emptied by it.
    pub(super) fn run(&mut self, connection: &Connection, phase: Phase) -> rusqlite::Result<bool> {
        let now = Instant::now();
        let (is_due, was_barred) = match self.step {
            Step::Empty => return Ok(false),
            Step::At(at) => (at <= now, false),
            Step::Barred(until) => (until <= now || self.gate.is_empty(), true),
        };
        let wait = match phase {
            Phase::Running if is_due => WAIT,
            Phase::Running => return Ok(false),
            Phase::Closing => WAIT_CLOSING,
        };
        let emptied = empty(connection, wait);
        self.step = match emptied {
            Ok(true) => Step::Empty,
            Ok(false) if !was_barred => Step::Barred(now + BARRED_MAX),
            Ok(false) | Err(_) => Step::At(now + self.again),
        };
        match self.step {
            Step::Empty => self.again = AGAIN_FIRST,
            Step::Barred(_) => self.gate.bar(),
            Step::At(_) => self.again = AGAIN_MAX.min(2 * self.again),
        }
        if was_barred {
            self.gate.open();
        }
        emptied
    }
}

/// Whether no reader was in the way.
fn empty(connection: &Connection, wait: Duration) -> rusqlite::Result<bool> {
    connection.busy_timeout(wait)?;
    let tried = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        codec::column::<i64>(row, 0, "busy")
    });
    connection.busy_timeout(BUSY_MAX)?;
    tried.map(|busy| busy == 0)
}
