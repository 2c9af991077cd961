//! One transaction: many commits, each of which takes effect whole or not at all. All that can
//! refuse a commit is checked before its first write, so that a loser leaves nothing behind and the
//! batch goes on.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, params};

use super::codec::{NO_EVENT, insert, int, only, optional_millis, uint};
use super::counters::CounterMoves;
use super::deliveries::Care;
use super::delivery_tidying::Tidying;
use super::{chores, conditions, headers, redacting};
use crate::store::digest::PayloadDigests;
use crate::store::{DeliverySlice, FirstRow, Written};
use colloquy_model::commit::{Commit, ConstraintViolation, Effect, NewRow};
use colloquy_model::conversation::SenderType;
use colloquy_model::entity::Kind;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::id::CustomerId;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::stream::FeedNumber;

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
    /// Tenants whose number has moved since it was last written down.
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

    /// Notes that a transaction begins, to go back to.
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
    fn number_after(&self, tenant: i64) -> FeedNumber {
        FeedNumber(uint(self.numbers.get(&tenant).copied().unwrap_or(0)) + 1)
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

/// What a slice left behind, and where each of its answers stands.
pub(super) type Delivered = (Written, Vec<FirstRow>);

/// The work of one transaction: commits and slices of deliveries.
#[derive(Debug)]
pub(super) struct Batch<'c> {
    connection: &'c Connection,
    counts: &'c mut Counts,
    /// Entities' last sequences, as of this transaction.
    sequences: &'c mut HashMap<EntityNumber, Sequence>,
    counters: CounterMoves,
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
                number: FeedNumber::ZERO,
            });
            self.insert_answer(commit)?;
        }
        Ok((written, answers))
    }

    pub(super) fn new(
        connection: &'c Connection,
        counts: &'c mut Counts,
        sequences: &'c mut HashMap<EntityNumber, Sequence>,
    ) -> Self {
        Batch {
            connection,
            counts,
            sequences,
            counters: CounterMoves::default(),
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
        if let Some(violation) = conditions::violated(self.connection, commit)? {
            return Ok(Verdict::ConstraintViolation(violation));
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
        headers::write(self.connection, commit, &mut self.counters)?;
        if let Some(chore) = commit.chore {
            chores::note(self.connection, chore)?;
        }
        for effect in &commit.effects {
            if let Effect::CustomerRenamed(customer, name) = effect {
                self.rename(*customer, name, commit.expected.next())?;
            }
        }
        Ok(Verdict::Written(first))
    }

    /// Writes the counters that the commits of this transaction moved.
    pub(super) fn finish(mut self) -> rusqlite::Result<()> {
        self.counters.write(self.connection)
    }

    fn last_sequence(&mut self, entity: EntityNumber) -> rusqlite::Result<Sequence> {
        if let Some(known) = self.sequences.get(&entity) {
            return Ok(*known);
        }
        let last: Option<Sequence> = self
            .connection
            .prepare_cached("SELECT max(seq) FROM rows WHERE entity = ?1")?
            .query_row([int(entity.0)], only)?;
        let last = last.unwrap_or_default();
        self.sequences.insert(entity, last);
        Ok(last)
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
        let sequence = commit.expected.plus(index + 1);
        let entity = int(commit.subject.number.0);
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
        let address = commit.actor.address.map(|address| address.to_string());
        let seen = row.seen.as_ref();
        insert!(self.connection, "INSERT INTO rows", {
            pos: pos.0,
            entity: entity,
            seq: int(sequence.0),
            happened: row.kind as i64,
            scope: commit.tenant.number(),
            number: number,
            at: commit.at.0,
            from_customer: int(row.counts.customer),
            from_agent: int(row.counts.agent),
            from_system: int(row.counts.system),
            last_message_at: optional_millis(row.counts.last_message_at),
            channel: seen.map(|seen| seen.channel.code()),
            priority: seen.map(|seen| seen.priority.code()),
            assignee: seen.and_then(|seen| seen.assignee).map(|user| int(user.number().0)),
            sender: seen.and_then(|seen| seen.sender).map(SenderType::code),
            edit: edit,
            by_key: commit.actor.key.map(|key| int(key.number().0)),
            by_user: commit.actor.user.map(|user| int(user.number().0)),
            by_address: address,
            by_request: &*commit.actor.request_id,
            salt: digest.map(|digest| digest.salt),
            hash: digest.map(|digest| digest.hash).unwrap_or_default(),
            key: kept.map(|kept| kept.reservation.hash()),
            request: kept.map(|kept| kept.reservation.request().bytes()),
            done: kept.map(|kept| kept.done.code()),
            answer_id: kept.and_then(|kept| kept.id.as_deref()),
            etag: kept.and_then(|kept| kept.etag.as_deref()),
            answer: kept.and_then(|kept| kept.body.as_deref()),
            payload: &row.payload[..],
        })?;
        if let Some(original) = row.edits {
            self.insert_edit(entity, original, pos)?;
        }
        self.sequences.insert(commit.subject.number, sequence);
        Ok(())
    }

    /// Notes the next edit of a message, which stands at this position.
    fn insert_edit(&self, entity: i64, original: Sequence, pos: Position) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT INTO edits(entity, original, number, pos)
                 SELECT ?1, ?2, coalesce(max(number), 0) + 1, ?3 FROM edits
                 WHERE entity = ?1 AND original = ?2",
            )?
            .execute(params![entity, int(original.0), pos.0])?;
        Ok(())
    }

    /// A 2xx that changed nothing: a row without a sequence, so no fence and no event.
    fn insert_answer(&mut self, commit: &Commit) -> rusqlite::Result<()> {
        let pos = self.next_pos();
        let kept = commit.answer.as_ref();
        insert!(self.connection, "INSERT INTO rows", {
            pos: pos.0,
            entity: int(commit.subject.number.0),
            happened: NO_EVENT,
            scope: commit.tenant.number(),
            at: commit.at.0,
            from_customer: 0,
            from_agent: 0,
            from_system: 0,
            by_request: &*commit.actor.request_id,
            hash: Vec::new(),
            key: kept.map(|kept| kept.reservation.hash()),
            request: kept.map(|kept| kept.reservation.request().bytes()),
            done: kept.map(|kept| kept.done.code()),
            answer_id: kept.and_then(|kept| kept.id.as_deref()),
            etag: kept.and_then(|kept| kept.etag.as_deref()),
            answer: kept.and_then(|kept| kept.body.as_deref()),
        })?;
        Ok(())
    }

    /// Points the message to its new edit; gives what it pointed to before.
    fn repoint(
        &self,
        entity: i64,
        original: Sequence,
        to: Position,
    ) -> rusqlite::Result<Option<i64>> {
        let before: Option<i64> = self
            .connection
            .prepare_cached("SELECT edit FROM rows WHERE entity = ?1 AND seq = ?2")?
            .query_row(params![entity, int(original.0)], only)?;
        self.connection
            .prepare_cached("UPDATE rows SET edit = ?3 WHERE entity = ?1 AND seq = ?2")?
            .execute(params![entity, int(original.0), to.0])?;
        Ok(before)
    }

    /// A customer's new name is copied into its conversations' headers later, in slices.
    fn rename(&self, customer: CustomerId, name: &str, revision: Sequence) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO renames(customer, name, revision) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![int(customer.number().0), name, int(revision.0)])?;
        Ok(())
    }
}
