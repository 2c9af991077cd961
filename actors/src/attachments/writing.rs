//! The bytes of an attachment on their way into object storage: counted, hashed, told by their first
//! ones, and encrypted where the store's texts are. Never more of them than a few parts is in memory.

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};

use super::serving::Served;
use super::sniffing::{self, HEAD_BYTES};
use crate::accounts::AttachmentFile;
use crate::sealing::{CHUNK_BYTES, ChunkKey, DamagedChunk};
use colloquy_objects::{ObjectError, Upload};

/// Why bytes are not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There are more of them than an attachment may have.
    #[error("a file may have at most {0} bytes")]
    TooLarge(u64),
    /// Object storage does not take them.
    #[error(transparent)]
    Storage(#[from] ObjectError),
    /// They can't be encrypted.
    #[error(transparent)]
    Sealing(#[from] DamagedChunk),
}

/// What its sender says of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredFile {
    /// Its name; none where none was said.
    pub filename: Option<String>,
    /// Its media type; none where none was said.
    pub content_type: Option<String>,
}

/// An attachment that is being written.
pub struct AttachmentWriter {
    pub(super) upload: Upload,
    pub(super) declared: DeclaredFile,
    pub(super) sealing: Option<Sealing>,
    pub(super) bytes_max: u64,
    pub(super) bytes: u64,
    pub(super) head: Vec<u8>,
    pub(super) hash: Sha256,
}

/// Chunks in the making.
pub(super) struct Sealing {
    pub(super) key: ChunkKey,
    pub(super) chunks: u64,
    pub(super) waiting: BytesMut,
}

impl AttachmentWriter {
    /// Adds a piece.
    ///
    /// # Errors
    /// It would be too large, or the storage does not take it.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), WriteError> {
        self.bytes += piece.len() as u64;
        if self.bytes > self.bytes_max {
            return Err(WriteError::TooLarge(self.bytes_max));
        }
        let missing = HEAD_BYTES.saturating_sub(self.head.len());
        if missing > 0 {
            self.head.extend(piece.iter().take(missing));
            self.describe();
        }
        self.hash.update(&piece);
        let Some(sealing) = &mut self.sealing else {
            return Ok(self.upload.write(piece).await?);
        };
        sealing.waiting.extend_from_slice(&piece);
        // The last one is known only at the end.
        while sealing.waiting.len() > CHUNK_BYTES {
            let chunk = sealing.waiting.split_to(CHUNK_BYTES);
            let sealed = sealing.key.seal((sealing.chunks, false), &chunk)?;
            sealing.chunks += 1;
            self.upload.write(sealed.into()).await?;
        }
        Ok(())
    }

    /// Ends the file: from then on it stands in object storage, whole.
    ///
    /// # Errors
    /// It does not.
    pub async fn finish(mut self) -> Result<AttachmentFile, WriteError> {
        if let Some(sealing) = self.sealing.take() {
            let sealed = sealing.key.seal((sealing.chunks, true), &sealing.waiting)?;
            self.upload.write(sealed.into()).await?;
        }
        let content_type = self.content_type();
        self.upload.finish().await?;
        let sha256 = self.hash.finalize();
        Ok(AttachmentFile {
            filename: self.declared.filename,
            content_type,
            bytes: self.bytes,
            sha256: sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    /// Has a cloud that keeps the bytes as they are tell those who are led to it what the file is, by as
    /// much as has come of it. That is known before anything is sent: a part is longer than the head.
    fn describe(&mut self) {
        if self.sealing.is_none() {
            let content_type = self.content_type();
            let served = Served::of(&content_type, self.declared.filename.as_deref());
            self.upload
                .describe(served.content_type, served.disposition);
        }
    }

    fn content_type(&self) -> String {
        sniffing::content_type(&self.head, self.declared.content_type.as_deref())
    }

    /// Lets go what has been written.
    pub async fn abort(self) {
        self.upload.abort().await;
    }
}
