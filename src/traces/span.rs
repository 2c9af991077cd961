//! Spans as OpenTelemetry's spans.

use std::time::{Duration, SystemTime};

use colloquy_runtime::traces::{Span, Trace};
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

/// A request that was answered, by the names of OpenTelemetry's conventions for HTTP.
pub(super) struct AnsweredRequest {
    pub(super) trace: Trace,
    pub(super) id: u64,
    /// Whether the span above it is another program's.
    pub(super) is_called: bool,
    pub(super) begun: SystemTime,
    pub(super) took: Duration,
    pub(super) name: String,
    pub(super) status: u16,
    pub(super) attributes: Vec<KeyValue>,
}

/// A request as a span.
pub(super) fn of_request(request: AnsweredRequest) -> SpanData {
    let status = match request.status {
        500.. => Status::error(""),
        _ => Status::Unset,
    };
    SpanData {
        span_kind: SpanKind::Server,
        parent_span_is_remote: request.is_called,
        name: request.name.into(),
        attributes: request.attributes,
        status,
        ..bare(request.trace, request.id, (request.begun, request.took))
    }
}

/// A span of one as a span.
pub(super) fn of_span(trace: Trace, span: Span) -> SpanData {
    let attributes = span.attributes.into_iter();
    SpanData {
        span_kind: match span.name {
            "deliver" => SpanKind::Client,
            _ => SpanKind::Internal,
        },
        name: span.name.into(),
        attributes: attributes
            .map(|(name, value)| KeyValue::new(name, value))
            .collect(),
        status: match span.has_failed {
            true => Status::error(""),
            false => Status::Unset,
        },
        ..bare(trace, span.id, (span.begun, span.took))
    }
}

fn bare(trace: Trace, id: u64, (begun, took): (SystemTime, Duration)) -> SpanData {
    SpanData {
        span_context: SpanContext::new(
            TraceId::from(trace.id),
            SpanId::from(id),
            TraceFlags::SAMPLED,
            false,
            TraceState::NONE,
        ),
        parent_span_id: SpanId::from(trace.parent),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: "".into(),
        start_time: begun,
        end_time: begun + took,
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("colloquy").build(),
    }
}
