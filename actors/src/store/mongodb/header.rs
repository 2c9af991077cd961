//! What a commit does to its entity's header, as the log keeps it: enough to carry it over into the
//! collections that lists are read from, once more after a crash.

use mongodb::bson::Binary;
use serde::{Deserialize, Serialize};

use super::codec::{binary, code, int, uint};
use crate::store::ReadError;
use colloquy_model::commit::{Commit, Header, RecordName};
use colloquy_model::conversation::{Channel, ConversationState, Priority, Status};
use colloquy_model::document::{DocumentHeader, NewVersion};
use colloquy_model::id::{CustomerId, UserId};
use colloquy_model::time::Timestamp;

/// What becomes of the entity's header.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HeaderDocument {
    /// Puts a conversation's.
    Conversation {
        /// What it was counted by before; none where it is new.
        before: Option<StateDocument>,
        after: StateDocument,
    },
    /// Takes a conversation away for good.
    ConversationGone {
        /// What it was counted by before, without its metadata.
        before: StateDocument,
    },
    /// Puts a record.
    Record {
        new: bool,
        name: String,
        body: String,
        names: Vec<NameDocument>,
    },
    RecordGone,
    /// The same, and all that was said of it goes.
    RecordErased,
    /// Puts a document's.
    Document(Box<DocumentHeaderDocument>),
    DocumentGone {
        was_deleted: bool,
    },
    LinkUsed {
        share: i64,
        uses: i64,
    },
}

/// A conversation's state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StateDocument {
    pub(super) customer: i64,
    pub(super) customer_tail: i64,
    pub(super) status: i32,
    pub(super) channel: i32,
    pub(super) priority: i32,
    pub(super) assignee: Option<i64>,
    pub(super) assignee_tail: Option<i64>,
    pub(super) metadata: String,
    pub(super) closed_at: Option<i64>,
    pub(super) snoozed_until: Option<i64>,
    pub(super) activated_at: i64,
}

/// A name under which a record is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NameDocument {
    pub(super) field: i32,
    pub(super) value: String,
}

/// A document's header.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DocumentHeaderDocument {
    pub(super) was_deleted: Option<bool>,
    pub(super) updated_at: i64,
    pub(super) title: String,
    pub(super) content_type: i64,
    pub(super) owner: Option<i64>,
    pub(super) deleted_at: Option<i64>,
    pub(super) body: String,
    /// Who may read it, where that changes.
    pub(super) readers: Option<Vec<ReaderDocument>>,
    /// The hashes of its share links, where these change.
    pub(super) links: Option<Vec<Binary>>,
    /// These links as the entity reads them back.
    pub(super) share_links: Option<String>,
    pub(super) version: Option<VersionDocument>,
    pub(super) comments: Vec<CommentDocument>,
    pub(super) anchors: Option<Binary>,
}

/// Somebody who may read a document; user 0 is everybody of the account.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ReaderDocument {
    pub(super) user: i64,
    pub(super) role: i64,
}

/// What becomes of a comment; without a body it goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct CommentDocument {
    pub(super) number: i64,
    pub(super) body: Option<String>,
}

/// A version of a document, with its content as a frame against that of `base`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct VersionDocument {
    pub(super) number: i64,
    pub(super) id_number: i64,
    pub(super) id_tail: i64,
    pub(super) label: Option<String>,
    pub(super) branch: String,
    pub(super) parents: Vec<i64>,
    pub(super) message: Option<String>,
    pub(super) author: Option<i64>,
    pub(super) author_tail: Option<i64>,
    pub(super) at: i64,
    pub(super) base: Option<i64>,
    pub(super) frame: Binary,
}

impl HeaderDocument {
    /// Whether it holds texts, of what it puts.
    pub(super) fn holds_texts(&self) -> bool {
        match self {
            HeaderDocument::Document(_)
            | HeaderDocument::Conversation { .. }
            | HeaderDocument::Record { .. } => true,
            HeaderDocument::ConversationGone { .. }
            | HeaderDocument::RecordGone
            | HeaderDocument::RecordErased
            | HeaderDocument::DocumentGone { .. }
            | HeaderDocument::LinkUsed { .. } => false,
        }
    }

    /// What a commit does to the header; none where it leaves it as it is.
    pub(super) fn of(commit: &Commit) -> Option<Self> {
        Some(match &commit.header {
            Header::Unchanged => return None,
            Header::Conversation { before, after } => HeaderDocument::Conversation {
                before: before.as_deref().map(StateDocument::of),
                after: StateDocument::of(after),
            },
            Header::ConversationGone { before } => HeaderDocument::ConversationGone {
                before: StateDocument::of(before),
            },
            Header::Record {
                new,
                name,
                body,
                names,
            } => HeaderDocument::Record {
                new: *new,
                name: name.clone(),
                body: body.clone(),
                names: names
                    .iter()
                    .map(|RecordName { field, value }| NameDocument {
                        field: *field as i32,
                        value: value.clone(),
                    })
                    .collect(),
            },
            Header::RecordGone => HeaderDocument::RecordGone,
            Header::RecordErased => HeaderDocument::RecordErased,
            Header::Document(header) => {
                HeaderDocument::Document(Box::new(DocumentHeaderDocument::of(header, commit.at.0)))
            }
            Header::DocumentGone { was_deleted } => HeaderDocument::DocumentGone {
                was_deleted: *was_deleted,
            },
            Header::LinkUsed { share, uses } => HeaderDocument::LinkUsed {
                share: int(share.number()),
                uses: int(*uses),
            },
        })
    }
}

impl StateDocument {
    pub(super) fn of(state: &ConversationState) -> Self {
        StateDocument {
            customer: int(state.customer.number()),
            customer_tail: int(state.customer.tail()),
            status: code(state.status.code()),
            channel: code(state.channel.code()),
            priority: code(state.priority.code()),
            assignee: state.assignee.map(|user| int(user.number())),
            assignee_tail: state.assignee.map(|user| int(user.tail())),
            metadata: state.metadata.to_string(),
            closed_at: state.closed_at.map(|at| at.0),
            snoozed_until: state.snoozed_until.map(|at| at.0),
            activated_at: state.activated_at.0,
        }
    }

    /// The state as its actor knows it.
    ///
    /// # Errors
    /// A code stands for nothing.
    pub(super) fn state(self, place: &str) -> Result<ConversationState, ReadError> {
        let damaged = |what: &str| super::codec::damaged(place, what);
        let assignee = match (self.assignee, self.assignee_tail) {
            (Some(number), Some(tail)) => Some(UserId::from_parts(uint(number), uint(tail))),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                return Err(damaged("half of the assignee is missing").into());
            }
        };
        Ok(ConversationState {
            customer: CustomerId::from_parts(uint(self.customer), uint(self.customer_tail)),
            status: Status::from_code(self.status.into())
                .ok_or_else(|| damaged("the code of its status stands for nothing"))?,
            channel: Channel::from_code(self.channel.into())
                .ok_or_else(|| damaged("the code of its channel stands for nothing"))?,
            priority: Priority::from_code(self.priority.into())
                .ok_or_else(|| damaged("the code of its priority stands for nothing"))?,
            assignee,
            metadata: self.metadata.into(),
            closed_at: self.closed_at.map(Timestamp),
            snoozed_until: self.snoozed_until.map(Timestamp),
            activated_at: Timestamp(self.activated_at),
        })
    }
}

impl DocumentHeaderDocument {
    fn of(header: &DocumentHeader, at: i64) -> Self {
        let listed = &header.listed;
        DocumentHeaderDocument {
            was_deleted: header.was_deleted,
            updated_at: header.updated_at.0,
            title: listed.title.clone(),
            content_type: listed.content_type,
            owner: listed.owner.map(|user| int(user.number())),
            deleted_at: listed.deleted_at.map(|at| at.0),
            body: header.body.clone(),
            readers: header.readers.as_ref().map(|readers| {
                let reader = |reader: &colloquy_model::document::DocumentReader| ReaderDocument {
                    user: int(reader.user),
                    role: reader.role,
                };
                readers.iter().map(reader).collect()
            }),
            links: header
                .links
                .as_ref()
                .map(|links| links.hashes.iter().map(|hash| binary(hash)).collect()),
            share_links: header.links.as_ref().map(|links| links.body.clone()),
            version: header
                .version
                .as_ref()
                .map(|version| VersionDocument::of(version, at)),
            comments: header
                .comments
                .iter()
                .map(|change| CommentDocument {
                    number: int(change.number),
                    body: change.body.clone(),
                })
                .collect(),
            anchors: header.anchors.as_ref().map(|anchors| binary(anchors)),
        }
    }
}

impl VersionDocument {
    fn of(version: &NewVersion, at: i64) -> Self {
        VersionDocument {
            number: int(version.number),
            id_number: int(version.id.number()),
            id_tail: int(version.id.tail()),
            label: version.label.clone(),
            branch: version.branch.clone(),
            parents: version.parents.iter().copied().map(int).collect(),
            message: version.message.clone(),
            author: version.author.map(|user| int(user.number())),
            author_tail: version.author.map(|user| int(user.tail())),
            at,
            base: version.base.map(int),
            frame: binary(&version.frame),
        }
    }
}
