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
pub struct Precompute {
    pub(super) document: Subject,
    /// The tenant for whom is computed: tenants take turns.
    pub(super) tenant: Tenant,
    pub(super) task: Task,
    /// Comments that are to follow, where a new head is made.
    pub(super) following: Option<Following>,
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

#[derive(Debug)]
pub(super) enum Task {
    /// Encode a content, against its parent's where there is one.
    Encode {
        content: Arc<str>,
        parent: Option<u64>,
    },
    /// Encode an older version's content against its parent's.
    Copy { version: u64, parent: u64 },
    /// Count a version's lines.
    Count { version: u64 },
}

/// The result of a [`Precompute`].
#[derive(Debug)]
pub enum PrecomputeResult {
    /// An encoded content.
    Encoded(EncodedVersion),
    /// How many lines the version has.
    LineCount(usize),
}

/// A content, encoded and ready to be stored as a version.
#[derive(Debug)]
pub struct EncodedVersion {
    pub(super) frame: Bytes,
    /// The version that the frame is against.
    pub(super) base: Option<u64>,
    /// Whether the content is the same as the parent's.
    pub(super) same: bool,
    /// The comments that have followed it, where it is a new head that comments follow.
    pub(super) followed: Option<Followed>,
}

/// Reads the contents that the job needs, and computes it off the arbiter.
///
/// # Errors
/// A content can't be read, or the computation crashed or got no permit in time.
pub(super) fn run(
    store: Arc<dyn Store>,
    job: Precompute,
) -> BoxFuture<Result<PrecomputeResult, LoadError>> {
    Box::pin(async move {
        let numbers = job.needs();
        let wanted = ContentQuery {
            document: job.document,
            tenant: job.tenant,
            effort: job.effort(),
            extra_bytes: job.extra_bytes(),
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

pub(super) type Chains = [(u64, Vec<Bytes>)];

fn content(chains: &Chains, document: Subject, number: u64) -> Option<(String, Frame)> {
    let (_, frames) = chains.iter().find(|(known, _)| *known == number)?;
    unpack(frames, document, number)
}

impl Precompute {
    /// The versions whose contents it reads, each once.
    pub(super) fn needs(&self) -> Vec<u64> {
        let mut needs: Vec<u64> = match &self.task {
            Task::Encode { parent, .. } => parent.iter().copied().collect(),
            Task::Copy { version, parent } => vec![*version, *parent],
            Task::Count { version } => vec![*version],
        };
        needs.extend(self.following.as_ref().map(|following| following.head));
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    fn effort(&self) -> Effort {
        if self.following.is_some() {
            Effort::Comparison
        } else {
            Effort::Linear
        }
    }

    /// Bytes that it goes over beside the versions.
    fn extra_bytes(&self) -> usize {
        match &self.task {
            Task::Encode { content, .. } => content.len(),
            Task::Copy { .. } | Task::Count { .. } => 0,
        }
    }

    pub(super) fn compute(&self, chains: &Chains) -> Option<PrecomputeResult> {
        match &self.task {
            Task::Encode { content, parent } => self.encode(chains, content, *parent),
            Task::Copy { version, parent } => self.encode(
                chains,
                &content(chains, self.document, *version)?.0,
                Some(*parent),
            ),
            Task::Count { version } => Some(PrecomputeResult::LineCount(count_lines(
                &content(chains, self.document, *version)?.0,
            ))),
        }
    }

    fn encode(&self, chains: &Chains, text: &str, parent: Option<u64>) -> Option<PrecomputeResult> {
        let held = match parent {
            Some(number) => Some((number, content(chains, self.document, number)?)),
            None => None,
        };
        let head = match &self.following {
            Some(comments) => Some((content(chains, self.document, comments.head)?.0, comments)),
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
        encode_version(text, parent, old_head, &budget).map(PrecomputeResult::Encoded)
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
