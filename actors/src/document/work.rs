//! What a document's commands compute before they are decided: reading contents, packing, comparing. It happens on threads of
//! its own, off the arbiters, while the document waits; so it is made from exactly the state that the decision meets. Merges
//! are `merging`: nobody waits for these but their caller.

use std::sync::Arc;

use bytes::Bytes;

use super::anchors::{self, count_lines};
use super::diff::line_diff;
use super::frames::{Base, Frame, decode_chain, encode};
use crate::bounds::Bounds;
use crate::caller::Scope;
use crate::damage::Unreadable;
use crate::offload;
use crate::runtime::{BoxFuture, LoadError};
use crate::store::{Store, Subject};

/// What is to be computed.
#[derive(Debug)]
pub struct Job {
    /// Whose data.
    pub(super) scope: Scope,
    pub(super) document: Subject,
    pub(super) task: Task,
    /// The head, where comments stand on its lines that are to follow a new one.
    pub(super) anchored_at: Option<u64>,
}

#[derive(Debug)]
pub(super) enum Task {
    /// Pack a content, against its parent's where there is one.
    Pack { content: Arc<str>, parent: Option<u64> },
    /// Pack an older version's content against its parent's.
    Copy { version: u64, parent: u64 },
    /// Count a version's lines.
    Count { version: u64 },
}

/// What was computed.
#[derive(Debug)]
pub enum Worked {
    /// A content, ready to be stored.
    Packed(Packed),
    /// How many lines the version has.
    Lines(usize),
}

/// A content, ready to be stored.
#[derive(Debug)]
pub struct Packed {
    pub(super) frame: Bytes,
    /// The version that the frame is against.
    pub(super) base: Option<u64>,
    /// Whether it is the parent's content.
    pub(super) same: bool,
    /// How lines of the head move, where that was asked for.
    pub(super) moves: Vec<anchors::Hunk>,
}

/// Reads what the job needs and computes it.
pub(super) fn run(store: &dyn Store, job: Job) -> BoxFuture<Result<Worked, LoadError>> {
    let readings: Vec<_> =
        job.needs().into_iter().map(|number| (number, store.version(job.scope, job.document, number))).collect();
    let document = job.document;
    Box::pin(async move {
        let mut chains = Vec::new();
        for (number, reading) in readings {
            let missing = || Unreadable::found(format_args!("{document}: version {number}"), "it is not there");
            let (_, frames) = reading.await?.ok_or_else(missing).map_err(|_| LoadError::Unreadable)?;
            chains.push((number, frames));
        }
        let bytes: usize = chains.iter().map(|(_, frames)| unpacked_bytes(frames)).sum();
        let worked = match job.packs() {
            Some(content) => offload::go_over(bytes + content, move || job.compute(&chains)).await,
            None => offload::compute(bytes, move || job.compute(&chains)).await,
        };
        // A panic in there, or what can't be read, was reported where it happened.
        worked.flatten().ok_or(LoadError::Unreadable)
    })
}

/// A version's content out of its chain of frames.
///
/// # Errors
/// The frames of this version are damaged; it is told.
pub(super) fn unpack(frames: &[Bytes], (document, number): (Subject, u64)) -> Option<(String, Frame)> {
    let frames: Result<Vec<Frame>, _> = frames.iter().map(|bytes| Frame::from_bytes(bytes.clone())).collect();
    let unpacked = frames.and_then(|frames| Ok((decode_chain(&frames, Bounds::get().document_bytes_max)?, frames)));
    let place = || format!("{document}: the frames of version {number}");
    let (content, frames) = unpacked.map_err(|error| Unreadable::found(place(), error)).ok()?;
    Some((content, frames.last()?.clone()))
}

/// Bytes that unpacking these frames makes.
pub(super) fn unpacked_bytes(frames: &[Bytes]) -> usize {
    let last = frames.last().and_then(|bytes| Frame::from_bytes(bytes.clone()).ok());
    last.map_or(0, |frame| usize::try_from(frame.place().chain_bytes).unwrap_or(usize::MAX))
}

pub(super) type Chains = [(u64, Vec<Bytes>)];

fn content(chains: &Chains, (document, number): (Subject, u64)) -> Option<(String, Frame)> {
    let (_, frames) = chains.iter().find(|(known, _)| *known == number)?;
    unpack(frames, (document, number))
}

impl Job {
    /// The versions whose contents it reads, each once.
    pub(super) fn needs(&self) -> Vec<u64> {
        let mut needs: Vec<u64> = match &self.task {
            Task::Pack { parent, .. } => parent.iter().copied().collect(),
            Task::Copy { version, parent } => vec![*version, *parent],
            Task::Count { version } => vec![*version],
        };
        needs.extend(self.anchored_at);
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// Bytes of the content that it packs, where it does nothing else: to compare can take long over few bytes.
    fn packs(&self) -> Option<usize> {
        match &self.task {
            Task::Pack { content, .. } if self.anchored_at.is_none() => Some(content.len()),
            Task::Pack { .. } | Task::Copy { .. } | Task::Count { .. } => None,
        }
    }

    pub(super) fn compute(&self, chains: &Chains) -> Option<Worked> {
        match &self.task {
            Task::Pack { content, parent } => self.pack(chains, content, *parent),
            Task::Copy { version, parent } => {
                self.pack(chains, &content(chains, (self.document, *version))?.0, Some(*parent))
            }
            Task::Count { version } => Some(Worked::Lines(count_lines(&content(chains, (self.document, *version))?.0))),
        }
    }

    fn pack(&self, chains: &Chains, text: &str, parent: Option<u64>) -> Option<Worked> {
        let held = match parent {
            Some(parent) => Some((parent, content(chains, (self.document, parent))?)),
            None => None,
        };
        let head = match self.anchored_at {
            Some(head) => Some(content(chains, (self.document, head))?.0),
            None => None,
        };
        let parent = held.as_ref().map(|(number, (content, frame))| (*number, content.as_str(), frame));
        pack(text, parent, head.as_deref()).map(Worked::Packed)
    }
}

/// Packs a text, against its parent's where there is one; `head` is the text whose lines move.
pub(super) fn pack(text: &str, parent: Option<(u64, &str, &Frame)>, head: Option<&str>) -> Option<Packed> {
    let base = parent.map(|(_, content, frame)| Base { content, place: frame.place() });
    let frame = encode(text, base).inspect_err(|error| tracing::error!(%error, "a version can't be packed")).ok()?;
    let same = parent.is_some_and(|(_, content, _)| content == text);
    let base = parent.map(|(number, ..)| number).filter(|_| !frame.is_keyframe());
    let moves = head.map(|head| moves(head, text)).unwrap_or_default();
    Some(Packed { frame: frame.bytes().clone(), base, same, moves })
}

/// How lines move from one text to the next.
fn moves(old: &str, new: &str) -> Vec<anchors::Hunk> {
    let from = |start: usize, lines: usize| if lines == 0 { start } else { start.saturating_sub(1) };
    line_diff(old, new, 0)
        .hunks
        .iter()
        .map(|hunk| {
            let (old, new) = (from(hunk.old_start, hunk.old_lines), from(hunk.new_start, hunk.new_lines));
            anchors::Hunk::new(old, hunk.old_lines, new, hunk.new_lines)
        })
        .collect()
}
