//! What the writer is asked, and where its answers go.

use std::collections::HashMap;
use std::sync::mpsc::SyncSender;

use tokio::sync::oneshot;

use super::log::LogDocument;
use crate::store::digest::PayloadDigests;
use crate::store::{Committed, Settle, Stored};
use colloquy_model::commit::{Chore, Commit, Header};
use colloquy_model::entity::Subject;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;
use colloquy_runtime::{Incarnation, LoadError};

/// Where what was read again goes.
pub(super) type Reloading = oneshot::Sender<Result<Option<Stored>, LoadError>>;

/// What the writer is asked to do, and whom it answers.
pub(super) enum Work {
    Commit {
        incarnation: Incarnation,
        commit: Box<Commit>,
        digests: PayloadDigests,
        settle: Settle,
    },
    Barrier {
        subject: Subject,
        incarnation: Incarnation,
        settle: Settle,
    },
    Reload {
        subject: Subject,
        reply: Reloading,
    },
    ChoreDone {
        chore: Chore,
    },
    /// A commit without rows that only keeps an answer, whatever its entity has become.
    Answer {
        commit: Box<Commit>,
        settle: Settle,
    },
    Close {
        done: SyncSender<()>,
    },
}

/// Plain commits of one entity that go as one document, at most so many …
pub(super) const TOGETHER_MAX: usize = 256;
/// … and about so many bytes; a document may have 16 MiB.
const TOGETHER_BYTES: usize = 4 << 20;
/// Documents of one insert, at most so many …
const ROUND_MAX: usize = 1_024;
/// … and about so many bytes; a message of the protocol may have 48 MB.
const ROUND_BYTES: usize = 24 << 20;

/// A commit that waits for its outcome.
pub(super) struct PendingCommit {
    pub(super) incarnation: Incarnation,
    pub(super) commit: Box<Commit>,
    pub(super) settle: Settle,
}

/// A document on its way into the log, and the commits that it holds.
pub(super) struct Insert {
    pub(super) document: LogDocument,
    pub(super) commits: Vec<PendingCommit>,
    bytes: usize,
}

/// Documents of different entities that are inserted together.
#[derive(Default)]
pub(super) struct Round {
    pub(super) inserts: Vec<Insert>,
    by_entity: HashMap<EntityNumber, usize>,
    bytes: usize,
    is_exclusive: bool,
}

impl Round {
    /// Takes a commit in, or gives it back: the round goes first.
    pub(super) fn take(
        &mut self,
        pending: PendingCommit,
        digests: &PayloadDigests,
    ) -> Result<(), PendingCommit> {
        let commit = &*pending.commit;
        let bytes = commit.bytes();
        let is_full = self.inserts.len() >= ROUND_MAX || self.bytes + bytes > ROUND_BYTES;
        let is_alone = is_exclusive(commit);
        if !self.inserts.is_empty() && (is_full || is_alone || self.is_exclusive) {
            return Err(pending);
        }
        let entity = commit.subject.number;
        let open = self.by_entity.get(&entity).copied();
        if let Some(insert) = open.and_then(|index| self.inserts.get_mut(index)) {
            if !insert.takes(commit, bytes) {
                return Err(pending);
            }
            insert.document.append(commit, digests);
            insert.bytes += bytes;
            insert.commits.push(pending);
        } else {
            self.by_entity.insert(entity, self.inserts.len());
            self.inserts.push(Insert {
                document: LogDocument::of(commit, digests),
                commits: vec![pending],
                bytes,
            });
        }
        self.bytes += bytes;
        self.is_exclusive = is_alone;
        Ok(())
    }

    /// Whether something of this entity is on its way.
    pub(super) fn has(&self, entity: EntityNumber) -> bool {
        self.by_entity.contains_key(&entity)
    }
}

impl Insert {
    /// That of a commit which only keeps an answer.
    pub(super) fn of_answer(commit: Box<Commit>, settle: Settle) -> Self {
        Insert {
            document: LogDocument::of(&commit, &Vec::new()),
            bytes: commit.bytes(),
            commits: vec![PendingCommit {
                // No actor's: none is ever 0.
                incarnation: Incarnation(0),
                commit,
                settle,
            }],
        }
    }

    /// Whether a commit may go in the same document, directly behind what it holds.
    fn takes(&self, commit: &Commit, bytes: usize) -> bool {
        let last = self.commits.last().map(|last| &*last.commit);
        last.is_some_and(|last| {
            is_plain(last) && is_plain(commit) && last.last_sequence() == commit.expected
        }) && self.commits.len() < TOGETHER_MAX
            && self.bytes + bytes <= TOGETHER_BYTES
    }
}

/// Whether its rows say it all.
fn is_plain(commit: &Commit) -> bool {
    let Commit {
        header,
        rows,
        redacts,
        takes,
        conditions,
        answer,
        effects,
        chore,
        ..
    } = commit;
    matches!(header, Header::Unchanged)
        && !rows.is_empty()
        && redacts.is_none()
        && takes.is_none()
        && conditions.is_empty()
        && answer.is_none()
        && effects.is_empty()
        && chore.is_none()
}

/// Whether another commit's condition may depend on it, or its own on another commit that is not
/// carried over yet: records come, go and change names, documents go, and attachments are taken.
fn is_exclusive(commit: &Commit) -> bool {
    if commit.takes.is_some() {
        return true;
    }
    match &commit.header {
        Header::Record { .. }
        | Header::RecordGone
        | Header::RecordErased
        | Header::DocumentGone { .. } => true,
        Header::Unchanged
        | Header::Conversation { .. }
        | Header::ConversationGone { .. }
        | Header::Document(_)
        | Header::LinkUsed { .. } => false,
    }
}

/// What this node's writer has settled: every position of it is decided.
pub(super) struct Landed {
    pub(super) first: Position,
    pub(super) last: Position,
    pub(super) commits: Vec<Committed>,
    /// Whether a message is redacted by it.
    pub(super) redacts: bool,
    /// Told when the batch is taken in.
    pub(super) replies: Vec<Settle>,
    /// Told when every node has taken it in.
    pub(super) replies_everywhere: Vec<Settle>,
}
