//! What conversations do by themselves when a time has come: snoozed ones wake, idle ones close.
//! One timer for all.
//!
//! Nothing is kept here: the store has every time in an index, so a crash only delays. The
//! conversation itself decides, with what it knows then; whatever came first wins, and what is not
//! due any more is left as it is.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::accounts::Identity;
use crate::conversation::Conversations;
use crate::conversation::messages::{CloseIdle, EndSnooze};
use crate::store::{Timed, TimedCursor, TimedQuery, TimerStore, Timing};
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::time::Timestamp;
use colloquy_runtime::AskError;
use colloquy_runtime::alarm::Alarm;
use colloquy_runtime::threads::BackgroundThread;

/// Looked at this often even if nothing is due: the wall clock may be set, and a message on its way
/// when a conversation was asked may not have come about.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How long it waits before it tries again what failed.
const PAUSE: Duration = Duration::from_secs(1);
/// Minutes are what an account sets: idle conversations are closed by the second, not one by one as
/// each comes due.
const IDLE_STEP: Duration = Duration::from_secs(1);
/// Conversations that are asked at the same time: far fewer than may be loaded at once, so that
/// callers come in between.
const AT_ONCE: usize = 16;
/// Read from the store at once.
const PAGE: u32 = 256;

/// All that is needed to carry out what is due.
pub(crate) struct Timers {
    pub(crate) store: Arc<dyn TimerStore>,
    pub(crate) conversations: Arc<Conversations>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) alarm: Arc<Alarm>,
}

/// A walk along one index, a page at a time.
struct Walk {
    behind: Option<TimedCursor>,
    /// The earliest time among those that were not due.
    next: Option<Timestamp>,
    /// Whether everything that was due has answered.
    well: bool,
}

impl Default for Walk {
    fn default() -> Self {
        Walk {
            behind: None,
            next: None,
            well: true,
        }
    }
}

/// When a tenant's idle conversations are looked at.
#[derive(Default)]
struct Plan {
    after: Duration,
    look_at: Timestamp,
    walk: Walk,
}

impl Timers {
    /// Starts the thread that wakes and closes conversations when their time has come.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub(crate) fn start(self) -> io::Result<BackgroundThread> {
        let timers = Arc::new(self);
        BackgroundThread::start("timers", move || {
            let timers = Arc::clone(&timers);
            async move { timers.go_on().await }
        })
    }

    async fn go_on(&self) {
        let mut plans = HashMap::new();
        loop {
            self.alarm.reset();
            let next = self
                .wake_sleepers()
                .await
                .min(self.close_idle(&mut plans).await);
            self.alarm.ring_by(next);
            self.alarm.wait(LOOK_EVERY).await;
        }
    }

    /// Wakes all whose time has come; gives the next one's.
    async fn wake_sleepers(&self) -> Timestamp {
        let mut walk = Walk::default();
        loop {
            if let Some(next) = self.step(Timing::Snooze, Duration::ZERO, &mut walk).await {
                return next;
            }
        }
    }

    /// Closes what is idle, of each tenant at most a page, so that no sleeper waits for all of it;
    /// gives the time at which there is more to do.
    async fn close_idle(&self, plans: &mut HashMap<Tenant, Plan>) -> Timestamp {
        let mut next = Timestamp::MAX;
        for (account, minutes) in self.identity.auto_closing() {
            let after = Duration::from_mins(minutes.into());
            for tenant in [Mode::Live, Mode::Test].map(|mode| Tenant::of(account, mode)) {
                let plan = plans.entry(tenant).or_default();
                if plan.after != after {
                    *plan = Plan {
                        after,
                        ..Plan::default()
                    };
                }
                let now = Timestamp::now();
                // Nothing can be due later than this, not even what is not there yet: the clock was
                // set back.
                let latest = now + after + IDLE_STEP;
                if plan.look_at <= now || plan.look_at > latest {
                    let more = self
                        .step(Timing::Inactivity(tenant), after, &mut plan.walk)
                        .await;
                    plan.look_at = more.map_or(now, |at| at.clamp(now + IDLE_STEP, latest));
                }
                next = next.min(plan.look_at);
            }
        }
        next
    }

    /// Carries out what is due on the walk's next page; at its end gives the time at which more
    /// will be.
    async fn step(&self, timing: Timing, after: Duration, walk: &mut Walk) -> Option<Timestamp> {
        let now = Timestamp::now();
        let until = now - after;
        let query = TimedQuery {
            timing,
            until,
            behind: walk.behind,
            limit: PAGE,
        };
        let Ok(page) = self.store.timed(query).await else {
            *walk = Walk::default();
            return Some(now + PAUSE);
        };
        let full = page.len() == usize::try_from(PAGE).unwrap_or(usize::MAX);
        let last = page.last().filter(|last| full && last.listed_at <= until);
        let behind = last.map(|last| TimedCursor {
            listed_at: last.listed_at,
            number: last.id.number(),
        });
        let (due, later): (Vec<Timed>, Vec<Timed>) =
            page.into_iter().partition(|one| one.at <= until);
        walk.next = later.iter().map(|one| one.at).chain(walk.next).min();
        let due = due
            .into_iter()
            .filter(|one| !self.identity.is_forgotten(one.tenant));
        walk.well &= self.ask_all(timing, due.collect(), after).await;
        walk.behind = behind;
        if behind.is_some() {
            return None;
        }
        let Walk { next, well, .. } = std::mem::take(walk);
        Some(if well {
            next.map_or(Timestamp::MAX, |at| at + after)
        } else {
            now + PAUSE
        })
    }

    /// Whether the account still wants this: it may have changed its mind since the page was read.
    fn is_wanted(&self, timing: Timing, after: Duration) -> bool {
        match timing {
            Timing::Snooze => true,
            Timing::Inactivity(tenant) => self
                .identity
                .auto_close_minutes(tenant)
                .is_some_and(|minutes| Duration::from_mins(minutes.into()) == after),
        }
    }

    /// Asks them, a few at a time; whether all have answered.
    async fn ask_all(&self, timing: Timing, due: Vec<Timed>, after: Duration) -> bool {
        let mut due = due.into_iter();
        let mut asked = JoinSet::new();
        let mut well = true;
        loop {
            while asked.len() < AT_ONCE
                && let Some(one) = due.next()
                && self.is_wanted(timing, after)
            {
                let conversations = Arc::clone(&self.conversations);
                let (id, tenant) = (one.id, one.tenant);
                let meta = move |chore| {
                    let actor = Actor::server(chore);
                    CommandMeta::new(Caller { tenant, actor })
                };
                asked.spawn(async move {
                    let answer = match timing {
                        Timing::Snooze => {
                            let meta = meta("a snooze ended");
                            conversations.ask(id, meta, EndSnooze).await
                        }
                        Timing::Inactivity(_) => {
                            let meta = meta("inactivity");
                            conversations.ask(id, meta, CloseIdle { after }).await
                        }
                    };
                    // What can't be read is not asked again at once: it stays as it is.
                    matches!(answer, Ok(()) | Err(AskError::Unreadable))
                });
            }
            match asked.join_next().await {
                Some(answered) => well &= matches!(answered, Ok(true)),
                None => return well,
            }
        }
    }
}
