//! One transaction: many commits, each of which takes effect whole or not at all. All that can
//! refuse a commit is checked before its first write, so that a loser leaves nothing behind and the
//! batch goes on.

use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension, params};

use super::codec::{Counted, int, uint};
use super::deliveries::{Care, Tidying};
use super::dirty_headers::DirtyHeader;
use super::redacting;
use crate::store::{DeliverySlice, FirstRow, Written};
use colloquy_model::caller::Tenant;
use colloquy_model::commit::{
    Chore, Commit, Condition, ConstraintViolation, Effect, Header, NameField, NewRow,
};
use colloquy_model::conversation::{ConversationState, MessageCounts};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::id::CustomerId;
use colloquy_model::position::Position;

/// Bytes of redacted texts that are erased with the redactions of one transaction: mostly all of
/// them.
const ERASE_BYTES: usize = 1 << 18;

/// What became of one commit inside the transaction.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Its rows, if it has any, begin here.
    Written(FirstRow),
    /// Another change came first.
    RevisionConflict,
    /// A condition does not hold.
    ConstraintViolation(ConstraintViolation),
}

/// What the writer knows without asking the file.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) next_pos: Position,
    numbers: HashMap<i64, i64>,
    /// Scopes whose number has moved since it was last written down.
    moved: HashSet<i64>,
    /// Where the running transaction began, and the numbers that it has replaced.
    begun_at: Position,
    replaced: Vec<(i64, i64)>,
}

impl Counts {
    pub(super) fn new(next_pos: Position, numbers: HashMap<i64, i64>) -> Self {
        Counts {
            next_pos,
            numbers,
            begun_at: next_pos,
            ..Counts::default()
        }
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self) {
        self.begun_at = self.next_pos;
        self.replaced.clear();
    }

    /// The position at which the running transaction began.
    pub(super) fn begun_at(&self) -> Position {
        self.begun_at
    }

    /// The transaction was rolled back: the counts are those of its begin.
    pub(super) fn rewind(&mut self) {
        self.next_pos = self.begun_at;
        for (tenant, number) in self.replaced.drain(..).rev() {
            self.numbers.insert(tenant, number);
        }
    }

    fn next_number(&mut self, tenant: i64) -> i64 {
        let number = self.numbers.entry(tenant).or_insert(0);
        self.replaced.push((tenant, *number));
        *number += 1;
        self.moved.insert(tenant);
        *number
    }

    /// The number that comes next in this tenant.
    fn number_after(&self, tenant: i64) -> u64 {
        uint(self.numbers.get(&tenant).copied().unwrap_or(0)) + 1
    }

    /// The last number of each account and mode that has moved since [`Counts::written`].
    pub(super) fn moved(&self) -> impl Iterator<Item = (i64, i64)> {
        self.moved
            .iter()
            .filter_map(|tenant| Some((*tenant, *self.numbers.get(tenant)?)))
    }

    /// What has moved is written down.
    pub(super) fn written(&mut self) {
        self.moved.clear();
    }
}

/// A salt and the salted hash of each row's payload, made before the writer is reached.
pub(super) type PayloadDigests = Vec<([u8; 16], [u8; 32])>;

/// Adds one row.
const INSERT_ROW: &str = "INSERT INTO rows(
    pos, entity, seq, happened, scope, number, at, from_customer, from_agent,
    from_system, last_message_at, channel, priority, assignee, sender, edit, by_key,
    by_user, by_address, by_request, salt, hash, key, request, done, answer_id,
    etag, answer, payload)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
    ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29)";

type CounterKey = (i64, Counted, i64, i64);

/// What a slice left behind, and where each of its answers stands.
pub(super) type Delivered = (Written, Vec<FirstRow>);

/// One transaction's work.
#[derive(Debug)]
pub(super) struct Batch<'c> {
    connection: &'c Connection,
    counts: &'c mut Counts,
    /// Entities' last sequences, as of this transaction.
    sequences: &'c mut HashMap<u64, u64>,
    counters: BTreeMap<CounterKey, i64>,
    /// Bytes of redacted texts that it still has room to erase.
    erase_room: usize,
}

impl<'c> Batch<'c> {
    /// Writes what became of deliveries.
    pub(super) fn deliver(
        &mut self,
        slice: &DeliverySlice,
        tidying: &mut Tidying,
        care: Care,
    ) -> rusqlite::Result<Delivered> {
        let written = super::deliveries::apply(self.connection, slice, tidying, care)?;
        let mut answers = Vec::with_capacity(slice.answers.len());
        for commit in &slice.answers {
            answers.push(FirstRow {
                position: self.counts.next_pos,
                number: 0,
            });
            self.insert_answer(commit)?;
        }
        Ok((written, answers))
    }

    pub(super) fn new(
        connection: &'c Connection,
        counts: &'c mut Counts,
        sequences: &'c mut HashMap<u64, u64>,
    ) -> Self {
        Batch {
            connection,
            counts,
            sequences,
            counters: BTreeMap::new(),
            erase_room: ERASE_BYTES,
        }
    }

    /// Judges and writes one commit.
    pub(super) fn apply(
        &mut self,
        commit: &Commit,
        digests: &PayloadDigests,
    ) -> rusqlite::Result<Verdict> {
        if self.last_sequence(commit.subject.number)? != commit.expected {
            return Ok(Verdict::RevisionConflict);
        }
        for condition in &commit.conditions {
            if let Some(broken) = self.broken(commit.tenant, *condition)? {
                return Ok(Verdict::ConstraintViolation(broken));
            }
        }
        if let Header::Record { names, .. } = &commit.header
            && let Some(field) = self.taken(commit, names)?
        {
            return Ok(Verdict::ConstraintViolation(ConstraintViolation::Taken(
                field,
            )));
        }
        let first = FirstRow {
            position: self.counts.next_pos,
            number: self.counts.number_after(commit.tenant.number()),
        };
        if commit.rows.is_empty() && commit.answer.is_some() {
            self.insert_answer(commit)?;
        }
        for (index, row) in commit.rows.iter().enumerate() {
            self.insert_row(commit, index, row, digests)?;
        }
        if let Some(original) = commit.redacts {
            redacting::begin(
                self.connection,
                commit.subject.number,
                original,
                &mut self.erase_room,
            )?;
        }
        self.write_header(commit)?;
        if let Some(chore) = commit.chore {
            self.insert_chore(chore)?;
        }
        for effect in &commit.effects {
            if let Effect::CustomerRenamed(customer, name) = effect {
                self.rename(*customer, name, commit.expected + 1)?;
            }
        }
        Ok(Verdict::Written(first))
    }

    /// Writes the counters that the commits of this transaction moved.
    pub(super) fn finish(self) -> rusqlite::Result<()> {
        let mut upsert = self.connection.prepare_cached(
            "INSERT INTO counters(scope, field, value, status, total) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET total = total + excluded.total",
        )?;
        for ((tenant, field, value, status), delta) in
            self.counters.iter().filter(|(_, delta)| **delta != 0)
        {
            upsert.execute(params![tenant, *field as i64, value, status, delta])?;
        }
        Ok(())
    }

    fn last_sequence(&mut self, entity: u64) -> rusqlite::Result<u64> {
        if let Some(known) = self.sequences.get(&entity) {
            return Ok(*known);
        }
        let last: Option<i64> = self
            .connection
            .prepare_cached("SELECT max(seq) FROM rows WHERE entity = ?1")?
            .query_row([int(entity)], |row| row.get(0))?;
        let last = uint(last.unwrap_or(0));
        self.sequences.insert(entity, last);
        Ok(last)
    }

    fn broken(
        &self,
        tenant: Tenant,
        condition: Condition,
    ) -> rusqlite::Result<Option<ConstraintViolation>> {
        Ok(match condition {
            Condition::CustomerExists(id) => {
                let found = self.record_exists(Kind::Customer, tenant, id.number(), id.tail())?;
                (!found).then_some(ConstraintViolation::NoCustomer)
            }
            Condition::UserExists(id) => {
                let found =
                    self.record_exists(Kind::User, tenant.account_wide(), id.number(), id.tail())?;
                (!found).then_some(ConstraintViolation::NoUser)
            }
            Condition::DocumentExists(id) => {
                let mut found = self.connection.prepare_cached(
                    "SELECT 1 FROM documents WHERE n = ?1 AND tail = ?2 AND scope = ?3",
                )?;
                let found =
                    found.exists(params![int(id.number()), int(id.tail()), tenant.number()])?;
                (!found).then_some(ConstraintViolation::NoDocument)
            }
            Condition::NoConversations(id) => {
                let has: Option<i64> = self
                    .connection
                    .prepare_cached("SELECT n FROM conversations WHERE customer = ?1 LIMIT 1")?
                    .query_row([int(id.number())], |row| row.get(0))
                    .optional()?;
                has.map(|_| ConstraintViolation::HasConversations)
            }
            Condition::NoDocuments(id) => {
                let mut owned = self
                    .connection
                    .prepare_cached("SELECT 1 FROM documents WHERE owner = ?1 LIMIT 1")?;
                owned
                    .exists([int(id.number())])?
                    .then_some(ConstraintViolation::HasDocuments)
            }
            Condition::FewerThan(kind, most) => {
                let behind = i64::try_from(most.saturating_sub(1)).unwrap_or(i64::MAX);
                let mut last = self.connection.prepare_cached(
                    "SELECT 1 FROM records WHERE scope = ?1 AND kind = ?2 LIMIT 1 OFFSET ?3",
                )?;
                last.exists(params![tenant.number(), kind as i64, behind])?
                    .then_some(ConstraintViolation::Full(most))
            }
        })
    }

    fn record_exists(
        &self,
        kind: Kind,
        tenant: Tenant,
        n: u64,
        tail: u64,
    ) -> rusqlite::Result<bool> {
        let mut query = self.connection.prepare_cached(
            "SELECT 1 FROM records WHERE n = ?1 AND tail = ?2 AND kind = ?3 AND scope = ?4",
        )?;
        query.exists(params![int(n), int(tail), kind as i64, tenant.number()])
    }

    fn taken(
        &self,
        commit: &Commit,
        names: &[(NameField, String)],
    ) -> rusqlite::Result<Option<NameField>> {
        let mut query = self.connection.prepare_cached(
            "SELECT 1 FROM names WHERE scope = ?1 AND field = ?2 AND value = ?3 AND n <> ?4",
        )?;
        for (field, value) in names.iter().filter(|(field, _)| field.unique()) {
            if query.exists(params![
                commit.tenant.number(),
                *field as i64,
                value,
                int(commit.subject.number)
            ])? {
                return Ok(Some(*field));
            }
        }
        Ok(None)
    }

    fn next_pos(&mut self) -> Position {
        let pos = self.counts.next_pos;
        self.counts.next_pos = pos.next();
        pos
    }

    /// A row's number in the feed of its account and mode; records are no public events.
    fn next_number(&mut self, commit: &Commit) -> Option<i64> {
        if !matches!(commit.subject.kind, Kind::Conversation | Kind::Document) {
            return None;
        }
        Some(self.counts.next_number(commit.tenant.number()))
    }

    fn insert_row(
        &mut self,
        commit: &Commit,
        index: usize,
        row: &NewRow,
        digests: &PayloadDigests,
    ) -> rusqlite::Result<()> {
        let pos = self.next_pos();
        let number = self.next_number(commit);
        let sequence = commit.expected + 1 + u64::try_from(index).unwrap_or(0);
        let entity = int(commit.subject.number);
        let edit: Option<i64> = match row.edits {
            Some(original) => self.repoint(entity, original, pos)?,
            None => None,
        };
        let kept = if index == 0 {
            commit.answer.as_ref()
        } else {
            None
        };
        let digest = digests.get(index);
        let address = commit.by.address.map(|address| address.to_string());
        let mut insert = self.connection.prepare_cached(INSERT_ROW)?;
        insert.execute(params![
            pos.0,
            entity,
            int(sequence),
            row.happened as i64,
            commit.tenant.number(),
            number,
            commit.at,
            int(row.tallies.customer),
            int(row.tallies.agent),
            int(row.tallies.system),
            row.tallies.last_message_at,
            row.seen.map(|seen| seen.channel.code()),
            row.seen.map(|seen| seen.priority.code()),
            row.seen
                .and_then(|seen| seen.assignee)
                .map(|user| int(user.number())),
            row.seen
                .and_then(|seen| seen.sender)
                .map(|sender| sender.code()),
            edit,
            commit.by.key.map(|key| int(key.number())),
            commit.by.user.map(|user| int(user.number())),
            address,
            &*commit.by.request_id,
            digest.map(|digest| digest.0),
            digest.map(|digest| digest.1).unwrap_or_default(),
            kept.map(|kept| kept.reservation.hash()),
            kept.map(|kept| kept.reservation.request().bytes()),
            kept.map(|kept| kept.done.code()),
            kept.and_then(|kept| kept.id.as_deref()),
            kept.and_then(|kept| kept.etag.as_deref()),
            kept.and_then(|kept| kept.body.as_deref()),
            &row.payload[..],
        ])?;
        if let Some(original) = row.edits {
            self.insert_edit(entity, original, pos)?;
        }
        self.sequences.insert(commit.subject.number, sequence);
        Ok(())
    }

    /// Notes the next edit of a message, which stands at this position.
    fn insert_edit(&self, entity: i64, original: u64, pos: Position) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO edits(entity, original, number, pos)
                 SELECT ?1, ?2, coalesce(max(number), 0) + 1, ?3 FROM edits
                 WHERE entity = ?1 AND original = ?2",
            )?
            .execute(params![entity, int(original), pos.0])?;
        Ok(())
    }

    /// A 2xx that changed nothing: a row without a sequence, so no fence and no event.
    fn insert_answer(&mut self, commit: &Commit) -> rusqlite::Result<()> {
        let pos = self.next_pos();
        let kept = commit.answer.as_ref();
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO rows(pos, entity, happened, scope, at, from_customer, from_agent, from_system, by_request, hash,
             key, request, done, answer_id, etag, answer) VALUES (?1, ?2, 0, ?3, ?4, 0, 0, 0, ?5, x'', ?6, ?7, ?8, ?9, ?10, ?11)",
        )?;
        insert.execute(params![
            pos.0,
            int(commit.subject.number),
            commit.tenant.number(),
            commit.at,
            &*commit.by.request_id,
            kept.map(|kept| kept.reservation.hash()),
            kept.map(|kept| kept.reservation.request().bytes()),
            kept.map(|kept| kept.done.code()),
            kept.and_then(|kept| kept.id.as_deref()),
            kept.and_then(|kept| kept.etag.as_deref()),
            kept.and_then(|kept| kept.body.as_deref()),
        ])?;
        Ok(())
    }

    /// Points the message to its new edit; gives what it pointed to before.
    fn repoint(&self, entity: i64, original: u64, to: Position) -> rusqlite::Result<Option<i64>> {
        let before: Option<i64> = self
            .connection
            .prepare_cached("SELECT edit FROM rows WHERE entity = ?1 AND seq = ?2")?
            .query_row(params![entity, int(original)], |row| row.get(0))?;
        self.connection
            .prepare_cached("UPDATE rows SET edit = ?3 WHERE entity = ?1 AND seq = ?2")?
            .execute(params![entity, int(original), to.0])?;
        Ok(before)
    }

    fn write_header(&mut self, commit: &Commit) -> rusqlite::Result<()> {
        match &commit.header {
            Header::Unchanged => Ok(()),
            Header::Conversation {
                before: None,
                after,
            } => self.insert_conversation(commit, after),
            Header::Conversation {
                before: Some(before),
                after,
            } => self.update_conversation(commit, before, after),
            Header::Record {
                new,
                name,
                body,
                names,
            } => self.put_record(commit, *new, (name, body), names),
            Header::RecordGone => self.delete_record(commit),
            Header::Document(header) => {
                let moves = super::documents::put(self.connection, commit, header)?;
                self.count(commit.tenant, moves);
                Ok(())
            }
            Header::LinkUsed { share, uses } => {
                super::documents::count_use(self.connection, commit.subject, (*share, *uses))
            }
            Header::DocumentGone => {
                let moves = super::documents::delete(self.connection, commit)?;
                self.count(commit.tenant, moves);
                Ok(())
            }
        }
    }

    fn insert_conversation(
        &mut self,
        commit: &Commit,
        after: &ConversationState,
    ) -> rusqlite::Result<()> {
        let lag = lag_of(commit).unwrap_or_else(|| empty_lag(commit));
        let (name, revision): (String, i64) = self
            .connection
            .prepare_cached("SELECT name, seq FROM records WHERE n = ?1")?
            .query_row([int(after.customer.number())], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?;
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO conversations(
             n, tail, scope, customer, customer_tail, customer_name, customer_revision,
             status, channel, priority, assignee, assignee_tail, metadata, closed_at, seq,
             messages, last_message_at, updated_at, snoozed_until, roused_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
             ?19, ?20)",
        )?;
        insert.execute(params![
            int(commit.subject.number),
            int(commit.subject.tail),
            commit.tenant.number(),
            int(after.customer.number()),
            int(after.customer.tail()),
            name,
            revision,
            after.status.code(),
            after.channel.code(),
            after.priority.code(),
            after.assignee.map(|user| int(user.number())),
            after.assignee.map(|user| int(user.tail())),
            &*after.metadata,
            after.closed_at,
            int(lag.seq),
            int(lag.messages),
            lag.last_message_at,
            lag.updated_at,
            after.snoozed_until,
            after.activated_at,
        ])?;
        self.count_conversation(commit.tenant, after, 1);
        Ok(())
    }

    fn update_conversation(
        &mut self,
        commit: &Commit,
        before: &ConversationState,
        after: &ConversationState,
    ) -> rusqlite::Result<()> {
        let lag = lag_of(commit).unwrap_or_else(|| empty_lag(commit));
        let mut update = self.connection.prepare_cached(
            "UPDATE conversations SET status = ?2, channel = ?3, priority = ?4, assignee = ?5, assignee_tail = ?6,
             metadata = ?7, closed_at = ?8, seq = ?9, messages = ?10, last_message_at = ?11, updated_at = ?12,
             snoozed_until = ?13, roused_at = ?14 WHERE n = ?1",
        )?;
        update.execute(params![
            int(commit.subject.number),
            after.status.code(),
            after.channel.code(),
            after.priority.code(),
            after.assignee.map(|user| int(user.number())),
            after.assignee.map(|user| int(user.tail())),
            &*after.metadata,
            after.closed_at,
            int(lag.seq),
            int(lag.messages),
            lag.last_message_at,
            lag.updated_at,
            after.snoozed_until,
            after.activated_at,
        ])?;
        self.count_conversation(commit.tenant, before, -1);
        self.count_conversation(commit.tenant, after, 1);
        Ok(())
    }

    fn count_conversation(&mut self, tenant: Tenant, state: &ConversationState, delta: i64) {
        let status = state.status.code();
        let mut count = |field, value| {
            *self
                .counters
                .entry((tenant.number(), field, value, status))
                .or_insert(0) += delta
        };
        count(Counted::All, 0);
        count(Counted::Channel, state.channel.code());
        count(Counted::Priority, state.priority.code());
        count(Counted::Customer, int(state.customer.number()));
        if let Some(user) = state.assignee {
            count(Counted::Assignee, int(user.number()));
        }
    }

    fn count(&mut self, tenant: Tenant, moves: impl IntoIterator<Item = (Counted, i64, i64)>) {
        for (field, value, delta) in moves {
            *self
                .counters
                .entry((tenant.number(), field, value, 0))
                .or_insert(0) += delta;
        }
    }

    fn put_record(
        &mut self,
        commit: &Commit,
        new: bool,
        (name, body): (&str, &str),
        names: &[(NameField, String)],
    ) -> rusqlite::Result<()> {
        let Subject { kind, number, tail } = commit.subject;
        let (n, tenant) = (int(number), commit.tenant.number());
        let sequence = int(commit.expected + u64::try_from(commit.rows.len()).unwrap_or(0));
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO records(n, tail, kind, scope, seq, name, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute(params![
                n,
                int(tail),
                kind as i64,
                tenant,
                sequence,
                name,
                body
            ])?;
        if new {
            *self
                .counters
                .entry((tenant, Counted::Records, kind as i64, 0))
                .or_insert(0) += 1;
        } else {
            self.connection
                .prepare_cached("DELETE FROM names WHERE n = ?1")?
                .execute([n])?;
        }
        let mut insert = self
            .connection
            .prepare_cached("INSERT INTO names(scope, field, value, n) VALUES (?1, ?2, ?3, ?4)")?;
        for (field, value) in names {
            insert.execute(params![tenant, *field as i64, value, n])?;
        }
        Ok(())
    }

    fn delete_record(&mut self, commit: &Commit) -> rusqlite::Result<()> {
        let n = int(commit.subject.number);
        self.connection
            .prepare_cached("DELETE FROM names WHERE n = ?1")?
            .execute([n])?;
        if commit.subject.kind == Kind::User {
            let mut keep = self
                .connection
                .prepare_cached("INSERT INTO departed(n, tail) VALUES (?1, ?2)")?;
            keep.execute([n, int(commit.subject.tail)])?;
        }
        self.connection
            .prepare_cached("DELETE FROM records WHERE n = ?1")?
            .execute([n])?;
        let key = (
            commit.tenant.number(),
            Counted::Records,
            commit.subject.kind as i64,
            0,
        );
        *self.counters.entry(key).or_insert(0) -= 1;
        Ok(())
    }

    fn insert_chore(&self, chore: Chore) -> rusqlite::Result<()> {
        let Chore::Unassign(tenant, user) = chore;
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO chores(scope, kind, n, tail) VALUES (?1, 1, ?2, ?3)",
            )?
            .execute(params![
                tenant.number(),
                int(user.number()),
                int(user.tail())
            ])?;
        Ok(())
    }

    /// A customer's new name is copied into its conversations' headers later, in slices.
    fn rename(&self, customer: CustomerId, name: &str, revision: u64) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO renames(customer, name, revision) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![int(customer.number()), name, int(revision)])?;
        Ok(())
    }
}

/// A header's numbers as of the last row of a conversation's commit.
pub(super) fn lag_of(commit: &Commit) -> Option<DirtyHeader> {
    let last = commit.rows.last()?;
    let MessageCounts {
        last_message_at, ..
    } = last.tallies;
    Some(DirtyHeader {
        tenant: commit.tenant.number(),
        seq: commit.expected + u64::try_from(commit.rows.len()).unwrap_or(0),
        messages: last.tallies.total(),
        last_message_at,
        updated_at: commit.at,
    })
}

fn empty_lag(commit: &Commit) -> DirtyHeader {
    DirtyHeader {
        tenant: commit.tenant.number(),
        seq: commit.expected,
        messages: 0,
        last_message_at: None,
        updated_at: commit.at,
    }
}
