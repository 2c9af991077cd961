//! The thread that sends recorded spans to a collector, as OTLP over HTTP.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use colloquy_actors::system::System;
use colloquy_model::position::Position;
use colloquy_runtime::traces::Span;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use reqwest::redirect;
use tokio::sync::{mpsc, oneshot};

use super::{Recording, TracesError, span};
use crate::config;
use crate::courier::{CourierError, tls};

/// How long a collector may take for what it is sent.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Spans that are sent at once.
const BATCH: usize = 512;
/// How long one waits for others.
const GATHER: Duration = Duration::from_secs(1);

/// What the thread is told.
pub(super) enum Message {
    /// A span of a request that is recorded.
    Span(Box<SpanData>),
    /// A span that follows from what was committed at this position.
    Behind(Position, Span),
    /// Somebody waits until all that came before is sent.
    Flush(oneshot::Sender<()>),
}

/// Speaks OTLP to the collector that the settings name.
pub(super) fn exporter(settings: &config::Traces) -> Result<SpanExporter, TracesError> {
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls().map_err(CourierError::from)?)
        .redirect(redirect::Policy::none())
        .referer(false)
        .timeout(TIMEOUT)
        .build()
        .map_err(CourierError::from)?;
    let client = Client {
        client,
        authorization: settings.authorization.clone(),
    };
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(settings.endpoint.clone())
        .with_timeout(TIMEOUT)
        .build()?;
    let resource = Resource::builder()
        .with_service_name("colloquy")
        .with_attribute(opentelemetry::KeyValue::new(
            "service.version",
            env!("CARGO_PKG_VERSION"),
        ));
    exporter.set_resource(&resource.build());
    Ok(exporter)
}

/// The client that posts what is exported.
struct Client {
    client: reqwest::Client,
    /// The `Authorization` header; empty: none.
    authorization: String,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut request = reqwest::Request::try_from(request)?;
        if !self.authorization.is_empty() {
            let mut value = http::HeaderValue::from_str(&self.authorization)?;
            value.set_sensitive(true);
            request.headers_mut().insert("authorization", value);
        }
        let answer = self.client.execute(request).await;
        let answer = answer
            .and_then(reqwest::Response::error_for_status)
            .map_err(reqwest::Error::without_url)?;
        let mut response = Response::builder().status(answer.status());
        if let Some(headers) = response.headers_mut() {
            *headers = answer.headers().clone();
        }
        let body = answer.bytes().await.map_err(reqwest::Error::without_url)?;
        Ok(response.body(body)?)
    }
}

/// Sends what is recorded, in batches.
pub(super) struct Sender {
    pub(super) recording: Arc<Recording>,
    pub(super) exporter: SpanExporter,
    pub(super) system: Arc<System>,
}

impl Sender {
    /// Goes on until nobody records any more.
    pub(super) async fn send_all(&self, told: &mut mpsc::Receiver<Message>) {
        let mut is_away = false;
        while let Some(first) = told.recv().await {
            let mut batch = Vec::new();
            let mut waiting = self.take(first, &mut batch).await;
            let gathered = tokio::time::sleep(GATHER);
            tokio::pin!(gathered);
            while waiting.is_none() && batch.len() < BATCH {
                tokio::select! {
                    () = &mut gathered => break,
                    next = told.recv() => match next {
                        Some(next) => waiting = self.take(next, &mut batch).await,
                        None => break,
                    },
                }
            }
            is_away = self.send(batch, is_away).await;
            if let Some(waiting) = waiting {
                // Whoever waited may have gone.
                let _ = waiting.send(());
            }
        }
    }

    /// Adds to the batch; gives who waits until it is sent.
    async fn take(
        &self,
        message: Message,
        batch: &mut Vec<SpanData>,
    ) -> Option<oneshot::Sender<()>> {
        match message {
            Message::Span(span) => batch.push(*span),
            Message::Flush(waiting) => return Some(waiting),
            Message::Behind(position, span) => {
                // Of what can't be read now there is no trace: it is one span of a few.
                let request = self.system.request_at(position).await.ok().flatten();
                let traced = request.and_then(|request| self.recording.traced(&request));
                batch.extend(traced.map(|trace| span::of_span(trace, span)));
            }
        }
        None
    }

    /// Sends a batch; whether the collector is away, which is told once.
    async fn send(&self, batch: Vec<SpanData>, was_away: bool) -> bool {
        if batch.is_empty() {
            return was_away;
        }
        let many = batch.len() as u64;
        match self.exporter.export(batch).await {
            Ok(()) => {
                self.recording.sent.fetch_add(many, Ordering::Relaxed);
                if was_away {
                    tracing::info!("the collector takes traces again");
                }
                false
            }
            Err(error) => {
                self.recording.lost.fetch_add(many, Ordering::Relaxed);
                if !was_away {
                    tracing::warn!(%error, "the collector takes no traces: they are lost until it does");
                }
                true
            }
        }
    }
}
