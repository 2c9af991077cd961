//! How contents of versions are kept: each as a zstd frame, alone (a keyframe) or as what it adds
//! to another version's content. Knows texts and bytes only; which version stands on which is the
//! store's to remember.
//!
//! A chain is a keyframe and the frames that stand on it, one on the other. It ends where reading
//! its last content would cost too much, so that a thousandth version is read as fast as a tenth.

use bytes::{Bytes, BytesMut};
use sha2::{Digest, Sha256};
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx};

/// The first byte of every frame: a later layout gets another.
const LAYOUT: u8 = 1;
const DIGEST_BYTES: usize = 8;
/// Layout, depth, bytes of the chain, digest.
const HEADER_BYTES: usize = 1 + 2 + 4 + DIGEST_BYTES;
/// Frames of a chain, the keyframe not counted. A keyframe costs what some hundred small edits
/// cost.
pub const CHAIN_FRAMES_MAX: u16 = 250;
/// Of a short text a keyframe costs less, and reading many frames is most of the work with it: one
/// frame for so many bytes …
const FRAME_BYTES: usize = 400;
/// … but at least so many.
const CHAIN_FRAMES_MIN: u16 = 16;
/// Bytes of content that reading a chain's last frame may unpack, beyond the content itself: about
/// 15 ms.
pub const CHAIN_BYTES_MAX: u32 = 64 << 20;
/// zstd's own middle: more buys few bytes for much time.
const LEVEL: i32 = 3;
/// From here on a match may lie so far back that the ordinary search forgets it.
const LONG_RANGE_BYTES: usize = 1 << 20;
/// The largest window that a decoder accepts unasked.
const WINDOW_LOG_MAX: u32 = 27;
const WINDOW_LOG_MIN: u32 = 10;

/// Why a content could not be packed or unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes are not those that were written, or the base is not the content that they stand
    /// on.
    #[error("the frame is damaged or stands on another content")]
    Damaged,
    /// A keyframe was given a base, or another frame none.
    #[error("a keyframe stands alone, every other frame on a base")]
    Base,
    /// It would unpack to more than is allowed; nothing was unpacked.
    #[error("the content would be larger than {bytes_max} bytes")]
    TooLarge {
        /// The most bytes that were allowed.
        bytes_max: usize,
    },
    /// The library had no memory, or refused.
    #[error("the content can't be compressed")]
    Refused,
}

/// Where a frame stands in its chain, and what unpacking it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Frames between it and its keyframe; 0: it is one.
    pub depth: u16,
    /// Bytes of all contents from the keyframe to this one: what reading it unpacks.
    pub chain_bytes: u32,
}

impl Place {
    /// Whether a content of this length must begin a chain of its own instead of standing on the
    /// frame in this place. So a writer knows, before it reads the base, that it needs none.
    #[must_use]
    pub fn keyframe_due(self, content_bytes: usize) -> bool {
        let frames_max = u16::try_from(content_bytes / FRAME_BYTES).unwrap_or(u16::MAX);
        self.depth >= frames_max.clamp(CHAIN_FRAMES_MIN, CHAIN_FRAMES_MAX)
            || self.chain_bytes.saturating_add(bounded(content_bytes)) > CHAIN_BYTES_MAX
    }
}

/// The version against which a new content is encoded.
#[derive(Debug, Clone, Copy)]
pub struct Base<'a> {
    /// The other version's content.
    pub content: &'a str,
    /// The place of the frame that holds it.
    pub place: Place,
}

/// An encoded content: a zstd frame with its place in a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    place: Place,
    digest: [u8; DIGEST_BYTES],
    bytes: Bytes,
}

impl Frame {
    /// Takes what [`Frame::bytes`] gave. Only the header is looked at; the rest is checked when it
    /// is unpacked.
    ///
    /// # Errors
    /// [`FrameError::Damaged`] where these bytes are no frame.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, FrameError> {
        let (header, _) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(FrameError::Damaged)?;
        let [layout, d0, d1, c0, c1, c2, c3, digest @ ..] = *header;
        if layout != LAYOUT {
            return Err(FrameError::Damaged);
        }
        let place = Place {
            depth: u16::from_le_bytes([d0, d1]),
            chain_bytes: u32::from_le_bytes([c0, c1, c2, c3]),
        };
        Ok(Frame {
            place,
            digest,
            bytes,
        })
    }

    /// The bytes to be stored.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its place in its chain.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether it stands alone.
    #[must_use]
    pub fn is_keyframe(&self) -> bool {
        self.place.depth == 0
    }

    fn packed(&self) -> &[u8] {
        self.bytes.get(HEADER_BYTES..).unwrap_or_default()
    }

    /// Bytes of its content, as its maker wrote them down.
    pub(super) fn content_bytes(&self, bytes_max: usize) -> Result<usize, FrameError> {
        let stated = zstd_safe::get_frame_content_size(self.packed())
            .ok()
            .flatten()
            .ok_or(FrameError::Damaged)?;
        usize::try_from(stated)
            .ok()
            .filter(|bytes| *bytes <= bytes_max)
            .ok_or(FrameError::TooLarge { bytes_max })
    }

    fn checked(&self, content: Vec<u8>) -> Result<String, FrameError> {
        if digest(&content) != self.digest {
            return Err(FrameError::Damaged);
        }
        String::from_utf8(content).map_err(|_| FrameError::Damaged)
    }
}

/// Packs a content; on the base where that saves something and its chain takes another frame, else
/// as a keyframe: [`Frame::is_keyframe`] tells. Computes (8 MiB: some 0.1 s): not for an arbiter.
///
/// # Errors
/// [`FrameError::Refused`] where there is no memory for it.
pub fn encode(content: &str, base: Option<Base<'_>>) -> Result<Frame, FrameError> {
    let alone = || {
        let place = Place {
            depth: 0,
            chain_bytes: bounded(content.len()),
        };
        Ok(assemble(content, place, &pack(content.as_bytes(), &[])?))
    };
    let Some(base) = base.filter(|base| !base.place.keyframe_due(content.len())) else {
        return alone();
    };
    let patch = pack(content.as_bytes(), base.content.as_bytes())?;
    let place = Place {
        depth: base.place.depth + 1,
        chain_bytes: base
            .place
            .chain_bytes
            .saturating_add(bounded(content.len())),
    };
    let patch = assemble(content, place, &patch);
    // A rewritten text gains nothing from its base: a keyframe of the same size gives the chain a
    // new beginning.
    if patch.bytes.len() > content.len() / 8 {
        let keyframe = alone()?;
        if patch.bytes.len() > keyframe.bytes.len() / 4 * 3 {
            return Ok(keyframe);
        }
    }
    Ok(patch)
}

/// Unpacks one frame. What comes back is the content that was packed, or an error: a digest of it
/// stands in the frame. `bytes_max` bounds the memory that a damaged frame can ask for; to lower it
/// hides larger contents.
///
/// # Errors
/// See [`FrameError`].
pub fn decode(frame: &Frame, base: Option<&str>, bytes_max: usize) -> Result<String, FrameError> {
    let base = base.map(str::as_bytes);
    frame.checked(unpack(frame, base, bytes_max)?)
}

/// Unpacks the last of these frames, which are its whole chain, the keyframe first. Only the last
/// content is checked against its digest: it is right exactly if all that it took from the others
/// is.
///
/// # Errors
/// See [`FrameError`]; [`FrameError::Base`] also where there is no frame, or the chain has a gap.
pub fn decode_chain(chain: &[Frame], bytes_max: usize) -> Result<String, FrameError> {
    let mut content = None;
    for (depth, frame) in chain.iter().enumerate() {
        if usize::from(frame.place.depth) != depth {
            return Err(FrameError::Base);
        }
        content = Some(unpack(frame, content.as_deref(), bytes_max)?);
    }
    let (content, last) = content.zip(chain.last()).ok_or(FrameError::Base)?;
    last.checked(content)
}

fn bounded(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn digest(content: &[u8]) -> [u8; DIGEST_BYTES] {
    Sha256::digest(content)
        .first_chunk()
        .copied()
        .unwrap_or_default()
}

fn assemble(content: &str, place: Place, packed: &[u8]) -> Frame {
    let digest = digest(content.as_bytes());
    let mut bytes = BytesMut::with_capacity(HEADER_BYTES + packed.len());
    bytes.extend_from_slice(&[LAYOUT]);
    bytes.extend_from_slice(&place.depth.to_le_bytes());
    bytes.extend_from_slice(&place.chain_bytes.to_le_bytes());
    bytes.extend_from_slice(&digest);
    bytes.extend_from_slice(packed);
    Frame {
        place,
        digest,
        bytes: bytes.freeze(),
    }
}

/// One zstd frame, with `base` as what `zstd --patch-from` calls the reference.
fn pack(content: &[u8], base: &[u8]) -> Result<Vec<u8>, FrameError> {
    let mut context = CCtx::try_create().ok_or(FrameError::Refused)?;
    let whole = content.len().saturating_add(base.len());
    let mut parameters = vec![
        CParameter::CompressionLevel(LEVEL),
        CParameter::ContentSizeFlag(true),
    ];
    if !base.is_empty() {
        // The window must reach from the content's end to the base's beginning.
        let window = whole.max(1).ilog2() + 1;
        parameters.push(CParameter::WindowLog(
            window.clamp(WINDOW_LOG_MIN, WINDOW_LOG_MAX),
        ));
        parameters.push(CParameter::EnableLongDistanceMatching(
            whole > LONG_RANGE_BYTES,
        ));
    }
    for parameter in parameters {
        context
            .set_parameter(parameter)
            .map_err(|_| FrameError::Refused)?;
    }
    context.ref_prefix(base).map_err(|_| FrameError::Refused)?;
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
    context
        .compress2(&mut packed, content)
        .map_err(|_| FrameError::Refused)?;
    Ok(packed)
}

fn unpack(frame: &Frame, base: Option<&[u8]>, bytes_max: usize) -> Result<Vec<u8>, FrameError> {
    if frame.is_keyframe() != base.is_none() {
        return Err(FrameError::Base);
    }
    let mut content = Vec::with_capacity(frame.content_bytes(bytes_max)?);
    let mut context = DCtx::try_create().ok_or(FrameError::Refused)?;
    context
        .ref_prefix(base.unwrap_or_default())
        .map_err(|_| FrameError::Refused)?;
    context
        .decompress(&mut content, frame.packed())
        .map_err(|_| FrameError::Damaged)?;
    Ok(content)
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
