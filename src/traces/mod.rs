//! Traces: what some requests did from their head to the deliveries of their events, sent to an
//! OpenTelemetry collector where `[traces]` names one.
//!
//! - `context.rs` which requests, and under which identifiers
//! - `span.rs` spans as OpenTelemetry has them
//! - `exporting.rs` the thread that sends them

mod context;
mod exporting;
mod span;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use colloquy_actors::metrics::MetricsWriter;
use colloquy_actors::system::System;
use colloquy_model::position::Position;
use colloquy_runtime::threads::BackgroundThread;
use colloquy_runtime::traces::{Recorder, Span, Trace, record_by};
use opentelemetry::KeyValue;
use opentelemetry_otlp::ExporterBuildError;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use self::exporting::{Message, Sender};
use self::span::AnsweredRequest;
use crate::config;
use crate::courier::CourierError;

/// Spans that wait to be sent. What comes beyond them is lost, and counted.
const QUEUE: usize = 8_192;
/// Traced requests that are remembered, so that deliveries of their events are found to be of the same
/// trace.
const REMEMBERED: usize = 4_096;
/// How long the end of the process waits for what is to be sent.
const FLUSH: Duration = Duration::from_secs(2);

/// Why no traces are made although the settings name a collector.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// No client can be made.
    #[error(transparent)]
    Client(#[from] CourierError),
    /// The client can't be made to speak OTLP.
    #[error("[traces] can't be used: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// The system starts no further thread.
    #[error("can't start the thread that sends traces: {0}")]
    Thread(#[from] std::io::Error),
}

/// The traces of this process.
pub(crate) struct Traces {
    recording: Arc<Recording>,
    _thread: BackgroundThread,
}

/// A request that is traced and not answered yet.
pub(crate) struct TracedRequest {
    recording: Arc<Recording>,
    trace: Trace,
    id: u64,
    begun: SystemTime,
    since: Instant,
}

/// What is recorded, and what becomes of it.
pub(super) struct Recording {
    ratio: f64,
    queue: mpsc::Sender<Message>,
    remembered: Mutex<Remembered>,
    sent: AtomicU64,
    lost: AtomicU64,
}

/// The latest traced requests: where their spans belong.
#[derive(Default)]
struct Remembered {
    traces: HashMap<Arc<str>, Trace>,
    oldest: VecDeque<Arc<str>>,
}

impl Traces {
    /// Starts recording; nothing where the settings name no collector.
    ///
    /// # Errors
    /// The settings can't be used, or there is no thread for it.
    pub(crate) fn start(
        settings: &config::Traces,
        system: &Arc<System>,
    ) -> Result<Option<Self>, TracesError> {
        if settings.endpoint.is_empty() {
            return Ok(None);
        }
        let (queue, told) = mpsc::channel(QUEUE);
        let recording = Arc::new(Recording {
            ratio: settings.ratio,
            queue,
            remembered: Mutex::default(),
            sent: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        });
        let sender = Arc::new(Sender {
            recording: Arc::clone(&recording),
            exporter: exporting::exporter(settings)?,
            system: Arc::clone(system),
        });
        let told = Arc::new(tokio::sync::Mutex::new(told));
        let thread = BackgroundThread::start_with_connections("traces", move || {
            let (sender, told) = (Arc::clone(&sender), Arc::clone(&told));
            async move { sender.send_all(&mut *told.lock().await).await }
        })?;
        record_by(Arc::<Recording>::clone(&recording));
        Ok(Some(Traces {
            recording,
            _thread: thread,
        }))
    }

    /// Begins the trace of a request that is sampled, or whose caller's trace is. `parent` is its
    /// `traceparent` header.
    pub(crate) fn begin(
        &self,
        request_id: &Arc<str>,
        parent: Option<&str>,
    ) -> Option<TracedRequest> {
        let recording = &self.recording;
        let called = parent.and_then(context::parent);
        let trace = match called {
            Some(called) => called.is_sampled.then_some(Trace {
                id: called.trace,
                parent: called.span,
            }),
            None => recording
                .sampled(request_id)
                .map(|id| Trace { id, parent: 0 }),
        }?;
        // A caller may name several requests alike, which are different spans all the same.
        let id = match request_id.starts_with("req_") {
            true => context::span_of(request_id),
            false => colloquy_model::random::u64(),
        };
        let inside = Trace {
            parent: id,
            ..trace
        };
        recording.remembered.lock().put(request_id, inside);
        Some(TracedRequest {
            recording: Arc::clone(recording),
            trace,
            id,
            begun: SystemTime::now(),
            since: Instant::now(),
        })
    }

    /// Waits until what was recorded is sent, but not for long.
    pub(crate) async fn flush(&self) {
        let (waiting, sent) = oneshot::channel();
        let flushed = async {
            if self
                .recording
                .queue
                .send(Message::Flush(waiting))
                .await
                .is_ok()
            {
                let _ = sent.await;
            }
        };
        if tokio::time::timeout(FLUSH, flushed).await.is_err() {
            tracing::warn!("the collector takes too long: the last traces are lost");
        }
    }

    pub(crate) fn write_metrics(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let recording = &self.recording;
        out.counters(
            "trace_spans_total",
            "Spans of traces, by whether the collector has them.",
            [
                ([("outcome", "sent")], read(&recording.sent)),
                ([("outcome", "lost")], read(&recording.lost)),
            ],
        )
    }
}

impl TracedRequest {
    /// It is answered. `route` is the path as the table of operations has it.
    pub(crate) fn end(self, name: String, status: u16, attributes: Vec<KeyValue>) {
        let span = span::of_request(AnsweredRequest {
            is_called: self.trace.parent != 0,
            trace: self.trace,
            id: self.id,
            begun: self.begun,
            took: self.since.elapsed(),
            name,
            status,
            attributes,
        });
        self.recording.tell(Message::Span(Box::new(span)));
    }
}

impl Recording {
    /// The trace of a request that is sampled by its own identifier.
    fn sampled(&self, request_id: &str) -> Option<u128> {
        let trace = context::trace_of(request_id);
        context::is_sampled(trace, self.ratio).then_some(trace)
    }

    /// Where the spans of a request belong: of one that is remembered, where it said; of others, where
    /// whichever node has recorded it would have said.
    fn traced(&self, request_id: &str) -> Option<Trace> {
        let remembered = self.remembered.lock().traces.get(request_id).copied();
        remembered.or_else(|| {
            Some(Trace {
                id: self.sampled(request_id)?,
                parent: context::span_of(request_id),
            })
        })
    }

    fn tell(&self, message: Message) {
        if self.queue.try_send(message).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Recorder for Recording {
    fn trace_of(&self, request_id: &str) -> Option<Trace> {
        self.remembered.lock().traces.get(request_id).copied()
    }

    fn record(&self, trace: Trace, span: Span) {
        let span = span::of_span(trace, span);
        self.tell(Message::Span(Box::new(span)));
    }

    fn record_behind(&self, position: Position, span: Span) {
        self.tell(Message::Behind(position, span));
    }
}

impl Remembered {
    fn put(&mut self, request_id: &Arc<str>, trace: Trace) {
        if self.traces.insert(Arc::clone(request_id), trace).is_some() {
            return;
        }
        self.oldest.push_back(Arc::clone(request_id));
        if self.oldest.len() > REMEMBERED
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.traces.remove(&oldest);
        }
    }
}
