//! The one registry of all metrics, and the text that Prometheus reads from it: OpenMetrics 1.0.

use std::fmt;
use std::sync::Arc;

use colloquy_actors::metrics::MetricsWriter;
use colloquy_actors::system::System;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use super::budget::Budget;
use super::connections::Connections;
use super::realtime::LiveConnections;
use super::request_metrics::RequestMetrics;
use super::saturation::Saturation;
use crate::shared_caches::SharedCaches;
use crate::tls::{ListenerTls, days_until};
use crate::traces::Traces;

/// Every metric's name begins with it.
const PREFIX: &str = "colloquy";

/// Hosts whose certificates have a series of their own.
const HOSTS_MAX: usize = 100;

/// What `/metrics` answers is declared as.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The registry: everything in it is read anew for each answer.
pub(crate) struct Metrics(Registry);

/// Everything of the edge that has metrics.
pub(super) struct Sources {
    pub(super) request_metrics: Arc<RequestMetrics>,
    pub(super) live_connections: Arc<LiveConnections>,
    pub(super) connections: Arc<Connections>,
    pub(super) tls: Option<Arc<ListenerTls>>,
    pub(super) bodies: Arc<Budget>,
    pub(super) answers: Arc<Budget>,
    pub(super) system: Arc<System>,
    pub(super) traces: Option<Arc<Traces>>,
    pub(super) shared_caches: Arc<SharedCaches>,
    /// The region that the node runs in; empty where none is named.
    pub(super) region: String,
}

impl Metrics {
    pub(super) fn new(sources: Sources) -> Self {
        let Sources {
            request_metrics,
            live_connections,
            connections,
            tls,
            bodies,
            answers,
            system,
            traces,
            shared_caches,
            region,
        } = sources;
        let budgets = (Arc::clone(&bodies), Arc::clone(&answers));
        let saturation = Saturation::new(Arc::clone(&connections), budgets, Arc::clone(&system));
        let mut metrics = Metrics(Registry::with_prefix(PREFIX));
        metrics.register(move |out| write_node_info(&region, out));
        metrics.register(move |out| saturation.write_metrics(out));
        metrics.register(move |out| request_metrics.write_metrics(out));
        metrics.register(move |out| live_connections.write_metrics(out));
        metrics.register(move |out| {
            let open = connections.open();
            out.gauge("connections", "Connections that are open.", open)
        });
        metrics.register(move |out| match &tls {
            Some(tls) => write_tls(out, tls),
            None => Ok(()),
        });
        metrics.register(move |out| {
            out.gauge(
                "bodies_in_flight_bytes",
                "Bytes of large bodies whose requests are under way.",
                bodies.held_bytes(),
            )
        });
        metrics.register(move |out| {
            out.gauge(
                "answers_in_flight_bytes",
                "Bytes of large answers on their way out.",
                answers.held_bytes(),
            )
        });
        metrics.register(move |out| match &traces {
            Some(traces) => traces.write_metrics(out),
            None => Ok(()),
        });
        metrics.register(move |out| shared_caches.write_metrics(out));
        metrics.register(move |out| system.write_metrics(out));
        metrics
    }

    fn register(
        &mut self,
        write: impl Fn(&mut MetricsWriter<'_>) -> fmt::Result + Send + Sync + 'static,
    ) {
        let source = Source(Box::new(write));
        self.0.register_collector(Box::new(source));
    }

    /// Reads all metrics.
    pub(super) fn text(&self) -> String {
        let mut text = String::with_capacity(16_384);
        // Writing to a String can't fail.
        let _ = text::encode(&mut text, &self.0);
        text
    }
}

/// Writes what is known of the listener's certificates: by the name that they are for, and without one
/// for the certificate of the files.
fn write_tls(out: &mut MetricsWriter<'_>, tls: &ListenerTls) -> fmt::Result {
    let status = tls.acme.as_ref().map(|acme| acme.status());
    let mut status = status.unwrap_or_default();
    let missing = status.iter().filter(|one| one.ends_unix_seconds.is_none());
    let missing = missing.count();
    let failing = status.iter().filter(|one| one.problem.is_some()).count();
    status.sort_by_key(|one| one.ends_unix_seconds);
    let ends = status.into_iter().filter_map(|one| {
        let days_left = days_until(one.ends_unix_seconds?);
        Some(([("host", one.name)], days_left))
    });
    let of_files = tls
        .days_left()
        .map(|days| ([("host", String::new())], days));
    out.gauges(
        "tls_certificate_days_left",
        "Whole days until the listener's certificate of a host ends, of those that end soonest.",
        of_files.into_iter().chain(ends).take(HOSTS_MAX),
    )?;
    if let Some(days_left) = tls.lists_days_left() {
        out.gauge(
            "tls_admin_client_crl_days_left",
            "Whole days until the first revocation list of operators' authorities ends.",
            days_left,
        )?;
    }
    out.gauge(
        "tls_certificates_missing",
        "Hosts whose certificate is to be ordered and is not there yet.",
        missing,
    )?;
    out.gauge(
        "tls_certificates_failing",
        "Hosts for which the latest order of a certificate has failed.",
        failing,
    )?;
    out.counters(
        "acme_orders_total",
        "Orders of certificates that have ended, by how.",
        tls.orders()
            .map(|(outcome, count)| ([("outcome", outcome)], count)),
    )
}

fn write_node_info(region: &str, out: &mut MetricsWriter<'_>) -> fmt::Result {
    out.gauges(
        "node_info",
        "Always 1; its label says in which region the node runs.",
        [([("region", region)], 1_u64)],
    )
}

/// What writes some of the metrics whenever they are read.
struct Source(Box<dyn Fn(&mut MetricsWriter<'_>) -> fmt::Result + Send + Sync>);

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl Collector for Source {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut MetricsWriter::new(encoder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_unit_and_a_counters_name_ends_in_its_samples_alone() {
        let mut metrics = Metrics(Registry::with_prefix(PREFIX));
        metrics.register(|out| out.counters("a_total", "What.", [([("k", "v")], 3_u64)]));
        metrics.register(|out| out.counter("b_seconds_total", "How long.", 0.5));
        metrics.register(|out| out.gauge("c", "Else.", 0_u64));
        assert_eq!(
            metrics.text(),
            "# HELP colloquy_a What.\n# TYPE colloquy_a counter\n\
             colloquy_a_total{k=\"v\"} 3\n\
             # HELP colloquy_b_seconds How long.\n# TYPE colloquy_b_seconds counter\n\
             # UNIT colloquy_b_seconds seconds\ncolloquy_b_seconds_total 0.5\n\
             # HELP colloquy_c Else.\n# TYPE colloquy_c gauge\ncolloquy_c 0\n# EOF\n"
        );
    }
}
