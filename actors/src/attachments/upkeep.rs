//! The thread that deletes what nobody will ever ask for: uploads that have ended before their time,
//! or with a process that died, and attachments that no message has taken within a day.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Attachments;
use crate::accounts::record::RecordError;
use crate::accounts::{Attachment, ExpireAttachment, SettleAttachment, unsettled};
use crate::store::RecordQuery;
use colloquy_model::caller::{Actor, Caller, Mode, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::entity::Kind;
use colloquy_model::id::AttachmentId;
use colloquy_model::page::{Order, Paging, Start};
use colloquy_model::time::Timestamp;
use colloquy_runtime::AskError;
use colloquy_runtime::threads::BackgroundThread;

/// How long an attachment waits for a message.
const TAKEN_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);
/// How often those are looked for that have waited too long.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How soon again where something did not answer, as at a start, before anything can live; doubled
/// each time, up to the other.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Records that are read at once.
const PAGE: u32 = 100;

/// What becomes of an attachment of which nobody knew whether a message has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is not its time yet, nor that of those behind it.
    Waits,
    /// It left the list.
    Left,
    /// It stays in it.
    Stays,
    /// It stays in it for now: something did not answer.
    Fails,
}

impl Attachments {
    pub(crate) fn start_upkeep(self: &Arc<Self>) -> io::Result<BackgroundThread> {
        let attachments = Arc::clone(self);
        BackgroundThread::start_with_connections("attachments", move || {
            let attachments = Arc::clone(&attachments);
            async move { attachments.keep_up().await }
        })
    }

    async fn keep_up(&self) {
        let mut ended = self.ended.lock().await;
        let (mut next, mut again) = (Instant::now(), LOOK_AGAIN);
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => {
                    let pause;
                    (pause, again) = match self.look().await {
                        true => (LOOK_EVERY, LOOK_AGAIN),
                        false => (again, LOOK_EVERY.min(2 * again)),
                    };
                    next = Instant::now() + pause;
                }
                Some((tenant, id)) = ended.recv() => {
                    // What fails is found again when it has waited too long, or at the next start.
                    self.erase(tenant, id).await;
                }
            }
        }
    }

    /// Looks through the attachments of all accounts of which it is not known whether a message has
    /// them; whether everything has answered.
    async fn look(&self) -> bool {
        let identity = &self.parts.records.identity;
        let mut answered = true;
        for account in identity.account_ids().into_keys() {
            let tenants = [Mode::Live, Mode::Test].map(|mode| Tenant::of(account, mode));
            // What a forgotten account has left can't be read by anybody.
            let tenants = tenants
                .into_iter()
                .filter(|tenant| !identity.is_forgotten(*tenant));
            for tenant in tenants {
                answered &= self.look_through(tenant).await;
            }
        }
        answered
    }

    /// Looks through those of one tenant; whether everything has answered.
    async fn look_through(&self, tenant: Tenant) -> bool {
        let (mut staying, mut answered) = (0, true);
        loop {
            let query = RecordQuery {
                tenant,
                kind: Kind::Attachment,
                names: vec![unsettled()],
                paging: Paging {
                    limit: PAGE,
                    start: Start::Offset(staying),
                    order: Order::Asc,
                },
            };
            // The store is away: the next look finds them.
            let Ok(found) = self.parts.records.store.records(query).await else {
                return false;
            };
            if found.items.is_empty() {
                return answered;
            }
            for record in found.items {
                let id = AttachmentId::from_parts(record.subject.number, record.subject.tail);
                // One that can't be read was told when it was asked for, and stays.
                let fate = match serde_json::from_str::<Attachment>(&record.body) {
                    Ok(attachment) => self.settle(tenant, id, &attachment).await,
                    Err(_) => Fate::Stays,
                };
                match fate {
                    Fate::Waits => return answered,
                    Fate::Left => {}
                    Fate::Stays => staying += 1,
                    Fate::Fails => {
                        staying += 1;
                        answered = false;
                    }
                }
            }
        }
    }

    async fn settle(&self, tenant: Tenant, id: AttachmentId, attachment: &Attachment) -> Fate {
        let is_old = id.created_at() + TAKEN_WITHIN <= Timestamp::now();
        // Where no other process serves the store, an upload of before this one's start has died.
        let has_died = !self.parts.records.store.is_shared() && id.created_at() < self.started_at;
        let is_over = attachment.is_dropped() || attachment.is_uploading() && has_died;
        if !is_old && !is_over {
            // Younger ones may be of this process.
            return if has_died { Fate::Stays } else { Fate::Waits };
        }
        if attachment.shown().is_some() {
            return self.expire(tenant, id).await;
        }
        match self.erase(tenant, id).await {
            true => Fate::Left,
            false => Fate::Fails,
        }
    }

    /// Deletes an attachment that no message has; one that a message has stays as long as that.
    async fn expire(&self, tenant: Tenant, id: AttachmentId) -> Fate {
        let meta = || {
            CommandMeta::new(Caller {
                tenant,
                actor: Actor::server("no message took an attachment"),
            })
        };
        let records = &self.parts.records;
        let is_left = match records.ask(id, meta(), ExpireAttachment).await {
            Ok(()) => self.erase(tenant, id).await,
            Err(AskError::Refused(RecordError::Taken { .. })) => {
                records.ask(id, meta(), SettleAttachment).await.is_ok()
            }
            Err(AskError::Refused(_)) => true,
            Err(_) => false,
        };
        match is_left {
            true => Fate::Left,
            false => Fate::Fails,
        }
    }
}
