//! What is held in memory of what is committed: the sink that a store tells of its commits.
//!
//! All of it is set between the fsync and the replies. So a view is never ahead of the disk and
//! never behind an answer: a key that was revoked is revoked for the very next request.

use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::accounts::restore::{
    restore_account, restore_client, restore_grant, restore_key, restore_user,
};
use crate::accounts::{Identity, KnownAccount, KnownKey};
use crate::customer_names::Names;
use crate::erasures::redacted;
use crate::feed::{Batch, Feed, Renamed};
use crate::idempotency::Keys;
use crate::oauth::SigningKeysView;
use crate::sealing::texts;
use crate::store::{
    CommitSink, Committed, CommittedBatch, FirstRow, Followed, FollowedChange, HeldName, KeyCache,
    KeyUse, StoredRecord,
};
use crate::supervision::SettingsView;
use crate::webhook::restore_endpoint;
use colloquy_model::account::TextKeys;
use colloquy_model::caller::{CredentialCode, Tenant};
use colloquy_model::commit::{Commit, Effect, NewRow};
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event::{Event, EventRow, SeenNow};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{Id, WebhookId};
use colloquy_model::user::KnownUser;
use colloquy_runtime::alarm::Alarm;

/// The views, and who is told of commits.
#[derive(Debug, Clone, Default)]
pub(crate) struct Views {
    /// Keys, accounts and users: who may come in, and with which rights.
    pub identity: Arc<Identity>,
    /// Customers' names, as conversations show them.
    pub names: Arc<Names>,
    /// Idempotency keys whose requests run, and where the newest answers stand.
    pub keys: Arc<Keys>,
    /// Notified when a commit leaves a chore.
    pub chores: Arc<Notify>,
    /// Who listens to what happens.
    pub feed: Arc<Feed>,
    /// What operators have set of how actors are supervised.
    pub supervision: Arc<SettingsView>,
    /// The keys that sign access tokens.
    pub signing_keys: Arc<SigningKeysView>,
    /// Set when a commit brings a time at which a conversation does something by itself.
    pub timers: Arc<Alarm>,
    /// Messages that this process has committed.
    pub messages: Arc<AtomicU64>,
}

impl CommitSink for Views {
    /// One that can't be read is told; it stops the start only where going on would lose something.
    fn recovered_record(
        &self,
        record: &StoredRecord,
        last_used: Timestamp,
    ) -> serde_json::Result<()> {
        let StoredRecord {
            subject,
            tenant,
            body,
            ..
        } = record;
        let told = |error: serde_json::Error| Unreadable::found(subject, error);
        let (number, tail) = (subject.number, subject.tail);
        match subject.kind {
            // Without it, its number would be given to another account, which would see its data.
            Kind::Account => {
                let (account, text_keys) = restore_account(body)?;
                self.put_account(account, &text_keys);
            }
            // Left out, it lets nobody in.
            Kind::Key => match restore_key(body).map_err(told) {
                Ok((mut key, secrets)) => {
                    key.last_used_ms = Arc::new(AtomicI64::new(last_used.0));
                    self.identity.put_key(key, secrets);
                }
                Err(Unreadable) => self
                    .identity
                    .put_unreadable_key(Id::from_parts(number, tail), tenant.account_number()),
            },
            Kind::User => {
                // Left out, the user would go from whatever names it; as an agent, a user may do
                // the least.
                let unknown = || (Id::from_parts(number, tail), KnownUser::unreadable());
                let (id, user) = restore_user(body)
                    .map_err(told)
                    .unwrap_or_else(|Unreadable| unknown());
                self.identity.put_user(*tenant, id, user);
            }
            // Left out, what is configured holds.
            Kind::Supervision => {
                if let Ok(settings) = serde_json::from_str(body).map_err(told) {
                    self.supervision.put(record.sequence, settings);
                }
            }
            // Left out, its tokens open nothing.
            Kind::Client => {
                if let Ok(client) = restore_client(body, *tenant).map_err(told) {
                    self.identity.put_client(client);
                }
            }
            Kind::Grant => {
                if let Ok(grant) = restore_grant(body, *tenant).map_err(told) {
                    self.identity.put_grant(grant);
                }
            }
            // Without them, what they signed would be void.
            Kind::SigningKeys => {
                let kept = serde_json::from_str(body)?;
                self.signing_keys.put(record.sequence, kept);
            }
            Kind::Customer
            | Kind::Attachment
            | Kind::Erasure
            | Kind::Conversation
            | Kind::Webhook
            | Kind::Document
            | Kind::Audit
            | Kind::Alerts => {}
        }
        Ok(())
    }

    fn recovered_endpoint(&self, id: WebhookId, tenant: Tenant) {
        self.feed.recovered_endpoint(id, tenant);
    }

    fn recovered_name(&self, customer: EntityNumber, name: &str, revision: Sequence) {
        self.names.rename(customer, name, revision);
    }

    fn opened(&self, position: Position) {
        self.feed.opened(position);
    }

    fn committed(&self, batch: CommittedBatch) {
        // Nobody can join the feed in the midst of a batch.
        let mut published = self.feed.batch();
        for Committed { mut commit, first } in batch.commits {
            self.count_messages(&commit);
            publish(&commit, first, &mut published);
            if commit.chore.is_some() {
                self.chores.notify_one();
            }
            for effect in std::mem::take(&mut commit.effects) {
                self.take_in(effect, commit.expected.next());
            }
            if let Some(kept) = commit.answer.take() {
                kept.reservation.settle(first.position);
            }
        }
        published.reached(batch.position);
    }

    fn followed(&self, batch: Vec<Followed>, position: Position) {
        let mut published = self.feed.batch();
        for followed in batch {
            self.take_in_followed(followed, &mut published);
        }
        published.reached(position);
    }

    fn names_held(&self) -> Vec<HeldName> {
        let held = self.names.held().into_iter();
        held.map(|(customer, revision)| HeldName { customer, revision })
            .collect()
    }

    fn name_copied(&self, customer: EntityNumber, revision: Sequence) {
        self.names.copied(customer, revision);
    }

    fn key_uses(&self) -> Vec<KeyUse> {
        self.identity.last_uses()
    }

    fn redacted(&self, json: &[u8]) -> Vec<u8> {
        redacted(json)
    }

    fn keys(&self) -> &dyn KeyCache {
        &*self.keys
    }
}

impl Views {
    fn put_account(&self, account: KnownAccount, text_keys: &TextKeys) {
        if !text_keys.0.is_empty() || account.view.forgotten_at.is_some() {
            texts::set_keys(account.number, text_keys);
        }
        self.identity.put_account(account);
    }

    fn count_messages(&self, commit: &Commit) {
        let is_message = |row: &&NewRow| row.kind == EventKind::MessageCreated;
        let messages = commit.rows.iter().filter(is_message).count();
        if messages > 0 {
            let messages = u64::try_from(messages).unwrap_or(u64::MAX);
            self.messages.fetch_add(messages, Ordering::Relaxed);
        }
    }

    /// Takes in what a commit of another process did.
    fn take_in_followed(&self, followed: Followed, published: &mut Batch<'_>) {
        let Followed {
            subject,
            tenant,
            sequence,
            first,
            events,
            change,
            renamed,
            redacts,
            leaves_chore,
        } = followed;
        if redacts || matches!(change, FollowedChange::Erased) {
            published.redacted(subject.number);
        }
        match change {
            FollowedChange::Record(record) if subject.kind == Kind::Webhook => {
                let id = WebhookId::from_parts(subject.number, subject.tail);
                // One that can't be read gets nothing, as at a start.
                if let Ok(endpoint) = restore_endpoint(record.body.as_bytes(), id, tenant)
                    .map_err(|error| Unreadable::found(subject, error))
                {
                    published.endpoint(first.position, Arc::new(endpoint));
                }
            }
            FollowedChange::Record(record) => {
                // What is known of it stays where it can't be read.
                if let Err(error) = self.recovered_record(&record, Timestamp::EPOCH) {
                    Unreadable::found(subject, error);
                }
                self.timers.ring_now();
            }
            FollowedChange::RecordGone => self.record_gone(subject, tenant, first, published),
            FollowedChange::Snoozed(until) => self.timers.ring_by(until),
            FollowedChange::None | FollowedChange::Erased => {}
        }
        if let Some(name) = renamed {
            self.names.rename(subject.number, &name, sequence);
            let renamed = Renamed {
                customer: subject.number,
                tenant,
                name: name.into(),
            };
            published.renamed(first.position, renamed);
        }
        if leaves_chore {
            self.chores.notify_one();
        }
        if !events.is_empty() && published.wants(tenant, subject) {
            events.into_iter().for_each(|event| published.event(event));
        }
    }

    fn record_gone(
        &self,
        subject: Subject,
        tenant: Tenant,
        first: FirstRow,
        published: &mut Batch<'_>,
    ) {
        let Subject { kind, number, tail } = subject;
        match kind {
            Kind::User => self
                .identity
                .drop_user(tenant, Id::from_parts(number, tail)),
            Kind::Webhook => {
                let id = WebhookId::from_parts(number, tail);
                published.endpoint_gone(first.position, id);
            }
            Kind::Client => self.identity.drop_client(Id::from_parts(number, tail)),
            Kind::Grant => self.identity.drop_grant(Id::from_parts(number, tail)),
            // These are never deleted, or nothing of them is held in memory.
            Kind::Account
            | Kind::Key
            | Kind::Customer
            | Kind::Conversation
            | Kind::Document
            | Kind::Supervision
            | Kind::Audit
            | Kind::SigningKeys
            | Kind::Alerts
            | Kind::Attachment
            | Kind::Erasure => {}
        }
    }

    /// Takes in what a commit of this entity's sequence did.
    fn take_in(&self, effect: Effect, sequence: Sequence) {
        match effect {
            Effect::Account(view, number, own_quota, text_keys) => {
                self.put_account(
                    KnownAccount {
                        view: *view,
                        number,
                        own_quota,
                    },
                    &text_keys,
                );
                self.timers.ring_now();
            }
            Effect::Key(view, account, secrets, signing) => {
                let key = KnownKey {
                    view: *view,
                    account,
                    signing,
                    last_used_ms: Arc::default(),
                };
                self.identity.put_key(key, secrets);
            }
            Effect::User(account, id, user) => self.identity.put_user(account, id, *user),
            Effect::UserGone(account, id) => {
                self.identity.drop_user(account, id);
                self.chores.notify_one();
            }
            Effect::Snoozed(until) => self.timers.ring_by(until),
            Effect::CustomerRenamed(customer, name) => {
                self.names.rename(customer.number(), &name, sequence);
            }
            Effect::Supervision(settings) => self.supervision.put(sequence, *settings),
            Effect::Client(client) => self.identity.put_client(*client),
            Effect::ClientGone(id) => self.identity.drop_client(id),
            Effect::Grant(grant) => self.identity.put_grant(*grant),
            Effect::GrantGone(id) => self.identity.drop_grant(id),
            Effect::SigningKeys(kept) => self.signing_keys.put(sequence, *kept),
            // The feed has them, in the order of commits.
            Effect::Endpoint(_) | Effect::EndpointGone(_) => {}
        }
    }
}

/// Hands what happened to the feed, where anybody wants it.
fn publish(commit: &Commit, first: FirstRow, published: &mut Batch<'_>) {
    if commit.erases() || commit.redacts.is_some() {
        published.redacted(commit.subject.number);
    }
    publish_records(commit, first, published);
    if !commit.subject.kind.is_public() || !published.wants(commit.tenant, commit.subject) {
        return;
    }
    let sequences = commit.expected.following();
    let numbered = sequences.zip(first.number.and_following());
    let rows = commit.rows.iter().zip(first.position.and_following());
    for ((row, position), (sequence, number)) in rows.zip(numbered) {
        let event = EventRow {
            position,
            tenant: commit.tenant,
            number,
            entity: commit.subject.number,
            sequence,
            kind: row.kind,
            at: commit.at,
            credential: commit.actor.credential.code().map(CredentialCode),
            text_bytes: row.text_bytes,
        };
        let seen = row.seen.map_or_else(SeenNow::default, |seen| SeenNow {
            channel: Some(seen.channel),
            priority: Some(seen.priority),
            assignee: seen.assignee.map(|user| user.number()),
        });
        let payload = row.payload.clone();
        published.event(Event::new(event, seen, payload));
    }
}

/// Hands webhook endpoints that were changed or deleted and customers' new names to the feed.
fn publish_records(commit: &Commit, first: FirstRow, published: &mut Batch<'_>) {
    for effect in &commit.effects {
        match effect {
            Effect::Endpoint(endpoint) => {
                published.endpoint(first.position, Arc::clone(endpoint));
            }
            Effect::EndpointGone(id) => published.endpoint_gone(first.position, *id),
            Effect::CustomerRenamed(customer, name) => {
                let renamed = Renamed {
                    customer: customer.number(),
                    tenant: commit.tenant,
                    name: name.clone(),
                };
                published.renamed(first.position, renamed);
            }
            Effect::Account(..)
            | Effect::Key(..)
            | Effect::User(..)
            | Effect::UserGone(..)
            | Effect::Snoozed(_)
            | Effect::Supervision(_)
            | Effect::Client(_)
            | Effect::ClientGone(_)
            | Effect::Grant(_)
            | Effect::GrantGone(_)
            | Effect::SigningKeys(_) => {}
        }
    }
}
