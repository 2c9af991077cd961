//! One transaction: many commits, each of which takes effect whole or not at all. All that can
//! refuse a commit is checked before its first write, so that a loser leaves nothing behind and the
//! batch goes on.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use rusqlite::{Connection, params};

use super::chain::ChainEnd;
use super::codec::{NO_EVENT, insert, int, only, optional_millis, uint};
use super::counters::CounterMoves;
use super::deliveries::Care;
use super::delivery_tidying::Tidying;
use super::sealed_rows::{SealedCommit, sealed_answer};
use super::{chores, conditions, headers, redacting};
use crate::store::digest::PayloadDigests;
use crate::store::{DeliverySlice, FirstRow, Written};
use colloquy_model::commit::{Commit, ConstraintViolation, NewRow};
use colloquy_model::conversation::SenderType;
use colloquy_model::entity::Kind;
use colloquy_model::entity_number::EntityNumber;
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
    /// The end of the audit trail's chain, and as it was when the running transaction began.
    chain: ChainEnd,
    begun_chain: ChainEnd,
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

    /// The same, with the chain going on from this end.
    pub(super) fn linking(self, chain: ChainEnd) -> Self {
        Counts {
            chain,
            begun_chain: chain,
            ..self
        }
    }

    /// Notes that a transaction begins, to go back to.
    pub(super) fn begin(&mut self) {
        self.begun_chain = self.chain;
        self.begun_at = self.next_pos;
        self.replaced.clear();
    }

    /// The position at which the running transaction began.
    pub(super) fn begun_at(&self) -> Position {
        self.begun_at
    }

    /// The transaction was rolled back: the counts are those of its begin.
    pub(super) fn rewind(&mut self) {
        self.chain = self.begun_chain;
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
        for (index, row) in commit.rows.iter().zip(commit.stored_payloads()).enumerate() {
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
        if let Some(name) = commit.new_name() {
            self.rename(commit.subject.number, name, commit.expected.next())?;
        }
        Ok(Verdict::Written(first))
    }

    /// Writes the counters that the commits of this transaction moved, and the end of the chain.
    pub(super) fn finish(mut self) -> rusqlite::Result<()> {
        if self.counts.chain.position() != self.counts.begun_chain.position() {
            self.counts.chain.write(self.connection)?;
        }
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
        if !commit.subject.kind.is_public() {
            return None;
        }
        Some(self.counts.next_number(commit.tenant.number()))
    }

    fn insert_row(
        &mut self,
        commit: &Commit,
        index: usize,
        (row, payload): (&NewRow, &Bytes),
        digests: &PayloadDigests,
    ) -> rusqlite::Result<()> {
        let pos = self.next_pos();
        let number = self.next_number(commit);
        let sequence = commit.expected.plus(index + 1);
        let entity = int(commit.subject.number.0);
        let edit = self.note_edit(entity, row, pos)?;
        let kept = commit.answer.as_ref().filter(|_| index == 0);
        let digest = digests.get(index);
        let address = commit.actor.address.map(|address| address.to_string());
        let seen = row.seen.as_ref();
        // A conversation is never deleted before its rows are: its own row says the rest.
        let named = Some(commit.subject).filter(|subject| subject.kind != Kind::Conversation);
        let hash = digest.map(|digest| digest.hash);
        let sealed = SealedCommit {
            commit,
            named,
            number,
            address: address.as_deref(),
        };
        let link = self
            .counts
            .chain
            .add(pos.0, &sealed.row(pos, sequence, row, hash.as_ref()));
        insert!(self.connection, "INSERT INTO rows", {
            pos: pos.0,
            entity: entity,
            seq: int(sequence.0),
            kind: named.map(|subject| subject.kind as i64),
            tail: named.map(|subject| int(subject.tail)),
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
            text_bytes: Some(row.text_bytes).filter(|bytes| *bytes != 0),
            by_key: commit.actor.credential.code(),
            by_user: commit.actor.user.map(|user| int(user.number().0)),
            by_address: address,
            by_request: &*commit.actor.request_id,
            salt: digest.map(|digest| digest.salt),
            hash: hash.unwrap_or_default(),
            link: link,
            key: kept.map(|kept| kept.reservation.hash()),
            request: kept.map(|kept| kept.reservation.request().bytes()),
            done: kept.map(|kept| kept.done.code()),
            answer_id: kept.and_then(|kept| kept.id.as_deref()),
            etag: kept.and_then(|kept| kept.etag.as_deref()),
            answer: kept.and_then(|kept| kept.body.as_deref()),
            payload: &payload[..],
        })?;
        self.sequences.insert(commit.subject.number, sequence);
        Ok(())
    }

    /// Points the message that a row edits to that row, which stands at this position; gives what it
    /// pointed to before.
    fn note_edit(&self, entity: i64, row: &NewRow, pos: Position) -> rusqlite::Result<Option<i64>> {
        let Some(original) = row.edits else {
            return Ok(None);
        };
        let before = self.repoint(entity, original, pos)?;
        self.insert_edit(entity, original, pos)?;
        Ok(before)
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
        let link = self.counts.chain.add(pos.0, &sealed_answer(commit, pos));
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
            link: link,
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
    fn rename(
        &self,
        customer: EntityNumber,
        name: &str,
        revision: Sequence,
    ) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO renames(customer, name, revision) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![int(customer.0), name, int(revision.0)])?;
        Ok(())
    }
}
