//! What never changes of a commit's rows, as the chain takes it: the same that `chain.rs` reads back.

use super::codec::{NO_EVENT, int, optional_millis};
use crate::store::audit_chain::{NUMBERS, Sealed};
use colloquy_model::commit::{Commit, NewRow};
use colloquy_model::conversation::SenderType;
use colloquy_model::entity::Subject;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;

/// A commit with what its rows have beside it.
pub(super) struct SealedCommit<'c> {
    pub(super) commit: &'c Commit,
    /// What it changes, where its rows say so.
    pub(super) named: Option<Subject>,
    pub(super) number: Option<i64>,
    pub(super) address: Option<&'c str>,
}

impl<'c> SealedCommit<'c> {
    /// What never changes of a row, as the columns of the table have it.
    pub(super) fn row(
        &self,
        pos: Position,
        sequence: Sequence,
        row: &'c NewRow,
        hash: Option<&'c [u8; 32]>,
    ) -> Sealed<'c> {
        let (commit, seen) = (self.commit, row.seen.as_ref());
        let assignee = seen.and_then(|seen| seen.assignee);
        Sealed {
            numbers: [
                Some(pos.0),
                self.named.map(|subject| subject.kind as i64),
                Some(int(commit.subject.number.0)),
                self.named.map(|subject| int(subject.tail)),
                Some(int(sequence.0)),
                Some(row.kind as i64),
                Some(commit.tenant.number()),
                self.number,
                Some(commit.at.0),
                Some(int(row.counts.customer)),
                Some(int(row.counts.agent)),
                Some(int(row.counts.system)),
                optional_millis(row.counts.last_message_at),
                seen.map(|seen| seen.channel.code()),
                seen.map(|seen| seen.priority.code()),
                assignee.map(|user| int(user.number().0)),
                seen.and_then(|seen| seen.sender).map(SenderType::code),
                commit.actor.credential.code(),
                commit.actor.user.map(|user| int(user.number().0)),
            ],
            address: self.address,
            request: &commit.actor.request_id,
            hash: hash.map_or(&[], |hash| hash.as_slice()),
        }
    }
}

/// The same of an answer that changed nothing.
pub(super) fn sealed_answer(commit: &Commit, pos: Position) -> Sealed<'_> {
    let mut numbers = [None; NUMBERS.len()];
    let known = [
        (0, pos.0),
        (2, int(commit.subject.number.0)),
        (5, NO_EVENT),
        (6, commit.tenant.number()),
        (8, commit.at.0),
        (9, 0),
        (10, 0),
        (11, 0),
    ];
    for (place, value) in known {
        if let Some(number) = numbers.get_mut(place) {
            *number = Some(value);
        }
    }
    Sealed {
        numbers,
        address: None,
        request: &commit.actor.request_id,
        hash: &[],
    }
}
