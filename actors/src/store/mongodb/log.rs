//! The log: one document for each insert, which holds one commit of an entity, or several plain
//! ones that gathered behind it. Its `_id` is the entity and the sequence of its first row, so that
//! the collection's own index is the fence: a second commit behind the same sequence is refused.

use bytes::Bytes;
use mongodb::bson::{Binary, Bson, Document, doc};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::codec::{binary, code, int, uint};
use super::header::HeaderDocument;
use crate::store::CommitSink;
use crate::store::digest::{PayloadDigest, PayloadDigests};
use colloquy_model::caller::{Actor, Tenant};
use colloquy_model::commit::{Chore, ChoreKind, Commit, KeptAnswer, NewRow};
use colloquy_model::conversation::{MessageCounts, SenderType};
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::position::Position;
use colloquy_model::sequence::Sequence;
use colloquy_model::time::Timestamp;

/// The kind of a row that is no event: an answer that was kept of a command that changed nothing.
pub(super) const NO_EVENT: i32 = 0;

/// One insert into the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LogDocument {
    /// [`log_id`] of its first row, or what makes an answer, a link's use or a void one of its own.
    #[serde(rename = "_id")]
    pub(super) id: String,
    /// The position of its first row; the others follow.
    pub(super) position: i64,
    pub(super) kind: i32,
    pub(super) entity: i64,
    pub(super) tail: i64,
    pub(super) tenant: i64,
    /// The node whose writer wrote it: the random bits of its identifier; 0: none did.
    pub(super) node: i64,
    /// The slot of that node, whose counters it moves.
    pub(super) slot: i32,
    /// The sequence of its first row; 0 where it has none.
    pub(super) first: i64,
    /// The hash of the idempotency key, where it keeps an answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) key: Option<Binary>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) answer: Option<AnswerDocument>,
    pub(super) rows: Vec<RowDocument>,
    /// What becomes of the entity's header; none where the rows say it all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) header: Option<HeaderDocument>,
    /// The sequence of the message whose texts are to be erased.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) redacts: Option<i64>,
    /// The attachment that it takes for a message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) takes: Option<String>,
    /// A customer's new name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) renamed: Option<String>,
    /// Work that is left to be done behind it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) chore: Option<ChoreDocument>,
}

/// What is to be done with a user, who is no more, or whatever else a chore is about.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct ChoreDocument {
    pub(super) tenant: i64,
    /// The code of its kind; of before there was a second one, none.
    #[serde(default = "unassign")]
    pub(super) kind: i64,
    pub(super) user: i64,
    pub(super) tail: i64,
}

fn unassign() -> i64 {
    ChoreKind::Unassign as i64
}

/// Where a document of the log stands, without what its rows hold.
#[derive(Debug, Deserialize)]
pub(super) struct Extent {
    /// The position of its first row.
    pub(super) position: i64,
    /// The sequence of its first row.
    pub(super) first: i64,
    rows: Vec<IgnoredAny>,
}

impl Extent {
    /// The fields that tell it.
    pub(super) fn fields() -> Document {
        doc! {"position": 1, "first": 1, "rows.kind": 1}
    }

    /// The sequence of its last row.
    pub(super) fn last_sequence(&self) -> Sequence {
        Sequence(uint::<u64>(self.first).saturating_sub(1)).plus(self.rows.len())
    }

    /// The position of its last row.
    pub(super) fn last_position(&self) -> Position {
        let rows = i64::try_from(self.rows.len()).unwrap_or(i64::MAX);
        Position(self.position.saturating_add(rows.max(1) - 1))
    }
}

/// One event of an entity.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RowDocument {
    pub(super) kind: i32,
    pub(super) at: i64,
    pub(super) from_customer: i64,
    pub(super) from_agent: i64,
    pub(super) from_system: i64,
    pub(super) last_message_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) channel: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) priority: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) assignee: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) sender: Option<i32>,
    /// The sequence of the message that this row edits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) edits: Option<i64>,
    /// How many bytes this row adds to the texts of the account; none where it changes nothing of
    /// them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) text_bytes: Option<i64>,
    pub(super) by: ActorDocument,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) salt: Option<Binary>,
    pub(super) hash: Binary,
    /// The event's data, in JSON.
    pub(super) payload: String,
}

/// Who did it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ActorDocument {
    /// The code of the credential.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) key: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) user: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) address: Option<String>,
    pub(super) request: String,
}

/// The answer that is kept under an idempotency key.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AnswerDocument {
    pub(super) at: i64,
    pub(super) request: Binary,
    pub(super) done: i64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) etag: Option<String>,
    /// None where it is the payload of the first row.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) body: Option<Binary>,
}

/// The `_id` of the log document that begins with this sequence of this entity. As texts, those of
/// an entity are in the order of their sequences.
pub(super) fn log_id(entity: EntityNumber, first: Sequence) -> String {
    format!("{:016x}.{:016x}", entity.0, first.0)
}

/// The number at the end of the `_id` of a document of the log: the sequence of its first row, or the
/// position of an answer.
pub(super) fn number_of_id(id: &str) -> u64 {
    let end = id.rsplit_once('.').map_or(id, |(_, end)| end);
    u64::from_str_radix(end, 16).unwrap_or(0)
}

/// The rows of a document of the log, whatever they are.
pub(super) fn rows_of(document: &Document) -> &[Bson] {
    document.get_array("rows").map_or(&[], Vec::as_slice)
}

/// The sequence of the last row of a document of the log, as far as its rows can be counted.
pub(super) fn last_sequence(document: &Document) -> Sequence {
    let by_id = document.get_str("_id").map_or(0, number_of_id);
    let first = document.get_i64("first").map_or(by_id, uint);
    Sequence(first.saturating_sub(1)).plus(rows_of(document).len().max(1))
}

/// The `_id` of the log document at this position that keeps an answer of this entity and has no
/// rows. As texts, those of an entity are in the order of their positions.
pub(super) fn answer_id(entity: EntityNumber, position: Position) -> String {
    format!("answer.{:016x}.{:016x}", entity.0, position.0)
}

/// The `_id` of the log document that counts this use of a share link: two nodes can't both count
/// the same one.
fn link_use_id(entity: EntityNumber, share: i64, uses: i64) -> String {
    format!("link.{:016x}.{share:016x}.{uses:016x}", entity.0)
}

impl LogDocument {
    /// Whether it is carried over only behind its answer.
    pub(super) fn is_plain(&self) -> bool {
        self.header.is_none() && self.redacts.is_none() && self.takes.is_none()
    }

    /// A commit as it stands in the log from this position on.
    pub(super) fn of(commit: &Commit, digests: &PayloadDigests) -> Self {
        let Subject { kind, number, tail } = commit.subject;
        let rows = RowDocument::all_of(commit, digests).collect();
        let first = if commit.rows.is_empty() {
            Sequence::ZERO
        } else {
            commit.expected.next()
        };
        LogDocument {
            id: log_id(number, commit.expected.next()),
            position: 0,
            kind: kind as i32,
            entity: int(number),
            tail: int(tail),
            tenant: commit.tenant.number(),
            node: 0,
            slot: 0,
            first: int(first.0),
            key: commit
                .answer
                .as_ref()
                .map(|kept| binary(&kept.reservation.hash())),
            answer: commit
                .answer
                .as_ref()
                .map(|kept| AnswerDocument::of(kept, commit.at.0)),
            rows,
            header: HeaderDocument::of(commit),
            redacts: commit.redacts.map(|original| int(original.0)),
            takes: commit.takes.map(|attachment| attachment.to_string()),
            renamed: commit.new_name().map(str::to_owned),
            chore: commit.chore.map(ChoreDocument::of),
        }
    }

    /// Takes the rows of a plain commit that follows directly behind its last row.
    pub(super) fn append(&mut self, commit: &Commit, digests: &PayloadDigests) {
        self.rows.extend(RowDocument::all_of(commit, digests));
    }

    /// How many positions it takes: each row's, or one for an answer without rows.
    pub(super) fn positions(&self) -> i64 {
        i64::try_from(self.rows.len()).unwrap_or(i64::MAX).max(1)
    }

    /// Puts it at this position.
    pub(super) fn stand_at(&mut self, position: Position) {
        self.position = position.0;
        if self.rows.is_empty() {
            self.id = match &self.header {
                Some(HeaderDocument::LinkUsed { share, uses }) => {
                    link_use_id(uint(self.entity), *share, *uses)
                }
                _ => answer_id(uint(self.entity), position),
            };
        }
    }

    /// Whether nodes hold in memory what it changes, so that its answer waits for all of them.
    pub(super) fn changes_views(&self) -> bool {
        let kind = Kind::from_code(self.kind.into());
        self.renamed.is_some()
            || kind.is_some_and(|kind| match kind {
                Kind::Account
                | Kind::Key
                | Kind::User
                | Kind::Supervision
                | Kind::Client
                | Kind::Grant
                | Kind::SigningKeys => true,
                Kind::Customer
                | Kind::Conversation
                | Kind::Webhook
                | Kind::Document
                | Kind::Audit
                | Kind::Alerts
                | Kind::Attachment
                | Kind::Erasure => false,
            })
    }

    /// The entity; none where the code of its kind stands for nothing.
    pub(super) fn subject(&self) -> Option<Subject> {
        Some(Subject {
            kind: Kind::from_code(self.kind.into())?,
            number: uint(self.entity),
            tail: uint(self.tail),
        })
    }

    /// The account and mode that it belongs to.
    pub(super) fn tenant(&self) -> Tenant {
        Tenant::from_number(self.tenant)
    }

    /// The sequence of its last row.
    pub(super) fn last_sequence(&self) -> Sequence {
        Sequence(uint::<u64>(self.first).saturating_sub(1)).plus(self.rows.len())
    }

    /// The position of its last row.
    pub(super) fn last_position(&self) -> Position {
        Position(self.position + self.positions() - 1)
    }

    /// The row with this sequence.
    pub(super) fn row(&self, sequence: Sequence) -> Option<&RowDocument> {
        let index = sequence.0.checked_sub(uint(self.first))?;
        self.rows.get(usize::try_from(index).ok()?)
    }

    /// All positions that it takes.
    pub(super) fn all_positions(&self) -> impl Iterator<Item = Position> + use<> {
        (self.position..self.position + self.positions()).map(Position)
    }

    /// Its rows with their positions and sequences.
    pub(super) fn placed_rows(&self) -> impl Iterator<Item = (Position, Sequence, &RowDocument)> {
        let positions = Position(self.position).and_following();
        let sequences = (uint(self.first)..).map(Sequence);
        positions
            .zip(sequences)
            .zip(&self.rows)
            .map(|((position, sequence), row)| (position, sequence, row))
    }
}

impl RowDocument {
    /// The rows of a commit.
    fn all_of(commit: &Commit, digests: &PayloadDigests) -> impl Iterator<Item = Self> {
        let rows = commit.rows.iter().zip(commit.stored_payloads());
        let rows = rows.zip(digests);
        rows.map(|(row, digest)| RowDocument::of(commit, row, digest))
    }

    fn of(commit: &Commit, (row, payload): (&NewRow, &Bytes), digest: &PayloadDigest) -> Self {
        let seen = row.seen.as_ref();
        RowDocument {
            kind: row.kind as i32,
            at: commit.at.0,
            from_customer: int(row.counts.customer),
            from_agent: int(row.counts.agent),
            from_system: int(row.counts.system),
            last_message_at: row.counts.last_message_at.map(|at| at.0),
            channel: seen.map(|seen| code(seen.channel.code())),
            priority: seen.map(|seen| code(seen.priority.code())),
            assignee: seen
                .and_then(|seen| seen.assignee)
                .map(|user| int(user.number())),
            sender: seen
                .and_then(|seen| seen.sender)
                .map(|sender| code(SenderType::code(sender))),
            edits: row.edits.map(|original| int(original.0)),
            text_bytes: Some(row.text_bytes).filter(|bytes| *bytes != 0),
            by: ActorDocument::of(&commit.actor),
            salt: Some(binary(&digest.salt)),
            hash: binary(&digest.hash),
            payload: String::from_utf8_lossy(payload).into_owned(),
        }
    }

    /// Takes the words out of it. Once more, it changes nothing.
    pub(super) fn take_words(&mut self, sink: &dyn CommitSink) {
        let left = sink.redacted(self.payload.as_bytes());
        self.payload = String::from_utf8_lossy(&left).into_owned();
        self.salt = None;
    }

    /// How many messages of its sender's type there are up to and with this row.
    pub(super) fn of_sender(&self) -> i64 {
        match self
            .sender
            .and_then(|sender| SenderType::from_code(sender.into()))
        {
            Some(SenderType::Customer) => self.from_customer,
            Some(SenderType::Agent) => self.from_agent,
            Some(SenderType::System) | None => self.from_system,
        }
    }

    /// How many messages there are up to and with this row.
    pub(super) fn counts(&self) -> MessageCounts {
        MessageCounts {
            customer: uint(self.from_customer),
            agent: uint(self.from_agent),
            system: uint(self.from_system),
            last_message_at: self.last_message_at.map(Timestamp),
        }
    }
}

impl ChoreDocument {
    pub(super) fn of(chore: Chore) -> Self {
        ChoreDocument {
            tenant: chore.tenant().number(),
            kind: chore.kind() as i64,
            user: int(chore.number()),
            tail: int(chore.tail()),
        }
    }

    /// The chore; none of a kind that a later version left.
    pub(super) fn chore(self) -> Option<Chore> {
        let kind = ChoreKind::from_code(self.kind)?;
        let about = (uint(self.user), uint(self.tail));
        Some(Chore::of(kind, Tenant::from_number(self.tenant), about))
    }

    /// As its collection has it, without its `_id`.
    pub(super) fn fields(self) -> Document {
        doc! {"tenant": self.tenant, "kind": self.kind, "user": self.user, "tail": self.tail}
    }

    /// Its `_id` in the list of chores.
    pub(super) fn id(self) -> String {
        format!("{}.{}", self.tenant, self.user)
    }
}

impl ActorDocument {
    fn of(actor: &Actor) -> Self {
        ActorDocument {
            key: actor.credential.code(),
            user: actor.user.map(|user| int(user.number())),
            address: actor.address.map(|address| address.to_string()),
            request: actor.request_id.to_string(),
        }
    }
}

impl AnswerDocument {
    fn of(kept: &KeptAnswer, at: i64) -> Self {
        AnswerDocument {
            at,
            request: binary(&kept.reservation.request().bytes()),
            done: kept.done.code(),
            id: kept.id.clone(),
            etag: kept.etag.clone(),
            body: kept.body.as_ref().map(|body: &Bytes| binary(body)),
        }
    }
}
