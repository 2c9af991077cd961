//! What a handler returns, in terms of what was found or done; `response.rs` makes the HTTP response
//! of it.

use std::ops::Range;

use bytes::Bytes;
use colloquy_actors::attachments::Content;
use colloquy_actors::limiter::RateLimitStatus;
use colloquy_model::answer::Answer;
use colloquy_model::page::{Page, Paging};

use super::budget::BytesPermit;
use super::problem::Problem;
use super::realtime::{EventStream, SocketOpening};
use crate::shared_caches::SharedCaching;

/// What a handler gives, from which the response is made.
pub(crate) enum Output {
    /// The answer of an entity, with its tag and identifier.
    Answer(Answer),
    /// An answer that never changes: caches may keep it for ever.
    Immutable(Answer),
    /// What a share link opens, which shared caches may keep.
    Shared(Answer, SharedCaching),
    /// One page of a list, with its links.
    Page(Listing),
    /// What the edge itself knows.
    Text(Text),
    /// What was asked for is done; this page shows it.
    SeeOther(String),
    /// What became of each operation of many, and the caller's limits after the last of them.
    Bulk(Vec<BulkOutcome>, Option<RateLimitStatus>),
    /// The content of a file, or a part of it.
    File(Box<FileContent>),
    /// A stream of events as they happen.
    Events(Box<EventStream>),
    /// The WebSocket that the connection becomes.
    WebSocket(Box<SocketOpening>),
}

/// Bytes of a file, on their way to somebody who may read it.
pub(crate) struct FileContent {
    pub(crate) content: Content,
    /// The bytes of the file, and which of them these are; none: all.
    pub(crate) length: u64,
    pub(crate) part: Option<Range<u64>>,
    /// The entity tag, without quotation marks.
    pub(crate) etag: String,
    pub(crate) content_type: &'static str,
    /// Whether it is shown or downloaded, and by which name.
    pub(crate) disposition: String,
}

/// What became of one operation of many.
pub(crate) type BulkOutcome = Result<Answer, Problem>;

/// A page and what was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    pub(crate) page: Page,
    pub(crate) paging: Paging,
    pub(crate) style: LinkStyle,
}

/// Which parameters the links to a list's other pages carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkStyle {
    /// By `offset`, or by the identifiers of `after` and `before`.
    Plain,
    /// By `after_seq` and `before_seq`.
    Sequence,
    /// By a cursor, the page's last; there is always a next page.
    Cursor,
}

/// A text that is ready to be sent, with its type.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) body: Bytes,
    pub(crate) media_type: &'static str,
    pub(crate) cache: CachePolicy,
    /// What it holds of the room for large answers, where that was found before it was made.
    pub(crate) room: Option<BytesPermit>,
}

/// What caches may do with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CachePolicy {
    /// No cache may store the answer.
    NoStore,
    /// Store it for everybody, and revalidate it each time.
    Public,
    /// Store it for everybody for ever: its address names its version.
    PublicLasting,
    /// Store it for the caller alone, and revalidate it each time.
    Private,
    /// The same for a list, whose tag is weak.
    PrivateList,
    /// Store it for everybody, for so long.
    Shared(SharedCaching),
}

impl From<Answer> for Output {
    fn from(answer: Answer) -> Self {
        Output::Answer(answer)
    }
}
