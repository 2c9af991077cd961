//! The spans of a request, told to whoever records traces: nobody, until a recorder is installed.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use colloquy_model::position::Position;

static RECORDER: OnceLock<Arc<dyn Recorder>> = OnceLock::new();

/// Where a span belongs, in the terms of W3C Trace Context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    /// The trace of the whole request.
    pub id: u128,
    /// The span of which those that belong here are parts.
    pub parent: u64,
}

/// A span that has ended: something that was done for a request.
#[derive(Debug)]
pub struct Span {
    /// What was done.
    pub name: &'static str,
    /// Its own identifier, under which others may stand.
    pub id: u64,
    /// When it began.
    pub begun: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// Whether it failed.
    pub has_failed: bool,
    /// What else is known of it: identifiers and numbers, never a text of anybody's.
    pub attributes: Vec<(&'static str, String)>,
}

/// Records the spans of some requests. None of its methods may block.
pub trait Recorder: Send + Sync + 'static {
    /// The trace of a request; none where it is not recorded.
    fn trace_of(&self, request_id: &str) -> Option<Trace>;

    /// A span of such a request has ended.
    fn record(&self, trace: Trace, span: Span);

    /// A span has ended that follows from what was committed at this position. Which request that was,
    /// and whether it is recorded, is for the recorder to find out.
    fn record_behind(&self, position: Position, span: Span);
}

/// Lets spans be recorded from now on, until the process ends. The first recorder stays.
pub fn record_by(recorder: Arc<dyn Recorder>) {
    let _ = RECORDER.set(recorder);
}

/// The trace of a request; none where it is not recorded.
pub(crate) fn trace_of(request_id: &str) -> Option<Trace> {
    RECORDER.get()?.trace_of(request_id)
}

/// Tells of a span that follows from what was committed at this position.
pub fn record_behind(position: Position, span: impl FnOnce() -> Span) {
    if let Some(recorder) = RECORDER.get() {
        recorder.record_behind(position, span());
    }
}

/// A span that goes on. Dropped before its end, it is not recorded.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    trace: Trace,
    name: &'static str,
    id: u64,
    begun: SystemTime,
    since: Instant,
}

impl OpenSpan {
    pub(crate) fn begin(trace: Trace, name: &'static str) -> Self {
        OpenSpan {
            trace,
            name,
            id: colloquy_model::random::u64(),
            begun: SystemTime::now(),
            since: Instant::now(),
        }
    }

    /// Where spans belong that are parts of it.
    pub(crate) fn inside(&self) -> Trace {
        Trace {
            parent: self.id,
            ..self.trace
        }
    }

    pub(crate) fn end(self, has_failed: bool, attributes: Vec<(&'static str, String)>) {
        let Some(recorder) = RECORDER.get() else {
            return;
        };
        let span = Span {
            name: self.name,
            id: self.id,
            begun: self.begun,
            took: self.since.elapsed(),
            has_failed,
            attributes,
        };
        recorder.record(self.trace, span);
    }
}
