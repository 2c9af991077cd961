//! What is counted, as it is written behind once a second, read with what is not written yet, and
//! told to other nodes. After a crash at most what was counted since the last write is lost.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::alerting::Alerts;
use super::calendar::Calendar;
use super::counter::{UsageCounter, Who};
use super::key_rates::{KeyRates, MinuteRates};
use crate::accounts::Identity;
use crate::store::{
    AccountUsage, Broadcast, Heard, Later, NodeRequests, ReadError, Store, Topic, UsageQuery,
    UsageSlice,
};
use colloquy_model::id::NodeId;
use colloquy_model::json;
use colloquy_model::time::Timestamp;
use colloquy_model::usage::{CountedCredential, DayUsage};
use colloquy_runtime::threads::BackgroundThread;

/// How often what was counted is written, and told to other nodes.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Writes after which what other nodes have written by now is read: they may have written what was
/// missed of them with the first, or the second if the first was under way.
const READ_AFTER_WRITES: u32 = 2;
/// How long an end waits for the store to take what was counted.
const END_MAX: Duration = Duration::from_secs(2);

/// What a node has let in since a month began, as it is told to the others.
#[derive(Debug, Serialize, Deserialize)]
struct ToldRequests {
    month: Timestamp,
    /// By the account's number: what it knows of, where that has changed.
    requests: Vec<(u32, u64)>,
}

/// What keys asked at a node since it told the others last.
#[derive(Debug, Serialize, Deserialize)]
struct ToldRates(Vec<(u32, i64, u64, MinuteRates)>);

/// A slice on its way into the store.
struct Unwritten {
    slice: Arc<UsageSlice>,
    /// Whoever waits for it may leave: the next one waits on.
    adding: Option<Later<Result<(), ReadError>>>,
}

/// How far the writing has come.
#[derive(Default)]
struct Written {
    slices: u64,
    unwritten: Option<Unwritten>,
}

/// What accounts use.
pub struct Usage {
    /// What is counted of requests.
    pub counter: UsageCounter,
    /// How often keys asked in the last hour.
    pub(super) rates: KeyRates,
    pub(super) store: Arc<dyn Store>,
    broadcast: Option<Arc<dyn Broadcast>>,
    written: Mutex<Written>,
    /// Writes until what other nodes have written is read; 0: it need not be.
    writes_until_read: AtomicU32,
}

impl Usage {
    /// Goes on from what is stored of this month.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn open(store: Arc<dyn Store>) -> Result<Arc<Self>, ReadError> {
        let usage = Usage {
            counter: UsageCounter::new(Timestamp::now()),
            rates: KeyRates::default(),
            broadcast: store.nodes().broadcast(),
            store,
            written: Mutex::default(),
            writes_until_read: AtomicU32::new(0),
        };
        usage.read_stored().await?;
        Ok(Arc::new(usage))
    }

    /// Writes what is counted, from now on, tells accounts of their limits, and keeps in step with
    /// other nodes.
    ///
    /// # Errors
    /// The system starts no further thread.
    pub fn start(self: &Arc<Self>, identity: &Arc<Identity>) -> io::Result<BackgroundThread> {
        if let Some(broadcast) = &self.broadcast {
            let hearing = Arc::downgrade(self);
            let hear = move |node: NodeId, heard: Heard<'_>| {
                if let Some(usage) = hearing.upgrade() {
                    usage.hear(node.tail(), heard);
                }
            };
            broadcast.listen(Topic::Usage, Box::new(hear));
            let hearing = Arc::downgrade(self);
            let hear = move |_: NodeId, heard: Heard<'_>| {
                if let Some(usage) = hearing.upgrade() {
                    usage.hear_rates(heard);
                }
            };
            broadcast.listen(Topic::KeyRates, Box::new(hear));
        }
        let (usage, identity) = (Arc::clone(self), Arc::clone(identity));
        BackgroundThread::start("usage", move || {
            let usage = Arc::clone(&usage);
            let alerts = Alerts::new(Arc::clone(&identity), Arc::clone(&usage.store));
            async move { usage.keep_writing(alerts).await }
        })
    }

    /// What an account used on these days, by day and credential: each pair may come twice.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn days(&self, query: UsageQuery) -> Result<Vec<DayUsage>, ReadError> {
        // What is on its way would be found in both, or in neither.
        let _standing = self.written.lock().await;
        let mut days = self.store.usage(query).await?;
        days.extend(self.counter.counted(query));
        Ok(days)
    }

    /// Writes what is left, if the store takes it in time.
    pub async fn close(&self) {
        let rest = async {
            // What is on its way, and what came since.
            self.write().await?;
            self.write().await
        };
        match tokio::time::timeout(END_MAX, rest).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => {
                tracing::warn!("what accounts used in the last second is not written down");
            }
        }
    }

    /// The rest of this node's identifier, as it stands beside what it has counted.
    fn node(&self) -> u64 {
        let broadcast = self.broadcast.as_ref();
        broadcast.map_or(0, |broadcast| broadcast.node().tail())
    }

    async fn keep_writing(&self, mut alerts: Alerts) {
        let mut ticks = tokio::time::interval(WRITE_EVERY);
        loop {
            ticks.tick().await;
            if self.counter.has_turned(Timestamp::now()) {
                self.read_later();
            }
            // It is told where it failed, and tried again.
            let is_written = self.write().await.is_ok();
            self.tell();
            self.alert(&mut alerts).await;
            if is_written && self.reads_now() && self.read_stored().await.is_err() {
                self.read_later();
            }
        }
    }

    /// Writes what was counted since the last slice; one that could not be written goes first.
    async fn write(&self) -> Result<(), ReadError> {
        let mut written = self.written.lock().await;
        if written.unwritten.is_none() {
            let rows = self.counter.take_counted();
            if rows.is_empty() {
                return Ok(());
            }
            self.note_rates(&rows);
            written.slices += 1;
            let number = written.slices;
            written.unwritten = Some(Unwritten {
                slice: Arc::new(UsageSlice { number, rows }),
                adding: None,
            });
        }
        let Some(Unwritten { slice, adding }) = &mut written.unwritten else {
            return Ok(());
        };
        let store = &self.store;
        let added = adding
            .get_or_insert_with(|| store.add_usage(Arc::clone(slice)))
            .await;
        *adding = None;
        added?;
        written.unwritten = None;
        Ok(())
    }

    /// Tells accounts whose limits are reached.
    async fn alert(&self, alerts: &mut Alerts) {
        let now = Timestamp::now();
        let month = Calendar::at(now).month();
        alerts.note_used(month, self.counter.take_unchecked(month));
        alerts.note_refused(self.counter.take_refused());
        alerts.tell(now).await;
    }

    /// Takes what keys asked here into the last hour, and tells other nodes.
    fn note_rates(&self, rows: &[AccountUsage]) {
        let rates = rows.iter().filter_map(rates_of);
        let rates: Vec<(Who, MinuteRates)> = rates.collect();
        let broadcast = self.broadcast.as_ref();
        if let Some(broadcast) = broadcast.filter(|broadcast| broadcast.is_heard()) {
            let told = rates.iter().map(|(who, rates)| {
                let CountedCredential { code, tail } = who.credential;
                (who.account, code, tail, *rates)
            });
            broadcast.say(Topic::KeyRates, json::text(&ToldRates(told.collect())));
        }
        self.rates.add(rates, Timestamp::now());
    }

    /// Takes in what keys asked at another node.
    fn hear_rates(&self, heard: Heard<'_>) {
        // What was lost is missing in what operators see, and nowhere else.
        let Heard::Said(text) = heard else { return };
        match serde_json::from_str::<ToldRates>(text) {
            Ok(ToldRates(told)) => {
                let rates = told.into_iter().map(|(account, code, tail, rates)| {
                    let credential = CountedCredential { code, tail };
                    let who = Who {
                        account,
                        credential,
                    };
                    (who, rates)
                });
                self.rates.add(rates, Timestamp::now());
            }
            Err(error) => tracing::warn!(%error, "what keys asked elsewhere can't be read"),
        }
    }

    /// Takes in what is stored of this month.
    async fn read_stored(&self) -> Result<(), ReadError> {
        let month = Calendar::at(Timestamp::now()).month();
        let known = self.store.requests_since(month).await?;
        self.counter.learn(month, self.node(), &known);
        Ok(())
    }

    fn read_later(&self) {
        self.writes_until_read
            .store(READ_AFTER_WRITES, Ordering::Relaxed);
    }

    /// Whether what is stored is to be read, this write being done.
    fn reads_now(&self) -> bool {
        let one_less = |writes: u32| writes.checked_sub(1);
        let before =
            self.writes_until_read
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        before == Ok(1)
    }

    /// Tells other nodes what was let in here.
    fn tell(&self) {
        let Some(broadcast) = &self.broadcast else {
            return;
        };
        if !broadcast.is_heard() {
            return;
        }
        let month = Calendar::at(Timestamp::now()).month();
        let requests = self.counter.take_untold(month);
        if !requests.is_empty() {
            let told = ToldRequests { month, requests };
            broadcast.say(Topic::Usage, json::text(&told));
        }
    }

    fn hear(&self, node: u64, heard: Heard<'_>) {
        match heard {
            Heard::Said(text) => match serde_json::from_str::<ToldRequests>(text) {
                Ok(ToldRequests { month, requests }) => {
                    let known = requests
                        .into_iter()
                        .map(|(account, requests)| NodeRequests {
                            account,
                            node,
                            requests,
                        });
                    let known: Vec<_> = known.collect();
                    self.counter.learn(month, self.node(), &known);
                }
                Err(error) => tracing::warn!(%error, "what another node has let in can't be read"),
            },
            Heard::Lost => self.read_later(),
            // What it has let in stays.
            Heard::Gone => {}
        }
    }
}

/// What a credential asked, if it did.
fn rates_of(row: &AccountUsage) -> Option<(Who, MinuteRates)> {
    let counts = row.used.counts;
    let count = |requests: u64| u32::try_from(requests).unwrap_or(u32::MAX);
    let rates = MinuteRates {
        requests: count(counts.requests),
        rate_limited: count(counts.rate_limited),
        quota_exceeded: count(counts.quota_exceeded),
    };
    let who = Who {
        account: row.account,
        credential: row.used.credential,
    };
    (rates != MinuteRates::default()).then_some((who, rates))
}
