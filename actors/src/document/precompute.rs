//! What a document's commands compute before they are decided: reading contents, packing,
//! comparing. It happens on threads of its own, off the arbiters, while the document waits; so it
//! is made from exactly the state that the decision meets. Merges are in `merge`: nobody waits for
//! these but their caller.

use std::sync::Arc;

use bytes::Bytes;
use colloquy_merge::StepBudget;
use colloquy_merge::diff::{Change, changes};

use super::anchors::count_lines;
use super::comments::{Anchors, Moved};
use super::content_reader::{self, ContentQuery, unpack};
use super::frames::{Base, Frame, encode};
use crate::store::Store;
use colloquy_model::bounds::Bounds;
use colloquy_model::caller::Tenant;
use colloquy_model::entity::Subject;
use colloquy_runtime::offload::Effort;
use colloquy_runtime::{BoxFuture, LoadError};

/// What a command needs computed off the arbiter before it is decided.
#[derive(Debug)]
pub struct Precompute<T> {
    pub(super) document: Subject,
    /// The tenant for whom is computed: tenants take turns.
    pub(super) tenant: Tenant,
    pub(super) task: T,
}

/// Something to compute over contents of one document.
pub trait Task: Send + 'static {
    /// The result.
    type Result: Send + 'static;

    /// The versions whose contents it reads; a version may be named twice.
    fn reads(&self) -> Vec<u64>;

    /// How much work it is for its number of bytes.
    fn effort(&self) -> Effort {
        Effort::Linear
    }

    /// Bytes that it goes over beside the versions.
    fn extra_bytes(&self) -> usize {
        0
    }

    /// Computes it. None where a content can't be read or written, which is logged.
    fn compute(&self, contents: &Contents<'_>) -> Option<Self::Result>;
}

/// Encodes a content as a version.
#[derive(Debug)]
pub struct EncodeVersion {
    pub(super) text: VersionText,
    /// The version against which it is encoded, where there is one.
    pub(super) parent: Option<u64>,
    /// Comments that are to follow, where a new head is made.
    pub(super) following: Option<Following>,
}

/// The content of a version that is to be encoded.
#[derive(Debug)]
pub(super) enum VersionText {
    /// The content as it was given.
    Given(Arc<str>),
    /// The content of an older version.
    CopyOf(u64),
}

/// Counts the lines of a version.
#[derive(Debug)]
pub struct CountLines {
    pub(super) version: u64,
}

/// Comments that are to follow a new head.
#[derive(Debug, Clone)]
pub(super) struct Following {
    /// The head on whose lines they stand.
    pub(super) head: u64,
    pub(super) anchors: Arc<Anchors>,
}

/// Comments that have followed a new head.
#[derive(Debug)]
pub(super) struct Followed {
    /// Where the comments stood on the old head.
    pub(super) before: Following,
    /// How the lines of the old head move.
    pub(super) moves: Vec<Change>,
    /// Where the comments stand on the new head.
    pub(super) moved: Moved,
}

/// A content, encoded and ready to be stored as a version.
#[derive(Debug)]
pub struct EncodedVersion {
    pub(super) frame: Bytes,
    /// The version that the frame is against.
    pub(super) base: Option<u64>,
    /// Whether the content is the same as the parent's.
    pub(super) same: bool,
    /// How many bytes the content has.
    pub(super) bytes: usize,
    /// The comments that have followed it, where it is a new head that comments follow.
    pub(super) followed: Option<Followed>,
}

/// Reads the contents that the job needs, and computes it off the arbiter.
///
/// # Errors
/// A content can't be read, or the computation crashed or got no permit in time.
pub(super) fn run<T: Task>(
    store: Arc<dyn Store>,
    job: Precompute<T>,
) -> BoxFuture<Result<T::Result, LoadError>> {
    Box::pin(async move {
        let numbers = job.needs();
        let wanted = ContentQuery {
            document: job.document,
            tenant: job.tenant,
            effort: job.task.effort(),
            extra_bytes: job.task.extra_bytes(),
        };
        let (found, permit) = content_reader::read(&store, wanted, &numbers).await?;
        let chains: Vec<_> = numbers
            .into_iter()
            .zip(found.into_iter().map(|one| one.frames))
            .collect();
        // A panic in there, or what can't be read, was reported where it happened.
        permit
            .run(move || job.compute(&chains))
            .await
            .flatten()
            .ok_or(LoadError::Unreadable)
    })
}

/// The frames of some versions, by their numbers: each with those that it stands on.
pub(super) type Chains = [(u64, Vec<Bytes>)];

/// Contents of one document, unpacked when they are asked for.
#[derive(Debug)]
pub struct Contents<'c> {
    document: Subject,
    chains: &'c Chains,
}

impl Contents<'_> {
    fn version(&self, number: u64) -> Option<(String, Frame)> {
        let (_, frames) = self.chains.iter().find(|(known, _)| *known == number)?;
        unpack(frames, self.document, number)
    }
}

impl<T: Task> Precompute<T> {
    /// The versions whose contents it reads, each once.
    pub(super) fn needs(&self) -> Vec<u64> {
        let mut needs = self.task.reads();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    pub(super) fn compute(&self, chains: &Chains) -> Option<T::Result> {
        self.task.compute(&Contents {
            document: self.document,
            chains,
        })
    }
}

impl Task for EncodeVersion {
    type Result = EncodedVersion;

    fn reads(&self) -> Vec<u64> {
        let copied = match self.text {
            VersionText::Given(_) => None,
            VersionText::CopyOf(version) => Some(version),
        };
        let head = self.following.as_ref().map(|following| following.head);
        copied.into_iter().chain(self.parent).chain(head).collect()
    }

    fn effort(&self) -> Effort {
        if self.following.is_some() {
            Effort::Comparison
        } else {
            Effort::Linear
        }
    }

    fn extra_bytes(&self) -> usize {
        match &self.text {
            VersionText::Given(text) => text.len(),
            VersionText::CopyOf(_) => 0,
        }
    }

    fn compute(&self, contents: &Contents<'_>) -> Option<EncodedVersion> {
        let copied;
        let text = match &self.text {
            VersionText::Given(text) => text,
            VersionText::CopyOf(version) => {
                copied = contents.version(*version)?.0;
                copied.as_str()
            }
        };
        let held = match self.parent {
            Some(number) => Some((number, contents.version(number)?)),
            None => None,
        };
        let head = match &self.following {
            Some(comments) => Some((contents.version(comments.head)?.0, comments)),
            None => None,
        };
        let parent = held.as_ref().map(|(number, (content, frame))| Parent {
            number: *number,
            content,
            frame,
        });
        let old_head = head
            .as_ref()
            .map(|(content, comments)| OldHead { content, comments });
        // A change is made whether its caller waits or not.
        let budget = StepBudget::new(Bounds::get().comparison_steps_max);
        encode_version(text, parent, old_head, &budget)
    }
}

impl Task for CountLines {
    type Result = usize;

    fn reads(&self) -> Vec<u64> {
        vec![self.version]
    }

    fn compute(&self, contents: &Contents<'_>) -> Option<usize> {
        Some(count_lines(&contents.version(self.version)?.0))
    }
}

/// The version against which a new one is encoded.
#[derive(Clone, Copy)]
pub(super) struct Parent<'a> {
    pub(super) number: u64,
    pub(super) content: &'a str,
    pub(super) frame: &'a Frame,
}

/// The head that a new one takes the place of, where comments on its lines follow.
#[derive(Clone, Copy)]
pub(super) struct OldHead<'a> {
    pub(super) content: &'a str,
    pub(super) comments: &'a Following,
}

/// Encodes a text as a version, against its parent where there is one, and lets the comments on the
/// old head follow it. None where it can't be compressed, which is logged.
pub(super) fn encode_version(
    text: &str,
    parent: Option<Parent<'_>>,
    old_head: Option<OldHead<'_>>,
    budget: &StepBudget,
) -> Option<EncodedVersion> {
    let base = parent.map(|parent| Base {
        content: parent.content,
        place: parent.frame.place(),
    });
    let frame = encode(text, base)
        .inspect_err(|error| tracing::error!(%error, "a version can't be packed"))
        .ok()?;
    let followed = old_head.map(|head| {
        let moves = changes(head.content, text, budget);
        head.comments.followed(moves)
    });
    Some(EncodedVersion {
        base: parent
            .map(|parent| parent.number)
            .filter(|_| !frame.is_keyframe()),
        same: parent.is_some_and(|parent| parent.content == text),
        bytes: text.len(),
        frame: frame.bytes().clone(),
        followed,
    })
}

impl Following {
    /// Lets the comments follow a new head whose lines differ in these places.
    fn followed(&self, moves: Vec<Change>) -> Followed {
        let moved = self.anchors.followed(self.head, &moves);
        Followed {
            before: self.clone(),
            moves,
            moved,
        }
    }
}
