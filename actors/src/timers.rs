//! What conversations do by themselves when a time has come: snoozed ones wake, idle ones close. One timer for all.
//!
//! Nothing is kept here: the store has every time in an index, so a crash only delays. The conversation itself decides,
//! with what it knows then; whatever came first wins, and what is not due any more is left as it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::accounts::Identity;
use crate::alarm::Alarm;
use crate::background::Background;
use crate::caller::{By, Caller, Mode, Scope};
use crate::conversation::Conversations;
use crate::conversation::messages::Request;
use crate::store::{ReadError, Store, Timed, TimedQuery, Timing};
use crate::time::Timestamp;

/// Looked at this often even if nothing is due: the wall clock may be set, and a message on its way when a conversation was
/// asked may not have come about.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// After a failure.
const PAUSE_MS: i64 = 1000;
/// Minutes are what an account sets: idle conversations are closed by the second, not one by one as each comes due.
const IDLE_STEP_MS: i64 = 1000;
/// Conversations that are asked at the same time: far fewer than may be loaded at once, so that callers come in between.
const AT_ONCE: usize = 16;
/// Read from the store at once.
const PAGE: u32 = 256;

const MINUTE_MS: i64 = 60_000;

/// All that is needed to carry out what is due.
pub(crate) struct Timers {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) alarm: Arc<Alarm>,
}

impl Timers {
    /// Starts the thread; none where there is none to be had: the next start does what is due then.
    pub(crate) fn start(self) -> Option<Background> {
        Background::start("colloquy-timers", async move {
            loop {
                self.alarm.wind();
                let next = self.look().await;
                self.alarm.no_later_than(next);
                self.alarm.rung(LOOK_EVERY).await;
            }
        })
    }

    /// Carries out everything that is due; gives the time at which something will be.
    async fn look(&self) -> i64 {
        let mut next = self.look_at(Timing::Snooze, 0).await;
        for (account, minutes) in self.identity.auto_closing() {
            for mode in [Mode::Live, Mode::Test] {
                let timing = Timing::Inactivity(Scope::of(account, mode));
                next = next.min(self.look_at(timing, i64::from(minutes) * MINUTE_MS).await);
            }
        }
        next
    }

    /// Carries out what has been due since `after_ms`; gives the time at which more will be.
    async fn look_at(&self, timing: Timing, after_ms: i64) -> i64 {
        let until = Timestamp::now().0 - after_ms;
        let soon = Timestamp::now().0 + PAUSE_MS;
        match self.carry_out(timing, until, after_ms).await {
            Ok(Done { well: false, .. }) | Err(_) => soon,
            Ok(Done { next, .. }) => match timing {
                Timing::Snooze => next.unwrap_or(i64::MAX),
                // What is not there yet can't be due before so long from now.
                Timing::Inactivity(_) => {
                    next.map_or(i64::MAX, |at| at + after_ms).clamp(soon - PAUSE_MS + IDLE_STEP_MS, soon + after_ms)
                }
            },
        }
    }

    async fn carry_out(&self, timing: Timing, until: i64, after_ms: i64) -> Result<Done, ReadError> {
        let mut done = Done { next: None, well: true };
        let mut behind = None;
        loop {
            let page = self.store.timed(TimedQuery { timing, until, behind, limit: PAGE }).await?;
            let last = page.last().map(|last| (last.listed_at, last.id.number()));
            let full = page.len() == usize::try_from(PAGE).unwrap_or(usize::MAX);
            let (due, later): (Vec<Timed>, Vec<Timed>) = page.into_iter().partition(|one| one.at <= until);
            done.next = later.iter().map(|one| one.at).chain(done.next).min();
            done.well &= self.ask_all(timing, due, after_ms).await;
            if !full || last.is_none_or(|(listed_at, _)| listed_at > until) {
                return Ok(done);
            }
            behind = last;
        }
    }

    /// Asks them, a few at a time; whether all have answered.
    async fn ask_all(&self, timing: Timing, due: Vec<Timed>, after_ms: i64) -> bool {
        let mut due = due.into_iter();
        let mut asked = JoinSet::new();
        let mut well = true;
        loop {
            while asked.len() < AT_ONCE
                && let Some(one) = due.next()
            {
                let conversations = Arc::clone(&self.conversations);
                let (request, chore) = match timing {
                    Timing::Snooze => (Request::Wake, "a snooze ended"),
                    Timing::Inactivity(_) => (Request::CloseIdle { after_ms }, "inactivity"),
                };
                let caller = Caller { scope: one.scope, by: By::server(chore) };
                asked.spawn(async move { conversations.ask(one.id, caller, None, None, request).await.is_ok() });
            }
            match asked.join_next().await {
                Some(answered) => well &= matches!(answered, Ok(true)),
                None => return well,
            }
        }
    }
}

/// What a look came to.
struct Done {
    /// The earliest time among those that are not due.
    next: Option<i64>,
    /// Whether everything that was due has answered.
    well: bool,
}
