//! A part of an attachment's bytes, out of object storage and opened where they are encrypted.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};

use crate::sealing::{CHUNK_BYTES, CHUNK_OVERHEAD, ChunkKey, DamagedChunk};
use colloquy_objects::{ObjectError, Objects, Pieces};

/// Why bytes can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// Object storage does not give them.
    #[error(transparent)]
    Storage(#[from] ObjectError),
    /// They are not what was written.
    #[error(transparent)]
    Damaged(#[from] DamagedChunk),
}

impl ContentError {
    /// Whether there are no bytes.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        match self {
            ContentError::Storage(error) => error.is_missing(),
            ContentError::Damaged(_) => false,
        }
    }
}

/// The content of an attachment, piece by piece.
pub type Content = BoxStream<'static, Result<Bytes, ContentError>>;

/// What is read of which file.
pub(super) struct Part<'n> {
    pub(super) name: &'n str,
    /// How long the whole content is.
    pub(super) bytes: u64,
    /// What of it is wanted; not empty.
    pub(super) range: Range<u64>,
}

/// Reads a part that is stored as it is.
pub(super) async fn plain(objects: &Objects, part: Part<'_>) -> Result<Content, ContentError> {
    let pieces = objects.read(part.name, part.range).await?;
    Ok(pieces.map_err(ContentError::from).boxed())
}

/// Reads a part whose chunks are encrypted: all that it touches, of which the ends are cut off.
pub(super) async fn sealed(
    objects: &Objects,
    key: ChunkKey,
    part: Part<'_>,
) -> Result<Content, ContentError> {
    const PLAIN: u64 = CHUNK_BYTES as u64;
    const SEALED: u64 = (CHUNK_BYTES + CHUNK_OVERHEAD) as u64;
    let Part { name, bytes, range } = part;
    let chunks = bytes.div_ceil(PLAIN).max(1);
    let (first, behind) = (range.start / PLAIN, range.end.div_ceil(PLAIN));
    let all = bytes + chunks * CHUNK_OVERHEAD as u64;
    let wanted = first * SEALED..(behind * SEALED).min(all);
    let opening = Opening {
        key,
        pieces: objects.read(name, wanted).await?,
        ahead: BytesMut::new(),
        chunk: first,
        behind,
        last: chunks - 1,
        skip: usize::try_from(range.start % PLAIN).unwrap_or(0),
        left: range.end - range.start,
    };
    Ok(stream::try_unfold(opening, Opening::next).boxed())
}

/// Chunks on their way to whoever reads them.
struct Opening {
    key: ChunkKey,
    pieces: Pieces,
    /// Bytes that were read and not opened yet.
    ahead: BytesMut,
    chunk: u64,
    /// The chunk behind the last one that is wanted.
    behind: u64,
    /// The last chunk of the file.
    last: u64,
    /// Bytes at the beginning of the first chunk that are not wanted.
    skip: usize,
    /// Bytes that are still wanted.
    left: u64,
}

impl Opening {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, ContentError> {
        if self.chunk >= self.behind || self.left == 0 {
            return Ok(None);
        }
        let most = CHUNK_BYTES + CHUNK_OVERHEAD;
        while self.ahead.len() < most {
            match self.pieces.try_next().await? {
                Some(piece) => self.ahead.extend_from_slice(&piece),
                None => break,
            }
        }
        let sealed = self.ahead.split_to(most.min(self.ahead.len()));
        let place = (self.chunk, self.chunk == self.last);
        let mut opened = Bytes::from(self.key.open(place, &sealed)?);
        let _ = opened.split_to(self.skip.min(opened.len()));
        opened.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.skip = 0;
        self.left -= opened.len() as u64;
        self.chunk += 1;
        Ok(Some((opened, self)))
    }
}
