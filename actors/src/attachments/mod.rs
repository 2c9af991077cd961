//! Files that messages bring. What is known of one is a record of its account (`accounts`); its bytes
//! stand in object storage. The record is committed before the first byte is written and deleted
//! after the bytes, so that no file is ever without one, whatever a crash leaves.

mod checking;
mod reading;
mod serving;
mod sniffing;
mod upkeep;
mod writing;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;

pub use self::checking::check;
pub(crate) use self::checking::{is_shown, name_of};
pub use self::reading::{Content, ContentError};
pub use self::serving::Served;
pub use self::writing::{AttachmentWriter, DeclaredFile, WriteError};

use self::reading::Part;
use self::writing::Sealing;
use crate::accounts::record::{DeleteRecord, RecordError};
use crate::accounts::{
    Attachment, AttachmentFile, BeginAttachment, CompleteAttachment, DropAttachment, Records,
    attachment, is_own_upload, object_name,
};
use crate::conversation::Conversations;
use crate::conversation::messages::ConversationError;
use crate::sealing::{ChunkKey, DamagedChunk};
use crate::store::AttachmentTaker;
use colloquy_model::answer::Answer;
use colloquy_model::attachment::AttachmentView;
use colloquy_model::caller::{Actor, Caller, Tenant};
use colloquy_model::command::CommandMeta;
use colloquy_model::commit::Chore;
use colloquy_model::entity_number::EntityNumber;
use colloquy_model::event_kind::EventKind;
use colloquy_model::id::AttachmentId;
use colloquy_model::time::Timestamp;
use colloquy_objects::{ObjectError, Objects};
use colloquy_runtime::{AskError, LoadError, SupervisedKind};

/// How long an address holds at which a cloud lets anybody read a file.
const ADDRESS_HOLDS: Duration = Duration::from_secs(60);

/// What attachments are made of.
pub struct AttachmentParts {
    /// Their records.
    pub records: Records<Attachment>,
    /// Whose messages have them.
    pub conversations: Arc<Conversations>,
    /// Where their bytes stand.
    pub objects: Objects,
    /// Whether these are encrypted.
    pub encrypts: bool,
}

/// All attachments.
pub struct Attachments {
    parts: AttachmentParts,
    /// Uploads that have ended before their time, for the thread that deletes what is left of them.
    given_up: UnboundedSender<(Tenant, AttachmentId)>,
    ended: Mutex<UnboundedReceiver<(Tenant, AttachmentId)>>,
    started_at: Timestamp,
}

/// An attachment that a caller may see.
pub struct FoundAttachment {
    tenant: Tenant,
    view: AttachmentView,
    /// The key of its content, where that is encrypted.
    key: Option<String>,
}

impl FoundAttachment {
    /// As the interface shows it.
    #[must_use]
    pub fn view(&self) -> &AttachmentView {
        &self.view
    }
}

impl Attachments {
    pub(crate) fn new(parts: AttachmentParts) -> Arc<Self> {
        let (given_up, ended) = mpsc::unbounded_channel();
        Arc::new(Attachments {
            parts,
            given_up,
            ended: Mutex::new(ended),
            started_at: Timestamp::now(),
        })
    }

    /// How operators see the actors of attachments.
    pub(crate) fn supervised(&self) -> Arc<dyn SupervisedKind> {
        self.parts.records.directory.clone()
    }

    pub(crate) fn drain(&self) {
        self.parts.records.directory.drain();
    }

    pub(crate) async fn drained(&self, deadline: Instant) -> bool {
        self.parts.records.directory.drained(deadline).await
    }

    /// Announces an upload: from now on, whatever becomes of it, its bytes have a record.
    ///
    /// # Errors
    /// That could not be committed; nothing may be written.
    pub async fn announce(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<Announced, AskError<RecordError>> {
        let id = AttachmentId::new(Timestamp::now());
        let key = self.parts.encrypts.then(ChunkKey::generate);
        // Before it is asked: whoever leaves meanwhile leaves it announced.
        let announced = Announced {
            attachments: Arc::clone(self),
            tenant: caller.tenant,
            id,
            is_open: true,
        };
        let begin = BeginAttachment {
            uploader: caller.actor.user,
            key: key.as_ref().map(ChunkKey::hex),
        };
        let meta = CommandMeta::new(caller.clone());
        self.parts.records.ask(id, meta, begin).await?;
        Ok(announced)
    }

    /// The attachment, if this caller may see it: one that a message has, whoever may read that
    /// message's conversation; otherwise whoever uploaded it, and who acts for the whole account.
    ///
    /// # Errors
    /// There is none for this caller, or the store is away.
    pub async fn find(
        &self,
        meta: &CommandMeta,
        id: AttachmentId,
    ) -> Result<FoundAttachment, AskError<ConversationError>> {
        let tenant = meta.caller.tenant;
        let store = &self.parts.records.store;
        let not_found = || AskError::Refused(ConversationError::NotFound);
        let taker = store.attachment_taker(tenant, id).await?;
        let found = attachment(&**store, tenant, id).await?;
        let (found, _) = found.ok_or_else(not_found)?;
        let view = found.shown().ok_or_else(not_found)?.clone();
        match taker {
            AttachmentTaker::Conversation(conversation) => {
                let conversations = &self.parts.conversations;
                conversations.check_readable(conversation, meta).await?;
            }
            AttachmentTaker::Nobody
                if is_own_upload(&self.parts.records.identity, meta, &found) => {}
            AttachmentTaker::Nobody | AttachmentTaker::Gone => return Err(not_found()),
        }
        Ok(FoundAttachment {
            tenant,
            view,
            key: found.key().map(str::to_owned),
        })
    }

    /// Reads a part of the content, which must not be empty.
    ///
    /// # Errors
    /// Object storage does not give it.
    pub async fn read(
        &self,
        found: &FoundAttachment,
        range: Range<u64>,
    ) -> Result<Content, ContentError> {
        let name = object_name(found.tenant, found.view.attachment_id);
        let part = Part {
            name: &name,
            bytes: found.view.bytes,
            range,
        };
        let objects = &self.parts.objects;
        match &found.key {
            None => reading::plain(objects, part).await,
            Some(key) => {
                let key = ChunkKey::from_hex(key).ok_or(DamagedChunk)?;
                reading::sealed(objects, key, part).await
            }
        }
    }

    /// Whether an attachment whose bytes are not there is one that goes: since it was found, or by what a
    /// restored backup has left to be done, in which it still stands.
    ///
    /// # Errors
    /// The store is away, or what is stored can't be read.
    pub async fn is_going(
        &self,
        found: &FoundAttachment,
    ) -> Result<bool, AskError<ConversationError>> {
        let (tenant, id) = (found.tenant, found.view.attachment_id);
        let store = &self.parts.records.store;
        let Some((now, _)) = attachment(&**store, tenant, id).await? else {
            return Ok(true);
        };
        let chores = store.chores().await?;
        Ok(now.shown().is_none() || chores.contains(&Chore::EraseAttachment(tenant, id)))
    }

    /// The address at which a cloud lets anybody read the content for a minute; none where it has to
    /// pass through here.
    ///
    /// # Errors
    /// There are no credentials to sign it with.
    pub async fn address(&self, found: &FoundAttachment) -> Result<Option<String>, ObjectError> {
        if found.key.is_some() {
            return Ok(None);
        }
        let name = object_name(found.tenant, found.view.attachment_id);
        self.parts.objects.presigned(&name, ADDRESS_HOLDS).await
    }

    /// Lets nobody see an attachment any more whose message is redacted. Its bytes go behind the
    /// answer, by what the redaction's commit has left to be done.
    ///
    /// # Errors
    /// That could not be committed.
    pub async fn hide(
        &self,
        caller: Caller,
        id: AttachmentId,
    ) -> Result<(), AskError<RecordError>> {
        let records = &self.parts.records;
        match records
            .ask(id, CommandMeta::new(caller), DropAttachment)
            .await
        {
            Err(AskError::Refused(RecordError::NotFound)) => Ok(()),
            asked => asked,
        }
    }

    /// Deletes the bytes of an attachment, then what is known of it; whether nothing is left.
    pub(crate) async fn erase(&self, tenant: Tenant, id: AttachmentId) -> bool {
        let erased = self.try_erase(tenant, id).await;
        match &erased {
            Ok(()) => {}
            // Nothing lives yet, or any more: whoever asks again finds it.
            Err(NotErased::Record(AskError::Unavailable { cause, .. })) => {
                tracing::debug!(attachment = %id, ?cause, "an attachment is not deleted yet");
            }
            Err(error) => {
                tracing::warn!(attachment = %id, %error, "an attachment is not deleted yet")
            }
        }
        erased.is_ok()
    }

    /// The same for all attachments that a conversation has taken.
    pub(crate) async fn erase_all_of(&self, tenant: Tenant, conversation: EntityNumber) -> bool {
        let Ok(found) = self.parts.records.store.attachments_of(conversation).await else {
            return false;
        };
        for attachment in found {
            if !self.erase(tenant, attachment).await {
                return false;
            }
        }
        true
    }

    async fn try_erase(&self, tenant: Tenant, id: AttachmentId) -> Result<(), NotErased> {
        let caller = Caller {
            tenant,
            actor: Actor::server("an attachment goes"),
        };
        match self.hide(caller.clone(), id).await {
            // One that can't be read is shown to nobody.
            Ok(()) | Err(AskError::Unreadable) => {}
            Err(error) => return Err(NotErased::Record(error)),
        }
        let name = object_name(tenant, id);
        self.parts.objects.delete_upload(&name).await?;
        let (records, meta) = (&self.parts.records, CommandMeta::new(caller.clone()));
        let asked = match records.ask(id, meta, DeleteRecord).await {
            Err(AskError::Unreadable) => {
                let event = EventKind::AttachmentErased;
                records.erase_unreadable(id, caller, event).await
            }
            asked => asked,
        };
        match asked {
            Ok(()) | Err(AskError::Refused(RecordError::NotFound)) => Ok(()),
            Err(error) => Err(NotErased::Record(error)),
        }
    }
}

/// Why an attachment is not deleted yet.
#[derive(Debug, thiserror::Error)]
enum NotErased {
    #[error("where its bytes are kept: {0}")]
    Storage(#[from] ObjectError),
    #[error("its record: {0:?}")]
    Record(AskError<RecordError>),
}

/// An upload that has begun. Dropped before it is complete, what is left of it is deleted.
pub struct Announced {
    attachments: Arc<Attachments>,
    tenant: Tenant,
    id: AttachmentId,
    is_open: bool,
}

impl Announced {
    /// Begins to write its bytes, at most so many, of a file of which its sender says this.
    ///
    /// # Errors
    /// Object storage does not take them, or the store is away.
    pub async fn write(
        &self,
        bytes_max: u64,
        declared: DeclaredFile,
    ) -> Result<AttachmentWriter, UploadFailure> {
        let parts = &self.attachments.parts;
        let record = attachment(&*parts.records.store, self.tenant, self.id).await?;
        let key = record.and_then(|(record, _)| record.key().map(str::to_owned));
        let sealing = key
            .map(|key| {
                Ok::<_, DamagedChunk>(Sealing {
                    key: ChunkKey::from_hex(&key).ok_or(DamagedChunk)?,
                    chunks: 0,
                    waiting: BytesMut::new(),
                })
            })
            .transpose()
            .map_err(WriteError::from)?;
        let name = object_name(self.tenant, self.id);
        let upload = parts.objects.begin(&name).await;
        let upload = upload.map_err(WriteError::from)?;
        Ok(AttachmentWriter {
            upload,
            declared,
            sealing,
            bytes_max,
            bytes: 0,
            head: Vec::new(),
            hash: Sha256::new(),
        })
    }

    /// Says that its bytes are there: from the answer on they are the caller's.
    ///
    /// # Errors
    /// It could not be committed, or nobody knows: then it goes like one that no message takes.
    pub async fn complete(
        mut self,
        meta: CommandMeta,
        file: AttachmentFile,
    ) -> Result<Answer, AskError<RecordError>> {
        // Dropped while it is committed, it may have been answered.
        self.is_open = false;
        let records = &self.attachments.parts.records;
        let asked = records.ask(self.id, meta, CompleteAttachment(file)).await;
        self.is_open = matches!(
            asked,
            Err(AskError::Refused(_) | AskError::Unavailable { .. })
        );
        asked
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        if self.is_open {
            // Without the thread it is the next start's.
            let _ = self.attachments.given_up.send((self.tenant, self.id));
        }
    }
}

/// Why the writing of an upload has not begun.
#[derive(Debug, thiserror::Error)]
pub enum UploadFailure {
    /// The store does not answer.
    #[error("the store does not answer")]
    Store(LoadError),
    /// Its bytes can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl From<LoadError> for UploadFailure {
    fn from(error: LoadError) -> Self {
        UploadFailure::Store(error)
    }
}
