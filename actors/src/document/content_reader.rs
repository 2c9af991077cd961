//! Contents of versions on their way from the store, with a permit to compute over them: who waits
//! for a permit over large ones does not hold them meanwhile.

use std::sync::Arc;

use bytes::Bytes;

use super::frames::{Frame, decode_chain};
use super::refusal::{DocumentError, Failure, unavailable};
use crate::store::{FramedVersion, ReadError, Store};
use colloquy_model::caller::Tenant;
use colloquy_model::damage::Unreadable;
use colloquy_model::entity::Subject;
use colloquy_runtime::offload::{ComputePermit, ComputeRequest, Effort};
use colloquy_runtime::{AskError, Cause, LoadError};

/// Which document's contents are read, for which computation over them.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContentQuery {
    pub(super) document: Subject,
    /// The tenant for whom is computed: tenants take turns.
    pub(super) tenant: Tenant,
    pub(super) effort: Effort,
    /// Bytes beside the contents that the computation goes over.
    pub(super) extra_bytes: usize,
}

/// Why the contents of versions could not be read.
#[derive(Debug)]
pub(super) enum ContentError {
    /// There is no such version.
    NotFound,
    /// The store could not be asked: it is closed, locked or its disk fails. Asked again, it may
    /// answer.
    Unavailable,
    /// What is stored can't be read; that was told where it was found.
    Unreadable,
    /// Too much else is read or computed: there was no permit in time.
    Overloaded,
}

impl From<ReadError> for ContentError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Busy | ReadError::TooSlow => ContentError::Overloaded,
            ReadError::Unreadable => ContentError::Unreadable,
            ReadError::Away | ReadError::NoCursor(_) | ReadError::Expired => {
                ContentError::Unavailable
            }
        }
    }
}

impl From<ContentError> for Failure {
    fn from(unread: ContentError) -> Self {
        match unread {
            ContentError::NotFound => AskError::Refused(DocumentError::NotFound),
            ContentError::Unavailable => unavailable(Cause::StoreUnavailable),
            ContentError::Unreadable => AskError::Unreadable,
            ContentError::Overloaded => unavailable(Cause::TimedOut),
        }
    }
}

/// For a document's actor, which asks for versions that it has.
impl From<ContentError> for LoadError {
    fn from(unread: ContentError) -> Self {
        match unread {
            ContentError::NotFound | ContentError::Unreadable => LoadError::Unreadable,
            ContentError::Unavailable => LoadError::Unavailable,
            ContentError::Overloaded => LoadError::Busy,
        }
    }
}

/// Versions in the order of the numbers, and a permit to compute over their contents.
///
/// # Errors
/// One is not there, the store is unavailable, or there was no permit in time.
pub(super) async fn read(
    store: &Arc<dyn Store>,
    wanted: ContentQuery,
    numbers: &[u64],
) -> Result<(Vec<FramedVersion>, ComputePermit), ContentError> {
    let found = frames(store, wanted, numbers).await?;
    let bytes = |frames: &[Bytes]| match wanted.effort {
        Effort::Linear => unpacked_bytes(frames),
        Effort::Comparison => content_bytes(frames),
    };
    let contents: usize = found.iter().map(|one| bytes(&one.frames)).sum();
    let request = ComputeRequest {
        tenant: wanted.tenant,
        effort: wanted.effort,
        bytes: contents.saturating_add(wanted.extra_bytes),
    };
    if !request.is_large() {
        let permit = request.permit().await.ok_or(ContentError::Overloaded)?;
        return Ok((found, permit));
    }
    if let Some(permit) = request.try_permit() {
        return Ok((found, permit));
    }
    // Versions never change: they are read once more when it is their turn.
    drop(found);
    let permit = request.permit().await.ok_or(ContentError::Overloaded)?;
    Ok((frames(store, wanted, numbers).await?, permit))
}

async fn frames(
    store: &Arc<dyn Store>,
    wanted: ContentQuery,
    numbers: &[u64],
) -> Result<Vec<FramedVersion>, ContentError> {
    let readings: Vec<_> = numbers
        .iter()
        .map(|number| store.version(wanted.tenant, wanted.document, *number))
        .collect();
    let mut found = Vec::with_capacity(readings.len());
    for reading in readings {
        found.push(reading.await?.ok_or(ContentError::NotFound)?);
    }
    Ok(found)
}

/// A version's content out of its chain of frames.
///
/// # Errors
/// The frames of this version are damaged; it is told.
pub(super) fn unpack(frames: &[Bytes], document: Subject, number: u64) -> Option<(String, Frame)> {
    // As much as its maker wrote down that it takes: it may have been accepted under a wider bound
    // than today's.
    let bytes_max = unpacked_bytes(frames);
    let frames: Result<Vec<Frame>, _> = frames
        .iter()
        .map(|bytes| Frame::from_bytes(bytes.clone()))
        .collect();
    let unpacked = frames.and_then(|frames| Ok((decode_chain(&frames, bytes_max)?, frames)));
    let place = || format!("{document}: the frames of version {number}");
    let (content, frames) = unpacked
        .map_err(|error| Unreadable::found(place(), error))
        .ok()?;
    Some((content, frames.last()?.clone()))
}

/// Bytes of the content that these frames hold.
fn content_bytes(frames: &[Bytes]) -> usize {
    let last = frames
        .last()
        .and_then(|bytes| Frame::from_bytes(bytes.clone()).ok());
    last.and_then(|frame| frame.content_bytes(usize::MAX).ok())
        .unwrap_or(0)
}

/// Bytes that unpacking these frames makes, those of the versions before it included.
pub(super) fn unpacked_bytes(frames: &[Bytes]) -> usize {
    let last = frames
        .last()
        .and_then(|bytes| Frame::from_bytes(bytes.clone()).ok());
    last.map_or(0, |frame| {
        usize::try_from(frame.place().chain_bytes).unwrap_or(usize::MAX)
    })
}
