//! An OpenTelemetry collector: the one that `tests/run` builds from `tests/otelcol`. It writes what it
//! takes into a file.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::ports::free_port;
use super::server::Setup;
use super::{process, until, until_now};

const SOON: Duration = Duration::from_secs(30);

/// A running collector.
pub(crate) struct Collector {
    folder: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

/// A span that it was sent.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    /// Empty where it has none.
    pub(crate) parent: String,
    pub(crate) name: String,
    /// From its beginning to its end, in nanoseconds since 1970.
    pub(crate) span: [u128; 2],
    pub(crate) attributes: Vec<(String, String)>,
}

impl Span {
    fn of(span: &Value) -> Self {
        let text = |key: &str| span[key].as_str().unwrap_or_default().to_owned();
        let attributes = span["attributes"].as_array().into_iter().flatten();
        let attributes = attributes.map(|one| {
            let value = one["value"].as_object().unwrap().values().next().unwrap();
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            (one["key"].as_str().unwrap().to_owned(), value)
        });
        Span {
            trace: text("traceId"),
            id: text("spanId"),
            parent: text("parentSpanId"),
            name: text("name"),
            span: ["startTimeUnixNano", "endTimeUnixNano"].map(|key| text(key).parse().unwrap()),
            attributes: attributes.collect(),
        }
    }

    /// What is said of it under this name.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Collector {
    /// On a free port.
    pub(crate) fn start() -> Self {
        let folder =
            tempfile::TempDir::with_prefix_in("otelcol-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        let port = free_port();
        let mut collector = Collector {
            folder,
            port,
            process: None,
        };
        let settings = format!(
            "receivers: {{otlp: {{protocols: {{http: {{endpoint: '127.0.0.1:{port}'}}}}}}}}\n\
             exporters: {{file: {{path: '{}', flush_interval: 50ms, append: true}}}}\n\
             service:\n  telemetry: {{metrics: {{level: none}}, logs: {{level: error}}}}\n  \
             pipelines: {{traces: {{receivers: [otlp], exporters: [file]}}}}\n",
            collector.file().display()
        );
        fs::write(collector.folder.path().join("otelcol.yaml"), settings).unwrap();
        collector.open();
        collector
    }

    /// Starts it again.
    pub(crate) fn open(&mut self) {
        let mut command = Command::new("setpriv");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../otelcol");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .arg("--config")
            .arg(self.folder.path().join("otelcol.yaml"))
            .stdin(Stdio::null());
        self.process = Some(process::spawn(command));
        until_now("the collector listens", SOON, || {
            TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
    }

    /// Ends it; what it was sent stays.
    pub(crate) fn close(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// A server that traces this part of its requests.
    pub(crate) fn setup(&self, ratio: &str) -> Setup {
        let endpoint = format!("http://127.0.0.1:{}/v1/traces", self.port);
        Setup::default()
            .env("COLLOQUY__TRACES__ENDPOINT", &endpoint)
            .env("COLLOQUY__TRACES__RATIO", ratio)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("traces.json")
    }

    /// Everything that it was sent, as text.
    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap_or_default()
    }

    /// All spans that it was sent.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let text = self.text();
        // The last line may not be whole yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut found = Vec::new();
        for line in whole.lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            for resource in line["resourceSpans"].as_array().into_iter().flatten() {
                for scope in resource["scopeSpans"].as_array().into_iter().flatten() {
                    found.extend(scope["spans"].as_array().unwrap().iter().map(Span::of));
                }
            }
        }
        found
    }

    /// Waits until it has a span of this name in a trace; gives all of that trace.
    pub(crate) async fn trace_with(&self, trace: &str, name: &str) -> Vec<Span> {
        until(&format!("{name} is in trace {trace}"), SOON, async || {
            let spans = self.spans().into_iter();
            let spans: Vec<Span> = spans.filter(|span| span.trace == trace).collect();
            let is_there = spans.iter().any(|span| span.name == name);
            is_there.then_some(spans)
        })
        .await
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.close();
    }
}
