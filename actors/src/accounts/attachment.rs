//! An attachment: what is known of a file that stands in object storage. Its record is there before
//! the first byte of the file and goes after the last one, so that no file is ever without one.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Identity;
use super::record::{
    CommandContext, DeleteRecord, NewRecord, Outcome, RecordError, RecordRequest, RecordSpec,
    Secret, to_json,
};
use crate::store::{Store, Stored};
use colloquy_model::answer::Answer;
use colloquy_model::attachment::AttachmentView;
use colloquy_model::caller::{Mode, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::commit::{Condition, Effect, NameField, RecordName};
use colloquy_model::conversation_access::Reach;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::{Kind, Subject};
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::{AttachmentId, AttachmentKind, UserId};
use colloquy_model::sequence::Sequence;
use colloquy_model::user::Role;
use colloquy_runtime::LoadError;

/// The name under which those are found of which nobody knows yet whether a message has them.
const UNSETTLED: &str = "unsettled";

/// How far an attachment has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Its bytes are on their way: it is nobody's.
    Uploading,
    /// It waits for a message, or has one since a short time.
    Uploaded,
    /// A message has it.
    Settled,
    /// Its bytes are to be deleted, and then this: it is nobody's any more.
    Dropped,
}

/// What is known of a file when it is uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentFile {
    /// Its name, as it was given.
    pub filename: Option<String>,
    /// Its media type.
    pub content_type: String,
    /// The length of its content.
    pub bytes: u64,
    /// The SHA-256 hash of its content, in hex.
    pub sha256: String,
}

/// An attachment as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    #[serde(flatten)]
    view: AttachmentView,
    state: State,
    /// The user for whom it was uploaded.
    uploader: Option<UserId>,
    /// The key of its content, in hex, where that is encrypted.
    key: Option<String>,
}

impl Attachment {
    /// As the interface shows it; none while it is nobody's.
    #[must_use]
    pub fn shown(&self) -> Option<&AttachmentView> {
        match self.state {
            State::Uploading | State::Dropped => None,
            State::Uploaded | State::Settled => Some(&self.view),
        }
    }

    /// Whether its bytes are still on their way.
    #[must_use]
    pub fn is_uploading(&self) -> bool {
        self.state == State::Uploading
    }

    /// Whether its bytes are to be deleted.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.state == State::Dropped
    }

    /// The user for whom it was uploaded.
    #[must_use]
    pub fn uploader(&self) -> Option<UserId> {
        self.uploader
    }

    /// The key of its content, in hex, where that is encrypted.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

/// Announces an attachment before the first byte of its file is written.
#[derive(Debug)]
pub struct BeginAttachment {
    /// The user for whom it is uploaded.
    pub uploader: Option<UserId>,
    /// The key of its content, in hex, where that is encrypted.
    pub key: Option<String>,
}

/// Says that all bytes of an attachment are kept.
#[derive(Debug)]
pub struct CompleteAttachment(pub AttachmentFile);

/// Notes that a message has the attachment: it stays as long as that one.
#[derive(Debug)]
pub struct SettleAttachment;

/// Ends an attachment whose upload has failed, or whose message is redacted.
#[derive(Debug)]
pub struct DropAttachment;

/// Ends an attachment that no message has taken.
#[derive(Debug)]
pub struct ExpireAttachment;

impl RecordRequest<Attachment> for BeginAttachment {
    type Reply = Answer;

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::AttachmentBegun)
    }

    fn decide(
        self,
        _: &Attachment,
        _: &CommandContext<Attachment>,
    ) -> Result<Outcome<Attachment>, RecordError> {
        Err(RecordError::NotFound)
    }

    fn decide_vacant(
        self,
        context: &CommandContext<Attachment>,
    ) -> Result<NewRecord<Attachment>, RecordError> {
        Ok(NewRecord::new(Attachment {
            view: AttachmentView {
                attachment_id: context.id,
                filename: None,
                content_type: String::new(),
                bytes: 0,
                sha256: String::new(),
                created_at: context.id.created_at(),
            },
            state: State::Uploading,
            uploader: self.uploader,
            key: self.key,
        }))
    }
}

impl RecordRequest<Attachment> for CompleteAttachment {
    type Reply = Answer;

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::AttachmentUploaded)
    }

    fn decide(
        self,
        held: &Attachment,
        _: &CommandContext<Attachment>,
    ) -> Result<Outcome<Attachment>, RecordError> {
        if held.state != State::Uploading {
            return Err(RecordError::NotFound);
        }
        let AttachmentFile {
            filename,
            content_type,
            bytes,
            sha256,
        } = self.0;
        let mut whole = held.clone();
        whole.state = State::Uploaded;
        whole.view = AttachmentView {
            filename,
            content_type,
            bytes,
            sha256,
            ..whole.view
        };
        Ok(Outcome::PutMade(whole))
    }
}

impl RecordRequest<Attachment> for SettleAttachment {
    type Reply = ();

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::AttachmentTaken)
    }

    fn decide(
        self,
        held: &Attachment,
        _: &CommandContext<Attachment>,
    ) -> Result<Outcome<Attachment>, RecordError> {
        if held.state != State::Uploaded {
            return Ok(Outcome::NoContent);
        }
        let state = State::Settled;
        Ok(Outcome::PutWithoutContent(Attachment {
            state,
            ..held.clone()
        }))
    }
}

impl RecordRequest<Attachment> for DropAttachment {
    type Reply = ();

    fn decide(
        self,
        held: &Attachment,
        _: &CommandContext<Attachment>,
    ) -> Result<Outcome<Attachment>, RecordError> {
        Ok(drop_it(held, Vec::new()))
    }
}

impl RecordRequest<Attachment> for ExpireAttachment {
    type Reply = ();

    fn decide(
        self,
        held: &Attachment,
        context: &CommandContext<Attachment>,
    ) -> Result<Outcome<Attachment>, RecordError> {
        Ok(drop_it(
            held,
            vec![Condition::AttachmentUntaken(context.id)],
        ))
    }
}

fn drop_it(held: &Attachment, conditions: Vec<Condition>) -> Outcome<Attachment> {
    let state = State::Dropped;
    match held.state {
        State::Dropped => Outcome::NoContent,
        State::Uploading | State::Uploaded | State::Settled => Outcome::Put(
            Attachment {
                state,
                ..held.clone()
            },
            conditions,
        ),
    }
}

/// Its bytes have been deleted; its name goes with all else that is known of it.
impl RecordRequest<Attachment> for DeleteRecord {
    type Reply = ();

    fn event(&self) -> Option<EventKind> {
        Some(EventKind::AttachmentErased)
    }

    fn decide(
        self,
        held: &Attachment,
        _: &CommandContext<Attachment>,
    ) -> Result<Outcome<Attachment>, RecordError> {
        match held.state {
            State::Dropped => Ok(Outcome::Erase),
            State::Uploading | State::Uploaded | State::Settled => Err(RecordError::InUse {
                reason: "its bytes are there",
            }),
        }
    }
}

impl RecordSpec for Attachment {
    const KIND: Kind = Kind::Attachment;
    const NAME: &'static str = "attachment";
    type Named = AttachmentKind;

    fn show(&self, _: &Identity, _: Secret<'_>) -> Bytes {
        to_json(&self.view)
    }

    /// What it shows never changes.
    fn tag(&self, _: Sequence) -> String {
        self.view.sha256.get(..32).unwrap_or_default().to_owned()
    }

    fn label(&self) -> &str {
        self.view.filename.as_deref().unwrap_or_default()
    }

    fn names(&self) -> Vec<RecordName> {
        match self.state {
            State::Settled => Vec::new(),
            State::Uploading | State::Uploaded | State::Dropped => vec![unsettled()],
        }
    }

    fn effects(&self, _: Option<&Self>, _: &CommandContext<Self>) -> Vec<Effect> {
        Vec::new()
    }
}

/// The name of those of which nobody knows yet whether a message has them.
pub(crate) fn unsettled() -> RecordName {
    RecordName {
        field: NameField::UnsettledAttachment,
        value: UNSETTLED.to_owned(),
    }
}

/// Where the bytes of an attachment stand in object storage.
#[must_use]
pub fn object_name(tenant: Tenant, id: AttachmentId) -> String {
    let mode = match tenant.mode() {
        Some(Mode::Live) => "live",
        Some(Mode::Test) => "test",
        None => "both",
    };
    format!("attachments/{}/{mode}/{id}", tenant.account_number())
}

/// An attachment of a tenant as it stands in the store, and the sequence of its last change.
///
/// # Errors
/// The store is away, or what is stored can't be read.
pub async fn attachment(
    store: &dyn Store,
    tenant: Tenant,
    id: AttachmentId,
) -> Result<Option<(Attachment, Sequence)>, LoadError> {
    let subject = Subject {
        kind: Kind::Attachment,
        number: id.number(),
        tail: id.tail(),
    };
    match store.load(subject).await? {
        Some(Stored::Record(record)) if record.tenant == tenant => {
            let found = serde_json::from_str(&record.body);
            let found = found.map_err(|error| {
                Unreadable::found(id, error);
                LoadError::Unreadable
            })?;
            Ok(Some((found, record.sequence)))
        }
        Some(_) | None => Ok(None),
    }
}

/// Whether a caller may see an attachment that no message has: it was uploaded for the caller's own
/// user, or the caller acts for the whole account.
#[must_use]
pub fn is_own_upload(identity: &Identity, meta: &CommandMeta, attachment: &Attachment) -> bool {
    let user = meta.caller.actor.user;
    if user.is_some() && user == attachment.uploader {
        return true;
    }
    let is_admin = |user| {
        let known = identity.user(meta.caller.tenant, user);
        known == Some(Role::Admin)
    };
    meta.access.reads == Reach::All && user.is_none_or(is_admin)
}
